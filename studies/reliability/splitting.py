"""Failure estimators on problems whose answer is known: median of estimate / truth, coverage of 95% intervals, queries.

    python studies/reliability/splitting.py [--repetitions 200] [--write]

Each repetition is a cell of one call. `--write` replaces tables/splitting.csv. The last rows are problems on which
intervals are known not to hold: two modes of unequal slope, which several runs tell apart, and a corner in 20
dimensions that becomes a thin ridge.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

from roadworthy import registry
from roadworthy.search.laws import Normal, UniformBox

TABLE = Path(__file__).parent / "tables" / "splitting.csv"
COLUMNS = ("problem", "truth", "estimator", "median ratio", "coverage", "disagree", "mean queries")
TRUTHS = (1e-3, 1e-6, 1e-9)
Problem = tuple[str, float, Any, Callable[[Any, Any], Any]]


def box(cells: int, size: int) -> UniformBox:
    """The unit cube."""
    return UniformBox(torch.zeros(cells, size).double(), torch.ones(cells, size).double())


def normal(cells: int, size: int) -> Normal:
    """The standard normal law."""
    return Normal(torch.zeros(cells, size), torch.ones(cells, size))


def one_mode(cells: int, truth: float) -> Iterator[Problem]:
    """Problems on which intervals are to hold."""
    radius, ahead = math.sqrt(truth / math.pi), stats.norm.isf(truth)
    far, near = stats.chi2.isf(truth, 20), stats.chi2.ppf(truth, 20)
    yield "half-space, 2-D box", truth, box(cells, 2), lambda x, _: x[..., 0] - (1 - truth)
    yield "disc, 2-D box", truth, box(cells, 2), lambda x, _: radius - (x - 0.5).norm(dim=-1)
    yield "half-space, 20-D normal", truth, normal(cells, 20), lambda x, _: x[..., 0] - ahead
    yield "outside a ball, 20-D", truth, normal(cells, 20), lambda x, _: x.square().sum(-1) - far
    yield "inside a ball, 20-D", truth, normal(cells, 20), lambda x, _: near - x.square().sum(-1)


def hard(cells: int) -> Iterator[Problem]:
    """Problems on which they are known not to."""
    truth = 1 - stats.norm.cdf(5) * stats.norm.cdf(4.5)

    def modes(x: Any, _: Any) -> Any:
        return torch.maximum(x[..., 0] - 5, 4 * (x[..., 1] - 4.5))

    yield "two modes of unequal slope", truth, normal(cells, 2), modes
    ridge = stats.gamma.isf(1e-6, 20)
    yield "corner, 20-D box", 1e-6, box(cells, 20), lambda x, _: -torch.log(1 - x).sum(-1) - ridge


def row(problem: Problem, estimator: str, **parameters: Any) -> dict[str, str]:
    """One line of the table."""
    name, truth, law, margin = problem
    start = time.perf_counter()
    build = registry.get("failure_estimators", estimator).build
    found = build(margin, law, np.random.default_rng(20), **parameters)
    took = time.perf_counter() - start
    # An estimator that finds nothing in most repetitions gives an upper bound.
    below = "" if found.found.mean() > 0.5 else "below "
    words = [estimator, *(f"{key} {value}" for key, value in parameters.items())]
    values = (
        name,
        f"{truth:.3g}",
        ", ".join(words),
        f"{below}{np.median(found.probability) / truth:.3g}",
        f"{((found.low <= truth) & (found.high >= truth)).mean():.3f}",
        str(sum("disagree" in note for note in found.notes)) if "runs" in parameters else "",
        f"{found.queries.mean():.0f}",
    )
    print(" | ".join(values), f"| {took:.0f} s", flush=True)
    return dict(zip(COLUMNS, values, strict=True))


def main() -> int:
    """The table, printed and written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    least = int(stats.binom.ppf(0.01, options.repetitions, 0.95)) / options.repetitions
    print(f"Coverage below {least:.3f} is below nominal (one-sided binomial test at 1%).")
    problems = [problem for t in TRUTHS for problem in one_mode(options.repetitions, t)]
    rows = [row(p, e) for p in problems for e in ("monte_carlo", "splitting", "last_particle")]
    for problem in hard(options.repetitions):
        rows += [row(problem, "splitting"), row(problem, "splitting", runs=5)]
        rows += [row(problem, "last_particle")]
    if options.write:
        with TABLE.open("w", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
