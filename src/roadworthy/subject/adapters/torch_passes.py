"""Monte-Carlo passes through a torch model: dropout alone is switched on, everything else stays in
evaluation mode.

A mask belongs to (seed, module, pass, layer, call) and has the shape that a case alone would give
it: all cases share it, so that no batch, order, worker or device changes it (DESIGN, section 3).
The layers of dropout stay in evaluation mode too, where they do nothing; the masks are put on what
they return. A model without dropout can have it on the input of its last layer with weights, at a
rate that is asked for. Only what follows the first dropout is run more than once (`torch_front`).

A batch is passed through as a whole where that gives each case what it gets alone. Where the cases
lie in a tensor is found out from how it grows with their number, and tried on cases of every batch:
a model that puts the batch below its mirror images, that loops over the cases, or whose proposals
depend on the image is given one case at a time (`Dropout.together`).

Dropout that is called as a function inside a `forward`, and layers of other packages that are no
dropout of torch's own (stochastic depth, DropBlock), cannot be seen from outside; they stay
switched off.

>>> import torch
>>> from roadworthy.subject.adapters.torch_passes import sites
>>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Flatten()).eval()
>>> passes = Dropout(model, sites(model, None, None)).passes(torch.ones(2, 4), 2, seed=1, module="model")
>>> [raw.tolist() for raw in passes]
[[[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0]], [[2.0, 0.0, 2.0, 2.0], [2.0, 0.0, 2.0, 2.0]]]
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.adapters.torch_answers import alike, drawing, score_tensor
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Passes

CHANNELS = ("Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout")
"""The layers that drop whole channels."""
ALPHA = ("AlphaDropout", "FeatureAlphaDropout")
"""The layers that keep mean and variance of scaled exponential units (Klambauer et al. 2017,
section 2)."""
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
        """The values where `kept` is true, as training would have them; kept broadcasts over the
        cases."""
        import torch

        mask = torch.from_numpy(kept).to(device=values.device, dtype=values.dtype)
        if self.rate >= 1:
            return values * mask
        if not self.alpha:
            return values * (mask / (1 - self.rate))
        scale = 1 / math.sqrt((1 - self.rate) * (1 + self.rate * SATURATED**2))
        return scale * (values * mask + SATURATED * (1 - mask) - SATURATED * self.rate)


def sites(model: Any, rate: float | None, head: tuple[str, Any] | None) -> list[Site]:
    """Where a model drops values: in its own layers of dropout, at `rate` or their own; if it has
    none, before its `head`.

    The places in a torch model where values are dropped: its own layers of dropout, or what goes
    into its last layer.

    >>> from torch import nn
    >>> [site.name for site in sites(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3)), None, None)]
    ['1']
    """
    from torch.nn.modules.dropout import _DropoutNd

    own = [
        (name, m, type(m).__mro__) for name, m in model.named_modules() if isinstance(m, _DropoutNd)
    ]
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


def dropout_refusal(
    request: Passes,
    kind: Kind,
    model: Any,
    head: tuple[str, Any] | None,
    *,
    headless: str = "",
    called: Any = None,
) -> str | None:
    """Why such passes cannot be made; None where they can.

    `headless` says why there is no head, and `called` names the layers that the model calls, as far
    as that is known.
    """
    if request.kind != "dropout":
        return f"a torch model makes passes of the kind dropout, and {request.kind} was asked for"
    if request.n < 1:
        return f"{request.n} passes were asked for; one at least is needed"
    if request.rate is not None and not 0 < request.rate < 1:
        return f"the rate of dropout is {request.rate}; a share between 0 and 1 was expected, such as 0.1"
    found = sites(model, request.rate, head)
    if not found:
        if request.rate is not None:
            return f"the model has no dropout layer, and none can be put before its last layer: {headless}"
        return "the model has no dropout layer that drops anything; give a rate, such as 0.1, to put it before the last layer"
    if called is not None and not any(site.name in called or site.layer is model for site in found):
        return uncalled(found)
    if request.distance is None:
        wrong = f"a summary of passes is one of class scores, and the module gives {kind.name}; ask with a distance"
        return None if kind is CLASS_SCORES else wrong
    from roadworthy.subject.variation import resolved

    try:
        resolved(request.distance, kind)
    except ValueError as error:
        return str(error)
    return None


def uncalled(found: Sequence[Site]) -> str:
    """What is wrong with dropout at places that a model does not pass."""
    names = ", ".join(site.name for site in found)
    return f"the model does not call {names} in its forward pass, so dropout there changes nothing"


def hooked(site: Site, calls: Counter[str], change: Callable[[Site, int, Any], Any]) -> Any:
    """Put what `change` makes of the values that pass a site in their place; the handle takes it
    away again."""

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


INPUT = ("input", 0)
"""The key under which the batch itself is kept: some models change it too."""
PLAIN = (int, float, str, type(None))
"""What a kept call may return besides tensors."""

Key = tuple[Any, int]


@dataclass(frozen=True)
class _Kept:
    """What a call returned, and the versions that its tensors had then."""

    value: Any
    versions: list[int | None]


class Front:
    """Runs a model on one batch again and again, and only what follows the first call of one of
    `drawn` more than once.

    The front of a torch model: what it computes before something in it is drawn at random,
    remembered from pass to pass.

    Passes through one batch differ only after the first dropout. What comes before is made of
    *calls*: of submodules that hold no dropout, of the layers of an `nn.Sequential` up to the first
    that does, and of torch's functions between them. The first pass runs them and keeps what they
    return; in later passes the same calls, counted in order, return it again. Any model will do.

    Models change tensors in place, so a call is kept only if it left its inputs as they were and
    returned tensors of its own; any other call is run again in every pass. A tensor that the model
    changes *after* a call returned it is seen by its version counter: from then on each pass gets a
    copy of its own.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Dropout(), torch.nn.Linear(2, 3))
    >>> called = []
    >>> _ = model[0].register_forward_hook(lambda *_: called.append("front"))
    >>> _ = model[3].register_forward_hook(lambda *_: called.append("rest"))
    >>> front = Front(model, [model[2]])
    >>> with torch.no_grad(), front.remembering(torch.ones(1, 2)):
    ...     outputs = [front.run() for _ in range(3)]
    >>> called
    ['front', 'rest', 'rest', 'rest']
    """

    def __init__(self, model: Any, drawn: Collection[Any]) -> None:
        from torch import nn

        self.model = model
        self.drawn = frozenset(drawn)
        holding = {m for m in model.modules() if self.drawn & set(m.modules())}
        self._units = {child for m in holding for child in m.children() if child not in holding}
        sequences = [
            m
            for m in holding
            if type(m).forward is nn.Sequential.forward and "forward" not in vars(m)
        ]
        self._chains = {
            m: next(i for i, child in enumerate(m) if child in holding) for m in sequences
        }
        self._changed: set[Key] = set()
        """Calls whose result is changed later: each pass gets a copy."""
        self._kept: dict[Key, _Kept] = {}
        self._batch: Any = None
        self._counts: Counter[Any] = Counter()
        self._inside = False
        """Whether a call is under way: what happens in it is part of it."""
        self.passed = False
        """Whether the first draw has been reached in this pass."""

    @contextmanager
    def remembering(self, batch: Any) -> Iterator[None]:
        """In here, `run` runs the model on this batch."""
        originals = {m: m.forward for m in (*self._units, *self._chains)}
        own = {m for m in originals if "forward" in vars(m)}
        self._batch = batch
        self._keep(INPUT, _copied(batch))
        # Before any other hook: what they do belongs to the draw.
        hooks = [m.register_forward_pre_hook(self._reached, prepend=True) for m in self.drawn]
        try:
            for unit in self._units:
                unit.forward = self._unit(unit, originals[unit])
            for chain, length in self._chains.items():
                chain.forward = self._chain(chain, length, originals[chain])
            yield
        finally:
            self._kept.clear()
            for hook in hooks:
                hook.remove()
            for module, original in originals.items():
                if module in own:
                    module.forward = original
                else:
                    del module.forward

    def run(self) -> Any:
        """One pass."""
        self._counts.clear()
        self.passed = self._inside = False
        if INPUT not in self._kept:
            self._keep(INPUT, self._batch)
        batch = self._again(INPUT)
        with _watching()(self.call):
            raw = self.model(batch)
        self._forget_changed()
        return raw

    def call(
        self, what: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What `run` returns for these arguments, from memory where the same call before the first
        draw is kept."""
        if self._inside or self.passed:
            return run(*args, **kwargs)
        self._inside = True
        try:
            key = (what, self._counts[what])
            self._counts[what] += 1
            if key in self._kept:
                return self._again(key)
            given = list(_tensors((args, kwargs)))
            before = _versions(given)
            value = run(*args, **kwargs)
            if not self.passed and _versions(given) == before and _of_its_own(value, given):
                self._keep(key, value)
            return value
        finally:
            self._inside = False

    def _reached(self, module: Any, args: Any) -> None:
        self.passed = True

    def _unit(self, unit: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            return self.call(unit, original, args, kwargs)

        return forward

    def _chain(self, chain: Any, length: int, original: Callable[..., Any]) -> Callable[..., Any]:
        """The first layers of a sequence as one call, so that those which work in place on each
        other's results are kept too."""

        def first(value: Any) -> Any:
            for layer in layers[:length]:
                value = layer(value)
            return value

        def forward(value: Any) -> Any:
            if self._inside or self.passed or chain not in self._chains or not length:
                return original(value)
            key = (chain, self._counts[chain])
            value = self.call(chain, first, (value,), {})
            if key not in self._kept:
                # It changes what it is given; its layers are calls of their own from the next pass on.
                self._chains.pop(chain)
            for layer in layers[length:]:
                value = layer(value)
            return value

        layers = list(chain)
        return forward

    def _keep(self, key: Key, value: Any) -> None:
        kept = _copied(value) if key in self._changed else value
        self._kept[key] = _Kept(kept, _versions(_tensors(kept)))

    def _again(self, key: Key) -> Any:
        value = self._kept[key].value
        return _copied(value) if key in self._changed else value

    def _forget_changed(self) -> None:
        """What this pass changed is not what was returned any more: it is computed once more, and
        then copied for each pass."""
        changed = [
            key
            for key, kept in self._kept.items()
            if _versions(_tensors(kept.value)) != kept.versions
        ]
        self._changed.update(changed)
        for key in changed:
            del self._kept[key]


@functools.cache
def _watching() -> type:
    """A context in which every call of a torch function goes through what it was made with."""
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __init__(self, call: Callable[..., Any]) -> None:
            super().__init__()
            self.call = call

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return self.call(func, func, args, kwargs or {})

    return Watching


def _leaves(value: Any) -> Iterator[Any]:
    from torch.utils import _pytree

    yield from _pytree.tree_leaves(value)


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    return (leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor))


def _copied(value: Any) -> Any:
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map(
        lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value
    )


def _versions(tensors: Any) -> list[int | None]:
    """How often each tensor was changed; tensors made in inference mode do not count."""
    return [None if t.is_inference() else t._version for t in tensors]


def _of_its_own(value: Any, given: list[Any]) -> bool:
    """Whether a result is made of tensors whose memory is no input's, and whose changes would be
    seen."""
    import torch

    leaves = list(_leaves(value))
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not found or not all(isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in leaves):
        return False
    if any(t.layout is not torch.strided or t.is_inference() for t in (*found, *given)):
        return False
    memory = {t.untyped_storage().data_ptr() for t in given}
    return not any(t.untyped_storage().data_ptr() in memory for t in found)


class CasesInteract(Exception):
    """A tensor lies otherwise than it should if the cases of the batch did not depend on each
    other."""


@dataclass(frozen=True)
class _Rows:
    """Along which axis of a tensor the cases lie (None: along none), and the shape of what belongs
    to each."""

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
    found: np.ndarray = score_tensor(raw).detach().float().cpu().numpy()
    return found


@dataclass
class Dropout:
    """Passes through one model with dropout at these sites. What is learned about the model at the
    first batch is kept."""

    model: Any
    sites: Sequence[Site]
    read: Callable[[Any, int], Any] = _scores
    """The answers for n cases in what the model returns."""
    _places: dict[tuple[int, ...], _Places] = field(default_factory=dict)
    _fronts: dict[tuple[bool, tuple[int, ...]], Front | None] = field(default_factory=dict)

    def passes(self, batch: Any, n: int, *, seed: int, module: str) -> Generator[Any, None, None]:
        """What the model returns for the batch, in n passes, which must be taken or closed before
        it is used otherwise.

        Several cases are passed at once; `together` says whether they may be, and `CasesInteract` is
        raised where they turn out not to. For one case alone None stands for a pass that failed
        where another did not.
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

        Three of them are tried, with half of the values dropped everywhere; where the answers are
        of no fixed length, what each case brings to every site too.
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
        """The passes of these numbers; without a front, each runs the whole model. Without rows
        there is one case."""
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
                    raise CasesInteract
                called = called or bool(calls)
                yield raw
        if not called:
            raise SubjectError(uncalled(self.sites))

    def _whatever_fails(
        self, made: Generator[Any, None, None], batch: Any, n: int, *, seed: int, module: str
    ) -> Iterator[Any]:
        """The passes through one case; where one fails, it and all after it run the whole model,
        each by itself."""
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
                raise CasesInteract
            return _dropped(
                site, values, place, generator(seed, module, "dropout", number, site.name, call)
            )

        return drop

    def _rows(self, batch: Any) -> _Places:
        """Where the cases lie in what each site gets: along the axis that is longer for three cases
        than for two.

        It is not always the first: attention often puts the tokens there, and windows are cut out
        of images.
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
        """The model's front, if remembering it gives what whole passes give; else None. Tried on
        two cases at most."""
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
        """In here, what passes a site is what `change` makes of it; it is told which call of the
        site it is."""
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
