"""The section `attacks`: how often an attack makes a right answer wrong, and how far it had to change the image.

The success rate counts the cases that are answered rightly without the attack (Weiss et al. 2023 attack only those).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from roadworthy.analysis import performance
from roadworthy.analysis.observed import Observed
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.section import ClaimPlace, Result, Results, Section, evidence_at, nothing
from roadworthy.claims import Quantity
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import register
from roadworthy.report import numbers
from roadworthy.report.blocks import Block, Cell, Column, Heading, Table, found_cell, place_name
from roadworthy.spec import ClaimSpec
from roadworthy.store.record import Number, RecordPart
from roadworthy.store.record import Record as RunRecord

QUANTITY = "attack_success"


class AttackRecord(RecordPart):
    """One attack at one level."""

    circumstance: str
    level: float | None = None
    attack: str
    parameters: dict[str, float | int | str] = Field(default_factory=dict)
    attacked: int = Field(description="Cases that are answered rightly without the attack")
    linf: Number = Field(
        default=None, description="Median over them of the largest change of a value, white being 1"
    )
    l2: Number = Field(
        default=None, description="Median over them of the root of the sum of squared changes"
    )


class AttacksRecord(RecordPart):
    """All attacks of a run."""

    attacks: list[AttackRecord] = Field(default_factory=list)


@register("sections", "attacks")
class Attacks(Section):
    """Success rate and size of every attack."""

    always = True
    after = ("performance",)
    quantities = (
        Quantity(
            QUANTITY,
            "the share of cases, among those answered rightly without it, that an attack makes wrong.",
            low=0.0,
            high=1.0,
            needs=("circumstance",),
        ),
    )
    Record = AttacksRecord

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """One row an attack and level."""
        record, findings = AttacksRecord(), []
        for seen in observed.seen:
            if plan_attack(plan, seen) is None:
                continue
            record.attacks.append(_recorded(plan, seen, observed.clean))
            evidence = _success(seen.observed, observed.clean, plan.spec.seed)
            findings.append(performance.finding_of(evidence, seen.observed, plan.spec.confidence))
        return Result(record, findings)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The success rate at each place."""

        def known(place: ClaimPlace) -> Evidence:
            name = place.here.circumstance
            if not any(c.name == name and c.attack for c in plan.circumstances):
                return nothing(QUANTITY, f"{name} is no attack", place.here)
            return _success(place.here, place.reference, plan.spec.seed)

        return evidence_at(claim, plan, observed, known, compared=True)

    def view(self, record: AttacksRecord, run: RunRecord) -> list[Block]:
        """A table of attacks."""
        if not record.attacks:
            return []
        rows = [
            [
                Cell(place_name(a.circumstance, a.level), a.attack, strong=True),
                found_cell(run.find(QUANTITY, a.circumstance, a.level), "percent"),
                Cell(numbers.value(a.linf), f"{255 * a.linf:.1f} of 255" if a.linf else ""),
                Cell(numbers.value(a.l2)),
                Cell(numbers.count(a.attacked)),
            ]
            for a in record.attacks
        ]
        columns = [
            Column("Attack", number=False),
            Column("Success", title="of the cases that are right without it"),
            Column("Largest change", title="median; white is 1"),
            Column("L2 change", title="median"),
            Column("Attacked", rank=1),
        ]
        return [
            Heading("Attacks", id="attacks"),
            Table(columns, rows, name="Attacks", brief=len(rows)),
        ]


def plan_attack(plan: Plan, seen: Seen) -> str | None:
    """The attack that made these cases."""
    name = seen.condition.circumstance
    return next((c.attack for c in plan.circumstances if c.name == name), None)


def _success(here: Observed, clean: Observed, seed: int) -> Evidence:
    right = here.take(~clean.failure)
    if not len(right):
        return nothing(QUANTITY, "no case is answered rightly without the attack", here)
    return replace(performance.failure_rate(right, seed=seed), quantity=QUANTITY)


def _recorded(plan: Plan, seen: Seen, clean: Observed) -> AttackRecord:
    made, columns = seen.condition.transform, seen.system.columns
    right = ~clean.failure
    medians = {
        name: float(np.nanmedian(columns[f"attack.{name}"][right])) if right.any() else None
        for name in ("linf", "l2")
    }
    return AttackRecord(
        circumstance=seen.condition.circumstance,
        level=seen.condition.level,
        attack=plan_attack(plan, seen) or "",
        parameters=dict(getattr(made, "parameters", {})),
        attacked=int(right.sum()),
        **medians,
    )
