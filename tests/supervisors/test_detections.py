"""Supervisors of detectors: their formulas against plain loops over boxes, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roadworthy.data.values import BOXES, KINDS, Boxes
from roadworthy.registry import get
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.detections import (
    BoxCount,
    ClassDoubt,
    LowestKeptScore,
    MeanBoxEntropy,
    NearThreshold,
)

NAMES = ["lowest_kept_score", "near_threshold", "mean_box_entropy", "class_doubt", "box_count"]
THRESHOLD = 0.4
SCORES = st.sampled_from([0.0, 0.1, 0.39, 0.4, 0.41, 0.75, 0.999, 1.0])
BOX = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2), SCORES)
IMAGES = st.lists(st.lists(BOX, max_size=6), min_size=1, max_size=6)


def boxes_of(image: list[tuple]) -> Boxes:
    corners = [[x, y, x + side, y + side] for x, y, side, _, _ in image]
    return Boxes.of(corners, [b[3] for b in image], [b[4] for b in image])


def rows(*images: Boxes | None) -> ModuleTrace:
    n = np.arange(len(images))
    error = np.array(["broke" if image is None else None for image in images], dtype=object)
    return ModuleTrace(n, n, error, n, BOXES, list(images))


def counted(*counts: int, score: float = 0.9) -> ModuleTrace:
    return rows(*(Boxes.of(np.zeros((n, 4)), scores=np.full(n, score)) for n in counts))


def lowest_kept(image: list[tuple]) -> float:
    kept = [s for *_, s in image if s >= THRESHOLD]
    return 1 - min(kept) if kept else max((s for *_, s in image), default=0.0)


def near_threshold(image: list[tuple]) -> float:
    total = 0.0
    for *_, s in image:
        if 0 < s < 1:
            odds = s / (1 - s) / (THRESHOLD / (1 - THRESHOLD))
            total += 4 * odds / (1 + odds) ** 2
    return total


def mean_entropy(image: list[tuple]) -> float:
    return float(np.mean([stats.bernoulli(s).entropy() for *_, s in image])) if image else 0.0


def iou(one: tuple, other: tuple) -> float:
    """By counting unit squares, of which boxes with whole corners consist."""
    cells = [
        {(x, y) for x in range(b[0], b[0] + b[2]) for y in range(b[1], b[1] + b[2])}
        for b in (one, other)
    ]
    return len(cells[0] & cells[1]) / len(cells[0] | cells[1])


def class_doubt(image: list[tuple]) -> float:
    pairs = [
        iou(one, other) * other[4] / one[4]
        for one in image
        for other in image
        if one[4] >= THRESHOLD and other[4] <= one[4] and one[3] != other[3]
        if iou(one, other) >= 0.5
    ]
    return max(pairs, default=0.0)


@settings(max_examples=150, deadline=None)
@given(IMAGES)
def test_formulas_agree_with_loops_over_boxes(images):
    trace = rows(*map(boxes_of, images))
    for supervisor, loop in (
        (LowestKeptScore(min_score=THRESHOLD), lowest_kept),
        (NearThreshold(min_score=THRESHOLD), near_threshold),
        (MeanBoxEntropy(), mean_entropy),
        (ClassDoubt(min_score=THRESHOLD), class_doubt),
    ):
        np.testing.assert_allclose(supervisor.score(trace), [loop(i) for i in images], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(IMAGES, st.randoms())
def test_the_order_of_an_images_boxes_does_not_matter(images, random):
    mixed = [random.sample(image, len(image)) for image in images]
    for name in NAMES:
        supervisor = get("supervisors", name).bind()
        supervisor.fit(rows(*map(boxes_of, images)), None)
        first, second = (supervisor.score(rows(*map(boxes_of, i))) for i in (images, mixed))
        np.testing.assert_allclose(first, second, atol=1e-12)


def log_negative_binomial(n: int, mean: float, variance: float) -> float:
    """The textbook's formula, of r successes with probability p."""
    r, p = mean**2 / (variance - mean), mean / variance
    ways = math.lgamma(n + r) - math.lgamma(r) - math.lgamma(n + 1)
    return ways + r * math.log(p) + n * math.log1p(-p)


def test_a_count_scores_minus_log_of_its_smaller_tail():
    reference = [0, 0, 1, 2, 2, 3, 9, 12]
    supervisor = BoxCount()
    supervisor.fit(counted(*reference), None)
    mean, variance = (sum(reference) + 0.5) / 8, float(np.var(reference))
    p = [math.exp(log_negative_binomial(n, mean, variance)) for n in range(2000)]
    expected = [-math.log(min(sum(p[: n + 1]), sum(p[n:]))) for n in range(40)]
    np.testing.assert_allclose(supervisor.score(counted(*range(40))), expected, rtol=1e-9)


@pytest.mark.parametrize("reference", [[5] * 20, [0] * 20, [4, 5, 6] * 7, [0, 1, 2, 3, 20] * 4])
def test_a_count_is_riskier_the_farther_it_lies_from_the_usual_ones(reference):
    supervisor = BoxCount()
    supervisor.fit(counted(*reference), None)
    scores = supervisor.score(counted(*range(60), 5000))
    least = int(scores.argmin())
    assert min(reference) <= least <= max(reference) and np.isfinite(scores).all()
    assert (np.diff(scores[: least + 1]) < 0).all() and (np.diff(scores[least:60]) > 0).all()
    assert scores[-1] >= scores[59]


def test_only_kept_boxes_count():
    supervisor = BoxCount(min_score=0.7)
    supervisor.fit(counted(1, 2, 3, score=0.7), None)
    none, three = supervisor.score(rows(counted(3, score=0.69).output[0], Boxes.of([])))
    assert none == three > supervisor.score(counted(2))[0]


def test_rows_without_an_answer_have_no_score_and_teach_nothing():
    here = Boxes.of([[0, 0, 2, 2]], scores=[0.6])
    for name in NAMES:
        with_lost, without = get("supervisors", name).bind(), get("supervisors", name).bind()
        with_lost.fit(rows(here, None, Boxes.of([])), None)
        without.fit(rows(here, Boxes.of([])), None)
        scores = with_lost.score(rows(None, here))
        assert np.isnan(scores[0]) and scores[1] == without.score(rows(here))[0]
    with pytest.raises(ValueError, match="none of the 2 has one"):
        BoxCount().fit(rows(None, None), None)


@pytest.mark.parametrize("name", NAMES)
def test_only_boxes_are_read_and_only_probabilities(name):
    supervisor = get("supervisors", name).bind()
    reasons = {k: supervisor.applies_to(kind) for k, kind in KINDS.items()}
    assert [k for k, reason in reasons.items() if reason is None] == ["boxes"]
    assert reasons["class_scores"] == "it reads boxes, and the module gives class_scores"
    supervisor.fit(counted(1, 2), None)
    with pytest.raises(ValueError, match="0 to 1; found 90 to 90"):
        supervisor.score(counted(1, 2, score=90.0))
    rounded = supervisor.score(counted(1, score=1 + 1e-7))
    np.testing.assert_array_equal(rounded, supervisor.score(counted(1, score=1.0)))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "mean_box_entropy"])
def test_a_threshold_beyond_scores_is_refused(name):
    with pytest.raises(ValueError, match="min_score is 50"):
        get("supervisors", name).bind(min_score=50)
