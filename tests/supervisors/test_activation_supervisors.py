"""Supervisors of activations and logits against their definitions, dnn-tip and scipy, and on data that breaks formulas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from roadworthy.conformance import check
from roadworthy.data.values import CLASS_SCORES, KINDS, VECTOR
from roadworthy.registry import components, get
from roadworthy.subject.needs import Layer, Output
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.distance import Kernels, Mahalanobis, Neighbourhood
from roadworthy.supervisors.outputs import Energy, MaxLogit
from roadworthy.supervisors.surprise import (
    DistanceSurprise,
    LikelihoodSurprise,
    MahalanobisSurprise,
)

ORACLE = dict(np.load(Path(__file__).parent / "oracle" / "surprise.npz"))
BY_CLASS = ("lsa", "mdsa", "dsa")
OF_ACTIVATIONS = (*BY_CLASS, "mahalanobis", "kde", "knn")
every = pytest.mark.parametrize("name", OF_ACTIVATIONS)


def trace(
    activations, classes=None, *, failed=(), kind=CLASS_SCORES, column="layer.penultimate", of=3
):
    n = len(activations)
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    classes = np.zeros(n, dtype=int) if classes is None else np.asarray(classes)
    output = np.eye(of)[classes] if kind is CLASS_SCORES else np.zeros((n, 1))
    case = np.array([f"c{i}" for i in range(n)], dtype=object)
    return ModuleTrace(
        case,
        np.zeros(n, np.int32),
        error,
        np.zeros(n),
        kind,
        output,
        {column: np.asarray(activations)},
    )


def scores_of_logits(logits):
    return ModuleTrace(
        *[np.arange(len(logits))] * 2,
        np.full(len(logits), None),
        np.zeros(1),
        CLASS_SCORES,
        np.array(logits),
    )


TRAINING = trace(ORACLE["training"], ORACLE["training_classes"])
QUERIES = trace(ORACLE["queries"], ORACLE["predicted"])


def fitted(supervisor, training=TRAINING, truth=None):
    supervisor.fit(training, truth)
    return supervisor


def made(name, **parameters):
    return fitted(get("supervisors", name).bind(**parameters))


def mapped(rows, change):
    """The same rows with other activations."""
    columns = {name: change(values) for name, values in rows.columns.items()}
    return ModuleTrace(
        rows.case, rows.step, rows.error, rows.seconds, rows.kind, rows.output, columns
    )


@pytest.mark.parametrize("name", ["max_logit", "energy", *OF_ACTIVATIONS])
def test_each_keeps_the_contract(name):
    assert check("supervisors", name) == []


def test_names_parameters_and_needs():
    known = components("supervisors")
    for name in OF_ACTIVATIONS:
        supervisor = known[name].bind(layer="fc1", pool="max", memory_mb=64)
        assert supervisor.needs == (Output(), Layer("fc1", "max"))
        assert supervisor.name == name
        assert supervisor.fitted is True
        assert {"layer", "pool", "device", "memory_mb"} <= set(known[name].parameters)


def test_dsa_is_that_of_dnn_tip():
    np.testing.assert_allclose(made("dsa").score(QUERIES), ORACLE["dsa"], rtol=1e-9)


def test_mdsa_is_the_root_of_what_dnn_tip_gives():
    found = made("mdsa")
    np.testing.assert_allclose(found.score(QUERIES) ** 2, ORACLE["mdsa_squared"], rtol=1e-7)
    assert found.notes == []


def test_lsa_is_that_of_dnn_tip_where_its_density_is_a_number():
    found = made("lsa", features=4).score(QUERIES)
    np.testing.assert_allclose(found, ORACLE["lsa_of_4_features"], rtol=1e-8)


def test_dsa_follows_its_definition_pair_by_pair():
    training, classes = ORACLE["training"], ORACLE["training_classes"]
    wanted = []
    for x, c in zip(ORACLE["queries"], ORACLE["predicted"], strict=True):
        same, other = training[classes == c], training[classes != c]
        a = same[np.linalg.norm(same - x, axis=1).argmin()]
        wanted.append(np.linalg.norm(x - a) / np.linalg.norm(other - a, axis=1).min())
    np.testing.assert_allclose(made("dsa").score(QUERIES), wanted, rtol=1e-10)


def test_kde_is_that_of_scipy_and_goes_on_where_densities_vanish():
    wanted = -stats.gaussian_kde(ORACLE["training"].T).logpdf(ORACLE["queries"].T)
    supervisor = made("kde")
    np.testing.assert_allclose(supervisor.score(QUERIES), wanted, rtol=1e-9)
    far = supervisor.score(trace([[1e4] * 6, [2e4] * 6]))
    assert np.isfinite(far).all()
    assert far[1] > far[0] > 1e5


def test_mahalanobis_is_the_least_distance_to_a_mean_of_labels():
    training, labels = ORACLE["training"], (np.arange(240) % 4).astype(np.int64)
    means = np.stack([training[labels == c].mean(axis=0) for c in range(4)])
    within = training - means[labels]
    wanted = cdist(
        ORACLE["queries"], means, "mahalanobis", VI=np.linalg.inv(within.T @ within / 240)
    ).min(axis=1)
    np.testing.assert_allclose(
        fitted(Mahalanobis(), truth=labels).score(QUERIES), wanted, rtol=1e-9
    )
    by_prediction = fitted(Mahalanobis(), truth=["a"] * 240).score(QUERIES)
    assert np.abs(by_prediction - wanted).max() > 1e-3


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("k", [1, 50])
def test_knn_is_the_distance_to_the_kth(k, normalise):
    training, queries = ORACLE["training"], ORACLE["queries"]
    if normalise:
        training, queries = (
            a / np.linalg.norm(a, axis=1, keepdims=True) for a in (training, queries)
        )
    wanted = np.sort(cdist(queries, training), axis=1)[:, k - 1]
    np.testing.assert_allclose(
        made("knn", k=k, normalise=normalise).score(QUERIES), wanted, rtol=1e-9
    )


def test_max_logit_and_energy_follow_their_definitions():
    logits = np.random.default_rng(0).normal(0, 5, (20, 4))
    rows = scores_of_logits(logits)
    np.testing.assert_allclose(MaxLogit().score(rows), -logits.max(axis=1))
    for temperature in (0.5, 1.0, 20.0):
        wanted = -temperature * logsumexp(logits / temperature, axis=1)
        np.testing.assert_allclose(Energy(temperature=temperature).score(rows), wanted, rtol=1e-12)
        moved = Energy(temperature=temperature).score(scores_of_logits(logits + 3))
        np.testing.assert_allclose(moved, wanted - 3, rtol=1e-12)
    with pytest.raises(ValueError, match="temperature is 0"):
        Energy(temperature=0)


def test_probabilities_are_read_as_logits_whose_constant_is_lost():
    logits = np.random.default_rng(1).normal(0, 3, (20, 5))
    logits -= logits.mean(axis=1, keepdims=True)
    p = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(
        Energy().score(scores_of_logits(p)), -logsumexp(logits, axis=1), rtol=1e-9
    )
    np.testing.assert_allclose(
        MaxLogit().score(scores_of_logits(p)), -np.log(p.max(axis=1)), rtol=1e-9
    )
    certain = scores_of_logits([[1.0, 0.0, 0.0], [0.4, 0.3, 0.3]])
    for supervisor in (MaxLogit(), Energy()):
        sure, torn = supervisor.score(certain)
        assert np.isfinite(sure)
        assert sure < torn


@every
def test_memory_and_device_change_nothing(name):
    pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    training = trace(rng.normal(size=(3000, 8)).astype(np.float32), rng.integers(0, 3, 3000))
    queries = trace(rng.normal(0, 2, (60, 8)).astype(np.float32), rng.integers(0, 3, 60))
    build = get("supervisors", name).bind
    wanted = fitted(build(), training).score(queries)
    for options in ({"memory_mb": 1}, {"memory_mb": 1, "device": "cpu:0"}):
        np.testing.assert_allclose(
            fitted(build(**options), training).score(queries), wanted, rtol=1e-6
        )


@every
def test_the_order_of_reference_rows_does_not_matter(name):
    order = np.random.default_rng(3).permutation(len(TRAINING))
    shuffled = trace(ORACLE["training"][order], ORACLE["training_classes"][order])
    again = fitted(get("supervisors", name).bind(), shuffled)
    np.testing.assert_allclose(again.score(QUERIES), made(name).score(QUERIES), rtol=1e-9)


def turned(values):
    rotation = np.linalg.qr(np.random.default_rng(4).normal(size=(6, 6)))[0]
    return 7 * values @ rotation + 2


def stretched(values):
    return values @ (np.diag([1, 10, 0.1, 3, 5, 2]) + 0.1) + 4


def test_scores_are_the_same_under_the_maps_each_one_ignores():
    def both(name, change, **parameters):
        supervisor = get("supervisors", name).bind(**parameters)
        moved = fitted(supervisor, mapped(TRAINING, change)).score(mapped(QUERIES, change))
        return moved, made(name, **parameters).score(QUERIES)

    np.testing.assert_allclose(*both("dsa", turned), rtol=1e-9)
    np.testing.assert_allclose(*both("mdsa", stretched), rtol=1e-7)
    np.testing.assert_allclose(*both("mahalanobis", stretched), rtol=1e-7)
    np.testing.assert_allclose(
        *both("knn", lambda a: a * np.linspace(1, 9, len(a))[:, None]), rtol=1e-9
    )
    for name in (
        "kde",
        "lsa",
    ):  # a density takes the volume along: scores move by the logarithm of the determinant
        moved, still = both(name, stretched)
        volume = np.linalg.slogdet(stretched(np.eye(6)) - stretched(np.zeros((6, 6))))[1]
        np.testing.assert_allclose(moved - still, volume, rtol=1e-6)
    moved, still = both("knn", turned, normalise=False)
    np.testing.assert_allclose(moved, 7 * still, rtol=1e-9)


@every
def test_rows_that_failed_or_have_no_numbers_have_no_score(name):
    supervisor = made(name)
    queries = ORACLE["queries"][:5].copy()
    queries[1] = np.nan
    queries[3, 2] = np.inf
    scores = supervisor.score(trace(queries, ORACLE["predicted"][:5], failed=(0,)))
    assert np.isfinite(scores).tolist() == [False, False, True, False, True]
    assert np.isnan(scores[[0, 1, 3]]).all()
    nobody = trace(np.zeros((2, 0)), failed=(0, 1))
    nobody.output = np.full((2, 3), np.nan)
    assert np.isnan(supervisor.score(nobody)).all()
    assert supervisor.score(trace(np.zeros((0, 6)))).shape == (0,)


@every
def test_fitting_leaves_failed_and_broken_rows_out(name):
    training, classes = ORACLE["training"].copy(), ORACLE["training_classes"]
    training[7] = np.nan
    supervisor = get("supervisors", name).bind()
    broken = fitted(get("supervisors", name).bind(), trace(training, classes))
    assert any("1 of 240 reference rows" in note for note in broken.notes)
    with pytest.raises(
        ValueError, match=r"layer 'penultimate' has NaN or infinite activations in 240 of 240"
    ):
        supervisor.fit(trace(np.full_like(training, np.nan), classes), None)
    supervisor.fit(trace(training, classes, failed=(7,)), None)
    keep = np.arange(240) != 7
    without = fitted(get("supervisors", name).bind(), trace(training[keep], classes[keep]))
    np.testing.assert_allclose(supervisor.score(QUERIES), without.score(QUERIES), rtol=1e-12)
    np.testing.assert_allclose(broken.score(QUERIES), without.score(QUERIES), rtol=1e-12)
    with pytest.raises(ValueError, match="none of the 240 has one"):
        supervisor.fit(trace(training, classes, failed=range(240)), None)


@every
@pytest.mark.parametrize(
    "spoil",
    [
        lambda a, c: (np.concatenate([a, np.ones((len(a), 2))], axis=1), c),
        lambda a, c: (np.concatenate([a, a], axis=1), c),
        lambda a, c: (a.astype(np.float16), c),
        lambda a, c: (a, np.where(np.arange(len(c)) == 0, 2, c % 2)),
        lambda a, c: (np.repeat(a, 15, axis=1), c),
        lambda a, c: (np.zeros_like(a) + c[:, None], c),
        lambda a, c: (a.reshape(-1, 2, 3), c),
        lambda a, c: (np.round(a[:, :2]), c),
    ],
    ids=[
        "constant",
        "copied",
        "float16",
        "one_of_a_class",
        "wide",
        "no_spread",
        "spatial",
        "many_equal",
    ],
)
def test_awkward_data_give_finite_scores(name, spoil):
    supervisor = get("supervisors", name).bind()
    supervisor.fit(trace(*spoil(ORACLE["training"], ORACLE["training_classes"])), None)
    scores = supervisor.score(trace(*spoil(ORACLE["queries"] + 0.01, ORACLE["predicted"])))
    assert np.isfinite(scores).all()


def test_notes_say_what_was_done_about_it():
    training, classes = ORACLE["training"], ORACLE["training_classes"]
    doubled = trace(np.concatenate([training, training], axis=1), classes)
    for supervisor in (MahalanobisSurprise(), LikelihoodSurprise(), Mahalanobis(), Kernels()):
        notes = fitted(supervisor, doubled).notes
        assert len(notes) == 1
        assert "shrunk" in notes[0]
    alone = trace(training, np.where(np.arange(240) == 0, 2, classes % 2))
    for supervisor in (MahalanobisSurprise(), LikelihoodSurprise()):
        assert fitted(supervisor, alone).notes == [
            "class 2: rows without spread; the covariance is that within all classes"
        ]
    assert (
        "k is 50, and there are 20 reference rows"
        in fitted(Neighbourhood(), trace(training[:20])).notes[0]
    )


def test_an_activation_that_was_constant_is_surprising_when_it_moves():
    training = trace(
        np.concatenate([ORACLE["training"], np.ones((240, 1))], axis=1), ORACLE["training_classes"]
    )
    still = np.concatenate([ORACLE["queries"], np.ones((40, 1))], axis=1)
    moved = still + np.eye(7)[6] * 5
    for name in OF_ACTIVATIONS[:5]:
        supervisor = fitted(get("supervisors", name).bind(), training)
        first, second = (supervisor.score(trace(a, ORACLE["predicted"])) for a in (still, moved))
        assert (second > first).all(), name


@pytest.mark.parametrize("name", BY_CLASS)
def test_a_class_never_seen_is_scored_by_the_class_it_surprises_least(name):
    training = trace(ORACLE["training"], ORACLE["training_classes"] % 2)
    supervisor = fitted(get("supervisors", name).bind(), training)
    unseen = supervisor.score(trace(ORACLE["queries"], np.full(40, 2)))
    by_class = np.stack(
        [supervisor.score(trace(ORACLE["queries"], np.full(40, c))) for c in (0, 1)]
    )
    if name == "dsa":
        distance = cdist(ORACLE["queries"], ORACLE["training"]).argmin(axis=1)
        wanted = by_class[ORACLE["training_classes"][distance] % 2, np.arange(40)]
    else:
        wanted = by_class.min(axis=0)
    np.testing.assert_allclose(unseen, wanted, rtol=1e-9)


def test_dsa_uses_a_share_of_every_class_and_needs_two():
    small = made("dsa", share=0.3)
    kept = np.diff(small._learned["starts"])
    assert (
        kept.tolist() == np.ceil(0.3 * np.bincount(ORACLE["training_classes"])).astype(int).tolist()
    )
    assert np.isfinite(small.score(QUERIES)).all()
    with pytest.raises(ValueError, match="all 240 reference rows are predicted as class 0"):
        DistanceSurprise().fit(trace(ORACLE["training"]), None)
    with pytest.raises(ValueError, match="share is 0"):
        DistanceSurprise(share=0)


def test_dsa_of_an_activation_that_two_classes_share_is_a_large_number():
    training = np.array([[0.0, 1.0], [0.0, 1.0], [5.0, 1.0]])
    supervisor = fitted(DistanceSurprise(), trace(training, [0, 1, 1]))
    on_it, beside = supervisor.score(trace(np.array([[0.0, 1.0], [0.0, 2.0]]), [0, 0]))
    assert on_it == 0.0
    assert 1e6 < beside < np.inf


@every
def test_what_was_saved_scores_the_same_and_keeps_notes_and_meta(name, tmp_path):
    supervisor = made(name)
    supervisor.notes, supervisor.meta = ["a note"], {"fingerprint": "abc"}
    supervisor.save(tmp_path / "new")
    again = get("supervisors", name).bind(memory_mb=8)
    again.load(tmp_path / "new")
    np.testing.assert_allclose(again.score(QUERIES), supervisor.score(QUERIES), rtol=1e-12)
    assert (again.notes, again.meta) == (["a note"], {"fingerprint": "abc"})


@every
def test_files_of_another_or_broken_ones_are_refused(name, tmp_path):
    made(name).save(tmp_path)
    other = get("supervisors", "kde" if name != "kde" else "knn").bind()
    with pytest.raises(ValueError, match=f"has the supervisor '{name}'"):
        other.load(tmp_path)
    with pytest.raises(ValueError, match=r"has the parameters .*'layer': 'penultimate'"):
        get("supervisors", name).bind(layer="fc1").load(tmp_path)
    arrays = tmp_path / "supervisor.npz"
    arrays.write_bytes(arrays.read_bytes()[:-20])
    with pytest.raises(ValueError, match="shortened"):
        get("supervisors", name).bind().load(tmp_path)
    about = tmp_path / "supervisor.json"
    about.write_text(about.read_text()[:50])
    with pytest.raises(ValueError, match="cannot be read"):
        get("supervisors", name).bind().load(tmp_path)
    about.write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="has the format None"):
        get("supervisors", name).bind().load(tmp_path)


@every
def test_misuse_is_answered_with_what_to_do(name, tmp_path):
    supervisor = get("supervisors", name).bind()
    with pytest.raises(ValueError, match="has not been fitted: call fit, or load"):
        supervisor.score(QUERIES)
    with pytest.raises(ValueError, match="has not been fitted"):
        supervisor.save(tmp_path)
    with pytest.raises(ValueError, match=r"reads 'layer.penultimate', and the trace has layer.fc1"):
        supervisor.fit(
            trace(ORACLE["training"], ORACLE["training_classes"], column="layer.fc1"), None
        )
    with pytest.raises(
        ValueError,
        match="fitted on 6 activations a row of the layer 'penultimate', and 5 were found",
    ):
        made(name).score(trace(ORACLE["queries"][:, :5], ORACLE["predicted"]))
    with pytest.raises(ValueError, match="memory_mb is 0"):
        get("supervisors", name).bind(memory_mb=0)


def test_those_of_a_class_need_one_and_the_others_take_any_output():
    for name in OF_ACTIVATIONS:
        reasons = [
            get("supervisors", name).bind().applies_to(kind)
            for kind in KINDS.values()
            if kind is not CLASS_SCORES
        ]
        assert all(reasons) if name in BY_CLASS else not any(reasons)
    for name in ("mahalanobis", "kde", "knn"):
        supervisor = fitted(get("supervisors", name).bind(), trace(ORACLE["training"], kind=VECTOR))
        assert np.isfinite(supervisor.score(trace(ORACLE["queries"], kind=VECTOR))).all()
