"""Simple Monte Carlo: the share of random inputs of a cell that fail (Zhao et al. 2021, eq. 13).

The interval is Clopper and Pearson's. The variance is that of Jeffreys' posterior, Beta(k + 1/2, n - k + 1/2):
eq. 14 is 0 if no input fails or every one does, as if nothing were left to learn.

>>> import torch
>>> from roadworthy.search.laws import UniformBox
>>> law, limits = UniformBox(torch.zeros(2, 1), torch.ones(2, 1)), torch.tensor([[0.75], [2.0]])
>>> found = monte_carlo(lambda x, cells: x[..., 0] - limits[cells], law, np.random.default_rng(0))
>>> found.probability.round(2).tolist(), found.high.round(4).tolist(), found.found.tolist()
([0.25, 0.0], [0.257, 0.0004], [True, False])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.registry import register
from roadworthy.search.failures import CellEstimates, Margin, Sampler


@register("failure_estimators", "monte_carlo")
def monte_carlo(
    margin: Margin,
    law: Any,
    rng: np.random.Generator,
    *,
    confidence: float = 0.95,
    draws: int = 10_000,
) -> CellEstimates:
    """Share of random inputs of each cell that fail, with Clopper-Pearson intervals."""
    import torch

    if draws < 1:
        raise ValueError(f"draws is {draws}; expected 1 or more")
    with torch.no_grad():
        return Sampler.of(margin, law, rng).counted(np.arange(len(law)), draws, confidence)
