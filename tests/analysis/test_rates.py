from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from roadworthy.analysis import calibration
from roadworthy.analysis.risk.rates import (
    SPREAD,
    Calibrated,
    CannotTell,
    Rates,
    alarm_counts,
    share_variance,
)
from roadworthy.analysis.risk.rates import rogan_gladen as estimators
from roadworthy.analysis.risk.rates.batches import batch_rate, mixed_batch_rate
from roadworthy.statistics.posterior import densest

GOOD = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})
BINS = Calibrated.from_table(
    {"clean": [200, 120, 60, 20], "fog": [20, 60, 120, 200], "snow": [40, 80, 90, 190]}
)
PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "pra-scores"
calibrations = st.tuples(
    st.integers(30, 300), st.integers(0, 25), st.integers(0, 25), st.integers(30, 300)
).map(lambda n: Calibrated.from_table({"clean": n[:2], "fog": n[2:]}))
window = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
ESTIMATORS = {
    "mean": lambda k, n: mean_rate(k, n),
    "rogan_gladen": lambda k, n: rogan_gladen(k, n, GOOD),
    "fallback": lambda k, n: paper_fallback_rate(k, n, GOOD),
}


def mean_rate(k, n) -> Rates:
    return estimators.mean_rate(alarm_counts(k, n), GOOD)


def rogan_gladen(k, n, calibrated: Calibrated) -> Rates:
    return estimators.rogan_gladen(alarm_counts(k, n), calibrated)


def paper_fallback_rate(k, n, calibrated: Calibrated) -> Rates:
    return estimators.paper_fallback_rate(alarm_counts(k, n), calibrated)


def seen(calibrated: Calibrated) -> Calibrated:
    """The same rows, for streams of the one kind that was calibrated."""
    known = replace(calibrated)
    known.__dict__["spread"] = 0.0
    return known


# What every estimator keeps


@pytest.mark.parametrize("name", ESTIMATORS)
def test_many_windows_at_once_equal_each_alone(name) -> None:
    estimate, k, n = ESTIMATORS[name], np.array([[0, 3, 50], [99, 100, 17]]), 100
    together = estimate(k, np.full(k.shape, n))
    assert together.value.shape == together.low.shape == together.high.shape == k.shape
    for i in np.ndindex(k.shape):
        alone = estimate(int(k[i]), n)
        assert [float(alone.value), float(alone.low), float(alone.high)] == pytest.approx(
            [together.value[i], together.low[i], together.high[i]], abs=1e-12
        )
        assert np.all(alone.outside == np.broadcast_to(together.outside, k.shape)[i])


@pytest.mark.parametrize("name", ESTIMATORS)
@given(window)
def test_a_rate_and_its_interval_are_shares_and_in_order(name, counts) -> None:
    rate = ESTIMATORS[name](*counts)
    assert 0.0 <= rate.low <= rate.value <= rate.high <= 1.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_window_without_events_excludes_no_rate(name) -> None:
    rate = ESTIMATORS[name](0, 0)
    assert rate.low <= 0.03 and rate.high >= 0.97


# Verdicts


@given(window)
def test_the_mean_has_wilsons_interval(counts) -> None:
    rate = mean_rate(*counts)
    expected = binomtest(*counts).proportion_ci(method="wilson")
    assert rate.value == counts[0] / counts[1]
    assert [float(rate.low), float(rate.high)] == pytest.approx(
        [expected.low, expected.high], abs=1e-9
    )


@given(st.floats(0.0, 1.0), calibrations)
def test_rogan_gladen_gives_back_the_rate_that_made_the_expected_alarms(rate, calibrated) -> None:
    alarms = 1000 * (rate * calibrated.tpr + (1 - rate) * calibrated.fpr)
    assert float(rogan_gladen(alarms, 1000, calibrated).value) == pytest.approx(rate, abs=1e-9)


@given(window, calibrations, st.booleans())
def test_the_score_interval_holds_exactly_the_rates_that_the_alarms_do_not_contradict(
    counts, calibrated, new
) -> None:
    k, n = counts
    calibrated = calibrated if new else seen(calibrated)
    rate = rogan_gladen(k, n, calibrated)
    p = np.linspace(0.0, 1.0, 2001)
    t = calibrated.fpr + p * (calibrated.tpr - calibrated.fpr)
    variance = (
        t * (1 - t) / n
        + p**2 * calibrated.tpr_variance
        + (1 - p) ** 2 * share_variance(calibrated.clean)
    )
    held = p[(k / n - t) ** 2 <= 1.959964**2 * variance]
    if (rate.low, rate.high) == (0.0, 1.0):  # or TPR and FPR may be the same
        return
    if len(held) > 1 and held[0] <= rate.value <= held[-1] and np.all(np.diff(held) < 0.001):
        assert [float(rate.low), float(rate.high)] == pytest.approx([held[0], held[-1]], abs=1e-3)


def test_paper_mode_is_the_authors_arithmetic() -> None:
    found = paper_fallback_rate([5, 45, 90], 100, GOOD)
    assert found.value == pytest.approx([0.05, (0.45 - 0.1) / 0.7, 0.9])
    assert found.outside.tolist() == [True, False, True]


def test_a_detector_that_says_nothing_of_shift_is_refused_with_the_reason() -> None:
    useless = Calibrated.from_table({"clean": [50, 50], "fog": [60, 40]})
    for estimate in (
        lambda: rogan_gladen(4, 10, useless),
        lambda: paper_fallback_rate(4, 10, useless),
    ):
        with pytest.raises(CannotTell, match=r"TPR \+ TNR = 0.900 <= 1"):
            estimate()


def test_a_calibration_that_the_added_rows_turn_round_is_refused() -> None:
    # TPR 1 of five rows, FPR 0.9 of a thousand; with a row added to every bin 0.857 and 0.899: rates would fall with alarms.
    turned = Calibrated.from_table({"clean": [100, 900], "fog": [0, 5]})
    with pytest.raises(CannotTell, match=r"TPR \+ TNR = 0.958 <= 1"):
        rogan_gladen(90, 100, turned)


@given(
    st.lists(st.integers(0, 30), min_size=4, max_size=4).filter(lambda n: sum(n[:2]) and sum(n[2:]))
)
@example([100, 900, 0, 5])
def test_more_alarms_never_tell_a_lower_rate(rows) -> None:
    calibrated = Calibrated.from_table({"clean": rows[:2], "fog": rows[2:]})
    alarms = np.arange(0, 21, 4)
    try:
        found = rogan_gladen(alarms, 20, calibrated)
    except CannotTell:
        return
    assert (np.diff(found.value) >= -1e-6).all()


# New kinds of shift


def test_the_spread_of_several_kinds_is_their_own_and_of_one_the_default() -> None:
    assert GOOD.spread == SPREAD
    rows = 10**6
    kinds = {f"kind{i}": [(1 - t) * rows, t * rows] for i, t in enumerate((0.6, 0.7, 0.95))}
    several = Calibrated.from_table({"clean": [0.9 * rows, 0.1 * rows], **kinds})
    rates = np.array([0.6, 0.7, 0.95])
    m = rates.mean()
    by_default = (SPREAD * (np.log(m / (1 - m)) - np.log(0.1 / 0.9)) * m * (1 - m)) ** 2
    # The variance between kinds, predictive, with one more kind at the default.
    expected = (by_default + 2 * rates.var(ddof=1) * (1 + 1 / 3)) / 3
    assert several.tpr == pytest.approx(m) and several.tpr_variance == pytest.approx(
        expected, rel=1e-3
    )


def test_kinds_weigh_the_same_whatever_their_rows() -> None:
    calibrated = Calibrated.from_table({"clean": [900, 100], "fog": [10, 90], "snow": [5000, 5000]})
    assert calibrated.tpr == pytest.approx(0.7)


# Score bins


def test_the_densest_cells_hold_the_mass_and_an_end_where_it_is_likeliest() -> None:
    mass = np.diff(beta(0.5, 8.0).cdf(np.sin(np.arange(201) / 400 * np.pi) ** 2))
    low, high = densest(mass, 0.9)
    assert low == 0.0 and beta(0.5, 8.0).cdf(high) == pytest.approx(0.9, abs=0.02)


def test_the_draws_of_a_new_kind_lie_around_the_calibrated_shares() -> None:
    one = Calibrated.from_table({"clean": [200, 120, 60, 20], "fog": [20, 60, 120, 200]})
    known, new = (c.draw_shares(400, 0) for c in (seen(one), one))
    assert known[1].mean(axis=0) == pytest.approx(one.shifted_shares, abs=0.01)
    assert new[1].std(axis=0)[3] > 2 * known[1].std(axis=0)[3]
    assert new[0] == pytest.approx(known[0])


# Batches


def batched(rng, shares, shifted, size, *, mixed: bool) -> np.ndarray:
    """Windows x batches x bins: with `mixed` every event is shifted by itself, else whole batches are."""
    if mixed:
        rate = shifted.mean(axis=1)[:, None]
        chance = rate * shares[1] + (1 - rate) * shares[0]
        return np.stack([rng.multinomial(size, row, shifted.shape[1]) for row in chance])
    return np.stack([[rng.multinomial(size, shares[int(s)]) for s in row] for row in shifted])


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("rate", [0.26, 0.74])
def test_batches_are_estimated_better_by_what_reads_them_as_they_are(size, rate) -> None:
    rng = np.random.default_rng(4)
    shares = np.array([[0.5, 0.3, 0.15, 0.05], [0.05, 0.15, 0.3, 0.5]])
    calibrated = Calibrated(10_000 * shares[0], 10_000 * shares[1:])
    shifted = np.tile(np.arange(50) < 50 * rate, (8, 1))
    for mixed, reader, other in (
        (False, batch_rate, mixed_batch_rate),
        (True, mixed_batch_rate, batch_rate),
    ):
        counts = batched(rng, shares, shifted, size, mixed=mixed)
        right, wrong = reader(counts, calibrated), other(counts, calibrated)
        assert ((right.low <= rate) & (rate <= right.high)).mean() >= 7 / 8 and (
            right.high - right.low
        ).max() < 0.6
        assert np.abs(right.value - rate).mean() < np.abs(wrong.value - rate).mean()


@pytest.mark.parametrize("reader", [batch_rate, mixed_batch_rate])
def test_without_shift_batches_do_not_exclude_zero(reader) -> None:
    rng, calibrated = (
        np.random.default_rng(5),
        Calibrated.from_table({"clean": [700, 300], "fog": [300, 700]}),
    )
    found = reader(rng.multinomial(16, [0.7, 0.3], (200, 20)), calibrated)
    assert (found.low == 0.0).mean() >= 0.95


def test_batches_that_the_rows_do_not_fill_are_refused() -> None:
    calibrated = Calibrated.from_table({"clean": [70, 30], "fog": [30, 20]})
    with pytest.raises(CannotTell, match="the 50 calibration rows of fog fill no batch of 64"):
        batch_rate(np.full((1, 3, 2), 32.0), calibrated)


# Coverage


def simulated(
    estimate, draw_rate, *, bins: int, spread: float, kinds: int, trials: int, seed: int, new: bool
) -> int:
    """How many of so many intervals hold the rate; each trial has its own calibration, kinds and window."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(-1.0, 2.0, bins - 1)
    covered = 0
    for _ in range(trials):
        c = np.diff(np.r_[0.0, 1 / (1 + np.exp(-2 * edges)), 1.0])
        q = np.diff(np.r_[0.0, 1 / (1 + np.exp(-2 * (edges - 1.2))), 1.0])
        tilts = rng.normal(0, spread, kinds + 1) if kinds > 1 else np.r_[0.0, rng.normal(0, spread)]
        drawn = q * np.exp(tilts[:, None] * np.log(q / c))
        drawn /= drawn.sum(axis=1, keepdims=True)
        calibrated = Calibrated(
            rng.multinomial(300, c).astype(float),
            np.stack([rng.multinomial(200, one) for one in drawn[:-1]]).astype(float),
            tuple(f"kind{i}" for i in range(kinds)),
        )
        rate = draw_rate(rng)
        counts = rng.multinomial(100, rate * drawn[-1] + (1 - rate) * c)
        found = estimate(counts, calibrated if new else seen(calibrated))
        covered += float(found.low) - 1e-9 <= rate <= float(found.high) + 1e-9
    return covered


def by_verdicts(estimate):
    return lambda counts, calibrated: estimate(int(counts[1]), int(counts.sum()), calibrated)


def any_rate(rng: np.random.Generator) -> float:
    """No shift at all and nothing but shift are as common as the rest is wide."""
    return float(rng.choice([0.0, 1.0, *rng.random(4)]))


INTERVALS = {
    "score": (
        2,
        any_rate,
        by_verdicts(rogan_gladen),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("new, spread, count", [(False, 0.0, 1), (True, SPREAD, 1), (True, 0.3, 4)])
def test_intervals_cover_what_they_say(name, new, spread, count) -> None:
    bins, rates, estimate = INTERVALS[name]
    trials = 800
    covered = simulated(
        estimate, rates, bins=bins, spread=spread, kinds=count, trials=trials, seed=5, new=new
    )
    assert binomtest(covered, trials, 0.95, alternative="less").pvalue > 0.01, covered / trials


# The published scores of the paper


def published() -> dict[tuple[str, str], dict[str, np.ndarray]]:
    found: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for path in sorted(PUBLISHED.glob("*.csv.gz")):
        with gzip.open(path, "rt") as file:
            rows = [
                (row["fold"], float(row["score"]))
                for row in csv.DictReader(file)
                if row["fold"] != "train"
            ]
        folds, scores = np.array([f for f, _ in rows]), np.array([s for _, s in rows])
        found[tuple(path.name.split(".")[0].split("-"))] = {
            f: scores[folds == f] for f in np.unique(folds)
        }
    return found


def streams(folds: dict[str, np.ndarray], unseen: bool):
    """Calibration (clean, shifted) and stream (clean, shifted), higher riskier as far as the calibration knows."""
    rng = np.random.default_rng(0)
    kinds = [f for f in folds if not f.startswith("ind_")]
    halves = {k: np.split(rng.permutation(folds[k]), [len(folds[k]) // 2]) for k in kinds}
    pairs = (
        [(folds[a], folds[b]) for a, b in permutations(kinds, 2)]
        if unseen
        else list(halves.values())
    )
    for shifted, later in pairs:
        clean, clean_later = folds["ind_val"], folds["ind_test"]
        rank = np.searchsorted(np.sort(clean), shifted, "left") + np.searchsorted(
            np.sort(clean), shifted, "right"
        )
        sign = 1.0 if rank.mean() >= len(clean) else -1.0
        yield sign * clean, sign * shifted, sign * clean_later, sign * later


def measured(unseen: bool, repeats: int) -> dict[str, tuple[float, float]]:
    """By estimator, the mean absolute error of the rate and the coverage: over data sets of over detectors and folds."""
    sets: dict[str, dict[str, list[tuple[float, float]]]] = {}
    rates = np.repeat(np.linspace(0, 1, 11), repeats)
    for (data, _), folds in published().items():
        for clean, shifted, clean_later, later in streams(folds, unseen):
            rng = np.random.default_rng(1)
            moved = np.arange(100) < np.round(100 * rates)[:, None]
            drawn = [
                rows[rng.integers(len(rows), size=moved.shape)] for rows in (clean_later, later)
            ]
            scores = np.where(moved, drawn[1], drawn[0])
            for name, found in estimates(clean, shifted, scores).items():
                held = (found.low - 1e-9 <= rates) & (rates <= found.high + 1e-9)
                entry = float(np.abs(found.value - rates).mean()), float(held.mean())
                sets.setdefault(name, {}).setdefault(data, []).append(entry)
    return {
        n: tuple(np.mean([np.mean(v, axis=0) for v in by.values()], axis=0))
        for n, by in sets.items()
    }


def estimates(clean: np.ndarray, shifted: np.ndarray, scores: np.ndarray):
    threshold = calibration.at_balanced_accuracy(clean, shifted)
    risky = {kind: threshold.verdict(rows) for kind, rows in (("clean", clean), ("fog", shifted))}
    verdict = Calibrated.from_table({kind: [(~r).sum(), r.sum()] for kind, r in risky.items()})
    return {"rogan_gladen": rogan_gladen((scores > threshold.value).sum(axis=1), 100, verdict)}


@pytest.mark.skipif(
    not PUBLISHED.exists(),
    reason="the published scores of the paper lie beside the project, not in it",
)
@pytest.mark.parametrize("unseen, rogan_gladens", [(False, 0.108), (True, 0.168)])
def test_on_the_published_scores_rogan_gladen_errs_as_measured(unseen, rogan_gladens) -> None:
    assert measured(unseen, repeats=4)["rogan_gladen"][0] == pytest.approx(rogan_gladens, abs=0.01)
