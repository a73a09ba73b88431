"""The section `prioritisation`: failures found by labelling first what a supervisor calls riskiest.

Conditions are pooled. For testing all failures count; for active learning the labels of circumstances under `without` are
wasted (Weiss et al. 2023, section IV-B: ambiguous inputs).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from roadworthy import numbers
from roadworthy.analysis.prioritisation import LabellingOrder
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, drawn
from roadworthy.execution.plan import Plan
from roadworthy.registry import did_you_mean, register
from roadworthy.report import charts, wording
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text, found_cell
from roadworthy.spec import Assessment, Strict
from roadworthy.statistics.arguments import group_codes
from roadworthy.store.record import Number, RecordPart, StoredFinding
from roadworthy.store.record import Record as RunRecord

CLEAN, IDEAL, RANDOM = "clean", "ideal", "random"
MOST_CURVES = 6
GRID = np.linspace(0, 1, 101) ** 2  # where curves are kept: closer together among the first labels


class LabellingSpec(Strict):
    """Which cases to label first: failures found against labels, by supervisor."""

    example: ClassVar[str] = "prioritisation: {without: [ambiguous], budget: 0.1}"

    conditions: list[str] = Field([], description="By default `clean` and all with right answers")
    without: list[str] = Field([], description="Those whose labels are wasted: ambiguous inputs")
    budget: float = Field(0.1, gt=0, lt=1, description="Share of the cases that is labelled")


class OrderRecord(RecordPart):
    """What labelling in one order finds; labels are expected numbers."""

    name: str = Field(description="The supervisor, or `ideal` or `random`")
    area: StoredFinding = Field(description="0 in random order, 1 with all failures first")
    half: Number = Field(description="Labels until 50% of the failures are found")
    most: Number = Field(description="Labels until 90% of the failures are found")
    found: StoredFinding = Field(description="Share of the failures found within the budget")
    wasted: Number = Field(description="Share of the labels within the budget that is wasted")
    curve: list[tuple[int, Number]] = Field(description="Labels, and share of the failures found")


class LabellingRecord(RecordPart):
    """The pooled cases in every order: supervisors by area, then ideal and random."""

    cases: int
    failures: int = Field(description="Those that count")
    wasted: list[str] = Field(description="Conditions whose labels are wasted")
    budget: int = Field(description="Labels within the budget")
    orders: list[OrderRecord]


class PrioritisationRecord(RecordPart):
    """By aim, and the area by part of the cases and supervisor."""

    aims: dict[str, LabellingRecord] = {}
    areas: dict[str, dict[str, StoredFinding]] = {}


@register("sections", "prioritisation")
class Prioritisation(Section):
    """Failures found against the number of inputs labelled, by supervisor."""

    keys = {"prioritisation": LabellingSpec}
    after = ("supervision",)
    Record = PrioritisationRecord

    def check_file(self, spec: Assessment) -> None:
        """Supervisors rank, and failures are what is to be found."""
        why = spec.never_wrong if spec.supervisors else "No supervisors. Add `supervisors:`."
        asked = spec.part("prioritisation", LabellingSpec) is not None
        if asked and why:
            raise spec.error(("prioritisation",), why)

    def check(self, plan: Plan) -> None:
        """The conditions have cases with right answers."""
        spec, usable = _spec(plan), _usable(plan)
        for key, known in (("conditions", usable), ("without", spec.conditions or usable)):
            for i, name in enumerate(getattr(spec, key)):
                if name not in known:
                    said = f"no cases to label under {name!r}{did_you_mean(name, known)}; known: "
                    raise plan.spec.error(("prioritisation", key, i), said + ", ".join(known))
        if not set(spec.conditions or usable) - set(spec.without):
            said = "names every condition, so that no label would be of use; leave one out"
            raise plan.spec.error(("prioritisation", "without"), said)

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """Every order for both aims, and areas on parts of the cases."""
        spec = _spec(plan)
        names, every = spec.conditions or _usable(plan), (observed.clean, *observed.others)
        parts = [o for o in every if (o.circumstance or CLEAN) in names]
        condition = np.repeat([o.circumstance or CLEAN for o in parts], [len(o) for o in parts])
        failed = np.concatenate([o.failure.astype(bool) for o in parts])
        clusters = np.concatenate([o.clusters for o in parts])
        groups = group_codes(clusters, len(clusters))[0]
        scores = {s: np.concatenate([o.scores[s] for o in parts]) for s in observed.clean.scores}
        rows = {name: condition == name for name in names}
        aims: dict[str, list[str]] = {"Testing": []}
        if spec.without:
            aims["Active learning"] = spec.without
            rows[f"without {wording.listed(spec.without)}"] = ~np.isin(condition, spec.without)
        record = PrioritisationRecord()
        for aim, without in aims.items():
            wasted = np.isin(condition, without)
            given = {**scores, IDEAL: failed & ~wasted, RANDOM: np.zeros(len(failed))}
            orders = {n: LabellingOrder(s, failed, groups, wasted) for n, s in given.items()}
            record.aims[aim] = _recorded(orders, without, plan)
        for part, some in rows.items():
            own = {n: (s[some], failed[some], groups[some]) for n, s in scores.items()}
            made = {n: LabellingOrder(*given) for n, given in own.items()}
            record.areas[part] = {n: o.area_finding(plan.spec.confidence) for n, o in made.items()}
        return Result(record)

    def view(self, record: PrioritisationRecord, run: RunRecord) -> list[Block]:
        """Curves and a table for each aim; areas on parts of the cases."""
        lead = Text(f"Labels go to the riskiest cases first. {wording.intervals_at(run)}", "lead")
        blocks: list[Block] = [Heading("What to label first", id="prioritisation"), lead]
        blocks += [block for aim, part in record.aims.items() for block in _aim(part, aim)]
        columns = [Column("Supervisor", number=False), *map(Column, record.areas)]
        rows = [
            [Cell(n), *(found_cell(f[n], "decimal", level=False) for f in record.areas.values())]
            for n in next(iter(record.areas.values()), {})
        ]
        return [*blocks, Table(columns, rows, css="names", fold="Area on parts of the cases")]


def _spec(plan: Plan) -> LabellingSpec:
    return plan.spec.part("prioritisation", LabellingSpec) or LabellingSpec.model_validate({})


def _usable(plan: Plan) -> list[str]:
    """A filter makes no cases of its own, and those of a source may have no right answer."""
    made = {c.name: c.conditions() for c in plan.circumstances}
    return [CLEAN, *(name for name, some in made.items() if some and all(c.valid for c in some))]


def _recorded(orders: dict[str, LabellingOrder], without: list[str], plan: Plan) -> LabellingRecord:
    spec, n, failures = plan.spec, len(orders[IDEAL]), orders[IDEAL].failures
    budget = max(1, round(_spec(plan).budget * n))
    labelled = np.unique(np.r_[np.round(GRID * n), budget, failures].astype(int))
    found = [
        OrderRecord(
            name=name,
            area=order.area_finding(spec.confidence),
            half=order.labels_for(0.5),
            most=order.labels_for(0.9),
            found=order.found_finding(budget, spec.confidence, spec.seed),
            wasted=order.wasted_labels(budget),
            curve=list(zip(labelled, order.found(labelled).round(5), strict=True)),
        )
        for name, order in orders.items()
    ]
    found.sort(key=lambda o: (o.name in (IDEAL, RANDOM), -np.nan_to_num(o.area.value)))
    return LabellingRecord(cases=n, failures=failures, wasted=without, budget=budget, orders=found)


def _aim(part: LabellingRecord, head: str) -> list[Block]:
    said = f"Failures that count: {part.failures:,} of {part.cases:,} cases."
    said += f" Labels of {wording.listed(part.wasted)} are wasted." if part.wasted else ""
    blocks: list[Block] = [Heading(head), Text(said, "small")]
    *judged, ideal, random = part.orders
    why = ideal.area.reason if judged else "no supervisor applies"
    if why:
        return [*blocks, Text(f"No order is better than another: {why}.", "empty", brief=True)]
    # Up to where the best has found most failures: beyond, all lines meet.
    reach = max(2 * part.budget, judged[0].most or 0)
    points = {o.name: tuple((k, y or 0.0) for k, y in o.curve if k <= reach) for o in part.orders}
    lines = [charts.CurveLine(o.name, points[o.name]) for o in judged[:MOST_CURVES]]
    lines += [charts.CurveLine(name, points[name], aside=True) for name in (IDEAL, RANDOM)]
    title = "Share of the failures found against inputs labelled"
    title += f", by the {MOST_CURVES} largest areas" if len(judged) > MOST_CURVES else ""
    options: dict[str, Any] = {"title": title, "across": "inputs labelled", "up": "failures found"}
    options |= {"named_at_end": True, "mark": (part.budget, f"budget {part.budget:,}")}
    draw = drawn(charts.curves_chart, lines, **options)
    chart = Chart(f"figure-{head.split()[0].lower()}", f"{title}.", draw)
    heads = ["Area", "Labels for 50%", "Labels for 90%", f"Found in {part.budget:,}"]
    heads += [f"Wasted of {part.budget:,}"] if any(o.wasted for o in part.orders) else []
    rows = []
    for o in part.orders:
        area = found_cell(o.area, "decimal", level=False)
        found = found_cell(o.found, "percent", level=False)
        if o in (ideal, random):
            area, found = Cell(area.text), Cell(found.text)
        labels = [Cell(numbers.count(k)) for k in (o.half, o.most)]
        cells = [Cell(o.name), area, *labels, found, Cell(numbers.value(o.wasted, "percent"))]
        rows.append(cells[: 1 + len(heads)])
    columns = [Column("Supervisor", number=False), *map(Column, heads)]
    return [*blocks, chart, Table(columns, rows, name=f"Label first: {head}", brief=len(rows))]
