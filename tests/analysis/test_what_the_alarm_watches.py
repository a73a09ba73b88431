"""The log-odds alone, which an alarm watches, are those of the whole estimate; for trees of right and wrong by a shorter way."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    accuracy_tree,
    answer_costs,
    base_tree,
    detector_tree,
)
from roadworthy.analysis.risk.tree import Tree


def own_tree(clean: tuple[float, float], shifted: tuple[float, float]) -> Tree:
    """Figure 1 in somebody's own words and order."""

    def answer(accuracy: str, costs: tuple[float, float]) -> dict[str, object]:
        wrong, right = {"outcome": "bad", "cost": costs[1]}, {"outcome": "good", "cost": costs[0]}
        return {
            "event": "a",
            "branches": {"no": {"then": wrong}, "yes": {"p": accuracy, "then": right}},
        }

    branches = {
        "fair": {"then": answer("accuracy_clean", clean)},
        "foul": {"p": "p_shift", "then": answer("accuracy_shifted", shifted)},
    }
    return Tree.from_dict({"event": "weather", "branches": branches}, unit="EUR")


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    rng = np.random.default_rng(4)
    kind = np.repeat(["clean", "fog", "snow"], 400)
    shifted = kind != "clean"
    scores = {"a": rng.normal(1.5 * shifted), "b": rng.normal(1.0 * shifted)}
    return fit_calibration(scores, kind, rng.random(1200) < np.where(shifted, 0.5, 0.9))


def test_only_trees_of_right_and_wrong_have_the_costs_of_answers() -> None:
    assert answer_costs(accuracy_tree()) == (0.0, 1.0)
    assert answer_costs(own_tree((2.0, 9.0), (2.0, 9.0))) == (2.0, 9.0)
    assert answer_costs(own_tree((2.0, 9.0), (2.0, 8.0))) is None
    assert answer_costs(detector_tree(POLYP_COSTS)) is None


@pytest.mark.parametrize(
    ("tree", "tolerable"),
    [
        (accuracy_tree(), 0.2),
        (base_tree(POLYP_COSTS), 1925.0),
        (own_tree((2.0, 9.0), (2.0, 9.0)), 4.0),
        (own_tree((2.0, 9.0), (2.0, 8.0)), 4.0),
        (detector_tree(POLYP_COSTS), 1925.0),
    ],
    ids=["accuracy", "base", "own words", "two costs", "detector"],
)
def test_the_log_odds_alone_are_those_of_the_estimate(
    calibration: Calibration, tree: Tree, tolerable: float
) -> None:
    estimator = Estimator(calibration, tree, tolerable=tolerable)
    rng = np.random.default_rng(0)
    clean, fog = (calibration.table[kind].sum(axis=0) / 400 for kind in (0, 1))
    windows = np.array(
        [rng.multinomial(150, (1 - r) * clean + r * fog) for r in np.linspace(0, 1, 25)],
        dtype=float,
    )
    windows[3] = 0.0
    expected = estimator.estimate(windows, shrink=0.7).log_odds
    np.testing.assert_allclose(
        estimator.odds(windows, shrink=0.7).above, expected, rtol=1e-9, atol=1e-9
    )
    assert np.ptp(expected) > 1
