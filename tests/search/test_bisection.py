"""The smallest failing strength against a scan of every strength at the resolution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from roadworthy import registry
from roadworthy.data.values import CLASS_SCORES
from roadworthy.search.bisection import smallest_crossing, smallest_epsilon
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule


def brute_force(fails, n, resolution, highest):
    """Every strength at the resolution, in order."""
    found = np.full(n, np.nan)
    for place in range(round(highest / resolution) + 1):
        for row in range(n):
            if np.isnan(found[row]) and fails(np.array([place * resolution]), np.array([row]))[0]:
                found[row] = place * resolution
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-0.5, 3.0), min_size=1, max_size=6),
    st.sampled_from([0.25, 1.0, 2.5]),
    st.integers(1, 9),
    st.integers(0, 6),
)
def test_monotone_failures_are_found_where_a_full_scan_finds_them(limits, highest, scan, refine):
    limits = np.array(limits)

    def fails(strengths, rows):
        return strengths >= limits[rows]

    found = smallest_crossing(fails, len(limits), highest=highest, scan=scan, refine=refine)
    assert found.resolution == pytest.approx(highest / scan / 2**refine)
    wanted = brute_force(fails, len(limits), found.resolution, highest)
    np.testing.assert_allclose(found.strength, wanted, atol=1e-12)
    np.testing.assert_array_equal(found.at_zero, wanted == 0)
    np.testing.assert_array_equal(found.found, wanted > 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 5))
def test_what_is_found_fails_and_a_step_below_passes_whatever_the_response(seed, scan, refine):
    cells = scan * 2**refine
    response = np.random.default_rng(seed).random((20, cells + 1)) < 0.2
    asked: list[tuple[int, int]] = []

    def fails(strengths, rows):
        places = np.rint(strengths * cells).astype(int)
        asked.extend(zip(rows.tolist(), places.tolist(), strict=True))
        return response[rows, places]

    found = smallest_crossing(fails, 20, scan=scan, refine=refine)
    points = response[:, :: 2**refine]
    for row in range(20):
        if found.at_zero[row]:
            assert points[row, 0] and found.strength[row] == 0 and not found.found[row]
        elif not found.found[row]:
            assert not points[row].any() and np.isnan(found.strength[row])
        else:
            place = round(found.strength[row] * cells)
            assert response[row, place] and not response[row, place - 1]
            assert place <= np.argmax(points[row]) * 2**refine
    # No row is asked twice at a place, and none goes on after it failed at 0.
    assert len(asked) == len(set(asked))
    assert not {row for row, place in asked if place} & set(np.flatnonzero(found.at_zero).tolist())


def test_each_call_has_the_rows_that_still_need_it():
    limits, calls = np.array([0.0, 0.1, 0.6, 5.0]), []

    def fails(strengths, rows):
        calls.append(rows.tolist())
        return strengths >= limits[rows]

    smallest_crossing(fails, 4, scan=2, refine=3)
    assert calls == [[0, 1, 2, 3], [1, 2, 3], [2, 3], [1, 2], [1, 2], [1, 2]]


def test_no_rows_ask_nothing():
    found = smallest_crossing(lambda strengths, rows: 1 / 0, 0)
    assert len(found.strength) == 0


def test_bad_arguments_are_refused_by_a_sentence():
    for more in ({"highest": 0}, {"highest": float("nan")}, {"scan": 0}, {"refine": -1}):
        with pytest.raises(ValueError, match="above 0, >= 1, >= 0"):
            smallest_crossing(lambda strengths, rows: rows < 0, 3, **more)


def linear_query():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).double().eval()
    query = TorchModule(model, CLASS_SCORES, InputPreparation(dtype="float64")).query()
    return model, query


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_the_smallest_epsilon_of_a_linear_classifier_is_its_distance_to_the_boundary(norm, dual):
    model, query = linear_query()
    images = torch.from_numpy(np.random.default_rng(0).uniform(0.45, 0.55, (20, 3, 4)))
    scores = query.scores(images)
    labels = scores.argmax(1)
    labels[0] = 1 - labels[0]
    weights = (model[1].weight[0] - model[1].weight[1]).detach()
    distance = (scores[:, 0] - scores[:, 1]).abs() / weights.norm(dual)
    # Not the median itself: whether the one picture at that distance is found is a matter of rounding.
    largest = 1.001 * float(distance[1:].median())
    attack = registry.get("attacks", "fgsm").bind(epsilon=1.0, norm=norm)
    rngs = [np.random.default_rng(row) for row in range(20)]
    found = smallest_epsilon(attack, images, labels, query, rngs, largest=largest, steps=7)
    wanted = np.ceil(distance.numpy() / found.resolution) * found.resolution
    assert found.at_zero.tolist() == [True] + [False] * 19
    within = wanted[1:] <= largest
    assert 0 < within.sum() < 19
    np.testing.assert_array_equal(found.found[1:], within)
    np.testing.assert_allclose(found.strength[1:][within], wanted[1:][within], atol=1e-9)


def test_each_epsilon_begins_with_the_same_draws_and_generators_are_left_alone():
    _, query = linear_query()
    images = torch.from_numpy(np.random.default_rng(0).uniform(0.3, 0.7, (6, 3, 4)))
    labels = query.scores(images).argmax(1)
    attack = registry.get("attacks", "pgd").build
    rngs = [np.random.default_rng(row) for row in range(6)]
    found = smallest_epsilon(attack, images, labels, query, rngs, largest=0.5, steps=2)

    def fails(strengths, rows):
        if strengths[0] == 0:
            return np.array([False])
        row = int(rows[0])
        rng = [np.random.default_rng(row)]
        one = attack(images[[row]], labels[[row]], query, rng, epsilon=float(strengths[0]))
        return (query.scores(one).argmax(1) != labels[row]).numpy()

    np.testing.assert_allclose(found.strength, brute_force(fails, 6, found.resolution, 0.5))
    assert rngs[3].random() == np.random.default_rng(3).random()


def test_an_epsilon_that_is_not_above_0_is_refused():
    _, query = linear_query()
    with pytest.raises(ValueError, match="epsilon is 0"):
        smallest_epsilon(None, torch.rand(1, 3, 4), [0], query, [], largest=0)
