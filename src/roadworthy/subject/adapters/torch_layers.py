"""In which order a torch model calls its layers, which of them is the last, and how what they give
is kept.

The order in which layers are *defined* says little: heads are written first, auxiliary ones are
unused when the model answers, attention never calls the projection that it holds. So the model is
run once on noise, and watched. The **head** is the last layer with weights that it calls and on
which its answer depends, which is tried by changing what the layer gives. It must give a number for
each class: if it does not, the model goes on to use weights in a function of its own (a cosine
head), and what goes into its last weights cannot be seen.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_answers import alike

SIDES = (28, 32, 64, 224)
"""The sizes of images that are tried before there is one."""
TRIED = 8
"""How many shapes at most."""


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
    widths: dict[str, tuple[int, ...]] = {}
    given: dict[str, tuple[int, ...]] = {}
    with torch.no_grad(), _hooked(layers, given, widths):
        answer = read(run(batch.clone()))
    weighted = set(with_weights(layers))
    # A layer that was called again stands where it was called last.
    called = [name for name in widths if name in weighted]
    order = list(called)
    while order and not _matters(run, layers[order[-1]], batch, read, answer):
        order.pop()
    order = order or called
    if not order:
        return Order((), None, "the model calls no layer with weights", widths)
    head = order[-1]
    rows = isinstance(answer, np.ndarray) and answer.ndim == 2
    if rows and not {1, answer.shape[1]} & set(widths[head]):
        reason = (
            f"its last layer {head!r} gives {widths[head]}, and the model answers with "
            f"{answer.shape[1]} numbers: it uses weights in a function of its own"
        )
        return Order(tuple(order), None, reason, widths)
    return Order(tuple(order), head, "", widths, given[head])


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


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


@contextmanager
def _hooked(
    layers: Mapping[str, Any],
    given: dict[str, tuple[int, ...]],
    widths: dict[str, tuple[int, ...]],
) -> Iterator[None]:
    """In here, the shapes of what each layer is given and gives are noted, in the order of the
    calls' ends."""

    def noted(name: str) -> Callable[..., None]:
        def hook(layer: Any, args: Any, kwargs: Any, output: Any) -> None:
            for shapes, value in ((given, (args, kwargs)), (widths, output)):
                shapes.pop(name, None)
                found = _tensors(value)
                shapes[name] = tuple(found[0].shape[1:]) if found else ()

        return hook

    hooks = [m.register_forward_hook(noted(n), with_kwargs=True) for n, m in layers.items()]
    try:
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
