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

from roadworthy.cases.circumstance import SCALES
from roadworthy.registry import not_installed
from roadworthy.report.blocks import ReportError
from roadworthy.spec.workbook import (
    COLUMNS,
    ESTIMATOR,
    EVALUATION,
    FREQUENCY,
    GENERATION,
    LABELS,
    LOOKED_AT,
    PIECES,
    RESULT_COLUMNS,
    RESULTS,
    SEEN_BY,
    SETTINGS,
    SPECIFICATION,
    read_tabs,
)
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
    "Reference data": "Only for estimators of frequencies",
    "Calibration data": "Only for supervisors",
    "Group": "Column of what belongs together, such as patient_id",
    "Distance": "ssim, cw_ssim, mse, or with settings: {cw_ssim: {levels: 4}}",
    "Measures": "ap, ap50, precision, recall; empty: the usual ones of the task",
    "Loss": "one-sided: an improvement is no loss; absolute: as in the paper",
    "Reference significance": "Epsilon shrinks for circumstances that are more significant; optional",
    "Confidence": "Of intervals",
}
CIRCUMSTANCES_HELP = (
    "One row a circumstance; rows whose id begins with example are not read. Ratings: 1 to 5, or "
    "the words of table 5. Without a transform it is specified, but not run. More columns are "
    "allowed; 'Seen by WHO' is another point of view, with ; between several."
)
SOURCE_HELP = (
    "Task 3: one row for each id of the first tab. Relative frequency: 0 to 1; with Looked at, the "
    "share found in a random sample of that size. Or name an estimator. Gap and priority: task 4."
)
EPSILON_HELP = (
    "Task 7: tolerated loss = slope x distance + intercept, up to a distance. Box 7 of the paper: "
    "0.25, 0, 0.01 and 1, 1, 0. Empty: nothing is judged."
)


def empty_workbook(subject: str = "", test: str = "") -> bytes:
    """The workbook to fill in; `subject` and `test` are in the notation of the assessment file."""
    try:
        import openpyxl
    except ImportError:
        raise ReportError(not_installed("a workbook needs openpyxl", "xlsx")) from None
    book = openpyxl.Workbook()
    first = book.active
    assert first is not None
    first.title = SPECIFICATION
    _specification(first, {"Subject": subject, "Test data": test})
    _generation(book.create_sheet(GENERATION))
    _evaluation(book.create_sheet(EVALUATION))
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _write(sheet: Any, row: int, values: Sequence[Any], style: str = "") -> None:
    """A row of values; text stays text, whatever it begins with."""
    from openpyxl.styles import Font

    fonts = {"head": Font(bold=True), "help": Font(italic=True, color="666666")}
    for column, value in enumerate(values, start=1):
        cell = sheet.cell(row, column, value)
        formula = isinstance(value, str) and value.startswith("=") and style == "formula"
        if isinstance(value, str) and not formula:
            cell.data_type = "s"
        if style in fonts:
            cell.font = fonts[style]


def _labels(sheet: Any, row: int, labels: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Label, value, help; the next free row."""
    for label in labels:
        _write(sheet, row, [label, given.get(label) or None])
        _write(sheet, row, [label], "head")
        sheet.cell(row, 3, HELP[label]).font = sheet.cell(row, 3).font.copy(italic=True)
        row += 1
    return row


def _table(sheet: Any, row: int, heading: str, said: str, titles: Sequence[str]) -> int:
    """Heading, help and column titles; the first row of the table."""
    _write(sheet, row, [heading], "head")
    _write(sheet, row + 1, [said], "help")
    _write(sheet, row + 2, titles, "head")
    for column, title in enumerate(titles, start=1):
        letter = sheet.cell(row, column).column_letter
        sheet.column_dimensions[letter].width = max(14, min(34, len(title) + 4))
    return row + 3


TITLES = (*COLUMNS[:-1], "Significance", COLUMNS[-1], f"{SEEN_BY}user")
EXAMPLES = (
    ("example-1", "motion blur", "motion_blur", "1, 2, 3", 0.1, 5, 1, 3),
    ("example-2", "cross-section truncated", None, None, 0.15, "continuous", "unlikely", "minor"),
)


def _specification(sheet: Any, given: Mapping[str, str]) -> None:
    """Tasks 1 and 2."""
    from openpyxl.worksheet.datavalidation import DataValidation

    _write(sheet, 1, ["Specification of the evaluation"], "head")
    row = _labels(sheet, 2, LABELS, given) + 1
    start = _table(sheet, row, "Target circumstances", CIRCUMSTANCES_HELP, TITLES)
    for row in range(start, start + ROWS):
        _write(sheet, row, EXAMPLES[row - start] if row - start < len(EXAMPLES) else ())
        product = f'=IF(COUNT(F{row}:H{row})=3,F{row}*G{row}*H{row},"")'
        sheet.cell(row, 9, product)
        sheet.cell(row, 4).number_format = "@"  # else 1,2 may become 12 or a date
    for letter, (factor, words) in zip("FGH", SCALES.items(), strict=True):
        scale = ", ".join(f"{i} {word}" for i, word in enumerate(words, start=1))
        rule = DataValidation("list", formula1='"1,2,3,4,5"', showErrorMessage=False)
        rule.promptTitle, rule.prompt, rule.showInputMessage = factor.capitalize(), scale, True
        rule.add(f"{letter}{start}:{letter}{start + ROWS - 1}")
        sheet.add_data_validation(rule)
    sheet.freeze_panes = sheet.cell(start, 3)


def _generation(sheet: Any) -> None:
    """Tasks 3 and 4; gap and priority are formulas for the person."""
    read = ("Id", "Circumstance", FREQUENCY, LOOKED_AT, ESTIMATOR)
    titles = (*read, "Significance", "Gap", "Priority")
    start = _table(sheet, 1, "What the source data show", SOURCE_HELP, titles)
    last = start + ROWS - 1
    for r in range(start, last + 1):
        found = f"INDEX({SPECIFICATION}!{{0}}:{{0}},MATCH($A{r},{SPECIFICATION}!$A:$A,0))"
        ahead = f'COUNTIFS(G${start}:G${last},">0",F${start}:F${last},">"&F{r})'
        formulas = {
            2: f'=IF($A{r}="","",IFERROR({found.format("$B")},""))',
            6: f'=IF($A{r}="","",IFERROR({found.format("$I")},""))',
            7: f'=IF($C{r}="","",IFERROR({found.format("$E")}-C{r},""))',
            # By significance; of equal ones the first row.
            8: f'=IF(N(G{r})>0,{ahead}+COUNTIFS(G${start}:G{r},">0",F${start}:F{r},F{r}),"")',
        }
        for column, formula in formulas.items():
            sheet.cell(r, column, formula)
    for row, (example, share) in enumerate((("example-1", 0.05), ("example-2", 0.1)), start):
        _write(sheet, row, [example])
        sheet.cell(row, 3, share)


def _evaluation(sheet: Any) -> None:
    """Tasks 5 to 7."""
    _write(sheet, 1, ["Evaluation"], "head")
    usual = {"Distance": "ssim", "Loss": "one-sided", "Confidence": 0.95}
    row = _labels(sheet, 2, SETTINGS, usual) + 1
    row = _table(sheet, row, "Tolerated loss (epsilon)", EPSILON_HELP, tuple(PIECES)) + 8
    _write(sheet, row, [RESULTS], "head")
    sheet.column_dimensions["A"].width = 34


def results_written(workbook: bytes, run: Record) -> bytes:
    """The workbook with the results of a run; everything but the area of results is kept."""
    tab = read_tabs(workbook, Path(FILE))[EVALUATION]
    start = tab.results_row or tab.values.max_row + 2
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook)) as old,
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        sheet = _part_of(old, tab.title)
        for item in old.infolist():
            part = old.read(item)
            if item.filename == sheet:
                part = _patched(part, start, list(_results(run)))
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
            cells += [c.toxml() for c in every if _column(c.getAttribute("r")) > RESULT_COLUMNS]
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
    yield True, [RESULTS, "Overwritten by each run"]
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
