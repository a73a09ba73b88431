"""Monte-Carlo passes through a torch model: dropout alone is switched on, everything else stays in evaluation mode.

A mask belongs to (seed, module, pass, layer, call) and has the shape that a case alone would give it: all cases share it, so
that no batch, order, worker or device changes it (DESIGN, section 3). The layers of dropout stay in evaluation mode too, where
they do nothing; the masks are put on what they return. A model without dropout can have it on the input of its last layer with
weights, at a rate that is asked for. Only what follows the first dropout is run more than once (`torch_front`).

A batch is passed through as a whole where that gives each case what it gets alone. Where the cases lie in a tensor is found out
from how it grows with their number, and tried on cases of every batch: a model that puts the batch below its mirror images, that
loops over the cases, or whose proposals depend on the image is given one case at a time (`Dropout.together`).

Dropout that is called as a function inside a `forward`, and layers of other packages that are no dropout of torch's own
(stochastic depth, DropBlock), cannot be seen from outside; they stay switched off.

>>> import torch
>>> from roadworthy.subject.adapters.torch_sites import sites
>>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Flatten()).eval()
>>> passes = Dropout(model, sites(model, None, None)).passes(torch.ones(2, 4), 2, seed=1, module="model")
>>> [raw.tolist() for raw in passes]
[[[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0]], [[2.0, 0.0, 2.0, 2.0], [2.0, 0.0, 2.0, 2.0]]]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.subject.adapters.torch_answers import alike
from roadworthy.subject.adapters.torch_front import Front
from roadworthy.subject.adapters.torch_gradients import scores_of
from roadworthy.subject.adapters.torch_running import drawing
from roadworthy.subject.adapters.torch_sites import Site, hooked, uncalled
from roadworthy.subject.module import SubjectError


class Unlike(Exception):
    """A tensor lies otherwise than it should if the cases of the batch did not depend on each other."""


@dataclass(frozen=True)
class _Rows:
    """Along which axis of a tensor the cases lie (None: along none), and the shape of what belongs to each."""

    axis: int | None
    shape: tuple[int, ...]

    @property
    def each(self) -> int:
        """How many entries along the axis belong to each case."""
        return 1 if self.axis is None else self.shape[self.axis]

    def fits(self, shape: Sequence[int], n: int) -> bool:
        """Whether a tensor of n cases has this shape."""
        return tuple(shape) == tuple(
            size * n if i == self.axis else size for i, size in enumerate(self.shape)
        )


_Places = dict[tuple[str, int], _Rows]
"""Where the cases lie, by site and call."""


def _scores(raw: Any, n: int) -> np.ndarray:
    found: np.ndarray = scores_of(raw).detach().float().cpu().numpy()
    return found


@dataclass
class Dropout:
    """Passes through one model with dropout at these sites. What is learned about the model at the first batch is kept."""

    model: Any
    sites: Sequence[Site]
    read: Callable[[Any, int], Any] = _scores
    """The answers for n cases in what the model returns."""
    _places: dict[tuple[int, ...], _Places] = field(default_factory=dict)
    _fronts: dict[tuple[bool, tuple[int, ...]], Front | None] = field(default_factory=dict)

    def passes(self, batch: Any, n: int, *, seed: int, module: str) -> Generator[Any, None, None]:
        """What the model returns for the batch, in n passes, which must be taken or closed before it is used otherwise.

        Several cases are passed at once; `together` says whether they may be, and `Unlike` is raised where they turn out not
        to. For one case alone None stands for a pass that failed where another did not.
        """
        alone = len(batch) == 1
        rows = {} if alone else self._rows(batch)
        made = self._passes(
            batch, range(n), rows, self._front(batch, rows), seed=seed, module=module
        )
        if alone:
            yield from self._whatever_fails(made, batch, n, seed=seed, module=module)
        else:
            yield from made

    def together(self, batch: Any) -> bool:
        """Whether passing these cases at once gives each what it gets alone.

        Three of them are tried, with half of the values dropped everywhere; where the answers are of no fixed length, what
        each case brings to every site too.
        """
        n = len(batch)
        if n < 2:
            return False
        few = sorted({0, n // 2, n - 1})
        try:
            rows = self._rows(batch)
            at_once = self.read(self._tried(batch[few], rows)[0], len(few))
            alone = {
                i: self._tried(batch[i : i + 1], {})
                for i in (few if isinstance(at_once, np.ndarray) else range(n))
            }
            same = all(
                alike(at_once[k : k + 1], self.read(alone[i][0], 1)) for k, i in enumerate(few)
            )
        except Exception:
            return False
        places = {key: place.shape for key, place in rows.items()}
        return bool(places) and same and all(shapes == places for _, shapes in alone.values())

    def _tried(
        self, batch: Any, rows: _Places
    ) -> tuple[Any, dict[tuple[str, int], tuple[int, ...]]]:
        """A pass in which half of the values are dropped, and the shapes that came to the sites."""
        import torch

        shapes: dict[tuple[str, int], tuple[int, ...]] = {}
        drop = self._dropping(rows, len(batch), (0, "tried", 0))

        def half(site: Site, call: int, values: Any) -> Any:
            shapes[site.name, call] = tuple(values.shape)
            return drop(replace(site, rate=0.5), call, values)

        with torch.no_grad(), drawing(str(batch.device), 0, "tried"), self._at_sites(half):
            return self.model(batch.clone()), shapes

    def _passes(
        self,
        batch: Any,
        numbers: range,
        rows: _Places,
        front: Front | None,
        *,
        seed: int,
        module: str,
    ) -> Generator[Any, None, None]:
        """The passes of these numbers; without a front, each runs the whole model. Without rows there is one case."""
        import torch

        device = str(batch.device)
        called = False
        with nullcontext() if front is None else front.remembering(batch):
            for number in numbers:
                drop = self._dropping(rows, len(batch), (seed, module, number))
                with (
                    torch.no_grad(),
                    drawing(device, seed, module, "pass", number),
                    self._at_sites(drop) as calls,
                ):
                    raw = self.model(batch.clone()) if front is None else front.run()
                if rows and calls.total() != len(rows):
                    raise Unlike
                called = called or bool(calls)
                yield raw
        if not called:
            raise SubjectError(uncalled(self.sites))

    def _whatever_fails(
        self, made: Generator[Any, None, None], batch: Any, n: int, *, seed: int, module: str
    ) -> Iterator[Any]:
        """The passes through one case; where one fails, it and all after it run the whole model, each by itself."""
        number, failed = 0, []
        try:
            with closing(made):
                for raw in made:
                    yield raw
                    number += 1
            return
        except SubjectError:
            raise
        except Exception as error:
            failed.append(error)
            yield None
        for later in range(number + 1, n):
            try:
                (raw,) = self._passes(
                    batch, range(later, later + 1), {}, None, seed=seed, module=module
                )
            except Exception as error:
                failed.append(error)
                raw = None
            yield raw
        if len(failed) == n:
            raise failed[0]

    def _dropping(
        self, rows: _Places, n: int, names: tuple[int, str, int]
    ) -> Callable[[Site, int, Any], Any]:
        def drop(site: Site, call: int, values: Any) -> Any:
            seed, module, number = names
            place = rows.get((site.name, call)) if n > 1 else _Rows(None, tuple(values.shape))
            if place is None or (n > 1 and not place.fits(values.shape, n)):
                raise Unlike
            return _dropped(
                site, values, place, generator(seed, module, "dropout", number, site.name, call)
            )

        return drop

    def _rows(self, batch: Any) -> _Places:
        """Where the cases lie in what each site gets: along the axis that is longer for three cases than for two.

        It is not always the first: attention often puts the tokens there, and windows are cut out of images.
        """
        import torch

        known = tuple(batch.shape[1:])
        if known not in self._places:
            shapes: dict[int, dict[tuple[str, int], tuple[int, ...]]] = {2: {}, 3: {}}
            for n, found in shapes.items():

                def seen(site: Site, call: int, values: Any, found: dict[Any, Any] = found) -> Any:
                    found[site.name, call] = tuple(values.shape)
                    return values

                with torch.no_grad(), drawing(str(batch.device), 0, "rows"), self._at_sites(seen):
                    self.model(batch[:1].repeat(n, *(1 for _ in batch.shape[1:])))
            self._places[known] = {
                key: _axis(shape, shapes[3].get(key, shape)) for key, shape in shapes[2].items()
            }
        return self._places[known]

    def _front(self, batch: Any, rows: _Places) -> Front | None:
        """The model's front, if remembering it gives what whole passes give; else None. Tried on two cases at most."""
        known = (bool(rows), tuple(batch.shape[1:]))
        if known in self._fronts:
            return self._fronts[known]
        front = Front(self.model, [site.layer for site in self.sites])
        few, numbers = batch[:2].clone(), range(3)
        try:
            whole = [
                self.read(raw, len(few))
                for raw in self._passes(few, numbers, rows, None, seed=0, module="")
            ]
        except Exception:
            # That is no fault of the remembering; another batch will tell.
            return None
        try:
            again = [
                self.read(raw, len(few))
                for raw in self._passes(few, numbers, rows, front, seed=0, module="")
            ]
            self._fronts[known] = front if all(map(alike, whole, again)) else None
        except Exception:
            # Whole passes went well, so it is the remembering that this model does not bear.
            self._fronts[known] = None
        return self._fronts[known]

    @contextmanager
    def _at_sites(self, change: Callable[[Site, int, Any], Any]) -> Iterator[Counter[str]]:
        """In here, what passes a site is what `change` makes of it; it is told which call of the site it is."""
        calls: Counter[str] = Counter()
        hooks: list[Any] = []
        try:
            for site in self.sites:
                hooks.append(hooked(site, calls, change))
            yield calls
        finally:
            for hook in hooks:
                hook.remove()


def _axis(two: tuple[int, ...], three: tuple[int, ...]) -> _Rows:
    """The axis along which three cases take half as much again as two."""
    longer = [
        axis
        for axis, (a, b) in enumerate(zip(two, three, strict=False))
        if 3 * a == 2 * b and a > 0
    ]
    if not longer:
        return _Rows(None, two)
    return _Rows(
        longer[0], tuple(size // 2 if i == longer[0] else size for i, size in enumerate(two))
    )


def _dropped(site: Site, values: Any, rows: _Rows, rng: np.random.Generator) -> Any:
    shape, axis = list(rows.shape), rows.axis
    if site.channels:
        shape[2:] = [1] * len(shape[2:])
    kept = rng.random(shape, dtype=np.float32) >= site.rate
    if axis is None or rows.each == 1:
        return site.dropped(values, kept)
    parts = values.unflatten(axis, (-1, rows.each))
    return site.dropped(parts, np.expand_dims(kept, axis)).flatten(axis, axis + 1)
