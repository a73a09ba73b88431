"""Paper mode gives the figures of Zhao et al. 2021, and those of a plain loop on other data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from roadworthy.analysis.reliability.assumptions import vote_check
from roadworthy.analysis.reliability.paper import CROSSED, EMPTY, paper_mode

PROJECT = Path(__file__).parents[3]
POINTS = PROJECT.parent / "shared" / "data" / "ram-points" / "ds1.csv"
STUDY = PROJECT / "studies" / "reliability"
sys.path.insert(0, str(STUDY))
from make_forest import Forest  # noqa: E402  (a study is no package)


@pytest.mark.skipif(not POINTS.exists(), reason="the points have no licence: not in the project")
def test_the_published_figures_come_back():
    rows = np.loadtxt(POINTS, delimiter=",", skiprows=1)
    forest = Forest.load(STUDY / "forest_ds1.npz")
    found = paper_mode(rows[:, :2], rows[:, 2].astype(int), forest)
    assert found.acu == pytest.approx(0.008025, abs=5e-7)
    assert found.estimate == pytest.approx(0.008290, abs=5e-7)
    assert found.bound == pytest.approx(0.008319, abs=5e-7)
    assert found.deviation == pytest.approx(1.47e-5, abs=5e-8)
    assert found.variance == pytest.approx(found.deviation**2)
    # With the covariance between cells that the paper drops.
    assert found.full_deviation == pytest.approx(8.1e-5, abs=5e-7)
    assert (found.normal, found.empty, found.cross_boundary) == (986, 61_514, 0)
    assert vote_check(found.truth, found.votes).n == 986


def made(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    points = rng.beta(2, 3, (n, 2))
    labels = (points[:, 0] + 0.1 * np.sin(9 * points[:, 1]) > 0.4) ^ (rng.random(n) < 0.05)
    return points, labels.astype(int)


def three_classes(points: np.ndarray) -> np.ndarray:
    return np.digitize(points[:, 0] + 0.2 * points[:, 1], [0.47, 0.83])


def test_a_loop_over_cells_gives_the_same():
    points, labels = made()
    m, samples, resamples, h = 12, 300, 10, 0.13
    lam, lam_var, counts = [], [], [0, 0, 0]
    for i in range(m):
        for j in range(m):
            here = labels[(np.floor(points * m) == (i, j)).all(axis=1)]
            if len(set(here)) > 1:
                counts[2] += 1
                lam.append(1.0)
                lam_var.append(0.0)
                continue
            low = np.array([i, j]) / m
            drawn = np.random.RandomState(100).uniform(low, low + 1 / m, (samples, 2))
            given = three_classes(drawn.astype(np.float32))
            own = here[0] if len(here) else np.bincount(given).argmax()
            counts[0 if len(here) else 1] += 1
            lam.append((given != own).mean())
            lam_var.append((given != own).var(ddof=1) / samples)
    centres = (
        np.stack(np.meshgrid(range(m), range(m), indexing="ij"), -1).reshape(-1, 2) + 0.5
    ) / m

    def density(rows: np.ndarray) -> np.ndarray:
        return np.array([norm.pdf((c - rows) / h).prod(axis=1).mean() / h**2 for c in centres])

    whole = density(points)
    redrawn = [
        density(points[np.random.RandomState(b).randint(0, 500, 250)]) for b in range(resamples)
    ]
    op, op_var = whole / whole.sum(), np.var(redrawn, axis=0, ddof=1) / whole.sum() ** 2
    lam, lam_var = np.array(lam), np.array(lam_var)
    estimate = (op * lam).sum()
    variance = (lam**2 * op_var + op**2 * lam_var + lam_var * op_var).sum()

    found = paper_mode(
        points, labels, three_classes, side=1 / m, bandwidth=h, samples=samples, resamples=resamples
    )
    assert found.acu == pytest.approx(lam.mean(), rel=1e-12)
    assert found.estimate == pytest.approx(estimate, rel=1e-12)
    assert found.variance == pytest.approx(variance, rel=1e-9)
    assert found.bound == pytest.approx(estimate + norm.ppf(0.975) * variance**0.5, rel=1e-12)
    assert [found.normal, found.empty, found.cross_boundary] == counts
    assert counts[2] > 5
    assert found.mass == pytest.approx(op)
    assert (found.unastuteness[found.truth == CROSSED] == 1).all()
    assert (found.unastuteness[found.truth == EMPTY] <= 2 / 3).all()


def test_the_full_deviation_is_that_of_resampled_rows():
    points, labels = made(400)
    settings = {"side": 0.1, "samples": 50, "resamples": 2}
    whole = paper_mode(points, labels, three_classes, **settings)
    rng = np.random.default_rng(1)
    centres = np.stack(np.meshgrid(*[np.arange(0.05, 1, 0.1)] * 2, indexing="ij"), -1)
    kernel = np.exp(-((centres.reshape(-1, 1, 2) - points) ** 2).sum(axis=2) / 2 / 0.2**2)
    estimates = []
    for _ in range(2_000):
        mass = kernel @ rng.multinomial(400, np.full(400, 1 / 400))
        estimates.append(mass @ whole.unastuteness / mass.sum())
    assert whole.full_deviation == pytest.approx(np.std(estimates), rel=0.06)


def test_a_tie_of_votes_goes_to_the_lowest_class():
    def half(points):
        given = np.arange(len(points)) % 2
        return np.where(given == 1, 2, 1)

    points, labels = np.array([[0.6, 0.6], [0.7, 0.8]]), np.array([2, 2])
    found = paper_mode(points, labels, half, side=0.5, samples=100)
    assert found.votes.tolist() == [1, 1, 1, 1]
    assert found.unastuteness.tolist() == [0.5] * 4


def test_rows_outside_the_domain_are_refused_by_number():
    with pytest.raises(ValueError, match=r"1 rows lie outside the domain, the first is row 2"):
        paper_mode(
            np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 1.2]]), np.array([0, 1, 0]), three_classes
        )
