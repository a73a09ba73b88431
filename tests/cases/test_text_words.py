"""Characters as a reader sees them, against the grapheme clusters of the package regex."""

from __future__ import annotations

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.cases.text.words import clusters, each_word

PREFIX = regex.compile(r"\p{GCB=Prepend}")
JAMO = "\u1100\u1113\ua960\u1161\u11a8\u11ff\ud7b0\ud7cb\uac00\uac01"
JOINED = "e\u0301\u0308\u200d\ufe0f\U0001f469\U0001f3fd\U0001f1e9\U0001f1ea\u0915\u094d\u093f\u0e33\r\n a1"
# regex knows characters that are newer than this Python
known = st.characters(exclude_categories=("Cn", "Cs"))
texts = st.text(alphabet=known, max_size=30) | st.text(alphabet=JAMO + JOINED, max_size=30)


def ends(parts: list[str]) -> set[int]:
    return set(np.cumsum([len(part) for part in parts], dtype=int).tolist())


@given(text=texts.filter(lambda t: not PREFIX.search(t)))
@settings(max_examples=500, deadline=None)
def test_no_cluster_is_ever_split(text):
    ours, theirs = clusters(text), regex.findall(r"\X", text)
    assert "".join(ours) == text
    assert ends(ours) <= ends(theirs)


@given(text=st.text(alphabet=JAMO + "e\u0301\U0001f1e9\U0001f1ea\r\n a1\u4e2d\u0436", max_size=30))
@settings(max_examples=300, deadline=None)
def test_letters_marks_syllables_and_flags_are_split_exactly(text):
    assert clusters(text) == regex.findall(r"\X", text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("cafe\u0301", 4),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", 2),  # two syllables of three jamo each
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 1),  # a family
        ("\U0001f44d\U0001f3fd", 1),  # a thumb with a skin tone
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 2),  # two flags
        ("1\ufe0f\u20e3", 1),  # a key
        ("a\r\nb", 3),
    ],
)
def test_what_a_reader_counts(text, count):
    assert len(clusters(text)) == count


def test_words_hold_their_marks_and_everything_between_them_stays():
    seen: list[list[str]] = []
    text = "Cafe\u0301s, na\u00efve_x 1\ufe0f\u20e3 \U0001f469\u200d\U0001f52c\tok"

    def noted(word: list[str]) -> str:
        seen.append(word)
        return "".join(word)

    assert each_word(text, np.random.default_rng(0), 1.0, noted, name="none") == text
    assert ["".join(word) for word in seen] == [
        "Cafe\u0301s",
        "na\u00efve",
        "x",
        "1\ufe0f\u20e3",
        "ok",
    ]
