"""How often each bound on the probability of misclassification holds, on problems whose truth is known.

    python studies/reliability/coverage.py --processes 8       # 400 repetitions, writes tables/coverage.csv
    python studies/reliability/coverage.py --repetitions 60 --only "four clusters"

Inputs come from clusters (boxes of equal density), each with one true class but for islands where
r-separation is violated; the classifier is wrong in a slab of known share of each cluster, so that pmi
is exact. On the curve (the kind of problem of Zhao et al. 2021) pmi is from 4 million draws. Every
repetition draws reference rows with labels (islands are in operation only, and r is given: nothing in
the reference contradicts it), operational rows of which some are labelled at random, and asks for all
bounds at 97.5%. "Passes": not below nominal by a one-sided binomial test at 1%.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom

from roadworthy.analysis.reliability.assembly import (
    corrected,
    credible,
    held_out_check,
    operational_test,
    printed_bounds,
)

TABLE = Path(__file__).resolve().parent / "tables" / "coverage.csv"
CONFIDENCE, REPETITIONS, SIDE = 0.975, 400, 1 / 50
MUST_HOLD = ("without assumptions", "if separated", "corrected")
"""Bounds that claim coverage; the Bayesian one and paper mode claim none."""


@dataclass(frozen=True)
class Clusters:
    """Boxes with one class each; the classifier fails in the lowest part of each along the first axis."""

    centres: np.ndarray
    sides: np.ndarray
    shares: np.ndarray
    failing: np.ndarray
    """By cluster, the share of its inputs that the classifier gets wrong."""
    island: float = 0.0
    """Share of each cluster, along the last axis, that truly is of the next class: answered as the rest."""
    frames: int = 1
    """Inputs of a group, near each other inside a cluster."""
    classes: int = 2

    @property
    def dimension(self) -> int:
        return self.centres.shape[1]

    def draw(
        self, rng: np.random.Generator, groups: int, *, reference: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points by row, and the group of each."""
        own = np.repeat(np.arange(groups), self.frames)
        cluster = rng.choice(len(self.shares), p=self.shares, size=groups)[own]
        place = rng.random((groups, self.dimension))[own]
        if self.frames > 1:  # wrapped around, so that every single input is uniform in its cluster
            place = (place + 0.05 * rng.standard_normal(place.shape)) % 1.0
        if reference:
            place[:, -1] = self.island + (1.0 - self.island) * place[:, -1]
        return self.centres[cluster] + (place - 0.5) * self.sides[cluster, None], own

    def _places(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        moved = np.abs(points[:, None] - self.centres) / self.sides[:, None]
        cluster = moved.max(axis=2).argmin(axis=1)
        place = (points - self.centres[cluster]) / self.sides[cluster, None] + 0.5
        return cluster, place, cluster % self.classes

    def truth(self, points: np.ndarray) -> np.ndarray:
        _, place, own = self._places(points)
        return np.where(place[:, -1] < self.island, (own + 1) % self.classes, own)

    def answer(self, points: np.ndarray) -> np.ndarray:
        cluster, place, own = self._places(np.asarray(points, dtype=np.float64))
        return np.where(place[:, 0] < self.failing[cluster], (own + 1) % self.classes, own)

    def pmi(self) -> float:
        """Wrong in the slab or on the island, right where both meet (two classes)."""
        one = self.failing + self.island - 2.0 * self.failing * self.island
        return float(self.shares @ one)


@dataclass(frozen=True)
class Curve:
    """The unit square, two classes on both sides of a curve with a gap, a classifier that follows it roughly."""

    gap: float = 0.01
    bend: float = 0.17
    dimension: int = 2

    def draw(
        self, rng: np.random.Generator, groups: int, *, reference: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        points = rng.random((4 * groups, 2))
        points[:, 1] = np.where(
            rng.random(4 * groups) < 0.5, points[:, 1], rng.beta(4, 4, 4 * groups)
        )
        clear = np.abs(self._height(points, 0.2)) > self.gap
        return points[clear][:groups], np.arange(groups)

    def _height(self, points: np.ndarray, bend: float) -> np.ndarray:
        return points[:, 1] - 0.5 - bend * np.sin(2 * np.pi * points[:, 0])

    def truth(self, points: np.ndarray) -> np.ndarray:
        return (self._height(points, 0.2) > 0).astype(int)

    def answer(self, points: np.ndarray) -> np.ndarray:
        return (self._height(points, self.bend) > 0).astype(int)

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


def _grid(per_side: int, side: float, failing: list[float], **more: object) -> Clusters:
    ticks = (np.arange(per_side) + 0.5) / per_side
    centres = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    n = len(centres)
    rates = np.resize(failing, n)
    return Clusters(centres, np.full(n, side), np.full(n, 1 / n), rates, **more)  # type: ignore[arg-type]


def _uneven() -> Clusters:
    centres = np.array([[0.1, 0.1], [0.5, 0.2], [0.85, 0.15], [0.2, 0.6], [0.6, 0.65], [0.9, 0.9]])
    sides, shares = np.array([0.15, 0.1, 0.12, 0.08, 0.2, 0.05]), np.array([40, 25, 15, 12, 7, 1])
    failing = np.array([0.0, 0.02, 0.05, 0.0, 0.1, 0.5])
    return Clusters(centres, sides, shares / 100, failing, classes=3)


def _cube(dimension: int) -> Clusters:
    centres = 0.25 + 0.5 * np.eye(dimension)
    n = len(centres)
    return Clusters(
        centres, np.full(n, 0.15), np.full(n, 1 / n), np.resize([0.0, 0.05], n), classes=4
    )


PROBLEMS = {
    "four clusters": Problem(_grid(2, 0.2, [0.0, 0.04, 0.0, 0.04])),
    "sixteen clusters": Problem(_grid(4, 0.08, [0.0, 0.03, 0.06, 0.0]), unlabelled=8000),
    "uneven clusters": Problem(_uneven(), unlabelled=8000),
    "rare failures": Problem(_grid(2, 0.2, [0.0, 0.004]), unlabelled=20_000),
    "curve": Problem(Curve(), reference=1000),
    "groups": Problem(_grid(2, 0.2, [0.0, 0.12], frames=10), 60, 120, 1200, paper=False),
    "eight dimensions": Problem(_cube(8), cell=0.5, paper=False),
    "islands (violated)": Problem(_grid(2, 0.2, [0.01], island=0.02), separated=False, r=0.05),
    "rare islands (violated)": Problem(
        _grid(2, 0.2, [0.001], island=0.004), separated=False, r=0.05
    ),
}


def smallest_distance(points: np.ndarray, labels: np.ndarray) -> float:
    """Between rows of different labels, in the norm infinity."""
    return min(
        cKDTree(points[labels == c]).query(points[labels != c], p=np.inf)[0].min()
        for c in np.unique(labels)[1:]
    )


def reached(queries: np.ndarray, points: np.ndarray, labels: np.ndarray, r: float) -> np.ndarray:
    """The label of the nearest point nearer than r, -1 if there is none."""
    distance, row = cKDTree(points).query(queries, p=np.inf, distance_upper_bound=r)
    return np.where(distance < r, np.append(labels, -1)[row], -1)


def repetition(name: str, seed: int, paper: bool = True) -> dict[str, float]:
    """Upper bounds by name, and what the checks said."""
    problem = PROBLEMS[name]
    world, rng = problem.world, np.random.default_rng([seed, sorted(PROBLEMS).index(name)])
    known, _ = world.draw(rng, problem.reference, reference=True)
    points, groups = world.draw(rng, problem.labelled + problem.unlabelled)
    n = int((groups < problem.labelled).sum())
    truth, answers = world.truth(points[:n]), world.answer(points)
    known_truth = world.truth(known)
    failed = truth != answers[:n]
    grouped = None if len(np.unique(groups)) == len(groups) else groups
    own = None if grouped is None else grouped[:n]

    # The check uses the r of the reference rows: one that takes in the operational labels fits them.
    guess = reached(
        points, known, known_truth, problem.r or smallest_distance(known, known_truth) / 2
    )
    contradicted = int(((guess[:n] >= 0) & (guess[:n] != truth)).sum())
    labelled, labels = np.concatenate([known, points[:n]]), np.concatenate([known_truth, truth])
    r = problem.r or smallest_distance(labelled, labels) / 2
    lines = printed_bounds(
        failed, reached(points, labelled, labels, r), answers,
        groups=own, all_groups=grouped, contradicted=contradicted,
    )  # fmt: skip
    plain = operational_test(failed)
    guess_failed = guess != answers
    adjusted = corrected(
        guess_failed[n:], failed, guess_failed[:n],
        groups=None if grouped is None else grouped[n:], labelled_groups=own,
    )  # fmt: skip
    cells, cell = np.unique(np.floor(points / problem.cell), axis=0, return_inverse=True)
    count = partial(np.bincount, minlength=len(cells))
    cell = cell.ravel()
    bayes = credible(count(cell), count(cell[:n]), count(cell[:n], failed))
    later, _ = world.draw(rng, problem.labelled)
    judged = held_out_check(world.truth(later) != world.answer(later), lines.if_separated.upper)
    found = {
        "without assumptions": lines.without_assumptions.upper,
        "if separated": lines.if_separated.upper,
        "corrected": adjusted.upper,
        "bayesian": bayes.upper,
        "by input, groups ignored": plain.upper if grouped is not None else np.nan,
        "paper mode": _paper(problem, labelled, labels) if paper and problem.paper else np.nan,
        "gain": lines.gain,
        "contradicted": float(contradicted > 0),
        "held out contradicts": float(judged.contradicted),
        "without label": lines.propagated.without_label,
    }
    return found


def _paper(problem: Problem, points: np.ndarray, labels: np.ndarray) -> float:
    """The published method on a coarser grid (one repetition asks 2.5 million inputs)."""
    try:
        from roadworthy.analysis.reliability.paper import paper_mode
    except ImportError:
        return np.nan
    found = paper_mode(
        points, labels, problem.world.answer, side=SIDE, samples=1000, confidence=CONFIDENCE
    )
    return float(found.bound)


CHECKS = ("gain", "contradicted", "held out contradicts", "without label")


def rows(name: str, found: list[dict[str, float]]) -> Iterator[dict[str, object]]:
    """One row of the table a bound."""
    problem, truth, n = PROBLEMS[name], PROBLEMS[name].world.pmi(), len(found)
    mean = {key: float(np.mean([one[key] for one in found])) for key in CHECKS}
    least = int(binom.ppf(0.01, n, CONFIDENCE))
    for bound in found[0]:
        values = np.array([one[bound] for one in found])
        if bound in CHECKS or np.isnan(values).any():
            continue
        held = values >= truth
        said = held | np.array([one["contradicted"] > 0 for one in found])
        judged = bound in MUST_HOLD and (problem.separated or bound != "if separated")
        yield {
            "problem": name, "dimension": problem.world.dimension,
            "r-separated": "yes" if problem.separated else "no", "repetitions": n,
            "reference": problem.reference, "labelled": problem.labelled,
            "unlabelled": problem.unlabelled, "pmi": f"{truth:.5f}",
            "expected failures": f"{truth * problem.labelled:.1f}", "bound": bound,
            "coverage": f"{held.mean():.4f}", "covered or contradicted": f"{said.mean():.4f}",
            "passes": ("yes" if held.sum() >= least else "no") if judged else "no claim",
            "mean bound": f"{values.mean():.5f}", "bound / pmi": f"{values.mean() / truth:.2f}",
            "gain": f"{mean['gain']:.3f}" if bound == "if separated" else "",
            "without label": f"{mean['without label']:.3f}" if bound == "if separated" else "",
            "contradicted": f"{mean['contradicted']:.3f}" if bound == "if separated" else "",
            "held out contradicts":
                f"{mean['held out contradicts']:.3f}" if bound == "if separated" else "",
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", choices=PROBLEMS, help="one problem; repeatable")
    parser.add_argument("--no-paper", action="store_true", help="leave paper mode out (it is slow)")
    parser.add_argument("--to", type=Path, default=TABLE)
    given = parser.parse_args()
    table: list[dict[str, object]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for name in given.only or PROBLEMS:
            one = partial(repetition, name, paper=not given.no_paper)
            found = list(pool.map(one, range(given.repetitions), chunksize=5))
            table += rows(name, found)
            for row in table[-6:]:
                if row["problem"] == name:
                    print(
                        *(
                            row[k]
                            for k in (
                                "problem",
                                "bound",
                                "coverage",
                                "passes",
                                "bound / pmi",
                                "gain",
                            )
                        )
                    )
    given.to.parent.mkdir(parents=True, exist_ok=True)
    with given.to.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
