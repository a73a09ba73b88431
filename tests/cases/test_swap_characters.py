"""Swapped characters in text."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.cases.text.swap_characters import swap_characters
from roadworthy.cases.transform import Transform, at_level

SENTENCE = (
    "I'm looking for a  moderately priced restaurant,\tin the centre; phone 01223-462354 please!\n"
)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


def is_one_inner_swap(before: str, after: str) -> bool:
    swaps = {
        before[:i] + before[i + 1] + before[i] + before[i + 2 :] for i in range(1, len(before) - 2)
    }
    return after in swaps


@given(text=st.text(max_size=80), probability=st.floats(0, 1), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_word_is_left_alone_or_has_one_inner_pair_swapped_and_all_else_stays(
    text, probability, seed
):
    changed = swap_characters(text, np.random.default_rng(seed), probability=probability)
    assert changed == swap_characters(text, np.random.default_rng(seed), probability=probability)
    assert len(changed) == len(text)
    assert re.split(r"[^\W_]+", changed) == re.split(r"[^\W_]+", text)
    for before, after in zip(words(text), words(changed), strict=True):
        assert before == after or is_one_inner_swap(before, after)


def test_at_1_every_word_that_can_change_does():
    changed = swap_characters(SENTENCE, np.random.default_rng(0), probability=1.0)
    for before, after in zip(words(SENTENCE), words(changed), strict=True):
        assert (before != after) == (len(before) > 3)


def test_at_0_nothing_changes():
    assert swap_characters(SENTENCE, np.random.default_rng(0), probability=0.0) == SENTENCE


@pytest.mark.parametrize("text", ["", "   ", "a to the", "...", "booook"])
def test_text_without_anything_to_swap_stays(text):
    assert swap_characters(text, np.random.default_rng(0), probability=1.0) == text


@pytest.mark.parametrize(("level", "share"), [(1, 0.15), (2, 0.45), (3, 0.75)])
def test_the_share_of_changed_words_is_the_levels_probability(level, share):
    text = " ".join(["hotel"] * 4000)
    changed = at_level("swap_characters", level, table="wang").value(
        text, np.random.default_rng(level)
    )
    found = np.mean([w != "hotel" for w in words(changed)])
    assert found == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 4000))


def test_every_inner_pair_is_as_likely_as_any_other():
    changed = swap_characters(
        " ".join(["abcdef"] * 3000), np.random.default_rng(0), probability=1.0
    )
    counts = Counter(words(changed))
    assert set(counts) == {"acbdef", "abdcef", "abcedf"}
    assert min(counts.values()) > 1000 - 4 * np.sqrt(3000 * 2 / 9)


def test_what_is_no_text_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match="the text is int, not text"):
        swap_characters(3, np.random.default_rng(0), probability=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("probability", (-0.1, 1.1, float("nan")))
def test_what_is_no_probability_is_refused_by_a_sentence(probability):
    with pytest.raises(ValueError, match="0 to 1 was expected"):
        swap_characters("hotel", np.random.default_rng(0), probability=probability)


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"takes no parameter 'probabilty' \(did you mean 'probability'"
    ):
        Transform("swap_characters", {"probabilty": 0.1}).value("hotel", np.random.default_rng(0))
