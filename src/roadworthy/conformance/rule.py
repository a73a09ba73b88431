"""A rule is a generator function of one component: it yields a sentence for everything that is not as it must be.

>>> from roadworthy.registry import Component
>>> def has_a_short_name(component):
...     if len(component.name) > 8:
...         yield f"the name has {len(component.name)} letters; 8 are enough"
>>> str(broken(has_a_short_name, Component("measures", "astonishment", print))[0])
"measures 'astonishment' breaks has_a_short_name: the name has 12 letters; 8 are enough"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roadworthy.registry import Component

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
    """What a rule has against a component; a component that raises where it must not breaks the rule too."""
    title = getattr(rule, "__name__", str(rule))
    found: list[Violation] = []
    try:
        found.extend(
            Violation(component.room, component.name, title, text) for text in rule(component)
        )
    except Exception as error:
        reason = (
            f"it raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
        found.append(Violation(component.room, component.name, title, reason))
    return found
