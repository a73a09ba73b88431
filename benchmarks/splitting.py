"""Multilevel splitting of many cells together against one after another, and evaluations a second.

The subject is a small CNN (16 and 32 channels of stride 2, 28 x 28 inputs, random weights); a cell is the L-inf
ball around a random picture, and its label the subject's own answer. Needs numpy, scipy and torch alone.

    python benchmarks/splitting.py [--device cuda] [--quick]
    python benchmarks/splitting.py --device cuda --billion [--half] [--quick]

On CUDA convolutions use TF32, torch's default; with `--half`, float16. The last layer and the margins stay in
float32, so that rounding makes no ties. `--quick` is a tenth of the work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from roadworthy.search.failures import margin_of
from roadworthy.search.laws import UniformBox
from roadworthy.search.splitting import splitting

RADIUS = 0.07  # failures of about 1e-6 if the own class leads by the median of random pictures


class Network(nn.Module):
    """Convolutions in a precision of their own, the last layer in float32."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.kind = kind
        self.first = nn.Conv2d(1, 16, 3, stride=2, padding=1).to(kind)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1).to(kind)
        self.last = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.unsqueeze(1).to(self.kind)).relu_()
        return self.last(self.second(x).relu_().flatten(1).float())


class Cells:
    """Cells of one subject, to be split together or some of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.batch, self.device = options.batch, options.device
        self.model = Network(torch.float16 if options.half else torch.float32).to(self.device)
        with torch.no_grad():
            x = torch.rand(20 * options.cells, 28, 28).to(self.device)
            top = self.model(x).topk(2).values
            x = x[(top[:, 0] - top[:, 1]).argsort()[10 * options.cells : 11 * options.cells]]
            self.labels = self.model(x).argmax(1)
        self.low, self.high = (x - RADIUS).clamp(0, 1), (x + RADIUS).clamp(0, 1)

    def split(self, rows: slice, seed: int = 0, **parameters: Any) -> Any:
        """Estimates of some cells."""
        law = UniformBox(self.low[rows], self.high[rows])
        margin = margin_of(self.model, self.labels[rows], batch=self.batch)
        return splitting(margin, law, np.random.default_rng(seed), **parameters)

    def seconds(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """How long it takes, and what it gives."""
        start, found = time.perf_counter(), work()  # ends on the CPU, whatever the device
        return time.perf_counter() - start, found


def compared(options: argparse.Namespace) -> None:
    """Cells together and one after another."""
    cells = Cells(options)
    head = "particles | together: s | us a query | one by one: s | us a query | ratio | ms a cell"
    print(f"| {head} |", "| ---: " * 7 + "|", sep="\n")
    for particles in (50, 1000):
        own: Any = {"particles": particles, "steps": 10 if options.quick else 100, "least": 1e-9}
        for rows in (slice(None), slice(0, 1)):  # libraries are loaded, kernels chosen
            cells.split(rows, **{**own, "steps": 2})
        times, rates = [], []
        for blocks in ([slice(None)], [slice(i, i + 1) for i in range(options.cells)]):
            work = partial(lambda own, rows: [cells.split(r, **own) for r in rows], own, blocks)
            took, found = cells.seconds(work)
            times.append(took)
            rates.append(1e6 * took / sum(part.queries.sum() for part in found))
        columns = [f"{t:.2f} | {r:.3f}" for t, r in zip(times, rates, strict=True)]
        columns += [f"{rates[1] / rates[0]:.1f}", f"{1e3 * times[0] / options.cells:.2f}"]
        print(f"| {particles} | {' | '.join(columns)} |")


def billion(options: argparse.Namespace) -> None:
    """All cells again and again, until as many evaluations as asked for are made."""
    cells, wanted, made, spent, rounds = Cells(options), 1e8 if options.quick else 1e9, 0, 0.0, 0
    cells.split(slice(None), steps=2)  # libraries are loaded, kernels chosen
    while made < wanted:
        rounds += 1
        took, found = cells.seconds(lambda seed=rounds: cells.split(slice(None), seed))
        made, spent = made + int(found.queries.sum()), spent + took
    print(f"{made:.4g} evaluations in {spent:.1f} s, {made / spent:.3g} a second")
    each = 1e3 * spent / (rounds * options.cells)
    print(f"1e9 evaluations in {1e9 * spent / made:.1f} s; {each:.2f} ms a cell")
    print(f"failures found in {found.found.mean():.0%}, median {np.median(found.probability):.1e}")


def main() -> None:
    """Either of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--batch", type=int, default=0, help="inputs the subject gets at a time")
    for flag in ("--billion", "--quick", "--half"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    (billion if options.billion else compared)(options)


if __name__ == "__main__":
    main()
