"""Changed characters: a neighbouring key, or a letter that looks alike (Wang et al. 2022, table 1, "Change char").

A word, a run of letters and digits, is chosen with `probability`. Of its inner characters that have a similar one, each is
replaced with a probability of `share`, but at least one; the first and last stay. Similar are the neighbours on an English
keyboard, and what scanners take for each other (0 and o, 1 and l, 5 and s); capitals stay capitals. Letters of other
alphabets and with accents stay.

>>> import numpy as np
>>> change_characters("a cheap  hotel, please", np.random.default_rng(1), probability=1.0)
'a chesp  hotwl, pleaze'
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.text.words import drawn_places, each_word
from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.15, 0.45, 0.75)]}
NEAR = (
    "qagw waeqs ecdrsw rdeft tfgry yghtuv uhijvy i1jklou o0iklp plo aqswz s5adewxz dcefrsx fcdgrtv "
    "g9bfhqtvy hbgjnuy jhikmnu kijlmo l1ikop z2asx xcdsz cdefvx vbcfguy b68ghnv nbhjm mjkn "
    "09o 12il 213z 324 435 546s 657b 768 879b 908g"
)
"""A letter or digit, and those that it may become."""
SIMILAR = {c(near[0]): c(near[1:]) for c in (str.upper, str.lower) for near in NEAR.split()}


@transform("change_characters", of=TEXT, tables=TABLES, identity={"probability": 0.0})
def change_characters(
    text: str, rng: np.random.Generator, *, probability: float, share: float = 0.1
) -> str:
    """Inner characters of a word are replaced by similar ones."""

    def changed(word: list[str]) -> str:
        places = [i for i in range(1, len(word) - 1) if word[i] in SIMILAR]
        made = list(word)
        for i in drawn_places(places, rng, share=share):
            others = SIMILAR[word[i]]
            made[i] = others[int(rng.integers(len(others)))]
        return "".join(made)

    return each_word(text, rng, probability, changed, name="change_characters")
