"""Everything a monitor says in words, each with a code: notes on a window, on an alarm's rule, and warnings on a calibration.

A warning says what is wrong and what follows, then, behind a semicolon, what to do about it.

>>> note("ahead", n=3), note("ahead", n=3).code
('3 events were refused because they are ahead of the clock. Check the clocks.', 'ahead')
>>> in_short("15 clean rows are too few to keep a rate of false alarms; calibrate on more")
'15 clean rows are too few to keep a rate of false alarms'
>>> [lasting(s) for s in (0.25, 4001.0, 30_000.0, 22_368_824.0)]
['0.25 s', '4,001 s', '8.3 hours', '259 days']
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

DAY, HOUR = 86_400.0, 3_600.0
ENOUGH = 1000
"""Events, over an hour at least, from which the pace of a stream is judged."""
FASTER, SLOWER = 2.0, 20.0
"""How many times as many events a day as the alarm was set for are worth a note, and how many times as few."""
LEAST_SCORED = 0.8
"""The share of a window's events that must have a score: a supervisor may fail on just the shifted ones."""
ALIKE = 1.05
"""The autocorrelation time from which it is stated."""
NOTICED, FEW_CLEAN = 0.9, 30
"""How often a step should be noticed; clean rows below which nothing that is stated about them holds."""
BEYOND, BELOW = 3.0, 0.05
"""Standard errors by which scores must separate shift; how far coverage may fall below the nominal."""
CLEAN_IS_DEAR = "Clean data cost "
"""How the note begins on a rule that cannot keep its rate of false alarms."""

TEMPLATES = {
    "partial": "{first:,}{of} events so far. Until the window is full, the prior counts as well{prior}.",
    "unscored": "{n:,} of {events:,} events are not used, since {they} {why}.",
    "too few scored": "{gone:,} of {events:,} events {why}",
    "contradiction": "Labels give an accuracy of {by_labels}, scores {by_scores}: {what}.",
    "covered": "Labels represent {share:.0%} of the events. The rest is estimated from scores.",
    "carried": "Corrected by {n:,} labels of earlier events.",
    "alike": "Events are autocorrelated: {time:.1f} events carry as much information as one independent event.",
    "late": "{n:,} events were refused as late, by up to {by}. Check the clocks.",
    "outrun": "{n:,} events were refused although they are within the lateness of {lateness:,.0f} s: the {held:,} ids held "
    "reach back {reach}. Send events sooner, or set a larger id horizon.",
    "ahead": "{n:,} events were refused because they are ahead of the clock. Check the clocks.",
    "too alike": "{most:,} events carry as much information as {independent:.0f} independent ones, too few to tell a shift "
    "from chance",
    "unknown alike": "too few events to estimate their autocorrelation",
    "no alarm": "No alarm can be raised: {why}. Use a longer window, or send fewer events that are alike.",
    "only if sure": "An alarm is raised only with 97.5% confidence that the cost is above the limit: {why}.",
    "stretch": "The alarm's window of {window:,} events carries as much information as {independent:.1f} independent ones. "
    "The last {length:,} events are read as well; a step to 30% shift may take {twice:,} events to be noticed.",
    "faster": "The stream brings {pace:,.0f} events a day; the alarm was set for {set:,.0f}. Expect {times:.1f} times as many "
    "false alarms as {rate}.",
    "slower": "The stream brings {pace:,.0f} events a day; the alarm was set for {set:,.0f}. It needs more proof than {rate} "
    "requires.",
    "missed": "Within two windows the alarm notices {shares} of steps to {step:.0%} shift. Use a longer window, accept more "
    "false alarms, or add supervisors.",
    "not due": "No alarm is due for a step to {step:.0%} of {kinds}: its cost is within the limit of {tolerable:.4g}.",
    "clean is dear": CLEAN_IS_DEAR
    + "{clean:.4g} ({low:.4g} to {high:.4g}), about as much as the limit of {tolerable:.4g}: "
    "without shift alarms may be raised more often than {rate}; raise the limit or improve the subject",
    "expected above": "With {rate:.3g}% of events shifted, as expected, the expected cost is {risk:.4g} {unit} (up to "
    "{high:.4g}), and the limit is {tolerable:g}: expect many alarms; raise the limit",
    "narrow": "On unseen kinds of shift, intervals hold in {observed:.0%} of windows, not in {nominal:.0%}: read them as too "
    "narrow; add kinds of shift",
    "one kind": "{kind} is the only kind of shift{enough}: estimates under any other kind are a guess; add {add} of other kinds",
    "not separated": "{why} (AUC {auc:.2f} ± {error:.2f}): no window has an estimate, and no alarm is raised by scores; {advice}",
    "few clean": "{rows} clean rows are too few to keep a rate of false alarms; calibrate on at least {least}",
    "one outcome": "No {missing} answer in {rows:,} rows: accuracy cannot be estimated; check the column of outcomes",
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


def lasting(seconds: float) -> str:
    """A duration in a unit that people use."""
    if seconds >= 2 * DAY:
        days = seconds / DAY
        return f"{days:,.0f} days" if days >= 10 else f"{days:.1f} days"
    if seconds >= 2 * HOUR:
        return f"{seconds / HOUR:.1f} hours"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def too_few_scored(
    calibration: Calibration, scored: int, events: int, *, lacking: Sequence[str] | None = None
) -> str | None:
    """Why a window has no estimate of which so many events have a score; None if they are enough."""
    gone = events - scored
    if not gone or scored >= LEAST_SCORED * events:
        return None
    why = calibration.why_nowhere(gone, lacking=lacking)
    return note("too few scored", gone=gone, events=events, why=why)


# Notes on a window.


def window_notes(bundle: Bundle, reading: Reading, audited: Audited | None) -> list[Note]:
    """What must be known about the figures of one window."""
    found = []
    fading = reading.half_life is not None
    if reading.filled < (0.99 if fading else 1.0):
        of = f" of {reading.wanted:,}" if reading.wanted is not None and not fading else ""
        prior = f" ({bundle.beforehand.in_words})" if bundle.beforehand else ""
        found.append(note("partial", first=reading.first, of=of, prior=prior))
    if reading.unscored:
        they = "it" if reading.unscored == 1 else "they"
        why = bundle.calibration.why_nowhere(reading.unscored)
        counts = {"n": reading.unscored, "events": reading.first}
        found.append(note("unscored", they=they, why=why, **counts))
    if audited is not None and audited.covered < 0.99:
        found.append(note("covered", share=audited.covered))
    if audited is not None and audited.carried:
        found.append(note("carried", n=audited.labels))
    return found


def contradiction(audited: Audited, estimate: tuple[float, float, float]) -> Note | None:
    """That labels and the estimate of the accuracy (value, low, high) do not overlap; None if they do."""
    value, low, high = estimate
    if audited.accuracy_low <= high and audited.accuracy_high >= low:
        return None
    worse = audited.accuracy < value
    return note(
        "contradiction",
        by_labels=f"{audited.accuracy:.1%} ({audited.accuracy_low:.1%} to {audited.accuracy_high:.1%})",
        by_scores=f"{value:.1%} ({low:.1%} to {high:.1%})",
        what="scores do not reflect these errors" if worse else "scores overstate the errors",
    )


def stream_notes(bundle: Bundle, state: State, time: float, pace: float | None) -> list[Note]:
    """What must be known about all figures of a stream, of which `time` events say as much as one."""
    found = [Note(in_short(warning), "warning") for warning in bundle.warnings]
    if time > ALIKE:
        found.append(note("alike", time=time))
    rule = bundle.alarm
    if rule is not None:
        found += [Note(said, "rule") for said in rule.notes]
        said = [alarm_note(rule, time), None if pace is None else other_than_set(rule, pace)]
        found += [one for one in said if one is not None]
    by_clock = state.taken.late - state.outrun
    if by_clock:
        found.append(note("late", n=by_clock, by=lasting(state.furthest)))
    if state.outrun:
        reach, held = lasting(state.reach), len(state.recent)
        found.append(
            note("outrun", n=state.outrun, lateness=state.lateness, held=held, reach=reach)
        )
    if state.taken.ahead:
        found.append(note("ahead", n=state.taken.ahead))
    return found


# Notes on an alarm.


def too_alike(rule: AlarmRule, time: float) -> Note:
    """Why no alarm can be raised for a stream whose events are so alike."""
    from roadworthy.monitor.alarm import LONGEST

    if not math.isfinite(time):
        return note("unknown alike")
    most = max(rule.window, LONGEST if rule.by_stretch else 0)
    return note("too alike", most=most, independent=most / time)


def alarm_note(rule: AlarmRule, time: float) -> Note | None:
    """What must be known about the alarm of a stream whose events are alike; None if they hardly are."""
    if not rule.passes(time):
        return note("no alarm", why=too_alike(rule, time))
    length, proven = rule.reach(time), rule.burden_at(time) < math.inf
    if length:
        independent = rule.window / time
        return note(
            "stretch", window=rule.window, independent=independent, length=length, twice=2 * length
        )
    return None if proven else note("only if sure", why=too_alike(rule, time))


def when_raised(rule: AlarmRule, time: float = 1.0) -> str:
    """The condition of an alarm, for a stream of which `time` events say as much as one.

    >>> from roadworthy.monitor.alarm import AlarmRule
    >>> rule = AlarmRule(100, 50, 9.0, "1 per month", 1000.0)
    >>> when_raised(rule), when_raised(rule, 50.0)
    ('alarm from 50%, with evidence above 8,100:1', 'no alarm can be raised')
    """
    passes = rule.passes(time)
    if not passes:
        return "no alarm can be raised"
    lightest = min(p.burden for p in passes)
    said = [_from(rule.on) + burden_in_words(lightest)] if lightest < math.inf else []
    return "alarm " + ", or ".join([*said, *([_from(rule.sure)] if rule.sure < math.inf else [])])


def burden_in_words(burden: float) -> str:
    """What an alarm has to prove, as the end of a sentence; nothing if it need not.

    >>> burden_in_words(9.0), burden_in_words(0.1), burden_in_words(30.0)
    (', with evidence above 8,100:1', '', ', with evidence above 1,000,000,000:1')
    """
    odds = math.exp(min(burden, math.log(1e9)))
    return f", with evidence above {float(f'{odds:.2g}'):,.0f}:1" if odds >= 2.0 else ""


def _from(log_odds: float) -> str:
    from roadworthy.monitor.alarm import odds_to_probability

    return f"from {odds_to_probability(log_odds):.1%}".replace(".0%", "%")


def rule_notes(
    estimator: Estimator,
    detects: Sequence[tuple[str, float]],
    *,
    not_due: Mapping[str, float],
    step: float,
    kept: bool,
    rate: str,
) -> tuple[str, ...]:
    """Notes on a rule that notices steps so often, by kind; `kept`: whether it keeps the rate of false alarms."""
    tolerable = estimator.tolerable
    assert tolerable is not None
    if not estimator.separation.enough:
        return ()  # no window has an estimate, which is a warning on the calibration
    if not kept:
        clean, low, high = estimator.forecast(0.0)
        costs = {"clean": clean, "low": low, "high": high, "tolerable": tolerable}
        return (note("clean is dear", rate=rate, **costs),)
    found = []
    if not_due:
        kinds = " or ".join(not_due)
        found.append(note("not due", step=step, kinds=kinds, tolerable=tolerable))
    missed = [
        f"{share:.0%} ({kind})"
        for kind, share in detects
        if share < NOTICED and kind not in not_due
    ]
    if missed:
        found.append(note("missed", shares=", ".join(missed), step=step))
    return tuple(found)


def per_day(events: int, span: float) -> float | None:
    """Events a day, if so many come within so many seconds; None if that is too little to say.

    >>> per_day(5000, 3600.0), per_day(5000, 40.0), per_day(999, 7200.0)
    (120000.0, None, None)
    """
    return events / span * DAY if events >= ENOUGH and span >= HOUR else None


def other_than_set(rule: AlarmRule, pace: float) -> Note | None:
    """That so many events a day are many more, or far fewer, than the alarm was set for; None if they are not."""
    if not rule.keeps_rate:
        return None  # it keeps no rate, at whatever pace
    times = pace / rule.events_per_day
    code = "faster" if times > FASTER else "slower" if times * SLOWER < 1.0 else None
    if code is None:
        return None
    shown = float(f"{pace:.3g}")
    return note(code, pace=shown, set=rule.events_per_day, times=times, rate=rule.false_alarms)


# Warnings on a calibration.


def warnings_of(
    calibration: Calibration, separation: Separation, coverage: Coverage | None
) -> tuple[str, ...]:
    """All that there are, the gravest first."""
    found = (
        _not_separated(calibration, separation),
        _few_clean(calibration),
        _one_outcome(calibration),
        one_kind(calibration),
        _few_of_a_kind(calibration),
        too_narrow(coverage),
    )
    return tuple(said for said in found if said is not None)


def in_short(warning: str) -> str:
    """Without the advice, for those who cannot calibrate again."""
    return warning.partition("; ")[0]


def expected_above(forecast: Forecast | None, tolerable: float, unit: str) -> str | None:
    """That the expected stream is not tolerable, or may not be: the alarm then says little."""
    if forecast is None or forecast.rate <= 0.0 or forecast.high <= tolerable:
        return None
    costs = {"risk": forecast.risk, "high": forecast.high, "unit": unit, "tolerable": tolerable}
    return note("expected above", rate=100 * forecast.rate, **costs)


def too_narrow(coverage: Coverage | None) -> str | None:
    """That intervals held the truth of unseen kinds much less often than they should."""
    if coverage is None or coverage.observed >= coverage.nominal - BELOW:
        return None
    return note("narrow", observed=coverage.observed, nominal=coverage.nominal)


def one_kind(calibration: Calibration, *, add: str = "rows") -> str | None:
    """That nothing says how other kinds of shift differ from the one there is; `add` is what a user can add of others."""
    few = few_kinds(calibration)
    kinds = [kind for kind in calibration.kinds[1:] if kind not in few] or [*calibration.kinds[1:]]
    if len(kinds) != 1:
        return None
    enough = f" with {FEW_OF_A_KIND} rows or more" if len(calibration.kinds) > 2 else ""
    return note("one kind", kind=kinds[0], enough=enough, add=add)


def few_kinds(calibration: Calibration) -> list[str]:
    """Kinds of shift of which there are too few independent rows."""
    rows = calibration.effective[1:]
    return [kind for kind, n in zip(calibration.kinds[1:], rows, strict=True) if n < FEW_OF_A_KIND]


def _not_separated(calibration: Calibration, separation: Separation) -> str | None:
    if separation.enough:
        return None
    few, advice = few_kinds(calibration), "add supervisors that detect shift, or rows"
    why = "The scores do not separate shift from none"
    if separation.too_few:
        why, advice = "Too few rows to say whether the scores separate shift from none", "add rows"
    if few:
        advice = f"add rows of {' and '.join(few)}"
        if max(map(calibration.rows, few)) >= FEW_OF_A_KIND:
            advice += ", from more groups (see --group)"
    error = BEYOND * separation.error
    return note("not separated", why=why, auc=separation.auc, error=error, advice=advice)


def _few_clean(calibration: Calibration) -> str | None:
    rows = calibration.rows(calibration.kinds[0])
    return None if rows >= FEW_CLEAN else note("few clean", rows=rows, least=FEW_CLEAN)


def _one_outcome(calibration: Calibration) -> str | None:
    right, wrong = (int(n) for n in calibration.table.sum(axis=(0, 2)))
    if right and wrong:
        return None
    return note("one outcome", missing="right" if wrong else "wrong", rows=right + wrong)


def _few_of_a_kind(calibration: Calibration) -> str | None:
    few = few_kinds(calibration)
    if not few:
        return None
    rows = " and ".join(f"{calibration.rows(kind):,} rows of {kind}" for kind in few)
    if max(map(calibration.rows, few)) >= FEW_OF_A_KIND:
        rows += " from few groups"
    every = len(few) == len(calibration.kinds) - 1
    what = "estimates under shift are a guess" if every else "left out of the bundle"
    return note("few rows", rows=rows, what=what)
