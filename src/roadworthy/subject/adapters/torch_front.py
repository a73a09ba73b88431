"""The front of a torch model: what it computes before something in it is drawn at random, remembered from pass to pass.

Passes through one batch differ only after the first dropout. What comes before is made of *calls*: of submodules that hold no
dropout, of the layers of an `nn.Sequential` up to the first that does, and of torch's functions between them. The first pass
runs them and keeps what they return; in later passes the same calls, counted in order, return it again. Any model will do.

Models change tensors in place, so a call is kept only if it left its inputs as they were and returned tensors of its own; any
other call is run again in every pass. A tensor that the model changes *after* a call returned it is seen by its version counter:
from then on each pass gets a copy of its own.

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

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    """Runs a model on one batch again and again, and only what follows the first call of one of `drawn` more than once."""

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
        """What `run` returns for these arguments, from memory where the same call before the first draw is kept."""
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
        """The first layers of a sequence as one call, so that those which work in place on each other's results are kept too."""

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
        """What this pass changed is not what was returned any more: it is computed once more, and then copied for each pass."""
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
    """Whether a result is made of tensors whose memory is no input's, and whose changes would be seen."""
    import torch

    leaves = list(_leaves(value))
    found = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not found or not all(isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in leaves):
        return False
    if any(t.layout is not torch.strided or t.is_inference() for t in (*found, *given)):
        return False
    memory = {t.untyped_storage().data_ptr() for t in given}
    return not any(t.untyped_storage().data_ptr() in memory for t in found)
