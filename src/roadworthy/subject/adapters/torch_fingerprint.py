"""What a torch model's answers depend on besides its source: its weights, its buffers, and the plain attributes of its modules.

A temperature read from a file, the rate of a dropout, a mask that is no part of the saved state: all of them change answers.

>>> import torch
>>> def mark(rate): return list(state_of(torch.nn.Sequential(torch.nn.Dropout(rate))))
>>> mark(0.1) == mark(0.1), mark(0.1) == mark(0.5)
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roadworthy.subject.captured import content_of


def state_of(model: Any, folder: str = "") -> Iterator[str | bytes]:
    """The state of a model, piece by piece; `folder` is where its files lie, which does not count where it is moved."""
    from torch.utils import _pytree

    entries = dict(model.state_dict())
    # Tensors of which the saved state does not speak.
    entries.update({name: buffer for name, buffer in model.named_buffers() if name not in entries})
    for name, entry in entries.items():
        # Quantised layers keep tuples, types and their packed weights there.
        for leaf in _pytree.tree_leaves(entry):
            yield f"{name} {_described(leaf)}"
            yield _content(leaf)
    for name, module in model.named_modules():
        for attribute, value in _own(module).items():
            yield f"{name}.{attribute}"
            yield _read(value, folder)


def _own(module: Any) -> dict[str, Any]:
    """What a module holds beyond what every module does."""
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        return {}
    usual = {*vars(torch.nn.Module()), "forward"}
    return {name: value for name, value in sorted(vars(module).items()) if name not in usual}


def _read(value: Any, folder: str) -> str:
    try:
        return content_of(value, vouched=True, folder=folder)
    except ValueError:
        return f"unread {type(value).__qualname__}"


def _described(leaf: Any) -> str:
    return f"{leaf.dtype} {tuple(leaf.shape)}" if hasattr(leaf, "shape") else type(leaf).__name__


def _content(leaf: Any) -> bytes:
    import torch

    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode()
    values = leaf.detach().cpu()
    if values.is_quantized:
        scales = torch.dequantize(values)
        return _bytes(values.int_repr()) + _bytes(scales)
    return _bytes(values if values.layout is torch.strided else values.to_dense())


def _bytes(values: Any) -> bytes:
    import torch

    content: bytes = values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return content
