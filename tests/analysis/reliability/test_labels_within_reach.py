"""A label reaches inputs nearer than r and no other, and the breakdown of evidence adds up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.reliability.oracle import (
    KINDS,
    Reached,
    evidence_breakdown,
    majority_vote,
    reach,
)
from roadworthy.statistics.partition import label_separation


@pytest.mark.parametrize("norm", [np.inf, 1, 2])
@pytest.mark.parametrize("width", [2, 20])
def test_a_label_reaches_as_a_loop_says(norm, width):
    rng = np.random.default_rng(0)
    middles = rng.random((6, width)) * 4
    clusters = rng.integers(0, 6, 150)
    labelled = middles[clusters] + 0.1 * rng.random((150, width))
    labels = np.where(rng.random(150) < 0.1, -1, clusters % 3)
    spread = np.where(np.arange(80) % 2, 0.2, 3)[:, None]
    points = middles[rng.integers(0, 6, 80)] + spread * rng.normal(size=(80, width))
    separation = label_separation(labelled, labels, norm=norm)
    found = reach(points, labelled, labels, separation)
    some = 0
    for i, x in enumerate(points):
        distances = np.linalg.norm(labelled - x, ord=norm, axis=1)
        distances[labels < 0] = np.inf
        nearest = distances.argmin()
        if distances[nearest] < separation.r:
            some += 1
            assert found.rows[i] == nearest
            assert found.labels[i] == labels[nearest]
            assert found.distances[i] == pytest.approx(distances[nearest])
            # No input has two labels within reach.
            assert len(set(labels[distances < separation.r])) == 1
        else:
            assert (found.rows[i], found.labels[i]) == (-1, -1)
            assert found.distances[i] == np.inf
    assert 0 < some < 80


def test_a_label_exactly_r_away_does_not_reach():
    labelled, labels = np.array([[0.0], [4.0]]), np.array([0, 1])
    found = reach(np.array([[2.0], [1.75]]), labelled, labels, label_separation(labelled, labels))
    assert found.labels.tolist() == [-1, 0]


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_every_input_has_one_kind_of_evidence(seed):
    rng = np.random.default_rng(seed)
    n = 50
    answers, own, other = rng.integers(0, 3, n), rng.integers(-1, 3, n), rng.integers(-1, 3, n)
    inside, weights = rng.random(n) < 0.9, rng.random(n)
    found = evidence_breakdown(
        answers, Reached(other, np.zeros(n), other), labels=own, inside=inside, weights=weights
    )
    expected = []
    for i in range(n):
        truth = own[i] if own[i] >= 0 else other[i]
        if not inside[i]:
            expected.append("outside")
        elif own[i] >= 0 and other[i] >= 0 and own[i] != other[i]:
            expected.append("contradicted")
        elif truth < 0:
            expected.append("no_label")
        else:
            expected.append("agrees" if answers[i] == truth else "fails")
    assert [KINDS[k] for k in found.kinds] == expected
    assert found.failing.tolist() == [kind != "agrees" for kind in expected]
    assert sum(found.shares.values()) == pytest.approx(1)
    assert sum(found.counts.values()) == n
    for kind in KINDS:
        chosen = [w for w, e in zip(weights, expected, strict=True) if e == kind]
        assert found.shares[kind] == pytest.approx(sum(chosen) / weights.sum())


def test_without_labels_of_their_own_nothing_is_contradicted():
    reached = Reached(np.array([1, 0, -1]), np.zeros(3), np.array([0, 1, -1]))
    found = evidence_breakdown(np.array([1, 1, 1]), reached)
    assert found.counts == {"agrees": 1, "fails": 1, "contradicted": 0, "no_label": 1, "outside": 0}


def test_a_cells_vote_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    cells, answers = rng.integers(-1, 40, 300), rng.integers(0, 4, 300)
    expected = [
        np.bincount(answers[cells == c]).argmax() if (cells == c).any() else -1 for c in range(45)
    ]
    assert majority_vote(cells, answers, 45).tolist() == expected
