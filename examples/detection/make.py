"""Makes this folder: pictures, test.json, test.csv and workbook.xlsx: ``python examples/detection/make.py``.

They are 16 patients that stand in no set of ``studies/detection/medical``, whose weights are used."""

import io
import sys
from pathlib import Path

import openpyxl
import yaml

from roadworthy.report.workbook import empty_workbook

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "studies" / "detection"))

from dataset import groups, write  # noqa: E402
from sections import CLASSES, patient  # noqa: E402

PATIENTS, STREAM = 16, 4
ROWS, SOURCES, PIECES = 13, 6, 10
"""The first empty rows of the three tabs."""


def workbook(file: dict) -> None:
    """The assessment file as a person would write it into the spreadsheet."""
    inline = {k: yaml.safe_dump(v, default_flow_style=True, width=1000).strip()
              for k, v in (("subject", file["subject"]), ("test", file["data"]["test"]))}  # fmt: skip
    book = openpyxl.load_workbook(io.BytesIO(empty_workbook(**inline)))
    specification, generation, evaluation, _ = book.worksheets
    asked = file["robustness"]
    values = {"Goal": asked["goal"], "Group": file["data"]["group"], "Distance": asked["distance"],
              "Measures": ", ".join(asked["measures"])}  # fmt: skip
    for sheet in book.worksheets:
        for row in sheet.iter_rows(max_col=1):
            if row[0].value in values:
                sheet.cell(row[0].row, 2).value = values[row[0].value]
    made = {k: c for k, c in file["circumstances"].items() if "transform" in c}
    known = {"shifted_lines": (0, None), "salt_and_pepper": (1 / 64, 64)}
    for i, (name, c) in enumerate(made.items()):
        levels = ", ".join(map(str, c["levels"]))
        rated = [c["probability"], c["exposure"], c["likelihood"], c["severity"]]
        for column, value in enumerate([i + 1, name, c["transform"], levels, *rated], start=1):
            specification.cell(ROWS + i, column).value = value
        generation.cell(SOURCES + i, 1).value = i + 1
        for column, value in zip((3, 4), known.get(name, (None, None)), strict=True):
            generation.cell(SOURCES + i, column).value = value
    for i, piece in enumerate(asked["epsilon"]):
        row = [piece["up_to"], piece.get("slope", 0), piece.get("intercept", 0)]
        for column, value in enumerate(row, start=1):
            evaluation.cell(PIECES + i, column).value = value
    book.save(HERE / "workbook.xlsx")


if __name__ == "__main__":
    write(groups(patient, PATIENTS, STREAM), HERE, "test", "patient", CLASSES)
    workbook(yaml.safe_load((HERE / "assessment.yaml").read_text()))
