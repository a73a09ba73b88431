"""Every registered component passes the checks, ours and those of whatever else is installed."""

from __future__ import annotations

import pytest

from roadworthy import conformance, registry


@pytest.mark.parametrize(("room", "name"), conformance.all_components())
def test_component_conforms(room: str, name: str) -> None:
    assert [str(v) for v in conformance.check(room, name)] == []


def test_every_room_has_rules_of_its_own_and_components() -> None:
    shared = set(conformance.rules_of("nowhere"))
    for room in registry.ROOMS:
        assert set(conformance.rules_of(room)) > shared
        assert conformance.all_components(room)


def test_components_can_be_chosen_by_room_and_by_package() -> None:
    assert ("transforms", "contrast") in conformance.all_components("transforms", "measures")
    assert {room for room, _ in conformance.all_components("measures")} == {"measures"}
    assert conformance.all_components(origin="nobody") == []
