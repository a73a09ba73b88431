"""Digits as words: "10" becomes "ten" (Wang et al. 2022, table 1, "Digits2words").

A number is a run of the digits 0 to 9 with no letter beside it, and is changed with `probability`: up to six digits without
a leading zero are read as a number, others digit by digit, as a telephone number is. So 10:30 becomes ten:thirty, while
1st, B12 and the digits of other scripts stay. A text without such numbers comes back as it is.

>>> import numpy as np
>>> digits_to_words("at 10:30 for 2, phone 01223", np.random.default_rng(0), probability=1.0)
'at ten:thirty for two, phone zero one two two three'
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.text.words import each_word
from roadworthy.cases.transform import transform
from roadworthy.data.values import TEXT

TABLES = {"wang": [{"probability": p} for p in (0.2, 0.6, 1.0)]}
SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


@transform("digits_to_words", of=TEXT, tables=TABLES, identity={"probability": 0.0})
def digits_to_words(text: str, rng: np.random.Generator, *, probability: float) -> str:
    """Numbers are written as English words."""

    def written(word: list[str]) -> str:
        number = "".join(word)
        return spoken(number) if number.isascii() and number.isdigit() else number

    return each_word(text, rng, probability, written, name="digits_to_words")


def spoken(digits: str) -> str:
    """A run of digits in English words.

    >>> spoken("2024"), spoken("007"), spoken("100000")
    ('two thousand and twenty-four', 'zero zero seven', 'one hundred thousand')
    """
    if len(digits) > 6 or (digits[0] == "0" and len(digits) > 1):
        return " ".join(SMALL[int(d)] for d in digits)
    return _cardinal(int(digits))


def _cardinal(number: int) -> str:
    if number < 20:
        return SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")
    unit, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    many, rest = divmod(number, unit)
    joint = " and " if rest < 100 else " "
    return f"{_cardinal(many)} {name}" + (f"{joint}{_cardinal(rest)}" if rest else "")
