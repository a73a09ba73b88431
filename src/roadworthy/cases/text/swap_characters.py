"""Swapped characters: what fast fingers do to a word (Wang et al. 2022, table 1, "Swap").

A word is a run of letters and digits. With a `probability` of its own it has two neighbouring inner characters swapped; its
first and last stay, so words of up to three characters do too. All other characters stay exactly where they are.

>>> import numpy as np
>>> swap_characters("a cheap  hotel, please", np.random.default_rng(1), probability=1.0)
'a cehap  htoel, plesae'
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.text.words import each_word, unless_joined
from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.15, 0.45, 0.75)]}


@transform("swap_characters", of=TEXT, tables=TABLES, identity={"probability": 0.0})
def swap_characters(text: str, rng: np.random.Generator, *, probability: float) -> str:
    """Two neighbouring inner characters of a word are swapped."""

    def swapped(word: list[str]) -> str:
        pairs = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
        if not pairs:
            return "".join(word)
        i = pairs[int(rng.integers(len(pairs)))]
        return unless_joined([*word[:i], word[i + 1], word[i], *word[i + 2 :]], word)

    return each_word(text, rng, probability, swapped, name="swap_characters")
