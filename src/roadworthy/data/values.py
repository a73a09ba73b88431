"""What flows through a subject: class scores, vectors, boxes, tracks, text, episodes, and the
inputs they are made from.

Targets and outputs share these kinds. An item is plain Python or numpy (an image is an array, a
text a ``str``); a `Kind` says what a sound item looks like and how many of them are packed into
arrays for the trace, dense where every item has one shape, values and offsets where not. ``None``
stands for "no answer" (a case that failed).

>>> CLASS_SCORES.problem(np.array([0.1, np.nan]))
'has 1 NaN or infinite value among 2'
>>> parts = BOXES.pack([Boxes.of([[0, 0, 2, 2]]), None])
>>> parts["offsets"].tolist()
[0, 1, 1]
>>> BOXES.unpack(parts)[0].xyxy.tolist()
[[0.0, 0.0, 2.0, 2.0]]
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.items import (
    Audio,
    Boxes,
    Episode,
    Tracks,
    as_boxes,
    as_row,
    as_text,
    as_tracks,
    as_vector,
    as_whole,
    described,
)
from roadworthy.data.items import Unreadable as Unreadable
from roadworthy.data.probabilities import probabilities as probabilities

AXES = 4
"""The most axes an image or a stack of them has."""
DTYPES = ("uint8", "uint16", "float32", "float64", "bool", "int64")


def pack_arrays(items: Sequence[Any]) -> dict[str, Any]:
    """Arrays that hold the items, None included.

    Arrays of any shapes and types in few arrays: stacked where all are alike, as bytes and offsets
    where not.

    >>> pack_arrays([np.zeros((2, 2), np.uint8)] * 3)["values"].shape
    (3, 2, 2)
    >>> mixed = [np.ones((1, 2), np.uint8), None, np.full((3, 1), 0.5, np.float32)]
    >>> [None if a is None else a.tolist() for a in unpack_arrays(pack_arrays(mixed))]
    [[[1, 1]], None, [[0.5], [0.5], [0.5]]]
    """
    arrays = [None if i is None else np.asarray(i) for i in items]
    if (
        arrays
        and all(a is not None for a in arrays)
        and len({(a.shape, a.dtype) for a in arrays if a is not None}) == 1
    ):
        return {"values": np.stack([a for a in arrays if a is not None])}
    pieces = [b"" if a is None else np.ascontiguousarray(a).tobytes() for a in arrays]
    shapes = np.full((len(arrays), AXES), -1, dtype=np.int64)
    for row, array in enumerate(arrays):
        if array is not None:
            shapes[row, : array.ndim] = array.shape
    return {
        "offsets": np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.int64),
        "bytes": np.frombuffer(b"".join(pieces), dtype=np.uint8),
        "shapes": shapes,
        "types": np.array(
            [-1 if a is None else DTYPES.index(a.dtype.name) for a in arrays], dtype=np.int64
        ),
    }


def unpack_arrays(parts: dict[str, Any]) -> Any:
    """The items again."""
    if "values" in parts:
        return parts["values"]
    data = np.asarray(parts["bytes"]).tobytes()
    offsets = parts["offsets"].tolist()
    return [
        None
        if kind < 0
        else np.frombuffer(data[start:stop], dtype=DTYPES[kind]).reshape(
            [int(n) for n in shape if n >= 0]
        )
        for start, stop, shape, kind in zip(
            offsets[:-1], offsets[1:], parts["shapes"], parts["types"].tolist(), strict=True
        )
    ]


def offsets_of(lengths: Sequence[int]) -> np.ndarray:
    """Where each of several items begins and ends among the values of all.

    >>> offsets_of([2, 0, 1]).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def spans_between(offsets: np.ndarray) -> list[slice]:
    """Where each item lies among the values."""
    return [slice(a, b) for a, b in itertools.pairwise(np.asarray(offsets).tolist())]


Parts = dict[str, Any]
"""Packed items: numpy arrays, or lists of ``str | None`` for text."""


class Kind(ABC):
    """A kind of value. `problem` says what is wrong with an item, `pack` and `unpack` are inverse
    to each other.

    None comes back as the kind's empty item where it has one: NaN scores, the label -1, no boxes,
    no tracks. Which rows failed is said by the trace's index, so that no kind has to say it again.
    """

    name: str = ""
    dense = False

    def read(self, item: Any) -> Any:
        """The item in this kind's own form, where it comes in another that can be read; else as it
        is."""
        return item

    @abstractmethod
    def problem(self, item: Any) -> str | None:
        """What is wrong with this item, as the end of a sentence, or None."""

    @abstractmethod
    def pack(self, items: Sequence[Any]) -> Parts:
        """Arrays that hold the items, None included."""

    @abstractmethod
    def unpack(self, parts: Parts) -> Sequence[Any]:
        """The items again."""

    def join(self, steps: Sequence[Any]) -> Any:
        """The value of a case, from the values of its steps: the last one, unless a kind says
        otherwise."""
        return steps[-1] if steps else None

    def __repr__(self) -> str:
        return self.name


class _Dense(Kind):
    """Items of one shape: an array with one row an item, NaN rows for None."""

    dense = True
    least = 1
    right = "one row of numbers was expected"

    def problem(self, item: Any) -> str | None:
        try:
            array = np.asarray(item)
        except ValueError:
            return f"{described(item)} of different lengths; {self.right}"
        if array.dtype.kind not in "fiub":
            what = described(item) if array.dtype == object else f"is of type {array.dtype}"
            return f"{what}, not numbers; {self.right}"
        if array.ndim != 1 or array.size < self.least:
            return f"has the shape {array.shape}; {self.right}"
        bad = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind == "f" else 0
        return (
            f"has {bad} NaN or infinite value{'s' * (bad > 1)} among {array.size}" if bad else None
        )

    def pack(self, items: Sequence[Any]) -> Parts:
        if isinstance(items, np.ndarray) and items.dtype != object:
            return {"values": items}
        width = next((len(np.atleast_1d(i)) for i in items if i is not None), 0)
        values = np.full((len(items), width), np.nan, dtype=np.float32)
        for row, item in enumerate(items):
            if item is not None:
                values[row] = item
        return {"values": values}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return parts["values"]


class _Labels(Kind):
    """A class index; -1 for None."""

    name = "label"
    dense = True

    def read(self, item: Any) -> Any:
        return as_whole(item)

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, int | np.integer):
            return f"is {item!r}, not a class index"
        return f"is {item}, below 0" if item < 0 else None

    def pack(self, items: Sequence[Any]) -> Parts:
        if isinstance(items, np.ndarray) and items.dtype.kind in "iu":
            return {"values": items}
        return {"values": np.array([-1 if i is None else int(i) for i in items], dtype=np.int64)}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return parts["values"]


class _ClassScores(_Dense):
    name = "class_scores"
    least = 2
    right = "class scores are one row with a number for every class, two at least: probabilities or logits"

    def read(self, item: Any) -> Any:
        return as_row(item)


class _Vector(_Dense):
    name = "vector"

    def read(self, item: Any) -> Any:
        return as_vector(item)


class _Boxes(Kind):
    name = "boxes"

    def read(self, item: Any) -> Any:
        return as_boxes(item)

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, Boxes):
            right = "boxes are a dict with boxes (x1 y1 x2 y2), labels, scores, or roadworthy.Boxes"
            return f"{described(item)}; {right}"
        if not len(item.xyxy) == len(item.labels) == len(item.scores):
            return f"has {len(item.xyxy)} boxes, {len(item.labels)} labels and {len(item.scores)} scores"
        if not (np.isfinite(item.xyxy).all() and np.isfinite(item.scores).all()):
            return "has a NaN or infinite corner or score"
        if (item.xyxy[:, 2:] < item.xyxy[:, :2]).any():
            return "has a box whose second corner lies above or left of its first (x1 y1 x2 y2 is expected)"
        return None

    def pack(self, items: Sequence[Any]) -> Parts:
        known = [Boxes.of(np.zeros((0, 4))) if i is None else i for i in items]
        empty = Boxes.of(np.zeros((0, 4)))
        return {
            "offsets": offsets_of([len(b) for b in known]),
            "xyxy": np.concatenate([b.xyxy for b in [empty, *known]]),
            "labels": np.concatenate([b.labels for b in [empty, *known]]),
            "scores": np.concatenate([b.scores for b in [empty, *known]]),
        }

    def unpack(self, parts: Parts) -> Sequence[Any]:
        places = spans_between(parts["offsets"])
        return [Boxes(parts["xyxy"][s], parts["labels"][s], parts["scores"][s]) for s in places]


class _Tracks(Kind):
    name = "tracks"

    def read(self, item: Any) -> Any:
        return as_tracks(item)

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, Tracks):
            right = (
                "tracks are rows of id x1 y1 x2 y2, a dict with ids and boxes, or roadworthy.Tracks"
            )
            return f"{described(item)}; {right}"
        if not len(item.step) == len(item.ids) == len(item.xyxy):
            return f"has {len(item.step)} steps, {len(item.ids)} ids and {len(item.xyxy)} boxes"
        if not np.isfinite(item.xyxy).all():
            return "has a NaN or infinite corner"
        if (item.xyxy[:, 2:] < item.xyxy[:, :2]).any():
            return "has a box whose second corner lies above or left of its first (x1 y1 x2 y2 is expected)"
        if len(set(zip(item.step.tolist(), item.ids.tolist(), strict=True))) < len(item):
            return "names an identity twice in one step; one box an identity and step is expected"
        return None

    def pack(self, items: Sequence[Any]) -> Parts:
        empty = Tracks.of([], [], [])
        known = [empty if i is None else i for i in items]
        return {
            "offsets": offsets_of([len(t) for t in known]),
            "step": np.concatenate([t.step for t in [empty, *known]]),
            "ids": np.concatenate([t.ids for t in [empty, *known]]),
            "xyxy": np.concatenate([t.xyxy for t in [empty, *known]]),
        }

    def unpack(self, parts: Parts) -> Sequence[Any]:
        places = spans_between(parts["offsets"])
        return [Tracks(parts["step"][s], parts["ids"][s], parts["xyxy"][s]) for s in places]

    def join(self, steps: Sequence[Any]) -> Any:
        """The steps one after the other, numbered from 0."""
        known = [(t, s) for t, s in enumerate(steps) if s is not None]
        if not known:
            return Tracks.of([], [], [])
        return Tracks.of(
            np.concatenate([np.full(len(s), t) for t, s in known]),
            np.concatenate([s.ids for _, s in known]),
            np.concatenate([s.xyxy for _, s in known]),
        )


class _Text(Kind):
    name = "text"

    def read(self, item: Any) -> Any:
        return as_text(item)

    def problem(self, item: Any) -> str | None:
        return None if isinstance(item, str) else f"{described(item)}, not text"

    def pack(self, items: Sequence[Any]) -> Parts:
        return {"text": [None if i is None else str(i) for i in items]}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return list(parts["text"])


class _Goal(Kind):
    """What an episode is to achieve: names and values."""

    name = "goal"

    def problem(self, item: Any) -> str | None:
        return (
            None
            if isinstance(item, Mapping)
            else f"is {type(item).__name__}, not a goal (names and values)"
        )

    def pack(self, items: Sequence[Any]) -> Parts:
        return {"text": [None if i is None else json.dumps(dict(i), sort_keys=True) for i in items]}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return [None if t is None else json.loads(t) for t in parts["text"]]


class _Episode(Kind):
    name = "episode"

    def problem(self, item: Any) -> str | None:
        if isinstance(item, Episode | Mapping):
            return None
        right = "a step gives a dict of what happened in it, with what was reached under outcome"
        return f"{described(item)}; {right}"

    def pack(self, items: Sequence[Any]) -> Parts:
        return {"text": [None if i is None else _episode_json(i) for i in items]}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        loaded = [None if t is None else json.loads(t) for t in parts["text"]]
        return [None if e is None else Episode(tuple(e["turns"]), e["outcome"]) for e in loaded]

    def join(self, steps: Sequence[Any]) -> Any:
        """The turns in order; the outcome is the last one said."""
        turns = [s for s in steps if s is not None]
        if any(isinstance(t, Episode) for t in turns):
            raise ValueError(
                "a step is a whole Episode; a dict of what happened in this step was expected"
            )
        last: Mapping[str, Any] = next(
            (s["outcome"] for s in reversed(turns) if "outcome" in s), {}
        )
        return Episode(tuple({k: v for k, v in t.items() if k != "outcome"} for t in turns), last)


def _episode_json(item: Any) -> str:
    if isinstance(item, Episode):
        item = {"turns": list(item.turns), "outcome": item.outcome}
    return json.dumps(item, sort_keys=True)


class _Image(Kind):
    """(h, w) or (h, w, c); 8-bit, 16-bit, or float in [0, 1]."""

    name = "image"

    def problem(self, item: Any) -> str | None:
        if isinstance(item, Unreadable):
            return f"could not be read: {item.reason}"
        array = np.asarray(item)
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
            return f"has the shape {array.shape}; (height, width) or (height, width, 1|3|4) was expected"
        if array.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
            return f"is of type {array.dtype}; uint8, uint16 or float in [0, 1] was expected"
        if min(array.shape[:2]) < 1:
            return "has no pixels"
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return "has NaN or infinite pixels"
        return None

    def pack(self, items: Sequence[Any]) -> Parts:
        return pack_arrays(items)

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return unpack_arrays(parts)


class _Frames(_Image):
    """A sequence of images: the case runs one step an image."""

    name = "frames"

    def problem(self, item: Any) -> str | None:
        if len(item) == 0:
            return "has no frames"
        found = [(t, IMAGE.problem(f)) for t, f in enumerate(item)]
        return next((f"frame {t} {p}" for t, p in found if p), None)

    def pack(self, items: Sequence[Any]) -> Parts:
        """The frames of all items one after the other, and where each item ends."""
        steps = [[] if i is None else list(i) for i in items]
        frames = pack_arrays([frame for item in steps for frame in item])
        known = np.array([i is not None for i in items], dtype=bool)
        return {"cases": offsets_of([len(s) for s in steps]), "known": known} | frames

    def unpack(self, parts: Parts) -> Sequence[Any]:
        frames = unpack_arrays(parts)
        cases = zip(spans_between(parts["cases"]), parts["known"], strict=True)
        return [list(frames[span]) if known else None for span, known in cases]


class _Audio(Kind):
    name = "audio"

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, Audio):
            return f"is {type(item).__name__}, not Audio"
        if item.wave.ndim != 1 or item.wave.size == 0:
            return f"has a wave of shape {item.wave.shape}; one channel was expected"
        return None if np.isfinite(item.wave).all() else "has NaN or infinite samples"

    def pack(self, items: Sequence[Any]) -> Parts:
        waves = [np.zeros(0, np.float32) if i is None else i.wave for i in items]
        return {
            "offsets": offsets_of([len(w) for w in waves]),
            "wave": np.concatenate([np.zeros(0, np.float32), *waves]),
            "rate": np.array([0 if i is None else i.rate for i in items], dtype=np.int64),
        }

    def unpack(self, parts: Parts) -> Sequence[Any]:
        rows = zip(spans_between(parts["offsets"]), parts["rate"].tolist(), strict=True)
        # no recording has the rate 0, so it stands for None
        return [Audio(parts["wave"][span], rate) if rate else None for span, rate in rows]


CLASS_SCORES = _ClassScores()
LABEL = _Labels()
VECTOR = _Vector()
BOXES = _Boxes()
TRACKS = _Tracks()
TEXT = _Text()
GOAL = _Goal()
EPISODE = _Episode()
IMAGE = _Image()
FRAMES = _Frames()
AUDIO = _Audio()

KINDS: dict[str, Kind] = {
    k.name: k
    for k in (CLASS_SCORES, LABEL, VECTOR, BOXES, TRACKS, TEXT, GOAL, EPISODE, IMAGE, FRAMES, AUDIO)
}


@dataclass(frozen=True)
class Task:
    """What a subject of that task takes and gives, and how it is measured unless the file says
    otherwise."""

    name: str
    input: Kind
    output: Kind
    target: Kind
    measure: str


TASKS: dict[str, Task] = {
    t.name: t
    for t in (
        Task("classification", IMAGE, CLASS_SCORES, LABEL, "accuracy"),
        Task("regression", IMAGE, VECTOR, VECTOR, "rmse"),
        Task("detection", IMAGE, BOXES, BOXES, "ap50"),
        Task("tracking", FRAMES, TRACKS, TRACKS, "mota"),
        Task("speech", AUDIO, TEXT, TEXT, "wer"),
        Task("dialogue", GOAL, EPISODE, GOAL, "success_rate"),
    )
}
