"""The section `classes`, in every assessment whose answers are class scores: the confusion matrix, and each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from roadworthy.analysis import classification
from roadworthy.analysis.performance import finding_of
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import ClaimPlace, Result, Results, Section, drawn, evidence_at
from roadworthy.claims import Quantity
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean, register
from roadworthy.report import charts, numbers, wording
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text, found_cell
from roadworthy.spec import ClaimSpec
from roadworthy.statistics.arguments import group_codes
from roadworthy.store.record import Record as RunRecord
from roadworthy.store.record import RecordPart, StoredFinding

RATES = ("sensitivity", "precision", "f1")
MEANINGS = {
    "sensitivity": "the share of the cases of a class that are answered with it (recall).",
    "specificity": "the share of the cases of other classes that are not answered with it.",
    "precision": "the share of the cases answered with a class that are of it.",
    "f1": "the harmonic mean of the sensitivity and the precision of a class.",
    "auroc": "the chance that a case of a class has a higher probability of it than another case has.",
    "ece": "expected calibration error: mean gap of confidence and accuracy in 15 bins of equal counts.",
}
MOST_DRAWN = 20
"""Classes up to which the whole matrix is drawn."""
MOST_CONFUSIONS = 15
ANSWERED = charts.Ramp("ramp", 0.0, 0.25, ("none of the class", "a quarter or more"), share=True)
"""Confusions differ in shade; right answers all have the strongest."""


class ClassRecord(RecordPart):
    """One class on the clean test cases."""

    name: str
    n: int = Field(description="Cases of the class")
    sensitivity: StoredFinding
    precision: StoredFinding
    f1: StoredFinding


class ClassesRecord(RecordPart):
    """What was answered to the clean test cases; empty where answers are no classes."""

    classes: list[ClassRecord] = Field(default_factory=list, description="Rows of the matrix")
    answers: list[str] = Field(default_factory=list, description="Columns of the matrix")
    confusion: list[list[int]] = Field(default_factory=list, description="How many cases")


def _quantity(name: str) -> Quantity:
    """Of a class at an operating point, of a class (auroc), or of none (ece)."""
    keys = {"auroc": ("class",), "ece": ()}.get(name, ("class", "threshold"))
    style, better = "percent" if len(keys) > 1 else "plain", "higher" if keys else "lower"
    given: dict[str, Any] = {"better": better, "low": 0.0, "high": 1.0, "style": style}
    given |= {"places": ("circumstance", "slice", *keys), "needs": keys[:1], "one_way": True}
    return Quantity(name, MEANINGS[name], of=CLASS_SCORES.name, **given)


@register("sections", "classes")
class Classes(Section):
    """What was answered, class by class: the confusion matrix, sensitivity, precision and F1."""

    always = True
    after = ("performance",)
    Record = ClassesRecord
    quantities = tuple(map(_quantity, MEANINGS))

    def check(self, plan: Plan) -> None:
        """Classes that claims name are known."""
        names = plan.data["test"].classes or ()
        for i, claim in enumerate(plan.spec.claims):
            name = str(claim.class_) if claim.quantity in MEANINGS else ""
            if name and not (name in names if names else name.isdecimal()):
                known = ", ".join(names[:MOST_DRAWN]) or "positions such as 0"
                refused = f"there is no class {name!r}{did_you_mean(name, names)}; classes: {known}"
                raise plan.spec.error(("claims", i, "class"), refused)

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """The matrix and the classes of the clean test cases."""
        clean = observed.clean
        if clean.predicted is None or clean.truth is None or clean.outputs is None:
            return Result(ClassesRecord())
        count = max(clean.outputs.shape[1], int(clean.truth.max()) + 1)
        names = plan.data["test"].classes or [str(i) for i in range(count)]
        matrix, classes = classification.confusion(clean.truth, clean.predicted, len(names)), []
        if clean.groups is not None:  # as numbers, since every class groups its cases anew
            clean = replace(clean, groups=group_codes(clean.groups, len(clean))[0])
        for i, name in enumerate(names):
            found = {q: classification.class_evidence(clean, q, i, name) for q in RATES}
            rates = {q: finding_of(e, clean, plan.spec.confidence) for q, e in found.items()}
            classes.append(ClassRecord(name=name, n=int(matrix[i].sum()), **rates))
        answers = [*names, "no answer"][: matrix.shape[1]]
        return Result(ClassesRecord(classes=classes, answers=answers, confusion=matrix.tolist()))

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """What is known of a class, or of the confidence, at each place."""
        names, name, quantity = plan.data["test"].classes, str(claim.class_), claim.quantity

        def known(place: ClaimPlace) -> Evidence:
            if quantity == "ece":
                return classification.calibrated(place.here)
            at = names.index(name) if names else int(name)
            return classification.class_evidence(place.here, quantity, at, name, claim.threshold)

        return evidence_at(claim, plan, observed, known)

    def view(self, record: ClassesRecord, run: RunRecord) -> list[Block]:
        """Each class, and what is taken for what."""
        if not record.classes:
            return []
        lead = "The clean test cases by class, the lowest sensitivity (recall) first. "
        return [
            Heading("Classes", id="classes"),
            Text(lead + wording.intervals_at(run), "lead"),
            _table(record),
            *(_matrix(record) if len(record.classes) <= MOST_DRAWN else _confusions(record)),
        ]


def _table(record: ClassesRecord) -> Table:
    """A row a class, those that are missed most first."""
    heads = ("Sensitivity", "Precision", "F1", "n")
    columns = [Column("Class", number=False), *map(Column, heads)]
    rows: list[list[Cell | str]] = []
    for c in sorted(record.classes, key=lambda c: c.sensitivity.value if c.n else 2.0):
        rates = [found_cell(getattr(c, q), "percent", level=False) for q in RATES]
        rows.append([Cell(c.name, strong=True), *rates, f"{c.n:,}"])
    fold = f"All {len(rows):,} classes" if len(rows) > MOST_DRAWN else ""
    return Table(columns, rows, fold=fold, rest="run.json has all")


def _matrix(record: ClassesRecord) -> list[Block]:
    """The confusion matrix: shares as a picture, counts as a table."""
    cells, rows = {}, []
    for true, counts in zip(record.classes, record.confusion, strict=True):
        rows.append([true.name, *map(numbers.count, counts)])
        for answer, count in zip(record.answers, counts, strict=True):
            note = f"{true.name} answered as {answer}: {count:,} of {true.n:,}"
            share = count / true.n if count else None
            cells[true.name, answer] = charts.HeatCell(share, note, picked=true.name == answer)
    caption = (
        "Confusion matrix of the clean test data: each row is a true class, each column an answer, and a cell the "
        "share of the class that is answered so. Framed: right answers."
    )
    names, options = [c.name for c in record.classes], {"ramp": ANSWERED, "turns": False}
    draw = drawn(charts.heat, names, record.answers, cells, title="Confusion matrix", **options)
    columns = [Column("True class", number=False), *map(Column, record.answers)]
    fold = "The confusion matrix in cases"
    return [Chart("figure-confusion", caption, draw), Table(columns, rows, fold=fold)]


def _confusions(record: ClassesRecord) -> list[Block]:
    """The most frequent confusions, where the matrix is too large to draw."""
    found = sorted(
        (
            (-count, true.name, answer, numbers.value(count / true.n, "percent"))
            for true, row in zip(record.classes, record.confusion, strict=True)
            for answer, count in zip(record.answers, row, strict=True)
            if count and answer != true.name
        )
    )[:MOST_CONFUSIONS]
    columns = [Column("True class", number=False), Column("Answer", number=False)]
    columns += [Column("Cases"), Column("Share of the class")]
    rows = [[true, answer, f"{-count:,}", share] for count, true, answer, share in found]
    lead = "run.json has the whole matrix." if found else "No case was confused."
    return [Heading("Most frequent confusions"), Text(lead, "small"), Table(columns, rows)]
