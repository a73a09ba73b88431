"""What a person should know about a calibration before relying on it: what was chosen for them, what is missed, what is thin.

>>> misses(0.78), misses(0.0), misses(0.06), misses(0.4)
('about one in five', 'every one', 'nearly every one', 'about 6 in 10')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roadworthy.cli.amounts import priced

if TYPE_CHECKING:
    from roadworthy.cli.learnt import KindLearnt
    from roadworthy.data.score_tables import ScoreTable
    from roadworthy.monitor.alarms import AlarmRule
    from roadworthy.monitor.bundle import Bundle

STEP = 0.3
"""The share of shifted events of which the rule says how often it notices it."""
ENOUGH, FEW_ROWS = 0.9, 100
"""How often it should be noticed; rows of a kind below which more of them come first."""
BELOW = 0.05
"""How far coverage may fall below the nominal before one is warned."""
UNLIKELY = 0.01
"""A threshold below which an alarm rings while the cost is most likely still tolerable."""
_WORDS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def notes_of(
    table: ScoreTable, bundle: Bundle, kinds: Sequence[KindLearnt], *, chosen_limit: bool, chosen_rate: bool
) -> list[str]:
    """Remarks on the table, on what was chosen, and on the alarm."""
    rule = bundle.alarm
    assert rule is not None, "something is always tolerable here, so that there is an alarm"
    notes = [*table.notes, *_repeated(table), *bundle.calibration.notes]
    if chosen_limit:
        notes.append(
            f"nobody said what is tolerable: {priced(bundle.tolerable or 0.0, bundle.unit)} is what a stream would cost "
            "in which one event in five is shifted; set yours with --tolerable"
        )
    if chosen_rate:
        whence = "from the times of the table" if table.time is not None else "for want of a better number"
        notes.append(
            f"false alarms are counted at {rule.events_per_day:,.0f} events a day, {whence}; set yours with --events-per-day"
        )
    # The rule's own word on what it seldom notices is said here with the rows in view.
    notes += [note for note in rule.notes if "seldom notices" not in note]
    return list(dict.fromkeys([*notes, *_early(bundle, rule), *_missed(bundle, rule, kinds)]))


def coverage_warning(bundle: Bundle) -> str | None:
    """A word where intervals held the truth of unknown kinds much less often than they should."""
    found = bundle.coverage
    if found is None or found.observed >= found.nominal - BELOW:
        return None
    return (
        f"under a kind of shift that it has not seen, the interval is right in {found.observed:.0%} of windows, not in "
        f"{found.nominal:.0%}: the calibrated kinds say too little about others. Add kinds of shift; read intervals as too narrow"
    )


def refuse_unreachable(bundle: Bundle) -> None:
    """Refuse a limit that nothing calibrated comes near: an alarm for it would ring by chance, or never."""
    tolerable = bundle.tolerable
    assert tolerable is not None
    risk, _, high = bundle.estimator.forecast(1.0)
    if high <= tolerable:
        raise ValueError(
            f"even a stream of nothing but shifted events is expected to cost {priced(risk, bundle.unit)}, and hardly more than "
            f"{priced(high, bundle.unit)}: it stays within a tolerable {tolerable:g}, so that no alarm could ring for it; "
            "choose a lower one"
        )


def misses(noticed: float) -> str:
    """How many are missed, as one would say it."""
    missed = 1.0 - noticed
    if missed > 0.995:
        return "every one"
    if missed > 0.92:
        return "nearly every one"
    if missed > 0.45:
        return f"about {round(10 * missed)} in 10"
    return f"about one in {_WORDS[min(round(1 / missed), 10)]}" if missed > 0.05 else "hardly any"


def _repeated(table: ScoreTable) -> list[str]:
    if table.id is None:
        return []
    again = table.n - len(set(table.id.tolist()))
    if not again:
        return []
    advice = "" if table.group is not None else "; if these are of one case, say so with --group and the column of ids"
    return [f"{again:,} rows repeat the id of another row{advice}"]


def _early(bundle: Bundle, rule: AlarmRule) -> list[str]:
    import math

    if rule.on >= math.log(UNLIKELY / (1 - UNLIKELY)):
        return []
    clean, _, _ = bundle.estimator.forecast(0.0)
    return [
        f"the alarm rings while the cost is most likely still tolerable: streams without shift cost {priced(clean, bundle.unit)}, "
        f"so far below {priced(bundle.tolerable or 0.0, bundle.unit)} that the smallest doubt is more than they ever give; "
        "a lower --tolerable makes its alarm mean what it says"
    ]


def _missed(bundle: Bundle, rule: AlarmRule, kinds: Sequence[KindLearnt]) -> list[str]:
    """Kinds that are often missed though an alarm would be due, and what would help."""
    limit = bundle.tolerable or 0.0
    due = bundle.estimator.forecast(0.0)[0] < limit < bundle.estimator.forecast(STEP)[0]
    seldom = {kind: share for kind, share in rule.detects if share < ENOUGH}
    if not due or not seldom:
        return []
    rows = {k.kind: k.rows for k in kinds}
    few = [k for k in (kinds[0].kind, *seldom) if rows[k] < FEW_ROWS]
    advice = [f"add rows of {' and '.join(f'{k} (there are {rows[k]})' for k in few)}"] if few else []
    if not set(seldom) <= set(few):
        advice += ["lengthen the window", "accept more false alarms", "add supervisors that tell shift better"]
    said = ", ".join(f"{misses(share)} of {kind}" for kind, share in seldom.items())
    return [
        f"of steps to {STEP:.0%} shift the alarm misses within two windows {said} (at {rule.false_alarms} and "
        f"{rule.events_per_day:,.0f} events a day): {_listed(advice)}"
    ]


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, or {parts[-1]}"
