"""How inputs vary within a cell: uniform in a box, or normal.

A law has a length, its number of cells, and draws and moves inputs of the cells whose numbers it is given. A
move leaves the law as it is; its size is from 0 to 1, one for each particle: (cells, n). An object with
`draw` alone is a law for `monte_carlo`. The `device` of a law, if it has one, is where it draws.

>>> import torch
>>> law = UniformBox(torch.tensor([[0.0, 0.0], [2.0, 2.0]]), torch.tensor([[1.0, 1.0], [2.5, 4.0]]))
>>> x = law.draw(torch.arange(2), 1000, torch.Generator().manual_seed(0))
>>> x = law.move(x, torch.arange(2), torch.full((2, 1000), 0.3), torch.Generator().manual_seed(1))
>>> x.amin(1).round(decimals=1).tolist(), x.amax(1).round(decimals=1).tolist()
([[0.0, 0.0], [2.0, 2.0]], [[1.0, 1.0], [2.5, 4.0]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roadworthy.search.query import Tensor


class _Cells:
    """Two tensors with an entry for each cell."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    @property
    def device(self) -> Any:
        """Where inputs are drawn."""
        return next(iter(vars(self).values())).device

    def _refuse_unless(self, fits: Tensor, rule: str) -> None:
        shapes = [tuple(values.shape) for values in vars(self).values()]
        if not fits.all() or shapes[0][:1] != shapes[1][:1]:
            raise ValueError(f"expected {rule} in every cell, found tensors of the shapes {shapes}")


@dataclass(frozen=True)
class UniformBox(_Cells):
    """Uniform between the corners `low` and `high`, tensors of shape (cells, …).

    An L-inf ball is the box ``(x - r).clamp(0, 1)``, ``(x + r).clamp(0, 1)``.
    """

    low: Tensor
    high: Tensor

    def __post_init__(self) -> None:
        self._refuse_unless(self.low <= self.high, "low <= high")

    def draw(self, cells: Tensor, n: int, generator: Any) -> Tensor:
        """n independent inputs of each cell, (cells, n, …)."""
        low, high = self.low[cells].unsqueeze(1), self.high[cells].unsqueeze(1)
        unit = low.new_empty(len(cells), n, *low.shape[2:]).uniform_(generator=generator)
        # Rounding of the product may leave the box.
        return unit.mul_(high - low).add_(low).clamp_(max=high)

    def move(self, x: Tensor, cells: Tensor, step: Tensor, generator: Any) -> Tensor:
        """A uniform step of up to `step` widths of the box, reflected at its faces."""
        import torch

        low, high = self.low[cells].unsqueeze(1), self.high[cells].unsqueeze(1)
        made = torch.empty_like(x).uniform_(-1, 1, generator=generator)
        made.mul_(high - low).mul_(_beside(step, x)).add_(x)
        # A step is one width at most, so that one reflection at each face is enough. In place: memory
        # for intermediate results took more time than the arithmetic.
        made.sub_(low).abs_().sub_(high - low).abs_()
        return torch.sub(high, made, out=made)


@dataclass(frozen=True)
class Normal(_Cells):
    """Independent normal coordinates: `centre` and `deviation`, tensors of shape (cells, …)."""

    centre: Tensor
    deviation: Tensor

    def __post_init__(self) -> None:
        self._refuse_unless(self.deviation > 0, "deviation > 0")

    def draw(self, cells: Tensor, n: int, generator: Any) -> Tensor:
        """n independent inputs of each cell, (cells, n, …)."""
        centre = self.centre[cells].unsqueeze(1)
        unit = centre.new_empty(len(cells), n, *centre.shape[2:]).normal_(generator=generator)
        return unit.mul_(self.deviation[cells].unsqueeze(1)).add_(centre)

    def move(self, x: Tensor, cells: Tensor, step: Tensor, generator: Any) -> Tensor:
        """The preconditioned Crank-Nicolson step: an old and a new part, whose variances add to one."""
        import torch

        centre, new = self.centre[cells].unsqueeze(1), _beside(step, x)
        noise = torch.empty_like(x).normal_(generator=generator)
        noise.mul_(self.deviation[cells].unsqueeze(1)).mul_(new)
        return (x - centre).mul_((1 - new.square()).sqrt()).add_(centre).add_(noise)


def _beside(numbers: Tensor, x: Tensor) -> Tensor:
    """One number a particle, shaped to multiply x."""
    return numbers.reshape(*numbers.shape, *[1] * (x.ndim - 2))
