"""Monte-Carlo passes through a torch model: dropout alone is switched on, everything else stays in evaluation mode.

A mask belongs to (seed, module, pass, layer, call) and has the shape of one row: all cases share it, so that no batch, order,
worker or device changes it (DESIGN, section 3). The layers of dropout stay in evaluation mode too, where they do nothing; the
masks are put on what they return. A model without dropout can have it on the input of its last layer with weights, at a rate
that is asked for. Only what follows the first dropout is run more than once (`torch_front`).

Dropout that is called as a function inside a `forward`, and layers of other packages that are no dropout of torch's own
(stochastic depth, DropBlock), cannot be seen from outside; they stay switched off.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Flatten()).eval()
>>> passes = Dropout(model, sites(model, None, None)).passes(torch.ones(2, 4), 2, seed=1, module="model")
>>> [raw.tolist() for raw in passes]
[[[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0]], [[2.0, 0.0, 2.0, 2.0], [2.0, 0.0, 2.0, 2.0]]]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.adapters.torch_front import Front
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Passes

CHANNELS = ("Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout")
"""The layers that drop whole channels."""
ALPHA = ("AlphaDropout", "FeatureAlphaDropout")
"""The layers that keep mean and variance of scaled exponential units (Klambauer et al. 2017, section 2)."""
SATURATED = -1.0507009873554805 * 1.6732632423543772
"""What such a unit tends to for low inputs, -lambda alpha: what is dropped takes this value."""


@dataclass(frozen=True)
class Site:
    """A place in a model where values are dropped."""

    name: str
    layer: Any
    rate: float
    channels: bool = False
    alpha: bool = False
    before: bool = False
    """Whether it is the layer's input that is dropped, not its output."""

    def dropped(self, values: Any, kept: np.ndarray) -> Any:
        """The values where `kept` is true, as training would have them; kept broadcasts over the cases."""
        import torch

        mask = torch.from_numpy(kept).to(device=values.device, dtype=values.dtype)
        if self.rate >= 1:
            return values * mask
        if not self.alpha:
            return values * (mask / (1 - self.rate))
        scale = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * SATURATED**2))
        return scale * (values * mask + SATURATED * (1 - mask) - SATURATED * self.rate)


def sites(model: Any, rate: float | None, head: tuple[str, Any] | None) -> list[Site]:
    """Where a model drops values: in its own layers of dropout, at `rate` or their own; if it has none, before its `head`."""
    from torch.nn.modules.dropout import _DropoutNd

    own = [(name, m, type(m).__mro__) for name, m in model.named_modules() if isinstance(m, _DropoutNd)]
    found = [
        Site(
            name or "model",
            layer,
            layer.p if rate is None else rate,
            channels=any(t.__name__ in CHANNELS for t in types),
            alpha=any(t.__name__ in ALPHA for t in types),
        )
        for name, layer, types in own
    ]
    if not own and rate is not None and head is not None:
        found = [Site(head[0], head[1], rate, before=True)]
    return [site for site in found if site.rate > 0]


def refusal(request: Passes, kind: Kind, model: Any, head: tuple[str, Any] | None) -> str | None:
    """Why such passes cannot be made; None where they can."""
    if request.kind != "dropout":
        return f"a torch model makes passes of the kind dropout, and {request.kind} was asked for"
    if request.n < 1:
        return f"{request.n} passes were asked for; one at least is needed"
    if request.rate is not None and not 0 < request.rate < 1:
        return f"the rate of dropout is {request.rate}; a share between 0 and 1 was expected, such as 0.1"
    if not sites(model, request.rate, head):
        if request.rate is not None:
            return "the model has neither a dropout layer nor a layer with weights to put dropout before"
        return "the model has no dropout layer that drops anything; give a rate, such as 0.1, to put it before the last layer"
    if request.distance is None:
        wrong = f"a summary of passes is one of class scores, and the module gives {kind.name}; ask with a distance"
        return None if kind is CLASS_SCORES else wrong
    from roadworthy.subject.variation import resolved

    try:
        resolved(request.distance, kind)
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Rows:
    """Along which axis of a tensor the cases lie (None: along none), and how many entries of it belong to each."""

    axis: int | None
    each: int = 1


_Places = dict[tuple[str, int], _Rows]
"""Where the cases lie, by site and call."""


@dataclass
class Dropout:
    """Passes through one model with dropout at these sites. What is learned about the model at the first batch is kept."""

    model: Any
    sites: Sequence[Site]
    _known: dict[tuple[int, ...], tuple[_Places, Front | None]] = field(default_factory=dict)

    def passes(self, batch: Any, n: int, *, seed: int, module: str) -> Generator[Any, None, None]:
        """What the model returns for the batch, in n passes, which must be taken or closed before it is used otherwise."""
        import torch

        shape = tuple(batch.shape[1:])
        if shape not in self._known:
            with torch.no_grad():
                rows = self._rows(batch)
                self._known[shape] = rows, self._front(batch, rows)
        rows, front = self._known[shape]
        yield from self._passes(batch, range(n), rows, front, seed=seed, module=module)

    def _passes(
        self, batch: Any, numbers: range, rows: _Places, front: Front | None, *, seed: int, module: str
    ) -> Generator[Any, None, None]:
        """The passes of these numbers; without a front, each runs the whole model."""
        import torch

        with nullcontext() if front is None else front.remembering(batch):
            for number in numbers:
                with torch.no_grad(), self._at_sites(self._dropping(rows, (seed, module, number))):
                    raw = self.model(batch.clone()) if front is None else front.run()
                yield raw

    def _dropping(self, rows: _Places, names: tuple[int, str, int]) -> Callable[[Site, int, Any], Any]:
        def drop(site: Site, call: int, values: Any) -> Any:
            seed, module, number = names
            rng = generator(seed, module, "dropout", number, site.name, call)
            return _dropped(site, values, rows.get((site.name, call), _Rows(0)), rng)

        return drop

    def _rows(self, batch: Any) -> _Places:
        """Where the cases lie in what each site gets: along the axis that is longer for three cases than for two.

        It is not always the first: attention often puts the tokens there, and windows are cut out of images.
        """
        shapes: dict[int, dict[tuple[str, int], tuple[int, ...]]] = {2: {}, 3: {}}
        for n, found in shapes.items():

            def seen(site: Site, call: int, values: Any, found: dict[Any, Any] = found) -> Any:
                found[site.name, call] = tuple(values.shape)
                return values

            with self._at_sites(seen):
                self.model(batch[:1].repeat(n, *(1 for _ in batch.shape[1:])))
        if not shapes[2]:
            names = ", ".join(site.name for site in self.sites)
            raise SubjectError(f"the model does not call {names} in its forward pass, so dropout there changes nothing")
        return {key: _axis(shape, shapes[3].get(key, shape)) for key, shape in shapes[2].items()}

    def _front(self, batch: Any, rows: _Places) -> Front | None:
        """The model's front, if remembering it gives what whole passes give; else None. Tried on two cases."""
        front = Front(self.model, [site.layer for site in self.sites])
        few, numbers = batch[:2].clone(), range(3)
        whole = list(self._passes(few, numbers, rows, None, seed=0, module=""))
        try:
            again = list(self._passes(few, numbers, rows, front, seed=0, module=""))
        except Exception:
            # Whole passes went well, so it is the remembering that this model does not bear.
            return None
        return front if all(map(_alike, whole, again)) else None

    @contextmanager
    def _at_sites(self, change: Callable[[Site, int, Any], Any]) -> Iterator[None]:
        """In here, what passes a site is what `change` makes of it; it is told which call of the site it is."""
        calls: Counter[str] = Counter()
        hooks = [_hooked(site, calls, change) for site in self.sites]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _hooked(site: Site, calls: Counter[str], change: Callable[[Site, int, Any], Any]) -> Any:
    def changed(values: Any) -> Any:
        calls[site.name] += 1
        return change(site, calls[site.name] - 1, values)

    def before(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (changed(args[0]), *args[1:]), kwargs
        first = next(iter(kwargs))
        return args, {**kwargs, first: changed(kwargs[first])}

    def after(layer: Any, args: tuple[Any, ...], output: Any) -> Any:
        # Some models drop in place and go on with what they gave.
        return output.copy_(changed(output)) if layer.inplace else changed(output)

    if site.before:
        return site.layer.register_forward_pre_hook(before, with_kwargs=True)
    return site.layer.register_forward_hook(after)


def _axis(two: tuple[int, ...], three: tuple[int, ...]) -> _Rows:
    """The axis along which three cases take half as much again as two."""
    longer = [axis for axis, (a, b) in enumerate(zip(two, three, strict=False)) if 3 * a == 2 * b and a > 0]
    return _Rows(longer[0], two[longer[0]] // 2) if longer else _Rows(None)


def _dropped(site: Site, values: Any, rows: _Rows, rng: np.random.Generator) -> Any:
    shape = list(values.shape)
    axis = rows.axis
    if axis is not None:
        shape[axis] = rows.each
    if site.channels:
        shape[2:] = [1] * len(shape[2:])
    kept = rng.random(shape, dtype=np.float32) >= site.rate
    if axis is None or rows.each == 1:
        return site.dropped(values, kept)
    parts = values.unflatten(axis, (-1, rows.each))
    return site.dropped(parts, np.expand_dims(kept, axis)).flatten(axis, axis + 1)


def _alike(one: Any, other: Any) -> bool:
    """Whether two answers hold the same tensors, but for their last bits."""
    import torch
    from torch.utils import _pytree

    first, second = ([t for t in _pytree.tree_leaves(raw) if isinstance(t, torch.Tensor)] for raw in (one, other))
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )
