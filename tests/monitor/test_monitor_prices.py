"""What a labelled answer costs where that depends on shift, which no label tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.analysis.risk.alarmed_cells import alarms_of_rows
from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.prototypes import detector_tree, several_events
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.prices import Tariff, tariff

DEAR_SHIFTED, DEAR_CLEAN = {"shifted": 100.0, "clean": 10.0}, {"shifted": 20.0, "clean": 100.0}
"""What a wrong answer costs; a right one costs 1."""


def answer(accuracy: str, wrong: float) -> dict[str, Any]:
    outcomes = {"right": {"p": accuracy, "then": {"outcome": "right", "cost": 1.0}}}
    return {
        "event": "answer",
        "branches": outcomes | {"wrong": {"then": {"outcome": "wrong", "cost": wrong}}},
    }


def tree_of(wrong: dict[str, float]) -> Tree:
    shifted, clean = (answer(f"accuracy_{kind}", wrong[kind]) for kind in ("shifted", "clean"))
    return Tree.from_dict(
        {
            "event": "shift",
            "branches": {"shifted": {"p": "p_shift", "then": shifted}, "clean": {"then": clean}},
        }
    )


class World:
    """Events of a detector of AUC 0.8: of clean ones 97% are right, of shifted ones 40%."""

    def __init__(self, n: int, rate: float, seed: int) -> None:
        rng = np.random.default_rng([seed, n])
        self.shifted = rng.random(n) < rate
        self.scores = rng.normal(1.2 * self.shifted)
        self.right = rng.random(n) < np.where(self.shifted, 0.4, 0.97)

    def costs(self, wrong: dict[str, float]) -> np.ndarray:
        return np.where(self.right, 1.0, np.where(self.shifted, wrong["shifted"], wrong["clean"]))


@pytest.fixture(scope="module")
def weak() -> Calibration:
    clean, fog = World(3000, 0.0, 1), World(3000, 1.0, 2)
    scores, right = (
        np.concatenate([getattr(part, name) for part in (clean, fog)])
        for name in ("scores", "right")
    )
    return calibrate({"energy": scores}, np.repeat(["clean", "fog"], 3000), right)


@pytest.mark.parametrize("wrong", [DEAR_SHIFTED, DEAR_CLEAN])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_a_price_is_the_mean_cost_of_events_with_that_verdict_and_outcome(weak, wrong, rate):
    bundle = Bundle.compile(weak, tree_of(wrong), subject="s", windows=Windows((100,)))
    world = World(200_000, rate, 3)
    costs, alarm = world.costs(wrong), alarms_of_rows(weak, {"energy": world.scores})
    prices = Tariff.of(bundle).prices(bundle, rate)
    for detected in (0, 1):
        for right in (0, 1):
            some = costs[(alarm == detected) & (world.right == right)]
            assert prices.table[detected, right] == pytest.approx(some.mean(), rel=0.12)
            assert prices.variance[detected, right] == pytest.approx(some.var(), rel=0.35)


def test_all_prices_together_cost_what_the_tree_does(weak):
    bundle = Bundle.compile(weak, tree_of(DEAR_SHIFTED), subject="s", windows=Windows((100,)))
    found = Tariff.of(bundle)
    for rate in (0.0, 0.3, 1.0):
        share = (1.0 - rate) * found.likely[0] + rate * found.likely[1]
        assert share.sum() == pytest.approx(1.0)
        expected = expectation(bundle.tree, bundle.estimator.parameters_at(rate))
        assert float((share * found.table(rate)).sum()) == pytest.approx(expected, rel=1e-6)


def test_a_cost_that_does_not_depend_on_shift_is_one_price_at_every_rate(weak):
    tree = detector_tree({"right": 0.1, "wrong": 10.3, "necessary": 1.7, "unnecessary": 2.9})
    bundle = Bundle.compile(weak, tree, subject="s", windows=Windows((100,)))
    found = Tariff.of(bundle)
    for rate in (0.0, 0.2, 1.0):
        prices = found.prices(bundle, rate)
        assert prices.table == pytest.approx(np.array([[10.3, 0.1], [1.7, 2.9]]))
        assert np.array_equal(prices.table, found.table(0.5)) and not prices.variance.any()


def test_a_wrong_answer_is_the_likelier_of_another_event_the_more_of_these_are_wrong():
    """Of clean events a tenth is adversarial: 80% of these are wrong and cost 50, and 5% of the others, which cost 10."""
    tree = several_events(["shift", "adversarial"], {"right": 0.0, "wrong": 10.0})
    content = tree.to_dict()
    content["branches"]["adversarial"]["then"]["branches"]["wrong"]["then"]["cost"] = 50.0
    rows = np.array([[0.95, 0.0], [0.05, 0.0]])
    constants = {"p_adversarial": 0.1, "accuracy_adversarial": 0.2}
    found = tariff(Tree.from_dict(content), constants, rows, rows).table(0.0)
    assert found[0] == pytest.approx([(0.08 * 50.0 + 0.045 * 10.0) / 0.125, 0.0])


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6])
def test_of_events_beside_shift_there_is_as_much_as_the_tree_says(weak, rate):
    """A third is adversarial, and looks like nobody knows what: prices are those of all wrong answers, whatever their verdict."""
    content = several_events(["shift", "adversarial"], {"right": 0.0, "wrong": 10.0}).to_dict()
    content["branches"]["adversarial"]["then"]["branches"]["wrong"]["then"]["cost"] = 20.0
    content["branches"]["shifted"]["then"]["branches"]["wrong"]["then"]["cost"] = 100.0
    constants = {"p_adversarial": 0.3, "accuracy_adversarial": 0.2}
    bundle = Bundle.compile(
        weak, Tree.from_dict(content), subject="s", constants=constants, windows=Windows((100,))
    )
    clean, shifted = (1.0 - weak.accuracy(kind) for kind in weak.kinds)
    wrong = np.array([(0.7 - rate) * clean, 0.3 * 0.8, rate * shifted])
    found = Tariff.of(bundle).table(rate)
    assert found[:, 0] == pytest.approx(2 * [wrong @ [10.0, 20.0, 100.0] / wrong.sum()], rel=0.01)
    assert found[:, 1] == pytest.approx([0.0, 0.0])


def test_a_label_says_whether_the_answer_was_right_and_not_whether_its_reader_was():
    """Of wrong answers a reader catches four in five; which, no label tells."""
    caught = {"yes": {"p": "accuracy_reader", "then": {"outcome": "caught", "cost": 5.0}}}
    reader = {
        "event": "reader",
        "branches": caught | {"no": {"then": {"outcome": "missed", "cost": 100.0}}},
    }
    right = {"p": "accuracy_clean", "then": {"outcome": "right", "cost": 0.0}}
    tree = Tree.from_dict(
        {"event": "answer", "branches": {"right": right, "wrong": {"then": reader}}}
    )
    rows = np.array([[0.9, 0.0], [0.1, 0.0]])
    found = tariff(tree, {"accuracy_reader": 0.8}, rows, rows)
    assert found.table(0.3)[0] == pytest.approx([0.8 * 5.0 + 0.2 * 100.0, 0.0])
    assert found.variance[:, 0] == pytest.approx(np.array(2 * [[0.8 * 0.2 * 95.0**2, 0.0]]))
    assert not found.settled


def test_an_outcome_before_which_nobody_asks_whether_the_answer_was_right_is_as_likely_whatever_it_was():
    def then(kind: str, wrong: float) -> dict[str, Any]:
        seen = {"yes": {"p": "p_seen", "then": {"outcome": "seen", "cost": 5.0}}}
        return {
            "event": "seen",
            "branches": seen | {"no": {"then": answer(f"accuracy_{kind}", wrong)}},
        }

    branches = {
        "shifted": {"p": "p_shift", "then": then("shifted", 100.0)},
        "clean": {"then": then("clean", 10.0)},
    }
    rows = np.array([[0.9, 0.0], [0.1, 0.0]])
    found = tariff(
        Tree.from_dict({"event": "shift", "branches": branches}), {"p_seen": 0.7}, rows, rows[::-1]
    )
    assert found.costs[:, 0] == pytest.approx(
        np.array([[0.7 * 5 + 0.3 * 10, 0.7 * 5 + 0.3], [33.5, 3.8]])
    )
    assert found.shifted(0.5)[0] == pytest.approx([0.9, 0.1], rel=1e-6)


def test_counts_for_a_constant_are_priced_as_the_estimator_takes_them(weak):
    tree = Tree.from_dict(
        {
            "event": "answer",
            "branches": {
                "right": {"p": "accuracy_clean", "then": {"outcome": "right", "cost": 0.0}},
                "wrong": {
                    "then": {
                        "event": "noticed",
                        "branches": {
                            "yes": {"p": "p_noticed", "then": {"outcome": "noticed", "cost": 0.0}},
                            "no": {"then": {"outcome": "wrong", "cost": 100.0}},
                        },
                    }
                },
            },
        }
    )
    bundle = Bundle.compile(
        weak, tree, subject="s", constants={"p_noticed": (0.0, 4.0)}, windows=Windows((100,))
    )
    # Of none in four the posterior mean is a tenth (Jeffreys).
    assert Tariff.of(bundle).table(0.2)[:, 0] == pytest.approx([90.0, 90.0], abs=0.1)
    assert bundle.estimator.parameters_at(0.2)["p_noticed"] == pytest.approx(0.1, abs=0.001)


def test_answers_of_which_none_was_wrong_or_none_raised_an_alarm_have_prices():
    scores = np.concatenate([np.linspace(0.0, 1.0, 100), np.linspace(2.0, 3.0, 100)])
    sure = calibrate({"energy": scores}, np.repeat(["clean", "fog"], 100), np.ones(200, dtype=bool))
    bundle = Bundle.compile(sure, tree_of(DEAR_SHIFTED), subject="s", windows=Windows((100,)))
    for rate in (0.0, 0.5, 1.0):
        table = Tariff.of(bundle).table(rate)
        assert (table[:, 0] >= 10.0 - 1e-6).all() and (table[:, 0] <= 100.0 + 1e-6).all()
        assert table[:, 1] == pytest.approx([1.0, 1.0])


def labelled(
    bundle: Bundle, world: World, probability: float, *, at_once: int | None = None
) -> Monitor:
    """All events, labels of such a share of them, and looks after so many."""
    monitor, n = Monitor(bundle), len(world.scores)
    drawn = np.random.default_rng(n).random(n) < probability
    for start in range(0, n, at_once or n):
        numbers = np.arange(start, min(start + (at_once or n), n))
        monitor.update(
            Events(numbers, numbers.astype(float), columns={"energy": world.scores[numbers]})
        )
        labels = [
            (int(i), bool(world.right[i]), probability, None, None) for i in numbers[drawn[numbers]]
        ]
        monitor.label_all(labels, look=at_once is not None)
    return monitor


@pytest.mark.parametrize("wrong", [DEAR_SHIFTED, DEAR_CLEAN])
@pytest.mark.parametrize("probability", [1.0, 0.2])
def test_what_labels_say_of_the_cost_holds_what_events_cost_by_whether_they_were_shifted(
    weak, wrong, probability
):
    bundle = Bundle.compile(weak, tree_of(wrong), subject="s", windows=Windows((500,)))
    held, beyond, truths = 0, [], []
    for seed in range(40):
        world = World(500, (0.0, 0.1, 0.3, 0.7)[seed % 4], 100 + seed)
        audited, truth = (
            labelled(bundle, world, probability).risk(500).audited,
            world.costs(wrong).mean(),
        )
        held += audited.risk_low - 1e-9 <= truth <= audited.risk_high + 1e-9
        beyond.append(audited.risk - truth)
        truths.append(truth)
    assert binom.cdf(held, 40, 0.95) > 0.01, held
    assert abs(np.mean(beyond)) < 0.1 * np.mean(truths)


@pytest.mark.parametrize(
    ("wrong", "streams"), [(DEAR_SHIFTED, {0.2: True, 0.08: False}), (DEAR_CLEAN, {0.3: False})]
)
def test_the_alarm_by_labels_rings_by_what_answers_cost_where_that_depends_on_shift(
    weak, wrong, streams
):
    """Events cost 13 where 10 is tolerable, or about 6."""
    bundle = Bundle.compile(
        weak, tree_of(wrong), subject="s", tolerable=10.0, windows=Windows((1000,))
    )
    for rate, rings in streams.items():
        world = World(5000, rate, 5)
        assert (
            (world.costs(wrong).mean() > 12.5) if rings else (5.5 < world.costs(wrong).mean() < 6.6)
        )
        monitor = labelled(bundle, world, 1.0, at_once=500)
        assert monitor.alarm_by_labels == rings == any(alarm.by_labels for alarm in monitor.alarms)
