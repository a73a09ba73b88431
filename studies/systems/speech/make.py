"""Makes speech with exact transcripts: sentences of a small grammar, spoken by several voices.

    python studies/systems/speech/make.py --train 2000 --test 200

Needs the Debian packages festival, festvox-us-slt-hts and flite. Writes 16 kHz mono recordings and
tables (audio, transcript, voice) to studies/systems/cache/speech/{train,test}. Seeded; no sentence
is in both.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import soxr
from scipy.io import wavfile

CACHE = Path(__file__).resolve().parent.parent / "cache" / "speech"
RATE = 16000
SEED = 21
FLITE = ("kal16", "awb", "rms", "slt")
FESTIVAL = ("cmu_us_slt_arctic_hts",)
"""Statistical voice of festival; slower by far than those of flite."""
DIGITS = "zero one two three four five six seven eight nine"
WORDS = {
    "V": "turn move show open close find stop start bring send",
    "D": "the this that every another",
    "A": "red green small large old new left right heavy quiet",
    "N": "door window lamp table car robot picture box letter garden",
    "P": "near under behind above with",
    "T": "now today tomorrow again slowly",
    "1": DIGITS,
}
SHAPES = ("V D N", "V D A N", "V D A N P D N", "V D N T", "V D N P D A N T", "V N 1 1", "1 1 1 1")
"""Sentences, each letter a word of its kind."""


def sentence(rng: np.random.Generator) -> str:
    """One sentence of the grammar."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))].split()
    return " ".join(str(rng.choice(WORDS[kind].split())) for kind in shape)


def spoken(text: str, voice: str) -> np.ndarray:
    """The text as a recording, int16."""
    with tempfile.TemporaryDirectory() as folder:
        # To a file: into a pipe, text2wave first writes the header of an empty recording.
        file = f"{folder}/clip.wav"
        command = ["text2wave", "-eval", f"(voice_{voice})", "-o", file, "-"]
        if voice in FLITE:
            command = ["flite", "-voice", voice, "-t", text, "-o", file]
        subprocess.run(command, input=text.encode(), capture_output=True, check=True)
        rate, wave = wavfile.read(file)
    if not wave.any():
        raise RuntimeError(f"the voice {voice} said nothing for {text!r}; is its package whole?")
    return wave if rate == RATE else np.asarray(soxr.resample(wave, rate, RATE), dtype=np.int16)


def write_clip(folder: Path, row: tuple[str, str, str]) -> None:
    """One recording of the table."""
    name, text, voice = row
    if not (folder / name).exists():
        wavfile.write(folder / name, RATE, spoken(text, voice))


def main() -> None:
    """All recordings; those that are there already stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=200)
    asked = parser.parse_args()
    rng = np.random.default_rng(SEED)
    sentences: dict[str, None] = {}
    while len(sentences) < asked.test + asked.train:
        sentences[sentence(rng)] = None
    texts = iter(sentences)
    voices = FLITE + FESTIVAL
    for role, n in (("test", asked.test), ("train", asked.train)):
        folder = CACHE / role
        folder.mkdir(parents=True, exist_ok=True)
        rows = [(f"{i:05d}.wav", next(texts), voices[i % len(voices)]) for i in range(n)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(partial(write_clip, folder), rows))
        with (folder / "clips.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("audio", "transcript", "voice"), *rows])
        print(f"{folder}: {n} recordings")


if __name__ == "__main__":
    main()
