"""The paper's trees and its polyp costs: table 6, section 5.3 and figure 12 as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import (
    LIVE_PARAMETERS,
    POLYP_COSTS,
    POLYP_PARAMETERS,
    TOLERABLE_POLYP,
    Costs,
    accuracy_tree,
    answer_costs,
    base_tree,
    cost_tree,
    detector_tree,
    live_parameters,
    refuse_live_constants,
    several_events,
)
from roadworthy.analysis.risk.tree import (
    Branch,
    Leaf,
    Node,
    Tree,
    derivatives,
    endings,
    evaluate,
    expectation,
    worth,
)

BASE, DETECTOR = (
    base_tree(POLYP_COSTS, unit="USD per patient"),
    detector_tree(POLYP_COSTS, unit="USD per patient"),
)
SHIFTED = ("accuracy_shifted_detected", "accuracy_shifted_undetected")
CLEAN = ("accuracy_clean_detected", "accuracy_clean_undetected")


def crossing(tree, limit):
    """The shift rate at which a tree becomes intolerable: the expectation is linear in it."""
    at_none, at_all = (expectation(tree, {**POLYP_PARAMETERS, "p_shift": p}) for p in (0.0, 1.0))
    return (limit - at_none) / (at_all - at_none)


def test_the_costs_are_those_of_table_6():
    endoscopy, missed, opportunity = 635, 6100, 50
    assert POLYP_COSTS.right == endoscopy and POLYP_COSTS.wrong == endoscopy + missed
    assert POLYP_COSTS.unnecessary - POLYP_COSTS.necessary == opportunity
    assert {(leaf.outcome, leaf.cost) for _, leaf in endings(DETECTOR)} == {
        ("right answer", 635),
        ("wrong answer", 6735),
        ("necessary intervention", 1905),
        ("unnecessary intervention", 1955),
    }


def test_the_tolerable_risk_is_that_of_always_asking_a_clinician():
    # With an alarm on every case the tree costs between 1905 and 1955, whatever the classifier does.
    always = {**POLYP_PARAMETERS, "tpr": 1.0, "tnr": 0.0, "p_shift": 0.5}
    assert 1905 <= expectation(DETECTOR, always) <= 1955
    always |= dict.fromkeys((*SHIFTED, *CLEAN), 0.4)
    assert expectation(DETECTOR, always) == pytest.approx(TOLERABLE_POLYP)


def test_the_base_tree_is_equation_2():
    p, clean, shifted = 0.3, 0.91, 0.31
    given = {"p_shift": p, "accuracy_clean": clean, "accuracy_shifted": shifted}
    assert 1 - expectation(accuracy_tree(), given) == pytest.approx((1 - p) * clean + p * shifted)
    assert expectation(BASE, given) == pytest.approx(
        635 + 6100 * ((1 - p) * (1 - clean) + p * (1 - shifted))
    )
    assert accuracy_tree().unit == "wrong answers per case"


def test_the_detector_tree_is_figure_2():
    given = {"p_shift": 0.3, "tpr": 0.8, "tnr": 0.7}
    given |= dict(zip((*SHIFTED, *CLEAN), (0.2, 0.4, 0.6, 0.9), strict=True))
    found = {leaf.path: leaf.probability for leaf in evaluate(DETECTOR, given).leaves}
    assert found == pytest.approx(
        {
            ("shifted", "detected", "right"): 0.3 * 0.8 * 0.2,
            ("shifted", "detected", "wrong"): 0.3 * 0.8 * 0.8,
            ("shifted", "undetected", "right"): 0.3 * 0.2 * 0.4,
            ("shifted", "undetected", "wrong"): 0.3 * 0.2 * 0.6,
            ("clean", "detected", "right"): 0.7 * 0.3 * 0.6,
            ("clean", "detected", "wrong"): 0.7 * 0.3 * 0.4,
            ("clean", "undetected", "right"): 0.7 * 0.7 * 0.9,
            ("clean", "undetected", "wrong"): 0.7 * 0.7 * 0.1,
        }
    )


def test_a_monitor_knows_every_parameter_of_the_built_in_trees():
    assert set(BASE.parameters) | set(DETECTOR.parameters) == set(LIVE_PARAMETERS)
    assert set(POLYP_PARAMETERS) | {"p_shift"} == set(LIVE_PARAMETERS)


def test_the_systems_become_intolerable_where_figure_11_says():
    assert crossing(BASE, TOLERABLE_POLYP) == pytest.approx(0.4, abs=0.02)
    assert crossing(DETECTOR, TOLERABLE_POLYP) == pytest.approx(0.9, abs=0.03)
    balanced = (POLYP_PARAMETERS["tpr"] + POLYP_PARAMETERS["tnr"]) / 2
    assert balanced == pytest.approx(0.75)  # kNN on polyps in table 3


def test_derivatives_of_the_detector_tree_in_closed_form():
    given = {**POLYP_PARAMETERS, "p_shift": 0.3}
    slopes = derivatives(DETECTOR, given)
    right, wrong, necessary, unnecessary = 635, 6735, 1905, 1955
    alarm, silent = 0.62 * unnecessary + 0.38 * necessary, 0.62 * right + 0.38 * wrong
    clean_alarm, clean_silent = 0.9 * unnecessary + 0.1 * necessary, 0.9 * right + 0.1 * wrong
    assert slopes["tpr"] == pytest.approx(0.3 * (alarm - silent))
    assert slopes["tnr"] == pytest.approx(0.7 * (clean_silent - clean_alarm))
    assert slopes["accuracy_shifted_undetected"] == pytest.approx(0.3 * 0.04 * (right - wrong))
    assert slopes["accuracy_clean_detected"] == pytest.approx(
        0.7 * 0.46 * (unnecessary - necessary)
    )
    shifted, clean = 0.96 * alarm + 0.04 * silent, 0.46 * clean_alarm + 0.54 * clean_silent
    assert slopes["p_shift"] == pytest.approx(shifted - clean)


def test_under_shift_a_point_of_the_detector_is_worth_more_than_one_of_the_classifier():
    # Figure 12. In closed form: (silent - alarm) / (6100 * missed - 50 * caught), at every rate of shift.
    for p in (0.1, 0.5, 0.9):
        saved = worth(DETECTOR, {**POLYP_PARAMETERS, "p_shift": p}, ["tpr"], SHIFTED)
        expected = (0.62 * 635 + 0.38 * 6735 - 0.62 * 1955 - 0.38 * 1905) / (
            6100 * 0.04 - 50 * 0.96
        )
        assert saved[0] / saved[1] == pytest.approx(expected) and expected > 5
    # Both rates of the detector against the classifier everywhere: it holds where shift is frequent, and not where most data
    # are clean. The paper does not say at which rate its figure was made.
    rates = np.linspace(0.0, 1.0, 101)
    sides = ("tpr", "tnr"), (*SHIFTED, *CLEAN)
    saved = [worth(DETECTOR, {**POLYP_PARAMETERS, "p_shift": p}, *sides) for p in rates]
    points = [detector / classifier for detector, classifier in saved]
    assert points[90] == pytest.approx(1.96, abs=0.01)
    assert rates[np.argmax(np.array(points) > 1.0)] == pytest.approx(0.76)
    assert np.all(np.diff(points) > 0)


def test_a_sweep_over_both_accuracies_is_one_call():
    detector, classifier = np.linspace(0.5, 1.0, 11)[:, None], np.linspace(0.5, 1.0, 6)
    given = {"p_shift": 0.9, "tpr": detector, "tnr": detector} | dict.fromkeys(
        (*SHIFTED, *CLEAN), classifier
    )
    found = expectation(DETECTOR, given)
    assert found.shape == (11, 6)
    one = {k: float(np.broadcast_to(v, (11, 6))[3, 4]) for k, v in given.items()}
    assert found[3, 4] == pytest.approx(expectation(DETECTOR, one))


def test_events_that_exclude_each_other():
    events = ("shift", "adversarial", "ambiguous", "module_failure")
    tree = several_events(events, Costs(wrong=100.0))
    assert {
        "p_shift",
        "accuracy_shifted",
        "accuracy_clean",
        "p_module_failure",
        "accuracy_module_failed",
    } <= set(tree.parameters)
    shares, right = (0.2, 0.1, 0.05, 0.02), (0.6, 0.1, 0.5, 0.0)
    given = {f"p_{e}": p for e, p in zip(events, shares, strict=True)}
    names = ("shifted", "adversarial", "ambiguous", "module_failed")
    given |= {f"accuracy_{n}": a for n, a in zip(names, right, strict=True)} | {
        "accuracy_clean": 0.9
    }
    expected = 100 * (
        sum(p * (1 - a) for p, a in zip(shares, right, strict=True)) + (1 - sum(shares)) * 0.1
    )
    assert expectation(tree, given) == pytest.approx(expected)


def test_events_that_may_meet():
    tree = several_events(("shift", "adversarial"), successive=True)
    given = {"p_shift": 0.3, "p_adversarial": 0.1, "accuracy_clean": 0.9, "accuracy_shifted": 0.6}
    given |= {"accuracy_adversarial": 0.2, "accuracy_shifted_adversarial": 0.1}
    expected = 0.7 * 0.9 * 0.1 + 0.3 * 0.9 * 0.4 + 0.7 * 0.1 * 0.8 + 0.3 * 0.1 * 0.9
    assert expectation(tree, given) == pytest.approx(expected)
    assert len(list(endings(tree))) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"events": ()}, "one or more distinct events"),
        ({"events": ("shift", "shift")}, "one or more distinct events"),
        (
            {"events": ("a", "a_b", "b"), "successive": True},
            "a, a_b, b make a parameter that has another meaning",
        ),
        (
            {"events": ("shift", "shifted")},
            "branches with distinct names",
        ),
        (
            {"events": ("shift", "detected"), "successive": True},
            "another meaning already; rename one",
        ),
        (
            {"events": ("clean_detected",)},
            "another meaning already; rename one",
        ),
    ],
)
def test_events_that_make_no_tree_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        several_events(**arguments)


def test_parameters_from_counts_give_back_the_mean_cost_of_the_counted_rows():
    clean, shifted = (
        np.array([[50, 12], [6, 9]]),
        np.array([[5, 20], [7, 31]]),
    )  # right, wrong x no alarm, alarm
    found = live_parameters(clean, shifted)
    n = clean.sum() + shifted.sum()
    costs = np.array([[635, 1955], [6735, 1905]])
    mean = ((clean + shifted) * costs).sum() / n
    assert expectation(DETECTOR, {**found, "p_shift": shifted.sum() / n}) == pytest.approx(mean)
    wrong = (clean + shifted)[1].sum() / n
    assert expectation(accuracy_tree(), {**found, "p_shift": shifted.sum() / n}) == pytest.approx(
        wrong
    )


def test_costs_alone_choose_the_tree():
    assert cost_tree({"wrong": 7}) == base_tree(Costs(wrong=7))
    assert cost_tree({"missed": 7, "referred": 3}) == detector_tree(
        Costs(wrong=7, necessary=3, unnecessary=3)
    )
    assert cost_tree({"missed": 7, "referred": 3, "false_alarm": 1}) == detector_tree(
        Costs(0, 7, 3, 1)
    )
    with pytest.raises(
        ValueError, match="'missed' is another word for an outcome that is there already"
    ):
        cost_tree({"wrong": 7, "missed": 3})
    with pytest.raises(
        ValueError, match=r"outcome 'rong' \(did you mean 'wrong'\?\); outcomes are"
    ):
        cost_tree({"rong": 3})


@pytest.mark.parametrize("name", LIVE_PARAMETERS)
def test_no_constant_carries_the_name_of_what_is_counted(name):
    refuse_live_constants(["p_noticed", "accuracy_attacked"])
    refuse_live_constants(["p_noticed", name], but=(name,))
    with pytest.raises(
        ValueError, match=f"{name} is counted, on cases and in the stream, and cannot be a constant"
    ):
        refuse_live_constants(["p_noticed", name])


@pytest.mark.parametrize("attacked", [0.05, (49.5, 999.0)])
def test_a_tree_of_several_events_that_exclude_each_other_can_be_monitored(attacked):
    rng = np.random.default_rng(0)
    shifted = np.repeat([0, 1], 300)
    right = rng.random(600) < np.where(shifted, 0.5, 0.9)
    calibration = fit_calibration(
        {"s": rng.normal(2.0 * shifted)}, np.where(shifted, "fog", "clean"), right
    )
    constants = {"p_adversarial": attacked, "accuracy_adversarial": 0.2}
    tree = several_events(("shift", "adversarial"))
    estimator = Estimator(calibration, tree, constants=constants, tolerable=0.3)
    tables = [rng.normal(2.0 * rate, size=100) for rate in (0.0, 1.0)]
    windows = np.stack(
        [np.bincount(calibration.place({"s": t}), minlength=calibration.cells) for t in tables]
    )
    found = estimator.estimate(windows)
    assert (
        found.log_odds == pytest.approx(estimator.odds(windows).above)
        and found.log_odds[0] < 0 < found.log_odds[1]
    )
    assert (found.risk_low < found.risk).all() and (found.risk < found.risk_high).all()
    # At a rate of 0.97 an event in twenty is an attack, and all others are shifted.
    assert estimator.forecast(0.97)[0] == pytest.approx(0.95 * 0.5 + 0.05 * 0.8, abs=0.06)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_tree_with_a_third_branch_has_not_the_form_of_figure_1(order):
    base = base_tree().root.branches
    dear = Branch("dear", "p_shift", Leaf("dear", 50.0))
    tree = Tree(Node("shift", tuple([*base, dear][i] for i in order)))
    assert answer_costs(BASE) == (635.0, 6735.0) and answer_costs(DETECTOR) is None
    assert answer_costs(tree) is None and answer_costs(Tree(Node("shift", base))) == (0.0, 1.0)
    given = {"accuracy_shifted": 0.5, "accuracy_clean": 0.9, "p_shift": np.array([0.106, 0.5, 1.0])}
    # Both kinds of shift at the rate of shift, each; above a half they share all there is.
    assert expectation(tree, given) == pytest.approx([0.106 * 50.5 + 0.788 * 0.1, 25.25, 25.25])


@pytest.mark.parametrize("events", [("a", "b", "a_b_c"), ("shift", "adversarial", "ambiguous")])
def test_every_parameter_of_successive_events_stands_for_one_thing(events):
    tree = several_events(events, successive=True)
    assert len(tree.parameters) == 3 + 2**3
