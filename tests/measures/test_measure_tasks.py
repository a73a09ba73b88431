"""Classification, regression, speech and dialogue against peers, closed forms and plain loops."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import Episode
from roadworthy.measures.classification import (
    accuracy,
    balanced_accuracy,
    error_rate,
    predicted,
    top_k,
)
from roadworthy.measures.dialogue import meets, success_rate, turns
from roadworthy.measures.regression import mae, rmse
from roadworthy.measures.speech import cer, wer, words

NAN = [np.nan, np.nan, np.nan]
SCORES = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4], NAN, [0.2, 0.2, 0.6]])
LABELS = np.array([0, 2, 0, 1, 2])


def test_accuracy_counts_the_highest_score_and_no_answer_as_wrong() -> None:
    scored = accuracy(SCORES, LABELS)
    assert scored.failure.tolist() == [False, True, True, True, False]
    assert scored.value() == pytest.approx(2 / 5)
    assert error_rate(SCORES, LABELS).value() == pytest.approx(3 / 5)
    assert error_rate(SCORES, LABELS).take(np.array([0, 1])).value() == pytest.approx(1 / 2)


def test_lists_with_none_and_arrays_with_nan_say_the_same() -> None:
    listed = [None if np.isnan(row).any() else row for row in SCORES]
    for measure in (accuracy, error_rate, top_k, balanced_accuracy):
        assert measure(listed, LABELS.tolist()).value() == measure(SCORES, LABELS).value()
    assert predicted(listed).tolist() == [0, 1, 2, -1, 2]


def test_logits_of_minus_infinity_are_answers() -> None:
    scores = np.array([[-np.inf, 1.0], [np.inf, -np.inf], [np.nan, 2.0]])
    assert accuracy(scores, np.array([1, 0, 1])).failure.tolist() == [False, False, True]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_top_k_equals_a_stable_sort_with_ties(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, 3, (8, 5)) / 2, rng.integers(0, 5, 8)
    expected = [
        label in np.argsort(-row, kind="stable")[:k]
        for row, label in zip(scores, labels, strict=True)
    ]
    assert (~top_k(scores, labels, k=k).failure).tolist() == expected


def test_top_1_is_accuracy() -> None:
    assert top_k(SCORES, LABELS, k=1).error.tolist() == accuracy(SCORES, LABELS).error.tolist()


def test_balanced_accuracy_is_the_mean_recall_of_the_classes() -> None:
    assert balanced_accuracy(SCORES, LABELS).value() == pytest.approx((1 / 2 + 0 / 1 + 1 / 2) / 3)
    assert balanced_accuracy(SCORES, LABELS).value(np.array([1, 1, 3, 0, 1])) == pytest.approx(
        (1 / 4 + 1 / 2) / 2
    )


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0, 3], "row 1 is 3"), ([-1, 0], "row 0 is -1"), ([None, 0], "row 0 is -1")],
)
def test_labels_outside_the_classes_are_refused(labels: list, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        accuracy(SCORES[:2], labels)


def test_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        top_k(SCORES, LABELS, k=0)


def test_rmse_and_mae_equal_their_formulas() -> None:
    rng = np.random.default_rng(0)
    found, truth = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    assert rmse(found, truth).value() == pytest.approx(math.sqrt(((found - truth) ** 2).mean()))
    assert mae(found, truth).value() == pytest.approx(np.abs(found - truth).mean())
    weights = rng.random(50)
    expected = math.sqrt(np.average(((found - truth) ** 2).mean(axis=1), weights=weights))
    assert rmse(found, truth).value(weights) == pytest.approx(expected)


def test_no_answer_costs_the_worst_error_the_span_or_what_is_said() -> None:
    truth = np.array([0.0, 1.0, 2.0])
    assert rmse(np.array([0.0, 9.0, np.nan]), truth).error.tolist() == [0.0, 8.0, 8.0]
    assert rmse([0.0, 1.0, None], truth).error.tolist() == [0.0, 0.0, 2.0]
    assert rmse([0.0, 1.0, None], truth, worst=5.0).error.tolist() == [0.0, 0.0, 5.0]
    assert rmse([0.0, 9.0, None], truth, worst=5.0).error.tolist() == [0.0, 8.0, 8.0]
    assert mae([0.0, np.inf, 2.0], truth).failure.tolist() == [False, True, False]
    assert rmse([None], [0.0]).value() == 1.0


def test_an_error_above_the_tolerance_fails() -> None:
    truth = np.zeros(3)
    assert mae(np.array([0.1, -0.3, 0.2]), truth, tolerance=0.2).failure.tolist() == [
        False,
        True,
        False,
    ]
    assert not mae(np.array([1e9, 0, 0]), truth).failure.any()


def test_vectors_of_different_length_and_missing_truth_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 number\(s\) a case and targets 3"):
        rmse(np.zeros((4, 2)), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="row 1 is missing or NaN"):
        rmse(np.zeros(2), np.array([0.0, np.nan]))
    with pytest.raises(ValueError, match="one shape"):
        rmse([np.zeros(2), np.zeros(3)], np.zeros((2, 2)))


sentences = st.lists(
    st.sampled_from(["a", "be", "sea", "be sea", "dee"]), min_size=1, max_size=7
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=5))
def test_word_and_character_error_rates_equal_jiwer(pairs: list[tuple[str, str]]) -> None:
    said, heard = [p[0] for p in pairs], [p[1] for p in pairs]
    assert wer(heard, said).value() == pytest.approx(jiwer.wer(said, heard))
    assert cer(heard, said).value() == pytest.approx(jiwer.cer(said, heard))
    assert wer(heard, said).error == pytest.approx([jiwer.wer(s, h) for s, h in pairs])


def test_case_and_punctuation_do_not_count_unless_asked() -> None:
    said, heard = ["Well, it's 'fine' - I think."], ["well it's fine i think"]
    assert wer(heard, said).value() == 0.0
    assert wer(heard, said, normalise=False).value() == pytest.approx(jiwer.wer(said, heard))
    assert words("It’s OK_now") == ["it's", "ok", "now"]


def test_one_wrong_word_fails_a_case_unless_tolerated() -> None:
    said, heard = ["one two three four"] * 2, ["one two three for", "one two three four"]
    assert wer(heard, said).failure.tolist() == [True, False]
    assert wer(heard, said, tolerance=0.25).failure.tolist() == [False, False]


def test_no_answer_deletes_every_word_and_more_where_answers_invent_more() -> None:
    assert wer([None, "a"], ["b c d", "a"]).value() == pytest.approx(3 / 4)
    assert wer([None, "x y z"], ["b c", "a"]).value() == pytest.approx(3.0)
    assert wer([None], [""]).failure.tolist() == [True]
    assert wer([None], [""]).value() == 1.0
    assert wer(["a b", None], ["a b", ""]).value() == pytest.approx(1 / 2)
    assert wer(["a b", "x y z", None], ["a b", "", ""]).value() == pytest.approx(6 / 2)
    # Words heard in silence lift the rate of all answers above that of each.
    assert wer(["a", "x", "x", None], ["a", "", "", "b c"]).value() == pytest.approx(2.0)


def test_words_where_nothing_was_said_are_errors_of_the_whole() -> None:
    scored = wer(["uh huh", "a b"], ["", "a b"])
    assert scored.value() == pytest.approx(2 / 2)
    assert scored.error.tolist() == [2.0, 0.0]


def test_a_missing_rapidfuzz_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("rapidfuzz"):
            raise ImportError(name)
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install .*\[audio\]"):
        wer(["a"], ["a"])


GOAL = {
    "hotel": {"area": "north", "stars": {"min": 3}, "price": ["cheap", "moderate"]},
    "people": 2,
}


@pytest.mark.parametrize(
    ("outcome", "met"),
    [
        ({"hotel": {"area": "North ", "stars": 4, "price": "cheap"}, "people": "2"}, True),
        (
            {
                "hotel": {"area": "north", "stars": "3", "price": "moderate", "more": 1},
                "people": 2,
                "taxi": True,
            },
            True,
        ),
        ({"hotel": {"area": "south", "stars": 4, "price": "cheap"}, "people": 2}, False),
        ({"hotel": {"area": "north", "stars": 2, "price": "cheap"}, "people": 2}, False),
        ({"hotel": {"area": "north", "stars": "many", "price": "cheap"}, "people": 2}, False),
        ({"hotel": {"area": "north", "stars": 4, "price": "dear"}, "people": 2}, False),
        ({"hotel": "north", "people": 2}, False),
        ({"people": 2}, False),
        ({}, False),
    ],
)
def test_an_episode_succeeds_when_every_constraint_is_met(outcome: dict, met: bool) -> None:
    assert success_rate([Episode((), outcome)], [GOAL]).value() == float(met)
    assert success_rate([{"turns": [], "outcome": outcome}], [GOAL]).value() == float(met)


def test_what_does_not_matter_is_met_by_anything_and_true_is_not_one() -> None:
    assert meets("east", "dontcare") and meets(None, "dontcare")
    assert not meets(None, "none") and not meets(1, True) and meets(True, True)


def test_turns_are_averaged_and_limited() -> None:
    episodes = [Episode(({},) * 2, {}), Episode(({},) * 6, {}), None]
    scored = turns(episodes, [{}] * 3, limit=5)
    assert scored.error.tolist() == [2.0, 6.0, 6.0]
    assert scored.failure.tolist() == [False, True, True]
    assert turns(episodes, [{}] * 3, limit=9).error.tolist() == [2.0, 6.0, 9.0]
