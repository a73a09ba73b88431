"""From readings to what is said about them: estimates, and the sentences without which they would mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.monitor.by_labels import contradiction
from roadworthy.monitor.calibration_warnings import in_short
from roadworthy.monitor.events import Floats
from roadworthy.monitor.labels import Audited
from roadworthy.monitor.looks import LEAST_SCORED, too_few
from roadworthy.monitor.pace import DAY, ENOUGH, HOUR, lasting, other_than_set
from roadworthy.monitor.risk_state import RiskState, figures
from roadworthy.monitor.windows import Reading

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimates
    from roadworthy.monitor.alarm import AlarmRule
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

BEHIND = 0.1
"""The share of the alarm's window that stands elsewhere by time from which on it is worth a word."""
NEARLY_FULL = 0.99
"""The weight of a window of fading events, which is never quite full, from which on nothing is missing."""
MINUTE = 60.0
LONG_AGO = 1e8
"""Seconds below which a time counts from the beginning of something, not from 1970."""


class Spoken(NamedTuple):
    """A reading, its time span, and what labels say about it."""

    reading: Reading
    start: float | None
    end: float | None
    audited: Audited | None


def spoken_bucket(start: float, end: float, counts: ArrayLike) -> Spoken:
    """What was counted in a span of time, the last of it without a score."""
    table = np.asarray(counts)
    n, unscored = int(table[:-1].sum()), int(table[-1])
    return Spoken(
        Reading("time", table[:-1].astype(np.float64), n, unscored, None, n + unscored),
        start,
        end,
        None,
    )


def states_of(
    bundle: Bundle, spoken: list[Spoken], *, state: State, time: float, alarm: bool
) -> list[RiskState]:
    """What is said about every reading; the estimates are worked out together."""
    if not spoken:
        return []
    counts = np.stack([one.reading.counts for one in spoken])
    filled = [one.reading.filled for one in spoken]
    estimates = bundle.estimator.estimate(
        counts, shrink=1.0 / time, filled=filled, confidence=bundle.confidence
    )
    reasons = [
        too_few(bundle.calibration, one.reading.n, one.reading.first) or reason
        for one, reason in zip(spoken, estimates.cannot_tell, strict=True)
    ]
    general = _general_notes(bundle, state, time)
    return [
        RiskState(
            window=reading.window,
            start=start,
            end=end,
            n=reading.n,
            wanted=reading.wanted,
            unscored=reading.unscored,
            effective_n=reading.effective / time,
            autocorrelation_time=time,
            **figures(estimates, i),
            cannot_tell=reasons[i],
            tolerable=bundle.tolerable,
            unit=bundle.unit,
            confidence=bundle.confidence,
            alarm=alarm,
            audited=audited,
            forecast=bundle.forecast,
            coverage=bundle.coverage,
            calibrated_on=bundle.calibrated_on,
            blind_to=bundle.blind_to,
            notes=(
                *_contradicted(audited, estimates, i, reasons[i]),
                *_own_notes(bundle, reading, audited),
                *general,
            ),
            half_life=reading.half_life,
        )
        for i, (reading, start, end, audited) in enumerate(spoken)
    ]


def _contradicted(
    audited: Audited | None, estimates: Estimates, i: int, cannot_tell: str | None
) -> list[str]:
    """That labels say something else than the scores: first of all notes, since no figure of the estimate then stands."""
    if audited is None or cannot_tell is not None:
        return []
    said = contradiction(
        audited, (estimates.accuracy[i], estimates.accuracy_low[i], estimates.accuracy_high[i])
    )
    return [] if said is None else [said]


def _own_notes(bundle: Bundle, reading: Reading, audited: Audited | None) -> list[str]:
    notes = []
    if reading.filled < (1.0 if reading.half_life is None else NEARLY_FULL):
        of = (
            f" of {reading.wanted:,}"
            if reading.wanted is not None and reading.half_life is None
            else ""
        )
        by_weight = (
            f", {reading.filled:.0%} of a full window by weight"
            if reading.half_life is not None
            else ""
        )
        believed = f" ({bundle.beforehand.in_words})" if bundle.beforehand else ""
        notes.append(
            f"{reading.first:,}{of} events so far{by_weight}: the fewer, the more the figures are a guess from before{believed}"
        )
    if reading.unscored:
        say = "says nothing, since it" if reading.unscored == 1 else "say nothing, since they"
        why = bundle.calibration.why_nowhere(reading.unscored)
        notes.append(f"{reading.unscored:,} of {reading.first:,} events {say} {why}")
        if bundle.alarm is not None and reading.n < LEAST_SCORED * reading.first:
            notes.append(
                f"where more than {1 - LEAST_SCORED:.0%} of the events say nothing, no alarm is raised or cleared"
            )
    if audited is not None and audited.covered < 0.99:
        notes.append(
            f"labels stand for {audited.covered:.0%} of the events; the rest of the correction is the model's"
        )
    if audited is not None and audited.overstated > 1.0:
        notes.append(
            f"by the probabilities given, the labels stand for {audited.overstated:#.3g} times as many events as there are: "
            "look at them; they are taken as higher"
        )
    if audited is not None and audited.carried:
        notes.append(f"corrected by {audited.labels:,} labels of earlier events")
    return notes


def _general_notes(bundle: Bundle, state: State, time: float) -> list[str]:
    notes = [in_short(warning) for warning in bundle.warnings]
    if time > 1.05:
        notes.append(f"events resemble the ones before them: {time:.1f} say as much as one")
    rule = bundle.alarm
    if rule is not None:
        notes.extend(rule.notes)
        remark = rule.remark(time)
        if remark is not None:
            notes.append(remark)
        behind = _behind_note(state, rule)
        if behind is not None:
            notes.append(behind)
        pace = _events_per_day(state)
        other = None if pace is None else other_than_set(rule, pace)
        if other is not None:
            notes.append(other)
    notes.extend(_late_notes(state))
    if state.taken.ahead:
        notes.append(f"{_refused(state.taken.ahead)} as ahead of the clock: look at the clocks")
    return notes


def _late_notes(state: State) -> list[str]:
    """Two reasons why events are late: clocks, or a stream so fast that the ids of their time are no longer known."""
    notes, by_clock = [], state.taken.late - state.outrun
    if by_clock:
        notes.append(
            f"{_refused(by_clock)} as late, the latest by {lasting(state.furthest)}: look at the clocks"
        )
    if state.outrun:
        notes.append(
            f"{_refused(state.outrun)} as late, though within the lateness of {state.lateness:,.0f} s: the "
            f"{len(state.recent):,} ids that are held reach back {lasting(state.reach)} at this rate, and of an older event "
            "nobody can tell whether it was counted before; send events sooner, or compile the bundle with a longer id horizon"
        )
    return notes


def _behind_note(state: State, rule: AlarmRule) -> str | None:
    """That the alarm watches events that the window's figures do not hold: they came late, and stand before it by their time."""
    if len(state.recent) < rule.window:
        return None
    behind = int((state.arrivals.time[-rule.window :] < state.recent.time[-rule.window]).sum())
    if behind < BEHIND * rule.window:
        return None
    return (
        f"the alarm watches events as they arrive, and {behind:,} of the last {rule.window:,} to arrive are older than its window, "
        "whose figures are by time: see a longer window, or all events in spans of time (/v1/history?every=60)"
    )


def _refused(n: int) -> str:
    return "1 event was refused" if n == 1 else f"{n:,} events were refused"


def _events_per_day(state: State) -> float | None:
    """How fast events come; None where nobody can say: a post of thousands is of one moment, and no day is made of such.

    The first minute is left out with its events: where these come in posts, there is one post more than there are pauses.
    """
    times = state.recent.time
    if len(times) < ENOUGH or _nobodys(times):
        return None
    begun, last = float(times[0]) + MINUTE, float(times[-1])
    events = len(times) - int(np.searchsorted(times, begun))
    if (
        last - times[0] < HOUR and not state.whole
    ):  # a fast stream, of whose last hour buckets tell more than is held
        spans = [(span, counts) for span, counts in state.buckets.spans() if span[0] >= last - DAY]
        begun = spans[0][0][1]
        events = int(sum(counts.sum() for _, counts in spans[1:]))
    return events / (last - begun) * DAY if last - begun >= HOUR - MINUTE else None


def _nobodys(times: Floats) -> bool:
    """Whether no event had a time of its own: they are then counted by the second, from the beginning of the stream."""
    return bool(times[0] < LONG_AGO and (np.diff(times) == 1.0).all())
