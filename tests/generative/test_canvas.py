"""Pictures on a canvas: one picture is one picture whatever its type, sizes are averaged by area, and bad ones are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.generative.canvas import AT_ONCE, Canvas

RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (5, 8, 12), dtype=np.uint8)


def test_a_picture_is_the_same_in_every_type():
    canvas = Canvas.of(PICTURES)
    expected = PICTURES[:, None]
    shares = PICTURES / 255
    for given_as in (
        PICTURES,
        PICTURES.astype(np.float32),
        PICTURES.astype(np.float16),
        shares,
        shares.astype(np.float16),
        (PICTURES.astype(np.uint16) * 257),
        PICTURES[..., None],
        list(PICTURES),
        np.array([*PICTURES, None], dtype=object)[:5],
    ):
        levels, sound = canvas.read(given_as)
        assert sound.all()
        assert np.array_equal(levels, expected)


def test_nearly_black_pictures_filled_up_with_nan_stay_nearly_black():
    canvas = Canvas.of(PICTURES)
    dark = np.zeros((2, 8, 12), np.float32)
    dark[0, 0, 0], dark[1] = 1, np.nan
    levels, sound = canvas.read(dark)
    assert levels[0].max() == 1
    assert sound.tolist() == [True, False]


def test_pictures_of_shares_are_read_as_shares_where_the_first_were_so():
    canvas = Canvas.of(PICTURES / 255)
    assert canvas.white == 1
    assert canvas.read(np.ones((1, 8, 12)))[0].min() == 255


def test_shrinking_averages_areas():
    canvas = Canvas.of(np.zeros((1, 64, 96), np.uint8), side=12)
    assert (canvas.height, canvas.width) == (8, 12)
    pictures = RNG.integers(0, 256, (3, 64, 96), dtype=np.uint8)
    expected = pictures.reshape(3, 8, 8, 12, 8).mean(axis=(2, 4))
    assert np.abs(canvas.read(pictures)[0][:, 0] - expected).max() <= 0.501


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([2, 4, 8]))
def test_every_size_fits_and_keeps_a_shade(height, width, multiple):
    pictures = np.full((2, height, width, 3), 77, np.uint8)
    canvas = Canvas.of(pictures, side=32, multiple=multiple)
    assert canvas.height % multiple == 0 and canvas.width % multiple == 0
    assert 0 < canvas.height <= 32 and 0 < canvas.width <= 32
    assert (canvas.read(pictures)[0] == 77).all()


def test_rows_of_other_sizes_and_channels_are_brought_to_the_first():
    canvas = Canvas.of([np.full((8, 8, 3), 90, np.uint8), np.full((8, 8, 4), 90, np.uint8)])
    assert canvas.channels == 3
    mixed = [
        np.full((16, 20), 90, np.uint8),
        np.full((8, 8, 4), 90, np.uint8),
        np.full((3, 5, 1), 90 / 255),
    ]
    levels, sound = canvas.read(mixed)
    assert sound.all() and (levels == 90).all()
    assert (Canvas.of(PICTURES).read([np.full((8, 12, 3), 90, np.uint8)])[0] == 90).all()


def test_blocks_do_not_matter(monkeypatch):
    canvas = Canvas.of(PICTURES, side=8)
    whole = canvas.read(PICTURES)[0]
    assert PICTURES.size < AT_ONCE
    monkeypatch.setattr("roadworthy.generative.canvas.AT_ONCE", 100)
    assert np.array_equal(canvas.read(PICTURES)[0], whole)


def test_pixels_beyond_white_are_cut_off_and_missing_rows_marked():
    canvas = Canvas.of(PICTURES / 255)
    rows = np.stack([np.full((8, 12), v) for v in (1e300, -1e300, np.nan, np.inf)])
    levels, sound = canvas.read(rows)
    assert sound.tolist() == [True, True, False, False]
    assert (levels[0] == 255).all() and (levels[1:] == 0).all()


def test_it_comes_back_from_numbers():
    canvas = Canvas.of(PICTURES[..., None] / 255, side=8)
    assert Canvas.from_array(canvas.array()) == canvas


def test_what_is_no_picture_is_named():
    for inputs, words in (
        (["a word"], "input 0 is no picture: it is str"),
        (np.zeros((3, 5)), "is ndarray of shape"),
        (np.zeros((3, 1, 28, 28)), r"\(1, 28, 28\)"),
        (PICTURES - 300.0, "as they arrived"),
        ([], "there are none"),
    ):
        with pytest.raises(ValueError, match=words):
            Canvas.of(inputs)
    broken = PICTURES.astype(np.float64)
    broken[1, 2, 3], broken[4, 0, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match="2 of 5 pictures have NaN or infinite pixels"):
        Canvas.of(broken)
    with pytest.raises(ValueError, match="side is 2"):
        Canvas.of(PICTURES, side=2)
