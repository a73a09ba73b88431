"""What a person should know about a calibration before relying on it: what was chosen for them, what is thin, out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.cli.amounts import priced

if TYPE_CHECKING:
    from roadworthy.data.score_tables import ScoreTable
    from roadworthy.monitor.alarms import AlarmRule
    from roadworthy.monitor.bundle import Bundle

BELOW = 0.05
"""How far coverage may fall below the nominal before one is warned."""
UNLIKELY = 0.01
"""A threshold below which an alarm rings while the cost is most likely still tolerable."""


def notes_of(table: ScoreTable, bundle: Bundle, *, chosen_limit: bool, chosen_rate: bool) -> list[str]:
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
    return list(dict.fromkeys([*notes, *_early(bundle, rule), *rule.notes]))


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
