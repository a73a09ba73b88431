"""How a torch model is run so that a run can be repeated: its threads, its kernels, and what it draws by itself.

>>> import torch
>>> with drawing("cpu", 7, "model"):
...     first = torch.rand(3)
>>> before = torch.get_rng_state()
>>> with drawing("cpu", 7, "model"):
...     again = torch.rand(3)
>>> torch.equal(first, again), torch.equal(before, torch.get_rng_state())
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from roadworthy.data.seeds import key


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
    """In here, what a model draws from torch's own generators follows from the seed and the names; they are put back after it.

    Dropout that is called as a function with ``training=True`` draws there, for all cases of a batch together.
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
