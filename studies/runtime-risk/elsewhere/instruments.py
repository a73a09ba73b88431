"""Sound: which of seven instruments plays? Trained on recorded notes, tried on other notes of the same instruments.

    .venv-peers/risk/bin/python studies/runtime-risk/elsewhere/instruments.py

Written down before anyone had seen a result, and not changed since. A row is a snippet of 4,096 samples (a tenth of a second)
that is not silent; snippets do not overlap, but those of one note resemble each other more than rows of other sets do. A third of
the notes trains a perceptron on the logarithms of the energy in 32 bands; the other notes calibrate and stream. Kinds:

- noisy: white noise, 5 to 15 decibels below the sound;
- telephone: 300 to 3,400 Hz are all there is;
- overdriven: amplified until the peaks are cut off at a fifth to a half of their height;
- hall: an echo that decays within the snippet, as loud as the sound;
- slowed: played at 70 to 85% of the speed, which lowers the pitch;
- foreign: half of the snippets are of a harp, which was never learned and about which no answer is right.

Detectors: the softmax, the energy, the tenth neighbour and the distance of Mahalanobis in the hidden layer.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from packages import members
from perceptron import Perceptron
from scores import CLEAN, handed_out, write

LEARNED = ("cello", "contrabass", "flute", "guitar-acoustic", "saxophone", "trumpet", "violin")
STRANGE, NO_CLASS = "harp", -1
SEED, CLEAN_ROWS, KIND_ROWS = 41, 1000, 650
RATE, LENGTH, SILENT = 44100, 4096, 0.05
BANDS, LOWEST, HIGHEST = 32, 60.0, 12000.0
DETECTORS = ("max_softmax", "energy", "knn", "mahalanobis")


class Snippets(NamedTuple):
    """Waves, and what plays: a place in LEARNED."""

    waves: np.ndarray
    truth: np.ndarray

    def at(self, rows: np.ndarray) -> Snippets:
        """Some of them."""
        return Snippets(self.waves[rows], self.truth[rows])


def snippets(instrument: str, place: int) -> tuple[Snippets, Snippets]:
    """Of every third note, to train; and of the others."""
    from scipy.io import wavfile

    parts: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for i, content in enumerate(members(f"tonejs-instrument-{instrument}-wav", "*.wav").values()):
        rate, wave = wavfile.read(io.BytesIO(content))
        if rate != RATE or wave.ndim != 1:
            raise ValueError(
                f"{instrument}: expected one channel at {RATE} Hz, got {wave.ndim} at {rate}"
            )
        cut = wave[: len(wave) // LENGTH * LENGTH].reshape(-1, LENGTH) / 32768.0
        loud = np.sqrt((cut**2).mean(axis=1))
        parts[0 if i % 3 == 0 else 1].append(cut[loud > SILENT * loud.max()])
    train, rest = (np.concatenate(part) for part in parts)
    return Snippets(train, np.full(len(train), place)), Snippets(rest, np.full(len(rest), place))


def joined(parts: list[Snippets]) -> Snippets:
    """One after the other."""
    return Snippets(
        np.concatenate([p.waves for p in parts]), np.concatenate([p.truth for p in parts])
    )


def bands(waves: np.ndarray) -> np.ndarray:
    """The logarithm of the share of the energy in each band; the bands are even on a logarithmic scale of frequency."""
    power = np.abs(np.fft.rfft(waves * np.hanning(LENGTH), axis=1)) ** 2
    edges = np.geomspace(LOWEST, HIGHEST, BANDS + 1)
    place = np.searchsorted(edges, np.fft.rfftfreq(LENGTH, 1 / RATE)) - 1
    energy = np.stack([power[:, place == b].sum(axis=1) for b in range(BANDS)], axis=1)
    return np.log10(energy / energy.sum(axis=1, keepdims=True) + 1e-6)


def noisy(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """White noise, 5 to 15 decibels below."""
    level = np.sqrt((wave**2).mean()) * 10 ** (-rng.uniform(5, 15) / 20)
    return wave + level * rng.standard_normal(len(wave))


def telephone(wave: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """300 to 3,400 Hz."""
    spectrum, at = np.fft.rfft(wave), np.fft.rfftfreq(len(wave), 1 / RATE)
    return np.fft.irfft(np.where((at >= 300) & (at <= 3400), spectrum, 0.02 * spectrum), len(wave))


def overdriven(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Peaks are cut off."""
    height = np.abs(wave).max() * rng.uniform(0.2, 0.5)
    return np.clip(wave, -height, height)


def hall(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A decaying echo."""
    response = rng.standard_normal(len(wave)) * np.exp(
        -np.linspace(0, rng.uniform(4, 8), len(wave))
    )
    echo = np.fft.irfft(np.fft.rfft(wave, 2 * len(wave)) * np.fft.rfft(response, 2 * len(wave)))[
        : len(wave)
    ]
    return wave + echo * np.sqrt((wave**2).mean() / (echo**2).mean())


def slowed(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The beginning, stretched to the whole length."""
    times = np.arange(len(wave)) * rng.uniform(0.70, 0.85)
    return np.interp(times, np.arange(len(wave)), wave)


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    f.__name__: f for f in (noisy, telephone, overdriven, hall, slowed)
}


def main() -> None:
    """The command."""
    rng = np.random.default_rng(SEED)
    pairs = [snippets(name, place) for place, name in enumerate(LEARNED)]
    train, home = joined([a for a, _ in pairs]), joined([b for _, b in pairs])
    half = KIND_ROWS // 2
    sizes = {**dict.fromkeys(CLEAN, CLEAN_ROWS), **dict.fromkeys(KINDS, KIND_ROWS), "foreign": half}
    rows = handed_out(np.arange(len(home.truth)), sizes, rng)
    subject = Perceptron.fit(bands(train.waves), train.truth, units=(48,), rounds=60)
    given = {name: home.at(rows[name]) for name in CLEAN}
    for name, shift in KINDS.items():
        clean = home.at(rows[name])
        given[name] = Snippets(np.array([shift(wave, rng) for wave in clean.waves]), clean.truth)
    strange = joined(list(snippets(STRANGE, NO_CLASS)))
    some = handed_out(np.arange(len(strange.truth)), {STRANGE: half}, rng)[STRANGE]
    given["foreign"] = joined([home.at(rows["foreign"]), strange.at(some)])
    write(
        "instruments",
        [subject.fold(name, bands(s.waves), s.truth, DETECTORS) for name, s in given.items()],
    )


if __name__ == "__main__":
    main()
