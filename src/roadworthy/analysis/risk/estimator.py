"""What a window of unlabelled events says: the rate of shift, the accuracy, the expected cost, and how sure one can be.

A window is counts over the cells of a `Calibration`. Its likelihood is that of a mixture of clean and shifted events, for every
rate on a grid and every draw of what clean and shifted may be (`roadworthy.analysis.risk.draws`: calibration uncertainty, and the
step to an unseen kind). Every sum over events is a sum over cells, so that the cost of an answer does not grow with the window.

The *rate* is the probability of shift behind the window. The *accuracy* is the window's own share of right answers: its interval
holds the chance by which events turn out right. The *risk* is the event tree's expected cost of an event of the window, without
that chance; `exceedance` is the probability that it is above the tolerable.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 1000)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(2000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> estimator = Estimator(calibration, accuracy_tree(), tolerable=0.2)
>>> live = rng.random(400) < 0.5
>>> window = np.bincount(calibration.place({"energy": rng.normal(2.5 * live)}), minlength=calibration.cells)
>>> found = estimator.estimate(window)
>>> bool(found.rate_low[0] < live.mean() < found.rate_high[0]), bool(found.exceedance[0] > 0.9), found.cannot_tell
(True, True, (None,))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk import draws as worlds
from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.doubts import doubts, separation
from roadworthy.analysis.risk.estimates import Belief, Estimates, Odds
from roadworthy.analysis.risk.likely_worlds import MOST, PRIOR, LikelyWorlds, Rates
from roadworthy.analysis.risk.live import live
from roadworthy.analysis.risk.mean_parameters import mean_parameters
from roadworthy.analysis.risk.misfit import Looks, Swing, believed_of, swing_of
from roadworthy.analysis.risk.prototypes import (
    LIVE_PARAMETERS,
    answer_costs,
    asks_for_alarms,
    refuse_live_constants,
)
from roadworthy.analysis.risk.sums import TINY, Known, Weighed, Window
from roadworthy.analysis.risk.tolerable import cells_at, cells_of_kinds, cost_at, parameters_at
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.analysis.risk.unlike import Unlike, leant
from roadworthy.analysis.risk.weighted import (
    among,
    check_confidence,
    divided,
    quantiles,
    reaching,
    span_of,
    spanned,
    told,
    with_chance,
)

Floats = NDArray[np.float64]

RATES = 101
"""Rates of shift on the grid, from 0 to 1, denser towards both ends, where rates are told more finely."""
NONE = 0.01
"""Rates nearer to 0 or 1 than this are not told from it: an interval that reaches there reaches the end."""
CHUNK = 48
"""Windows at a time, so that the draws x rates of all of them stay near the processor."""
NEAR = 40_000
"""Draws x rates x windows that stay in the fastest memory where little else is worked out."""
NEGLIGIBLE = 1e-13
"""The probability of a rate below which it is left out of what follows."""
UNLIKELY = 1e-6
"""An exceedance of which the rates that are left out may be a part worth having in its log-odds."""


class Estimator:
    """Everything about a calibration and a tree that does not depend on the stream, worked out once.

    `prior` are pseudo-events (shifted, clean) that are believed of the rate before there are any, and less the fuller a window is.
    """

    def __init__(
        self,
        calibration: Calibration,
        tree: Tree,
        *,
        constants: Mapping[str, ArrayLike] | None = None,
        tolerable: float | None = None,
        prior: tuple[float, float] = PRIOR,
        draws: int = 100,
        seed: int = 0,
        tilt: float = worlds.TILT,
        sway: float = worlds.SWAY,
        rates: int = RATES,
    ) -> None:
        self.calibration, self.tree, self.tolerable = calibration, tree, tolerable
        self.constants = dict(constants or {})
        unknown = [
            name for name in tree.parameters if name not in (*LIVE_PARAMETERS, *self.constants)
        ]
        if unknown:
            raise ValueError(
                f"the tree has parameters that no stream gives: {', '.join(unknown)}; give their values, or use "
                f"{', '.join(LIVE_PARAMETERS)}"
            )
        refuse_live_constants(self.constants)
        for name, value in self.constants.items():
            worlds.check_constant(name, value, draws)
        self.separation = separation(calibration)
        # Alarms of a supervisor at work are told apart by the cells themselves.
        apart = (
            self.separation.cut if calibration.deployed is None and asks_for_alarms(tree) else None
        )
        self.draws = worlds.drawn(calibration, draws=draws, seed=seed, tilt=tilt, cut=apart)
        self.rates = np.sin(np.linspace(0.0, np.pi / 2, rates)) ** 2
        up_or_down, self._ways = worlds.ways(draws, rates)
        self._sway = worlds.Sway(sway, up_or_down)
        self._looks, self._unlike = Looks.of(calibration), Unlike.of(calibration)
        self._answers = answer_costs(tree)
        self._likely = LikelyWorlds(calibration, self.draws, self.rates, prior)
        self._clean_share = self._likely.clean_share
        self._before = cells_at(self.calibration, prior[0] / (prior[0] + prior[1]))

    def estimate(
        self,
        counts: ArrayLike,
        *,
        shrink: ArrayLike = 1.0,
        filled: ArrayLike = 1.0,
        confidence: float = 0.95,
    ) -> Estimates:
        """Estimates of one window (cells,) or several (windows, cells); counts may be weights.

        `shrink` (one number, or one a window) is the effective number of events over the counted one, for streams whose
        events are not independent and for weights; `filled` likewise how much of a full window each is: the less, the more the
        prior says.
        """
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        if (
            table.shape[1:] != (self.calibration.cells,)
            or not np.isfinite(table).all()
            or (table < 0).any()
        ):
            raise ValueError(
                f"a window is a count, not negative, for each of {self.calibration.cells} cells, found shape {table.shape}"
            )
        check_confidence(confidence)
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(table),))
        if not ((factor > 0) & (factor <= 1)).all():
            raise ValueError(
                "shrink is the effective number of events over the counted one: above 0, at most 1"
            )
        full = np.broadcast_to(np.asarray(filled, dtype=np.float64), (len(table),))
        if not ((full >= 0) & (full <= 1)).all():
            raise ValueError("filled is how much of a full window there is: from 0 to 1")
        parts = [
            self._some(
                table[at : at + CHUNK], factor[at : at + CHUNK], full[at : at + CHUNK], confidence
            )
            for at in range(0, len(table), CHUNK)
        ]
        columns = {
            f.name: np.concatenate([p[f.name] for p in parts]) if parts else np.zeros(0)
            for f in fields(Estimates)
            if f.name != "cannot_tell"
        }
        return Estimates(
            **columns, cannot_tell=tuple(word for p in parts for word in p["cannot_tell"])
        )

    def odds(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0, filled: ArrayLike = 1.0) -> Odds:
        """The log-odds of exceedance and the evidence against no shift, at a fraction of the cost: what an alarm asks for."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        factor, full = (np.full(len(table), share, dtype=np.float64) for share in (shrink, filled))
        found = np.empty((3, len(table)))
        few = max(1, NEAR // self._likely.log_mixed[:, 0].size)
        for at in range(0, len(table), few):
            window, shrunk = (
                self._window(table[at : at + few], full[at : at + few]),
                factor[at : at + few],
            )
            weights = self._weights(window, shrunk)
            known, rates = self._known(window, self._clean_share), slice(None)
            swing = self._swing(window, weights, shrunk, rates)
            exceeding = self._exceeding(known, rates, swing, weights)
            found[:, at : at + few] = *exceeding, weights[:, :, 0].sum(axis=0)
        over, under, clean = np.log(np.maximum(found, 1e-300))
        return Odds(over - under, over - clean)

    def doubt(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0) -> tuple[str | None, ...]:
        """Why the figures of windows should not be relied on, as `estimate` says it, at a fraction of the cost."""
        window = self._window(np.atleast_2d(np.asarray(counts, dtype=np.float64)))
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(window.n),))
        strange = doubts(
            window.by_shift,
            window.outside,
            self._likely.log_likelihood(window),
            factor,
            self.calibration,
        )
        return strange.reasons(self.separation, window.n)

    def points(
        self, counts: ArrayLike, *, shrink: float = 1.0, filled: float = 1.0
    ) -> tuple[float, float, float]:
        """Of one window the rate that splits costs, and accuracy and risk as `estimate` says them, at a fraction of the time."""
        window = self._window(
            np.atleast_2d(np.asarray(counts, dtype=np.float64)), np.array([filled])
        )
        factor, likelihood = np.array([shrink]), self._likely.log_likelihood(window)
        likely = self._likely.of_rates(likelihood, window, factor)
        rate = self._rate(window, likely._replace(told=likely.priced))
        accuracy, risk = self._points(*self._believed(window, likelihood, factor))
        return float(rate[0]), float(accuracy[0]), float(risk[0])

    def parameters(
        self, counts: ArrayLike, *, shrink: float = 1.0, filled: float = 1.0
    ) -> dict[str, float]:
        """The tree's parameters in one window: with them it costs what `estimate` says."""
        window = self._window(
            np.atleast_2d(np.asarray(counts, dtype=np.float64)), np.array([filled])
        )
        weights, known = self._believed(
            window, self._likely.log_likelihood(window), np.full(len(window.n), shrink)
        )
        return mean_parameters(
            self.tree, self._given(known), self._reweighed(weights, self.draws.usual)
        )

    def parameters_at(self, rate: float) -> dict[str, float]:
        """The tree's parameters at a rate of shift before anything is seen, kinds even: with them it costs what `forecast` says."""
        return parameters_at(self, rate, added=worlds.UNSEEN)

    def _believed(self, window: Window, likelihood: Floats, factor: Floats) -> tuple[Floats, Known]:
        """How likely every draw and rate is, and what points say of it."""
        weights, every = self._likely.weights(likelihood, window, factor), slice(None)
        known = believed_of(
            self._known(window, self._clean_share), self._swing(window, weights, factor, every)
        )
        return weights, leant(known, self._lean(window, weights, known, factor, every))

    def _points(self, weights: Floats, known: Known) -> tuple[Floats, Floats]:
        """Accuracy and risk."""
        usual = self._reweighed(weights, self.draws.usual)
        accuracy, risk = (
            np.einsum("bwg,bwg->w", usual, v)
            for v in (known.right / known.total, self._risk(known))
        )
        return accuracy, risk

    def _rate(self, window: Window, likely: Rates) -> Floats:
        return np.where(
            window.empty,
            likely.told @ self.rates,
            told(likely.told, self.rates, vague=likely.alike),
        )

    def believe(self, counts: ArrayLike, *, shrink: float = 1.0, filled: float = 1.0) -> Belief:
        """What each cell means, in the light of one window."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        if table.shape != (1, self.calibration.cells):
            raise ValueError(
                f"one window was expected, counts of {self.calibration.cells} cells, found {table.shape}"
            )
        window = self._window(table, np.array([filled]))
        weights = self._weights(window, np.array([shrink]))[:, 0, :]
        clean = np.einsum("bg,bsg->bs", weights, self._clean_share)
        shifted = weights.sum(axis=1)[:, None] - clean
        of_clean, of_shifted = self.draws.right_of_bins(clean, shifted)
        right = of_clean[:, :, None] + of_shifted[:, None, :]
        s, c, d, outside = self.calibration.shape
        wide = np.broadcast_to(shifted.sum(axis=0)[:, None, None, None], (s, c, d, outside))
        return Belief(np.repeat(right[..., None], outside, axis=-1).ravel(), wide.ravel().copy())

    def forecast(self, rate: float, *, confidence: float = 0.95) -> tuple[float, float, float]:
        """The risk to expect at a rate of shift before anything is seen, and its interval.

        The risk is what the calibration's counts say, kinds even. A stream may be of one kind, or of one a little beside them: its
        interval is that of the draws.
        """
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"a rate of shift lies between 0 and 1, found {rate}")
        check_confidence(confidence)
        risk = cost_at(self.tree, self.parameters_at(rate))
        half = 50.0 * (1.0 - confidence)
        low, high = np.percentile(self._costs_of_draws(rate), [half, 100.0 - half])
        return risk, min(float(low), risk), max(float(high), risk)

    def _costs_of_draws(self, rate: float) -> Floats:
        """What an event costs in each draw, of a window as its own kinds make it: in another, its rate would be another."""
        expected = self.draws.falling(cells_of_kinds(self.calibration), rate)
        _, clean_share = self._likely.mixture(np.array([rate]))
        found = []
        for at in range(0, len(expected), CHUNK):
            known = self._known(self._window(expected[at : at + CHUNK]), clean_share)
            found.append(np.diagonal(self._risk(known)[at : at + CHUNK, :, 0]))
        return np.concatenate(found)

    def _window(self, table: Floats, filled: float | Floats = 1.0) -> Window:
        return Window(self.calibration, table, self._before, filled)

    def _some(
        self, table: Floats, shrink: Floats, filled: Floats, confidence: float
    ) -> dict[str, Any]:
        window = self._window(table, filled)
        n = window.n
        likelihood = self._likely.log_likelihood(window)
        strange = doubts(window.by_shift, window.outside, likelihood, shrink, self.calibration)
        weights = self._likely.weights(likelihood, window, shrink)
        by_rate, likely = weights.sum(axis=0), self._likely.of_rates(likelihood, window, shrink)
        rate_low, rate_high = quantiles(likely.allowed, self.rates, confidence)
        rate_low, rate_high = (
            np.where(rate_low < NONE, 0.0, rate_low),
            np.where(rate_high > 1.0 - NONE, 1.0, rate_high),
        )
        # Rates that no window makes likely cost as much as others, and change nothing.
        near = span_of(by_rate.max(axis=0) > NEGLIGIBLE)
        weights = weights[:, :, near]
        swing = self._swing(window, weights, shrink, near)
        known = self._known(window, self._clean_share[:, :, near])
        over, under = self._exceeding(known, near, swing, weights)
        # Where a rate is not told from an end, what holds there is within the intervals. Strangers tell nothing but rates.
        own_low, own_high = quantiles(by_rate, self.rates, confidence)
        ends = (
            (own_low < NONE) & (by_rate[:, 0] > NEGLIGIBLE),
            (own_high > 1.0 - NONE) & (by_rate[:, -1] > NEGLIGIBLE),
        )
        reached = [
            (on, at)
            for on, at in zip(ends, (slice(0, 1), slice(-1, None)), strict=True)
            if on.any()
        ]
        weighed = Weighed(known, near, weights, reached, np.maximum(n * shrink, TINY))
        low, high, risk_low, risk_high = self._intervals(weighed, None, None, confidence)
        if swing is not None:
            on = swing.windows
            doubted = self._intervals(weighed.only(on), swing.only(on), None, confidence)
            # A doubt reaches further the way a window looks; whether it is an alarm is asked of the same figures.
            worse, dearer = swing.believed[on, 0] < 0.0, self._dearer(known, swing, weights)[on]
            low[on], high[on] = (
                np.minimum(low[on], doubted[0]),
                np.where(worse, high[on], doubted[1]),
            )
            risk_low[on] = np.where(dearer, risk_low[on], doubted[2])
            risk_high[on] = np.maximum(risk_high[on], doubted[3])
        # Alarms are asked without it: that answers look sure must not silence one.
        believed = believed_of(known, swing)
        lean = self._lean(window, weights, believed, shrink, near)
        if lean is not None:
            on = np.flatnonzero(lean)
            other = self._intervals(
                weighed.only(on), None if swing is None else swing.only(on), lean[on], confidence
            )
            low[on], high[on] = np.minimum(low[on], other[0]), np.maximum(high[on], other[1])
            risk_low[on], risk_high[on] = (
                np.minimum(risk_low[on], other[2]),
                np.maximum(risk_high[on], other[3]),
            )
        rate, (accuracy, risk) = (
            self._rate(window, likely),
            self._points(weights, leant(believed, lean)),
        )
        log_odds = np.log(np.maximum(over, 1e-300)) - np.log(np.maximum(under, 1e-300))
        unlikely = np.minimum(over, under) < UNLIKELY
        if weights.shape[2] < len(self.rates) and unlikely.any():
            log_odds[unlikely] = self.odds(
                table[unlikely], shrink=shrink[unlikely], filled=filled[unlikely]
            ).above
        return {
            "n": n,
            # Points and intervals weigh the draws differently: once in thousands of windows one would lie beside the other.
            "rate": rate,
            "rate_low": np.minimum(rate_low, rate),
            "rate_high": np.maximum(rate_high, rate),
            "accuracy": accuracy,
            "accuracy_low": np.minimum(low, accuracy),
            "accuracy_high": np.maximum(high, accuracy),
            "risk": risk,
            "risk_low": np.minimum(risk_low, risk),
            "risk_high": np.maximum(risk_high, risk),
            "exceedance": over,
            "log_odds": log_odds,
            "strangeness": strange.p_value,
            "cannot_tell": strange.reasons(self.separation, n),
        }

    def _intervals(
        self, weighed: Weighed, swing: Swing | None, lean: Floats | None, confidence: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Of the window's own accuracy, its chance included, and of its risk."""
        known, weights, events = weighed.known, weighed.weights, weighed.events
        elsewhere = leant(self._elsewhere(known, weighed.rates, swing), lean)
        low, high = reaching(
            elsewhere.right / known.total,
            weights,
            weighed.ends,
            lambda v, w, on: with_chance(among(v, w, 0.0, 1.0), events[on], confidence),
        )
        cost = reaching(
            self._risk(elsewhere), weights, weighed.ends, lambda v, w, _: spanned(v, w, confidence)
        )
        return low, high, *cost

    def _dearer(self, known: Known, swing: Swing, weights: Floats) -> NDArray[np.bool_]:
        """Which windows look as if they cost more than expected."""
        more = self._risk(believed_of(known, swing)) - self._risk(known)
        return np.asarray(
            np.einsum("bwg,bwg->w", weights, np.broadcast_to(more, weights.shape)) > 0.0
        )

    def _weights(self, window: Window, shrink: Floats) -> Floats:
        return self._likely.weights(self._likely.log_likelihood(window), window, shrink)

    def _swing(self, window: Window, weights: Floats, shrink: Floats, rates: slice) -> Swing | None:
        """By how much accuracies are moved by draw, window and rate; None where all windows look as their shift scores say."""
        excess = np.where(
            window.empty,
            0.0,
            self._looks.excess(window, *self._seen(window, weights, shrink, rates)),
        )
        return swing_of(excess, self._ways[:, rates], weights) if excess.any() else None

    def _lean(
        self, window: Window, weights: Floats, known: Known, shrink: Floats, rates: slice
    ) -> Floats | None:
        """By how much right or wrong answers are moved in windows unlike all that was calibrated; None where none is."""
        if not self._unlike.trust:
            return None
        accuracy = np.einsum(
            "bwg,bwg->w", self._reweighed(weights, self.draws.usual), known.right / known.total
        )
        return self._unlike.lean(window, *self._seen(window, weights, shrink, rates), accuracy)

    def _seen(
        self, window: Window, weights: Floats, shrink: Floats, rates: slice
    ) -> tuple[Floats, Floats]:
        """The mean rate of each window, and what part of its events is counted as independent."""
        rate = np.minimum(np.maximum(weights.sum(axis=0) @ self.rates[rates], 0.0), 1.0)
        return rate, np.minimum(shrink, MOST / np.maximum(window.n, TINY))

    def _reweighed(self, weights: Floats, by: Floats) -> Floats:
        """The weights if some draws are likelier than they were drawn: those of kinds like the calibrated ones."""
        found = weights * by[:, None, None]
        found /= found.sum(axis=(0, 2))[:, None]
        return found

    def _elsewhere(self, known: Known, rates: slice, swing: Swing | None) -> Known:
        """What may be right under a kind of shift that is none of the calibrated."""
        sway = self._sway.moved(known.right_shifted, known.shifted, rates)
        doubted = None if swing is None else swing.doubted
        return known.moved(sway, doubted, lambda part: self._elsewhere(part, rates, swing))

    def _known(self, window: Window, share: Floats) -> Known:
        """How many of a window's events are clean, and right, by draw and rate."""
        if_clean, if_shifted = self.draws.right_if(window.clean, window.shifted)
        right_shifted = if_shifted.sum(axis=2, keepdims=True) - np.matmul(if_shifted, share)
        clean, events = np.matmul(window.by_shift, share), window.by_shift.sum(axis=1)[:, None]
        return Known(window, share, events, clean, np.matmul(if_clean, share), right_shifted)

    def _risk(self, known: Known) -> Floats:
        """The tree's expected cost; where a case costs what its answer does, right answers are all that is counted."""
        if self._answers is not None:
            right, wrong = self._answers
            return np.asarray(known.right * ((right - wrong) / known.total) + wrong)
        return np.broadcast_to(
            np.asarray(expectation(self.tree, self._given(known))), known.clean.shape
        )

    def _given(self, known: Known) -> dict[str, Any]:
        """The tree's parameters, by draw and rate."""
        cut = self.separation.cut
        seen = live(
            self.tree,
            known,
            lambda on: self._known(known.window.part(cut, detected=on), known.clean_share),
        )
        given = {**self.constants, **dict(seen)}
        return {name: given[name] for name in self.tree.parameters}

    def _exceeding(
        self, known: Known, rates: slice, swing: Swing | None, weights: Floats
    ) -> tuple[Floats, Floats]:
        """How likely the risk is above what is tolerable, and how likely it is not.

        A doubt must not silence an alarm: it makes a window that looks as if it cost more no less likely to be above.
        """
        if self.tolerable is None:
            nothing = np.full(weights.shape[1], np.nan)
            return nothing, nothing
        over, under = divided(
            self._risk(self._elsewhere(known, rates, None)) > self.tolerable, weights
        )
        if swing is None:
            return over, under
        odd, not_odd = divided(
            self._risk(self._elsewhere(known, rates, swing)) > self.tolerable, weights
        )
        as_seen = self._dearer(known, swing, weights) & (over > odd)
        return np.where(as_seen, over, odd), np.where(as_seen, under, not_odd)
