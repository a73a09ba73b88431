"""A rule yields a sentence for everything about a component that is not as it must be.

The rules here hold for all types: a name, a docstring, and parameters that a file can give.

>>> from roadworthy.registry import Component
>>> def has_a_short_name(component):
...     if len(component.name) > 8:
...         yield f"the name has {len(component.name)} letters; 8 are enough"
>>> str(broken(has_a_short_name, Component("measures", "astonishment", print))[0])
"measures 'astonishment' breaks has_a_short_name: the name has 12 letters; 8 are enough"
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roadworthy.registry import REQUIRED, Component

Rule = Callable[[Component], Iterator[str]]


@dataclass(frozen=True)
class Violation:
    """One rule that one component breaks, and how."""

    room: str
    name: str
    rule: str
    found: str

    def __str__(self) -> str:
        return f"{self.room} {self.name!r} breaks {self.rule}: {self.found}"


def broken(rule: Rule, component: Component) -> list[Violation]:
    """What a rule has against a component; one that raises an error breaks the rule too."""
    found: list[str] = []
    try:
        found.extend(rule(component))
    except Exception as error:
        found.append(f"it raised {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return [Violation(component.room, component.name, rule.__name__, text) for text in found]


SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
POSITIONAL: dict[str, tuple[str, ...]] = {
    "transforms": ("value", "rng"),
    "attacks": ("images", "labels", "query", "rngs"),
    "sources": ("like", "rng"),
    "distances": ("first", "second"),
    "set_distances": ("source", "target"),
    "measures": ("outputs", "targets"),
    "estimators": ("counts", "calibrated"),
    "failure_estimators": ("margin", "law", "rng"),
    "executors": ("plan", "cache", "indices"),
    "reports": ("run",),
}
"""What execution hands to a component by position; everything else is a parameter."""
FROM_EXECUTION = frozenset({"base", "task"})
"""Parameters that no file gives, so that their defaults need not be written in one."""


def has_a_docstring(component: Component) -> Iterator[str]:
    """The first line is what `roadworthy list` shows."""
    if not (component.build.__doc__ or "").strip():
        yield "it has no docstring; say in one sentence what it does"


def name_is_snake_case(component: Component) -> Iterator[str]:
    """Names are written in assessment files."""
    if not SNAKE_CASE.fullmatch(component.name) and not component.origin.endswith(".py"):
        yield f"the name is {component.name!r}; small letters and underscores were expected"


def parameters_are_keyword_only(component: Component) -> Iterator[str]:
    """By position comes only what execution hands in."""
    expected = POSITIONAL.get(component.room, ())
    by_position = []
    for name, parameter in inspect.signature(component.build).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"it takes *{name}; every parameter must have a name of its own"
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            by_position.append(name)
    if len(by_position) != len(expected):
        wanted = f"({', '.join(expected)})" if expected else "nothing"
        yield f"it takes {by_position} by position; {wanted} was expected, and parameters after a *"


def parameters_have_types(component: Component) -> Iterator[str]:
    """The model of the parameters is built from the type hints."""
    for name, parameter in component.parameters.items():
        if parameter.annotation is REQUIRED:
            yield f"the parameter {name!r} has no type hint"
        elif isinstance(parameter.annotation, str):
            yield f"the type hint {parameter.annotation!r} of {name!r} cannot be resolved in its module"


def defaults_can_be_written_in_a_file(component: Component) -> Iterator[str]:
    """A default stands in the run's record, which is JSON."""
    for name, parameter in component.parameters.items():
        if parameter.default is REQUIRED or name in FROM_EXECUTION:
            continue
        try:
            json.dumps(parameter.default, allow_nan=False)
        except (TypeError, ValueError):
            yield f"the default of {name!r} is {parameter.default!r}, which JSON cannot hold"


def required_parameters(component: Component) -> str:
    """The parameters without a default, as a sentence lists them."""
    return " and ".join(n for n, p in component.parameters.items() if p.default is REQUIRED)


def declares_valid_levels(component: Component) -> Iterator[str]:
    """`tables={name: [parameters of level 1, …]}`, or a default for every parameter."""
    tables = component.traits.get("tables", {})
    if not tables and required_parameters(component):
        yield f"it has no table of levels, and {required_parameters(component)} has no default; give one"
    for table, rows in tables.items():
        for level, row in enumerate(rows, start=1):
            try:
                component.check(row)
            except ValueError as error:
                yield f"level {level} of the table {table!r}: {str(error).splitlines()[0]}"


EVERY_COMPONENT: tuple[Rule, ...] = (
    has_a_docstring,
    name_is_snake_case,
    parameters_are_keyword_only,
    parameters_have_types,
    defaults_can_be_written_in_a_file,
)
