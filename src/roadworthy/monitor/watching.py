"""The alarm's memory: whether it is on, what it said, and how many events of this stream say as much as one.

It watches events in the order in which they arrive (`roadworthy.monitor.arrivals`), so that those that come late are watched too;
figures are read by the time of events. How alike the events of the stream are is `roadworthy.monitor.stream_time`.

Once a window it is asked whether its figures can be relied on. Where they cannot, and still cannot a window later, that is an
alarm of its own; and as long as they cannot, no alarm is cleared.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.alarm import Alarm, Pass, carried_over
from roadworthy.monitor.alarmed import Alarmed, AlarmedTimes
from roadworthy.monitor.autocorrelation import FEW
from roadworthy.monitor.by_labels import ByLabels
from roadworthy.monitor.looks import (
    LEAST_SCORED,
    NOTHING_QUIET,
    Ends,
    Watched,
    asked_at,
    too_few,
    windows_before,
)
from roadworthy.monitor.risk_state import odds_to_probability
from roadworthy.monitor.stream_time import StreamTime

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.cell_scores import CellScores
    from roadworthy.monitor.events import Cells
    from roadworthy.monitor.state import State

KEPT = 10_000
"""Alarms that are remembered at most."""


class Watching:
    """What is known about the alarm of one stream."""

    def __init__(self, bundle: Bundle, scores: CellScores) -> None:
        self.bundle, self.scores, self.rule = bundle, scores, bundle.alarm
        self.active = False
        self.untold: int | None = None
        """The look since which figures cannot be relied on; None where they can."""
        self.mute = False
        """Whether that is an alarm."""
        self.alarms: list[Alarm] = []
        self.alarmed = Alarmed()
        self.by_labels = ByLabels()
        self._time = StreamTime(bundle, scores)
        self._read_by: tuple[float, tuple[Pass, ...]] = (math.nan, ())
        self._looked = 0
        self._next_look: float = bundle.alarm.stride if bundle.alarm else math.inf

    def due(self, counted: int) -> bool:
        """Whether there is something to look at."""
        return counted >= self._next_look or counted >= self._time.next

    def look(self, state: State) -> None:
        """Evaluate the windows that have become due since the last look, and raise or clear the alarm."""
        counted = state.counted
        if not self.due(counted):
            return
        # Windows that were due before the time is read are judged by what was known then, however events come in calls.
        self._evaluate(state, min(counted, self._time.next - 1))
        while self._time.next <= counted:
            # An alarm whose time lets nothing be read would never be cleared.
            self._time.read(
                state, self._time.next, self.alarmed, keep=self.active and bool(self._passes())
            )
            self._evaluate(state, min(counted, self._time.next - 1))

    def _evaluate(self, state: State, upto: int) -> None:
        """Look at every window that is due until so many events were counted, or until the time is read again before that."""
        rule, before = self.rule, self._looked
        if rule is None or upto <= before:
            return
        gone = state.counted - len(state.arrivals)
        # Before so many events nobody can tell how much they resemble each other; and a window takes as many as are held.
        first = max(before + 1, self._time.first, gone + rule.window)
        positions = range(-(-first // rule.stride) * rule.stride, upto + 1, rule.stride)
        if positions:
            self._walk(
                state, positions, range(positions[0] - gone, positions[-1] - gone + 1, rule.stride)
            )
        self._looked = min(upto, self._time.next - 1)
        self._next_look = (self._looked // rule.stride + 1) * rule.stride

    @property
    def time(self) -> float:
        """Events that say as much as one, by which the alarm is judged."""
        return self._time.value

    def held_time(self, state: State) -> float:
        """The same by which figures are told: by all that are held."""
        return self._time.of_held(state)

    @property
    def alarm(self) -> bool:
        """Whether an alarm is on, by the scores or by labels."""
        return self.active or self.by_labels.on

    def would_raise(self, state: State, *, upto: float = math.inf) -> bool:
        """Whether the last events that came until one of this time would raise the alarm by the scores alone, were none on."""
        end = int(np.searchsorted(np.maximum.accumulate(state.arrivals.time), upto, side="right"))
        counted = state.counted - len(state.arrivals) + end
        if self.rule is None or end < self.rule.window or counted < self._time.first:
            return False
        rings = self._rings(state, end)
        if not rings or self.active:
            return rings
        return self._rings(state, end, time=self._time.before_alarm(state, counted, self.alarmed))

    def _rings(self, state: State, end: int, *, time: float | None = None) -> bool:
        assert self.rule is not None
        _, values = self._passed(state, [end], time=time)
        return bool((values[:, 0] >= self.rule.on).any())

    def watched_at(self, state: State, position: int, *, on: bool) -> float | None:
        """The log-odds that the alarm watched after so many events, where it was on or not; None where it can read nothing."""
        end = position - (state.counted - len(state.arrivals))
        if self.rule is None or end < self.rule.window:
            return None
        _, values = self._passed(state, [end], lifted=on, whole=True)
        highest = float(values.max(initial=-math.inf))
        return highest if math.isfinite(highest) else None

    def look_at_labels(self, state: State, *, merged: bool = False, warned: bool = False) -> None:
        """Raise or clear the alarm by labels."""
        how = {"merged": merged, "warned": warned, "scores_alarm": self.active}
        self.alarms += self.by_labels.look(state, self.bundle, time=self.held_time(state), **how)
        del self.alarms[:-KEPT]

    def alarmed_times(self, state: State) -> AlarmedTimes:
        """When alarms were on, of which events are still held."""
        return self.alarmed.times(state.arrivals.time, state.counted)

    def merge(
        self,
        others: Sequence[Watching],
        state: State,
        *,
        alarmed: Alarmed,
        seen: Sequence[float],
        warned: bool,
    ) -> None:
        """Look at what replicas hold together; `seen` are the times up to which each of them has seen events, rising.

        What the others said stays their own: their alarms are of other streams. Where one of their alarms is on (`warned`), so is
        this one, unless what they hold together says that the risk is tolerable. The last window of each says so, with what the
        others saw up to then: what one saw last stands behind what another has seen since, and may lie before what a third one has.
        """
        self.alarmed = alarmed
        self._time.read_of_all([other._time for other in others], state, alarmed)
        self._looked, held = state.counted, len(state.arrivals)
        if self.rule is None:
            return
        self._next_look = (state.counted // self.rule.stride + 1) * self.rule.stride
        if held < self.rule.window or state.counted < self._time.first:
            return
        # Less than a look apart they say the same.
        ends = state.arrivals.ends(seen, least=self.rule.window, apart=self.rule.stride)
        # The riskiest of them: only where all are tolerable is an alarm not raised, or cleared.
        lifted = self.active or warned
        _, values = self._passed(state, ends, lifted=lifted, whole=True)
        highest = values.max(axis=0, initial=-math.inf)
        riskiest = int(highest.argmax())
        if (
            lifted and highest[riskiest] < self.rule.off
        ):  # nor is one cleared while one of them cannot be told
            riskiest = next(
                (i for i, end in enumerate(ends) if self._untold_at(state, end, highest[i])),
                riskiest,
            )
        self._walk(
            state, [state.counted], ends[riskiest : riskiest + 1], merged=True, warned=warned
        )
        if not self.active:
            self.alarmed.since = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "active": self.active,
            "untold": self.untold,
            "mute": self.mute,
            "looked": self._looked,
            **self._time.to_dict(),
            "alarmed": [list(span) for span in self.alarmed.spans],
            "since": self.alarmed.since,
            "by_labels": self.by_labels.to_dict(),
        }

    def restore(self, record: dict[str, Any], alarms: list[Alarm]) -> None:
        """The inverse of `to_dict`."""
        self.active = bool(record["active"])
        self.untold, self.mute = record["untold"], bool(record["mute"])
        self._time.restore(record)
        self._looked = int(record["looked"])
        self.alarmed = Alarmed(
            [(int(a), int(b)) for a, b in record.get("alarmed", ())], record.get("since")
        )
        self.by_labels = ByLabels.from_dict(record.get("by_labels"))
        if self.rule is not None:
            self._next_look = (self._looked // self.rule.stride + 1) * self.rule.stride
        self.alarms = alarms

    def _walk(
        self,
        state: State,
        positions: Sequence[int],
        ends: Sequence[int],
        *,
        merged: bool = False,
        warned: bool = False,
    ) -> None:
        self.alarmed.forget(state.counted - len(state.arrivals))
        while len(ends):
            done = self._walk_on(state, positions, ends, merged=merged, warned=warned)
            due = bisect_left(positions, self._time.next)
            positions, ends = positions[done:due], ends[done:due]
        del self.alarms[:-KEPT]

    def _walk_on(
        self,
        state: State,
        positions: Sequence[int],
        ends: Sequence[int],
        *,
        merged: bool,
        warned: bool,
    ) -> int:
        """Look at one window after the other, up to one at which an alarm is raised or cleared: what is read beyond it changes."""
        assert self.rule is not None
        on, off = self.rule.on, self.rule.off
        # Where another replica's alarm is on, so much raises this one as would not clear it.
        lowest = off if warned else on
        lifted = self.active or warned
        passes, values = self._passed(state, ends, lifted=lifted, whole=lifted)
        # A merge is one look, wherever it falls: the next may be windows away. What can be told now, the last events say.
        asked = (
            list(range(len(ends)))
            if merged
            else asked_at(positions, self.rule.window, self.rule.stride)
        )
        looked = [len(state.arrivals)] if merged else [ends[i] for i in asked]
        doubts = self._doubts(state, looked)
        told = not (self.active or self.mute or self.untold is not None or any(doubts))
        if told and not warned and (values < lowest).all():
            return len(ends)  # nothing rings, and all can be told as before
        highest = values.max(axis=0, initial=-math.inf).tolist()
        reasons = dict(zip(asked, zip(looked, doubts, strict=True), strict=True))
        for i, at in enumerate(zip(positions, ends, strict=True)):
            rings = highest[i] >= lowest or (warned and self._untold_at(state, at[1], highest[i]))
            if not (rings or i in reasons or self.active):
                continue
            counted = state.counted - len(state.arrivals) + at[1]
            if (
                rings
                and not (self.active or warned)
                and self._time.lengthened(state, counted, self.alarmed, now=at[0])
            ):
                return i  # looked at again, by the time that is known now
            if i in reasons:
                self._told(state, at[0], *reasons[i])
            if not self.active:
                if rings:
                    if self.mute and not merged and self._doubts(state, ends[i : i + 1])[0] is None:
                        # Figures that suffice for an alarm are figures that can be told; whether they stay so is asked again.
                        self._told(state, *at, None)
                    ringing = next(
                        (p for p, v in zip(passes, values[:, i], strict=True) if v >= lowest), None
                    )
                    if ringing is None:
                        self._say(state, *at, "raised", carried_over(self._passes()))
                    else:
                        self._say(
                            state,
                            *at,
                            "raised",
                            read=ringing._replace(burden=-math.inf) if warned else ringing,
                        )
                    return i + 1
                continue
            if highest[i] < off and not self._untold_at(state, at[1], highest[i]):
                # The riskiest of what is read, which was the last to say that the risk is tolerable.
                riskiest = (
                    passes[int(values[:, i].argmax())]._replace(burden=-math.inf)
                    if passes
                    else None
                )
                self._say(state, *at, "cleared", read=riskiest)
                return i + 1
        return len(ends)

    def _passed(
        self,
        state: State,
        ends: Sequence[int],
        *,
        lifted: bool = False,
        whole: bool = False,
        time: float | None = None,
    ) -> tuple[tuple[Pass, ...], np.ndarray]:
        """What is read of a stream whose events are so alike, and the log-odds (passes, ends) that it says.

        By the `time` given, or by the one that is known. The burden is `lifted` from an alarm that is on; the `whole` stream is
        looked at, or what is quiet passed over. Minus infinity where that is so, and where there are too few events.
        """
        assert self.rule is not None
        passes = self._passes(time) if self.bundle.watch.separation.enough else ()
        watched = replace(self._watched, quiet=NOTHING_QUIET) if whole else self._watched
        values = np.full((len(passes), len(ends)), -math.inf)
        for value, (length, burden) in zip(values, passes, strict=True):
            cells, upto, held = self._read(state, ends, length)
            enough = [i for i, n in enumerate(held) if n >= length]
            some = upto if len(enough) == len(upto) else [int(upto[i]) for i in enough]
            loud, odds = watched.loud(cells, some, length=length, shrink=self._time.shrink(time))
            if len(loud):
                value[[enough[i] for i in loud.tolist()]] = odds.judged(
                    -math.inf if lifted else burden, self.rule.sure
                )
        return passes, values

    def _passes(self, time: float | None = None) -> tuple[Pass, ...]:
        """What is read, worked out again where the time by which the alarm is judged has changed."""
        assert self.rule is not None
        time = self.time if time is None else time
        if self._read_by[0] != time:
            self._read_by = time, self.rule.passes(time)
        return self._read_by[1]

    def _read(self, state: State, ends: Sequence[int], length: int) -> tuple[Cells, Ends, Ends]:
        """The events of which so many are read, where they end, and how many there are up to there.

        Beyond the window they are those that were not alarmed, and no older than what is held however events come in calls.
        """
        assert self.rule is not None
        cells = state.arrivals.cell
        if length <= self.rule.window or not self.alarmed.spans:
            return cells, ends, ends
        quiet = self.alarmed.quiet(state.counted, len(cells))
        before = np.concatenate([[0], np.cumsum(quiet)])
        upto = before[np.asarray(ends)]
        return (
            cells[quiet],
            upto,
            upto - before[np.maximum(np.asarray(ends) - self._time.history, 0)],
        )

    def _untold_at(self, state: State, end: int, highest: float) -> bool:
        """Whether nobody can tell if the risk up to there is tolerable: nothing was read, or nothing that can be relied on."""
        if highest == -math.inf or self._doubts(state, [end])[0] is not None:
            return True
        return any(self._unscored(state, end, p.length) for p in self._passes())

    def _unscored(self, state: State, end: int, length: int) -> bool:
        """Whether too few of so many events have a score; of fewer events it is not asked."""
        cells, (last,), (held,) = self._read(state, [end], length)
        part = cells[max(int(last) - length, 0) : int(last)]
        return bool(held >= length and np.count_nonzero(part >= 0) < LEAST_SCORED * length)

    def _doubts(self, state: State, ends: Sequence[int]) -> list[str | None]:
        """Why the figures of windows cannot be relied on."""
        assert self.rule is not None
        window = self.rule.window
        if not len(ends):
            return []
        windows = windows_before(state.arrivals.cell, ends, window)
        if not self._passes():
            # At the start of a stream nobody can tell yet, and that is no alarm.
            since = FEW if math.isfinite(self.time) else 2 * (FEW + window)
            known = [state.counted - len(state.arrivals) + end >= since for end in ends]
            why = self.rule.why_not(self.time)
            few = [
                too_few(self.bundle.calibration, n, window)
                for n in (windows >= 0).sum(axis=1).tolist()
            ]
            return [
                none or (why if enough else None) for none, enough in zip(few, known, strict=True)
            ]
        counts = np.stack([self._counts(state, end) for end in ends])
        reasons = self.bundle.watch.doubt(counts, shrink=self._time.shrink())
        return [
            too_few(self.bundle.calibration, n, window) or reason
            for n, reason in zip(counts.sum(axis=1).tolist(), reasons, strict=True)
        ]

    @cached_property
    def _watched(self) -> Watched:
        assert self.rule is not None
        return Watched(
            self.bundle.watch, self.scores, self.rule.window, self.rule.stride, self.rule.quiet
        )

    def _told(self, state: State, position: int, end: int, reason: str | None) -> None:
        """Whether figures can be relied on now; where they cannot for a whole window, that is said."""
        assert self.rule is not None
        if reason is None:
            self.untold = None
            if self.mute:
                self._say(state, position, end, "can tell")
        elif self.untold is None:
            self.untold = position
        elif not self.mute and position - self.untold >= self.rule.window:
            self._say(state, position, end, "cannot tell", reason)

    def _counts(self, state: State, end: int, length: int | None = None) -> np.ndarray:
        assert self.rule is not None
        length = length or self.rule.window
        cells, (last,), _ = self._read(state, [end], length)
        part = cells[max(int(last) - length, 0) : int(last)]
        return np.bincount(part[part >= 0], minlength=len(self.scores.shift))

    def _say(
        self,
        state: State,
        position: int,
        end: int,
        kind: str,
        reason: str = "",
        *,
        read: Pass | None = None,
    ) -> None:
        assert self.rule is not None
        # An alarm that is on, and so one that is cleared, has nothing to prove.
        alone = -math.inf if self.active else self.rule.burden_at(self.time)
        length, burden = read or Pass(self.rule.window, alone)
        when = state.arrivals.newest(end)
        if kind == "cannot tell":
            self.mute = True
            self.alarms.append(Alarm(when, position, kind, reason=reason, read=length))
            return
        # That it can be told again is said with figures as they are told; the alarm's time may be an upper limit yet.
        shrink = self._time.shrink(
            self._time.of_arrived(state, end) if kind == "can tell" else None
        )
        counts = self._counts(state, end, length)
        found = self.bundle.estimator.estimate(counts, shrink=shrink)
        doubt = (
            too_few(self.bundle.calibration, int(counts.sum()), length)
            or found.cannot_tell[0]
            or reason
        )
        if not doubt:
            odds = self.bundle.watch.odds(counts, shrink=shrink)
            log_odds, judged = float(odds.above[0]), float(odds.judged(burden, self.rule.sure)[0])
            figures = odds_to_probability(log_odds), float(found.risk[0]), log_odds
            watched = judged if math.isfinite(judged) else None
            said = Alarm(when, position, kind, *figures, read=length, alarm_log_odds=watched)
        else:
            # That it is unlike anything calibrated is known, and that is why it rings; what it costs is not.
            said = Alarm(
                when, position, kind, reason=doubt if kind == "raised" else "", read=length
            )
        if (
            kind != "cleared" or not self.by_labels.on
        ):  # what is still on by labels is not called cleared
            self.alarms.append(said)
        if kind == "can tell":
            self.mute = False
            return
        self.active = kind == "raised"
        if self.active:
            # Within two windows of a step it should have been noticed: they hold what rang, and may hold what did not yet.
            self.alarmed.begin(position, reach=max(length, 2 * self.rule.window))
        else:
            self.alarmed.end(position)
