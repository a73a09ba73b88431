"""An assessment file as a workbook: the tool of Wozniak et al. 2024 (section 6, figure A1).

Three tabs, found by name: *Specification* (subject, data, target circumstances and their ratings),
*Test case generation* (what the source data already show) and *Evaluation* (distance, tolerated
loss, and the results that `roadworthy.report.workbook` writes). Rows are joined by id. The workbook
becomes the YAML text that says the same; errors name cells.

>>> circumstance_key("Motion blur", "4", ()), circumstance_key("Motion blur", "9", ["motion_blur"])
('motion_blur', 'motion_blur_9')
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from roadworthy.cases.circumstance import SCALES
from roadworthy.registry import did_you_mean, not_installed
from roadworthy.spec.document import Document, Place, SpecError, field_name

SPECIFICATION, GENERATION, EVALUATION = "Specification", "Test case generation", "Evaluation"
TABS = {SPECIFICATION: (), GENERATION: ("Test cases generation",), EVALUATION: ()}
"""The tabs, and other titles for them: the second one is that of the paper."""
RESULTS = "Results (written by roadworthy)"
"""Begins the area of results, in column A of the third tab."""
RESULT_COLUMNS = 11
"""Columns of that area; what stands to the right of it is the person's."""
LABELS: dict[str, Place] = {
    "Goal": ("robustness", "goal"),
    "Subject": ("subject",),
    "Test data": ("data", "test"),
    "Reference data": ("data", "reference"),
    "Calibration data": ("data", "calibration"),
    "Group": ("data", "group"),
}
SETTINGS: dict[str, Place] = {
    "Distance": ("robustness", "distance"),
    "Measures": ("robustness", "measures"),
    "Loss": ("robustness", "loss"),
    "Reference significance": ("robustness", "significance"),
    "Confidence": ("confidence",),
}
COLUMNS = ("Id", "Circumstance", "Transform", "Levels", "Probability", "Exposure", "Likelihood",
           "Severity", "Significance", "Exclusive group")  # fmt: skip
FREQUENCY, LOOKED_AT, ESTIMATOR = "Relative frequency in source data", "Looked at", "Estimator"
PIECES = {"Up to": "up_to", "Slope": "slope", "Intercept": "intercept"}
SHORT_NAME, SEEN_BY = "Short name", "Seen by "
EXHAUSTIVE = re.compile(r"\s*\(exhaustive\)$", re.IGNORECASE)
"""Behind the name of an exclusive group of which one is always met."""
KNOWN = (*COLUMNS, SHORT_NAME, FREQUENCY, LOOKED_AT, ESTIMATOR, *PIECES)
MIXTURE = "mixture"
"""All circumstances with a transform and a probability, as they are met in use."""
EMPTY_ONE = "`roadworthy init --workbook` writes an empty workbook"


@dataclass(frozen=True)
class SheetCell:
    """One cell: the stored value, and whether a formula made it."""

    path: Path
    where: str
    value: Any = None
    formula: bool = False

    def refused(self, place: Place, message: str) -> SpecError:
        """An error that names file, cell and field."""
        name = field_name(place)
        return SpecError(": ".join(filter(None, [f"{self.path}, {self.where}", name, message])))

    @property
    def label(self) -> str:
        """The stored value as text: 3 for 3.0."""
        whole = isinstance(self.value, float) and self.value.is_integer()
        value = int(self.value) if whole else self.value
        return "" if value is None else str(value).strip()

    @property
    def empty(self) -> bool:
        """Whether nothing was entered."""
        return not self.label and not self.formula

    def text(self, place: Place) -> str:
        """What was typed; names and settings are no formulas."""
        if self.formula:
            raise self.refused(place, "holds a formula where text belongs; enter the text")
        return self.label

    def number(self, place: Place, words: tuple[str, ...] = ()) -> int | float | None:
        """A number, or its word on a scale; other text is refused with what it may mean."""
        if self.formula and self.value is None:
            said = "holds a formula without a stored value; open and save it, or enter the number"
            raise self.refused(place, said)
        if self.empty or self.label.lower() in words:
            return 1 + words.index(self.label.lower()) if self.label else None
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            scale = ", ".join(f"{i} {word}" for i, word in enumerate(words, start=1))
            hint = _meant(self.label) or (f"; it is one of {scale}" if words else "")
            raise self.refused(place, f"is {self.value!r} where a number belongs{hint}")
        return int(self.value) if float(self.value).is_integer() else self.value

    def inline(self, place: Place, example: str) -> Any:
        """What the notation of the assessment file says in one line; None for an empty cell."""
        import yaml

        try:
            found = yaml.safe_load(self.text(place))
        except yaml.YAMLError:
            found = ""
        if found is not None and not isinstance(found, dict | list):
            raise self.refused(place, f"is {self.label!r}; expected for example {example}")
        return found


def _meant(text: str) -> str:
    """The hint on a text that looks like a number: ``0,15`` or ``15%``."""
    found = re.fullmatch(r"([-+]?\d*[.,]?\d+)\s*(%?)", text)
    if found is None:
        return ""
    value = float(found[1].replace(",", ".")) / (100 if found[2] else 1)
    return f"; it is text, enter the number {value:g}"


@dataclass(frozen=True)
class Tab:
    """One tab, with its values and its formulas."""

    path: Path
    title: str
    values: Any
    formulas: Any

    @property
    def name(self) -> str:
        """As spreadsheets write it before a cell."""
        return f"'{self.title}'" if " " in self.title else self.title

    def cell(self, row: int, column: int) -> SheetCell:
        """The cell in a row and column, counted from 1."""
        value, typed = self.values.cell(row, column), self.formulas.cell(row, column)
        where = f"{self.name}!{value.coordinate}"
        return SheetCell(self.path, where, value.value, typed.data_type == "f")

    @property
    def results_row(self) -> int:
        """Where the area of results begins: at its mark, or below all that is there."""
        rows = range(1, self.values.max_row + 1)
        marks = (r for r in rows if _plain(self.values.cell(r, 1).value) == _plain(RESULTS))
        return next(marks, self.values.max_row + 2)

    def labelled(self) -> dict[str, SheetCell]:
        """By label in column A, the cell in column B."""
        rows = range(self.results_row - 1, 0, -1)
        return {_plain(self.values.cell(r, 1).value): self.cell(r, 2) for r in rows}

    def header(self, *needed: str) -> tuple[int, dict[str, int]]:
        """The row with these column titles, and the column of every title in it."""
        known = {_plain(title): title for title in KNOWN}
        for row in range(1, self.results_row):
            titles: dict[str, int] = {}
            for column in range(1, self.values.max_column + 1):
                given = self.values.cell(row, column).value
                titles.setdefault(known.get(_plain(given), str(given or "").strip()), column)
            if set(needed) <= set(titles):
                return row, titles
        wanted = " and ".join(needed)
        raise SpecError(f"{self.path}, {self.name}: no row has the titles {wanted}; {EMPTY_ONE}")

    def rows(self, *needed: str, read: Collection[str]) -> Iterator[Mapping[str, SheetCell]]:
        """Rows of the table, by title, in which something that is read was entered; no examples."""
        header, titles = self.header(*needed)
        for row in range(header + 1, self.results_row):
            missing = partial(SheetCell, self.path, f"{self.name}!A{row}")
            at: defaultdict[str, SheetCell] = defaultdict(missing)
            at |= {title: self.cell(row, column) for title, column in titles.items()}
            example = at["Id"].label.lower().startswith("example")
            if not example and any(not at[title].empty for title in read):
                yield at


def read_tabs(workbook: bytes, path: Path) -> dict[str, Tab]:
    """The three tabs of a workbook."""
    try:
        import openpyxl
    except ImportError:
        raise SpecError(not_installed(f"{path}: a workbook needs openpyxl", "xlsx")) from None
    try:
        values = openpyxl.load_workbook(io.BytesIO(workbook), data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(workbook))
    except Exception as error:  # openpyxl raises whatever its parsers raise
        said = f"is no .xlsx workbook, or has a password ({type(error).__name__}: {error})"
        raise SpecError(f"{path}: {said}") from error
    by_title = {_plain(s.title): s for s in values.worksheets}
    found = {}
    for title, others in TABS.items():
        sheet = next((by_title[t] for t in map(_plain, (title, *others)) if t in by_title), None)
        if sheet is None:
            there = ", ".join(s.title for s in values.worksheets)
            raise SpecError(f"{path}: there is no tab {title!r}, only {there}; {EMPTY_ONE}")
        found[title] = Tab(path, sheet.title, sheet, formulas[sheet.title])
    return found


def read_workbook(path: Path) -> Document:
    """The document that a workbook stands for: its text is YAML, its errors name cells."""
    import yaml

    workbook = path.read_bytes()
    reader = _Reader(read_tabs(workbook, path))
    content = reader.read()
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None)
    document = Document.parse(f"# Made from {path.name}\n{text}", path)
    return replace(document, cells=reader.cells, notes=tuple(reader.notes), workbook=workbook)


@dataclass
class _Reader:
    """Fills the keys of an assessment file from cells."""

    tabs: Mapping[str, Tab]
    content: dict[str, Any] = field(default_factory=lambda: {"robustness": {}})
    cells: dict[Place, str] = field(default_factory=lambda: {(): SPECIFICATION})
    notes: list[str] = field(default_factory=list)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By id, the circumstance's key and name."""

    def read(self) -> dict[str, Any]:
        """The content of the assessment file."""
        for tab, labels in ((SPECIFICATION, LABELS), (EVALUATION, SETTINGS)):
            labelled = self.tabs[tab].labelled()
            for label, place in labels.items():
                cell = labelled.get(_plain(label))
                if cell is not None:
                    self._put(place, cell, _setting(cell, place))
        self._circumstances()
        self._source()
        self._epsilon()
        order = ("subject", "data", "circumstances", "exclusive", "confidence", "robustness")
        return {key: self.content[key] for key in order if key in self.content}

    def _put(self, place: Place, cell: SheetCell, value: Any) -> None:
        """Fill a key, unless the cell is empty; and remember where it stands."""
        self.cells[place] = cell.where
        self.cells.setdefault(place[:1], cell.where)
        if value is None or value in ("", []):
            return
        inner: dict[Any, Any] = self.content
        for key in place[:-1]:
            inner = inner.setdefault(key, {})
        inner[place[-1]] = value

    def _circumstances(self) -> None:
        """Tasks 1 and 2: a row a circumstance."""
        tab, groups = self.tabs[SPECIFICATION], dict[str, dict[str, Any]]()
        _, titles = tab.header("Id", "Circumstance")
        for title in set(titles) - set(KNOWN):
            near = did_you_mean(title, set(KNOWN) - set(titles))
            self.notes += [f"{tab.name}: the column {title!r} is not read{near}"] if near else []
        read = [c for c in (*COLUMNS, SHORT_NAME) if c != "Significance"]
        for at in tab.rows("Id", "Circumstance", read=read):
            id_, name = at["Id"], at["Circumstance"].text(("circumstances",))
            if not id_.label or id_.label in self.names or not name:
                twice = f"{id_.label!r} is the id of two rows" if id_.label in self.names else ""
                said = twice or "a row needs an id and the name of a circumstance"
                raise (id_ if name else at["Circumstance"]).refused(("circumstances",), said)
            short = at[SHORT_NAME].text(("circumstances",)) or name
            key = circumstance_key(
                short, id_.label, [MIXTURE, *(k for k, _ in self.names.values())]
            )
            self.names[id_.label] = key, name
            self._circumstance(("circumstances", key), at)
            if (group := at["Exclusive group"]).label:
                whole = EXHAUSTIVE.sub("", group.label)
                groups.setdefault(whole, {"of": []})["of"].append(key)
                groups[whole] |= {"exhaustive": True} if whole != group.label else {}
                place = ("exclusive", list(groups).index(whole))
                self.cells.setdefault(place, group.where)
            for title in (t for t in titles if t.lower().startswith(SEEN_BY.lower())):
                self._seen_by(title[len(SEEN_BY) :].strip(), key, at[title])
        if groups:
            self.content["exclusive"] = [g if len(g) > 1 else g["of"] for g in groups.values()]
        every = self.content.get("circumstances", {})
        made = [c for c in every.values() if {"transform", "transforms"} & set(c)]
        if sum("probability" in c for c in made) > 1:
            every[MIXTURE] = {"mixture": "all"}

    def _circumstance(self, place: Place, at: Mapping[str, SheetCell]) -> None:
        """One row: what makes it, how often it is met, and how much it matters."""
        self.cells[place] = at["Circumstance"].where
        cell, where = at["Transform"], (*place, "transform")
        made: Any = {"transform": cell.text(where)} if not cell.empty else {"run": False}
        if cell.label.startswith(("[", "{")):
            made = cell.inline(where, "[snow, {motion_blur: 2}]")
            made = {"transforms": made} if isinstance(made, list) else made
        for key, value in made.items():
            self._put((*place, key), cell, value)
        self._put((*place, "levels"), at["Levels"], _levels(at["Levels"], (*place, "levels")))
        for key, words in {"probability": (), **SCALES}.items():
            cell, where = at[key.capitalize()], (*place, key)
            self._put(where, cell, cell.number(where, words))
        self._put((*place, "description"), at["Circumstance"], at["Circumstance"].label)

    def _seen_by(self, who: str, key: str, cell: SheetCell) -> None:
        """What another point of view calls a circumstance; one may be several there (task 1)."""
        place = ("robustness", "viewpoints", who)
        for what in filter(None, map(str.strip, cell.text(place).split(";"))):
            views = self.content["robustness"].setdefault("viewpoints", {}).setdefault(who, {})
            views.setdefault(what, []).append(key)
            self.cells.setdefault(place, cell.where)

    def _source(self) -> None:
        """Task 3: how often the source data show a circumstance."""
        tab, seen = self.tabs[GENERATION], set[str]()
        for at in tab.rows("Id", FREQUENCY, read=(FREQUENCY, LOOKED_AT, ESTIMATOR)):
            id_, cell = at["Id"].label, at["Circumstance"]
            if id_ not in self.names or id_ in seen:
                said = "is the id of two rows" if id_ in seen else f"is no id of {SPECIFICATION}"
                raise at["Id"].refused(("robustness", "source"), f"{id_!r} {said}")
            seen.add(id_)
            key, name = self.names[id_]
            if cell.label and cell.label != name:
                self.notes.append(
                    f"{cell.where}: {cell.label!r} is {name!r} in {SPECIFICATION}; joined by id"
                )
            place = ("robustness", "source", key)
            self._put(place, at[FREQUENCY], _source_of(at, place))

    def _epsilon(self) -> None:
        """Task 7: the tolerated loss; the area of results below it holds nothing of a person's."""
        tab, pieces = self.tabs[EVALUATION], list[dict[str, Any]]()
        for at in tab.rows(*PIECES, read=tuple(PIECES)):
            place = ("robustness", "epsilon", len(pieces))
            values = {key: at[title].number((*place, key)) for title, key in PIECES.items()}
            pieces.append({key: value for key, value in values.items() if value is not None})
            self.cells |= {(*place, key): at[title].where for title, key in PIECES.items()}
        if pieces:
            self.content["robustness"]["epsilon"] = pieces
        for row in range(tab.results_row, tab.values.max_row + 1):
            for cell in (tab.cell(row, column) for column in range(1, RESULT_COLUMNS + 1)):
                if cell.formula:
                    said = "holds a formula where results are written; move it to the right"
                    raise cell.refused((), said)


def _setting(cell: SheetCell, place: Place) -> Any:
    """What a cell beside a label says."""
    key = place[-1]
    if key in ("significance", "confidence"):
        return cell.number(place)
    if key in ("subject", "test", "reference", "calibration") or cell.label.startswith("{"):
        data = "{coco: test.json, images: images}"
        return cell.inline(place, "{task: detection, onnx: a.onnx}" if key == "subject" else data)
    text = cell.text(place)
    return [word for word in re.split(r"[\s,;]+", text) if word] if key == "measures" else text


def _levels(cell: SheetCell, place: Place) -> list[int]:
    """``1, 2, 3``, or one number."""
    if not isinstance(cell.value, str):
        level = cell.number(place)
        return [] if level is None else [level]  # type: ignore[list-item]
    parts = re.findall(r"[^\s,;]+", cell.text(place))
    if not all(part.isdecimal() for part in parts):
        raise cell.refused(place, f"is {cell.value!r}; expected levels such as 1, 2, 3")
    return [int(part) for part in parts]


def _source_of(at: Mapping[str, SheetCell], place: Place) -> Any:
    """A share, what was found among those looked at, or an estimator."""
    share, size = at[FREQUENCY].number(place), at[LOOKED_AT].number(place)
    estimator = at[ESTIMATOR].text(place)
    if estimator and (share is not None or size is not None):
        raise at[ESTIMATOR].refused(place, "give a relative frequency or an estimator, not both")
    if estimator:
        return {"estimator": estimator}
    if share is None or not 0 <= share <= 1:
        raise at[FREQUENCY].refused(place, "a relative frequency from 0 to 1 is expected")
    if size is None:
        return share
    if size < 1 or size != int(size) or abs(round(share * size) / size - share) > 0.005:
        said = f"{share:g} of {size:g} is no whole number of cases; correct one of them"
        raise at[LOOKED_AT].refused(place, said)
    return {"found": round(share * size), "of": size}


def circumstance_key(name: str, id_: str, taken: Collection[str]) -> str:
    """The key of a circumstance in the assessment file: its name, or its id if that is long."""
    short, own = (re.sub(r"\W+", "_", text.lower()).strip("_") for text in (name, id_))
    usable = 0 < len(short) <= 40 and short not in ("clean", "rest")
    key = short if usable else f"c_{own}"
    while key in taken:
        key += f"_{own}"
    return key


def _plain(title: Any) -> str:
    """A title without case, double spaces and colon."""
    return " ".join(title.casefold().split()).rstrip(":") if isinstance(title, str) else ""
