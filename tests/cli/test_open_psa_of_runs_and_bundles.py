"""Open-PSA export at the command line: of a run and of a bundle; what its tree costs is told by the XML alone."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_risk
import sample_run
from test_open_psa import sequences

from roadworthy.analysis.risk.tree import expectation
from roadworthy.monitor import Bundle


def cost(text: str) -> float:
    return math.fsum(p * c for p, c in sequences(text).values())


def test_the_event_tree_of_a_run_is_exported_beside_it_or_to_standard_output(cli, tmp_path):
    folder = sample_run.build(tmp_path / "run", "risky")
    said = cli("report", folder, "--format", "open_psa")
    written = folder / "risk.open-psa.xml"
    assert said.code == 0 and said.out.strip() == str(written)
    found = sample_risk.sample()
    assert cost(written.read_text()) == pytest.approx(found.value)
    document = Xml.fromstring(written.read_text())
    assert (
        document.tag == "opsa-mef"
        and len(document.findall("define-event-tree/define-sequence")) == 8
    )
    labels = " ".join(e.text or "" for e in document.iter("label"))
    assert "USD per patient" in labels and "shifted > detected: tpr" in labels
    assert cli("report", folder, "--format", "open_psa", "--out", "-").out == written.read_text()


def test_a_run_without_costs_has_no_tree_to_export_and_says_what_to_add(cli, tmp_path):
    folder = sample_run.build(tmp_path / "run", "plain")
    said = cli("report", folder, "--format", "open_psa")
    assert said.code == 2 and "no event tree to export" in said.err


@pytest.mark.usefixtures("quick_alarms")
def test_the_event_tree_of_a_bundle_is_exported_with_what_was_calibrated(cli, tmp_path):
    rng = np.random.default_rng(0)
    rows = [("clean", rng.random() < 0.95, rng.normal()) for _ in range(150)]
    rows += [("fog", rng.random() < 0.4, rng.normal(3.0)) for _ in range(80)]
    scores = tmp_path / "scores.csv"
    scores.write_text(
        "kind,correct,energy\n" + "".join(f"{k},{int(right)},{e:.4f}\n" for k, right, e in rows)
    )
    costs = ("--cost", "right=635", "--cost", "wrong=6735", "--unit", "EUR per patient")
    assert cli("calibrate", scores, *costs, "--out", tmp_path / "lesion.bundle.json").code == 0
    bundle = Bundle.load(tmp_path / "lesion.bundle.json")
    said = cli("report", tmp_path / "lesion.bundle.json", "--format", "open_psa")
    written = tmp_path / "lesion.risk.open-psa.xml"
    assert said.code == 0 and said.out.strip() == str(written)
    found = bundle.estimator.parameters_at(bundle.forecast.rate)
    assert cost(written.read_text()) == pytest.approx(expectation(bundle.tree, found))
    assert cost(written.read_text()) == pytest.approx(bundle.forecast.risk, rel=0.02)
    accuracy = bundle.calibration.accuracy("clean")
    assert any(
        p == pytest.approx(accuracy, abs=0.02)
        for p, c in sequences(written.read_text()).values()
        if c == 635
    )
    wrong = cli("report", tmp_path / "lesion.bundle.json")
    assert wrong.code == 2 and "--format open_psa" in wrong.err


def test_the_help_of_the_command_names_the_export(cli):
    said = cli("report", "--help").out
    assert "open_psa" in said and "event tree" in said
    assert "open_psa" in cli("list", "reports").out
