"""Risk in a run: the event tree's cost is the mean cost of the counted cases, and a claim on it is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.assessment import assess as assessing
from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.observations import Observations
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import RunFolder

pytestmark = pytest.mark.usefixtures("no_monitor")

FILE = """\
name: sorter
subject: {{task: classification, python: subject.py:predict}}
data:
  test: {{npz: test.npz, columns: [site]}}
  calibration: {{npz: calibration.npz, columns: [site]}}
circumstances:
  noise: {{transform: gaussian_noise, levels: [1, 3], table: wang, probability: 0.2}}
  site_b: {{where: {{site: B}}, probability: 0.1}}
supervisors: [max_softmax, deep_gini]
{risk}
claims:
{claims}
execution: {{chunk: 80}}
"""
SUBJECT = """\
import math


def predict(image):
    x = (float(image.mean()) - 128) / 30
    p = 1 / (1 + math.exp(-x))
    return [1 - p, p]
"""
COSTS = {"right": 10.0, "wrong": 1000.0, "necessary": 200.0, "unnecessary": 150.0}
WRITTEN = "{right: 10, wrong: 1000, necessary: 200, unnecessary: 150}"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    for role, n in (("test", 160), ("calibration", 200)):
        labels = rng.integers(0, 2, n)
        level = np.where(labels == 1, 160, 96) + rng.normal(0, 25, n)
        images = np.clip(level[:, None, None] + rng.normal(0, 20, (n, 8, 8)), 0, 255).astype(
            np.uint8
        )
        np.savez(
            tmp_path / f"{role}.npz",
            images=images,
            labels=labels,
            site=np.where(np.arange(n) % 4 == 0, "B", "A"),
        )
    (tmp_path / "subject.py").write_text(SUBJECT)
    return tmp_path


def run(user: Path, risk: str, *claims: str) -> Run:
    text = FILE.format(risk=risk, claims="\n".join(f"  - {c}" for c in claims) or "  []")
    return assess(Assessment.parse(text, user / "assessment.yaml"))


def mean_costs(done: Run, supervisor: str = "") -> dict[str, float]:
    """The mean cost of the cases of each kind, from the table of cases and the recorded threshold."""
    cases = RunFolder.open(done.folder).cases()
    table = {
        name: np.asarray(cases[name]) for name in ("circumstance", "level", "failure", "sample")
    }
    cost = np.where(table["failure"], COSTS["wrong"], COSTS["right"])
    if supervisor:
        record = next(
            s
            for s in done.record.plain()["sections"]["supervision"]["supervisors"]
            if s["name"] == supervisor
        )
        alarm = ~(np.asarray(cases[supervisor]) <= float(record["threshold"]["value"]))
        cost = np.where(
            alarm, np.where(table["failure"], COSTS["necessary"], COSTS["unnecessary"]), cost
        )
    clean = table["circumstance"] == ""
    site_b = clean & (np.array([int(s) for s in table["sample"]]) % 4 == 0)
    noise = [
        cost[(table["circumstance"] == "noise") & (table["level"] == level)].mean()
        for level in (1, 3)
    ]
    return {
        "clean": cost[clean & ~site_b].mean(),
        "site_b": cost[site_b].mean(),
        "noise": float(np.mean(noise)),
    }


def expected(means: dict[str, float]) -> float:
    return 0.7 * means["clean"] + 0.1 * means["site_b"] + 0.2 * means["noise"]


def test_the_risk_without_a_supervisor_is_the_mean_cost_by_circumstance(user: Path) -> None:
    done = run(
        user,
        "risk: {unit: EUR per case, costs: {right: 10, wrong: 1000}, tolerable: 300}",
        "{id: R, risk: {max: 5000}}",
    )
    found = done.finding("risk")
    assert found.value == pytest.approx(expected(mean_costs(done)))
    assert found.interval is not None and found.interval.low < found.value < found.interval.high
    assert done.verdict == "met" and done.claims[0].claim.text == "risk at most 5,000 EUR per case"
    record = json.loads((done.folder / "run.json").read_text())["sections"]["risk"]
    assert record["value"] == pytest.approx(found.value) and record["tolerable"] == 300
    assert expectation(Tree.from_dict(record["tree"]), record["parameters"]) == pytest.approx(
        found.value
    )
    assert (done.folder / "risk.open-psa.xml").read_text().count("<define-sequence") == 4
    assert [(k["name"], round(k["probability"], 3), k["n"]) for k in record["kinds"]] == [
        ("clean", 0.7, 120),
        ("noise@1", 0.1, 160),
        ("noise@3", 0.1, 160),
        ("site_b", 0.1, 40),
    ]


def test_the_risk_with_a_supervisor_counts_its_alarms(user: Path) -> None:
    asked = f"risk: {{unit: EUR per case, costs: {WRITTEN}, supervisor: deep_gini}}"
    done = run(user, asked, "{id: R, risk: {max: 1}}", "{id: S, risk: {max: 999}}")
    assert done.finding("risk").value == pytest.approx(expected(mean_costs(done, "deep_gini")))
    assert done.record.plain()["sections"]["risk"]["supervisor"] == "deep_gini"
    assert [c.status for c in done.claims] == ["breached", "met"]
    first = run(user, asked.replace(", supervisor: deep_gini", ""))
    assert first.record.plain()["sections"]["risk"]["supervisor"] == "max_softmax"
    assert any("alarms are those of max_softmax" in note for note in first.record.notes)


def test_losses_stand_in_the_classes_that_the_file_asks_for(user: Path) -> None:
    asked = f"risk: {{unit: EUR per case, costs: {WRITTEN}, supervisor: deep_gini, loss_bins: [100, 500]}}"
    record = run(user, asked).record.plain()["sections"]["risk"]
    assert [(c["low"], c["high"]) for c in record["loss_bins"]] == [
        (None, 100),
        (100, 500),
        (500, None),
    ]
    outcomes = [{leaf["outcome"] for leaf in c["leaves"]} for c in record["loss_bins"]]
    assert outcomes == [
        {"right answer"},
        {"necessary intervention", "unnecessary intervention"},
        {"wrong answer"},
    ]
    assert record["loss_bins"][0]["adds"] == pytest.approx(
        record["outcomes"]["right answer"]["adds"]
    )
    assert record["scored_by"] == "deep_gini"
    for part in ("loss_bins", "loss_by_score"):
        assert sum(c["adds"] for c in record[part]) == pytest.approx(record["value"])
        assert sum(c["probability"] for c in record[part]) == pytest.approx(1.0)


def test_losses_are_told_without_edges_and_by_a_score_that_calls_nobody(user: Path) -> None:
    record = run(
        user, "risk: {unit: EUR per case, costs: {right: 10, wrong: 1000}}"
    ).record.plain()["sections"]["risk"]
    assert [(c["low"], c["high"]) for c in record["loss_bins"]] == [(10, 10), (1000, 1000)]
    assert record["supervisor"] == "" and record["scored_by"] == "max_softmax"
    dear, cheap = record["loss_by_score"][-1], record["loss_by_score"][0]
    assert dear["wrong"] > cheap["wrong"] and dear["expected_loss"] == pytest.approx(
        10 + 990 * dear["wrong"]
    )


def test_a_stated_rate_of_shift_scales_the_circumstances(user: Path) -> None:
    done = run(
        user, "risk: {unit: EUR, costs: {right: 10, wrong: 1000}, constants: {p_shift: 0.6}}"
    )
    means = mean_costs(done)
    assert done.finding("risk").value == pytest.approx(
        0.4 * means["clean"] + 0.2 * means["site_b"] + 0.4 * means["noise"]
    )


def test_without_probabilities_there_is_a_reason_instead_of_a_risk(user: Path) -> None:
    text = FILE.format(risk="risk: {unit: EUR, costs: {wrong: 1}}", claims="  []").replace(
        ", probability: 0.2", ""
    )
    done = assess(
        Assessment.parse(text.replace(", probability: 0.1", ""), user / "assessment.yaml")
    )
    assert done.record.plain()["sections"]["risk"]["because"].startswith(
        "no circumstance has a probability; give them one"
    )
    assert (done.folder / "report.html").is_file() and not (
        done.folder / "risk.open-psa.xml"
    ).exists()
    assert not any(f.quantity == "risk" for f in done.record.findings)


def test_a_supervisor_without_verdicts_leaves_the_claim_open(user: Path) -> None:
    text = FILE.format(
        risk=f"risk: {{unit: EUR, costs: {WRITTEN}, supervisor: deep_gini}}\nverdicts: {{rule: false_positive_rate, rate: 0.0051}}",
        claims="  - {id: R, risk: {max: 5}}",
    )
    done = assess(Assessment.parse(text, user / "assessment.yaml"))
    assert (
        done.claims[0].status == "inconclusive"
        and "deep_gini has no threshold" in done.claims[0].why
    )


def test_where_nothing_can_be_wrong_there_is_no_risk(user: Path) -> None:
    with np.load(user / "test.npz") as kept:
        np.savez(
            user / "lights.npz", images=kept["images"], labels=kept["labels"].astype(np.float64)
        )
    text = """\
subject: {task: regression, python: subject.py:predict}
data: {test: {npz: lights.npz}}
risk: {unit: EUR, costs: {wrong: 1}}
"""
    (user / "subject.py").write_text("def predict(image):\n    return [image.mean() / 255]\n")
    with pytest.raises(SpecError, match="risk: is about failures"):
        assess(Assessment.parse(text, user / "assessment.yaml"))


def test_a_circumstance_that_occurs_and_was_not_observed_is_not_costed_as_clean(
    user: Path, monkeypatch
) -> None:
    observe = assessing.observe_all

    def without_noise(*given: object, **more: object) -> Observations:
        seen = observe(*given, **more)
        return replace(seen, seen=[s for s in seen.seen if s.condition.circumstance != "noise"])

    monkeypatch.setattr(assessing, "observe_all", without_noise)
    done = run(user, "risk: {unit: EUR, costs: {wrong: 1}}", "{id: R, risk: {max: 0.9}}")
    assert (
        "there are no cases of noise to count" in done.record.plain()["sections"]["risk"]["because"]
    )
    assert done.claims[0].status == "inconclusive" and not any(
        f.quantity == "risk" for f in done.record.findings
    )
