"""What an estimator of a cell's failure probability ("unastuteness", Zhao et al. 2021) is given and gives.

``estimator(margin, law, rng, *, confidence)`` answers with `CellEstimates`. The law says how inputs vary
(`search/laws.py`). The margin is the highest score of another class less that of the own one: 0 or more fails.

>>> import torch
>>> margin = margin_of(lambda x: torch.stack([x[:, 0], 1 - x[:, 0]], 1), labels=[0, 1])
>>> margin(torch.tensor([[[0.75], [0.25]], [[0.5], [0.0]]]), torch.arange(2))
tensor([[-0.5000,  0.5000],
        [ 0.0000, -1.0000]])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from roadworthy.search.query import Tensor
from roadworthy.statistics.arguments import Floats
from roadworthy.statistics.proportion import clopper_pearson_bounds

Margin = Callable[
    [Tensor, Tensor], Tensor
]  # x, (cells, particles, …), and cells -> (cells, particles)
ACCEPTED = 0.325  # the middle of the 20 to 45% of moves that the step of a cell is adapted to
SCATTER = 1.0  # deviation of log steps: long and short ones explore a failure region of any shape
AT_ONCE = 1000  # independent inputs of a cell held in memory
CACHED = (
    1 << 20
)  # numbers that a CPU moves at once: what leaves its cache takes three times as long


class CellEstimates(NamedTuple):
    """The probability that a random input of a cell fails; one entry a cell."""

    probability: Floats
    low: Floats
    high: Floats
    variance: Floats  # never 0
    queries: np.ndarray  # inputs that the subject was asked about
    found: np.ndarray  # False: no failure was found, and `probability` is the upper bound `high`
    notes: tuple[str, ...] = ()


def margin_of(scores: Callable[[Tensor], Any], labels: Any, *, batch: int = 0) -> Margin:
    """The margin of `Query.scores`, or any function of a tensor of inputs, with one label a cell.

    It gets at most `batch` inputs at a time, and may answer with a numpy array. NaN fails. By default
    these are 65,536 on a GPU, and 256 on a CPU: more leave its cache, which took up to 5 times as long.
    """
    import torch

    own = torch.as_tensor(labels)

    def margin(x: Tensor, cells: Tensor) -> Tensor:
        size = batch or (1 << 16 if x.is_cuda else 256)
        answers = [torch.as_tensor(scores(part)) for part in x.flatten(0, 1).split(size)]
        found = torch.cat(answers).to(x.device)
        mine = own.to(x.device)[cells].repeat_interleave(x.shape[1]).unsqueeze(1)
        ahead = found.scatter(1, mine, -torch.inf).amax(1) - found.gather(1, mine)[:, 0]
        return ahead.masked_fill(ahead.isnan(), torch.inf).reshape(x.shape[:2])

    return margin


class Particles(NamedTuple):
    """Inputs of cells, their margins, and the step that each cell has come to."""

    x: Tensor  # (cells, n, …)
    margin: Tensor  # (cells, n)
    step: Tensor  # (cells,)
    cells: Tensor


@dataclass(frozen=True)
class Sampler:
    """Draws and moves inputs of cells, and asks for their margins; its generator is seeded once."""

    margin: Margin
    law: Any
    generator: Any

    @classmethod
    def of(cls, margin: Margin, law: Any, rng: np.random.Generator, moves: str = "") -> Sampler:
        """`moves` names the estimator if it moves inputs; a law that cannot is refused."""
        import torch

        if moves and not hasattr(law, "move"):
            law_type = type(law).__name__
            raise ValueError(f"{moves} needs a law with `move`; use monte_carlo for {law_type}")
        generator = torch.Generator(device=getattr(law, "device", "cpu"))
        return cls(margin, law, generator.manual_seed(int(rng.integers(1 << 63))))

    def drawn(self, n: int, *, runs: int = 1) -> Particles:
        """n independent inputs of every cell; each run has the cells once more."""
        import torch

        cells = torch.arange(len(self.law), device=self.generator.device).repeat(runs)
        x = self.law.draw(cells, n, self.generator)
        step = torch.ones(len(cells), dtype=x.dtype, device=x.device)
        return Particles(x, self.margin(x, cells), step, cells)

    def move(self, now: Particles, level: Tensor, *, steps: int, gain: float) -> Tensor:
        """Metropolis-Hastings moves, in place, that stay above the level of each cell; their acceptance.

        The step is adapted at every move, by `gain` times what the acceptance is off.
        """
        import torch

        n = len(level) if now.x.is_cuda else max(1, CACHED // now.x[0].numel())
        parts = zip(*(part.split(n) for part in (*now, level)), strict=True)
        return torch.cat([self._moved(*part, steps=steps, gain=gain) for part in parts])

    def _moved(
        self, x: Tensor, margin: Tensor, step: Tensor, cells: Tensor, level: Tensor, **how: Any
    ) -> Tensor:
        import torch

        accepted = torch.zeros_like(step)
        for _ in range(how["steps"]):
            scale = torch.empty_like(margin, dtype=step.dtype)
            scale.normal_(std=SCATTER, generator=self.generator).exp_().mul_(step.unsqueeze(1))
            tried = self.law.move(x, cells, scale.clamp_(max=1), self.generator)
            reached = self.margin(tried, cells)
            taken = reached > level.unsqueeze(1)
            torch.where(taken.reshape(*taken.shape, *[1] * (x.ndim - 2)), tried, x, out=x)
            torch.where(taken, reached, margin, out=margin)
            share = taken.to(step.dtype).mean(1)
            accepted += share / how["steps"]
            step.copy_(next_step(step, share, how["gain"]))
        return accepted

    def counted(self, cells: np.ndarray, draws: int, confidence: float) -> CellEstimates:
        """Monte Carlo estimates from `draws` independent inputs of each of some cells."""
        import torch

        numbers = torch.from_numpy(cells).to(self.generator.device)
        failing = torch.zeros_like(numbers)
        for first in range(0, draws if len(cells) else 0, AT_ONCE):
            x = self.law.draw(numbers, min(AT_ONCE, draws - first), self.generator)
            failing += (self.margin(x, numbers) >= 0).sum(1)
        return binomial(failing.cpu().numpy(), draws, confidence)

    def instead_of_plateaus(
        self, answer: CellEstimates, flat: np.ndarray, draws: int, confidence: float
    ) -> CellEstimates:
        """The answer, with Monte Carlo in the cells in which no level separates the particles."""
        answer = replaced(answer, flat, self.counted(flat, draws, confidence))
        answer.queries[flat] += draws
        why = f"scores lie on a plateau; {draws} independent inputs were drawn (Monte Carlo)"
        return answer._replace(notes=(*answer.notes, *(f"Cell {c}: {why}." for c in flat)))


def next_step(step: Tensor, accepted: Tensor, gain: float) -> Tensor:
    """The next step of each cell: longer if too much was accepted, shorter if too little."""
    return (step * (gain * (accepted - ACCEPTED)).exp()).clamp(max=1.0)


def binomial(failing: np.ndarray, draws: int, confidence: float) -> CellEstimates:
    """Estimates from counts of failures: Clopper and Pearson's interval, and Jeffreys' variance."""
    low, high = clopper_pearson_bounds(failing, draws, confidence=confidence)
    mean, some = (failing + 0.5) / (draws + 1), failing > 0
    variance, queries = mean * (1 - mean) / (draws + 2), np.full(len(failing), draws)
    return CellEstimates(np.where(some, failing / draws, high), low, high, variance, queries, some)


def bounded(answer: CellEstimates) -> CellEstimates:
    """Where no failure was found the truth lies between 0 and `high`, and varies no more than that."""
    value, low, high, variance, _, some, _ = answer
    value, low = np.where(some, value, high), np.where(some, low, 0.0)
    return answer._replace(
        probability=value, low=low, variance=np.where(some, variance, high**2 / 4)
    )


def replaced(answer: CellEstimates, cells: np.ndarray, by: CellEstimates) -> CellEstimates:
    """The answer with other figures for some cells; queries and notes stay."""
    for column, other in zip((*answer[:4], answer.found), (*by[:4], by.found), strict=True):
        column[cells] = other
    return answer
