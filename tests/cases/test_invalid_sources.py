"""Invalid inputs: what each source draws, against the distribution it says; its contract is checked by conformance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from roadworthy import registry

SOURCES = {
    name: c.build
    for name, c in registry.components("sources").items()
    if "learned_from" not in c.traits
}
LIKES = [
    np.zeros((40, 50), np.uint8),
    np.zeros((40, 50, 3), np.uint16),
    np.zeros((40, 50, 1), np.float32),
]


def test_there_are_three():
    assert list(SOURCES) == ["blank", "uniform_noise", "wrong_crop"]


@pytest.mark.parametrize("like", LIKES, ids=lambda like: str(like.dtype))
def test_noise_is_uniform_from_black_to_white(like):
    image = SOURCES["uniform_noise"](like, np.random.default_rng(3))
    white = {"uint8": 256, "uint16": 65536, "float32": 1}[str(like.dtype)]
    # Half a level is added: whole numbers become the middle of their cell.
    values = (image.ravel() + (0.5 if white > 1 else 0)) / white
    assert stats.kstest(values, stats.uniform.cdf).pvalue > 1e-3
    if like.dtype == np.uint8:
        assert image.min() == 0 and image.max() == 255


@pytest.mark.parametrize("like", LIKES, ids=lambda like: str(like.dtype))
def test_a_blank_has_one_shade_of_any_grey(like):
    white = {"uint8": 255, "uint16": 65535, "float32": 1}[str(like.dtype)]
    made = [SOURCES["blank"](like, np.random.default_rng(seed)) for seed in range(200)]
    assert all(image.min() == image.max() for image in made)
    shades = [float(image.flat[0]) / white for image in made]
    assert stats.kstest(shades, stats.uniform.cdf).pvalue > 1e-3


@pytest.mark.parametrize("side", [28, 224])
def test_a_crop_of_a_spectrogram_is_neither_flat_nor_noise_nor_the_same_again(side):
    like = np.zeros((side, side, 3), np.uint8)
    made = [SOURCES["wrong_crop"](like, np.random.default_rng(seed)) for seed in range(20)]
    for image in made:
        assert (image == image[:, :, :1]).all() and image.std() > 5
        # Tones last: a pixel is nearer to its neighbour in time than to any other.
        values = image[:, :, 0].astype(float)
        shuffled = np.random.default_rng(0).permutation(values.ravel()).reshape(values.shape)
        steps = [np.abs(np.diff(pixels, axis=1)).mean() for pixels in (values, shuffled)]
        assert steps[0] < 0.8 * steps[1]
    assert len({image.tobytes() for image in made}) == len(made)


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_no_image_is_refused_by_a_sentence(name):
    with pytest.raises(ValueError, match="is of type int64"):
        SOURCES[name](np.zeros((8, 8), np.int64), np.random.default_rng(0))
    with pytest.raises(ValueError, match="has the shape"):
        SOURCES[name](np.zeros(8, np.uint8), np.random.default_rng(0))


@pytest.mark.parametrize("name", SOURCES)
def test_every_case_has_its_own_draw(name):
    made = {SOURCES[name](LIKES[0], np.random.default_rng(s)).tobytes() for s in range(5)}
    assert len(made) == 5
