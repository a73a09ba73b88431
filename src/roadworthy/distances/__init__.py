"""Distances between outputs: 0 is equal, larger is farther, always. One file each.

A distance is a function of two values of one kind. It declares which kinds it compares (`of`), for
which of them it is the default (`default`), and whether it stays within [0, 1] (`bounded`). Its mean
over many pairs is the plain one, or with ``mean="quadratic"`` the root of the mean square. If the
mean over all pairs of many passes has a closed form, it carries that (`closed_form`; see
`roadworthy.subject.passes`).

>>> for_kind("boxes"), default_for("vector"), default_for("image")
(['iou'], 'standard_deviation', '')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from roadworthy.data.values import Kind

__all__ = ["closed_form", "default_for", "for_kind"]

_F = TypeVar("_F", bound=Callable[..., float])


def for_kind(kind: Kind | str) -> list[str]:
    """Names of the distances between two values of a kind (or of its name)."""
    from roadworthy.registry import components

    return [
        name for name, c in components("distances").items() if str(kind) in c.traits.get("of", ())
    ]


def default_for(kind: Kind | str) -> str:
    """The name of the default distance between values of a kind; empty if there is none."""
    from roadworthy.registry import components

    found = components("distances").items()
    return next((name for name, c in found if str(kind) in c.traits.get("default", ())), "")


def closed_form(ratios: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[_F], _F]:
    """Gives a distance its means over passes (T, n, d) and an answer (n, d): VR and VRO, (n, 2)."""

    def decorate(distance: _F) -> _F:
        extended: Any = distance
        extended.ratios = ratios
        return distance

    return decorate
