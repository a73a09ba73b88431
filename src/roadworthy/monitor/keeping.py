"""A state as bytes and back, without pickle: a header with its version, its bundle and a checksum, then arrays.

A state of another bundle is refused, and so is one that was cut off or changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.alarm import Alarm
from roadworthy.monitor.events import EventError, Marks, Taken, given_name, kept_names
from roadworthy.monitor.labels import Label
from roadworthy.monitor.replicas import from_arrays, to_arrays

if TYPE_CHECKING:
    from roadworthy.monitor.state import State

MAGIC = b"roadworthy state 2\n"


class StateError(EventError):
    """Bytes that are not a state of this bundle."""


def packed(state: State, *, bundle: str, watch: dict[str, Any], alarms: list[Alarm]) -> bytes:
    """All of a state: the arrays, and the rest as JSON."""
    recent, labels = state.recent, state.labels
    keys, rows, newest = state.buckets.arrays()
    given = sorted(labels.given.items())
    asked = sorted(labels.asked.items())
    merged, merged_arrays = to_arrays(state.merged)
    names, marks = _names(state)
    head = {
        "bundle": bundle,
        "replica": state.name,
        "former": sorted(state.former),
        "merged": merged,
        "taken": list(state.taken),
        "newest": None if math.isinf(state.newest) else state.newest,
        "newest_own": None if math.isinf(state.newest_own) else state.newest_own,
        "furthest": state.furthest,
        "outrun": state.outrun,
        "unnamed_labels": labels.unnamed,
        "newest_bucket": newest,
        "names": names,
        "watch": watch,
        "alarms": [astuple(alarm) for alarm in alarms],
    }
    arrays = {
        "head": np.frombuffer(json.dumps(head, ensure_ascii=True).encode(), dtype=np.uint8),
        "time": recent.time,
        "mark": marks,
        "cell": recent.cell,
        **_arrived(state),
        "bucket_keys": keys,
        "bucket_rows": rows,
        "label_marks": np.array([mark for mark, _ in given], dtype=np.uint64),
        "labels": label_rows([label for _, label in given]),
        "label_counts": labels.counts,
        "asked_marks": np.array([mark for mark, _ in asked], dtype=np.uint64),
        "asked": np.array([p for _, p in asked], dtype=np.float64),
        **merged_arrays,
    }
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    content = body.getvalue()
    return MAGIC + hashlib.sha256(content).digest() + content


def _names(state: State) -> tuple[list[Any], Marks]:
    """Names as texts and numbers, and the marks without which they are not told apart: others are worked out when asked for."""
    names = state.recent.first_names(len(state.recent))
    if tuple not in set(map(type, names)):
        return list(names), np.zeros(len(names), dtype=np.uint64)
    numbered = [type(name) is tuple for name in names]
    return list(map(given_name, names)), np.where(numbered, state.recent.mark, np.uint64(0))


def _arrived(state: State) -> dict[str, Any]:
    """The order of arrival, where it is not that of the events' times, which is kept anyway."""
    time, cell, n = state.arrivals.time, state.arrivals.cell, len(state.arrivals)
    last = slice(len(state.recent) - n, None)
    if n <= len(state.recent) and all(
        np.array_equal(mine, held[last])
        for mine, held in ((time, state.recent.time), (cell, state.recent.cell))
    ):
        return {}
    return {"arrived_time": time, "arrived_cell": cell}


def unpack(data: bytes, state: State, *, bundle: str) -> tuple[dict[str, Any], list[Alarm]]:
    """Fill an empty state; gives back what was kept beside it."""
    arrays = _arrays(data)
    head = json.loads(arrays["head"].tobytes())
    if head["bundle"] != bundle:
        raise StateError(
            f"this state belongs to bundle {head['bundle']}, not to {bundle}; start a state of its own"
        )
    state.name, state.former = head["replica"], set(head["former"])
    state.merged = from_arrays(state, head["merged"], arrays)
    state.taken = Taken(*head["taken"])
    state.newest = -math.inf if head["newest"] is None else float(head["newest"])
    # Before it was kept, a state that had counted events itself ended where all that it held did.
    counted = state.taken.total > sum(before.taken.total for before in state.merged.values())
    own = head.get("newest_own", head["newest"] if counted else None)
    state.newest_own = -math.inf if own is None else float(own)
    state.furthest, state.outrun = float(head["furthest"]), int(head.get("outrun", 0))
    state.buckets.restore(arrays["bucket_keys"], arrays["bucket_rows"], head["newest_bucket"])
    names = kept_names(head["names"], arrays["mark"])
    state.recent.put(arrays["time"], arrays["mark"], arrays["cell"], names)
    by = "arrived_" if "arrived_cell" in arrays else ""
    state.arrivals.restart(arrays[f"{by}time"], arrays[f"{by}cell"])
    state.labels.given = dict(
        zip(arrays["label_marks"].tolist(), labels_of(arrays["labels"]), strict=True)
    )
    state.labels.counts = arrays["label_counts"].copy()
    # Before they were counted, their numbers were those of all labels.
    state.labels.unnamed = int(head.get("unnamed_labels", state.labels.counts.sum()))
    state.labels.asked = dict(
        zip(arrays["asked_marks"].tolist(), arrays["asked"].tolist(), strict=True)
    )
    return head["watch"], [Alarm(*entry) for entry in head["alarms"]]


def label_rows(labels: list[Label]) -> Any:
    """Labels as numbers; a probability that the questions decide is not a number."""
    return np.array([[*label] for label in labels], dtype=np.float64).reshape(-1, 4)


def labels_of(rows: Any) -> list[Label]:
    """The inverse of `label_rows`."""
    return [
        Label(time, int(cell), bool(correct), None if math.isnan(probability) else probability)
        for time, cell, correct, probability in rows.tolist()
    ]


def _arrays(data: bytes) -> dict[str, Any]:
    if not data.startswith(MAGIC):
        raise StateError(
            f"these {len(data)} bytes are not a state of this version: it starts with {MAGIC!r}"
        )
    start = len(MAGIC) + 32
    content = data[start:]
    if hashlib.sha256(content).digest() != data[len(MAGIC) : start]:
        raise StateError(
            "this state is cut off or was changed: its checksum does not fit; use the one before it"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise StateError(f"this state cannot be read: {error}") from error
