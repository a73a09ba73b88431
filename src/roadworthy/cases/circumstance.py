"""Circumstances: the conditions of use under which a subject is assessed.

A circumstance is a transformation at one or more levels, a metadata filter, or a data set of its own; with a probability
of meeting it, and exposure, likelihood and severity of harm on the scales 1 to 5 of Wozniak et al. 2024
(tables 4 and 5). Their product is its significance, 1 to 125 (metric M6).

>>> shutter = Circumstance("low_shutter", transform="motion_blur", levels=(1, 2), exposure=1, likelihood=2, severity=5)
>>> shutter.significance
10
>>> [c.name for c in shutter.conditions()]
['low_shutter@1', 'low_shutter@2']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from roadworthy.cases.transform import Transform, at_level

SCALES: dict[str, tuple[str, ...]] = {
    "exposure": ("rare", "unusual", "occasional", "frequent", "continuous"),
    "likelihood": ("rare", "unlikely", "possible", "likely", "certain"),
    "severity": ("insignificant", "minor", "marginal", "critical", "catastrophic"),
}
"""The words for 1 to 5 (Wozniak et al. 2024, table 5)."""


@dataclass(frozen=True)
class Condition:
    """One setting in which cases are made: a circumstance at a level, or the clean data."""

    circumstance: str = ""
    level: float | None = None
    transform: Transform | None = None
    port: str = "input"
    role: str = "test"
    """The data role its samples come from; a data set of its own is a role ``circumstance:<name>``."""

    @property
    def name(self) -> str:
        """``snow@3``, ``hospital_b``; empty for the clean data."""
        return self.circumstance + ("" if self.level is None else f"@{self.level:g}")

    def case_id(self, sample_id: str) -> str:
        """The id of the case made from a sample under this condition."""
        # Sample 4 of the test data and sample 4 of the calibration data are two samples, under a circumstance too.
        judged = self.role == "test" or self.role.startswith("circumstance:")
        sample = (
            str(sample_id)
            if judged and (self.name or self.role == "test")
            else f"{self.role}:{sample_id}"
        )
        return f"{sample}~{self.name}" if self.name else sample


@dataclass(frozen=True)
class Circumstance:
    """A condition of use."""

    name: str
    transform: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[int, ...] = ()
    table: str | None = None
    port: str = "input"
    where: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    probability: float | None = None
    exposure: int | None = None
    likelihood: int | None = None
    severity: int | None = None
    description: str = ""
    base: Path = Path()
    """Where paths among the parameters are seen from."""

    def __post_init__(self) -> None:
        kinds = [k for k in ("transform", "where", "data") if getattr(self, k) is not None]
        if len(kinds) != 1:
            raise ValueError(
                f"circumstance {self.name!r} has {' and '.join(kinds) or 'none of them'}; it takes exactly one of "
                "transform, where (a metadata filter) or data (a data set of its own)"
            )
        if self.probability is not None and not 0 <= self.probability <= 1:
            raise ValueError(
                f"circumstance {self.name!r}: probability {self.probability} is not between 0 and 1"
            )
        for factor in SCALES:
            value = getattr(self, factor)
            if value is not None and value not in (1, 2, 3, 4, 5):
                words = ", ".join(f"{i} {w}" for i, w in enumerate(SCALES[factor], start=1))
                raise ValueError(
                    f"circumstance {self.name!r}: {factor} {value} is not one of {words}"
                )

    @property
    def kind(self) -> Literal["transform", "filter", "dataset"]:
        """What makes it."""
        return "transform" if self.transform else "filter" if self.where is not None else "dataset"

    @property
    def significance(self) -> int | None:
        """Exposure x likelihood x severity (Wozniak et al. 2024, M6); None until all three are given."""
        if self.exposure is None or self.likelihood is None or self.severity is None:
            return None
        return self.exposure * self.likelihood * self.severity

    @property
    def role(self) -> str:
        """Where its samples come from."""
        return f"circumstance:{self.name}" if self.kind == "dataset" else "test"

    def transforms(self) -> list[Transform]:
        """One transform a level; one without a level where parameters are given instead."""
        assert self.transform is not None
        if self.parameters:
            return [Transform(self.transform, dict(self.parameters), base=self.base)]
        return [at_level(self.transform, level, table=self.table) for level in self.levels]

    def conditions(self) -> list[Condition]:
        """The settings in which new cases are made; none for a filter, whose cases are there already."""
        if self.kind == "filter":
            return []
        if self.kind == "dataset":
            return [Condition(self.name, role=self.role)]
        return [Condition(self.name, t.level, t, self.port) for t in self.transforms()]
