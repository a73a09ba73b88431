"""1 - BLEU against sacrebleu called directly, edits against counting by hand, facts of goals, episodes."""

from __future__ import annotations

import sys

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import Episode
from roadworthy.distances import bleu as home
from roadworthy.distances.bleu import bleu
from roadworthy.distances.edits import edits
from roadworthy.distances.episode_bleu import episode_bleu
from roadworthy.distances.jaccard import jaccard
from roadworthy.registry import get, missing

WORDS = ["go", "left", "right", "stop", "now", "please"]
texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
goals = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", 1]), max_size=3)


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_bleu_is_that_of_sacrebleu_both_ways(first, second):
    if first and second:
        there, back = (
            sacrebleu.sentence_bleu(a, [b], use_effective_order=True).score / 100
            for a, b in ((first, second), (second, first))
        )
        expected = 1 - (there + back) / 2
    else:
        expected = float(first != second)
    assert bleu(first, second) == pytest.approx(expected, abs=1e-12)
    assert 0.0 <= bleu(first, second) <= 1.0


def test_a_text_of_one_word_that_is_the_same_is_the_same():
    assert bleu("stop", "stop") == 0.0
    assert bleu("stop", "go") == 1.0
    assert bleu("", "  ") == 0.0


def test_a_missing_sacrebleu_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    home._scorer.cache_clear()
    with pytest.raises(
        ImportError, match=r"bleu needs sacrebleu, which is not installed: pip install .*\[text\]"
    ):
        bleu("go left", "go right")


def test_what_is_not_installed_is_known_before_it_is_used(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "[text]" in missing(get("distances", "bleu"))
    assert missing(get("distances", "iou")) == ""


def test_edits_are_counted_over_the_longer_text():
    assert edits("go left now", "go right") == pytest.approx(2 / 3)
    assert edits("go", "go left right now") == pytest.approx(3 / 4)


@settings(max_examples=40, deadline=None)
@given(goals, goals)
def test_goals_are_as_far_apart_as_the_facts_they_do_not_share(first, second):
    shared = {n for n in first if n in second and first[n] == second[n]}
    either = len(first) + len(second) - len(shared)
    assert jaccard(first, second) == pytest.approx(1 - len(shared) / either if either else 0.0)


def test_facts_within_facts_are_told_apart():
    assert jaccard({"hotel": {"area": "north"}}, {"train": {"area": "north"}}) == 1.0
    assert jaccard({"hotel": {}}, {}) == 1.0


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (4, 4.0, True),
        (4, "4", False),
        (None, "null", False),
        (None, "", False),
        ([1, {"a": 2.0}], (1.0, {"a": 2}), True),
        ([1, 2], [2, 1], False),
        ("[1]", [1], False),
        (float("nan"), float("nan"), True),
        ({1, 2}, {2.0, 1.0}, True),
    ],
)
def test_values_are_equal_where_python_says_so(one, other, equal):
    assert (
        jaccard({"a": one}, {"a": other}) == jaccard({"a": other}, {"a": one}) == float(not equal)
    )
    assert jaccard({"a": one}, {"a": one}) == 0.0


def episode(*said: str, **outcome: str) -> Episode:
    return Episode(tuple({"said": text} for text in said), outcome)


def test_an_episode_is_nearer_the_more_of_it_is_the_same():
    usual = episode("where", "how cheap", "booked", area="north", price="cheap")
    other_end = episode("where", "how cheap", "booked", area="north", price="moderate")
    other_way = episode("booked", area="south", price="moderate")
    assert episode_bleu(usual, usual) == 0.0
    assert 0 < episode_bleu(usual, other_end) < episode_bleu(usual, other_way) < 1
    assert episode_bleu(usual, episode()) == 1.0
    assert episode_bleu(episode(), episode()) == 0.0


def test_an_episode_is_read_as_a_text_of_names_and_values():
    first = episode("where", area="north")
    second = {"turns": [{"said": "when"}], "outcome": {"area": "north"}}
    assert episode_bleu(first, second) == pytest.approx(
        bleu("said where\narea north", "said when\narea north")
    )
