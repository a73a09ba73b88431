"""The section `performance`, in every assessment: the measure under each circumstance, level and slice, against the clean data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roadworthy import numbers
from roadworthy.analysis import performance
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import (
    ClaimPlace,
    Nothing,
    Result,
    Results,
    Section,
    drawn,
    evidence_at,
)
from roadworthy.claims import Quantity
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence, Finding
from roadworthy.registry import register
from roadworthy.report import charts, wording
from roadworthy.report.blocks import (
    MOST_ROWS,
    Block,
    Cell,
    Chart,
    Column,
    Heading,
    Pictures,
    Table,
    Text,
    found_cell,
    place_name,
)
from roadworthy.spec import ClaimSpec
from roadworthy.store.record import CircumstanceRecord, SliceRecord
from roadworthy.store.record import Record as RunRecord

COMPARED = {"difference": performance.change_from_clean, "relative_drop": performance.relative_drop}


@register("sections", "performance")
class Performance(Section):
    """The measure and the failure rate under each circumstance, level and slice."""

    always = True
    quantities = (
        Quantity(
            "failure_rate",
            "the share of cases whose answer counts as wrong, by the failure criterion.",
            low=0.0,
            high=1.0,
        ),
        Quantity(
            "difference",
            "the value here minus the value on the clean data (for a filter: on the rest; or in the earlier run). pp are "
            "percentage points.",
            better="higher",
            style="difference",
            needs=("circumstance",),
        ),
        Quantity(
            "relative_drop",
            "the difference as a share of the clean value; positive is worse.",
            needs=("circumstance",),
            one_way=True,
        ),
    )

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """Values, failure rates, differences, drops and slices."""
        spec = plan.spec
        found = performance.performance_findings(
            observed.clean,
            observed.others,
            observed.references,
            quantity=spec.measure_name,
            confidence=spec.confidence,
            smallest_slice=spec.smallest_slice,
            seed=spec.seed,
        )
        warnings = [spec.never_wrong] if spec.never_wrong else []
        return Result(Nothing(), found, warnings=warnings)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The measure, its failures or its change at each place."""
        quantity, seed = claim.quantity, plan.spec.seed

        def known(place: ClaimPlace) -> Evidence:
            if quantity == "failure_rate":
                return performance.failure_rate(place.here, seed=seed)
            if quantity in COMPARED:
                return COMPARED[quantity](place.here, place.reference, seed=seed)
            return performance.measured(place.here, quantity, seed=seed)

        return evidence_at(claim, plan, observed, known, compared=quantity in COMPARED)

    def view(self, record: Any, run: RunRecord) -> list[Block]:
        """Circumstances, slices, curves against level, and cases to look at."""
        found = [_Found.of(c, run) for c in run.circumstances]
        found.sort(
            key=lambda c: (
                -(c.record.significance or 0),
                -(c.loss if c.loss is not None else -math.inf),
            )
        )
        return [
            *_circumstances(found, run),
            *_slices(run),
            *_levels(found, run),
            Heading("Gallery", id="gallery"),
            Pictures(
                run.gallery.pairs,
                "Each original, followed by the case made of it; in brackets the confidence of the prediction.",
                "There are no pairs to show.",
                filter=True,
            ),
            Heading("Worst failures", id="worst"),
            Pictures(
                run.gallery.worst,
                "The gravest first: failures with large errors, or of which the subject was sure. In brackets: its confidence.",
                "There is no failure to show, or none has a picture or text.",
            ),
        ]


@dataclass(frozen=True)
class _Found:
    """A circumstance with what was found under it, level by level (None where it has no levels)."""

    record: CircumstanceRecord
    by_level: Mapping[float | None, Finding]
    run: RunRecord

    @classmethod
    def of(cls, record: CircumstanceRecord, run: RunRecord) -> _Found:
        at = {
            f.about.level: f
            for f in run.findings
            if f.quantity == run.measure.name
            and f.about.circumstance == record.name
            and not (f.about.slice or f.about.supervisor or f.about.module or f.about.versus)
        }
        return cls(record, at, run)

    @property
    def levels(self) -> list[float]:
        return sorted(level for level in self.by_level if level is not None)

    @property
    def worst_level(self) -> float | None:
        sign = 1 if self.run.measure.better == "higher" else -1
        known = {
            level: sign * f.value for level, f in self.by_level.items() if not math.isnan(f.value)
        }
        if known:
            return min(known, key=lambda level: known[level])
        return next(iter(self.by_level), None)

    def at(self, quantity: str, level: float | None) -> Finding | None:
        return self.run.find(quantity, self.record.name, level)

    @property
    def loss(self) -> float | None:
        """The relative drop at the worst level."""
        found = self.at("relative_drop", self.worst_level)
        return None if found is None or math.isnan(found.value) else found.value


def _cells(c: _Found, level: float | None, run: RunRecord) -> list[Cell]:
    """Measure, difference, relative loss, p, failure rate and n at a level."""
    here, difference = c.by_level.get(level), c.at("difference", level)
    p = difference.details.get("p") if difference else None
    failed = f"{here.failed:,} failed" if here is not None and here.failed else ""
    return [
        found_cell(here, wording.style_of(run, run.measure.name), level=False),
        found_cell(difference, wording.style_of(run, "difference"), level=False),
        found_cell(c.at("relative_drop", level), "percent", level=False),
        Cell(numbers.p_value(p)),
        found_cell(c.at("failure_rate", level), "percent", level=False),
        Cell(numbers.count(here.n if here else None), failed),
    ]


def _columns(run: RunRecord) -> list[Column]:
    return [
        Column(run.measure.name),
        Column("Difference"),
        Column("Relative loss", rank=3),
        Column("p, adj.", title="adjusted for the number of circumstances and levels", rank=4),
        Column("Failure rate", rank=2),
        Column("n", rank=1),
    ]


def _circumstances(found: Sequence[_Found], run: RunRecord) -> list[Block]:
    weighed = any(c.record.significance is not None for c in found)
    by = " by risk priority" if weighed else ""
    blocks: list[Block] = [Heading(f"Circumstances{by}", "circumstances", "Circumstances")]
    if not found:
        none = "No circumstances were assessed: only the clean test data was."
        return [*blocks, Text(none, "empty")]
    points = [_point(c) for c in found if c.record.significance is not None and c.loss is not None]
    if points:
        caption = (
            "Where to work first: the risk priority of a circumstance (exposure × likelihood × severity, 1 to 125) "
            "against the relative loss at its worst level. Bars are intervals."
        )
        title = "Risk priority against relative loss"
        draw = drawn(charts.priority_chart, points, title=title)
        blocks.append(Chart("figure-priority", caption, draw))
    order = "highest risk priority first" if weighed else "worst first"
    rows = [
        _forest_row(place_name(c.record.name, c.worst_level), c.by_level[c.worst_level], run)
        for c in found
        if c.worst_level in c.by_level
    ]
    caption = f"{run.measure.name} under each circumstance at its worst level, {order}. Dashed: the clean test data."
    title = f"{run.measure.name} by circumstance"
    blocks += _forest("figure-circumstances", rows, caption, title, "clean", run, order=order)
    columns = [Column("Circumstance", number=False)]
    columns += (
        [Column("Risk priority", title="exposure × likelihood × severity")] if weighed else []
    )
    table = [
        [_name(c), *([_weight(c)] if weighed else []), *_cells(c, c.worst_level, run)]
        for c in found
    ]
    blocks.append(
        Table(
            [*columns, *_columns(run)],
            table,
            name="Circumstances at their worst level",
            caption=wording.intervals_at(run),
            brief=len(table),
        )
    )
    return blocks


def _name(c: _Found) -> Cell:
    several = f"worst of levels {', '.join(map(numbers.level, c.levels))}"
    under = several if len(c.levels) > 1 else "" if c.levels else c.record.kind
    difference = c.at("difference", c.worst_level)
    versus = difference.about.versus if difference else ""
    under += f", against {versus}" if versus not in ("", "clean") else ""
    return Cell(place_name(c.record.name, c.worst_level), under, c.record.description, strong=True)


def _weight(c: _Found) -> Cell:
    r = c.record
    if c.record.significance is None:
        return Cell(numbers.NONE)
    return Cell(f"{c.record.significance:g}", f"{r.exposure} × {r.likelihood} × {r.severity}")


def _slices(run: RunRecord) -> list[Block]:
    blocks: list[Block] = [Heading("Slices", id="slices")]
    if not run.slices:
        none = "No slices were asked for. Name columns of the metadata under `slices` to compare parts of the data."
        return [*blocks, Text(none, "empty")]
    sign = 1 if run.measure.better == "higher" else -1

    def badness(s: SliceRecord) -> tuple[bool, float]:
        f = run.find(run.measure.name, slice=s.name)
        unknown = f is None or math.isnan(f.value)
        return s.too_small, math.inf if unknown or f is None else sign * f.value

    ordered = sorted(run.slices, key=badness)
    judged = [(s, run.find(run.measure.name, slice=s.name)) for s in ordered if not s.too_small]
    rows = [_forest_row(s.name, f, run) for s, f in judged if f is not None]
    small = sum(s.too_small for s in ordered)
    caption = (
        f"{run.measure.name} by slice of the clean test data, worst first. Dashed: all of it."
        + (
            f" {numbers.plural(small, 'slice')} with too few cases only in the table."
            if small
            else ""
        )
    )
    title = f"{run.measure.name} by slice"
    blocks += _forest("figure-slices", rows, caption, title, "overall", run)
    style = wording.style_of(run, run.measure.name)
    table = [
        [
            Cell(s.name),
            found_cell(run.find(run.measure.name, slice=s.name), style, level=False),
            Cell(numbers.count(s.n)),
            Cell("too few cases to judge" if s.too_small else ""),
        ]
        for s in ordered
    ]
    columns = [Column("Slice", number=False), Column(run.measure.name), Column("n")]
    columns.append(Column("Remark", number=False))
    fold = f"All {numbers.plural(len(table), 'slice')} as a table"
    caption = wording.intervals_at(run)
    return [*blocks, Table(columns, table, name="Slices", fold=fold, brief=8, caption=caption)]


def _levels(found: Sequence[_Found], run: RunRecord) -> list[Block]:
    blocks: list[Block] = [Heading("Performance against level", id="levels", short="Against level")]
    leveled = [c for c in found if c.levels]
    if not leveled:
        return [*blocks, Text("No circumstance has levels.", "empty")]
    style = wording.style_of(run, run.measure.name)
    panels = []
    for c in leveled:
        points = []
        for level in c.levels:
            f = c.by_level[level]
            shown = numbers.estimate(f.value, f.interval, f.n, style)
            note = f"{place_name(c.record.name, level)}: {shown.title}"
            points.append(charts.LevelPoint(level, f.value, *_ends(f), note))
        panels.append(charts.LevelPanel(c.record.name, tuple(points)))
    clean = run.find(run.measure.name)
    caption = (
        f"{run.measure.name} against level, with intervals; all panels share one scale. Dashed: the clean test data. "
        + wording.intervals_at(run)
    )
    options: dict[str, Any] = {
        "title": f"{run.measure.name} against level",
        "clean": clean.value if clean else None,
        "style": style,
        "better": run.measure.better,
    }
    draw = drawn(charts.levels_chart, panels, **options)
    blocks.append(Chart("figure-levels", caption, draw))
    rows = [
        [Cell(c.record.name), Cell(numbers.level(level)), *_cells(c, level, run)]
        for c in leveled
        for level in c.levels
    ]
    columns = [Column("Circumstance", number=False), Column("Level"), *_columns(run)]
    return [*blocks, Table(columns, rows, fold="Every level as a table")]


def _forest(
    id: str,
    rows: list[charts.ForestRow],
    caption: str,
    title: str,
    reference: str,
    run: RunRecord,
    order: str = "worst first",
) -> list[Block]:
    if not rows:
        return []
    caption = f"{caption} {wording.intervals_at(run)}"
    if len(rows) > MOST_ROWS:
        caption += f" Only the first {MOST_ROWS} are drawn; the table has the rest."
    clean, style = run.find(run.measure.name), wording.style_of(run, run.measure.name)
    options: dict[str, Any] = {
        "title": title,
        "reference": clean.value if clean else None,
        "reference_label": reference,
        "order": order,
        "style": style,
        "better": run.measure.better,
    }
    return [Chart(id, caption, drawn(charts.forest, rows[:MOST_ROWS], **options))]


def _forest_row(name: str, found: Finding, run: RunRecord) -> charts.ForestRow:
    style = wording.style_of(run, run.measure.name)
    shown = numbers.estimate(found.value, found.interval, found.n, style)
    text = f"{shown.value}  ({shown.interval})" if found.interval else shown.value
    return charts.ForestRow(name, found.value, *_ends(found), f"{name}: {shown.title}", text)


def _point(c: _Found) -> charts.PriorityPoint:
    found = c.at("relative_drop", c.worst_level)
    ends = _ends(found) if found else (None, None)
    shown = numbers.estimate(
        c.loss, found.interval if found else None, found.n if found else None, "percent"
    )
    place = place_name(c.record.name, c.worst_level)
    note = f"{place}: risk priority {c.record.significance:g}, relative loss {shown.title}"
    return charts.PriorityPoint(c.record.name, c.record.significance, c.loss, *ends, note)


def _ends(found: Finding) -> tuple[float | None, float | None]:
    return (found.interval.low, found.interval.high) if found.interval else (None, None)
