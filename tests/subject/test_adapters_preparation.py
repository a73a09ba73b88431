"""Input preparation against the formula, written out image by image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.module import SubjectError

RNG = np.random.default_rng(0)


@given(
    st.sampled_from([np.uint8, np.uint16, np.float32]),
    st.sampled_from([1, 3]),
    st.sampled_from(["nchw", "nhwc"]),
    st.booleans(),
)
def test_is_scale_mean_std_and_layout_whatever_the_type(dtype, channels, layout, as_list):
    white = {np.uint8: 255, np.uint16: 65535, np.float32: 1}[dtype]
    images = (RNG.random((4, 5, 6, channels)) * white).astype(dtype)
    kept = images.copy()
    mean, std = (
        tuple(0.1 * (c + 1) for c in range(channels)),
        tuple(0.5 + c for c in range(channels)),
    )
    got = InputPreparation(mean=mean, std=std, layout=layout)(list(images) if as_list else images)
    want = (images / white - np.array(mean)) / np.array(std)
    want = want.transpose(0, 3, 1, 2) if layout == "nchw" else want
    assert got.dtype == np.float32 and got.flags.c_contiguous
    np.testing.assert_allclose(got, want, atol=2e-6)
    np.testing.assert_array_equal(images, kept)


def test_channels_are_repeated_weighted_or_dropped():
    grey = np.full((1, 2, 2), 100, np.uint8)
    assert (
        InputPreparation(channels=3, scale=1)(grey).tolist()
        == np.full((1, 3, 2, 2), 100.0).tolist()
    )
    colour = np.array([[[[10, 20, 30, 255]]]], dtype=np.uint8)
    assert InputPreparation(channels=3, scale=1)(colour).ravel().tolist() == [10, 20, 30]
    # 0.299 * 10 + 0.587 * 20 + 0.114 * 30 = 18.15
    assert InputPreparation(channels=1, scale=1)(colour).ravel().tolist() == [18]


def test_integers_pass_unscaled_for_models_that_take_them():
    images = RNG.integers(0, 256, (2, 3, 3), dtype=np.uint8)
    got = InputPreparation(dtype="uint8", layout="nhwc")(images)
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got[..., 0], images)


def test_a_list_of_unlike_types_is_scaled_row_by_row():
    mixed = [np.full((2, 2), 255, np.uint8), np.ones((2, 2), np.float32)]
    assert InputPreparation()(mixed).tolist() == np.ones((2, 1, 2, 2)).tolist()


def test_unlike_shapes_are_refused_with_both_shapes_and_the_row():
    images = [np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((3, 2))]
    with pytest.raises(ValueError, match=r"row 2 .*\(1, 3, 2\) and row 0 .*\(1, 2, 2\)"):
        InputPreparation()(images)


def test_wrong_settings_are_refused_by_a_sentence():
    with pytest.raises(SubjectError, match="above 0"):
        InputPreparation(std=(1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="3 numbers and the image 1 channel;"):
        InputPreparation(mean=(0.1, 0.2, 0.3))(np.zeros((1, 4, 4)))


def test_rows_of_features_are_not_scaled_unless_asked():
    rows = RNG.normal(100.0, 30.0, (5, 3))
    np.testing.assert_array_equal(InputPreparation()(rows), rows.astype(np.float32))
    got = InputPreparation(scale=2, mean=(1.0, 2.0, 3.0), std=4.0)(list(rows))
    np.testing.assert_allclose(got, (rows / 2 - [1, 2, 3]) / 4, rtol=1e-5)
    assert InputPreparation().facts(rows=True)["range"] == "features as they are"
