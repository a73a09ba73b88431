"""What a person should know about a calibration before relying on it: what was chosen for them, what is thin, out of reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roadworthy.analysis.risk.amounts import amount, priced
from roadworthy.analysis.risk.tolerable import nobody_said
from roadworthy.cli.amounts import many
from roadworthy.cli.other_way_round import LOOKS
from roadworthy.monitor.messages import CLEAN_IS_DEAR, expected_above, in_short, too_narrow

if TYPE_CHECKING:
    from roadworthy.data.scores import ScoreTable
    from roadworthy.monitor.bundle import Bundle


def warnings_of(bundle: Bundle) -> list[str]:
    """What must be known before any figure is believed; how often intervals hold is told beside how often they did."""
    narrow, above = (
        coverage_warning(bundle),
        expected_above(bundle.forecast, bundle.tolerable or 0.0, bundle.unit),
    )
    return [
        *(said for said in bundle.warnings if said != narrow),
        *_above(bundle),
        *([above] if above else []),
    ]


def warnings_in_short(bundle: Bundle) -> list[str]:
    """All of them, for those who read figures and cannot calibrate again."""
    return [in_short(said) for said in (*bundle.warnings, *_above(bundle))]


def _above(bundle: Bundle) -> list[str]:
    """The rule's own remark on a limit that clean data reach: it is said as a warning instead.

    To tolerate more is no advice where right and wrong seem to be swapped.
    """
    said = (
        []
        if bundle.alarm is None
        else [note for note in bundle.alarm.notes if note.startswith(CLEAN_IS_DEAR)]
    )
    return (
        [in_short(note) for note in said]
        if any(LOOKS in warning for warning in bundle.warnings)
        else said
    )


def set_yours(bundle: Bundle, option: str, *, under: str) -> str:
    """Where a number of a bundle is set: an option of the command that made it, or `under` a key of the assessment file."""
    if "run" in bundle.made:
        return f"set yours with {under}: {{{option}: …}} in the assessment file"
    return f"set yours with calibrate --{option.replace('_', '-')}"


def notes_of(
    table: ScoreTable, bundle: Bundle, *, chosen_limit: bool, rate_from: str | None
) -> list[str]:
    """Remarks on the table, on what was chosen, and on the alarm; `rate_from` says whence events a day are, if not the user."""
    rule = bundle.alarm
    assert rule is not None, "something is always tolerable here, so that there is an alarm"
    notes = [*table.notes, *_repeated(table), *bundle.calibration.notes]
    if chosen_limit:
        notes.append(
            f"{nobody_said(bundle.tolerable or 0.0, bundle.unit)}; set yours with --tolerable"
        )
    if rate_from is not None and rule.keeps_rate:
        notes.append(
            f"false alarms are counted at {rule.events_per_day:,.0f} events a day, {rate_from}; set yours with --events-per-day"
        )
    said = [note for note in rule.notes if not note.startswith(CLEAN_IS_DEAR)]
    return list(dict.fromkeys([*notes, *_whole(table, bundle), *said]))


def _whole(table: ScoreTable, bundle: Bundle) -> list[str]:
    """What becomes of events that lack a score which the rows always had, or nearly; nothing to say where there is but one."""
    from roadworthy.analysis.risk.calibration import USUAL
    from roadworthy.analysis.risk.placement import LACKING

    always, names = bundle.calibration.always, bundle.calibration.names
    if not always or len(names) == 1:
        return []
    some = any((column != column).any() for name, column in table.columns.items() if name in always)
    row = f"fewer than 1 row in {1 / USUAL:.0f}" if some else "no row"
    without = f"{row} lacks a score" if always == names else f"{row} lacks {_listed(always)}"
    says = "too few to say" if some else "so that nothing says"
    most = math.floor(LACKING * len(names))
    one = "it" if len(always) == 1 else "one"
    spared = f"more than {most} of their {len(names)} scores" if most else one
    which = (
        ""
        if always == names or not most
        else f", {'this one' if len(always) == 1 else 'one of these'} among them,"
    )
    return [
        f"{without}, {says} what it means where {one} is missing: events that lack {spared}{which} say nothing, and "
        "where they are more than a fifth of a window, it cannot be told"
    ]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def coverage_warning(bundle: Bundle) -> str | None:
    """A word where intervals held the truth of unknown kinds much less often than they should."""
    return too_narrow(bundle.coverage)


def refuse_unreachable(bundle: Bundle) -> None:
    """Refuse a limit that nothing calibrated comes near: an alarm for it would ring by chance, or never."""
    tolerable = bundle.tolerable
    assert tolerable is not None
    risk, _, high = bundle.estimator.forecast(1.0)
    if high <= tolerable:
        raise ValueError(
            f"even a stream of nothing but shifted events is expected to cost {priced(risk, bundle.unit)}, and hardly more than "
            f"{priced(high, bundle.unit)}: it stays within a tolerable {amount(tolerable)}, so that no alarm could ring for it; "
            "choose a lower one"
        )


def _repeated(table: ScoreTable) -> list[str]:
    if table.id is None:
        return []
    again = table.n - len(set(table.id.tolist()))
    if not again:
        return []
    advice = (
        ""
        if table.group is not None
        else "; if these are of one case, say so with --group and the column of ids"
    )
    return [
        f"{many(again, 'row')} {'repeats' if again == 1 else 'repeat'} the id of another row{advice}"
    ]
