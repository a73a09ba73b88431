"""What a torch model returned, as a column of answers; and whether two columns are the same but for their last bits.

>>> import torch
>>> from roadworthy.data.values import CLASS_SCORES
>>> column = answers_in({"logits": torch.tensor([[1.0, 2.0]])}, 1, CLASS_SCORES)
>>> column.tolist(), alike(column, column + np.float32(1e-6)), alike(column, -column)
([[1.0, 2.0]], True, False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.data.values import BOXES, Boxes, Kind
from roadworthy.subject.adapters.batches import numbers
from roadworthy.subject.adapters.torch_gradients import scores_of
from roadworthy.subject.module import SubjectError

NEARLY = 1e-3
"""How far numbers may lie apart that differ by the size of the batch alone, as a share of the largest."""


def answers_in(raw: Any, n: int, kind: Kind) -> Any:
    """The answers for n images: float32 (n, k), or a list of boxes."""
    if kind is BOXES:
        return _boxes(raw, n)
    return numbers(scores_of(raw).detach().float().cpu().numpy(), n, kind)


def joined(parts: Sequence[Any]) -> Any:
    """Columns one below the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [item for part in parts for item in part]


def sound(column: Any, kind: Kind) -> Any:
    """The column, with None where a value that is no row of numbers is none of its kind (boxes that are not finite)."""
    if isinstance(column, np.ndarray):
        return column
    return [None if item is None or kind.problem(item) else item for item in column]


def nothing_like(column: Any) -> Any:
    """A column of as many rows without an answer."""
    return np.full_like(column, np.nan) if isinstance(column, np.ndarray) else [None] * len(column)


def alike(one: Any, other: Any) -> bool:
    """Whether two columns hold the same answers but for their last bits."""
    if isinstance(one, np.ndarray):
        return _close(one, other)
    return len(one) == len(other) and all(
        _close(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in ("xyxy", "labels", "scores")
    )


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    finite = np.abs(one[np.isfinite(one)])
    largest = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(one, other, rtol=0, atol=NEARLY * largest, equal_nan=True))


def _boxes(raw: Any, n: int) -> list[Boxes]:
    whole = isinstance(raw, list | tuple) and all(
        isinstance(r, Mapping) and {"boxes", "labels", "scores"} <= set(r) for r in raw
    )
    if not whole or len(raw) != n:
        raise SubjectError(
            f"the model returned {type(raw).__name__} for {n} images; a list with a dict of boxes (m, 4), labels (m,) and "
            "scores (m,) for each image was expected"
        )
    return [
        Boxes.of(*(r[key].detach().cpu().numpy() for key in ("boxes", "labels", "scores")))
        for r in raw
    ]
