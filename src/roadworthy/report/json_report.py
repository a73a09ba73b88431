"""The report for machines: the record of the run with its findings, in one JSON document."""

from __future__ import annotations

from roadworthy.registry import register
from roadworthy.store.record import Record


@register("reports", "json", file="report.json")
def json_report(run: Record, *, indent: int = 2) -> str:
    """One JSON document for machines: the record and its findings, with a published schema."""
    return run.model_dump_json(indent=indent) + "\n"
