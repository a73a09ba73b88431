"""What a monitor says in words, each with a code: notes on a window, on an alarm, on a calibration.

A warning on a calibration says what is wrong and, behind a semicolon, what to do about it.

>>> note("ahead", n=3), note("ahead", n=3).code
('3 events were refused because they are ahead of the clock. Check the clocks.', 'ahead')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.analysis.risk.calibration import FEW_OF_A_KIND

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.analysis.risk.refusal import Separation
    from roadworthy.monitor.alarm import AlarmRule
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.estimate import Coverage, Forecast
    from roadworthy.monitor.labels import Audited
    from roadworthy.monitor.state import State
    from roadworthy.monitor.windows import Reading

FASTER, SLOWER = 2.0, 20.0
"""How many times as many, or as few, events a day as the alarm was set for are worth a note."""
LEAST_SCORED = 0.8
"""The share of events that must have a score: a supervisor may fail on just the shifted ones."""
ALIKE = 1.05
"""The autocorrelation time from which it is stated."""
NOTICED, FEW_CLEAN = 0.9, 30
"""How often a step should be noticed; clean rows below which nothing that is stated of them holds."""
BEYOND, BELOW = 3.0, 0.05
"""Standard errors by which scores must separate shift; how far coverage may be below the nominal."""

TEMPLATES = {
    "partial": "{first:,}{of} events so far. Until the window is full, the prior counts as well{prior}.",
    "unscored": "{n:,} of {events:,} events are not used, since {they} {why}.",
    "too few scored": "{gone:,} of {events:,} events {why}",
    "contradiction": "Labels give an accuracy of {labels}, scores {scores}: {what}.",
    "covered": "Labels represent {share:.0%} of the events. The rest is estimated from scores.",
    "alike": "Events are autocorrelated: {time:.1f} events carry as much information as one "
    "independent event.",
    "late": "{n:,} events were refused as late. Check the clocks.",
    "ahead": "{n:,} events were refused because they are ahead of the clock. Check the clocks.",
    "too alike": "{most:,} events carry as much information as {independent:.0f} independent ones, "
    "too few to tell a shift from chance",
    "unknown alike": "too few events to estimate their autocorrelation",
    "no alarm": "No alarm can be raised: {why}. Use a longer window.",
    "longer": "The alarm reads the last {length:,} events, since {window:,} carry as much information "
    "as {independent:.1f} independent ones.",
    "pace": "The stream brings {pace:,.0f} events a day; the alarm was set for {set:,.0f}, and its "
    "rate of false alarms changes in proportion.",
    "missed": "Within two windows the alarm notices {shares} of steps to {step:.0%} shift. Use a "
    "longer window, accept more false alarms, or add supervisors.",
    "not due": "No alarm is due for a step to {step:.0%} of {kinds}: its cost is within the limit of "
    "{tolerable:.4g}.",
    "clean is dear": "Clean data cost {clean:.4g}, and the limit is {tolerable:.4g}: an alarm is "
    "raised if there is shift, and may not be cleared; raise the limit or improve the subject",
    "expected above": "With {rate:.3g}% of events shifted, as expected, the expected cost is "
    "{risk:.4g} {unit} (up to {high:.4g}), and the limit is {tolerable:g}: expect many alarms; raise "
    "the limit",
    "narrow": "On unseen kinds of shift, intervals hold in {observed:.0%} of windows, not in "
    "{nominal:.0%}: read them as too narrow; add kinds of shift",
    "one kind": "{kind} is the only kind of shift{enough}: estimates under any other kind are a "
    "guess; add rows of other kinds",
    "not separated": "{why} (AUC {auc:.2f} ± {error:.2f}): no window has an estimate, and no alarm is "
    "raised by scores; {advice}",
    "few clean": "{rows} clean rows are too few to keep a rate of false alarms; calibrate on at least "
    "{least}",
    "one outcome": "No {missing} answer in {rows:,} rows: accuracy cannot be estimated; check the "
    "column of outcomes",
    "reversed": "Clean answers are right less often ({clean:.1%}) than shifted ones ({shifted:.1%} and "
    "more); check the columns of outcomes and kinds",
    "few rows": "{rows} are too few: {what}; add rows",
}


class Note(str):
    """A sentence with the code of its template."""

    code: str

    def __new__(cls, text: str, code: str = "") -> Note:
        found = super().__new__(cls, text)
        found.code = code
        return found


def note(code: str, **fields: Any) -> Note:
    """The sentence of a code with its numbers."""
    return Note(TEMPLATES[code].format(**fields), code)


def too_few_scored(calibration: Calibration, scored: int, events: int) -> str | None:
    """Why a window has no estimate of which so many events have a score; None if they are enough."""
    gone = events - scored
    if not gone or scored >= LEAST_SCORED * events:
        return None
    return note("too few scored", gone=gone, events=events, why=calibration.why_nowhere(gone))


# Notes on a window, and on a stream.


def window_notes(bundle: Bundle, reading: Reading, audited: Audited | None) -> list[Note]:
    """What must be known about the figures of one window."""
    found = []
    fading = reading.half_life is not None
    if reading.filled < (0.99 if fading else 1.0):
        of = f" of {reading.wanted:,}" if reading.wanted is not None and not fading else ""
        prior = ""
        if bundle.prior:
            rate, events = bundle.prior
            prior = f" ({100 * rate:.3g}% shifted, worth {events:,.6g} events)"
        found.append(note("partial", first=reading.first, of=of, prior=prior))
    if reading.unscored:
        they = "it" if reading.unscored == 1 else "they"
        why = bundle.calibration.why_nowhere(reading.unscored)
        found.append(note("unscored", n=reading.unscored, events=reading.first, they=they, why=why))
    if audited is not None and audited.covered < 0.99:
        found.append(note("covered", share=audited.covered))
    return found


def contradiction(audited: Audited, estimate: tuple[float, float, float]) -> Note | None:
    """That labels and the estimate of the accuracy (value, low, high) do not overlap."""
    value, low, high = estimate
    if audited.accuracy_low <= high and audited.accuracy_high >= low:
        return None
    worse = audited.accuracy < value
    return note(
        "contradiction",
        labels=f"{audited.accuracy:.1%} ({audited.accuracy_low:.1%} to {audited.accuracy_high:.1%})",
        scores=f"{value:.1%} ({low:.1%} to {high:.1%})",
        what="scores do not reflect these errors" if worse else "scores overstate the errors",
    )


def stream_notes(bundle: Bundle, state: State, time: float, pace: float | None) -> list[Note]:
    """What must be known about all figures of a stream, of which `time` events say as much as one."""
    found = [Note(warning.partition("; ")[0], "warning") for warning in bundle.warnings]
    rule = bundle.alarm
    if time > ALIKE:
        found.append(note("alike", time=time))
    if rule is not None:
        found += [Note(said, "rule") for said in rule.notes]
        said = [alarm_note(rule, time), None if pace is None else other_pace(rule, pace)]
        found += [one for one in said if one is not None]
    if state.taken.late:
        found.append(note("late", n=state.taken.late))
    if state.taken.ahead:
        found.append(note("ahead", n=state.taken.ahead))
    return found


# Notes on an alarm.


def too_alike(rule: AlarmRule, time: float) -> Note:
    """Why no alarm can be raised for a stream whose events are so alike."""
    if not math.isfinite(time):
        return note("unknown alike")
    most = rule.table[-1][1]
    return note("too alike", most=most, independent=most / time)


def alarm_note(rule: AlarmRule, time: float) -> Note | None:
    """What the alarm reads of a stream whose events are alike; None if it is its window."""
    reads = rule.at(time)
    if reads is None:
        return note("no alarm", why=too_alike(rule, time))
    if reads.length <= rule.window:
        return None
    alike = rule.window / time
    return note("longer", length=reads.length, window=rule.window, independent=alike)


def when_raised(rule: AlarmRule, time: float = 1.0) -> str:
    """The condition of an alarm, for a stream of which `time` events say as much as one.

    >>> from roadworthy.monitor.alarm import AlarmRule
    >>> rule = AlarmRule(100, 50, "1 per month", 1000.0, ((1.0, 100, 9.0),))
    >>> when_raised(rule), when_raised(rule, 50.0)
    ('alarm from 50%, with evidence above 8,100:1', 'no alarm can be raised')
    """
    reads = rule.at(time)
    if reads is None:
        return "no alarm can be raised"
    odds = math.exp(min(reads.burden, math.log(1e9)))
    proof = f", with evidence above {float(f'{odds:.2g}'):,.0f}:1" if odds >= 2.0 else ""
    return f"alarm from {1.0 / (1.0 + math.exp(-rule.on)):.0%}{proof}"


def rule_notes(
    estimator: Estimator,
    detects: Sequence[tuple[str, float]],
    *,
    not_due: Mapping[str, float],
    step: float,
) -> tuple[str, ...]:
    """Notes on a rule that notices steps so often, by kind."""
    assert estimator.tolerable is not None
    if not estimator.separation.enough:
        return ()  # no window has an estimate, which is a warning on the calibration
    found, tolerable, clean = [], estimator.tolerable, estimator.forecast(0.0)[0]
    if clean >= tolerable:
        found.append(note("clean is dear", clean=clean, tolerable=tolerable))
    if not_due:
        found.append(note("not due", step=step, kinds=" or ".join(not_due), tolerable=tolerable))
    shares = [f"{p:.0%} ({kind})" for kind, p in detects if p < NOTICED and kind not in not_due]
    if shares:
        found.append(note("missed", shares=", ".join(shares), step=step))
    return tuple(found)


def other_pace(rule: AlarmRule, pace: float) -> Note | None:
    """That so many events a day are many more, or far fewer, than the alarm was set for."""
    if rule.events_per_day / SLOWER <= pace <= FASTER * rule.events_per_day:
        return None
    return note("pace", pace=float(f"{pace:.3g}"), set=rule.events_per_day)


# Warnings on a calibration.


def warnings_of(
    calibration: Calibration, separation: Separation, coverage: Coverage | None
) -> tuple[str, ...]:
    """All that there are, the gravest first."""
    found, table = list[str](), calibration.table
    clean, *shifted = calibration.kinds
    effective = zip(shifted, calibration.effective[1:], strict=True)
    few = [kind for kind, n in effective if n < FEW_OF_A_KIND]
    if not separation.enough:
        why = "The scores do not separate shift from none"
        advice = "add supervisors that detect shift, or rows"
        if separation.too_few:
            why = "Too few rows to say whether the scores separate shift from none"
            advice = "add rows"
        if few:
            advice = f"add rows of {' and '.join(few)}, from more groups if there are groups"
        error = BEYOND * separation.error
        auc = separation.auc
        found.append(note("not separated", why=why, auc=auc, error=error, advice=advice))
    if calibration.rows(clean) < FEW_CLEAN:
        found.append(note("few clean", rows=calibration.rows(clean), least=FEW_CLEAN))
    right, wrong = (int(n) for n in table.sum(axis=(0, 2)))
    if not (right and wrong):
        missing = "right" if wrong else "wrong"
        found.append(note("one outcome", missing=missing, rows=right + wrong))
    share, lowest = calibration.accuracy(clean), min(map(calibration.accuracy, shifted))
    if share < lowest - BELOW:
        found.append(note("reversed", clean=share, shifted=lowest))
    kinds = [kind for kind in shifted if kind not in few] or shifted
    if len(kinds) == 1:
        enough = f" with {FEW_OF_A_KIND} rows or more" if len(shifted) > 1 else ""
        found.append(note("one kind", kind=kinds[0], enough=enough))
    if few:
        rows = " and ".join(f"{calibration.rows(kind):,} rows of {kind}" for kind in few)
        every = len(few) == len(shifted)
        what = "estimates under shift are a guess" if every else "left out of the bundle"
        found.append(note("few rows", rows=rows, what=what))
    if coverage is not None and coverage.observed < coverage.nominal - BELOW:
        found.append(note("narrow", observed=coverage.observed, nominal=coverage.nominal))
    return tuple(found)


def expected_above(forecast: Forecast | None, tolerable: float, unit: str) -> str | None:
    """That the expected stream is not tolerable, or may not be: the alarm then says little."""
    if forecast is None or forecast.rate <= 0.0 or forecast.high <= tolerable:
        return None
    costs = {"risk": forecast.risk, "high": forecast.high, "unit": unit, "tolerable": tolerable}
    return note("expected above", rate=100 * forecast.rate, **costs)
