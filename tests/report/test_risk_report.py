"""The section on risk: the tree, its numbers in words, what a point is worth; and runs without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sample_risk
import sample_run
from test_reports import changed

from roadworthy.analysis.risk.tree import Tree, evaluate, expectation
from roadworthy.numbers import value
from roadworthy.registry import get
from roadworthy.report import ReportError
from roadworthy.report.html import html
from roadworthy.store.record import Record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return Record.read(sample_run.build(tmp_path_factory.mktemp("risk") / "run", "risky"))


def section_of(page: str) -> str:
    found = re.search(r'<section id="risk">.*?</section>', page, re.DOTALL)
    assert found
    return found[0].replace("<wbr>", "").replace("&#39;", "'")


def with_risk(folder: Path, **changes: Any) -> Record:
    return changed(folder, lambda run: run["sections"]["risk"].update(changes), "risky")


def test_the_tree_stands_in_a_section_of_its_own_with_its_numbers(run: Record) -> None:
    page = html(run)
    text, found = section_of(page), sample_risk.sample()
    assert '<a href="#risk">Risk</a>' in page and "HAZ-12" in page
    assert f"{found.value:,.0f} USD per patient" in text and "1,925" in text
    assert "below 0.01%" in text and "fused" in text and 'id="figure-risk"' in text
    for name in found.tree.parameters:
        assert f"<b>{name}</b>" in text
    record = run.sections["risk"]
    assert expectation(Tree.from_dict(record.tree), record.parameters) == pytest.approx(
        record.value
    )


def test_classes_of_loss_stand_in_tables_of_outcomes_and_of_scores(run: Record) -> None:
    page = html(run)
    table = page.split('<table id="loss-bins">')[1].split("</table>")[0]
    rows = [re.findall(r">([^<>\n]+)<", r) for r in re.findall(r"<tr><td.*?</tr>", table, re.S)]
    assert [row[0] for row in rows] == ["below 1,000", "1,000 to 5,000", "5,000 or more"]
    found = sample_risk.sample()
    leaves = evaluate(found.tree, found.values).leaves
    wrong = [leaf for leaf in leaves if leaf.outcome == "wrong answer"]
    paths = "wrong answer: shifted &gt; undetected &gt; wrong; clean &gt; undetected &gt; wrong"
    assert rows[2][1] == paths
    probability, adds = sum(w.probability for w in wrong), sum(w.contribution for w in wrong)
    assert rows[2][2:] == [value(probability, "percent"), "6,735", value(adds)]
    assert page.split('<table id="loss-by-score">')[1].split("</table>")[0].count("<tr><td") > 1


def test_what_changes_the_cost_most_comes_first(run: Record) -> None:
    slopes = {k: abs(v or 0.0) for k, v in run.sections["risk"].slopes.items()}
    table = section_of(html(run)).split("What one point more would save")[1]
    places = [table.index(f"<b>{name}</b>") for name in sorted(slopes, key=lambda k: -slopes[k])]
    assert places == sorted(places)


def test_a_point_of_the_detector_is_told_in_points_of_the_classifier(
    run: Record, tmp_path: Path
) -> None:
    worth = run.sections["risk"].worth
    text = section_of(html(run))
    assert f"saves {value(worth.saved_by_detector)} USD per patient" in text
    assert f"as much as {value(worth.points)} points" in text
    turned = {"detector": ["tpr"], "saved_by_detector": -2.5, "points": None}
    other = with_risk(tmp_path, worth={**worth.model_dump(), **turned})
    assert "One more point of tpr adds 2.50 USD per patient" in section_of(html(other))


def test_a_point_whose_worth_no_case_tells_has_no_number(run: Record, tmp_path: Path) -> None:
    slopes = {**run.sections["risk"].slopes, "p_shift": None}
    text = section_of(html(with_risk(tmp_path, slopes=slopes, notes=["no case was shifted"])))
    row = re.search(r"<b>p_shift</b>.*?</tr>", text, re.DOTALL)
    assert row and row[0].count(f">{value(None)}<") == 1 and "no case was shifted" in text


def test_a_run_without_costs_has_no_such_section_and_no_tree_to_export(tmp_path: Path) -> None:
    run = Record.read(sample_run.build(tmp_path / "run", "plain"))
    assert 'id="risk"' not in html(run) and "#risk" not in html(run)
    with pytest.raises(ReportError, match="no event tree"):
        get("reports", "open_psa").bind()(run)


def test_a_risk_that_could_not_be_told_says_why(tmp_path: Path) -> None:
    page = html(with_risk(tmp_path, because="no circumstance has a probability; <b>"))
    assert "no circumstance has a probability; &lt;b&gt;" in page
    assert 'id="figure-risk"' not in page


def test_names_of_the_file_are_escaped(tmp_path: Path) -> None:
    evil = sample_run.HOSTILE
    branch = {evil: {"then": {"outcome": evil, "cost": 1}}}
    tree = {"unit": evil, "event": evil, "branches": branch}
    empty: dict[str, Any] = {"parameters": {}, "slopes": {}, "worth": None, "loss_bins": []}
    page = html(with_risk(tmp_path, unit=evil, tree=tree, value=1.0, **empty))
    assert evil not in page and 'id="figure-risk"' in page
