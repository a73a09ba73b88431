"""Numbers of the image transforms against imagecorruptions (committed values) and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from oracle_imagecorruptions import BLURS, DRAWS, ORACLE, over_draws, scene
from scipy.stats import norm

from roadworthy.cases.image.contrast import contrast
from roadworthy.cases.image.gaussian_noise import gaussian_noise
from roadworthy.cases.image.motion_blur import motion_blur, streak
from roadworthy.cases.image.pixelate import pixelate
from roadworthy.cases.transform import at_level

LEVELS = range(1, 6)


@pytest.fixture(scope="module")
def oracle():
    with np.load(ORACLE, allow_pickle=False) as stored:
        return dict(stored)


def grey_levels_apart(a: np.ndarray, b: np.ndarray) -> int:
    return int(np.abs(a.astype(int) - b.astype(int)).max())


@pytest.mark.parametrize("name", ("contrast", "pixelate"))
@pytest.mark.parametrize("level", LEVELS)
def test_what_draws_nothing_is_within_one_grey_level_of_the_peer(oracle, name, level):
    ours = at_level(name, level).value(scene(53, 67), np.random.default_rng(0))
    assert grey_levels_apart(ours, oracle[f"{name}_{level}"]) <= 1


@pytest.mark.parametrize("number", range(len(BLURS)))
def test_blur_along_a_given_angle_is_within_one_grey_level_of_the_peer(oracle, number):
    radius, sigma, angle = BLURS[number]
    ours = streak(scene(53, 67), radius=radius, sigma=sigma, angle=angle)
    assert grey_levels_apart(ours, oracle[f"blur_{number}"]) <= 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("key", "name", "image"),
    [
        ("noise", "gaussian_noise", scene(96, 96)),
        ("snow", "snow", scene(96, 96)),
        ("snow_on_black", "snow", np.zeros((96, 96, 3), np.uint8)),
    ],
)
def test_what_is_drawn_has_the_peers_statistics(oracle, key, name, image, level):
    made = at_level(name, level)
    ours, error = over_draws(lambda seed: made.value(image, np.random.default_rng(seed)), DRAWS)
    theirs, their_error = oracle[f"{key}_{level}"]
    # 75 comparisons with fixed seeds: 4 standard errors, and a thousandth where the share of white pixels is nearly constant.
    assert np.all(np.abs(ours - theirs) <= 4 * np.hypot(error, their_error) + 1e-3)


@pytest.mark.parametrize("scale", (0.08, 0.18, 0.38))
def test_noise_on_mid_grey_has_the_moments_of_a_normal_cut_off_at_black_and_white(scale):
    noisy = gaussian_noise(np.full((300, 200, 3), 0.5), np.random.default_rng(3), scale=scale)
    a = 0.5 / scale
    variance = scale**2 * (1 - 2 * norm.sf(a) - 2 * a * norm.pdf(a)) + 0.25 * 2 * norm.sf(a)
    assert noisy.mean() == pytest.approx(0.5, abs=4 * scale / np.sqrt(noisy.size))
    assert noisy.var() == pytest.approx(variance, rel=0.015)
    cut_off = np.mean((noisy == 0) | (noisy == 1))
    assert cut_off == pytest.approx(
        2 * norm.sf(a), abs=4 * np.sqrt(2 * norm.sf(a) / noisy.size) + 1e-12
    )


def test_noise_is_the_generators_normal_numbers_in_reading_order():
    image = scene(200, 150)
    numbers = np.random.default_rng(8).standard_normal(image.shape, dtype=np.float32)
    expected = np.rint(np.clip(image + 255 * 0.2 * numbers.astype(float), 0, 255))
    ours = gaussian_noise(image, np.random.default_rng(8), scale=0.2)
    assert grey_levels_apart(ours, expected) <= 1 and np.mean(ours != expected) < 1e-3


@pytest.mark.parametrize("factor", (0.0, 0.05, 0.4, 1.0, 1.7))
@pytest.mark.parametrize("dtype", (np.uint8, np.uint16, np.float64))
def test_contrast_follows_its_formula(factor, dtype):
    white = np.iinfo(dtype).max if dtype != np.float64 else 1.0
    image = (scene(31, 45) / 255 * white).astype(dtype)
    mean = image.astype(float).mean(axis=(0, 1))
    expected = np.clip((image - mean) * factor + mean, 0, white)
    ours = contrast(image, np.random.default_rng(0), factor=factor)
    assert np.abs(ours - expected).max() <= (0.5001 if dtype != np.float64 else 1e-12)


def test_a_flat_image_is_untouched_by_blur_contrast_and_pixels():
    flat = np.full((30, 40, 3), (10, 130, 250), np.uint8)
    rng = np.random.default_rng(0)
    assert np.array_equal(motion_blur(flat, rng, radius=20, sigma=15.0), flat)
    assert np.array_equal(contrast(flat, rng, factor=0.2), flat)
    assert np.array_equal(pixelate(flat, rng, factor=0.3), flat)


@pytest.mark.parametrize("angle", (-135.0, -90.0, -44.0, 0.0, 13.0, 45.0, 160.0))
@pytest.mark.parametrize("shape", [(28, 28), (9, 70), (150, 120, 3)])
def test_blur_is_the_weighted_sum_of_shifted_images_that_go_on_with_their_edge(angle, shape):
    image = np.random.default_rng(1).integers(0, 65536, shape, dtype=np.uint16)
    weights = np.exp(-(np.arange(31) ** 2) / (2 * 8.0**2))
    rows, columns = np.arange(shape[0]), np.arange(shape[1])
    expected = np.zeros(shape)
    for i, weight in enumerate(weights / weights.sum()):
        y = np.clip(rows + np.ceil(i * np.sin(np.deg2rad(angle)) - 0.5), 0, shape[0] - 1).astype(
            int
        )
        x = np.clip(columns + np.ceil(i * np.cos(np.deg2rad(angle)) - 0.5), 0, shape[1] - 1).astype(
            int
        )
        expected += weight * image[y][:, x]
    assert np.abs(streak(image, radius=15, sigma=8.0, angle=angle) - expected).max() <= 0.6


def test_the_blurs_angle_stays_within_45_degrees_of_the_horizontal():
    dot = np.zeros((101, 101), np.float32)
    dot[50, 50] = 1
    for seed in range(60):
        smeared = motion_blur(dot, np.random.default_rng(seed), radius=20, sigma=15.0)
        y, x = np.nonzero(smeared)
        assert x.max() == 50 and np.all(np.abs(y - 50) <= np.abs(x - 50))


def test_pixelate_takes_plain_means_of_blocks_and_repeats_them():
    image = scene(60, 100)
    blocks = image.reshape(15, 4, 25, 4, 3).mean(axis=(1, 3))
    expected = blocks.repeat(4, axis=0).repeat(4, axis=1)
    assert np.abs(pixelate(image, np.random.default_rng(0), factor=0.25) - expected).max() <= 0.5


def test_pixelate_at_1_is_the_image():
    image = scene(37, 29)
    assert np.array_equal(pixelate(image, np.random.default_rng(0), factor=1.0), image)


def test_pixelate_sums_more_pixels_than_fit_into_32_bits():
    white = np.full((2900, 2910), 255, np.uint8)
    assert np.all(pixelate(white, np.random.default_rng(0), factor=0.3) == 255)


@pytest.mark.parametrize("level", LEVELS)
def test_snow_only_lightens(level):
    image = scene(64, 80)
    assert np.all(at_level("snow", level).value(image, np.random.default_rng(level)) >= image)


def test_snow_on_black_is_the_same_turned_by_180_degrees():
    snowy = at_level("snow", 3).value(np.zeros((50, 70), np.float64), np.random.default_rng(4))
    assert np.array_equal(snowy, snowy[::-1, ::-1])
    assert snowy.std() > 0.05
