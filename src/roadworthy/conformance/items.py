"""What components are tried on: items of every kind, and cases of every pair of kinds.

>>> [str(image.dtype) for image in of_kind("image")][:3]
['uint8', 'uint8', 'uint16']
>>> cases = drawn_answers("text", "text", seed=0)
>>> len(cases.outputs), cases.perfect == cases.targets
(8, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.values import Audio, Boxes, Episode, Tracks


def of_kind(name: str) -> tuple[Any, ...]:
    """Several items, made anew: images are grey and colour, 8 and 16 bit and float."""
    return tuple(_MAKE[name]())


def _images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    grey = np.clip(rng.normal(120, 50, (8, 8)), 0, 255)
    colour = np.clip(rng.normal(120, 50, (24, 33, 3)), 0, 255)
    return [
        grey.astype(np.uint8),
        colour.astype(np.uint8),
        (grey * 257).astype(np.uint16),
        (colour * 257).astype(np.uint16),
        (colour / 255).astype(np.float32),
        (grey / 255).astype(np.float64)[:, :, None],
    ]


def _waves() -> list[Audio]:
    tone = np.sin(np.arange(1600, dtype=np.float32) / 5)
    stereo = np.stack([tone / 4, tone[::-1] / 2], axis=1)
    mono = [Audio(tone / 4, 8000), Audio(tone[:37], 16000), Audio(tone.astype(np.float64), 22050)]
    return [*mono, Audio(stereo, 44100), Audio(stereo[:5], 48000)]


def _boxes() -> list[Boxes]:
    return [Boxes.of([[0, 0, 4, 4], [2, 2, 7, 5]], labels=[0, 1], scores=[0.9, 0.4]), Boxes.of([])]


_MAKE: dict[str, Any] = {
    "image": _images,
    "frames": lambda: [[image] * 2 for image in _images()],
    "audio": _waves,
    "text": lambda: ["I want a cheap hotel, somewhere in the north please", "yes", ""],
    "class_scores": lambda: [np.array([0.2, 0.5, 0.3], np.float32)],
    "label": lambda: [2],
    "distribution": lambda: [np.array([0.25, 0.75, 0.0])],
    "vector": lambda: [np.array([0.5, -1.5], np.float32)],
    "boxes": _boxes,
    "mask": lambda: [np.array([[0, 1, 1], [2, 0, 255]], np.uint8)],
    "tracks": lambda: [Tracks.of([0, 1], [7, 7], [[0, 0, 4, 4], [1, 0, 5, 4]])],
    "goal": lambda: [{"area": "north", "stars": 4}],
    "episode": lambda: [Episode(({"said": "hello"},), {"area": "north"})],
}


def same(one: Any, other: Any) -> bool:
    """Whether two items are equal in every part; NaN is equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        nan = one.dtype.kind == "f"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=nan)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, f), getattr(other, f)) for f in one.__dataclass_fields__)
    return bool(one == other)


N = 8
"""Cases of a pair of kinds."""


class Answered(NamedTuple):
    """Outputs of a middling subject, the targets, and what a perfect one would have answered."""

    outputs: list[Any]
    targets: list[Any]
    perfect: list[Any]


def drawn_answers(output: str, target: str, *, seed: int) -> Answered | None:
    """Cases of a pair of kinds; None if no task has that pair."""
    make = PAIRS.get((output, target))
    return None if make is None else make(np.random.default_rng(seed))


def _scores(rng: np.random.Generator) -> Answered:
    labels = rng.integers(0, 3, N)
    return Answered(list(rng.random((N, 3))), labels.tolist(), list(np.eye(3)[labels]))


def _split_labels(rng: np.random.Generator) -> Answered:
    labels = list(rng.dirichlet(np.full(3, 0.5), N))
    return Answered(list(rng.random((N, 3))), labels, labels)


def _vectors(rng: np.random.Generator) -> Answered:
    targets = list(rng.normal(0, 2, (N, 2)))
    return Answered([t + rng.normal(0, 1, 2) for t in targets], targets, targets)


def _found_boxes(rng: np.random.Generator) -> Answered:
    def some(n: int, *, scored: bool) -> Boxes:
        corner = rng.integers(0, 12, (n, 2)).astype(float)
        corners = np.hstack([corner, corner + rng.integers(4, 9, (n, 2))])
        # No equal scores: COCO takes those in the order of the cases.
        return Boxes.of(corners, rng.integers(0, 2, n), rng.random(n) if scored else None)

    targets = [some(int(rng.integers(1, 4)), scored=False) for _ in range(N)]
    return Answered(
        [some(int(rng.integers(0, 6)), scored=True) for _ in range(N)], targets, targets
    )


def _found_masks(rng: np.random.Generator) -> Answered:
    perfect = rng.integers(0, 3, (N, 4, 5)).astype(np.uint8)
    perfect[1] = 0
    outputs = np.where(rng.random(perfect.shape) < 0.6, perfect, 2).astype(np.uint8)
    ignored = np.where(rng.random(perfect.shape) < 0.1, 255, perfect).astype(np.uint8)
    return Answered(list(outputs), list(ignored), list(perfect))


def _found_tracks(rng: np.random.Generator) -> Answered:
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


PAIRS: dict[tuple[str, str], Callable[[np.random.Generator], Answered]] = {
    ("class_scores", "label"): _scores,
    ("class_scores", "distribution"): _split_labels,
    ("vector", "vector"): _vectors,
    ("boxes", "boxes"): _found_boxes,
    ("mask", "mask"): _found_masks,
    ("tracks", "tracks"): _found_tracks,
    ("text", "text"): _texts,
    ("episode", "goal"): _episodes,
}
