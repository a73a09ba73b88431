"""What a window of unlabelled events says: rate of shift, accuracy, expected cost, intervals.

A window is counts over the cells of a `Calibration`. Events fall into the bins b of the shift score
as a mixture of clean and shifted events. The posterior is worked out on a grid, without random
draws: rate of shift p (Jeffreys' prior, and 10% at no shift and at nothing but shift) x kind of
shift k x tilt t (normal), which makes shifted events look more or less shifted than calibrated:

    P(b) = (1 - p) c(b) + p h_t(b),    h_t(b) ~ h_k(b) (h_k(b) / c(b))^(t/3)

- *Luck of the calibration rows*: the log-likelihood of n events is divided by 1 + n / rows.
- *Rate*: the posterior mean. Its interval holds for kinds of shift like those calibrated.
- *Accuracy*: the mean over events of (1 - q) P(right | clean) + q P(right | shifted), where
  q = p h_t(b) / P(b). Both probabilities are read from the event's own scores.
- *Interval of the accuracy*: the posterior, the accuracy of shifted events moved on the logit scale
  by a normal (a kind that was not calibrated), and the binomial chance of the window's events.
- *Second opinion*: if confidence tells right from wrong on clean rows, the difference between the
  confidence seen and the one expected, beyond two standard errors, moves the accuracy.
- *Risk*: the event tree's expected cost of an event, without the chance of the window's own events.

>>> from roadworthy.analysis.risk.calibration import fit_calibration
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 1000)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(2000) < np.where(shifted, 0.4, 0.9)
>>> calibration = fit_calibration({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> estimator = Estimator(calibration, accuracy_tree(), tolerable=0.2)
>>> cells = calibration.place({"energy": rng.normal(2.5 * (np.arange(400) < 200))})
>>> found = estimator.estimate(np.bincount(cells, minlength=calibration.cells))
>>> bool(found.rate_low[0] < 0.5 < found.rate_high[0]), found.no_estimate
(True, (None,))
>>> round(costs_of(estimator, 0.3)["fog"], 2), found.exceedance.round(2).tolist()
(0.24, [0.97])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.calibration import Calibration, of_firm_kinds
from roadworthy.analysis.risk.prototypes import (
    LIVE_PARAMETERS,
    answer_costs,
    asks_for_alarms,
    known_probability,
    live_parameters,
    refuse_live_constants,
)
from roadworthy.analysis.risk.refusal import Refusal, alarmed_cells, separation, shares_of_kinds
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.statistics.posterior import (
    RESOLUTION,
    histogram,
    quantiles,
    spanned,
    with_chance,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RATES = 61
"""Rates on the grid: sin^2 of even steps, on which Jeffreys' prior is even."""
ENDS = 0.1
"""Prior probability of no shift at all, and of nothing but shift."""
COARSE = 6
"""Every so many rates, and every second tilt, are on the coarse grid."""
TILTS = np.linspace(-2.0, 2.0, 9)
TILT_SCALE = 3.0
TILT_POINT, TILT_INTERVAL = 0.5, 1.0
"""Standard deviation of the tilt, for points and for intervals."""
SWAY = 0.8
"""Standard deviation, in logits, by which the accuracy of a new kind of shift may differ; larger
if the calibrated kinds differ by more."""
NORMAL = np.linspace(-2.4, 2.4, 13)
NORMAL_WEIGHT = np.exp(-0.5 * NORMAL**2) / np.exp(-0.5 * NORMAL**2).sum()
"""A normal distribution on a grid, for the sway."""
SWAYED = 400
"""Steps of the table of swayed accuracies."""
TRUST = (0.75, 0.85)
"""The AUC of confidence on clean rows (right against wrong) from which on the second opinion
counts, and at which it counts in full."""
OPINION, BEYOND = 1.5, 2.0
"""Weight of the second opinion, and the standard errors that it must exceed."""
PULL = 4.0
"""Rows of the mean that are added to each bin of being right."""
NEGLIGIBLE = 1e-7
UNLIKELY = -30.0
"""Log of the weight, relative to the likeliest, below which an alarm ignores a grid point."""
CHUNK = 48
"""Windows at a time, so that windows x grid stays near the processor."""
JEFFREYS = (0.5, 0.5)
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Estimates:
    """One entry a window."""

    n: Floats
    rate: Floats
    rate_low: Floats
    rate_high: Floats
    accuracy: Floats
    accuracy_low: Floats
    accuracy_high: Floats
    risk: Floats
    risk_low: Floats
    risk_high: Floats
    exceedance: Floats
    """P(risk > tolerable)."""
    log_odds: Floats
    strangeness: Floats
    """The probability that a window of what was calibrated looks at least as strange."""
    no_estimate: tuple[str | None, ...]
    """Why there is no estimate; None if there is one."""


class Odds(NamedTuple):
    """What an alarm asks of windows: is the risk above the tolerable, and is it more than chance?

    >>> odds = Odds(np.array([2.0, 2.0, -1.0]), np.array([20.0, 5.0, 20.0]))
    >>> odds.judged(-np.inf).tolist(), odds.judged(9.0).round(2).tolist()
    ([2.0, 2.0, -1.0], [2.0, -4.0, -1.0])
    """

    above: Floats
    """Log-odds that the risk is above the tolerable."""
    evidence: Floats
    """Log of P(risk above the tolerable) / P(no shift at all)."""

    def judged(self, burden: float) -> Floats:
        """Log-odds above the tolerable if no shift weighs exp(burden) times as much beforehand."""
        if burden == -np.inf:
            return self.above
        return np.asarray(-np.logaddexp(-self.above, burden - self.evidence))


class _Grid(NamedTuple):
    """Rates x kinds x tilts as one axis, the last."""

    rate: Floats
    log_mixed: Floats
    """By bin of the shift score, the log of its share of events."""
    share: Floats
    """By bin, P(shifted | bin)."""
    expected: Floats
    """By bin, the confidence to expect."""
    point_prior: Floats
    wide_prior: Floats
    filling: Floats
    """What the pseudo-events of the prior add before any event."""


class _Mix(NamedTuple):
    """By window and grid point: how many events are shifted, and right answers to both sorts."""

    events: Floats
    """Windows x 1."""
    shifted: Floats
    right_clean: Floats
    right_shifted: Floats

    @property
    def clean(self) -> Floats:
        return np.maximum(self.events - self.shifted, 0.0)

    @property
    def accuracy(self) -> Floats:
        return (self.right_clean + self.right_shifted) / self.events

    def moved(self, shifted: float, clean: float = 0.0) -> _Mix:
        """With the accuracies of shifted and of clean events moved on the logit scale."""
        mix = self
        if shifted:
            share = _moved(_share_of(self.right_shifted, self.shifted), shifted)
            mix = mix._replace(right_shifted=self.shifted * share)
        if clean:
            share = _moved(_share_of(self.right_clean, self.clean), clean)
            mix = mix._replace(right_clean=self.clean * share)
        return mix

    def led(self, opinion: Floats) -> _Mix:
        """With all accuracies higher by a window's second opinion."""
        if not opinion.any():
            return self
        by = opinion[:, None]
        return self._replace(
            right_clean=np.clip(self.right_clean + by * self.clean, 0.0, self.clean),
            right_shifted=np.clip(self.right_shifted + by * self.shifted, 0.0, self.shifted),
        )


class _Read(NamedTuple):
    """Windows, and how likely every grid point is in each."""

    grid: _Grid
    parts: tuple[_Mix, ...]
    """All events; then those without an alarm and those with one if the tree asks for alarms."""
    n: Floats
    effective: Floats
    log: Floats
    """The log-posterior of the intervals, not normalised, on the whole grid."""
    best: Floats
    """The log-likelihood at the best grid point."""
    point: Floats
    """Posterior of the points, windows x grid."""
    wide: Floats
    """Posterior of the intervals."""
    opinion: Floats
    """By how much accuracies are moved because confidence is not as expected."""


class Estimator:
    """All that depends on the calibration and the tree alone, worked out once.

    `constants` are the tree's parameters that no stream gives: a probability, or
    (successes, trials). `prior` are pseudo-events (shifted, clean): what is believed of the rate
    while a window fills.
    """

    def __init__(
        self,
        calibration: Calibration,
        tree: Tree,
        *,
        constants: Mapping[str, ArrayLike] | None = None,
        tolerable: float | None = None,
        prior: tuple[float, float] = JEFFREYS,
    ) -> None:
        calibration = of_firm_kinds(calibration)
        self.calibration, self.tree, self.tolerable = calibration, tree, tolerable
        self.constants = {name: known_probability(name, v) for name, v in (constants or {}).items()}
        unknown = [n for n in tree.parameters if n not in (*LIVE_PARAMETERS, *self.constants)]
        if unknown:
            raise ValueError(
                f"The tree has parameters that no stream gives: {', '.join(unknown)}. Give their "
                f"values, or use {', '.join(LIVE_PARAMETERS)}."
            )
        refuse_live_constants(self.constants)
        self.separation = separation(calibration)
        self._answers, self._asks = answer_costs(tree), asks_for_alarms(tree)
        cells, rate = calibration.table.sum(axis=1) + 1e-9, prior[0] / sum(prior)
        # Where events of clean and of each kind fall: shares of cells.
        self._cells = cells / cells.sum(axis=1, keepdims=True)
        clean, *kinds = self._cells
        self._before = rate * np.mean(kinds, axis=0) + (1.0 - rate) * clean
        # Kinds x (right, wrong) x cells.
        self._counts = calibration.table * calibration.worth[:, None, None]
        # Perks' prior: one row in all, however many bins there are.
        bins = self.calibration.by_bin(self._counts.sum(axis=1)) + 1.0 / calibration.shift.bins
        self._bins: Floats = bins / bins.sum(axis=1, keepdims=True)
        rows = np.maximum(calibration.effective, 1.0)
        self._clean_rows = float(rows[0])
        self._rows = float(min(rows[0], 1.0 / np.mean(1.0 / rows[1:])))
        self._learn_right(rows)
        self._grid = self._laid_grid(prior, self._learn_confidence())
        fine = self._grid.log_mixed.reshape(len(self._bins[0]), RATES, -1, len(TILTS))
        coarse = fine[:, ::COARSE, :, ::2].reshape(len(fine), -1)
        self._against_clean = coarse - np.log(self._bins[0])[:, None]
        self._refusal = Refusal(calibration, self.separation, self._bins)

    def _learn_right(self, effective: Floats) -> None:
        """P(right) by cell: if clean, from clean rows by the bin of the clean model; if shifted,
        from shifted rows, kinds even, by the bin of the other. Cells with an alarm stand apart."""
        cal, rows = self.calibration, self._counts
        self._alarm = alarmed_cells(cal)
        apart = self._alarm * (1 if self._asks or cal.deployed is not None else 0)
        _, clean_bin, shifted_bin, _ = np.unravel_index(np.arange(cal.cells), cal.shape)
        even = cal.effective[1:].mean() / effective[1:]
        self._if_clean = _right_by_bin(rows[0], clean_bin, apart)
        self._if_shifted = _right_by_bin(np.tensordot(even, rows[1:], 1), shifted_bin, apart)
        outcomes = rows.sum(axis=2) + 0.5
        logits = np.log(outcomes[1:, 0] / outcomes[1:, 1])
        self._sway = max(SWAY, float(logits.std(ddof=1))) if len(logits) > 1 else SWAY
        # Standard error of the clean accuracy, in logits: of all rows, without and with an alarm.
        halves = np.stack([np.ones(cal.cells), ~self._alarm, self._alarm], axis=1)
        outcomes = rows[0] @ halves + 0.5
        self._luck = np.sqrt(outcomes.sum(axis=0) / outcomes.prod(axis=0))
        # Mean and variance of a shifted accuracy under the sway, by the accuracy before it.
        swayed = _moved(np.linspace(0.0, 1.0, SWAYED + 1)[:, None], self._sway * NORMAL)
        mean = swayed @ NORMAL_WEIGHT
        self._swayed = mean, (swayed - mean[:, None]) ** 2 @ NORMAL_WEIGHT

    def _learn_confidence(self) -> Floats:
        """Expected confidence by kind and bin of the shift score; and how far to trust it."""
        rows = self._counts.sum(axis=1)
        total, count = self.calibration.by_bin(rows * self._if_clean), self.calibration.by_bin(rows)
        mean = total.sum(axis=1) / np.maximum(count.sum(axis=1), TINY)
        self._variance = float(rows[0] @ (self._if_clean - mean[0]) ** 2 / max(rows[0].sum(), TINY))
        values, place = np.unique(self._if_clean, return_inverse=True)
        right, wrong = (
            np.bincount(place, outcome, len(values)) / max(outcome.sum(), TINY)
            for outcome in self._counts[0]
        )
        auc = float(right @ (np.cumsum(wrong) - wrong / 2.0))
        self._trust = float(np.clip((auc - TRUST[0]) / (TRUST[1] - TRUST[0]), 0.0, 1.0))
        return np.asarray((total + 2.0 * mean[:, None]) / (count + 2.0))

    def _laid_grid(self, prior: tuple[float, float], confidence: Floats) -> _Grid:
        clean, kinds = self._bins[0], self._bins[1:]
        tilt = np.exp(TILTS[:, None] * np.log(kinds / clean)[:, None, :] / TILT_SCALE)
        shifted = kinds[:, None, :] * tilt
        shifted /= shifted.sum(axis=2, keepdims=True)
        self.rates: Floats = np.sin(np.linspace(0.0, np.pi / 2, RATES)) ** 2
        rate = self.rates[:, None, None, None]
        mixed = (1.0 - rate) * clean + rate * shifted
        share = rate * shifted / mixed
        expected = (1.0 - share) * confidence[0] + share * confidence[1:, None, :]
        even = np.full(RATES, (1.0 - 2.0 * ENDS) / (RATES - 1))
        even[[0, -1]] = even[[0, -1]] / 2.0 + ENDS
        # Before any event the prior is all there is: the Beta of the pseudo-events.
        inside = np.clip(self.rates, 1e-6, 1.0 - 1e-6)
        beta = inside ** (prior[0] - 0.5) * (1.0 - inside) ** (prior[1] - 0.5)
        beta[[0, -1]] /= 2.0
        priors = []
        for deviation in (TILT_POINT, TILT_INTERVAL):
            tilts = np.exp(-0.5 * (TILTS / deviation) ** 2)
            tilts /= tilts.sum() * len(kinds)
            priors.append(np.log(np.outer(even, np.tile(tilts, len(kinds)))).ravel())
        each = len(kinds) * len(TILTS)
        filling = np.repeat(np.log(beta / beta.sum() + TINY) - np.log(even), each)
        log_mixed, shares, confidences = (
            part.reshape(-1, clean.size).T.copy() for part in (np.log(mixed), share, expected)
        )
        rates = np.repeat(self.rates, each)
        return _Grid(rates, log_mixed, shares, confidences, priors[0], priors[1], filling)

    def estimate(
        self,
        counts: ArrayLike,
        *,
        shrink: ArrayLike = 1.0,
        filled: ArrayLike = 1.0,
        confidence: float = 0.95,
    ) -> Estimates:
        """Estimates of one window (cells,) or several (windows, cells); counts may be weights.

        `shrink` (one number, or one a window) is the effective number of events over the counted
        one: below 1 for events that resemble each other, and for weights. `filled` is how much of
        a full window there is: the less, the more the prior counts.
        """
        parts = [self._estimate(*some, confidence) for some in self._chunks(counts, shrink, filled)]
        *names, _ = (f.name for f in fields(Estimates))
        columns = {n: np.concatenate([[], *(getattr(p, n) for p in parts)]) for n in names}
        return Estimates(**columns, no_estimate=tuple(r for p in parts for r in p.no_estimate))

    def _estimate(
        self, table: Floats, shrink: Floats, filled: Floats, confidence: float
    ) -> Estimates:
        read = self._read(table, shrink, filled)
        by_rate = read.wide.reshape(len(table), RATES, -1).sum(axis=2)
        accuracies, risks = self._intervals(read, confidence)
        # Rounding may carry a mean beyond the values it is of.
        rate = np.minimum(read.point @ read.grid.rate, 1.0)
        accuracy = np.clip(_mean(read.point, read.parts[0].led(read.opinion).accuracy), 0.0, 1.0)
        risk = np.clip(_mean(read.point, self._risk(read, 0.0, read.opinion)), *self.tree.costs)
        over, under = self._exceeding(read)
        bins, outside = self.calibration.by_bin(table), table[:, 1::2].sum(axis=1)
        return Estimates(
            read.n,
            *_around(rate, quantiles(by_rate, self.rates, confidence)),
            *_around(accuracy, accuracies),
            *_around(risk, risks),
            over,
            _log(over) - _log(under),
            *self._refusal.of(bins, outside, read.best, shrink),
        )

    def odds(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0) -> Odds:
        """What an alarm asks for, without points and intervals."""
        found = [np.zeros((3, 0))]
        for some in self._chunks(counts, shrink, 1.0):
            read = self._read(*some, likely=True)
            without_shift = read.log[:, : read.log.shape[1] // RATES]
            none = np.exp(without_shift).sum(axis=1) / np.exp(read.log).sum(axis=1)
            found.append(np.stack([*self._exceeding(read), none]))
        over, under, none = _log(np.concatenate(found, axis=1))
        return Odds(over - under, over - none)

    def most_evidence(self, bins: Floats, *, shrink: float = 1.0) -> Floats:
        """About the most evidence that `odds` can find, at a hundredth of its cost.

        `bins` are the windows' counts by bin of the shift score. The likelihood ratio of the best
        point on a coarse grid stands for the average over all points, which is less by far.
        """
        luck = shrink / (1.0 + shrink * bins.sum(axis=1) / self._rows)
        ratio = (bins @ self._against_clean).max(axis=1) * luck
        return np.asarray(np.logaddexp(0.0, ratio + np.log((1.0 - ENDS) / ENDS)))

    def doubt(
        self, bins: Floats, outside: Floats, *, shrink: float = 1.0
    ) -> tuple[str | None, ...]:
        """Why there is no estimate of windows, as `estimate` says it.

        `bins` are the windows' counts by bin of the shift score, `outside` their numbers of events
        beyond the calibrated range.
        """
        best = (bins @ self._grid.log_mixed).max(axis=1)
        return self._refusal.of(bins, outside, best, np.full(len(bins), shrink))[1]

    def parameters(
        self, counts: ArrayLike, *, shrink: float = 1.0, filled: float = 1.0
    ) -> dict[str, float]:
        """The tree's parameters in one window: with them it costs what `estimate` says.

        They are ratios of expected numbers of events, not means of ratios.
        """
        read = self._read(*self._windows(counts, shrink, filled))
        led = (part.led(read.opinion) for part in read.parts)
        means = (_Mix(p.events, *(_mean(read.point, each)[:, None] for each in p[1:])) for p in led)
        given = self._given(tuple(means), 0.0, np.zeros(1))
        return {name: float(np.ravel(value)[0]) for name, value in given.items()}

    def parameters_at(self, rate: float) -> dict[str, float]:
        """The tree's parameters at a rate of shift before anything is seen, kinds even.

        Half a right and half a wrong answer are added: what was not seen is not impossible.
        """
        clean, *shifted = shares_of_kinds(self.calibration, added=0.5)
        known = live_parameters(clean, np.mean(shifted, axis=0))
        given = {**self.constants, "p_shift": float(rate), **known}
        return {name: given[name] for name in self.tree.parameters}

    def believe(self, counts: ArrayLike, *, filled: float = 1.0) -> Floats:
        """For each cell, the probability that an event there is right, in the light of a window."""
        read = self._read(*self._windows(counts, 1.0, filled))
        shifted = self._grid.share @ read.point[0]
        q = np.repeat(shifted, self.calibration.cells // len(shifted))
        return np.asarray((1.0 - q) * self._if_clean + q * self._if_shifted)

    def forecast(self, rate: float) -> tuple[float, float, float]:
        """The risk to expect at a rate of shift before anything is seen, and its 95% interval.

        The risk is what the calibration's counts say, kinds even. Its interval is over kinds,
        tilts and sways.
        """
        risk = _cost(self.tree, self.parameters_at(rate))
        clean, *kinds = self._cells
        table = np.array([(1.0 - rate) * clean + rate * kind for kind in kinds])
        read = self._read(table, np.ones(len(table)), np.ones(len(table)))
        # A stream of one kind at this rate: only the tilt is unknown.
        at = np.abs(self.rates - rate).argmin(), np.arange(len(kinds))
        wide = np.zeros((len(kinds), RATES, len(kinds), len(TILTS)))
        prior = np.exp(self._grid.wide_prior).reshape(wide.shape[1:])
        wide[at[1], at[0], at[1]] = prior[at] / prior[at].max(axis=-1, keepdims=True)
        read = read._replace(wide=wide.reshape(len(kinds), -1))
        values, weight = self._risks(read, np.zeros(len(kinds)))
        low, high = spanned(values.reshape(1, -1), weight.reshape(1, -1), 0.95)
        return risk, min(float(low[0]), risk), max(float(high[0]), risk)

    def _windows(self, counts: ArrayLike, *factors: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Counts as windows x cells, and `shrink` and `filled` of each window."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        shrink, filled = (
            np.broadcast_to(np.asarray(v, dtype=np.float64), (len(table),)) for v in factors
        )
        return table, shrink, filled

    def _chunks(self, *given: ArrayLike) -> Iterator[tuple[Floats, Floats, Floats]]:
        table, shrink, filled = self._windows(*given)
        for at in range(0, len(table), CHUNK):
            some = slice(at, at + CHUNK)
            yield table[some], shrink[some], filled[some]

    def _read(
        self, table: Floats, shrink: Floats, filled: Floats, *, likely: bool = False
    ) -> _Read:
        """The posterior of windows, on the whole grid or on its `likely` points alone."""
        n, grid = table.sum(axis=1), self._grid
        empty = n <= TINY
        # An empty window is read as what is expected of one event: zero right answers are not.
        table = np.where(empty[:, None], self._before, table) if empty.any() else table
        by_bin = self.calibration.by_bin(table)
        likelihood = by_bin @ grid.log_mixed
        effective = np.maximum(n * shrink, TINY)
        luck = np.where(empty, 0.0, shrink / (1.0 + effective / self._rows))
        log = likelihood * luck[:, None] + grid.wide_prior
        if (filled < 1.0).any():
            log += (1.0 - filled)[:, None] * grid.filling
        log -= log.max(axis=1, keepdims=True)
        some = log
        if likely:
            points = log.max(axis=0) > UNLIKELY
            grid, some = _Grid(*(part[..., points] for part in grid)), log[:, points]
        point = _normalised(some + (grid.point_prior - grid.wide_prior))
        halves = (1.0, ~self._alarm, self._alarm) if self._asks else (1.0,)
        parts = tuple(self._mix(table * on, grid) for on in halves)
        opinion = self._opinion(table, by_bin @ grid.expected, point, effective)
        opinion = np.where(empty, 0.0, opinion)
        best, wide = likelihood.max(axis=1), _normalised(some)
        return _Read(grid, parts, n, effective, log, best, point, wide, opinion)

    def _mix(self, table: Floats, grid: _Grid) -> _Mix:
        events, clean, shifted = (
            self.calibration.by_bin(table * right)
            for right in (1.0, self._if_clean, self._if_shifted)
        )
        return _Mix(
            np.maximum(events.sum(axis=1), TINY)[:, None],
            events @ grid.share,
            clean.sum(axis=1)[:, None] - clean @ grid.share,
            shifted @ grid.share,
        )

    def _opinion(self, table: Floats, expected: Floats, point: Floats, effective: Floats) -> Floats:
        """How far the confidence seen is from the one expected, beyond two standard errors."""
        if not self._trust:
            return np.zeros(len(effective))
        gap = (table @ self._if_clean - _mean(point, expected)) / table.sum(axis=1)
        error = np.sqrt(self._variance * (1.0 / effective + 1.0 / self._rows))
        beyond = np.sign(gap) * np.maximum(np.abs(gap) - BEYOND * error, 0.0)
        return np.asarray(self._trust * OPINION * beyond)

    def _intervals(
        self, read: _Read, confidence: float
    ) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Of the window's own accuracy, its chance included, and of its risk."""
        opinion, likely = read.opinion, read.wide.max(axis=0) > NEGLIGIBLE
        events, *parts = read.parts[0]
        mix, weights = _Mix(events, *(part[:, likely] for part in parts)), read.wide[:, likely]
        rights = np.zeros((len(weights), RESOLUTION + 1))
        for z, weight in zip(NORMAL, NORMAL_WEIGHT, strict=True):
            rights += weight * histogram(mix.moved(self._sway * z).accuracy, weights)
        worse, better = 2.0 * np.minimum(opinion, 0.0), 2.0 * np.maximum(opinion, 0.0)

        def ends(n: Floats) -> tuple[Floats, Floats]:
            low, high = with_chance(rights, n, confidence)
            return np.clip(low + worse, 0.0, 1.0), np.clip(high + better, 0.0, 1.0)

        accuracy = ends(read.effective / (1.0 + read.effective / self._rows))
        if self._answers is not None:
            right, wrong = self._answers
            # Accuracies are known as well as so many rows say, whatever the window is.
            costs = [wrong + (right - wrong) * e for e in ends(np.full(len(opinion), self._rows))]
            return accuracy, (np.minimum(*costs), np.maximum(*costs))
        led = (np.zeros_like(opinion), 2.0 * opinion) if opinion.any() else (opinion,)
        risks = np.array([spanned(*self._risks(read, by), confidence) for by in led])
        return accuracy, (risks[:, 0].min(axis=0), risks[:, 1].max(axis=0))

    def _risks(self, read: _Read, opinion: Floats) -> tuple[Floats, Floats]:
        """The risk for every sway and grid point, windows x values, and the weights."""
        values = [self._risk(read, z, opinion) for z in NORMAL]
        weights = [weight * read.wide for weight in NORMAL_WEIGHT]
        return np.concatenate(values, axis=1), np.concatenate(weights, axis=1)

    def _exceeding(self, read: _Read) -> tuple[Floats, Floats]:
        """P(risk > tolerable) and P(risk <= tolerable), summed apart so that both have tails.

        Confident answers must not silence an alarm: the second opinion counts if it is for worse.
        """
        from scipy.special import ndtr

        if self.tolerable is None:
            nothing = np.full(len(read.n), np.nan)
            return nothing, nothing
        mean, deviation = self._spread(read, np.minimum(read.opinion, 0.0))
        above = ndtr((mean - self.tolerable) / np.maximum(deviation, TINY))
        over, under = (np.minimum(_mean(read.wide, p), 1.0) for p in (above, 1.0 - above))
        return over, under

    def _spread(self, read: _Read, opinion: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the risk at each grid point: a new kind's accuracy, luck."""
        if self._answers is None:
            risks = np.array([self._risk(read, z, opinion) for z in NORMAL])
            mean = np.tensordot(NORMAL_WEIGHT, risks, 1)
            return mean, np.sqrt(np.tensordot(NORMAL_WEIGHT, (risks - mean) ** 2, 1))
        right, wrong = self._answers
        led, accuracies = read.parts[0].led(opinion), self._swayed
        at = (SWAYED * _share_of(led.right_shifted, led.shifted)).astype(np.intp)
        mean = led.right_clean + led.shifted * accuracies[0].take(at)
        clean = led.right_clean * (1.0 - _share_of(led.right_clean, led.clean))
        variance = led.shifted**2 * accuracies[1].take(at) + led.clean * clean / self._clean_rows
        risk = wrong + (right - wrong) * mean / led.events
        return risk, abs(right - wrong) * np.sqrt(variance) / led.events

    def _risk(self, read: _Read, z: float, opinion: Floats) -> Floats:
        """The tree's expected cost, windows x grid, with accuracies z standard deviations higher."""
        cost = expectation(self.tree, self._given(read.parts, z, opinion))
        return np.broadcast_to(np.asarray(cost), read.parts[0].shifted.shape)

    def _given(self, parts: tuple[_Mix, ...], z: float, opinion: Floats) -> dict[str, Any]:
        """The tree's parameters, windows x grid, with accuracies z standard deviations higher."""
        mix = parts[0]
        given: dict[str, Any] = {"p_shift": mix.shifted / mix.events, **self.constants}
        if self._asks:
            _, undetected, detected = parts
            given["tpr"] = _share_of(detected.shifted, mix.shifted)
            given["tnr"] = _share_of(undetected.clean, mix.clean)
        ends = ("", "_undetected", "_detected")
        for end, part, luck in zip(ends, parts, self._luck, strict=False):
            some = part.moved(self._sway * z, luck * z).led(opinion)
            given[f"accuracy_clean{end}"] = _share_of(some.right_clean, some.clean)
            given[f"accuracy_shifted{end}"] = _share_of(some.right_shifted, some.shifted)
        return {name: given[name] for name in self.tree.parameters}


def costs_of(estimator: Estimator, rate: float) -> dict[str, float]:
    """By kind of shift, what an event costs in a stream with this share of the kind."""
    clean, *shifted = shares_of_kinds(estimator.calibration)
    given = {**estimator.constants, "p_shift": rate}
    return {
        kind: _cost(estimator.tree, {**given, **live_parameters(clean, rows)})
        for kind, rows in zip(estimator.calibration.kinds[1:], shifted, strict=True)
    }


def _cost(tree: Tree, parameters: Mapping[str, float]) -> float:
    """What an event costs; a rate of shift is capped at what other events of its node leave."""
    found = expectation(tree, {name: np.array([value]) for name, value in parameters.items()})
    return float(np.ravel(found)[0])


def _right_by_bin(rows: Floats, bins: NDArray[Any], apart: NDArray[Any]) -> Floats:
    """The share of right answers in the bin of each cell, with a few rows of the mean.

    `rows` are (right, wrong) x cells; cells that stand apart have a mean and bins of their own.
    """
    place = bins + (bins.max() + 1) * apart
    by_half = np.array([np.bincount(apart, outcome, minlength=2) for outcome in rows]) + 0.5
    by_bin = np.array([np.bincount(place, outcome) for outcome in rows])
    mean = (by_half[0] / by_half.sum(axis=0))[apart]
    return np.asarray((by_bin[0][place] + PULL * mean) / (by_bin.sum(axis=0)[place] + PULL))


def _around(value: Floats, ends: tuple[Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """A value and an interval that holds it."""
    return value, np.minimum(ends[0], value), np.maximum(ends[1], value)


def _log(share: Floats) -> Floats:
    return np.log(np.maximum(share, 1e-300))


def _moved(share: Floats, logits: ArrayLike) -> Floats:
    """A probability moved on the logit scale."""
    inside = np.clip(share, 1e-4, 1.0 - 1e-4)
    odds = inside / (1.0 - inside) * np.exp(logits)
    return np.asarray(odds / (1.0 + odds))


def _mean(weights: Floats, values: Floats) -> Floats:
    """By window, the mean over the grid."""
    return np.einsum("wg,wg->w", weights, values)


def _normalised(log: Floats) -> Floats:
    found = np.exp(log - log.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    return found


def _share_of(part: Floats, whole: Floats) -> Floats:
    """A share; a part that is a difference may be below nothing or beyond its whole by rounding."""
    share = np.divide(part, whole, out=np.zeros_like(part), where=whole > TINY)
    return np.clip(share, 0.0, 1.0)
