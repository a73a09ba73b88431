"""The event tree at work on a stream: events in, risk out, with an alarm if it is not tolerable.

>>> from roadworthy.analysis.risk.calibration import fit_calibration
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.monitor.windows import Windows
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 500)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(1000) < np.where(shifted, 0.4, 0.9)
>>> calibration = fit_calibration({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> windows = Windows((100,))
>>> bundle = Bundle.compile(calibration, accuracy_tree(), subject="lesion-2.3.1", windows=windows)
>>> monitor = Monitor(bundle)
>>> monitor.update(Events(["a", "b", "a"], [1.0, 2.0, 1.0], columns={"energy": [0.1, 0.2, 0.1]}))
Taken(accepted=2, repeated=1, late=0, unscored=0, ahead=0)
>>> _ = monitor.update(Events(columns={"energy": rng.normal(2.5, size=100)}))
>>> monitor.risk().rate > 0.7
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from roadworthy.monitor import labels as auditing
from roadworthy.monitor import messages
from roadworthy.monitor.alarm import KEPT, LONGEST, Alarm, Watch, stream_time
from roadworthy.monitor.bundle import Bundle, Coverage, Forecast
from roadworthy.monitor.events import (
    Cells,
    EventError,
    Events,
    Given,
    Id,
    ScoredAnswer,
    Taken,
    checked_cells,
    checked_times,
    monitored_scores,
    plain_id,
    plain_ids,
    shown_id,
)
from roadworthy.monitor.labels import Answer, Audited, LabelAlarm, Question
from roadworthy.monitor.state import AHEAD, NONE, State, merge_states, packed, unpack
from roadworthy.monitor.windows import CellScores, Reading, bucketed, read

CHUNK = 4096
"""Events that are counted in one go, and looked at afterwards."""
LONG_AGO = 1e8
"""Seconds below which a time counts from the beginning of something, not from 1970."""
FIGURES = (
    *("rate", "rate_low", "rate_high", "accuracy", "accuracy_low", "accuracy_high"),
    *("risk", "risk_low", "risk_high"),
)
"""Estimates, each with the ends of its interval."""
OF_READING = ("window", "start", "end", "n", "wanted", "unscored", "half_life")
OF_BUNDLE = (
    *("tolerable", "unit", "confidence", "forecast", "coverage", "calibrated_on", "blind_to"),
)
"""What is said of a window because it is said of its reading, and of its bundle."""


@dataclass(frozen=True)
class RiskState:
    """The figures of one window, and everything one must know to read them."""

    window: str
    start: float | None
    """Times of the first and the last event that was read; None if there is none."""
    end: float | None
    n: int
    """Events with a score."""
    wanted: int | None
    """Events of a full window; before, the prior of the rate counts as well."""
    unscored: int
    effective_n: float
    autocorrelation_time: float
    rate: float
    """The share of shifted events; as all figures below NaN if there is no estimate."""
    rate_low: float
    rate_high: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    risk: float
    risk_low: float
    risk_high: float
    exceedance: float | None
    """P(risk > tolerable), by the same estimate as the interval of the risk; None if no limit is set."""
    log_odds: float | None
    """Of the same."""
    strangeness: float
    no_estimate: str | None
    """Why there is no estimate; None if there is one."""
    tolerable: float | None
    unit: str
    confidence: float
    alarm: bool
    audited: Audited | None
    forecast: Forecast | None
    coverage: Coverage | None
    calibrated_on: str
    blind_to: tuple[str, ...]
    notes: tuple[str, ...]
    alarm_log_odds: float | None = None
    """What the alarm watches, of its own window: the log-odds that the risk is above the tolerable,
    with the burden of proof of an alarm that is not on."""
    half_life: float | None = None
    """Events after which one counts for half, if older ones fade; None in other windows."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


class Monitor:
    """One stream, or one replica's part of it.

    `replica` is its name, a random one by default: events without an id are named after it, and a
    replica that was merged before is recognised. No two that count different events may have the
    same.
    """

    def __init__(self, bundle: Bundle, *, replica: str | None = None) -> None:
        self.bundle = bundle
        self.scores = CellScores.of(bundle.calibration)
        window = bundle.alarm.window if bundle.alarm else 0
        # The ids to recognise, the windows, and what the alarm reads.
        held = max(bundle.id_horizon, bundle.windows.longest, 2 * window + LONGEST)
        self.state = State(
            cells=bundle.calibration.cells,
            capacity=held + CHUNK,
            lateness=bundle.lateness,
            bucket=bundle.bucket,
            name=replica,
        )
        self.alarms: list[Alarm] = []
        """Alarms raised and cleared, "no estimate" and "estimates again": the last ten thousand."""
        self._watch = Watch(bundle, bundle.alarm, self.scores) if bundle.alarm else None
        self._by_labels = LabelAlarm()
        self._time_held = (0, 1.0)

    @property
    def replica(self) -> str:
        """The name of this replica."""
        return self.state.name

    @property
    def alarm(self) -> bool:
        """Whether an alarm is on, by the scores or by labels."""
        return self.alarm_by_scores or self.alarm_by_labels

    @property
    def alarm_by_scores(self) -> bool:
        """Whether the scores keep the alarm on, whatever labels say."""
        return self._watch is not None and self._watch.active

    @property
    def alarm_by_labels(self) -> bool:
        """Whether labels prove a risk above the tolerable."""
        return self._by_labels.on

    @property
    def no_estimate(self) -> bool:
        """Whether there has been no estimate for so long that it is an alarm."""
        return self._watch is not None and self._watch.no_estimate

    @property
    def autocorrelation_time(self) -> float:
        """Events of this stream, of those held, that say as much as one independent event."""
        if self._time_held[0] != self.state.counted:
            time = stream_time(self.scores, self.state.recent.cell, int(self.bundle.watched))
            self._time_held = self.state.counted, time
        return self._time_held[1]

    @property
    def alarm_condition(self) -> str | None:
        """When the alarm is raised on this stream, or cleared; None without one."""
        if self._watch is None:
            return None
        rule, reads = self._watch.rule, self._watch.rule.at(self._watch.time)
        if self._watch.active:
            return f"alarm cleared below {expit(rule.off):.0%}"
        if reads is None:
            return "no alarm can be raised"
        odds = math.exp(min(reads.burden, math.log(1e9)))
        proof = f", with evidence above {float(f'{odds:.2g}'):,.0f}:1" if odds >= 2.0 else ""
        return f"alarm from {expit(rule.on):.0%}{proof}"

    def update(
        self, events: Given, *, subject: str | None = None, now: float | None = None
    ) -> Taken:
        """Count events, or the answers of a supervised subject, and look whether an alarm is due.

        A call is counted whole or not at all: an infinite score, a time that is not finite or an
        unknown cell is refused with the event's id. `now` is the clock that events are compared
        with: those ahead of it by more than a minute (`State.ahead`) are refused and counted, or one
        wrong clock would make all others late.
        """
        self._check_subject(subject)
        if not isinstance(events, Events | Sequence):
            scores = monitored_scores(events, self.bundle.calibration.names)
            return self.update_one(events.id, events.time, scores, subject=events.subject, now=now)
        if not isinstance(events, Events):
            events = self._answered(events)
        cells = self._cells(events)
        n = len(cells)
        if events.id is not None and len(events.id) != n:
            raise EventError(f"{n} events need {n} ids, found {len(events.id)}.")
        if events.time is None:
            newest = self.state.newest
            times = (newest if math.isfinite(newest) else 0.0) + np.arange(1.0, n + 1.0)
        else:
            times = checked_times(events.time, n, events.id)
        ids = self._unnamed(n) if events.id is None else plain_ids(events.id)
        taken = NONE
        if now is not None and n and times.max() > now + self.state.ahead:
            kept = times <= now + self.state.ahead
            taken = self.state.tally(Taken(0, 0, 0, 0, int((~kept).sum())))
            times, cells = times[kept], cells[kept]
            ids = [id for id, keep in zip(ids, kept.tolist(), strict=True) if keep]
        for at in range(0, len(times), CHUNK):
            part = slice(at, at + CHUNK)
            taken = taken + self.state.add(times[part], cells[part], ids[part])
            self._look()
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
        time = float(checked_times([time], 1, [id])[0])
        if cell is None:
            try:
                cell = self.bundle.calibration.place_one(scores or {})
            except ValueError as error:
                raise EventError(f"Event {id!r}: {error}") from None
        elif not -1 <= cell < self.state.cells:
            checked_cells([cell], self.state.cells, [id])
        if now is not None and time > now + self.state.ahead:
            return self.state.tally(AHEAD)
        named = self._unnamed(1)[0] if id is None else plain_id(id)
        taken = self.state.add_one(time, cell, named)
        if self._watch is not None and self._watch.due(self.state.counted):
            self._look()
        return taken

    def risk(self, window: int | str | None = None) -> RiskState:
        """What a window says now; without a name the window that the alarm watches."""
        time = self.autocorrelation_time
        reading = self._reading(window, shrink=1.0 / time)
        audited = auditing.audit(self.bundle, self.state, reading, shrink=1.0 / time)
        found = self._states([reading], audited)[0]
        if self._watch is None or found.window != self.bundle.watched:
            return found
        return replace(found, alarm_log_odds=self._watch.watched_now(self.state))

    def tree_parameters(self, window: int | str | None = None) -> dict[str, float]:
        """The tree's parameters with which it costs what `risk` says of a window."""
        shrink = 1.0 / self.autocorrelation_time
        found = self._reading(window, shrink=shrink)
        return self.bundle.estimator.parameters(found.counts, shrink=shrink, filled=found.filled)

    def history(self, every: float) -> list[RiskState]:
        """What the stream said in spans of so many seconds; older spans may be wider."""
        if not every > 0:
            raise ValueError(f"`every` is a number of seconds above 0, found {every}.")
        found: list[tuple[float, float, NDArray[np.int64]]] = []
        for (start, end), counts in self.state.buckets.spans():
            if found and math.floor(found[-1][0] / every) == math.floor(start / every):
                found[-1] = (found[-1][0], end, found[-1][2] + counts)
            else:
                found.append((start, end, counts))
        changes = [alarm for alarm in self.alarms if alarm.kind in ("raised", "cleared")]
        states = []
        for state in self._states([bucketed(*span) for span in found]):
            before = [alarm.kind for alarm in changes if alarm.time <= (state.end or 0.0)]
            states.append(replace(state, alarm=before[-1:] == ["raised"]))
        return states

    def label(
        self,
        id: str | int,
        correct: bool,
        probability: float | None = None,
        *,
        subject: str | None = None,
    ) -> None:
        """Take the true outcome of an event, which was labelled with this probability.

        Without it: the probability with which the event was asked for, as it stands when the label
        is used, else 1. Many are better taken by `label_all`.
        """
        self.label_all([(id, correct, probability)], subject=subject)

    def label_all(self, answers: Sequence[Answer], *, subject: str | None = None) -> None:
        """Take outcomes, each as `label` does: all, or none if one is refused."""
        self._check_subject(subject)
        auditing.take(answers, self.state, self._by_labels)
        self._judge_labels()

    def queue(self, n: int, window: int | str | None = None) -> list[Question]:
        """The n events of a window to label next; their probabilities are remembered."""
        reading = self._reading(window or max(self.bundle.windows.lengths))
        if not reading.first:
            return []
        recent = self.state.recent
        start = len(recent) - reading.first
        cells, times, ids = recent.cell[start:], recent.time[start:], recent.ids_from(start)
        believed = self.bundle.estimator.believe(reading.counts, filled=reading.filled)
        right = np.where(cells >= 0, believed[np.maximum(cells, 0)], 0.5)
        drawn = auditing.ask_next(self.state.labels, ids, right, n)
        return [Question(ids[i], float(times[i]), int(cells[i]), p) for i, p in drawn]

    def merge(self, *others: Monitor) -> None:
        """Take over what other replicas have seen; alarms are judged anew by the merged window."""
        for other in others:
            if other.bundle.id != self.bundle.id:
                differ = f"{self.bundle.id} here, {other.bundle.id} there"
                raise EventError(f"Bundles differ: {differ}. Their counts cannot be added up.")
        merge_states(self.state, [other.state for other in others])
        self._by_labels.anew = True
        if self._watch is not None:
            self._say(self._watch.look_again(self.state))
        self._judge_labels()

    def to_bytes(self) -> bytes:
        """Everything the monitor knows, for another day or another machine with the same bundle."""
        watch = self._watch.memory if self._watch else None
        memory = {"scores": watch, "labels": vars(self._by_labels)}
        return packed(self.state, bundle=self.bundle.id, memory=memory, alarms=self.alarms)

    @classmethod
    def from_bytes(cls, bundle: Bundle, data: bytes, *, replica: str | None = None) -> Monitor:
        """The inverse of `to_bytes`; under another name if a copy is to count events of its own."""
        monitor = cls(bundle)
        memory, monitor.alarms = unpack(data, monitor.state, bundle=bundle.id)
        if replica and replica != monitor.replica:
            monitor.state.replicas.add(monitor.replica)
            monitor.state.name = replica
        monitor._by_labels = LabelAlarm(**memory["labels"])
        if bundle.alarm:
            monitor._watch = Watch(bundle, bundle.alarm, monitor.scores, *memory["scores"])
        return monitor

    def _judge_labels(self) -> None:
        self._say(self._by_labels.look(self.state, self.bundle, time=self.autocorrelation_time))

    def _look(self) -> None:
        if self._watch is not None:
            self._say(self._watch.look(self.state))

    def _say(self, alarms: Sequence[Alarm]) -> None:
        """Remember alarms; none is called cleared while labels or scores keep it on."""
        for alarm in alarms:
            still_on = self.alarm_by_scores if alarm.by_labels else self.alarm_by_labels
            if alarm.kind != "cleared" or not still_on:
                self.alarms.append(alarm)
        del self.alarms[:-KEPT]

    def _reading(self, window: int | str | None, *, shrink: float = 1.0) -> Reading:
        windows, recent = self.bundle.windows, self.state.recent
        name = self.bundle.watched if window is None else windows.checked(window)
        found = read(recent.cell, windows, name, self.scores.group, shrink=shrink)
        times = recent.time[len(recent) - found.first :]
        return replace(found, start=float(times[0]), end=float(times[-1])) if len(times) else found

    def _states(
        self, readings: Sequence[Reading], audited: Audited | None = None
    ) -> list[RiskState]:
        """What is said about every reading."""
        if not readings:
            return []
        bundle, time = self.bundle, self.autocorrelation_time
        estimates = bundle.estimator.estimate(
            np.stack([reading.counts for reading in readings]),
            shrink=1.0 / time,
            filled=[reading.filled for reading in readings],
            confidence=bundle.confidence,
        )
        general = messages.stream_notes(bundle, self.state.taken, time, *self._pace())
        found = []
        for i, reading in enumerate(readings):
            few = messages.too_few_scored(bundle.calibration, reading.n, reading.first)
            no_estimate = few or estimates.no_estimate[i]
            names = (*FIGURES, "strangeness")
            figures: dict[str, Any] = {n: float(getattr(estimates, n)[i]) for n in names}
            log_odds = float(estimates.log_odds[i])
            if no_estimate:
                # Whoever reads a number believes it, whatever stands beside it.
                figures, log_odds = figures | dict.fromkeys(FIGURES, math.nan), math.nan
            known = math.isfinite(log_odds)
            by_scores = None if no_estimate else [figures[name] for name in FIGURES[3:6]]
            notes = messages.window_notes(bundle, reading, audited, by_scores)
            found.append(
                RiskState(
                    **{name: getattr(reading, name) for name in OF_READING},
                    effective_n=reading.effective / time,
                    autocorrelation_time=time,
                    **figures,
                    exceedance=float(expit(log_odds)) if known else None,
                    log_odds=log_odds if known else None,
                    no_estimate=no_estimate,
                    alarm=self.alarm,
                    audited=audited,
                    **{name: getattr(bundle, name) for name in OF_BUNDLE},
                    notes=(*notes, *general),
                )
            )
        return found

    def _pace(self) -> tuple[int, float]:
        """Events that were counted in so many seconds; none if times are not those of a clock.

        The first bucket is left out: if events come in posts, there is one post more than pauses.
        """
        state = self.state
        if state.newest < LONG_AGO:
            return 0, 0.0
        (_, begun), first = state.buckets.spans()[0]
        return state.counted - int(first.sum()), state.newest - begun

    def _check_subject(self, subject: str | None) -> None:
        if subject is not None and subject not in self.bundle.called:
            watched = " or ".join(map(repr, self.bundle.called))
            raise EventError(f"These events are of {subject!r}; this monitor watches {watched}.")

    def _answered(self, answers: Sequence[ScoredAnswer]) -> Events:
        """Answers as events; those of another subject are refused."""
        for subject in dict.fromkeys(answer.subject for answer in answers):
            self._check_subject(subject)
        names = self.bundle.calibration.names
        rows = [monitored_scores(answer, names) for answer in answers]
        columns = {name: [row[name] for row in rows] for name in names}
        return Events([a.id for a in answers], [a.time for a in answers], columns=columns)

    def _cells(self, events: Events) -> Cells:
        if events.cells is not None:
            return checked_cells(events.cells, self.state.cells, events.id)
        assert events.columns is not None
        for name in self.bundle.calibration.names:
            infinite = np.isinf(np.asarray(events.columns.get(name, ()), dtype=np.float64))
            if infinite.any():
                shown = f"Event {shown_id(events.id, int(infinite.argmax()))}"
                raise EventError(f"{shown} has an infinite {name}. Send NaN if there is no score.")
        try:
            return self.bundle.calibration.place(events.columns)
        except ValueError as error:
            raise EventError(str(error)) from None

    def _unnamed(self, n: int) -> list[Id]:
        """Names of events without an id."""
        replica, first = self.replica, self.state.taken.total
        return [f"{replica}#{number}" for number in range(first, first + n)]
