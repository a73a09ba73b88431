"""How a chunk of cases is cut into a model's batches, and what the adapters of image models have in common.

A model's answers can differ in their last bits with the size of the batch, so the cuts are fixed: the chunk by the plan, the
batches within it by `batch`. The same chunk is cut in the same way by every worker.

>>> [(s.start, s.stop) for s in spans(5, 2)]
[(0, 2), (2, 4), (4, 5)]
>>> pooled(np.arange(8.0).reshape(1, 2, 2, 2), "mean").tolist()
[[1.5, 5.5]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from roadworthy.data.values import BOXES, CLASS_SCORES, IMAGE, VECTOR, Kind, Task
from roadworthy.registry import did_you_mean
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Pool, Request


def spans(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover n rows in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, filled up to `size` with copies of the last one, for models whose batch has a fixed size."""
    missing = size - len(rows)
    return rows if missing <= 0 else np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])


def pooled(activations: np.ndarray, pool: Pool, *, features_last: bool = True) -> np.ndarray:
    """A row of numbers a case, float32; (n, c, h, w) is pooled over space, (n, tokens, c) over the tokens, else flattened.

    With `features_last` False, (n, c, t) is pooled over t.
    """
    values = np.asarray(activations, dtype=np.float32)
    if pool != "none" and values.ndim > 2:
        axes = (1,) if values.ndim == 3 and features_last else tuple(range(2, values.ndim))
        values = (
            values.mean(axis=axes, dtype=np.float32) if pool == "mean" else values.max(axis=axes)
        )
    return np.ascontiguousarray(values.reshape(len(values), -1))


def refused(request: Request, layers: Iterable[str], *, where: str) -> str | None:
    """Why an image model does not grant a request: None for its input, its output and the layers it has."""
    if isinstance(request, Output | Input):
        return None
    if not isinstance(request, Layer):
        return _unseen(request)
    name, known = request.name, list(layers)
    if name in known:
        return None
    shown = ", ".join(known[:30]) + (f" and {len(known) - 30} more" if len(known) > 30 else "")
    return f"{where} has no layer {name!r}{did_you_mean(name, known)}; it has: {shown or 'none'}"


def _unseen(request: Request) -> str:
    """Why what happens inside a model is not to be had from outside."""
    if isinstance(request, Passes) and request.kind == "dropout":
        return "dropout is switched on inside a model, which the adapter torch can do and this one cannot"
    if isinstance(request, Passes):
        return f"it makes no passes of the kind {request.kind}"
    if isinstance(request, Gradient):
        return (
            "gradients are taken inside a model, which the adapter torch can do and this one cannot"
        )
    return f"{request.column} is not what a model gives"


def takes_images(task: Task, adapter: str) -> None:
    """Refuse a task that does not go from images to class scores, a vector or boxes."""
    if task.input is not IMAGE or task.output not in (CLASS_SCORES, VECTOR, BOXES):
        raise SubjectError(
            f"the adapter {adapter} goes from images to class scores, vectors or boxes, and the task {task.name} from "
            f"{task.input} to {task.output}; write a Python function and use the adapter python or system"
        )


def numbers(values: np.ndarray, n: int, kind: Kind) -> np.ndarray:
    """A model's answers as (n, k) float32; another shape is refused by a sentence."""
    if values.ndim == 1 and len(values) == n and kind is VECTOR:
        values = values[:, None]
    if values.ndim != 2 or len(values) != n:
        raise SubjectError(
            f"the model answered {n} image{'s' * (n > 1)} with an array of shape {values.shape}; {kind.name} of shape "
            f"({n}, k) was expected, one row an image"
        )
    if kind is CLASS_SCORES and values.shape[1] < 2:
        raise SubjectError(
            "the model gives one score an image; class scores have a column a class. For a single logit z return "
            "both columns, (0, z); for a probability p return (1 - p, p)"
        )
    if values.dtype.kind not in "fiub":
        raise SubjectError(f"the model answers in {values.dtype}, which are no numbers")
    return values.astype(np.float32, copy=False)
