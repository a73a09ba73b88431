"""The expected cost of an assessed system: closed forms for its value, exact bounds where they exist, coverage elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.analysis.risk.expected_cost import CountedCases, assess_risk
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    Costs,
    accuracy_tree,
    base_tree,
    detector_tree,
)
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.claims import Claim, judge
from roadworthy.statistics import clopper_pearson

HUNDRED = base_tree(Costs(wrong=100.0), unit="EUR per case")
DETECTOR = detector_tree(POLYP_COSTS, unit="USD per patient")
COSTS = np.array([635.0, 1955.0, 6735.0, 1905.0])


def rows(name, probability, counts, clusters=None):
    cell = np.repeat(np.arange(4), counts)
    return CountedCases(name, probability, cell >= 2, cell % 2 == 1, clusters)


def test_the_cost_is_the_mean_cost_of_the_cases_weighted_by_the_circumstances():
    clean, fog, snow = (
        rows("clean", 0.7, [80, 4, 6, 10]),
        rows("fog", 0.2, [20, 30, 15, 35]),
        rows("snow", 0.1, [1, 2, 3, 4]),
    )
    found = assess_risk(DETECTOR, clean, [fog, snow])
    means = [k.counts @ COSTS / k.counts.sum() for k in (clean, fog, snow)]
    assert found.value == pytest.approx(0.7 * means[0] + 0.2 * means[1] + 0.1 * means[2])
    assert found.values["p_shift"] == pytest.approx(0.3)
    assert found.values["tpr"] == pytest.approx((0.2 * 0.65 + 0.1 * 0.6) / 0.3)
    assert found.n == 210 and found.design_effect == 1.0
    record = found.to_dict(0.95, tolerable=1925.0)
    assert sum(o["adds"] for o in record["outcomes"].values()) == pytest.approx(found.value)
    assert (
        Tree.from_dict(record["tree"]) == DETECTOR
        and expectation(DETECTOR, record["parameters"]) == found.value
    )
    h = 1e-7
    for name, slope in record["slopes"].items():
        ahead = expectation(DETECTOR, found.values | {name: found.values[name] - h})
        assert slope == pytest.approx((found.value - ahead) / h / 100, rel=1e-4, abs=1e-4)


def test_with_one_kind_the_bounds_are_those_of_clopper_and_pearson():
    for wrong, n in ((0, 60), (3, 200), (200, 200)):
        found = assess_risk(
            HUNDRED,
            CountedCases("clean", 1.0, np.arange(n) < wrong),
            [],
            constants={"p_shift": 0.0},
        )
        upper, lower = found.interval(0.95, "upper"), found.interval(0.95, "lower")
        assert upper.high == pytest.approx(
            100 * clopper_pearson(wrong, n, sided="upper").high, rel=0.03, abs=1e-9
        )
        assert lower.low == pytest.approx(
            100 * clopper_pearson(wrong, n, sided="lower").low, rel=0.03, abs=1e-9
        )
        assert upper.low == -math.inf and lower.high == math.inf


def test_the_same_answers_in_fewer_groups_say_less():
    rng = np.random.default_rng(0)
    wrong = np.repeat(rng.random(40) < 0.2, 25)
    apart = assess_risk(HUNDRED, CountedCases("clean", 1.0, wrong), [], constants={"p_shift": 0.0})
    grouped = assess_risk(
        HUNDRED,
        CountedCases("clean", 1.0, wrong, None, np.repeat(np.arange(40), 25)),
        [],
        constants={"p_shift": 0.0},
    )
    assert grouped.value == apart.value
    assert grouped.design_effect == pytest.approx(25, rel=0.05)
    of_groups = clopper_pearson(int(wrong[::25].sum()), 40, sided="upper").high
    assert grouped.interval(0.95, "upper").high >= 100 * of_groups * 0.98
    never = CountedCases("clean", 1.0, np.zeros(1000, bool), None, np.repeat(np.arange(40), 25))
    bound = assess_risk(HUNDRED, never, [], constants={"p_shift": 0.0}).interval(0.95, "upper").high
    assert bound == pytest.approx(100 * clopper_pearson(0, 40, sided="upper").high, rel=0.02)


def test_one_sample_under_many_circumstances_is_not_many_samples():
    wrong = np.random.default_rng(1).random(300) < 0.1
    names = [f"s{i}" for i in range(300)]
    kinds = [CountedCases(f"c{i}", 0.1, wrong, None, names) for i in range(10)]
    found = assess_risk(HUNDRED, CountedCases("clean", 0.0, wrong, None, names), kinds)
    one = assess_risk(HUNDRED, CountedCases("clean", 1.0, wrong), [], constants={"p_shift": 0.0})
    assert found.value == pytest.approx(one.value)
    assert found.design_effect == pytest.approx(10, rel=0.01)
    assert found.interval(0.95, "upper").high >= one.interval(0.95, "upper").high


def test_constants_are_numbers_or_counts():
    content = {
        "event": "shift",
        "branches": {
            "shifted": {
                "p": "p_shift",
                "then": {
                    "event": "noticed",
                    "branches": {
                        "yes": {"p": "p_noticed", "then": {"outcome": "stop", "cost": 1}},
                        "no": {"then": {"outcome": "crash", "cost": 1000}},
                    },
                },
            },
            "clean": {"then": {"outcome": "fine", "cost": 0}},
        },
    }
    tree, clean = Tree.from_dict(content), CountedCases("clean", 0.9, np.zeros(50, bool))
    sure = assess_risk(
        tree, clean, [CountedCases("fog", 0.1, np.ones(9, bool))], constants={"p_noticed": 0.9}
    )
    assert sure.value == pytest.approx(
        0.1 * (0.9 + 100)
    ) and sure.interval().width == pytest.approx(0.0, abs=1e-9)
    unsure = assess_risk(
        tree,
        clean,
        [CountedCases("fog", 0.1, np.ones(9, bool))],
        constants={"p_noticed": (89.5, 99.0)},
    )
    assert unsure.value == pytest.approx(sure.value)
    drawn = 0.1 * (1000 - 999 * np.random.default_rng(9).beta(90, 10, 200_000))
    found = unsure.interval(0.9)
    assert (found.low, found.high) == pytest.approx(
        tuple(np.quantile(drawn, [0.05, 0.95])), rel=0.02
    )
    assert unsure.exceedance(float(np.quantile(drawn, 0.75))) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("shifted", "constants", "message"),
    [
        ([("fog", 0.1, [0, 0, 0, 0])], {}, "there are no cases of fog to count"),
        ([], {"p_shift": 0.1}, "no circumstance measures accuracy_shifted"),
    ],
)
def test_what_cannot_be_counted_is_refused(shifted, constants, message):
    with pytest.raises(ValueError, match=message):
        assess_risk(
            HUNDRED,
            rows("clean", 0.5, [9, 0, 1, 0]),
            [rows(*s) for s in shifted],
            constants=constants,
        )


def test_a_parameter_that_nobody_tells_is_named():
    content = {
        "event": "e",
        "branches": {
            "a": {"p": "p_brakes", "then": {"outcome": "x", "cost": 1}},
            "b": {"then": {"outcome": "y", "cost": 0}},
        },
    }
    with pytest.raises(KeyError, match="p_brakes"):
        assess_risk(Tree.from_dict(content), rows("clean", 1.0, [9, 0, 1, 0]), [])


def test_conditions_that_were_not_seen_are_noted():
    found = assess_risk(
        DETECTOR, rows("clean", 0.9, [9, 0, 1, 0]), [rows("fog", 0.1, [0, 5, 0, 5])]
    )
    conditions = [note.partition(":")[0] for note in found.notes]
    assert conditions == ["no case was clean and detected", "no case was shifted and undetected"]
    # What was not seen may still be: the upper bound counts one such row where it costs most.
    assert found.interval(0.95, "upper").high > found.value
    assert found.finding(0.95).assumptions[1:] == found.notes


FAIL_SAFE = detector_tree(
    Costs(right=0.0, wrong=100.0, necessary=10.0, unnecessary=50.0), unit="EUR per case"
)


def test_a_point_of_a_detector_that_never_erred_is_worth_what_the_first_errors_cost():
    """An alarm costs 50 on a right answer and 10 on a wrong one, none costs 100 on a wrong one: at 95 right of 100 clean answers
    a false alarm more costs 48 instead of 5, and at 4 right of 10 shifted ones a miss costs 60 instead of 26."""
    never = assess_risk(
        FAIL_SAFE, rows("clean", 0.8, [950, 0, 50, 0]), [rows("fog", 0.2, [0, 200, 0, 300])]
    )
    assert never.slopes()["tnr"] == pytest.approx(-0.01 * 0.8 * (48.0 - 5.0))
    assert never.slopes()["tpr"] == pytest.approx(-0.01 * 0.2 * (60.0 - 26.0))
    assert never.values["accuracy_clean_detected"] == 0.95, "as of all clean answers"
    assert never.value == pytest.approx(0.8 * 5.0 + 0.2 * 26.0)
    few = assess_risk(
        FAIL_SAFE, rows("clean", 0.8, [945, 5, 50, 0]), [rows("fog", 0.2, [2, 198, 3, 297])]
    )
    for name in ("tpr", "tnr"):
        assert never.slopes()[name] == pytest.approx(few.slopes()[name], rel=0.1)


def test_alarms_of_a_circumstance_that_never_occurs_tell_nothing_of_one_that_does():
    never = rows("snow", 0.0, [10, 0, 0, 0])
    found = assess_risk(
        FAIL_SAFE, rows("clean", 0.8, [9, 1, 1, 1]), [rows("fog", 0.2, [0, 200, 0, 300]), never]
    )
    assert found.slopes()["tpr"] == pytest.approx(-0.01 * 0.2 * (60.0 - 26.0))
    assert [note.partition(":")[0] for note in found.notes] == [
        "no case was shifted and undetected"
    ]


def test_without_a_circumstance_nobody_knows_what_a_point_of_shift_costs():
    clean = rows("clean", 1.0, [90, 0, 10, 0])
    found = assess_risk(HUNDRED, clean, [], constants={"p_shift": 0.0})
    assert found.slopes() == {
        "p_shift": None,
        "accuracy_clean": pytest.approx(-1.0),
        "accuracy_shifted": 0.0,
    }
    assert [note.partition(":")[0] for note in found.notes] == ["no case was shifted"]
    assert found.value == pytest.approx(10.0)


def test_a_point_of_the_detector_is_weighed_against_one_of_the_classifier():
    """By differences: both rates of the detector a little up, then all accuracies, as figure 12 of the paper has it."""
    counts = [945, 25, 20, 10], [100, 150, 50, 200]
    found = assess_risk(FAIL_SAFE, rows("clean", 0.8, counts[0]), [rows("fog", 0.2, counts[1])])
    h, saved = 1e-6, []
    for moved in (
        [n for n in found.values if n in ("tpr", "tnr")],
        [n for n in found.values if "accuracy" in n],
    ):
        more = {name: value + h * (name in moved) for name, value in found.values.items()}
        saved.append(0.01 * (found.value - expectation(FAIL_SAFE, more)) / h)
    record = found.to_dict(0.95)["worth"]
    assert (record["saved_by_detector"], record["saved_by_classifier"]) == pytest.approx(
        saved, rel=1e-4
    )
    assert record["points"] == pytest.approx(saved[0] / saved[1], rel=1e-4) and record[
        "detector"
    ] == ["tpr", "tnr"]


def test_a_detector_that_costs_more_than_it_saves_is_not_told_in_points_of_the_classifier():
    dear = detector_tree(Costs(right=0.0, wrong=1.0, necessary=90.0, unnecessary=0.0))
    found = assess_risk(dear, rows("clean", 0.1, [90, 0, 5, 5]), [rows("fog", 0.9, [1, 1, 49, 49])])
    record = found.to_dict(0.95)["worth"]
    assert (
        record["saved_by_detector"] < 0 < record["saved_by_classifier"] and record["points"] is None
    )
    assert (
        assess_risk(
            HUNDRED, rows("clean", 1.0, [9, 0, 1, 0]), [], constants={"p_shift": 0.0}
        ).to_dict(0.95)["worth"]
        is None
    )


def test_a_claim_on_risk_is_met_breached_or_inconclusive():
    found = assess_risk(
        DETECTOR, rows("clean", 0.9, [900, 20, 30, 50]), [rows("fog", 0.1, [200, 300, 100, 400])]
    ).evidence()
    assert found.value == pytest.approx(0.9 * 907.9 + 0.1 * 2149.0)
    for limit, status in ((1925.0, "met"), (900.0, "breached"), (1040.0, "inconclusive")):
        judged = judge(Claim("R", "risk", limit, "max"), [found])
        assert judged.status == status
    settle = judge(Claim("R", "risk", 1040.0, "max"), [found]).members[0].cases_to_settle
    assert settle is not None and settle > 2000


def simulate(tree, truth, *, groups, per_group, spread, kinds, repeats, seed):
    """How often the upper and the lower 95% bound hold, where groups differ and samples recur under every circumstance."""
    rng = np.random.default_rng(seed)
    held = np.zeros(2, dtype=int)
    for _ in range(repeats):
        drawn = []
        n = groups * per_group
        luck = np.repeat(rng.normal(0, spread, groups), per_group) + rng.normal(0, 0.7, n)
        names = np.repeat(np.arange(groups), per_group)
        for i, (weight, wrong, alarm) in enumerate(kinds):
            own = luck + rng.normal(0, 0.7, n)
            scale = math.hypot(spread, math.hypot(0.7, 0.7))
            limit = scale * float(_quantile(1 - wrong))
            drawn.append(CountedCases(f"k{i}", weight, own > limit, rng.random(n) < alarm, names))
        found = assess_risk(tree, drawn[0], drawn[1:], seed=int(rng.integers(1 << 30)))
        held += (
            found.interval(0.95, "upper").high >= truth,
            found.interval(0.95, "lower").low <= truth,
        )
    return held


def _quantile(p):
    from scipy.special import ndtri

    return ndtri(p)


@pytest.mark.slow
@pytest.mark.parametrize("groups, per_group, spread", [(300, 1, 0.0), (40, 10, 0.7), (15, 20, 0.5)])
@pytest.mark.parametrize("wrong", [0.01, 0.15])
def test_the_bounds_cover_as_often_as_they_say(groups, per_group, spread, wrong):
    kinds = [(0.8, wrong, 0.1), (0.15, min(3 * wrong, 0.5), 0.6), (0.05, min(4 * wrong, 0.6), 0.8)]
    truth = sum(
        w * np.array([(1 - e) * (1 - a), (1 - e) * a, e * (1 - a), e * a]) @ COSTS
        for w, e, a in kinds
    )
    repeats = 400
    held = simulate(
        DETECTOR,
        truth,
        groups=groups,
        per_group=per_group,
        spread=spread,
        kinds=kinds,
        repeats=repeats,
        seed=7,
    )
    least = binom.ppf(0.01, repeats, 0.95)
    assert (held >= least).all(), (held / repeats, least / repeats)


def test_the_accuracy_tree_gives_the_share_of_wrong_answers():
    found = assess_risk(
        accuracy_tree(), rows("clean", 0.5, [6, 0, 4, 0]), [rows("fog", 0.5, [2, 0, 8, 0])]
    )
    assert found.value == pytest.approx(0.6)
