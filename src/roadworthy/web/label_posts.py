"""Labels that come later: what somebody found out about an event, and with which probability that event was drawn for it.

A label of an input that was sure to be labelled has probability 1; one that `label-queue` drew has the probability that it
wrote down, which need not be sent again. Labels of alarmed cases alone, sent as if they were drawn from all, would make
everything look worse than it is. An event that is no longer among the last ones needs its cell and its time. ``subject`` and
``bundle`` are optional, and refused where they are others: cells of another bundle mean something else.

>>> labels_of(b'{"id": "a", "correct": true}\\n{"id": "b", "correct": false, "probability": 0.2}')[1]
Label(id='b', correct=False, probability=0.2, cell=None, time=None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from roadworthy.registry import did_you_mean
from roadworthy.web.batch import Label
from roadworthy.web.events import (
    LATEST,
    LONGEST_ID,
    Refused,
    brief,
    clock,
    either,
    run_together,
    writable,
)

EXAMPLE = '{"id": "case-1", "correct": false, "probability": 0.2}'


def labels_of(
    body: bytes, *, cells: int | None = None, subject: Sequence[str] = (), bundle: str | None = None
) -> list[Label]:
    """The labels of a post: an object, a list, or one a line; taken whole or not at all.

    `cells` is how many there are, `subject` what the subject may be called.
    """
    try:
        document = orjson.loads(body)
        items = list(enumerate(document, 1)) if isinstance(document, list) else [(1, document)]
    except ValueError:
        items = [(i, _line(line, i)) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if not items:
        raise Refused(f"the post holds no label; one looks like {EXAMPLE}")
    ours = {"subject": subject, "bundle": () if bundle is None else (bundle,)}
    return [_label(_of_ours(item, line, ours), line, cells) for line, item in items]


def _line(line: bytes, number: int) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        raise Refused(
            f"this is no JSON; a label looks like {EXAMPLE}{run_together(line)}", line=number
        ) from None


def _of_ours(item: Any, line: int, ours: Mapping[str, Sequence[str]]) -> Any:
    """A label without the subject and the bundle that it names; one of another is a conflict, as an event of it is."""
    if not isinstance(item, dict) or not item.keys() & ours.keys():
        return item
    for key, own in ours.items():
        if own and item.get(key, own[0]) not in own:
            raise Refused(
                f"this label is of {key} {brief(item[key])}, and this monitor is of {either(own)}; "
                f"send it to the monitor of its own {key}",
                status=409,
                line=line,
            )
    return {key: value for key, value in item.items() if key not in ours}


def _label(item: Any, line: int, cells: int | None) -> Label:
    if not isinstance(item, dict):
        raise Refused(f"a label is an object such as {EXAMPLE}; found {brief(item)}", line=line)
    for key in item:
        if key not in Label._fields:
            known = ", ".join((*Label._fields, "subject", "bundle"))
            raise Refused(
                f"unknown key {brief(key)}{did_you_mean(key, Label._fields)}; a label has {known}",
                line=line,
            )
    id, correct, probability, cell, time = (item.get(key) for key in Label._fields)
    if type(id) is int:
        id = str(id)
    if not isinstance(id, str) or not 1 <= len(id) <= LONGEST_ID or not writable(id):
        raise Refused(f"id must be that of an event; found {brief(id)}", line=line)
    if type(correct) not in (bool, int) or correct not in (0, 1):
        raise Refused(f"correct must be true or false; found {brief(correct)}", line=line)
    if probability is not None and (
        type(probability) not in (int, float) or not 0.0 < probability <= 1.0
    ):
        raise Refused(
            "probability, with which this event was to be labelled, must lie above 0 and be 1 at most; "
            f"found {brief(probability)}",
            line=line,
        )
    if (cell is None) != (time is None):
        raise Refused("cell and time of an old event go together; give both or none", line=line)
    if cell is not None and (
        type(cell) is not int or not -1 <= cell < (math.inf if cells is None else cells)
    ):
        upto = "" if cells is None else f" to {cells - 1}"
        raise Refused(
            f"cell must be a whole number from 0{upto}, or -1 without a score; found {brief(cell)}",
            line=line,
        )
    if time is not None and (type(time) not in (int, float) or not math.isfinite(time)):
        raise Refused(f"time must be seconds since 1970; found {brief(time)}", line=line)
    if time is not None and abs(time) > LATEST:
        raise Refused(
            f"time {brief(time)} {clock(time)}; seconds since 1970 are expected", line=line
        )
    return Label(id, bool(correct), _float(probability), cell, _float(time))


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
