"""The study of coverage: both printed bounds hold where they claim to, and its table says so."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

STUDY = Path(__file__).resolve().parents[2] / "studies" / "reliability" / "coverage.py"
# By path and under another name: a study is no package, and `coverage` is one of its own.
_spec = importlib.util.spec_from_file_location("reliability_coverage", STUDY)
_study = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_study)
PROBLEMS, TABLE, repetition, rows = (
    _study.PROBLEMS,
    _study.TABLE,
    _study.repetition,
    _study.rows,
)


def study(name: str, repetitions: int) -> dict[str, dict[str, object]]:
    found = [repetition(name, 1000 + seed, paper=False) for seed in range(repetitions)]
    return {str(row["bound"]): row for row in rows(name, found)}


@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"curve"}))
def test_the_truth_of_a_problem_is_the_failing_share_of_many_draws(name):
    world = PROBLEMS[name].world
    points, _ = world.draw(np.random.default_rng(9), 400_000 // getattr(world, "frames", 1))
    share = (world.truth(points) != world.answer(points)).mean()
    assert share == pytest.approx(world.pmi(), rel=0.08)


def test_both_bounds_hold_on_four_clusters():
    found = study("four clusters", 60)
    for bound in ("without assumptions", "if separated", "corrected"):
        assert found[bound]["passes"] == "yes"
    assert float(found["if separated"]["gain"]) > 1.2
    assert float(found["if separated"]["contradicted"]) == 0


def test_where_separation_is_violated_the_check_says_so_and_the_first_line_holds():
    found = study("islands", 40)
    assert float(found["if separated"]["coverage"]) < 0.9
    assert float(found["if separated"]["contradicted"]) > 0.95
    assert found["without assumptions"]["passes"] == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"curve"}))
def test_every_bound_that_claims_coverage_has_it(name):
    assert {row["passes"] for row in study(name, 150).values()} <= {"yes", "no claim"}


@pytest.fixture(scope="module")
def table() -> list[dict[str, str]]:
    with TABLE.open() as file:
        return list(csv.DictReader(file))


def test_the_committed_table_has_every_problem_and_no_bound_below_nominal(table):
    assert {row["problem"] for row in table} == set(PROBLEMS)
    for row in table:
        assert row["repetitions"] == "400"
        covered = round(float(row["coverage"]) * 400)
        nominal = binom.cdf(covered, 400, 0.975) > 0.01
        assert row["passes"] in ("no claim", "yes" if nominal else "no")
        if row["bound"] in ("without assumptions", "if separated") and row["r-separated"] == "yes":
            assert row["passes"] == "yes"


def test_at_least_half_of_the_problems_can_show_a_bound_that_fails(table):
    expected = {row["problem"]: float(row["expected failures"]) for row in table}
    assert sum(number > 5 for number in expected.values()) >= len(expected) / 2
