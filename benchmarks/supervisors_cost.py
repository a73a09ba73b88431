"""What supervisors cost beside the model they watch, what the closed form of GradNorm saves, and how neighbours grow.

    python benchmarks/supervisors_cost.py

Three tables. All registered supervisors that need outputs and layers alone score 10,000 Fashion-MNIST images (the bundled test
images, shifted by a few pixels), fitted on the bundled reference images, against the forward pass of the example's network (with
the adapter's own number of threads, which is one; so have the supervisors) plus the bare float32 products of queries and
reference rows that supervisors of nearest neighbours cannot do without: knn (rows of length 1), dlpra_knn (rows as they are) and
dsa have one each, and the second ratio leaves that of dlpra_knn out. A kernel density is not a nearest neighbour: kde's product
is not among them. A score is the first after fitting, so that nothing is made ready beforehand; all take turns, and the
median of the rounds counts; seconds are the processor's, which other work on the machine disturbs less than the clock on the wall.
Wanted: at most 1 times.
GradNorm in closed form against one backward pass a row, through the last layer alone, wanted: 100 times faster. kNN and DSA on
more and more reference rows, in processes of their own, with the memory that each adds to its data.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from supervisors import WIDTH, activations, trace_of

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fashion"
IMAGES, ROUNDS, TURNS, LOOPED = 10_000, 3, 5, 500
ROWS_AT_ONCE = 1_000
REFERENCE = (2_000, 10_000)
"""Reference images: as many as are bundled, and those with shifted ones."""
GROWTH = (5_000, 10_000, 20_000, 40_000)
MEMORY_MB = 64


class Seconds(NamedTuple):
    """On the clock, and of all processors together."""

    clock: float
    processor: float


def best(call: Callable[[], Any], rounds: int = ROUNDS) -> Seconds:
    """The least of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return Seconds(*np.min(found, axis=0))


def shifted(images: np.ndarray, n: int) -> np.ndarray:
    """n images: those given, then the same ones shifted by a pixel, by two, …"""
    return np.concatenate([np.roll(images, i, axis=2) for i in range(-(-n // len(images)))])[:n]


class Watched(NamedTuple):
    """The example's network on the bundled images."""

    reference: Any
    truth: np.ndarray
    queries: Any
    forward: Callable[[], Any]
    """One pass of the queries, without anything asked beside the answer."""


def watched(rows: int) -> Watched:
    """The traces that supervisors read, with all that those of outputs and layers ask for."""
    from roadworthy.data.loaders.bundled import bundled
    from roadworthy.data.values import CLASS_SCORES, TASKS
    from roadworthy.subject.adapters.torch_model import torch_model
    from roadworthy.subject.module import Context
    from roadworthy.subject.trace import ModuleTrace

    subject = torch_model(
        path="model.py:build",
        base=EXAMPLE,
        task=TASKS["classification"],
        weights="weights.safetensors",
    )
    (model,) = subject.modules.values()
    requests = frozenset(r for s in readers().values() for r in s().needs if r.column != "output")

    def trace(images: np.ndarray) -> ModuleTrace:
        answers = model.batch({"image": images}, Context([""] * len(images), requests))
        n = np.arange(len(images))
        columns = {request.column: values for request, values in answers.extras.items()}
        none = np.full(len(n), None, dtype=object)
        return ModuleTrace(
            n, n, none, n, CLASS_SCORES, np.asarray(answers.outputs["output"]), columns
        )

    known = bundled(path="fashion-mnist", split="reference")
    images = shifted(bundled(path="fashion-mnist", split="test").inputs, IMAGES)
    truth = np.resize(np.asarray(known.targets), rows)
    return Watched(
        trace(shifted(known.inputs, rows)),
        truth,
        trace(images),
        lambda: model.batch({"image": images}, Context([""] * IMAGES)),
    )


def readers() -> dict[str, Callable[[], Any]]:
    """All registered supervisors that need outputs and layers alone."""
    from roadworthy.registry import components
    from roadworthy.subject.needs import Layer, Output

    known = components("supervisors")
    return {
        name: known[name].bind
        for name in known
        if all(isinstance(need, Output | Layer) for need in known[name].bind().needs)
    }


def bare_products(of: Watched) -> dict[str, Callable[[], None]]:
    """By supervisor. kNN: all queries with all rows; DSA: the queries with their class, the rows found with the other classes."""
    from roadworthy.statistics import nearest

    reference, queries = (
        of.reference.columns["layer.penultimate"],
        of.queries.columns["layer.penultimate"],
    )
    classes, predicted = of.reference.output.argmax(axis=1), of.queries.output.argmax(axis=1)
    of_classes = []
    for c in np.unique(predicted):
        same, other, asked = (
            reference[classes == c],
            reference[classes != c],
            queries[predicted == c],
        )
        of_classes += [(asked, same), (same[np.unique(nearest(asked, same).indices)], other)]

    # In one room that was written to before: fresh memory for a hundred million products takes longer than they do.
    room = np.zeros((ROWS_AT_ONCE, len(reference)), dtype=np.float32)

    def multiply(operands: list[tuple[np.ndarray, np.ndarray]]) -> None:
        for left, right in operands:
            for start in range(0, len(left), ROWS_AT_ONCE):
                part = left[start : start + ROWS_AT_ONCE]
                np.matmul(part, right.T, out=room[: len(part), : len(right)])

    whole = [(queries, reference)]
    return {
        "knn": lambda: multiply(whole),
        "dlpra_knn": lambda: multiply(whole),
        "dsa": lambda: multiply(of_classes),
    }


def in_turns(calls: dict[str, Callable[[], Callable[[], Any]]], turns: int) -> dict[str, float]:
    """The median of the processor's milliseconds of each call; what is called makes it ready, which is not counted."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, make in calls.items():
            call = make()
            start = time.process_time()
            call()
            found[name].append((time.process_time() - start) * 1e3)
    return {name: float(np.median(each)) for name, each in found.items()}


def cost_beside_the_model(rows: int) -> str:
    """The first table."""
    of = watched(rows)
    made = {name: make() for name, make in readers().items()}
    fits = {
        name: best(lambda one=one: one.fit(of.reference, of.truth), rounds=1).processor * 1e3  # type: ignore[misc]
        for name, one in made.items()
    }

    def first_score(supervisor: Any) -> Callable[[], Any]:
        fresh = copy.deepcopy(supervisor)
        return lambda: fresh.score(of.queries)

    products = {f"product of {name}": call for name, call in bare_products(of).items()}
    calls: dict[str, Callable[[], Callable[[], Any]]] = {"forward pass": lambda: of.forward}
    calls |= {name: lambda call=call: call for name, call in products.items()}  # type: ignore[misc]
    calls |= {name: lambda one=one: first_score(one) for name, one in made.items()}  # type: ignore[misc]
    took = in_turns(calls, TURNS)
    total, allowed = (
        sum(took[name] for name in made),
        took["forward pass"] + sum(took[name] for name in products),
    )
    lines = [
        f"{len(made)} supervisors, {IMAGES} images, {rows} reference rows, one thread; median of {TURNS} turns",
        "",
        "| | score, ms | fit, ms |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {took[name]:.0f} | |" for name in ("forward pass", *products)),
        f"| all supervisors | {total:.0f} | {sum(fits.values()):.0f} |",
        f"| **ratio, wanted: at most 1** | **{total / allowed:.2f}** | |",
        f"| ratio without the product of dlpra_knn | {total / (allowed - took['product of dlpra_knn']):.2f} | |",
    ]
    for name in sorted(made, key=lambda n: -took[n]):
        lines.append(f"| {name} | {took[name]:.1f} | {fits[name]:.0f} |")
    return "\n".join(lines)


def gradients_by_formula() -> str:
    """The second table."""
    import torch

    from roadworthy.registry import get

    of = watched(REFERENCE[0]).queries
    supervisor = get("supervisors", "grad_norm").bind()
    ours = best(lambda: supervisor.score(of)).clock
    features = torch.from_numpy(of.columns["layer.penultimate"])
    # The network's last layer, from what goes in and comes out.
    with_one = np.concatenate([features.numpy(), np.ones((len(features), 1))], axis=1)
    solved = torch.from_numpy(
        np.linalg.lstsq(with_one, of.output.astype(np.float64), rcond=None)[0]
    )
    head = torch.nn.Linear(features.shape[1], solved.shape[1])
    with torch.no_grad():
        head.weight.copy_(solved[:-1].T)
        head.bias.copy_(solved[-1])
    norms = np.empty(LOOPED)

    def loop() -> None:
        for i in range(LOOPED):
            head.zero_grad()
            # KL(uniform || softmax) but for a constant.
            (-torch.log_softmax(head(features[i]), dim=0).mean()).backward()  # type: ignore[no-untyped-call]
            norms[i] = head.weight.grad.abs().sum().item()  # type: ignore[union-attr]

    looped = best(loop).clock * len(features) / LOOPED
    apart = np.abs(supervisor.score(of)[:LOOPED] + norms).max() / norms.max()
    return "\n".join(
        [
            f"{len(features)} rows of {features.shape[1]} activations (the loop: {LOOPED}, scaled)",
            "",
            "| supervisor | ours, ms | one backward pass a row, ms | ratio | wanted | scores differ by |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
            f"| grad_norm | {ours * 1e3:.1f} | {looped * 1e3:.0f} | {looped / ours:.0f} | 100 | {apart:.0e} |",
        ]
    )


def grown(name: str, file: str) -> dict[str, float]:
    """Fit and score in this process: seconds, and the most MiB beyond the data and what was loaded."""
    from roadworthy.registry import get

    with np.load(file) as data:
        reference = trace_of(data["reference"], data["reference_classes"])
        queries = trace_of(data["queries"], data["predicted"])
    few = trace_of(queries.columns["layer.penultimate"][:64], np.arange(64) % 10)
    supervisor = get("supervisors", name).bind(memory_mb=MEMORY_MB)
    supervisor.fit(few, None)
    supervisor.score(few)
    before = peak_mib()
    start = time.perf_counter()
    supervisor.fit(reference, None)
    supervisor.score(queries)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "added": peak_mib() - before}


def peak_mib() -> float:
    """The most memory this process has held; `getrusage` would count what its parent held before it."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth() -> str:
    """The third table."""
    lines = [
        f"2,000 queries, 512 activations, memory_mb={MEMORY_MB}; best of 2",
        "",
        "| supervisor | reference rows | fit and score, s | us a row | reference, MiB | peak beyond, MiB | not kept, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for rows in GROWTH:
            np.savez(Path(folder) / f"{rows}.npz", **activations(rows, 2_000)._asdict())
        for name in ("knn", "dsa"):
            for rows in GROWTH:
                command = [
                    sys.executable,
                    __file__,
                    "--grown",
                    name,
                    str(Path(folder) / f"{rows}.npz"),
                ]
                done = [
                    subprocess.run(command, check=True, capture_output=True, text=True)
                    for _ in range(2)
                ]
                found = [json.loads(d.stdout.splitlines()[-1]) for d in done]
                seconds, added = (min(f[key] for f in found) for key in ("seconds", "added"))
                # What stays: the learned rows, and for dsa the operand of the products; knn's rows of length 1 are both.
                size = rows * WIDTH * 4 / 2**20
                kept = size if name == "knn" else 2 * size
                lines.append(
                    f"| {name} | {rows} | {seconds:.2f} | {seconds / rows * 1e6:.1f} | {size:.0f} | {added:.0f} | "
                    f"{added - kept:.0f} |"
                )
    return "\n".join(lines)


def main() -> int:
    """The tables, or one measurement of the third when asked by it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--grown", nargs=2, metavar=("SUPERVISOR", "DATA"), help=argparse.SUPPRESS)
    parser.add_argument("--beside", type=int, metavar="ROWS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grown:
        print(json.dumps(grown(*options.grown)))
        return 0
    if options.beside:
        print(cost_beside_the_model(options.beside))
        return 0
    alone = os.environ | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    for rows in REFERENCE:
        command = [sys.executable, __file__, "--beside", str(rows)]
        print(
            subprocess.run(command, check=True, capture_output=True, text=True, env=alone).stdout,
            flush=True,
        )
    print(gradients_by_formula(), end="\n\n", flush=True)
    print(growth())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
