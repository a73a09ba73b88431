"""What one method adds to an assessment: a section.

A section is one file in `assessment/sections/`, or a class that another package offers under the entry point
``roadworthy.sections``. It declares its part of the assessment file, what it requests of the subject, how it analyses what was
observed, the quantities that claims may name, and how its record is shown. Nothing else has to be edited: the model of the
file, the JSON schemas, the order of work, the claims and the reports are composed of what the sections declare. A class of its
own is enough; `Section` has the defaults.

>>> class Empty(Section):
...     '''Counts nothing.'''
>>> Empty().wants(None) == Wants()
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from roadworthy.analysis import performance
from roadworthy.analysis.observed import Observed
from roadworthy.assessment.observations import Observations, slice_label
from roadworthy.assessment.supervisors import with_supervisors
from roadworthy.claims import Quantity
from roadworthy.data.samples import Dataset
from roadworthy.execution.plan import Plan, Wants, resolve
from roadworthy.execution.progress import Progress
from roadworthy.finding import About, Evidence, Finding
from roadworthy.registry import RegistryError
from roadworthy.report.blocks import Block
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.spec.limits import installed_sections
from roadworthy.statistics import Interval
from roadworthy.store.record import Record as RunRecord
from roadworthy.subject.system import System

EVERY = "*"
"""In `after`: all sections that do not come last themselves."""


class Nothing(BaseModel):
    """The record of a section whose findings say all."""


@dataclass(frozen=True)
class Result:
    """What a section found."""

    record: BaseModel
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    """What a reader of the run should know."""
    warnings: Sequence[str] = ()
    """What changes how to read the run; shown before all numbers."""
    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    """What is written into the section's folder of the run: ``NAME/file`` and who writes it."""


Results = Mapping[str, Result]


class Section:
    """The defaults of a section."""

    keys: ClassVar[Mapping[str, Any]] = {}
    """Top-level keys of the file that it owns: a pydantic model, or a pair of type and pydantic `Field`."""
    always: ClassVar[bool] = False
    """Whether it runs in every assessment; otherwise if the file has one of its keys."""
    after: ClassVar[tuple[str, ...]] = ()
    """Sections whose results it reads."""
    quantities: ClassVar[tuple[Quantity, ...]] = ()
    """What claims may name."""
    Record: ClassVar[type[BaseModel]] = Nothing
    """The model of what stands at ``sections.NAME`` of the run's record."""

    def check_file(self, spec: Assessment) -> None:
        """Refuse what cannot be meant, before anything is loaded; claims that follow from its part may be added."""

    def check(self, plan: Plan) -> None:
        """Refuse what cannot be done with this subject and these data, before any case runs."""

    def wants(self, plan: Plan) -> Wants:
        """What it requests of the subject beyond the answers to the test cases."""
        return Wants()

    def wants_more(self, plan: Plan, observed: Observations) -> Wants:
        """What it requests in view of what was observed; asked again until it wants nothing more."""
        return Wants()

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """The record and the findings, from tables alone; `results` are those of the sections in `after`."""
        return Result(Nothing())

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """What a claim on one of its quantities is judged on, place by place (see `places`)."""
        return []

    def view(self, record: Any, run: RunRecord) -> list[Block]:
        """Its part of the reports: `record` is its own, `run` the whole one with its findings."""
        return []


def sections_of(spec: Assessment) -> dict[str, Section]:
    """The sections that run in an assessment, each after those whose results it reads; ours before those of other packages."""
    known = installed_sections()
    given = spec.model_fields_set
    chosen = [name for name, s in known.items() if s.always or given & set(s.keys)]
    chosen.sort(key=lambda name: not known[name].__module__.startswith("roadworthy."))
    ordered: dict[str, Section] = {}
    while len(ordered) < len(chosen):
        waiting = [name for name in chosen if name not in ordered]
        ready = [name for name in waiting if not _awaited(name, waiting)]
        if not ready:
            raise RegistryError(f"the sections {', '.join(waiting)} wait for each other")
        ordered[ready[0]] = known[ready[0]]()
    return ordered


def _awaited(name: str, waiting: Sequence[str]) -> list[str]:
    """Which of those that have not run yet a section comes after."""
    known = installed_sections()
    if EVERY in known[name].after:
        return [w for w in waiting if EVERY not in known[w].after]
    return [w for w in waiting if w in known[name].after]


def with_wants(plan: Plan) -> Plan:
    """The plan with its supervisors, and all that they and the sections want."""
    plan = with_supervisors(plan)
    for section in sections_of(plan.spec).values():
        plan = replace(plan, wants=plan.wants | section.wants(plan))
    return plan


def plan_assessment(
    spec: Assessment,
    *,
    subject: System | None = None,
    data: Mapping[str, Dataset] | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> Plan:
    """All that an assessment will do, checked by every section before the first case runs."""
    from roadworthy.assessment.judgement import check_claims

    plan = with_wants(resolve(spec, subject=subject, data=data, keep=keep, progress=progress))
    plan.check_case_ids()
    for section in sections_of(spec).values():
        section.check(plan)
    check_claims(plan)
    return plan


@dataclass(frozen=True)
class ClaimPlace:
    """Cases that a claim speaks of, and those that they are compared with."""

    here: Observed
    reference: Observed
    part: bool = False
    """Whether it is one slice of many, which is judged only if it is large enough."""


def places(claim: ClaimSpec, spec: Assessment, observed: Observations) -> list[ClaimPlace]:
    """Every place that a claim speaks of."""
    pairs = [(observed.clean, observed.clean)]
    if claim.circumstance or claim.every == "circumstances":
        pairs = [
            (o, r)
            for o, r in zip(observed.others, observed.references, strict=True)
            if claim.circumstance in ("", o.circumstance) and claim.level in (None, o.level)
        ]
    for column, wanted in claim.slice.items():
        label = slice_label(wanted)
        pairs = [(o.cut(column, label), r.cut(column, label)) for o, r in pairs]
    if claim.every in ("", "circumstances"):
        return [ClaimPlace(o, r) for o, r in pairs]
    columns = spec.slices if claim.every == "slices" else [claim.every]
    return [
        ClaimPlace(o.cut(column, label), r.cut(column, label), part=True)
        for o, r in pairs
        for column in columns
        for label in o.contents(column)
    ]


def evidence_at(
    claim: ClaimSpec,
    plan: Plan,
    observed: Observations,
    known: Callable[[ClaimPlace], Evidence],
    *,
    compared: bool = False,
) -> list[Evidence]:
    """What is `known` at every place that a claim speaks of, or why nothing can be judged there.

    `compared`: whether the quantity compares with the reference of the place.
    """
    found = []
    for place in places(claim, plan.spec, observed):
        if len(place.here) == 0:
            evidence = nothing(claim.quantity, "no case is in this slice", place.here)
        elif compared and len(place.reference) == 0:
            reason = (
                f"no case of {place.here.versus} is in this slice, so there is nothing to compare"
            )
            evidence = nothing(claim.quantity, reason, place.here)
        else:
            evidence = known(place)
        if place.part:
            evidence = performance.judged_if_large(evidence, plan.spec.smallest_slice)
        found.append(evidence)
    return found


def nothing(quantity: str, reason: str, here: Observed | None = None) -> Evidence:
    """That nothing can be judged, and why; at one place, or over all cases."""

    def interval(confidence: float, sided: Any) -> Interval:
        return Interval(-math.inf, math.inf, confidence, "nothing observed")

    about, n = (About(), 0) if here is None else (here.about, len(here))
    better = "lower" if here is None else here.scored.better
    return Evidence(quantity, about, math.nan, n, better, interval, proportion=False, reason=reason)


def drawn(draw: Callable[..., str], *content: Any, **options: Any) -> Callable[[float], str]:
    """A chart of a section, to be drawn at any width."""
    return lambda width: draw(*content, width=width, **options)
