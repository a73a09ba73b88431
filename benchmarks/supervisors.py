"""How fast supervisors of activations are against dnn-tip, scikit-learn and faiss, measured in one run on the same data.

    python benchmarks/supervisors.py                                    # needs the peers of benchmarks/peers-supervisors.txt
    python benchmarks/supervisors.py --rows 2000 --queries 200          # a quick look
    python benchmarks/supervisors.py --threads 1                        # processor time, for a machine that is busy
    python benchmarks/supervisors.py --peers /path/to/python            # another environment of the peers

Every time is that of fitting on the reference rows and scoring the queries, on all cores; the sides take turns in processes of
their own and the best call counts. DSA of dnn-tip would take many minutes: it runs once, on every 20th query, and its time is
taken times 20 (it has no work but that of each query). The floor of DSA is the bare float32 matrix products that its definition
asks for. The last column is how far the peer's scores are from ours, relative to the largest. faiss gives float32
distances as the products leave them; ours are recomputed from the differences in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
WIDTH, CLASSES, K = 512, 10, 50
SAMPLED = {"dnn_tip_dsa": 20}
"""Peers that see every n-th query only."""
ROUNDS, REPEATED = 3, 2
"""Processes a side, and calls in each."""
WANTED = {
    ("dsa", "dnn_tip_dsa"): 10.0,
    ("dsa", "bare_products"): 0.5,
    ("mdsa", "dnn_tip_mdsa"): 4.0,
    ("knn", "scikit_learn_knn"): 1.0,
    ("knn", "faiss_knn"): 1.0,
}
"""Ours and what it is compared with -> the least ratio wanted."""


class Activations(NamedTuple):
    """What both sides see."""

    reference: np.ndarray
    reference_classes: np.ndarray
    queries: np.ndarray
    predicted: np.ndarray


def activations(rows: int, queries: int) -> Activations:
    """Activations of a layer behind a ReLU, float32, in classes that overlap."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.5, 0.5, (CLASSES, WIDTH))

    def draw(n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
        classes = rng.integers(0, CLASSES, n)
        noise = spread * rng.standard_normal((n, WIDTH), dtype=np.float32)
        return np.maximum(means[classes] + noise, 0).astype(np.float32), classes

    return Activations(*draw(rows, 1.0), *draw(queries, 1.2))


def trace_of(values: np.ndarray, classes: np.ndarray) -> Any:
    """The trace of a classifier that is sure of these classes."""
    from roadworthy.data.values import CLASS_SCORES
    from roadworthy.subject.trace import ModuleTrace

    n = np.arange(len(values))
    output = np.eye(CLASSES, dtype=np.float32)[classes]
    none = np.full(len(values), None, dtype=object)
    return ModuleTrace(n, n, none, n, CLASS_SCORES, output, {"layer.penultimate": values})


def ours(data: Activations, threads: int = 0) -> dict[str, Callable[[], Any]]:
    """Our supervisors, and the products that DSA cannot do without."""
    from roadworthy.registry import get
    from roadworthy.statistics import nearest

    reference, queries = trace_of(*data[:2]), trace_of(*data[2:])
    # Loaded on first use, which is not what is measured.
    import scipy.linalg  # noqa: F401

    get("supervisors", "dsa").bind()

    def run(name: str) -> Callable[[], np.ndarray]:
        def fit_and_score() -> np.ndarray:
            supervisor = get("supervisors", name).bind()
            supervisor.fit(reference, None)
            return np.asarray(supervisor.score(queries))

        return fit_and_score

    operands = []
    for c in range(CLASSES):
        same, other = (
            data.reference[data.reference_classes == c],
            data.reference[data.reference_classes != c],
        )
        of_class = data.queries[data.predicted == c]
        if len(of_class):
            winners = np.unique(nearest(of_class, same).indices)
            operands += [(of_class, same), (same[winners], other)]

    def bare_products() -> None:
        for left, right in operands:
            left @ right.T

    return {name: run(name) for name in ("dsa", "mdsa", "lsa", "mahalanobis", "kde", "knn")} | {
        "bare_products": bare_products
    }


def peers(data: Activations, threads: int) -> dict[str, Callable[[], Any]]:
    """What dnn-tip, scikit-learn and faiss do for the same question."""
    import faiss
    from dnn_tip.surprise import DSA, MDSA, MultiModalSA
    from sklearn.neighbors import NearestNeighbors

    reference, classes, queries, predicted = data

    def unit(values: np.ndarray) -> np.ndarray:
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    def scikit_learn_knn() -> np.ndarray:
        search = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(unit(reference))
        return search.kneighbors(unit(queries))[0][:, -1]  # type: ignore[no-any-return]

    def faiss_knn() -> np.ndarray:
        index = faiss.IndexFlatL2(WIDTH)
        index.add(unit(reference))
        return np.sqrt(index.search(unit(queries), K)[0][:, -1])  # type: ignore[no-any-return]

    def dnn_tip_mdsa() -> np.ndarray:
        surprise = MultiModalSA.build_by_class(reference, classes, lambda a, _: MDSA(a))
        return np.sqrt(surprise(queries, predicted, num_threads=threads))  # type: ignore[no-any-return]

    return {
        "scikit_learn_knn": scikit_learn_knn,
        "faiss_knn": faiss_knn,
        "dnn_tip_mdsa": dnn_tip_mdsa,
        "dnn_tip_dsa": lambda: DSA(reference, classes)(
            queries[:: SAMPLED["dnn_tip_dsa"]], predicted[:: SAMPLED["dnn_tip_dsa"]]
        ),
    }


def measure(side: str, options: argparse.Namespace) -> dict[str, float]:
    """One round of one side; the scores are left in the folder."""
    times = {}
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for name, call in (ours if side == "ours" else peers)(
        activations(options.rows, options.queries), options.threads
    ).items():
        if name in options.skip:
            continue
        seconds = []
        for _ in range(1 if name in SAMPLED else REPEATED):
            start = clock()
            scores = call()
            seconds.append(clock() - start)
        times[name] = min(seconds) * SAMPLED.get(name, 1)
        if scores is not None:
            np.save(Path(options.folder) / f"{name}.npy", scores)
    return times


def round_of(
    side: str, python: str, options: argparse.Namespace, folder: str, skip: list[str]
) -> dict[str, float]:
    """One round in that side's environment."""
    command = [python, "-W", "ignore", __file__, "--side", side, "--rows", str(options.rows)]
    command += ["--queries", str(options.queries), "--threads", str(options.threads)]
    command += ["--folder", folder, "--skip", *skip]
    limits = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OPENBLAS", "OMP", "MKL")}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | limits
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def table(times: dict[str, float], folder: Path, options: argparse.Namespace) -> str:
    """The result as Markdown."""
    lines = [
        f"{options.rows} x {WIDTH} float32 reference rows, {CLASSES} classes, {options.queries} queries, "
        f"{options.threads} threads; best of {ROUNDS * REPEATED}",
        "",
        "| supervisor | ours, s | compared with | s | ratio | wanted | scores differ by |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for (name, other), wanted in WANTED.items():
        a, b = times[name], times[other]
        lines.append(
            f"| {name} | {a:.2f} | {other} | {b:.2f} | {b / a:.2f} | {wanted:g} | {apart(folder, name, other)} |"
        )
    for name in ("lsa", "mahalanobis", "kde"):
        lines.append(f"| {name} | {times[name]:.2f} | | | | | |")
    return "\n".join(lines)


def apart(folder: Path, name: str, other: str) -> str:
    """The largest difference of two sides' scores, relative to the largest score."""
    if not (folder / f"{other}.npy").exists():
        return ""
    first, second = (
        np.load(folder / f"{name}.npy")[:: SAMPLED.get(other, 1)],
        np.load(folder / f"{other}.npy"),
    )
    return f"{np.abs(first - second).max() / np.abs(first).max():.1e}"


def main() -> int:
    """Both sides in turns, or one side's round when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for every side")
    parser.add_argument(
        "--peers", default=str(ROOT / ".venv-peers" / "supervisors" / "bin" / "python")
    )
    parser.add_argument("--side", choices=("ours", "peers"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--skip", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options)))
        return 0
    if not Path(options.peers).exists():
        print(
            f"{options.peers} is not there: make it from benchmarks/peers-supervisors.txt",
            file=sys.stderr,
        )
        return 2
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(ROUNDS):
            skip = ["dnn_tip_dsa"] if i else []
            for side, python in (("ours", sys.executable), ("peers", options.peers)):
                for name, seconds in round_of(side, python, options, folder, skip).items():
                    times[name] = min(seconds, times.get(name, np.inf))
        print(table(times, Path(folder), options))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
