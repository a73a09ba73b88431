"""Transforms: generators that turn one value into another of the same kind.

A transform is a function ``make(value, rng, *, …)``; its keyword-only arguments are its strength, and named tables of levels
give them numbers ("hendrycks" 1 to 5, "wang" 1 to 3). Level 0 is the identity for every transform. Kind and shape are kept
and the input is never changed in place. Over the steps of a case (frames, turns) randomness is drawn anew for each step,
or once for the case, as declared by `draw`. One that moves pixels (`roadworthy.cases.image.geometry`) moves boxes, tracks and
masks with the same draw. `identity` is the row of parameters that changes nothing, where the formula has one. Further traits:
`changes_shape` (what comes out may be longer or shorter), `gives_nan` (values may be missing from a row). If the function has
an attribute `prepare`, that is called with the parameters before any case is made: it raises if they cannot be used, and
returns notes for the run.

>>> @transform("darken", of=IMAGE, tables={"plain": [{"by": 0.5}, {"by": 0.25}]})
... def darken(image, rng, *, by: float):
...     '''Every pixel is multiplied.'''
...     return (image * by).astype(image.dtype)
>>> import numpy as np
>>> int(at_level("darken", 2).value(np.full((8, 8), 100, np.uint8), np.random.default_rng(0))[0, 0])
25
>>> registry.remove("transforms", "darken")
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy import registry
from roadworthy.data.samples import Sample
from roadworthy.data.seeds import generator
from roadworthy.data.values import AUDIO, FRAMES, IMAGE, KINDS, TEXT, Audio, Kind
from roadworthy.registry import did_you_mean
from roadworthy.subject.identity import state_of_file

Draw = Literal["step", "case"]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]
TRIALS: dict[Kind, Any] = {
    IMAGE: np.full((32, 32, 3), 128, np.uint8),
    AUDIO: Audio(np.full(8000, 0.1, np.float32), 8000),
    TEXT: "ten of 10 words",
}
"""Values on which parameters are tried before any case is made."""


def transform(
    name: str,
    *,
    of: Kind,
    tables: Tables | None = None,
    draw: Draw = "step",
    identity: Mapping[str, Any] | None = None,
    **traits: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a transform of one kind of value, with its tables of levels (level 1 first)."""
    zero = {} if identity is None else {"identity": dict(identity)}
    return registry.register(
        "transforms", name, of=of.name, tables=dict(tables or {}), draw=draw, **zero, **traits
    )


@dataclass(frozen=True)
class Transform:
    """A registered transform with its parameters fixed; `level` is 0 where nothing is done."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    table: str | None = None
    base: Path = Path()
    """Where parameters of type `Path` are seen from: the folder of the assessment file."""

    @functools.cached_property
    def component(self) -> registry.Component:
        """The registered function."""
        return registry.get("transforms", self.name)

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        return self.component.bind(**self._placed)  # type: ignore[no-any-return]

    @property
    def _placed(self) -> dict[str, Any]:
        known = self.component.check(self.parameters)
        return {k: self.base / v if isinstance(v, Path) else v for k, v in known.items()}

    def prepare(self) -> list[str]:
        """Refuse parameters that cannot be used, before any case is made; notes for the run."""
        placed = {} if self.identity else self._placed
        ready = getattr(self.component.build, "prepare", None)
        notes = list(ready(**placed)) if ready and placed else []
        if self.level is None and self.component.origin == "roadworthy" and self.kind in TRIALS:
            # Otherwise every case would fail, and count as answered wrong.
            self._function(TRIALS[self.kind], generator(0, "trial"))
        return notes

    @functools.cached_property
    def contents(self) -> dict[str, str]:
        """By parameter that names a file or folder, a hash of what is there: cases depend on it."""
        placed = {} if self.identity else self._placed
        return {k: _content(v) for k, v in placed.items() if isinstance(v, Path)}

    @property
    def kind(self) -> Kind:
        """What it transforms."""
        return KINDS[self.component.traits["of"]]

    @property
    def identity(self) -> bool:
        """Whether this is level 0."""
        return self.level == 0

    def value(self, item: Any, rng: np.random.Generator) -> Any:
        """One value, transformed."""
        return item if self.identity else self._function(item, rng)

    def at_step(self, item: Any, seed: int, case: str, step: int = 0) -> Any:
        """One value of a case's step, with the generator that belongs to it."""
        return item if self.identity else self._function(item, self._drawn(seed, case, step))

    def warp(self, shape: tuple[int, ...], seed: int, case: str, step: int = 0) -> Any:
        """How this step's picture is moved (`geometry.Warp`); None if its pixels stay in place."""
        move = None if self.identity else getattr(self.component.build, "move", None)
        if move is None:
            return None
        return move(shape[:2], self._drawn(seed, case, step), **self._function.keywords)  # type: ignore[attr-defined]

    def carried(
        self, target: Any, shape: tuple[int, ...], seed: int, case: str, step: int = 0
    ) -> Any:
        """The target of a picture of that shape as `at_step` moves the picture; most transforms
        leave it as it is."""
        warp = self.warp(shape, seed, case, step)
        return target if warp is None else warp.target(target)

    def _drawn(self, seed: int, case: str, step: int) -> np.random.Generator:
        drawn = 0 if self.component.traits.get("draw") == "case" else step
        return generator(seed, case, self.name, drawn)

    def make(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """A sample, transformed; frames are transformed one by one."""
        return sample._replace(input=self.value(sample.input, rng))

    def applies_to(self, kind: Kind) -> bool:
        """An image transform serves frames too."""
        return kind is self.kind or (kind is FRAMES and self.kind is IMAGE)


def _content(place: Path) -> str:
    files = sorted(f for f in place.rglob("*") if f.is_file()) if place.is_dir() else [place]
    lines = [f"{f.relative_to(place).as_posix()} {state_of_file(str(f))}" for f in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def at_level(name: str, level: int, *, table: str | None = None) -> Transform:
    """The transform at a level of one of its tables (the only one, or "hendrycks" unless another is named)."""
    if level == 0:
        return Transform(name, {}, level=0, table=table)
    chosen, row = level_row("transforms", name, level, table)
    return Transform(name, row, level=level, table=chosen)


def level_row(
    room: str, name: str, level: int, table: str | None = None
) -> tuple[str, dict[str, Any]]:
    """The parameters at a level of a component's table, and the name of the table."""
    component = registry.get(room, name)
    tables: Tables = component.traits.get("tables", {})
    if not tables:
        raise ValueError(
            f"{name} has no table of levels; give its parameters: {', '.join(component.parameters)}"
        )
    chosen = table or ("hendrycks" if "hendrycks" in tables else next(iter(tables)))
    if chosen not in tables:
        raise ValueError(
            f"{name} has no table of levels {chosen!r}{did_you_mean(chosen, tables)}; it has: {', '.join(tables)}"
        )
    rows = tables[chosen]
    if not 1 <= level <= len(rows):
        raise ValueError(
            f"{name} has levels {int(room == 'attacks')} to {len(rows)} in its table {chosen!r}; "
            f"{level} is not one of them"
        )
    return chosen, dict(rows[level - 1])


def highest_level(name: str, table: str | None = None) -> float:
    """The level at which the strength of a transform ends."""
    component = registry.get("transforms", name)
    chosen, _ = level_row("transforms", name, 1, table)
    return float(len(component.traits["tables"][chosen]))


def at_strength(
    name: str,
    strength: float,
    table: str | None = None,
    *,
    fixed: Mapping[str, Any] | None = None,
    base: Path = Path(),
) -> Transform:
    """The transform between two levels: numbers are interpolated, whole ones rounded half to even.

    Below level 1 it is interpolated towards its identity, if it declares one; otherwise nothing is done there.
    `fixed` are parameters that the table does not set, such as a folder of noise.

    >>> at_strength("gaussian_noise", 1.5, "hendrycks").parameters
    {'scale': 0.1}
    """
    component = registry.get("transforms", name)
    chosen, _ = level_row("transforms", name, 1, table)
    rows = [component.traits.get("identity"), *component.traits["tables"][chosen]]
    below = min(int(strength), len(rows) - 2)
    lower, upper, share = rows[below], rows[below + 1], strength - below
    if strength <= 0 or lower is None:
        return Transform(name, {}, level=0, table=chosen)
    made = {key: _between(lower[key], upper[key], share) for key in upper}
    return Transform(name, {**(fixed or {}), **made}, level=strength, table=chosen, base=base)


def _between(lower: Any, upper: Any, share: float) -> Any:
    if isinstance(upper, list | tuple):
        return type(upper)(_between(a, b, share) for a, b in zip(lower, upper, strict=True))
    if isinstance(upper, bool | str) or upper is None:
        return upper
    value = lower + share * (upper - lower)
    return round(value) if isinstance(upper, int) and isinstance(lower, int) else value


def every_level(name: str) -> list[Transform]:
    """The transform at every level of all its tables; if it has none, with its defaults."""
    known: Tables = registry.get("transforms", name).traits.get("tables", {})
    levels = [at_level(name, i, table=t) for t, of in known.items() for i in range(1, len(of) + 1)]
    return levels or [Transform(name)]
