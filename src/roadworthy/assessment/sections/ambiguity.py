"""The section `ambiguity`, in every assessment: what is answered where labels are split between classes.

It speaks of the conditions whose data has label probabilities: ambiguous cases, annotators' votes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from roadworthy.analysis.ambiguity import (
    OF_DISTRIBUTIONS,
    OVERCONFIDENT,
    CalibrationBin,
    SplitLabels,
)
from roadworthy.analysis.performance import finding_of
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.run_folder import small_png
from roadworthy.assessment.section import ClaimPlace, Result, Results, Section, evidence_at, nothing
from roadworthy.claims import Quantity
from roadworthy.data.samples import DRAWN
from roadworthy.data.values import CLASS_SCORES, IMAGE, Unreadable, probabilities
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.measures.ambiguity import entropy_bits
from roadworthy.registry import register
from roadworthy.report import blocks, numbers, wording
from roadworthy.report.blocks import Block, Cell, Column, Heading, Table, Text, found_cell
from roadworthy.spec import ClaimSpec
from roadworthy.store.record import Number, Pair, RecordPart, StoredFinding
from roadworthy.store.record import Record as RunRecord

SHEET = 24
"""Cases of the sample sheet."""
MEANINGS = {
    "top_1": "the share of cases whose highest score is that of the hard label.",
    "top_2": "the share of cases whose label is among the two highest scores.",
    "top_pair": "the share of cases whose two highest scores are the two most probable classes of the label, "
    "among labels of two classes or more.",
    "expected_accuracy": "the mean probability that labels give the answered class.",
    "answer_entropy": "the mean entropy of the answers, in bits.",
    "label_distance": "the mean total variation distance between answer and label.",
    OVERCONFIDENT: "the share of answers of 90% or more among the cases whose label is split.",
}


class SplitRecord(RecordPart):
    """Cases with label probabilities, under one condition."""

    circumstance: str = ""
    level: Number = None
    n: int
    split: int = Field(description="Cases whose label gives no class more than 75%")
    best: float = Field(description="The mean highest label probability")
    drawn: bool = Field(False, description="Hard labels are draws, so `best` is the best accuracy")
    label_entropy: float = Field(description="Mean entropy of the labels, in bits")
    found: dict[str, StoredFinding] = Field(description="By quantity")
    calibration_error: float = Field(description="Against the labels' distributions")
    bins: list[CalibrationBin] = Field(description="Answers by confidence, in bins")

    @property
    def name(self) -> str:
        """As tables write it."""
        return blocks.place_name(self.circumstance, self.level)


class AmbiguityRecord(RecordPart):
    """What was answered to labels that may be split; empty if no data has label probabilities."""

    places: list[SplitRecord] = Field(default_factory=list)
    sheet: list[Pair] = Field(default_factory=list, description="Cases to look at")


def _quantity(name: str) -> Quantity:
    lower, plain = ("label_distance", OVERCONFIDENT), ("label_distance", "answer_entropy")
    return Quantity(
        name,
        MEANINGS[name],
        better="lower" if name in lower else "higher",
        low=0.0,
        high=math.inf if name == "answer_entropy" else 1.0,
        style="plain" if name in plain else "percent",
        of=CLASS_SCORES.name,
        one_way=name != "answer_entropy",
        is_measure=name in OF_DISTRIBUTIONS,
    )


@register("sections", "ambiguity")
class Ambiguity(Section):
    """What is answered where labels are split between classes, beside what should be."""

    always = True
    after = ("performance",)
    Record = AmbiguityRecord
    quantities = tuple(map(_quantity, MEANINGS))

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """Every condition whose data has label probabilities, and a sheet of cases."""
        every = [o for o in (observed.clean, *observed.others) if o.label_probabilities is not None]
        places = [_place(SplitLabels(o), plan) for o in every]
        record, files = AmbiguityRecord(places=places), dict[str, Callable[[Path], None]]()
        notes = [
            f"{p.name}: labels are drawn from distributions; at best {p.best:.1%} of the answers can be right. A wrong "
            "answer there need not be a mistake (section Ambiguity)"
            for p in places
            if p.drawn and p.split
        ]
        shown = [] if plan.spec.media == "none" else _chosen(plan, observed.seen)
        for number, (seen, row) in enumerate(shown):
            image = plan.data[seen.condition.role].inputs[row : row + 1][0]
            if not isinstance(image, Unreadable):
                record.sheet.append(_pair(plan, seen, row))
                record.sheet[-1].original = f"ambiguity/{number:02d}.png"
                record.sheet[-1].height, record.sheet[-1].width = np.shape(image)[:2]
                files[f"ambiguity/{number:02d}.png"] = functools.partial(_write, small_png(image))
        return Result(record, files=files, notes=notes)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The quantity at each place."""

        def known(place: ClaimPlace) -> Evidence:
            if place.here.label_probabilities is None:
                return nothing(claim.quantity, "its data has no label probabilities", place.here)
            return SplitLabels(place.here).evidence(claim.quantity, seed=plan.spec.seed)

        return evidence_at(claim, plan, observed, known)

    def view(self, record: AmbiguityRecord, run: RunRecord) -> list[Block]:
        """What answers should be like and what they are, and the sheet."""
        if not record.places:
            return []
        lead = (
            "Labels here are distributions over classes. Where a label is split, no single answer is right: a model should "
            "split its answer in the same way. "
        )
        truth = "Truth: the label's two most probable classes. Predicted: the two of highest probability."
        sheet = [
            Heading("Split labels to look at"),
            blocks.Pictures(record.sheet, truth, "No picture can be shown."),
        ]
        return [
            Heading("Ambiguity", id="ambiguity"),
            Text(lead + wording.intervals_at(run), "lead"),
            Text([_said(place) for place in record.places], "list"),
            _table(record),
            _calibrated(record),
            *(sheet if record.sheet else ()),
        ]


def _place(cases: SplitLabels, plan: Plan) -> SplitRecord:
    here, labels = cases.here, cases.labels
    bins, error = cases.calibration()
    found = {name: cases.evidence(name, seed=plan.spec.seed) for name in MEANINGS}
    return SplitRecord(
        circumstance=here.circumstance,
        level=here.level,
        n=len(here),
        split=int(cases.split.sum()),
        best=float(labels.max(axis=1).mean()),
        drawn=DRAWN in plan.data[here.role].notes,
        label_entropy=float(entropy_bits(labels).mean()),
        found={name: finding_of(e, here, plan.spec.confidence) for name, e in found.items()},
        calibration_error=error,
        bins=bins,
    )


def _said(place: SplitRecord) -> str:
    """What answers should be like, and what they are."""
    if place.found["answer_entropy"].reason:
        return f"{place.name}: {place.split:,} of {place.n:,} labels are split; {place.found['answer_entropy'].reason}."
    said = (
        f"{place.name}: {place.split:,} of {place.n:,} labels are split. Answers should have {place.label_entropy:.2f} bits "
        f"of entropy, as the labels have, and a highest probability near {place.best:.0%}. They have "
        f"{place.found['answer_entropy'].value:.2f} bits"
    )
    sure = f", and {place.found[OVERCONFIDENT].value:.1%} of the answers to split labels are 90% or more"
    return f"{said}{sure if place.split else ''}."


def _table(record: AmbiguityRecord) -> Table:
    columns = [
        Column("Condition", number=False),
        Column("Top-1", title="the highest score is that of the hard label"),
        Column("Top-2", title="the label is among the two highest", rank=1),
        Column("Top pair", title="the two highest are the label's two most probable classes"),
        Column("Entropy", title="mean entropy of the answers, in bits"),
        Column("Distance", title="total variation distance between answer and label", rank=1),
        Column("Overconfident", title="answers of 90% or more where the label is split"),
        Column("Calibration error", title="against the labels' distributions", rank=2),
        Column("n", rank=1),
    ]
    rows = []
    for p in record.places:
        should = {
            "top_1": f"best possible {p.best:.1%}" if p.drawn else "",
            "top_2": "",
            "top_pair": "should be 100%",
            "answer_entropy": f"should be {p.label_entropy:.2f}",
            "label_distance": "should be 0",
            OVERCONFIDENT: "should be 0%",
        }
        cells = [
            found_cell(p.found[name], _quantity(name).style, level=False, more=more)  # type: ignore[arg-type]
            for name, more in should.items()
        ]
        error = Cell(numbers.value(p.calibration_error))
        count = Cell(numbers.count(p.n), f"{p.split:,} split")
        rows.append([Cell(p.name, strong=True), *cells, error, count])
    return Table(columns, rows, name="Ambiguity", brief=len(rows), rest="run.json has all")


def _calibrated(record: AmbiguityRecord) -> Table:
    columns = [Column("Condition", number=False), Column("Mean highest probability of the answers")]
    columns += [Column("Mean probability of these classes in the labels"), Column("Cases")]
    rows = [
        [p.name, f"{answer:.1%}", f"{label:.1%}", f"{n:,}"]
        for p in record.places
        for answer, label, n in p.bins
    ]
    return Table(columns, rows, fold="Calibration against the labels, in 10 bins of confidence")


def _chosen(plan: Plan, seen: Sequence[Seen]) -> list[tuple[Seen, int]]:
    """Images with a split label, unchanged by transforms, from all parts of their data sets."""
    found: list[tuple[Seen, int]] = []
    plain = [s for s in seen if s.condition.transform is None]
    sets = [s for s in plain if s.observed.label_probabilities is not None]
    for s in (s for s in sets if plan.data[s.condition.role].input_kind is IMAGE):
        rows = np.flatnonzero(SplitLabels(s.observed).split)
        at = np.linspace(0, len(rows) - 1, min(len(rows), SHEET // len(sets))).astype(int)
        found += [(s, row) for row in rows[at].tolist()]
    return found


def _pair(plan: Plan, seen: Seen, row: int) -> Pair:
    """A case of the sheet, without its picture."""
    data, here = plan.data[seen.condition.role], seen.observed
    assert here.outputs is not None and here.predicted is not None
    two = functools.partial(_two, classes=data.classes)
    answered = here.predicted[row] >= 0
    return Pair(
        sample=str(data.ids[row]),
        case=seen.condition.case_id(data.ids[row]),
        circumstance=here.circumstance,
        truth=two(SplitLabels(here).labels[row]),
        prediction=two(probabilities(here.outputs[[row]])[0]) if answered else "no answer",
    )


def _two(chances: np.ndarray, classes: Sequence[str] | None) -> str:
    """The two most probable classes: ``Shirt 52%, Coat 48%``."""
    first = np.argsort(-chances, kind="stable")[:2].tolist()
    return ", ".join(f"{classes[c] if classes else c} {chances[c]:.0%}" for c in first)


def _write(content: bytes, file: Path) -> None:
    file.write_bytes(content)
