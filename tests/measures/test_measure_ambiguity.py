"""Measures of split labels, against plain loops over cases and classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import probabilities
from roadworthy.measures.ambiguity import (
    answer_entropy,
    expected_accuracy,
    label_distance,
    top_pair,
)
from roadworthy.measures.classification import accuracy, top_k

seeds = st.integers(0, 10**6)


def cases(seed: int, n: int = 12, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties, some of them logits; labels of two, of several and of one class."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, (n, k)) / 2 if seed % 2 else rng.dirichlet(np.ones(k), n)
    labels = rng.dirichlet(np.full(k, 0.4), n)
    for row in range(0, n, 3):
        pair = rng.permutation(k)[:2]
        labels[row] = 0
        labels[row, pair] = 0.5 + np.array([1, -1]) * rng.uniform(0, 0.12)
    labels[1] = np.eye(k)[rng.integers(k)]
    return scores, labels


def by_hand(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float, float, float]:
    """Pair, chance, distance and bits of one case, written out."""
    k = len(scores)
    order = sorted(range(k), key=lambda c: (-scores[c], c))
    other = max(labels[a] + labels[b] for a in range(k) for b in range(k) if a != b)
    pair = math.isclose(labels[order[0]] + labels[order[1]], other, abs_tol=1e-9)
    p = probabilities(scores[None])[0]
    distance = max(  # by its definition: the largest difference over all sets of classes
        sum(p[c] - labels[c] for c in range(k) if subset >> c & 1) for subset in range(2**k)
    )
    bits = -sum(x * math.log2(x) for x in p if x > 0)
    return float(pair), labels[order[0]], distance, bits


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_all_four_equal_a_plain_loop(seed: int) -> None:
    scores, labels = cases(seed)
    expected = np.mean([by_hand(s, t) for s, t in zip(scores, labels, strict=True)], axis=0)
    measures = (top_pair, expected_accuracy, label_distance, answer_entropy)
    found = [measure(scores, labels).value() for measure in measures]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_a_pair_that_is_found_holds_every_label_drawn_from_it(seed: int) -> None:
    scores, labels = cases(seed)
    top = np.sort(labels, axis=1)[:, -2]
    drawn = np.array(
        [np.flatnonzero(row >= least)[-1] for row, least in zip(labels, top, strict=True)]
    )
    two = (np.count_nonzero(labels, axis=1) == 2) & (labels[np.arange(len(labels)), drawn] > 0)
    pair, second = ~top_pair(scores, labels).failure, ~top_k(scores, drawn, k=2).failure
    assert (pair[two] <= second[two]).all()


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_the_distance_is_0_for_equal_answers_alone_and_at_most_1(seed: int) -> None:
    scores, labels = cases(seed)
    distance = label_distance(scores, labels).error
    assert ((distance >= 0) & (distance <= 1)).all()
    np.testing.assert_allclose(label_distance(labels, labels).error, 0, atol=1e-12)
    apart = np.abs(probabilities(scores) - labels).max(axis=1) > 1e-9
    assert ((distance > 1e-9) == apart).all()


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_labels_that_are_certain_give_accuracy_and_top_2(seed: int) -> None:
    scores, labels = cases(seed)
    drawn = labels.argmax(axis=1)
    for certain in (drawn, np.eye(labels.shape[1])[drawn]):
        assert top_pair(scores, certain).value() == top_k(scores, drawn, k=2).value()
        assert expected_accuracy(scores, certain).value() == accuracy(scores, drawn).value()


def test_logits_that_become_equal_probabilities_keep_their_order() -> None:
    scores = np.array([[3000.0, 0.0, 1.0]])  # both others have the probability 0
    assert top_pair(scores, np.array([[0.5, 0.0, 0.5]])).value() == 1.0


def test_no_answer_is_the_worst_answer() -> None:
    labels, silent = np.array([[0.5, 0.5], [0.5, 0.5]]), [np.array([0.4, 0.6]), None]
    assert expected_accuracy(silent, labels).error.tolist() == [0.0, 1.0]
    assert expected_accuracy(silent, labels).value() == 0.25
    assert label_distance(silent, labels).error[1] == 1.0
    for measure in (top_pair, expected_accuracy, label_distance, answer_entropy):
        assert measure(silent, labels).failure.tolist() == [False, True]
        assert measure([None, None], labels).failure.all()


def test_an_answer_too_far_from_its_label_fails_if_a_tolerance_is_given() -> None:
    scores, labels = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    assert label_distance(scores, labels, tolerance=0.2).failure.tolist() == [True, False]


def test_labels_over_other_classes_than_the_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="over 2 classes, and outputs have 3 scores"):
        top_pair(np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.5]]))


def test_a_class_that_the_subject_lacks_has_no_probability() -> None:
    logits, labels = np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([[0.5, 0.2, 0.3], [0, 0.5, 0.5]])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    padded = np.hstack([p, np.zeros((2, 1))])
    for measure in (top_pair, expected_accuracy, label_distance, answer_entropy):
        assert measure(logits, labels).value() == pytest.approx(measure(padded, labels).value())
