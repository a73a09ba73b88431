"""Makes speech with exact transcripts: sentences of a small grammar, spoken by several voices.

    python studies/systems/speech/make.py --cases 200               # what an assessment needs
    python studies/systems/speech/make.py --cases 200 --train 6000  # and what train.py needs

Needs the Debian package flite. Writes 16 kHz mono recordings and tables (audio, transcript, voice)
to studies/systems/cache/speech/{test,calibration,reference,train}, and the features of all
training clips to features.npz. A sentence alone decides its role, its voice and how fast it is
said, so that other numbers of clips change none of them; reference is the beginning of train.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from shutil import which

import numpy as np
from scipy.io import wavfile

CACHE = Path(__file__).resolve().parent.parent / "cache" / "speech"
RATE = 16000
SEED = 21
REFERENCE = 300
VOICES = ("kal16", "awb", "rms", "slt")
STRETCH = (0.85, 1.2)
"""How much longer than the voice's own a clip is: people do not all speak as fast."""
SNR = (15.0, 40.0)
"""Decibels of speech over the noise of the recording, which is pink: no studio is silent."""
WORDS = {
    "V": "turn move show throw open close find mind stop start bring ring send lend hold fold",
    "D": "the this that these those every another",
    "A": "red green small tall large old cold gold new blue left last right bright heavy quiet",
    "N": "door floor window lamp ramp table cable car card cart robot picture pitcher box fox "
    "letter ladder garden",
    "P": "near under over behind beside above with within",
    "T": "now today tomorrow again slowly",
    "1": "zero one two three four five six seven eight nine",
}
SHAPES = ("V D N", "V D A N", "V D A N P D N", "V D N T", "V D N P D A N T", "V N 1 1", "1 1 1 1")
"""Sentences, each letter a word of its kind: many have a neighbour that sounds nearly the same."""


def sentence(rng: np.random.Generator) -> str:
    """One sentence of the grammar."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))].split()
    return " ".join(str(rng.choice(WORDS[kind].split())) for kind in shape)


def role(text: str) -> str:
    """The only role in which a sentence occurs: a fifth each for test and calibration."""
    return {0: "test", 1: "calibration"}.get(zlib.crc32(text.encode()) % 5, "train")


def sentences(of: str, n: int) -> list[str]:
    """The first so many different sentences of a role."""
    rng, found = np.random.default_rng(SEED), dict[str, None]()
    while len(found) < n:
        text = sentence(rng)
        if role(text) == of:
            found[text] = None
    return list(found)


def manner(text: str) -> tuple[np.random.Generator, str]:
    """The generator of a sentence, and the voice that says it."""
    rng = np.random.default_rng([SEED, zlib.crc32(text.encode())])
    return rng, str(rng.choice(VOICES))


def recorded(wave: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The wave with pink noise, int16."""
    spectrum = np.fft.rfft(rng.standard_normal(len(wave)))
    noise = np.fft.irfft(spectrum / np.sqrt(1 + np.arange(len(spectrum))), len(wave))
    speech = wave.astype(np.float64)
    noise *= speech.std() / noise.std() * 10 ** (-rng.uniform(*SNR) / 20)
    return np.clip(speech + noise, -32768, 32767).astype(np.int16)


def spoken(text: str) -> np.ndarray:
    """The text as a recording, int16."""
    if which("flite") is None:
        raise SystemExit("flite is not installed: apt-get install flite")
    rng, voice = manner(text)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/clip.wav"
        slower = ["--setf", f"duration_stretch={rng.uniform(*STRETCH):.3f}"]
        command = ["flite", "-voice", voice, *slower, "-t", text, "-o", file]
        subprocess.run(command, capture_output=True, check=True)
        rate, wave = wavfile.read(file)
    if rate != RATE or not wave.any():
        raise RuntimeError(f"the voice {voice} gave no speech of {RATE} Hz for {text!r}")
    return recorded(wave, rng)


def write_clip(folder: Path, row: tuple[str, str, str]) -> None:
    """One recording of the table."""
    wavfile.write(folder / row[0], RATE, spoken(row[1]))


def write(folder: Path, texts: list[str]) -> None:
    """A table of recordings, and the recordings; those of an earlier call are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(f"{i:05d}.wav", text, manner(text)[1]) for i, text in enumerate(texts)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(write_clip, folder), rows))
    with (folder / "clips.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("audio", "transcript", "voice"), *rows])
    print(f"{folder.name}: {len(rows)} recordings")


def write_features(folder: Path, file: Path) -> None:
    """The features of all clips of a folder in one compressed file."""
    from models import features

    with (folder / "clips.csv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    found = [features(wavfile.read(folder / row["audio"])[1] / 32768) for row in rows]
    texts, lengths = [row["transcript"] for row in rows], [len(clip) for clip in found]
    np.savez_compressed(file, features=np.concatenate(found), lengths=lengths, texts=texts)


def main() -> None:
    """The recordings of all roles."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200, help="clips of test and of calibration")
    parser.add_argument("--train", type=int, default=0, help="clips of train, and features.npz")
    asked = parser.parse_args()
    for name in ("test", "calibration"):
        write(CACHE / name, sentences(name, asked.cases))
    write(CACHE / "reference", sentences("train", REFERENCE))
    if asked.train:
        write(CACHE / "train", sentences("train", asked.train))
        write_features(CACHE / "train", CACHE / "features.npz")


if __name__ == "__main__":
    main()
