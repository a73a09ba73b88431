"""A monitor from its file: the snapshot, then the log again; and what is checked before anything gets into that log.

What was written but cannot be counted would be missing from memory and be there again after a restart. Therefore posts are checked
against what the monitor takes before they are written, and a row that fails all the same is left out whole, whoever reads it.

>>> check_labels([Label("case-1", True, 0.5, 900, 1.7e9)], cells=720)
Traceback (most recent call last):
roadworthy.monitor.events.EventError: event 'case-1' has cell 900; this calibration has cells 0 to 719, and -1 for no score
"""

from __future__ import annotations

import json
import logging
import math
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from roadworthy.monitor import Bundle, EventError, Monitor
from roadworthy.monitor.events import checked_cells, checked_times
from roadworthy.monitor.labels import checked_moment
from roadworthy.monitor.state import State
from roadworthy.web.batch import Batch, Label, clock_of, count, unpacked
from roadworthy.web.ledger import EVENTS, LABELS, LOOK, QUESTIONS, Ledger

_LOG = logging.getLogger("roadworthy.monitor")


class Restored(NamedTuple):
    """A monitor as its file has it."""

    monitor: Monitor
    log_bytes: int
    """Of the log, that were read."""
    learnt: dict[str, float]
    """Questions of which the log knows nothing: drawn by a process beside the one that counted."""
    unlooked: bool
    """Whether labels or their probabilities have changed since they were looked at last."""


def restored(bundle: Bundle, ledger: Ledger) -> Restored:
    """The monitor as the file has it: what was done is done again in the same order, so that it says what it said."""
    body, rows = ledger.restored()
    size = sum(len(content) for _, _, content in rows)
    while True:
        name = ledger.replica
        monitor = (
            Monitor(bundle, replica=name)
            if body is None
            else Monitor.from_bytes(bundle, body, replica=name)
        )
        broken = replayed(monitor, rows)
        if broken is None:
            learnt = remember_questions(monitor, ledger)
            last = next((kind for _, kind, _ in reversed(rows) if kind != EVENTS), LOOK)
            unlooked = bool(monitor.state.labels.given) and (bool(learnt) or last != LOOK)
            return Restored(monitor, size, learnt, unlooked)
        rows = [row for row in rows if row[0] != broken]


def replayed(monitor: Monitor, rows: Sequence[tuple[int, int, bytes]]) -> int | None:
    """Count the rows of a log; the number of one that may be half counted now: whoever asked begins again without it."""
    for seq, kind, content in rows:
        try:
            _replay(monitor, kind, content)
        except EventError as error:  # refused whole
            _LOG.warning("row %d of the log was refused: %s", seq, error)
        except Exception as error:
            _LOG.error("row %d of the log cannot be counted and is left out", seq, exc_info=error)
            return seq
    return None


def _replay(monitor: Monitor, kind: int, content: bytes) -> None:
    if kind == EVENTS:
        batch, now = unpacked(content)
        count(monitor, batch, now=now)
    elif kind == LABELS:
        monitor.label_all([Label(*label) for label in json.loads(content)], look=False)
    elif kind == QUESTIONS:
        remember(monitor, json.loads(content))
    else:
        monitor.look_at_labels()


def last_clock(ledger: Ledger) -> float:
    """What the service's clock showed when the file was last counted into; minus infinity where nothing was."""
    shown = [-math.inf]
    kept, row = ledger.snapshot_clock(), ledger.last_events()
    if kept is not None:
        shown.append(kept)
    if row is not None:
        with suppress(struct.error):  # a row that cannot be read was left out of the counts, too
            shown.append(clock_of(row))
    return max(clock for clock in shown if not math.isnan(clock))


def check_events(batch: Batch, cells: int) -> None:
    """Refuse a batch, with the id of the event, that the monitor would refuse."""
    checked_cells(batch.cells, cells, lambda i: repr(batch.ids[i]))
    checked_times(batch.times, len(batch), lambda i: repr(batch.ids[i]))


def check_labels(labels: Sequence[Label], cells: int, state: State | None = None) -> None:
    """Refuse labels, with the id, that the monitor would refuse; with its state also those outside the stream."""
    for label in labels:
        _check_label(label, cells)
        if state is not None and label.time is not None and label.id not in state.recent.known:
            checked_moment(label.time, label.id, state)


def _check_label(label: Label, cells: int) -> None:
    try:
        label.id.encode()
    except UnicodeEncodeError:
        raise EventError(f"the id {label.id!r} of a label cannot be written as UTF-8") from None
    if label.cell is not None:
        checked_cells([label.cell], cells, lambda _: repr(label.id))
    if label.time is not None:
        checked_times([label.time], 1, lambda _: repr(label.id))
    if label.probability is not None and not 0.0 < label.probability <= 1.0:
        raise EventError(
            f"the label of {label.id!r} has the probability {label.probability}; it lies above 0 and is 1 at most"
        )


def remember_questions(monitor: Monitor, ledger: Ledger) -> dict[str, float]:
    """Tell the monitor with which probability inputs were drawn, also by processes beside this one; those that are news to it."""
    held = monitor.state.labels.asked
    news = {
        name: probability
        for name, probability in ledger.asked().items()
        if probability > held.get(name, 0.0)
    }
    remember(monitor, news)
    return news


def remember(monitor: Monitor, questions: Mapping[str, float]) -> None:
    """Tell the monitor with which probability these inputs were drawn."""
    for name, probability in questions.items():
        monitor.state.labels.ask(name, probability)
