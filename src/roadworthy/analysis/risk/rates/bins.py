"""The rate of shift from score bins: maximum likelihood and posterior mean of a mixture of two multinomials.

A window's events fall into the bins with probabilities m(p) = p q + (1 - p) c, clean c and shifted q from calibration. The
log-likelihood sum_b n_b log m_b(p) is concave in p. The interval of `likelihood_rate` inverts the score test: it holds every p
at which S = sum_b n_b (q_b - c_b) / m_b is neither higher nor lower than 2.5% of the scores to expect there: normal for given
shares, and a mixture over what the shares may be (Dirichlet draws; tilted, for a new kind of shift). In two bins it is
`rogan_gladen` with the kinds seen, but for the row that is added to every bin.
`posterior_rate` averages the likelihood over the same draws; it is the better point estimate where little is known.

>>> calibrated = Calibrated.from_table({"clean": [100, 60, 30, 10], "fog": [10, 30, 60, 100]})
>>> windows = [[48, 30, 16, 6], [28, 22, 22, 28], [5, 14, 32, 49]]
>>> likelihood_rate(windows, calibrated).value.round(2).tolist()
[0.02, 0.5, 1.0]
>>> posterior_rate(windows, calibrated).value.round(2).tolist()
[0.05, 0.53, 0.96]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.statistics.arguments import check_choice, check_confidence, tail_probability

from . import cells_of_rate
from .answer import ALIKE, NO_EVENTS, Floats, Rates, answered, bin_counts
from .calibrated import BIN_PRIOR, Calibrated, Kinds, check_kinds

CHUNK = 2_000_000
PLACES = 201
"""Rates at which the score test is made; between them the ends are interpolated."""


def likelihood_rate(
    counts: ArrayLike,
    calibrated: Calibrated,
    *,
    kinds: Kinds = "new",
    draws: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> Rates:
    """The rate that makes the bins of each window (in the last axis) most likely, with the inverted score test as interval."""
    check_kinds(kinds)
    _check_two_bins(calibrated)
    table = bin_counts(counts, calibrated.bins)
    empty = table.sum(axis=-1) == 0.0
    value = np.where(empty, 0.0, _maximum(table.reshape(-1, calibrated.bins), calibrated).reshape(empty.shape))
    low, high = _score_interval(table, calibrated, kinds, draws, seed, confidence)
    flags = {NO_EVENTS: empty, ALIKE: np.full(empty.shape, calibrated.alike)}
    method = f"maximum likelihood over {calibrated.bins} bins; score interval, {_of(kinds)}"
    return answered((value, low, high), confidence, method, flags)


def posterior_rate(
    counts: ArrayLike,
    calibrated: Calibrated,
    *,
    kinds: Kinds = "new",
    interval: Literal["score", "credible"] = "score",
    prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS,
    draws: int = 100,
    seed: int = 0,
    confidence: float = 0.95,
) -> Rates:
    """The posterior mean of the rate given the bins of each window.

    The score interval is that of `likelihood_rate` and knows no prior. The credible one does; it is narrower, and with a few
    hundred calibration rows 95% of it cover 93% of the rates, 91% where the kind of shift is new.
    """
    check_choice("interval", interval, ("score", "credible"))
    posterior = BinPosterior.build(calibrated, kinds=kinds, draws=draws, seed=seed)
    found = posterior.rate(counts, prior=prior, confidence=confidence)
    if interval == "credible":
        return found
    low, high = _score_interval(np.asarray(counts, dtype=np.float64), calibrated, kinds, draws, seed, confidence)
    method = f"posterior mean over {calibrated.bins} bins; score interval, {_of(kinds)}"
    return answered((found.value, low, high), confidence, method, found.flags)


@dataclass(frozen=True, eq=False)
class BinPosterior:
    """Draws of how clean and of how shifted events fall into the bins, each as likely as another before a window is seen."""

    clean: Floats
    shifted: Floats
    alike: bool
    method: str

    @classmethod
    def build(
        cls, calibrated: Calibrated, *, kinds: Kinds = "new", draws: int = 100, seed: int = 0, added: float = 0.5
    ) -> BinPosterior:
        """Draw from the calibration's posteriors, Jeffreys' half row added to each bin, and the tilt of a new kind of shift."""
        check_kinds(kinds)
        if draws < 1:
            raise ValueError(f"draws must be at least 1, found {draws}")
        _check_two_bins(calibrated)
        rng = np.random.default_rng(seed)
        clean = rng.dirichlet(calibrated.clean + added, draws)
        shifted = np.mean([rng.dirichlet(rows + added, draws) for rows in calibrated.shifted], axis=0)
        if kinds == "new":
            # One draw in each of equally likely parts: a hundred then say what a thousand independent ones do.
            shifted = calibrated.tilted(rng.permutation(calibrated.tilts(draws)), shifted)
        method = f"posterior mean over {calibrated.bins} bins; credible interval, {_of(kinds)}"
        return cls(np.maximum(clean, 1e-12), np.maximum(shifted, 1e-12), calibrated.alike, method)

    def mass(self, counts: ArrayLike, *, prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS) -> Floats:
        """The posterior of the rate in cells: windows x cells."""
        table = bin_counts(counts, self.clean.shape[1])
        rows = table.reshape(-1, table.shape[-1])
        cells = cells_of_rate.cells_for(rows.sum(axis=1).max(initial=0.0))
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


def _score_interval(
    table: Floats, calibrated: Calibrated, kinds: Kinds, draws: int, seed: int, confidence: float
) -> tuple[Floats, Floats]:
    """Window by window, the ends of the inverted score test; every rate where there are no events."""
    possible = BinPosterior.build(calibrated, kinds=kinds, draws=draws, seed=seed, added=BIN_PRIOR)
    tail, rows = tail_probability(confidence, "two"), table.reshape(-1, calibrated.bins)
    empty = table.sum(axis=-1) == 0.0
    low, high = (end.reshape(empty.shape) for end in _inverted(rows, calibrated, possible, tail))
    return np.where(empty, 0.0, low), np.where(empty, 1.0, high)


def _inverted(rows: Floats, calibrated: Calibrated, possible: BinPosterior, tail: float) -> tuple[Floats, Floats]:
    """The lowest and the highest rate that the score test does not reject; where it rejects all, the least rejected one."""
    rate = np.linspace(0.0, 1.0, PLACES)
    low, high = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, CHUNK // (PLACES * len(possible.clean)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        excess = tail - _least_tail(rows[some], calibrated, possible, rate)
        excess -= np.maximum(excess.min(axis=1, keepdims=True), 0.0)
        inside = excess <= 0.0
        first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
        low[some], high[some] = _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)
    return low, high


def _least_tail(rows: Floats, calibrated: Calibrated, possible: BinPosterior, rate: Floats) -> Floats:
    """Windows x rates: the smaller of the chances of a score as high, or as low, as that seen, over all that is possible."""
    from scipy.special import ndtr

    difference = calibrated.shifted_shares - calibrated.clean_shares
    part = difference / (calibrated.clean_shares + rate[:, None] * difference)
    clean, shifted = ((1.0 - rate)[:, None], possible.clean.T), (rate[:, None], possible.shifted.T)
    expected, square = (sum(weight * (x @ shares) for weight, shares in (clean, shifted)) for x in (part, part**2))
    n = rows.sum(axis=1)[:, None, None]
    deviation = np.sqrt(np.maximum(n * (square - expected**2), 1e-300))
    below = ndtr(((rows @ part.T)[:, :, None] - n * expected) / deviation).mean(axis=2)
    return np.minimum(below, 1.0 - below)


def _crossing(excess: Floats, rate: Floats, at: np.ndarray, step: int) -> Floats:
    """Where the excess becomes positive between a place inside and its neighbour outside."""
    every = np.arange(len(excess))
    beyond = np.clip(at + step, 0, PLACES - 1)
    inside, outside = excess[every, at], excess[every, beyond]
    part = np.where(outside > inside, -inside / np.maximum(outside - inside, 1e-300), 0.0)
    result: Floats = rate[at] + np.clip(part, 0.0, 1.0) * (rate[beyond] - rate[at])
    return result
