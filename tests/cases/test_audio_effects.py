"""Effects on recordings: frequencies, lengths, decay and curves against closed forms; what holds for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy import registry
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import AUDIO, Audio

NAMES = ("background_noise", "distortion", "pitch_shift", "reverb", "speed", "tempo")
LONGER = ("speed", "tempo")
RATES = (8000, 16000, 44100, 48000)


def tone(frequency: float = 440.0, seconds: float = 1.0, rate: int = 16000, channels: int = 0):
    time = np.arange(int(seconds * rate)) / rate
    wave = (0.3 * np.sin(2 * np.pi * frequency * time)).astype(np.float32)
    return Audio(np.stack([wave] * channels, axis=1) if channels else wave, rate)


def pitch(audio: Audio) -> float:
    """The frequency of a tone: the peak of its spectrum, between bins by padding."""
    wave = audio.wave if audio.wave.ndim == 1 else audio.wave[:, 0]
    padded = 8 * len(wave)
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave)), padded))
    return float(np.argmax(spectrum)) * audio.rate / padded


def made(name: str, audio: Audio, seed: int = 0, **parameters: float) -> Audio:
    return Transform(name, parameters).value(audio, np.random.default_rng(seed))


@st.composite
def recordings(draw: st.DrawFn) -> Audio:
    shape = (draw(st.integers(1, 3000)), *draw(st.sampled_from([(), (1,), (2,)])))
    wave = np.random.default_rng(draw(st.integers(0, 2**32))).uniform(-1, 1, shape)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Audio(wave.astype(dtype), draw(st.sampled_from(RATES)))


@given(
    audio=recordings(),
    name=st.sampled_from(NAMES),
    level=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_type_rate_channels_and_range_are_kept_and_the_input_is_untouched(audio, name, level, seed):
    before = audio.wave.copy()
    audio.wave.setflags(write=False)
    effect = at_level(name, level, table="wang")
    changed = effect.value(audio, np.random.default_rng(seed))
    again = effect.value(audio, np.random.default_rng(seed))
    assert AUDIO.problem(changed) is None and np.abs(changed.wave).max() <= 1
    assert changed.wave.dtype == audio.wave.dtype and changed.rate == audio.rate
    assert changed.wave.shape[1:] == audio.wave.shape[1:]
    assert name in LONGER or len(changed.wave) == len(audio.wave)
    assert np.array_equal(audio.wave, before) and np.array_equal(changed.wave, again.wave)
    assert not np.shares_memory(changed.wave, audio.wave)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("factor", (0.8, 1.5, 2.0))
def test_speed_multiplies_the_frequency_and_divides_the_length(factor, rate):
    clean = tone(rate=rate)
    fast = made("speed", clean, factor=factor)
    assert len(fast.wave) == pytest.approx(rate / factor, abs=1)
    assert pitch(fast) == pytest.approx(440 * factor, rel=1e-3)


@pytest.mark.parametrize("factor", (0.8, 1.5))
def test_speed_is_the_wave_read_at_other_times(factor):
    fast = made("speed", tone(), factor=factor).wave
    expected = 0.3 * np.sin(2 * np.pi * 440 * factor * np.arange(len(fast)) / 16000)
    inside = slice(200, -200)  # the filter is longer than what lies beyond the ends
    np.testing.assert_allclose(fast[inside], expected[inside], atol=1e-4)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("factor", (0.5, 0.8, 1.5, 2.0))
def test_tempo_keeps_the_frequency_and_divides_the_length(factor, rate):
    clean = tone(rate=rate, seconds=2)
    changed = made("tempo", clean, factor=factor)
    assert len(changed.wave) == pytest.approx(2 * rate / factor, abs=1)
    assert pitch(changed) == pytest.approx(440, rel=0.005)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("semitones", (-5.0, 2.0, 4.0, 6.0))
def test_pitch_shift_multiplies_the_frequency_and_keeps_the_length(semitones, rate):
    clean = tone(rate=rate, seconds=2)
    changed = made("pitch_shift", clean, semitones=semitones)
    assert len(changed.wave) == len(clean.wave)
    assert pitch(changed) == pytest.approx(440 * 2 ** (semitones / 12), rel=0.01)


def test_what_is_said_stays_at_its_place_when_the_tempo_changes():
    click = np.zeros(32000, np.float32)
    click[16000:16050] = np.hanning(50)
    for factor in (0.8, 1.5, 2.0):
        heard = np.abs(made("tempo", Audio(click, 16000), factor=factor).wave)
        assert np.argmax(heard) == pytest.approx(16025 / factor, abs=200)


@pytest.mark.parametrize("gain", (15.0, 20.0, 30.0))
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_distortion_follows_its_formula(gain, dtype):
    wave = np.linspace(-1, 1, 501).astype(dtype)
    changed = made("distortion", Audio(wave, 8000), gain_db=gain)
    expected = np.tanh(wave.astype(float) * 10 ** (gain / 20))
    np.testing.assert_allclose(changed.wave, expected, atol=1e-6)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("decay", (0.3, 0.6))
def test_the_energy_of_a_reverberated_click_falls_by_60_dB_in_the_decay_time(decay, rate):
    click = Audio(np.eye(1, rate, dtype=np.float32)[0], rate)
    heard = made("reverb", click, wet=1.0, decay=decay).wave.astype(float)
    left = np.cumsum(heard[::-1] ** 2)[::-1]  # Schroeder's backward integral
    decibels = 10 * np.log10(left[left > 0] / left[0])
    first, last = (int(np.argmax(decibels < limit)) for limit in (-5, -25))
    slope = (decibels[last] - decibels[first]) / (last - first) * rate
    assert -60 / slope == pytest.approx(decay, rel=0.1)


def test_reverb_is_a_mixture_of_the_recording_and_a_convolution_as_loud_as_it():
    clean = tone(seconds=0.4)
    rng = np.random.default_rng(3)
    size = int(0.5 * 16000)
    response = rng.standard_normal((size, 1), dtype=np.float32)[:, 0].astype(float)
    echo = np.convolve(clean.wave, response * 10 ** (-3 * np.arange(size) / size))[
        : len(clean.wave)
    ]
    echo *= np.sqrt(np.mean(clean.wave.astype(float) ** 2) / np.mean(echo**2))
    expected = np.clip(0.67 * clean.wave + 0.33 * echo, -1, 1)
    ours = made("reverb", clean, 3, wet=0.33)
    np.testing.assert_allclose(ours.wave, expected, atol=1e-5)


def test_each_channel_has_an_echo_and_a_noise_of_its_own():
    both = tone(channels=2)
    for name, parameters in (("reverb", {"wet": 1.0}), ("background_noise", {"snr_db": 5.0})):
        left, right = made(name, both, **parameters).wave.T
        assert np.abs(left - right).max() > 0.05


@pytest.mark.parametrize("name", ("distortion", "pitch_shift", "speed", "tempo"))
def test_channels_are_treated_alike_where_nothing_is_drawn(name):
    effect = at_level(name, 2)
    left, right = effect.value(tone(channels=2), np.random.default_rng(0)).wave.T
    alone = effect.value(tone(), np.random.default_rng(0)).wave
    np.testing.assert_allclose(left, right, atol=1e-3)
    assert np.sqrt(np.mean((left - alone) ** 2)) < 0.02


@pytest.mark.parametrize("name", [n for n in NAMES if n != "background_noise"])
@pytest.mark.parametrize("shape", [(700,), (700, 2)])
def test_silence_stays_silence(name, shape):
    silence = Audio(np.zeros(shape, np.float32), 16000)
    assert not at_level(name, 3).value(silence, np.random.default_rng(0)).wave.any()


@pytest.mark.parametrize("name", ("pitch_shift", "reverb"))
def test_the_identity_row_changes_nothing(name):
    row = registry.get("transforms", name).traits["identity"]
    clean = tone(channels=2)
    assert np.array_equal(made(name, clean, **row).wave, clean.wave)


def test_between_two_levels_of_speed_and_tempo_lies_the_identity_so_they_declare_none():
    for name in LONGER:
        traits = registry.get("transforms", name).traits
        assert "identity" not in traits and traits["changes_shape"]
        assert traits["strength"] is False


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("speed", {"factor": 0.0}),
        ("speed", {"factor": float("nan")}),
        ("tempo", {"factor": 0.49}),
        ("tempo", {"factor": -1.0}),
        ("pitch_shift", {"semitones": 25.0}),
        ("distortion", {"gain_db": -1.0}),
        ("reverb", {"wet": 1.1}),
        ("reverb", {"wet": 0.5, "decay": 0.0}),
    ],
)
def test_senseless_parameters_are_refused_by_a_sentence(name, parameters):
    with pytest.raises(ValueError, match="was expected"):
        made(name, tone(), **parameters)


def test_a_recording_that_would_have_no_samples_left_is_refused():
    with pytest.raises(ValueError, match="1 samples, too few for speed"):
        made("speed", tone(seconds=1 / 16000), factor=10.0)


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "soxr", None)
    monkeypatch.setitem(sys.modules, "python_stretch", None)
    for name, needs in (("speed", "soxr"), ("tempo", "python_stretch")):
        with pytest.raises(ImportError, match=rf"{needs}, which is not installed: .*\[audio\]"):
            made(name, tone(), factor=1.5)
