"""When a monitor says that it no estimate: against rank statistics, counted cuts, and simulations of what it should not doubt."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, mannwhitneyu

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.refusal import separation


def made(
    *,
    gaps: dict[str, tuple[float, ...]],
    rows: dict[str, int] | int = 500,
    seed: int = 0,
    right: float = 0.8,
) -> Calibration:
    """Normal scores; every kind moves every score by its gap."""
    rng = np.random.default_rng(seed)
    columns, kind = [], []
    for name, gap in {"clean": (0.0,) * len(next(iter(gaps.values()))), **gaps}.items():
        n = rows if isinstance(rows, int) else rows[name]
        columns.append(rng.normal(gap, 1.0, (n, len(gap))))
        kind += [name] * n
    table = np.concatenate(columns)
    return fit_calibration(
        {f"s{j}": table[:, j] for j in range(table.shape[1])}, kind, rng.random(len(kind)) < right
    )


def counted(calibration: Calibration, scores: np.ndarray) -> np.ndarray:
    cells = calibration.place({f"s{j}": scores[:, j] for j in range(scores.shape[1])})
    return np.bincount(cells, minlength=calibration.cells)


def test_separation_is_that_of_the_bins():
    calibration = made(
        gaps={"blur": (0.8, 0.3), "fog": (1.5, 0.2)}, rows={"clean": 700, "blur": 300, "fog": 90}
    )
    bins = calibration.by_bin(calibration.table.sum(axis=1)).astype(int)
    clean, *shifted = (np.repeat(np.arange(bins.shape[1]), row) for row in bins)
    areas = [mannwhitneyu(s, clean).statistic / (len(s) * len(clean)) for s in shifted]
    found = separation(calibration)
    assert found.auc == pytest.approx(np.mean(areas), abs=1e-12)
    a, n0, n1 = (
        found.auc,
        700,
        4 / (1 / 300 + 1 / 90),
    )  # as many as tell a mean of two kinds equally well
    variance = (
        a * (1 - a) + (n1 - 1) * (a / (2 - a) - a * a) + (n0 - 1) * (2 * a * a / (1 + a) - a * a)
    )
    by_chance = (n0 + n1 + 1) / (12 * n0 * n1)
    assert found.error == pytest.approx(math.sqrt(max(variance / (n0 * n1), by_chance)), abs=1e-12)
    cuts = [
        (np.mean([(s >= cut).mean() for s in shifted]), (clean < cut).mean())
        for cut in range(1, calibration.shift.bins)
    ]
    best = max(range(len(cuts)), key=lambda i: sum(cuts[i]))
    assert (found.tpr, found.tnr) == pytest.approx(cuts[best], abs=1e-12) and found.cut == best + 1


def test_scores_that_do_not_separate_are_told_of():
    calibration = made(gaps={"fog": (0.0,)}, rows=400)
    found = Estimator(calibration, accuracy_tree()).estimate(calibration.table.sum(axis=(0, 1)))
    assert "do not separate shifted from clean cases (AUC" in str(found.no_estimate[0])


def test_scores_that_may_separate_are_not_said_to_tell_nothing_where_rows_are_too_few_to_say():
    rng = np.random.default_rng(0)
    scores, kind = (
        np.concatenate([rng.normal(size=300), [5.0, 5.0, 5.0]]),
        np.repeat(["clean", "fog"], [300, 3]),
    )
    calibration = fit_calibration({"a": scores}, kind, np.arange(303) < 270)
    found = separation(calibration)
    assert found.auc == 1.0 and not found.enough and found.too_few
    said = (
        Estimator(calibration, accuracy_tree())
        .estimate(calibration.table.sum(axis=(0, 1)))
        .no_estimate[0]
    )
    assert (
        said
        == "too few calibration rows to say whether the scores separate anything (AUC 1.00 ± 0.50)"
    )
    many = separation(made(gaps={"fog": (0.0,)}, rows=400))
    assert not many.enough and not many.too_few


def test_one_bin_separates_nothing():
    rng = np.random.default_rng(0)
    calibration = fit_calibration(
        {"a": np.zeros(200)}, np.repeat(["clean", "fog"], 100), rng.random(200) < 0.5
    )
    found = separation(calibration)
    assert (
        not found.enough
        and found.auc == 0.5
        and found.cut == 1
        and (found.tpr, found.tnr) == (0.0, 1.0)
    )
    said = Estimator(calibration, accuracy_tree()).estimate(calibration.table.sum(axis=(0, 1)))
    assert "AUC 0.50" in str(said.no_estimate[0]) and said.strangeness[0] > 0.5


def test_the_error_of_the_area_grows_with_a_small_kind_but_not_with_one_that_says_nothing():
    gaps = {"blur": (1.0,), "fog": (1.0,)}
    many, few, hardly = (
        separation(made(gaps=gaps, rows={"clean": 300, "blur": 300, "fog": fog})).error
        for fog in (300, 12, 3)
    )
    assert few > 2 * many and hardly < 1.5 * many


def estimator() -> Estimator:
    return Estimator(made(gaps={"blur": (1.0, 0.5), "fog": (2.0, 0.2)}, rows=800), accuracy_tree())


def test_events_that_no_mixture_explains_are_strange():
    found = estimator()
    rng = np.random.default_rng(1)
    bins = found.calibration.shift.bins
    cells = np.arange(found.calibration.cells).reshape(bins, -1)
    # Everything in one bin in the middle: neither clean nor shifted events do that.
    window = np.zeros((2, found.calibration.cells))
    window[0, rng.choice(cells[bins // 2][::2], 150)] = 1.0
    window[0, cells[bins // 2][0]] += 100
    # The same number of events in every other bin.
    window[1, cells[::2, 0]] = 40
    said = found.estimate(window)
    assert all("no calibrated condition" in str(word) for word in said.no_estimate)
    assert (said.strangeness < 1e-6).all()


def test_scores_that_no_row_had_are_strange():
    found = estimator()
    scores = np.random.default_rng(1).normal(0.0, 1.0, (200, 2))
    scores[:60, 1] = -40.0
    said = found.estimate(counted(found.calibration, scores))
    assert said.no_estimate[0] == "30.0% of the events have a score outside the calibrated range"
    # As correlated events they say less.
    assert found.estimate(counted(found.calibration, scores), shrink=0.05).no_estimate[0] is None


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_windows_of_what_was_calibrated_are_not_strange(n):
    found = estimator()
    rng = np.random.default_rng(n)
    windows = []
    for gap in ((0.0, 0.0), (1.0, 0.5), (2.0, 0.2)):
        for rate in (0.0, 0.3, 1.0):
            shifted = rng.random((n, 1)) < rate
            windows.append(counted(found.calibration, rng.normal(np.where(shifted, gap, 0.0))))
    said = found.estimate(np.array(windows))
    assert said.no_estimate == (None,) * 9 and (said.strangeness > 1e-4).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_was_calibrated_is_seldom_called_strange(seed):
    rng = np.random.default_rng([seed, 7])
    flagged = windows = 0
    for world in range(25):
        kinds = int(rng.integers(1, 6))
        gaps = {f"k{i}": tuple(rng.normal(1.0, 0.5, 2)) for i in range(kinds)}
        rows, n = int(rng.choice([200, 500, 2000])), int(rng.choice([50, 100, 1000]))
        found = Estimator(
            made(gaps=gaps, rows=rows, seed=int(rng.integers(2**31)) + world), accuracy_tree()
        )
        if not found.separation.enough:
            continue
        rates, which = rng.choice([0.0, 0.1, 0.5, 1.0], 150), rng.integers(0, kinds, 150)
        counts = []
        for rate, one in zip(rates, which, strict=True):
            shifted = rng.random((n, 1)) < rate
            counts.append(
                counted(found.calibration, rng.normal(np.where(shifted, gaps[f"k{one}"], 0.0)))
            )
        said = found.estimate(np.array(counts))
        flagged += sum(word is not None for word in said.no_estimate)
        windows += 150
    # Refuted where more than one in ten thousand would be an accident of one in a thousand.
    assert windows > 1500 and binomtest(flagged, windows, 1e-4, alternative="greater").pvalue > 1e-3


def test_a_window_that_is_mostly_unheard_of_is_not_told_however_alike_its_events_are():
    rng = np.random.default_rng(0)
    shifted = np.repeat([0, 1], 500)
    kind, right = np.where(shifted, "fog", "clean"), rng.random(1000) < 0.8
    calibration = fit_calibration({"energy": rng.normal(2.5 * shifted)}, kind, right)
    estimator = Estimator(calibration, accuracy_tree())
    window = np.bincount(
        calibration.place({"energy": np.full(100, 99.0)}), minlength=calibration.cells
    )
    assert "outside the calibrated range" in str(
        estimator.estimate(window, shrink=0.02).no_estimate[0]
    )


@pytest.mark.parametrize(("clean", "shifted"), [(5, 5), (200, 5), (200, 10), (1, 300)])
def test_scores_that_tell_nothing_do_not_separate_by_chance(clean, shifted):
    found = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, clean, shifted])
        kind = np.repeat(["clean", "fog"], [clean, shifted])
        made = fit_calibration(
            {"energy": rng.normal(size=len(kind))}, kind, rng.random(len(kind)) < 0.7
        )
        found += separation(made).enough
    assert found <= 3
