"""Misspelt words: the mistakes that people make often (Wang et al. 2022, table 1, "Misspelling").

A word that stands in the list is replaced by one of its common misspellings with `probability`; small letters, a capital
first letter and capitals are kept. The list, `misspellings.txt`, was written for this package and is under its licence.

>>> import numpy as np
>>> misspell("Definitely a separate restaurant.", np.random.default_rng(0), probability=1.0)
'Definitly a seperate restaraunt.'
"""

from __future__ import annotations

import functools
from importlib import resources

import numpy as np

from roadworthy.cases.text.words import each_word
from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.2, 0.6, 1.0)]}


@functools.cache
def misspellings() -> dict[str, list[str]]:
    """By word, in small letters, how it is misspelt."""
    text = (resources.files(__package__) / "misspellings.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    entries = [entry.split() for line in lines for entry in line.split(";") if entry.strip()]
    return {word: wrong for word, *wrong in entries}


@transform("misspell", of=TEXT, tables=TABLES, identity={"probability": 0.0})
def misspell(text: str, rng: np.random.Generator, *, probability: float) -> str:
    """Words are replaced by common English misspellings of them."""
    known = misspellings()

    def misspelt(characters: list[str]) -> str:
        word = "".join(characters)
        wrong = known.get(word.lower())
        cases = [c for c in (str.lower, str.capitalize, str.upper) if c(word) == word]
        if not wrong or not cases:
            return word
        return cases[0](wrong[int(rng.integers(len(wrong)))])

    return each_word(text, rng, probability, misspelt, name="misspell")
