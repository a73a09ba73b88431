"""What one thread does with a bundle's monitor and its file: write a group of posts, count it, and read what it says.

Everything here is called by that thread alone, so that neither monitor nor file needs a lock. A group is written in one synced
transaction before any of it is counted; a restart reads the snapshot and makes the same calls again from the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from roadworthy.monitor import Bundle, EventError, Monitor, Question, Taken
from roadworthy.monitor.events import mark
from roadworthy.store import StoreError
from roadworthy.web import views
from roadworthy.web.batch import Batch, Labelled, LabelPost, all_new, count, joined, packed, unpacked
from roadworthy.web.ledger import EVENTS, LABELS, Ledger

SNAPSHOT_BYTES = 16 << 20
"""The log grows by this much, or by twice the snapshot, before the next one: a restart replays a second or two."""
ALARMS_SHOWN = 500
_LOG = logging.getLogger("roadworthy.monitor")

Post = Batch | LabelPost


class Counting:
    """The monitor of a bundle, and its file."""

    def __init__(
        self,
        bundle: Bundle,
        ledger: Ledger,
        *,
        alarmed: Callable[[dict[str, Any]], None] = lambda alarm: None,
        snapshot_bytes: int = SNAPSHOT_BYTES,
    ) -> None:
        self.bundle, self.ledger = bundle, ledger
        self.totals: Counter[str] = Counter()
        self._alarmed, self._snapshot_bytes = alarmed, snapshot_bytes
        self.monitor, self._log_bytes = restored(bundle, ledger)
        self._seq = ledger.last()
        self._snapshot_size = 0
        self._changed = False
        self._last_alarm = -1
        self._spoken: tuple[int, list[dict[str, Any]]] | None = None
        self._notice_alarms()

    def commit(self, posts: Sequence[Post]) -> list[Taken | Labelled]:
        """Write posts, then count them; what became of each. Raises, with nothing counted, where they cannot be written."""
        now = max(time.time(), self.monitor.state.newest)
        batches = [(i, post) for i, post in enumerate(posts) if isinstance(post, Batch)]
        labels = [(i, self._resolved(post)) for i, post in enumerate(posts) if not isinstance(post, Batch)]
        together, apart = self._sorted_out([batch for _, batch in batches], now)
        calls = [*([joined(together)] if together else []), *apart]
        rows = [(EVENTS, packed(batch, now=now)) for batch in calls]
        rows += [(LABELS, json.dumps(known).encode()) for _, (known, _) in labels if known]
        if rows:
            self._seq = self.ledger.append(rows)
            self._log_bytes += sum(len(body) for _, body in rows)
            self._changed = True
        taken = {id(batch): count(self.monitor, batch, now=now) for batch in calls}
        found: dict[int, Taken | Labelled] = {
            i: taken[id(batch)] if id(batch) in taken else _accepted(batch) for i, batch in batches
        }
        for i, (known, unknown) in labels:
            label_all(self.monitor, known)
            found[i] = Labelled(len(known), tuple(unknown))
        for outcome in taken.values():
            self.totals.update(outcome._asdict())
        self._notice_alarms()
        return [found[i] for i in range(len(posts))]

    def _sorted_out(self, batches: list[Batch], now: float) -> tuple[list[Batch], list[Batch]]:
        """Those counted in one call, since all their events are new, and those that need one each to say what became of them."""
        if len(batches) < 2:
            return [], batches
        if all_new(self.monitor, joined(batches), now=now):
            return batches, []
        surely = [batch for batch in batches if all_new(self.monitor, batch, now=now)]
        if len(surely) > 1 and all_new(self.monitor, joined(surely), now=now):
            sure = set(map(id, surely))
            return surely, [batch for batch in batches if id(batch) not in sure]
        return [], batches

    def _resolved(self, post: LabelPost) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Labels with their probabilities, and the ids of events that are no longer known."""
        asked = self.ledger.asked([label.id for label in post if label.probability is None])
        names = self.monitor.state.recent.names
        known, unknown = [], []
        for label in post:
            if label.time is None and mark(label.id) not in names:
                unknown.append(label.id)
                continue
            probability = asked.get(label.id, 1.0) if label.probability is None else label.probability
            known.append((label.id, label.correct, probability, label.cell, label.time))
        return known, unknown

    def _notice_alarms(self) -> None:
        for alarm in self.monitor.alarms[-ALARMS_SHOWN:]:
            if alarm.event <= self._last_alarm:
                continue
            self._last_alarm = alarm.event
            view = views.alarm_view(alarm, self.bundle)
            if not self.ledger.knows_alarm(view["key"]):
                self.totals[f"alarms {alarm.kind}"] += 1
                self._alarmed(view)

    def read(self) -> None:
        """Keep a reading, where something has changed; a snapshot, where the log has grown."""
        if self._changed:
            self.ledger.keep_reading(views.reading_view(self.monitor))
            self._changed = False
        if self._log_bytes > max(self._snapshot_bytes, 2 * self._snapshot_size):
            self.snapshot()

    def snapshot(self) -> None:
        """Keep the monitor as it is, and forget the log before it."""
        body = self.monitor.to_bytes()
        self.ledger.snapshot(body, upto=self._seq)
        self._log_bytes, self._snapshot_size = 0, len(body)

    def windows(self) -> list[dict[str, Any]]:
        """What every window says now."""
        state = self.monitor.state
        at = state.taken.total + len(state.labels.given)
        if self._spoken is None or self._spoken[0] != at:
            self._spoken = at, [views.risk_view(self.monitor.risk(name)) for name in self.bundle.windows.names]
        return self._spoken[1]

    def live(self, after: float) -> dict[str, Any]:
        """What the page asks for."""
        state = self.monitor.state
        on, off = views.thresholds(self.monitor)
        return {
            "bundle": self.bundle.id,
            "total": {**state.taken._asdict(), "labels": int(state.labels.counts.sum())},
            "alarm": self.monitor.alarm,
            "on": on,
            "off": off,
            "windows": self.windows(),
            "history": self.ledger.readings(after=after),
            "alarms": self.ledger.alarms(limit=ALARMS_SHOWN),
            "labels": views.label_view(list(state.labels.given.values())),
        }

    def questions(self, n: int, window: str | None) -> list[Question]:
        """The events to label next, with their probabilities written down."""
        return ask(self.monitor, self.ledger, n, window=window)

    def close(self) -> None:
        """Keep what there is, and let go."""
        with suppress(StoreError):
            self.read()
            self.snapshot()
        self.ledger.close()


def restored(bundle: Bundle, ledger: Ledger) -> tuple[Monitor, int]:
    """The monitor as the file has it, and how many bytes of the log were read."""
    body, rows = ledger.restored()
    monitor = Monitor(bundle) if body is None else Monitor.from_bytes(bundle, body)
    for _, kind, content in rows:
        try:
            if kind == EVENTS:
                batch, now = unpacked(content)
                count(monitor, batch, now=now)
            else:
                label_all(monitor, json.loads(content))
        except EventError as error:  # refused when it came, too
            _LOG.warning("a row of the log was refused: %s", error)
    return monitor, sum(len(content) for _, _, content in rows)


def label_all(monitor: Monitor, labels: Sequence[Sequence[Any]]) -> None:
    """Hand labels to the monitor."""
    for name, correct, probability, cell, time_ in labels:
        monitor.label(name, correct, probability, cell=cell, time=time_)


def ask(monitor: Monitor, ledger: Ledger, n: int, *, window: str | None = None) -> list[Question]:
    """Draw the n events to label next, after all that were drawn before; every probability is written down."""
    asked = monitor.state.labels.asked
    for name, probability in ledger.asked().items():
        monitor.state.labels.ask(mark(name), probability)
    before = dict(asked)
    questions = monitor.queue(n, window)
    names = monitor.state.recent.names
    ledger.ask((names[key], p) for key, p in asked.items() if before.get(key) != p and key in names)
    return questions


def _accepted(batch: Batch) -> Taken:
    """Of a batch all of whose events were counted."""
    unscored = int((batch.cells < 0).sum())
    return Taken(len(batch) - unscored, 0, 0, unscored)
