"""The monitor of a run counts the alarms that its report counts: those of the same supervisor, at the same threshold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sorter import SMALL, bundle_of, drawn, laid_out, run

from roadworthy.analysis.risk.refusal import shares_of_kinds
from roadworthy.assessment.assess import Run

COSTS = {"right": 1.0, "wrong": 50.0, "necessary": 8.0, "unnecessary": 10.0}
FAIL_SAFE = (
    ("levels: [1, 3], table: wang}", "levels: [1, 3], table: wang, probability: 0.4}"),
    (
        "supervisors: [max_softmax, deep_gini]",
        f"supervisors: [max_softmax, deep_gini, fused]\nrisk: {{unit: EUR, costs: {json.dumps(COSTS)}}}",
    ),
    ("execution:", "verdicts: {rule: false_positive_rate, rate: 0.2}\nexecution:"),
)

pytestmark = pytest.mark.usefixtures("quick_alarms")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    laid_out(tmp_path)
    np.savez(tmp_path / "calibration.npz", **drawn(600, 2))
    np.savez(tmp_path / "test.npz", **drawn(600, 1))
    return tmp_path


def cases_of(done: Run) -> dict[str, np.ndarray]:
    table = pq.read_table(done.folder / "tables" / "cases.parquet")
    return {name: np.asarray(table[name].to_pylist()) for name in table.column_names}


@pytest.mark.parametrize("supervisor", ["fused", "max_softmax"])
def test_a_stream_of_the_test_cases_costs_what_their_alarms_and_answers_cost(
    user: Path, supervisor: str
) -> None:
    done = run(user, SMALL, *FAIL_SAFE, ("risk: {", f"risk: {{supervisor: {supervisor}, "))
    bundle, cases = bundle_of(done), cases_of(done)
    alarms = bundle.calibration.deployed
    (threshold,) = (
        s.threshold.value
        for s in done.record.sections["supervision"].supervisors
        if s.name == supervisor
    )
    assert alarms is not None and (alarms.name, alarms.threshold) == (supervisor, threshold)
    noisy = (cases["circumstance"] == "noise") & (cases["role"] == "test")
    raised, wrong = (
        cases[supervisor][noisy] > threshold,
        cases["failure"][noisy].astype(bool),
    )
    rows = [[np.sum((wrong == w) & (raised == a)) for a in (0, 1)] for w in (0, 1)]
    shares = shares_of_kinds(bundle.calibration)[1]
    assert shares == pytest.approx(np.array(rows) / len(wrong))
    paid = np.where(
        raised,
        np.where(wrong, COSTS["necessary"], COSTS["unnecessary"]),
        np.where(wrong, COSTS["wrong"], COSTS["right"]),
    )
    columns = {name: cases[name][noisy] for name in bundle.calibration.names}
    cells = bundle.calibration.place(columns)
    found = bundle.estimator.estimate([np.bincount(cells, minlength=bundle.calibration.cells)])
    assert found.risk_low[0] <= paid.mean() <= found.risk_high[0]
    assert found.risk[0] == pytest.approx(paid.mean(), rel=0.1)


def test_where_every_class_has_its_own_threshold_the_monitor_says_whose_alarms_it_takes(
    user: Path,
) -> None:
    done = run(user, SMALL, *FAIL_SAFE, ("rate: 0.2}", "rate: 0.2, per_class: true}"))
    bundle = bundle_of(done)
    assert bundle.calibration.deployed is None
    assert any(
        note.startswith("no supervisor has one threshold for answers of every class")
        for note in bundle.made["notes"]
    )
