"""What single items are made of where an array or a ``str`` is not enough: boxes, tracks, waves, episodes.

>>> boxes = Boxes.of([[0, 0, 2, 2], [1, 1, 3, 3]], labels=[0, 1])
>>> len(boxes), boxes.scores.tolist()
(2, [1.0, 1.0])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Boxes:
    """Detections or true objects of one image: corners (n, 4) as x1 y1 x2 y2, class index, score."""

    xyxy: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, xyxy: Any, labels: Any = None, scores: Any = None) -> Boxes:
        """Boxes from anything array-like; labels default to 0 and scores to 1."""
        corners = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        n = len(corners)
        return cls(
            corners,
            np.zeros(n, dtype=np.int64)
            if labels is None
            else np.asarray(labels, dtype=np.int64).reshape(-1),
            np.ones(n) if scores is None else np.asarray(scores, dtype=np.float64).reshape(-1),
        )

    def __len__(self) -> int:
        return len(self.xyxy)


@dataclass(frozen=True)
class Tracks:
    """Objects with identity over the steps of one case: one row an object and step."""

    step: np.ndarray
    ids: np.ndarray
    xyxy: np.ndarray

    @classmethod
    def of(cls, step: Any, ids: Any, xyxy: Any) -> Tracks:
        """Tracks from anything array-like."""
        return cls(
            np.asarray(step, dtype=np.int64).reshape(-1),
            np.asarray(ids, dtype=np.int64).reshape(-1),
            np.asarray(xyxy, dtype=np.float64).reshape(-1, 4),
        )

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class Audio:
    """A mono wave, float32 in [-1, 1], and its sampling rate in Hz."""

    wave: np.ndarray
    rate: int


@dataclass(frozen=True)
class Episode:
    """What happened over the steps of one case: the turns, and what came of it."""

    turns: tuple[Mapping[str, Any], ...]
    outcome: Mapping[str, Any]


@dataclass(frozen=True)
class Unreadable:
    """Stands where an input could not be read; the case is recorded as failed with this reason."""

    reason: str
