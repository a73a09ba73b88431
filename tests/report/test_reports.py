"""The reports: complete, escaped, within their size, and valid for the machines that read them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import sample_run
from rich.console import Console

from roadworthy.registry import components, get
from roadworthy.report import ReportError, numbers, wording
from roadworthy.report.html import LIMIT, html
from roadworthy.report.json_report import json_report
from roadworthy.report.junit import junit
from roadworthy.report.terminal import summary
from roadworthy.store import StoreError
from roadworthy.store.record import Record

SECTIONS = [
    *("verdict", "claims", "circumstances", "slices", "levels", "gallery"),
    *("worst", "supervisors", "use", "hashes", "method", "reproduce"),
]
VARIANTS = [
    *("plain", "no_claims", "no_supervisors", "media_none", "wer", "mota"),
    *("many", "hostile", "detection", "text", "large_media", "bare", "supervised"),
]
Runs = dict[str, Record]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    root = tmp_path_factory.mktemp("runs")
    return {v: Record.read(sample_run.build(root / v, v)) for v in VARIANTS}


def changed(
    folder: Path, change: Callable[[dict[str, Any]], None], variant: str = "plain"
) -> Record:
    """A sample run with something else in its record."""
    made = sample_run.build(folder / "run", variant)
    run = json.loads((made / "run.json").read_text())
    change(run)
    (made / "run.json").write_text(json.dumps(run))
    return Record.read(made)


def printed(run: Record, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False)
    for part in summary(run, width):
        console.print(part)
    return out.getvalue()


class Page(HTMLParser):
    """Which ids a page has, in order, its tags and its text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.sources: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        known = dict(attributes)
        self.ids += [known["id"]] if known.get("id") else []
        self.sources += [known[k] or "" for k in ("src", "href", "action") if k in known]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_page_has_every_section_in_order_and_loads_nothing(runs: Runs, variant: str) -> None:
    content = html(runs[variant])
    page = Page(content)
    assert [i for i in page.ids if i in SECTIONS] == SECTIONS
    assert len(page.ids) == len(set(page.ids))
    assert all(s.startswith(("#", "data:image/")) for s in page.sources)
    assert len(content.encode()) < LIMIT
    assert "default-src 'none'" in content
    assert page.tags.count("script") == 1
    words = page.text.lower().replace(sample_run.HOSTILE, "").replace("holds nan", "")
    assert "nan" not in re.findall(r"\b\w+\b", words)


def test_every_figure_of_a_full_run_is_drawn_in_two_widths(runs: Runs) -> None:
    content = html(runs["plain"])
    for name in ("claims", "priority", "circumstances", "slices", "levels", "supervisors"):
        figure = content.split(f'id="figure-{name}"')[1].split("</figure>")[0]
        assert figure.count("<svg") == 2 and figure.count('role="img"') == 2
        assert figure.count("<desc>") == 2


def test_names_from_outside_are_escaped_everywhere(runs: Runs) -> None:
    content = html(runs["hostile"])
    assert sample_run.HOSTILE not in content
    assert "&lt;script&gt;alert" in content
    assert Page(html(runs["text"])).tags.count("script") == 1


def test_media_none_shows_neither_picture_nor_text(runs: Runs) -> None:
    for content in (html(runs["media_none"]), html(runs["plain"], embed_media=False)):
        assert "data:image" not in content
        assert "test-00" not in content.split('id="gallery"')[1].split('id="supervisors"')[0]
        assert "media: none" in content


def test_pairs_beyond_the_budget_are_left_out_and_counted(runs: Runs) -> None:
    content = html(runs["large_media"])
    shown = content.count('data-circumstance="')
    assert 0 < shown < 19
    assert f"{19 - shown} pairs left out" in content


def test_failed_cases_are_counted_in_sight(runs: Runs) -> None:
    text = Page(html(runs["plain"])).text
    assert re.search(r"cases without an answer\s*15\s*counted as wrong", text)
    assert "the input of case 0 holds NaN" in text


def test_inconclusive_claims_say_how_many_cases_would_settle_them(runs: Runs) -> None:
    content = html(runs["plain"])
    assert "needs about 12,200 more cases under fog@1" in content
    assert "needs about 1,100 more cases<" in content
    assert "7 of 30 cases needed to judge" in content


def test_what_is_needed_names_the_slice_that_a_claim_was_made_for(tmp_path: Path) -> None:
    def ask(run: dict[str, Any]) -> None:
        run["claims"] = [c for c in run["claims"] if c["id"] == "REL-03"]
        run["verdict"] = "inconclusive"
        run["spec"]["claims"] = [{"id": "REL-03", "slice": {"label": "Shirt"}}]

    run = changed(tmp_path, ask)
    assert wording.settle(run, run.claims[0]) == "needs about 1,100 more cases of label=Shirt"
    assert "1,100 more cases of label=Shirt would settle it" in wording.verdict(run).reason


def test_cases_are_counted_with_their_groups_by_the_name_of_their_column(tmp_path: Path) -> None:
    def grouped(run: dict[str, Any]) -> None:
        run["data"]["test"] |= {"group": "patient_id", "groups": 60}
        (claim,) = run["claims"] = [c for c in run["claims"] if c["id"] == "REL-03"]
        claim |= {"groups": 60, "groups_to_settle": 85}
        run["verdict"] = "inconclusive"

    run = changed(tmp_path, grouped)
    assert wording.settle(run, run.claims[0]) == "needs about 25 more patients"
    assert ">60 patients<" in html(run)
    assert "25 more patients" in junit(run) and "25 more patients" in printed(run)


def test_a_claim_shows_one_confidence_everywhere(runs: Runs) -> None:
    run = runs["plain"]
    document = ElementTree.fromstring(junit(run))
    said = {c.get("name", "").split(":")[0]: c for c in document.iter("testcase")}
    for claim in run.claims:
        row = html(run).split(f'<b class="id">{claim.id}</b>')[1].split("</tr>")[0]
        failure = said[claim.id].find("failure")
        texts = [
            row,
            (failure.get("message") or "") + str(failure.text) if failure is not None else "",
        ]
        shown = numbers.confidence(claim.confidence)
        for text in texts:
            named = set(re.findall(r"([\d.]+%) (?:interval|bounds?)\b", text))
            assert named <= {shown}, (claim.id, text)
        assert f"{claim.bound_side(claim.status)} {shown} bound" in row


def test_the_bound_that_decided_stands_beside_the_limit(runs: Runs) -> None:
    content = html(runs["plain"])
    for claim in runs["plain"].claims:
        row = content.split(f'<b class="id">{claim.id}</b>')[1].split("</tr>")[0]
        style = wording.style_of(runs["plain"], claim.quantity)
        shown = numbers.bound(claim.bound, claim.limit, style)
        assert re.search(rf'data-label="Bound"><b>{re.escape(shown)}</b>', row)
        side = claim.bound_side(claim.status)
        assert f"{side} {numbers.confidence(claim.confidence)} bound" in row
    breached = content.split('<b class="id">HAZ-07</b>')[1].split("</tr>")[0]
    assert "over 11 places" in breached


def test_notes_of_one_pattern_are_one_line_and_the_rest_can_be_opened(tmp_path: Path) -> None:
    small = [f"slice age={a} has {a % 29} cases, too few to be judged (30)" for a in range(20, 90)]
    other = [f"note of its own, {word}" for word in ("one", "two", "three", "four", "five")]
    run = changed(tmp_path, lambda run: run.update(notes=[*small, *other]))
    aside = html(run).split('<aside class="notes"')[1].split("</aside>")[0]
    seen, folded = aside.split("<details>")[:2]
    assert seen.count("<li>") == 4 and "and 69 more" in seen
    assert "All 75 notes" in folded and folded.count("<li>") == 75


def test_no_absolute_path_of_a_machine_is_shown(tmp_path: Path) -> None:
    def moved(run: dict[str, Any]) -> None:
        run["data"]["test"]["source"] = "/srv/secret/place/test.npz"
        run["data"]["calibration"]["source"] = "sets/cal.npz"
        run["subject"]["files"][0]["path"] = "C:\\secret\\model.pt"

    content = html(changed(tmp_path, moved))
    assert "secret" not in content
    assert ">test.npz<" in content and ">model.pt<" in content and ">cal.npz<" in content


def test_the_quantities_that_occur_are_explained(runs: Runs) -> None:
    wer, bare = Page(html(runs["wer"])).text, Page(html(runs["bare"])).text
    assert "wer: Word error rate" in wer and "auc failure: AUC for failures" in wer
    assert "auc failure:" not in bare and "accuracy: Share of cases" in bare


def test_circumstances_come_by_risk_priority_and_slices_worst_first(runs: Runs) -> None:
    content = html(runs["plain"])
    figure = content.split('id="figure-circumstances"')[1].split("</svg>")[0]
    ordered = sorted(runs["plain"].circumstances, key=lambda c: -(c.significance or 0))
    drawn = [figure.index(f">{c.name} @ ") for c in ordered]
    assert drawn == sorted(drawn) and "highest risk priority first" in content
    for variant, better in (("plain", 1), ("wer", -1)):
        run = runs[variant]
        table = html(run).split('<section id="slices">')[1].split("<table>")[1].split("</table>")[0]
        names = re.findall(r"label=([\w -]+)", table)
        found = [run.find(run.measure.name, slice=f"label={n}") for n in names]
        values = [better * f.value for f in found if f is not None]
        assert len(values) == 10 and values == sorted(values)
        assert table.rindex("too few cases") > table.rindex("label=")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_json_report_keeps_its_schema_and_is_read_again(runs: Runs, variant: str) -> None:
    text = json_report(runs[variant])
    document = json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
    jsonschema.Draft202012Validator.check_schema(Record.schema())
    jsonschema.Draft202012Validator(Record.schema()).validate(document)
    assert len(document["findings"]) == len(runs[variant].findings)
    assert json_report(Record.model_validate(document)) == text


def test_the_schema_refuses_a_wrong_document(runs: Runs) -> None:
    document = json.loads(json_report(runs["plain"]))
    document["claims"][0]["status"] = "fine"
    del document["findings"][0]["n"]
    found = list(jsonschema.Draft202012Validator(Record.schema()).iter_errors(document))
    assert len(found) == 2


def test_a_record_written_is_the_record_read(runs: Runs, tmp_path: Path) -> None:
    for name, run in runs.items():
        again = Record.read(run.model_copy().write(tmp_path / name).folder)
        assert json_report(again) == json_report(run)


def test_junit_has_a_case_for_each_claim_and_each_place(runs: Runs) -> None:
    run = runs["plain"]
    suite = ElementTree.fromstring(junit(run)).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert len(cases) == len(run.claims) + sum(len(c.members) for c in run.claims) == 17
    types = [f.get("type") for f in suite.iter("failure")]
    assert sorted(types) == ["breached", "breached", "inconclusive", "inconclusive", "inconclusive"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("17", "5", "0")
    assert ElementTree.fromstring(junit(runs["hostile"])) is not None


@pytest.mark.parametrize("variant", ["plain", "wer", "mota", "no_claims", "bare", "supervised"])
@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_terminal_fits_its_width(runs: Runs, variant: str, width: int) -> None:
    text = printed(runs[variant], width)
    assert max(len(row) for row in text.splitlines()) <= width
    if runs[variant].claims:
        assert "✗ breached" in text and "? inconclusive" in text
    if variant == "plain":
        assert "needs about 12,200 more cases under fog@1" in " ".join(text.split())


def test_what_a_narrow_terminal_leaves_out_is_named(runs: Runs) -> None:
    narrow, wide = (" ".join(printed(runs["supervised"], w).split()) for w in (80, 200))
    assert "In a wider terminal and in the report:" in narrow
    assert "In a wider terminal" not in wide and "★ max_softmax" in wide


def test_a_section_that_is_not_installed_is_shown_as_plain_tables(tmp_path: Path) -> None:
    part = {"score": 0.25, "rows": [{"name": sample_run.HOSTILE, "n": 3}], "note": None}
    run = changed(tmp_path, lambda run: run["sections"].update(elsewhere=part))
    page = html(run)
    assert '<section id="elsewhere">' in page and "not installed here" in page
    assert "0.250" in page and "&lt;script&gt;alert" in page and sample_run.HOSTILE not in page
    assert json.loads(json_report(run))["sections"]["elsewhere"] == part


def test_reports_are_found_by_name() -> None:
    assert {"html", "json", "junit"} <= set(components("reports"))
    assert set(get("reports", "html").parameters) == {"embed_media"}


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("run.json", None, "has no run.json"),
        ("run.json", b"{", "damaged"),
        ("run.json", b'{"format": 9}', "format 9"),
        ("run.json", b'{"format": 2}', "name: Field required"),
        ("findings.json", None, "findings.json is missing"),
        ("findings.json", b"{}", "findings"),
        ("findings.json", b'[{"quantity": "accuracy", "value": 1, "n": 3}]', "findings.0"),
    ],
)
def test_a_missing_or_broken_file_is_named_with_what_to_do(
    tmp_path: Path, file: str, content: bytes | None, says: str
) -> None:
    folder = sample_run.build(tmp_path / "run")
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(StoreError, match=re.escape(says)) as caught:
        Record.read(folder)
    assert re.search("ssess|Name a folder", str(caught.value))


def test_a_picture_outside_the_run_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"\x89PNG")

    def outside(run: dict[str, Any]) -> None:
        run["gallery"]["pairs"][0]["original"] = "../secret.png"

    with pytest.raises(ReportError, match="outside the run folder"):
        html(changed(tmp_path, outside))
