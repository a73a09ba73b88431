"""The rate of shift from score bins: maximum likelihood and posterior mean of a mixture of two multinomials.

A window's events fall into the bins with probabilities m(p) = p q + (1 - p) c, clean c and shifted q from calibration. The
log-likelihood sum_b n_b log m_b(p) is concave in p. The interval of `likelihood_rate` inverts the score test: it holds every p
with S(p)^2 <= z^2 V(p), where S = sum_b n_b (q_b - c_b) / m_b, and V adds to the information n sum_b (q_b - c_b)^2 / m_b what the
sampling of q and c, and the tilt of a new kind, contribute by the delta method. In two bins it is `rogan_gladen`, value and
interval, but for half a row that is added to every bin.
`posterior_rate` averages over draws of q and c (Dirichlet, tilted) instead; it is the better point estimate where little is known.

>>> calibrated = Calibrated.from_table({"clean": [100, 60, 30, 10], "fog": [10, 30, 60, 100]})
>>> windows = [[48, 30, 16, 6], [28, 22, 22, 28], [5, 14, 32, 49]]
>>> likelihood_rate(windows, calibrated).value.round(2).tolist()
[0.02, 0.5, 1.0]
>>> posterior_rate(windows, calibrated).value.round(2).tolist()
[0.05, 0.52, 0.96]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.statistics.arguments import check_confidence, tail_probability

from . import cells_of_rate
from .answer import ALIKE, NO_EVENTS, Floats, Rates, answered, bin_counts
from .calibrated import BIN_PRIOR, Calibrated, Kinds, check_kinds

CHUNK = 2_000_000
PLACES = 401
"""Rates at which the score test is made; between them the ends are interpolated."""


def likelihood_rate(
    counts: ArrayLike, calibrated: Calibrated, *, kinds: Kinds = "new", confidence: float = 0.95
) -> Rates:
    """The rate that makes the bins of each window (in the last axis) most likely, with the inverted score test as interval."""
    check_kinds(kinds)
    _check_two_bins(calibrated)
    table = bin_counts(counts, calibrated.bins)
    rows = table.reshape(-1, calibrated.bins)
    value = _maximum(rows, calibrated)
    low, high = _inverted(rows, calibrated, kinds, tail_probability(confidence, "two"))
    shape = table.shape[:-1]
    empty = rows.sum(axis=1) == 0.0
    value, low, high = np.where(empty, 0.0, value), np.where(empty, 0.0, low), np.where(empty, 1.0, high)
    flags = {NO_EVENTS: empty.reshape(shape), ALIKE: np.full(shape, calibrated.alike)}
    ends = (x.reshape(shape) for x in (value, low, high))
    return answered(ends, confidence, f"maximum likelihood over {calibrated.bins} bins, {_of(kinds)}", flags)


def posterior_rate(
    counts: ArrayLike,
    calibrated: Calibrated,
    *,
    kinds: Kinds = "new",
    prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS,
    draws: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> Rates:
    """The posterior mean of the rate given the bins of each window; for many calls with one calibration keep a `BinPosterior`."""
    posterior = BinPosterior.build(calibrated, kinds=kinds, draws=draws, seed=seed)
    return posterior.rate(counts, prior=prior, confidence=confidence)


@dataclass(frozen=True, eq=False)
class BinPosterior:
    """Draws of how clean and of how shifted events fall into the bins, each as likely as another before a window is seen."""

    clean: Floats
    shifted: Floats
    alike: bool
    method: str

    @classmethod
    def build(cls, calibrated: Calibrated, *, kinds: Kinds = "new", draws: int = 100, seed: int = 0) -> BinPosterior:
        """Draw from the calibration's posteriors and, for a new kind of shift, its tilt."""
        from scipy.special import ndtri

        check_kinds(kinds)
        if draws < 1:
            raise ValueError(f"draws must be at least 1, found {draws}")
        _check_two_bins(calibrated)
        rng = np.random.default_rng(seed)
        clean = rng.dirichlet(calibrated.clean + BIN_PRIOR, draws)
        shifted = np.mean([rng.dirichlet(rows + BIN_PRIOR, draws) for rows in calibrated.shifted], axis=0)
        if kinds == "new":
            # One draw in each of equally likely parts: a hundred then say what a thousand independent ones do.
            tilt = calibrated.spread * ndtri((rng.permutation(draws) + 0.5) / draws)
            shifted = shifted * np.exp(tilt[:, None] * calibrated.log_ratio)
            shifted /= shifted.sum(axis=1, keepdims=True)
        method = f"posterior mean over {calibrated.bins} bins, {_of(kinds)}"
        return cls(np.maximum(clean, 1e-12), np.maximum(shifted, 1e-12), calibrated.alike, method)

    def mass(self, counts: ArrayLike, *, prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS) -> Floats:
        """The posterior of the rate in cells: windows x cells."""
        table = bin_counts(counts, self.clean.shape[1])
        rows = table.reshape(-1, table.shape[-1])
        cells = int(min(max(100, 4 * math.sqrt(rows.sum(axis=1).max(initial=0.0))), 400))
        rate = cells_of_rate.middles(cells)[:, None, None]
        log = np.log(rate * self.shifted + (1.0 - rate) * self.clean).reshape(-1, table.shape[-1]).T
        likelihood = np.empty((len(rows), cells))
        step = max(1, CHUNK // log.shape[1])
        for start in range(0, len(rows), step):
            part = rows[start : start + step] @ log
            np.exp(part - part.max(axis=1, keepdims=True), out=part)
            likelihood[start : start + step] = part.reshape(len(part), cells, -1).sum(axis=2)
        believed = cells_of_rate.prior_mass(prior, cells)
        return cells_of_rate.normalised(likelihood.reshape(*table.shape[:-1], cells) * believed)

    def rate(
        self,
        counts: ArrayLike,
        *,
        prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS,
        confidence: float = 0.95,
    ) -> Rates:
        """Posterior mean and densest interval of each window; `prior` is a Beta prior, for all windows or each."""
        check_confidence(confidence)
        mass = self.mass(counts, prior=prior)
        low, high = cells_of_rate.densest(mass, confidence)
        empty = np.asarray(counts, dtype=np.float64).sum(axis=-1) == 0.0
        flags = {NO_EVENTS: empty, ALIKE: np.full(empty.shape, self.alike)}
        return answered((cells_of_rate.mean(mass), low, high), confidence, self.method, flags)


def _of(kinds: str) -> str:
    return "shift of a new kind" if kinds == "new" else "shift of the kinds calibrated"


def _check_two_bins(calibrated: Calibrated) -> None:
    if calibrated.bins == 2:
        calibrated.check_verdicts()


def _maximum(rows: Floats, calibrated: Calibrated) -> Floats:
    """Newton's method on the concave log-likelihood, kept within a bracket that halves where Newton leaves it."""
    c, d = calibrated.clean_shares, calibrated.shifted_shares - calibrated.clean_shares
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    rate = np.full(len(rows), 0.5)
    at_zero, at_one = rows @ (d / c) <= 0.0, rows @ (d / (c + d)) >= 0.0
    for _ in range(60):
        part = d / (c + rate[:, None] * d)
        slope = (rows * part).sum(axis=1)
        curvature = (rows * part**2).sum(axis=1)
        low, high = np.where(slope > 0.0, rate, low), np.where(slope > 0.0, high, rate)
        newton = rate + slope / np.maximum(curvature, 1e-300)
        following = np.where((newton > low) & (newton < high), newton, (low + high) / 2.0)
        settled = np.abs(following - rate).max(initial=0.0) < 1e-12
        rate = following
        if settled:
            break
    return np.where(at_zero, 0.0, np.where(at_one, 1.0, rate))


def _inverted(rows: Floats, calibrated: Calibrated, kinds: Kinds, tail: float) -> tuple[Floats, Floats]:
    """The lowest and the highest rate that the score test does not reject; where it rejects all, the least rejected one."""
    from scipy.special import ndtri

    square = float(ndtri(tail)) ** 2
    rate = np.linspace(0.0, 1.0, PLACES)
    mixed = calibrated.clean_shares + rate[:, None] * (calibrated.shifted_shares - calibrated.clean_shares)
    part = (calibrated.shifted_shares - calibrated.clean_shares) / mixed
    n = rows.sum(axis=1, keepdims=True)
    variance = n * (part**2 * mixed).sum(axis=1) + n**2 * _of_calibration(calibrated, kinds, rate, mixed)
    excess = (rows @ part.T) ** 2 - square * variance
    excess -= np.maximum(excess.min(axis=1, keepdims=True), 0.0)
    inside = excess <= 0.0
    first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
    return _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)


def _crossing(excess: Floats, rate: Floats, at: np.ndarray, step: int) -> Floats:
    """Where the excess becomes positive between a place inside and its neighbour outside."""
    every = np.arange(len(excess))
    beyond = np.clip(at + step, 0, PLACES - 1)
    inside, outside = excess[every, at], excess[every, beyond]
    part = np.where(outside > inside, -inside / np.maximum(outside - inside, 1e-300), 0.0)
    result: Floats = rate[at] + np.clip(part, 0.0, 1.0) * (rate[beyond] - rate[at])
    return result


def _of_calibration(calibrated: Calibrated, kinds: Kinds, rate: Floats, mixed: Floats) -> Floats:
    """By rate, the variance that the calibration adds to the score of one event."""
    c, q = calibrated.clean_shares, calibrated.shifted_shares
    by_shifted, by_clean = c / mixed, q / mixed  # derivatives of the expected score, each taken within its own bins
    added = _multinomial(c, by_clean) / (calibrated.clean.sum() + 1.0 + BIN_PRIOR * len(c))
    count = len(calibrated.kinds)
    for shares, rows in zip(calibrated.kind_shares, calibrated.shifted, strict=True):
        added = added + _multinomial(shares, by_shifted) / (rows.sum() + 1.0 + BIN_PRIOR * len(c)) / count**2
    if kinds == "new":
        moved = by_shifted @ (q * (calibrated.log_ratio - q @ calibrated.log_ratio))
        added = added + (calibrated.spread * moved) ** 2
    return np.asarray(added)


def _multinomial(shares: Floats, slopes: Floats) -> Floats:
    """The variance of sum_b slope_b x_b for one draw x of these shares, rate by rate."""
    result: Floats = slopes**2 @ shares - (slopes @ shares) ** 2
    return result
