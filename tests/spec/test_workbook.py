"""A workbook as assessment file: what it says becomes keys, and what is wrong names its cell."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.worksheet.worksheet import Worksheet

from roadworthy.report.workbook import empty_workbook
from roadworthy.spec import Assessment, Document, SpecError
from roadworthy.spec.workbook import circumstance_key

SUBJECT = "{task: detection, python: model.py:detect}"
DATA = "{coco: test.json, images: images}"
BOXES = (
    # Wozniak et al. 2024, boxes 1 to 3: id, name, target, source, exposure, likelihood, severity
    (1, "density contrast varies significantly", 0.15, 0.05, 3, 2, 3),
    (2, "some pixel lines shifted", 0.2, 0, 3, 3, 2),
    (3, "cross-section truncated", 0.15, 0.1, 5, 2, 2),
    (4, "motion blur", 0.1, 0.05, 5, 1, 3),
    (5, "Gaussian blur", 0.1, 0, 3, 1, 3),
    (6, "salt and pepper noise", 0.1, 0, 3, 1, 1),
    (7, "rotation between -20 and 20 degrees", 0.1, 0, 5, 1, 2),
    (8, "resolution altered in preprocessing", 0.1, 0, 3, 2, 2),
)
TRANSFORMS = {1: "contrast", 4: "motion_blur", 5: "defocus_blur"}
FIRST, SOURCE, PIECE = 13, 6, 10
"""The first rows below the examples, and of the table of epsilon."""


class Filled:
    """An empty workbook, filled in by a person."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workbook.xlsx"
        self.book = openpyxl.load_workbook(io.BytesIO(empty_workbook(SUBJECT, DATA)))
        self.specification, self.generation, self.evaluation, _ = self.book.worksheets

    def boxes(self) -> Filled:
        """Boxes 1 to 3, and the relation of box 7."""
        for i, (id_, name, target, source, *ratings) in enumerate(BOXES):
            made = [TRANSFORMS[id_], "1, 2, 3"] if id_ in TRANSFORMS else [None, None]
            put(self.specification, FIRST + i, [id_, name, *made, target, *ratings])
            put(self.generation, SOURCE + i, [id_])
            self.generation.cell(SOURCE + i, 3, source)
        put(self.evaluation, PIECE, [0.25, 0, 0.01])
        put(self.evaluation, PIECE + 1, [1, 1, 0])
        return self

    def saved(self) -> Path:
        self.book.save(self.path)
        return self.path

    def document(self) -> Document:
        return Document.read(self.saved())

    def refused(self) -> str:
        with pytest.raises(SpecError) as caught:
            Assessment.read(self.saved())
        return str(caught.value).removeprefix(str(self.path))


def put(sheet: Worksheet, row: int, values: list) -> None:
    for column, value in enumerate(values, start=1):
        sheet.cell(row, column).value = value


@pytest.fixture
def filled(tmp_path) -> Filled:
    return Filled(tmp_path)


def test_an_empty_workbook_says_subject_and_data_and_leaves_out_its_examples(filled):
    assert filled.document().content == {
        "subject": {"task": "detection", "python": "model.py:detect"},
        "data": {"test": {"coco": "test.json", "images": "images"}},
        "confidence": 0.95,
        "robustness": {"distance": "ssim", "loss": "one-sided"},
    }


def test_the_boxes_of_the_paper_become_the_keys_of_an_assessment_file(filled):
    filled.boxes().specification["B1"] = "Evaluate the robustness of the detector"
    content = filled.document().content
    circumstances, robustness = content["circumstances"], content["robustness"]
    assert circumstances.pop("mixture") == {"mixture": "all"}
    assert list(circumstances)[2:5] == ["cross_section_truncated", "motion_blur", "gaussian_blur"]
    assert circumstances["motion_blur"] == {
        "transform": "motion_blur", "levels": [1, 2, 3], "probability": 0.1, "exposure": 5,
        "likelihood": 1, "severity": 3, "description": "motion blur",
    }  # fmt: skip
    assert circumstances["cross_section_truncated"]["run"] is False
    assert list(robustness["source"].values()) == [row[3] for row in BOXES]
    assert list(robustness["source"]) == list(circumstances)
    assert robustness["epsilon"] == [
        {"up_to": 0.25, "slope": 0, "intercept": 0.01},
        {"up_to": 1, "slope": 1, "intercept": 0},
    ]
    assert robustness["goal"] == "Evaluate the robustness of the detector"
    spec = Assessment.read(filled.path)
    rated = [c for c in spec.circumstances.values() if c.exposure]
    found = [c.exposure * c.likelihood * c.severity for c in rated]
    assert found == [18, 18, 20, 15, 9, 3, 10, 12]


def test_the_text_of_the_document_is_yaml_that_says_the_same(filled):
    document = filled.boxes().document()
    assert yaml.safe_load(document.text) == document.content
    again = Assessment.parse(document.text, "assessment.yaml")
    assert again.model_dump() == Assessment.read(filled.path).model_dump()


def test_words_of_table_5_points_of_view_and_exclusive_groups_are_read(filled):
    row = [1, "fog", "fog", 2, 0.3, "Frequent", "possible", "catastrophic", None, "weather"]
    put(filled.specification, FIRST, [*row, "smoke; a dirty lens"])
    row = [2, "rain", "[snow, {motion_blur: 2}]", "1; 2", 0.2, 1, 1, 1, None, "weather", "smoke"]
    put(filled.specification, FIRST + 1, row)
    put(filled.specification, FIRST + 2, [3, "site B", "{where: {site: B}}"])
    content = filled.document().content
    fog = content["circumstances"]["fog"]
    assert (fog["exposure"], fog["likelihood"], fog["severity"]) == (4, 3, 5)
    assert fog["levels"] == [2]
    assert content["circumstances"]["rain"]["transforms"] == ["snow", {"motion_blur": 2}]
    assert content["circumstances"]["site_b"]["where"] == {"site": "B"}
    assert content["exclusive"] == [["fog", "rain"]]
    views = {"user": {"smoke": ["fog", "rain"], "a dirty lens": ["fog"]}}
    assert content["robustness"]["viewpoints"] == views


def test_tabs_and_columns_are_found_by_title_in_any_order(filled):
    plain = filled.boxes().document().content
    filled.generation.title = "Test cases generation"
    filled.book.move_sheet("Evaluation", -2)
    filled.specification.insert_cols(3)
    filled.specification.cell(10, 3, "Remarks")
    filled.specification.cell(FIRST, 3, "whatever")
    put(filled.evaluation, 9, ["UP TO ", "intercept", "slope:"])
    for row in (PIECE, PIECE + 1):
        b, c = filled.evaluation.cell(row, 2), filled.evaluation.cell(row, 3)
        b.value, c.value = c.value, b.value
    assert filled.document().content == plain


def test_a_sample_looked_at_and_an_estimator_are_other_ways_to_know_a_frequency(filled):
    filled.boxes()
    filled.generation.cell(SOURCE, 4, 200)
    put(filled.generation, SOURCE + 1, [2, None, None, None, "blur"])
    source = list(filled.document().content["robustness"]["source"].values())
    assert source[:3] == [{"found": 10, "of": 200}, {"estimator": "blur"}, 0.1]
    filled.generation.cell(SOURCE, 4, 7)
    said = ", 'Test case generation'!D6: robustness.source.density_contrast_varies_significantly: "
    assert filled.refused().startswith(f"{said}0.05 of 7 is no whole number")


def test_names_that_differ_between_tabs_are_a_note_and_ids_join_them(filled):
    filled.boxes().generation.cell(SOURCE + 1, 2, "Same pixel lines shifted")
    (note,) = filled.document().notes
    assert note.startswith("'Test case generation'!B7: 'Same pixel lines shifted'")
    filled.generation.cell(SOURCE + 1, 1, 9)
    assert "'Test case generation'!A7: robustness.source: '9' is no id" in filled.refused()


def test_a_misspelt_column_is_a_note(filled):
    filled.specification["E10"] = "Probabilty"
    assert filled.document().notes == (
        "Specification: the column 'Probabilty' is not read (did you mean 'Probability'?)",
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0,15", "is '0,15' where a number belongs; it is text, enter the number 0.15"),
        ("15%", "is '15%' where a number belongs; it is text, enter the number 0.15"),
        ("0.15", "is '0.15' where a number belongs; it is text, enter the number 0.15"),
        ("often", "is 'often' where a number belongs"),
        (True, "is True where a number belongs"),
        ("=0.3/2", "holds a formula without a stored value; open and save it, or enter the number"),
        (1.5, "input should be less than or equal to 1; it is 1.5"),
    ],
)
def test_what_is_no_probability_is_refused_by_its_cell(filled, value, said):
    filled.boxes().specification["E16"] = value
    place = "circumstances.motion_blur.probability"
    assert filled.refused() == f", Specification!E16: {place}: {said}"


def test_a_number_in_percent_is_a_number(filled):
    filled.boxes().specification["E16"] = 0.15
    filled.specification["E16"].number_format = "0%"
    assert filled.document().content["circumstances"]["motion_blur"]["probability"] == 0.15


@pytest.mark.parametrize(
    ("cell", "value", "said"),
    [
        ("F13", "often", ".exposure: is 'often' where a number belongs; it is one of 1 rare, 2 un"),
        ("F13", 6, ".exposure: input should be 1, 2, 3, 4 or 5"),
        ("D13", "1-3", ".levels: is '1-3'; expected levels such as 1, 2, 3"),
        ("C13", "contrst", ".transform: no transform is called 'contrst' (did you mean 'contrast"),
        ("B2", "{task: detekt, python: a.py:f}", "subject.task: the task is 'detekt'"),
        ("B2", "model.py", "subject: is 'model.py'; expected for example {task: detection,"),
        ("B2", None, "subject: is missing"),
        ("B3", "{coco: [}", "data.test: is '{coco: [}'; expected for example {coco: test.json"),
        ("A14", 1, "circumstances: '1' is the id of two rows"),
        ("A14", None, "circumstances: a row needs an id"),
        ("B14", "=1+1", "circumstances: holds a formula where text belongs; enter the text"),
    ],
)
def test_what_is_wrong_in_the_first_tab_names_its_cell(filled, cell, value, said):
    filled.boxes().specification[cell] = value
    found = filled.refused()
    assert found.startswith(f", Specification!{cell}: ")
    assert said in found


def test_an_exclusive_group_above_1_is_refused_by_its_cell(filled):
    for row, p in ((FIRST, 0.7), (FIRST + 3, 0.6)):
        filled.boxes().specification.cell(row, 5).value = p
        filled.specification.cell(row, 10).value = "weather"
    filled.specification.cell(FIRST, 5).value = 0.7
    assert filled.refused().startswith(", Specification!J13: exclusive[0]: the probabilities of ")


def test_an_exclusive_group_is_marked_exhaustive_behind_its_name(filled):
    filled.boxes()
    for row, p, name in ((FIRST, 0.6, "light (Exhaustive)"), (FIRST + 1, 0.4, "light")):
        filled.specification.cell(row, 5).value = p
        filled.specification.cell(row, 10).value = name
    (group,) = Assessment.read(filled.saved()).exclusive
    assert group.exhaustive and len(group.of) == 2
    filled.specification.cell(FIRST, 5).value = 0.5
    assert "sum to 0.9; an exhaustive group sums to 1" in filled.refused()


def test_an_epsilon_that_cannot_be_meant_is_refused_by_its_cell(filled):
    filled.boxes().evaluation.cell(PIECE, 1).value = -1
    assert filled.refused().startswith(f", Evaluation!A{PIECE}: robustness.epsilon[0].up_to: ")


def test_a_formula_in_the_area_of_results_is_refused_by_its_cell(filled):
    filled.boxes().evaluation["C25"] = "=1+1"
    assert ", Evaluation!C25: holds a formula where results are written" in filled.refused()


def test_a_formula_counts_by_its_stored_value(filled, tmp_path):
    # openpyxl stores no values of formulas: it is put into the file as Excel would.
    filled.boxes().specification["E16"] = "=0.3/2"
    with zipfile.ZipFile(filled.saved()) as old, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as new:
        for item in old.infolist():
            stored = rb"\g<1><v>0.15</v>"
            part = re.sub(rb"(<f>0\.3/2</f>)<v\s*(/>|></v>)", stored, old.read(item))
            new.writestr(item, part)
    found = Document.read(tmp_path / "b.xlsx").content["circumstances"]["motion_blur"]
    assert found["probability"] == 0.15


def test_a_file_that_is_no_workbook_and_a_missing_tab_say_what_to_do(filled, tmp_path):
    (tmp_path / "no.xlsx").write_text("no workbook")
    with pytest.raises(SpecError, match=r"no\.xlsx: is no \.xlsx workbook, or has a password"):
        Document.read(tmp_path / "no.xlsx")
    with pytest.raises(SpecError, match="there is no such file; `roadworthy init` writes one"):
        Document.read(tmp_path / "none.xlsx")
    del filled.book["Evaluation"]
    assert "there is no tab 'Evaluation', only Specification, Test case gen" in filled.refused()


def test_without_openpyxl_the_extra_is_named(filled, monkeypatch):
    path = filled.saved()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(SpecError, match=r"needs openpyxl, which is not installed: pip .*xlsx"):
        Document.read(path)


@given(st.lists(st.text(min_size=1, max_size=60), max_size=8))
def test_keys_are_valid_and_unique_whatever_the_names(names):
    keys: list[str] = []
    for i, name in enumerate(names):
        keys.append(circumstance_key(name, str(i), keys))
    assert len(set(keys)) == len(keys)
    text = f"subject: {SUBJECT}\ndata: {{test: {DATA}}}\n"
    circumstances = {key: {"run": False} for key in keys}
    text += yaml.safe_dump({"circumstances": circumstances}, allow_unicode=True)
    assert list(Assessment.parse(text, "a.yaml").circumstances) == sorted(keys)
