"""Outcomes and costs that look swapped are warned of, wherever figures of the bundle are shown; what may be meant is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    accuracy_tree,
    base_tree,
    cost_tree,
    detector_tree,
)
from roadworthy.analysis.risk.tree import Tree
from roadworthy.cli.other_way_round import LOOKS, costs_reversed, outcomes_reversed
from roadworthy.data.scores import ScoreTable
from roadworthy.monitor.bundle import Bundle

pytestmark = pytest.mark.usefixtures("quick_alarms")


def table_of(right: dict[str, float], rows: int = 400, *, group: bool = False) -> ScoreTable:
    """Rows of each kind, of which just this share is right."""
    kind = np.repeat(list(right), rows)
    correct = np.concatenate([np.arange(rows) < share * rows for share in right.values()])
    groups = np.concatenate([np.arange(rows) * 4 // rows for _ in right]) if group else None
    return ScoreTable({}, kind, correct, groups, None, None, "t.csv", len(kind))


def test_clean_rows_that_are_right_least_often_look_swapped():
    said = outcomes_reversed(table_of({"clean": 0.08, "fog": 0.5, "night": 0.4}))
    assert said is not None and LOOKS in said
    assert "right in 8.0% of the clean rows and in 45.0% of the shifted ones" in said


@pytest.mark.parametrize(
    "right",
    [
        {"clean": 0.92, "fog": 0.5, "night": 0.6},
        {"clean": 0.5, "fog": 0.52, "night": 0.53},  # by chance
        {"clean": 0.5, "fog": 0.9, "night": 0.3},  # an easy kind, and a hard one
    ],
)
def test_what_chance_or_one_easy_kind_explains_is_not_warned_of(right):
    assert outcomes_reversed(table_of(right)) is None


def test_four_patients_are_no_four_hundred_rows():
    right = {"clean": 0.5, "fog": 0.65}
    assert outcomes_reversed(table_of(right)) is not None
    assert outcomes_reversed(table_of(right, group=True)) is None


def test_a_wrong_answer_that_costs_less_than_a_right_one_looks_swapped():
    for costs in (
        {"right": 10, "wrong": 1},
        {"wrong": -5},
        {"right": 9, "wrong": 2, "necessary": 3},
    ):
        said = costs_reversed(cost_tree(costs))
        assert (
            said is not None
            and f"a right answer costs {costs.get('right', 0)} and a wrong one {costs['wrong']}"
            in said
        )
    leaf = {"outcome": "found", "cost": 5}, {"outcome": "missed", "cost": 1}
    kinds = {
        k: {
            "event": "answer",
            "branches": {
                "right": {"p": f"accuracy_{k}", "then": leaf[0]},
                "wrong": {"then": leaf[1]},
            },
        }
        for k in ("shifted", "clean")
    }
    branches = {
        "shifted": {"p": "p_shift", "then": kinds["shifted"]},
        "clean": {"then": kinds["clean"]},
    }
    assert (
        costs_reversed(Tree.from_dict({"unit": "EUR", "event": "shift", "branches": branches}))
        is not None
    )


def test_costs_the_usual_way_and_gains_by_right_answers_are_not_warned_of():
    for tree in (
        accuracy_tree(),
        base_tree(POLYP_COSTS),
        detector_tree(POLYP_COSTS),
        cost_tree({"right": -3, "wrong": 0}),
    ):
        assert costs_reversed(tree) is None


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    lines = ["kind,correct,wrong,knn"]
    for kind, shift, right in (("clean", 0.0, 0.92), ("fog", 2.5, 0.5), ("night", 2.0, 0.6)):
        for _ in range(300):
            good = int(rng.random() < right)
            lines.append(f"{kind},{good},{1 - good},{rng.normal(shift):.4f}")
    path = tmp_path_factory.mktemp("swapped") / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "options", [("--correct", "wrong"), ("--cost", "right=10", "--cost", "wrong=1")]
)
def test_it_is_said_by_calibrate_replay_and_the_monitor_without_the_advice_to_tolerate_more(
    cli, table, tmp_path, options
):
    from roadworthy.monitor import Events, Monitor

    out = tmp_path / "b.json"
    said = cli("calibrate", table, "--score", "knn", *options, "--out", out)
    assert said.code == 0
    warnings = [line for line in said.out.splitlines() if line.startswith("warning: ")]
    assert LOOKS in warnings[0] and "raise the tolerable" not in said.out
    bundle = Bundle.load(out)
    assert sum(LOOKS in w for w in bundle.warnings) == 1
    (tmp_path / "s.csv").write_text(
        "\n".join(["knn", *(f"{i % 7 / 4}" for i in range(200))]) + "\n"
    )
    assert any(
        LOOKS in w
        for w in json.loads(cli("replay", out, tmp_path / "s.csv", "--json").out)["warnings"]
    )
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"knn": np.zeros(120)}))
    assert any(LOOKS in note for note in monitor.risk().notes)


def test_a_table_the_right_way_round_makes_no_such_warning(cli, table, tmp_path):
    out = tmp_path / "b.json"
    assert LOOKS not in cli("calibrate", table, "--score", "knn", "--out", out).out
    assert not any(LOOKS in w for w in Bundle.load(out).warnings)
