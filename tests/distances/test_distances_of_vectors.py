"""Distances between class scores and vectors, against closed forms and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cosine as scipy_cosine

from roadworthy.distances import default_for, for_kind
from roadworthy.distances.cosine import cosine
from roadworthy.distances.disagreement import disagreement
from roadworthy.distances.standard_deviation import standard_deviation
from roadworthy.registry import components
from roadworthy.subject.passes import looped

vectors = arrays(np.float64, 4, elements=st.floats(-1e6, 1e6))


def test_classes_disagree_where_the_largest_scores_stand_at_different_places():
    assert disagreement(np.array([0.1, 0.9]), np.array([0.4, 0.6])) == 0.0
    assert disagreement(np.array([0.9, 0.1]), np.array([0.4, 0.6])) == 1.0
    # the first of equals wins, as it does where a class is predicted
    assert disagreement(np.array([0.5, 0.5]), np.array([0.6, 0.4])) == 0.0


def test_labels_disagree_where_they_differ():
    assert disagreement(3, 3) == 0.0
    assert disagreement(3, np.array([2.0], dtype=np.float32)) == 1.0


@settings(max_examples=50, deadline=None)
@given(vectors, vectors)
def test_the_standard_deviation_of_two_is_that_of_numpy(a, b):
    expected = np.sqrt(np.var([a, b], axis=0, ddof=1).sum())
    assert standard_deviation(a, b) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_cosine_distance_is_that_of_scipy():
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(20, 2, 7)):
        assert cosine(a, b) == pytest.approx(scipy_cosine(a, b), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(vectors, st.floats(1e-3, 1e3))
def test_the_cosine_distance_does_not_see_scale(a, by):
    # what is below the smallest normal number is no longer a direction that scaling keeps
    a = np.where(np.abs(a) < 1e-250, 0.0, a)
    assert cosine(a, by * a) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_the_cosine_distance_neither_overflows_nor_vanishes(size):
    assert cosine([size, 0.0], [size, size]) == pytest.approx(1 - np.sqrt(0.5))


def test_a_vector_of_zeros_equals_another_and_has_nothing_in_common_with_the_rest():
    assert cosine(np.zeros(3), np.zeros(3)) == 0.0
    assert cosine(np.zeros(3), np.ones(3)) == cosine(np.ones(3), np.zeros(3)) == 1.0


def test_every_kind_that_a_task_puts_out_has_a_distance_of_its_own():
    own = {
        k: default_for(k)
        for k in ("class_scores", "vector", "boxes", "tracks", "text", "episode", "goal", "label")
    }
    assert own == {
        "class_scores": "disagreement",
        "vector": "standard_deviation",
        "boxes": "iou",
        "tracks": "mota",
        "text": "bleu",
        "episode": "episode_bleu",
        "goal": "jaccard",
        "label": "disagreement",
    }
    assert for_kind("vector") == ["cosine", "standard_deviation"]
    assert {name for name, c in components("distances").items() if not c.traits.get("bounded")} == {
        "cosine",
        "ssim",
        "standard_deviation",
    }


@pytest.mark.parametrize("distance", [cosine, standard_deviation])
def test_vectors_of_different_lengths_are_not_compared(distance):
    with pytest.raises(ValueError, match="same shape"):
        distance(np.ones(1), np.ones(3))


def test_closed_forms_are_the_mean_over_all_pairs():
    closed = [c for c in components("distances").values() if hasattr(c.build, "ratios")]
    assert closed
    rng = np.random.default_rng(5)
    for component, count, width in itertools.product(closed, (1, 2, 7), (2, 5)):
        passes, answer = rng.normal(size=(count, 9, width)), rng.normal(size=(9, width))
        passes[:, 0], passes[0, 1], answer[0] = 0.0, 0.0, 0.0
        pairs = looped(component, list(answer), [list(one) for one in passes])
        found = component.build.ratios(passes, answer)
        np.testing.assert_allclose(found, pairs, rtol=1e-9, atol=1e-9)
