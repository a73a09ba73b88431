"""The distance between classes is exact, and every input lies in exactly one cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from roadworthy.statistics import partition
from roadworthy.statistics.partition import (
    Centres,
    Grid,
    label_separation,
    nearest_within,
)

METRIC = {np.inf: "chebyshev", 1: "cityblock", 2: "euclidean"}


def pictures(rng: np.random.Generator, n: int, width: int = 40) -> np.ndarray:
    """Values near 0 and 1, many exactly there, as in pictures."""
    return np.clip(rng.normal(0.5, 0.6, (n, width)), 0, 1).astype(np.float32)


@pytest.mark.parametrize("norm", [np.inf, 1, 2])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_separation_is_that_of_all_pairs(norm, width):
    rng = np.random.default_rng(3)
    points, labels = (
        pictures(rng, 300, width) + 0.01 * rng.random((300, width)),
        rng.integers(-1, 3, 300),
    )
    distances = cdist(points, points, METRIC[norm])
    distances[(labels[:, None] == labels) | (labels < 0) | (labels < 0)[:, None]] = np.inf
    found = label_separation(points, labels, norm=norm)
    assert found.distance == pytest.approx(distances.min(), rel=1e-9)
    assert distances[found.pair] == pytest.approx(found.distance, rel=1e-9)
    assert found.r == found.distance / 2
    assert found.n == (labels >= 0).sum()
    assert not found.given
    sizes, curve = zip(*found.curve, strict=True)
    assert sizes[-1] == found.n
    assert curve[-1] == found.distance
    assert list(curve) == sorted(curve, reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    radius=st.sampled_from([0.05, 0.3, 0.5, 0.9, 1.0, np.inf]),
    norm=st.sampled_from([np.inf, 1, 2]),
    width=st.sampled_from([2, 16, 30]),
    levels=st.sampled_from([1, 4, 255]),
)
def test_the_nearest_within_a_radius_is_that_of_all_pairs(seed, radius, norm, width, levels):
    rng = np.random.default_rng(seed)
    points = np.round(pictures(rng, 60, width) * levels) / levels
    queries = np.abs(points[rng.integers(60, size=25)] - rng.choice([0, 1 / levels], (25, width)))
    distances = cdist(queries, points, METRIC[norm])
    near, rows = nearest_within(queries, points, radius=radius, norm=norm)
    best = distances.min(axis=1)
    # A distance of the radius but for rounding may count either way.
    clear = np.abs(best - radius) > 1e-6
    assert near[clear] == pytest.approx(np.where(best < radius, best, np.inf)[clear], abs=1e-6)
    found = rows >= 0
    assert (found == np.isfinite(near)).all()
    assert distances[found, rows[found]] == pytest.approx(near[found], abs=1e-6)


def test_far_inputs_are_told_apart_without_comparing_them(monkeypatch):
    rng = np.random.default_rng(0)
    points = pictures(rng, 2_000)
    near = points[:50] + 0.01
    compared = []
    subtract = np.subtract
    monkeypatch.setattr(
        partition.np, "subtract", lambda a, b, **k: compared.append(len(a)) or subtract(a, b, **k)
    )
    found = nearest_within(near, points, radius=0.02)[1]
    assert found.tolist() == list(range(50))
    assert sum(compared) < 50 * 2_000 / 100


@pytest.mark.parametrize("law", ["uniform", "clusters"])
def test_the_next_row_lowers_the_distance_as_often_as_stated(law):
    rng = np.random.default_rng(11)
    n, lowered, repetitions = 40, 0, 1_500
    for _ in range(repetitions):
        points, labels = rng.random((n + 1, 2)), rng.integers(0, 2, n + 1)
        if law == "clusters":
            points += labels[:, None]
        distances = cdist(points, points, "chebyshev")
        distances[labels[:, None] == labels] = np.inf
        lowered += distances[-1].min() < distances[:-1, :-1].min()
    assert label_separation(points[:-1], labels[:-1]).chance_lower == 2 / 41
    # 2 / (n + 1) for the pair of any n + 1 exchangeable rows.
    assert lowered / repetitions == pytest.approx(2 / (n + 1), abs=0.018)


def test_its_upper_value_is_clopper_pearson_with_one_success():
    points = np.random.default_rng(0).random((1_000, 2))
    found = label_separation(points, (points[:, 0] > 0.5).astype(int))
    assert found.chance_upper == pytest.approx(5.6 / 1_000, rel=0.01)


def test_equal_rows_of_two_labels_are_refused_with_the_pair():
    points = np.random.default_rng(0).random((50, 2))
    points[31] = points[7]
    labels = np.zeros(50, dtype=int)
    labels[31] = 1
    with pytest.raises(ValueError, match="rows 7 and 31 are equal but labelled 0 and 1"):
        label_separation(points, labels)
    overridden = label_separation(points, labels, r=0.01)
    assert (overridden.r, overridden.given, overridden.distance) == (0.01, True, 0.0)


def test_a_nearly_equal_pair_is_said():
    points, labels = np.array([[0.0], [1.0], [1.0 + 1e-9], [5.0]]), np.array([0, 0, 1, 1])
    assert label_separation(points, labels).nearly_zero
    assert not label_separation(points * [[1], [1], [1.1], [1]], labels).nearly_zero


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(3, dtype=int)}, "labels of one class only"),
        ({"norm": 3}, "norm is 3"),
        ({"r": -1.0}, "r is -1.0"),
    ],
)
def test_what_has_no_separation_is_refused(change, message):
    settings = {"points": np.eye(3), "labels": np.array([0, 1, 1])} | change
    with pytest.raises(ValueError, match=message):
        label_separation(settings.pop("points"), settings.pop("labels"), **settings)


boxes = st.lists(
    st.tuples(st.floats(-100, 100), st.floats(0.01, 50)).map(lambda b: (b[0], b[0] + b[1])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(domain=boxes, parts=st.floats(0.5, 12), seed=st.integers(0, 10**6))
def test_every_point_of_the_box_lies_in_exactly_one_cell(domain, parts, seed):
    side = max(high - low for low, high in domain) / parts
    grid = Grid.over(domain, side)
    assert (grid.side <= side * (1 + 1e-9)).all()
    assert (grid.side * (np.array(grid.shape) - 1) < np.ptp(domain, axis=1)).all()
    rng = np.random.default_rng(seed)
    share = np.where(
        rng.random((40, len(domain))) < 0.2,
        rng.integers(0, 2, (40, len(domain))),
        rng.random((40, len(domain))),
    )
    low, high = np.array(domain).T
    points = np.clip(low + share * (high - low), low, high)
    cells = grid.cell_of(points)
    holds = np.ones((len(points), grid.cells), dtype=bool)
    at = np.unravel_index(np.arange(grid.cells), grid.shape)
    for k in range(grid.dimension):
        edges = grid.edges(k)
        last = at[k] == grid.shape[k] - 1
        below = (points[:, k, None] < edges[at[k] + 1]) | (last & (points[:, k, None] == edges[-1]))
        holds &= (points[:, k, None] >= edges[at[k]]) & below
    assert (holds.sum(axis=1) == 1).all()
    assert (holds.argmax(axis=1) == cells).all()
    assert (grid.corners(cells) <= points).all()
    outside = points.copy()
    outside[:, 0] = high[0] + 1
    assert (grid.cell_of(outside) == -1).all()
    assert (grid.cell_of(np.full((1, grid.dimension), np.nan)) == -1).all()


def test_250_cells_of_a_250th_cover_the_unit_square():
    assert Grid.over([(0, 1), (0, 1)], 1 / 250).shape == (250, 250)


def test_a_grid_too_large_is_refused_with_a_side_that_fits(monkeypatch):
    with pytest.raises(ValueError, match=r"has 1e\+09 cells and takes about 59\.6 GiB") as refused:
        Grid.over([(0, 1)] * 3, 1e-3)
    side = float(str(refused.value).split("A side of ")[1].split(" fits")[0])
    assert Grid.over([(0, 1)] * 3, side).cells > 9e6
    with pytest.raises(ValueError, match=r"has 1e\+08 cells"):
        Grid.over([(0, 1)] * 8, 0.1)
    with pytest.raises(ValueError, match="inf cells"):
        Grid.over([(0, 1)] * 784, 1e-3)
    monkeypatch.setattr(partition, "free_memory", lambda: 64 * 1_000)
    with pytest.raises(ValueError, match=r"A side of 0\.033 fits"):
        Grid.over([(0, 1)] * 2, 0.01)
    assert Grid.over([(0, 1)] * 2, 0.033).cells <= 1_000


@pytest.mark.parametrize(("domain", "side"), [([(1, 0)], 0.1), ([(0, 1)], 0.0), ([(0, np.inf)], 1)])
def test_a_domain_or_side_without_meaning_is_refused(domain, side):
    with pytest.raises(ValueError, match="was expected"):
        Grid.over(domain, side)


def test_centres_find_clusters_and_cover_the_space():
    rng = np.random.default_rng(0)
    middles = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 5]])
    points = np.concatenate([rng.normal(m, 0.3, (80, 2)) for m in middles])
    centres = Centres.fit(points, 5, rng=np.random.default_rng(1))
    order = np.lexsort(centres.points.round().T)
    assert centres.points[order] == pytest.approx(middles[np.lexsort(middles.T)], abs=0.2)
    far = rng.normal(0, 100, (500, 2))
    assert (centres.cell_of(far) == cdist(far, centres.points).argmin(axis=1)).all()
    # A fixed point of Lloyd's rounds: every centre is the mean of its rows.
    place = centres.cell_of(points)
    assert all(
        centres.points[c] == pytest.approx(points[place == c].mean(axis=0)) for c in range(5)
    )


def test_fewer_different_rows_than_cells_give_fewer_centres():
    assert Centres.fit(np.repeat(np.eye(3), 4, axis=0), 5, rng=np.random.default_rng(0)).cells == 3
    with pytest.raises(ValueError, match="9 cells of 3 rows"):
        Centres.fit(np.eye(3), 9, rng=np.random.default_rng(0))
