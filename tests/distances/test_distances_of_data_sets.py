"""Distances between data sets against scipy and closed forms; what the built-in features see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_images import scene
from scipy.cluster.hierarchy import linkage
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist, cosine

from roadworthy.distances.features import feature_matrix, image_features
from roadworthy.distances.sets import linkage as linkages
from roadworthy.distances.sets.frechet import frechet
from roadworthy.distances.sets.linkage import average, centroid, complete, single
from roadworthy.distances.sets.paired import paired_cosine, paired_euclidean
from roadworthy.registry import components, get

LINKAGES = (single, complete, average)
REDUCE = {"single": np.min, "complete": np.max, "average": np.mean}


def drawn(seed: int, n: int = 60, m: int = 40, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d))
    return rng.normal(size=(n, d)) @ mix + 50, rng.normal(1, 2, size=(m, d)) @ mix + 50


def frechet_by_root(source: np.ndarray, target: np.ndarray) -> float:
    one, other = np.cov(source, rowvar=False), np.cov(target, rowvar=False)
    apart = source.mean(axis=0) - target.mean(axis=0)
    return float(apart @ apart + np.trace(one + other - 2 * sqrtm(one @ other).real))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_frechet_is_that_of_the_root_of_the_product(seed, d):
    source, target = drawn(seed, d=d)
    found = frechet(source, target)
    assert found.notes == ()
    assert found.value == pytest.approx(frechet_by_root(source, target), rel=1e-6)
    assert found.value == pytest.approx(frechet(target, source).value, rel=1e-9)
    assert frechet(source, source).value == pytest.approx(0, abs=1e-9)


def test_frechet_of_gaussians_with_known_moments_is_the_closed_form():
    # Points at +-sqrt(n - 1) / sqrt(2) along an axis have variance 1 there (n - 1).
    axes = np.vstack([np.eye(3), -np.eye(3)]) * np.sqrt(5 / 2)
    source, target = axes * [1, 2, 3], axes * [4, 2, 1] + [1, 0, 2]
    assert frechet(source, target).value == pytest.approx(1 + 4 + (4 - 1) ** 2 + 0 + (3 - 1) ** 2)


def test_frechet_of_fewer_images_than_features_is_exact_and_says_so():
    source, target = drawn(0, n=6, m=30, d=9)
    found = frechet(source, target)
    assert found.value == pytest.approx(frechet_by_root(source, target), abs=1e-5)
    assert len(found.notes) == 1
    assert found.notes[0].startswith("the source has 6 images for 9 features")


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "mahalanobis"])
@pytest.mark.parametrize("linked", LINKAGES)
def test_linkages_are_reductions_of_all_distances(linked, metric, monkeypatch):
    monkeypatch.setattr(linkages, "PAIRS_AT_ONCE", 100)  # several blocks
    source, target = drawn(1)
    inverse = np.linalg.inv(np.cov(source, rowvar=False))
    table = cdist(
        source,
        target,
        {"manhattan": "cityblock"}.get(metric, metric),
        **({"VI": inverse} if metric == "mahalanobis" else {}),
    )
    found = linked(source, target, metric=metric)
    assert found.value == pytest.approx(REDUCE[linked.__name__](table), rel=1e-9)
    assert found.notes == ()


@pytest.mark.parametrize("linked", [*LINKAGES, centroid])
def test_two_clusters_are_as_far_apart_as_scipy_says_when_it_joins_them(linked):
    rng = np.random.default_rng(3)
    source, target = rng.normal(size=(9, 3)), rng.normal(100, 1, size=(7, 3))
    joined = linkage(np.vstack([source, target]), method=linked.__name__)
    assert linked(source, target).value == pytest.approx(joined[-1, 2], rel=1e-9)


def test_centroids_are_apart_by_the_metric_of_their_means():
    source, target = drawn(4)
    apart = source.mean(axis=0) - target.mean(axis=0)
    inverse = np.linalg.inv(np.cov(source, rowvar=False))
    expected = np.abs(apart).sum(), np.sqrt(apart @ inverse @ apart)
    found = [centroid(source, target, metric=m).value for m in ("manhattan", "mahalanobis")]
    assert found == pytest.approx(expected, rel=1e-9)


def test_mahalanobis_by_a_singular_covariance_is_by_its_pseudo_inverse_with_a_note():
    source, target = drawn(5, d=4)
    source, target = (np.column_stack([x, x[:, 0] + x[:, 1]]) for x in (source, target))
    target[:, 4] += 7.0  # partly in the direction in which the source does not vary
    apart = source.mean(axis=0) - target.mean(axis=0)
    inverse = np.linalg.pinv(np.cov(source, rowvar=False), rcond=1e-10, hermitian=True)
    found = centroid(source, target, metric="mahalanobis")
    assert found.value == pytest.approx(np.sqrt(apart @ inverse @ apart), rel=1e-6)
    assert "varies in 4 of 5 directions" in found.notes[0]
    with pytest.raises(ValueError, match="no covariance, take euclidean"):
        single(np.ones((3, 2)), target[:, :2], metric="mahalanobis")


def test_single_linkage_of_near_points_far_from_the_origin_keeps_its_digits():
    source = np.array([[1e6, 1e6], [0.0, 0.0]])
    assert single(source, source + 1e-3).value == pytest.approx(np.sqrt(2) * 1e-3, rel=1e-6)


def test_pairs_are_averaged():
    source, target = drawn(6, n=20, m=20)
    rows = list(zip(source, target, strict=True))
    euclidean = np.mean([np.linalg.norm(a - b) for a, b in rows])
    assert paired_euclidean(source, target).value == pytest.approx(euclidean, rel=1e-12)
    expected = np.mean([cosine(a, b) for a, b in rows])
    assert paired_cosine(source, target).value == pytest.approx(expected, rel=1e-9)
    assert paired_euclidean(source, source).value == 0.0


@pytest.mark.parametrize("name", list(components("set_distances")))
def test_features_that_cannot_be_compared_are_refused(name):
    component = get("set_distances", name)
    source, target = drawn(7, n=10, m=10)
    compare = component.bind()
    with pytest.raises(ValueError, match="use the same features for both"):
        compare(source, target[:, :-1])
    with pytest.raises(ValueError, match="of the target have NaN"):
        compare(source, np.where(target > 50, np.nan, target))
    with pytest.raises(ValueError, match=r"shape \(5,\); \(images, features\) was expected"):
        compare(source[0], target)
    with pytest.raises(ValueError, match="at least"):
        compare(source[:0], target)
    if component.traits["paired"]:
        with pytest.raises(ValueError, match="for unpaired sets take a linkage or frechet"):
            compare(source[:4], target)


def test_built_in_features_are_64_and_see_what_they_name():
    image = scene((120, 150, 3), 0)
    grain = np.random.default_rng(0).normal(0, 0.1, image.shape)
    noisy, dark = np.clip(image + grain, 0, 1), image * 0.5
    plain, noise, shade, turned = feature_matrix([image, noisy, dark, image[::-1]])
    assert plain.shape == (64,)
    np.testing.assert_array_equal(plain, image_features(image))
    np.testing.assert_allclose(plain[:3], image.mean(axis=(0, 1)))
    np.testing.assert_allclose(shade[:12], plain[:12] / 2)
    np.testing.assert_allclose(turned[:12], plain[:12])
    grid, grid_turned = (f[12:28].reshape(4, 4) for f in (plain, turned))
    np.testing.assert_allclose(grid_turned, grid[::-1])
    assert noise[60] > 1.5 * plain[60] and noise[61] > plain[61] and noise[59] > plain[59]
    assert plain[44:52].sum() == pytest.approx(1)


def test_the_noise_feature_is_the_standard_deviation_of_white_noise():
    noise = np.random.default_rng(0).normal(0.5, 0.05, (200, 200))
    assert image_features(np.clip(noise, 0, 1))[60] == pytest.approx(0.05, rel=0.03)


def test_orientations_are_those_of_the_gradients():
    ramp = np.tile(np.linspace(0, 1, 64), (64, 1))
    assert image_features(ramp)[44:52].argmax() == 0
    assert image_features(ramp.T)[44:52].argmax() == 4


def test_built_in_features_do_not_depend_on_the_type_of_pixels():
    image = np.rint(scene((70, 90), 1) * 255) / 255
    whole = (image * 255).astype(np.uint8), (image * 65535).astype(np.uint16), image
    np.testing.assert_allclose(*feature_matrix(whole[:2]), atol=1e-4)
    np.testing.assert_allclose(*feature_matrix(whole[1:]), atol=1e-4)
    np.testing.assert_array_equal(*feature_matrix([image, image[:, :, None]]))


def test_own_features_are_any_function_that_gives_as_many_for_each_image():
    images = [np.zeros((4, 5)), np.ones((3, 2))]
    found = feature_matrix(iter(images), lambda image: [image.mean(), image.shape[0]])
    assert found.tolist() == [[0.0, 4.0], [1.0, 3.0]]
    with pytest.raises(ValueError, match="from 6 to 20 features"):
        feature_matrix(images, np.ravel)
