"""Sections: what one declares fits with the others, and its record is written, read and shown.

>>> from roadworthy.registry import get
>>> list(declares_what_others_do_not(get("sections", "risk")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from roadworthy.conformance.reports import example_run
from roadworthy.conformance.rule import Rule
from roadworthy.registry import Component, components
from roadworthy.report.blocks import Chart, Facts, Heading, Pictures, Table, Text
from roadworthy.spec import assessment_schema, composed
from roadworthy.store.record import Record

BLOCKS = (Chart, Facts, Heading, Pictures, Table, Text)


def declares_what_others_do_not(component: Component) -> Iterator[str]:
    """Its keys, quantities and sections before it are known, and nobody else's."""
    section = component.build()
    known = components("sections")
    others = [c.build() for name, c in known.items() if name != component.name]
    for key in section.keys:
        if key not in composed().model_fields or key not in assessment_schema()["properties"]:
            yield f"its key {key!r} is not in the model of the assessment file"
    taken = {q.name for other in others for q in other.quantities}
    measures = {name: c.traits.get("of", ("",))[0] for name, c in components("measures").items()}
    for quantity in section.quantities:
        clash = quantity.name in measures and quantity.of in ("", measures[quantity.name])
        if quantity.name in taken or (clash and not quantity.is_measure):
            yield f"the quantity {quantity.name!r} is another section's, or a measure"
        if not quantity.meaning:
            yield f"the quantity {quantity.name!r} has no meaning; say in a sentence what it is"
    for before in section.after:
        if before != "*" and before not in known:
            yield f"it comes after {before!r}, which is no section"


def its_record_is_written_read_and_shown(component: Component) -> Iterator[str]:
    """In a run of the example, if it takes part in that; the record of any run has a schema."""
    model = component.build.Record  # type: ignore[attr-defined]
    if not issubclass(model, BaseModel):
        yield "its Record is no pydantic model"
        return
    model.model_json_schema(mode="serialization")
    run = Record.read(example_run())
    part = run.sections.get(component.name)
    if part is None:
        return
    if model.model_validate_json(part.model_dump_json()) != part:
        yield "its record is not the same after it was written and read"
    shown = component.build().view(part, run)
    empty = not shown and part != model()
    if empty or not all(isinstance(block, BLOCKS) for block in shown):
        yield f"its view is {shown!r}; blocks of roadworthy.report.blocks were expected"


RULES: tuple[Rule, ...] = (declares_what_others_do_not, its_record_is_written_read_and_shown)
