"""The pictures of supervisors: which share of the failures each misses where, and how well it ranks failures first.

>>> from pathlib import Path
>>> from roadworthy.report.run_view import RunView
>>> missed(RunView(Path("runs/1"), {"supervisors": []})) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roadworthy.finding import Finding

from . import charts, numbers
from .figure import MOST_ROWS, NARROW, WIDE, Figure, place_name
from .run_parts import Circumstance
from .run_view import RunView
from .supervisor_parts import CLEAN, Place, Supervisor, place_key

MOST_LEVELS = 24
"""Rows of places up to which every level is drawn; beyond, only the highest of each circumstance."""
TOGETHER = "the set together"
Cells = Mapping[tuple[str, str], charts.HeatCell]


def missed(view: RunView) -> Figure | None:
    """Circumstances by supervisors: the share of the failures that raise no alarm, and that of the recommended set."""
    judged = [s for s in view.supervisors if s.applicable and s.found["miss_rate"]]
    if not judged:
        return None
    places = _places(view, every_level=True)
    rows = {place_name(*place): place for place in places}
    together = _together(view, rows)
    cells = _cells(judged, rows, "miss_rate", "misses", view) | together
    starred = _starred(view, judged)
    columns = [*([TOGETHER] if together else []), *starred, *(s.label for s in judged if s.label not in starred)]
    return _figure(
        "figure-missed",
        _missed_caption(view, len(places) > len(_places(view)), bool(starred)) + _cut(places),
        [r for r in rows if any((r, c) in cells for c in columns)],
        columns,
        cells,
        "Share of failures that each supervisor misses",
        charts.MISSED,
        [*([TOGETHER] if together else []), *starred],
    )


def ranking(view: RunView) -> Figure | None:
    """How well each supervisor ranks failures above successes, under each circumstance."""
    judged = [s for s in view.supervisors if s.applicable and s.auc_failure]
    if not judged:
        return None
    places = _places(view)
    rows = {place_name(*place): place for place in places}
    cells = _cells(judged, rows, "auc_failure", "AUC", view)
    caption = (
        "How well each supervisor ranks failures above successes (AUC: 0.5 is chance, 1 is perfect), on the clean data and "
        "under each circumstance at its highest level. A dash: not measurable there, for want of failures or successes."
    )
    return _figure(
        "figure-supervisors",
        caption + _cut(places),
        [r for r in rows if any((r, s.label) in cells for s in judged)],
        [s.label for s in judged],
        cells,
        "AUC of each supervisor for failures",
        charts.RANKING,
        _starred(view, judged),
    )


def _missed_caption(view: RunView, every_level: bool, starred: bool) -> str:
    rows = "at each level" if every_level else "at its highest level"
    sentences = [
        "Failures that raise no alarm, in percent of the failures; the stronger the shade, the more is missed.",
        f"Rows: the clean data and each circumstance {rows}.",
    ]
    if starred:
        framed = "; a framed number: who of it catches most there" if _picks(view) else ""
        sentences.append(f"★ and a frame: the recommended set, and first what it misses together{framed}.")
    sentences.append("From the best AUC to the worst. A dash: no failures there, or no verdicts.")
    return " ".join(sentences)


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
        charts.heat(rows[:MOST_ROWS], columns, cells, title=title, width=width, ramp=ramp, starred=starred)
        for width in (WIDE, NARROW)
    )
    return Figure(id, caption.strip(), wide, narrow)


def _places(view: RunView, *, every_level: bool = False) -> list[Place]:
    """The clean data, and each circumstance at its highest level, or at each where these are not too many."""
    each = [CLEAN, *((c.name, level) for c in view.circumstances for level in _levels(c))]
    if every_level and len(each) <= MOST_LEVELS:
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


def _together(view: RunView, rows: Mapping[str, Place]) -> dict[tuple[str, str], charts.HeatCell]:
    """What the recommended set misses as a whole, at each place for which the run says it."""
    found = {}
    for row, place in rows.items():
        rate = view.recommended.miss_rate.get(place_key(*place)) if view.recommended else None
        if rate is not None:
            shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
            found[row, TOGETHER] = charts.HeatCell(rate.value, f"{row}, {TOGETHER}: misses {shown.title}")
    return found


def _picks(view: RunView) -> dict[Place, str]:
    """Who of the recommended set catches most, by place."""
    if view.recommended is None or len(view.recommended.names) < 2:
        return {}
    named = {place: view.recommended.covered_by(place) for place in _places(view, every_level=True)}
    return {place: name for place, name in named.items() if name}


def _starred(view: RunView, judged: Sequence[Supervisor]) -> list[str]:
    return [s.label for s in judged if view.recommended and s.name in view.recommended.names]


def _note(view: RunView, row: str, s: Supervisor, found: Finding, what: str) -> str:
    shown = numbers.estimate(found.value, found.interval, found.n, view.style_of(found.quantity))
    return f"{row}, {s.label}: {what} {shown.title}" + (f"; {found.reason}" if found.reason else "")


def _cut(places: Sequence[Place]) -> str:
    return f" Only the first {MOST_ROWS} rows are drawn; the table has the rest." if len(places) > MOST_ROWS else ""
