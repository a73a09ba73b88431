"""Posts of events and of labels: one JSON object, a list of them, or one a line (NDJSON).

An event has an ``id`` (the same id sent again is the same event), a ``time`` (seconds since 1970,
or ISO 8601 with a time zone; the time of arrival if it is left out) and one of ``scores``,
``verdict`` (if the calibration reads one score of 0 and 1) and ``cell``. ``subject`` is optional. A
label has the ``id`` of an event and whether its answer was ``correct``; ``probability`` is the one
with which the event was chosen for labelling (without it that of the label queue, else 1). A post is
accepted whole or not at all, and a refusal names the line.

>>> from types import SimpleNamespace
>>> known = {"names": ("knn",), "cells": 4, "references": ((0.5,),), "reach": ((0.1, 2.0),)}
>>> place = lambda columns: [int(score > 1) for score in columns["knn"]]
>>> reader = Reader(SimpleNamespace(**known, place=place), subject="lesion-2.3.1")
>>> event = reader.read(b'{"id": "a", "time": 5, "scores": {"knn": 0.5}}', now=9.0)
>>> event.id, event.time, event.scores
('a', 5.0, {'knn': 0.5})
>>> reader.labels(b'{"id": "b", "correct": false, "probability": 0.2}')
[Label(id='b', correct=False, probability=0.2)]
>>> reader.read(b'{"id": "a", "cell": 1}\\n{"id": "b", "scores": {"knn": 1e999}}', now=9.0)
Traceback (most recent call last):
roadworthy.web.http.Refused: line 2: Score 'knn' is infinite. Send a finite number, or null.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from roadworthy.registry import did_you_mean
from roadworthy.web.http import Refused, brief

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

LONGEST_ID = 200
TICK = 1e-6
"""Seconds between events of one post that have no time: a clock of 1970 on knows no less."""
LATEST = 1e11
"""Seconds, in the year 5138: a greater time is one in milliseconds, or in smaller parts yet."""
KEYS = ("id", "time", "scores", "verdict", "cell", "subject")
LABEL = '{"id": "case-1", "correct": false, "probability": 0.2}'
_PARTS = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
_MOST = sys.float_info.max
_NUMBER = {float, int}
_SCORE = {float, int, bool, type(None)}
_HEAD = struct.Struct("<Id")
"""How many events, and the clock when they were counted."""


@dataclass(frozen=True)
class Batch:
    """Events in the order in which they were posted, as columns.

    >>> batch = Batch(["a", "b"], np.array([1.0, 2.0]), np.array([0, 3], dtype=np.int16))
    >>> back, now = Batch.unpacked(batch.packed(now=5.0))
    >>> back.ids, back.times.tolist(), now
    (['a', 'b'], [1.0, 2.0], 5.0)
    """

    ids: list[str]
    times: NDArray[np.float64]
    cells: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, first: int, last: int) -> Batch:
        """The events from one place to before another."""
        return Batch(self.ids[first:last], self.times[first:last], self.cells[first:last])

    def packed(self, *, now: float) -> bytes:
        """The events and the clock as a row of the log: little-endian, ids as JSON."""
        names = json.dumps(self.ids, ensure_ascii=False, separators=(",", ":")).encode()
        times, cells = self.times.astype("<f8", copy=False), self.cells.astype("<i2", copy=False)
        return b"".join((_HEAD.pack(len(self), now), times.tobytes(), cells.tobytes(), names))

    @staticmethod
    def unpacked(content: bytes) -> tuple[Batch, float]:
        """The inverse of `packed`."""
        n, now = _HEAD.unpack_from(content)
        at = _HEAD.size
        times = np.frombuffer(content, "<f8", n, at).astype(np.float64)
        cells = np.frombuffer(content, "<i2", n, at + 8 * n).astype(np.int16)
        return Batch(json.loads(content[at + 10 * n :]), times, cells), now


class Single:
    """One event as it was posted; single events of a group are placed together, in one call."""

    __slots__ = ("cell", "id", "scores", "time")

    def __init__(
        self, id: str, time: float, scores: Mapping[str, float] | None, cell: int = -1
    ) -> None:
        self.id, self.time, self.scores, self.cell = id, time, scores, cell

    def __len__(self) -> int:
        return 1


class Label(NamedTuple):
    """Whether an event's answer was right."""

    id: str
    correct: bool
    probability: float | None = None


Post = Batch | Single | Sequence[Label]


def placed(singles: Sequence[Single], calibration: Calibration) -> Batch:
    """Single events as a batch."""
    cells = np.array([single.cell for single in singles], dtype=np.int16)
    rows = [i for i, single in enumerate(singles) if single.scores is not None]
    if rows:
        given = [singles[i].scores or {} for i in rows]
        columns = {
            name: [scores.get(name, math.nan) for scores in given] for name in calibration.names
        }
        cells[rows] = calibration.place(columns)
    return Batch(
        [single.id for single in singles], np.array([single.time for single in singles]), cells
    )


class Reader:
    """Reads posts for one calibration, one subject (with one or more names) and one bundle."""

    def __init__(
        self, calibration: Calibration, *, subject: str | Sequence[str], bundle: str = ""
    ) -> None:
        self._calibration, self._bundle = calibration, bundle
        self._called = (subject,) if isinstance(subject, str) else tuple(subject)
        self._names = calibration.names
        values = {*calibration.reach[0], *calibration.references[0]}
        self._verdicts = len(self._names) == 1 and values <= {0.0, 1.0}

    def read(self, body: bytes, *, now: float) -> Batch | Single:
        """The events of a body; those without a time get the clock's, `now`."""
        try:
            document = orjson.loads(body)
        except ValueError:
            return self._lines(body, now)
        if type(document) is dict:
            return self._usual(document) or self._event(document, now, None)
        if not isinstance(document, list):
            raise Refused(
                f"A post is an event {{...}}, a list, or NDJSON; found {brief(document)}."
            )
        return self._many(document, now)

    def columns(
        self, ids: list[str], time: float, columns: Mapping[str, NDArray[np.float64]]
    ) -> Batch:
        """Events of one moment, in order, whose scores are arrays, finite or NaN (a missing score)."""
        times = np.full(len(ids), time)
        times += TICK * np.arange(len(ids))
        return Batch(ids, times, self._calibration.place(columns))

    def labels(self, body: bytes) -> list[Label]:
        """The labels of a body."""
        try:
            document = orjson.loads(body)
            items = list(enumerate(document, 1)) if isinstance(document, list) else [(1, document)]
        except ValueError:
            items = [(i, _json(line, i)) for i, line in _numbered(body)]
        if not items:
            raise Refused(f"The post holds no label. A label looks like {LABEL}.")
        return [self._label(item, line) for line, item in items]

    def _usual(self, event: dict[str, Any]) -> Single | None:
        """The usual event, with an id, a time and all scores; None if it is another, or wrong."""
        try:
            name, time, scores = event["id"], event["time"], event["scores"]
            if (
                len(event) != 3
                or len(scores) != len(self._names)
                or type(name) is not str
                or type(time) not in _NUMBER
            ):
                return None
            for score in self._names:
                if type(scores[score]) is not float or not -_MOST <= scores[score] <= _MOST:
                    return None
        except (KeyError, TypeError):
            return None
        right = -LATEST <= time <= LATEST and 0 < len(name) <= LONGEST_ID
        return Single(name, float(time), scores) if right else None

    def _lines(self, body: bytes, now: float) -> Batch:
        stripped = body.strip()
        if not stripped:
            raise Refused(f"The body is empty. An event looks like {self._example()}.")
        breaks = stripped.count(b"\n")
        if stripped.count(b"\n{") == breaks:
            with contextlib.suppress(ValueError):
                # One call for all lines: with a comma for each line break they are a list. As many
                # objects as lines are one a line, since every line opens an object.
                events = orjson.loads(b"[" + stripped.replace(b"\n", b",") + b"]")
                if len(events) == breaks + 1:
                    return self._many(events, now)
        if stripped.startswith(b"["):
            with contextlib.suppress(ValueError, RecursionError):
                events = json.loads(stripped)  # a list with NaN in it: the event is named
                return self._one_by_one(events, now, range(1, len(events) + 1))
        # Blank lines, or one that cannot be read: line by line, to say which.
        lines = _numbered(body)
        events = [_json(line, i) for i, line in lines]
        return self._one_by_one(events, now, [i for i, _ in lines])

    def _many(self, events: list[Any], now: float) -> Batch:
        if not events:
            raise Refused(f"The batch holds no event. An event looks like {self._example()}.")
        batch = self._uniform(events)
        return batch or self._one_by_one(events, now, range(1, len(events) + 1))

    def _uniform(self, events: list[Any]) -> Batch | None:
        """The usual batch, by columns: every event has an id, a time and all scores; else None."""
        try:
            ids = [e["id"] for e in events]
            times = [e["time"] for e in events]
            scores = [e["scores"] for e in events]
            columns = {name: [s[name] for s in scores] for name in self._names}
            keys, wanted = sum(map(len, events)), 3 * len(events)
            if keys != wanted and (keys != wanted + len(events) or not self._ours(events)):
                return None
            if sum(map(len, scores)) != len(self._names) * len(events):
                return None
            if set(map(type, ids)) != {str} or not set(map(type, times)) <= _NUMBER:
                return None
            if not all(set(map(type, column)) <= _SCORE for column in columns.values()):
                return None
            lengths = list(map(len, ids))
        except (KeyError, TypeError, IndexError, AttributeError):
            return None
        arrays = {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
        at = np.array(times, dtype=np.float64)
        if min(lengths) < 1 or max(lengths) > LONGEST_ID:
            return None
        if not np.isfinite(at).all() or np.abs(at).max() > LATEST:
            return None
        if any(np.isinf(a).any() for a in arrays.values()):
            return None
        return Batch(ids, at, self._calibration.place(arrays))

    def _ours(self, events: list[Any]) -> bool:
        """Whether all events name the subject of the bundle."""
        return {e["subject"] for e in events} <= set(self._called)

    def _one_by_one(self, events: list[Any], now: float, numbers: Sequence[int]) -> Batch:
        """Each event read alone, so that a wrong one can be named; placed all at once."""
        read = [
            # Without times of their own they count in the order of the post.
            self._event(event, now + i * TICK, line)
            for i, (line, event) in enumerate(zip(numbers, events, strict=True))
        ]
        return placed(read, self._calibration)

    def _event(self, event: Any, now: float, line: int | None) -> Single:
        """One event, whatever its form."""
        if type(event) is not dict:
            raise Refused(
                f"An event is an object such as {self._example()}; found {brief(event)}.", line=line
            )
        self._check_subject(event, line)
        _check_keys(event, KEYS, "An event", line)
        name, time = _id(event, line), _time(event.get("time", now), line)
        forms = [key for key in ("scores", "verdict", "cell") if key in event]
        if len(forms) != 1:
            found = " and ".join(forms) or "none"
            raise Refused(
                f"An event has one of scores, verdict and cell; found {found}.", line=line
            )
        given = event[forms[0]]
        if forms == ["cell"]:
            return Single(name, time, None, self._cell(given, line))
        if forms == ["verdict"]:
            return Single(name, time, self._verdict(given, line))
        return Single(name, time, self._scores(given, line))

    def _label(self, item: Any, line: int) -> Label:
        if not isinstance(item, dict):
            raise Refused(f"A label is an object such as {LABEL}; found {brief(item)}.", line=line)
        self._check_subject(item, line)
        if self._bundle and item.get("bundle", self._bundle) != self._bundle:
            raise Refused(
                f"This label belongs to bundle {brief(item['bundle'])}; this monitor has bundle "
                f"{self._bundle!r}.",
                status=409,
                line=line,
            )
        _check_keys(item, (*Label._fields, "subject", "bundle"), "A label", line)
        correct, probability = (item.get(key) for key in Label._fields[1:])
        if type(correct) not in (bool, int) or correct not in (0, 1):
            raise Refused(f"correct must be true or false; found {brief(correct)}.", line=line)
        if probability is not None and (
            type(probability) not in _NUMBER or not 0.0 < probability <= 1.0
        ):
            raise Refused(
                f"probability must be above 0 and at most 1; found {brief(probability)}.", line=line
            )
        chosen = None if probability is None else float(probability)
        return Label(_id(item, line), bool(correct), chosen)

    def _check_subject(self, item: Mapping[str, Any], line: int | None) -> None:
        given = item.get("subject", self._called[0])
        if given not in self._called:
            names = " or ".join(map(repr, self._called))
            raise Refused(
                f"The subject is {brief(given)}; this monitor's subject is {names}. Another "
                "subject needs its own bundle.",
                status=409,
                line=line,
            )

    def _scores(self, scores: Any, line: int | None) -> Mapping[str, float]:
        if type(scores) is not dict:
            raise Refused(
                f"scores must be an object of names and numbers; found {brief(scores)}.", line=line
            )
        found = {}
        for name, score in scores.items():
            if name not in self._names:
                raise Refused(
                    f"Unknown score {brief(name)}{did_you_mean(name, self._names)}. "
                    f"Scores: {', '.join(self._names)}.",
                    line=line,
                )
            found[name] = _score(score, name, line)
        return found

    def _verdict(self, verdict: Any, line: int | None) -> Mapping[str, float]:
        if len(self._names) != 1:
            raise Refused(
                f"A verdict needs a calibration of one score; this one reads "
                f"{', '.join(self._names)}. Send scores.",
                line=line,
            )
        if not self._verdicts:
            low, high = self._calibration.reach[0]
            raise Refused(
                f"A verdict is a score of 0 or 1; {self._names[0]!r} was calibrated from {low:.4g} "
                f"to {high:.4g}. Send the score, as in {self._example()}.",
                line=line,
            )
        if type(verdict) not in (bool, int) or verdict not in (0, 1):
            raise Refused(f"verdict must be true or false; found {brief(verdict)}.", line=line)
        return {self._names[0]: float(verdict)}

    def _cell(self, cell: Any, line: int | None) -> int:
        if type(cell) is not int or not -1 <= cell < self._calibration.cells:
            raise Refused(
                f"cell must be a whole number from 0 to {self._calibration.cells - 1}, or -1 "
                f"without a score; found {brief(cell)}.",
                line=line,
            )
        return cell

    def _example(self) -> str:
        return json.dumps(
            {"id": "case-1", "time": 1700000000.0, "scores": dict.fromkeys(self._names, 0.5)}
        )


def writable(text: str) -> bool:
    """Whether a text can be written as UTF-8: JSON allows half of a pair of surrogates.

    >>> writable("case-1"), writable("\\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_keys(item: Mapping[str, Any], known: Sequence[str], what: str, line: int | None) -> None:
    for key in item:
        if key not in known:
            raise Refused(
                f"Unknown key {brief(key)}{did_you_mean(key, known)}. {what} has "
                f"{', '.join(known)}.",
                line=line,
            )


def _id(item: Mapping[str, Any], line: int | None) -> str:
    name = item.get("id")
    if type(name) is int:
        name = str(name)
    if type(name) is not str or not 1 <= len(name) <= LONGEST_ID:
        raise Refused(
            f"id must be a text of 1 to {LONGEST_ID} characters; found {brief(name)}.", line=line
        )
    if not writable(name):
        raise Refused(f"id {brief(name)} cannot be written as UTF-8.", line=line)
    return name


def _time(time: Any, line: int | None) -> float:
    if type(time) is str:
        time = _iso(time, line)
    # math.isfinite would fail on a whole number of 400 digits.
    if type(time) not in _NUMBER or time != time or abs(time) == math.inf:
        raise Refused(
            f"time must be seconds since 1970, or ISO 8601 with a time zone; found {brief(time)}.",
            line=line,
        )
    if abs(time) > LATEST:
        raise Refused(
            f"time {brief(time)} {_unit(time)}; seconds since 1970 are expected.", line=line
        )
    return float(time)


def _unit(time: float) -> str:
    """What a time that is no number of seconds is counted in.

    >>> [_unit(1.7e9 * parts) for parts in (1e3, 1e6, 1e15)]
    ['looks like milliseconds', 'looks like microseconds', 'is out of range']
    """
    for name, parts in _PARTS:
        if abs(time) <= LATEST * parts:
            return f"looks like {name}"
    return "is out of range"


def _iso(text: str, line: int | None) -> float:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise Refused(
        f"time {brief(text)} is not ISO 8601 with a time zone, such as 2026-03-01T12:00:00Z.",
        line=line,
    )


def _score(score: Any, name: str, line: int | None) -> float:
    if type(score) not in _SCORE:
        raise Refused(f"Score {name!r} must be a number or null; found {brief(score)}.", line=line)
    if score is None:
        return math.nan
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if math.isfinite(value):
        return value
    found = "NaN" if value != value else "infinite"
    raise Refused(f"Score {name!r} is {found}. Send a finite number, or null.", line=line)


def _numbered(body: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not blank, each with its number."""
    return [(i, line) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def _json(line: bytes, number: int) -> Any:
    """One line; NaN and Infinity, which are no JSON, are read so that they can be named."""
    readers: tuple[Callable[[bytes], Any], ...] = (orjson.loads, json.loads)
    for read in readers:
        with contextlib.suppress(ValueError, RecursionError):
            return read(line)
    shown = line[:60].decode("utf-8", "replace") + ("..." if len(line) > 60 else "")
    together = (
        " One object a line was expected; with curl, use --data-binary @FILE and not -d."
        if re.search(rb"\}\s*\{", line)
        else ""
    )
    raise Refused(f"This is not JSON: {shown}.{together}", line=number)
