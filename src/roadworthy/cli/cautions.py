"""What a person should know about a calibration before relying on it: what was chosen for them, what is thin, out of reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roadworthy.cli.amounts import many, priced
from roadworthy.monitor.rule_notes import CLEAN_IS_DEAR

if TYPE_CHECKING:
    from roadworthy.data.score_tables import ScoreTable
    from roadworthy.monitor.alarms import AlarmRule
    from roadworthy.monitor.bundle import Bundle

BELOW = 0.05
"""How far coverage may fall below the nominal before one is warned."""
UNLIKELY = 0.01
"""A threshold below which an alarm rings while the cost is most likely still tolerable."""


FEW_CLEAN = 30
"""Clean rows below which nothing that is promised about them holds."""


def warnings_of(table: ScoreTable, bundle: Bundle) -> list[str]:
    """What must be known before any figure is believed: a table that says too little, or a limit that clean streams exceed."""
    return [*_thin(bundle), *_all_alike(table), *_above(bundle), *_one_kind(bundle)]


def _thin(bundle: Bundle) -> list[str]:
    calibration = bundle.calibration
    rows = calibration.rows(calibration.kinds[0])
    if rows >= FEW_CLEAN:
        return []
    return [
        f"{many(rows, 'clean row')} {'is' if rows == 1 else 'are'} too few: neither the stated rate of false alarms nor how well "
        f"kinds are told from clean holds; calibrate on {FEW_CLEAN} clean rows at the least, better on some hundred"
    ]


def _all_alike(table: ScoreTable) -> list[str]:
    assert table.correct is not None
    missing = "wrong" if table.correct.all() else "right" if not table.correct.any() else None
    if missing is None:
        return []
    return [
        f"no {missing} answer in {many(table.n, 'row')}: how often answers are {missing} is not known, and no figure here says it; "
        "check the column of outcomes (--correct COLUMN)"
    ]


def _above(bundle: Bundle) -> list[str]:
    """The rule's own remark on a limit that clean data reach: it is said as a warning instead."""
    return [] if bundle.alarm is None else [note for note in bundle.alarm.notes if note.startswith(CLEAN_IS_DEAR)]


def _one_kind(bundle: Bundle) -> list[str]:
    kinds = bundle.calibration.kinds[1:]
    if len(kinds) != 1:
        return []
    return [
        f"{kinds[0]} is the only kind of shift: nothing says how others differ from it, so that figures under any other kind are "
        "a guess, and nobody could check how often their intervals hold; add rows of other kinds"
    ]


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
    said = [note for note in rule.notes if not note.startswith(CLEAN_IS_DEAR)]
    return list(dict.fromkeys([*notes, *_whole(bundle), *_early(bundle, rule), *said]))


def _whole(bundle: Bundle) -> list[str]:
    """What becomes of events that lack a score which the rows always had; nothing to say where there is but one score."""
    from roadworthy.analysis.risk.placing import LACKING

    always, names = bundle.calibration.always, bundle.calibration.names
    if not always or len(names) == 1:
        return []
    without = "no row lacks a score" if always == names else f"no row lacks {_listed(always)}"
    most = math.floor(LACKING * len(names))
    spared = f"more than {most} of their {len(names)} scores" if most else "one"
    which = "" if always == names or not most else ", one of these among them,"
    return [
        f"{without}, so that nothing says what it means where one is missing: events that lack {spared}{which} say nothing, and "
        "where they are more than a fifth of a window, it cannot be told"
    ]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


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
    return [f"{many(again, 'row')} {'repeats' if again == 1 else 'repeat'} the id of another row{advice}"]


def _early(bundle: Bundle, rule: AlarmRule) -> list[str]:
    if rule.on >= math.log(UNLIKELY / (1 - UNLIKELY)):
        return []
    clean, _, _ = bundle.estimator.forecast(0.0)
    return [
        f"the alarm rings while the cost is most likely still tolerable: streams without shift cost {priced(clean, bundle.unit)}, "
        f"so far below {priced(bundle.tolerable or 0.0, bundle.unit)} that the smallest doubt is more than they ever give; "
        "a lower --tolerable makes its alarm mean what it says"
    ]
