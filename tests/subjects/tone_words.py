"""A recogniser of words that are tones: it counts zero crossings, a tenth of a second a word."""

from __future__ import annotations

import numpy as np

WORDS = {"stop": 300.0, "left": 600.0, "right": 1200.0, "go": 2400.0}
SECONDS = 0.1


def transcribe(audio) -> str:
    """The nearest word of each tenth of a second."""
    size = int(audio.rate * SECONDS)
    said = []
    for start in range(0, len(audio.wave) - size + 1, size):
        part = audio.wave[start : start + size]
        frequency = np.count_nonzero(np.diff(np.signbit(part))) / 2 / SECONDS
        said.append(min(WORDS, key=lambda word: abs(WORDS[word] - frequency)))
    return " ".join(said)


HEARD = 0.25
"""The share of a tenth of a second that one hearing listens to."""


def transcribe_wavering(audio, rng) -> str:
    """The same from a quarter of each tenth of a second, wherever it begins."""
    size = int(audio.rate * SECONDS)
    length = int(size * HEARD)
    said = []
    for start in range(0, len(audio.wave) - size + 1, size):
        begin = start + int(rng.integers(size - length + 1))
        part = audio.wave[begin : begin + length]
        frequency = np.count_nonzero(np.diff(np.signbit(part))) / 2 / (length / audio.rate)
        said.append(min(WORDS, key=lambda word: abs(WORDS[word] - frequency)))
    return " ".join(said)
