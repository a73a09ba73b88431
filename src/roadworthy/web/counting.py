"""What one thread does with a bundle's monitor and its file: write a group of posts, count it, and read what it says.

Everything here is called by that thread alone, so that neither monitor nor file needs a lock. A group is written in one synced
transaction before any of it is counted; a restart reads the snapshot and makes the same calls again from the log. Posts share a
transaction and nothing else: where a group cannot be counted it is undone, in memory and on disk, and each post stands alone.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from roadworthy.monitor import Bundle, Monitor, Question, Taken
from roadworthy.store import StoreError
from roadworthy.web import views
from roadworthy.web.batch import Batch, Label, Labelled, LabelPost, Single, count, packed
from roadworthy.web.calls import Post, calls, labels_of_group
from roadworthy.web.clock import Clock
from roadworthy.web.drawing import draw
from roadworthy.web.lately import Lately
from roadworthy.web.ledger import EVENTS, LABELS, LOOK, QUESTIONS, Full, Ledger
from roadworthy.web.left_out import with_reasons
from roadworthy.web.readings import Curve, stride_of
from roadworthy.web.replaying import (
    check_events,
    check_labels,
    last_clock,
    remember_questions,
    restored,
)
from roadworthy.web.snapshots import SNAPSHOT_BYTES, Snapshots
from roadworthy.web.uncounted import Untold, last_told, uncounted_alarm

ALARMS_SHOWN = 500
LIVE_S = 0.5
"""How old the windows may be that a live page shows: several pages then cost what one does."""
LOOK_S = 0.25
"""How often the service looks at labels at most, while they come; whoever reads what they say has it look before."""
_LOG = logging.getLogger("roadworthy.monitor")

Outcome = Taken | Labelled | Exception
"""What became of a post; an exception is why it was not taken."""
_EVENTS = (Batch, Single)


class _Spoken(NamedTuple):
    """What the windows said after so many events and changes of labels, and when that was worked out."""

    at: tuple[int, int]
    when: float
    windows: list[dict[str, Any]]


class Counting:
    """The monitor of a bundle, and its file."""

    monitor: Monitor
    _seq: int
    _learnt: dict[str, float]
    """Questions that the monitor was told of, and of which the log knows nothing yet."""
    _unlooked: bool
    """Whether labels or their probabilities have changed since they were looked at last."""
    _spoken: _Spoken | None

    def __init__(
        self,
        bundle: Bundle,
        ledger: Ledger,
        *,
        alarmed: Callable[[dict[str, Any]], None] = lambda alarm: None,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        clock: Clock | None = None,
        look_s: float = 0.0,
        answers: bool = False,
    ) -> None:
        self.bundle, self.ledger = bundle, ledger
        self.clock = clock or Clock()
        """Stamps events without a time; all events are held against it, and never against each other: each could be ahead of
        the one before, and together they would make everyone else late."""
        self.late, self.skipped, told_after = last_told(ledger.alarms())
        """Why figures cannot be relied on, where most events were lately refused as late or as ahead, and where most answers of
        a server of models were not counted; any thread may read them. What was said before a restart holds until enough has
        come to say otherwise."""
        self._answers = answers
        """Whether there is such a server; where there is none any more, events say when its answers no longer matter."""
        self._uncounted_told, self._untold = bool(self.uncounted), Untold()
        self._untold.say(self.uncounted, after=told_after)
        self.totals: Counter[str] = Counter()
        self._lately = Lately()
        self._alarmed = alarmed
        self._snapshots = Snapshots(ledger, every=snapshot_bytes)
        self._look_s, self._looked = look_s, -math.inf
        self._changed = False
        self._told: tuple[int, set[str]] = (-1, set())
        self.curve = Curve(next((reading["event"] for reading in ledger.readings(limit=1)), 0))
        self._labelled = 0
        """How often labels or their probabilities have changed."""
        self._restore()
        self.clock.go_on_from(min(last_clock(ledger), self.monitor.state.newest))
        self._notice_alarms()

    def commit(self, posts: Sequence[Post]) -> list[Outcome]:
        """Write posts, then count them; what became of each. Raises, with nothing counted, where they cannot be written."""
        later = labels_of_group(posts, self.monitor)
        if later:
            return self._one_after_the_other(posts, later)
        try:
            return self._together(posts)
        except StoreError:
            raise
        except Exception as error:
            return [error] if len(posts) == 1 else [self._alone(post) for post in posts]

    def _one_after_the_other(self, posts: Sequence[Post], later: set[int]) -> list[Outcome]:
        """Count posts, and after them those with labels of their events."""
        first = [i for i in range(len(posts)) if i not in later]
        found: dict[int, Outcome] = dict(
            zip(first, self.commit([posts[i] for i in first]), strict=True)
        )
        second = sorted(later)
        try:
            outcomes = self.commit([posts[i] for i in second])
        except StoreError as error:  # what came first is counted all the same
            outcomes = [error] * len(second)
        found.update(zip(second, outcomes, strict=True))
        return [found[i] for i in range(len(posts))]

    def _alone(self, post: Post) -> Outcome:
        try:
            return self._together([post])[0]
        except Exception as error:
            return error

    def _together(self, posts: Sequence[Post]) -> list[Outcome]:
        """Count posts, all or, where it raises, none of them."""
        now, state, counted = self.clock.now(), self.monitor.state, self.monitor.state.counted
        self._read_in_time(sum(len(post) for post in posts if isinstance(post, _EVENTS)))
        labels = self._resolved(
            {i: post for i, post in enumerate(posts) if not isinstance(post, _EVENTS)}
        )
        known = [label for found, _ in labels.values() for label in found]
        each = calls(
            [(i, post) for i, post in enumerate(posts) if isinstance(post, _EVENTS)],
            self.monitor,
            now=now,
        )
        for call in each:
            check_events(call.batch, state.cells)
        rows = [(EVENTS, packed(call.batch, now=now)) for call in each]
        look = bool(known) and time.monotonic() >= self._looked + self._look_s
        if known:
            rows += [(LABELS, json.dumps(known).encode()), *([(LOOK, b"")] if look else [])]
        before = self._seq
        self._write(rows)
        self._changed |= bool(rows)
        found: dict[int, Outcome] = {}
        totals: Counter[str] = Counter()
        seen: list[Taken] = []
        try:
            for call in each:
                outrun = state.outrun
                taken = count(self.monitor, call.batch, now=now)
                if taken.late or taken.ahead:
                    taken = with_reasons(taken, state, outrun=outrun, now=now)
                found.update(call.shared(taken))
                totals.update(taken._asdict())
                seen.append(taken)
            self.monitor.label_all(known, look=False)
            self._unlooked |= bool(known)
            if look:
                self._look()
        except Exception:
            self._undo(before)
            raise
        found.update((i, self._labelled_of(own, unknown)) for i, (own, unknown) in labels.items())
        self.totals.update(totals)
        self._labelled += bool(labels)
        for taken in seen:
            self._lately.add(taken)
        if self._lately.known:
            self.late = self._lately.trouble(state.newest, now)
            self.skipped = self.skipped if self._answers else ""
        self._notice_alarms()
        self._notice_uncounted(now, after=counted)
        return [found[i] for i in range(len(posts))]

    @property
    def uncounted(self) -> str:
        """Why figures cannot be relied on, whatever they say: most of what came lately is not in them. Any thread may read it."""
        return self.late or self.skipped

    def hear_of_skipped(self, reason: str) -> None:
        """Most answers of a server of models are not counted, for this reason, or no longer are."""
        self.skipped = reason
        self._notice_uncounted(self.clock.now(), after=self.monitor.state.counted)

    def look(self) -> None:
        """Look at labels that were not looked at yet: a look takes longer than to count them, so that they share one."""
        if self._unlooked:
            with suppress(StoreError):  # a full disk must not keep an alarm back
                self._write([(LOOK, b"")])
            self._look()
            self._notice_alarms()

    def _look(self) -> None:
        self.monitor.look_at_labels()
        self._unlooked, self._looked = False, time.monotonic()

    def _undo(self, seq: int) -> None:
        """Take back what was written after a row and may be half counted: the monitor is again what a restart would find."""
        try:
            self.ledger.forget(after=seq)
        finally:
            self._restore()

    def _restore(self) -> None:
        """The monitor as the file has it."""
        found = restored(self.bundle, self.ledger)
        self.monitor, self._snapshots.log_bytes = found.monitor, found.log_bytes
        self._learnt, self._unlooked = found.learnt, found.unlooked
        self._seq, self._spoken = self.ledger.last(), None
        self.look()

    def _write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add rows to the log, behind questions that it does not know yet."""
        if self._learnt:
            rows = [(QUESTIONS, json.dumps(self._learnt).encode()), *rows]
        if rows:
            self._seq = self._append(rows)
            self._snapshots.log_bytes += sum(len(body) for _, body in rows)
            self._learnt = {}

    def _append(self, rows: Sequence[tuple[int, bytes]]) -> int:
        try:
            return self.ledger.append(rows)
        except Full:
            if not self.ledger.has_log():
                raise
            self.snapshot()  # makes room where the log takes more of it than the snapshot will
            return self.ledger.append(rows)

    def try_to_write(self) -> None:
        """See whether posts could be written again; raises where they could not."""
        try:
            self.ledger.try_to_write()
        except Full:
            if not self.ledger.has_log():
                raise
            self.snapshot()

    def _resolved(self, posts: Mapping[int, LabelPost]) -> dict[int, tuple[list[Label], list[str]]]:
        """Of posts, labels as they are counted, and the ids of events that are no longer known.

        One without a probability has that of the latest questions, whichever process drew them.
        """
        state = self.monitor.state
        every = [label for post in posts.values() for label in post]
        check_labels(every, state.cells, state)
        asked = self.ledger.asked([label.id for label in every if label.probability is None])
        before = state.labels.asked
        if any(before.get(name) != probability for name, probability in asked.items()):
            self._learn(remember_questions(self.monitor, self.ledger))
        ids = [label.id for label in every]
        events = dict(zip(ids, state.recent.held(ids), strict=True))
        found: dict[int, tuple[list[Label], list[str]]] = {}
        for i, post in posts.items():
            known, unknown = found[i] = [], []
            for label in post:
                held = events[label.id]
                if label.time is not None:
                    known.append(label)
                elif held is not None:
                    # The events of its group are counted first, and may push its own out.
                    known.append(
                        Label(
                            label.id, label.correct, label.probability, cell=held[1], time=held[0]
                        )
                    )
                else:
                    unknown.append(label.id)
        return found

    def _labelled_of(self, own: Sequence[Label], unknown: Sequence[str]) -> Labelled:
        asked = self.monitor.state.labels.asked
        sure = sum(label.probability is None and label.id not in asked for label in own)
        return Labelled(len(own), tuple(unknown), sure)

    def _learn(self, questions: Mapping[str, float]) -> None:
        """The monitor was told of questions; the log is to know of them before it says what was done next."""
        self._learnt |= questions
        self._unlooked |= bool(questions and self.monitor.state.labels.given)

    def _notice_alarms(self) -> None:
        try:
            self._tell_alarms()
        except Exception as error:  # the events are counted, and whoever sent them is told so
            _LOG.error("an alarm was not told", exc_info=error)

    def _notice_uncounted(self, now: float, *, after: int) -> None:
        """Say that most of what comes is not counted, or is again: no look of the monitor sees what is not counted."""
        reason = self.uncounted
        self._untold.say(reason, after=after)
        if bool(reason) == self._uncounted_told:
            return
        alarm = uncounted_alarm(
            reason, self.monitor, now=now, replica=self.ledger.replica, skipped=not self.late
        )
        try:
            self.totals[f"alarms {alarm['kind']}"] += 1
            self._alarmed(alarm)
        except Exception as error:
            _LOG.error("an alarm was not told", exc_info=error)
        self._uncounted_told = bool(reason)

    def _tell_alarms(self) -> None:
        alarms, at = self.monitor.alarms, len(self.monitor.alarms)
        while at and alarms[at - 1].event >= self._told[0]:
            at -= 1
        for alarm in alarms[at:]:
            event, kinds = self._told
            kind = f"{alarm.kind} {alarm.by_labels}"
            if alarm.event == event and kind in kinds:
                continue
            view = views.alarm_view(alarm, self.bundle, replica=self.ledger.replica)
            if not self.ledger.knows_alarm(view["key"]):
                self.totals[f"alarms {alarm.kind}"] += 1
                self._alarmed(view)
            self._told = (alarm.event, {kind, *(kinds if alarm.event == event else ())})

    def read(self, *, hurry: bool = False) -> bool:
        """Keep what was said at the next looks, and go on with a snapshot where one is due; whether there is more to do."""
        self.look()
        try:
            self._keep_readings(hurry=hurry)
        finally:  # also where there is no room for readings: a step may make some
            more = self._snapshots.step(self.monitor, seq=self._seq, clock=self.clock.now())
        return more or self._changed

    def _keep_readings(self, *, hurry: bool) -> None:
        if self._changed:
            found = self.curve.next_points(
                self.monitor, now=self.clock.now(), hurry=hurry, untold=self._untold.at
            )
            self.ledger.keep_readings(found)
            self._changed = self.curve.kept(found, counted=self.monitor.state.counted)
            self._untold.forget(self.curve.upto)

    def _read_in_time(self, more: int) -> None:
        """Keep readings of events that so many more would push out."""
        try:
            if self.curve.would_lose(self.monitor, more):
                self.read(hurry=True)
        except Exception as error:  # the events that come are counted all the same
            _LOG.error("a reading failed", exc_info=error)

    def snapshot(self) -> None:
        """Keep the monitor as it is, and forget the log before it."""
        if self._unlooked:  # the log is forgotten: no row need say that it was looked here
            self._look()
            self._notice_alarms()
        self._snapshots.at_once(self.monitor, seq=self._seq, clock=self.clock.now())
        self._learnt = {}

    def windows(self, *, age: float = 0.0) -> list[dict[str, Any]]:
        """What every window says now, or said so many seconds ago."""
        self.look()
        now, at = time.monotonic(), (self.monitor.state.taken.total, self._labelled)
        if self._spoken is None or (self._spoken.at != at and now - self._spoken.when >= age):
            said = [views.risk_view(self.monitor.risk(name)) for name in self.bundle.windows.names]
            self._spoken = _Spoken(at, now, said)
        if not self.uncounted:
            return self._spoken.windows
        return [
            views.without_figures(window, cannot_tell=self.uncounted)
            for window in self._spoken.windows
        ]

    def history(
        self, *, after: float, after_event: int, limit: int, oldest: bool = False
    ) -> dict[str, Any]:
        """Readings, the latest or the `oldest` of those asked for, and how many events they are of."""
        found = self.ledger.readings(
            after=after, after_event=after_event, limit=limit, oldest=oldest
        )
        return views.history_view(
            found, counted=self.monitor.state.counted, stride=stride_of(self.monitor)
        )

    def live(self, *, after: float, after_event: int) -> dict[str, Any]:
        """What the page asks for."""
        self.look()
        state = self.monitor.state
        return {
            "bundle": self.bundle.id,
            "replica": self.ledger.replica,
            "now": self.clock.now(),
            "newest": views.plain(state.newest),
            "total": {**state.taken._asdict(), "labels": int(state.labels.counts.sum())},
            "alarm": self.monitor.alarm,
            "alarm_by_labels": self.monitor.alarm_by_labels,
            "alarm_by_scores": self.monitor.alarmed.since is not None,
            "rings": self.monitor.rings,
            "mostly_refused": bool(self.uncounted),
            "windows": self.windows(age=LIVE_S),
            "history": self.ledger.readings(after=after, after_event=after_event),
            "alarms": self.ledger.alarms(limit=ALARMS_SHOWN),
            "labels": views.label_view([state.labels.weighed(mark) for mark in state.labels.given]),
        }

    def questions(self, n: int, window: str | None) -> list[Question]:
        """The events to label next, with their probabilities written down."""
        self._labelled += 1
        questions, news = draw(self.monitor, self.ledger, n, window=window)
        self._learn(news)
        self._write([])
        return questions

    def close(self) -> None:
        """Keep what there is, and let go."""
        with suppress(StoreError):
            while self._changed:
                self.read()
            self.snapshot()
        self.ledger.close()
