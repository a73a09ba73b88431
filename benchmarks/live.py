"""What supervision costs an input in production: `roadworthy.Supervised` against the bare model.

    python benchmarks/live.py

The classifier of examples/fashion (torch, one thread) answers single images and batches of 64.
Bare: the image is scaled, passed forward and read back. With supervisors: the same, and the answer
with its scores and alarms. Fitted on the 2,000 bundled reference images. Processor time an input,
best of some rounds that take turns. The last column is `monitor.update` with the answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import roadworthy
from roadworthy.data.loaders.bundled import bundled

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fashion"
OUTPUTS = ("max_softmax", "pcs", "deep_gini", "softmax_entropy", "max_logit", "energy")
SETS = {
    "max_softmax": OUTPUTS[:1],
    "six that read outputs": OUTPUTS,
    "these, knn and mahalanobis": (*OUTPUTS, "knn", "mahalanobis"),
}
BATCHES, ROUNDS, INPUTS = (1, 64), 7, 640


def assessed(runs: str) -> Path:
    """A run of the example's classifier with all of these supervisors."""
    images = {"bundled": "fashion-mnist"}
    run = roadworthy.assess(
        {
            "name": "live",
            "subject": {
                "task": "classification",
                "torch": str(EXAMPLE / "model.py:build"),
                "weights": str(EXAMPLE / "weights.safetensors"),
            },
            "data": {
                "test": {**images, "split": "test", "n": 500},
                "calibration": {**images, "split": "calibration", "n": 500},
                "reference": {**images, "split": "reference"},
            },
            "circumstances": {"noise": {"transform": "gaussian_noise", "levels": [1, 3]}},
            "supervisors": list(SETS["these, knn and mahalanobis"]),
        },
        runs=runs,
    )
    return run.folder


def bare(supervised: roadworthy.Supervised) -> Callable[[np.ndarray], Any]:
    """The model of a run without anything around it."""
    import torch

    module: Any = supervised.system.modules["model"]

    def answer(images: np.ndarray) -> Any:
        with torch.inference_mode():
            return module.model(torch.from_numpy(module.prepare(images))).numpy()

    return answer


def seconds(call: Callable[[np.ndarray], Any], images: np.ndarray, size: int) -> float:
    """Of one input, where so many are answered in one call."""
    parts = [images[i : i + size] for i in range(0, len(images), size)]
    started = time.process_time()
    for part in parts:
        call(part)
    return (time.process_time() - started) / len(images)


def main() -> None:
    """The table."""
    images = np.asarray(bundled(path="fashion-mnist", split="test", n=INPUTS).inputs[:])
    with tempfile.TemporaryDirectory() as runs:
        folder = assessed(runs)
        bundle = roadworthy.Bundle.load(folder / "monitor" / "bundle.json")
        supervised = {n: roadworthy.Supervised(folder, supervisors=s) for n, s in SETS.items()}
        calls: dict[str, Callable[[np.ndarray], Any]] = {
            "the model alone": bare(supervised["max_softmax"])
        }
        calls |= {name: one.batch for name, one in supervised.items()}
        print(
            "| us an input | single | ratio | in batches of 64 | ratio | `monitor.update`, single / 64 |"
        )
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        found = {(name, size): np.inf for name in calls for size in BATCHES}
        for _ in range(ROUNDS):
            for name, size in found:
                found[name, size] = min(found[name, size], seconds(calls[name], images, size))
        for name in calls:
            one, many = (1e6 * found[name, size] for size in BATCHES)
            ratios = [found[name, size] / found["the model alone", size] for size in BATCHES]
            watched = "" if name != list(calls)[-1] else _updates(supervised[name], bundle, images)
            print(
                f"| {name} | {one:.0f} | {ratios[0]:.1f} | {many:.0f} | {ratios[1]:.1f} | {watched} |"
            )


def _updates(
    supervised: roadworthy.Supervised, bundle: roadworthy.Bundle, images: np.ndarray
) -> str:
    spent = []
    for size in BATCHES:
        best = np.inf
        for _ in range(ROUNDS):
            answers, monitor = supervised.batch(images), roadworthy.Monitor(bundle)
            parts = [answers[i : i + size] for i in range(0, len(answers), size)]
            started = time.process_time()
            for part in parts:
                monitor.update(part[0] if size == 1 else part)
            best = min(best, (time.process_time() - started) / len(images))
        spent.append(f"{1e6 * best:.0f}")
    return " / ".join(spent)


ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
"""Read when numpy and torch are loaded: the time of a second thread that waits would be counted."""

if __name__ == "__main__":
    if ONE_THREAD.items() <= os.environ.items():
        main()
    else:
        subprocess.run([sys.executable, __file__], env=os.environ | ONE_THREAD, check=True)
