"""The last particle: the lowest margin dies again and again, until all particles fail (Guyader et al. 2011).

The dead particle is replaced by a copy of another one, moved at random above the margin that died. With N
particles and M deaths the probability is (1 - 1/N)^M, and M is Poisson with the mean -N log p: the interval
is exact if moves forget where they began. It holds with few particles, and needs fewer queries than
`splitting` for the same width; but deaths come one after another, which is slow.

>>> import torch
>>> from roadworthy.search.laws import Normal
>>> law = Normal(torch.zeros(1, 8), torch.ones(1, 8))
>>> rng = np.random.default_rng(0)
>>> found = last_particle(lambda x, cells: x[..., 0] - 2.3263, law, rng, particles=30)
>>> bool(found.low[0] < 0.01 < found.high[0])
True
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from roadworthy.registry import register
from roadworthy.search.failures import CellEstimates, Margin, Particles, Sampler, bounded, next_step
from roadworthy.search.query import Tensor
from roadworthy.statistics.arguments import Floats, tail_probability

# The step is adapted once a death. Adapted at every move of a single particle it would depend on where
# that particle is: estimates of 1e-9 were 1.7 times the truth.
GAIN = 1.0
EQUAL = 0.05  # share of independent inputs with the margin of another that makes a plateau


@register("failure_estimators", "last_particle")
def last_particle(
    margin: Margin,
    law: Any,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    particles: int = 100,
    steps: int = 100,
    least: float = 1e-12,
) -> CellEstimates:
    """The last particle, for rare failures down to `least`: an exact interval from few particles."""
    import torch

    tail = tail_probability(confidence, "two")
    if not (particles >= 2 and steps >= 1 and 0 < least < 1):
        raise ValueError(
            f"particles {particles}, steps {steps}, least {least}: expected at least 2 particles "
            "and 1 step, and least between 0 and 1"
        )
    sampler = Sampler.of(margin, law, rng, moves="last_particle")
    limit = math.ceil(-particles * math.log(least))
    deaths, found, flat = (np.zeros(len(law), kind) for kind in (int, bool, bool))
    queries, rows = np.full(len(law), particles), np.arange(len(law))
    with torch.no_grad():
        now = sampler.drawn(particles)
        died, ties = torch.zeros_like(now.cells), now.margin.sort(dim=1).values.diff(dim=1) == 0
        stuck = ties.sum(1) > EQUAL * particles
        while len(rows):
            fails = now.margin.amin(1) >= 0
            state = torch.stack([died, fails, stuck]).cpu().numpy()
            deaths[rows], found[rows], flat[rows] = state[0], state[1] > 0, state[2] > 0
            some = (~fails & ~stuck & (died < limit)).nonzero()[:, 0]
            now, died, stuck = Particles(*(part[some] for part in now)), died[some], stuck[some]
            rows = rows[some.cpu().numpy()]
            queries[rows] += particles * steps
            # As many deaths as particles between two looks at which cells are done.
            for _ in range(particles if len(rows) else 0):
                now = _after_death(sampler, now, died, stuck, limit, steps)
        low, high = _poisson_interval(deaths, tail)
        value = (1 - 1 / particles) ** deaths
        # Half a death more than seen: without deaths the variance would be 0.
        variance = value**2 * np.expm1((deaths + 0.5) / particles**2)
        low, high = np.exp(-high / particles), np.exp(-low / particles)
        answer = bounded(CellEstimates(value, low, high, variance, queries, found))
        flats = np.flatnonzero(flat)
        return sampler.instead_of_plateaus(answer, flats, limit * steps, confidence)


def _after_death(
    sampler: Sampler, now: Particles, died: Tensor, stuck: Tensor, limit: int, steps: int
) -> Particles:
    """The particles after the lowest of each cell died; adds to `died`, or `stuck` if none is higher."""
    import torch

    level, lowest = now.margin.min(1)
    above = now.margin > level.unsqueeze(1)
    due = (level < 0) & (died < limit)  # done cells stay as they are
    stuck |= due & ~above.any(1)
    due &= ~stuck
    died += due
    each = torch.arange(len(level), device=level.device)
    chance = torch.rand(above.shape, generator=sampler.generator, device=level.device)
    other = (chance * above).argmax(1)
    born = now._replace(x=now.x[each, other, None], margin=now.margin[each, other, None])
    accepted = sampler.move(born, level, steps=steps, gain=0.0)
    kept = due.reshape(-1, *[1] * (now.x.ndim - 2))
    now.x[each, lowest] = torch.where(kept, born.x[:, 0], now.x[each, lowest])
    now.margin[each, lowest] = torch.where(due, born.margin[:, 0], level)
    return now._replace(step=next_step(now.step, accepted, GAIN))


def _poisson_interval(counts: np.ndarray, tail: float) -> tuple[Floats, Floats]:
    """Exact bounds of the mean of a Poisson variable."""
    from scipy.special import gammaincinv

    low = np.where(counts > 0, gammaincinv(np.maximum(counts, 1), tail), 0.0)
    return low, gammaincinv(counts + 1, 1 - tail)
