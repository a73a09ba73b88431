"""A table with one line a sample: an image file or feature columns, a label or numbers to predict, and metadata.

``{csv: cases.csv, images: img/}`` reads the columns `image` and `label`; ``target: [steering]``
predicts numbers instead, and ``text: transcript`` the text that the image shows. ``features: [a, b]``
takes columns of the table as the input. Every other column is metadata, and features are too: a
circumstance may speak of the age that the subject is given.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "cases.csv"
>>> _ = file.write_text("a,b,label,site\\n1,2,cat,B\\n3,4,dog,A\\n")
>>> data = csv(path=file.name, features=["a", "b"], base=file.parent)
>>> data.inputs.tolist(), data.targets.tolist(), data.metadata["site"].tolist()
([[1.0, 2.0], [3.0, 4.0]], [0, 1], ['B', 'A'])
>>> data.where({"a": {"min": 2}}).tolist()
[False, True]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roadworthy.data.loaders.files import CsvTable, Files, located, read_image
from roadworthy.data.loaders.joining import Samples, labelled, reads
from roadworthy.data.samples import DataError, Inputs
from roadworthy.data.values import IMAGE, LABEL, TEXT, VECTOR, Kind
from roadworthy.registry import register


@register(
    "loaders",
    "csv",
    keys=("csv",),
    gives={"inputs": ("image", "vector"), "targets": ("label", "vector", "text")},
)
@reads
def csv(
    *,
    path: str,
    images: str | None = None,
    image: str = "image",
    features: list[str] | None = None,
    label: str | None = "label",
    target: str | list[str] | None = None,
    text: str | None = None,
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """A CSV or TSV table of images (or features) with a label, numbers or a text to predict; other columns are metadata."""
    table = CsvTable.read(located(path, base=base, what="csv"))
    if not features and image not in table:
        numeric = ", ".join(n for n in table.columns if n not in ("id", label))
        raise DataError(
            f"{table.file.name} has no column {image!r} of image files. Name it under image, or, if the "
            f"inputs are numbers in columns, name those: features: [{numeric}]"
        )
    used = [*([] if features else [image]), "id"]
    inputs: Inputs
    if features:
        kind: Kind = VECTOR
        inputs, source = table.numbers(features), table.file
        ids: list[str] | None = None
    else:
        kind, ids = IMAGE, table[image]
        source = (
            table.file.parent
            if images is None
            else located(images, base=base, what="images", folder=True)
        )
        _refuse_empty(table, image)
        inputs = Files(tuple(source / i for i in ids), read_image)
    columns, truth, truth_kind, names = _targets(table, label, target, text, classes)
    return Samples(
        name=table.file.name,
        # an image is the same sample in every table, but ids of a table's own may start again in the next
        source=table.file if "id" in table else source,
        input_kind=kind,
        inputs=inputs,
        target_kind=truth_kind,
        targets=truth,
        ids=table.columns.get("id", ids),
        columns=table.without([*used, *columns]),
        classes=names,
    )


def _targets(
    table: CsvTable,
    label: str | None,
    target: str | list[str] | None,
    text: str | None,
    classes: tuple[str, ...] | None,
) -> tuple[list[str], Any, Kind | None, tuple[str, ...] | None]:
    if target is not None:
        columns = [target] if isinstance(target, str) else target
        return columns, table.numbers(columns), VECTOR, classes
    if text is not None:
        return [text], table[text], TEXT, classes
    if label is None:
        return [], None, None, classes
    if label not in table:
        try:
            table[label]
        except DataError as error:
            raise DataError(
                f"{error}. Name the column under label (classes) or target (numbers), or write label: null for none"
            ) from None
    indices, names = labelled(
        table[label], classes, where=lambda row: f"{table.file}, line {table.lines[row]}"
    )
    return [label], indices, LABEL, names


def _refuse_empty(table: CsvTable, image: str) -> None:
    empty = next((row for row, cell in enumerate(table[image]) if not cell), None)
    if empty is not None:
        raise DataError(
            f"{table.file}, line {table.lines[empty]}: the column {image!r} is empty; name the file"
        )
