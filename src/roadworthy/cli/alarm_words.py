"""The alarm of a bundle in words: when it rings, what is promised without shift, and which kinds of shift it notices.

>>> _likely(0.0), _likely(-5.0), _likely(-30.0), _likely(30.0), _likely(3.6636)
('50% or more', '0.67% or more', 'less than 0.01%, yet more than without shift', 'more than 99.99%', '97.5% or more')
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roadworthy.analysis.risk.amounts import priced
from roadworthy.cli.amounts import many

if TYPE_CHECKING:
    from roadworthy.monitor.alarms import AlarmRule
    from roadworthy.monitor.bundle import Bundle

LEAST = 1e-4
"""A probability below which none is told from 0."""
OFTEN = 0.5
"""How often an alarm rings for a step that is tolerable, from which on it is shown."""


def rule_of(bundle: Bundle) -> AlarmRule:
    assert bundle.alarm is not None, "something is always tolerable here, so that there is an alarm"
    return bundle.alarm


def _likely(log_odds: float) -> str:
    """A threshold in words, with as many digits as tell it from 0 and from 1."""
    share = 1.0 / (1.0 + math.exp(-max(min(log_odds, 700.0), -700.0)))
    if share < LEAST:
        return "less than 0.01%, yet more than without shift"
    if share > 1 - LEAST:
        return "more than 99.99%"
    if 0.95 < share <= 0.99:
        return f"{share:.1%} or more"
    return f"{share:.0%} or more" if 0.01 <= share <= 0.99 else f"{share:.2%} or more"


def alarm_in_words(bundle: Bundle) -> str:
    """The rule of the alarm, as one would tell it."""
    from roadworthy.monitor.rule_notes import BEYOND_HARD_GROUPS

    rule = rule_of(bundle)
    off = 1.0 / (1.0 + math.exp(-max(min(rule.off, 700.0), -700.0)))
    cleared = f"; cleared below {off:.0%}" if 0.01 <= off <= 0.99 else ""
    rate = f"at most {rule.false_alarms}, at {rule.events_per_day:,.0f} events a day"
    sure = f"with a probability of {_likely(rule.on)}{cleared}"
    if rule.hardness:  # its threshold is then no probability that anyone is told
        sure = BEYOND_HARD_GROUPS
    return (
        f"Alarm: over the last {rule.window:,} events, looked at every {rule.stride:,}, when the cost is above "
        f"{priced(bundle.tolerable or 0.0, bundle.unit)} {sure}. "
        f"{_promise(bundle, rate)}"
    )


def _promise(bundle: Bundle, rate: str) -> str:
    """What is promised about alarms without shift, and no more than can be kept."""
    from roadworthy.monitor.calibration_warnings import FEW_CLEAN
    from roadworthy.monitor.rule_notes import rings_without_shift

    calibration = bundle.calibration
    rows = calibration.rows(calibration.kinds[0])
    if not bundle.estimator.separation.enough:
        return "It will not ring: the scores do not tell shift from none."
    rule = rule_of(bundle)
    if rings_without_shift(rule.notes) and max((share for _, share in rule.detects), default=0.0) < OFTEN:
        return "It will hardly ring, with shift or without."
    if rings_without_shift(rule.notes):
        return f"Without shift it rings as well, more often than {rate.removeprefix('at most ')}."
    if rows < FEW_CLEAN:
        return f"Without shift that should be {rate}, but {many(rows, 'clean row')} {_are(rows)} too few to promise it."
    return f"Without shift that is {rate}."


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def noticed(bundle: Bundle) -> dict[str, str]:
    """By kind, how often a step to 30% of it is noticed; an alarm that rings though none is due is not hidden."""
    rule = rule_of(bundle)
    if not bundle.estimator.separation.enough:
        return dict.fromkeys(dict(rule.detects), "cannot tell")
    though = {kind: f"{share:.0%}, though tolerable" if share > OFTEN else "not due" for kind, share in rule.detects}
    return {kind: though[kind] if kind in rule.not_due else f"{share:.0%}" for kind, share in rule.detects}
