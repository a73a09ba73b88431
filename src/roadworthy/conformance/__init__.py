"""Checks that any registered component must pass, ours or a third party's.

A package that offers components tests them in three lines::

    @pytest.mark.parametrize(("room", "name"), conformance.all_components(origin="my-package"))
    def test_component_conforms(room, name):
        assert conformance.check(room, name) == []

>>> from roadworthy import conformance
>>> conformance.check("transforms", "contrast")
[]
"""

from __future__ import annotations

from roadworthy import registry
from roadworthy.conformance import (
    attacks,
    distances,
    estimators,
    executors,
    failure_estimators,
    measures,
    reports,
    sections,
    sources,
    supervisors,
    transforms,
    ways_in,
)
from roadworthy.conformance.rule import EVERY_COMPONENT, Rule, Violation, broken

__all__ = ["Violation", "all_components", "check", "rules_of"]

_OWN: dict[str, tuple[Rule, ...]] = {
    "adapters": ways_in.ADAPTERS,
    "attacks": attacks.RULES,
    "distances": distances.RULES,
    "estimators": estimators.RULES,
    "executors": executors.RULES,
    "failure_estimators": failure_estimators.RULES,
    "loaders": ways_in.LOADERS,
    "measures": measures.RULES,
    "reports": reports.RULES,
    "sections": sections.RULES,
    "set_distances": distances.SET_RULES,
    "sources": sources.RULES,
    "supervisors": supervisors.RULES,
    "transforms": transforms.RULES,
}


def rules_of(room: str) -> tuple[Rule, ...]:
    """The rules that components of a type must keep."""
    return (*EVERY_COMPONENT, *_OWN.get(room, ()))


def check(room: str, name: str) -> list[Violation]:
    """Everything that is wrong with a component; empty when it conforms."""
    component = registry.get(room, name)
    return [violation for rule in rules_of(room) for violation in broken(rule, component)]


def all_components(*rooms: str, origin: str | None = None) -> list[tuple[str, str]]:
    """Type and name of every component, of some types or of one package, for parametrised tests."""
    return [
        (room, name)
        for room in rooms or registry.ROOMS
        for name, component in registry.components(room).items()
        if origin is None or component.origin == origin
    ]
