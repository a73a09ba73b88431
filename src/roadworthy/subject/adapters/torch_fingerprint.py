"""What a torch model's answers depend on besides its source: its weights, its buffers, and its architecture as it is printed.

Numbers that its modules hold as plain attributes (a temperature, a rate) count; what else they hold is not seen.

>>> import torch
>>> def mark(rate): return list(state_of(torch.nn.Sequential(torch.nn.Dropout(rate))))
>>> mark(0.1) == mark(0.1), mark(0.1) == mark(0.5)
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def state_of(model: Any) -> Iterator[str | bytes]:
    """The state of a model, piece by piece."""
    from torch.utils import _pytree

    # An address in memory is another one in each process.
    yield re.sub(r"0x[0-9a-fA-F]{6,}", "", repr(model))
    entries = dict(model.state_dict())
    # Tensors of which the saved state does not speak.
    entries.update({name: buffer for name, buffer in model.named_buffers() if name not in entries})
    for name, entry in entries.items():
        # Quantised layers keep tuples, types and their packed weights there.
        for leaf in _pytree.tree_leaves(entry):
            yield f"{name} {_described(leaf)}"
            yield _content(leaf)
    for name, module in model.named_modules():
        numbers = {k: v for k, v in vars(module).items() if isinstance(v, bool | int | float)}
        yield f"{name} {sorted(numbers.items())}"


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
