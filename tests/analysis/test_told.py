"""Estimators side by side on the same windows: each says what its formula says, carried through the tree."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.cells import calibrate
from roadworthy.analysis.risk.confidence import Cbpe
from roadworthy.analysis.risk.prototypes import Costs, base_tree, detector_tree
from roadworthy.analysis.risk.streams import VERDICT, Detector, verdict_rows
from roadworthy.analysis.risk.told import Teller
from roadworthy.analysis.risk.transfer import Estimator

DETECTOR = Detector(0.8, 0.9, 0.5, 0.95, 0.3, 0.7)
ROWS = verdict_rows(DETECTOR, 3000, 2000, rng=np.random.default_rng(0))
CALIBRATION = calibrate(ROWS.columns, ROWS.kind, ROWS.correct)


@pytest.fixture(scope="module")
def teller() -> Teller:
    return Teller(Estimator(CALIBRATION, base_tree(Costs(wrong=100.0)), draws=60))


def windows(*alarms: int, n: int = 100) -> np.ndarray:
    cells = CALIBRATION.place({VERDICT: [0.0, 1.0]})
    table = np.zeros((len(alarms), CALIBRATION.cells))
    table[:, cells[0]], table[:, cells[1]] = n - np.array(alarms), alarms
    return table


def test_what_calibration_counted_is_what_the_rows_are(teller):
    alarm, shifted = ROWS.columns[VERDICT] == 1, ROWS.kind == "shifted"
    known = teller.parameters
    assert known["tpr"] == pytest.approx(alarm[shifted].mean())
    assert known["tnr"] == pytest.approx(1 - alarm[~shifted].mean())
    assert known["accuracy_shifted_detected"] == pytest.approx(ROWS.correct[shifted & alarm].mean())
    assert known["accuracy_clean_undetected"] == pytest.approx(ROWS.correct[~shifted & ~alarm].mean())
    assert known["accuracy_clean"] == pytest.approx(ROWS.correct[~shifted].mean())


def test_rogan_gladen_solves_for_the_rate_and_the_tree_takes_it_on(teller):
    told = teller.tell("rogan_gladen", windows(10, 45, 100))
    known = teller.parameters
    fpr = 1 - known["tnr"]
    rate = np.clip((np.array([0.1, 0.45, 1.0]) - fpr) / (known["tpr"] - fpr), 0, 1)
    accuracy = (1 - rate) * known["accuracy_clean"] + rate * known["accuracy_shifted"]
    assert told["rate"].value == pytest.approx(rate)
    assert told["accuracy"].value == pytest.approx(accuracy)
    assert told["risk"].value == pytest.approx(100 * (1 - accuracy))
    assert (told["accuracy"].low <= told["accuracy"].value).all() and (
        told["accuracy"].value <= told["accuracy"].high
    ).all()


@pytest.mark.parametrize("name", ["event_tree", "mean", "rogan_gladen", "bayes", "likelihood", "posterior"])
def test_every_estimator_sees_more_shift_where_there_are_more_alarms(teller, name):
    told = teller.tell(name, windows(10, 45, 75))
    assert (np.diff(told["rate"].value) > 0.1).all()
    assert (np.diff(told["accuracy"].value) < 0).all() and (np.diff(told["risk"].value) > 0).all()
    assert (told["rate"].low <= told["rate"].value).all() and (told["rate"].value <= told["rate"].high).all()


def test_in_two_bins_likelihood_is_rogan_gladen(teller):
    first, second = (teller.tell(name, windows(20, 60))["rate"].value for name in ("likelihood", "rogan_gladen"))
    assert first == pytest.approx(second, abs=0.01)


def test_confidence_tells_an_accuracy_and_a_cost_and_no_rate(teller):
    model = Cbpe.fit([0.5, 0.6, 0.9, 0.95], [False, True, True, True])
    values = np.tile([0.5, 0.9], (1, 50))
    told = teller.tell("cbpe", windows(50), confidences=(model, values))
    assert told["accuracy"].value == pytest.approx(model.estimate(values))
    assert told["risk"].value == pytest.approx(100 * (1 - model.estimate(values)))
    assert np.isnan(told["rate"].value).all()


def test_confidence_knows_no_cost_where_interventions_cost(teller):
    other = Teller(Estimator(CALIBRATION, detector_tree(Costs(wrong=100, necessary=9, unnecessary=9)), draws=20))
    told = other.tell("cbpe", windows(50), confidences=(Cbpe.fit([0.5, 0.9], [0, 1]), np.full((1, 100), 0.9)))
    assert np.isnan(told["risk"].value).all() and not np.isnan(told["accuracy"].value).any()


def test_a_detector_that_says_nothing_of_shift_gives_no_number():
    rows = verdict_rows(Detector(0.5, 0.5), 500, 500, rng=np.random.default_rng(4))
    flipped = np.where(rows.kind == "shifted", np.arange(rows.n) % 2, (np.arange(rows.n) + 1) % 2).astype(float)
    calibration = calibrate({VERDICT: flipped}, rows.kind, rows.correct)
    teller = Teller(Estimator(calibration, base_tree(), draws=20))
    counts = np.bincount(calibration.place({VERDICT: np.ones(50)}), minlength=calibration.cells)[None]
    assert np.isnan(teller.tell("event_tree", counts)["rate"].value).all()
