"""What every score ignores: the order and the chunks of rows; and of the maps of its input those that its formula cancels."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.conformance.supervisors import drawn_rows, some_rows, trace_of
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import components
from roadworthy.subject.needs import Input
from roadworthy.subject.trace import ModuleTrace, concatenate

KNOWN = {name: c for name, c in components("supervisors").items() if c.origin == "roadworthy"}
# Those that train a network on inputs take seconds to fit; conformance tries them once.
QUICK = [n for n, c in KNOWN.items() if not any(isinstance(need, Input) for need in c.bind().needs)]
WIDTH = 6


@lru_cache
def tried(name):
    """The supervisor, fitted, and rows to score; the kind is class scores where it takes them."""
    supervisor = KNOWN[name].bind()
    kind = next(k for k in (CLASS_SCORES, *KINDS.values()) if not supervisor.applies_to(k))
    if supervisor.fitted:
        z, truth = drawn_rows(2, 80)
        supervisor.fit(trace_of(z, supervisor.needs, kind=kind), truth)
    return supervisor, trace_of(drawn_rows(5, 30)[0], supervisor.needs, kind=kind, failed=(4, 9))


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_order_and_chunks_do_not_matter(name, data):
    supervisor, trace = tried(name)
    wanted = supervisor.score(trace)
    order = np.array(data.draw(st.permutations(range(len(trace)))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(trace) - 1), max_size=4)))
    parts = [some_rows(trace, rows) for rows in np.split(order, cuts)]
    separate = np.concatenate([supervisor.score(part) for part in parts])
    np.testing.assert_allclose(separate, wanted[order], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        supervisor.score(concatenate(parts)), wanted[order], rtol=1e-6, atol=1e-9
    )


def of_scores(scores):
    n = np.arange(len(scores))
    return ModuleTrace(n, n, np.full(len(n), None), n, CLASS_SCORES, scores)


# A row that sums to one is read as a distribution, and a constant makes it one of logits; these never sum to one.
LOGITS = st.integers(0, 10**6).map(lambda s: np.random.default_rng(s).normal(0, 4, (6, 5)) - 60)


@pytest.mark.parametrize(
    "name", ["max_softmax", "pcs", "deep_gini", "softmax_entropy", "dlpra_entropy"]
)
@settings(max_examples=20, deadline=None)
@given(z=LOGITS, constant=st.floats(-100, 20), order=st.permutations(range(5)))
def test_what_reads_the_softmax_ignores_constants_and_the_order_of_classes(
    name, z, constant, order
):
    supervisor = KNOWN[name].bind()
    wanted = supervisor.score(of_scores(z))
    np.testing.assert_allclose(
        supervisor.score(of_scores(z + constant)), wanted, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        supervisor.score(of_scores(z[:, order])), wanted, rtol=1e-6, atol=1e-9
    )


@settings(max_examples=20, deadline=None)
@given(z=LOGITS, constant=st.floats(-100, 20), scale=st.floats(0.1, 5))
def test_energy_and_the_largest_logit_fall_by_the_constant_and_scale_with_the_temperature(
    z, constant, scale
):
    for name in ("energy", "max_logit"):
        moved = KNOWN[name].bind().score(of_scores(z + constant))
        np.testing.assert_allclose(
            moved, KNOWN[name].bind().score(of_scores(z)) - constant, rtol=1e-9
        )
    warm = KNOWN["energy"].bind(temperature=scale).score(of_scores(scale * z))
    np.testing.assert_allclose(warm, scale * KNOWN["energy"].bind().score(of_scores(z)), rtol=1e-9)


def both(name, change, **parameters):
    """Scores of activations that were mapped, in fitting and in scoring, and of those that were not."""
    found = []
    for kept in (change, lambda a: a):
        supervisor = KNOWN[name].bind(**parameters)
        parts = []
        for seed, n in ((2, 80), (5, 30)):
            z, truth = drawn_rows(seed, n)
            trace = trace_of(z, supervisor.needs)
            # In float64, so that what is compared is the formula and not the rounding of the map.
            trace.columns = {c: kept(v.astype(np.float64)) for c, v in trace.columns.items()}
            parts.append((trace, truth))
        supervisor.fit(*parts[0])
        found.append(supervisor.score(parts[1][0]))
    return found


def rotation(rng):
    return np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]


def affine(seed):
    rng = np.random.default_rng(seed)
    mixed = rotation(rng) @ np.diag(rng.uniform(0.2, 5, WIDTH)) @ rotation(rng)
    return mixed, rng.normal(0, 10, WIDTH)


SEEDS = st.integers(0, 10**6)
few = settings(max_examples=10, deadline=None)


@settings(max_examples=4, deadline=None)
@given(SEEDS)
def test_distances_in_a_covariance_ignore_affine_maps_and_densities_take_the_volume_along(seed):
    mixed, shift = affine(seed)
    for name in ("mahalanobis", "mdsa"):
        np.testing.assert_allclose(*both(name, lambda a: a @ mixed + shift), rtol=1e-5)
    volume = np.linalg.slogdet(mixed)[1]
    for name in ("kde", "lsa"):
        moved, still = both(name, lambda a: a @ mixed + shift)
        np.testing.assert_allclose(moved - volume, still, rtol=1e-5, atol=1e-5)


@few
@given(SEEDS, st.floats(0.01, 100))
def test_distances_to_rows_ignore_rigid_motions_and_scale_with_a_common_scale(seed, scale):
    turn, shift = rotation(np.random.default_rng(seed)), affine(seed)[1]
    np.testing.assert_allclose(*both("dsa", lambda a: scale * (a @ turn) + shift), rtol=1e-5)
    moved, still = both("dlpra_knn", lambda a: scale * (a @ turn) + shift)
    np.testing.assert_allclose(moved, scale * still, rtol=1e-5)
    np.testing.assert_allclose(*both("vim", lambda a: scale * (a @ turn)), rtol=1e-4, atol=1e-6)


@few
@given(SEEDS)
def test_neighbours_on_the_sphere_ignore_every_rows_own_length_and_rotations(seed):
    rng = np.random.default_rng(seed)
    turn = rotation(rng)
    np.testing.assert_allclose(
        *both("knn", lambda a: rng.uniform(0.1, 9, (len(a), 1)) * (a @ turn)), rtol=1e-5
    )


@few
@given(SEEDS)
def test_perceptrons_ignore_the_unit_and_the_zero_of_every_activation(seed):
    rng = np.random.default_rng(seed)
    units, zeros = rng.uniform(0.05, 20, WIDTH), rng.normal(0, 10, WIDTH)
    np.testing.assert_allclose(*both("dissector", lambda a: a * units + zeros), atol=1e-4)
