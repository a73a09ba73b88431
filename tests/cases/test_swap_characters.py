"""Swapped characters in text; what holds for all transforms of text is in test_text_transforms.py."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from roadworthy.cases.text.swap_characters import swap_characters
from roadworthy.cases.transform import Transform

SENTENCE = (
    "I'm looking for a  moderately priced restaurant,\tin the centre; phone 01223-462354 please!\n"
)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


def test_at_1_every_word_that_can_change_does():
    changed = swap_characters(SENTENCE, np.random.default_rng(0), probability=1.0)
    for before, after in zip(words(SENTENCE), words(changed), strict=True):
        assert (before != after) == (len(before) > 3)


def test_at_0_nothing_changes():
    assert swap_characters(SENTENCE, np.random.default_rng(0), probability=0.0) == SENTENCE


@pytest.mark.parametrize("text", ["", "   ", "a to the", "...", "booook"])
def test_text_without_anything_to_swap_stays(text):
    assert swap_characters(text, np.random.default_rng(0), probability=1.0) == text


def test_every_inner_pair_is_as_likely_as_any_other():
    changed = swap_characters(
        " ".join(["abcdef"] * 3000), np.random.default_rng(0), probability=1.0
    )
    counts = Counter(words(changed))
    assert set(counts) == {"acbdef", "abdcef", "abcedf"}
    assert min(counts.values()) > 1000 - 4 * np.sqrt(3000 * 2 / 9)


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"takes no parameter 'probabilty' \(did you mean 'probability'"
    ):
        Transform("swap_characters", {"probabilty": 0.1}).value("hotel", np.random.default_rng(0))
