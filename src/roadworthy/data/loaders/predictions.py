"""The truth, groups and slices of a table of answers (`roadworthy.data.answers`): no input is there, only what was answered.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "answers.csv"
>>> _ = file.write_text("id,label,prediction,site\\na,cat,cat,A\\nb,dog,cat,B\\n")
>>> data = predictions(path=file.name, base=file.parent)
>>> data.column("label").tolist(), data.metadata["site"].tolist()
(['cat', 'dog'], ['A', 'B'])
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roadworthy.data.answers import read_answers, read_columns
from roadworthy.data.loaders.files import located
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.values import LABEL, VECTOR
from roadworthy.registry import register


@register(
    "loaders",
    "predictions",
    keys=("predictions",),
    gives={"inputs": ("vector",), "targets": ("label", "vector")},
)
@reads
def predictions(
    *,
    path: str,
    task: str | None = None,
    drop_unlabelled: bool = False,
    group: str | None = None,
    base: Path = Path(),
) -> Samples:
    """A table of answers with the truth beside them: CSV, Parquet or JSON lines."""
    file = located(path, base=base, what="predictions")
    own = group if group in read_columns(file) else None  # else a column of metadata
    found = read_answers(file, group=own, task=task, drop_unlabelled=drop_unlabelled)
    classes = found.task == "classification"
    return Samples(
        name=file.name,
        source=file,
        input_kind=VECTOR,
        inputs=np.zeros((len(found.ids), 0)),
        target_kind=LABEL if classes else VECTOR,
        targets=found.truth if classes else found.truth[:, None],
        ids=found.ids,
        columns=found.metadata,
        group=found.group,
        classes=found.classes or None,
        notes=found.notes,
    )
