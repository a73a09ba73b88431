"""Adaptive multilevel splitting: the probability of rare failures as a product of larger ones (Webb et al. 2019).

The particles with the highest margins, a share `keep`, are copied and moved at random above the level that
the others do not exceed, until more than that share fails. All cells are moved in one tensor program. The step
of a cell is adapted at every move to an acceptance of 20 to 45%: adapted once a level, estimates were 60% of the
truth. A level is the highest margin left behind, so that the estimate has no bias (Bréhier et al. 2015). After J
levels of N particles its relative variance is [J (1-keep)/keep + (1-p)/p] / N, p being the share that fails at
last; the interval is log-normal. Both assume that moves forget where they began, and that no mode is missed:
independent `runs` that disagree show that one was.

>>> import torch
>>> from roadworthy.search.laws import Normal
>>> law, limits = Normal(torch.zeros(2, 8), torch.ones(2, 8)), torch.tensor([[3.0902], [5.9978]])
>>> found = splitting(lambda x, cells: x[..., 0] - limits[cells], law, np.random.default_rng(0))
>>> (found.low < [1e-3, 1e-9]) & (found.high > [1e-3, 1e-9])
array([ True,  True])
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from roadworthy.registry import register
from roadworthy.search.failures import (
    CellEstimates,
    Margin,
    Particles,
    Sampler,
    binomial,
    bounded,
    replaced,
)
from roadworthy.statistics.arguments import check_confidence

GAIN = 2.0  # of the step: a move of which nothing is accepted halves it
DISAGREE = 0.01  # how often chance alone may make runs differ that much
_RUN = [("log_p", float), ("spread", float), ("failing", int), ("levels", int), ("queries", int)]
_RUN += [("found", bool), ("flat", bool)]
"""What is known of a run: log probability of the last level or of failing, and its relative variance."""


@register("failure_estimators", "splitting")
def splitting(
    margin: Margin,
    law: Any,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    particles: int = 1000,
    keep: float = 0.1,
    steps: int = 100,
    runs: int = 1,
    least: float = 1e-12,
) -> CellEstimates:
    """Adaptive multilevel splitting, for rare failures down to `least`, in independent runs."""
    import torch

    check_confidence(confidence)
    kept = round(keep * particles)
    if not (2 <= kept < particles and steps >= 1 and runs >= 1 and 0 < least < 1):
        raise ValueError(
            f"particles {particles}, keep {keep}, steps {steps}, runs {runs}, least {least}: expected "
            "at least 2 particles kept, 1 step and 1 run, and least between 0 and 1"
        )
    sampler = Sampler.of(margin, law, rng, moves="splitting")
    found = np.zeros(len(law) * runs, _RUN)
    rows = np.arange(len(found))  # runs whose particles are held; those at an end are dropped
    with torch.no_grad():
        now, asked = sampler.drawn(particles, runs=runs), particles
        while len(rows):
            found["queries"][rows] += asked
            ranked, order = now.margin.sort(dim=1, descending=True)
            level = ranked[:, kept]
            above = (ranked > level.unsqueeze(1)).sum(1)
            exceed, failing = torch.stack([above, (ranked >= 0).sum(1)]).cpu().numpy()
            end = failing > kept
            flat = ~end & (exceed < kept / 2)
            share = np.where(end, failing, np.maximum(exceed, 1)) / particles
            found["log_p"][rows] += np.log(share)
            found["spread"][rows] += (1 - share) / (share * particles)
            found["levels"][rows] += ~end
            found["failing"][rows], found["found"][rows], found["flat"][rows] = failing, end, flat
            going = np.flatnonzero(~end & ~flat & (found["log_p"][rows] >= math.log(least)))
            rows, some = rows[going], torch.from_numpy(going).to(level.device)
            # Every survivor is copied as often as the others, give or take one.
            place = torch.arange(particles, device=level.device) * above[some, None] // particles
            copied = order[some].gather(1, place)
            x, margins = now.x[some[:, None], copied], now.margin[some].gather(1, copied)
            now = Particles(x, margins, now.step[some], now.cells[some])
            asked = particles * steps
            if len(rows):
                sampler.move(now, level[some], steps=steps, gain=GAIN)
        cells = found.reshape(runs, -1)
        flats, draws = np.flatnonzero(cells["flat"].any(0)), runs * particles * steps
        answer = _united(cells, particles, confidence)
        return sampler.instead_of_plateaus(answer, flats, draws, confidence)


def _united(found: np.ndarray, particles: int, confidence: float) -> CellEstimates:
    """The mean of the runs of each cell; if they disagree, with an interval that covers their spread."""
    runs, tail = len(found), (1 + confidence) / 2
    logs, spread, values = found["log_p"], found["spread"], np.exp(found["log_p"])
    # An estimate without bias has a logarithm that lies half its variance below that of the truth.
    mean, within = values.mean(0), spread.mean(0) / runs
    variance = mean**2 * within
    reach = NormalDist().inv_cdf(tail) * np.sqrt(within)
    low, high = mean * np.exp(within / 2 - reach), mean * np.exp(within / 2 + reach)
    apart = np.zeros(len(mean), bool)
    if runs > 1:
        from scipy.special import chdtri, stdtrit

        excess = (logs - logs.mean(0)) ** 2 / np.maximum(spread, 1e-12)  # 0 if every particle fails
        apart = excess.sum(0) > chdtri(runs - 1, DISAGREE)
        reach = stdtrit(runs - 1, tail) * logs.std(0, ddof=1) / math.sqrt(runs)
        lowest = np.min([low, values.min(0), mean * np.exp(-reach)], 0)
        highest = np.max([high, values.max(0), mean * np.exp(reach)], 0)
        low, high = np.where(apart, lowest, low), np.where(apart, highest, high)
        variance = np.where(apart, np.maximum(variance, values.var(0, ddof=1) / runs), variance)
    notes = tuple(
        f"Cell {cell}: {runs} independent runs disagree, from {values[:, cell].min():.2g} to "
        f"{values[:, cell].max():.2g}; the interval covers their spread."
        for cell in np.flatnonzero(apart)
    )
    low, high = np.minimum(low, mean), np.clip(high, mean, 1.0)
    queries, some = found["queries"].sum(0), np.asarray(found["found"].any(0))
    answer = bounded(CellEstimates(mean, low, high, variance, queries, some, notes))
    # Without levels the inputs are independent, and need no formula for large numbers.
    plain = np.flatnonzero((found["levels"] == 0).all(0))
    exact = binomial(found["failing"].sum(0)[plain], runs * particles, confidence)
    return replaced(answer, plain, exact)
