"""How fast a stream is, beside how fast it was said to be: false alarms are accepted by the day, and counted by events.

A day is told from an hour and a thousand events at least. From less nobody can tell it: seconds of a stream, multiplied to a day,
are as likely one post of it.

>>> per_day(5000, 3600.0), per_day(5000, 40.0), per_day(999, 7200.0)
(120000.0, None, None)
>>> lasting(40.0), lasting(30_000.0)
('40 s', '8.3 hours')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadworthy.monitor.alarm import AlarmRule

DAY, HOUR = 86_400.0, 3_600.0
ENOUGH = 1000
"""Events from which on, and the hour that they must span, it is said how fast they come."""
FASTER, SLOWER = 2.0, 20.0
"""How many times as many events a day as the alarm was set for are worth a word, and how many times as few."""


def per_day(events: int, span: float) -> float | None:
    """How many come in a day, where so many come within so many seconds; None where that is too little to say it."""
    return events / span * DAY if events >= ENOUGH and span >= HOUR else None


def other_than_set(rule: AlarmRule, pace: float) -> str | None:
    """What follows where so many events a day are many more, or far fewer, than the alarm was set for; None where they are not."""
    if not rule.keeps_rate:
        return None  # it keeps no rate, at whatever pace
    brings = f"the stream brings {float(f'{pace:.3g}'):,.0f} events a day, and the alarm was set for {rule.events_per_day:,.0f}"
    if pace > FASTER * rule.events_per_day:
        return f"{brings}: expect {pace / rule.events_per_day:.1f} times as many false alarms as {rule.false_alarms}"
    if pace < rule.events_per_day / SLOWER:
        return f"{brings}: it asks for more proof than {rule.false_alarms} takes here, and notices less than it could"
    return None


def too_short_to_say(rule: AlarmRule, events: int, span: float) -> str | None:
    """That nobody can tell a day from so little, where it came much faster than the alarm was set for; None where it did not.

    The advice is left to those who know where the number is set.
    """
    if not rule.keeps_rate:
        return None  # as above: no number of events a day would make it ring less
    if span <= 0.0 or events <= FASTER * rule.events_per_day * span / DAY:
        return None
    return (
        f"{events:,} events within {lasting(span)} are too {'few' if span >= HOUR else 'short a stretch'} to say how many come in "
        f"a day; the alarm was set for {rule.events_per_day:,.0f}, and where more come, it rings falsely more often than "
        f"{rule.false_alarms}"
    )


def lasting(seconds: float) -> str:
    """A time as people say it.

    >>> [lasting(s) for s in (0.25, 4001.0, 30_000.0, 22_368_824.0)]
    ['0.25 s', '4,001 s', '8.3 hours', '259 days']
    """
    if seconds >= 2 * DAY:
        days = seconds / DAY
        return f"{days:,.0f} days" if days >= 10 else f"{days:.1f} days"
    if seconds >= 2 * HOUR:
        return f"{seconds / HOUR:.1f} hours"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
