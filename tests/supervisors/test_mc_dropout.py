"""Supervisors of stochastic passes against numpy, scipy and loops over the passes themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import softmax

from roadworthy.data.values import CLASS_SCORES, TASKS, VECTOR
from roadworthy.registry import components, get
from roadworthy.subject.needs import Passes
from roadworthy.subject.passes import Summary
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.passes import (
    FromPasses,
    mean_softmax,
    mutual_information,
    predictive_entropy,
    variation_ratio,
)

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
NAMES = ("mc_dropout_vr", "mc_dropout_mi", "mc_dropout_pe", "mc_dropout_ms")
logits = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(2, 6)),
    elements=st.floats(-20, 20),
)


def by_hand(p: np.ndarray) -> dict[str, np.ndarray]:
    """From all passes at once, (T, n, C)."""
    mode = stats.mode(p.argmax(axis=2), axis=0)
    mean = p.mean(axis=0)
    return {
        "mc_dropout_vr": 1 - mode.count / len(p),
        "mc_dropout_mi": stats.entropy(mean, axis=1) - stats.entropy(p, axis=2).mean(axis=0),
        "mc_dropout_pe": stats.entropy(mean, axis=1),
        "mc_dropout_ms": 1 - mean.max(axis=1),
    }


def trace_of(p: np.ndarray, request: Passes, failed: tuple[int, ...] = ()) -> ModuleTrace:
    n = p.shape[1]
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    columns = {request.column: Summary.of(p).pack()}
    rows = np.arange(n)
    return ModuleTrace(rows, rows, error, np.zeros(n), CLASS_SCORES, p.mean(axis=0), columns)


@settings(max_examples=60, deadline=None)
@given(logits)
def test_scores_follow_their_definitions(z):
    p = softmax(z, axis=2)
    for name, expected in by_hand(p).items():
        supervisor = get("supervisors", name).bind(n=len(p))
        np.testing.assert_allclose(
            supervisor.score(trace_of(p, Passes("dropout", len(p)))), expected, atol=1e-9
        )


@settings(max_examples=60, deadline=None)
@given(logits)
def test_what_passes_do_not_agree_on_is_never_negative_and_never_more_than_all_uncertainty(z):
    summary = Summary.of(softmax(z, axis=2))
    information, entropy = mutual_information(summary), predictive_entropy(summary)
    assert (information >= 0).all() and (information <= entropy + 1e-12).all()
    classes = z.shape[2]
    assert (entropy <= np.log(classes) + 1e-9).all()
    for ratio in (variation_ratio(summary), mean_softmax(summary)):
        assert ((ratio > -1e-12) & (ratio <= 1 - 1 / classes + 1e-9)).all()


@settings(max_examples=40, deadline=None)
@given(logits, st.randoms(use_true_random=False))
def test_the_order_of_the_passes_and_the_names_of_the_classes_do_not_matter(z, random):
    p = softmax(z, axis=2)
    passes, classes = list(range(p.shape[0])), list(range(p.shape[2]))
    random.shuffle(passes)
    random.shuffle(classes)
    tied = (p == p.max(axis=2, keepdims=True)).sum(axis=2).max() > 1
    for measure in (
        mutual_information,
        predictive_entropy,
        mean_softmax,
        *([] if tied else [variation_ratio]),
    ):
        expected = measure(Summary.of(p))
        np.testing.assert_allclose(measure(Summary.of(p[passes])), expected, atol=1e-9)
        np.testing.assert_allclose(measure(Summary.of(p[:, :, classes])), expected, atol=1e-9)


def test_passes_that_agree_leave_no_doubt_and_passes_that_do_not_leave_it_all():
    agree = Summary.of(np.repeat(np.array([[[0.7, 0.2, 0.1]]]), 9, axis=0))
    assert variation_ratio(agree)[0] == 0 and mutual_information(agree)[0] == pytest.approx(
        0, abs=1e-12
    )
    torn = Summary.of(np.eye(3)[:, None, :])
    assert variation_ratio(torn)[0] == pytest.approx(2 / 3)
    assert mutual_information(torn)[0] == pytest.approx(np.log(3)) == predictive_entropy(torn)[0]


def test_failed_rows_have_no_score():
    p = softmax(np.random.default_rng(0).normal(size=(5, 4, 3)), axis=2)
    p[2, 1] = np.nan
    for name in NAMES:
        supervisor = get("supervisors", name).bind(n=5)
        scores = supervisor.score(trace_of(p, Passes("dropout", 5), failed=(3,)))
        assert scores.dtype == np.float64 and np.isnan(scores).tolist() == [
            False,
            True,
            False,
            True,
        ]
        nothing = trace_of(p, Passes("dropout", 5), failed=(0, 1, 2, 3))
        nothing.columns.clear()
        assert np.isnan(supervisor.score(nothing)).all()


def test_they_need_no_fitting_and_ask_for_the_same_passes():
    made = [get("supervisors", name).bind(n=10, rate=0.1) for name in NAMES]
    assert {request for s in made for request in s.needs if isinstance(request, Passes)} == {
        Passes("dropout", 10, 0.1)
    }
    assert not any(s.fitted for s in made)
    assert all(
        s.applies_to(CLASS_SCORES) is None and "vector" in s.applies_to(VECTOR) for s in made
    )
    assert set(NAMES) <= set(components("supervisors"))
    assert get("supervisors", "mc_dropout_vr").bind().needs[1] == Passes("dropout", 100)


@pytest.mark.parametrize(
    ("parameters", "says"), [({"n": 0}, "n is 0"), ({"rate": 1.0}, "between 0 and 1")]
)
def test_parameters_that_make_no_sense_are_refused(parameters, says):
    with pytest.raises(ValueError, match=says):
        get("supervisors", "mc_dropout_mi").bind(**parameters)


def test_a_trace_without_the_passes_says_which_are_missing():
    p = np.full((2, 3, 2), 0.5)
    with pytest.raises(ValueError, match=r"passes\.dropout\.7"):
        get("supervisors", "mc_dropout_mi").bind(n=7).score(trace_of(p, Passes("dropout", 2)))


def test_another_kind_of_passes_is_one_small_class():
    class EnsembleSpread(FromPasses):
        quantify = staticmethod(mutual_information)

        def __init__(self):
            super().__init__(Passes("ensemble", 0))

    p = softmax(np.random.default_rng(1).normal(size=(4, 6, 3)), axis=2)
    scores = EnsembleSpread().score(trace_of(p, Passes("ensemble", 0)))
    np.testing.assert_allclose(scores, by_hand(p)["mc_dropout_mi"], atol=1e-12)


def test_scores_of_the_fashion_classifier_are_those_of_its_passes():
    bind = get("adapters", "torch").bind
    system = bind(
        path="model.py:build",
        base=FASHION,
        task=TASKS["classification"],
        weights="weights.safetensors",
    )()
    pictures = np.random.default_rng(5).integers(0, 255, (12, 28, 28), dtype=np.uint8)
    made = [get("supervisors", name).bind(n=25) for name in NAMES]
    requests = frozenset({made[0].needs[1]})
    trace = system.run(Cases([f"c{i}" for i in range(12)], pictures, seed=9), {"model": requests})[
        "model"
    ]
    (dropout,) = system.modules["model"].with_dropout.values()
    batch = torch.from_numpy(pictures[:, None] / np.float32(255))
    raw = [r.double().numpy() for r in dropout.passes(batch, 25, seed=9, module="model")]
    expected = by_hand(softmax(np.stack(raw), axis=2))
    for supervisor, name in zip(made, NAMES, strict=True):
        np.testing.assert_allclose(supervisor.score(trace), expected[name], atol=1e-5)
