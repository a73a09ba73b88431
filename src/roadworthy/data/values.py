"""What flows through a subject: class scores, vectors, boxes, masks, tracks, text, episodes, and the
inputs they are made from.

Targets and outputs share these kinds. An item is plain Python or numpy (an image is an array, a
text a ``str``); a `Kind` says what a sound item looks like and how many of them are packed into
arrays for the trace, dense where every item has one shape, values and offsets where not. ``None``
stands for "no answer" (a case that failed). What a user's function returned is read in the forms that
detectors, trackers and recognisers give by themselves; what cannot be read is handed back as it is,
and the kind's `problem` says what would be right.

>>> CLASS_SCORES.problem(np.array([0.1, np.nan]))
'has 1 NaN or infinite value among 2'
>>> parts = BOXES.pack([Boxes.of([[0, 0, 2, 2]]), None])
>>> parts["offsets"].tolist()
[0, 1, 1]
>>> BOXES.unpack(parts)[0].xyxy.tolist()
[[0.0, 0.0, 2.0, 2.0]]
"""

from __future__ import annotations

import io
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.data.probabilities import probabilities as probabilities


@dataclass(frozen=True)
class Boxes:
    """Detections or true objects of one image: corners (n, 4) as x1 y1 x2 y2, class index, score.

    A true object with `ignore` is a region that is not judged: it cannot be missed, and detections
    in it are not false (COCO's crowds; objects of which a transform leaves too little to see).
    `area` says in pixels how large objects are if that is not their boxes' area (COCO: that of the
    segmentation).
    """

    xyxy: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    ignore: np.ndarray = None  # type: ignore[assignment]
    area: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.ignore is None:
            object.__setattr__(self, "ignore", np.zeros(len(self.xyxy), dtype=bool))

    @classmethod
    def of(
        cls, xyxy: Any, labels: Any = None, scores: Any = None, ignore: Any = None, area: Any = None
    ) -> Boxes:
        """Boxes from anything array-like; labels default to 0, scores to 1 and ignore to False."""
        corners = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        n = len(corners)
        return cls(
            corners,
            np.zeros(n, dtype=np.int64)
            if labels is None
            else np.asarray(labels, dtype=np.int64).reshape(-1),
            np.ones(n) if scores is None else np.asarray(scores, dtype=np.float64).reshape(-1),
            None if ignore is None else np.asarray(ignore, dtype=bool).reshape(-1),  # type: ignore[arg-type]
            None if area is None else np.asarray(area, dtype=np.float64).reshape(-1),
        )

    def __len__(self) -> int:
        return len(self.xyxy)

    @property
    def boxes(self) -> np.ndarray:
        """The corners by the name that MAITE's targets give them."""
        return self.xyxy

    @property
    def areas(self) -> np.ndarray:
        """How large each is in pixels."""
        sides = self.xyxy[:, 2:] - self.xyxy[:, :2]
        return sides[:, 0] * sides[:, 1] if self.area is None else self.area


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
    """A wave, float32 in [-1, 1], and its sampling rate in Hz.

    Mono is (samples,), several channels are (samples, channels).
    """

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


def as_array(item: Any) -> Any:
    """A tensor of another package as a numpy array; anything else as it is."""
    if isinstance(item, np.ndarray | np.generic) or not hasattr(item, "__array__"):
        return item
    for strip in ("detach", "cpu"):
        item = getattr(item, strip)() if hasattr(item, strip) else item
    return np.asarray(item)


def as_row(item: Any) -> Any:
    """One row of numbers: a row in a table of one row is that row."""
    item = as_array(item)
    if isinstance(item, list | tuple):
        item = [as_array(part) for part in item]
    array = _numbers(item)
    return array[0] if array is not None and array.ndim == 2 and len(array) == 1 else item


def described(item: Any) -> str:
    """What was found, as the end of a sentence."""
    kind = type(item).__name__
    if isinstance(item, Mapping):
        return (
            f"is {kind} with the keys {', '.join(map(str, item))}"
            if item
            else f"is an empty {kind}"
        )
    array = as_array(item)
    if isinstance(array, np.ndarray):
        return f"is {kind} of shape {array.shape}"
    return f"is {kind} of {len(item)} items" if isinstance(item, list | tuple) else f"is {kind}"


def _numbers(item: Any) -> np.ndarray | None:
    """The item as an array of numbers, or None."""
    try:
        array = np.asarray(as_array(item))
    except (ValueError, TypeError):
        return None
    return array if array.dtype.kind in "fiub" else None


def _finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _table(item: Any, *widths: int) -> np.ndarray | None:
    """Rows of one of these widths; no rows at all are a table of the first."""
    if isinstance(item, list | tuple):
        item = [
            [as_array(cell) for cell in part] if isinstance(part, list | tuple) else as_array(part)
            for part in item
        ]
    array = None if isinstance(item, str) else _numbers(item)
    if array is not None and array.size == 0 and array.ndim <= 2:
        return np.zeros((0, widths[0]))
    return array if array is not None and array.ndim == 2 and array.shape[1] in widths else None


def _corners(item: Mapping[str, Any]) -> np.ndarray | None:
    """The corners that a dict holds."""
    return next((_table(item[k], 4) for k in ("boxes", "xyxy") if k in item), None)


def _made(build: Any, item: Any, *parts: Any) -> Any:
    """What `build` makes of the parts; the item itself where they are no numbers."""
    try:
        return build(*parts)
    except (ValueError, TypeError):
        return item


def pack_arrays(items: Sequence[Any]) -> dict[str, Any]:
    """Items of any shapes and types, None included, in few arrays: stacked where all are alike, as
    bytes and offsets where not.

    >>> pack_arrays([np.zeros((2, 2), np.uint8)] * 3)["values"].shape
    (3, 2, 2)
    >>> mixed = [np.ones((1, 2), np.uint8), None, np.full((3, 1), 0.5, np.float32)]
    >>> [None if a is None else a.tolist() for a in unpack_arrays(pack_arrays(mixed))]
    [[[1, 1]], None, [[0.5], [0.5], [0.5]]]
    """
    arrays = [np.asarray(i) for i in items if i is not None]
    if len(arrays) == len(items) and len({(a.shape, a.dtype) for a in arrays}) == 1:
        return {"values": np.stack(arrays)}
    pieces = []
    for item in items:
        file = io.BytesIO()
        if item is not None:
            np.save(file, np.asarray(item), allow_pickle=False)
        pieces.append(file.getvalue())
    content = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return {"offsets": offsets_of([len(p) for p in pieces]), "bytes": content}


def unpack_arrays(parts: dict[str, Any]) -> Any:
    """The items again."""
    if "values" in parts:
        return parts["values"]
    pieces = [
        np.asarray(parts["bytes"][span]).tobytes() for span in spans_between(parts["offsets"])
    ]
    return [np.load(io.BytesIO(p), allow_pickle=False) if p else None for p in pieces]


def offsets_of(lengths: Sequence[int]) -> np.ndarray:
    """Where each of several items begins and ends among the values of all.

    >>> offsets_of([2, 0, 1]).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def spans_between(offsets: np.ndarray) -> list[slice]:
    """Where each item lies among the values."""
    return [slice(a, b) for a, b in itertools.pairwise(np.asarray(offsets).tolist())]


SUM_SLACK = 1e-6
"""How far from 1 the sum of label probabilities may be."""
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
        """A whole number, out of an array or tensor of one."""
        array = np.asarray(as_array(item)) if hasattr(item, "__array__") else np.zeros(0)
        return int(array.item()) if array.size == 1 and array.dtype.kind in "iub" else item

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
    right = (
        "class scores are one row with a number for every class, two at least: probabilities or logits; "
        "for one probability p of two classes return [1 - p, p]"
    )

    def read(self, item: Any) -> Any:
        return as_row(item)


class _Distribution(_Dense):
    """A probability a class: a label that may be split between classes."""

    name = "distribution"
    right = "one row of probabilities that sum to 1 was expected"

    def problem(self, item: Any) -> str | None:
        found = super().problem(item)
        if found is not None:
            return found
        row = np.asarray(item, dtype=np.float64)
        if row.min() < 0:
            return f"is {row.min():g} for class {row.argmin()}; 0 or more was expected"
        total = float(row.sum())
        return None if abs(total - 1) <= SUM_SLACK else f"sums to {total:g}; 1 was expected"


class _Vector(_Dense):
    name = "vector"

    def read(self, item: Any) -> Any:
        """One row of numbers; a single number is a row of one."""
        array = _numbers(as_row(item))
        return item if array is None else np.atleast_1d(array)


class _Rows(Kind):
    """Items of any number of rows: the columns of all items, and where each item ends."""

    type: type[Boxes] | type[Tracks]
    columns: tuple[str, ...]
    right = ""

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, self.type):
            return f"{described(item)}; {self.right}"
        parts = {name: getattr(item, name) for name in self.columns}
        if len({len(part) for part in parts.values()}) > 1:
            named = {n: len(p) for n, p in parts.items() if n != "ignore" or len(p) != len(item)}
            *most, last = (f"{count} {ROWS_OF.get(name, name)}" for name, count in named.items())
            return f"has {', '.join(most)} and {last}"
        if not all(np.isfinite(part).all() for part in parts.values()):
            return "has a NaN or infinite corner or score"
        if (item.xyxy[:, 2:] < item.xyxy[:, :2]).any():
            return "has a box whose second corner lies above or left of its first (x1 y1 x2 y2 is expected)"
        return None

    def pack(self, items: Sequence[Any]) -> Parts:
        none = self.type.of(*[[]] * len(self.columns))
        known = [none if i is None else i for i in items]
        columns = {c: np.concatenate([getattr(i, c) for i in (none, *known)]) for c in self.columns}
        return {"offsets": offsets_of([len(i) for i in known])} | columns

    def unpack(self, parts: Parts) -> Sequence[Any]:
        places = spans_between(parts["offsets"])
        # Traces written before boxes could be ignored have no column of it.
        known = [c for c in self.columns if c in parts]
        return [self.type(**{c: parts[c][s] for c in known}) for s in places]


ROWS_OF = {"xyxy": "boxes", "ignore": "marks to ignore", "step": "steps"}
"""What rows of a column are called, if not by its name."""


class _Boxes(_Rows):
    name = "boxes"
    type, columns = Boxes, ("xyxy", "labels", "scores", "ignore")
    right = "boxes are a dict with boxes (x1 y1 x2 y2), labels, scores, or roadworthy.Boxes"

    def problem(self, item: Any) -> str | None:
        problem = super().problem(item)
        area = getattr(item, "area", None)
        if problem is not None or area is None:
            return problem
        if len(area) != len(item):
            return f"has {len(item)} boxes and {len(area)} areas"
        return None if (np.isfinite(area) & (area >= 0)).all() else "has an area below 0 or NaN"

    def pack(self, items: Sequence[Any]) -> Parts:
        parts = super().pack(items)
        if any(i is not None and i.area is not None for i in items):
            areas = [i.areas for i in items if i is not None]
            parts["area"] = np.concatenate([np.zeros(0), *areas])
        return parts

    def unpack(self, parts: Parts) -> Sequence[Any]:
        boxes = super().unpack(parts)
        if "area" not in parts:
            return boxes
        places = spans_between(parts["offsets"])
        return [replace(b, area=parts["area"][s]) for b, s in zip(boxes, places, strict=True)]

    def read(self, item: Any) -> Any:
        """A dict with boxes, labels and scores, or rows of x1 y1 x2 y2 [score [label]]."""
        if isinstance(item, Mapping):
            corners = _corners(item)
            parts = [as_array(item.get(k)) for k in ("labels", "scores", "ignore", "area")]
            return item if corners is None else _made(Boxes.of, item, corners, *parts)
        table = None if isinstance(item, Boxes) else _table(item, 4, 5, 6)
        if table is None:
            return item
        labels = table[:, 5] if table.shape[1] == 6 else None
        scores = table[:, 4] if table.shape[1] > 4 else None
        return _made(Boxes.of, item, table[:, :4], labels, scores)


class _Tracks(_Rows):
    name = "tracks"
    type, columns = Tracks, ("step", "ids", "xyxy")
    right = "tracks are rows of id x1 y1 x2 y2, a dict with ids and boxes, or roadworthy.Tracks"

    def read(self, item: Any) -> Any:
        """A dict with ids, boxes and (for a whole case) steps, or rows of [step] id x1 y1 x2 y2."""
        if isinstance(item, Mapping):
            corners = _corners(item)
            if corners is None or "ids" not in item:
                return item
            steps = item.get("steps", item.get("step", np.zeros(len(corners))))
            return _made(Tracks.of, item, as_array(steps), as_array(item["ids"]), corners)
        table = None if isinstance(item, Tracks) else _table(item, 5, 6)
        if table is None:
            return item
        steps = table[:, 0] if table.shape[1] == 6 else np.zeros(len(table))
        return _made(Tracks.of, item, steps, table[:, -5], table[:, -4:])

    def problem(self, item: Any) -> str | None:
        problem = super().problem(item)
        if problem is None and len(
            set(zip(item.step.tolist(), item.ids.tolist(), strict=True))
        ) < len(item):
            return "names an identity twice in one step; one box an identity and step is expected"
        return problem

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
        """A text, out of a dict with one under text."""
        text = item.get("text") if isinstance(item, Mapping) else None
        return text if isinstance(text, str) else item

    def problem(self, item: Any) -> str | None:
        return None if isinstance(item, str) else f"{described(item)}, not text"

    def pack(self, items: Sequence[Any]) -> Parts:
        return {"text": [None if i is None else self.written(i) for i in items]}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return [None if t is None else self.parsed(t) for t in parts["text"]]

    def written(self, item: Any) -> str:
        """An item as text."""
        return str(item)

    def parsed(self, text: str) -> Any:
        """The item again."""
        return text


class _Goal(_Text):
    """What an episode is to achieve: names and values."""

    name = "goal"

    def read(self, item: Any) -> Any:
        return item

    def problem(self, item: Any) -> str | None:
        known = isinstance(item, Mapping)
        return None if known else f"is {type(item).__name__}, not a goal (names and values)"

    def written(self, item: Any) -> str:
        return json.dumps(dict(item), sort_keys=True)

    def parsed(self, text: str) -> Any:
        return json.loads(text)


class _Episode(_Goal):
    name = "episode"

    def problem(self, item: Any) -> str | None:
        if isinstance(item, Episode | Mapping):
            return None
        right = "a step gives a dict of what happened in it, with what was reached under outcome"
        return f"{described(item)}; {right}"

    def written(self, item: Any) -> str:
        return super().written(vars(item) if isinstance(item, Episode) else item)

    def parsed(self, text: str) -> Any:
        found = json.loads(text)
        return Episode(tuple(found["turns"]), found["outcome"])

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


IGNORED = 255
"""The value of pixels in a true mask that count nowhere, as in Pascal VOC and Cityscapes."""


class _Mask(_Image):
    """A label image (h, w): the class index of every pixel."""

    name = "mask"
    right = (
        "a mask is a class index for every pixel (h, w), class scores (classes, h, w) or "
        "(h, w, classes), or one probability or logit a pixel (h, w)"
    )

    def read(self, item: Any) -> Any:
        """A label image, out of class scores, of one channel (1 where a probability is above 0.5 or
        a logit above 0), or of 0 and 255.

        >>> MASK.read(np.array([[0.2, 0.9]])).tolist(), MASK.read(np.array([[-3.0, 2.0]])).tolist()
        ([[0, 1]], [[0, 1]])
        """
        array = _numbers(item)
        if array is None or array.ndim not in (2, 3) or not array.size or not _finite(array):
            return item
        if array.ndim == 3:
            # Few classes and many pixels: the shorter of the two axes is that of the classes.
            axis = 0 if array.shape[0] <= array.shape[2] else 2
            count = array.shape[axis]
            if count > 1 and array.dtype.kind in "iu":
                return item  # a colour picture, more likely than scores
            if count > 1:
                return array.argmax(axis).astype(np.uint8 if count <= 256 else np.int32)
            array = array.squeeze(axis)
        least, most = array.min(), array.max()
        if array.dtype.kind == "f" and not (least >= 0 and (array == np.floor(array)).all()):
            array = array > (0.5 if least >= 0 and most <= 1 else 0)
        elif most == IGNORED and np.isin(array, (0, IGNORED)).all():
            array = array > 0
        if array.dtype == bool:
            return array.astype(np.uint8)
        return array.astype(np.uint8 if most < 256 else np.int32) if least >= 0 else array

    def problem(self, item: Any) -> str | None:
        if isinstance(item, Unreadable):
            return f"could not be read: {item.reason}"
        numbers = _numbers(item)
        if numbers is not None and not _finite(numbers):
            return "has NaN or infinite class scores"
        if not isinstance(item, np.ndarray) or item.ndim != 2 or item.dtype.kind not in "iu":
            return f"{described(item)}; {self.right}"
        if not item.size:
            return "has no pixels"
        return "has a class index below 0" if item.min() < 0 else None

    def unpack(self, parts: Parts) -> Sequence[Any]:
        return list(super().unpack(parts))


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


class _Images(_Frames):
    """Any number of images that are read together in one step, none at all included: the crops of a case."""

    name = "images"

    def problem(self, item: Any) -> str | None:
        found = [(i, IMAGE.problem(image)) for i, image in enumerate(item)]
        return next((f"image {i} {p}" for i, p in found if p), None)


class _Audio(Kind):
    name = "audio"

    def problem(self, item: Any) -> str | None:
        if not isinstance(item, Audio):
            return f"is {type(item).__name__}, not Audio"
        wave = item.wave
        # More channels than this are samples: the axes are the wrong way round.
        if wave.ndim not in (1, 2) or wave.size == 0 or (wave.ndim == 2 and wave.shape[1] > 32):
            return (
                f"has a wave of shape {wave.shape}; (samples,) or (samples, channels) was expected"
            )
        if wave.dtype.kind != "f":
            return f"has a wave of type {wave.dtype}; floats from -1 to 1 were expected"
        return None if np.isfinite(wave).all() else "has NaN or infinite samples"

    def pack(self, items: Sequence[Any]) -> Parts:
        rates = np.array([0 if i is None else i.rate for i in items], dtype=np.int64)
        return pack_arrays([None if i is None else i.wave for i in items]) | {"rate": rates}

    def unpack(self, parts: Parts) -> Sequence[Any]:
        rows = zip(unpack_arrays(parts), parts["rate"].tolist(), strict=True)
        return [None if wave is None else Audio(wave, rate) for wave, rate in rows]


CLASS_SCORES = _ClassScores()
LABEL = _Labels()
DISTRIBUTION = _Distribution()
VECTOR = _Vector()
BOXES = _Boxes()
TRACKS = _Tracks()
TEXT = _Text()
GOAL = _Goal()
EPISODE = _Episode()
IMAGE = _Image()
MASK = _Mask()
FRAMES = _Frames()
IMAGES = _Images()
AUDIO = _Audio()

KINDS: dict[str, Kind] = {
    k.name: k
    for k in (CLASS_SCORES, LABEL, VECTOR, BOXES, TRACKS, TEXT, GOAL, EPISODE, IMAGE, FRAMES, AUDIO)
}
KINDS |= {k.name: k for k in (MASK, IMAGES, DISTRIBUTION)}


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
        Task("segmentation", IMAGE, MASK, MASK, "mask_iou"),
        Task("text_recognition", IMAGE, TEXT, TEXT, "cer"),
        Task("tracking", FRAMES, TRACKS, TRACKS, "mota"),
        Task("speech", AUDIO, TEXT, TEXT, "wer"),
        Task("dialogue", GOAL, EPISODE, GOAL, "success_rate"),
    )
}
