"""What reports say of supervisors: the run's own numbers with their intervals, whatever the width; older runs too."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import sample_run
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from roadworthy.report.figures import figures
from roadworthy.report.supervisor_parts import Recommendation, Threshold
from roadworthy.report.supervisor_terminal import supervisors_table, supervisors_words
from roadworthy.report.supervisor_wording import (
    covered,
    not_recommended,
    recommended,
    recommended_rates,
    said_elsewhere,
)
from sample_supervisors import (
    CLEAN_RIGHT,
    CORRECTED,
    FAILURES,
    MARKUP,
    NAMES,
    PLACES,
    RECOMMENDED,
    SINGULAR,
    WORST_AT,
    miss_rate,
    supervise,
)

from roadworthy.finding import About, Finding
from roadworthy.report import RunView
from roadworthy.report.html import html
from roadworthy.report.json_report import json_report, schema
from roadworthy.statistics import wilson


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return RunView.open(
        sample_run.build(tmp_path_factory.mktemp("runs") / "supervised", "supervised")
    )


@pytest.fixture(scope="module")
def report(view: RunView) -> str:
    return html(view)


@pytest.fixture(scope="module")
def page(report: str) -> str:
    return report.split('<section id="supervisors">')[1].split('<section id="use">')[0]


class Cells(HTMLParser):
    """The rows of the tables of a page, cell by cell: the text, and the tooltip."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, str]]] = []
        self.inside = False
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append(("", dict(attributes).get("title") or ""))
        elif self.inside and tag == "span":
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self._add(data)

    def _add(self, text: str) -> None:
        before, title = self.rows[-1][-1]
        self.rows[-1][-1] = (before + text, title)


def printed(view: RunView, width: int) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False)
    console.print(supervisors_table(view, width))
    for words in supervisors_words(view):
        console.print(words)
    return out.getvalue()


def changed(view: RunView, folder: Path, change: Any) -> RunView:
    """The run with something else in its record."""
    run = json.loads((view.folder / "run.json").read_text())
    change(run)
    folder.mkdir()
    (folder / "findings.json").write_bytes((view.folder / "findings.json").read_bytes())
    (folder / "run.json").write_text(
        json.dumps(run | {"media": "none", "cases": run["cases"] | {"failed": 0}})
    )
    return RunView.open(folder)


def test_supervisors_come_by_their_auc_for_failures_on_clean_data(view: RunView) -> None:
    values = [s.at("auc_failure").value for s in view.supervisors if s.applicable]
    known = [v for v in values if not math.isnan(v)]
    assert len(known) == 24 and known == sorted(known, reverse=True)
    assert [s.name for s in view.supervisors[-3:]] == ["kde", "vim", "react"]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_the_terminal_table_fits_its_width_and_names_everyone(view: RunView, width: int) -> None:
    text = printed(view, width)
    assert max(len(line) for line in text.splitlines()) <= width
    table = text.split("On the clean test data")[0]
    folded = "".join(re.split(r"\s{2,}", line)[0] for line in table.splitlines())
    assert all(name in folded for name in NAMES)
    assert "★ max_softmax" in table and "★ pcs" not in table


def test_at_120_columns_nothing_is_left_out_and_at_80_what_is_gone_is_named(view: RunView) -> None:
    wide, narrow = printed(view, 120), printed(view, 80)
    head = " ".join(wide.split("────")[0].split())
    assert all(
        word in head
        for word in ("AUC", "AUPR", "FPR@95", "Missed", "alarms", "Fit", "Score", "Kept")
    )
    assert "In a wider terminal and in the report: where most is missed." in " ".join(wide.split())
    assert "In a wider terminal" not in printed(view, 140)
    assert all(
        word in narrow.split("────")[0]
        for word in ("AUC", "FPR@95", "Missed", "Fit", "Score", "Kept")
    )
    assert (
        "In a wider terminal and in the report: AUPR, where most is missed, false alarms."
        in " ".join(narrow.split())
    )


def test_a_row_of_the_terminal_has_the_findings_with_their_intervals(view: RunView) -> None:
    lines = printed(view, 140).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("pcs"))
    values, ends = re.split(r"\s{2,}", lines[at]), re.split(r"\s{2,}", lines[at + 1].strip())
    j = NAMES.index("pcs")
    worst = max(
        round(miss_rate(j, i, level) * FAILURES)
        for i in range(7)
        for level in ((1, 2, 3) if i else (0,))
    )
    missed, alarms = wilson(worst, FAILURES, confidence=WORST_AT), wilson(80 + j, CLEAN_RIGHT)
    assert values[4] == f"{100 * worst / FAILURES:.1f}%"
    assert ends[3] == f"{100 * missed.low:.1f} to {100 * missed.high:.1f}%"
    assert values[6] == f"{100 * (80 + j) / CLEAN_RIGHT:.2f}%"
    assert ends[4] == f"{100 * alarms.low:.1f} to {100 * alarms.high:.1f}%"
    assert values[7:] == ["0", "<.01", "0"]


def test_under_the_table_stand_the_set_and_those_who_could_not_be_asked(view: RunView) -> None:
    text = " ".join(printed(view, 80).split())
    assert "★ Recommended: max_softmax, knn(k=5) and autoencoder. max_softmax catches most" in text
    found = wilson(25, FAILURES, confidence=WORST_AT)
    rate = f"13.9% ({100 * found.low:.1f} to {100 * found.high:.1f}% at 99.74%, widened for the worst of {PLACES} places)"
    assert f"Together they miss {rate} of failures at worst (under fog @ 3)" in text
    assert "Chosen on calibration data." in text
    assert "Thresholds by the rule false positive rate (rate 0.05), chosen on 2,000 rows" in text
    assert "Not applicable: vim, react (the adapter gives no layer activations)" in text
    assert f"mdsa, mahalanobis: {SINGULAR}" in text and MARKUP in text
    notes = [n for n in view.run["notes"] if said_elsewhere(view, n)]
    assert len(notes) == 2 and all("not applicable" in n for n in notes)


def test_what_stands_with_the_supervisors_is_no_note_at_the_top(report: str) -> None:
    aside = report.split('<aside class="notes"')[1].split("</aside>")[0]
    seen, folded = aside.split("<details>")[:2]
    assert "not applicable" not in seen and folded.count("not applicable") == 2


def test_the_page_has_every_column_and_the_run_s_numbers(page: str) -> None:
    rows = Cells(page.split('<table class="supervisors">')[1].split("</table>")[0]).rows
    heads = [text for text, _ in rows[0]]
    assert heads == [
        *(
            "Supervisor",
            "AUC",
            "AUPR",
            "FPR@95",
            "Missed at worst",
            "False alarms",
            "Fit",
            "Score",
            "Kept",
        )
    ]
    assert len(rows) == 26
    row = next(r for r in rows if r[0][0].split() == ["pcs"])
    j = NAMES.index("pcs")
    alarms = wilson(80 + j, CLEAN_RIGHT)
    text, title = row[5]
    assert text.split() == [
        f"{100 * (80 + j) / CLEAN_RIGHT:.2f}%",
        f"{100 * alarms.low:.1f}",
        "to",
        f"{100 * alarms.high:.1f}%",
    ]
    assert "95% interval" in title and "wilson" in title and f"n = {CLEAN_RIGHT:,}" in title
    assert [text for text, _ in row[6:]] == ["0 s", "1.2 ms", "0 B"]
    starred = [r[0][0] for r in rows if "★" in r[0][0]]
    assert len(starred) == 3 and all(any(name in s for name in RECOMMENDED) for s in starred)


def test_the_heat_of_misses_has_every_place_the_set_first_and_intervals_in_tooltips(
    view: RunView,
) -> None:
    figure = figures(view)["figure-missed"]
    for drawn in (figure.wide, figure.narrow):
        rects = re.findall(r'<rect [^>]*class="(\w+)"', drawn)
        assert len(rects) == 19 * 26
        assert rects.count("blank") == 4  # three levels of typicality, and kde on clean data
        texts = re.findall(r"<text[^>]*>([^<]*)<", drawn)
        starred = [t for t in texts if t.startswith("★")]
        bands = drawn.count(">clean<") if drawn is figure.wide else 3
        assert starred[:4] == ["★ the set together", *(f"★ {name}" for name in RECOMMENDED)]
        assert len(starred) == 4 * bands
    j = NAMES.index("pcs")
    k = round(miss_rate(j, 1, 3) * FAILURES)
    first = next(iter(sample_run.CIRCUMSTANCES))
    found = wilson(k, FAILURES)
    note = f"{first} @ 3, pcs: misses {100 * k / FAILURES:.1f}%, 95% interval {100 * found.low:.1f} to {100 * found.high:.1f}%"
    assert note in figure.wide and note in figure.narrow
    assert "typicality: misses" in figure.wide and "there are no failures here" in figure.wide


def test_alarms_on_right_answers_are_drawn_at_the_same_places_and_columns(
    view: RunView, report: str
) -> None:
    drawn = figures(view)
    missed, alarms = drawn["figure-missed"], drawn["figure-alarms"]
    first = next(iter(sample_run.CIRCUMSTANCES))
    j = NAMES.index("pcs")
    for one, other in ((missed.wide, alarms.wide), (missed.narrow, alarms.narrow)):
        assert other.count("<rect ") == one.count("<rect ") and other.count("chosen") == one.count(
            "chosen"
        )
        assert f"{first} @ 3, pcs: alarms on {100 * (380 + j) / CLEAN_RIGHT:.2f}%" in other
        assert f"{first} @ 3, the set together: alarms on {100 * 764 / CLEAN_RIGHT:.2f}%" in other
    assert "The set first, then by AUC." in missed.caption and "Rows" not in missed.caption
    places = ("figure-missed", "Alarms on right answers", 'id="figure-supervisors"')
    assert [report.index(p) for p in places] == sorted(report.index(p) for p in places)


def test_false_alarms_known_on_clean_data_alone_have_no_picture(
    view: RunView, tmp_path: Path
) -> None:
    changed(view, tmp_path / "run", lambda run: None)
    kept = [
        f for f in view.findings if f.quantity != "false_alarm_rate" or not f.about.circumstance
    ]
    (tmp_path / "run" / "findings.json").write_text(json.dumps([f.to_dict() for f in kept]))
    drawn = figures(RunView.open(tmp_path / "run"))
    assert "figure-alarms" not in drawn and "figure-missed" in drawn


def test_both_pictures_have_the_same_places_and_worse_than_chance_is_marked(
    view: RunView, tmp_path: Path
) -> None:
    changed(view, tmp_path / "run", lambda run: None)
    worse = [
        replace(f, value=0.36, interval=None, reason="set by hand")
        if (f.quantity, f.about.supervisor, f.about.level) == ("auc_failure", "pcs", 3)
        else f
        for f in view.findings
    ]
    (tmp_path / "run" / "findings.json").write_text(json.dumps([f.to_dict() for f in worse]))
    figure = figures(RunView.open(tmp_path / "run"))["figure-supervisors"]
    below = sum(f.value == 0.36 for f in worse)
    assert below > 1
    for drawn in (figure.wide, figure.narrow):
        assert len(re.findall("<rect ", drawn)) == 19 * 25
        assert len(re.findall(r'<rect [^>]*class="loss2"', drawn)) == below
        assert (
            drawn.count('class="loss2-ink"') == below + 1 and drawn.count("worse than chance") == 1
        )
    assert "worse than chance" not in figures(view)["figure-supervisors"].wide


def test_a_picture_of_dashes_alone_is_not_drawn_and_a_sentence_says_why(
    view: RunView, tmp_path: Path
) -> None:
    changed(view, tmp_path / "run", lambda run: run["recommended"].update(miss_rate={}))
    none = [
        replace(f, value=math.nan, interval=None, reason="nothing fails here")
        if f.quantity in ("miss_rate", "worst_miss_rate")
        else f
        for f in view.findings
    ]
    (tmp_path / "run" / "findings.json").write_text(json.dumps([f.to_dict() for f in none]))
    other = RunView.open(tmp_path / "run")
    assert "figure-missed" not in figures(other)
    assert "There is no picture of what each misses: nothing fails here." in html(other)
    head = printed(other, 140).split("────")[0]
    assert "Missed" not in head and "where" not in head


def test_a_parameter_that_the_name_holds_is_not_said_again(view: RunView, tmp_path: Path) -> None:
    def more(run: dict[str, Any]) -> None:
        for s in run["supervisors"]:
            if s["name"] == "knn(k=5)":
                s.update(parameters={"k": 5, "normalise": False}, fit_kept=True)

    content = html(changed(view, tmp_path / "run", more)).split('<section id="supervisors">')[1]
    assert ">k 5" not in content and '<span class="sub">normalise False</span>' in content
    assert "knn<wbr>(k=5)" in content and "† Fitted in an earlier run" in content


def test_notes_that_differ_in_numbers_alone_are_folded_in_the_whole_list_too(
    view: RunView, tmp_path: Path
) -> None:
    each = [
        f"class {c}: the covariance of 80 activations is singular; shrunk by 0.0{c}"
        for c in range(10)
    ]
    other = changed(view, tmp_path / "run", lambda run: run["notes"].extend(each))
    aside = html(other).split('<aside class="notes"')[1].split("</aside>")[0]
    assert (
        "class 0: the covariance of 80 activations is singular; shrunk by 0.00 (and 9 more like it)"
        in aside
    )
    assert "class 7" not in aside


def test_many_places_are_drawn_at_their_highest_level_and_the_caption_says_so(
    tmp_path: Path,
) -> None:
    circumstances = {f"circumstance_{i}": (0.8, 0.7, 0.6, None) for i in range(8)}
    run, findings, _, cases = sample_run._plain("plain")
    supervise(run, findings, circumstances)
    run["circumstances"] = [{"name": c} for c in circumstances]
    findings += [
        Finding("accuracy", 0.7, wilson(70, 100), 100, about=About(circumstance=c, level=level))
        for c in circumstances
        for level in (1, 2, 3)
    ]
    sample_run.write(tmp_path / "run", run | {"media": "none"}, findings, None, cases)
    figure = figures(RunView.open(tmp_path / "run"))["figure-missed"]
    assert "at its highest level" in figure.caption
    assert len(re.findall("<rect ", figure.wide)) == 9 * 26


def test_a_recommendation_chosen_on_the_test_cases_says_that_it_is_optimistic(
    view: RunView, tmp_path: Path
) -> None:
    other = changed(
        view, tmp_path / "run", lambda run: run["recommended"].update(chosen_on="test (optimistic)")
    )
    assert "optimistic" in recommended_rates(other) and "optimistic" in html(other)
    assert "optimistic" not in recommended_rates(view)


def test_a_set_chosen_by_auc_has_no_rates_and_says_so(view: RunView, tmp_path: Path) -> None:
    def ranked(run: dict[str, Any]) -> None:
        covers = {
            "clean": {"by": "pcs", "auc_failure": 0.91},
            "fog": {"by": "energy", "auc_failure": 0.8},
        }
        run["recommended"] = {
            "supervisors": ["pcs", "energy"], "why": "the smallest set found", "quantity": "auc_failure", "covers": covers,
            "miss_rate": {}, "false_alarm_rate": None, "chosen_on": "test (optimistic)",
        }  # fmt: skip

    other = changed(view, tmp_path / "run", ranked)
    assert covered(other) == "The best AUC: clean: pcs (0.910); fog: energy (0.800)."
    assert recommended_rates(other).startswith(
        "Chosen on the test cases themselves, which is optimistic"
    )
    assert "the set together" not in html(other)


def test_no_set_is_recommended_with_its_reason_everywhere(view: RunView, tmp_path: Path) -> None:
    def nothing(run: dict[str, Any]) -> None:
        run["recommended"] = {
            "supervisors": [],
            "why": "Under fog: nothing fails there; add harder cases.",
        }

    other = changed(view, tmp_path / "run", nothing)
    said = "No set of supervisors is recommended. Under fog: nothing fails there; add harder cases."
    assert (
        other.recommended is None and not_recommended(other) == said and not_recommended(view) == ""
    )
    assert said in html(other) and said in " ".join(printed(other, 100).split())
    assert "★" not in printed(other, 100)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(json_report(other)))


def test_the_worst_of_many_places_is_widened_everywhere_and_says_so(
    view: RunView, page: str
) -> None:
    assert f"Missed at worst: {CORRECTED}." in page
    assert f"Missed at worst: {CORRECTED}." in " ".join(printed(view, 140).split())
    j = NAMES.index("pcs")
    worst = max(
        round(miss_rate(j, i, level) * FAILURES)
        for i in range(7)
        for level in ((1, 2, 3) if i else (0,))
    )
    ends = wilson(worst, FAILURES, confidence=WORST_AT)
    row = next(
        r
        for r in Cells(page.split('<table class="supervisors">')[1]).rows
        if r[0][0].split() == ["pcs"]
    )
    assert (
        f"{100 * ends.low:.1f} to {100 * ends.high:.1f}%" in row[4][0]
        and "99.74% interval" in row[4][1]
    )
    found = {
        f["id"]: f
        for f in json.loads(json_report(view))["findings"]
        if f["quantity"] == "worst_miss_rate"
    }
    mine = next(f for key, f in found.items() if key.endswith("| pcs"))
    assert mine["interval"]["low"] == ends.low and mine["corrected"] == CORRECTED
    assert "Intervals at 95%." in " ".join(printed(view, 140).split())


def test_a_worst_place_of_an_older_run_has_no_interval(view: RunView, tmp_path: Path) -> None:
    other = changed(view, tmp_path / "run", lambda run: run["recommended"].pop("worst"))
    kept = [f for f in view.findings if f.quantity != "worst_miss_rate"]
    (tmp_path / "run" / "findings.json").write_text(json.dumps([f.to_dict() for f in kept]))
    other = RunView.open(tmp_path / "run")
    assert all(
        s.worst_miss.interval is None and s.worst_miss.reason
        for s in other.supervisors
        if s.applicable
    )
    assert "miss 13.9% of failures at worst" in recommended_rates(other)
    assert "Missed at worst:" not in printed(other, 140)


def test_what_the_subject_computes_for_a_supervisor_is_said_beside_its_time(
    view: RunView, page: str
) -> None:
    words = "of the subject itself, which cost at most, in forward passes a case, about 10 for "
    for text in (page, " ".join(printed(view, 140).split())):
        said = text.split(words)[1].split(";")[0]
        assert sorted(said.replace(" and ", ", ").split(", ")) == [
            f"mc_dropout_{k}" for k in ("mi", "ms", "pe", "vr")
        ]


def test_remarks_are_numbered_footnotes_and_escaped(page: str) -> None:
    assert (
        MARKUP not in page
        and "scored &lt;b&gt;after&lt;/b&gt; [bold]pooling[/bold] &amp; a rescaling" in page
    )
    assert page.count('id="supervisor-note-') == 2
    assert (
        page.count('href="#supervisor-note-1"') == 2
        and page.count('href="#supervisor-note-2"') == 1
    )


def test_a_remark_for_each_class_is_one_footnote(view: RunView, tmp_path: Path) -> None:
    each = [f"class {c}: the covariance is singular; shrunk by 0.0{c}" for c in range(10)]
    other = changed(view, tmp_path / "run", lambda run: run["supervisors"][0].update(notes=each))
    content = html(other).split('<section id="supervisors">')[1]
    assert content.count('id="supervisor-note-') == 3
    assert "class 0: the covariance is singular; shrunk by 0.00 (and 9 more like it)" in content


def test_hostile_words_of_a_record_are_escaped_everywhere(view: RunView, tmp_path: Path) -> None:
    evil = sample_run.HOSTILE

    def poison(run: dict[str, Any]) -> None:
        run["supervisors"][0] |= {"notes": [evil], "parameters": {evil: evil}}
        run["supervisors"][0]["threshold"] |= {
            "rule": evil,
            "chosen_on": evil,
            "parameters": {evil: evil},
        }
        run["supervisors"][-1]["because"] = evil
        run["recommended"] |= {
            "why": evil,
            "covers": {evil: {"by": evil, "catch_rate": 0.5}},
            "chosen_on": evil,
        }

    other = changed(view, tmp_path / "run", poison)
    assert evil not in html(other)
    assert evil in printed(other, 200)


def test_thresholds_and_their_rule_stand_in_the_page(page: str) -> None:
    assert (
        "Thresholds by the rule false positive rate (rate 0.05), chosen on 2,000 rows; false alarms to expect: 5.1%."
        in page
    )
    table = page.split("Thresholds as a table")[1].split("</table>")[0]
    assert len(Cells(table).rows) == 26


def test_thresholds_by_different_rules_are_told_apart(view: RunView, tmp_path: Path) -> None:
    def mixed(run: dict[str, Any]) -> None:
        run["supervisors"][0]["threshold"] |= {
            "rule": "conformal",
            "parameters": {"alpha": 0.1},
            "value": "inf",
        }

    content = html(changed(view, tmp_path / "run", mixed))
    assert "each threshold&#39;s rule stands in the table" in content
    assert "conformal (rate 0.1)" in content and ">∞<" in content


def test_a_run_of_before_renders_without_verdicts_costs_or_a_set(tmp_path: Path) -> None:
    old = RunView.open(sample_run.build(tmp_path / "run", "plain"))
    content = html(old).split('<section id="supervisors">')[1].split('<section id="use">')[0]
    text = printed(old, 80)
    assert (
        "figure-missed" not in content
        and "Recommended" not in content
        and "Thresholds" not in content
    )
    heads = [text for text, _ in Cells(content).rows[0]]
    assert heads == ["Supervisor", "AUC"]
    assert "Missed" not in text and "Recommended" not in text and "max_softmax" in text
    assert next(s.name for s in old.supervisors if s.applicable) == "max_softmax"


def test_the_json_report_carries_supervisors_and_the_set_and_its_schema_knows_them(
    view: RunView,
) -> None:
    document = json.loads(json_report(view))
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert document["run"]["recommended"]["supervisors"] == list(RECOMMENDED)
    by_name = {s["name"]: s for s in document["run"]["supervisors"]}
    assert by_name["knn(k=5)"]["threshold"]["rule"] == "at_false_positive_rate"
    quantities = {f["quantity"] for f in document["findings"] if f["about"]["supervisor"]}
    assert {
        "auc_failure",
        "aupr_failure",
        "fpr95_failure",
        "miss_rate",
        "false_alarm_rate",
        "alarm_rate",
    } <= quantities
    document["run"]["supervisors"][0]["fit_seconds"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(document)


def test_the_words_of_supervision_are_explained(report: str) -> None:
    content = report
    for term in (
        "verdict",
        "miss rate",
        "false alarm rate",
        "aupr failure",
        "fpr95 failure",
        "alarm rate",
    ):
        assert f"<b>{term}</b>:" in content


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(JSON, JSON, JSON, st.lists(st.text(max_size=9), max_size=3))
def test_records_with_odd_parts_are_read_all_the_same(
    covers: Any, rates: Any, alarms: Any, names: list[str]
) -> None:
    record = {
        "supervisors": names,
        "covers": covers,
        "miss_rate": rates,
        "false_alarm_rate": alarms,
    }
    found = Recommendation.read(record, 0.95)
    assert (found is None) == (not names)
    if found is not None:
        assert found.worst is None or found.worst[1].value is not None
    threshold = Threshold.read({"value": covers, "expected_rate": rates, "chosen_on": alarms})
    assert threshold.value is None or not math.isnan(threshold.value)


def test_a_single_recommended_supervisor_is_an_it(view: RunView, tmp_path: Path) -> None:
    other = changed(
        view, tmp_path / "run", lambda run: run["recommended"].update(supervisors=["pcs"], why="")
    )
    assert recommended(other) == "Recommended: pcs."
    assert recommended_rates(other).startswith("It misses 13.9%")
    assert ", and raises an alarm on" in recommended_rates(other)


def test_alarms_on_right_answers_are_said_on_clean_data_and_where_they_are_most(
    view: RunView, tmp_path: Path
) -> None:
    def more(run: dict[str, Any]) -> None:
        at = {"clean": 0.12, "fog@1": 0.2, "fog@3": 0.61, "snow": None}
        run["recommended"] |= {
            "quantity": "informedness",
            "false_alarms": {
                place: {"value": value, "interval": None, "n": 9} for place, value in at.items()
            },
            "covers": {
                "fog": {
                    "by": "pcs",
                    "informedness": 0.5,
                    "catch_rate": 0.9,
                    "false_alarm_rate": 0.4,
                }
            },
        }

    other = changed(view, tmp_path / "run", more)
    said = recommended_rates(other)
    assert "of right answers on clean data, at most 61.0% under fog" in said and said in html(other)
    assert "fog: pcs (catches 90.0%, alarms on 40.0% of right answers)" in covered(other)
    shown = f"{said} {covered(other)}"
    assert shown.count("alibration data") == 1 and "Chosen on calibration data." in said
