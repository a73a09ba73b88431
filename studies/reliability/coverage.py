"""How often each bound on the probability of misclassification (pmi) holds where it is known.

    python studies/reliability/coverage.py --processes 8       # writes tables/coverage.csv
    python studies/reliability/coverage.py --repetitions 60 --only "four clusters"

Inputs come from clusters (boxes of equal density), each with one true class but for islands where
r-separation is violated; the classifier is wrong in a slab of known share of each cluster, so that
pmi is exact. On the curve (the kind of problem of Zhao et al. 2021) it is from 4 million draws. A
repetition draws reference rows with labels (islands are in operation only, and r is given: nothing
in the reference contradicts it), operational rows of which some are labelled at random, and asks
for all bounds at 97.5%. "Passes": not below nominal by a one-sided binomial test at 1%.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom

from roadworthy.analysis.reliability import assembly
from roadworthy.analysis.reliability.assumptions import separation_check
from roadworthy.analysis.reliability.paper import paper_mode

TABLE = Path(__file__).resolve().parent / "tables" / "coverage.csv"
CONFIDENCE, REPETITIONS = 0.975, 400
Array, Rng = np.ndarray, np.random.Generator
MUST_HOLD = ("without assumptions", "if separated", "corrected")
"""Bounds that claim coverage; the Bayesian one and paper mode claim none."""


@dataclass(frozen=True)
class Clusters:
    """Boxes with one class each; the classifier fails in a slab of each across the first axis."""

    centres: Array
    sides: Array
    shares: Array
    failing: Array
    """By cluster, the share of its inputs that the classifier gets wrong."""
    island: float = 0.0
    """Share of each cluster, across the last axis, that truly is of the next class."""
    frames: int = 1
    """Inputs of a group, near each other inside a cluster."""
    classes: int = 2

    @property
    def dimension(self) -> int:
        return self.centres.shape[1]

    def draw(self, rng: Rng, groups: int, *, reference: bool = False) -> tuple[Array, Array]:
        """Points by row, and the group of each."""
        own = np.repeat(np.arange(groups), self.frames)
        cluster = rng.choice(len(self.shares), p=self.shares, size=groups)[own]
        place = rng.random((groups, self.dimension))[own]
        if self.frames > 1:  # wrapped around, so that every single input is uniform in its cluster
            place = (place + 0.05 * rng.standard_normal(place.shape)) % 1.0
        if reference:
            place[:, -1] = self.island + (1.0 - self.island) * place[:, -1]
        return self.centres[cluster] + (place - 0.5) * self.sides[cluster, None], own

    def _places(self, points: Array) -> tuple[Array, Array, Array]:
        moved = np.abs(points[:, None] - self.centres) / self.sides[:, None]
        cluster = moved.max(axis=2).argmin(axis=1)
        place = (points - self.centres[cluster]) / self.sides[cluster, None] + 0.5
        return cluster, place, cluster % self.classes

    def truth(self, points: Array) -> Array:
        _, place, own = self._places(points)
        return np.where(place[:, -1] < self.island, (own + 1) % self.classes, own)

    def answer(self, points: Array) -> Array:
        cluster, place, own = self._places(np.asarray(points, dtype=np.float64))
        return np.where(place[:, 0] < self.failing[cluster], (own + 1) % self.classes, own)

    def pmi(self) -> float:
        """Wrong in the slab or on the island, right where both meet (two classes)."""
        return float(self.shares @ (self.failing + self.island - 2 * self.failing * self.island))


@dataclass(frozen=True)
class Curve:
    """The unit square, two classes beside a curve with a gap, a classifier with a flatter curve."""

    dimension: int = 2

    def draw(self, rng: Rng, groups: int, *, reference: bool = False) -> tuple[Array, Array]:
        points = rng.random((4 * groups, 2))
        central = rng.random(4 * groups) < 0.5
        points[central, 1] = rng.beta(4, 4, int(central.sum()))
        clear = np.abs(self._height(points, 0.2)) > 0.01
        return points[clear][:groups], np.arange(groups)

    def _height(self, points: Array, bend: float) -> Array:
        return points[:, 1] - 0.5 - bend * np.sin(2 * np.pi * points[:, 0])

    def truth(self, points: Array) -> Array:
        return (self._height(points, 0.2) > 0).astype(int)

    def answer(self, points: Array) -> Array:
        return (self._height(points, 0.17) > 0).astype(int)

    @cache  # noqa: B019  (frozen, and there is one)
    def pmi(self) -> float:
        points, _ = self.draw(np.random.default_rng(0), 4_000_000)
        return float((self.truth(points) != self.answer(points)).mean())


@dataclass(frozen=True)
class Problem:
    """What is drawn in a repetition; numbers are of groups where inputs come in groups."""

    world: Clusters | Curve
    reference: int = 600
    labelled: int = 400
    unlabelled: int = 4000
    separated: bool = True
    r: float | None = None
    """As a user gives it; otherwise half the smallest distance of different labels."""
    cell: float = 0.1
    """Side of the cells of the Bayesian assembly."""
    paper: bool = True


def grid(
    per_side: int, side: float, failing: list[float], spread: float = 1, **more: Any
) -> Clusters:
    """Equal squares, spread over the unit square or a part of it."""
    ticks = 0.5 + spread * ((np.arange(per_side) + 0.5) / per_side - 0.5)
    return boxes(np.array([(x, y) for x in ticks for y in ticks]), side, failing, **more)


def boxes(centres: Array, side: float, failing: list[float], **more: Any) -> Clusters:
    """Clusters of one size, equally likely."""
    n = len(centres)
    return Clusters(centres, np.full(n, side), np.full(n, 1 / n), np.resize(failing, n), **more)


UNEVEN = Clusters(
    np.array([[0.1, 0.1], [0.5, 0.2], [0.85, 0.15], [0.2, 0.6], [0.6, 0.65], [0.9, 0.9]]),
    np.array([0.15, 0.1, 0.12, 0.08, 0.2, 0.05]),
    np.array([0.4, 0.25, 0.15, 0.12, 0.07, 0.01]),
    np.array([0.0, 0.02, 0.05, 0.0, 0.1, 0.5]),
    classes=3,
)
CUBES = boxes(0.25 + 0.5 * np.eye(8), 0.15, [0.0, 0.05], classes=4)
PROBLEMS = {
    "four clusters": Problem(grid(2, 0.2, [0.0, 0.04])),
    "near clusters": Problem(grid(2, 0.2, [0.0, 0.04], spread=0.46), unlabelled=8000),
    "sixteen clusters": Problem(grid(4, 0.08, [0.0, 0.03, 0.06, 0.0]), unlabelled=8000),
    "uneven clusters": Problem(UNEVEN, unlabelled=8000),
    "rare failures": Problem(grid(2, 0.2, [0.0, 0.004]), unlabelled=20_000),
    "curve": Problem(Curve(), reference=1000),
    "groups": Problem(grid(2, 0.2, [0.0, 0.12], frames=10), 60, 120, 1200, paper=False),
    "eight dimensions": Problem(CUBES, cell=0.5, paper=False),
    "islands": Problem(grid(2, 0.2, [0.01], island=0.02), separated=False, r=0.05),
    "rare islands": Problem(grid(2, 0.2, [0.001], island=0.004), separated=False, r=0.05),
}


def smallest_distance(points: Array, labels: Array) -> float:
    """Between rows of different labels, in the norm infinity."""
    return min(
        cKDTree(points[labels == c]).query(points[labels != c], p=np.inf)[0].min()
        for c in np.unique(labels)[1:]
    )


def reached(queries: Array, points: Array, labels: Array, r: float | None) -> Array:
    """The label of the nearest point nearer than r, -1 if there is none."""
    r = r or smallest_distance(points, labels) / 2
    distance, row = cKDTree(points).query(queries, p=np.inf, distance_upper_bound=r)
    return np.where(distance < r, np.append(labels, -1)[row], -1)


def repetition(name: str, seed: int, paper: bool = True) -> dict[str, float]:
    """Upper bounds by name, and what the checks said."""
    problem = PROBLEMS[name]
    world, rng = problem.world, np.random.default_rng([seed, sorted(PROBLEMS).index(name)])
    known, _ = world.draw(rng, problem.reference, reference=True)
    points, groups = world.draw(rng, problem.labelled + problem.unlabelled)
    later, _ = world.draw(rng, problem.labelled)
    n = int((groups < problem.labelled).sum())
    answers, truth, known_truth = world.answer(points), world.truth(points[:n]), world.truth(known)
    failed = truth != answers[:n]
    labelled, labels = np.concatenate([known, points[:n]]), np.concatenate([known_truth, truth])

    # The check takes the r of the reference: one of all labels cannot be contradicted by them.
    guess = reached(points, known, known_truth, problem.r)
    against = separation_check(truth, guess[:n])[0].against
    lines = assembly.printed_bounds(
        failed, reached(points, labelled, labels, problem.r), answers,
        groups=groups[:n], all_groups=groups, contradicted=int(against),
    )  # fmt: skip
    wrong = guess != answers
    adjusted = assembly.corrected(
        wrong[n:], failed, wrong[:n], groups=groups[n:], labelled_groups=groups[:n]
    )
    cell = np.unique(np.floor(points / problem.cell), axis=0, return_inverse=True)[1].ravel()
    count = partial(np.bincount, minlength=cell.max() + 1)
    bayes = assembly.credible(count(cell), count(cell[:n]), count(cell[:n], failed))
    later_failed = world.truth(later) != world.answer(later)
    judged = assembly.held_out_check(later_failed, lines.if_separated.upper)
    found = {
        "without assumptions": lines.without_assumptions.upper,
        "if separated": lines.if_separated.upper,
        "corrected": adjusted.upper,
        "bayesian": bayes.upper,
        "gain": lines.gain,
        "without label": lines.propagated.without_label,
        "contradicted": float(against > 0),
        "held out contradicts": float(judged.contradicted),
    }
    if len(np.unique(groups)) < len(groups):
        found["groups ignored"] = assembly.operational_test(failed).upper
    if paper and problem.paper:  # on a coarser grid: 2 million queries
        published = paper_mode(labelled, labels, world.answer, side=0.01, samples=200)
        found["paper mode"] = published.bound
    return found


CHECKS = ("gain", "without label", "contradicted", "held out contradicts")


def rows(name: str, found: list[dict[str, float]]) -> Iterator[dict[str, object]]:
    """One row of the table a bound."""
    problem, truth, n = PROBLEMS[name], PROBLEMS[name].world.pmi(), len(found)
    values = {key: np.array([one[key] for one in found]) for key in found[0]}
    for bound in [key for key in values if key not in CHECKS]:
        held, mean, second = values[bound] >= truth, values[bound].mean(), bound == "if separated"
        passes = "yes" if binom.cdf(held.sum(), n, CONFIDENCE) > 0.01 else "no"
        claims = bound in MUST_HOLD and (problem.separated or not second)
        either = (held | (values["contradicted"] > 0)).mean()
        yield {
            "problem": name, "dimension": problem.world.dimension,
            "r-separated": "yes" if problem.separated else "no", "repetitions": n,
            "reference": problem.reference, "labelled": problem.labelled,
            "unlabelled": problem.unlabelled, "pmi": f"{truth:.5f}",
            "expected failures": f"{truth * problem.labelled:.1f}",
            "bound": bound, "coverage": f"{held.mean():.4f}",
            "passes": passes if claims else "no claim",
            "mean bound": f"{mean:.5f}", "bound / pmi": f"{mean / truth:.2f}",
            **{key: f"{values[key].mean():.3f}" if second else "" for key in CHECKS},
            "covered or contradicted": f"{either:.4f}" if second else "",
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", choices=PROBLEMS, help="one problem; repeatable")
    parser.add_argument("--to", type=Path, default=TABLE)
    given = parser.parse_args()
    table: list[dict[str, object]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for name in given.only or PROBLEMS:
            found = list(pool.map(partial(repetition, name), range(given.repetitions)))
            new = list(rows(name, found))
            print(name, *(f"{row['bound']} {row['coverage']}" for row in new), sep="; ")
            table += new
    given.to.parent.mkdir(parents=True, exist_ok=True)
    with given.to.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
