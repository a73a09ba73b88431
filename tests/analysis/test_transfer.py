"""Estimates of a window against loops over draws, rates and events that are written out in plain Python."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest, kstest

from roadworthy.analysis.risk import draws as worlds
from roadworthy.analysis.risk import estimator as transfer
from roadworthy.analysis.risk import likely_worlds
from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.estimator import Estimates, Estimator
from roadworthy.analysis.risk.posteriors import Beta
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    accuracy_tree,
    base_tree,
    detector_tree,
    several_events,
)
from roadworthy.analysis.risk.tree import Tree, expectation

FIGURES = [name for name in Estimates.__dataclass_fields__ if name != "cannot_tell"]


def world(rows: int = 300, *, kinds: tuple[float, ...] = (1.0, 2.0), seed: int = 0) -> Calibration:
    """Two supervisors; the second alone says whether an answer is right."""
    rng = np.random.default_rng([seed, rows])
    gaps = np.repeat([0.0, *kinds], rows)
    columns, right = scores_of(gaps, rng)
    names = np.repeat(["clean", *[f"k{i}" for i in range(len(kinds))]], rows)
    return calibrate(columns, names, right)


def scores_of(
    gaps: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    second = rng.normal(0.3 * gaps)
    right = rng.random(len(gaps)) < 1.0 / (1.0 + np.exp(-(2.0 - 0.8 * gaps - 0.7 * second)))
    return {"first": rng.normal(gaps), "second": second}, right


def window_of(
    calibration: Calibration, n: int, rate: float, seed: int = 0, gap: float = 1.0
) -> np.ndarray:
    rng = np.random.default_rng([seed, n])
    columns, _ = scores_of(np.where(rng.random(n) < rate, gap, 0.0), rng)
    return np.bincount(calibration.place(columns), minlength=calibration.cells)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return world()


@pytest.fixture(scope="module")
def windows(calibration) -> np.ndarray:
    return np.stack(
        [
            window_of(calibration, n, r, i)
            for i, (n, r) in enumerate([(3, 0.5), (40, 0.0), (60, 0.4)])
        ]
    )


class Written:
    """The estimates of one window as loops: every event on its own, every draw and rate in turn."""

    def __init__(
        self,
        estimator: Estimator,
        counts: np.ndarray,
        *,
        prior=(0.5, 0.5),
        filled: float = 1.0,
        shrink: float = 1.0,
    ) -> None:
        self.estimator, self.calibration = estimator, estimator.calibration
        self.events = [
            cell for cell, count in enumerate(counts.tolist()) for _ in range(int(count))
        ]
        rates, made = estimator.rates.tolist(), estimator.draws
        ends = [0.0, *[(a + b) / 2 for a, b in pairwise(rates)], 1.0]
        mass, chosen = (
            [beta.cdf(b, *of) - beta.cdf(a, *of) for a, b in pairwise(ends)]
            for of in (likely_worlds.PRIOR, prior)
        )
        jeffreys = mass = [
            0.8 * m + (0.1 if i in (0, len(mass) - 1) else 0.0) for i, m in enumerate(mass)
        ]
        if prior != likely_worlds.PRIOR:
            mass = [
                m**filled * max(c, 1e-12) ** (1.0 - filled)
                for m, c in zip(mass, chosen, strict=True)
            ]
        likelihood, strange = (
            {
                (b, g): math.fsum(
                    math.log((1 - rate) * made.clean[b, s] + rate * shifted[b, s])
                    for s, _, _ in map(self.parts, self.events)
                )
                for b in range(len(made.clean))
                for g, rate in enumerate(rates)
            }
            for shifted in (made.shifted, made.strange)
        )
        # The window's events count for less than the rows that tell what it is a mixture of, at its likeliest rate.
        clean, *shifted = self.calibration.effective.tolist()
        kinds = len(shifted)
        at = rates[max(likelihood, key=lambda bg: likelihood[bg])[1]]
        rows = [
            1.0 / ((1.0 - r) ** 2 / clean + r**2 / (sum(shifted) / len(shifted))) for r in (at, 0.5)
        ]
        rows = min(rows)
        n = len(self.events)
        power = min(shrink, likely_worlds.MOST / n)
        power = power / (1.0 + power * n / rows)

        def logs_of(found: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
            logs = {
                (b, g): math.log(max(mass[g], 1e-12)) + power * v for (b, g), v in found.items()
            }
            # Which draw it is, so many events tell at most.
            told = min(1.0, likely_worlds.WORLDS / (power * n))
            best = {b: max(logs[b, g] for g in range(len(rates))) for b in range(len(made.clean))}
            return {(b, g): v - (1.0 - told) * best[b] for (b, g), v in logs.items()}

        logs, far = logs_of(likelihood), logs_of(strange)
        top = max(logs.values())
        whole = math.fsum(math.exp(v - top) for v in logs.values())
        self.weights = {at: math.exp(v - top) / whole for at, v in logs.items()}
        usual = {(b, g): w * made.usual[b] for (b, g), w in self.weights.items()}
        self.usual = {at: w / math.fsum(usual.values()) for at, w in usual.items()}
        # Of the rate: nine times in ten a kind like those calibrated, else a stranger, whose rates are even in a full window.
        allowed, told, priced = np.zeros((3, len(rates)))
        for (b, g), v in far.items():
            allowed[g] += math.exp(v - top)
            even = ((ends[g + 1] - ends[g]) / jeffreys[g]) ** filled
            told[g] += 0.1 * even * math.exp(v - top) + 0.9 * even ** (0.15 / kinds) * made.alike[
                b
            ] * math.exp(logs[b, g] - top)
            priced[g] += 0.1 * math.exp(v - top) + 0.9 * made.alike[b] * math.exp(logs[b, g] - top)
        self.allowed, self.told, self.priced = (
            found / found.sum() for found in (allowed, told, priced)
        )

    def parts(self, cell: int) -> tuple[int, int, int]:
        _, c, d, _ = self.calibration.shape
        return cell // (2 * c * d), cell // (2 * d) % c, cell // 2 % d

    def event(self, b: int, g: int, cell: int) -> tuple[float, float, float]:
        """Of one event: the probability that it is clean, and that it is right if clean, if shifted."""
        s, c, d = self.parts(cell)
        made, rate = self.estimator.draws, float(self.estimator.rates[g])
        if (
            made.cut is not None and s >= made.cut
        ):  # answers with an alarm are counted behind those without one
            c, d = c + self.calibration.right_clean.bins, d + self.calibration.right_shifted.bins
        clean = (1 - rate) * made.clean[b, s]
        return (
            clean / (clean + rate * made.shifted[b, s]),
            made.right_clean[b, c],
            made.right_shifted[b, d],
        )

    def mean_cost(self, b: int, g: int, costs) -> float:
        """The mean of the events' expected costs; `costs` of (detected, right)."""
        cut, total = self.estimator.separation.cut, 0.0
        for cell in self.events:
            clean, if_clean, if_shifted = self.event(b, g, cell)
            right = clean * if_clean + (1 - clean) * if_shifted
            detected = self.parts(cell)[0] >= cut
            total += right * costs(detected, True) + (1 - right) * costs(detected, False)
        return total / len(self.events)

    def accuracy_elsewhere(self, b: int, g: int) -> float:
        """The share of right answers where those to shifted events are moved, on the logit scale, as under another kind."""
        way, gain = float(worlds.ways(*self.size)[0][b, g]), self.estimator._sway.gain
        parts = [self.event(b, g, cell) for cell in self.events]
        shifted = math.fsum(1.0 - clean for clean, _, _ in parts)
        share = (
            math.fsum((1.0 - clean) * right for clean, _, right in parts) / shifted
            if shifted > 0
            else 0.0
        )
        moved = (
            0.0
            if share <= 0
            else 1.0 / (1.0 + (1.0 - share) / share * math.exp(-worlds.SWAY * way))
        )
        moved = min(moved / (1.0 + gain * (1.0 - share) * (1.0 - 2.0 * share)), 1.0)
        return (math.fsum(clean * right for clean, right, _ in parts) + shifted * moved) / len(
            parts
        )

    @property
    def size(self) -> tuple[int, int]:
        return len(self.estimator.draws.clean), len(self.estimator.rates)

    def mean(self, quantity, weights) -> float:
        return math.fsum(w * quantity(b, g) for (b, g), w in weights.items())

    def accuracy(self, weights) -> float:
        return 1.0 - self.mean(
            lambda b, g: self.mean_cost(b, g, lambda _, right: float(not right)), weights
        )


@pytest.mark.parametrize("shrink", [1.0, 0.3])
@pytest.mark.parametrize(
    ("prior", "filled"),
    [((0.5, 0.5), 0.5), ((1.0, 9.0), 0.0), ((1.0, 9.0), 0.4), ((1.0, 9.0), 1.0)],
)
def test_rate_accuracy_and_risk_are_those_of_loops_over_draws_rates_and_events(
    calibration, windows, prior, filled, shrink
):
    estimator = Estimator(
        calibration,
        base_tree({"right": 2.0, "wrong": 30.0}),
        tolerable=11.0,
        prior=prior,
        draws=7,
        rates=9,
    )
    found = estimator.estimate(windows, shrink=shrink, filled=filled)
    for i, counts in enumerate(windows):
        by_hand = Written(estimator, counts, prior=prior, filled=filled, shrink=shrink)
        rate = float(by_hand.told @ estimator.rates)
        accuracy = by_hand.accuracy(by_hand.usual)
        cost = {
            (b, g): by_hand.mean_cost(b, g, lambda _, right: 2.0 if right else 30.0)
            for b, g in by_hand.weights
        }
        risk = math.fsum(w * cost[at] for at, w in by_hand.usual.items())
        elsewhere = {at: 30.0 - 28.0 * by_hand.accuracy_elsewhere(*at) for at in by_hand.weights}
        over = math.fsum(w for at, w in by_hand.weights.items() if elsewhere[at] > 11.0)
        assert found.n[i] == counts.sum()
        assert found.rate[i] == pytest.approx(rate, abs=1e-9)
        assert found.accuracy[i] == pytest.approx(accuracy, abs=1e-9)
        assert found.risk[i] == pytest.approx(risk, abs=1e-9)
        assert found.exceedance[i] == pytest.approx(over, abs=1e-9)
        assert found.log_odds[i] == pytest.approx(math.log(over) - math.log1p(-over), abs=1e-6)


def test_the_tree_with_a_detector_is_the_mean_cost_of_the_events(calibration, windows):
    """Its parameters are conditional shares of the window, so that they multiply back to what each event costs."""
    estimator = Estimator(calibration, detector_tree(POLYP_COSTS), draws=5, rates=7)

    def costs(detected: bool, right: bool) -> float:
        if detected:
            return POLYP_COSTS.unnecessary if right else POLYP_COSTS.necessary
        return POLYP_COSTS.right if right else POLYP_COSTS.wrong

    found = estimator.estimate(windows)
    for i, counts in enumerate(windows):
        by_hand = Written(estimator, counts)
        expected = by_hand.mean(lambda b, g, w=by_hand: w.mean_cost(b, g, costs), by_hand.usual)
        assert found.risk[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("gap", "least"), [(2.0, 0.85), (2.5, 0.93), (3.5, 0.85)])
def test_the_interval_of_a_rate_holds_for_kinds_that_look_otherwise_than_the_one_calibrated(
    gap, least
):
    """By simulation: nearer to clean, and farther from it, than the only kind of the calibration."""
    rng = np.random.default_rng(int(10 * gap))
    held = []
    for seed in range(6):
        calibration = world(600, kinds=(2.5,), seed=seed)
        estimator = Estimator(calibration, accuracy_tree())
        rates = rng.random(30)
        rows = np.stack(
            [
                np.bincount(
                    calibration.place(scores_of(np.where(rng.random(100) < r, gap, 0.0), rng)[0]),
                    minlength=calibration.cells,
                )
                for r in rates
            ]
        )
        found = estimator.estimate(rows)
        held += [*((found.rate_low <= rates) & (rates <= found.rate_high)).tolist()]
    assert np.mean(held) >= least


def test_strangers_tell_rates_and_no_accuracies():
    """Weak supervisors: that a shift which looks clean may be all there is makes no clean window's cost vague."""
    calibration = world(1000, kinds=(1.0, 1.2), seed=51)
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3)
    rng = np.random.default_rng(0)
    shares = calibration.table.sum(axis=1)[0] / calibration.table[0].sum()
    found = estimator.estimate(
        np.array([rng.multinomial(100, shares) for _ in range(100)], dtype=float)
    )
    assert (found.rate_high == 1.0).any()
    unlikely = found.exceedance < 0.01
    assert unlikely.any() and (found.risk_high[unlikely] < 0.3).all()
    for name in ("rate", "accuracy", "risk"):
        low, value, high = (getattr(found, name + end) for end in ("_low", "", "_high"))
        assert ((low <= value) & (value <= high)).all(), name


def test_long_windows_count_for_no_more_than_stated(calibration):
    estimator = Estimator(calibration, accuracy_tree(), draws=5, rates=7)
    counts = window_of(calibration, 2500, 0.4)
    by_hand = Written(estimator, counts)
    assert estimator.estimate(counts).rate[0] == pytest.approx(
        float(by_hand.told @ estimator.rates), abs=1e-9
    )


def test_an_interval_of_the_rate_is_that_of_the_written_posterior(calibration, windows):
    estimator = Estimator(calibration, accuracy_tree(), draws=7, rates=9)
    found = estimator.estimate(windows, confidence=0.8)
    for i, counts in enumerate(windows):
        mass = Written(estimator, counts).allowed
        upto = np.concatenate([[0.0], np.cumsum(mass)])
        ends = np.array([0.0, *[(a + b) / 2 for a, b in pairwise(estimator.rates)], 1.0])
        low = 0.0 if mass[0] >= 0.1 else np.interp(0.1, upto, ends)
        high = 1.0 if mass[-1] >= 0.1 else np.interp(0.9, upto, ends)
        low, high = 0.0 if low < transfer.NONE else low, 1.0 if high > 1.0 - transfer.NONE else high
        assert (found.rate_low[i], found.rate_high[i]) == pytest.approx((low, high), abs=1e-9)


def test_an_estimate_does_not_depend_on_its_neighbours(calibration):
    estimator = Estimator(calibration, detector_tree(POLYP_COSTS), tolerable=2000.0)
    several = np.stack(
        [
            window_of(calibration, n, r, i)
            for i, (n, r) in enumerate([(100, 0.0), (2000, 0.0), (7, 0.5), (500, 1.0)] * 15)
        ]
    )
    together = estimator.estimate(several)
    order = np.random.default_rng(0).permutation(len(several))
    shuffled = estimator.estimate(several[order])
    for i in (0, 1, 2, 3, 50, 59):
        alone = estimator.estimate(several[i])
        for name in FIGURES:
            expected = getattr(together, name)[i]
            assert getattr(alone, name)[0] == pytest.approx(
                expected, rel=1e-9, abs=2e-5 if name == "log_odds" else 1e-9
            )
            assert getattr(shuffled, name)[np.argmax(order == i)] == pytest.approx(
                expected, rel=1e-9, abs=2e-5
            )
        assert alone.cannot_tell[0] == together.cannot_tell[i]


def test_log_odds_alone_are_those_of_the_estimate_however_unlikely(calibration):
    clear = calibrate(
        {
            "first": np.concatenate(
                [np.random.default_rng(i).normal(4.0 * i, 1.0, 1000) for i in (0, 1)]
            )
        },
        np.repeat(["clean", "fog"], 1000),
        np.random.default_rng(2).random(2000) < np.repeat([0.95, 0.3], 1000),
    )
    estimator = Estimator(clear, accuracy_tree(), tolerable=0.3)
    rng = np.random.default_rng(3)
    several = [
        np.bincount(
            clear.place({"first": rng.normal(4.0 * (rng.random(n) < r))}), minlength=clear.cells
        )
        for n in (20, 300)
        for r in (0.0, 0.05, 0.5, 1.0)
    ]
    found = np.array([estimator.estimate(w).log_odds[0] for w in several])
    assert found == pytest.approx(estimator.odds(several).above, abs=2e-5)
    assert found.min() < -25.0


def test_figures_lie_within_their_bounds_and_in_order(calibration):
    estimator = Estimator(calibration, base_tree({"right": -5.0, "wrong": 1e9}), tolerable=1e8)
    several = np.stack(
        [window_of(calibration, n, r) for n in (1, 30, 700) for r in (0.0, 0.5, 1.0)]
    )
    for confidence in (0.5, 0.95, 0.999):
        found = estimator.estimate(several, confidence=confidence)
        for name, least, greatest in (("rate", 0, 1), ("accuracy", 0, 1), ("risk", -5.0, 1e9)):
            low, high = getattr(found, name + "_low"), getattr(found, name + "_high")
            assert ((least <= low) & (low <= high) & (high <= greatest)).all()
            assert ((least <= getattr(found, name)) & (getattr(found, name) <= greatest)).all()
        assert ((found.exceedance >= 0) & (found.exceedance <= 1 + 1e-12)).all()


def test_what_is_tolerated_more_is_exceeded_less(calibration, windows):
    several = [
        Estimator(calibration, accuracy_tree(), tolerable=t, draws=40)
        for t in np.linspace(0.0, 1.0, 9)
    ]
    exceedance = np.stack([e.estimate(windows).exceedance for e in several])
    log_odds = np.stack([e.odds(windows).above for e in several])
    assert (np.diff(exceedance, axis=0) <= 1e-12).all() and (
        np.diff(log_odds, axis=0) <= 1e-9
    ).all()
    assert exceedance[0] == pytest.approx(1.0) and exceedance[-1] == pytest.approx(0.0)


def test_nothing_tolerable_means_no_exceedance(calibration, windows):
    found = Estimator(calibration, accuracy_tree(), draws=20).estimate(windows)
    assert np.isnan(found.exceedance).all() and np.isnan(found.log_odds).all()


@pytest.mark.parametrize("filled", [1.0, 0.2])
def test_belief_in_cells_adds_up_to_the_estimate(calibration, windows, filled):
    """It is weighed by the posterior alone: the same as estimates whose draws are all as usual as one another."""
    estimator = Estimator(
        calibration, accuracy_tree(), draws=30, rates=15, tilt=worlds.NEAR, prior=(9.0, 1.0)
    )
    assert (estimator.draws.usual == 1.0).all()
    found = estimator.estimate(windows, filled=filled)
    for i, counts in enumerate(windows):
        belief = estimator.believe(counts, filled=filled)
        assert counts @ belief.right / counts.sum() == pytest.approx(found.accuracy[i], abs=1e-9)
        assert counts @ (1.0 - belief.right) / counts.sum() == pytest.approx(
            found.risk[i], abs=1e-9
        )
        assert belief.right.shape == belief.shifted.shape == (calibration.cells,)
        assert (
            (belief.right >= 0)
            & (belief.right <= 1)
            & (belief.shifted >= 0)
            & (belief.shifted <= 1)
        ).all()
    by_hand = Written(estimator, windows[2], prior=(9.0, 1.0), filled=filled)
    belief, cell = estimator.believe(windows[2], filled=filled), by_hand.events[0]
    shifted = by_hand.mean(lambda b, g: 1.0 - by_hand.event(b, g, cell)[0], by_hand.weights)
    assert belief.shifted[cell] == pytest.approx(shifted, abs=1e-9)


def test_belief_with_unlike_draws_is_the_mean_over_the_posterior(calibration, windows):
    estimator = Estimator(calibration, accuracy_tree(), draws=6, rates=7)
    by_hand = Written(estimator, windows[1])
    belief = estimator.believe(windows[1])
    expected = by_hand.accuracy(by_hand.weights)
    assert windows[1] @ belief.right / windows[1].sum() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("make", [accuracy_tree, lambda: detector_tree(POLYP_COSTS)])
def test_a_forecast_lies_between_the_least_and_the_greatest_cost(calibration, make):
    tree = make()
    estimator = Estimator(calibration, tree, draws=50)
    found = [estimator.forecast(rate) for rate in (0.0, 0.01, 0.5, 1.0)]
    for risk, low, high in found:
        assert tree.costs[0] <= low <= risk <= high <= tree.costs[1]
    inner = estimator.forecast(0.5, confidence=0.5)
    assert found[2][1] <= inner[1] <= inner[2] <= found[2][2]


UNLIKE = {"clean": (0.0, 0.95), "a": (0.8, 0.9), "b": (1.5, 0.6), "c": (2.5, 0.2), "d": (4.0, 0.1)}
"""How far the scores of a kind lie from clean ones, and how often it is right."""


@pytest.fixture(scope="module")
def of_unlike_kinds() -> Calibration:
    rng, rows = np.random.default_rng(0), 4000
    gaps, right = (np.repeat(values, rows) for values in np.transpose(list(UNLIKE.values())))
    return calibrate(
        {"energy": rng.normal(gaps)}, np.repeat(list(UNLIKE), rows), rng.random(len(gaps)) < right
    )


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_a_forecast_is_what_the_counts_of_unlike_kinds_cost_in_even_parts(of_unlike_kinds, rate):
    of_answers = Estimator(of_unlike_kinds, accuracy_tree())
    of_alarms = Estimator(of_unlike_kinds, detector_tree(POLYP_COSTS))
    cut = of_alarms.separation.cut
    parts, (right, wrong) = [1.0 - rate, *[rate / 4] * 4], (0, 1)
    shares = np.zeros((2, of_unlike_kinds.shift.bins))
    for part, rows in zip(
        parts, of_unlike_kinds.folded(of_unlike_kinds.table).sum(axis=(3, 4, 5)), strict=True
    ):
        shares += part * rows / rows.sum()
    assert of_answers.forecast(rate)[0] == pytest.approx(shares[wrong].sum(), abs=0.001)
    costs = POLYP_COSTS
    by_hand = costs.right * shares[right, :cut].sum() + costs.wrong * shares[wrong, :cut].sum()
    by_hand += (
        costs.unnecessary * shares[right, cut:].sum() + costs.necessary * shares[wrong, cut:].sum()
    )
    assert of_alarms.forecast(rate)[0] == pytest.approx(by_hand, rel=0.001)


def test_the_interval_of_a_forecast_reaches_to_streams_of_the_best_and_of_the_worst_kind_alone(
    of_unlike_kinds,
):
    _, low, high = Estimator(of_unlike_kinds, accuracy_tree()).forecast(0.5)
    best, worst = (0.5 * 0.05 + 0.5 * (1.0 - UNLIKE[kind][1]) for kind in ("a", "d"))
    assert (low, high) == (pytest.approx(best, abs=0.01), pytest.approx(worst, abs=0.01))


def test_a_forecast_does_not_take_what_nobody_has_seen_for_impossible():
    shifted = np.repeat([0, 1], 200)
    scores = {"energy": np.random.default_rng(0).normal(2.0 * shifted)}
    calibration = calibrate(scores, np.where(shifted, "fog", "clean"), np.ones(400, dtype=bool))
    risk, low, high = Estimator(calibration, accuracy_tree()).forecast(0.2)
    assert risk == pytest.approx(0.5 / 201) and low < risk < high


def test_the_forecast_without_shift_is_the_clean_rows_own_risk():
    calibration = world(2000, kinds=(2.5,))
    risk, low, high = Estimator(calibration, accuracy_tree()).forecast(0.0)
    assert low < 1.0 - calibration.accuracy("clean") < high
    assert risk == pytest.approx(1.0 - calibration.accuracy("clean"), abs=0.01)


def test_an_empty_window_speaks_by_its_prior(calibration):
    for prior in ((0.5, 0.5), (1.0, 19.0)):
        estimator = Estimator(calibration, accuracy_tree(), tolerable=0.5, prior=prior)
        found = estimator.estimate(np.zeros(calibration.cells))
        mean = prior[0] / sum(prior)
        assert found.cannot_tell == ("no event with a score has come yet",) and found.n[0] == 0.0
        assert found.rate[0] == pytest.approx(mean, abs=0.01)
        assert found.risk[0] == pytest.approx(estimator.forecast(mean)[0], abs=0.05)
        assert found.accuracy[0] == pytest.approx(1.0 - found.risk[0], abs=1e-9)
        assert (found.accuracy_low[0], found.accuracy_high[0]) == (0.0, 1.0)
        assert found.log_odds == pytest.approx(
            estimator.odds(np.zeros(calibration.cells)).above, abs=1e-9
        )
        assert found.log_odds[0] < 1.0
    next_to_nothing = estimator.estimate(np.full(calibration.cells, 1e-18))
    assert next_to_nothing.risk == pytest.approx(found.risk)
    assert len(estimator.estimate(np.zeros((0, calibration.cells)))) == 0


def test_weights_are_read_as_counts(calibration, windows):
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3, draws=40)
    whole, parts = estimator.estimate(windows[2]), estimator.estimate(windows[2] * 0.25, shrink=1.0)
    assert (
        parts.n[0] == whole.n[0] / 4
        and parts.rate_high[0] - parts.rate_low[0] > whole.rate_high[0] - whole.rate_low[0]
    )
    less = estimator.estimate(windows[2], shrink=0.25)
    for name in (
        "rate",
        "rate_low",
        "rate_high",
        "accuracy",
        "risk",
        "risk_low",
        "risk_high",
        "exceedance",
    ):
        assert getattr(less, name)[0] == pytest.approx(getattr(parts, name)[0], abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_counts_and_shrink_give_finite_figures(calibration, data):
    estimator = ESTIMATORS.setdefault(
        "small", Estimator(calibration, accuracy_tree(), tolerable=0.3, draws=20)
    )
    cells = data.draw(st.lists(st.integers(0, calibration.cells - 1), max_size=5))
    counts = np.zeros(calibration.cells)
    for cell in cells:
        counts[cell] = data.draw(st.floats(0.0, 1e7))
    found = estimator.estimate(counts, shrink=data.draw(st.floats(1e-12, 1.0)))
    assert all(np.isfinite(getattr(found, name)).all() for name in FIGURES)
    assert 0.0 <= found.strangeness[0] <= 1.0


ESTIMATORS: dict[str, Estimator] = {}


def test_ten_million_events_are_estimated_like_their_shares(calibration):
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3)
    window = window_of(calibration, 5000, 0.3)
    some, many = estimator.estimate(window), estimator.estimate(window * 2000)
    assert many.n[0] == 1e7 and many.rate[0] == pytest.approx(some.rate[0], abs=1e-9)
    assert many.accuracy[0] == pytest.approx(some.accuracy[0], abs=1e-9)


def test_a_tree_that_no_stream_changes_has_its_own_cost(calibration, windows):
    tree = Tree.from_dict(
        {
            "event": "attack",
            "branches": {
                "yes": {"p": "p_attack", "then": {"outcome": "loss", "cost": 100}},
                "no": {"then": {"outcome": "none", "cost": 0}},
            },
        }
    )
    found = Estimator(
        calibration, tree, constants={"p_attack": 0.25}, tolerable=20.0, draws=20
    ).estimate(windows)
    assert found.risk == pytest.approx(25.0) and found.exceedance == pytest.approx(1.0)
    assert found.risk_low == pytest.approx(25.0, abs=0.25) and found.risk_high == pytest.approx(
        25.0, abs=0.25
    )
    certain = Tree.from_dict(
        {"event": "day", "branches": {"always": {"then": {"outcome": "fee", "cost": 3}}}}
    )
    found = Estimator(calibration, certain, draws=20).estimate(windows)
    for figure in (found.risk, found.risk_low, found.risk_high):
        assert figure == pytest.approx(3.0)
    drawn = np.linspace(0.1, 0.4, 20).reshape(20, 1, 1)
    found = Estimator(calibration, tree, constants={"p_attack": drawn}, draws=20).estimate(
        np.zeros(calibration.cells)
    )
    assert found.risk_low[0] == pytest.approx(10.0, abs=0.5) and found.risk_high[
        0
    ] == pytest.approx(40.0, abs=0.5)


@pytest.mark.parametrize("value", [Beta(2.0, 3.0), (3, 20), np.full(20, 0.5), "often", None, 1.5])
def test_constants_of_another_shape_are_refused(calibration, value):
    tree = Tree.from_dict(
        {
            "event": "attack",
            "branches": {
                "yes": {"p": "p_attack", "then": {"outcome": "loss", "cost": 100}},
                "no": {"then": {"outcome": "none", "cost": 0}},
            },
        }
    )
    with pytest.raises(ValueError, match="the constant p_attack must be a number"):
        Estimator(calibration, tree, constants={"p_attack": value}, draws=20)
    with pytest.raises(ValueError, match="parameters that no stream gives: p_attack"):
        Estimator(calibration, tree)


def test_what_is_no_window_is_refused(calibration):
    estimator = Estimator(calibration, accuracy_tree(), draws=5)
    good = np.ones(calibration.cells)
    for bad in (
        good[:-1],
        good * np.nan,
        -good,
        good * np.inf,
        np.ones((2, calibration.cells, 1)),
        3.0,
    ):
        with pytest.raises(ValueError, match="a window is a count"):
            estimator.estimate(bad)
    for shrink in (0.0, -1.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="shrink"):
            estimator.estimate(good, shrink=shrink)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="confidence"):
            estimator.estimate(good, confidence=confidence)
        with pytest.raises(ValueError, match="confidence"):
            estimator.forecast(0.5, confidence=confidence)
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate of shift"):
            estimator.forecast(rate)
    with pytest.raises(ValueError, match="one window was expected"):
        estimator.believe(np.stack([good, good]))
    with pytest.raises(ValueError, match="prior of the rate"):
        Estimator(calibration, accuracy_tree(), prior=(0.0, 1.0))


@pytest.mark.parametrize(
    "right",
    [np.zeros(120, bool), np.ones(120, bool), np.repeat([True, False, False], 40)],
    ids=["none", "all", "clean"],
)
def test_outcomes_that_never_vary_are_estimated(right):
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "blur", "fog"], 40)
    calibration = calibrate({"a": rng.normal(2.0 * (kind != "clean"))}, kind, right)
    found = Estimator(calibration, accuracy_tree(), tolerable=0.5).estimate(
        calibration.table.sum(axis=(0, 1))
    )
    assert found.accuracy[0] == pytest.approx(right.mean(), abs=0.1)


def test_draws_have_the_mean_of_the_counts(calibration):
    made = worlds.drawn(calibration, draws=4000, tilt=0.0)
    table = calibration.folded(calibration.table).astype(float)
    bins = table.sum(axis=(1, 3, 4, 5)) + 0.1
    shares = bins / bins.sum(axis=1, keepdims=True)
    assert made.clean == pytest.approx(np.tile(shares[0], (4000, 1)))
    assert made.shifted.mean(axis=0) == pytest.approx(shares[1:].mean(axis=0), abs=0.005)
    # Each draw is a mixture of the two kinds.
    part = (
        (made.shifted - shares[2]) @ (shares[1] - shares[2]) / ((shares[1] - shares[2]) ** 2).sum()
    )
    assert made.shifted == pytest.approx(
        part[:, None] * shares[1] + (1 - part[:, None]) * shares[2]
    )
    # Every other draw is of one kind alone, in turn.
    assert part[0::4] == pytest.approx(1.0) and part[2::4] == pytest.approx(0.0, abs=1e-9)
    assert kstest(part[1::2], beta(0.5, 0.5).cdf).pvalue > 0.01
    right, wrong = table[0].sum(axis=(1, 3, 4))
    mean = (right.sum() + 0.5) / (right.sum() + wrong.sum() + 1.0)
    a, b = right + 4.0 * mean, wrong + 4.0 * (1.0 - mean)
    assert made.right_clean.mean(axis=0) == pytest.approx(a / (a + b), abs=3e-3)
    assert made.right_clean.std(axis=0) == pytest.approx(beta.std(a, b), rel=0.08)
    overall = made.right_clean @ (right + wrong) / (right + wrong).sum()
    assert kstest(overall, beta(right.sum() + 0.5, wrong.sum() + 0.5).cdf).pvalue > 0.01
    assert made.usual == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.5, 0.85, 0.97])
def test_sway_keeps_the_mean_and_is_one_of_the_odds(share):
    ways = worlds.ways(100, 101)[0]
    moved = worlds.Sway(0.8, ways).moved(
        np.full((100, 1, 101), share), np.ones((100, 1, 101)), slice(None)
    )[:, 0]
    assert moved.mean() == pytest.approx(share, abs=0.004)
    odds = np.log(moved / (1 - moved)) if share == 0.5 else np.zeros_like(ways)
    assert share != 0.5 or odds == pytest.approx(0.8 * ways, abs=1e-9)
    assert (np.diff(moved.ravel()[ways.ravel().argsort()]) >= 0).all()


@pytest.mark.parametrize(("deviation", "off"), [(worlds.NEAR, 0.02), (1.6 * worlds.TILT, 0.08)])
def test_weights_make_draws_of_one_tilt_draws_of_another(deviation, off):
    tilts = worlds.TILT * worlds._Source(2000, 0).normal()
    weights = worlds._as_if(deviation, tilts, worlds.TILT)
    assert weights.mean() == pytest.approx(1.0)
    assert math.sqrt((weights * tilts**2).mean()) == pytest.approx(deviation, rel=off)


def test_rows_of_groups_count_for_as_many_as_are_independent():
    """Every row ten times, as ten frames of one scene: the intervals are those of the scenes, the point stays where it was."""
    rng = np.random.default_rng(0)
    gaps = np.repeat([0.0, 1.5], 150)
    columns, right = scores_of(gaps, rng)
    names, times = np.where(gaps > 0, "fog", "clean"), np.repeat(np.arange(300), 10)
    once = calibrate(columns, names, right)
    often = {name: column[times] for name, column in columns.items()}
    apart, together = (
        calibrate(often, names[times], right[times], groups=g) for g in (None, times)
    )
    assert apart.effective.tolist() == [1500.0, 1500.0] and once.effective.tolist() == [
        150.0,
        150.0,
    ]
    assert (
        together.effective == pytest.approx([150.0, 150.0], rel=0.05)
        and together.rows("fog") == 1500
    )
    width = {}
    for calibration in (once, apart, together):
        found = Estimator(calibration, accuracy_tree()).estimate(
            window_of(calibration, 500, 0.5, gap=1.5)
        )
        width[calibration is apart, calibration is together] = (
            found.rate_high[0] - found.rate_low[0]
        )
    assert (
        width[False, True] == pytest.approx(width[False, False], rel=0.35)
        and width[True, False]
        < 0.9 * width[False, True]  # that a kind may be a stranger widens both
    )


def test_draws_are_the_same_in_every_run():
    """Bundles keep counts, not draws: what is drawn from them must never change."""
    source = worlds._Source(8, 0)
    assert (source.uniform() * 8 - 0.5).tolist() == UNIFORM[0]
    assert (source.uniform() * 8 - 0.5).tolist() == UNIFORM[1]
    assert worlds._Source(4, 0).dirichlet(np.array([0.5, 3.5, 20.5])).ravel() == pytest.approx(
        DIRICHLET, rel=1e-9
    )
    record = {
        "names": ["a"],
        "references": [[0.0, 1.0, 2.0, 3.0]],
        "reach": [[-1.0, 9.0]],
        "shift": {"coefficients": [0.0, 1.0, 0.0, 0.0], "edges": [0.3, 0.6]},
        "right_clean": {"coefficients": [0.0, 1.0, 0.0, 0.0], "edges": []},
        "right_shifted": {"coefficients": [0.0, -1.0, 0.0, 0.0], "edges": [-0.5]},
        "kinds": ["clean", "blur", "fog"],
        "counts": {
            "clean": {"right": [[0, 50], [2, 9], [6, 30], [8, 4]], "wrong": [[0, 5], [10, 2]]},
            "blur": {"right": [[2, 12], [6, 20], [8, 15]], "wrong": [[0, 3], [8, 30]]},
            "fog": {"right": [[8, 22]], "wrong": [[10, 40], [4, 7]]},
        },
    }
    made = worlds.drawn(Calibration.from_dict(record), draws=3, seed=5)
    for name, values in DRAWS.items():
        assert getattr(made, name).ravel() == pytest.approx(values, rel=1e-9), name


UNIFORM = [[3.0, 2.0, 1.0, 6.0, 0.0, 7.0, 4.0, 5.0], [3.0, 5.0, 7.0, 0.0, 6.0, 2.0, 4.0, 1.0]]
DIRICHLET = [
    0.0383030725051,
    0.122693957995,
    0.8390029695,
    0.0183061945356,
    0.2634516262,
    0.718242179264,
    0.00512595358882,
    0.0666490468917,
    0.928224999519,
    0.00057743529868,
    0.123363132792,
    0.876059431909,
]
DRAWS = {
    "clean": [
        0.639082751745,
        0.300099700897,
        0.0608175473579,
        0.639082751745,
        0.300099700897,
        0.0608175473579,
        0.639082751745,
        0.300099700897,
        0.0608175473579,
    ],
    "shifted": [
        0.18804483188,
        0.250311332503,
        0.561643835616,
        0.0411928779712,
        0.104654322942,
        0.854152799087,
        0.00352826991474,
        0.183564449906,
        0.812907280179,
    ],
    "right_clean": [0.90110519913, 0.950693777446, 0.928545165203],
    "right_shifted": [
        0.420812792897,
        0.967263294515,
        0.488955426524,
        0.418824058978,
        0.627195993253,
        0.00654396104943,
    ],
    "usual": [2.40016616173, 0.299916919135, 0.299916919135],
    "alike": [2.969284702951208, 0.015357648524395839, 0.015357648524395839],
    "strange": [
        0.18804483188,
        0.250311332503,
        0.561643835616,
        0.0150849873582,
        0.0539528906534,
        0.930962121988,
        0.00866790575016,
        0.320336352125,
        0.670995742125,
    ],
}


def covered(rows: int, n: int, *, worlds_of: int = 250, seed: int = 0) -> tuple[int, int, int]:
    """Of so many calibrations, each with one window of a kind it knows: intervals that hold the rate, and the accuracy."""
    rng = np.random.default_rng([seed, rows, n])
    rates = accuracies = 0
    for at in range(worlds_of):
        calibration = world(rows, kinds=(1.5,), seed=int(rng.integers(2**31)) + at)
        rate = rng.random()
        columns, right = scores_of(np.where(rng.random(n) < rate, 1.5, 0.0), rng)
        counts = np.bincount(calibration.place(columns), minlength=calibration.cells)
        found = Estimator(calibration, accuracy_tree()).estimate(counts)
        rates += bool(found.rate_low[0] <= rate <= found.rate_high[0])
        accuracies += bool(found.accuracy_low[0] <= right.mean() <= found.accuracy_high[0])
    return rates, accuracies, worlds_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "n"), [(200, 100), (600, 100), (2000, 100), (2000, 1000), (200, 1000), (600, 1000)]
)
def test_intervals_hold_the_truth_of_kinds_that_were_calibrated(rows, n):
    rates, accuracies, total = covered(rows, n)
    assert binomtest(rates, total, 0.95, alternative="less").pvalue > 0.01
    assert binomtest(accuracies, total, 0.95, alternative="less").pvalue > 0.01


@pytest.mark.parametrize(("right", "wrong"), [(200, 0), (0, 150), (30, 1)])
def test_where_nothing_went_wrong_it_still_may(right, wrong):
    """The mean of the bins is that of all rows, with Jeffreys' posterior, however the rows fell into bins."""
    rng = np.random.default_rng(0)
    bins = np.stack(
        [np.bincount(rng.integers(6, size=n), minlength=6) for n in (right, wrong)]
    ).astype(float)
    shares = worlds._Source(2000, 0).shares(*bins)
    overall = shares @ bins.sum(axis=0) / bins.sum()
    assert ((shares >= 0) & (shares <= 1)).all()
    expected = beta(right + 0.5, wrong + 0.5)
    for level in (0.05, 0.5, 0.95):
        assert np.quantile(overall, level) == pytest.approx(
            expected.ppf(level), abs=0.1 * expected.std() + 1e-9
        )


@pytest.mark.parametrize(("clean", "told"), [(3, 0.0), (15, 0.9), (60, 0.9)])
def test_few_clean_rows_are_refused_or_covered(clean, told):
    """A clean stream of which few rows are known is not told to be shifted."""
    held, answered = 0, 0
    for seed in range(60):
        rng = np.random.default_rng([seed, clean])
        kind = np.repeat(["clean", "fog"], [clean, 400])
        right = rng.random(len(kind)) < np.where(kind == "clean", 0.9, 0.5)
        made = calibrate({n: rng.normal(2.0 * (kind == "fog")) for n in ("a", "b")}, kind, right)
        live = {n: rng.normal(size=300) for n in ("a", "b")}
        found = Estimator(made, accuracy_tree()).estimate(
            np.bincount(made.place(live), minlength=made.cells)
        )
        if found.cannot_tell[0] is None:
            answered += 1
            held += bool(
                found.rate_low[0] == 0.0 and found.accuracy_low[0] <= 0.9 <= found.accuracy_high[0]
            )
    assert answered >= told * 60 and held >= 0.85 * answered


def test_long_windows_of_an_unseen_kind_keep_their_doubt():
    """Half of 1,000 events are of a kind between the calibrated ones: no window tells its accuracy to a hair."""
    rng = np.random.default_rng(8)
    kind = np.repeat(["clean", "fog", "night", "rain"], [2000, 500, 500, 500])
    gap = {"clean": 0.0, "fog": 2.0, "night": 3.0, "rain": 1.2}
    right = {"clean": 0.91, "fog": 0.72, "night": 0.58, "rain": 0.80}
    shifts = np.array([gap[k] for k in kind])
    columns = {"a": rng.normal(shifts), "b": rng.normal(0.7 * shifts)}
    made = calibrate(columns, kind, rng.random(len(kind)) < np.array([right[k] for k in kind]))
    estimator, widths, inside = Estimator(made, accuracy_tree()), [], 0
    for _ in range(40):
        glare = rng.random(1000) < 0.5
        live = {"a": rng.normal(1.6 * glare), "b": rng.normal(2.0 * glare)}
        found = estimator.estimate(np.bincount(made.place(live), minlength=made.cells))
        widths.append(found.risk_high[0] - found.risk_low[0])
        inside += bool(found.risk_low[0] <= 1 - (0.91 * 0.5 + 0.64 * 0.5) <= found.risk_high[0])
    assert min(widths) > 0.3 * np.median(widths) and inside >= 36


def test_points_are_those_of_the_estimate(calibration, windows):
    for tree in (accuracy_tree(), detector_tree(POLYP_COSTS)):
        estimator = Estimator(calibration, tree)
        told = estimator.estimate(windows, shrink=0.7, filled=0.6)
        for i, counts in enumerate(windows):
            _, accuracy, risk = estimator.points(counts, shrink=0.7, filled=0.6)
            assert accuracy == pytest.approx(told.accuracy[i], rel=1e-9, abs=1e-12)
            assert risk == pytest.approx(told.risk[i], rel=1e-9, abs=1e-12)


def test_the_rate_that_splits_costs_has_the_prior_that_costs_have(calibration, windows):
    estimator = Estimator(calibration, accuracy_tree(), draws=7, rates=9)
    told = estimator.estimate(windows).rate
    for i, counts in enumerate(windows):
        rate, _, _ = estimator.points(counts)
        assert rate == pytest.approx(
            float(Written(estimator, counts).priced @ estimator.rates), abs=1e-9
        )
        assert rate != pytest.approx(told[i], abs=1e-6)


def test_kinds_of_too_few_rows_do_not_say_how_many_were_calibrated():
    rng = np.random.default_rng(3)
    kind = np.array(
        ["clean"] * 600 + ["fog"] * 600 + [f"thin {i}" for i in range(7) for _ in range(4)]
    )
    shifted = kind != "clean"
    made = calibrate(
        {"a": rng.normal(1.0 * shifted)}, kind, rng.random(len(kind)) < np.where(shifted, 0.5, 0.9)
    )
    assert Estimator(made, accuracy_tree())._likely._evenly == likely_worlds.EVENLY


@pytest.mark.parametrize(
    "tree",
    [
        base_tree(POLYP_COSTS),
        detector_tree(POLYP_COSTS),
        several_events(["shift", "adversarial"], {"wrong": 9}),
    ],
    ids=["base", "detector", "events"],
)
def test_a_tree_with_the_parameters_of_a_window_costs_what_is_said_of_the_window(
    calibration, windows, tree
):
    given = {"p_adversarial": 0.1, "accuracy_adversarial": 0.3}
    constants = {name: value for name, value in given.items() if name in tree.parameters}
    estimator = Estimator(calibration, tree, constants=constants)
    for counts in windows:
        found = estimator.parameters(counts, shrink=0.5)
        assert tuple(found) == tree.parameters and found == pytest.approx({**found, **constants})
        assert expectation(tree, found) == pytest.approx(
            estimator.estimate(counts, shrink=0.5).risk[0], rel=1e-6
        )
    for rate in (0.0, 0.3, 0.8):
        before = estimator.parameters_at(rate)
        assert before["p_shift"] == rate and (tree.parameters[1] != "tpr" or before["tpr"] > 0.5)
        assert expectation(tree, before) == pytest.approx(estimator.forecast(rate)[0], rel=1e-9)
