"""The reports: complete, escaped, within their size, and valid for the machines that read them."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import sample_run

from roadworthy.registry import components, get
from roadworthy.report import ReportError, RunView, numbers, wording
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
    *("many", "hostile", "detection", "text", "large_media", "bare", "supervised"),
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


def test_the_worst_level_stands_among_those_that_were_tried(views):
    assert "worst at level 3 of 1, 2, 3" in html(views["plain"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_page_has_every_section_in_order_and_loads_nothing(
    views: dict[str, RunView], variant: str
) -> None:
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


def test_inconclusive_claims_say_how_many_cases_would_settle_them(
    views: dict[str, RunView],
) -> None:
    content = html(views["plain"])
    assert "needs about 14,200 cases under fog@1" in content
    assert "needs about 3,100 cases<" in content
    assert "7 of 30 cases needed to judge" in content
    for view in views.values():
        assert not re.search("in all<|more won't settle|would not settle", html(view))


def test_what_is_needed_names_the_slice_that_a_claim_was_made_for(tmp_path: Path) -> None:
    def ask(run: dict[str, Any]) -> None:
        open_ = next(c for c in run["claims"] if c["id"] == "REL-03")
        run["claims"] = [open_]
        run["verdict"] = "inconclusive"
        run["spec"]["claims"] = [{"id": "REL-03", "slice": {"label": "Shirt"}}]

    view = changed(tmp_path, ask)
    assert wording.settle(view, view.claims[0]) == "needs about 3,100 cases of label=Shirt"
    assert wording.verdict(view).reason.startswith("The only claim cannot be decided")
    assert wording.verdict(view).reason.endswith(
        "; about 3,100 cases of label=Shirt would settle it."
    )


def test_the_bound_that_decided_stands_beside_the_limit(views: dict[str, RunView]) -> None:
    content = html(views["plain"])
    assert "met when even the pessimistic one-sided bound keeps the limit" in content
    for claim in views["plain"].claims:
        row = content.split(f'<b class="id">{claim.id}</b>')[1].split("</tr>")[0]
        style = views["plain"].style_of(claim.quantity)
        shown = numbers.bound(claim.bound, claim.limit, style)
        assert re.search(rf'data-label="Bound"><b>{re.escape(shown)}</b>', row)
        assert (
            f"{claim.bound_side(claim.status)} bound at {numbers.confidence(claim.confidence)}"
            in row
        )
    breached = content.split('<b class="id">HAZ-07</b>')[1].split("</tr>")[0]
    assert "upper bound at 95%,<br>over 11 places" in breached


def test_a_claim_met_in_every_place_shows_no_bound_beyond_its_limit(tmp_path: Path) -> None:
    """The simultaneous interval crosses the limit; the place's own bound does not."""
    wide = {"low": 0.58, "high": 0.9, "confidence": 0.99, "method": "clopper_pearson"}
    member = {
        "about": "label=Shirt",
        "value": 0.77,
        "interval": wide,
        "n": 90,
        "status": "met",
        "bound": 0.6004,
    }

    def one(run: dict[str, Any]) -> None:
        first = (
            run["claims"][0]
            | member
            | {"limit": 0.6, "members": [member, member | {"about": "label=Bag"}]}
        )
        del first["bound"]
        run["claims"] = [first]

    view = changed(tmp_path, one)
    assert view.claims[0].bound == 0.6004
    assert "<b>60.04%</b>" in html(view)


def test_records_without_a_bound_take_it_from_the_interval_only_where_it_is_one(
    tmp_path: Path,
) -> None:
    def old(run: dict[str, Any]) -> None:
        for claim in run["claims"]:
            del claim["bound"]
        run["claims"][0]["interval"] |= {"confidence": 0.9}

    met, _, open_, *_ = changed(tmp_path, old).claims
    assert met.interval is not None and met.bound == met.interval.low
    assert open_.interval is not None and open_.interval.confidence == 0.95 and open_.bound is None


def test_notes_of_one_pattern_are_one_line_and_the_rest_can_be_opened(tmp_path: Path) -> None:
    small = [f"slice age={a} has {a % 29} cases, too few to be judged (30)" for a in range(20, 90)]
    other = [f"note of its own, {word}" for word in ("one", "two", "three", "four", "five")]
    view = changed(tmp_path, lambda run: run.update(notes=[*small, *other]))
    aside = html(view).split('<aside class="notes"')[1].split("</aside>")[0]
    seen, folded = aside.split("<details>")[:2]
    assert seen.count("<li>") == 4
    assert (
        "70 slices of age have too few cases to be judged (fewer than 30)" in seen
        and "and 67 more" in seen
    )
    assert "All 75 notes" in folded and folded.count("<li>") == 75


def test_no_absolute_path_of_a_machine_is_shown(tmp_path: Path) -> None:
    def moved(run: dict[str, Any]) -> None:
        run["data"]["test"]["source"] = "/srv/secret/place/test.npz"
        run["data"]["calibration"]["source"] = "sets/cal.npz"
        run["subject"]["files"][0]["path"] = "C:\\secret\\model.pt"

    content = html(changed(tmp_path, moved))
    assert "secret" not in content
    assert (
        ">test.npz<" in content
        and ">model.pt<" in content
        and 'title="sets/cal.npz">cal.npz<' in content
    )


def test_the_quantities_that_occur_are_explained(views: dict[str, RunView]) -> None:
    wer, bare = Page(html(views["wer"])).text, Page(html(views["bare"])).text
    assert "wer: Word error rate" in wer and "auc failure: AUC for failures" in wer
    assert "auc failure:" not in bare and "accuracy: Share of cases" in bare


def test_figure_and_table_of_circumstances_have_one_order(views: dict[str, RunView]) -> None:
    content = html(views["plain"])
    figure = content.split('id="figure-circumstances"')[1].split("</svg>")[0]
    names = [c.name for c in views["plain"].circumstances]
    places = [figure.index(f">{name} @ ") for name in names]
    assert places == sorted(places)
    assert "most significant first" in content


def changed(folder: Path, change: Any) -> RunView:
    """The plain run with something else in its record."""
    made = sample_run.build(folder / "run")
    run = json.loads((made / "run.json").read_text())
    change(run)
    (made / "run.json").write_text(json.dumps(run))
    return RunView.open(made)


def test_an_unfinished_run_says_so(views: dict[str, RunView]) -> None:
    assert "This run is unfinished" in html(views["unfinished"])
    assert 'type="unfinished"' in junit(views["unfinished"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_json_report_keeps_its_schema(views: dict[str, RunView], variant: str) -> None:
    document = json.loads(
        json_report(views[variant]), parse_constant=lambda c: pytest.fail(f"{c} is no JSON")
    )
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
    assert len(cases) == len(view.claims) + sum(len(c.members) for c in view.claims) == 17
    types = [f.get("type") for f in suite.iter("failure")]
    assert sorted(types) == ["breached", "breached", "inconclusive", "inconclusive", "inconclusive"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("17", "5", "0")
    assert ElementTree.fromstring(junit(views["hostile"])) is not None


@pytest.mark.parametrize("variant", ["plain", "wer", "mota", "hostile", "no_claims", "bare"])
def test_terminal_tables_fit_80_columns_without_cutting(
    views: dict[str, RunView], variant: str
) -> None:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=False)
    for table in (claims_table, circumstances_table, slices_table):
        console.print(table(views[variant]))
    printed = out.getvalue()
    assert max(len(row) for row in printed.splitlines()) <= 80
    assert "…" not in printed
    if views[variant].claims:
        assert "✗ breached" in printed and "? inconclusive" in printed and "at 95%" in printed
        assert (
            "needs about 14,200 cases under fog@1" in " ".join(printed.split())
            or variant != "plain"
        )


def test_an_interval_of_a_claim_names_its_level(views: dict[str, RunView]) -> None:
    from rich.console import Console

    def printed(view: RunView) -> str:
        Console(file=(out := io.StringIO()), width=80, force_terminal=False).print(
            claims_table(view)
        )
        return " ".join(out.getvalue().split())

    view = views["plain"]
    place, first = next((i, c) for i, c in enumerate(view.claims) if c.interval and not c.members)
    record = view.run["claims"][place]
    other = {**record, "interval": {**record["interval"], "confidence": 0.9}}
    of_one, of_two = (
        replace(view, run={**view.run, "claims": claims}) for claims in ([other], [other, record])
    )
    ends = numbers.estimate(
        first.value, first.interval, first.n, view.style_of(first.quantity)
    ).interval
    assert "Under the value: its interval, at 90%." in printed(of_one)
    assert f"{ends} at 90%" in printed(of_two) and f"{ends} at 95%" in printed(of_two)
    text = " ".join(re.sub("<[^>]+>", " ", html(of_two)).split())
    assert f"{ends} at 90%" in text and f"{ends} at 95%" in text


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


def test_circumstances_come_by_significance_and_slices_worst_first(
    views: dict[str, RunView],
) -> None:
    significances = [c.significance or 0 for c in views["many"].circumstances]
    assert significances == sorted(significances, reverse=True)
    plain = [
        s.performance.value for s in views["plain"].slices if s.performance and not s.too_small
    ]
    assert plain == sorted(plain)
    wer = [s.performance.value for s in views["wer"].slices if s.performance and not s.too_small]
    assert wer == sorted(wer, reverse=True)
    assert views["plain"].slices[-1].too_small


def complaints(content: Any, rule: dict[str, Any], place: str = "$") -> Any:
    """What a document breaks of the part of JSON schema that ours uses."""
    kinds = {
        "object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "null": type(None),
        "boolean": bool,
    }  # fmt: skip
    wanted = rule.get("type")
    allowed = [wanted] if isinstance(wanted, str) else wanted or []
    if allowed and not any(
        isinstance(content, kinds[k]) and isinstance(content, bool) == (k == "boolean")
        for k in allowed
    ):
        yield f"{place}: {content!r} is no {wanted}"
        return
    if "enum" in rule and content not in rule["enum"]:
        yield f"{place}: {content!r} is none of {rule['enum']}"
    if "const" in rule and content != rule["const"]:
        yield f"{place}: {content!r} is not {rule['const']!r}"
    if isinstance(content, int | float) and content < rule.get("minimum", content):
        yield f"{place}: {content!r} is too small"
    if isinstance(content, dict):
        yield from (
            f"{place}: lacks {key}" for key in rule.get("required", ()) if key not in content
        )
        known = rule.get("properties", {})
        if rule.get("additionalProperties") is False:
            yield from (f"{place}: unknown {key}" for key in content if key not in known)
        for key in content.keys() & known.keys():
            yield from complaints(content[key], known[key], f"{place}.{key}")
    if isinstance(content, list) and "items" in rule:
        for i, item in enumerate(content):
            yield from complaints(item, rule["items"], f"{place}[{i}]")
