"""What a client posts, as a batch of events: one JSON object, a list of them, or one a line (NDJSON).

An event has an ``id`` (the same id sent again is the same event), a ``time`` (seconds since 1970, or ISO 8601 with a time
zone; when it came where it is left out) and what the supervisors said of it: ``scores``, a ``verdict`` where the
calibration reads verdicts (one score, of 0 and 1), or the ``cell`` itself. ``subject`` is optional, and refused where it is
another one. A batch is taken whole or not at all: whoever gets a refusal corrects the line that it names and sends the same
batch again.

>>> from types import SimpleNamespace
>>> known = {"names": ("knn",), "cells": 4, "references": ((0.5,),), "reach": ((0.1, 2.0),)}
>>> calibration = SimpleNamespace(**known, place=lambda columns: [int(score > 1) for score in columns["knn"]])
>>> reader = Reader(calibration, subject="lesion-2.3.1")
>>> event = reader.read(b'{"id": "a", "time": 5, "scores": {"knn": 0.5}}', now=9.0)
>>> event.id, event.time, event.scores
('a', 5.0, {'knn': 0.5})
>>> reader.read(b'{"id": "a", "scores": {"knn": 0.5}}\\n{"id": "b", "scores": {"knn": 1e999}}', now=9.0)
Traceback (most recent call last):
roadworthy.web.events.Refused: line 2: score 'knn' is infinite; a score is a finite number, or null where there is none
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from roadworthy.registry import did_you_mean
from roadworthy.web.batch import Batch, Places, Single, placed

LONGEST_ID = 200
LATEST = 1e11
"""Seconds, in the year 5138: a greater time is one in milliseconds, or in smaller parts yet."""
PARTS = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
KEYS = ("id", "time", "scores", "verdict", "cell", "subject")
_MOST = sys.float_info.max
_NUMBER = {float, int}
_SCORE = {float, int, bool, type(None)}


class Refused(Exception):
    """A post that is not taken: nothing of it was counted."""

    def __init__(self, sentence: str, *, status: int = 400, line: int | None = None) -> None:
        super().__init__(sentence if line is None else f"line {line}: {sentence}")
        self.status, self.line = status, line


class Reader:
    """Reads posts for one calibration and one subject, which may have several names."""

    def __init__(self, calibration: Places, *, subject: str | Sequence[str]) -> None:
        self._calibration = calibration
        self._called = (subject,) if isinstance(subject, str) else tuple(subject)
        self._names = calibration.names
        self._verdicts = _binary(calibration)

    def read(self, body: bytes, *, now: float) -> Batch | Single:
        """The events of a body; those without a time get the clock's, `now`."""
        try:
            document = orjson.loads(body)
        except ValueError:
            return self._lines(body, now)
        if type(document) is dict:
            return self._quick(document) or self._event(document, now, None)
        if not isinstance(document, list):
            raise Refused(
                f"a post is an event {{...}}, a list of events, or one event a line; found {brief(document)}"
            )
        return self._many(document, now)

    def _quick(self, event: dict[str, Any]) -> Single | None:
        """The usual event, with an id, a time and all scores; None where it is another, or wrong."""
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
        return (
            Single(name, float(time), scores)
            if -LATEST <= time <= LATEST and 0 < len(name) <= LONGEST_ID
            else None
        )

    def columns(
        self, ids: list[str], time: float, columns: Mapping[str, NDArray[np.float64]]
    ) -> Batch:
        """Events of one moment whose scores came as arrays, finite but for NaN: a missing score."""
        return Batch(ids, np.full(len(ids), time), self._calibration.place(columns))

    def _lines(self, body: bytes, now: float) -> Batch:
        stripped = body.strip()
        if not stripped:
            raise Refused("the body is empty; an event looks like " + self._example())
        breaks = stripped.count(b"\n")
        if stripped.count(b"\n{") == breaks:
            with contextlib.suppress(ValueError):
                # One call for all lines: with a comma for each line break they are a list. A line that opens an object cannot
                # go on with that of the line before, so that as many objects as lines are one a line.
                events = orjson.loads(b"[" + stripped.replace(b"\n", b",") + b"]")
                if len(events) == breaks + 1:
                    return self._many(events, now)
        if stripped.startswith(b"["):
            with contextlib.suppress(ValueError, RecursionError):
                events = json.loads(
                    stripped
                )  # a list with NaN or Infinity in it: the event is named as that of a line is
                return self._one_by_one(events, now, range(1, len(events) + 1))
        # Blank lines, or one that cannot be read: line by line, to say which.
        numbered = [(i, line) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        return self._one_by_one(
            [self._line(line, i) for i, line in numbered], now, [i for i, _ in numbered]
        )

    def _line(self, line: bytes, number: int) -> Any:
        try:
            return orjson.loads(line)
        except ValueError as error:
            try:
                event = json.loads(
                    line
                )  # takes NaN and Infinity, which are no JSON, so that they can be named
            except (ValueError, RecursionError):
                said = (
                    f"this is no JSON ({_cause(error)}): {_brief_bytes(line)}{run_together(line)}"
                )
                raise Refused(said, line=number) from None
            return event

    def _many(self, events: list[Any], now: float) -> Batch:
        if not events:
            raise Refused("the batch holds no event; an event looks like " + self._example())
        batch = self._uniform(events)
        return (
            batch if batch is not None else self._one_by_one(events, now, range(1, len(events) + 1))
        )

    def _uniform(self, events: list[Any]) -> Batch | None:
        """The usual batch, column by column: every event has an id, a time and all scores; None where that is not so."""
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
        if (
            min(lengths) < 1
            or max(lengths) > LONGEST_ID
            or not np.isfinite(at).all()
            or np.abs(at).max() > LATEST
        ):
            return None
        if any(np.isinf(a).any() for a in arrays.values()):
            return None
        return Batch(ids, at, self._calibration.place(arrays))

    def _ours(self, events: list[Any]) -> bool:
        """Whether all events name the subject of the bundle."""
        return {e["subject"] for e in events} <= set(self._called)

    def _one_by_one(self, events: list[Any], now: float, numbers: Sequence[int]) -> Batch:
        """Each event read for itself, so that one that is wrong can be named; placed all at once."""
        read = [self._event(event, now, line) for line, event in zip(numbers, events, strict=True)]
        return placed(read, self._calibration)

    def _event(self, event: Any, now: float, line: int | None) -> Single:
        """One event, whatever its form, or why it is refused."""
        if type(event) is not dict:
            raise Refused(
                f"an event is an object such as {self._example()}; found {brief(event)}", line=line
            )
        given = event.get("subject", self._called[0])
        if given not in self._called:
            raise Refused(
                f"this event is of subject {brief(given)}, and the bundle of {either(self._called)}; "
                "another subject needs a bundle of its own",
                status=409,
                line=line,
            )
        for key in event:
            if key not in KEYS:
                raise Refused(
                    f"unknown key {brief(key)}{did_you_mean(key, KEYS)}; an event has {', '.join(KEYS)}",
                    line=line,
                )
        name, time = self._id(event, line), self._time(event, now, line)
        forms = [key for key in ("scores", "verdict", "cell") if key in event]
        if len(forms) != 1:
            found = " and ".join(forms) or "none of them"
            raise Refused(f"an event has one of scores, verdict and cell; found {found}", line=line)
        if forms == ["cell"]:
            return Single(name, time, None, self._cell(event["cell"], line))
        if forms == ["verdict"]:
            return Single(name, time, self._verdict(event["verdict"], line))
        return Single(name, time, self._scores(event["scores"], line))

    def _id(self, event: Mapping[str, Any], line: int | None) -> str:
        name = event.get("id")
        if type(name) is int:
            name = str(name)
        if type(name) is not str or not 1 <= len(name) <= LONGEST_ID:
            raise Refused(
                f"id must be a text of 1 to {LONGEST_ID} characters, the same whenever the event is sent again; "
                f"found {brief(name)}",
                line=line,
            )
        if not writable(name):  # JSON allows half of a pair of surrogates, and the log is UTF-8
            raise Refused(f"id {brief(name)} cannot be written as UTF-8; send another", line=line)
        return name

    def _time(self, event: Mapping[str, Any], now: float, line: int | None) -> float:
        time = event.get("time", now)
        if type(time) is str:
            time = _iso(time, line)
        if (
            type(time) not in _NUMBER or time != time or abs(time) == math.inf
        ):  # isfinite takes no number of 400 digits
            raise Refused(
                f"time must be seconds since 1970, or ISO 8601 with a time zone; found {brief(time)}",
                line=line,
            )
        if abs(time) > LATEST:
            raise Refused(
                f"time {brief(time)} {clock(time)}; seconds since 1970 are expected", line=line
            )
        return float(time)

    def _scores(self, scores: Any, line: int | None) -> Mapping[str, float]:
        if type(scores) is not dict:
            raise Refused(
                f"scores must be an object of names and numbers; found {brief(scores)}", line=line
            )
        found = {}
        for name, score in scores.items():
            if name not in self._names:
                raise Refused(
                    f"unknown score {brief(name)}{did_you_mean(name, self._names)}; "
                    f"the calibration reads {', '.join(self._names)}",
                    line=line,
                )
            found[name] = _score(score, name, line)
        return found

    def _verdict(self, verdict: Any, line: int | None) -> Mapping[str, float]:
        if len(self._names) != 1:
            raise Refused(
                f"a verdict needs a calibration of one score, and this one reads {', '.join(self._names)}; send scores",
                line=line,
            )
        if not self._verdicts:
            low, high = self._calibration.reach[0]
            raise Refused(
                f"a verdict stands for a score of 0 or 1, and {self._names[0]!r} was calibrated on scores from {low:.4g} to "
                f"{high:.4g}; send the score itself, as in {self._example()}, or calibrate on a column of verdicts",
                line=line,
            )
        if type(verdict) not in (bool, int) or verdict not in (0, 1):
            raise Refused(
                f"verdict must be true (risky) or false; found {brief(verdict)}", line=line
            )
        return {self._names[0]: float(verdict)}

    def _cell(self, cell: Any, line: int | None) -> int:
        if type(cell) is not int or not -1 <= cell < self._calibration.cells:
            raise Refused(
                f"cell must be a whole number from 0 to {self._calibration.cells - 1}, or -1 without a score; found {brief(cell)}",
                line=line,
            )
        return cell

    def _example(self) -> str:
        return json.dumps(
            {"id": "case-1", "time": 1700000000.0, "scores": dict.fromkeys(self._names, 0.5)}
        )


def _binary(calibration: Places) -> bool:
    """Whether the one score of a calibration is a verdict: no row had another than 0 and 1."""
    values = {*calibration.reach[0], *calibration.references[0]}
    return len(calibration.names) == 1 and values <= {0.0, 1.0}


def clock(time: float) -> str:
    """What a time that no clock shows in seconds is counted in.

    >>> [clock(1.7e9 * parts) for parts in (1e3, 1e6, 1e9, 1e15)]
    ['looks like milliseconds', 'looks like microseconds', 'looks like nanoseconds', 'is beyond what a clock shows']
    """
    for name, parts in PARTS:
        if abs(time) <= LATEST * parts:
            return f"looks like {name}"
    return "is beyond what a clock shows"


def _score(score: Any, name: str, line: int | None) -> float:
    if type(score) not in _SCORE:
        raise Refused(
            f"score {name!r} must be a number, or null where there is none; found {brief(score)}",
            line=line,
        )
    if score is None:
        return math.nan
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if math.isfinite(value):
        return value
    found = "NaN" if value != value else "infinite"
    raise Refused(
        f"score {name!r} is {found}; a score is a finite number, or null where there is none",
        line=line,
    )


def _iso(text: str, line: int | None) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Refused(
            f"time {brief(text)} is not ISO 8601 with a time zone, such as 2026-03-01T12:00:00Z; seconds since 1970 are taken too",
            line=line,
        )
    try:
        return moment.timestamp()
    except OverflowError:
        raise Refused(f"time {brief(text)} is beyond what a clock shows", line=line) from None


def _cause(error: ValueError) -> str:
    return str(error).split(":")[0].strip()


def run_together(line: bytes) -> str:
    """What to say, at the end of a sentence, of several objects in one line; nothing where there is one.

    >>> run_together(b'{"id": "a"}{"id": "b"}')
    '; one a line was expected: curl sends a file with its line ends by --data-binary @FILE, while -d strips them'
    """
    if not re.search(rb"\}\s*\{", line):
        return ""
    return "; one a line was expected: curl sends a file with its line ends by --data-binary @FILE, while -d strips them"


def writable(text: str) -> bool:
    """Whether a text can be written as UTF-8.

    >>> writable("case-1"), writable("\\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def either(names: Sequence[str]) -> str:
    """What something may be called.

    >>> either(("9f2c", "lesion 2.3.1"))
    "'9f2c', or as people call it 'lesion 2.3.1'"
    """
    return ", or as people call it ".join(map(repr, names))


def brief(value: Any) -> str:
    """What was found, in a few characters."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= 60 else text[:57] + "..."


def _brief_bytes(line: bytes) -> str:
    text = line[:60].decode("utf-8", "replace")
    return text + ("..." if len(line) > 60 else "")
