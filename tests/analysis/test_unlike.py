"""Windows unlike all that was calibrated lean towards confidence, others do not, and no alarm is silenced by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadworthy.analysis.risk import unlike as module
from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.confidence import Atc
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.sums import Known, Window
from roadworthy.analysis.risk.unlike import Unlike, above_threshold, area, leant

COUNTS = arrays(np.int64, 6, elements=st.integers(0, 50))


def events(n, kind, rng, *, told=4.0):
    """Scores and outcomes: by night answers are wrong however sure they are; in the cold they are as right as they are sure."""
    sure = rng.normal(0.5 if kind == "cold" else 0.0, size=n)
    scores = {
        "unsure": -sure,
        "odd": rng.normal({"clean": 0.0, "night": 3.0, "cold": 2.5}[kind], size=n),
    }
    scores["edges"] = rng.normal({"clean": 0.0, "night": 0.0, "cold": 2.0}[kind], size=n)
    log_odds = 3.0 + told * sure - (6.0 if kind == "night" else 0.0)
    return scores, rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))


def calibrated(rng, *, kinds=("clean", "night"), rows=1500, told=4.0):
    parts = [events(rows, kind, rng, told=told) for kind in kinds]
    columns = {name: np.concatenate([p[0][name] for p in parts]) for name in parts[0][0]}
    return calibrate(columns, np.repeat(kinds, rows), np.concatenate([p[1] for p in parts]))


def windows(calibration, kind, n, rng, *, rate=1.0, times=40, told=4.0):
    counts, accuracy = [], []
    for _ in range(times):
        shifted = int(rng.binomial(n, rate))
        parts = [
            events(shifted, kind, rng, told=told),
            events(n - shifted, "clean", rng, told=told),
        ]
        placed = np.concatenate([calibration.place(scores) for scores, _ in parts])
        counts.append(np.bincount(placed, minlength=calibration.cells))
        accuracy.append(np.concatenate([right for _, right in parts]).mean())
    return np.array(counts, dtype=float), np.array(accuracy)


@pytest.fixture(scope="module")
def calibration():
    return calibrated(np.random.default_rng(0))


@pytest.fixture
def without(monkeypatch):
    """An estimator that does not ask confidence."""

    def made(calibration, **given):
        with monkeypatch.context() as patched:
            patched.setattr(module, "TELLING", (2.0, 3.0))
            return Estimator(calibration, accuracy_tree(), **given)

    return made


@given(COUNTS, COUNTS)
def test_the_area_is_that_of_all_pairs(right, wrong):
    if right.sum() and wrong.sum():
        a, b = np.repeat(np.arange(6), right)[:, None], np.repeat(np.arange(6), wrong)
        assert area(right.astype(float), wrong.astype(float)) == pytest.approx(
            (a > b).mean() + 0.5 * (a == b).mean()
        )


def test_with_a_bin_a_row_the_share_above_the_threshold_is_atc():
    rng = np.random.default_rng(1)
    confidence, right = np.sort(rng.random(200)), rng.random(200) < 0.8
    atc = Atc.fit(confidence, right)
    assert np.array_equal(above_threshold(np.ones(200), right.mean()), confidence > atc.threshold)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(0.0, 1.0)),
    arrays(np.float64, 2, elements=st.floats(-1.0, 1.0)),
    st.data(),
)
def test_a_lean_moves_the_mean_by_its_part_and_never_beyond_what_is_there(shares, lean, data):
    total = np.full((2, 1), 10.0)
    clean = shares[:, :2].reshape(4, 2, 1) * 10.0
    right = data.draw(arrays(np.float64, (2, 4, 2, 1), elements=st.floats(0.0, 1.0)))
    known = Known(None, None, total, clean, clean * right[0], (10.0 - clean) * right[1])
    moved = leant(known, lean)
    assert (moved.right_clean <= known.clean + 1e-9).all() and (
        moved.right_shifted <= known.shifted + 1e-9
    ).all()
    room = np.where(lean > 0, 10.0 - known.right[..., 0], known.right[..., 0])
    assert np.allclose(moved.right[..., 0], known.right[..., 0] + lean * room, atol=1e-9)


def test_nothing_moves_in_windows_of_what_was_calibrated(calibration):
    rng, unlike = np.random.default_rng(2), Unlike.of(calibration)
    assert unlike.trust == 1.0
    for n in (30, 100, 1000, 5000):
        for rate in (0.0, 0.5, 1.0):
            window = Window(
                calibration, windows(calibration, "night", n, rng, rate=rate)[0], np.zeros(0)
            )
            weight = unlike.weight(window, np.full(40, rate), np.ones(40))
            assert weight.mean() < 0.02, (n, rate)


def test_a_kind_that_was_not_calibrated_is_told_better_and_covered_at_least_as_often(
    calibration, without
):
    counts, accuracy = windows(calibration, "cold", 200, np.random.default_rng(3))
    ours, before = (
        Estimator(calibration, accuracy_tree()).estimate(counts),
        without(calibration).estimate(counts),
    )
    assert np.abs(ours.accuracy - accuracy).mean() < 0.5 * np.abs(before.accuracy - accuracy).mean()
    assert (ours.accuracy_low <= before.accuracy_low).all() and (
        ours.accuracy_high >= before.accuracy_high
    ).all()
    assert ((ours.accuracy_low <= ours.accuracy) & (ours.accuracy <= ours.accuracy_high)).all()
    assert ((ours.risk_low <= ours.risk) & (ours.risk <= ours.risk_high)).all()
    assert np.allclose(ours.risk, 1.0 - ours.accuracy)
    assert np.array_equal(ours.rate, before.rate)


def test_the_estimate_lies_between_the_one_without_and_what_confidence_says(calibration, without):
    counts, _ = windows(calibration, "cold", 100, np.random.default_rng(4), rate=0.6)
    ours, before = Estimator(calibration, accuracy_tree()), without(calibration)
    told = ours._unlike.told(Window(calibration, counts, np.zeros(0)))
    a, b = ours.estimate(counts).accuracy, before.estimate(counts).accuracy
    assert (
        (np.minimum(b, told) - 1e-9 <= a).all()
        and (a <= np.maximum(b, told) + 1e-9).all()
        and (a != b).any()
    )
    assert np.allclose([ours.points(some)[1] for some in counts], a)


def test_an_alarm_is_asked_without_confidence(calibration, without):
    counts, _ = windows(calibration, "cold", 100, np.random.default_rng(5))
    ours, before = (
        e.estimate(counts)
        for e in (
            Estimator(calibration, accuracy_tree(), tolerable=0.3),
            without(calibration, tolerable=0.3),
        )
    )
    assert np.array_equal(ours.exceedance, before.exceedance) and np.array_equal(
        ours.log_odds, before.log_odds
    )


def test_confidence_that_tells_nothing_is_not_asked(without):
    rng = np.random.default_rng(6)
    calibration = calibrated(rng, told=0.3)
    assert Unlike.of(calibration).trust == 0.0
    counts, _ = windows(calibration, "cold", 100, rng, told=0.3)
    ours, before = (
        Estimator(calibration, accuracy_tree()).estimate(counts),
        without(calibration).estimate(counts),
    )
    assert np.array_equal(ours.accuracy, before.accuracy) and np.array_equal(
        ours.accuracy_low, before.accuracy_low
    )


def test_few_wrong_answers_do_not_make_confidence_believed():
    rng = np.random.default_rng(7)
    scores, right = events(300, "clean", rng)
    wrong = np.flatnonzero(~right)[:3]
    rows = np.concatenate([np.flatnonzero(right)[:100], wrong])
    columns = {
        name: np.concatenate([column[rows], column[rows] + 3.0]) for name, column in scores.items()
    }
    kind = np.repeat(["clean", "night"], len(rows))
    assert Unlike.of(calibrate(columns, kind, np.tile(right[rows], 2))).trust == 0.0


def test_a_kind_of_a_few_rows_does_not_explain_everything():
    rng = np.random.default_rng(8)
    parts = [events(n, kind, rng) for n, kind in ((1500, "clean"), (1500, "night"), (3, "night"))]
    columns = {name: np.concatenate([p[0][name] for p in parts]) for name in parts[0][0]}
    kind = np.repeat(["clean", "night", "dusk"], [1500, 1500, 3])
    calibration = calibrate(columns, kind, np.concatenate([p[1] for p in parts]))
    counts, _ = windows(calibration, "cold", 100, rng)
    assert (
        Unlike.of(calibration)
        .weight(Window(calibration, counts, np.zeros(0)), np.ones(40), np.ones(40))
        .mean()
        > 0.2
    )


def test_a_window_is_told_the_same_alone_and_among_others(calibration):
    rng = np.random.default_rng(9)
    counts = np.concatenate(
        [windows(calibration, k, 100, rng, times=4)[0] for k in ("cold", "night")]
        + [np.zeros((1, calibration.cells))]
    )
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3)
    together, alone = estimator.estimate(counts), [estimator.estimate(row) for row in counts]
    for name in (
        "accuracy",
        "accuracy_low",
        "accuracy_high",
        "risk",
        "risk_low",
        "risk_high",
        "log_odds",
    ):
        assert np.allclose(
            getattr(together, name), [getattr(one, name)[0] for one in alone], atol=1e-6
        ), name
