"""The section `breaks`: for circumstances with ``breaks_at: true`` the smallest strength at which each case fails.

Strength is the level of the table, interpolated between its rows, or the size of an attack. The response is not assumed to be
monotone: strengths are scanned, and the first gap after which the answer is wrong is halved. Cases that are wrong without any
change are left out and counted; those that never fail stay in the denominator.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, drawn
from roadworthy.cases.circumstance import Search
from roadworthy.execution.plan import Plan, Wants
from roadworthy.registry import get, register
from roadworthy.report import charts, numbers
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table
from roadworthy.statistics import clustered_proportion
from roadworthy.store.record import Record as RunRecord
from roadworthy.store.record import RecordPart, StoredInterval

SEARCH = "breaks_at"
POINTS = 10
"""Strengths of the curve that is kept."""


class BrokenShare(RecordPart):
    """The share of cases that fail at or below a strength."""

    strength: float
    share: float
    interval: StoredInterval


class BreaksRecord(RecordPart):
    """One circumstance: where cases break."""

    circumstance: str
    unit: str = Field(description="level, or epsilon of an attack")
    highest: float
    cases: int = Field(description="Cases that are right without a change")
    wrong_before: int
    never: int = Field(description="Cases that hold up to the highest strength")
    median: float | None = Field(
        default=None, description="Strength at which half of them have failed"
    )
    curve: list[BrokenShare] = Field(default_factory=list)


class AllBreaksRecord(RecordPart):
    """Every circumstance that was searched."""

    circumstances: list[BreaksRecord] = Field(default_factory=list)


@register("sections", "breaks")
class Breaks(Section):
    """The smallest strength at which each case fails."""

    always = True
    after = ("performance",)
    Record = AllBreaksRecord

    def check(self, plan: Plan) -> None:
        """Refuse a transform whose strength has no order."""
        for c in plan.circumstances:
            if not c.breaks_at:
                continue
            place = ("circumstances", c.name, "breaks_at")
            if all(getattr(m, "whole_case", False) for m in plan.subject.modules.values()):
                raise plan.spec.error(
                    place, "asks the subject again and again; answers in files are not enough"
                )
            if c.attack and "epsilon" not in get("attacks", c.attack).parameters:
                raise plan.spec.error(place, f"{c.attack} has no epsilon to search; leave it out")
            with plan.spec.located(place):
                traits = get("transforms", c.transform).traits if c.transform else {}
                if traits.get("strength") is False:
                    raise ValueError(
                        f"the levels of {c.transform} are not ordered by strength; leave it out"
                    )
                if not c.strongest > 0:
                    raise ValueError("there is no strength to search; give levels, or an epsilon")

    def wants(self, plan: Plan) -> Wants:
        """One search a circumstance."""
        names = [c.name for c in plan.circumstances if c.breaks_at]
        return Wants(searches=tuple((name, Search(SEARCH)) for name in names))

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """The curve of each circumstance."""
        found = [
            _breaks(plan, observed, c.name, "epsilon" if c.attack else "level")
            for c in plan.circumstances
            if c.breaks_at
        ]
        return Result(AllBreaksRecord(circumstances=found))

    def view(self, record: AllBreaksRecord, run: RunRecord) -> list[Block]:
        """A panel and a row a circumstance."""
        if not record.circumstances:
            return []
        panels = [
            charts.LevelPanel(
                c.circumstance,
                tuple(
                    charts.LevelPoint(
                        float(f"{p.strength:.2g}"),
                        p.share,
                        p.interval.low,
                        p.interval.high,
                        f"{c.circumstance}: {p.share:.1%} fail at or below {c.unit} {p.strength:.3g}",
                    )
                    for p in c.curve
                ),
            )
            for c in record.circumstances
        ]
        caption = (
            "Share of cases that fail at or below each strength, of those that are right without a change. "
            "Bands are intervals."
        )
        options = {"title": "Breaks at", "clean": None, "style": "percent", "better": "lower"}
        columns = [
            Column("Circumstance", number=False),
            Column("Half fail by"),
            Column("Never fail"),
            Column("Cases"),
            Column("Wrong before", rank=1),
        ]
        rows = [
            [
                Cell(c.circumstance, f"{c.unit} 0 to {c.highest:.3g}", strong=True),
                Cell(numbers.value(c.median)),
                Cell(numbers.count(c.never)),
                Cell(numbers.count(c.cases)),
                Cell(numbers.count(c.wrong_before)),
            ]
            for c in record.circumstances
        ]
        return [
            Heading("Where cases break", id="breaks"),
            Chart("figure-breaks", caption, drawn(charts.levels_chart, panels, **options)),
            Table(columns, rows, name="Where cases break", brief=len(rows)),
        ]


def _breaks(plan: Plan, observed: Observations, name: str, unit: str) -> BreaksRecord:
    strength, found, before = observed.searched[f"{name}@{SEARCH}"].T
    right = before == 0
    broken = np.where(found > 0, strength, np.inf)[right]
    groups = None if observed.clean.groups is None else observed.clean.groups[right]
    highest = plan.circumstance(name).strongest
    curve = []
    for at in np.linspace(0, highest, POINTS + 1)[1:] if right.any() else ():
        failed = (broken <= at + 1e-12).astype(float)
        interval = clustered_proportion(failed, groups, confidence=plan.spec.confidence)
        curve.append(BrokenShare(strength=float(at), share=float(failed.mean()), interval=interval))
    median = float(np.median(broken)) if right.any() else np.inf
    return BreaksRecord(
        circumstance=name,
        unit=unit,
        highest=highest,
        cases=int(right.sum()),
        wrong_before=int((~right).sum()),
        never=int(np.isinf(broken).sum()),
        median=median if np.isfinite(median) else None,
        curve=curve,
    )
