"""Cases to try measures on: outputs, targets and the perfect answers to them, for every pair of kinds that is measured.

>>> cases = drawn("text", "text", seed=0)
>>> len(cases.outputs), cases.perfect == cases.targets
(8, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.values import Boxes, Episode, Tracks

N = 8


class Answered(NamedTuple):
    """Outputs of a middling subject, the targets, and what a perfect one would have answered."""

    outputs: list[Any]
    targets: list[Any]
    perfect: list[Any]


def drawn(output: str, target: str, *, seed: int) -> Answered | None:
    """Cases of a pair of kinds; None where no task has that pair."""
    make = _PAIRS.get((output, target))
    return None if make is None else make(np.random.default_rng(seed))


def _scores(rng: np.random.Generator) -> Answered:
    labels = rng.integers(0, 3, N)
    return Answered(list(rng.random((N, 3))), labels.tolist(), list(np.eye(3)[labels]))


def _vectors(rng: np.random.Generator) -> Answered:
    targets = list(rng.normal(0, 2, (N, 2)))
    return Answered([t + rng.normal(0, 1, 2) for t in targets], targets, targets)


def _boxes(rng: np.random.Generator) -> Answered:
    def some(n: int, *, scored: bool) -> Boxes:
        corner = rng.integers(0, 12, (n, 2)).astype(float)
        corners = np.hstack([corner, corner + rng.integers(4, 9, (n, 2))])
        return Boxes.of(
            corners, rng.integers(0, 2, n), rng.integers(0, 10, n) / 10 if scored else None
        )

    targets = [some(int(rng.integers(1, 4)), scored=False) for _ in range(N)]
    return Answered(
        [some(int(rng.integers(0, 6)), scored=True) for _ in range(N)], targets, targets
    )


def _tracks(rng: np.random.Generator) -> Answered:
    home = np.array([[0, 0, 6, 6], [4, 2, 10, 8], [20, 20, 26, 26]], dtype=float)

    def some() -> Tracks:
        present = np.argwhere(np.vstack([np.ones((1, 3)), rng.random((3, 3))]) > 0.4)
        jitter = np.tile(rng.integers(-1, 2, (len(present), 2)), 2)
        return Tracks.of(present[:, 0], present[:, 1], home[present[:, 1]] + jitter)

    targets = [some() for _ in range(N)]
    return Answered([some() for _ in range(N)], targets, targets)


def _texts(rng: np.random.Generator) -> Answered:
    def text() -> str:
        return " ".join(rng.choice(["yes", "no", "maybe", "never"], int(rng.integers(1, 6))))

    targets = [text() for _ in range(N)]
    return Answered([text() for _ in range(N)], targets, targets)


def _episodes(rng: np.random.Generator) -> Answered:
    def values() -> dict[str, Any]:
        return {"area": str(rng.choice(["north", "south"])), "stars": int(rng.integers(1, 3))}

    targets = [values() for _ in range(N)]
    outputs = [Episode(({},) * int(rng.integers(1, 5)), values()) for _ in range(N)]
    return Answered(outputs, targets, [Episode(({},), t) for t in targets])


_PAIRS: dict[tuple[str, str], Callable[[np.random.Generator], Answered]] = {
    ("class_scores", "label"): _scores,
    ("vector", "vector"): _vectors,
    ("boxes", "boxes"): _boxes,
    ("tracks", "tracks"): _tracks,
    ("text", "text"): _texts,
    ("episode", "goal"): _episodes,
}
