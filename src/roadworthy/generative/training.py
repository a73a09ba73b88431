"""What the generative models share: training that depends on nothing but its seed, weights as arrays, and scoring in batches.

Networks are made and trained with generators of their own and one thread, so that neither torch's global state nor the number
of cores changes the weights; all of it is found afterwards as it was before. Scores are computed in float64, where the order of
sums, which batches of other sizes change, shows in the last digits alone.

>>> with isolated(seed=3):
...     first = torch_module().rand(2).tolist()
>>> with isolated(seed=3):
...     first == torch_module().rand(2).tolist()
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from roadworthy.registry import not_installed
from roadworthy.statistics.neighbours import chunk_rows
from roadworthy.statistics.row_blocks import threads

BATCH = 32
LONGEST = 40
"""Epochs at most where their number is chosen: so many looks at a few pictures teach no more."""
PIXELS_AT_ONCE = 2**17
"""Numbers scored at once, where the memory allows more: larger batches leave the processor's cache."""
STEEPEST = 5.0
"""The norm at which gradients are cut off."""
Loss = Callable[[Any, Any], Any]
"""From a batch of levels and a torch generator to a scalar."""


def torch_module() -> Any:
    """torch, loaded on first use."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(not_installed("generative models need torch", "torch")) from error
    return torch


@contextmanager
def isolated(*, seed: int) -> Iterator[Any]:
    """A generator seeded here, and torch's own seeded alike, with everything as it was afterwards."""
    torch = torch_module()
    before = torch.get_default_dtype()
    with (
        torch.random.fork_rng(devices=[]),
        _one_thread(torch),
        _steady(torch),
        torch.inference_mode(False),
    ):
        try:
            torch.set_default_dtype(torch.float32)
            # Not torch.manual_seed, which would also seed the devices.
            torch.default_generator.manual_seed(seed)
            with torch.device("cpu"), torch.enable_grad():
                yield torch.Generator().manual_seed(seed)
        finally:
            torch.set_default_dtype(before)


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Small pictures keep no second core busy, and threads that wait for each other cost more than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _steady(torch: Any) -> Iterator[None]:
    """On a GPU, kernels that give the same bits each time, in full float32."""
    if not torch.cuda.is_available():
        yield
        return
    with torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    ):
        yield


def epochs_for(rows: int, *, steps: int, batch: int = BATCH) -> int:
    """Epochs that make about so many steps: one at least, for few rows no more than they deserve.

    >>> [epochs_for(n, steps=1000) for n in (60, 2000, 100_000)]
    [40, 16, 1]
    """
    return max(1, min(LONGEST, round(steps / math.ceil(rows / batch))))


def train(
    network: Any,
    loss: Loss,
    levels: np.ndarray,
    *,
    epochs: int,
    rate: float,
    generator: Any,
    device: str,
    batch: int = BATCH,
) -> None:
    """Adam with a rate that rises over the first twentieth and then falls to zero; a step that is no number is left out."""
    torch = torch_module()
    data = torch.from_numpy(levels)
    optimiser = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.99))
    total = epochs * math.ceil(len(data) / batch)
    network.train()
    for step, rows in enumerate(_batches(len(data), epochs, batch, generator)):
        rising, falling = (
            min(1.0, (step + 1) / max(1.0, total / 20)),
            0.5 * (1 + math.cos(math.pi * step / total)),
        )
        for group in optimiser.param_groups:
            group["lr"] = rate * rising * falling
        optimiser.zero_grad(set_to_none=True)
        loss(data[rows].to(device), generator).backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), STEEPEST)
        if torch.isfinite(norm):
            optimiser.step()
    network.eval()


def _batches(rows: int, epochs: int, batch: int, generator: Any) -> Iterator[Any]:
    torch = torch_module()
    for _ in range(epochs):
        order = torch.randperm(rows, generator=generator)
        yield from (order[start : start + batch] for start in range(0, rows, batch))


def weights_of(network: Any) -> dict[str, np.ndarray]:
    """The network's weights by name, as arrays of float32, in which they were trained."""
    return {
        f"weight.{k}": v.detach().cpu().numpy().astype(np.float32)
        for k, v in network.state_dict().items()
    }


def fill(network: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Put weights that `weights_of` gave back in place."""
    torch = torch_module()
    prefix = "weight."
    state = {
        k.removeprefix(prefix): torch.from_numpy(np.array(v))
        for k, v in arrays.items()
        if k.startswith(prefix)
    }
    network.load_state_dict(state)
    network.eval()


def in_batches(
    function: Callable[[Any], Any], rows: np.ndarray, *, width: int, memory_mb: int, device: str
) -> np.ndarray:
    """`function` of float64 tensors, a few rows at a time, so that `width` numbers a row stay within `memory_mb`.

    On a processor several batches are at work at once, each on one thread: their sizes, and so the last digits, do not depend on
    how many.
    """
    torch = torch_module()
    at_once, room = (
        max(1, PIXELS_AT_ONCE // math.prod(rows.shape[1:])),
        chunk_rows(width, memory_mb, bytes_each=8),
    )
    size = min(at_once, room)
    # Without rows, one of zeros is asked for and left out: the answer then has the right shape.
    asked = rows if len(rows) else np.zeros((1, *rows.shape[1:]))

    def answered(start: int) -> np.ndarray:
        with torch.inference_mode():  # of this thread alone
            part = torch.from_numpy(asked[start : start + size].astype(np.float64)).to(device)
            answer: np.ndarray = function(part).cpu().numpy()
        return answer

    starts = range(0, len(asked), size)
    count = min(threads(), room // size, len(starts)) if device == "cpu" else 1
    with _one_thread(torch), _steady(torch):
        if count < 2:
            parts = [answered(start) for start in starts]
        else:
            # Threads are made after torch was told to use one, which each new thread does.
            with ThreadPoolExecutor(count) as pool:
                parts = list(pool.map(answered, starts))
    return np.concatenate(parts)[: len(rows)]
