"""How long supervisors of activations take on a torch device, against the bare distance matrix on it, in one run.

    PYTHONPATH=src python benchmarks/supervisors_gpu.py --device cuda
    PYTHONPATH=src python benchmarks/supervisors_gpu.py --device cpu:0 --rows 5000 --queries 500 --rounds 2   # torch's code, here

Needs numpy, scipy and torch, and of the package its sources alone. The bare matrix is |p|² - 2 q·p in float32, of operands that
are on the device already. Scoring starts from queries in the host's memory and ends with scores there; fitting, and moving the
reference rows to the device with the first score, are a column of their own. Best of some rounds after a warm-up, the device
synchronised before the clock is read. The last column is the largest relative difference to the scores of numpy in float64, on
the first queries.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from roadworthy.supervisors.activations import ActivationSupervisor
from roadworthy.supervisors.distance import Kernels, Mahalanobis, Neighbourhood
from roadworthy.supervisors.surprise import (
    DistanceSurprise,
    LikelihoodSurprise,
    MahalanobisSurprise,
)
from supervisors import activations, trace_of

SUPERVISORS: dict[str, tuple[type[ActivationSupervisor], float | None]] = {
    "knn": (Neighbourhood, 5.0),
    "dsa": (DistanceSurprise, 10.0),
    "mdsa": (MahalanobisSurprise, None),
    "mahalanobis": (Mahalanobis, None),
    "kde": (Kernels, None),
    "lsa": (LikelihoodSurprise, None),
}
"""Each with how many times the bare matrix it may take, where that was asked for."""


def timed(call: Callable[[], Any], device: str) -> float:
    """Seconds until the device has done it."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def bare_matrix(reference: np.ndarray, queries: np.ndarray, device: str) -> Callable[[], Any]:
    """All squared distances but for the queries' own squares, in float32."""
    points, asked = (torch.from_numpy(a).to(device) for a in (reference, queries))
    squares = points.square().sum(dim=1)
    return lambda: torch.addmm(squares, asked, points.T, alpha=-2)


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument(
        "--checked", type=int, default=200, help="queries that are scored in float64 by numpy, too"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-mb", type=int, default=512)
    options = parser.parse_args()
    data = activations(options.rows, options.queries)
    reference, queries = trace_of(*data[:2]), trace_of(*data[2:])
    few = trace_of(data.queries[: options.checked], data.predicted[: options.checked])

    bare = bare_matrix(data.reference, data.queries, options.device)
    timed(bare, options.device)
    floor = min(timed(bare, options.device) for _ in range(options.rounds))
    name = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    print(
        f"{name}, torch {torch.__version__}: {options.rows} x {data.reference.shape[1]} reference rows, ",
        end="",
    )
    print(f"{options.queries} queries, {options.memory_mb} MB at once; best of {options.rounds}\n")
    print(
        "| | score, ms | times the bare matrix | wanted | fit and first score, ms | from float64 on the host |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    print(f"| bare matrix | {floor * 1e3:.1f} | 1 | | | |", flush=True)
    for label, (kind, wanted) in SUPERVISORS.items():
        supervisor = kind(device=options.device, memory_mb=options.memory_mb)

        def fit_and_score(made: ActivationSupervisor = supervisor) -> None:
            made.fit(reference, None)
            made.score(queries)

        timed(fit_and_score, options.device)
        first = timed(fit_and_score, options.device)
        # DSA keeps the distances of reference activations that were asked for once: forgotten, or only half is timed.
        seconds = np.inf
        for _ in range(options.rounds):
            if isinstance(supervisor, DistanceSurprise):
                supervisor._to_others[:] = np.nan
            seconds = min(
                seconds, timed(lambda made=supervisor: made.score(queries), options.device)
            )  # type: ignore[misc]
        here = kind(memory_mb=options.memory_mb)
        here.fit(reference, None)
        wanted_scores = here.score(few)
        apart = np.abs(supervisor.score(few) / wanted_scores - 1).max()
        print(
            f"| {label} | {seconds * 1e3:.1f} | {seconds / floor:.1f} | {wanted or ''} | {first * 1e3:.0f} | {apart:.1e} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
