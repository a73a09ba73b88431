"""Supervisors that read pictures: what they refuse, what they keep, and what they find on Fashion-MNIST."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roadworthy.cases.image.gaussian_noise import TABLES, gaussian_noise
from roadworthy.data.loaders.bundled import bundled
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.generative.glow import Glow
from roadworthy.registry import components, get
from roadworthy.statistics.ranking import auc
from roadworthy.subject.needs import Input
from roadworthy.subject.trace import ModuleTrace, concatenate
from roadworthy.supervisors.inputs import Autoencoder, DlpraTypicality, Typicality

NAMES = ("autoencoder", "typicality", "dlpra_typicality")
every = pytest.mark.parametrize("name", NAMES)
SHORT = {"epochs": 4, "seed": 3}


def trace(pictures, *, failed=()):
    n = len(pictures)
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    case = np.array([f"c{i}" for i in range(n)], dtype=object)
    columns = {"input": pictures}
    return ModuleTrace(
        case, np.zeros(n, np.int32), error, np.zeros(n), CLASS_SCORES, np.zeros((n, 2)), columns
    )


def blobs(n, seed=0):
    """A bright square of four pixels somewhere on a dark ground."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 10, (n, 8, 8))
    for picture, (y, x) in zip(pictures, rng.integers(0, 7, (n, 2)), strict=True):
        picture[y : y + 2, x : x + 2] += 150
    return pictures.astype(np.uint8)


TRAINING, OTHERS = blobs(60), blobs(24, seed=1)


@pytest.fixture(scope="module")
def fitted():
    made = {name: get("supervisors", name).bind(**SHORT) for name in NAMES}
    for supervisor in made.values():
        supervisor.fit(trace(TRAINING), None)
    return made


@every
def test_they_read_the_input_alone_whatever_the_output(name):
    supervisor = get("supervisors", name).bind()
    assert supervisor.needs == (Input(),) and supervisor.fitted
    assert all(supervisor.applies_to(kind) is None for kind in KINDS.values())
    assert name in components("supervisors")


@every
def test_failed_rows_and_rows_with_nan_have_no_score_and_others_are_not_touched_by_it(name, fitted):
    whole = fitted[name].score(trace(OTHERS))
    assert whole.dtype == np.float64 and np.isfinite(whole).all()
    pictures = OTHERS.astype(np.float32)
    pictures[3], pictures[5, 0, 0] = np.nan, np.inf
    found = fitted[name].score(trace(pictures, failed=(3, 17)))
    assert np.flatnonzero(np.isnan(found)).tolist() == [3, 5, 17]
    sound = np.isfinite(found)
    assert np.allclose(found[sound], whole[sound], rtol=1e-9)


@every
def test_neither_order_nor_chunks_nor_memory_matter(name, fitted):
    supervisor, whole = fitted[name], fitted[name].score(trace(OTHERS))
    order = np.random.default_rng(1).permutation(len(OTHERS))
    assert np.allclose(supervisor.score(trace(OTHERS[order])), whole[order], rtol=1e-9, atol=1e-11)
    parts = [trace(OTHERS[:1]), trace(OTHERS[1:12]), trace(OTHERS[12:])]
    assert np.allclose(
        np.concatenate([supervisor.score(p) for p in parts]), whole, rtol=1e-9, atol=1e-11
    )
    assert np.allclose(supervisor.score(concatenate(parts)), whole, rtol=1e-9, atol=1e-11)


@every
def test_rows_of_other_sizes_are_resized_and_none_has_no_score(name, fitted):
    double = OTHERS.repeat(2, axis=1).repeat(2, axis=2)
    mixed = np.empty(4, dtype=object)
    mixed[:] = [OTHERS[0], double[1], None, OTHERS[2]]
    whole = fitted[name].score(trace(OTHERS))
    assert np.allclose(
        fitted[name].score(trace(mixed)), [whole[0], whole[1], np.nan, whole[2]], equal_nan=True
    )
    assert np.allclose(fitted[name].score(trace(list(OTHERS))), whole)


@every
def test_it_comes_back_from_disk(name, fitted, tmp_path):
    fitted[name].save(tmp_path)
    again = get("supervisors", name).bind(**SHORT, memory_mb=1)
    again.load(tmp_path)
    assert np.allclose(
        again.score(trace(OTHERS)), fitted[name].score(trace(OTHERS)), rtol=1e-9, atol=1e-11
    )
    assert json.loads((tmp_path / "supervisor.json").read_text())["supervisor"] == name
    with pytest.raises(ValueError, match="'seed': 3"):
        get("supervisors", name).bind(epochs=4).load(tmp_path)


@every
def test_fitting_again_forgets_what_was_learned(name):
    supervisor = get("supervisors", name).bind(**SHORT)
    supervisor.fit(trace(TRAINING), None)
    first = supervisor.score(trace(OTHERS))
    supervisor.fit(trace(255 - TRAINING), None)
    assert not np.allclose(supervisor.score(trace(OTHERS)), first)


@every
def test_bad_reference_pictures_are_refused(name):
    supervisor = get("supervisors", name).bind(**SHORT)
    broken = TRAINING.astype(np.float32)
    broken[[4, 9, 30], 0, 0] = np.nan
    for inputs, failed, words in (
        (broken, (), f"{name} cannot be fitted: 3 of 60 pictures have NaN"),
        (np.array(["a", "b"], dtype=object), (), "no picture: it is str"),
        (np.zeros((5, 3)), (), "no picture"),
        (TRAINING, range(60), "none of the 60 has one"),
    ):
        with pytest.raises(ValueError, match=words):
            supervisor.fit(trace(inputs, failed=failed), None)
    with pytest.raises(ValueError, match="has not been fitted"):
        supervisor.score(trace(OTHERS))
    without = trace(TRAINING)
    without.columns = {}
    with pytest.raises(ValueError, match="reads 'input'"):
        supervisor.fit(without, None)


@every
def test_failed_reference_rows_are_left_out_whatever_they_hold(name):
    pictures = np.empty(21, dtype=object)
    pictures[:] = [*TRAINING[:20], None]
    supervisor = get("supervisors", name).bind(epochs=1)
    supervisor.fit(trace(pictures, failed=(20,)), None)
    assert np.isfinite(supervisor.score(trace(OTHERS))).all()
    assert "20 pictures" in supervisor.notes[0]


def test_typicality_is_the_distance_from_the_mean_of_pictures_not_fitted_on(fitted):
    order = np.random.default_rng(3).permutation(60)
    glow = Glow.fit(TRAINING[np.sort(order[12:])], epochs=4, seed=3)
    expected = glow.log_likelihood(TRAINING[order[:12]]).mean()
    likelihood = glow.log_likelihood(OTHERS)
    assert np.allclose(fitted["typicality"].score(trace(OTHERS)), np.abs(likelihood - expected))


def test_dlpra_typicality_is_minus_the_likelihood_under_a_flow_of_all_reference_pictures(fitted):
    glow = Glow.fit(TRAINING, epochs=4, seed=3)
    assert np.allclose(
        fitted["dlpra_typicality"].score(trace(OTHERS)), -glow.log_likelihood(OTHERS)
    )


def test_parameters_that_make_no_sense_are_refused():
    for build, parameters, words in (
        (Autoencoder, {"epochs": 0}, "epochs is 0"),
        (Typicality, {"held_out": 1.0}, "held_out is 1.0"),
        (DlpraTypicality, {"memory_mb": 0}, "memory_mb is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            build(**parameters)
    with pytest.raises(ValueError, match="two or more"):
        Typicality().fit(trace(TRAINING[:1]), None)


@pytest.mark.slow
def test_unlike_pictures_score_higher_than_like_ones():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (24, 8, 8), dtype=np.uint8)
    for name in NAMES:
        supervisor = get("supervisors", name).bind(epochs=20)
        supervisor.fit(trace(TRAINING), None)
        assert supervisor.score(trace(noise)).min() > supervisor.score(trace(OTHERS)).max()


def shuffled(pictures, rng):
    """Sixteen tiles of each picture, in another order: the pixels of a garment, and no garment."""
    tiles = pictures.reshape(-1, 4, 7, 4, 7).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 7, 7)
    moved = np.stack([t[rng.permutation(16)] for t in tiles])
    return moved.reshape(-1, 4, 4, 7, 7).transpose(0, 1, 3, 2, 4).reshape(-1, 28, 28)


@pytest.fixture(scope="module")
def fashion():
    rng = np.random.default_rng(0)
    test = np.asarray(bundled(path="fashion-mnist", split="test").inputs)[:1000]
    level_3 = TABLES["hendrycks"][2]["scale"]
    shades = rng.integers(0, 256, (500, 1, 1)).astype(np.uint8)
    return {
        "reference": np.asarray(bundled(path="fashion-mnist", split="reference").inputs),
        "clean": test,
        "inverted": 255 - test,
        "noise": np.stack([gaussian_noise(picture, rng, scale=level_3) for picture in test]),
        "shuffled": shuffled(test, rng),
        "flat": np.broadcast_to(shades, (500, 28, 28)).copy(),
        "dark": (test * 0.3).astype(np.uint8),
    }


LEAST = {
    "autoencoder": {"inverted": 0.98, "noise": 0.85, "shuffled": 0.95},
    "typicality": {"inverted": 0.95, "noise": 0.95, "shuffled": 0.7, "flat": 0.6},
    "dlpra_typicality": {"inverted": 0.95, "noise": 0.95, "shuffled": 0.8},
}
"""AUC of clean pictures against others, from below: measured values stand in docs/generative.md."""


@pytest.mark.slow
@every
def test_other_pictures_are_told_from_garments(name, fashion):
    supervisor = get("supervisors", name).bind()
    supervisor.fit(trace(fashion["reference"]), None)
    clean = supervisor.score(trace(fashion["clean"]))
    for kind, least in LEAST[name].items():
        other = supervisor.score(trace(fashion[kind]))
        found = auc(np.concatenate([clean, other]), np.repeat([0, 1], [len(clean), len(other)]))
        assert found > least, f"{name} tells {kind} from clean with an AUC of {found:.3f}"
    if name == "dlpra_typicality":
        dark = supervisor.score(trace(fashion["dark"]))
        assert np.median(dark) < np.median(clean), (
            "dark pictures are likelier than garments: why typicality was proposed"
        )
