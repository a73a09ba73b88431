"""Ways in: loaders of data, and adapters of subjects.

>>> from roadworthy.registry import get
>>> list(takes_what_every_data_set_may_say(get("loaders", "npz")))
[]
>>> list(takes_path_base_and_task(get("adapters", "python")))
[]
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from roadworthy.conformance.rule import Rule
from roadworthy.data.samples import DataError
from roadworthy.data.values import KINDS
from roadworthy.registry import REQUIRED, Component

GIVEN = ("path", "base", "name", "group", "classes")
"""Execution gives base and name; group and classes may stand once for all data sets of a file."""


def takes_what_every_data_set_may_say(component: Component) -> Iterator[str]:
    """The same keys in every form of data."""
    for name in GIVEN:
        if name not in component.parameters:
            yield f"it does not take {name}; a loader is load(*, {', '.join(GIVEN)}, …)"
        elif name != "path" and component.parameters[name].default is REQUIRED:
            yield f"{name} must have a default"


def says_which_kinds_it_gives(component: Component) -> Iterator[str]:
    """`gives={"inputs": (…), "targets": (…)}`, so that a list of loaders can say what they are for."""
    for part in ("inputs", "targets"):
        kinds = component.traits.get("gives", {}).get(part, ())
        if not kinds or not set(kinds) <= set(KINDS):
            yield f"gives[{part!r}] is {kinds!r}; names of kinds were expected: {', '.join(KINDS)}"


def a_missing_file_is_named(component: Component) -> Iterator[str]:
    """Bad data is a DataError that names what is missing."""
    with tempfile.TemporaryDirectory() as folder:
        missing = "no-such-data"
        filled = {
            name: missing
            for name, p in component.parameters.items()
            if p.default is REQUIRED and p.annotation is str and name != "path"
        }
        try:
            model = component.model(path=missing, base=Path(folder), **filled)
        except ValueError:
            return  # needs more than texts: nothing can be tried without knowing it
        try:
            component.build(**{name: getattr(model, name) for name in component.parameters})
        except DataError as error:
            if missing not in str(error):
                yield f"the error on a missing file does not name it: {error}"
        except Exception as error:
            yield f"a missing file raised {type(error).__name__} instead of DataError: {error}"
        else:
            yield "a missing file was not refused"


LOADERS: tuple[Rule, ...] = (
    takes_what_every_data_set_may_say,
    says_which_kinds_it_gives,
    a_missing_file_is_named,
)


def takes_path_base_and_task(component: Component) -> Iterator[str]:
    """Execution hands in exactly these; whatever else is required, the file can give."""
    for name in ("path", "base", "task"):
        if name not in component.parameters:
            yield f"it does not take {name}; an adapter is build(*, path, base, task, …) -> System"
        elif name != "path" and component.parameters[name].default is not REQUIRED:
            yield f"{name} has a default; execution always gives it"


ADAPTERS: tuple[Rule, ...] = (takes_path_base_and_task,)
