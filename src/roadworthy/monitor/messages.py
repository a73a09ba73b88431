"""What a monitor says in words, each with a code: notes on a window, on an alarm, on a calibration.

A warning on a calibration says what is wrong and, behind a semicolon, what to do about it.

>>> note("ahead", n=3), note("ahead", n=3).code
('3 events were refused because they are ahead of the clock. Check the clocks.', 'ahead')
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.analysis.risk.calibration import FEW_OF_A_KIND, Calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.refusal import Separation, unseparated
from roadworthy.monitor.events import Taken
from roadworthy.monitor.windows import Reading

if TYPE_CHECKING:
    from roadworthy.monitor.alarm import AlarmRule
    from roadworthy.monitor.bundle import Bundle, Coverage
    from roadworthy.monitor.labels import Audited

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
ENOUGH = 1000
"""Events, over an hour at least, from which the pace of a stream is judged."""
FASTER, SLOWER = 2.0, 20.0
"""How many times as many, or as few, events a day as the alarm was set for are worth a note."""
LEAST_SCORED = 0.8
"""The share of events that must have a score: a supervisor may fail on just the shifted ones."""
ALIKE = 1.05
"""The autocorrelation time from which it is stated."""
NOTICED, FEW_CLEAN = 0.9, 30
"""How often a step should be noticed; clean rows below which nothing that is stated of them holds."""
BELOW = 0.05
"""How far coverage may be below the nominal, and the accuracy of clean rows below that of others."""

TEMPLATES = {
    "partial": "{first:,}{of} events so far. Until the window is full, the prior counts as well{prior}.",
    "unscored": "{n:,} of {events:,} events are not used, since {they} {why}.",
    "too few scored": "{gone:,} of {events:,} events {why}",
    "contradiction": "Labels give an accuracy of {labels}, scores {scores}: {what}.",
    "covered": "Labels represent {share:.1%} of the events. The rest is estimated from scores.",
    "alike": "Events are autocorrelated: {time:.1f} events carry as much information as one "
    "independent event.",
    "late": "{n:,} events were refused as late. Check the clocks.",
    "ahead": "{n:,} events were refused because they are ahead of the clock. Check the clocks.",
    "too alike": "{most:,} events carry as much information as {independent:.0f} independent ones, "
    "too few to separate a shift from chance",
    "unknown alike": "too few events to estimate their autocorrelation",
    "no alarm": "No alarm can be raised: {why}. Use a longer window.",
    "longer": "The alarm reads the last {length:,} events, since {window:,} carry as much information "
    "as {independent:.1f} independent ones.",
    "pace": "The stream brings {pace:,.0f} events a day; the alarm was set for {set:,.0f}, and its "
    "rate of false alarms changes in proportion.",
    "missed": "Within two windows the alarm notices {shares} of steps to 30% shift. Use a "
    "longer window, accept more false alarms, or add supervisors.",
    "not due": "No alarm is due for a step to 30% of {kinds}: its cost is within the limit of "
    "{tolerable:.4g}.",
    "clean is dear": "Clean data cost {clean:.4g}, and the limit is {tolerable:.4g}: an alarm is "
    "raised if there is shift, and may not be cleared; raise the limit or improve the subject",
    "narrow": "On unseen kinds of shift, intervals hold in {observed:.1%} of windows, not in "
    "{nominal:.0%}: read them as too narrow; add kinds of shift",
    "one kind": "{kind} is the only kind of shift{enough}: estimates under any other kind are a "
    "guess; add rows of other kinds",
    "not separated": "There is no estimate and no alarm by scores, since {why}; {advice}",
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


def window_notes(
    bundle: Bundle, reading: Reading, audited: Audited | None, by_scores: Sequence[float] | None
) -> list[Note]:
    """What must be known about the figures of one window.

    `by_scores` is the estimate of its accuracy (value, low, high).
    """
    found = []
    if audited is not None and by_scores is not None:
        value, low, high = by_scores
        if audited.accuracy_low > high or audited.accuracy_high < low:
            scores = f"{value:.1%} ({low:.1%} to {high:.1%})"
            low, high = audited.accuracy_low, audited.accuracy_high
            labels = f"{audited.accuracy:.1%} ({low:.1%} to {high:.1%})"
            hidden, overstated = "scores do not reflect these errors", "scores overstate the errors"
            what = hidden if audited.accuracy < value else overstated
            found.append(note("contradiction", labels=labels, scores=scores, what=what))
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


def stream_notes(bundle: Bundle, taken: Taken, time: float, events: int, span: float) -> list[Note]:
    """What must be known about all figures of a stream, of which `time` events say as much as one.

    So many `events` came in a `span` of seconds.
    """
    rule = bundle.alarm
    found = [Note(warning.partition("; ")[0], "warning") for warning in bundle.warnings]
    if time > ALIKE:
        found.append(note("alike", time=time))
    if rule is not None:
        found += [Note(said, "rule") for said in rule.notes]
        found += [said for said in (alarm_note(rule, time), other_pace(rule, events, span)) if said]
    refused = {"late": taken.late, "ahead": taken.ahead}
    return [*found, *(note(code, n=n) for code, n in refused.items() if n)]


def too_alike(rule: AlarmRule, time: float) -> Note:
    """Why no alarm can be raised for a stream whose events are so alike."""
    most = rule.table[-1][1]
    known = math.isfinite(time)
    return note("too alike", most=most, independent=most / time) if known else note("unknown alike")


def alarm_note(rule: AlarmRule, time: float) -> Note | None:
    """What the alarm reads of a stream whose events are alike; None if it is its window."""
    reads, window = rule.at(time), rule.window
    if reads is None:
        return note("no alarm", why=too_alike(rule, time))
    longer = {"length": reads.length, "window": window, "independent": window / time}
    return note("longer", **longer) if reads.length > window else None


def rule_notes(
    estimator: Estimator, detects: Sequence[tuple[str, float]], not_due: Collection[str]
) -> tuple[str, ...]:
    """Notes on a rule that notices steps to 30% shift so often, by kind."""
    assert estimator.tolerable is not None
    found, tolerable, clean = list[Note](), estimator.tolerable, estimator.forecast(0.0)[0]
    if not estimator.separation.enough:
        return ()  # no window has an estimate, which is a warning on the calibration
    if clean >= tolerable:
        found.append(note("clean is dear", clean=clean, tolerable=tolerable))
    if not_due:
        found.append(note("not due", kinds=" or ".join(not_due), tolerable=tolerable))
    shares = [f"{p:.1%} ({kind})" for kind, p in detects if p < NOTICED and kind not in not_due]
    if shares:
        found.append(note("missed", shares=", ".join(shares)))
    return tuple(found)


def other_pace(rule: AlarmRule, events: int, span: float) -> Note | None:
    """That a stream of so many events in a `span` of seconds is faster or slower than was set."""
    if events < ENOUGH or not span >= HOUR - MINUTE:  # not a number if there are no times
        return None
    pace = events / span * DAY
    if rule.events_per_day / SLOWER <= pace <= FASTER * rule.events_per_day:
        return None
    return note("pace", pace=float(f"{pace:.3g}"), set=rule.events_per_day)


def warnings_of(
    calibration: Calibration, separation: Separation, coverage: Coverage | None
) -> tuple[str, ...]:
    """All that there are, the gravest first."""
    found = list[str]()
    clean, *shifted = calibration.kinds
    effective = zip(shifted, calibration.effective[1:], strict=True)
    few = [kind for kind, n in effective if n < FEW_OF_A_KIND]
    if why := unseparated(separation):
        advice = "add rows" if separation.too_few else "add supervisors that detect shift, or rows"
        if few:
            advice = f"add rows of {' and '.join(few)}, from more groups if there are groups"
        found.append(note("not separated", why=why, advice=advice))
    if calibration.rows(clean) < FEW_CLEAN:
        found.append(note("few clean", rows=calibration.rows(clean), least=FEW_CLEAN))
    right, wrong = (int(n) for n in calibration.table.sum(axis=(0, 2)))
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
