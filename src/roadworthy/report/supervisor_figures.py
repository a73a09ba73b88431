"""The pictures of supervisors: which share of the failures each misses where, at what price in
false alarms, and how well it ranks failures first.

>>> from pathlib import Path
>>> from roadworthy.report.run_view import RunView
>>> missed(RunView(Path("runs/1"), {"supervisors": []})) is None
True
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from roadworthy.finding import Finding

from . import charts, numbers
from .figure import MOST_ROWS, NARROW, WIDE, Figure, place_name
from .run_parts import Circumstance
from .run_view import RunView
from .supervisor_parts import CLEAN, Place, Rate, Supervisor, place_key

MOST_LEVELS = 24
"""Rows of places up to which every level is drawn; beyond, only the highest of each circumstance."""
TOGETHER = "the set together"
Cells = Mapping[tuple[str, str], charts.HeatCell]


def missed(view: RunView) -> Figure | None:
    """Circumstances by supervisors: the share of the failures that raise no alarm, and that of the recommended set."""
    framed = "; a framed number: who of it does best there" if _picks(view) else ""
    sentences = [
        "Failures that raise no alarm, in percent of the failures; the stronger the shade, the more is missed.",
        f"{_where(view)}.",
        f"★ and a frame: the recommended set, and what it misses together{framed}."
        if view.recommended
        else "",
        f"{_order(view)} A dash: no failures there, or no verdicts.",
    ]
    together = view.recommended.miss_rate if view.recommended else {}
    return _verdicts(
        view,
        "figure-missed",
        "miss_rate",
        "misses",
        together,
        sentences,
        "Share of failures that each supervisor misses",
        charts.MISSED,
    )


def alarmed(view: RunView) -> Figure | None:
    """The price of catching: the share of the right answers that raise an alarm, at the places of `missed`.

    Runs of before know it on the clean data alone, for which the table is enough.
    """
    if not any(
        place != CLEAN
        for s in view.supervisors
        if s.applicable
        for place in s.found["false_alarm_rate"]
    ):
        return None
    sentences = [
        "Right answers that raise an alarm, in percent of the right answers; the stronger the shade, the more alarms are false.",
        "Who misses nothing above because everything raises an alarm is dark here.",
        f"{_where(view)}.",
        "★ and a frame: the recommended set, and its alarms together." if view.recommended else "",
        f"{_order(view)} A dash: no right answers there, or no verdicts.",
    ]
    return _verdicts(
        view,
        "figure-alarms",
        "false_alarm_rate",
        "alarms on",
        _set_alarms(view),
        sentences,
        "Share of right answers on which each supervisor raises an alarm",
        charts.ALARMED,
    )


def ranking(view: RunView) -> Figure | None:
    """How well each supervisor ranks failures above successes, at the same places."""
    judged = [s for s in view.supervisors if s.applicable and s.auc_failure]
    rows = {place_name(*place): place for place in _places(view)}
    cells = _cells(judged, rows, "auc_failure", "AUC", view)
    if not _any_known(cells):
        return None
    caption = (
        "How well each supervisor ranks failures above successes (AUC: 0.5 is chance, 1 is perfect; a marked corner: below "
        f"0.5). {_where(view)}. A dash: not measurable there, for want of failures or successes."
    )
    return _figure(
        "figure-supervisors",
        caption + _cut(rows),
        [r for r in rows if any((r, s.label) in cells for s in judged)],
        [s.label for s in judged],
        cells,
        "AUC of each supervisor for failures",
        charts.RANKING,
        _starred(view, judged),
    )


def undrawn(view: RunView) -> list[str]:
    """Why a picture is missing for which there are findings: none of them has a number."""
    said = []
    for quantity, what in (
        ("miss_rate", "what each misses"),
        ("auc_failure", "how well each ranks failures first"),
    ):
        found = [f for s in view.supervisors if s.applicable for f in s.found[quantity].values()]
        if found and not any(math.isfinite(f.value) for f in found):
            why = Counter(f.reason for f in found if f.reason).most_common(1)
            said.append(
                f"There is no picture of {what}: "
                + (why[0][0] if why else "it could not be measured anywhere")
            )
    return [text.rstrip(".") + "." for text in said]


def _verdicts(
    view: RunView,
    id: str,
    quantity: str,
    what: str,
    rates: Mapping[str, Rate],
    caption: Sequence[str],
    title: str,
    ramp: charts.Ramp,
) -> Figure | None:
    """A picture of what verdicts are worth: the recommended set first, then by AUC."""
    judged = [
        s for s in view.supervisors if s.applicable and (s.found["miss_rate"] or s.found[quantity])
    ]
    rows = {place_name(*place): place for place in _places(view)}
    together = _together(rates, rows, what)
    cells = _cells(judged, rows, quantity, what, view) | together
    if not any(s.found[quantity] for s in judged) or not _any_known(cells):
        return None
    starred = _starred(view, judged)
    first = [*([TOGETHER] if together else []), *starred]
    columns = [*first, *(s.label for s in judged if s.label not in starred)]
    drawn = [r for r in rows if any((r, c) in cells for c in columns)]
    return _figure(
        id,
        " ".join(t for t in caption if t) + _cut(rows),
        drawn,
        columns,
        cells,
        title,
        ramp,
        first,
    )


def _where(view: RunView) -> str:
    """Which places are drawn; neither rows nor columns, for on a phone they change places."""
    several = any(len(c.levels) > 1 for c in view.circumstances)
    every = len(_places(view)) > 1 + len(view.circumstances)
    which = "" if not several else " at each level" if every else " at its highest level"
    return (
        f"On the clean data, and under each circumstance{which}"
        if view.circumstances
        else "On the clean data"
    )


def _order(view: RunView) -> str:
    return "The set first, then by AUC." if view.recommended else "From the best AUC to the worst."


def _any_known(cells: Cells) -> bool:
    return any(c.value is not None and math.isfinite(c.value) for c in cells.values())


def _set_alarms(view: RunView) -> Mapping[str, Rate]:
    """The false alarms of the recommended set as a whole, by place."""
    found = view.recommended
    return {} if found is None else {**found.false_alarm_rate, **found.false_alarms_at}


def _figure(
    id: str,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Cells,
    title: str,
    ramp: charts.Ramp,
    starred: Sequence[str],
) -> Figure:
    wide, narrow = (
        charts.heat(
            rows[:MOST_ROWS], columns, cells, title=title, width=width, ramp=ramp, starred=starred
        )
        for width in (WIDE, NARROW)
    )
    return Figure(id, caption.strip(), wide, narrow)


def _places(view: RunView) -> list[Place]:
    """The clean data, and each circumstance at each level, or at its highest where these are too many; for all pictures."""
    each = [CLEAN, *((c.name, level) for c in view.circumstances for level in _levels(c))]
    if len(each) <= MOST_LEVELS:
        return each
    return [CLEAN, *((c.name, _strongest(c)) for c in view.circumstances)]


def _levels(c: Circumstance) -> Sequence[float | None]:
    return c.levels or [None]


def _strongest(c: Circumstance) -> float | None:
    return c.levels[-1] if c.levels else None


def _cells(
    judged: Sequence[Supervisor], rows: Mapping[str, Place], quantity: str, what: str, view: RunView
) -> dict[tuple[str, str], charts.HeatCell]:
    picks = _picks(view) if quantity == "miss_rate" else {}
    return {
        (row, s.label): charts.HeatCell(
            s.found[quantity][place].value,
            _note(view, row, s, s.found[quantity][place], what),
            picks.get(place) == s.name,
        )
        for row, place in rows.items()
        for s in judged
        if place in s.found[quantity]
    }


def _together(
    rates: Mapping[str, Rate], rows: Mapping[str, Place], what: str
) -> dict[tuple[str, str], charts.HeatCell]:
    """The recommended set as a whole, at each place for which the run says it."""
    found = {}
    for row, place in rows.items():
        rate = rates.get(place_key(*place))
        if rate is not None:
            shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
            found[row, TOGETHER] = charts.HeatCell(
                rate.value, f"{row}, {TOGETHER}: {what} {shown.title}"
            )
    return found


def _picks(view: RunView) -> dict[Place, str]:
    """Who of the recommended set catches most, by place."""
    if view.recommended is None or len(view.recommended.names) < 2:
        return {}
    named = {place: view.recommended.covered_by(place) for place in _places(view)}
    return {place: name for place, name in named.items() if name}


def _starred(view: RunView, judged: Sequence[Supervisor]) -> list[str]:
    return [s.label for s in judged if view.recommended and s.name in view.recommended.names]


def _note(view: RunView, row: str, s: Supervisor, found: Finding, what: str) -> str:
    shown = numbers.estimate(found.value, found.interval, found.n, view.style_of(found.quantity))
    return f"{row}, {s.label}: {what} {shown.title}" + (f"; {found.reason}" if found.reason else "")


def _cut(places: Collection[str]) -> str:
    return (
        f" Only the first {MOST_ROWS} rows are drawn; the table has the rest."
        if len(places) > MOST_ROWS
        else ""
    )
