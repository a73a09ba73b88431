"""What reports say of supervisors: the run's own numbers with their intervals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_run
from sample_supervisors import (
    CLEAN_RIGHT,
    FAILURES,
    MARKUP,
    NAMES,
    RECOMMENDED,
    SINGULAR,
    WORST_AT,
    miss_rate,
)
from test_reports import changed, printed

from roadworthy.finding import Finding
from roadworthy.report.blocks import Chart
from roadworthy.report.html import html
from roadworthy.report.page import section_blocks
from roadworthy.statistics import wilson
from roadworthy.store.record import Record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = sample_run.build(tmp_path_factory.mktemp("runs") / "supervised", "supervised")
    return Record.read(folder)


@pytest.fixture(scope="module")
def page(run: Record) -> str:
    return html(run).split('<section id="supervisors">')[1].split('<section id="use">')[0]


def with_findings(run: Record, change: Callable[[Finding], Finding]) -> Record:
    """The same run with other findings."""
    return Record.model_validate(
        {**run.plain(), "media": "none", "findings": [change(f) for f in run.findings]}
    )


def chart(run: Record, id: str) -> Chart | None:
    return next((b for b in section_blocks(run) if isinstance(b, Chart) and b.id == id), None)


def rows_of(table: str) -> list[list[str]]:
    """The texts of a table's cells."""
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub("<[^>]+>", " ", c).split()) for c in row] for row in cells]


def test_the_table_has_every_supervisor_by_auc_and_the_run_s_numbers(page: str) -> None:
    table = rows_of(page.split('<table class="supervisors many">')[1].split("</table>")[0])
    heads = ["Supervisor", "AUC", "AUPR", "FPR@95", "Missed at worst", "False alarms"]
    assert table[0] == [*heads, "Fit", "Score", "Kept"] and len(table) == 26
    known = [float(row[1].split()[0]) for row in table[1:] if row[1][0].isdigit()]
    assert len(known) == 24 and known == sorted(known, reverse=True)
    (row,) = (r for r in table if r[0] == "pcs")
    j = NAMES.index("pcs")
    worst = max(
        round(miss_rate(j, i, level) * FAILURES)
        for i in range(7)
        for level in ((1, 2, 3) if i else (0,))
    )
    missed, alarms = wilson(worst, FAILURES, confidence=WORST_AT), wilson(80 + j, CLEAN_RIGHT)
    ends = f"{100 * missed.low:.1f} to {100 * missed.high:.1f}%"
    assert row[4].startswith(f"{100 * worst / FAILURES:.1f}% {ends}")
    ends = f"{100 * alarms.low:.1f} to {100 * alarms.high:.1f}%"
    assert row[5] == f"{100 * (80 + j) / CLEAN_RIGHT:.1f}% {ends}"
    assert row[6:] == ["0 s", "1.2 ms", "0 B"]
    starred = [r[0] for r in table if "★" in r[0]]
    assert len(starred) == 3 and all(
        any(name in s.replace(" ", "") for name in RECOMMENDED) for s in starred
    )


def test_the_recommended_set_its_rates_and_who_is_not_applicable_are_said(run: Record) -> None:
    found = wilson(25, FAILURES, confidence=WORST_AT)
    rate = f"13.9% ({100 * found.low:.1f} to {100 * found.high:.1f}% at 99.74%"
    for text in (html(run), " ".join(printed(run, 120).split())):
        assert "★ Recommended: max_softmax, knn(k=5) and autoencoder." in text
        assert rate in text and "fog @ 3" in text and "Chosen on calibration data." in text
        assert "vim, react: the adapter gives no layer activations" in text
        assert SINGULAR in text and "false positive rate (rate 0.05)" in text


def test_the_heat_of_misses_has_every_place_the_set_first_and_intervals_in_tooltips(
    run: Record,
) -> None:
    figure = chart(run, "figure-missed")
    assert figure is not None
    for drawn in (figure.wide, figure.narrow):
        rects = re.findall(r'<rect [^>]*rx="3" class="(\w+)"', drawn)
        assert len(rects) == 19 * 26
        assert rects.count("blank") == 4  # three levels of typicality, and kde on clean data
        texts = re.findall(r"<text[^>]*>([^<]*)<", drawn)
        starred = [t for t in texts if t.startswith("★")]
        assert set(starred) == {"★ the set together", *(f"★ {name}" for name in RECOMMENDED)}
    k = round(miss_rate(NAMES.index("pcs"), 1, 3) * FAILURES)
    first, found = next(iter(sample_run.CIRCUMSTANCES)), wilson(k, FAILURES)
    note = f"{first} @ 3, pcs: misses {100 * k / FAILURES:.1f}%, 95% interval {100 * found.low:.1f} to {100 * found.high:.1f}%"
    assert note in figure.wide and note in figure.narrow


def test_alarms_on_right_answers_are_drawn_at_the_same_places(run: Record) -> None:
    missed, alarms = chart(run, "figure-missed"), chart(run, "figure-alarms")
    assert missed is not None and alarms is not None
    assert alarms.wide.count("<rect ") == missed.wide.count("<rect ")
    first = next(iter(sample_run.CIRCUMSTANCES))
    set_alarms = f"{first} @ 3, the set together: alarms on {100 * 764 / CLEAN_RIGHT:.1f}%"
    assert set_alarms in alarms.wide


def test_worse_than_chance_is_marked(run: Record) -> None:
    def worse(f: Finding) -> Finding:
        mine = (f.quantity, f.about.supervisor, f.about.level) == ("auc_failure", "pcs", 3)
        return replace(f, value=0.36, interval=None, reason="set by hand") if mine else f

    other = with_findings(run, worse)
    figure = chart(other, "figure-supervisors")
    below = sum(f.value == 0.36 for f in other.findings)
    assert figure is not None and below > 1
    assert len(re.findall(r'<rect [^>]*rx="3" class="loss2"', figure.wide)) == below


def test_a_picture_of_dashes_alone_is_not_drawn_and_the_reason_is_said(run: Record) -> None:
    def none(f: Finding) -> Finding:
        missed = f.quantity in ("miss_rate", "worst_miss_rate")
        return (
            replace(f, value=math.nan, interval=None, reason="nothing fails here") if missed else f
        )

    other = with_findings(run, none)
    other.sections["supervision"].recommended.miss_rate = {}
    assert chart(other, "figure-missed") is None and "nothing fails here" in html(other)


def test_remarks_are_numbered_footnotes_and_escaped(page: str, tmp_path: Path) -> None:
    assert MARKUP not in page and "scored &lt;b&gt;after&lt;/b&gt; [bold]" in page
    assert page.count('id="note-') == 2
    assert page.count('href="#note-1"') == 2 and page.count('href="#note-2"') == 1
    each = [f"class {c}: the covariance is singular; shrunk by 0.0{c}" for c in range(10)]

    def noted(run: dict[str, Any]) -> None:
        run["sections"]["supervision"]["supervisors"][0]["notes"] = each

    content = html(changed(tmp_path, noted, "supervised"))
    assert content.count('id="note-') == 3 and "(and 9 more like it)" in content


def test_hostile_words_of_a_record_are_escaped_everywhere(tmp_path: Path) -> None:
    evil = sample_run.HOSTILE

    def poison(run: dict[str, Any]) -> None:
        part = run["sections"]["supervision"]
        part["supervisors"][0] |= {"notes": [evil], "parameters": {evil: evil}}
        part["supervisors"][0]["threshold"] |= {"rule": evil}
        part["supervisors"][-1]["because"] = evil
        cover = {evil: {"by": evil, "catch_rate": 0.5, "false_alarm_rate": 0.1}}
        part["recommended"] |= {"why": evil, "covers": cover, "chosen_on": evil}

    assert evil not in html(changed(tmp_path, poison, "supervised"))


def test_thresholds_and_batches_stand_in_tables(run: Record, tmp_path: Path) -> None:
    def batched(run: dict[str, Any]) -> None:
        part = run["sections"]["supervision"]["supervisors"][0]
        part["threshold"] |= {"rule": "conformal", "parameters": {"alpha": 0.1}, "value": "inf"}
        counts = {"clean": [95, 5], "fog@1": [40, 60], "fog@3": [1, 99]}
        part["batches"] = [{"size": 8, "how": "mean", "threshold": 0.4, "batches": counts}]

    content = html(changed(tmp_path, batched, "supervised"))
    thresholds = rows_of(content.split("Thresholds as a table")[1].split("</table>")[0])
    assert len(thresholds) == 26
    assert ["max_softmax", "∞", "conformal (rate 0.1)", "2,000 rows", "5.1%"] in [
        [c.replace("_ ", "_") for c in row] for row in thresholds
    ]
    (row,) = rows_of(content.split("Verdicts on batches")[1].split("</table>")[0])[1:]
    assert row[1:] == ["8", "mean", "5.0%", "60.0% fog@1"]


def test_a_run_without_verdicts_shows_ranking_alone(tmp_path: Path) -> None:
    old = Record.read(sample_run.build(tmp_path / "run", "plain"))
    content = html(old).split('<section id="supervisors">')[1].split('<section id="use">')[0]
    assert "figure-missed" not in content and "Recommended" not in content
    assert rows_of(content.split("<table")[1])[0][:2] == ["Supervisor", "AUC"]


def test_a_set_that_cannot_be_recommended_says_why(tmp_path: Path) -> None:
    def none(run: dict[str, Any]) -> None:
        run["sections"]["supervision"]["recommended"] = {"why": "Under fog: nothing fails."}

    other = changed(tmp_path, none, "supervised")
    for text in (html(other), printed(other, 120)):
        assert "No set of supervisors is recommended." in text and "nothing fails" in text


def test_the_json_report_carries_supervisors_and_the_set(run: Record) -> None:
    part = json.loads(run.model_dump_json())["sections"]["supervision"]
    assert part["recommended"]["supervisors"] == list(RECOMMENDED)
    by_name = {s["name"]: s for s in part["supervisors"]}
    assert by_name["knn(k=5)"]["threshold"]["rule"] == "at_false_positive_rate"
