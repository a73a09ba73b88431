"""What one thread does with a monitor and its state file: write posts, count them, read.

Everything here is called by that thread alone, so that neither monitor nor file needs a lock. A
group of posts is written in one synced transaction before any of it is counted; a restart reads the
snapshot and makes the same calls again from the log. Posts share a transaction and nothing else: if
a group cannot be counted it is undone, in memory and on disk, and each post is counted alone.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from roadworthy.monitor import Alarm, Bundle, EventError, Events, Monitor, Question, Taken
from roadworthy.store import StoreError
from roadworthy.web import views
from roadworthy.web.clock import Clock
from roadworthy.web.events import Batch, Label, Post, Single, placed
from roadworthy.web.history import Curve, stride_of
from roadworthy.web.lateness import LEAST, Lateness, with_reasons
from roadworthy.web.log import LOG
from roadworthy.web.pages import TreeNow, tree_now
from roadworthy.web.state_file import EVENTS, LABELS, SINGLES, Full, StateFile
from roadworthy.web.webhook import Outbox

ALARMS_SHOWN = 500
LIVE_S = 0.5
"""How old the figures of a live page may be: several pages then cost as much as one."""
SNAPSHOT_BYTES = 32 << 20
"""The log grows by this much (a million events), or twice the snapshot, before the next."""


class Labelled(NamedTuple):
    """What became of labels: how many were accepted, and the ids of events that are not known."""

    taken: int
    unknown: tuple[str, ...]
    without_probability: int = 0
    """Of those accepted: neither sent with a probability nor asked for, so that it counts as 1."""


Outcome = Taken | Labelled | Exception
"""What became of a post; an exception is why it was not accepted."""


class Now(NamedTuple):
    """What the windows and the tree said after so many events and changes of labels."""

    at: tuple[int, int]
    when: float
    windows: list[dict[str, Any]]
    tree: TreeNow
    event: int
    """The last event that they count."""


class Restored(NamedTuple):
    """A monitor as its file has it, the bytes of the log, and the clock of its last row."""

    monitor: Monitor
    log_bytes: int
    clock: float


def restored(bundle: Bundle, file: StateFile) -> Restored:
    """The monitor as the file has it: the snapshot, then the log again, in the same order.

    A row that cannot be counted is left out, whoever reads the file.
    """
    body, rows = file.restored()
    size, broken = sum(len(content) for _, _, content in rows), set[int]()
    while True:
        monitor = (
            Monitor(bundle, replica=file.replica)
            if body is None
            else Monitor.from_bytes(bundle, body, replica=file.replica)
        )
        clock = file.snapshot_clock()
        shown = -math.inf if clock is None or math.isnan(clock) else clock
        for seq, kind, content in rows:
            if seq in broken:
                continue
            try:
                shown = max(shown, _replayed(monitor, kind, content))
            except Exception as error:
                LOG.error(
                    "Row %d of the log cannot be counted and is left out", seq, exc_info=error
                )
                broken.add(seq)
                break
        else:
            return Restored(monitor, size, shown)


def _replayed(monitor: Monitor, kind: int, content: bytes) -> float:
    """Count a row of the log; the clock of its events."""
    if kind == LABELS:
        monitor.label_all([Label(*label) for label in json.loads(content)])
        return -math.inf
    batch, now = Batch.unpacked(content)
    count_batch(monitor, kind, batch, now=now)
    return now


def count_batch(monitor: Monitor, kind: int, batch: Batch, *, now: float) -> list[Taken]:
    """Hand events to the monitor; what became of each if they are single ones, else of all."""
    if kind == EVENTS:
        return [monitor.update(Events(batch.ids, batch.times, cells=batch.cells), now=now)]
    each = zip(batch.ids, batch.times.tolist(), batch.cells.tolist(), strict=True)
    return [monitor.update_one(id, at, cell=cell, now=now) for id, at, cell in each]


class Counting:
    """The monitor of a bundle, and its file."""

    monitor: Monitor
    _seq: int
    _log_bytes: int
    _now: Now | None

    def __init__(
        self,
        bundle: Bundle,
        file: StateFile,
        *,
        outbox: Outbox | None = None,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self.bundle, self.file = bundle, file
        self.clock = clock or Clock()
        """Stamps events without a time; all events are compared with it, not with each other."""
        self.outbox = outbox or Outbox(file)
        self.late = ""
        """Why there is no estimate while most events are refused; any thread may read it."""
        self.totals: Counter[str] = Counter()
        self._lateness = Lateness()
        self._late_told = _told_late(file.alarms())
        self._snapshot_bytes, self._snapshot_size = snapshot_bytes, 0
        self._labelled = 0
        """How often labels or their probabilities have changed."""
        self._last_alarm: Alarm | None = None
        self.curve = Curve(next((reading["event"] for reading in file.readings(limit=1)), 0))
        clock_then = self._restore()
        self.clock.go_on_from(min(clock_then, self.monitor.state.newest))
        self._notice_alarms()

    def commit(self, posts: Sequence[Post]) -> list[Outcome]:
        """Write posts, then count them; what became of each. Raises if they cannot be written."""
        try:
            return self._together(posts)
        except StoreError:
            raise
        except Exception as error:
            return [error] if len(posts) == 1 else [self._alone(post) for post in posts]

    def _alone(self, post: Post) -> Outcome:
        try:
            return self._together([post])[0]
        except Exception as error:
            return error

    def _together(self, posts: Sequence[Post]) -> list[Outcome]:
        """Count posts: all or, if it raises, none of them. Labels are of events counted before."""
        now, found = self.clock.now(), dict[int, Outcome]()
        labels = list[Label]()
        for i, post in enumerate(posts):
            if not isinstance(post, Batch | Single):
                found[i], known = self._labelled_of(post)
                labels += known
        singles = [(i, post) for i, post in enumerate(posts) if type(post) is Single]
        calls: list[tuple[int, Batch, list[int]]] = []
        if singles:
            batch = placed([post for _, post in singles], self.bundle.calibration)
            calls.append((SINGLES, batch, [i for i, _ in singles]))
        for i, post in enumerate(posts):
            if type(post) is Batch:
                calls += [(EVENTS, part, [i]) for part in self.curve.slices(post, self.monitor)]
        rows = [(kind, batch.packed(now=now)) for kind, batch, _ in calls]
        if labels:
            rows.insert(0, (LABELS, json.dumps(labels).encode()))
        before, totals, counted = self._seq, Counter[str](), False
        self._write(rows)
        try:
            if labels:
                self.monitor.label_all(labels)
            counted = True
            for kind, batch, places in calls:
                each = count_batch(self.monitor, kind, batch, now=now)
                for i, taken in zip(places, each, strict=True):
                    found[i] = self._added(found.get(i), taken, now)
                    totals.update(taken._asdict())
                    self._lateness.add(taken)
                self.curve.follow(self.monitor, now=now, no_estimate=self.late)
        except Exception as error:
            # Labels are refused whole, before anything is counted: the monitor is as it was.
            self._undo(before, restore=counted or not isinstance(error, EventError))
            raise
        self.totals.update(totals)
        self._labelled += bool(labels)
        self._notice_lateness(now)
        self._notice_alarms()
        return [found[i] for i in range(len(posts))]

    def _added(self, before: Outcome | None, taken: Taken, now: float) -> Taken:
        whole = before + taken if isinstance(before, Taken) else taken
        if whole.late or whole.ahead:
            return with_reasons(whole, self.monitor.state, now=now)
        return whole

    def _labelled_of(self, post: Sequence[Label]) -> tuple[Labelled, list[Label]]:
        """What becomes of labels, and those of events that are known."""
        state = self.monitor.state
        held, asked = state.recent.known, state.labels.asked
        known = [label for label in post if label.id in held]
        unknown = [label.id for label in post if label.id not in held]
        sure = sum(label.probability is None and label.id not in asked for label in known)
        return Labelled(len(known), tuple(unknown), sure), known

    def _undo(self, seq: int, *, restore: bool) -> None:
        """Delete what was written after a row; the monitor is again what a restart would find."""
        try:
            self.file.forget(after=seq)
        finally:
            if restore:
                self._restore()
            self._seq = self.file.last()

    def _restore(self) -> float:
        """The monitor as the file has it; the clock of the last row."""
        self.monitor, self._log_bytes, clock = restored(self.bundle, self.file)
        self._seq, self._now = self.file.last(), None
        return clock

    def _write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        if not rows:
            return
        try:
            self._seq = self.file.append(rows)
        except Full:
            if not self.file.has_log():
                raise
            self.snapshot()  # makes room if the log takes more of it than the snapshot will
            self._seq = self.file.append(rows)
        self._log_bytes += sum(len(body) for _, body in rows)

    def try_to_write(self) -> None:
        """See whether posts could be written again; raises if they could not."""
        try:
            self.file.try_to_write()
        except Full:
            if not self.file.has_log():
                raise
            self.snapshot()

    def _notice_alarms(self) -> None:
        """Hand on what the monitor has said since the last time, also before a restart."""
        alarms = self.monitor.alarms
        if not alarms or alarms[-1] is self._last_alarm:
            return
        new = list[dict[str, Any]]()
        for alarm in reversed(alarms):
            view = views.alarm_view(alarm, self.bundle, replica=self.file.replica)
            if alarm is self._last_alarm or self.outbox.knows(view["key"]):
                break
            new.append(view)
        self._last_alarm = alarms[-1]
        for view in reversed(new):
            self._send(view)

    def _notice_lateness(self, now: float) -> None:
        """Say that most events are refused, or no longer are: the monitor does not see those."""
        state = self.monitor.state
        self.late = reason = self._lateness.reason(state.newest, now)
        if self._lateness.judged < LEAST or bool(reason) == self._late_told:
            return
        self._late_told = bool(reason)
        kind = "no estimate" if reason else "estimates again"
        alarm = Alarm(time=now, event=state.counted, kind=kind, reason=reason)
        view = views.alarm_view(alarm, self.bundle, replica=self.file.replica)
        self._send({**view, "key": f"{view['key']}-late-{state.taken.total}", "late": True})

    def _send(self, view: dict[str, Any]) -> None:
        try:
            self.totals[f"alarms {view['kind']}"] += 1
            self.outbox.add(view)
        except Exception as error:  # the events are counted, and whoever sent them is told so
            LOG.error("An alarm was not sent", exc_info=error)

    def read(self) -> bool:
        """Keep readings and go on with a snapshot that is due; whether there is more to do."""
        self.curve.take(self.monitor, now=self.clock.now(), no_estimate=self.late)
        try:
            self._keep_readings()
        finally:  # also if there is no room for readings: this may make some
            more = self._shorten_log()
        return more

    def _keep_readings(self) -> None:
        if self.curve.unkept:
            self.file.keep_readings(self.curve.unkept)
            self.curve.unkept.clear()

    def _shorten_log(self) -> bool:
        """Make a snapshot if the log is long, then delete the log before it, a portion at a time.

        In one transaction both would keep posts waiting for a quarter of a second.
        """
        if self.file.forget_portion():
            return True
        if self._log_bytes <= max(self._snapshot_bytes, 2 * self._snapshot_size):
            return False
        try:
            self.snapshot(forget=False)
        except Full:
            self.snapshot()
        return True

    def snapshot(self, *, forget: bool = True) -> None:
        """Keep the monitor as it is, and `forget` the log before it."""
        body = self.monitor.to_bytes()
        self.file.snapshot(body, upto=self._seq, clock=self.clock.now(), forget=forget)
        self._log_bytes, self._snapshot_size = 0, len(body)

    def now(self, *, age: float = 0.0) -> Now:
        """What windows and tree say now, or said up to `age` seconds ago: one reading for all."""
        moment, at = time.monotonic(), (self.monitor.state.taken.total, self._labelled)
        known = self._now
        if known is None or (known.at != at and moment - known.when >= age):
            states = {name: self.monitor.risk(name) for name in self.bundle.windows.names}
            windows = [views.risk_view(state) for state in states.values()]
            tree = tree_now(self.monitor, states[self.bundle.watched])
            known = self._now = Now(at, moment, windows, tree, self.monitor.state.counted)
        if not self.late:
            return known
        windows = [views.without_figures(w, no_estimate=self.late) for w in known.windows]
        tree = tree_now(self.monitor, known.tree.state, late=self.late)
        return known._replace(windows=windows, tree=tree)

    def tree(self, window: str | None) -> TreeNow:
        """What the tree of a window says now."""
        if window is None or window == self.bundle.watched:
            return self.now().tree
        return tree_now(self.monitor, self.monitor.risk(window), late=self.late)

    def history(
        self, *, after: float, after_event: int, limit: int, oldest: bool = False
    ) -> dict[str, Any]:
        """Readings, the latest or the `oldest` of those asked for, up to the last event."""
        with suppress(StoreError):
            self.read()
        found = self.file.readings(after=after, after_event=after_event, limit=limit, oldest=oldest)
        counted, stride = self.monitor.state.counted, stride_of(self.monitor)
        return {"readings": found, "counted": counted, "look_every": stride}

    def live(self, *, after: float, after_event: int) -> tuple[dict[str, Any], TreeNow]:
        """What the page asks for: one reading for header, windows and tree."""
        state, said = self.monitor.state, self.now(age=LIVE_S)
        with suppress(StoreError):
            self._keep_readings()
        content = {
            "bundle": self.bundle.id,
            "replica": self.file.replica,
            "now": self.clock.now(),
            "event": said.event,
            "newest": views.plain(state.newest),
            "total": {**state.taken._asdict(), "labels": state.labels.counted},
            "alarm": self.monitor.alarm,
            "alarm_by_labels": self.monitor.alarm_by_labels,
            "alarm_by_scores": views.alarm_by_scores(self.monitor),
            "alarm_condition": self.monitor.alarm_condition,
            "mostly_refused": bool(self.late),
            "windows": said.windows,
            "history": self.file.readings(after=after, after_event=after_event),
            "alarms": self.file.alarms(limit=ALARMS_SHOWN),
            "labels": views.label_view([state.labels.weighed(mark) for mark in state.labels.given]),
        }
        return content, said.tree

    def questions(self, n: int, window: str | None) -> list[Question]:
        """The events to label next; their probabilities are on disk when this returns."""
        self._labelled += 1
        found = self.monitor.queue(n, window)
        try:
            self.snapshot()
        except StoreError:
            self._restore()  # a probability that a restart would not know must not be used
            raise
        return found

    def close(self) -> None:
        """Keep what there is, and let go."""
        with suppress(StoreError):
            while self.read():
                pass
            self.snapshot()
        self.file.close()


def _told_late(alarms: Sequence[dict[str, Any]]) -> bool:
    """Whether the last alarm about refused events said that they are."""
    kinds = [alarm["kind"] for alarm in alarms if alarm.get("late")]
    return kinds[-1:] == ["no estimate"]
