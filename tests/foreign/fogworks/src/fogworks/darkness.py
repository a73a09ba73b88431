"""A section of the assessment file: how often cases of each condition fail although they are well lit."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, places
from roadworthy.claims import Quantity
from roadworthy.execution.plan import Plan, Wants
from roadworthy.finding import Evidence, Finding
from roadworthy.report.blocks import Block, Cell, Column, Heading, Table, Text
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.statistics import Interval, clopper_pearson
from roadworthy.store.record import Record as RunRecord
from roadworthy.subject.needs import Output


class DarknessSpec(BaseModel):
    """Which failures count: those of answers surer than `sure`."""

    model_config = ConfigDict(extra="forbid")

    sure: float = Field(0.5, ge=0, lt=1, description="Answers at least this sure")


class Counted(BaseModel):
    """Sure failures under one condition."""

    condition: str
    sure_failures: int
    cases: int


class DarknessRecord(BaseModel):
    """Sure failures by condition."""

    sure: float
    conditions: list[Counted]


class Darkness(Section):
    """How often the subject is wrong and sure of it."""

    keys = {"darkness": DarknessSpec}
    after = ("performance",)
    quantities = (
        Quantity("sure_failure_rate", "the share of cases that are wrong and sure.", low=0, high=1),
    )
    Record = DarknessRecord

    def check_file(self, spec: Assessment) -> None:
        """Nothing beyond its own model."""
        part = spec.part("darkness", DarknessSpec)
        if part is not None and part.sure > 0.99:
            raise spec.error(("darkness", "sure"), "leaves no case over")

    def wants(self, plan: Plan) -> Wants:
        """The answers are enough."""
        assert Output()
        return Wants()

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """Counts, and a finding for each condition."""
        assert results["performance"].findings
        part = plan.spec.part("darkness", DarknessSpec) or DarknessSpec()
        rows, findings = [], []
        for seen in observed.seen:
            wrong = self._wrong(seen.observed, part.sure)
            k, n = int(wrong.sum()), len(wrong)
            rows.append(Counted(condition=seen.observed.name, sure_failures=k, cases=n))
            findings.append(
                Finding(
                    "sure_failure_rate",
                    k / n,
                    clopper_pearson(k, n, confidence=plan.spec.confidence),
                    n,
                    about=seen.observed.about,
                    better="lower",
                )
            )
        return Result(DarknessRecord(sure=part.sure, conditions=rows), findings, ["Dark note."])

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """One for each place that the claim speaks of."""
        return [self._evidence(p.here, result.record) for p in places(claim, plan.spec, observed)]

    def view(self, record: DarknessRecord, run: RunRecord) -> list[Block]:
        """One table."""
        rows = [
            [Cell(c.condition), Cell(str(c.sure_failures)), Cell(str(c.cases))]
            for c in record.conditions
        ]
        columns = [Column("Condition", number=False), Column("Sure failures"), Column("n")]
        return [
            Heading("Darkness", id="darkness"),
            Text(f"Answers at least {record.sure:g} sure, of {run.subject.task}.", "lead"),
            Table(columns, rows, name="Darkness", brief=3),
        ]

    def _wrong(self, here: Any, sure: float) -> np.ndarray:
        return np.asarray(here.failure & (here.scored.error >= sure))

    def _evidence(self, here: Any, record: Any) -> Evidence:
        wrong = self._wrong(here, record.sure)
        k, n = int(wrong.sum()), len(wrong)

        def interval(confidence: float, sided: Any) -> Interval:
            return clopper_pearson(k, n, confidence=confidence, sided=sided)

        return Evidence("sure_failure_rate", here.about, k / n, n, "lower", interval)
