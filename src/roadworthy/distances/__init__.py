"""Distances between outputs: 0 is equal, larger is farther, always. One file each.

A distance is a function of two values of one kind. It declares which kinds it compares (`of`), for which of them it is the one
to take where none is named (`default`), and whether it stays within [0, 1] (`bounded`). Its mean over many pairs is the plain
one, or with ``mean="quadratic"`` the root of the mean square. Where the mean over all pairs of many passes has a closed form,
`ratios` gives it (see `roadworthy.subject.variation`).

>>> for_kind("boxes"), default_for("vector"), default_for("image")
(['iou'], 'standard_deviation', '')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadworthy.data.values import Kind

__all__ = ["default_for", "for_kind"]


def for_kind(kind: Kind | str) -> list[str]:
    """Names of the distances between two values of a kind (or of its name)."""
    from roadworthy.registry import components

    return [name for name, c in components("distances").items() if str(kind) in c.traits.get("of", ())]


def default_for(kind: Kind | str) -> str:
    """The name of the distance to take between values of a kind where none is named; empty where there is none."""
    from roadworthy.registry import components

    found = components("distances").items()
    return next((name for name, c in found if str(kind) in c.traits.get("default", ())), "")
