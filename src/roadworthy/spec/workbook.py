"""An assessment file as a workbook: the tool of Wozniak et al. 2024 (section 6, figure A1).

Three tabs, found by name: *Specification* (subject, data, target circumstances and their ratings),
*Test case generation* (what the source data already show) and *Evaluation* (distance, tolerated
loss, and the results that `roadworthy.report.workbook` writes). Rows are joined by id. The workbook
becomes the YAML text that says the same; errors name cells.

>>> circumstance_key("Motion blur", "4", taken=()), circumstance_key("Motion blur", "9", taken=("motion_blur",))
('motion_blur', 'motion_blur_9')
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roadworthy.cases.circumstance import SCALES
from roadworthy.registry import did_you_mean, not_installed
from roadworthy.spec.document import Document, Place, SpecError, field_name

SPECIFICATION, GENERATION, EVALUATION = "Specification", "Test case generation", "Evaluation"
ALSO = {"test cases generation": GENERATION}
"""The title in the paper."""
RESULTS = "Results (written by roadworthy)"
"""Begins the area of results, in column A of the third tab."""
RESULT_COLUMNS = 11
"""Columns of that area; what stands to the right of it is the person's."""
EXAMPLE = "example"
"""Rows whose id begins so are not read."""
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
           "Severity", "Exclusive group")  # fmt: skip
SHORT_NAME, SEEN_BY = "Short name", "Seen by "
FREQUENCY, LOOKED_AT, ESTIMATOR = "Relative frequency in source data", "Looked at", "Estimator"
PIECES = {"Up to": "up_to", "Slope": "slope", "Intercept": "intercept"}
MIXTURE = "mixture"
"""All circumstances with a transform and a probability, as they are met in use."""
LONGEST_KEY = 40
INVALID = "; `roadworthy init --workbook` writes an empty workbook"


@dataclass(frozen=True)
class Cell:
    """One cell: the stored value, and whether a formula made it."""

    path: Path
    where: str
    value: Any = None
    formula: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing was entered."""
        blank = self.value is None or (isinstance(self.value, str) and not self.value.strip())
        return blank and not self.formula

    def refused(self, place: Place, message: str) -> SpecError:
        """An error that names file, cell and field."""
        name = field_name(place)
        return SpecError(": ".join(filter(None, [f"{self.path}, {self.where}", name, message])))

    def stored(self, place: Place) -> Any:
        """The value; that of a formula as it was last saved."""
        if self.formula and self.value is None:
            said = "holds a formula without a stored value"
            raise self.refused(place, f"{said}; open and save the workbook, or enter the value")
        return self.value

    def text(self, place: Place) -> str:
        """What was typed; names and settings are no formulas."""
        if self.formula:
            raise self.refused(place, "holds a formula where text belongs; enter the text")
        return self.label()

    def label(self) -> str:
        """The stored value as text: 3 for 3.0."""
        if isinstance(self.value, float) and self.value.is_integer():
            return str(int(self.value))
        return "" if self.value is None else str(self.value).strip()

    def number(self, place: Place) -> int | float | None:
        """A number; text is refused with the number that it may mean."""
        if self.empty:
            return None
        value = self.stored(place)
        if isinstance(value, bool) or not isinstance(value, int | float):
            text = "the text " * isinstance(value, str)
            raise self.refused(place, f"is {text}{value!r} where a number belongs{_meant(value)}")
        return int(value) if float(value).is_integer() else value

    def rating(self, factor: str, place: Place) -> int | float | None:
        """1 to 5, as a number or a word of table 5."""
        words, given = SCALES[factor], self.label().lower()
        if given in words:
            return 1 + words.index(given)
        if given.isalpha():
            scale = ", ".join(f"{i} {word}" for i, word in enumerate(words, start=1))
            raise self.refused(place, f"is {self.value!r}; expected one of {scale}")
        return self.number(place)

    def inline(self, place: Place, example: str) -> Any:
        """What the notation of the assessment file says in one line; None for an empty cell."""
        import yaml

        text = self.text(place)
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            raise self.refused(place, f"is {text!r}; expected for example {example}") from None


def _meant(value: Any) -> str:
    """The hint on a text that looks like a number: ``0,15`` or ``15%``."""
    found = re.fullmatch(r"\s*([-+]?\d*[.,]?\d+)\s*(%?)\s*", str(value))
    if found is None:
        return ""
    value = float(found[1].replace(",", ".")) / (100 if found[2] else 1)
    return f"; enter the number {value:g}"


@dataclass(frozen=True)
class Tab:
    """One tab, with its values and its formulas."""

    path: Path
    title: str
    values: Any
    formulas: Any

    def cell(self, row: int, column: int | None) -> Cell:
        """A cell; one without a column is empty."""
        if column is None:
            return Cell(self.path, f"{self.name}!A{row}")
        value, typed = self.values.cell(row, column), self.formulas.cell(row, column)
        where = f"{self.name}!{value.coordinate}"
        return Cell(self.path, where, value.value, typed.data_type == "f")

    @property
    def name(self) -> str:
        """As spreadsheets write it before a cell."""
        return f"'{self.title}'" if " " in self.title else self.title

    @property
    def last_row(self) -> int:
        """The last row above the results."""
        return (self.results_row or self.values.max_row + 1) - 1

    @property
    def results_row(self) -> int | None:
        """Where the area of results begins."""
        rows = range(1, self.values.max_row + 1)
        named = (r for r in rows if _plain(self.values.cell(r, 1).value) == _plain(RESULTS))
        return next(named, None)

    def header(self, *needed: str) -> tuple[int, dict[str, int]]:
        """The row with these column titles, and the column of every title in it."""
        for row in range(1, self.last_row + 1):
            titles: dict[str, int] = {}
            for column in range(1, self.values.max_column + 1):
                titles.setdefault(_plain(self.values.cell(row, column).value), column)
            if all(_plain(title) in titles for title in needed):
                return row, {title: column for title, column in titles.items() if title}
        wanted = " and ".join(needed)
        raise SpecError(f"{self.path}, {self.name}: no row has the titles {wanted}{INVALID}")

    def labelled(self) -> dict[str, Cell]:
        """By label in column A, the cell in column B."""
        rows = range(1, self.last_row + 1)
        return {_plain(self.values.cell(r, 1).value): self.cell(r, 2) for r in reversed(rows)}


def read_tabs(workbook: bytes, path: Path) -> dict[str, Tab]:
    """The three tabs of a workbook."""
    try:
        import openpyxl
    except ImportError:
        raise SpecError(not_installed(f"{path}: a workbook needs openpyxl", "xlsx")) from None
    try:
        values = openpyxl.load_workbook(io.BytesIO(workbook), data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(workbook))
    except Exception as error:  # openpyxl raises what its parsers happen to raise
        said = "is no .xlsx workbook, or it is protected by a password"
        raise SpecError(f"{path}: {said} ({type(error).__name__}: {error})") from error
    found = {}
    for sheet in values.worksheets:
        plain = _plain(sheet.title)
        found[_plain(ALSO.get(plain, plain))] = Tab(path, sheet.title, sheet, formulas[sheet.title])
    for title in (SPECIFICATION, GENERATION, EVALUATION):
        if _plain(title) not in found:
            near = did_you_mean(_plain(title), found)
            tabs = ", ".join(tab.title for tab in found.values())
            raise SpecError(f"{path}: there is no tab {title!r}; found {tabs}{near}{INVALID}")
    return {title: found[_plain(title)] for title in (SPECIFICATION, GENERATION, EVALUATION)}


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

    tabs: dict[str, Tab]
    cells: dict[Place, str] = field(default_factory=lambda: {(): SPECIFICATION})
    notes: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    """By id, the circumstance's key."""
    names: dict[str, str] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        """The content of the assessment file."""
        self.content: dict[str, Any] = {}
        header, titles = self.tabs[SPECIFICATION].header("Id", "Circumstance")
        self._note_misspelt(titles)
        self._settings()
        self._circumstances(header, titles)
        self._source()
        self._evaluation()
        order = ("subject", "data", "circumstances", "exclusive", "confidence")
        robustness = {"robustness": self.content.get("robustness", {})}
        return {k: self.content[k] for k in order if k in self.content} | robustness

    def _put(self, place: Place, cell: Cell, value: Any) -> None:
        """Fill a key, unless the cell is empty; and remember where it stands."""
        self.cells[place] = cell.where
        self.cells.setdefault(place[:1], cell.where)
        if value is None or value == "":
            return
        inner: dict[Any, Any] = self.content
        for key in place[:-1]:
            inner = inner.setdefault(key, {})
        inner[place[-1]] = value

    def _note_misspelt(self, titles: dict[str, int]) -> None:
        absent = [_plain(c) for c in COLUMNS if _plain(c) not in titles]
        for title in titles:
            near = did_you_mean(title, absent)
            if near:
                self.notes.append(f"{SPECIFICATION}: the column {title!r} is ignored{near}")

    def _settings(self) -> None:
        """What is assessed, on what."""
        labelled = self.tabs[SPECIFICATION].labelled()
        for label, place in LABELS.items():
            cell = labelled.get(_plain(label))
            if cell is None:
                continue
            if label in ("Goal", "Group"):
                self._put(place, cell, cell.text(place))
                continue
            example = "{task: detection, python: model.py:detect}"
            example = example if label == "Subject" else "{coco: test.json, images: images}"
            value = cell.inline(place, example)
            if value is not None and not isinstance(value, dict):
                raise cell.refused(place, f"is {cell.value!r}; expected for example {example}")
            self._put(place, cell, value)

    def _circumstances(self, header: int, titles: dict[str, int]) -> None:
        """Tasks 1 and 2: a row a circumstance."""
        tab, groups = self.tabs[SPECIFICATION], dict[str, list[str]]()
        views = [c for t, c in titles.items() if t.startswith(SEEN_BY.lower())]
        for row, at in self._rows(tab, header, titles, (*COLUMNS, SHORT_NAME)):
            id_, name = at["Id"].label(), at["Circumstance"].text(("circumstances",))
            short = at[SHORT_NAME].text(("circumstances",))
            if not id_ or not name or id_ in self.keys:
                lacks = "has no id" if not id_ else "has no name"
                said = f"the id {id_!r} is given twice" if id_ in self.keys else lacks
                cell = at["Circumstance"] if id_ and not name else at["Id"]
                raise cell.refused(("circumstances",), f"{said}; a circumstance has both, once")
            key = circumstance_key(short or name, id_, taken=(MIXTURE, *self.keys.values()))
            self.keys[id_], self.names[id_] = key, name
            self._circumstance(("circumstances", key), at)
            group = at["Exclusive group"].label()
            if group:
                groups.setdefault(group, []).append(key)
                place = ("exclusive", list(groups).index(group))
                self.cells.setdefault(place, at["Exclusive group"].where)
            for column in views:
                who = str(tab.values.cell(header, column).value).strip()[len(SEEN_BY) :]
                self._seen_by(who.strip(), key, tab.cell(row, column))
        if groups:
            self.content["exclusive"] = list(groups.values())
        mixed = [
            c
            for c in self.content.get("circumstances", {}).values()
            if {"transform", "transforms"} & set(c) and "probability" in c
        ]
        if len(mixed) > 1:
            self.content["circumstances"][MIXTURE] = {"mixture": "all"}

    def _circumstance(self, place: Place, at: dict[str, Cell]) -> None:
        """One row: what makes it, how often it is met, and how much it matters."""
        self.cells[place] = at["Circumstance"].where
        made, cell = at["Transform"].text((*place, "transform")), at["Transform"]
        if made.startswith(("[", "{")):
            found = cell.inline((*place, "transform"), "[snow, {motion_blur: 2}]")
            keys = found if isinstance(found, dict) else {"transforms": found}
        else:
            keys = {"transform": made} if made else {"run": False}
        for key, value in keys.items():
            self._put((*place, str(key)), cell, value)
        self._put((*place, "levels"), at["Levels"], _levels(at["Levels"], (*place, "levels")))
        where = (*place, "probability")
        self._put(where, at["Probability"], at["Probability"].number(where))
        for factor in SCALES:
            cell, where = at[factor.capitalize()], (*place, factor)
            self._put(where, cell, cell.rating(factor, where))
        self._put((*place, "description"), at["Circumstance"], at["Circumstance"].label())

    def _seen_by(self, who: str, key: str, cell: Cell) -> None:
        """What another point of view calls a circumstance; one may be several there (task 1)."""
        place = ("robustness", "viewpoints", who)
        for what in filter(None, map(str.strip, cell.text(place).split(";"))):
            views = self.content.setdefault("robustness", {}).setdefault("viewpoints", {})
            views.setdefault(who, {}).setdefault(what, []).append(key)
            self.cells.setdefault(place, cell.where)

    def _source(self) -> None:
        """Task 3: how often the source data show a circumstance."""
        tab, read = self.tabs[GENERATION], (FREQUENCY, LOOKED_AT, ESTIMATOR)
        header, titles = tab.header("Id", FREQUENCY)
        seen: set[str] = set()
        for _, at in self._rows(tab, header, titles, read, also=("Id", "Circumstance")):
            at["Id"].stored(("robustness", "source"))
            id_ = at["Id"].label()
            if id_ not in self.keys or id_ in seen:
                said = "is given twice" if id_ in seen else f"is not in the tab {SPECIFICATION}"
                raise at["Id"].refused(("robustness", "source"), f"the id {id_!r} {said}")
            seen.add(id_)
            name, place = at["Circumstance"], ("robustness", "source", self.keys[id_])
            if name.value is not None and name.label() != self.names[id_]:
                self.notes.append(
                    f"{name.where} calls {id_} {name.label()!r}, the tab {SPECIFICATION} "
                    f"{self.names[id_]!r}; rows are joined by id"
                )
            self._put(place, at[FREQUENCY], _source_of(at, place))

    def _evaluation(self) -> None:
        """Distance, measures and tolerated loss; the area of results holds nothing of a person's."""
        tab = self.tabs[EVALUATION]
        for label, cell in tab.labelled().items():
            place = next((p for name, p in SETTINGS.items() if _plain(name) == label), None)
            if place is not None:
                self._put(place, cell, _setting(cell, place))
        header, titles = tab.header(*PIECES)
        pieces: list[dict[str, Any]] = []
        for _, at in self._rows(tab, header, titles, tuple(PIECES)):
            place = ("robustness", "epsilon", len(pieces))
            values = {k: at[t].number((*place, k)) for t, k in PIECES.items()}
            pieces.append({k: v for k, v in values.items() if v is not None})
            self.cells |= {(*place, k): at[t].where for t, k in PIECES.items()}
            self.cells.setdefault(place, at["Up to"].where)
        if pieces:
            self.content.setdefault("robustness", {})["epsilon"] = pieces
        for row in range(tab.results_row or tab.values.max_row + 1, tab.values.max_row + 1):
            for column in range(1, RESULT_COLUMNS + 1):
                if tab.cell(row, column).formula:
                    raise tab.cell(row, column).refused(
                        (), "holds a formula where results are written; move it to the right"
                    )

    def _rows(
        self,
        tab: Tab,
        header: int,
        titles: dict[str, int],
        read: tuple[str, ...],
        also: tuple[str, ...] = (),
    ) -> Iterator[tuple[int, dict[str, Cell]]]:
        """Rows of a table, by title, in which anything of what is read was entered."""
        for row in range(header + 1, tab.last_row + 1):
            at = {t: tab.cell(row, titles.get(_plain(t))) for t in (*read, *also)}
            example = "Id" in at and at["Id"].label().lower().startswith(EXAMPLE)
            if not example and any(not at[title].empty for title in read):
                yield row, at


def _levels(cell: Cell, place: Place) -> list[int] | None:
    """``1, 2, 3``, or one number."""
    if not isinstance(cell.value, str):
        level = cell.number(place)
        found = [] if level is None else [level]
    else:
        parts = re.split(r"[\s,;]+", cell.text(place))
        if not all(part.isdigit() for part in parts if part):
            raise cell.refused(place, f"is {cell.value!r}; expected levels such as 1, 2, 3")
        found = [int(part) for part in parts if part]
    return found or None  # type: ignore[return-value]


def _source_of(at: dict[str, Cell], place: Place) -> Any:
    """A share, what was found among those looked at, or an estimator."""
    share, size = at[FREQUENCY].number(place), at[LOOKED_AT].number(place)
    estimator = at[ESTIMATOR].text(place)
    if estimator and (share is not None or size is not None):
        raise at[ESTIMATOR].refused(place, "give a relative frequency or an estimator, not both")
    if estimator:
        return {"estimator": estimator}
    if share is None or not 0 <= share <= 1:
        hint = f" (did you mean {share / 100:g}?)" if share is not None and share > 1 else ""
        raise at[FREQUENCY].refused(place, f"a relative frequency from 0 to 1 is expected{hint}")
    if size is None:
        return share
    if size < 1 or size != int(size) or abs(round(share * size) / size - share) > 0.005:
        raise at[LOOKED_AT].refused(
            place, f"{share:g} of {size:g} is no whole number of cases; correct one of them"
        )
    return {"found": round(share * size), "of": int(size)}


def _setting(cell: Cell, place: Place) -> Any:
    if place[-1] in ("significance", "confidence"):
        return cell.number(place)
    text = cell.text(place)
    if place[-1] == "measures":
        return [word for word in re.split(r"[\s,;]+", text) if word] or None
    if text.startswith("{"):
        return cell.inline(place, "{cw_ssim: {levels: 4}}")
    return text


def circumstance_key(name: str, id_: str, *, taken: Collection[str]) -> str:
    """The key of a circumstance in the assessment file: its name in short, or its id."""
    own = _slug(id_) or "x"
    key = _slug(name)
    if not key or len(key) > LONGEST_KEY or key in ("clean", "rest"):
        key = f"c_{own}"
    while key in taken:
        key += f"_{own}"
    return key


def _slug(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")


def _plain(title: Any) -> str:
    """A title without case, double spaces and colon."""
    return " ".join(title.casefold().split()).rstrip(":") if isinstance(title, str) else ""
