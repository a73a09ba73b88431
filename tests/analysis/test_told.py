"""Estimators side by side on the same windows: each says what its formula says, carried through the tree."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.confidence import Cbpe
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import Costs, base_tree, detector_tree
from roadworthy.analysis.risk.rates import Rates
from roadworthy.analysis.risk.rates.answer import BEYOND_CHANCE, OUTSIDE
from roadworthy.analysis.risk.tree import Branch, Leaf, Node, Tree
from roadworthy.analysis.simulation.estimators import Teller
from roadworthy.analysis.simulation.streams import VERDICT, Detector, verdict_rows
from roadworthy.execution.simulating import simulate
from roadworthy.registry import register, remove
from roadworthy.spec.simulation import Simulation

DETECTOR = Detector(0.8, 0.9, 0.5, 0.95, 0.3, 0.7)
ROWS = verdict_rows(DETECTOR, 3000, 2000, rng=np.random.default_rng(0))
CALIBRATION = calibrate(ROWS.columns, ROWS.kind, ROWS.correct)


@pytest.fixture(scope="module")
def teller() -> Teller:
    return Teller(Estimator(CALIBRATION, base_tree(Costs(wrong=100.0))))


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
    assert known["accuracy_clean_undetected"] == pytest.approx(
        ROWS.correct[~shifted & ~alarm].mean()
    )
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


@pytest.mark.parametrize(
    "name", ["event_tree", "mean", "rogan_gladen", "bayes", "likelihood", "posterior"]
)
def test_every_estimator_sees_more_shift_where_there_are_more_alarms(teller, name):
    told = teller.tell(name, windows(10, 45, 75))
    assert (np.diff(told["rate"].value) > 0.1).all()
    assert (np.diff(told["accuracy"].value) < 0).all() and (np.diff(told["risk"].value) > 0).all()
    assert (told["rate"].low <= told["rate"].value).all() and (
        told["rate"].value <= told["rate"].high
    ).all()


def test_in_two_bins_likelihood_is_rogan_gladen(teller):
    first, second = (
        teller.tell(name, windows(20, 60))["rate"].value for name in ("likelihood", "rogan_gladen")
    )
    assert first == pytest.approx(second, abs=0.01)


def test_confidence_tells_an_accuracy_and_a_cost_and_no_rate(teller):
    model = Cbpe.fit([0.5, 0.6, 0.9, 0.95], [False, True, True, True])
    values = np.tile([0.5, 0.9], (1, 50))
    told = teller.tell("cbpe", windows(50), confidences=(model, values))
    assert told["accuracy"].value == pytest.approx(model.estimate(values))
    assert told["risk"].value == pytest.approx(100 * (1 - model.estimate(values)))
    assert np.isnan(told["rate"].value).all()


def test_confidence_knows_no_cost_where_interventions_cost(teller):
    other = Teller(
        Estimator(CALIBRATION, detector_tree(Costs(wrong=100, necessary=9, unnecessary=9)))
    )
    told = other.tell(
        "cbpe", windows(50), confidences=(Cbpe.fit([0.5, 0.9], [0, 1]), np.full((1, 100), 0.9))
    )
    assert np.isnan(told["risk"].value).all() and not np.isnan(told["accuracy"].value).any()


@pytest.mark.parametrize(
    "name", ["event_tree", "mean", "rogan_gladen", "bayes", "likelihood", "posterior"]
)
def test_a_detector_that_says_nothing_of_shift_gives_no_number_and_the_reason(name):
    rows = verdict_rows(Detector(0.5, 0.5), 500, 500, rng=np.random.default_rng(4))
    flipped = np.where(
        rows.kind == "shifted", np.arange(rows.n) % 2, (np.arange(rows.n) + 1) % 2
    ).astype(float)
    calibration = calibrate({VERDICT: flipped}, rows.kind, rows.correct)
    teller = Teller(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.ones(50)}), minlength=calibration.cells)[
        None
    ]
    told = teller.tell(name, counts)["rate"]
    assert np.isnan(told.value).all() and "do not separate" in (told.reason or "")


@pytest.mark.parametrize("tpr, tnr", [(0.5, 0.5), (0.3, 0.7), (0.48, 0.5)])
def test_verdicts_that_tell_shift_by_chance_alone_are_refused_though_a_best_cut_is_always_above_one(
    tpr, tnr
):
    rows = verdict_rows(Detector(tpr, tnr), 1000, 1000, rng=np.random.default_rng(6))
    calibration = calibrate(rows.columns, rows.kind, rows.correct)
    teller = Teller(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.ones(100)}), minlength=calibration.cells)[
        None
    ]
    assert teller.parameters["tpr"] + teller.parameters["tnr"] >= 1.0
    assert np.isnan(teller.tell("rogan_gladen", counts)["rate"].value).all()


def test_flags_come_with_the_rate(teller):
    told = teller.tell("rogan_gladen", windows(0, 45, 100))
    assert told["rate"].flags[OUTSIDE].tolist() == [True, False, True]
    assert told["rate"].flags[BEYOND_CHANCE].tolist()[1] is False


def test_a_new_estimator_is_told_by_its_name_alone(teller):
    @register("estimators", "half", reads="verdicts")
    def half(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """Half of the alarms."""
        share = counts[:, 1] / counts.sum(axis=1) / 2
        return Rates(share, share, share, confidence, "half")

    try:
        assert teller.tell("half", windows(10, 40))["rate"].value.tolist() == pytest.approx(
            [0.05, 0.2]
        )
        spec = "stream: {detector: {tpr: 0.9, tnr: 0.9}, shift: {constant: 0.2}, events: 200}\nestimators: [half]\n"
        assert set(simulate(Simulation.parse(spec, "half.yaml")).cases[0].errors) == {"half"}
        names = Simulation.model_json_schema()["properties"]["estimators"]["items"]["enum"]
        assert {"half", "event_tree", "cbpe", "rogan_gladen"} <= set(names)
    finally:
        remove("estimators", "half")


def test_scores_in_one_bin_give_no_rate_and_no_error():
    calibration = calibrate({VERDICT: np.zeros(ROWS.n)}, ROWS.kind, ROWS.correct)
    teller = Teller(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.zeros(50)}), minlength=calibration.cells)[
        None
    ]
    assert calibration.shift.bins == 1
    for name in ("rogan_gladen", "bayes", "likelihood", "posterior"):
        assert np.isnan(teller.tell(name, counts)["accuracy"].value).all(), name


def test_the_interval_of_a_cost_that_rises_and_falls_with_the_rate_holds_all_between():
    # 100 p (1 - p): its greatest value lies between the ends of an interval around a half.
    again = Node(
        "again",
        (Branch("yes", "p_shift", Leaf("both", 0.0)), Branch("no", None, Leaf("one", 100.0))),
    )
    tree = Tree(
        Node("shift", (Branch("yes", "p_shift", again), Branch("no", None, Leaf("none", 0.0))))
    )
    told = Teller(Estimator(CALIBRATION, tree)).tell(
        "rogan_gladen", windows(5, 15, 25, 28, 35, 55, n=60)
    )
    rate, risk = told["rate"], told["risk"]
    assert risk.value == pytest.approx(100 * rate.value * (1 - rate.value))
    for low, high, least, most in zip(rate.low, rate.high, risk.low, risk.high, strict=True):
        cost = 100 * np.linspace(low, high, 2001) * (1 - np.linspace(low, high, 2001))
        assert (least, most) == pytest.approx((cost.min(), cost.max()), abs=0.05)


def test_a_constant_that_is_known_by_counts_has_its_mean():
    noticed = Node(
        "noticed",
        (Branch("yes", "p_noticed", Leaf("help", 10.0)), Branch("no", None, Leaf("harm", 100.0))),
    )
    tree = Tree(
        Node(
            "shift",
            (Branch("shifted", "p_shift", noticed), Branch("clean", None, Leaf("none", 0.0))),
        )
    )
    drawn = (10.0, 20.0)
    many, one = (
        Teller(Estimator(CALIBRATION, tree, constants={"p_noticed": p})).tell(
            "mean", windows(20, 60)
        )
        for p in (drawn, 0.5)
    )
    assert many["risk"].value == pytest.approx([11.0, 33.0])
    assert one["risk"].value == pytest.approx([11.0, 33.0])


def test_a_constant_with_the_name_of_what_is_counted_is_refused():
    tree = detector_tree(Costs(wrong=1.0, necessary=0.1, unnecessary=0.3))
    with pytest.raises(ValueError, match=r"tpr, tnr are counted, .* cannot be a constant"):
        Teller(Estimator(CALIBRATION, tree, constants={"tpr": 0.99, "tnr": 0.99}))
