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
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""Each row of keys is shifted to the right by half a key."""
ALIKE = ("0o", "1l", "1i", "il", "2z", "5s", "6b", "8b", "9g", "gq", "uv", "vy", "ce", "nh")


def _similar() -> dict[str, str]:
    keys = {key: (row, at) for row, line in enumerate(ROWS) for at, key in enumerate(line)}
    beside = ((0, -1), (0, 1), (1, -1), (1, 0), (-1, 0), (-1, 1))
    found = {
        key: {k for k, (r, a) in keys.items() if (r - row, a - at) in beside}
        for key, (row, at) in keys.items()
    }
    for one, other in (*ALIKE, *zip("123456789", "234567890", strict=True)):
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    small = {key: "".join(sorted(others)) for key, others in found.items()}
    return small | {key.upper(): others.upper() for key, others in small.items() if key.isalpha()}


SIMILAR = _similar()
"""By letter or digit, those that it may become."""


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
