"""Reports: text made from a run, the same each time, and the run stays as it was.

>>> from roadworthy.registry import get
>>> list(renders_a_run_and_changes_nothing(get("reports", "json")))
[]
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from roadworthy.conformance.example import write_example
from roadworthy.conformance.rule import Rule
from roadworthy.registry import Component
from roadworthy.store.record import Record


@functools.cache
def _run() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    from roadworthy.assessment.assess import assess

    place = tempfile.TemporaryDirectory(prefix="roadworthy-conformance-")
    return place, assess(write_example(Path(place.name))).folder


def example_run() -> Path:
    """The folder of a run of the example, made once."""
    return _run()[1]


def _contents(folder: Path) -> dict[str, str]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def renders_a_run_and_changes_nothing(component: Component) -> Iterator[str]:
    """A report computes nothing: whoever calls it decides where the text goes."""
    folder = example_run()
    before = _contents(folder)
    text = component.bind()(Record.read(folder))
    if not isinstance(text, str | bytes) or not text:
        yield f"it gave {type(text).__name__}; text (or bytes) was expected"
    if _contents(folder) != before:
        yield "rendering changed the run folder"
    if component.bind()(Record.read(folder)) != text:
        yield "rendering the same run twice gave two texts"


RULES: tuple[Rule, ...] = (renders_a_run_and_changes_nothing,)
