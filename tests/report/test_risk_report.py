"""The section on risk: the tree, its numbers in words, what a point is worth; and runs without one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import sample_risk
import sample_run
from roadworthy.report.run_view import ReportError

from roadworthy.analysis.risk.tree import evaluate, expectation
from roadworthy.report import RunView
from roadworthy.report.html import html
from roadworthy.report.json_report import json_report, schema
from roadworthy.report.numbers import value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_run.build(tmp_path_factory.mktemp("risk") / "run", "risky")


def test_the_tree_stands_in_a_section_of_its_own_with_its_numbers(folder: Path) -> None:
    page = html(RunView.open(folder))
    section = re.search(r'<section id="risk">.*?</section>', page, re.DOTALL)
    assert section and '<a href="#risk">Risk</a>' in page
    text = section[0]
    found = sample_risk.sample()
    assert (
        f"{found.value:,.0f} USD per patient" in text
        and "1,925 is tolerable. The probability that it costs more is below 0.01%." in text
    )
    assert (
        "Alarms are those of fused." in text
        and 'id="figure-risk"' in text
        and "necessary intervention" in text
    )
    for name in found.tree.parameters:
        assert f"<b>{name}</b>" in text.replace("<wbr>", "")
    assert "clean cases that raise none" in text and "fog@3" in text
    assert "HAZ-12" in page and "what a case is expected to cost" in page


def test_classes_of_loss_stand_in_tables_of_outcomes_and_of_scores(folder: Path) -> None:
    page = html(RunView.open(folder))
    tables = {
        name: re.search(rf'<table id="{name}">.*?</table>', page, re.DOTALL)
        for name in ("loss-bins", "loss-by-score")
    }
    rows = {
        name: re.findall(r"<tr><td.*?</tr>", found[0]) for name, found in tables.items() if found
    }
    cells = [re.findall(r">([^<>]+)<", row) for row in rows["loss-bins"]]
    assert [row[0] for row in cells] == ["below 1,000", "1,000 to 5,000", "5,000 or more"]
    found = sample_risk.sample()
    wrong = evaluate(found.tree, found.values).by_outcome()["wrong answer"]
    assert (
        cells[2][1]
        == "wrong answer: shifted &gt; undetected &gt; wrong; clean &gt; undetected &gt; wrong"
    )
    assert cells[2][2:] == [value(wrong[0], "percent"), "6,735", value(wrong[1])]
    assert len(rows["loss-by-score"]) > 1 and "here of fused" in page


def test_a_run_of_before_classes_of_loss_is_still_rendered(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "run.json").read_text())["risk"]
    for part in ("loss_bins", "loss_by_score", "scored_by"):
        del record[part]
    page = html(changed(folder, tmp_path, record))
    assert 'id="figure-risk"' in page and "loss-bins" not in page


def test_what_changes_the_cost_most_comes_first(folder: Path) -> None:
    risk = RunView.open(folder).risk
    assert risk is not None and risk.tree is not None
    slopes = [abs(p.slope or 0.0) for p in risk.by_worth]
    assert slopes == sorted(slopes, reverse=True)
    assert expectation(risk.tree, {p.name: p.value for p in risk.parameters}) == pytest.approx(
        risk.value
    )


def section_of(page: str) -> str:
    found = re.search(r'<section id="risk">.*?</section>', page, re.DOTALL)
    assert found
    return found[0]


def test_a_point_of_the_detector_is_told_in_points_of_the_classifier(
    folder: Path, tmp_path: Path
) -> None:
    record = json.loads((folder / "run.json").read_text())["risk"]
    worth = record["worth"]
    assert (
        f"One more point of the detector's balanced accuracy (tpr and tnr alike) saves {value(worth['saved_by_detector'])} USD per "
        f"patient, as much as {value(worth['points'])} points of the classifier's accuracy: one of these, in every condition, "
        f"saves {value(worth['saved_by_classifier'])}."
    ) in html(RunView.open(folder)).replace("&#39;", "'")
    turned = {**worth, "detector": ["tpr"], "saved_by_detector": -2.5, "points": None}
    assert (
        f"One more point of tpr adds 2.50 USD per patient and one of the classifier's accuracy, in every condition, saves "
        f"{value(worth['saved_by_classifier'])}: only what saves can be told in points of the other."
    ) in html(changed(folder, tmp_path, {**record, "worth": turned})).replace("&#39;", "'")


def test_a_run_of_before_points_were_weighed_says_nothing_of_them(
    folder: Path, tmp_path: Path
) -> None:
    record = json.loads((folder / "run.json").read_text())["risk"]
    for part in ("worth", "notes"):
        del record[part]
    text = section_of(html(changed(folder, tmp_path, record)))
    assert "What a point is worth" in text and "One more point of" not in text


def test_a_point_whose_worth_no_case_tells_has_no_number_and_the_reason_beside_it(
    folder: Path, tmp_path: Path
) -> None:
    record = json.loads((folder / "run.json").read_text())["risk"]
    why = "no case was shifted: what a point of p_shift costs is not known"
    record = {**record, "slopes": {**record["slopes"], "p_shift": None}, "notes": [why]}
    view = changed(folder, tmp_path, record)
    rows = re.findall(r"<tr><td><b>p_<wbr>shift</b>.*?</tr>", html(view))
    assert (
        rows
        and rows[0].endswith(f'<td class="num">{value(None)}</td></tr>')
        and why in section_of(html(view))
    )
    document = json.loads(json_report(view))
    jsonschema.validate(document, schema())
    assert document["run"]["risk"]["slopes"]["p_shift"] is None


def test_a_run_without_costs_has_no_such_section(tmp_path: Path) -> None:
    page = html(RunView.open(sample_run.build(tmp_path / "run", "plain")))
    assert 'id="risk"' not in page and "#risk" not in page


def changed(folder: Path, tmp_path: Path, risk: object) -> RunView:
    run = json.loads((folder / "run.json").read_text())
    copy = sample_run.build(tmp_path / "run", "risky")
    (copy / "run.json").write_text(json.dumps({**run, "risk": risk}))
    return RunView.open(copy)


def test_a_risk_that_could_not_be_told_says_why(folder: Path, tmp_path: Path) -> None:
    page = html(changed(folder, tmp_path, {"because": "no circumstance has a probability; <b>"}))
    assert "There is no expected cost: no circumstance has a probability; &lt;b&gt;." in page
    assert 'id="figure-risk"' not in page


def test_a_broken_record_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="the risk cannot be read"):
        html(changed(folder, tmp_path, {"unit": "EUR", "tree": {"event": "x"}}))


def test_names_of_the_file_are_escaped(folder: Path, tmp_path: Path) -> None:
    end = {"outcome": sample_run.HOSTILE, "cost": 1}
    tree = {
        "unit": sample_run.HOSTILE,
        "event": sample_run.HOSTILE,
        "branches": {sample_run.HOSTILE: {"then": end}},
    }
    record = {"unit": sample_run.HOSTILE, "tree": tree, "parameters": {}, "value": 1.0, "kinds": []}
    page = html(changed(folder, tmp_path, record))
    assert sample_run.HOSTILE not in page and 'id="figure-risk"' in page


def test_the_report_for_machines_holds_the_risk_and_keeps_its_schema(folder: Path) -> None:
    document = json.loads(json_report(RunView.open(folder)))
    jsonschema.validate(document, schema())
    assert document["run"]["risk"]["unit"] == "USD per patient"
    assert any(f["quantity"] == "risk" for f in document["findings"])
