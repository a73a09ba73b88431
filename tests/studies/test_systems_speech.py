"""A small version of the study of speech: eight sentences, both decoders."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.values import Audio
from roadworthy.measures.speech import wer
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.needs import Layer, Passes
from roadworthy.subject.system import Cases

STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "speech"
pytestmark = pytest.mark.skipif(shutil.which("flite") is None, reason="apt-get install flite")


@pytest.fixture(scope="module")
def texts():
    return resolve_path("make.py:sentences", STUDY).target("test", 8)


@pytest.fixture(scope="module")
def recordings(texts):
    spoken = resolve_path("make.py:spoken", STUDY).target
    return [Audio((spoken(text) / 32768).astype(np.float32), 16000) for text in texts]


def test_a_sentence_has_one_role():
    """What is tested was never trained on, whatever numbers of clips are asked for."""
    found = resolve_path("make.py:sentences", STUDY).target
    test, calibration, train = (set(found(r, 300)) for r in ("test", "calibration", "train"))
    assert not (test & calibration or test & train or calibration & train)
    assert test < set(found("test", 500))


@pytest.mark.parametrize("name", ["build", "build_transformer"])
def test_words_are_understood_and_noise_costs_most_of_them(texts, recordings, name):
    system = resolve_path(f"system.py:{name}", STUDY).target()
    cases = Cases([str(i) for i in range(len(texts))], recordings)
    asked, layer = Passes("own", 3, distance="edits"), Layer("penultimate")
    plan = {"decoder": frozenset({asked, layer}), "encoder": frozenset({layer})}
    clean = system.run(cases, plan)

    def noisy(audio, case, step):
        noise = np.random.default_rng(int(case)).normal(0, audio.wave.std(), len(audio.wave))
        return Audio((audio.wave + noise).astype(np.float32), audio.rate)

    hurt = system.run(cases, at={"input": noisy})
    assert wer(clean["system"].output, texts).value() < 0.1
    assert wer(hurt["system"].output, texts).value() > 0.4
    assert np.isfinite(clean["decoder"].columns[asked.column]).all()
    assert clean["encoder"].columns["layer.penultimate"].shape == (8, 96)


def test_the_answer_does_not_depend_on_the_recordings_beside_it(texts, recordings):
    system = resolve_path("system.py:build", STUDY).target()
    together = system.run(Cases([str(i) for i in range(8)], recordings))["system"].output
    alone = system.run(Cases(["5"], [recordings[5]]))["system"].output
    assert alone[0] == together[5]
