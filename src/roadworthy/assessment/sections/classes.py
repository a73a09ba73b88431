"""The section `classes`, in every assessment whose answers are class scores: the confusion matrix, and each class.

>>> most_confused([[8, 2], [1, 9]], ["cat", "dog"], ["cat", "dog"])[0]
('cat', 'dog', 2, 0.2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from roadworthy.analysis import classification
from roadworthy.analysis.classification import OperatingPoint
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import (
    ClaimPlace,
    Result,
    Results,
    Section,
    drawn,
    evidence_at,
)
from roadworthy.claims import Quantity
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean, register
from roadworthy.report import charts, numbers, wording
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text, found_cell
from roadworthy.spec import ClaimSpec
from roadworthy.store.record import Record as RunRecord
from roadworthy.store.record import RecordPart, StoredFinding

NO_ANSWER = "no answer"
MOST_DRAWN = 20
"""Classes up to which the whole matrix is drawn."""
MOST_CONFUSIONS = 15
ANSWERED = charts.Ramp("ramp", 0.0, 0.25, ("none of the class", "a quarter or more"), share=True)
"""Confusions differ in shade; right answers all have the strongest."""


class ClassRecord(RecordPart):
    """One class on the clean test cases."""

    name: str
    n: int = Field(description="Cases of the class")
    answered: int = Field(description="Cases answered with it")
    sensitivity: StoredFinding
    precision: StoredFinding
    f1: StoredFinding


class ClassesRecord(RecordPart):
    """What was answered to the clean test cases; empty where answers are no classes."""

    answers: list[str] = Field(default_factory=list, description="Columns of the matrix")
    confusion: list[list[int]] = Field(
        default_factory=list, description="Cases by true class (rows, as `classes`) and answer"
    )
    classes: list[ClassRecord] = Field(default_factory=list)


def _of_class(name: str, meaning: str, *more: str, style: Any = "percent") -> Quantity:
    places = ("circumstance", "slice", "class", *more)
    given: dict[str, Any] = {"style": style, "places": places, "needs": ("class",)}
    kind = CLASS_SCORES.name
    return Quantity(name, meaning, "higher", 0.0, 1.0, **given, of=kind, one_way=True)


@register("sections", "classes")
class Classes(Section):
    """What was answered, class by class: the confusion matrix, sensitivity, precision and F1."""

    always = True
    after = ("performance",)
    Record = ClassesRecord
    quantities = (
        _of_class(
            "sensitivity",
            "the share of the cases of a class that are answered with it (recall). n counts these cases.",
            "threshold",
        ),
        _of_class(
            "specificity",
            "the share of the other cases that are answered otherwise. n counts these cases.",
            "threshold",
        ),
        _of_class(
            "precision",
            "the share of the cases answered with a class that are of it. n counts these cases.",
            "threshold",
        ),
        _of_class(
            "f1",
            "F1 of a class, the harmonic mean of its sensitivity and precision. n counts the cases that are of the "
            "class or answered with it.",
            "threshold",
        ),
        _of_class(
            "auroc",
            "the chance that a case of the class has a higher probability of it than another case: 0.5 is guessing, 1 "
            "is perfect.",
            style="plain",
        ),
        Quantity(
            "ece",
            "expected calibration error, the mean gap between confidence and accuracy in 15 bins of equal counts. Noise "
            "makes it larger; the interval allows for that.",
            low=0.0,
            high=1.0,
            style="plain",
            of=CLASS_SCORES.name,
            one_way=True,
        ),
    )

    def check(self, plan: Plan) -> None:
        """Classes that claims name are known."""
        names = plan.data["test"].classes
        for i, claim in enumerate(plan.spec.claims):
            name, refused = str(claim.class_), ""
            if name and names and name not in names:
                known = ", ".join(names[:MOST_DRAWN])
                refused = f"there is no class {name!r}{did_you_mean(name, names)}; classes: {known}"
            elif name and not names and not name.isdecimal():
                refused = (
                    "the classes have no names; write a position such as 0, or set data: classes"
                )
            if refused:
                raise plan.spec.error(("claims", i, "class"), refused)

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """The matrix and the classes of the clean test cases."""
        clean = observed.clean
        if clean.predicted is None or clean.truth is None or clean.outputs is None:
            return Result(ClassesRecord())
        count = max(clean.outputs.shape[1], int(clean.truth.max()) + 1)
        names = plan.data["test"].classes or [str(i) for i in range(count)]
        matrix = classification.confusion(clean.truth, clean.predicted, len(names))
        found = classification.class_findings(clean, names, confidence=plan.spec.confidence)
        record = ClassesRecord(
            answers=[*names, NO_ANSWER][: matrix.shape[1]],
            confusion=matrix.tolist(),
            classes=[
                ClassRecord(name=name, n=int(row.sum()), answered=int(column.sum()), **values)
                for name, row, column, values in zip(names, matrix, matrix.T, found, strict=False)
            ],
        )
        return Result(record)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """What is known of a class, or of the confidence, at each place."""
        names, name = plan.data["test"].classes, str(claim.class_)

        def known(place: ClaimPlace) -> Evidence:
            if claim.quantity == "ece":
                return classification.calibrated(place.here)
            point = OperatingPoint(names.index(name) if names else int(name), name, claim.threshold)
            return classification.class_evidence(
                place.here, claim.quantity, point, seed=plan.spec.seed
            )

        return evidence_at(claim, plan, observed, known)

    def view(self, record: ClassesRecord, run: RunRecord) -> list[Block]:
        """Each class, and what is taken for what."""
        if not record.classes:
            return []
        many = len(record.classes) > MOST_DRAWN
        return [
            Heading("Classes", id="classes"),
            Text(
                "The clean test cases by class, those with the lowest sensitivity (recall) first. "
                f"{wording.intervals_at(run)}",
                "lead",
            ),
            _table(record),
            *(_confusions(record) if many else _matrix(record)),
        ]


def _table(record: ClassesRecord) -> Table:
    """A row a class, those that are missed most first."""
    ordered = sorted(
        record.classes, key=lambda c: (math.isnan(c.sensitivity.value), c.sensitivity.value)
    )
    rows = [
        [
            Cell(c.name, strong=True),
            *(found_cell(f, "percent", level=False) for f in (c.sensitivity, c.precision, c.f1)),
            Cell(numbers.count(c.n)),
            Cell(numbers.count(c.answered)),
        ]
        for c in ordered
    ]
    columns = [
        Column("Class", number=False),
        Column("Sensitivity", title="share of the class that is answered with it; recall"),
        Column("Precision", title="share of the answers with the class that are right"),
        Column("F1", title="harmonic mean of both"),
        Column("n", title="cases of the class"),
        Column("Answered", title="cases answered with the class"),
    ]
    fold = f"All {len(rows):,} classes" if len(rows) > MOST_DRAWN else ""
    return Table(columns, rows, name="Classes", fold=fold, rest="run.json has all")


def _matrix(record: ClassesRecord) -> list[Block]:
    """The confusion matrix: shares as a picture, counts as a table."""
    names = [c.name for c in record.classes]
    cells = {
        (name, answer): _cell(name, answer, count, sum(row))
        for name, row in zip(names, record.confusion, strict=True)
        for answer, count in zip(record.answers, row, strict=True)
    }
    caption = (
        "Confusion matrix of the clean test data: each row is a true class, each column an answer, and a cell the "
        "share of the class that is answered so. Framed: right answers."
    )
    draw = drawn(
        charts.heat,
        names,
        record.answers,
        cells,
        title="Confusion matrix",
        ramp=ANSWERED,
        turns=False,
    )
    columns = [Column("True class", number=False), *map(Column, record.answers)]
    rows = [
        [name, *map(numbers.count, row)] for name, row in zip(names, record.confusion, strict=True)
    ]
    counts = Table(columns, rows, fold="The confusion matrix in cases", rest="run.json has all")
    return [Chart("figure-confusion", caption, draw), counts]


def _cell(name: str, answer: str, count: int, n: int) -> charts.HeatCell:
    note = f"{name} answered as {answer}: {count:,} of {n:,}"
    return charts.HeatCell(count / n if count else None, note, picked=name == answer)


def _confusions(record: ClassesRecord) -> list[Block]:
    """The most frequent confusions, where the matrix is too large to draw."""
    names = [c.name for c in record.classes]
    found = most_confused(record.confusion, names, record.answers)
    heading = Heading("Most frequent confusions")
    if not found:
        return [heading, Text("No case was confused.", "empty")]
    columns = [Column("True class", number=False), Column("Answer", number=False)]
    columns += [Column("Cases"), Column("Share of the class")]
    rows = [
        [name, answer, numbers.count(count), numbers.value(share, "percent")]
        for name, answer, count, share in found
    ]
    lead = f"The {len(rows)} most frequent confusions. run.json has the whole matrix."
    return [heading, Text(lead, "small"), Table(columns, rows)]


def most_confused(
    matrix: Sequence[Sequence[int]], names: Sequence[str], answers: Sequence[str]
) -> list[tuple[str, str, int, float]]:
    """True class, wrong answer, how many cases, and which share of the class they are; most cases first."""
    found = [
        (names[i], answers[j], count, count / sum(row))
        for i, row in enumerate(matrix)
        for j, count in enumerate(row)
        if count and i != j
    ]
    return sorted(found, key=lambda one: -one[2])[:MOST_CONFUSIONS]
