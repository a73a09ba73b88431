"""What a torch model returned, as a column of answers; and whether two columns are the same but for
their last bits.

>>> import torch
>>> from roadworthy.data.values import CLASS_SCORES
>>> column = answers_in({"logits": torch.tensor([[1.0, 2.0]])}, 1, CLASS_SCORES)
>>> column.tolist(), alike(column, column + np.float32(1e-6)), alike(column, -column)
([[1.0, 2.0]], True, False)

A torch model is run so that a run can be repeated: its threads, its kernels, and what it draws by
itself.

>>> with drawing("cpu", 7, "model"):
...     first = torch.rand(3)
>>> before = torch.get_rng_state()
>>> with drawing("cpu", 7, "model"):
...     again = torch.rand(3)
>>> torch.equal(first, again), torch.equal(before, torch.get_rng_state())
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from roadworthy.data.seeds import key
from roadworthy.data.values import BOXES, Boxes, Kind
from roadworthy.subject.adapters.image_models import answer_rows
from roadworthy.subject.module import SubjectError

NEARLY = 1e-3
"""How far numbers may lie apart that differ by the size of the batch alone, as a share of the
largest."""


def score_tensor(raw: Any) -> Any:
    """The tensor of scores in what a classifier returns: itself, its ``logits`` (``out`` in torchvision's
    segmentation), or the first of several."""
    if isinstance(raw, Mapping):
        raw = raw.get("logits", raw.get("out", raw))
    if isinstance(raw, tuple | list) and raw and hasattr(raw[0], "detach"):
        raw = raw[0]
    if not hasattr(raw, "detach"):
        raise SubjectError(
            f"the model returned {type(raw).__name__}; a tensor with one row of numbers an image was expected"
        )
    return raw


def answers_in(raw: Any, n: int, kind: Kind) -> Any:
    """The answers for n images: float32 (n, k), masks (n, h, w), or a list of boxes."""
    if kind is BOXES:
        return _boxes(raw, n)
    return answer_rows(score_tensor(raw).detach().float().cpu().numpy(), n, kind)


def sound(column: Any, kind: Kind) -> Any:
    """The column, with None where a value that is no row of numbers is none of its kind (boxes that
    are not finite)."""
    if isinstance(column, np.ndarray):
        return column
    return [None if item is None or kind.problem(item) else item for item in column]


def alike(one: Any, other: Any, *, nearly: float = NEARLY) -> bool:
    """Whether two columns hold the same answers but for their last bits."""
    if isinstance(one, np.ndarray):
        return _close(one, other, nearly)
    return len(one) == len(other) and all(
        _close(getattr(a, name), getattr(b, name), nearly)
        for a, b in zip(one, other, strict=True)
        for name in ("xyxy", "labels", "scores")
    )


def _close(one: np.ndarray, other: np.ndarray, nearly: float) -> bool:
    if one.shape != other.shape:
        return False
    finite = np.abs(one[np.isfinite(one)])
    largest = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(one, other, rtol=0, atol=nearly * largest, equal_nan=True))


def _boxes(raw: Any, n: int) -> list[Boxes]:
    whole = isinstance(raw, list | tuple) and all(
        isinstance(r, Mapping) and {"boxes", "labels", "scores"} <= set(r) for r in raw
    )
    if not whole or len(raw) != n:
        raise SubjectError(
            f"the model returned {type(raw).__name__} for {n} images; a list with a dict of boxes (m, 4), labels (m,) and "
            "scores (m,) for each image was expected"
        )
    return [
        Boxes.of(*(r[key].detach().cpu().numpy() for key in ("boxes", "labels", "scores")))
        for r in raw
    ]


@contextmanager
def running(threads: int) -> Iterator[None]:
    """This many threads for now, and on a GPU kernels that give the same bits each time.

    The number of threads changes the order of sums, and with it the last bits.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _steady():
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def drawing(device: str, seed: int, *names: str | int) -> Iterator[None]:
    """In here, what a model draws from torch's own generators follows from the seed and the names;
    they are put back after it.

    Dropout that is called as a function with ``training=True`` draws there, for all cases of a
    batch together.
    """
    import torch

    start = key(seed, *names) % 2**63
    used = [torch.default_generator]
    if torch.device(device).type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        used.append(torch.cuda.default_generators[torch.device(device).index or 0])
    before = [one.get_state() for one in used]
    try:
        for one in used:
            one.manual_seed(start)
        yield
    finally:
        for one, state in zip(used, before, strict=True):
            one.set_state(state)


def device_name(device: str) -> str:
    """The device, and what it is: a run on one GPU must not consist of another's answers."""
    import torch

    known = torch.device(device)
    return f"{device} {torch.cuda.get_device_name(known)}" if known.type == "cuda" else device


@contextmanager
def _steady() -> Iterator[None]:
    """On a GPU, kernels that give the same bits each time, in full float32."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    ):  # type: ignore[no-untyped-call]
        yield
