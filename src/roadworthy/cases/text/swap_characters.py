"""Swapped characters: what fast fingers do to a word (Wang et al. 2022, table 1, "Swap").

A word is a run of letters and digits. With a `probability` of its own it has two neighbouring inner characters swapped; its
first and last stay, so words of up to three characters do too. All other characters stay exactly where they are.

>>> import numpy as np
>>> swap_characters("a cheap  hotel, please", np.random.default_rng(1), probability=1.0)
'a cehap  htoel, plesae'
"""

from __future__ import annotations

import re

import numpy as np

from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.15, 0.45, 0.75)]}

_WORD = re.compile(r"[^\W_]+")


@transform("swap_characters", of=TEXT, tables=TABLES)
def swap_characters(text: str, rng: np.random.Generator, *, probability: float) -> str:
    """Two neighbouring inner characters of a word are swapped."""
    if problem := TEXT.problem(text):
        raise ValueError(f"the text {problem}")
    if not 0 <= probability <= 1:
        raise ValueError(f"swap_characters: probability is {probability}; 0 to 1 was expected")
    return _WORD.sub(
        lambda word: _swapped(word[0], rng) if rng.random() < probability else word[0], text
    )


def _swapped(word: str, rng: np.random.Generator) -> str:
    """The word with one inner pair of neighbours swapped, a pair that differs; itself if it has none."""
    pairs = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
    if not pairs:
        return word
    i = pairs[int(rng.integers(len(pairs)))]
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
