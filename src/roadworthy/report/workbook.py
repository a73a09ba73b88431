"""The workbook of Wozniak et al. 2024 (section 6, figure A1): the empty one, and one with results.

`roadworthy.spec.workbook` reads it. Results go into the third tab alone: its sheet is patched, and
every other part of the file keeps its bytes, so that a person's formulas keep their stored values,
charts and macros included. Whatever is written from a run is text or a number, never a formula.

>>> _cell("B7", "=HYPERLINK(1)")
'<c r="B7" t="inlineStr"><is><t xml:space="preserve">=HYPERLINK(1)</t></is></c>'
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any
from xml.dom import minidom
from xml.sax.saxutils import escape, quoteattr

from roadworthy.analysis.robustness.circumstances import CHECKLIST, Hazard
from roadworthy.cases.circumstance import SCALES
from roadworthy.registry import not_installed
from roadworthy.report.blocks import ReportError
from roadworthy.spec import workbook as read
from roadworthy.store.record import Record

_Row = tuple[bool, Sequence[Any]]
"""Whether it is a heading, and what stands in it from column A on."""
FILE = "workbook.xlsx"
ROWS = 40
"""Rows of a table in the empty workbook that have formulas; more can be added."""
WORDS = {"met": "robust", "breached": "not robust", "no claims": "not judged: no epsilon is stated"}
SHARES = {
    "missing": "Missing in the source data",
    "over_or_under": "Over- or under-represented",
    "covered": "Covered",
}
RELATION = ("Circumstance", "Level", "Metric", "Source", "Target", "Loss", "Distance", "Epsilon",
            "Margin", "Verdict", "Verdict over all metrics")  # fmt: skip
HELP = {
    "Goal": "What is evaluated, for whom",
    "Subject": "As in an assessment file: {task: detection, python: model.py:detect}",
    "Test data": "The source data: {coco: test.json, images: images}",
    "Reference data": "Needed by estimators of frequencies",
    "Calibration data": "Optional: for thresholds of supervisors",
    "Group": "Column of what belongs together, such as patient_id",
    "Distance": "ssim, cw_ssim, mse, or with settings: {cw_ssim: {levels: 4}}",
    "Measures": "ap, ap50, precision, recall; empty: the usual ones of the task",
    "Loss": "one-sided: an improvement is no loss; absolute: as in the paper",
    "Reference significance": "Epsilon shrinks for circumstances that are more significant; optional",
    "Confidence": "Of intervals",
    "Target circumstances": "One row a circumstance; rows whose id begins with example are not "
    "read. Ratings: 1 to 5, or the words of table 5. Without a transform it is specified, but not "
    "run. Of an exclusive group (rows with one name) at most one is met; write NAME (exhaustive) if "
    "one of them always is. 'Seen by WHO' is another point of view, with ; between several; add such "
    "columns freely.",
    "What the source data show": "Task 3: one row for each id of the first tab. Relative frequency: "
    "0 to 1; with Looked at, the share found in a random sample of that size. Or name an estimator. "
    "Gap and priority (task 4) follow.",
    "Tolerated loss (epsilon)": "Task 7: slope x distance + intercept, up to a distance. Box 7 of "
    "the paper: 0.25, 0, 0.01 and 1, 1, 0. Empty: nothing is judged.",
    "What may happen": "Task 1: circumstances to think of. Copy those that apply into the first tab "
    "and add those of your domain; the list is not complete. This tab is not read.",
}
EXAMPLES = (
    ("example-1", "motion blur", "motion_blur", "1, 2, 3", 0.1, 5, 1, 3),
    ("example-2", "cross-section truncated", None, None, 0.15, "continuous", "unlikely", "minor"),
)


def empty_workbook(subject: str = "", test: str = "") -> bytes:
    """The workbook to fill in; `subject` and `test` are in the notation of the assessment file."""
    try:
        import openpyxl
    except ImportError:
        raise ReportError(not_installed("a workbook needs openpyxl", "xlsx")) from None
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    _specification(book.create_sheet(read.SPECIFICATION), {"Subject": subject, "Test data": test})
    _generation(book.create_sheet(read.GENERATION))
    _evaluation(book.create_sheet(read.EVALUATION))
    _hazards(book.create_sheet("Hazards"))
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _write(
    sheet: Any, row: int, values: Sequence[Any], *, column: int = 1, style: str = ""
) -> None:
    """Values from a column on; text stays text, whatever it begins with, unless it is a formula."""
    from openpyxl.styles import Font

    for at, value in enumerate(values, start=column):
        cell = sheet.cell(row, at, value)
        if isinstance(value, str) and style != "formula":
            cell.data_type = "s"
        if style in ("head", "help"):
            cell.font = Font(bold=style == "head", italic=style == "help")


def _labels(sheet: Any, labels: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Label, value, help, from the first row on; the row after a free one."""
    for row, label in enumerate(labels, start=1):
        _write(sheet, row, [label], style="head")
        _write(sheet, row, [given.get(label) or None], column=2)
        _write(sheet, row, [HELP[label]], column=3, style="help")
    return len(labels) + 2


def _table(sheet: Any, row: int, heading: str, titles: Sequence[str]) -> int:
    """Heading, help and column titles; the first row of the table."""
    _write(sheet, row, [heading], style="head")
    _write(sheet, row + 1, [HELP[heading]], style="help")
    _write(sheet, row + 2, titles, style="head")
    for letter, title in zip(ascii_uppercase, titles, strict=False):
        sheet.column_dimensions[letter].width = max(24 if letter in "AB" else 14, len(title) + 2)
    return row + 3


def _specification(sheet: Any, given: Mapping[str, str]) -> None:
    """Tasks 1 and 2."""
    from openpyxl.worksheet.datavalidation import DataValidation

    titles = (*read.COLUMNS, f"{read.SEEN_BY}user")
    start = _table(sheet, _labels(sheet, read.LABELS, given), "Target circumstances", titles)
    for row in range(start, start + ROWS):
        product = "*".join(
            _rating(f"{at}{row}", words) for at, words in zip("FGH", SCALES.values(), strict=True)
        )
        _write(sheet, row, [f'=IFERROR({product},"")'], column=9, style="formula")
        sheet.cell(row, 4).number_format = "@"  # else 1,2 may become 12 or a date
    for row, example in enumerate(EXAMPLES, start):
        _write(sheet, row, example)
    for letter, (factor, words) in zip("FGH", SCALES.items(), strict=True):
        rule = DataValidation("list", formula1='"1,2,3,4,5"', showInputMessage=True)
        scale = ", ".join(f"{i} {word}" for i, word in enumerate(words, start=1))
        rule.promptTitle, rule.prompt, rule.showErrorMessage = factor.capitalize(), scale, False
        rule.add(f"{letter}{start}:{letter}{start + ROWS - 1}")
        sheet.add_data_validation(rule)


def _rating(cell: str, words: Sequence[str]) -> str:
    """The number of a rating that is a number or a word."""
    listed = ",".join(f'"{word}"' for word in words)
    return f"IF(ISNUMBER({cell}),{cell},MATCH(LOWER(TRIM({cell})),{{{listed}}},0))"


def _generation(sheet: Any) -> None:
    """Tasks 3 and 4; gap and priority are formulas for the person."""
    titles = ("Id", "Circumstance", read.FREQUENCY, read.LOOKED_AT, read.ESTIMATOR,
              "Significance", "Gap", "Priority")  # fmt: skip
    start = _table(sheet, 1, "What the source data show", titles)
    last, tab = start + ROWS - 1, read.SPECIFICATION
    for r in range(start, last + 1):
        match = f"MATCH($A{r},{tab}!$A$1:$A$999,0)"
        name, target, priority = (f"INDEX({tab}!${c}$1:${c}$999,{match})" for c in "BEI")
        ahead = f'COUNTIFS(G${start}:G${last},">0",F${start}:F${last},">"&F{r})'
        # By significance; of equal ones the first row.
        rank = f'{ahead}+COUNTIFS(G${start}:G{r},">0",F${start}:F{r},F{r})'
        formulas = [f'=IF($A{r}="","",IFERROR({what},""))' for what in (name, priority)]
        unread = f'OR($C{r}="",LEFT($A{r},7)="example")'
        gap = f'=IF({unread},"",IFERROR({target}-C{r},""))'
        _write(sheet, r, formulas[:1], column=2, style="formula")
        _write(sheet, r, [formulas[1], gap, f'=IF(N(G{r})>0,{rank},"")'], column=6, style="formula")
    for row, share in enumerate((0.05, 0.1), start):
        _write(sheet, row, [EXAMPLES[row - start][0]])
        _write(sheet, row, [share], column=3)


def _evaluation(sheet: Any) -> None:
    """Tasks 5 to 7."""
    usual = {"Distance": "ssim", "Loss": "one-sided", "Confidence": 0.95}
    row = _labels(sheet, read.SETTINGS, usual)
    row = _table(sheet, row, "Tolerated loss (epsilon)", tuple(read.PIECES)) + 8
    _write(sheet, row, [read.RESULTS], style="head")
    sheet.column_dimensions["A"].width = 40


def _hazards(sheet: Any) -> None:
    """The checklist, to read and to copy from."""
    titles = [name.capitalize() for name in Hazard._fields]
    for row, hazard in enumerate(CHECKLIST, start=_table(sheet, 1, "What may happen", titles)):
        _write(sheet, row, [*hazard])
    sheet.column_dimensions["B"].width = 64
    sheet.protection.sheet = True


def results_written(workbook: bytes, run: Record) -> bytes:
    """The workbook with the results of a run; everything but the area of results is kept."""
    tab = read.read_tabs(workbook, Path(FILE))[read.EVALUATION]
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook)) as old,
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        sheet = _part_of(old, tab.title)
        for item in old.infolist():
            part = old.read(item)
            if item.filename == sheet:
                part = _patched(part, tab.results_row, list(_results(run)))
            elif item.filename == "xl/workbook.xml":
                # A person's formulas may read what was written: they are computed when it is opened.
                asked = rb'<\1 fullCalcOnLoad="1"'
                part = re.sub(rb"<((?:\w+:)?calcPr)\b(?![^>]*fullCalcOnLoad)", asked, part)
            new.writestr(item, part)
    return content.getvalue()


def _part_of(archive: zipfile.ZipFile, title: str) -> str:
    """The part of the file that holds a tab."""
    book = minidom.parseString(archive.read("xl/workbook.xml"))
    links = minidom.parseString(archive.read("xl/_rels/workbook.xml.rels"))
    sheet = next(
        s for s in book.getElementsByTagNameNS("*", "sheet") if s.getAttribute("name") == title
    )
    link = next(v for k, v in sheet.attributes.items() if k.endswith(":id"))
    found = links.getElementsByTagNameNS("*", "Relationship")
    target = next(x.getAttribute("Target") for x in found if x.getAttribute("Id") == link)
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _patched(sheet: bytes, start: int, rows: Sequence[_Row]) -> bytes:
    """The XML of a sheet with rows in the area of results, in place of what was there before."""
    data = minidom.parseString(sheet).getElementsByTagNameNS("*", "sheetData")[0]
    prefix = data.tagName.removesuffix("sheetData")
    old = {int(row.getAttribute("r")): row for row in data.getElementsByTagNameNS("*", "row")}
    new = dict(enumerate(rows, start))
    marked = old[start].getElementsByTagNameNS("*", "c") if start in old else []
    bold = next((c.getAttribute("s") for c in marked if c.getAttribute("r") == f"A{start}"), "")
    written = [old[number].toxml() for number in sorted(old) if number < start]
    for number in sorted({*old, *new} - set(range(start))):
        head, values = new.get(number, (False, ()))
        names = zip(ascii_uppercase, values, strict=False)
        cells = [_cell(f"{c}{number}", v, bold * head, prefix) for c, v in names if v is not None]
        about = f' r="{number}"'
        if number in old:
            every, kept = old[number].getElementsByTagNameNS("*", "c"), old[number].attributes
            cells += [
                c.toxml() for c in every if _column(c.getAttribute("r")) > read.RESULT_COLUMNS
            ]
            own = {k: v for k, v in kept.items() if k not in ("r", "spans")}
            about += "".join(f" {k}={quoteattr(v)}" for k, v in own.items())
        written.append(f"<{prefix}row{about}>{''.join(cells)}</{prefix}row>")
    content = f"<{prefix}sheetData>{''.join(written)}</{prefix}sheetData>".encode()
    whole = rb"<(?:\w+:)?sheetData\s*/>|<(?:\w+:)?sheetData\b.*?</(?:\w+:)?sheetData>"
    patched = re.sub(whole, lambda _: content, sheet, count=1, flags=re.DOTALL)
    return re.sub(rb"<(?:\w+:)?dimension\b[^>]*/>", b"", patched, count=1)


def _cell(coordinate: str, value: Any, style: str = "", prefix: str = "") -> str:
    """One cell: a number, or text that no program takes for a formula."""
    p, styled = prefix, f' s="{style}"' if style else ""
    if isinstance(value, int | float):
        return f'<{p}c r="{coordinate}"{styled}><{p}v>{value!r}</{p}v></{p}c>'
    text = escape(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", str(value)))
    inner = f'<{p}is><{p}t xml:space="preserve">{text}</{p}t></{p}is>'
    return f'<{p}c r="{coordinate}"{styled} t="inlineStr">{inner}</{p}c>'


def _column(coordinate: str) -> int:
    """2 for B7."""
    number = 0
    for letter in filter(str.isalpha, coordinate):
        number = 26 * number + ord(letter) - 64
    return number


def _results(run: Record) -> Iterator[_Row]:
    """The rows of results: verdict, gap, relation, performance."""
    found = run.plain()["sections"].get("robustness") or {}
    names = {"": "source", **{c.name: c.description or c.name for c in run.circumstances}}
    yield True, [read.RESULTS, "Overwritten by each run"]
    yield False, ["Global verdict", _word(run.verdict)]
    yield False, ["Date", run.created]
    yield False, ["Run folder", run.folder.name]
    yield False, ["Version", f"roadworthy {run.versions.get('roadworthy', '')}"]
    for key, label in SHARES.items():
        value = found.get(key)
        yield False, [f"{label} (% of circumstances)", "unknown" if value is None else value]
    yield False, []
    yield True, RELATION
    whole = {(o["circumstance"], o["level"]): o for o in found.get("outcomes", ())}
    for row in found.get("relation", ()):
        place = (row["circumstance"], row["level"])
        epsilon = None if row["epsilon"] is None else row["weight"] * row["epsilon"]
        given = (
            *(row[k] for k in ("source", "target", "loss", "distance")),
            epsilon,
            row["margin"],
        )
        o = whole.get(place)
        held = f"{_word(o['outcome'])}: holds for {o['holds']} of {o['metrics']}" if o else None
        where = [names.get(place[0], place[0]), place[1], row["measure"]]
        yield False, [*where, *map(_rounded, given), _word(row["outcome"]), held]
    yield False, []
    yield True, ["Data", "Level", "Metric", "Performance", "Cases"]
    for row in found.get("performance", ()):
        where = [names.get(row["circumstance"], row["circumstance"]), row["level"], row["measure"]]
        yield False, [*where, _rounded(row["value"]), row["cases"]]


def _word(outcome: str) -> str | None:
    return WORDS.get(outcome, outcome) or None


def _rounded(value: float | None) -> float | None:
    """Six digits; the run's record has all."""
    return None if value is None else float(f"{value:.6g}")
