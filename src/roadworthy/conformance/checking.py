"""Which rules a component is checked by: those of all rooms, and those of its own.

>>> [rule.__name__ for rule in rules_of("adapters")][-1]
'takes_path_base_and_task'
"""

from __future__ import annotations

from roadworthy import registry
from roadworthy.conformance import (
    adapters,
    declared,
    distances,
    estimators,
    executors,
    loaders,
    measures,
    reports,
    sections,
    supervisors,
    transforms,
)
from roadworthy.conformance.rule import Rule, Violation, broken

_OWN: dict[str, tuple[Rule, ...]] = {
    "adapters": adapters.RULES,
    "distances": distances.RULES,
    "estimators": estimators.RULES,
    "executors": executors.RULES,
    "loaders": loaders.RULES,
    "measures": measures.RULES,
    "reports": reports.RULES,
    "sections": sections.RULES,
    "supervisors": supervisors.RULES,
    "transforms": transforms.RULES,
}


def rules_of(room: str) -> tuple[Rule, ...]:
    """The rules that components of a room must keep."""
    return (*declared.RULES, *_OWN.get(room, ()))


def check(room: str, name: str) -> list[Violation]:
    """Everything that is wrong with a component; empty when it conforms."""
    component = registry.get(room, name)
    return [violation for rule in rules_of(room) for violation in broken(rule, component)]


def all_components(*rooms: str, origin: str | None = None) -> list[tuple[str, str]]:
    """Room and name of every component, or of some rooms', or of one package's, to parametrise a test with."""
    return [
        (room, name)
        for room in rooms or registry.ROOMS
        for name, component in registry.components(room).items()
        if origin is None or component.origin == origin
    ]
