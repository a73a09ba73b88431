"""What a window of unlabelled events says: the rate of shift, the accuracy, the expected cost, and how sure one can be.

A window is counts over the cells of a `Calibration`. Its likelihood is that of a mixture of clean and shifted events, for every
rate on a grid and every draw of what clean and shifted may be (`roadworthy.analysis.risk.draws`: calibration uncertainty, and the
step to an unseen kind). Every sum over events is a sum over cells, so that the cost of an answer does not grow with the window.

The *rate* is the probability of shift behind the window. The *accuracy* is the window's own share of right answers: its interval
holds the chance by which events turn out right. The *risk* is the event tree's expected cost of an event of the window, without
that chance; `exceedance` is the probability that it is above the tolerable.

>>> from roadworthy.analysis.risk.cells import calibrate
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk import draws as worlds
from roadworthy.analysis.risk.cells import Calibration
from roadworthy.analysis.risk.doubts import doubts, separation
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.analysis.risk.weighted import among, quantiles, with_chance

Floats = NDArray[np.float64]

RATES = 51
"""Rates of shift on the grid, from 0 to 1."""
MOST = 2000.0
"""Events that a window counts for at most: beyond, what is not known about the distributions outweighs chance."""
CHUNK = 48
"""Windows at a time, so that the draws x rates of all of them stay near the processor."""
NEAR = 40_000
"""Draws x rates x windows that stay in the fastest memory where little else is worked out."""
LIVE = (
    "p_shift",
    "tpr",
    "tnr",
    "accuracy_clean",
    "accuracy_shifted",
    "accuracy_clean_detected",
    "accuracy_clean_undetected",
    "accuracy_shifted_detected",
    "accuracy_shifted_undetected",
)
"""Parameters of a tree that the stream itself gives."""


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
    log_odds: Floats
    strangeness: Floats
    """The probability that a window of what was calibrated looks at least as strange."""
    cannot_tell: tuple[str | None, ...]
    """Why a window's figures should not be relied on; None where they can be."""

    def __len__(self) -> int:
        return len(self.n)


@dataclass(frozen=True, eq=False)
class Belief:
    """Of each cell, the probability that an event there is right, and that it is shifted."""

    right: Floats
    shifted: Floats


class Estimator:
    """Everything about a calibration and a tree that does not depend on the stream, worked out once."""

    def __init__(
        self,
        calibration: Calibration,
        tree: Tree,
        *,
        constants: Mapping[str, ArrayLike] | None = None,
        tolerable: float | None = None,
        prior: tuple[float, float] = (1.0, 1.0),
        draws: int = 200,
        seed: int = 0,
        tilt: float = worlds.TILT,
        sway: float = worlds.SWAY,
        chance: bool = True,
        rates: int = RATES,
    ) -> None:
        """Without `chance` the calibration's own chance is not drawn but weakens what a window says: few draws then never decide."""
        self.calibration, self.tree, self.tolerable = calibration, tree, tolerable
        self.constants = dict(constants or {})
        unknown = [name for name in tree.parameters if name not in (*LIVE, *self.constants)]
        if unknown:
            raise ValueError(
                f"the tree has parameters that no stream gives: {', '.join(unknown)}; give their values, or use {', '.join(LIVE)}"
            )
        self.draws = worlds.drawn(calibration, draws=draws, seed=seed, tilt=tilt, sway=sway, chance=chance)
        self._rows = np.inf if chance else max(float(calibration.table[0].sum()), 1.0)
        self.rates = np.linspace(0.0, 1.0, rates)
        self.separation = separation(calibration)
        self._mixed, self._clean_share = self._mixture(self.rates)
        self._log_mixed = np.log(self._mixed)
        self._log_prior = np.log(_prior_on(self.rates, prior))

    def estimate(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0, confidence: float = 0.95) -> Estimates:
        """Estimates of one window (cells,) or several (windows, cells); counts may be weights.

        `shrink` (one number, or one a window) is the effective number of events over the counted one, for streams whose
        events are not independent and for weights.
        """
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        if table.shape[1] != self.calibration.cells or not np.isfinite(table).all() or (table < 0).any():
            raise ValueError(
                f"a window is a count, not negative, for each of {self.calibration.cells} cells, found shape {table.shape}"
            )
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence lies between 0 and 1, found {confidence}")
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(table),))
        if not ((factor > 0) & (factor <= 1)).all():
            raise ValueError("shrink is the effective number of events over the counted one: above 0, at most 1")
        parts = [
            self._some(table[at : at + CHUNK], factor[at : at + CHUNK], confidence)
            for at in range(0, len(table), CHUNK)
        ]
        columns = {
            f.name: np.concatenate([p[f.name] for p in parts]) if parts else np.zeros(0)
            for f in fields(Estimates)
            if f.name != "cannot_tell"
        }
        return Estimates(**columns, cannot_tell=tuple(word for p in parts for word in p["cannot_tell"]))

    def log_odds(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0) -> Floats:
        """The log-odds of exceedance alone, at a fraction of the cost of `estimate`: what an alarm watches."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(table),))
        found = np.empty(len(table))
        few = max(1, NEAR // self._log_mixed[:, 0].size)
        for at in range(0, len(table), few):
            window = _Window(self.calibration, table[at : at + few])
            weights = self._posterior(window, factor[at : at + few])
            over, under = self._exceeding(self._risk(window, self._clean_share), weights)
            found[at : at + few] = np.log(np.maximum(over, 1e-300)) - np.log(np.maximum(under, 1e-300))
        return found

    def believe(self, counts: ArrayLike, *, shrink: float = 1.0) -> Belief:
        """What each cell means, in the light of a window."""
        window = _Window(self.calibration, np.atleast_2d(np.asarray(counts, dtype=np.float64)))
        weights = self._posterior(window, np.array([shrink]))[:, 0, :]
        clean = np.einsum("bg,bsg->bs", weights, self._clean_share)
        shifted = weights.sum(axis=1)[:, None] - clean
        right = np.einsum("bs,bc->sc", clean, self.draws.right_clean)[:, :, None]
        right = right + np.einsum("bs,bc->sc", shifted, self.draws.right_shifted)[:, None, :]
        s, c, d, outside = self.calibration.shape
        wide = np.broadcast_to(shifted.sum(axis=0)[:, None, None, None], (s, c, d, outside))
        return Belief(np.repeat(right[..., None], outside, axis=-1).ravel(), wide.ravel().copy())

    def forecast(self, rate: float, *, confidence: float = 0.95) -> tuple[float, float, float]:
        """The risk to expect at a rate of shift before anything is seen, and its interval."""
        cells = self.calibration.table.sum(axis=1) + 1e-9
        shares = cells / cells.sum(axis=1, keepdims=True)
        mixture = rate * shares[1:].mean(axis=0) + (1.0 - rate) * shares[0]
        _, clean = self._mixture(np.array([rate]))
        risk = self._risk(_Window(self.calibration, mixture[None, :]), clean)[:, 0, 0]
        half = 50.0 * (1.0 - confidence)
        low, high = np.percentile(risk, [half, 100.0 - half])
        return float(risk.mean()), float(low), float(high)

    def _mixture(self, rates: Floats) -> tuple[Floats, Floats]:
        """For draws x bins x rates: the probability of a bin, and the share of clean events in it."""
        clean = self.draws.clean[:, :, None] * (1.0 - rates)
        mixed = clean + self.draws.shifted[:, :, None] * rates
        return mixed, clean / mixed

    def _some(self, table: Floats, shrink: Floats, confidence: float) -> dict[str, Any]:
        window = _Window(self.calibration, table)
        n = window.n
        weights = self._posterior(window, shrink)
        right = self._right(window, self._clean_share) / np.maximum(n, 1e-12)[:, None]
        risk = self._risk(window, self._clean_share)
        by_rate = weights.sum(axis=0)
        rate_low, rate_high = quantiles(by_rate, self.rates, confidence)
        low, high = with_chance(among(right, weights, 0.0, 1.0), np.maximum(n * shrink, 1e-12), confidence)
        bounds = self.tree.costs
        risk_low, risk_high = among(risk, weights, *bounds).interval(confidence)
        over, under = self._exceeding(risk, weights)
        strange = doubts(window.by_shift, window.outside, self._log_likelihood(window), shrink, self.calibration)
        return {
            "n": n,
            "rate": by_rate @ self.rates,
            "rate_low": rate_low,
            "rate_high": rate_high,
            "accuracy": np.einsum("bwg,bwg->w", weights, right),
            "accuracy_low": low,
            "accuracy_high": high,
            "risk": np.einsum("bwg,bwg->w", weights, np.broadcast_to(risk, weights.shape)),
            "risk_low": risk_low,
            "risk_high": risk_high,
            "exceedance": over,
            "log_odds": np.log(np.maximum(over, 1e-300)) - np.log(np.maximum(under, 1e-300)),
            "strangeness": strange.p_value,
            "cannot_tell": strange.reasons(self.separation, n),
        }

    def _log_likelihood(self, window: _Window) -> Floats:
        """Draws x windows x rates."""
        result: Floats = np.matmul(window.by_shift, self._log_mixed)
        return result

    def _posterior(self, window: _Window, shrink: Floats) -> Floats:
        """The weight of every draw and rate, draws x windows x rates; each window's add up to 1."""
        effective = np.minimum(shrink, MOST / np.maximum(window.n, 1e-12))
        effective = effective / (1.0 + effective * window.n / self._rows)
        log = self._log_likelihood(window) * effective[:, None] + self._log_prior
        log -= log.max(axis=(0, 2), keepdims=True)
        weights = np.exp(log, out=log)
        weights /= weights.sum(axis=(0, 2), keepdims=True)
        return weights

    def _right(self, window: _Window, clean_share: Floats, bins: slice = slice(None)) -> Floats:
        clean, shifted = self._right_parts(window, clean_share, bins)
        return clean + shifted

    def _right_parts(self, window: _Window, clean_share: Floats, bins: slice) -> tuple[Floats, Floats]:
        """Right answers among clean and among shifted events, draws x windows x rates."""
        share = clean_share[:, bins]
        if_clean = np.matmul(window.clean[:, bins], self.draws.right_clean.T).transpose(2, 0, 1)
        if_shifted = np.matmul(window.shifted[:, bins], self.draws.right_shifted.T).transpose(2, 0, 1)
        shifted = np.matmul(if_shifted, np.ones_like(share)) - np.matmul(if_shifted, share)
        return np.matmul(if_clean, share), shifted

    def _risk(self, window: _Window, clean_share: Floats) -> Floats:
        given = {**self.constants, **dict(self._live(window, clean_share))}
        result = np.asarray(expectation(self.tree, {name: given[name] for name in self.tree.parameters}))
        return np.broadcast_to(result, (len(self.draws.clean), len(window.n), clean_share.shape[2]))

    def _live(self, window: _Window, clean_share: Floats) -> Iterator[tuple[str, Floats]]:
        """The tree's live parameters: what the events of the window are, by draw and rate. What cannot happen has probability 0."""
        wanted = set(self.tree.parameters) & set(LIVE)
        every = slice(None)
        parts = {"": every, "_detected": slice(self.separation.cut, None), "_undetected": slice(0, self.separation.cut)}
        clean = {name: np.matmul(window.by_shift[:, bins], clean_share[:, bins]) for name, bins in parts.items()}
        total = {name: window.by_shift[:, bins].sum(axis=1)[:, None] for name, bins in parts.items()}
        if "p_shift" in wanted:
            yield "p_shift", _share(total[""] - clean[""], total[""])
        if "tpr" in wanted:
            yield "tpr", _share(total["_detected"] - clean["_detected"], total[""] - clean[""])
        if "tnr" in wanted:
            yield "tnr", _share(clean["_undetected"], clean[""])
        for name, bins in parts.items():
            names = f"accuracy_clean{name}", f"accuracy_shifted{name}"
            if not wanted & set(names):
                continue
            right = self._right_parts(window, clean_share, bins)
            masses = clean[name], total[name] - clean[name]
            for parameter, hits, mass in zip(names, right, masses, strict=True):
                yield parameter, _share(hits, mass)

    def _exceeding(self, risk: Floats, weights: Floats) -> tuple[Floats, Floats]:
        if self.tolerable is None:
            nothing = np.full(weights.shape[1], np.nan)
            return nothing, nothing
        above = risk > self.tolerable
        return np.where(above, weights, 0.0).sum(axis=(0, 2)), np.where(above, 0.0, weights).sum(axis=(0, 2))


class _Window:
    """Counts of several windows, and the sums over cells that the estimates need."""

    def __init__(self, calibration: Calibration, table: Floats) -> None:
        folded = calibration.folded(table)
        self.n = table.sum(axis=1)
        self.by_shift = folded.sum(axis=(2, 3, 4))
        self.clean = folded.sum(axis=(3, 4))
        self.shifted = folded.sum(axis=(2, 4))
        self.outside = folded[..., 1].sum(axis=(1, 2, 3))


def _share(part: Floats, whole: Floats) -> Floats:
    whole = np.broadcast_to(whole, part.shape)
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > 1e-12), 0.0, 1.0)


def _prior_on(rates: Floats, prior: tuple[float, float]) -> Floats:
    """A Beta prior's probability of the neighbourhood of each rate."""
    from scipy.special import betainc

    a, b = prior
    if not (a > 0 and b > 0):
        raise ValueError(f"the prior of the rate is a Beta with two positive numbers, found {prior}")
    middle = (rates[1:] + rates[:-1]) / 2
    below = np.concatenate([[0.0], betainc(a, b, middle), [1.0]])
    return np.maximum(np.diff(below), 1e-12)
