"""Variation ratios of any value: how far stochastic passes lie from each other (VR) and from the
answer (VRO) (Wang et al. 2022, eq. 5, 6).

The distance between two answers is named, or ``auto``, which takes the one that the module's kind
of value calls its own: whether the class differs, the standard deviation of vectors, 1 - IoU of
boxes and masks, 1 - MOTA of tracks, 1 - BLEU of texts and episodes, the share of facts of a goal
that differ.
Both ratios read the same passes.

Where the passes come from cannot be guessed before the subject is there, so `kind` says it:
``dropout`` in a torch model (Wang et al. 2022 makes 10 passes, and puts a `rate` of 0.1 into models
that have none), ``own`` for whatever draws from its `rng`, a module or (with ``module: system``)
the whole system, ``ensemble`` for the members of one, whose number is theirs and not `n`.

VR is blind to a module that is wrong in the same way every time, such as a tracker that finds
nothing in the dark; VRO is so less (Wang et al. 2022, section 4.3).

>>> from roadworthy.data.values import TEXT
>>> own = VariationRatio(kind="own", n=2)
>>> own.needs
(Passes(kind='own', n=2, rate=None, distance='auto'),)
>>> apart = {own.needs[0].column: np.array([[0.5, 0.25]])}
>>> rows = ModuleTrace(*[np.array([0])] * 2, np.array([None]), np.zeros(1), TEXT, ["go left"], apart)
>>> own.score(rows).tolist(), VariationRatioOfOriginal(kind="own", n=2).score(rows).tolist()
([0.5], [0.25])
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.registry import RegistryError, get, register
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.passes import AUTO, why_not_reduced
from roadworthy.subject.trace import ModuleTrace as ModuleTrace
from roadworthy.supervisors.plain import PlainSupervisor


class _Variation(PlainSupervisor):
    """One of the two ratios, by its place in the column of both."""

    place: ClassVar[int]
    fewest: ClassVar[int]

    def __init__(
        self,
        *,
        distance: str = AUTO,
        kind: Literal["dropout", "own", "ensemble"] = "dropout",
        n: int = 10,
        rate: float | None = None,
    ) -> None:
        if n < self.fewest:
            raise ValueError(
                f"n is {n}; at least {self.fewest} {'passes are' if self.fewest > 1 else 'pass is'} needed"
            )
        if rate is not None and not (kind == "dropout" and 0 < rate < 1):
            raise ValueError(
                f"rate is {rate}; a share between 0 and 1 was expected, such as 0.1, and only with dropout"
            )
        if distance != AUTO:
            try:
                get("distances", distance)
            except RegistryError as error:
                raise ValueError(str(error)) from error
        self.distance, self.kind, self.n, self.rate = distance, kind, n, rate
        passes = Passes(kind, 0 if kind == "ensemble" else n, rate, distance)
        self.needs: tuple[Request, ...] = (passes,)

    def applies_to(self, kind: Kind) -> str | None:
        """Whatever the distance compares."""
        (passes,) = self.needs
        assert isinstance(passes, Passes)
        return why_not_reduced(passes, kind)

    def risk(self, ratios: np.ndarray) -> np.ndarray:
        """The ratio itself."""
        chosen: np.ndarray = ratios[:, self.place]
        return chosen


@register("supervisors", "vr")
class VariationRatio(_Variation):
    """Variation ratio of any value: the mean distance between two stochastic passes."""

    place, fewest = 0, 2


@register("supervisors", "vro")
class VariationRatioOfOriginal(_Variation):
    """Variation ratio of the original prediction: the mean distance between a stochastic pass and
    the answer itself."""

    place, fewest = 1, 1
