"""Reports: text made from a run, the same each time, and the run stays as it was.

>>> from roadworthy.registry import get
>>> list(renders_a_run_and_changes_nothing(get("reports", "json")))
[]
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from roadworthy.conformance.example import write_example
from roadworthy.conformance.rule import Rule
from roadworthy.registry import Component
from roadworthy.store.record import Record


@functools.cache
def example_run() -> Path:
    """The folder of a run of the example, made once."""
    from roadworthy.assessment.assess import assess

    place = Path(tempfile.mkdtemp(prefix="roadworthy-conformance-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return assess(write_example(place)).folder


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
