"""Where nobody said whose alarms call a person, they are the shift score's, and answers with and without one are counted apart."""

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import Costs, accuracy_tree, detector_tree
from roadworthy.analysis.risk.refusal import alarmed_cells

COSTS = Costs(right=1.0, wrong=40.0, necessary=8.0, unnecessary=5.0)
TREE = detector_tree(COSTS)
RATES = (0.0, 0.1, 0.3, 0.7)


def stream(
    shifted: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores, and how likely each answer is right: failures lie where the detector raises its alarms, clean ones too."""
    energy = rng.normal(4.0 * shifted)
    others = {name: rng.normal(1.5 * shifted) + 0.3 * energy for name in ("knn", "blur")}
    return {"energy": energy, **others}, np.where(energy < 2.0, 0.99, 0.3)


def learned(rows: int, seed: int) -> Calibration:
    rng = np.random.default_rng(seed)
    shifted = np.repeat([False, True], rows)
    scores, chance = stream(shifted, rng)
    return fit_calibration(scores, np.where(shifted, "fog", "clean"), rng.random(2 * rows) < chance)


def cost(calibration: Calibration, scores: dict[str, np.ndarray], chance: np.ndarray) -> float:
    """What events cost on average whose answers are right with these probabilities."""
    raised = alarmed_cells(calibration)[calibration.place(scores)]
    right = np.where(raised, COSTS.unnecessary, COSTS.right)
    wrong = np.where(raised, COSTS.necessary, COSTS.wrong)
    return float((chance * right + (1.0 - chance) * wrong).mean())


@pytest.mark.parametrize("rows", [300, 2000])
def test_alarms_that_catch_failures_are_told_at_what_they_cost_and_as_forecast(rows):
    calibrations = 16
    told, true, forecast, held = (np.empty((calibrations, len(RATES))) for _ in range(4))
    for seed in range(calibrations):
        estimator, rng = Estimator(learned(rows, seed), TREE), np.random.default_rng([seed, 1])
        for i, rate in enumerate(RATES):
            scores, chance = stream(rng.random(20_000) < rate, rng)
            cells = estimator.calibration.place(scores)[:1000]
            found = estimator.estimate(np.bincount(cells, minlength=estimator.calibration.cells))
            told[seed, i], true[seed, i] = (
                found.risk[0],
                cost(estimator.calibration, scores, chance),
            )
            forecast[seed, i] = estimator.forecast(rate)[0]
            held[seed, i] = found.risk_low[0] <= true[seed, i] <= found.risk_high[0]
    assert (told / forecast).mean(axis=0) == pytest.approx(1.0, abs=0.03)
    assert (told / true).mean(axis=0) == pytest.approx(
        1.0, abs=0.05
    )  # the calibrations' own luck is in it
    assert held.mean() >= 0.9


def test_what_a_cell_means_is_counted_with_and_without_an_alarm():
    """Figures by labels rest on it: clean events with an alarm are right less often than their bin of being right says."""
    estimator, rng = Estimator(learned(3000, 0), TREE), np.random.default_rng(1)
    calibration = estimator.calibration
    scores, chance = stream(np.zeros(20_000, dtype=bool), rng)
    cells, on = calibration.place(scores), alarmed_cells(calibration)
    believed = estimator.believe(np.bincount(cells[:1000], minlength=calibration.cells))[cells]
    for raised in (True, False):
        some = on[cells] == raised
        assert believed[some].mean() == pytest.approx(
            chance[some].mean(), abs=0.05 if raised else 0.005
        )


def test_a_tree_that_asks_for_alarms_changes_no_rate_and_no_answer_of_one_that_does_not():
    calibration = learned(300, 3)
    plain, priced = Estimator(calibration, accuracy_tree()), Estimator(calibration, TREE)
    scores, _ = stream(np.arange(500) < 100, np.random.default_rng(4))
    counts = np.bincount(calibration.place(scores), minlength=calibration.cells)
    by_answers, by_alarms = plain.estimate(counts), priced.estimate(counts)
    for name in ("rate", "rate_low", "rate_high"):
        assert getattr(by_answers, name) == getattr(by_alarms, name)
    assert by_answers.accuracy == pytest.approx(by_alarms.accuracy, abs=0.02)
