"""The estimator of runtime risk against loops over rates, kinds, tilts and events, and its coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk import estimator as module
from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    Costs,
    accuracy_tree,
    base_tree,
    detector_tree,
)
from roadworthy.analysis.risk.tree import expectation

KINDS = {"clean": (0.0, 0.92), "fog": (2.0, 0.5), "snow": (1.4, 0.7)}


def rows_of(kind: np.ndarray, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two scores and outcomes: `doubt` also tells right from wrong."""
    gap = np.array([KINDS[k][0] for k in kind])
    right = rng.random(len(kind)) < [KINDS[k][1] for k in kind]
    energy, doubt = rng.normal(gap), rng.normal(0.5 * gap + 1.2 * ~right)
    return {"energy": energy, "doubt": doubt}, right


def learned(rows: int = 600, seed: int = 0, kinds: tuple[str, ...] = tuple(KINDS)) -> Calibration:
    rng = np.random.default_rng(seed)
    kind = np.repeat(kinds, rows)
    scores, right = rows_of(kind, rng)
    return fit_calibration(scores, kind, right)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return learned()


def window(
    calibration: Calibration, rate: float, rng: np.random.Generator, n: int = 100, of: str = "fog"
) -> tuple[np.ndarray, np.ndarray]:
    kind = np.where(rng.random(n) < rate, of, "clean")
    scores, right = rows_of(kind, rng)
    return np.bincount(calibration.place(scores), minlength=calibration.cells), right


@pytest.fixture(scope="module")
def windows(calibration: Calibration) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.array([window(calibration, rate, rng)[0] for rate in (0.0, 0.2, 0.5, 1.0)])


def written_out(calibration: Calibration, counts: np.ndarray) -> tuple[float, float]:
    """Rate and accuracy by the formulas of the module's docstring, term by term."""
    table = calibration.table.astype(float)
    bins, cells = calibration.shift.bins, calibration.cells
    bin_of = [calibration.shift_bin(np.array([cell]))[0] for cell in range(cells)]
    histograms = []
    for k in range(len(calibration.kinds)):
        h = np.full(bins, 1.0 / bins)
        for cell in range(cells):
            h[bin_of[cell]] += table[k, :, cell].sum()
        histograms.append(h / h.sum())
    _, c_bins, d_bins, _ = calibration.shape

    def share(rows: np.ndarray, code: list[int]) -> np.ndarray:
        mean = (rows[0].sum() + 0.5) / (rows.sum() + 1.0)
        right, total = np.zeros(max(code) + 1), np.zeros(max(code) + 1)
        for cell in range(cells):
            right[code[cell]] += rows[0, cell]
            total[code[cell]] += rows[:, cell].sum()
        return np.array([(right[c] + 4.0 * mean) / (total[c] + 4.0) for c in code])

    if_clean = share(table[0], [cell // 2 // d_bins % c_bins for cell in range(cells)])
    sizes = table[1:].sum(axis=(1, 2))
    even = (table[1:] * (sizes.mean() / sizes)[:, None, None]).sum(axis=0)
    if_shifted = share(even, [cell // 2 % d_bins for cell in range(cells)])
    n = counts.sum()
    rows = min(table[0].sum(), 1.0 / np.mean(1.0 / sizes))
    steps = module.RATES - 1
    total = rate_sum = right_sum = 0.0
    logs, points = [], []
    for g in range(module.RATES):
        rate = math.sin(g / steps * math.pi / 2) ** 2
        prior = 0.8 / steps * (0.5 if g in (0, steps) else 1.0) + (0.1 if g in (0, steps) else 0.0)
        for kind in histograms[1:]:
            for t in module.TILTS:
                tilted = kind * (kind / histograms[0]) ** (t / 3.0)
                tilted /= tilted.sum()
                mixed = (1.0 - rate) * histograms[0] + rate * tilted
                log = math.log(prior) - 0.5 * (t / 0.5) ** 2
                right = 0.0
                for cell in np.flatnonzero(counts):
                    b = bin_of[cell]
                    log += counts[cell] * math.log(mixed[b]) / (1.0 + n / rows)
                    q = rate * tilted[b] / mixed[b]
                    right += counts[cell] * ((1.0 - q) * if_clean[cell] + q * if_shifted[cell])
                logs.append(log)
                points.append((rate, right / n))
    top = max(logs)
    for log, (rate, right) in zip(logs, points, strict=True):
        weight = math.exp(log - top)
        total, rate_sum, right_sum = (
            total + weight,
            rate_sum + weight * rate,
            right_sum + weight * right,
        )
    return rate_sum / total, right_sum / total


def test_rate_and_accuracy_are_those_of_the_formulas_written_out(calibration, windows, monkeypatch):
    monkeypatch.setattr(module, "OPINION", 0.0)
    found = Estimator(calibration, accuracy_tree()).estimate(windows)
    for i in (0, 1, 3):
        rate, accuracy = written_out(calibration, windows[i])
        assert found.rate[i] == pytest.approx(rate, abs=1e-9)
        assert found.accuracy[i] == pytest.approx(accuracy, abs=1e-9)


def test_the_second_opinion_moves_the_accuracy_towards_what_confidence_shows(calibration):
    """Events that look clean by their shift score, but unsure: no calibrated kind explains them."""
    rng = np.random.default_rng(3)
    scores, _ = rows_of(np.repeat("clean", 400), rng)
    sure = Estimator(calibration, accuracy_tree())
    assert sure._trust > 0.3
    unsure = dict(scores, doubt=np.quantile(scores["doubt"], rng.uniform(0.8, 1.0, 400)))
    counts = [
        np.bincount(calibration.place(s), minlength=calibration.cells) for s in (scores, unsure)
    ]
    opinion = sure._read(*sure._windows(np.array(counts), 1.0, 1.0)).opinion
    assert abs(opinion[0]) < 0.02 and opinion[1] < -0.01
    with_it = sure.estimate(np.array(counts))
    assert with_it.accuracy[1] < with_it.accuracy[0] - 0.1


@pytest.mark.parametrize(
    "tree",
    [base_tree(POLYP_COSTS), detector_tree(Costs(1.0, 40.0, 8.0, 5.0)), accuracy_tree()],
    ids=["base", "detector", "accuracy"],
)
def test_one_estimate_says_the_same_in_all_its_figures(calibration, windows, tree):
    limit = float(np.mean(Estimator(calibration, tree).estimate(windows).risk))
    estimator = Estimator(calibration, tree, tolerable=limit)
    found = estimator.estimate(windows)
    odds = estimator.odds(windows)
    assert odds.above == pytest.approx(found.log_odds, abs=1e-9)
    for i, counts in enumerate(windows):
        given = estimator.parameters(counts)
        assert expectation(tree, given) == pytest.approx(found.risk[i], rel=1e-6)
        if found.risk_low[i] > limit:
            assert found.exceedance[i] > 0.9
        if found.risk_high[i] < limit:
            assert found.exceedance[i] < 0.1
        alone = estimator.estimate(counts)
        assert alone.risk_low[0] == pytest.approx(found.risk_low[i], rel=1e-9)
    for name in ("rate", "accuracy", "risk"):
        value, low, high = (getattr(found, name + end) for end in ("", "_low", "_high"))
        assert (low <= value).all() and (value <= high).all()


def test_what_each_cell_means_adds_up_to_the_estimate(calibration, windows, monkeypatch):
    monkeypatch.setattr(module, "OPINION", 0.0)
    estimator = Estimator(calibration, accuracy_tree())
    for counts in windows:
        belief = estimator.believe(counts)
        found = estimator.estimate(counts)
        assert counts @ belief / counts.sum() == pytest.approx(found.accuracy[0])
        assert found.risk[0] == pytest.approx(1.0 - found.accuracy[0])


@given(st.data())
@settings(max_examples=15)
def test_any_counts_give_finite_figures_within_their_bounds(calibration, data):
    cells = calibration.cells
    counts = np.zeros(cells)
    for cell in data.draw(st.lists(st.integers(0, cells - 1), max_size=8)):
        counts[cell] += data.draw(st.floats(0.0, 1e6))
    shrink = data.draw(st.floats(1e-3, 1.0))
    filled = data.draw(st.floats(0.0, 1.0))
    found = Estimator(calibration, accuracy_tree(), tolerable=0.2, prior=(1.0, 19.0)).estimate(
        counts, shrink=shrink, filled=filled
    )
    for name in ("rate", "accuracy", "risk"):
        low, value, high = (getattr(found, name + end)[0] for end in ("_low", "", "_high"))
        assert 0.0 <= low <= value <= high <= 1.0
    assert 0.0 <= found.exceedance[0] <= 1.0 and math.isfinite(found.log_odds[0])


def test_counts_of_very_different_size_leave_every_share_a_share(calibration):
    """Right answers to few clean events are a difference of large numbers."""
    rng = np.random.default_rng(0)
    windows = np.zeros((96, calibration.cells))
    for row in windows:
        row[rng.integers(0, calibration.cells, 5)] = 10.0 ** rng.uniform(-3.0, 6.0, 5)
    tree = detector_tree(POLYP_COSTS)
    found = Estimator(calibration, tree, tolerable=1925.0).estimate(windows)
    low, high = tree.costs
    assert (low <= found.risk_low).all() and (found.risk_high <= high).all()
    assert ((found.exceedance >= 0.0) & (found.exceedance <= 1.0)).all()


def test_before_any_event_the_prior_speaks_and_less_as_a_window_fills(calibration):
    estimator = Estimator(calibration, accuracy_tree(), prior=(1.0, 19.0))
    nothing = np.zeros(calibration.cells)
    empty = estimator.estimate(nothing, filled=0.0)
    assert empty.rate[0] == pytest.approx(0.05, abs=0.003)
    assert "no event" in empty.no_estimate[0]
    shifted, _ = window(calibration, 1.0, np.random.default_rng(1), n=30)
    rates = [estimator.estimate(shifted, filled=f).rate[0] for f in (0.1, 0.5, 1.0)]
    assert rates == sorted(rates)
    plain = Estimator(calibration, accuracy_tree()).estimate(shifted).rate[0]
    assert rates[-1] == pytest.approx(plain, abs=1e-12)


def test_long_windows_do_not_outgrow_the_calibration_rows(calibration):
    """A million events prove no more than the rows they are compared with."""
    counts, _ = window(calibration, 0.3, np.random.default_rng(2), n=2000)
    estimator = Estimator(calibration, accuracy_tree())
    short, long = (estimator.estimate(counts * factor) for factor in (1.0, 1000.0))
    for name in ("rate", "accuracy"):
        width = [
            getattr(e, f"{name}_high")[0] - getattr(e, f"{name}_low")[0] for e in (short, long)
        ]
        assert width[1] > 0.5 * width[0]


def test_fewer_independent_events_widen_every_interval(calibration, windows):
    estimator = Estimator(calibration, accuracy_tree())
    all_of_them, few = (estimator.estimate(windows[1], shrink=s) for s in (1.0, 0.1))
    for name in ("rate", "accuracy"):
        assert getattr(few, f"{name}_low")[0] <= getattr(all_of_them, f"{name}_low")[0]
        assert getattr(few, f"{name}_high")[0] >= getattr(all_of_them, f"{name}_high")[0]


def test_more_that_is_tolerable_is_exceeded_less(calibration, windows):
    limits = np.linspace(0.0, 1.0, 11)
    found = [
        Estimator(calibration, accuracy_tree(), tolerable=t).estimate(windows[2]).exceedance[0]
        for t in limits
    ]
    assert found == sorted(found, reverse=True) and found[0] > 0.999 and found[-1] < 1e-6


def test_a_forecast_is_what_the_counts_cost_kinds_even(calibration):
    estimator = Estimator(calibration, accuracy_tree())
    clean, fog, snow = (calibration.accuracy(kind) for kind in calibration.kinds)
    for rate in (0.0, 0.3, 1.0):
        value, low, high = estimator.forecast(rate)
        expected = 1.0 - ((1.0 - rate) * clean + rate * (fog + snow) / 2.0)
        assert value == pytest.approx(expected, abs=0.005)
        assert low <= value <= high
    assert high - low > 0.3  # of nothing but shift of a new kind


def test_constants_are_probabilities_or_counts(calibration):
    from roadworthy.analysis.risk.tree import Tree

    tree = Tree.from_dict(
        {
            "unit": "EUR",
            "event": "shift",
            "branches": {
                "shifted": {
                    "p": "p_shift",
                    "then": {
                        "event": "noticed",
                        "branches": {
                            "yes": {"p": "p_noticed", "then": {"outcome": "stop", "cost": 10}},
                            "no": {"then": {"outcome": "harm", "cost": 100}},
                        },
                    },
                },
                "clean": {"then": {"outcome": "well", "cost": 0}},
            },
        }
    )
    counts = np.bincount([0] * 50, minlength=calibration.cells)
    by_number = Estimator(calibration, tree, constants={"p_noticed": 0.75}).estimate(counts)
    by_counts = Estimator(calibration, tree, constants={"p_noticed": (14.5, 19.0)}).estimate(counts)
    assert by_number.risk[0] == pytest.approx(by_counts.risk[0])
    for wrong in ({}, {"p_noticed": 1.5}, {"p_noticed": 0.5, "p_shift": 0.1}):
        with pytest.raises(ValueError, match=r"p_noticed|p_shift"):
            Estimator(calibration, tree, constants=wrong)


def coverage(rows: int, n: int, of: str, kinds: tuple[str, ...], tries: int = 400) -> np.ndarray:
    """How often intervals of rate, accuracy and risk held the truth, over calibrations and windows."""
    held = np.zeros((tries, 3), dtype=bool)
    for i in range(tries):
        rng = np.random.default_rng([7, rows, n, i])
        if i % 8 == 0:
            calibration = learned(rows, seed=1000 + i, kinds=kinds)
        rate = rng.choice([0.0, 0.1, 0.3, 0.6, 1.0])
        counts, right = window(calibration, rate, rng, n, of)
        found = Estimator(calibration, accuracy_tree()).estimate(counts)
        cost = 1.0 - ((1.0 - rate) * KINDS["clean"][1] + rate * KINDS[of][1])
        truth = (rate, right.mean(), cost)
        for j, name in enumerate(("rate", "accuracy", "risk")):
            low, high = getattr(found, f"{name}_low")[0], getattr(found, f"{name}_high")[0]
            held[i, j] = low - 1e-9 <= truth[j] <= high + 1e-9
    return held.mean(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [100, 600])
@pytest.mark.parametrize("n", [100, 1000])
def test_intervals_hold_on_calibrated_kinds(rows, n):
    """Not below the nominal 95% by a one-sided binomial test at 1% (0.922 of 400)."""
    rate, accuracy, risk = coverage(rows, n, "fog", ("clean", "fog", "snow"))
    assert rate >= 0.922 and accuracy >= 0.922 and risk >= 0.922


@pytest.mark.slow
def test_intervals_of_accuracy_and_cost_hold_on_a_kind_that_was_not_calibrated():
    _, accuracy, risk = coverage(600, 100, "fog", ("clean", "snow"))
    assert accuracy >= 0.922 and risk >= 0.922
