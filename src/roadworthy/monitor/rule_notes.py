"""What a person should know about an alarm before relying on it: whether one is due, what it misses, and what would help.

>>> misses(0.78), misses(0.0), misses(0.06), misses(0.4), misses(0.6), misses(0.48)
('about one in five', 'every one', 'nearly every one', 'about 6 in 10', 'about 4 in 10', 'about half')
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from roadworthy.analysis.risk.between import in_words
from roadworthy.analysis.risk.tolerable import costs_of
from roadworthy.monitor.calibration_warnings import FEW_CLEAN
from roadworthy.monitor.risk_state import odds_to_probability

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.monitor.alarm import AlarmRule

ENOUGH, FEW_ROWS = 0.9, 100
"""How often a step should be noticed; rows of a kind below which more of them come first."""
OFTEN = 0.5
"""How often an alarm rings for what is tolerable, from which on it is told."""
SELDOM = 0.3
"""The share of clean windows that would clear an alarm, below which that is told."""
CLEAN_IS_DEAR = "clean data cost "
"""How the remark begins on a rule that rings without shift, since clean data cost about as much as is tolerable."""
NOTHING_GAINED = 0.03
"""How much more often a kind must be noticed by an alarm that has nothing to prove, for more false alarms to be worth it."""
HARDLY = 1.1
"""How many times the tolerable is hardly above it."""
MOST_TOLD = 1e9
"""Odds beyond which nobody is told a number."""
NEAR_THE_MOST = 0.95
"""The part of the dearest outcome from which on nobody is told to tolerate more."""
_WORDS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def rule_notes(
    estimator: Estimator,
    detects: Sequence[tuple[str, float]],
    *,
    not_due: Mapping[str, float],
    step: float,
    false_alarms: str,
    events_per_day: float,
    group_events: int = 0,
    kept: bool = True,
    freely: Mapping[str, float] | None = None,
    cleared: float = 1.0,
    unproven: Collection[str] | None = None,
) -> tuple[str, ...]:
    """Remarks on a rule that notices steps to a rate of shift so often, by kind; of those `not_due`, what they cost.

    Where the stated rate of false alarms is not `kept`, that is all there is to say. `freely` is how often each kind would be
    noticed by an alarm that had nothing to prove; `cleared`, the share of clean windows by which one that is on is cleared. Where
    no shift rings, however much it is, `unproven` are the kinds that do not carry the burden; the others cost too little.
    """
    tolerable = estimator.tolerable
    assert tolerable is not None
    if not estimator.separation.enough:
        return ()  # every window is one that cannot be told, however long: that is the calibration's to say
    if not kept:
        return (_clean_is_dear(estimator, detects, tolerable, false_alarms),)
    rings = {kind: share for kind, share in detects if kind in not_due and share > OFTEN}
    within = (
        *_within(estimator, not_due, rings, step, tolerable),
        *_between(estimator, group_events),
    )
    if unproven is not None:
        within = (
            *within,
            f"no shift rings, however much it is: {_why_never(estimator, unproven, tolerable)}",
        )
    if cleared < SELDOM:
        clean, low, high = estimator.forecast(0.0)
        within = (
            *within,
            f"once on, the alarm is hardly cleared: windows without shift look as if they might cost more than is tolerable (clean "
            f"data cost {_said(clean)}, {_said(low)} to {_said(high)}, and {_said(tolerable)} is tolerable); raise the tolerable "
            "cost, or calibrate on more clean rows",
        )
    missed = {kind: share for kind, share in detects if share < ENOUGH and kind not in not_due}
    if not missed:
        return within
    said = ", ".join(f"{misses(share)} of {kind}" for kind, share in missed.items())
    return (
        *within,
        f"of steps to {step:.0%} shift the alarm misses within two windows {said} (at {false_alarms} and "
        f"{events_per_day:,.0f} events a day): {_advice(estimator, missed, group_events, freely or {})}"
        f"{_hardly_above(estimator, missed, freely or {}, step, tolerable)}",
    )


def rings_without_shift(notes: Sequence[str]) -> bool:
    """Whether the notes of a rule say that its rate of false alarms is not kept."""
    return any(note.startswith(CLEAN_IS_DEAR) for note in notes)


def when_it_rings(rule: AlarmRule, time: float = 1.0) -> str:
    """From which probability on, and with what burden of proof, for a stream of which `time` events say as much as one.

    >>> from roadworthy.monitor.alarm import AlarmRule
    >>> rule = AlarmRule(100, 50, 9.0, "1 per month", 1000.0)
    >>> when_it_rings(rule), when_it_rings(rule, 50.0)
    ('alarm from 50%, and 8,100 times as likely as no shift at all', 'no alarm can be given')
    """
    passes = rule.passes(time)
    if not passes:
        return "no alarm can be given"
    lightest = min(p.burden for p in passes)
    said = [_from(rule.on) + burden_in_words(lightest)] if lightest < math.inf else []
    return "alarm " + ", or ".join([*said, *([_from(rule.sure)] if rule.sure < math.inf else [])])


def _from(log_odds: float) -> str:
    return f"from {odds_to_probability(log_odds):.1%}".replace(".0%", "%")


def burden_in_words(burden: float) -> str:
    """What an alarm has to prove beyond that, as the end of a sentence; nothing where it need not.

    >>> burden_in_words(9.0), burden_in_words(0.1), burden_in_words(30.0)
    (', and 8,100 times as likely as no shift at all', '', ', and over a billion times as likely as no shift at all')
    """
    odds = math.exp(min(burden, math.log(10 * MOST_TOLD)))
    if odds < 2.0:
        return ""
    told = "over a billion" if odds > MOST_TOLD else f"{float(f'{odds:.2g}'):,.0f}"
    return f", and {told} times as likely as no shift at all"


def _clean_is_dear(
    estimator: Estimator, detects: Sequence[tuple[str, float]], tolerable: float, false_alarms: str
) -> str:
    from roadworthy.analysis.risk.tree import leaves

    clean, low, high = estimator.forecast(0.0)
    most = max(leaf.cost for _, leaf in leaves(estimator.tree))
    advice = "raise the tolerable cost, or better the subject"
    if tolerable >= NEAR_THE_MOST * most:  # hardly more could be tolerated
        advice = "look at the outcomes, or better the subject"
    if clean >= tolerable and max((share for _, share in detects), default=0.0) < OFTEN:
        more = max(costs_of(estimator, 1.0).values()) > HARDLY * clean
        why = "how much more shift costs is in doubt" if more else "shift hardly more"
        return (
            f"{CLEAN_IS_DEAR}{_said(clean)}, above the tolerable {_said(tolerable)}, and {why}: with or without it nobody is sure "
            f"enough for an alarm; {advice}"
        )
    if clean >= tolerable:
        return (
            f"{CLEAN_IS_DEAR}{_said(clean)}, above the tolerable {_said(tolerable)}: without shift the alarm may ring as well, "
            f"where it is sure of that, more often than {false_alarms}, and once on it is hardly cleared; {advice}"
        )
    return (
        f"{CLEAN_IS_DEAR}{_said(clean)} ({_said(low)} to {_said(high)}), hardly less than the tolerable {_said(tolerable)}: no "
        f"alarm would notice shift and ring {false_alarms} at most without it, so that it will ring more often; {advice}"
    )


def _why_never(estimator: Estimator, unproven: Collection[str], tolerable: float) -> str:
    """Why not even nothing but shift rings: it cannot be told from clean data, or costs too little."""
    cheap = [kind for kind in estimator.calibration.kinds[1:] if kind not in unproven]
    alike = "clean data differ among themselves as much as"
    clean, costs = max(costs_of(estimator, 0.0).values()), costs_of(estimator, 1.0)
    if max(costs.values()) <= clean:
        return "it costs no more than clean data do"
    if not cheap:
        return f"{alike} shift does"
    if unproven:
        said = ", ".join(f"an event of {kind} costs {_about(costs[kind])}" for kind in cheap)
        do = "does" if len(unproven) == 1 else "do"
        return f"{alike} {' and '.join(unproven)} {do}, and {said}, where {_said(tolerable)} is tolerable"
    shifted = estimator.forecast(1.0)[0]
    how = "within" if shifted <= tolerable else "hardly above"
    return (
        f"even a stream of nothing but shift is expected to cost {_said(shifted)}, {how} the tolerable {_said(tolerable)}; "
        "choose a lower one"
    )


def _said(cost: float) -> str:
    return f"{cost:.3f}" if 0.01 <= cost < 0.99 else f"{cost:.4g}"


def _within(
    estimator: Estimator,
    costs: Mapping[str, float],
    rings: Mapping[str, float],
    step: float,
    tolerable: float,
) -> tuple[str, ...]:
    """For which kinds no alarm is due, and for which of them it rings all the same."""
    if not costs:
        return ()
    calibration = estimator.calibration
    if len(costs) == len(calibration.kinds) - 1:
        which = f"a step to {step:.0%} shift, of whichever kind, costs {_about(max(costs.values()), ' at most')}"
    else:
        which = f"a step to {step:.0%} of " + " or ".join(
            f"{kind} costs {_about(c)}" for kind, c in costs.items()
        )
    clean = calibration.rows(calibration.kinds[0])
    doubt = f", as far as {clean} clean rows can say" if clean < FEW_CLEAN else ""
    said = ", ".join(f"in {share:.0%} of {kind}" for kind, share in rings.items())
    though = f", though it rings {said}" if rings else ""
    return (
        f"{which}, within the tolerable {tolerable:.4g}: no alarm is due for it{doubt}{though}",
    )


def _between(estimator: Estimator, group_events: int) -> tuple[str, ...]:
    """What differences between groups do to an alarm; or that it allows for them, or need not."""
    differ = in_words(estimator.calibration)
    if not differ:
        alike = "clean scores differ between groups by no more than chance would make them: the alarm has nothing to allow for"
        return (f"{alike}, and --group-events changes nothing",) if group_events else ()
    if not group_events:
        return (
            f"{differ}: where one lasts as long as a window, false alarms come more often than stated; --group-events (in an "
            "assessment file, monitor: {group_events: N}) says how long, and has the alarm allow for it",
        )
    return (
        f"{differ}, and {group_events:,} events of one come in a row: an alarm needs more than the hardest would explain, so that "
        "false alarms stay as seldom as stated, and steps that look no worse go unnoticed",
    )


def _about(cost: float, bound: str = "") -> str:
    return f"about {cost:.4g}{bound}" if cost else "nothing"


def misses(noticed: float) -> str:
    """How many are missed, as one would say it."""
    missed = 1.0 - noticed
    if missed > 0.995:
        return "every one"
    if missed > 0.92:
        return "nearly every one"
    if missed > 0.55:
        return f"about {round(10 * missed)} in 10"
    if missed > 0.45:
        return "about half"
    if missed > 0.36:
        return "about 4 in 10"
    return f"about one in {_WORDS[min(round(1 / missed), 10)]}" if missed > 0.05 else "hardly any"


def _bound_by_limit(missed: Mapping[str, float], freely: Mapping[str, float]) -> list[str]:
    """The kinds that do not look above the tolerable often enough: no more false alarms would help."""
    return [
        kind for kind, share in missed.items() if freely.get(kind, 1.0) < share + NOTHING_GAINED
    ]


def _hardly_above(
    estimator: Estimator,
    missed: Mapping[str, float],
    freely: Mapping[str, float],
    step: float,
    tolerable: float,
) -> str:
    """What those cost."""
    costs = costs_of(estimator, step)
    near = [kind for kind in _bound_by_limit(missed, freely) if costs[kind] < HARDLY * tolerable]
    said = ", ".join(f"{step:.0%} of {kind} costs about {costs[kind]:.4g}" for kind in near)
    return f"; {said}, hardly above the tolerable {tolerable:.4g}" if said else ""


def _advice(
    estimator: Estimator,
    missed: Mapping[str, float],
    group_events: int,
    freely: Mapping[str, float],
) -> str:
    """What would help: more rows where there are few, else another window, other costs or other scores."""
    calibration = estimator.calibration
    few = [kind for kind in (calibration.kinds[0], *missed) if calibration.rows(kind) < FEW_ROWS]
    parts = []
    if few:
        parts.append(
            f"add rows of {' and '.join(f'{kind} (there are {calibration.rows(kind)})' for kind in few)}"
        )
    if not set(missed) <= set(few):
        differ = " and differ less between groups" if calibration.between and group_events else ""
        more = (
            []
            if len(_bound_by_limit(missed, freely)) == len(missed)
            else ["accept more false alarms"]
        )
        parts += ["lengthen the window", *more, f"add supervisors that tell shift better{differ}"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, or {parts[-1]}"
