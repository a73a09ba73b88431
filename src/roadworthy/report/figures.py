"""The figures of a report: which numbers of a run go into which chart, each drawn once for a desk and once for a phone.

>>> from roadworthy.statistics import Interval
>>> _ends(Finding("accuracy", 0.9, Interval(0.8, 0.95, 0.95, "wilson"), 50))
(0.8, 0.95)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roadworthy.finding import Finding

from . import charts, numbers, supervisor_figures, wording
from .figure import MOST_ROWS, NARROW, WIDE, Figure, place_name
from .run_parts import Circumstance, Claim
from .run_view import RunView


def figures(view: RunView) -> dict[str, Figure]:
    """All figures that the run has numbers for, by id."""
    drawn = [claims(view), significance(view), circumstances(view), slices(view), levels(view)]
    drawn.append(view.risk.figure() if view.risk else None)
    drawn += [
        supervisor_figures.missed(view),
        supervisor_figures.alarmed(view),
        supervisor_figures.ranking(view),
    ]
    return {f.id: f for f in drawn if f}


def claims(view: RunView) -> Figure | None:
    """Every claim against its limit."""
    rows = [_claim_row(view, c) for c in view.claims]
    if not rows:
        return None
    caption = (
        "Each claim's value, and the bound that decided (one-sided at the claim's confidence; thick bar from the value to "
        "its end), against the limit (tick; the small arrow points to the side that holds). Disc: met. Diamond: breached. "
        "Ring: inconclusive. Thin grey bar: the interval. Small grey rings: the places of an “every” claim."
    )
    return _figure(
        "figure-claims", caption, charts.claims_chart, rows, title="Claims against their limits"
    )


def significance(view: RunView) -> Figure | None:
    """Where to work first."""
    points = [
        _significance_point(c)
        for c in view.circumstances
        if c.significance is not None and c.loss is not None
    ]
    if not points:
        return None
    caption = (
        "Where to work first: how much a circumstance matters (exposure × likelihood × severity, 1 to 125) against how "
        "much performance it costs at its worst level, relative to the clean data. Bars are intervals."
    )
    if len(points) > 12:
        caption += (
            " Where dots are too close for a name, it is in the tooltip and in the table below."
        )
    return _figure(
        "figure-significance",
        caption,
        charts.significance_chart,
        points,
        title="Significance against relative loss",
    )


def circumstances(view: RunView) -> Figure | None:
    """Each circumstance at its worst level."""
    rows = [
        _forest_row(view, place_name(c.name, c.worst_level), c.worst)
        for c in view.circumstances
        if c.worst is not None
    ]
    order = (
        "most significant first"
        if any(c.significance is not None for c in view.circumstances)
        else "worst first"
    )
    caption = (
        f"Performance ({view.measure}) under each circumstance at its worst level, {order}. "
        f"Dashed: the clean test data.{wording.intervals_at(view)}"
    )
    return _forest(
        view,
        "figure-circumstances",
        rows,
        caption,
        f"{view.measure} by circumstance",
        "clean",
        order,
    )


def slices(view: RunView) -> Figure | None:
    """Each slice that is large enough."""
    judged = [s for s in view.slices if s.performance is not None and not s.too_small]
    rows = [_forest_row(view, s.name, s.performance) for s in judged if s.performance]
    left_out = sum(s.too_small for s in view.slices)
    caption = (
        f"Performance ({view.measure}) by slice of the clean test data, worst first. Dashed: all of it.{wording.intervals_at(view)}"
        + (
            f" {wording.plural(left_out, 'slice')} with too few cases only in the table."
            if left_out
            else ""
        )
    )
    return _forest(view, "figure-slices", rows, caption, f"{view.measure} by slice", "overall")


def levels(view: RunView) -> Figure | None:
    """Curves against level."""
    panels = [
        charts.LevelPanel(c.name, tuple(_level_point(view, c, level) for level in c.levels))
        for c in view.circumstances
        if c.levels
    ]
    if not panels:
        return None
    caption = (
        f"Performance ({view.measure}) against level, with intervals; all panels share one scale, "
        f"circumstances in the order of their significance. Dashed: the clean test data.{wording.intervals_at(view)}"
    )
    return _figure(
        "figure-levels",
        caption,
        charts.levels_chart,
        panels,
        title=f"{view.measure} against level",
        clean=view.clean.value if view.clean else None,
        style=view.style,
        better=view.better,
    )


def _figure(
    id: str, caption: str, draw: Callable[..., str], content: list[Any], **options: Any
) -> Figure:
    return Figure(
        id, caption, draw(content, width=WIDE, **options), draw(content, width=NARROW, **options)
    )


def _forest(
    view: RunView,
    id: str,
    rows: list[charts.ForestRow],
    caption: str,
    title: str,
    reference: str,
    order: str = "worst first",
) -> Figure | None:
    if not rows:
        return None
    if len(rows) > MOST_ROWS:
        # The view hands out circumstances by significance and slices by value: the first are those that matter.
        rows = rows[:MOST_ROWS]
        caption += f" Only the first {MOST_ROWS} are drawn; the table has the rest."
    clean = view.clean
    return _figure(
        id,
        caption,
        charts.forest,
        rows,
        title=title,
        reference=clean.value if clean else None,
        reference_label=reference,
        reference_shown=numbers.estimate(clean.value, None, clean.n, view.style).value
        if clean
        else "",
        order=order,
        style=view.style,
        better=view.better,
    )


def _forest_row(view: RunView, name: str, found: Finding) -> charts.ForestRow:
    shown = numbers.estimate(found.value, found.interval, found.n, view.style)
    low, high = _ends(found)
    return charts.ForestRow(
        name,
        found.value,
        low,
        high,
        f"{name}: {shown.title}",
        f"{shown.value}  ({shown.interval})" if found.interval else shown.value,
    )


def _claim_row(view: RunView, claim: Claim) -> charts.ClaimRow:
    style = view.style_of(claim.quantity)
    shown = numbers.estimate(claim.value, claim.interval, claim.n, style)
    bound = numbers.bound(claim.bound, claim.limit, style)
    return charts.ClaimRow(
        claim.id,
        claim.text,
        claim.quantity,
        claim.value,
        claim.interval.low if claim.interval else None,
        claim.interval.high if claim.interval else None,
        claim.limit,
        claim.direction,
        claim.status,
        style,
        tuple(m.value for m in claim.members if m.value is not None),
        f"{claim.id}, {claim.text}: {claim.status}; {shown.value}, {wording.bound_note(claim, claim)} {bound}, limit "
        f"{numbers.limit(claim.limit, style)}; {shown.title}",
        claim.bound,
        shown.value,
    )


def _significance_point(c: Circumstance) -> charts.SignificancePoint:
    found = c.drop.get(c.worst_level)
    low, high = _ends(found) if found else (None, None)
    shown = numbers.estimate(
        c.loss, found.interval if found else None, found.n if found else None, "percent"
    )
    note = f"{place_name(c.name, c.worst_level)}: significance {c.significance:g}, relative loss {shown.title}"
    return charts.SignificancePoint(c.name, c.significance, c.loss, low, high, note)


def _level_point(view: RunView, c: Circumstance, level: float) -> charts.LevelPoint:
    found = c.performance[level]
    shown = numbers.estimate(found.value, found.interval, found.n, view.style)
    return charts.LevelPoint(
        level, found.value, *_ends(found), f"{place_name(c.name, level)}: {shown.title}"
    )


def _ends(found: Finding) -> tuple[float | None, float | None]:
    return (found.interval.low, found.interval.high) if found.interval else (None, None)
