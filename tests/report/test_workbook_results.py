"""Results in the third tab of a workbook: they are there, and everything else is as it was."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from openpyxl.comments import Comment
from sample_run import build

from roadworthy.cli.app import run
from roadworthy.data.png import encode_png
from roadworthy.report.workbook import empty_workbook, results_written
from roadworthy.store.record import Record

INJECTED = '=HYPERLINK("http://example.org","click")'
RELATION = {
    "circumstance": "fog", "level": 1.0, "measure": "ap", "source": 0.34, "target": 0.246,
    "loss": 0.094, "interval": None, "distance": 0.154, "distance_interval": None,
    "epsilon": 0.01, "weight": 0.5, "margin": -0.089, "outcome": "breached", "unweighted": "",
}  # fmt: skip
"""Box 7 of the paper, for AP."""
OUTCOME = {
    "circumstance": "fog", "level": 1.0, "outcome": "breached", "unadjusted": "breached",
    "holds": 0, "metrics": 5,
}  # fmt: skip
PERFORMANCE = {"circumstance": "", "level": None, "measure": "ap", "value": 0.34, "cases": 1600}


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Record:
    found = Record.read(build(tmp_path_factory.mktemp("runs") / "run-1"))
    part = {"missing": 63, "over_or_under": 100, "covered": 0, "relation": [RELATION]}
    part |= {"outcomes": [OUTCOME], "performance": [PERFORMANCE]}
    found.sections["robustness"] = part
    found.circumstances[0].description = INJECTED
    return found


def own_workbook() -> bytes:
    """A workbook with a person's tab, comment, formulas with stored values, and formats."""
    book = openpyxl.load_workbook(io.BytesIO(empty_workbook()))
    mine, evaluation = book.create_sheet("Mine"), book["Evaluation"]
    mine["A1"] = "=Evaluation!B19"
    mine["A1"].comment = Comment("the verdict", "me")
    evaluation["A1"].comment = Comment("why ssim", "me")
    evaluation["B1"] = "cw_ssim"
    evaluation["N20"], evaluation["N21"] = "=1+1", "kept"
    evaluation.row_dimensions[20].height = 33
    evaluation.column_dimensions["C"].width = 77
    content, stored = io.BytesIO(), io.BytesIO()
    book.save(content)
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(stored, "w") as new:
        for item in old.infolist():
            part = re.sub(rb"(<f>1\+1</f>)<v\s*(/>|></v>)", rb"\g<1><v>2</v>", old.read(item))
            part = part.replace(b'fullCalcOnLoad="1"', b"")
            new.writestr(item, part)
    return stored.getvalue()


def rows_of(workbook: bytes) -> list[list]:
    sheet = openpyxl.load_workbook(io.BytesIO(workbook))["Evaluation"]
    rows = [[c.value for c in row[:11]] for row in sheet.iter_rows(min_row=18)]
    return [[v for v in row if v is not None] for row in rows]


def test_results_stand_below_their_mark(record):
    rows = rows_of(results_written(empty_workbook(), record))
    assert rows[0][0] == "Results (written by roadworthy)"
    facts = {row[0]: row[1] for row in rows[1:8]}
    assert facts["Global verdict"] == "not robust"
    assert facts["Run folder"] == "run-1"
    assert [v for k, v in facts.items() if "Miss" in k or "Over" in k or "Cov" in k] == [63, 100, 0]
    judged = ["not robust", "not robust: holds for 0 of 5"]
    numbers = [0.34, 0.246, 0.094, 0.154, 0.005, -0.089]
    assert rows[10] == [INJECTED, 1, "ap", *numbers, *judged]
    assert rows[-1] == ["source", "ap", 0.34, 1600]


def test_text_that_looks_like_a_formula_is_written_as_text(record):
    written = results_written(empty_workbook(), record)
    sheet = openpyxl.load_workbook(io.BytesIO(written))["Evaluation"]
    cells = [c for row in sheet.iter_rows(min_row=18) for c in row if c.value is not None]
    assert {c.data_type for c in cells} == {"s", "n"}
    assert [c.data_type for c in cells if c.value == INJECTED] == ["s"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "<&>\x01"])
def test_no_text_becomes_a_formula_in_the_empty_workbook(text):
    book = openpyxl.load_workbook(io.BytesIO(empty_workbook(text.replace("\x01", ""))))
    cell = book["Specification"]["B2"]
    assert cell.data_type == "s"
    assert cell.value.strip() == text.replace("\x01", "").strip()


def test_what_is_a_persons_is_kept(record):
    before = own_workbook()
    after = results_written(results_written(before, record), record)
    book = openpyxl.load_workbook(io.BytesIO(after))
    evaluation = book["Evaluation"]
    assert book["Mine"]["A1"].value == "=Evaluation!B19"
    assert book["Mine"]["A1"].comment.text == "the verdict"
    assert evaluation["A1"].comment.text == "why ssim"
    assert (evaluation["B1"].value, evaluation["N20"].value) == ("cw_ssim", "=1+1")
    assert evaluation["N21"].value == "kept"
    assert evaluation.row_dimensions[20].height == 33
    assert evaluation.column_dimensions["C"].width == 77
    assert evaluation["A18"].font.b and evaluation["A27"].font.b and not evaluation["A19"].font.b
    # openpyxl would have dropped the stored value.
    stored = openpyxl.load_workbook(io.BytesIO(after), data_only=True)["Evaluation"]["N20"].value
    assert stored == 2


def test_every_part_but_the_third_tab_keeps_its_bytes(record):
    before = own_workbook()
    with (
        zipfile.ZipFile(io.BytesIO(before)) as old,
        zipfile.ZipFile(io.BytesIO(results_written(before, record))) as new,
    ):
        assert old.namelist() == new.namelist()
        changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
        assert set(changed) == {"xl/workbook.xml", "xl/worksheets/sheet3.xml"}
        # A person's formulas that read results are computed when the file is opened.
        assert b'fullCalcOnLoad="1"' in new.read("xl/workbook.xml")


def test_fewer_results_leave_none_of_the_old_ones(record):
    many = record.model_copy(deep=True)
    many.sections["robustness"]["relation"] = [RELATION] * 30
    written = results_written(own_workbook(), many)
    once = results_written(own_workbook(), record)
    assert rows_of(results_written(written, record))[: len(rows_of(once))] == rows_of(once)
    assert not any(rows_of(results_written(written, record))[len(rows_of(once)) :])


def test_without_the_mark_results_stand_below_all_that_is_there(record):
    book = openpyxl.load_workbook(io.BytesIO(own_workbook()))
    book["Evaluation"]["A18"] = None
    book["Evaluation"]["A30"] = "a remark"
    content = io.BytesIO()
    book.save(content)
    sheet = openpyxl.load_workbook(io.BytesIO(results_written(content.getvalue(), record)))
    assert sheet["Evaluation"]["A30"].value == "a remark"
    assert sheet["Evaluation"]["A32"].value == "Results (written by roadworthy)"


MODEL = """
import numpy as np

def detect(image):
    bright = np.argwhere(np.asarray(image)[..., 0] > 150)
    if not len(bright):
        return {"boxes": [], "scores": [], "classes": []}
    (top, left), (bottom, right) = bright.min(0), bright.max(0) + 1
    return {"boxes": [[left, top, right, bottom]], "scores": [0.9], "classes": [0]}
"""


def detector(folder: Path) -> None:
    """A detector of the one bright rectangle, and its data."""
    rng, images, boxes = np.random.default_rng(4), [], []
    (folder / "images").mkdir()
    for i in range(1, 13):
        x, y, w, h = (int(v) for v in rng.integers([2, 2, 8, 8], [14, 14, 16, 16]))
        picture = np.full((32, 32, 3), 60, np.uint8)
        picture[y : y + h, x : x + w] = 255 if i % 3 else 160
        (folder / f"images/{i}.png").write_bytes(encode_png(picture))
        images.append({"id": i, "file_name": f"{i}.png", "width": 32, "height": 32})
        about = {"id": i, "image_id": i, "category_id": 1, "iscrowd": 0, "area": w * h}
        boxes.append({**about, "bbox": [x, y, w, h]})
    content = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "box"}]}
    (folder / "test.json").write_text(json.dumps(content))
    (folder / "model.py").write_text(MODEL)


def test_a_workbook_is_written_filled_in_and_assessed(tmp_path, monkeypatch, capsys):
    """Boxes 1 and 3 of the paper give 63%, 100% and 0%; a relation that fails exits with 1."""
    monkeypatch.chdir(tmp_path)
    detector(tmp_path)
    assert run(["init", "--workbook"]) == 0
    book = openpyxl.load_workbook("workbook.xlsx")
    specification, generation, evaluation, _ = book.worksheets
    assert specification["B2"].value == '{task: detection, python: "model.py:detect"}'
    targets = (0.15, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1, 0.1)
    sources = (0.05, 0, 0.1, 0.05, 0, 0, 0, 0)
    for i, (target, source) in enumerate(zip(targets, sources, strict=True)):
        made = {0: "contrast"}.get(i)
        row = [i + 1, f"circumstance {i}", made, "1" if made else None, target, 3, 2, 3]
        for column, value in enumerate(row, start=1):
            specification.cell(13 + i, column).value = value
        generation.cell(6 + i, 1, i + 1)
        generation.cell(6 + i, 3, source)
    for column, value in enumerate((2, 0, 0.01), start=1):
        evaluation.cell(10, column, value)
    evaluation["B2"] = "recall"
    book.save("workbook.xlsx")
    assert run(["assess", "workbook.xlsx", "--in-place"]) == 1
    (copy,) = Path("runs").glob("*/workbook.xlsx")
    assert f"Workbook: {copy}" in capsys.readouterr().out
    for written in (Path("workbook.xlsx"), copy):
        facts = {row[0]: row[1:] for row in rows_of(written.read_bytes()) if row}
        assert facts["Global verdict"] == ["not robust"]
        assert facts["Missing in the source data (% of circumstances)"] == [63]
        assert facts["Over- or under-represented (% of circumstances)"] == [100]
        assert facts["Covered (% of circumstances)"] == [0]
        assert facts["circumstance 0"][:2] == [1, "recall"]
    not_run = "circumstance 1: specified as a circumstance of use, but not run"
    assert not_run in Record.read(copy.parent).not_tested
    assert run(["assess", "workbook.xlsx"]) == 1
