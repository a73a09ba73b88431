"""The reports: complete, escaped, within their size, and valid for the machines that read them."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import sample_run

from roadworthy.registry import components, get
from roadworthy.report import ReportError, RunView
from roadworthy.report.html import LIMIT, html
from roadworthy.report.json_report import json_report, schema
from roadworthy.report.junit import junit
from roadworthy.report.terminal import circumstances_table, claims_table, slices_table

SECTIONS = [
    *("verdict", "claims", "circumstances", "slices", "levels", "gallery"),
    *("worst", "supervisors", "use", "hashes", "method", "reproduce"),
]
VARIANTS = [
    *("plain", "no_claims", "no_supervisors", "media_none", "unfinished", "wer", "mota"),
    *("many", "hostile", "detection", "text", "large_media", "bare"),
]


@pytest.fixture(scope="session")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunView]:
    root = tmp_path_factory.mktemp("runs")
    return {v: RunView.open(sample_run.build(root / v, v)) for v in VARIANTS}


class Page(HTMLParser):
    """Which ids a page has, in order, its tags and its text; void and svg elements balance."""

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
def test_a_page_has_every_section_in_order_and_loads_nothing(views: dict[str, RunView], variant: str) -> None:
    content = html(views[variant])
    page = Page(content)
    assert [i for i in page.ids if i in SECTIONS] == SECTIONS
    assert len(page.ids) == len(set(page.ids))
    assert all(s.startswith(("#", "data:image/")) for s in page.sources)
    assert len(content.encode()) < LIMIT
    assert "default-src 'none'" in content
    assert page.tags.count("script") == 1
    assert "nan" not in re.findall(
        r"\b\w+\b", page.text.lower().replace(sample_run.HOSTILE, "").replace("holds nan", "")
    )


def test_every_figure_of_a_full_run_is_drawn_in_two_widths(views: dict[str, RunView]) -> None:
    content = html(views["plain"])
    for name in ("claims", "significance", "circumstances", "slices", "levels", "supervisors"):
        figure = content.split(f'id="figure-{name}"')[1].split("</figure>")[0]
        assert figure.count("<svg") == 2 and figure.count('role="img"') == 2
        assert figure.count("<desc>") == 2


def test_names_from_outside_are_escaped_everywhere(views: dict[str, RunView]) -> None:
    content = html(views["hostile"])
    assert sample_run.HOSTILE not in content
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in content
    assert Page(html(views["text"])).tags.count("script") == 1


def test_media_none_shows_neither_picture_nor_text(views: dict[str, RunView]) -> None:
    for content in (html(views["media_none"]), html(views["plain"], embed_media=False)):
        assert "data:image" not in content
        assert "test-00" not in content.split('id="gallery"')[1].split('id="supervisors"')[0]
        assert "media: none" in content


def test_pairs_beyond_the_budget_are_left_out_and_counted(views: dict[str, RunView]) -> None:
    content = html(views["large_media"])
    shown = content.count('data-circumstance="')
    assert 0 < shown < 19
    assert f"{19 - shown} pairs left out" in content


def test_failed_cases_are_counted_in_sight(views: dict[str, RunView]) -> None:
    text = Page(html(views["plain"])).text
    assert re.search(r"cases without an answer\s*15\s*counted as wrong", text)
    assert "the input of case 0 holds NaN" in text


def test_inconclusive_claims_say_how_many_cases_would_settle_them(views: dict[str, RunView]) -> None:
    assert "needs about 14,200 cases in all" in html(views["plain"])


def test_an_unfinished_run_says_so(views: dict[str, RunView]) -> None:
    assert "This run is unfinished" in html(views["unfinished"])
    assert 'type="unfinished"' in junit(views["unfinished"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_json_report_keeps_its_schema(views: dict[str, RunView], variant: str) -> None:
    document = json.loads(json_report(views[variant]), parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
    assert list(complaints(document, schema())) == []
    assert len(document["findings"]) == len(views[variant].findings)


def test_the_schema_refuses_a_wrong_document(views: dict[str, RunView]) -> None:
    document = json.loads(json_report(views["plain"]))
    document["claims"][0]["status"] = "fine"
    del document["findings"][0]["n"]
    assert len(list(complaints(document, schema()))) == 2


def test_the_schema_is_one_and_every_kind_of_run_meets_it(views: dict[str, RunView]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    for view in views.values():
        jsonschema.Draft202012Validator(schema()).validate(json.loads(json_report(view)))


def test_junit_has_a_case_for_each_claim_and_each_place(views: dict[str, RunView]) -> None:
    view = views["plain"]
    suite = ElementTree.fromstring(junit(view)).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert len(cases) == len(view.claims) + sum(len(c.members) for c in view.claims) == 16
    types = [f.get("type") for f in suite.iter("failure")]
    assert sorted(types) == ["breached", "breached", "inconclusive", "inconclusive"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("16", "4", "0")
    assert ElementTree.fromstring(junit(views["hostile"])) is not None


@pytest.mark.parametrize("variant", ["plain", "wer", "mota", "hostile", "no_claims", "bare"])
def test_terminal_tables_fit_80_columns_without_cutting(views: dict[str, RunView], variant: str) -> None:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=False)
    for table in (claims_table, circumstances_table, slices_table):
        console.print(table(views[variant]))
    printed = out.getvalue()
    assert max(len(row) for row in printed.splitlines()) <= 80
    assert "…" not in printed
    if views[variant].claims:
        assert "✗ breached" in printed and "? inconclusive" in printed and "needs ~14,200 cases" in printed


def test_reports_are_found_by_name() -> None:
    assert {"html", "json", "junit"} <= set(components("reports"))
    assert set(get("reports", "html").parameters) == {"embed_media"}


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("run.json", None, "run.json is missing"),
        ("run.json", b"{", "cannot be read"),
        ("run.json", b'{"format": 9}', "format 9"),
        ("run.json", b'{"format": 1}', "lacks name"),
        ("findings.json", None, "findings.json is missing"),
        ("findings.json", b"{}", "must be a list"),
        ("findings.json", b'[{"quantity": "accuracy", "value": 1, "n": 3}]', "finding 0"),
        ("media/gallery.json", None, "gallery.json is missing"),
        ("tables/cases.parquet", b"not parquet", "cases.parquet cannot be read"),
    ],
)
def test_a_missing_or_broken_file_is_named_with_what_to_do(
    tmp_path: Path, file: str, content: bytes | None, says: str
) -> None:
    folder = sample_run.build(tmp_path / "run")
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(ReportError, match=re.escape(says)) as caught:
        html(RunView.open(folder))
    assert re.search("ssess|Name the folder", str(caught.value))


def test_a_picture_outside_the_run_folder_is_refused(tmp_path: Path) -> None:
    folder = sample_run.build(tmp_path / "run")
    gallery = json.loads((folder / "media" / "gallery.json").read_text())
    (tmp_path / "secret.png").write_bytes(b"\x89PNG")
    gallery["pairs"][0]["original"] = "../secret.png"
    (folder / "media" / "gallery.json").write_text(json.dumps(gallery))
    with pytest.raises(ReportError, match="outside the run folder"):
        html(RunView.open(folder))


def test_circumstances_come_by_significance_and_slices_worst_first(views: dict[str, RunView]) -> None:
    significances = [c.significance or 0 for c in views["many"].circumstances]
    assert significances == sorted(significances, reverse=True)
    plain = [s.performance.value for s in views["plain"].slices if s.performance and not s.too_small]
    assert plain == sorted(plain)
    wer = [s.performance.value for s in views["wer"].slices if s.performance and not s.too_small]
    assert wer == sorted(wer, reverse=True)
    assert views["plain"].slices[-1].too_small


def complaints(content: Any, rule: dict[str, Any], place: str = "$") -> Any:
    """What a document breaks of the part of JSON schema that ours uses."""
    kinds = {
        "object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "null": type(None),
    }  # fmt: skip
    wanted = rule.get("type")
    allowed = [wanted] if isinstance(wanted, str) else wanted or []
    if allowed and not any(isinstance(content, kinds[k]) and not isinstance(content, bool) for k in allowed):
        yield f"{place}: {content!r} is no {wanted}"
        return
    if "enum" in rule and content not in rule["enum"]:
        yield f"{place}: {content!r} is none of {rule['enum']}"
    if "const" in rule and content != rule["const"]:
        yield f"{place}: {content!r} is not {rule['const']!r}"
    if isinstance(content, int | float) and content < rule.get("minimum", content):
        yield f"{place}: {content!r} is too small"
    if isinstance(content, dict):
        yield from (f"{place}: lacks {key}" for key in rule.get("required", ()) if key not in content)
        known = rule.get("properties", {})
        if rule.get("additionalProperties") is False:
            yield from (f"{place}: unknown {key}" for key in content if key not in known)
        for key in content.keys() & known.keys():
            yield from complaints(content[key], known[key], f"{place}.{key}")
    if isinstance(content, list) and "items" in rule:
        for i, item in enumerate(content):
            yield from complaints(item, rule["items"], f"{place}[{i}]")
