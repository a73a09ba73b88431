"""Noise in recordings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from roadworthy.cases.audio.background_noise import background_noise
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import AUDIO, Audio


def tone(seconds: float = 0.5, loudness: float = 0.1, rate: int = 16000) -> Audio:
    time = np.arange(int(seconds * rate)) / rate
    return Audio((loudness * np.sin(2 * np.pi * 220 * time)).astype(np.float32), rate)


def measured_snr(clean: Audio, noisy: Audio) -> float:
    noise = noisy.wave.astype(float) - clean.wave
    return float(10 * np.log10(np.mean(clean.wave.astype(float) ** 2) / np.mean(noise**2)))


@pytest.mark.parametrize(("level", "snr"), [(1, 10.0), (2, 5.0), (3, 2.0)])
def test_the_measured_ratio_is_the_one_of_the_level(level, snr):
    clean = tone()
    noisy = at_level("background_noise", level, table="wang").value(
        clean, np.random.default_rng(level)
    )
    assert measured_snr(clean, noisy) == pytest.approx(snr, abs=1e-3)


@given(
    samples=st.integers(1, 2000),
    snr=st.floats(-10, 40),
    loudness=st.sampled_from([1e-4, 0.05, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_type_length_rate_and_range_are_kept_and_the_input_is_untouched(
    samples, snr, loudness, dtype, seed
):
    wave = (loudness * np.cos(np.arange(samples) / 3)).astype(dtype)
    clean = Audio(wave.copy(), 8000)
    noisy = background_noise(clean, np.random.default_rng(seed), snr_db=snr)
    again = background_noise(clean, np.random.default_rng(seed), snr_db=snr)
    assert AUDIO.problem(noisy) is None
    assert noisy.wave.dtype == dtype and noisy.wave.shape == wave.shape and noisy.rate == 8000
    assert np.abs(noisy.wave).max() <= 1
    assert np.array_equal(clean.wave, wave) and np.array_equal(noisy.wave, again.wave)


def test_the_noise_is_white_and_normal():
    clean = tone(seconds=2)
    noise = (
        background_noise(clean, np.random.default_rng(1), snr_db=10.0).wave.astype(float)
        - clean.wave
    )
    standard = noise / noise.std()
    assert kstest(standard, "norm").pvalue > 0.01
    neighbours = np.corrcoef(standard[:-1], standard[1:])[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(len(standard))


def test_a_silent_recording_is_refused():
    with pytest.raises(ValueError, match="silent"):
        background_noise(
            Audio(np.zeros(100, np.float32), 16000), np.random.default_rng(0), snr_db=5.0
        )


@pytest.mark.parametrize(
    ("audio", "sentence"),
    [
        (np.zeros(10), "not Audio"),
        (Audio(np.zeros(0, np.float32), 16000), "shape"),
        (Audio(np.zeros((10, 2), np.float32), 16000), "one channel"),
        (Audio(np.array([0.1, np.nan], np.float32), 16000), "NaN"),
    ],
)
def test_what_is_no_sound_recording_is_refused_by_a_sentence(audio, sentence):
    with pytest.raises(ValueError, match=sentence):
        background_noise(audio, np.random.default_rng(0), snr_db=5.0)


def test_a_ratio_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite number of decibels"):
        background_noise(tone(), np.random.default_rng(0), snr_db=float("inf"))


def test_an_unknown_parameter_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="takes no parameter 'snr'"):
        Transform("background_noise", {"snr": 3}).value(tone(), np.random.default_rng(0))
