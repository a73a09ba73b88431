"""Distances between images against peers, closed forms and plain loops."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_images import ORACLE, local_similarity, pairs, scene
from scipy.ndimage import correlate1d

from roadworthy.distances import for_kind
from roadworthy.distances.cw_ssim import cw_ssim
from roadworthy.distances.images import image_distance, pair_distances, variant_of
from roadworthy.distances.mse import mse, psnr
from roadworthy.distances.ssim import WEIGHTS, ms_ssim, ssim
from roadworthy.registry import RegistryError, get, missing

OF_PEERS = json.loads(ORACLE.read_text())
AGREES = {"ssim": 1e-7, "ms_ssim": 1e-6, "cw_ssim": 2e-6, "cw_ssim_pyssim": 1e-6}
NAMES = ("cw_ssim", "cw_ssim_pyssim", "mse", "ms_ssim", "ssim")
BOX_6 = {1.0: 0.0, 0.904: 0.096, 0.777: 0.223, 0.733: 0.267, 0.711: 0.289, 0.697: 0.303}
"""SSIM and the distance, as printed (Wozniak et al. 2024, box 6)."""


def bytes_of(image: np.ndarray) -> np.ndarray:
    return np.rint(image * 255).astype(np.uint8)


def distance(name):
    return get("distances", name).bind()


def reference_ssim(x: np.ndarray, y: np.ndarray, top: float) -> tuple[float, float]:
    """SSIM and its contrast-structure term, by Wang's formula with five filters."""
    offsets = np.arange(-5, 6)
    weights = np.exp(-(offsets**2) / (2 * 1.5**2))
    weights /= weights.sum()

    def soft(values):
        return correlate1d(correlate1d(values, weights, 0), weights, 1)[5:-5, 5:-5]

    mx, my = soft(x), soft(y)
    vx, vy, both = soft(x * x) - mx**2, soft(y * y) - my**2, soft(x * y) - mx * my
    c1, c2 = (0.01 * top) ** 2, (0.03 * top) ** 2
    structure = (2 * both + c2) / (vx + vy + c2)
    light = (2 * mx * my + c1) / (mx**2 + my**2 + c1)
    return float(np.mean(light * structure)), float(np.mean(structure))


@pytest.mark.parametrize("pair", OF_PEERS)
@pytest.mark.parametrize("name", AGREES)
def test_distances_are_one_minus_the_similarity_of_a_peer(name, pair):
    expected = 1 - OF_PEERS[pair][name]
    assert distance(name)(*pairs()[pair]) == pytest.approx(expected, abs=AGREES[name])


@pytest.mark.parametrize("shape", [(11, 11), (12, 40), (67, 150), (700, 211)])
def test_ssim_of_any_size_is_that_of_the_formula(shape):
    first, second = scene(shape, 0), np.clip(scene(shape, 0) + scene(shape, 1) / 5, 0, 1)
    assert ssim(first, second) == pytest.approx(1 - reference_ssim(first, second, 1.0)[0], abs=1e-9)


@pytest.mark.parametrize(("shape", "scales"), [((161, 175), 5), ((45, 83), 3), ((30, 30), 1)])
def test_ms_ssim_of_odd_sizes_repeats_the_last_row_and_column(shape, scales):
    x, y = first, second = scene(shape, 0), scene(shape, 0)[::-1]
    weights = np.array(WEIGHTS[:scales]) * sum(WEIGHTS) / sum(WEIGHTS[:scales])
    expected = 1.0
    for scale, weight in enumerate(weights, start=1):
        whole, structure = reference_ssim(x, y, 1.0)
        expected *= max(whole if scale == scales else structure, 0.0) ** weight
        x, y = (
            np.array(
                [
                    [np.mean(z[i : i + 2, j : j + 2]) for j in range(0, z.shape[1], 2)]
                    for i in range(0, z.shape[0], 2)
                ]
            )
            for z in (x, y)
        )
    assert ms_ssim(first, second, scales=scales) == pytest.approx(1 - expected, abs=1e-9)


def test_mse_is_in_units_of_white_squared_whatever_the_type():
    first, second = scene((20, 31, 3), 0), scene((20, 31, 3), 1)
    expected = float(np.mean((first - second) ** 2))
    assert mse(first, second) == pytest.approx(expected)
    assert mse(bytes_of(first), bytes_of(second)) == pytest.approx(expected, rel=0.01)
    words = [np.rint(i * 65535).astype(np.uint16) for i in (first, second)]
    assert mse(*words) == pytest.approx(expected, rel=1e-4)
    assert psnr(first, second) == pytest.approx(-10 * np.log10(expected))
    assert psnr(first, first) == np.inf


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000), st.sampled_from([(161, 170), (170, 161, 3)]))
def test_distances_are_symmetric_never_negative_and_zero_between_equal_images(one, two, shape):
    first, second = bytes_of(scene(shape, one)), bytes_of(scene(shape, two))
    for name in NAMES:
        compare = distance(name)
        found = compare(first, second)
        assert found == pytest.approx(compare(second, first), abs=1e-12)
        assert 0 <= found <= (2 if name == "ssim" else 1)
        assert compare(first, first.copy()) == 0.0


def test_box_6_of_the_paper():
    for similarity, printed in BOX_6.items():
        assert 1 - similarity == pytest.approx(printed, abs=5e-4)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0, 1]))
def test_cw_ssim_hardly_sees_a_translation_by_a_pixel(seed, axis):
    image = bytes_of(scene((97, 128), seed))
    moved = np.roll(image, 1, axis=axis)
    assert cw_ssim(image, moved) < 0.2 * ssim(image, moved)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1.0))
def test_cw_ssim_is_blind_to_polarity_and_sees_of_contrast_its_ratio_alone(seed, by):
    image = scene((64, 70), seed)
    assert cw_ssim(image, 1 - image) == pytest.approx(0, abs=1e-12)
    assert cw_ssim(image, image * by) == pytest.approx(1 - 2 * by / (1 + by**2), abs=1e-12)


def test_cw_ssim_takes_flat_images_as_equal_and_flat_areas_beside_edges_as_they_are():
    grey = np.full((64, 64), 100, np.uint8)
    assert cw_ssim(grey, grey + 50) == 0.0
    box = np.zeros((128, 128))
    box[20:40, 20:40] = 1.0
    assert cw_ssim(box, box / 2) == pytest.approx(0.2, abs=1e-9)


def test_cw_ssim_of_the_coarsest_level_hardly_sees_noise_and_all_bands_do():
    image = scene((160, 160), 0)
    noisy = np.clip(image + np.random.default_rng(0).normal(0, 0.08, image.shape), 0, 1)
    assert cw_ssim(image, noisy, bands="coarsest") < 0.2 * cw_ssim(image, noisy)


def test_cw_ssim_has_the_bands_of_a_pyramid_that_keeps_all_energy():
    # Squares of all filters, with their mirror images, add up to 1 between the first and the last octave.
    from roadworthy.distances.cw_ssim import _filters

    total = np.zeros((64, 64))
    for level in (1, 2, 3):
        size = 64 >> (level - 1)
        places = np.fft.ifftshift(np.arange(size) - size // 2) % 64
        for band in _filters(64, 64, level, 8).astype(np.float64):
            total[np.ix_(places, places)] += band**2 / 2
    total += np.roll(total[::-1, ::-1], 1, axis=(0, 1))
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(64, 0.5), np.fft.fftfreq(64, 0.5)))
    between = (radius <= 0.5) & (radius >= 2**-3)
    np.testing.assert_allclose(total[between], 2.0, atol=1e-5)


@pytest.mark.parametrize("window", [1, 4, 7])
def test_cw_ssim_with_other_parameters_is_that_of_a_plain_sum_over_windows(window):
    from roadworthy.distances.cw_ssim import _filters

    first, second = scene((32, 45), 0), scene((32, 45), 1)
    bands = [
        [np.fft.ifft2(np.fft.fft2(image) * band) for image in (first, second)]
        for band in _filters(32, 45, 1, 3)
    ]
    expected = 1 - np.mean([local_similarity(*pair, window) for pair in bands])
    chosen = {"levels": 1, "orientations": 3, "window": window}
    assert cw_ssim(first, second, **chosen) == pytest.approx(expected, abs=1e-9)
    assert cw_ssim(first, second, **chosen, k=1e9) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_images_that_differ_in_shape_or_type_are_refused(name):
    image = bytes_of(scene((161, 161), 0))
    with pytest.raises(ValueError, match="only images of one shape and type are compared"):
        distance(name)(image, image[:-1])
    with pytest.raises(ValueError, match=r"uint8 and .* float64"):
        distance(name)(image, image / 255)
    with pytest.raises(ValueError, match="divide by the largest value"):
        distance(name)(image * 1.0, image * 1.0)


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("ssim", {}, "ssim needs images of at least 11 x 11 pixels; these have 12 x 10"),
        ("ms_ssim", {}, "5 scales needs images of at least 161 x 161 pixels; these have 12 x 10"),
        ("ms_ssim", {"scales": 2}, "at least 21 x 21"),
        ("ms_ssim", {"scales": 6}, "scales is 6; 1 to 5"),
        ("cw_ssim", {}, "cw_ssim with 4 levels needs images of at least 49 x 49 pixels"),
        ("cw_ssim", {"levels": 0}, "levels is 0; 1 or more"),
        ("cw_ssim", {"k": -1.0}, "k is -1; 0 or more"),
        ("cw_ssim", {"bands": "some"}, "bands is 'some'"),
        ("cw_ssim_pyssim", {"width": 0}, "width is 0"),
    ],
)
def test_images_too_small_and_parameters_out_of_range_are_refused(name, parameters, sentence):
    image = np.zeros((10, 12), np.uint8)
    with pytest.raises(ValueError, match=sentence):
        get("distances", name).bind(**parameters)(image, image)


def test_alpha_is_not_compared():
    colour = bytes_of(scene((161, 161, 3), 0))
    first, second = (np.dstack([colour, np.full((161, 161), a, np.uint8)]) for a in (0, 255))
    for name in NAMES:
        assert distance(name)(first, second) == 0.0


def test_psnr_and_distances_of_other_values_are_no_distance_between_images():
    with pytest.raises(ValueError, match=r"psnr falls with distance .* take mse"):
        image_distance("psnr")
    with pytest.raises(ValueError, match=r"iou compares boxes; for images take: cw_ssim, "):
        image_distance("iou")
    with pytest.raises(RegistryError, match="did you mean 'ms_ssim'"):
        image_distance("msssim")
    assert tuple(sorted(for_kind("image"))) == tuple(sorted(NAMES))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "[vision]" in missing(get("distances", "ssim"))
    with pytest.raises(ValueError, match="cw_ssim needs cv2, which is not installed"):
        pair_distances("cw_ssim", [], [])


@pytest.mark.parametrize("count", ["1", "3"])
def test_many_pairs_are_read_in_a_stream_and_come_in_order(count, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", count)
    images = [bytes_of(scene((40, 50), seed)) for seed in range(20)]
    read = 0

    def stream():
        nonlocal read
        for image in images:
            read += 1
            yield image

    found = pair_distances("ssim", stream(), images[1:] + images[:1])
    expected = [ssim(a, b) for a, b in zip(images, images[1:] + images[:1], strict=True)]
    np.testing.assert_array_equal(found, expected)
    assert read == 20
    with pytest.raises(ValueError, match="shorter"):
        pair_distances("mse", images, images[:-1])
    assert pair_distances("mse", [], []).shape == (0,)


def test_a_variant_names_all_parameters_and_fixed_choices():
    assert variant_of("ms_ssim", scales=3).startswith("ms_ssim(scales=3): Gaussian window 11 x 11")
    assert "population covariance" in variant_of("ssim")
    with pytest.raises(ValueError, match="takes no parameter 'sigma'"):
        variant_of("ssim", sigma=2)
