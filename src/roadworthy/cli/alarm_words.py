"""The alarm of a bundle in words: when it rings, what is promised without shift, and which kinds of shift it notices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roadworthy.analysis.risk.amounts import priced
from roadworthy.cli.amounts import many

if TYPE_CHECKING:
    from roadworthy.monitor.alarm import AlarmRule
    from roadworthy.monitor.bundle import Bundle

FEW_TO_PROMISE = 300
"""Clean rows below which no rate of false alarms is promised: of 38 calibrations on 100 rows four rang more often than stated."""
OFTEN = 0.5
"""How often an alarm rings for a step that is tolerable, from which on it is shown."""


def rule_of(bundle: Bundle) -> AlarmRule:
    assert bundle.alarm is not None, "something is always tolerable here, so that there is an alarm"
    return bundle.alarm


def alarm_in_words(bundle: Bundle) -> str:
    """The rule of the alarm, as one would tell it."""
    from roadworthy.monitor.alarm import odds_to_probability
    from roadworthy.monitor.messages import burden_in_words

    rule = rule_of(bundle)
    rate = f"at most {rule.false_alarms}, at {rule.events_per_day:,.0f} events a day"
    on, off = map(odds_to_probability, (rule.on, rule.off))
    likely = "more likely than not" if rule.on == 0.0 else f"with a probability of {on:.1%} or more"
    proof = burden_in_words(rule.burden).replace(", and ", ", and that is ", 1)
    if rule.sure < math.inf:
        proof += f", or with a probability of {odds_to_probability(rule.sure):.1%} or more"
    said = (
        f"Alarm: every {rule.stride:,} events, over the last {rule.window:,}, when the cost is {likely} above "
        f"{priced(bundle.tolerable or 0.0, bundle.unit)}{proof}. {_promise(bundle, rate)}"
    )
    if not bundle.estimator.separation.enough:
        return said  # what is never on is never cleared
    return f"{said} Once on, it is cleared when the chance that the cost is above falls below {off:.0%}."


def never_looked(rule: AlarmRule, events: int) -> str | None:
    """Why the alarm has not looked at a stream of so few events, said of "it"; None where it has.

    >>> from roadworthy.monitor.alarm import AlarmRule
    >>> short, long = (AlarmRule(window, window // 2, 9.0, "1 per month", 1000.0) for window in (20, 100))
    >>> never_looked(long, 60), never_looked(long, 100)
    ('reads the last 100 events, and there are 60', None)
    >>> never_looked(short, 60), never_looked(short, 70)
    ('looks for the first time after 70 events, and there are 60', None)
    """
    if events < rule.window:
        return f"reads the last {rule.window:,} events, and there are {events:,}"
    first = first_look(rule)
    if events < first:
        return f"looks for the first time after {first:,} events, and there are {events:,}"
    return None


def first_look(rule: AlarmRule) -> int:
    """Events after which the alarm looks for the first time: a window, and as many as tell how much they resemble each other."""
    from roadworthy.monitor.autocorrelation import FIRST

    return math.ceil(max(rule.window, FIRST) / rule.stride) * rule.stride


def _promise(bundle: Bundle, rate: str) -> str:
    """What is promised about alarms without shift, and no more than can be kept."""
    calibration = bundle.calibration
    rows = calibration.rows(calibration.kinds[0])
    if not bundle.estimator.separation.enough:
        return "By this table it will not ring: shift is not told from none, and 'cannot tell' is said in its place."
    rule = rule_of(bundle)
    if not rule.keeps_rate and max((share for _, share in rule.detects), default=0.0) < OFTEN:
        return "It will hardly ring, with shift or without."
    if not rule.keeps_rate:
        return (
            f"Without shift it may ring as well, more often than {rate.removeprefix('at most ')}."
        )
    if rows < FEW_TO_PROMISE:
        few = f"{many(rows, 'clean row')} {_are(rows)} too few"
        return f"Without shift that should be {rate}, but {few} to promise it, or that it is soon cleared."
    return f"Without shift that is {rate}."


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def noticed(bundle: Bundle) -> dict[str, str]:
    """By kind, how often a step to 30% of it is noticed; an alarm that rings though none is due is not hidden."""
    rule = rule_of(bundle)
    if not bundle.estimator.separation.enough:
        return dict.fromkeys(dict(rule.detects), "cannot tell")
    though = {
        kind: f"{share:.0%}, though tolerable" if share > OFTEN else "not due"
        for kind, share in rule.detects
    }
    return {
        kind: though[kind] if kind in rule.not_due else f"{share:.0%}"
        for kind, share in rule.detects
    }
