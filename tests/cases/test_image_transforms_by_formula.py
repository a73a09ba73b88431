"""Image transforms against what their formulas say: scipy, colorsys, plain loops, closed forms."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest
from oracle_imagecorruptions import scene
from oracle_statistics import photos
from scipy import ndimage, stats

from roadworthy.cases.image.glass_blur import _neighbours
from roadworthy.cases.image.motion_blur import streak
from roadworthy.cases.image.textures import plasma, soft_noise
from roadworthy.cases.transform import Transform, at_level


def made(name: str, image: np.ndarray, seed: int = 0, **parameters: object) -> np.ndarray:
    return Transform(name, parameters).value(image, np.random.default_rng(seed))


@pytest.mark.parametrize(("photons", "value"), [(60.0, 90), (25.0, 51), (300.0, 128)])
def test_shot_noise_counts_poisson_photons(photons, value):
    noisy = made("shot_noise", np.full((200, 200), value / 255), photons=photons)
    counts = np.rint(noisy * photons).astype(int).ravel()
    mean = value / 255 * photons
    edges = np.unique(stats.poisson.ppf(np.linspace(0.05, 0.95, 10), mean))
    seen = np.bincount(np.searchsorted(edges, counts), minlength=len(edges) + 1)
    expected = np.diff(stats.poisson.cdf([*edges, np.inf], mean), prepend=0) * len(counts)
    assert stats.chisquare(seen, expected).pvalue > 0.001
    assert not made("shot_noise", np.zeros((9, 9)), photons=photons).any()


def test_shot_noise_of_fine_pixels_has_the_right_mean_and_variance():
    image = np.full((300, 300), 0.3371, np.float64)
    noisy = made("shot_noise", image, photons=60.0)
    assert noisy.mean() == pytest.approx(0.3371, abs=4 * math.sqrt(0.3371 / 60 / image.size))
    assert noisy.var() == pytest.approx(0.3371 / 60, rel=0.02)


@pytest.mark.parametrize("name", ("impulse_noise", "salt_and_pepper"))
def test_salt_and_pepper_in_equal_shares(name):
    noisy = made(name, np.full((300, 300, 3), 90, np.uint8), amount=0.2)
    n = 300 * 300 * (3 if name == "impulse_noise" else 1)
    for value, share in ((0, 0.1), (255, 0.1), (90, 0.8)):
        assert np.mean(noisy == value) == pytest.approx(share, abs=4 * math.sqrt(share / n))
    assert bool(np.all(noisy == noisy[:, :, :1])) is (name == "salt_and_pepper")


def test_speckle_noise_grows_with_brightness():
    image = np.tile(np.float64([0.2, 0.4]), (200, 100))
    noisy = made("speckle_noise", image, scale=0.15)
    for column, value in ((0, 0.2), (1, 0.4)):
        assert (noisy[:, column::2] - value).std() == pytest.approx(0.15 * value, rel=0.03)


@pytest.mark.parametrize("sigma", (0.7, 2.0, 6.0))
def test_gaussian_blur_is_scipys(sigma):
    image = scene(60, 80)
    expected = ndimage.gaussian_filter(image.astype(float), (sigma, sigma, 0), mode="nearest")
    assert np.abs(made("gaussian_blur", image, sigma=sigma) - expected).max() <= 0.501


@pytest.mark.parametrize("radius", (2.0, 3.0, 6.5))
@pytest.mark.parametrize("dtype", (np.uint8, np.uint16, np.float64))
def test_defocus_is_the_mean_over_a_disc(radius, dtype):
    image = scene(40, 50)[:, :, 0]
    image = (
        image
        if dtype == np.uint8
        else (image / 255 * (65535 if dtype == np.uint16 else 1)).astype(dtype)
    )
    y, x = np.mgrid[-8:9, -8:9]
    disc = (x**2 + y**2 <= radius**2).astype(float)
    expected = ndimage.correlate(image.astype(float), disc / disc.sum(), mode="nearest")
    apart = np.abs(made("defocus_blur", image, radius=radius, edge=0.1) - expected).max()
    assert apart <= {1: 0.51, 2: 0.6, 8: 1e-6}[image.itemsize]


def test_defocus_lightens_as_the_peers_kernel_does_and_sums_many_white_pixels():
    white = np.full((60, 60), 250, np.uint8)
    assert set(np.unique(made("defocus_blur", white, radius=6.0, edge=0.5))) == {250}
    assert made("defocus_blur", white // 2, radius=10.0, edge=0.5).mean() == pytest.approx(
        126.5, abs=0.6
    )


@pytest.mark.parametrize("reach", (1, 2, 4))
def test_glass_takes_pixels_as_plain_loops_from_the_last_to_the_first_do(reach):
    height, width = 23, 31
    taken = _neighbours((height, width), np.random.default_rng(4), reach)
    down, across = np.random.default_rng(4).integers(
        -reach, reach, (2, height, width), dtype=np.int16
    )
    held = np.arange(height * width).reshape(height, width)
    for y in reversed(range(height)):
        for x in reversed(range(width)):
            row = min(max(y + int(down[y, x]), 0), height - 1)
            column = min(max(x + int(across[y, x]), 0), width - 1)
            held[y, x] = held[row, column]
    assert np.array_equal(taken.reshape(height, width), held)


def test_zoom_blur_is_the_mean_of_scipys_enlargements():
    image = photos()[0][:120, :150].astype(np.float64) / 255
    total = 2 * image
    for zoom in (1.05, 1.1):
        rows, columns = (math.ceil(side / zoom) for side in image.shape[:2])
        top, left = (image.shape[0] - rows) // 2, (image.shape[1] - columns) // 2
        seen = image[top : top + rows, left : left + columns]
        total += ndimage.zoom(seen, (zoom, zoom, 1), order=1)[:120, :150]
    assert np.abs(made("zoom_blur", image, largest=1.1, step=0.05) - total / 4).max() < 0.01


COLOURS = np.random.default_rng(5).random((6, 7, 3))
COLOURS[0, :3] = [[0, 0, 0], [0.5, 0.5, 0.5], [1, 1, 1]]


def in_hsv(image: np.ndarray, change) -> np.ndarray:
    flat = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*p))) for p in image.reshape(-1, 3)]
    return np.array(flat).reshape(image.shape)


@pytest.mark.parametrize("by", (0.1, 0.5, 1.0))
def test_brightness_raises_the_value_of_hsv(by):
    expected = in_hsv(COLOURS, lambda h, s, v: (h, s, min(v + by, 1)))
    assert made("brightness", COLOURS, by=by) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("factor", "plus"), [(0.3, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)])
def test_saturate_changes_the_saturation_of_hsv(factor, plus):
    expected = in_hsv(COLOURS, lambda h, s, v: (h, min(s * factor + plus, 1), v))
    assert made("saturate", COLOURS, factor=factor, plus=plus) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shape", [(8, 8), (100, 60), (700, 1300)])
def test_a_cloud_fills_the_shape_and_is_smoother_with_a_larger_decay(shape):
    rough, smooth = (plasma(shape, np.random.default_rng(2), decay) for decay in (1.2, 2.5))
    for cloud in (rough, smooth):
        assert cloud.shape == shape and 0 <= cloud.min() < cloud.max() <= 1
    assert np.abs(np.diff(smooth)).mean() < np.abs(np.diff(rough)).mean()


def test_fog_keeps_the_lightest_pixel_as_the_limit():
    image = np.array([[0.0, 0.8]] * 2).repeat(8, axis=0).repeat(8, axis=1)
    foggy = made("fog", image, density=1.5, decay=2.0)
    assert foggy.max() <= 0.8 + 1e-6
    cloud = foggy[:, :8] * (0.8 + 1.5) / 0.8 / 1.5  # black pixels show the cloud alone
    beside = foggy[:, 8:] * (0.8 + 1.5) / 0.8 / 1.5 - 0.8 / 1.5
    assert cloud.min() >= 0 and beside.max() <= 1 + 1e-6
    assert not made("fog", np.zeros((8, 8)), density=1.5, decay=2.0).any()


@pytest.mark.parametrize("sigma", (1.0, 3.0, 7.0, 20.0))
def test_soft_noise_has_variance_1_and_the_correlation_of_a_gaussian_blur(sigma):
    layers = np.stack([soft_noise((240, 320), np.random.default_rng(s), sigma) for s in range(12)])
    step = max(1, round(sigma))
    pairs = np.mean(layers[:, :, step:] * layers[:, :, :-step])
    edge = round(2 * sigma)  # reflected noise varies more near the edge
    assert layers[:, edge:-edge, edge:-edge].var() == pytest.approx(1, rel=0.2)
    assert pairs / layers.var() == pytest.approx(math.exp(-(step**2) / (4 * sigma**2)), abs=0.06)


@pytest.mark.parametrize("angle", (-44.0, 0.0, 30.0))
def test_a_centred_streak_is_the_same_streak_with_its_centre_in_place(angle):
    dot = np.zeros((101, 101))
    dot[50, 50] = 1
    kept = {"radius": 15, "sigma": 8.0, "angle": angle}
    plain, centred = streak(dot, **kept), streak(dot, **kept, centred=True)
    for smeared, moved in ((centred, False), (plain, True)):
        centre = np.array(ndimage.center_of_mass(smeared))
        assert bool(np.abs(centre - 50).max() > 2) is moved
        assert moved or np.abs(centre - 50).max() <= 0.51
    assert np.sort(plain[plain > 0]) == pytest.approx(np.sort(centred[centred > 0]))


@pytest.mark.parametrize(
    ("name", "parameters", "doubled"),
    [
        ("gaussian_blur", {"sigma": 1.5}, {"sigma": 3.0}),
        ("defocus_blur", {"radius": 3.0, "edge": 0.5}, {"radius": 6.0, "edge": 0.5}),
        ("motion_blur", {"radius": 5, "sigma": 3.0}, {"radius": 10, "sigma": 6.0}),
        (
            "glass_blur",
            {"sigma": 1.0, "reach": 2, "rounds": 1},
            {"sigma": 2.0, "reach": 4, "rounds": 1},
        ),
    ],
)
def test_relative_sizes_are_those_of_an_image_of_224_pixels(name, parameters, doubled):
    image = scene(448, 500)
    relative = made(name, image, **parameters, relative=True)
    assert np.array_equal(relative, made(name, image, **doubled))
    small = scene(224, 300)
    same = made(name, small, **parameters, relative=True)
    assert np.array_equal(same, made(name, small, **parameters))


def test_low_light_has_the_mean_and_noise_of_counted_photons():
    dark = made("low_light", np.full((400, 400), 0.9), exposure=0.3).astype(float) ** 2
    light = 0.3 * 0.9**2
    variance = light / 400 + 0.003**2
    assert dark.mean() == pytest.approx(light, abs=4 * math.sqrt(variance / dark.size))
    assert dark.var() == pytest.approx(variance, rel=0.02)


def test_rain_is_haze_where_no_drop_falls():
    image = np.full((100, 120), 0.2)
    wet = made("rain", image, drops=60, length=0.1, haze=0.25)
    haze = float(np.dot((0.52, 0.54, 0.57), (0.299, 0.587, 0.114)))
    dry = np.abs(wet - (0.75 * 0.2 + 0.25 * haze)) < 1e-5
    assert 0.5 < dry.mean() < 0.99 and wet[~dry].min() > wet[dry].max()
    heavier = made("rain", image, drops=300, length=0.1, haze=0.25)
    assert np.mean(heavier > wet[dry].max()) > np.mean(~dry)


def test_the_sun_stands_in_the_upper_half_and_only_lightens():
    image = scene(90, 120)
    for seed in range(10):
        dazzled = made("sun_glare", image, seed, radius=0.05, strength=0.3)
        assert np.all(dazzled >= image)
        lit = made("sun_glare", np.zeros((90, 120)), seed, radius=0.05, strength=0.3)
        assert ndimage.center_of_mass(lit >= lit.max())[0] < 46


def test_dirt_covers_about_its_share():
    covered = [
        np.mean(made("lens_dirt", np.ones((300, 300)), seed, share=0.2) < 1 - 0.4 * 0.8)
        for seed in range(12)
    ]
    assert 0.17 < np.mean(covered) < 0.29  # large spots 20%, small ones 4% more


def test_density_contrast_goes_either_way_with_equal_chance():
    image = np.clip(np.random.default_rng(0).normal(0.5, 0.05, (60, 60)), 0, 1)
    ratios = [
        made("density_contrast", image, s, factor=2.0).std() / image.std() for s in range(200)
    ]
    assert set(np.round(ratios, 3)) == {0.5, 2.0}
    assert 70 < np.sum(np.array(ratios) > 1) < 130


def test_shifted_lines_are_rows_moved_by_a_plain_loop():
    image = scene(40, 60)
    moved = made("shifted_lines", image, 3, share=0.5, shift=0.2)
    rng = np.random.default_rng(3)
    rows = np.flatnonzero(rng.random(40) < 0.5)
    expected = image.copy()
    for row, by in zip(
        rows, np.rint(rng.uniform(-0.2, 0.2, len(rows)) * 60).astype(int), strict=True
    ):
        for x in range(60):
            expected[row, x] = image[row, min(max(x - by, 0), 59)]
    assert np.array_equal(moved, expected)


def test_lower_resolution_keeps_means_and_has_no_blocks():
    image = scene(60, 80)
    small = image.reshape(15, 4, 20, 4, 3).mean(axis=(1, 3))
    lowered = made("lower_resolution", image, factor=0.25).astype(float)
    expected = ndimage.zoom(small, (4, 4, 1), order=1, mode="nearest", grid_mode=True)
    assert np.abs(lowered - expected).max() <= 1.2  # rounded twice
    steps = np.abs(np.diff(lowered, axis=1))
    blocks = np.abs(np.diff(made("pixelate", image, factor=0.25).astype(float), axis=1))
    assert steps.max() < blocks.max()


def test_chromatic_aberration_moves_red_outwards_and_blue_inwards():
    dot = np.zeros((101, 101, 3))
    dot[50, 90] = 1
    fringed = made("chromatic_aberration", dot, by=0.05)
    at = [ndimage.center_of_mass(fringed[:, :, c])[1] for c in range(3)]
    assert at == pytest.approx([50 + 40 * 1.05, 90, 50 + 40 * 0.95], abs=0.15)


def test_a_block_covers_its_share_and_more_blocks_no_more():
    image = np.ones((120, 90))
    for seed in range(10):
        assert np.mean(made("occlusion", image, seed, share=0.3, blocks=1) < 1) == pytest.approx(
            0.3, abs=0.01
        )
        assert np.mean(made("occlusion", image, seed, share=0.3) < 1) <= 0.31


@pytest.fixture
def cut_outs(tmp_path):
    import cv2

    for name, colour in (("a.png", (0, 0, 255)), ("b.png", (255, 0, 0))):  # red and blue, as BGR
        picture = np.zeros((20, 20, 4), np.uint8)
        picture[5:15, 5:15] = (*colour, 255)
        cv2.imwrite(str(tmp_path / name), picture)
    return tmp_path


def test_cut_outs_of_a_folder_cover_where_they_are_opaque(cut_outs):
    image = np.full((80, 80, 3), 90, np.uint8)
    seen = set()
    for seed in range(8):
        hidden = made("occlusion", image, seed, share=0.25, blocks=1, folder=str(cut_outs))
        covered = (hidden != image).any(axis=2)
        assert 0.05 < covered.mean() < 0.1  # a quarter of a quarter, and its soft edge
        middle = hidden[tuple(int(c) for c in ndimage.center_of_mass(covered))]
        seen.add(tuple(middle.tolist()))
    assert seen == {(255, 0, 0), (0, 0, 255)}
    grey = made("occlusion", image[:, :, 0], share=0.25, blocks=1, folder=str(cut_outs))
    assert grey.shape == (80, 80) and (grey != 90).any()


def test_a_folder_without_cut_outs_is_refused(tmp_path):
    import cv2

    with pytest.raises(ValueError, match="no image files"):
        made("occlusion", scene(20, 20), share=0.2, folder=str(tmp_path))
    cv2.imwrite(str(tmp_path / "plain.png"), scene(9, 9))
    with pytest.raises(ValueError, match=r"plain\.png has no alpha channel"):
        made("occlusion", scene(20, 20), share=0.2, blocks=2, folder=f"{tmp_path}/")


@pytest.mark.parametrize("level", range(1, 6))
def test_ice_is_bright_and_drawn_anew(level):
    black = np.zeros((64, 96, 3))
    first, second = (
        at_level("frost", level).value(black, np.random.default_rng(s)) for s in (0, 1)
    )
    share = at_level("frost", level).parameters["frost"]
    assert 0.4 * share < first.mean() < 0.9 * share and not np.array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", (np.uint8, np.float32))
def test_every_transform_takes_4k(dtype):
    from roadworthy import registry

    image = np.tile(scene(216, 384), (10, 10, 1))
    image = image if dtype == np.uint8 else (image / 255).astype(dtype)
    for name, component in registry.components("transforms").items():
        if component.traits["of"] == "image":
            found = at_level(name, 5).value(image, np.random.default_rng(0))
            assert found.shape == image.shape and found.dtype == dtype, name
