"""Noise in recordings: white, and from a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import wavfile
from scipy.stats import kstest

from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.cases.audio.background_noise import background_noise
from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.values import AUDIO, Audio
from roadworthy.spec import Assessment, SpecError


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
    channels=st.sampled_from([(), (2,)]),
    snr=st.floats(-10, 40),
    loudness=st.sampled_from([1e-4, 0.05, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_type_length_rate_and_range_are_kept_and_the_input_is_untouched(
    samples, channels, snr, loudness, dtype, seed
):
    shape = (samples, *channels)
    wave = (loudness * np.cos(np.arange(np.prod(shape)) / 3)).astype(dtype).reshape(shape)
    clean = Audio(wave.copy(), 8000)
    noisy = background_noise(clean, np.random.default_rng(seed), snr_db=snr)
    again = background_noise(clean, np.random.default_rng(seed), snr_db=snr)
    assert AUDIO.problem(noisy) is None
    assert noisy.wave.dtype == dtype and noisy.wave.shape == wave.shape and noisy.rate == 8000
    assert np.abs(noisy.wave).max() <= 1
    assert np.array_equal(clean.wave, wave) and np.array_equal(noisy.wave, again.wave)


@pytest.mark.parametrize("rate", (8000, 22050, 48000))
def test_there_is_one_ratio_over_all_channels(rate):
    left = tone(rate=rate).wave
    both = Audio(np.stack([left, left / 10], axis=1), rate)
    noisy = background_noise(both, np.random.default_rng(0), snr_db=5.0)
    assert measured_snr(both, noisy) == pytest.approx(5, abs=1e-3)
    noise = noisy.wave - both.wave
    assert np.std(noise[:, 0]) == pytest.approx(np.std(noise[:, 1]), rel=0.05)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 4 / np.sqrt(len(left))


def test_the_ratio_is_that_before_cutting_off_at_full_scale():
    loud = tone(loudness=1.0)
    noisy = background_noise(loud, np.random.default_rng(0), snr_db=2.0)
    numbers = np.random.default_rng(0).standard_normal(loud.wave.shape, dtype=np.float32)
    noise = numbers * np.sqrt(np.mean(loud.wave**2) / np.mean(numbers**2) / 10**0.2)
    np.testing.assert_allclose(noisy.wave, np.clip(loud.wave + noise, -1, 1), atol=1e-5)
    assert measured_snr(loud, noisy) > 2.1


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
        (Audio(np.zeros((2, 100), np.float32), 16000), "samples, channels"),
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


@pytest.fixture
def street(tmp_path: Path) -> Path:
    """A hum of 100 Hz at another rate, in stereo; a silent file; and a file that is no recording."""
    folder = tmp_path / "street"
    folder.mkdir()
    hum = np.sin(2 * np.pi * 100 * np.arange(2205) / 22050)
    wavfile.write(folder / "hum.wav", 22050, np.stack([hum, hum], axis=1).astype(np.float32))
    wavfile.write(folder / "empty.wav", 8000, np.zeros(100, np.int16))
    (folder / "notes.txt").write_text("recorded in May")
    return folder


@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize("rate", [8000, 44100])
def test_noise_from_a_folder_is_resampled_repeated_and_at_its_ratio(street, channels, rate):
    clean = tone(seconds=1, rate=rate)
    if channels:
        clean = Audio(np.stack([clean.wave, 0 * clean.wave], axis=1), rate)
    noisy = background_noise(clean, np.random.default_rng(1), snr_db=10.0, noise=street)
    assert measured_snr(clean, noisy) == pytest.approx(10, abs=0.1)
    noise = (noisy.wave - clean.wave).reshape(rate, -1)
    for channel in noise.T:
        spectrum = np.abs(np.fft.rfft(channel))
        assert np.argmax(spectrum) == pytest.approx(100, abs=1)
    if channels:  # a start of its own
        assert np.abs(noise[:, 0] - noise[:, 1]).max() > 0.1 * np.abs(noise).max()


def test_a_pause_of_the_noise_is_replaced_by_its_loudest_part(tmp_path):
    horn = np.zeros(8000, np.float32)
    horn[7000:7010] = 0.5
    wavfile.write(tmp_path / "horn.wav", 8000, horn)
    clean = tone(seconds=0.01, rate=8000)
    for seed in range(10):
        noisy = background_noise(clean, np.random.default_rng(seed), snr_db=10.0, noise=tmp_path)
        assert measured_snr(clean, noisy) == pytest.approx(10, abs=0.1)


def assessed(folder: Path, noise: str = "street") -> Assessment:
    (folder / "clips").mkdir(exist_ok=True)
    wave = (3000 * np.sin(np.arange(4000) / 9)).astype(np.int16)
    wavfile.write(folder / "clips/a.wav", 8000, wave)
    (folder / "clips/a.txt").write_text("hello")
    (folder / "subject.py").write_text("def transcribe(audio):\n    return 'hello'\n")
    text = (
        "subject: {task: speech, python: subject.py:transcribe}\ndata: {test: {audio: clips}}\n"
        f"circumstances: {{street: {{transform: background_noise, parameters: {{snr_db: 5, noise: {noise}}}}}}}\n"
    )
    return Assessment.parse(text, folder / "assessment.yaml")


def test_a_folder_is_sought_beside_the_assessment_file_and_its_content_names_the_run(
    street, tmp_path
):
    before = plan_assessment(assessed(tmp_path))
    assert any("silent files in street are left out: empty.wav" in note for note in before.notes)
    assert before.key and before.chunks  # made when they are first asked for
    wavfile.write(street / "more.wav", 8000, np.ones(100, np.float32))
    after = plan_assessment(assessed(tmp_path))
    assert before.key != after.key
    clean, noisy = zip(before.chunks, after.chunks, strict=True)
    assert clean[0].key == clean[1].key and noisy[0].key != noisy[1].key
    run = assess(assessed(tmp_path), runs=tmp_path / "runs").record
    made = run.circumstances[0].parameters[""]
    assert made["noise"] == "street" and len(made["noise_sha256"]) == 64


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        ("nowhere", "nowhere does not exist"),
        ("clips/a.wav", "is a file"),
        ("bare", "no .wav files"),
    ],
)
def test_a_folder_without_noise_is_refused_before_any_case(street, tmp_path, noise, sentence):
    (tmp_path / "bare").mkdir()
    with pytest.raises(SpecError) as refused:
        plan_assessment(assessed(tmp_path, noise))
    assert sentence in str(refused.value) and noise in str(refused.value)


def test_a_folder_of_silence_is_refused(street):
    (street / "hum.wav").unlink()
    with pytest.raises(ValueError, match=r"street holds silent \.wav files only"):
        background_noise(tone(), np.random.default_rng(0), snr_db=5.0, noise=street)
