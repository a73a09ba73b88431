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

from roadworthy.conformance.checking import all_components, check, rules_of
from roadworthy.conformance.rule import Violation

__all__ = ["Violation", "all_components", "check", "rules_of"]
