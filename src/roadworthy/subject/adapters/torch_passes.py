"""Monte-Carlo passes through a torch model: dropout alone is switched on, everything else stays in
evaluation mode.

A mask belongs to (seed, module, pass, layer, call) and has the shape that a case alone would give
it: all cases share it, so that no batch, order, worker or device changes it (DESIGN, section 3).
The layers of dropout stay in evaluation mode too, where they do nothing; the masks are put on what
they return. A model without dropout can have it on the input of its last layer with weights, at a
rate that is asked for. Only what follows the first dropout is run more than once (`Front`).

A batch is passed through as a whole where the cases lie along the first axis and do not depend on
each other, which is tried on cases of every batch; else one case at a time (`Dropout.together`).

Dropout that is called as a function inside a `forward`, and layers that are no plain dropout of
torch's own (alpha dropout, stochastic depth, DropBlock), stay switched off.

>>> import torch
>>> from roadworthy.subject.adapters.torch_passes import sites
>>> model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Flatten()).eval()
>>> passes = Dropout(model, sites(model, None, None)).passes(torch.ones(2, 4), 2, seed=1, module="model")
>>> [raw.tolist() for raw in passes]
[[[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0]], [[2.0, 0.0, 2.0, 2.0], [2.0, 0.0, 2.0, 2.0]]]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.data.values import Kind
from roadworthy.subject.adapters.torch_answers import alike, drawing, score_tensor
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Passes
from roadworthy.subject.passes import why_not_reduced

CHANNELS = ("Dropout1d", "Dropout2d", "Dropout3d")
"""The layers that drop whole channels."""


@dataclass(frozen=True)
class Site:
    """A place in a model where values are dropped."""

    name: str
    layer: Any
    rate: float
    channels: bool = False
    before: bool = False
    """Whether it is the layer's input that is dropped, not its output."""

    def dropped(self, values: Any, kept: np.ndarray) -> Any:
        """The values where `kept` is true, as training would have them; kept broadcasts over the
        cases."""
        import torch

        mask = torch.from_numpy(kept).to(device=values.device, dtype=values.dtype)
        if self.rate >= 1:
            return values * mask
        return values * (mask / (1 - self.rate))


def sites(model: Any, rate: float | None, head: tuple[str, Any] | None) -> list[Site]:
    """Where a model drops values: in its own layers of dropout, at `rate` or their own; if it has
    none, before its `head`.

    >>> from torch import nn
    >>> [site.name for site in sites(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3)), None, None)]
    ['1']
    """
    from torch.nn.modules.dropout import _DropoutNd

    own = [
        (name, m, type(m).__mro__)
        for name, m in model.named_modules()
        if isinstance(m, _DropoutNd) and "Alpha" not in type(m).__name__
    ]
    found = [
        Site(
            name or "model",
            layer,
            layer.p if rate is None else rate,
            channels=any(t.__name__ in CHANNELS for t in types),
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
    return why_not_reduced(request, kind)


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


class Front:
    """Runs a model on one batch again and again, and submodules before the first dropout only once.

    Passes through one batch differ only after the first of the layers that are `drawn`. A submodule
    that holds none of them and is called before it returns in later passes what it returned in the
    first, calls counted in order. Models change tensors in place, so each pass gets a copy. That is
    not enough for every model: `Dropout` compares with whole passes before it relies on it.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(), torch.nn.Linear(2, 3))
    >>> called = []
    >>> _ = model[0].register_forward_hook(lambda *_: called.append("hook"))
    >>> front = Front(model, [model[1]])
    >>> with torch.no_grad(), front.remembering():
    ...     outputs = [front.run(torch.ones(1, 2)) for _ in range(3)]
    >>> len(front.made)
    1
    """

    def __init__(self, model: Any, drawn: Collection[Any]) -> None:
        self.model, self.drawn = model, frozenset(drawn)
        holding = {m for m in model.modules() if self.drawn & set(m.modules())}
        self._units = {child for m in holding for child in m.children() if child not in holding}
        self.made: dict[tuple[Any, int], Any] = {}
        """What each call before the first draw returned."""
        self._counts: Counter[Any] = Counter()
        self._skip = False
        """Whether the first draw has been reached in this pass, or a call is under way."""

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """In here, `run` remembers; what was remembered before is forgotten."""
        own = {m: vars(m).get("forward") for m in self._units}
        self.made.clear()
        hooks = [m.register_forward_pre_hook(self._reached, prepend=True) for m in self.drawn]
        try:
            for unit in self._units:
                unit.forward = self._remembered(unit, unit.forward)
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for unit, original in own.items():
                del unit.forward
                if original is not None:
                    unit.forward = original

    def run(self, batch: Any) -> Any:
        """One pass."""
        self._counts.clear()
        self._skip = False
        return self.model(batch)

    def _reached(self, layer: Any, args: Any) -> None:
        self._skip = True

    def _remembered(self, unit: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if self._skip:
                return original(*args, **kwargs)
            call = (unit, self._counts[unit])
            self._counts[unit] += 1
            if call not in self.made:
                self._skip = True
                value = original(*args, **kwargs)
                self._skip = False
                self.made[call] = _copied(value)
                return value
            return _copied(self.made[call])

        return forward


def _copied(value: Any) -> Any:
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map(
        lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value
    )


class CasesInteract(Exception):
    """The cases of the batch do not lie along the first axis of a tensor that is dropped."""


def _scores(raw: Any, n: int) -> np.ndarray:
    found: np.ndarray = score_tensor(raw).detach().float().cpu().numpy()
    return found


@dataclass
class Dropout:
    """Passes through one model with dropout at these sites."""

    model: Any
    sites: Sequence[Site]
    read: Callable[[Any, int], Any] = _scores
    """The answers for n cases in what the model returns."""
    _fronts: dict[tuple[bool, tuple[int, ...]], Front | None] = field(default_factory=dict)
    """By whether one case is passed alone, and by its shape; None where only whole passes are right."""

    def passes(self, batch: Any, n: int, *, seed: int, module: str) -> Generator[Any, None, None]:
        """What the model returns for the batch, in n passes, which must be taken or closed before
        it is used otherwise.

        Several cases are passed at once; `together` says whether they may be, and `CasesInteract` is
        raised where they turn out not to.
        """
        yield from self._passes(batch, n, self._front(batch), seed=seed, module=module)

    def together(self, batch: Any) -> bool:
        """Whether passing these cases at once gives each what it gets alone.

        Three of them are tried, with half of the values dropped everywhere. Answers of no fixed
        length (boxes) are always made one case at a time.
        """
        n = len(batch)
        few = sorted({0, n // 2, n - 1})
        try:
            at_once = self.read(self._tried(batch[few]), len(few))
            return (
                n > 1
                and isinstance(at_once, np.ndarray)
                and all(
                    alike(at_once[k : k + 1], self.read(self._tried(batch[i : i + 1]), 1))
                    for k, i in enumerate(few)
                )
            )
        except Exception:
            return False

    def _tried(self, batch: Any) -> Any:
        """A pass in which half of the values are dropped."""
        import torch

        drop = _dropping(len(batch), (0, "tried", 0))

        def half(site: Site, call: int, values: Any) -> Any:
            return drop(replace(site, rate=0.5), call, values)

        with torch.no_grad(), drawing(str(batch.device), 0, "tried"), self._at_sites(half):
            return self.model(batch.clone())

    def _passes(
        self, batch: Any, n: int, front: Front | None, *, seed: int, module: str
    ) -> Generator[Any, None, None]:
        """Without a front, each pass runs the whole model."""
        import torch

        device, called = str(batch.device), False
        with nullcontext() if front is None else front.remembering():
            for number in range(n):
                drop = _dropping(len(batch), (seed, module, number))
                with (
                    torch.no_grad(),
                    drawing(device, seed, module, "pass", number),
                    self._at_sites(drop) as calls,
                ):
                    raw = (self.model if front is None else front.run)(batch.clone())
                called = called or bool(calls)
                yield raw
        if not called:
            raise SubjectError(uncalled(self.sites))

    def _front(self, batch: Any) -> Front | None:
        """The model's front, if remembering it gives what whole passes give; else None. Tried on
        two cases at most."""
        known = (len(batch) == 1, tuple(batch.shape[1:]))
        if known not in self._fronts:
            few, front = batch[:2].clone(), Front(self.model, [site.layer for site in self.sites])
            try:
                whole, again = (
                    [self.read(raw, len(few)) for raw in self._passes(few, 3, f, seed=0, module="")]
                    for f in (None, front)
                )
                same = all(alike(w, a, nearly=0.0) for w, a in zip(whole, again, strict=True))
                self._fronts[known] = front if same else None
            except Exception:
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


def _dropping(n: int, names: tuple[int, str, int]) -> Callable[[Site, int, Any], Any]:
    """What drops values of n cases; the mask is that of a case alone."""
    seed, module, number = names

    def drop(site: Site, call: int, values: Any) -> Any:
        if n > 1 and (values.ndim == 0 or len(values) != n):
            raise CasesInteract
        shape = list(values.shape) if n == 1 else [1, *values.shape[1:]]
        if site.channels:
            shape[2:] = [1] * len(shape[2:])
        rng = generator(seed, module, "dropout", number, site.name, call)
        return site.dropped(values, rng.random(shape, dtype=np.float32) >= site.rate)

    return drop
