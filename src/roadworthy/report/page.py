"""The frame of every report, as blocks: claims, sections, what was used, and how to repeat it.

>>> _file_name("/home/me/data/test.npz"), _file_name("D:\\\\data\\\\a.csv")
('test.npz', 'a.csv')
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel

from roadworthy import numbers, registry
from roadworthy.finding import Finding
from roadworthy.report import wording
from roadworthy.report.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Facts,
    Heading,
    Table,
    Text,
    plain_view,
)
from roadworthy.report.charts import ClaimRow, claims_chart
from roadworthy.store.record import STATUSES, ClaimRecord, DataRecord, Judged, Record

LONGEST_FILE = 40_000
"""Characters of the assessment file in the page."""


def page(run: Record) -> list[Block]:
    """All of a report."""
    return [
        *claim_blocks(run),
        *section_blocks(run),
        *_use(run),
        *_used(run),
        *_method(run),
        *_repeat(run),
    ]


def section_blocks(run: Record) -> list[Block]:
    """What the sections show, in the order in which they ran."""
    known = registry.components("sections")
    blocks: list[Block] = []
    for name, content in run.sections.items():
        if name in known and isinstance(content, BaseModel):
            blocks += known[name].build().view(content, run)
        else:
            blocks += plain_view(name, content)
    return blocks


def claim_blocks(run: Record) -> list[Block]:
    """Every claim against its limit."""
    blocks: list[Block] = [Heading("Claims", id="claims")]
    if not run.claims:
        none = "No claims were made. Add `claims` to the assessment file to have this run judged."
        return [*blocks, Text(none, "empty")]
    sure = {c.confidence for c in run.claims}
    at = f"at {numbers.confidence(sure.pop())}" if len(sure) == 1 else "at the claim's confidence"
    several = " A claim over several places is met if each place is; a breach is corrected for their number."
    blocks.append(
        Text(
            f"A claim is met if its pessimistic one-sided bound ({at}) keeps the limit, breached if even the optimistic "
            "bound does not, else inconclusive. Under each value: from the lower to the upper of these bounds."
            + (several if any(c.members for c in run.claims) else ""),
            "lead",
        )
    )
    rows = [_chart_row(run, c) for c in run.claims]
    caption = (
        "Value (disc: met, diamond: breached, circle: inconclusive) and the bound that decided (end of the thick bar) "
        "against the limit (tick; the arrow points to the side that holds). Thin grey bar: from the lower to the upper "
        "bound. Small grey circles: the places of a claim over several."
    )
    blocks.append(
        Chart(
            "figure-claims",
            caption,
            lambda width: claims_chart(rows, title="Claims against their limits", width=width),
        )
    )
    urgent = sorted(run.claims, key=lambda c: STATUSES.index(c.status))
    columns = [Column("Claim", number=False), Column("Status", number=False), Column("Value")]
    columns += [Column("Bound"), Column("Limit"), Column("n", rank=None)]
    blocks.append(
        Table(
            columns,
            [_claim_row(run, c) for c in urgent],
            name="Claims",
            css="stack",
            brief=len(urgent),
            caption="The bound decides. Under the value: from the lower to the upper bound.",
            rest="run.json has all",
        )
    )
    return [*blocks, *(_members(run, c) for c in urgent if c.members)]


def _claim_row(run: Record, claim: ClaimRecord) -> list[Cell]:
    style = wording.style_of(run, claim.quantity)
    status = wording.settle(run, claim)
    under = [claim.why, *([f"Corrected {claim.corrected}."] if claim.corrected else [])]
    return [
        Cell(claim.text, under, lead=claim.id, brief=status),
        Cell(claim.status, status, status=claim.status),
        *_numbers(claim, claim, style),
        Cell(f"{'≥' if claim.direction == 'min' else '≤'} {numbers.limit(claim.limit, style)}"),
        _cases(run, claim),
    ]


def _cases(run: Record, judged: Judged) -> Cell:
    """How many cases there are, and under it of how many groups."""
    groups = numbers.plural(judged.groups, wording.unit_of(run)) if judged.groups else ""
    return Cell(numbers.count(judged.n), groups)


def _numbers(claim: ClaimRecord, judged: Judged, style: numbers.Style) -> list[Cell]:
    shown = numbers.estimate(judged.value, judged.interval, judged.n, style, ends="bounds")
    note = wording.bound_note(claim, judged) if judged.bound is not None else ()
    return [
        Cell(shown.value, shown.interval if judged.interval else "", shown.title),
        Cell(numbers.bound(judged.bound, claim.limit, style), note, strong=True),
    ]


def _members(run: Record, claim: ClaimRecord) -> Table:
    """The places of a claim over several."""
    style = wording.style_of(run, claim.quantity)
    side = "≥" if claim.direction == "min" else "≤"
    undecided = any(m.status == "inconclusive" for m in claim.members)
    rows = [
        [
            Cell(m.about),
            Cell(m.status, status=m.status),
            *_numbers(claim, m, style),
            _cases(run, m),
            *([Cell(wording.settle(run, claim, m))] if undecided else []),
        ]
        for m in claim.members
    ]
    columns = [Column("Place", number=False), Column("Status", number=False), Column("Value")]
    columns += [Column("Bound"), Column("n")]
    columns += [Column("To settle it", number=False)] if undecided else []
    places = numbers.plural(len(rows), "place")
    fold = f"{claim.id} ({side} {numbers.limit(claim.limit, style)}) in each of {places}"
    return Table(columns, rows, fold=fold, rest="run.json has all")


def _chart_row(run: Record, claim: ClaimRecord) -> ClaimRow:
    style = wording.style_of(run, claim.quantity)
    shown = numbers.estimate(claim.value, claim.interval, claim.n, style, ends="bounds")
    bound = numbers.bound(claim.bound, claim.limit, style)
    note = (
        f"{claim.id}, {claim.text}: {claim.status}; {shown.value}, "
        f"{', '.join(wording.bound_note(claim, claim))} {bound}, limit {numbers.limit(claim.limit, style)}; {shown.title}"
    )
    return ClaimRow(
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
        note,
        claim.bound,
    )


def _use(run: Record) -> list[Block]:
    unsaid = "Not stated. Whatever this report does not name was not tested."
    return [
        Heading("Intended use, and what was not tested", id="use", short="Intended use"),
        Text(run.intended_use or "The assessment file does not state an intended use."),
        Heading("Not tested"),
        Text(run.not_tested, "list") if run.not_tested else Text(unsaid),
    ]


def _used(run: Record) -> list[Block]:
    subject = run.subject
    facts = {
        "Task": subject.task,
        "Adapter": subject.adapter,
        "Version": subject.version or "not stated",
        "Fingerprint": subject.fingerprint,
    }
    if subject.class_order:
        how = "given" if subject.class_order_given else "inferred"
        facts["Classes, in the order of the outputs"] = ", ".join(subject.classes) or numbers.NONE
        facts["Class order"] = f"{how}: {subject.class_order}"
    if subject.preparation:
        steps = ", ".join(f"{name} {value}" for name, value in subject.preparation.items())
        facts["Input preparation"] = (
            f"{steps} ({'assumed' if subject.preparation_assumed else 'stated'})"
        )
    blocks: list[Block] = [
        Heading("Data and model", id="hashes"),
        Heading("Subject"),
        Facts(facts, code=["Fingerprint"]),
    ]
    if subject.files:
        files = [
            [
                Cell(_file_name(f.path)),
                Cell(numbers.size(f.bytes)),
                Cell(f.sha256, code=True),
            ]
            for f in subject.files
        ]
        columns = [Column("File", number=False), Column("Size"), Column("SHA-256", number=False)]
        blocks.append(Table(columns, files))
    if subject.not_identified:
        blocks.append(Text(subject.not_identified, "list"))
    if subject.modules:
        modules = [
            [
                Cell(m.name),
                Cell(", ".join(f"{port}: {kind}" for port, kind in m.outputs.items())),
                Cell("✓ yes" if m.assessed else "– no"),
                Cell(m.fingerprint or numbers.NONE, code=True),
            ]
            for m in subject.modules
        ]
        heads = ("Module", "Outputs", "Assessed", "Fingerprint")
        blocks.append(Table([Column(h, number=False) for h in heads], modules))
    columns = [Column("Role", number=False), Column("Name", number=False), Column("Samples")]
    columns += [Column("Groups"), Column("Classes"), Column("Licence, source", number=False)]
    columns += [Column("Fingerprint", number=False)]
    rows = [_data_row(role, d) for role, d in run.data.items()]
    return [*blocks, Heading("Data"), Table(columns, rows)]


def _data_row(role: str, data: DataRecord) -> list[Cell]:
    return [
        Cell(role),
        Cell(data.name),
        Cell(numbers.count(data.n)),
        Cell(numbers.count(data.groups), data.group),
        Cell(str(len(data.classes)) if data.classes else numbers.NONE),
        Cell(data.licence or "licence not stated", _file_name(data.source)),
        Cell(data.fingerprint, code=True),
    ]


def _method(run: Record) -> list[Block]:
    cases, failure = run.cases, run.measure.failure
    facts = {
        "Measure": f"{run.measure.name}, {run.measure.better} is better",
        "Failure": json.dumps(failure) if failure else "as the measure defines it",
        "Cases": f"{cases.total:,} in all, {cases.computed:,} computed, {cases.from_cache:,} from the cache, "
        f"{cases.failed:,} without an answer",
    }
    blocks: list[Block] = [Heading("Method notes", id="method", short="Method"), Facts(facts)]
    tallies = {
        "Assumptions": _tally(run, lambda f: f.assumptions),
        "Corrected for multiplicity": _tally(run, lambda f: [f.corrected] if f.corrected else []),
        "Intervals by": _tally(run, lambda f: [_family(f.interval.method)] if f.interval else []),
        "No interval, because": _tally(run, lambda f: [f.reason] if f.reason else []),
    }
    for head, sentences in tallies.items():
        blocks += [Heading(head), Text(sentences, "list")] if sentences else []
    read = [
        "n is the number of cases that a number rests on. An interval is written with its confidence. Cases without an "
        "answer are counted as wrong."
    ]
    if run.claims:
        read.append(
            "The bound of a claim is one-sided, at the claim's confidence; it decides the claim."
        )
    if run.circumstances:
        read.append(
            "Risk priority is exposure × likelihood × severity, 1 to 125, as the file has them."
        )
    read += [f"{term}: {meaning}" for term, meaning in wording.glossary(run)]
    blocks += [Heading("How to read the numbers"), Text(read, "list")]
    spent = ", ".join(f"{stage} {numbers.seconds(t)}" for stage, t in run.timings.items())
    return [*blocks, *([Text(f"Time: {spent}.", "small")] if spent else [])]


def _repeat(run: Record) -> list[Block]:
    versions = ", ".join(f"{name} {v}" for name, v in run.versions.items())
    facts = {"Seed": str(run.seed), "Run": run.key, "Versions": versions}
    blocks: list[Block] = [
        Heading("Reproduce", id="reproduce"),
        Text(run.command, "code"),
        Text("In the folder of the assessment file.", "small"),
        Facts(facts, code=["Run"]),
    ]
    if run.spec_text:
        blocks.append(Text(run.spec_text[:LONGEST_FILE], "code", fold="The assessment file"))
    return blocks


def _tally(run: Record, of: Callable[[Finding], Iterable[str]]) -> list[str]:
    """Each sentence that findings carry, how many do, and their quantities; most frequent first."""
    counts: Counter[str] = Counter()
    names: dict[str, dict[str, Any]] = {}
    for finding in run.findings:
        for sentence in of(finding):
            counts[sentence] += 1
            names.setdefault(sentence, {})[finding.quantity] = None
    return [
        f"{sentence} ({numbers.plural(n, 'finding')}: {', '.join(list(names[sentence])[:4])}"
        f"{', …' if len(names[sentence]) > 4 else ''})"
        for sentence, n in counts.most_common(40)
    ]


def _family(method: str) -> str:
    """A method without its numbers: "n = 812.4" and "n = 90.1" are one way to make an interval."""
    return re.sub(r"\d+(\.\d+)?", "…", method)


def _file_name(path: str) -> str:
    """The last part of a path: a report travels, and the folders of one machine do not."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
