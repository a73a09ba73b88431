"""Nearest neighbours against loops over all pairs, where products lose their digits too, and whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from roadworthy.statistics import Points, nearest
from roadworthy.statistics.neighbours import chunk_rows


def by_hand(queries: np.ndarray, points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """All distances in float64, sorted; equal ones by index."""
    distances = cdist(queries.astype(np.float64), points.astype(np.float64))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(40, 1), (40, 40), (1500, 1), (1500, 7), (5000, 50)])
def test_neighbours_are_those_of_a_loop_over_all_pairs(n, k, dtype):
    rng = np.random.default_rng(n + k)
    queries, points = (
        rng.normal(size=(30, 12)).astype(dtype),
        rng.normal(size=(n, 12)).astype(dtype),
    )
    distances, indices = by_hand(queries, points, k)
    found = nearest(queries, points, k=k)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
    np.testing.assert_array_equal(found.indices, indices)


@pytest.mark.parametrize("offset", [1e4, 1e7])
def test_points_far_from_the_origin_keep_their_digits(offset):
    rng = np.random.default_rng(3)
    points = offset + rng.normal(size=(1200, 8))
    queries = points[:25] + 1e-4 * rng.normal(size=(25, 8))
    distances, indices = by_hand(queries, points, 3)
    naive = (queries**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * queries @ points.T
    found = nearest(queries, points, k=3)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-9)
    np.testing.assert_array_equal(found.indices, indices)
    assert (
        np.abs(np.sqrt(np.abs(naive.min(axis=1))) / distances[:, 0] - 1).max() > 1e-3
    )  # the trap is there


def test_two_far_clusters_that_float32_cannot_tell_apart_inside():
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(size=(700, 6)) * 1e-5 + side for side in (-1e3, 1e3)])
    distances, indices = by_hand(points[:40], points, 5)
    found = nearest(points[:40], points, k=5)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-9)
    np.testing.assert_array_equal(found.indices, indices)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, st.tuples(st.integers(2, 12), st.just(3)), elements=st.floats(-1e6, 1e6)),
    st.data(),
)
def test_distances_are_right_for_any_values(queries, points, data):
    k = data.draw(st.integers(1, len(points)))
    found = nearest(queries, points, k=k)
    wanted, _ = by_hand(queries, points, k)
    np.testing.assert_allclose(found.distances, wanted, rtol=1e-9, atol=1e-300)
    of_indices = np.linalg.norm(queries[:, None] - points[found.indices], axis=2)
    np.testing.assert_allclose(of_indices, found.distances, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e25, 1e100])
def test_the_unit_of_the_values_does_not_matter(scale):
    rng = np.random.default_rng(6)
    queries, points = rng.normal(size=(20, 6)), rng.normal(size=(1300, 6))
    points[7] *= 1e20  # one that is far off does not hide the others
    plain, scaled = nearest(queries, points, k=4), nearest(queries * scale, points * scale, k=4)
    np.testing.assert_array_equal(plain.indices, by_hand(queries, points, 4)[1])
    np.testing.assert_array_equal(scaled.indices, plain.indices)
    np.testing.assert_allclose(scaled.distances, plain.distances * scale, rtol=1e-12)


def test_equal_points_are_ordered_by_index():
    points = np.zeros((600, 4), dtype=np.float32)
    found = nearest(np.ones((2, 4), dtype=np.float32), points, k=3)
    assert found.indices.tolist() == [[0, 1, 2]] * 2
    assert found.distances.tolist() == [[2.0] * 3] * 2


def test_no_point_is_its_own_neighbour_where_it_must_not_be():
    rng = np.random.default_rng(7)
    points = rng.normal(size=(1100, 5)).astype(np.float32)
    points[4] = points[900]
    distances = cdist(points.astype(np.float64), points.astype(np.float64))
    np.fill_diagonal(distances, np.inf)
    found = nearest(points, points, k=2, exclude_self=True, memory_mb=1)
    np.testing.assert_array_equal(
        found.indices, np.argsort(distances, axis=1, kind="stable")[:, :2]
    )
    assert found.indices[4, 0] == 900
    assert found.distances[4, 0] == 0.0


def test_chunks_and_order_change_nothing():
    rng = np.random.default_rng(9)
    queries, points = (
        rng.normal(size=(300, 10)).astype(np.float32),
        rng.normal(size=(4000, 10)).astype(np.float32),
    )
    assert chunk_rows(len(points), 1) < 50
    whole, parts = nearest(queries, points, k=5), nearest(queries, points, k=5, memory_mb=1)
    np.testing.assert_array_equal(whole.indices, parts.indices)
    np.testing.assert_array_equal(whole.distances, parts.distances)
    order = rng.permutation(len(queries))
    np.testing.assert_array_equal(
        nearest(queries[order], points, k=5).indices, whole.indices[order]
    )


@pytest.mark.parametrize("k", [1, 6])
def test_products_of_torch_find_the_same(k):
    pytest.importorskip("torch")
    rng = np.random.default_rng(11)
    points = rng.normal(size=(2500, 9)).astype(np.float32)
    for exclude, queries in ((False, points[:60] + 1), (True, points)):
        here = nearest(queries, points, k=k, exclude_self=exclude)
        there = nearest(queries, points, k=k, exclude_self=exclude, device="cpu:0", memory_mb=4)
        np.testing.assert_array_equal(here.indices, there.indices)
        np.testing.assert_allclose(here.distances, there.distances, rtol=1e-14)


def test_bad_arguments_are_refused_with_a_reason():
    points = np.zeros((4, 2))
    with pytest.raises(ValueError, match="k is 5; from 1 to 4"):
        nearest(points, points, k=5)
    with pytest.raises(ValueError, match="from 1 to 3"):
        nearest(points, points, k=4, exclude_self=True)
    with pytest.raises(ValueError, match="queries have 3 columns and points 2"):
        nearest(np.zeros((1, 3)), points)
    with pytest.raises(ValueError, match="NaN or infinite values in 1 rows"):
        nearest(points, np.array([[0.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="memory_mb is 0"):
        nearest(points, points, memory_mb=0)
    with pytest.raises(ValueError, match=r"values above 1e\+150"):
        nearest(np.array([[1e200, 0.0]]), np.array([[-1e200, 0.0], [1.0, 0.0]]))
    assert nearest(np.zeros((0, 2)), points).distances.shape == (0, 1)


@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 1e-37), (np.float64, 1e-150)])
def test_vanishing_points_beside_ordinary_queries_are_found(dtype: type, tiny: float) -> None:
    points = np.array([[tiny, tiny], [0.0, 0.0], [tiny, 0.0]], dtype=dtype)
    found = nearest(np.array([[1.0, 1.0], [tiny, 0.0]], dtype=dtype), points, k=1)
    assert found.distances[:, 0].tolist() == [pytest.approx(2**0.5), 0.0]
    assert found.indices[1, 0] == 2


def test_the_kth_distance_where_float32_cannot_tell_points_apart():
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(size=(700, 6)) * 1e-5 + side for side in (-1e3, 1e3)])
    queries = np.concatenate([points[:40], [[1e20] * 6, [-3.0] * 6]])
    found = Points(points).kth_distances(queries, k=5)
    np.testing.assert_allclose(found, by_hand(queries, points, 5)[0][:, -1], rtol=1e-9)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize("hidden", [0, 400, 2450, 2497])
def test_points_that_a_query_must_not_find_are_not_found(device, hidden):
    if device != "cpu":
        pytest.importorskip("torch")
    rng = np.random.default_rng(hidden)
    queries, points = (
        rng.normal(size=(50, 7)).astype(np.float32),
        rng.normal(size=(2500, 7)).astype(np.float32),
    )
    starts = np.sort(rng.integers(0, 2501 - hidden, 50)) // 500 * 500 % (2501 - hidden)
    without = np.stack([starts, starts + hidden], axis=1)
    distances = cdist(queries.astype(np.float64), points.astype(np.float64))
    for row, (first, last) in zip(distances, without, strict=True):
        row[first:last] = np.inf
    found = Points(points, device=device, memory_mb=1).nearest(queries, k=3, without=without)
    np.testing.assert_array_equal(
        found.indices, np.argsort(distances, axis=1, kind="stable")[:, :3]
    )
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :3], rtol=1e-12)
    with pytest.raises(ValueError, match=f"from 1 to {2500 - hidden} was expected"):
        Points(points, device=device).nearest(queries, k=2501 - hidden, without=without)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_device_answers_like_numpy_where_points_are_equal_far_or_shifted(dtype):
    pytest.importorskip("torch")
    rng = np.random.default_rng(12)
    plain = rng.normal(size=(1800, 5)).astype(dtype)
    cases = {
        "equal": np.zeros_like(plain),
        "few values": np.round(plain),
        "shifted": plain + dtype(1e4),
        "vanishing": plain * dtype(1e-36),
        "huge": plain * dtype(1e25),
        "two clusters": np.where(np.arange(1800)[:, None] % 2, dtype(1e3), dtype(-1e3))
        + plain * dtype(1e-3),
    }
    for name, points in cases.items():
        queries = np.concatenate([points[:30], plain[:5]])
        for k in (1, 20):
            here, there = (
                Points(points, device=d, memory_mb=2).nearest(queries, k=k)
                for d in ("cpu", "cpu:0")
            )
            np.testing.assert_array_equal(there.indices, here.indices, err_msg=name)
            np.testing.assert_allclose(there.distances, here.distances, rtol=1e-14, err_msg=name)


def test_rounded_products_of_torch_are_refused():
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(ValueError, match="set it to 'highest'"):
            nearest(np.zeros((1, 2)), np.ones((3, 2)), device="cpu:0")
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("n", [1024, 1500, 2815])
@pytest.mark.parametrize("k", [1, 3, 8, 9, 40])
def test_groups_of_points_leave_no_neighbour_out(n, k):
    rng = np.random.default_rng(n + k)
    points = rng.integers(0, 3, (n, 4)).astype(
        np.float32
    )  # many equal distances, also among the last points
    queries = rng.normal(1, 1, (30, 4)).astype(np.float32)
    distances = cdist(queries.astype(np.float64), points.astype(np.float64))
    found = nearest(queries, points, k=k)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    np.testing.assert_allclose(
        found.distances, np.take_along_axis(distances, order, axis=1), rtol=1e-12
    )
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_allclose(
        Points(points).kth_distances(queries, k=k), found.distances[:, -1], rtol=1e-12
    )
