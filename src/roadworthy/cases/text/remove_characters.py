"""Removed characters: keys that were not pressed hard enough (Wang et al. 2022, table 1, "Remove char").

A word, a run of letters and digits, is chosen with `probability`. Of its inner characters each is left out with a
probability of `share`, but at least one; the first and last stay, so words of up to two characters do too.

>>> import numpy as np
>>> remove_characters("a cheap  hotel, please", np.random.default_rng(1), probability=1.0)
'a chep  hotl, plase'
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.text.words import drawn_places, each_word, unless_joined
from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.15, 0.45, 0.75)]}


@transform("remove_characters", of=TEXT, tables=TABLES, identity={"probability": 0.0})
def remove_characters(
    text: str, rng: np.random.Generator, *, probability: float, share: float = 0.1
) -> str:
    """Inner characters of a word are left out."""

    def shortened(word: list[str]) -> str:
        gone = drawn_places(range(1, len(word) - 1), rng, share=share)
        return unless_joined([c for i, c in enumerate(word) if i not in gone], word)

    return each_word(text, rng, probability, shortened, name="remove_characters")
