"""Answers to split labels: who is confident among them, calibration by a plain loop, and intervals by groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roadworthy.analysis.ambiguity import SplitLabels
from roadworthy.analysis.observed import Observed
from roadworthy.measures.classification import accuracy, predicted


def cases(n: int = 200, *, groups: bool = False, silent: int = 0) -> Observed:
    rng = np.random.default_rng(4)
    labels = rng.dirichlet([0.5, 0.5, 0.2], n)
    outputs = rng.dirichlet([0.3, 0.3, 0.3], n)
    outputs[:silent] = np.nan
    truth = labels.argmax(axis=1)
    scored = accuracy(outputs, truth)
    return Observed(
        "between", None, np.arange(n).astype(object),
        np.repeat(np.arange(n // 20), 20) if groups else None,
        scored, scored.failure, np.isnan(outputs[:, 0]),
        predicted=predicted(outputs), truth=truth, outputs=outputs, label_probabilities=labels,
    )  # fmt: skip


def test_confident_answers_are_counted_among_split_labels_alone() -> None:
    here = cases()
    sure = [
        p.max() >= 0.9
        for p, label in zip(here.outputs, here.label_probabilities, strict=True)
        if label.max() <= 0.75
    ]
    found = SplitLabels(here).evidence("overconfident")
    assert (found.value, found.n) == (pytest.approx(np.mean(sure)), len(sure))
    assert found.better == "lower"


def test_nine_tenths_in_single_precision_are_nine_tenths() -> None:
    here = cases()
    outputs = np.tile(np.float32([0.9, 0.1, 0.0]), (len(here), 1))
    found = SplitLabels(replace(here, outputs=outputs)).evidence("overconfident")
    assert found.value == 1.0


def test_nothing_is_said_of_confidence_if_no_label_is_split() -> None:
    here = cases()
    certain = here.take(here.label_probabilities.max(axis=1) > 0.75)
    assert SplitLabels(certain).evidence("overconfident").reason == "no label is split"


def test_calibration_compares_with_the_labels_bin_by_bin_and_silence_counts_in_full() -> None:
    here = cases(silent=7)
    bins: dict[int, list[tuple[float, float]]] = {}
    for p, label in zip(here.outputs[7:], here.label_probabilities[7:], strict=True):
        bins.setdefault(min(int(p.max() * 10), 9), []).append((p.max(), label[p.argmax()]))
    found, error = SplitLabels(here).calibration()
    expected = [(*np.mean(bins[k], axis=0), len(bins[k])) for k in sorted(bins)]
    np.testing.assert_allclose([tuple(b) for b in found], expected)
    gaps = sum(len(v) * abs(np.subtract(*np.mean(v, axis=0))) for v in bins.values())
    assert error == pytest.approx((gaps + 7) / len(here))


def test_groups_widen_the_intervals() -> None:
    plain, grouped = cases(), cases(groups=True)
    for quantity in ("top_1", "top_pair", "label_distance", "overconfident"):
        one, other = (SplitLabels(c).evidence(quantity) for c in (plain, grouped))
        assert one.value == other.value
        assert (one.groups, other.groups is not None) == (None, True)
        low, high = other.interval(0.95, "two").low, other.interval(0.95, "two").high
        assert low <= one.value <= high
