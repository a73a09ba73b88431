"""How one prediction stands in a row of a file, by the kind of value: what `write_predictions` writes and the adapter reads.

Numbers are written in full, so that they come back to the last bit; NaN and infinity, which JSON has not, as text.

>>> FORMS["class_scores"].encode(np.array([0.1, np.nan], dtype=np.float32))
{'scores': [0.10000000149011612, 'nan']}
>>> FORMS["text"].decode({"text": "hello"})
'hello'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    TEXT,
    TRACKS,
    VECTOR,
    Boxes,
    Episode,
    Kind,
    Tracks,
)
from roadworthy.subject.module import SubjectError


@dataclass(frozen=True)
class Form:
    """A kind of value as the fields of a row. `decode` raises ValueError with the end of a sentence."""

    kind: Kind
    keys: tuple[str, ...]
    encode: Callable[[Any], dict[str, Any]]
    decode: Callable[[Mapping[str, Any]], Any]
    arrow: Mapping[str, str]
    """The Parquet type of each field: text, numbers, indices or rows of numbers."""


def form_of(kind: Kind) -> Form:
    """The form of a kind; kinds that no task answers with have none."""
    if kind.name not in FORMS:
        raise SubjectError(f"predictions hold {', '.join(FORMS)}; {kind.name} is none of them")
    return FORMS[kind.name]


def plain(values: Any) -> Any:
    """Numbers as JSON can hold them: nested lists, in which what is not finite is text."""
    array = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return (
            [plain(v) for v in array]
            if array.ndim > 1
            else [v if np.isfinite(v) else str(v) for v in array.tolist()]
        )
    return array.tolist()


def _matrix(values: Any, width: int, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"holds {what} that are not rows of {width} numbers") from None
    if array.size == 0:
        return np.zeros((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(
            f"holds {what} of shape {array.shape}; rows of {width} numbers were expected"
        )
    return array


def _row(key: str) -> Callable[[Mapping[str, Any]], np.ndarray]:
    def decode(row: Mapping[str, Any]) -> np.ndarray:
        try:
            array = np.asarray(row[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"holds {key} that are not numbers: {str(row[key])[:60]}") from None
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"holds {key} of shape {array.shape}; one row of numbers was expected")
        return array

    return decode


def _encode_boxes(item: Boxes) -> dict[str, Any]:
    return {"boxes": plain(item.xyxy), "labels": plain(item.labels), "scores": plain(item.scores)}


def _decode_boxes(row: Mapping[str, Any]) -> Boxes:
    corners = _matrix(row["boxes"], 4, "boxes")
    try:
        boxes = Boxes.of(corners, row["labels"], row["scores"])
    except (TypeError, ValueError):
        raise ValueError(
            "holds labels that are not whole numbers, or scores that are not numbers"
        ) from None
    if not len(boxes.xyxy) == len(boxes.labels) == len(boxes.scores):
        raise ValueError(
            f"has {len(boxes.xyxy)} boxes, {len(boxes.labels)} labels and {len(boxes.scores)} scores"
        )
    return boxes


def _encode_tracks(item: Tracks) -> dict[str, Any]:
    rows = zip(item.step.tolist(), item.ids.tolist(), plain(item.xyxy), strict=True)
    return {"tracks": [[step, number, *corners] for step, number, corners in rows]}


def _decode_tracks(row: Mapping[str, Any]) -> Tracks:
    table = _matrix(row["tracks"], 6, "tracks")
    return Tracks.of(table[:, 0], table[:, 1], table[:, 2:])


def _decode_text(row: Mapping[str, Any]) -> str:
    if not isinstance(row["text"], str):
        raise ValueError(f"holds text that is {type(row['text']).__name__}")
    return row["text"]


def _encode_episode(item: Any) -> dict[str, Any]:
    if isinstance(item, Episode):
        item = {"turns": [dict(t) for t in item.turns], "outcome": dict(item.outcome)}
    return {"episode": item}


def _decode_episode(row: Mapping[str, Any]) -> Episode:
    told = row["episode"]
    told = json.loads(told) if isinstance(told, str) else told
    if (
        not isinstance(told, Mapping)
        or not isinstance(told.get("turns"), list)
        or "outcome" not in told
    ):
        raise ValueError("holds an episode without a list of turns and an outcome")
    return Episode(tuple(told["turns"]), told["outcome"])


FORMS: dict[str, Form] = {
    form.kind.name: form
    for form in (
        Form(
            CLASS_SCORES,
            ("scores",),
            lambda v: {"scores": plain(v)},
            _row("scores"),
            {"scores": "numbers"},
        ),
        Form(
            VECTOR,
            ("vector",),
            lambda v: {"vector": plain(v)},
            _row("vector"),
            {"vector": "numbers"},
        ),
        Form(
            BOXES,
            ("boxes", "labels", "scores"),
            _encode_boxes,
            _decode_boxes,
            {"boxes": "rows", "labels": "indices", "scores": "numbers"},
        ),
        Form(TRACKS, ("tracks",), _encode_tracks, _decode_tracks, {"tracks": "rows"}),
        Form(TEXT, ("text",), lambda v: {"text": v}, _decode_text, {"text": "text"}),
        Form(EPISODE, ("episode",), _encode_episode, _decode_episode, {"episode": "text"}),
    )
}
"""Forms by the name of the kind."""


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """Class scores of bare labels: 1 for the class that was named.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    scores = np.zeros((len(labels), classes), dtype=np.float32)
    scores[np.arange(len(labels)), labels] = 1.0
    return scores


def narrow(values: np.ndarray) -> np.ndarray:
    """The same numbers as float32 where that loses nothing, else as float64: text does not say which they were."""
    if values.dtype == np.float32:
        return values
    wide = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        small = wide.astype(np.float32)
    return small if np.array_equal(small, wide, equal_nan=True) else wide
