"""Background noise at a signal-to-noise ratio: white (Wang et al. 2022, table 1), or from a folder of recordings.

`snr_db` is 10 log10 of the recording's mean power over the noise's, all channels together, before what leaves [-1, 1] is
cut off. The noise that was drawn is scaled to it, so a short clip gets its ratio too. White noise is drawn for each channel.
From a folder (`noise`, .wav) one file is drawn for the case, its channels averaged, and repeated from a start that is drawn
for each channel.

>>> import numpy as np
>>> tone = Audio(np.sin(np.arange(8000, dtype=np.float32) / 5) / 4, 16000)
>>> noise = background_noise(tone, np.random.default_rng(0), snr_db=10.0).wave - tone.wave
>>> round(float(10 * np.log10(np.mean(tone.wave**2) / np.mean(noise**2))), 2)
10.0
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from roadworthy.cases.audio.waves import at_rate, on_waves, power
from roadworthy.cases.transform import transform
from roadworthy.data.loaders.audio import read_wav
from roadworthy.data.loaders.files import located
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"snr_db": s} for s in (10.0, 5.0, 2.0)]}


def check_noise(*, snr_db: float, noise: Path | None = None) -> list[str]:
    """Refuse a folder without noise before any case is made; the silent files in it are named."""
    if noise is None:
        return []
    place = located(noise, base=Path(), what="noise", folder=True)
    silent = ", ".join(_noises(place, place.stat().st_mtime_ns)[1])
    return [f"noise: silent files in {noise.name} are left out: {silent}"] if silent else []


@transform("background_noise", of=AUDIO, tables=TABLES)
@on_waves
def background_noise(
    audio: Audio, rng: np.random.Generator, *, snr_db: float, noise: Path | None = None
) -> np.ndarray:
    """White noise, or noise from a folder, is added at a signal-to-noise ratio."""
    if not math.isfinite(snr_db):
        raise ValueError(
            f"background_noise: snr_db is {snr_db}; a finite number of decibels was expected"
        )
    signal = power(audio.wave)
    if signal == 0:
        raise ValueError(
            f"the recording is silent, so no noise is {snr_db:g} dB below it; leave silent recordings out"
        )
    if noise is None:
        added = rng.standard_normal(audio.wave.shape, dtype=np.float32)
    else:
        added = _recorded(noise, audio, rng)
    added *= np.float32(math.sqrt(signal / (power(added) * 10 ** (snr_db / 10))))
    return np.add(added, audio.wave, out=added if audio.wave.dtype == np.float32 else None)


background_noise.prepare = check_noise  # type: ignore[attr-defined]


def _recorded(folder: Path, audio: Audio, rng: np.random.Generator) -> np.ndarray:
    """Noise from one file of the folder, in the form of the recording."""
    files = _noises(folder, folder.stat().st_mtime_ns)[0]
    file = files[int(rng.integers(len(files)))]
    sound = _read(file, file.stat().st_mtime_ns, audio.rate)
    samples, parts = len(audio.wave), []
    for _ in range(audio.wave.shape[1]):
        part = _repeated(sound, int(rng.integers(len(sound))), samples)
        if not part.any():  # a pause of the noise was drawn: its loudest part instead
            part = _repeated(sound, int(np.argmax(np.abs(sound))), samples)
        parts.append(part)
    return parts[0][:, None] if len(parts) == 1 else np.stack(parts, axis=1)


def _repeated(sound: np.ndarray, start: int, samples: int) -> np.ndarray:
    return np.resize(np.concatenate([sound[start:], sound[:start]]), samples)


@functools.lru_cache(maxsize=8)
def _noises(folder: Path, changed: int) -> tuple[list[Path], list[str]]:
    """The files of a folder that hold noise, and the names of those that are silent."""
    found = sorted(f for f in folder.iterdir() if f.suffix.lower() == ".wav")
    loud = {f: bool(read_wav(f).wave.any()) for f in found}
    if not any(loud.values()):
        what = "silent .wav files only" if found else "no .wav files"
        raise ValueError(f"noise: {folder} holds {what}; name a folder with recordings of noise")
    return [f for f in found if loud[f]], [f.name for f in found if not loud[f]]


@functools.lru_cache(maxsize=64)
def _read(file: Path, changed: int, rate: int) -> np.ndarray:
    noise = read_wav(file)
    return at_rate(noise.wave, noise.rate, rate)
