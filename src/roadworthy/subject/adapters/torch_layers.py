"""In which order a torch model calls its layers, which of them is the last, and how what they give
is kept.

The order in which layers are *defined* says little: heads are written first, auxiliary ones are
unused when the model answers, attention never calls the projection that it holds. So the model is
run once on noise, and watched. The **head** is the last layer with weights that it calls and on
which its answer depends, which is tried by changing what the layer gives. Where the model goes on
to use weights in a function of its own (a cosine head), what goes into its last layer cannot be
seen.

>>> from torch import nn
>>> class Net(nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.out, self.hidden, self.spare = nn.Linear(4, 3), nn.Linear(2, 4), nn.Linear(2, 2)
...     def forward(self, x): return self.out(self.hidden(x))
>>> import torch
>>> found = watched(Net(), torch.rand(2, 2), lambda raw: raw.detach().numpy())
>>> found.weighted, found.head
(('hidden', 'out'), 'out')
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_answers import alike

SIDES = (28, 32, 64, 224)
"""The sizes of images that are tried before there is one."""
TRIED = 8
"""How many shapes at most."""
ELEMENTWISE = frozenset(
    f"{dunder}{name}{dunder}"
    for dunder in ("", "__")
    for name in ("add", "sub", "mul", "div", "radd", "rsub", "rmul")
)
"""By these a bias or a scale of each class is put on the scores."""
_FUNCTION = ""
"""Stands for weights that are used outside of any layer."""


@dataclass(frozen=True)
class Order:
    """The layers that a model calls."""

    weighted: tuple[str, ...]
    """Those with weights, in the order in which they are called last."""
    head: str | None
    """The last of them, if its input is what goes into the model's last weights."""
    reason: str = ""
    """Why there is no head."""
    widths: Mapping[str, tuple[int, ...]] | None = None
    """The shape of what each layer that was called gives for one case; None if the model was never
    run."""
    into_head: tuple[int, ...] = ()
    """The shape of what goes into the head for one case."""
    shape: tuple[int, ...] | None = None
    """The shape of the inputs on which the model was watched."""


def layers_of(model: Any) -> dict[str, Any]:
    """A model's layers by name, in the order in which they were made; scripted ones cannot be
    watched and are left out."""
    import torch

    hidden = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    return {
        name: m
        for name, m in model.named_modules()
        if name and not isinstance(m, hidden) and _is_layer(name)
    }


def with_weights(layers: Mapping[str, Any]) -> list[str]:
    """The layers whose weight is a matrix or a kernel, which a normalisation's is not."""
    return [name for name, m in layers.items() if _weight_dimensions(m) >= 2]


def defined(layers: Mapping[str, Any]) -> Order:
    """The best guess without a run: the order in which layers were made."""
    names = with_weights(layers)
    return Order(
        tuple(names),
        names[-1] if names else None,
        "" if names else "the model has no layer with weights",
    )


def watched(
    model: Any, batch: Any, read: Callable[[Any], Any], *, run: Callable[[Any], Any] | None = None
) -> Order:
    """The order in which the model calls its layers for this batch; `read` gives the answers in
    what it returns.

    `run` runs it, always with the same draws.
    """
    import torch

    run = run or model

    layers = layers_of(model)
    weighted = with_weights(layers)
    seen = _Seen(
        {
            id(p)
            for m in layers.values()
            if not _is_norm(m)
            for p in m.parameters(False)
            if p.ndim >= 2
        }
    )
    seen.weights |= {id(p) for p in model.parameters(False) if p.ndim >= 2}
    with torch.no_grad(), _hooked(layers, set(weighted), seen), _watching()(seen):
        answer = read(run(batch.clone()))
    shape = tuple(batch.shape[1:])
    last = {name: i for i, name in enumerate(seen.events) if name != _FUNCTION}
    called = sorted(last, key=lambda name: last[name])
    order = list(called)
    while order and not _matters(run, layers[order[-1]], batch, read, answer):
        order.pop()
    order = order or called
    if not order:
        return Order((), None, "the model calls no layer with weights", seen.widths, (), shape)
    head = order[-1]
    if _FUNCTION in seen.events[last[head] + 1 :]:
        reason = f"after its layer {head!r} the model uses weights in a function of its own, where nothing can be seen"
        return Order(tuple(order), None, reason, seen.widths, (), shape)
    return Order(tuple(order), head, "", seen.widths, seen.given.get(head, ()), shape)


def noise(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Two images of noise, always the same: what a model is watched on must not follow from the
    images that come first."""
    drawn = generator(0, "noise").random((2, *shape))
    return (drawn * 255).astype(dtype) if dtype == "uint8" else drawn.astype(dtype)


def plausible_shapes(layers: Mapping[str, Any], prepare: InputPreparation) -> list[tuple[int, ...]]:
    """Shapes that a model's inputs may have, by what its layers take."""
    found: dict[tuple[int, int], None] = {}
    for name in with_weights(layers):
        layer = layers[name]
        channels = getattr(layer, "in_channels", None)
        if channels in (1, 3):
            found.update(dict.fromkeys((channels, side) for side in SIDES))
        for channels in (1, 3):
            side = round((getattr(layer, "in_features", 0) / channels) ** 0.5)
            if side and channels * side * side == layer.in_features:
                found[channels, side] = None
    wanted = [(c, s) for c, s in found if prepare.channels in (None, c)][:TRIED]
    return [(c, s, s) if prepare.layout == "nchw" else (s, s, c) for c, s in wanted]


def keep_output(store: dict[str, Any], name: str) -> Callable[..., None]:
    """A hook that keeps what a layer gives."""

    def hook(layer: Any, arguments: Any, output: Any) -> None:
        store[name] = _kept(output)

    return hook


def keep_input(store: dict[str, Any], name: str) -> Callable[..., None]:
    """A hook that keeps what a layer is given."""

    def hook(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        store[name] = _kept(args[0] if args else next(iter(kwargs.values()), None))

    return hook


def _kept(value: Any) -> Any:
    """A copy of the first tensor: what comes later may work in place."""
    first = value[0] if isinstance(value, tuple | list) and value else value
    return first.clone() if hasattr(first, "clone") else first


def _is_layer(name: str) -> bool:
    return "parametrizations" not in name.split(".")


def _is_norm(layer: Any) -> bool:
    from torch import nn

    return isinstance(layer, nn.LayerNorm | nn.RMSNorm)


def _weight_dimensions(layer: Any) -> int:
    if _is_norm(layer):
        return 0
    weight = getattr(layer, "weight", None)
    if callable(weight) and type(layer).__module__.startswith("torch."):
        # Quantised layers keep it packed.
        weight = weight()
    return int(getattr(weight, "ndim", 0))


@dataclass
class _Seen:
    """What happens in a run."""

    weights: set[int]
    """The ids of weights, and of what is made of weights alone."""
    events: list[str] = field(default_factory=list)
    """The layers with weights as they return, and uses of weights by a function."""
    widths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    given: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inside: int = 0
    alive: list[Any] = field(default_factory=list)
    """Keeps what is made of weights from giving its id to another tensor."""

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A call of one of torch's functions."""
        result = function(*args, **kwargs)
        tensors, made = _tensors((args, kwargs)), _tensors(result)
        of_weights = [t for t in tensors if id(t) in self.weights]
        if not of_weights or not made:
            return result
        if len(of_weights) == len(tensors):
            self.alive += made
            self.weights |= {id(t) for t in made if t.ndim >= 2}
        elif not self.inside and not _is_scale(function, of_weights):
            self.events.append(_FUNCTION)
        return result


def _is_scale(function: Any, weights: Sequence[Any]) -> bool:
    return getattr(function, "__name__", "") in ELEMENTWISE and all(
        t.squeeze().ndim < 2 for t in weights
    )


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@functools.cache
def _watching() -> type:
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __init__(self, seen: _Seen) -> None:
            super().__init__()
            self.seen = seen

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return self.seen.call(func, args, kwargs or {})

    return Watching


@contextmanager
def _hooked(layers: Mapping[str, Any], weighted: set[str], seen: _Seen) -> Iterator[None]:
    def entered(name: str) -> Callable[..., None]:
        def hook(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen.inside += 1
            given = _tensors((args, kwargs))
            seen.given[name] = tuple(given[0].shape[1:]) if given else ()

        return hook

    def left(name: str) -> Callable[..., None]:
        def hook(layer: Any, args: Any, output: Any) -> None:
            made = _tensors(output)
            seen.widths[name] = tuple(made[0].shape[1:]) if made else ()
            if name in weighted:
                seen.inside -= 1
                seen.events.append(name)

        return hook

    hooks = []
    try:
        for name, layer in layers.items():
            if name in weighted:
                hooks.append(layer.register_forward_pre_hook(entered(name), with_kwargs=True))
            hooks.append(layer.register_forward_hook(left(name)))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _matters(
    run: Callable[[Any], Any], layer: Any, batch: Any, read: Callable[[Any], Any], answer: Any
) -> bool:
    """Whether the answer is another one where the layer gives something else."""
    import torch

    def other(layer: Any, args: Any, output: Any) -> Any:
        first = _tensors(output)[0]
        drawn = torch.randn(first.shape, generator=torch.Generator().manual_seed(0))
        changed = drawn.to(first.device, first.dtype) - first
        if isinstance(output, tuple | list):
            return type(output)([changed, *output[1:]])
        return changed

    hook = layer.register_forward_hook(other)
    try:
        with torch.no_grad():
            return not alike(answer, read(run(batch.clone())))
    except Exception:
        # It cannot even be run with other numbers there, so it does depend on them.
        return True
    finally:
        hook.remove()
