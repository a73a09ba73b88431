"""Circumstances: the conditions of use under which a subject is assessed.

A circumstance is a transform, or several in a row, at one or more levels; an attack; a source of invalid inputs, or one that
learns from data and draws labelled cases; a mixture of other circumstances; a metadata filter; a separate data set; or
specified and not run. It has a probability of being met, and exposure, likelihood and severity of harm on the scales 1 to 5 of
Wozniak et al. 2024 (tables 4 and 5). Their product is its risk priority, 1 to 125 (metric M6).

>>> shutter = Circumstance("low_shutter", transform="motion_blur", levels=(1, 2), exposure=1, likelihood=2, severity=5)
>>> shutter.significance
10
>>> [c.name for c in shutter.conditions()]
['low_shutter@1', 'low_shutter@2']
>>> wet = Circumstance("wet", transforms=("snow", {"motion_blur": 2}), levels=(1, 3))
>>> [[(t.name, t.level) for t in c.transform.parts] for c in wet.conditions()]
[[('snow', 1), ('motion_blur', 2)], [('snow', 3), ('motion_blur', 2)]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from roadworthy import registry
from roadworthy.cases.generators import (
    Attack,
    Chain,
    Generator,
    InvalidSource,
    Mixture,
    MixturePart,
)
from roadworthy.cases.transform import Transform, at_level, at_strength, highest_level, level_row

SCALES: dict[str, tuple[str, ...]] = {
    "exposure": ("rare", "unusual", "occasional", "frequent", "continuous"),
    "likelihood": ("rare", "unlikely", "possible", "likely", "certain"),
    "severity": ("insignificant", "minor", "marginal", "critical", "catastrophic"),
}
"""The words for 1 to 5 (Wozniak et al. 2024, table 5)."""
MADE_BY = ("transform", "transforms", "attack", "source", "mixture", "where", "data", "run")
"""The keys of which a circumstance has exactly one."""
DRAWN = 1000
"""Cases that a source draws which learns from data, unless the file says how many."""
CircumstanceKind = Literal[
    "transform", "attack", "source", "mixture", "filter", "dataset", "specified"
]


@dataclass(frozen=True)
class Search:
    """A loop that queries the subject about each sample, by the name under which execution knows it."""

    name: str
    parameters: tuple[tuple[str, Any], ...] = ()
    role: str = "test"
    """The data role whose samples are searched."""
    level: float | None = None
    """A strength between two levels, if it is about that one alone."""

    @property
    def label(self) -> str:
        """``pictures``, or ``2.5@pictures`` at a strength between two levels."""
        return self.name if self.level is None else f"{self.level:g}@{self.name}"

    @classmethod
    def of(
        cls,
        name: str,
        settings: Mapping[str, Any],
        role: str = "test",
        level: float | None = None,
    ) -> Search:
        """With settings that may hold lists and mappings; those become tuples, and pairs."""
        return cls(name, _frozen(settings), role, level)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((key, _frozen(v)) for key, v in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Condition:
    """One setting in which cases are made: a circumstance at a level, or the clean data; or one in which samples are searched."""

    circumstance: str = ""
    level: float | None = None
    transform: Generator | None = None
    port: str = "input"
    role: str = "test"
    """The data role its samples come from; a data set of its own is a role ``circumstance:<name>``."""
    valid: bool = True
    """Whether its inputs have a right answer; those of a source have none."""
    search: Search | None = None
    held: tuple[str, ...] = ()
    """Input ports of modules that get what they got under clean conditions; the cases are the same."""
    probe: bool = False
    """Whether it is a strength between two levels, tried to find where a limit is crossed."""

    @property
    def name(self) -> str:
        """``snow@3``, ``hospital_b``, ``snow@breaks_at``; empty for the clean data."""
        at = self.search.label if self.search else None if self.level is None else f"{self.level:g}"
        return self.circumstance if at is None else f"{self.circumstance}@{at}"

    @property
    def has_parent(self) -> bool:
        """Whether each case is made of the sample whose id it has."""
        return not isinstance(self.transform, InvalidSource)

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
    transforms: tuple[str | Mapping[str, Any], ...] | None = None
    attack: str | None = None
    source: str | Mapping[str, Any] | None = None
    n: int | None = None
    """Cases that a source draws which learns from data."""
    mixture: tuple[str, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[int, ...] = ()
    table: str | None = None
    port: str = "input"
    where: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    run: Literal[False] | None = None
    """False: it is specified, and nothing makes its cases yet."""
    probability: float | None = None
    exposure: int | None = None
    likelihood: int | None = None
    severity: int | None = None
    breaks_at: bool = False
    description: str = ""
    members: tuple[MixturePart, ...] = ()
    """Of a mixture: what its names stand for."""
    exclusive: tuple[tuple[str, ...], ...] = ()
    base: Path = Path()
    """Where paths among the parameters are seen from."""

    def __post_init__(self) -> None:
        given = [k for k in MADE_BY if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(
                f"circumstance {self.name!r} has {' and '.join(given) or 'none'} of {', '.join(MADE_BY)}; "
                "it takes exactly one"
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
    def made_by(self) -> str:
        """The key of the file that says what makes it."""
        return next(k for k in MADE_BY if getattr(self, k) is not None)

    @property
    def kind(self) -> CircumstanceKind:
        """What makes it."""
        named: dict[str, CircumstanceKind] = {
            "transform": "transform",
            "transforms": "transform",
            "attack": "attack",
            "source": "source",
            "mixture": "mixture",
            "where": "filter",
            "data": "dataset",
            "run": "specified",
        }
        return "dataset" if self.learned else named[self.made_by]

    @property
    def learned(self) -> registry.Component | None:
        """The source that learns from data and draws its cases, if there is one."""
        found = registry.get("sources", self.source) if isinstance(self.source, str) else None
        return found if found and "learned_from" in found.traits else None

    @property
    def own_data(self) -> Mapping[str, Any] | None:
        """The separate data set that it brings: of its own circumstance, of invalid inputs, or drawn."""
        if self.learned:
            return {"n": self.n or DRAWN, **self.parameters}
        return self.source if isinstance(self.source, Mapping) else self.data

    @property
    def significance(self) -> int | None:
        """Exposure x likelihood x severity (Wozniak et al. 2024, M6); None until all three are given."""
        if self.exposure is None or self.likelihood is None or self.severity is None:
            return None
        return self.exposure * self.likelihood * self.severity

    @property
    def met_in_use(self) -> float | None:
        """How often it is met; of a mixture how often any of its circumstances is."""
        mixture = Mixture(self.members, self.exclusive)
        return self.probability if self.mixture is None else mixture.probability_of_any()

    @property
    def strongest(self) -> float:
        """Where a search of its strength ends: the last level of its table, or the largest epsilon of its levels."""
        if self.attack is None:
            return highest_level(self.transform or "", self.table)
        sizes = [
            g.parameters.get("epsilon", 0.0) for g in self.generators() if isinstance(g, Attack)
        ]
        return float(max(sizes))

    @property
    def role(self) -> str:
        """Where its samples come from."""
        return f"circumstance:{self.name}" if self.own_data is not None else "test"

    def generators(self) -> list[Generator]:
        """What makes its cases, one a level; one without a level if parameters are given instead."""
        if self.transform is not None or self.transforms is not None:
            return list(self.chains())
        if self.attack is not None:
            if not self.levels:
                return [Attack(self.attack, dict(self.parameters))]
            rows = [level_row("attacks", self.attack, n, self.table)[1] for n in self.levels]
            return [Attack(self.attack, row, n) for n, row in zip(self.levels, rows, strict=True)]
        if isinstance(self.source, str) and not self.learned:
            return [InvalidSource(self.source, dict(self.parameters))]
        if self.mixture is not None:
            return [Mixture(self.members, self.exclusive)]
        return []

    def chains(self) -> list[Chain]:
        """Its transforms in a row, one row a level."""
        if self.transform is not None and self.parameters:
            return [Chain((Transform(self.transform, dict(self.parameters), base=self.base),))]
        parts = self.transforms or (self.transform,)
        levels: list[int | None] = list(self.levels) or [None]
        return [Chain(tuple(self._part(p, level) for p in parts), level) for level in levels]

    def probe(self, level: float) -> Condition:
        """Its transforms at a strength between two levels; those with a level of their own keep it."""
        parts = self.transforms or (self.transform,)
        made = [
            at_strength(p, level, self._table_of(p)) if isinstance(p, str) else self._part(p, None)
            for p in parts
        ]
        return Condition(self.name, level, Chain(tuple(made), level), self.port, probe=True)

    def _part(self, part: Any, level: int | None) -> Transform:
        """One of its transforms: at the level of all, at one of its own, or with parameters."""
        if isinstance(part, str):
            if level is None:
                raise ValueError(f"{part} needs a level; write levels: [1, 2, 3], or {{{part}: 2}}")
            return at_level(part, level, table=self._table_of(part))
        ((name, how),) = part.items()
        if isinstance(how, Mapping):
            return Transform(name, dict(how), base=self.base)
        return at_level(name, how, table=self._table_of(name))

    def _table_of(self, name: str) -> str | None:
        """The table that is asked for, if there is only one transform or this one has it."""
        tables = registry.get("transforms", name).traits.get("tables", {})
        return self.table if self.transforms is None or self.table in tables else None

    def conditions(self) -> list[Condition]:
        """The settings in which new cases are made; none for a filter, whose cases are there already."""
        if self.kind in ("filter", "specified"):
            return []
        valid = self.kind != "source"
        if self.own_data is not None:
            return [Condition(self.name, role=self.role, valid=valid)]
        return [Condition(self.name, g.level, g, self.port, valid=valid) for g in self.generators()]
