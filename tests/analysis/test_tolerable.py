"""What a share of each kind of shift costs, against sums over the calibration's rows that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator, costs_of
from roadworthy.analysis.risk.prototypes import accuracy_tree, cost_tree
from roadworthy.analysis.risk.tree import expectation


def test_what_a_share_of_a_kind_costs_is_the_mean_of_its_rows_and_the_clean_ones(of_three):
    estimator = Estimator(of_three, accuracy_tree(), tolerable=0.15)
    for kind, cost in costs_of(estimator, 0.3).items():
        wrong = 0.7 * (1 - of_three.accuracy("clean")) + 0.3 * (1 - of_three.accuracy(kind))
        assert cost == pytest.approx(wrong)
    assert set(costs_of(estimator, 0.3)) == {"fog", "rain"}


def test_a_tree_with_an_alarm_is_costed_by_what_the_best_cut_tells(of_three):
    tree = cost_tree({"right": 0.0, "wrong": 10.0, "necessary": 3.0, "unnecessary": 4.0})
    assert "tpr" in tree.parameters
    estimator = Estimator(of_three, tree, tolerable=1.0)
    found = costs_of(estimator, 1.0)["fog"]
    bins = of_three.by_bin(of_three.table)[list(of_three.kinds).index("fog")]
    cut = estimator.separation.cut
    known = {
        "p_shift": 1.0,
        "tpr": bins[:, cut:].sum() / bins.sum(),
        "tnr": 0.5,
        "accuracy_shifted": bins[0].sum() / bins.sum(),
        "accuracy_shifted_detected": bins[0, cut:].sum() / bins[:, cut:].sum(),
        "accuracy_shifted_undetected": bins[0, :cut].sum() / bins[:, :cut].sum(),
    }
    given = {name: float(known.get(name, 0.5)) for name in tree.parameters}
    assert found == pytest.approx(float(np.asarray(expectation(tree, given))))


def test_answers_that_are_added_count_beside_the_independent_rows(of_three):
    known = Estimator(of_three, accuracy_tree()).parameters_at(0.3)
    right = {kind: (1000 * of_three.accuracy(kind) + 0.5) / 1001 for kind in of_three.kinds}
    assert known == pytest.approx(
        {
            "p_shift": 0.3,
            "accuracy_clean": right["clean"],
            "accuracy_shifted": (right["fog"] + right["rain"]) / 2,
        }
    )
    kind = np.repeat(["clean", "fog"], 400)
    outcomes, groups = np.ones(800, dtype=bool), np.arange(800) // 40
    scores = np.random.default_rng(0).normal(3.0 * (kind != "clean")) + np.repeat(
        np.linspace(-1.0, 1.0, 20), 40
    )
    grouped = fit_calibration({"energy": scores}, kind, outcomes, groups=groups)
    wrong = 1.0 - Estimator(grouped, accuracy_tree()).parameters_at(0.0)["accuracy_clean"]
    assert wrong == pytest.approx(0.5 / (grouped.effective[0] + 1))
