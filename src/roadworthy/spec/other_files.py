"""Files that are taken for a simulation: a table, an assessment file, a bundle; each is told by its name or by what it has.

>>> refuse_table(Path("today.csv"))
Traceback (most recent call last):
roadworthy.spec.document.SpecError: today.csv: is a table; a simulation file names it, as in
    stream: {scores: today.csv, shift: [{constant: 0.3, events: 5000}]}; see examples/runtime
"""

from __future__ import annotations

from pathlib import Path

from roadworthy.spec.document import Document, SpecError

TABLES = (".csv", ".tsv", ".parquet", ".pq")
"""How tables of scores end, packed or not."""


def refuse_table(path: Path) -> None:
    """A table is what a simulation draws from."""
    if path.name.lower().removesuffix(".gz").endswith(TABLES):
        raise SpecError(
            f"{path}: is a table; a simulation file names it, as in stream: {{scores: {path.name}, shift: [{{constant: 0.3, "
            "events: 5000}]}; see examples/runtime"
        )


def refuse_other_files(document: Document) -> None:
    """An assessment file, or a bundle, is told by what it has."""
    if {"subject", "claims", "data"} & set(
        document.content
    ) and "calibration" not in document.content:
        raise document.error(
            (),
            f"this is an assessment file; `roadworthy assess {document.path}` runs it. A simulation has a stream; see "
            "examples/runtime",
        )
    if "bundle" in str(document.content.get("format", "")):
        raise document.error(
            (),
            "this is a bundle; name it in a simulation file as calibration: {bundle: FILE}, or run a stream through it with "
            f"`roadworthy replay {document.path} STREAM`",
        )
