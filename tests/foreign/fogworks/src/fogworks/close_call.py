"""A measure that takes the second guess too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.measures.scored import Scored
from roadworthy.registry import register


@register("measures", "close_call", of=("class_scores", "label"), better="higher")
def close_call(outputs: Sequence[Any], targets: Sequence[int]) -> Scored:
    """Share of cases whose true class is among the two highest scores."""
    near = [
        o is not None and not np.isnan(o).any() and t in np.argsort(o)[-2:]
        for o, t in zip(outputs, targets, strict=True)
    ]
    return Scored.proportion(np.array(near, dtype=np.float64))
