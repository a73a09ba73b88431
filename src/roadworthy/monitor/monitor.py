"""The event tree at work on a stream: events in, risk out, with an alarm where it is no longer tolerable.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.monitor.bundle import Bundle
>>> from roadworthy.monitor.windows import Windows
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 500)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(1000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> monitor = Monitor(Bundle.compile(calibration, accuracy_tree(), subject="lesion-2.3.1", windows=Windows((100,))))
>>> monitor.update(Events(["a", "b", "a"], [1.0, 2.0, 1.0], columns={"energy": [0.1, 0.2, 0.1]}))
Taken(accepted=2, repeated=1, late=0, unscored=0, ahead=0)
>>> monitor.risk().notes[0]
'2 of 100 events so far: the fewer, the more the figures are a guess from before'
>>> _ = monitor.update(Events(None, None, columns={"energy": rng.normal(2.5, size=100)}))
>>> monitor.risk().rate > 0.7
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from roadworthy.monitor import labels as auditing
from roadworthy.monitor.alarm import Alarm
from roadworthy.monitor.alarmed import Alarmed, AlarmedTimes
from roadworthy.monitor.arrivals import Arrived
from roadworthy.monitor.audit import audit
from roadworthy.monitor.bundle import Bundle
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import (
    Cells,
    EventError,
    Events,
    Floats,
    Name,
    Taken,
    checked_cells,
    checked_time,
    checked_times,
    given_name,
    plain_name,
    plain_names,
)
from roadworthy.monitor.keeping import packed, unpack
from roadworthy.monitor.labelling import Answer, take
from roadworthy.monitor.labels import Question
from roadworthy.monitor.risk_state import RiskState, odds_to_probability
from roadworthy.monitor.rule_notes import when_it_rings
from roadworthy.monitor.speaking import Spoken, spoken_bucket, states_of
from roadworthy.monitor.state import State
from roadworthy.monitor.stream_time import CHUNK, arrivals_for, capacity_for
from roadworthy.monitor.watching import Watching
from roadworthy.monitor.windows import read

_ONE = (Taken(1, 0, 0, 0), Taken(0, 1, 0, 0), Taken(0, 0, 1, 0), Taken(0, 0, 0, 1))


class Monitor:
    """One stream, or one replica's part of it.

    `replica` is its name, a random one where none is given: by it the unnamed events of several replicas are told apart, and a
    replica that is merged again is known. No two that count different events may have the same.
    """

    def __init__(self, bundle: Bundle, *, replica: str | None = None) -> None:
        self.bundle = bundle
        self.scores = CellScores.of(bundle.calibration)
        self.state = State(
            cells=bundle.calibration.cells,
            capacity=capacity_for(bundle),
            lateness=bundle.lateness,
            bucket=bundle.bucket,
            name=replica,
            arrivals=arrivals_for(bundle),
        )
        self._watching = Watching(bundle, self.scores)

    @property
    def replica(self) -> str:
        """The name of this replica."""
        return self.state.name

    @property
    def alarms(self) -> list[Alarm]:
        """What this replica said: alarms raised and cleared, that it cannot tell and can again; the last ten thousand."""
        return self._watching.alarms

    @property
    def alarm(self) -> bool:
        """Whether an alarm is on."""
        return self._watching.alarm

    @property
    def alarm_by_labels(self) -> bool:
        """Whether labels say that the risk is above the tolerable, whatever the scores say."""
        return self._watching.by_labels.on

    @property
    def alarmed(self) -> Alarmed:
        """When the scores' own alarm was on, by the numbers of events: its end is not told while labels keep an alarm on."""
        return self._watching.alarmed

    def would_raise(self, *, upto: float = math.inf) -> bool:
        """Whether the last events (up to a time) would raise the alarm by the scores, had none been on or carried over."""
        return self._watching.would_raise(self.state, upto=upto)

    @property
    def autocorrelation_time(self) -> float:
        """Events of this stream that say as much as one independent event: a function of those that are held."""
        return self._watching.held_time(self.state)

    @property
    def rings(self) -> str | None:
        """When the alarm rings, with the burden of proof that this stream gives it, or is cleared, in words; None without one."""
        rule = self.bundle.alarm
        if rule is None:
            return None
        return (
            f"alarm cleared below {odds_to_probability(rule.off):.0%}"
            if self._watching.active
            else when_it_rings(rule, self._watching.time)
        )

    @property
    def cannot_tell(self) -> bool:
        """Whether figures cannot be relied on for so long that it is an alarm."""
        return self._watching.mute

    def update(
        self, events: Events, *, subject: str | None = None, now: float | None = None
    ) -> Taken:
        """Count events, and look whether an alarm is due.

        A call is taken whole or not at all: an infinite score, a time that is no number or an unknown cell is refused with the
        event's id. `now` is the clock that events are held against: those ahead of it by more than a minute
        (`State.ahead`) are refused and counted, or one wrong clock would make all others late.
        """
        self._check_subject(subject)
        name = _namer(events.id)
        cells = self._cells(events, name)
        n = len(cells)
        if events.id is not None and len(events.id) != n:
            raise EventError(f"{n} events need {n} ids, found {len(events.id)}")
        times = self._times(n) if events.time is None else checked_times(events.time, n, name)
        names = self._identified(events.id, n)
        taken = Taken(0, 0, 0, 0)
        if now is not None and len(times) and times.max() > now + self.state.ahead:
            kept = times <= now + self.state.ahead
            taken = Taken(0, 0, 0, 0, int((~kept).sum()))
            self.state.taken = self.state.taken + taken
            times, cells = times[kept], cells[kept]
            names = [name for name, k in zip(names, kept.tolist(), strict=True) if k]
        if len(times) <= CHUNK:
            return taken + self._taken(times, cells, names)
        for at in range(0, len(times), CHUNK):
            part = slice(at, at + CHUNK)
            taken = taken + self._taken(times[part], cells[part], names[part])
        return taken

    def _taken(self, times: Floats, cells: Cells, names: Sequence[Name]) -> Taken:
        taken = self.state.add(times, None, cells, names)
        self._watching.look(self.state)
        return taken

    def update_one(
        self,
        id: str | int | None,
        time: float,
        scores: Mapping[str, float] | None = None,
        *,
        cell: int | None = None,
        subject: str | None = None,
        now: float | None = None,
    ) -> Taken:
        """`update` for one event, without arrays."""
        self._check_subject(subject)
        time = checked_time(time, id)
        if cell is None:
            cell = self._place_one(id, scores or {})
        elif not -1 <= cell < self.state.cells:
            raise EventError(
                f"event {id!r} has cell {cell}; this calibration has cells 0 to {self.state.cells - 1}"
            )
        if now is not None and time > now + self.state.ahead:
            self.state.taken = self.state.taken + Taken(0, 0, 0, 0, 1)
            return Taken(0, 0, 0, 0, 1)
        name = (
            self._identified(None, 1)[0]
            if id is None
            else id
            if type(id) is str
            else plain_name(id)
        )
        outcome = self.state.add_one(time, None, cell, name)
        if self._watching.due(self.state.counted):
            self._watching.look(self.state)
        return _ONE[outcome]

    def risk(self, window: int | str | None = None, at: float | None = None) -> RiskState:
        """What a window says now, or said at a time; without a name the window that the alarm watches."""
        chosen = self._chosen(window)
        cells, times = self.state.recent.cell, self.state.recent.time
        if at is not None:
            upto = int(np.searchsorted(times, at, side="right"))
            if upto == 0 and len(self.state.buckets):
                return self._states(self._bucket_at(at), past=True)[0]
            cells, times = cells[:upto], times[:upto]
        found = read(
            cells,
            self.bundle.windows,
            chosen,
            self.scores.group,
            shrink=1.0 / self.autocorrelation_time,
        )
        start, end = (float(times[-found.first]), float(times[-1])) if found.first else (None, None)
        audited = None
        if at is None and self.state.labels.given:
            audited = audit(self.bundle, self.state, found, shrink=1.0 / self.autocorrelation_time)
        return self._states([Spoken(found, start, end, audited)], past=at is not None)[0]

    def history(self, every: float) -> list[RiskState]:
        """What the stream said in spans of so many seconds, from the buckets: wider where old buckets are wider."""
        if not every > 0:
            raise ValueError(f"every is a number of seconds above 0, found {every}")
        found: list[tuple[float, float, np.ndarray]] = []
        for (start, end), counts in self.state.buckets.spans():
            slot = math.floor(start / every)
            if found and math.floor(found[-1][0] / every) == slot:
                found[-1] = (found[-1][0], end, found[-1][2] + counts)
            else:
                found.append((start, end, counts))
        return self._states([spoken_bucket(*span) for span in found], past=True)

    def label(
        self,
        id: str | int | None,
        correct: bool,
        probability: float | None = None,
        *,
        cell: int | None = None,
        time: float | None = None,
        subject: str | None = None,
        look: bool = True,
    ) -> None:
        """Take the true outcome of an event, which was labelled with this probability.

        Without it: the probability with which the event was asked for, as it stands when the label is used, else 1. An event
        that is no longer among the last ones needs its cell and its time, which lies within the stream. Where labels say that the
        risk is above the tolerable, an alarm is raised; many are better taken by `label_all`, which looks once.
        """
        self.label_all([(id, correct, probability, cell, time)], subject=subject, look=look)

    def label_all(
        self, answers: Sequence[Answer], *, subject: str | None = None, look: bool = True
    ) -> None:
        """Take outcomes, each as `label` does (id, correct, probability, cell, time): all, or none where one is refused."""
        self._check_subject(subject)
        take(answers, self.state)
        if look:
            self.look_at_labels()

    def look_at_labels(self) -> None:
        """Raise the alarm by labels where they prove a risk above the tolerable; clear it where they prove the opposite."""
        self._watching.look_at_labels(self.state)

    def queue(self, n: int, window: int | str | None = None) -> list[Question]:
        """The n events of a window to label next, with their probabilities, which are remembered for their labels."""
        recent, labels = self.state.recent, self.state.labels
        reading = read(
            recent.cell,
            self.bundle.windows,
            self._chosen(window or max(self.bundle.windows.lengths)),
            self.scores.group,
        )
        if not reading.first:
            return []
        part = slice(len(recent) - reading.first, len(recent))
        cells, keys, times = recent.cell[part], recent.mark[part], recent.time[part]
        belief = self.bundle.estimator.believe(reading.counts, filled=reading.filled)
        weights = auditing.deviations(belief.right, cells)
        places, probability = auditing.choose(
            keys, weights, {**labels.asked, **dict.fromkeys(labels.given, 1.0)}, n
        )
        for place in np.flatnonzero(np.isin(keys, np.array(list(labels.asked), dtype=np.uint64))):
            labels.ask(int(keys[place]), float(probability[place]))
        for place in places:
            labels.ask(int(keys[place]), float(probability[place]))
        return [
            Question(
                given_name(recent.name_at(part.start + i)),
                float(times[i]),
                int(cells[i]),
                float(probability[i]),
            )
            for i in map(int, places)
        ]

    def merge(self, *others: Monitor) -> None:
        """Take over what other replicas have seen; an event that two saw is counted once, and so is one that came before.

        A replica that was merged before and has seen more since brings what is new. What can be told of the counts that two
        states share is told, and a merge in which nobody can tell is refused; those named before it are merged then. Counts,
        windows and risk are those of one monitor that saw all. Alarms are not: what another replica said stays its own, and
        whether one is on is judged once, by what all hold together: name all in one call, and their order does not matter.
        """
        for other in others:
            if other.bundle.id != self.bundle.id:
                raise EventError(
                    f"bundles differ: {self.bundle.id} here, {other.bundle.id} there; their counts cannot be added up"
                )
        alarmed, before = self._watching.alarmed_times(self.state), self.state.arrivals.copied
        arrived, merged = [before], list[Monitor]()
        try:
            for other in others:
                taken = self.state.take_over(other.state)
                if taken is not None:
                    arrived = [arrived[0].without(taken), *arrived[1:], other.state.arrivals.copied]
                merged.append(other)
        finally:
            if merged:
                self.state.line_up(arrived)
                self._judge(merged, alarmed, before)

    def _judge(self, merged: Sequence[Monitor], alarmed: AlarmedTimes, before: Arrived) -> None:
        """Whether what replicas hold together is an alarm, by what was `alarmed` here, and had come, `before`."""
        state, watching = self.state, [other._watching for other in merged]
        theirs = [
            one.alarmed_times(other.state) for one, other in zip(watching, merged, strict=True)
        ]
        ringing = {
            n
            for other in merged
            if other._watching.active
            for n in other.state.seen_since(state.horizon)
        }
        window = self.bundle.alarm.window if self.bundle.alarm else 0
        # An alarm that is over is not raised again by what it was raised by.
        ends = state.ends(None if self._watching.active else before, window=window, ringing=ringing)
        together = alarmed.together(theirs, state.arrivals.time, state.counted)
        self._watching.merge(watching, state, alarmed=together, seen=ends, warned=bool(ringing))
        warned = self._watching.by_labels.meet([one.by_labels for one in watching], state)
        if state.labels.given or warned:
            self._watching.look_at_labels(state, merged=True, warned=warned)

    def to_bytes(self) -> bytes:
        """Everything the monitor knows, for another day or another machine with the same bundle."""
        return packed(
            self.state, bundle=self.bundle.id, watch=self._watching.to_dict(), alarms=self.alarms
        )

    @classmethod
    def from_bytes(cls, bundle: Bundle, data: bytes, *, replica: str | None = None) -> Monitor:
        """The inverse of `to_bytes`; under another name where a copy is to count events of its own."""
        monitor = cls(bundle)
        watch, alarms = unpack(data, monitor.state, bundle=bundle.id)
        if replica and replica != monitor.replica:
            monitor.state.former.add(monitor.replica)
            monitor.state.name = replica
        monitor._watching.restore(watch, alarms)
        return monitor

    def _states(self, spoken: Iterable[Spoken], *, past: bool = False) -> list[RiskState]:
        said = list(spoken)
        told = states_of(
            self.bundle, said, state=self.state, time=self.autocorrelation_time, alarm=self.alarm
        )
        if not past:
            value = self.alarm_log_odds_at(self.state.counted, on=self._watching.active)
            return [
                replace(one, alarm_log_odds=value) if one.window == self.bundle.watched else one
                for one in told
            ]
        return [
            replace(one, alarm=self._alarm_at(span.end))
            for one, span in zip(told, said, strict=True)
        ]

    def alarm_log_odds_at(self, event: int, *, on: bool) -> float | None:
        """What the alarm watched after so many events, where it was on or not; None where there is none, or nothing to read."""
        return self._watching.watched_at(self.state, event, on=on)

    def _alarm_at(self, time: float | None) -> bool:
        """Whether an alarm was on at a time, by what was said up to it."""
        said = [
            a.kind
            for a in self.alarms
            if time is not None and a.time <= time and a.kind in ("raised", "cleared")
        ]
        return bool(said) and said[-1] == "raised"

    def _chosen(self, window: int | str | None) -> str:
        return self.bundle.watched if window is None else self.bundle.windows.checked(window)

    def _bucket_at(self, time: float) -> list[Spoken]:
        for (start, end), counts in self.state.buckets.spans():
            if start <= time < end:
                return [spoken_bucket(start, end, counts)]
        raise ValueError(
            f"no events were counted around {time} s; ask for a time within the stream"
        )

    def _check_subject(self, subject: str | None) -> None:
        if subject is not None and subject not in self.bundle.called:
            watched = " or ".join(map(repr, self.bundle.called))
            raise EventError(f"these events are of {subject!r}; this monitor watches {watched}")

    def _cells(self, events: Events, name: Any) -> Cells:
        if events.cells is not None:
            return checked_cells(events.cells, self.state.cells, name)
        assert events.columns is not None
        try:
            return self.bundle.calibration.place(events.columns)
        except ValueError as error:
            columns = {
                key: np.asarray(column, dtype=np.float64) for key, column in events.columns.items()
            }
            for key in self.bundle.calibration.names:
                wrong = (
                    np.flatnonzero(np.isinf(columns[key]))
                    if key in columns
                    else np.zeros(0, dtype=int)
                )
                if wrong.size:
                    said = f"event {name(int(wrong[0]))} has an infinite {key}; send NaN where there is no score"
                    raise EventError(said) from None
            raise EventError(str(error)) from None

    def _place_one(self, id: Any, scores: Mapping[str, float]) -> int:
        try:
            return self.bundle.calibration.place_one(scores)
        except ValueError as error:
            raise EventError(f"event {id!r}: {error}") from None

    def _times(self, n: int) -> Floats:
        newest = self.state.newest
        return (newest if math.isfinite(newest) else 0.0) + np.arange(1.0, n + 1.0)

    def _identified(self, id: Sequence[Any] | np.ndarray | None, n: int) -> Sequence[Name]:
        if id is None:
            first = self.state.taken.total
            return list(zip(repeat(self.replica), range(first, first + n), strict=False))
        return plain_names(id)


def _namer(id: Sequence[Any] | np.ndarray | None) -> Any:
    return lambda i: f"number {i}" if id is None or i >= len(id) else repr(id[i])
