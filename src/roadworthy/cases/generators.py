"""What makes the input of a case out of a sample: transforms in a row, a mixture of circumstances, an attack, a source.

All of them are functions of the sample, the run's seed and the case's id, so that a case is the same for any number of
workers and can be made again for the report. `Chain` is one or more transforms in a row. `Mixture` draws for each case which
circumstances it meets, each with its probability; of exclusive ones at most one. `Attack` asks the subject for gradients.
`InvalidSource` makes inputs that have no right answer; a sample says only of which shape they are.

>>> fog, rain = MixturePart("fog", 0.3, (Chain(()),)), MixturePart("rain", 0.6, (Chain(()),))
>>> use = Mixture((fog, rain), exclusive=(("fog", "rain"),))
>>> met = [use.drawn(0, str(case)) for case in range(4000)]
>>> round(met.count(("fog",)) / 4000, 2), round(met.count(("rain",)) / 4000, 2), met.count(("fog", "rain"))
(0.31, 0.6, 0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy import registry
from roadworthy.cases.transform import Transform
from roadworthy.data.seeds import generator
from roadworthy.data.values import FRAMES, IMAGE, KINDS, Kind, Unreadable

NONE = "none"
"""What a mixture calls a case that meets no circumstance."""


@dataclass(frozen=True)
class Chain:
    """Transforms that are applied in order, each with a generator of its own."""

    parts: tuple[Transform, ...]
    level: float | None = None

    @property
    def identity(self) -> bool:
        """Whether nothing is done."""
        return all(part.identity for part in self.parts)

    @property
    def components(self) -> list[registry.Component]:
        """The registered functions."""
        return [part.component for part in self.parts]

    @property
    def content(self) -> list[Any]:
        """Names and parameters: what a case depends on."""
        return [[part.name, dict(part.parameters), part.contents] for part in self.parts]

    def applies_to(self, kind: Kind) -> bool:
        """Whether each of them takes such values."""
        return all(part.applies_to(kind) for part in self.parts)

    def at_step(self, item: Any, seed: int, case: str, step: int = 0) -> Any:
        """One value of a case's step."""
        for part in self.parts:
            item = part.at_step(item, seed, case, step)
        return item

    def carried(self, target: Any, shape: tuple[int, ...], seed: int, case: str) -> Any:
        """The target of a picture of that shape: boxes, masks and tracks move with it."""
        for part in self.parts:
            target = part.carried(target, shape, seed, case)
        return target

    @property
    def carries(self) -> bool:
        """Whether any of them moves what is in the picture."""
        return any(component.traits.get("geometry") for component in self.components)


@dataclass(frozen=True)
class MixturePart:
    """One circumstance of a mixture: how often it is met, and its levels, which are met equally often."""

    name: str
    probability: float
    levels: tuple[Chain, ...]


@dataclass(frozen=True)
class Mixture:
    """Circumstances as they are met in use: those of an exclusive group at most one at a time, others independently."""

    members: tuple[MixturePart, ...]
    exclusive: tuple[tuple[str, ...], ...] = ()
    level: float | None = None
    identity = False

    @property
    def components(self) -> list[registry.Component]:
        """The registered functions."""
        return [c for m in self.members for chain in m.levels for c in chain.components]

    @property
    def content(self) -> list[Any]:
        """What a case depends on."""
        parts = [[m.name, m.probability, [c.content for c in m.levels]] for m in self.members]
        return [parts, [list(group) for group in self.exclusive]]

    @property
    def carries(self) -> bool:
        """Whether any of them moves what is in the picture."""
        return any(component.traits.get("geometry") for component in self.components)

    def applies_to(self, kind: Kind) -> bool:
        """Whether each of them takes such values."""
        return all(chain.applies_to(kind) for m in self.members for chain in m.levels)

    def probability_of_any(self) -> float:
        """How often at least one of them is met."""
        shares = {m.name: m.probability for m in self.members}
        none = 1.0
        for group in self.exclusive:
            none *= 1.0 - sum(shares.pop(name, 0.0) for name in group)
        return 1.0 - none * float(np.prod([1.0 - p for p in shares.values()]))

    def drawn(self, seed: int, case: str) -> tuple[str, ...]:
        """The circumstances that a case meets, in the order of the file."""
        return tuple(m.name for m, _ in self._drawn(seed, case))

    def label(self, seed: int, case: str) -> str:
        """The same in words: ``fog + rain``."""
        return " + ".join(self.drawn(seed, case)) or NONE

    def at_step(self, item: Any, seed: int, case: str, step: int = 0) -> Any:
        """One value of a case's step."""
        for _, chain in self._drawn(seed, case):
            item = chain.at_step(item, seed, case, step)
        return item

    def carried(self, target: Any, shape: tuple[int, ...], seed: int, case: str) -> Any:
        """The target of a picture of that shape."""
        for _, chain in self._drawn(seed, case):
            target = chain.carried(target, shape, seed, case)
        return target

    def _drawn(self, seed: int, case: str) -> list[tuple[MixturePart, Chain]]:
        rng = generator(seed, case, "mixture")
        # Every circumstance has a number, whatever is exclusive: a group takes that of its first.
        numbers = dict(
            zip([m.name for m in self.members], rng.random(len(self.members)), strict=True)
        )
        levels = rng.random(len(self.members))
        below = dict.fromkeys(numbers, 0.0)
        for group in self.exclusive:
            there = [m for m in self.members if m.name in group]
            for before, m in pairwise(there):
                numbers[m.name] = numbers[there[0].name]
                below[m.name] = below[before.name] + before.probability
        return [
            (m, m.levels[int(level * len(m.levels))])
            for m, level in zip(self.members, levels, strict=True)
            if below[m.name] <= numbers[m.name] < below[m.name] + m.probability
        ]


@dataclass(frozen=True)
class InvalidSource:
    """A registered source: inputs without a right answer, as many as there are samples."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    identity = False
    carries = False

    @functools.cached_property
    def components(self) -> list[registry.Component]:
        """The registered function."""
        return [registry.get("sources", self.name)]

    @property
    def content(self) -> list[Any]:
        """What a case depends on."""
        return ["source", self.name, dict(self.parameters)]

    def applies_to(self, kind: Kind) -> bool:
        """Whether it makes such values."""
        made = KINDS[self.components[0].traits["of"]]
        return kind is made or (kind is FRAMES and made is IMAGE)

    def at_step(self, item: Any, seed: int, case: str, step: int = 0) -> Any:
        """An input of the shape of a sample's."""
        return self._function(item, generator(seed, case, self.name, step))

    @functools.cached_property
    def _function(self) -> Any:
        return self.components[0].bind(**self.parameters)


class Drawing(NamedTuple):
    """What a source is asked for that learns from data; it gives a data set of labelled cases.

    Its trait `learned_from` names the role of the data that it is called with, before this.
    """

    n: int
    """Cases."""
    seed: int
    keep: Path
    """A folder in which it finds again what it has learned and drawn."""
    progress: Callable[[float], None]
    """Told the share that is done, from 0, while it learns."""


@dataclass(frozen=True)
class Attack:
    """A registered attack: the smallest change, or one of a given size, that makes the answer wrong."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    identity = False
    carries = False

    @functools.cached_property
    def components(self) -> list[registry.Component]:
        """The registered function."""
        return [registry.get("attacks", self.name)]

    @property
    def content(self) -> list[Any]:
        """What a case depends on."""
        return ["attack", self.name, dict(self.parameters)]

    def check(self) -> None:
        """Refuse parameters with which it cannot run, before any image is attacked."""
        component = self.components[0]
        if not self.parameters and component.traits.get("tables"):
            raise ValueError(
                f"{self.name} needs levels, such as [1, 2, 3], or parameters, such as {{epsilon: 0.03}}"
            )
        known = component.check(self.parameters)
        size, most = known.get("epsilon", 1.0), 1.0 if known.get("norm") == "linf" else np.inf
        if not (0 < size <= most and np.isfinite(size)):
            raise ValueError(
                f"{self.name}: epsilon is {size:g}; pixels are from 0 to 1, so write 0.031 for 8 of 255"
            )
        if known.get("steps", 1) < 1:
            raise ValueError(f"{self.name}: steps is {known['steps']}; 1 or more was expected")

    def applies_to(self, kind: Kind) -> bool:
        """Attacks change images."""
        return kind is IMAGE

    def images(
        self, items: Sequence[Any], labels: np.ndarray, query: Any, seed: int, cases: Sequence[str]
    ) -> list[Any]:
        """The attacked images as float32 in [0, 1]; `Unreadable` for those that cannot be."""
        made, attack = [_sound(item) for item in items], self.function()
        for rows, images, truth, rngs in self.batches(made, labels, seed, cases):
            found = attack(images, truth, query, rngs).cpu().numpy().astype(np.float32)
            for i, image in zip(rows, found, strict=True):
                made[i] = image
        return made

    def function(self, *free: str) -> Any:
        """The attack with its parameters fixed, but for those that are left free."""
        fixed = {k: v for k, v in self.parameters.items() if k not in free}
        return functools.partial(self.components[0].build, **fixed)

    def batches(
        self, items: Sequence[Any], labels: np.ndarray, seed: int, cases: Sequence[str]
    ) -> Iterator[tuple[list[int], Any, Any, list[np.random.Generator]]]:
        """Rows of one shape: their numbers, images as a tensor in [0, 1], labels, and a generator each."""
        import torch

        from roadworthy.cases.image.pixels import as_floats, white

        sound = [_sound(item) for item in items]
        shapes: dict[tuple[int, ...], list[int]] = {}
        for i, item in enumerate(sound):
            if not isinstance(item, Unreadable):
                shapes.setdefault(item.shape, []).append(i)
        for rows in shapes.values():
            arrays = [sound[i] for i in rows]
            images = torch.from_numpy(np.stack([as_floats(a) / white(a.dtype) for a in arrays]))
            truth = torch.from_numpy(np.asarray(labels, dtype=np.int64)[rows])
            yield rows, images, truth, [generator(seed, cases[i], self.name) for i in rows]


def _sound(item: Any) -> Any:
    """The image, or why it cannot be attacked."""
    from roadworthy.cases.image.pixels import sound_image

    try:
        return item if isinstance(item, Unreadable) else sound_image(item)
    except ValueError as error:
        return Unreadable(f"the attack failed: {error}")


def attack_sizes(clean: Sequence[Any], attacked: Sequence[Any]) -> dict[str, np.ndarray]:
    """How far each image was changed, white being 1: the largest change of a value, and the root of the sum of squares."""
    from roadworthy.cases.image.pixels import as_floats, white

    sizes = np.full((len(clean), 2), np.nan)
    for i, (before, after) in enumerate(zip(clean, attacked, strict=True)):
        if not isinstance(after, Unreadable):
            image = np.asarray(before)
            change = np.abs(after - as_floats(image) / white(image.dtype))
            sizes[i] = change.max(), np.sqrt(np.square(change).sum())
    return {"attack.linf": sizes[:, 0], "attack.l2": sizes[:, 1]}


Generator = Chain | Mixture | InvalidSource | Attack
