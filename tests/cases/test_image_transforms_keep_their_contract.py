"""What holds for every image transform, at every level, for every sound image."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_imagecorruptions import scene

from roadworthy import registry
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import IMAGE

NAMES = tuple(n for n, c in registry.components("transforms").items() if c.traits["of"] == "image")
WANG = ("gaussian_noise", "motion_blur", "snow", "contrast", "pixelate")
FIXED = {
    *("brightness", "chromatic_aberration", "contrast", "defocus_blur", "gaussian_blur"),
    *("jpeg_compression", "lower_resolution", "pixelate", "saturate", "zoom_blur"),
}
"""Transforms that draw nothing."""
ONE_CASE = {
    *("fog", "frost", "lens_dirt", "motion_blur", "occlusion", "rain", "snow", "spatter"),
    *("density_contrast", "elastic_transform", "rotation", "sun_glare", "truncated_section"),
}
"""Transforms that are drawn once for all steps of a case."""
TABLES = {n: registry.get("transforms", n).traits["tables"] for n in NAMES}
EVERY_TABLE = [(n, table) for n in NAMES for table in TABLES[n]]
EVERY_LEVEL = [(n, t, level) for n, t in EVERY_TABLE for level in range(1, len(TABLES[n][t]) + 1)]
DTYPES = (np.uint8, np.uint16, np.float32, np.float64)


def _traits(name: str) -> dict:
    return dict(registry.get("transforms", name).traits)


def test_there_are_thirty_one():
    assert len(NAMES) == 31 and sum("hendrycks" in TABLES[n] for n in NAMES) == 19
    assert {n for n in NAMES if "wang" in TABLES[n]} == set(WANG)
    assert all(len(TABLES[n][t]) == (3 if t == "wang" else 5) for n, t in EVERY_TABLE)


@st.composite
def images(draw: st.DrawFn) -> np.ndarray:
    height, width = draw(st.integers(8, 70)), draw(st.integers(8, 70))
    shape = (height, width, *draw(st.sampled_from([(), (1,), (3,), (4,)])))
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if dtype in (np.float32, np.float64):
        return rng.random(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@given(image=images(), which=st.sampled_from(EVERY_LEVEL), seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_kind_type_shape_and_range_are_kept_and_the_input_is_untouched(image, which, seed):
    name, table, level = which
    before = image.copy()
    image.setflags(write=False)
    made = at_level(name, level, table=table)
    changed = made.value(image, np.random.default_rng(seed))
    again = made.value(image, np.random.default_rng(seed))
    assert IMAGE.problem(changed) is None
    assert changed.dtype == image.dtype and changed.shape == image.shape
    assert changed.flags.c_contiguous and not np.shares_memory(changed, image)
    assert np.array_equal(image, before)
    assert np.array_equal(changed, again)
    if image.dtype.kind == "f":
        assert changed.min() >= 0 and changed.max() <= 1


@pytest.mark.parametrize("name", NAMES)
def test_level_0_is_the_identity(name):
    image = scene(20, 30)
    assert np.array_equal(at_level(name, 0).value(image, np.random.default_rng(0)), image)


@pytest.mark.parametrize("name", NAMES)
def test_another_generator_makes_another_image_if_anything_is_drawn(name):
    image = scene(40, 40)
    made = at_level(name, 3)
    draws = {made.value(image, np.random.default_rng(seed)).tobytes() for seed in range(1, 7)}
    assert (len(draws) > 1) is (name not in FIXED)


@pytest.mark.parametrize("name", NAMES)
def test_the_result_does_not_depend_on_the_number_of_threads(name):
    import cv2

    image, made, threads = scene(301, 257), at_level(name, 3), cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        alone = made.value(image, np.random.default_rng(0))
        cv2.setNumThreads(4)
        together = made.value(image, np.random.default_rng(0))
    finally:
        cv2.setNumThreads(threads)
    assert np.array_equal(alone, together)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", (np.uint16, np.float32, np.float64))
def test_finer_types_give_the_same_picture_as_bytes(name, dtype):
    image = scene(61, 47)
    made = at_level(name, 2)
    white = 65535 if dtype == np.uint16 else 1.0
    fine = (image.astype(float) * white / 255).astype(dtype)
    from_bytes = made.value(image, np.random.default_rng(5)) / 255
    from_fine = made.value(fine, np.random.default_rng(5)) / white
    # Bytes are rounded at the end, and in some transforms after every stage.
    stages = {
        "glass_blur": 3,
        "lower_resolution": 3,
        "zoom_blur": 2,
        "elastic_transform": 2,
        "rain": 2,
    }
    assert np.abs(from_bytes - from_fine).max() < 0.51 * stages.get(name, 1) / 255 + 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_a_lone_channel_is_treated_like_none(name):
    grey = scene(33, 44)[:, :, 1]
    made = at_level(name, 3)
    flat = made.value(grey, np.random.default_rng(2))
    assert np.array_equal(made.value(grey[:, :, None], np.random.default_rng(2))[:, :, 0], flat)


@pytest.mark.parametrize("name", [n for n in NAMES if "geometry" not in _traits(n)])
def test_an_alpha_channel_stays_as_it_is(name):
    colour = scene(33, 44)
    alpha = np.arange(33 * 44, dtype=np.uint32).reshape(33, 44, 1).astype(np.uint8)
    made = at_level(name, 3)
    changed = made.value(np.concatenate([colour, alpha], axis=2), np.random.default_rng(2))
    assert np.array_equal(changed[:, :, 3:], alpha)
    assert np.array_equal(changed[:, :, :3], made.value(colour, np.random.default_rng(2)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 9), (9, 1), (5, 4), (1, 4), (8, 8), (3, 500), (700, 5, 3), (1, 1, 3)]
)
def test_tiny_and_long_images_work(name, shape):
    image = np.full(shape, 90, np.uint8)
    assert at_level(name, 5).value(image, np.random.default_rng(0)).shape == shape


@pytest.mark.parametrize("name", NAMES)
def test_a_view_with_strides_gives_what_its_copy_gives(name):
    view = scene(40, 90)[::-1, ::2]
    made = at_level(name, 3)
    copied = made.value(view.copy(), np.random.default_rng(0))
    assert np.array_equal(made.value(view, np.random.default_rng(0)), copied)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_of_one_channel_changes_unless_only_colours_would(name):
    grey = scene(40, 50)[:, :, 0]
    changed = at_level(name, 4).value(grey, np.random.default_rng(1))
    assert np.array_equal(changed, grey) is bool(_traits(name).get("colour_only"))


@pytest.mark.parametrize(("name", "table"), [e for e in EVERY_TABLE if e[1] != "hendrycks"])
def test_higher_levels_are_farther_from_the_original(name, table):
    image = scene(96, 96)
    far = []
    for level in range(1, len(TABLES[name][table]) + 1):
        made = at_level(name, level, table=table)
        draws = [made.value(image, np.random.default_rng(seed)).astype(float) for seed in range(12)]
        far.append(np.mean([np.sqrt(np.mean((d - image) ** 2)) for d in draws]))
    assert far == sorted(far) and far[0] > 0


def test_the_levels_of_wang_et_al_are_levels_1_3_5_of_hendrycks():
    for name in WANG:
        assert [TABLES[name]["hendrycks"][i] for i in (0, 2, 4)] == TABLES[name]["wang"]


@pytest.mark.parametrize("name", sorted(set(NAMES) - FIXED))
def test_weather_is_drawn_once_a_case_and_noise_anew_each_step(name):
    frame, made = scene(48, 48), at_level(name, 2)
    first, second = made.at_step(frame, 7, "drive", 0), made.at_step(frame, 7, "drive", 1)
    assert np.array_equal(first, second) is (name in ONE_CASE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (np.full((8, 8), 1.5), "from 1.5 to 1.5; float pixels lie between 0"),
        (np.full((8, 8), -0.1), "float pixels lie between 0"),
        (np.full((8, 8), np.nan), "NaN or infinite pixels"),
        (np.full((8, 8), np.inf), "NaN or infinite pixels"),
        (np.zeros((8, 8), np.int64), "uint8, uint16 or float"),
        (np.zeros((8, 8, 2), np.uint8), "shape"),
        (np.zeros(8, np.uint8), "shape"),
        (np.zeros((0, 8), np.uint8), "no pixels"),
    ],
)
def test_what_is_no_sound_image_is_refused_by_a_sentence(name, image, sentence):
    with pytest.raises(ValueError, match=sentence):
        at_level(name, 1).value(image, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gaussian_noise", {"scale": -0.1}),
        ("gaussian_noise", {"scale": float("nan")}),
        ("motion_blur", {"radius": -1, "sigma": 3.0}),
        ("motion_blur", {"radius": 3, "sigma": 0.0}),
        ("contrast", {"factor": -1.0}),
        ("pixelate", {"factor": 0.0}),
        ("pixelate", {"factor": 1.5}),
        ("shot_noise", {"photons": 0.0}),
        ("impulse_noise", {"amount": 1.5}),
        ("salt_and_pepper", {"amount": -0.1}),
        ("speckle_noise", {"scale": -1.0}),
        ("gaussian_blur", {"sigma": -1.0}),
        ("defocus_blur", {"radius": 3.0, "edge": 0.0}),
        ("glass_blur", {"sigma": 1.0, "reach": -1, "rounds": 1}),
        ("zoom_blur", {"largest": 0.9, "step": 0.1}),
        ("fog", {"density": 1.0, "decay": 0.5}),
        ("frost", {"kept": 1.5, "frost": 0.5}),
        ("spatter", {**at_level("spatter", 1).parameters, "light": 2.0}),
        ("brightness", {"by": -0.1}),
        ("saturate", {"factor": -1.0}),
        ("jpeg_compression", {"quality": 0}),
        ("elastic_transform", {"strength": -1.0}),
        ("rotation", {"degrees": 200.0}),
        ("truncated_section", {"share": 1.0}),
        ("rain", {"drops": -1, "length": 0.1, "haze": 0.1}),
        ("low_light", {"exposure": 0.0}),
        ("sun_glare", {"radius": 0.0, "strength": 1.0}),
        ("occlusion", {"share": 1.5}),
        ("lens_dirt", {"share": 0.0}),
        ("density_contrast", {"factor": 0.5}),
        ("shifted_lines", {"share": 0.5, "shift": 2.0}),
        ("lower_resolution", {"factor": 0.0}),
        ("chromatic_aberration", {"by": 0.9}),
        ("snow", {**at_level("snow", 1).parameters, "zoom": 0.5}),
        ("snow", {**at_level("snow", 1).parameters, "kept": 1.5}),
    ],
)
def test_senseless_parameters_are_refused_by_a_sentence(name, parameters):
    with pytest.raises(ValueError, match="expected"):
        Transform(name, parameters).value(scene(16, 16), np.random.default_rng(0))


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"takes no parameter 'scal' \(did you mean 'scale'\?\)"):
        Transform("gaussian_noise", {"scal": 0.1}).value(scene(16, 16), np.random.default_rng(0))


def test_parameters_keep_their_types_behind_the_decorators():
    assert {
        k: p.annotation for k, p in registry.get("transforms", "motion_blur").parameters.items()
    } == {"radius": int, "sigma": float, "centred": bool, "relative": bool}
    assert (
        inspect.signature(registry.get("transforms", "snow").build).parameters["kept"].kind.name
        == "KEYWORD_ONLY"
    )
