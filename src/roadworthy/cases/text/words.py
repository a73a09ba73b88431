"""Words and characters as a reader sees them: what every transform of text shares.

A character is a grapheme cluster: a letter with its marks, a Hangul syllable made of jamo, a flag, a family of emoji. It is
never split, and changing a word never makes two of them one. A word is a run of letters and digits; everything between
words stays as it is.

>>> clusters("cafe\\u0301!") == ["c", "a", "f", "e\\u0301", "!"]
True
>>> import numpy as np
>>> each_word("yes, he did", np.random.default_rng(0), 1.0, lambda word: "".join(word[::-1]), name="mirror")
'sey, eh did'
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from roadworthy.data.values import TEXT

_JOINER = "\u200d"
_MORE_MARKS = frozenset("\u200d\u200c\uff9e\uff9f\u0e33\u0eb3") | {
    chr(c) for c in (*range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080))
}
"""Joined to what precedes them without being marks: joiners, half-width voicing, Thai and Lao am,
skin tones, tags."""
_JAMO = {"L": "LVSW", "V": "VT", "S": "VT", "T": "T", "W": "T"}
"""What a leading consonant, a vowel, an open syllable, a final consonant, a closed one join with."""


def clusters(text: str) -> list[str]:
    """The characters of a text as a reader counts them (Unicode Annex 29, but for its prefixes)."""
    if text.isascii() and "\r" not in text:
        return list(text)
    found: list[str] = []
    for character in text:
        if found and _joins(found[-1], character):
            found[-1] += character
        else:
            found.append(character)
    return found


def _joins(cluster: str, character: str) -> bool:
    """Whether a character belongs to the cluster before it."""
    last = cluster[-1]
    if last in "\r\n" or unicodedata.category(last) == "Cc":
        return last == "\r" and character == "\n"
    category = unicodedata.category(character)
    if category[0] == "M" or character in _MORE_MARKS:
        return True
    if "\U0001f1e6" <= character <= "\U0001f1ff":  # half of a flag
        return len(cluster) == 1 and "\U0001f1e6" <= last <= "\U0001f1ff"
    if last == _JOINER:
        return category in ("So", "Sm", "Po", "Pd", "Cn")  # pictures, with those to come
    part = _jamo(character)
    return part != "" and part in _JAMO.get(_jamo(last), "")


def _jamo(character: str) -> str:
    """The part of a Hangul syllable that it is; empty for other scripts."""
    if not "\u1100" <= character <= "\ud7fb":
        return ""
    if "\uac00" <= character <= "\ud7a3":
        return "W" if (ord(character) - 0xAC00) % 28 else "S"
    if character <= "\u115f" or "\ua960" <= character <= "\ua97c":
        return "L"
    if "\u1160" <= character <= "\u11a7" or "\ud7b0" <= character <= "\ud7c6":
        return "V"
    return "T" if character <= "\u11ff" or character >= "\ud7cb" else ""


def each_word(
    text: str,
    rng: np.random.Generator,
    probability: float,
    change: Callable[[list[str]], str],
    *,
    name: str,
) -> str:
    """The text, each word changed with a probability of its own; `change` is given its characters."""
    if problem := TEXT.problem(text):
        raise ValueError(f"the text {problem}")
    if not 0 <= probability <= 1:
        raise ValueError(f"{name}: probability is {probability}; 0 to 1 was expected")
    parts = []
    for word, run in itertools.groupby(clusters(text), key=lambda c: c[0].isalnum()):
        characters = list(run)
        chosen = word and rng.random() < probability
        parts.append(change(characters) if chosen else "".join(characters))
    return "".join(parts)


def drawn_places(places: Sequence[int], rng: np.random.Generator, *, share: float) -> list[int]:
    """Of the places of a word that may change, each with a probability of `share`, but at least one."""
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; 0 to 1 was expected")
    chosen = [place for place in places if rng.random() < share]
    return chosen or [places[int(rng.integers(len(places)))] for _ in places[:1]]


def unless_joined(characters: list[str], before: list[str]) -> str:
    """The changed word; the one before if two of its characters would now be read as one."""
    made = "".join(characters)
    return made if clusters(made) == characters else "".join(before)
