"""Variation ratios against a double loop over the passes, for every kind of value; closed forms; rows and passes without answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadworthy.conformance import items
from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    GOAL,
    IMAGE,
    LABEL,
    TEXT,
    TRACKS,
    VECTOR,
    Boxes,
    probabilities,
)
from roadworthy.distances.bleu import bleu
from roadworthy.distances.cosine import cosine
from roadworthy.distances.disagreement import disagreement
from roadworthy.distances.episode_bleu import episode_bleu
from roadworthy.distances.iou import iou
from roadworthy.distances.jaccard import jaccard
from roadworthy.distances.mota import mota
from roadworthy.registry import register, remove
from roadworthy.subject.passes import variation


def equations(distance, original, passes) -> list[float]:
    """Equations 5 and 6 as they stand in the paper, with w = 1."""
    count = len(passes)
    inner = [
        sum(1 - distance(passes[i], passes[j]) for j in range(count) if j != i) / (count - 1)
        for i in range(count)
    ]
    return [1 - sum(inner) / count, 1 - sum(1 - distance(p, original) for p in passes) / count]


@pytest.mark.parametrize(
    ("pair", "kind", "distance"),
    [
        ("boxes boxes", BOXES, iou),
        ("tracks tracks", TRACKS, mota),
        ("text text", TEXT, bleu),
        ("episode goal", EPISODE, episode_bleu),
        ("episode goal", GOAL, jaccard),
        ("class_scores label", CLASS_SCORES, disagreement),
        ("class_scores label", LABEL, disagreement),
        ("vector vector", VECTOR, cosine),
    ],
)
def test_the_ratios_are_those_of_the_papers_equations(pair, kind, distance):
    made = [items.drawn_answers(*pair.split(), seed=s) for s in range(6)]
    columns = [m.targets if kind in (LABEL, GOAL) else m.outputs for m in made]
    original, *passes = [np.array(c) for c in columns] if kind.dense else columns
    found = variation(distance.__name__, kind, original, passes)
    for row in range(items.N):
        expected = equations(distance, original[row], [column[row] for column in passes])
        np.testing.assert_allclose(found[row], expected, atol=1e-12)
    assert found.dtype == np.float64
    assert found.shape == (items.N, 2)


dense = arrays(np.float64, (5, 3, 4), elements=st.floats(-100, 100))


@settings(max_examples=40, deadline=None)
@given(dense)
def test_vr_of_vectors_is_their_standard_deviation(passes):
    found = variation("standard_deviation", VECTOR, passes[0], list(passes))
    np.testing.assert_allclose(
        found[:, 0], np.sqrt(passes.var(axis=0, ddof=1).sum(axis=1)), atol=1e-9
    )


@settings(max_examples=40, deadline=None)
@given(dense, arrays(np.float64, (3, 4), elements=st.floats(-100, 100)))
def test_vro_of_vectors_holds_the_spread_and_the_distance_of_the_mean_from_the_answer(
    passes, original
):
    found = variation("standard_deviation", VECTOR, original, list(passes))
    around = passes.var(axis=0).sum(axis=1) + np.square(passes.mean(axis=0) - original).sum(axis=1)
    np.testing.assert_allclose(found[:, 1], np.sqrt(around / 2), atol=1e-7)


def test_vr_of_classes_follows_from_the_votes():
    votes = np.array([0, 0, 0, 1, 2])
    scores = np.eye(3)[votes][:, None, :]
    found = variation("disagreement", CLASS_SCORES, scores[0], list(scores))
    # 3, 1 and 1 votes: 6 of 20 ordered pairs agree
    assert found.tolist() == [[pytest.approx(14 / 20), pytest.approx(2 / 5)]]


def test_logits_and_probabilities_disagree_alike():
    logits = np.random.default_rng(0).normal(size=(6, 20, 4))
    raw = variation("auto", CLASS_SCORES, logits[0], list(logits))
    soft = variation(
        "auto", CLASS_SCORES, probabilities(logits[0]), [probabilities(p) for p in logits]
    )
    np.testing.assert_array_equal(raw, soft)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(5)), dense, st.sampled_from(["cosine", "standard_deviation"]))
def test_the_order_of_passes_and_of_rows_does_not_matter(order, passes, distance):
    plain = variation(distance, VECTOR, passes[0], list(passes))
    np.testing.assert_allclose(
        variation(distance, VECTOR, passes[0], [passes[i] for i in order]), plain, atol=1e-9
    )
    rows = [2, 0, 1]
    moved = variation(distance, VECTOR, passes[0][rows], [p[rows] for p in passes])
    np.testing.assert_allclose(moved, plain[rows], atol=1e-9)


@pytest.mark.parametrize("distance", ["cosine", "standard_deviation", "disagreement"])
def test_blocks_of_rows_give_what_all_rows_give_at_once(distance, monkeypatch):
    passes = np.random.default_rng(1).normal(size=(4, 11, 3)).astype(np.float32)
    whole = variation(distance, CLASS_SCORES, passes[0], list(passes))
    monkeypatch.setattr("roadworthy.subject.passes.VALUES_AT_ONCE", 30)
    np.testing.assert_array_equal(variation(distance, CLASS_SCORES, passes[0], list(passes)), whole)


def test_auto_is_the_distance_that_the_kind_calls_its_own():
    one, other = Boxes.of([[0, 0, 2, 2]]), Boxes.of([[0, 0, 2, 1]])
    assert variation("auto", BOXES, [one], [[one], [other]]).tolist() == [[0.5, 0.25]]


def test_one_pass_differs_from_no_other():
    assert variation("iou", BOXES, [Boxes.of([])], [[Boxes.of([[0, 0, 1, 1]])]]).tolist() == [
        [0.0, 1.0]
    ]
    for distance in ("cosine", "standard_deviation"):
        found = variation(distance, VECTOR, np.array([[1.0, 0.0]]), [np.array([[0.0, 1.0]])])
        assert found[0, 0] == 0.0
        assert found[0, 1] == pytest.approx(1.0)
    classes = variation("disagreement", CLASS_SCORES, np.eye(2), [np.eye(2)[::-1]])
    assert classes.tolist() == [[0.0, 1.0]] * 2


def test_a_row_without_answer_has_no_ratios():
    found = variation("bleu", TEXT, ["go", None], [["go", "go"], ["go", "go"]])
    assert found[0].tolist() == [0.0, 0.0]
    assert np.isnan(found[1]).all()
    numbers = variation(
        "disagreement", CLASS_SCORES, np.array([[1.0, 0.0], [np.nan] * 2]), [np.eye(2)] * 2
    )
    assert np.isnan(numbers[1]).all()
    assert numbers[0].tolist() == [0.0, 0.0]


def test_a_pass_that_failed_is_as_far_as_can_be_where_there_is_such_a_thing():
    # of three passes one failed: two of three pairs are apart, and one pass of three is off
    texts = variation("bleu", TEXT, ["go"], [["go"], ["go"], [None]])
    np.testing.assert_allclose(texts, [[2 / 3, 1 / 3]])
    lost = np.array([[np.nan, np.nan]])
    classes = variation(
        "disagreement", CLASS_SCORES, np.eye(2)[:1], [np.eye(2)[:1], np.eye(2)[:1], lost]
    )
    np.testing.assert_allclose(classes, [[2 / 3, 1 / 3]])
    # two that failed are alike
    np.testing.assert_allclose(variation("bleu", TEXT, ["go"], [[None], [None]]), [[0.0, 1.0]])


def test_a_pass_that_failed_is_left_out_where_there_is_no_farthest():
    lost = np.array([[np.nan]])
    made = [np.array([[1.0]]), lost, np.array([[3.0]])]
    np.testing.assert_allclose(
        variation("auto", VECTOR, np.array([[2.0]]), made), [[np.sqrt(2), np.sqrt(0.5)]]
    )
    assert np.isnan(variation("auto", VECTOR, np.array([[2.0]]), [lost, lost])).all()


def test_the_one_pass_that_is_left_of_several_agrees_with_nobody():
    # 0 would be the safest score there is, for the row that failed most
    made = [np.array([[1.0]]), np.array([[np.nan]]), np.array([[np.nan]])]
    vr, vro = variation("auto", VECTOR, np.array([[2.0]]), made)[0]
    assert np.isnan(vr) and vro == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("kind", [CLASS_SCORES, VECTOR])
def test_no_rows_have_no_ratios(kind):
    assert variation("auto", kind, np.zeros((0, 3)), [np.zeros((0, 3))] * 3).shape == (0, 2)


def test_vectors_of_unlike_lengths_leave_their_row_without_the_ratio_that_needs_them():
    original = [np.zeros(1), np.zeros(2)]
    made = [[np.ones(2), np.ones(2)], [np.ones(2), np.ones(2)]]
    found = variation("auto", VECTOR, original, made)
    np.testing.assert_allclose(found, [[0.0, np.nan], [0.0, 1.0]])


def test_what_cannot_be_compared_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match="no distance compares image"):
        variation("auto", IMAGE, [], [])
    with pytest.raises(
        ValueError,
        match="iou compares boxes, and the module gives text; distances that fit: bleu, edits",
    ):
        variation("iou", TEXT, ["a"], [["a"]])
    with pytest.raises(ValueError, match=r"no distance is called 'bleo' \(did you mean 'bleu'\?\)"):
        variation("bleo", TEXT, ["a"], [["a"]])
    with pytest.raises(ValueError, match="no pass was made"):
        variation("bleu", TEXT, ["a"], [])


def test_a_distance_of_somebody_else_is_one_function():
    @register("distances", "length", of=("text",))
    def length(first, second) -> float:
        """How much longer one text is."""
        return float(abs(len(first) - len(second)))

    try:
        found = variation("length", TEXT, ["a"], [["aa"], ["aaaa"], ["a"]])
    finally:
        remove("distances", "length")
    np.testing.assert_allclose(found, [[(2 + 1 + 3) / 3, (1 + 3 + 0) / 3]])
