"""Recordings: every width of sample lands in [-1, 1], channels are averaged, broken files are failed cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from roadworthy.data import DataError, load
from roadworthy.data.loaders.audio import read_wav
from roadworthy.data.values import AUDIO, TEXT, Unreadable

TONE = 0.5 * np.sin(np.linspace(0, 20, 400))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "clips").mkdir()
    for name in ("a", "b"):
        wavfile.write(tmp_path / f"clips/{name}.wav", 16000, (TONE * 32768).astype(np.int16))
        (tmp_path / f"clips/{name}.txt").write_text(f"the clip {name}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("stored", "step"),
    [
        ((TONE * 32768).astype(np.int16), 2**-15),
        ((TONE * 2**31).astype(np.int32), 2**-23),
        ((TONE * 128 + 128).astype(np.uint8), 2**-7),
        (TONE.astype(np.float32), 2**-23),
    ],
)
def test_every_width_of_sample_lands_on_the_same_scale(
    tmp_path: Path, stored: np.ndarray, step: float
) -> None:
    wavfile.write(tmp_path / "tone.wav", 8000, stored)
    audio = read_wav(tmp_path / "tone.wav")
    assert audio.rate == 8000 and audio.wave.dtype == np.float32
    np.testing.assert_allclose(audio.wave, TONE, atol=step)


def test_channels_are_averaged(tmp_path: Path) -> None:
    wavfile.write(
        tmp_path / "stereo.wav", 8000, np.stack([TONE, 0 * TONE], axis=1).astype(np.float32)
    )
    np.testing.assert_allclose(read_wav(tmp_path / "stereo.wav").wave, TONE / 2, atol=1e-7)


def test_all_channels_are_handed_on_if_asked_for(folder: Path) -> None:
    both = np.stack([TONE, 0 * TONE], axis=1).astype(np.float32)
    wavfile.write(folder / "clips/b.wav", 16000, both)
    averaged = load({"audio": "clips"}, base=folder, name="test")
    data = load({"audio": "clips", "stereo": True}, base=folder, name="test")
    assert data.inputs[0].wave.shape == (400,)
    np.testing.assert_array_equal(data.inputs[1].wave, both)
    assert AUDIO.problem(data.inputs[1]) is None
    assert data.input_fingerprint != averaged.input_fingerprint


def test_a_folder_with_texts_of_the_same_name(folder: Path) -> None:
    data = load({"audio": "clips"}, base=folder, name="test")
    assert (data.input_kind, data.target_kind) == (AUDIO, TEXT)
    assert data.ids.tolist() == ["a", "b"] and data.targets == ["the clip a", "the clip b"]
    assert AUDIO.problem(data.sample(0).input) is None


def test_a_folder_with_one_transcription_file(folder: Path) -> None:
    (folder / "clips/transcription").write_text("<s> first one </s> (b)\nplain words (a)\n")
    assert load({"audio": "clips"}, base=folder, name="test").targets == [
        "plain words",
        "first one",
    ]


def test_a_table_with_speakers_as_groups(folder: Path) -> None:
    (folder / "clips.tsv").write_text(
        "audio\ttranscript\tspeaker\na.wav\thello there\t007\nb.wav\tbye\t08\n"
    )
    data = load(
        {"audio": "clips.tsv", "folder": "clips", "group": "speaker"}, base=folder, name="test"
    )
    assert data.targets == ["hello there", "bye"] and data.groups.tolist() == ["007", "08"]
    assert len(data.sample(1).input.wave) == 400


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a whole wav"),
        (b"RIFF\0\0", "not a whole wav"),
        (b"no wave at all, only words", "not a whole wav"),
    ],
)
def test_a_broken_recording_is_a_failed_case(folder: Path, content: bytes, said: str) -> None:
    (folder / "clips/b.wav").write_bytes(content)
    read = load({"audio": "clips"}, base=folder, name="test").inputs[:]
    assert isinstance(read[1], Unreadable) and said in read[1].reason and "b.wav" in read[1].reason


@pytest.mark.parametrize("keep", [20, 30, 44, 50, 400])
def test_a_recording_cut_short_is_a_failed_case(folder: Path, keep: int) -> None:
    file = folder / "clips/b.wav"
    file.write_bytes(file.read_bytes()[:keep])
    assert isinstance(load({"audio": "clips"}, base=folder, name="test").inputs[1], Unreadable)


def test_a_recording_without_samples_is_a_failed_case(folder: Path) -> None:
    wavfile.write(folder / "clips/b.wav", 16000, np.zeros(0, np.int16))
    broken = load({"audio": "clips"}, base=folder, name="test").inputs[1]
    assert isinstance(broken, Unreadable) and "b.wav: has no samples" in broken.reason


def test_transcripts_and_recordings_must_pair_up(folder: Path) -> None:
    (folder / "clips/b.txt").rename(folder / "clips/c.txt")
    with pytest.raises(DataError, match="1 sample\\(s\\) have no transcript, the first is 'b'"):
        load({"audio": "clips"}, base=folder, name="test")
    (folder / "clips/b.txt").write_text("b")
    with pytest.raises(DataError, match="1 sample\\(s\\) have no recording, the first is 'c'"):
        load({"audio": "clips"}, base=folder, name="test")


def test_a_line_of_another_form_and_a_name_twice_are_refused(folder: Path) -> None:
    (folder / "clips/transcription").write_text("words (a)\nno name here\n")
    with pytest.raises(DataError, match="transcription, line 2: is 'no name here'"):
        load({"audio": "clips"}, base=folder, name="test")
    (folder / "clips/transcription").write_text("words (a)\nwords (a)\n")
    with pytest.raises(DataError, match="line 2: 'a' occurs twice"):
        load({"audio": "clips"}, base=folder, name="test")


def test_a_transcript_that_is_not_text_is_refused(folder: Path) -> None:
    (folder / "clips/b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"b\.txt: is not UTF-8 text"):
        load({"audio": "clips"}, base=folder, name="test")


def test_no_recordings_and_no_such_place_are_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: holds no \.wav files"):
        load({"audio": "empty"}, base=folder, name="test")
    with pytest.raises(DataError, match="clip does not exist"):
        load({"audio": "clip"}, base=folder, name="test")


@pytest.mark.parametrize("given", [{}, {"folder": "other"}])
def test_a_recording_that_is_not_there_says_where_it_was_sought(tmp_path, given):
    (tmp_path / "other").mkdir()
    (tmp_path / "clips.csv").write_text("audio,transcript\na.wav,hello\n")
    data = load({"audio": "clips.csv", **given}, base=tmp_path, name="test")
    assert "folder: PATH says where they lie" in data.inputs[0].reason
    assert "does not exist" in data.take([0]).inputs[0].reason
