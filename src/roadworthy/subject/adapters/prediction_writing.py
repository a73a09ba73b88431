"""Writing predictions by case id, for people's own scripts and for runs that are carried to another machine.

>>> import tempfile
>>> from roadworthy.data.values import CLASS_SCORES
>>> file = Path(tempfile.mkdtemp()) / "preds.jsonl"
>>> write_predictions(file, ["a", "b"], CLASS_SCORES, [[0.25, 0.75], None])
>>> print(file.read_text())
{"id": "a", "scores": [0.25, 0.75]}
{"id": "b", "error": "there was no answer"}
<BLANKLINE>
"""

from __future__ import annotations

import csv
import json
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import TEXT, Kind
from roadworthy.subject.adapters.prediction_forms import Form, form_of
from roadworthy.subject.module import SubjectError

NO_ANSWER = "there was no answer"


def write_predictions(
    path: Path | str,
    ids: Sequence[str],
    kind: Kind,
    outputs: Sequence[Any] | np.ndarray,
    *,
    errors: Sequence[str | None] | np.ndarray | None = None,
) -> None:
    """Write predictions as .jsonl, .csv, .parquet or .npz; floats come back to the last bit.

    An output that is None, or a row of nothing but NaN, is written as a failure, with its reason from `errors`.
    """
    file = Path(path)
    if file.suffix not in WRITERS:
        raise SubjectError(
            f"predictions are written as {', '.join(WRITERS)}; {file.name} ends in none of them"
        )
    if len(ids) != len(outputs) or len(set(ids)) != len(ids):
        raise SubjectError(
            f"there are {len(ids)} ids ({len(set(ids))} different ones) and {len(outputs)} outputs; "
            "one output for each of different ids was expected"
        )
    form = form_of(kind)
    reasons = [None] * len(ids) if errors is None else list(errors)
    items = [
        None if why is not None or _nothing(o) else o
        for o, why in zip(outputs, reasons, strict=True)
    ]
    told = [(why or NO_ANSWER) if o is None else "" for o, why in zip(items, reasons, strict=True)]
    partial = file.with_name(f"{file.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        WRITERS[file.suffix](partial, [str(i) for i in ids], form, items, told)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def _nothing(output: Any) -> bool:
    return output is None or (
        isinstance(output, np.ndarray) and output.dtype.kind == "f" and bool(np.isnan(output).all())
    )


def _json_lines(file: Path, ids: list[str], form: Form, items: list[Any], told: list[str]) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for name, item, why in zip(ids, items, told, strict=True):
            row = {"id": name, **({"error": why} if item is None else form.encode(item))}
            stream.write(json.dumps(row, allow_nan=False) + "\n")


def _csv(file: Path, ids: list[str], form: Form, items: list[Any], told: list[str]) -> None:
    if not form.kind.dense and form.kind is not TEXT:
        raise SubjectError(
            f"CSV holds class scores, vectors or text; write {form.kind.name} as JSON lines"
        )
    values = _matrix(items) if form.kind.dense else None
    (key,) = form.keys
    names = ["text"] if values is None else [f"{key}_{i}" for i in range(values.shape[1])]
    failed = ["error"] if any(told) else []
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", *names, *failed])
        for row, (name, why) in enumerate(zip(ids, told, strict=True)):
            cells = [items[row]] if values is None else [repr(v) for v in values[row].tolist()]
            writer.writerow(
                [name, *([""] * len(names) if why else cells), *([why] if failed else [])]
            )


def _parquet(file: Path, ids: list[str], form: Form, items: list[Any], told: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"id": pa.array(ids, pa.string())}
    if form.kind.dense:
        values = _matrix(items)
        flat = pa.array(values.ravel())
        columns[form.keys[0]] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    else:
        types = {
            "text": pa.string(),
            "numbers": pa.list_(pa.float64()),
            "indices": pa.list_(pa.int64()),
            "rows": pa.list_(pa.list_(pa.float64())),
        }
        rows = [None if item is None else _arrow_row(form, item) for item in items]
        for key, shape in form.arrow.items():
            columns[key] = pa.array([None if r is None else r[key] for r in rows], types[shape])
    if any(told):
        columns["error"] = pa.array([why or None for why in told], pa.string())
    pq.write_table(pa.table(columns), file, compression="zstd")


def _arrow_row(form: Form, item: Any) -> dict[str, Any]:
    row = form.encode(item)
    for key, shape in form.arrow.items():
        if shape == "text" and not isinstance(row[key], str):
            row[key] = json.dumps(row[key])
        elif shape == "numbers":
            row[key] = [float(v) for v in row[key]]
        elif shape == "rows":
            row[key] = [[float(v) for v in r] for r in row[key]]
    return row


def _npz(file: Path, ids: list[str], form: Form, items: list[Any], told: list[str]) -> None:
    if form.kind.dense:
        arrays: dict[str, Any] = {form.keys[0]: _matrix(items)}
    else:
        packed = form.kind.pack(items)
        texts = {
            k: np.array([t or "" for t in v]) for k, v in packed.items() if isinstance(v, list)
        }
        arrays = {**packed, **texts}
    if any(told):
        arrays["error"] = np.array(told)
    with file.open("wb") as stream:
        np.savez_compressed(stream, id=np.array(ids), **arrays)


def _matrix(items: Sequence[Any]) -> np.ndarray:
    """Rows of one width, in the type they have; NaN where there is none."""
    known = [np.atleast_1d(np.asarray(i)) for i in items if i is not None]
    widths = {k.shape for k in known}
    if len(widths) > 1:
        raise SubjectError(
            f"the outputs have different shapes: {', '.join(map(str, sorted(widths)))}"
        )
    dtype = np.result_type(np.float32, *(k.dtype for k in known))
    values = np.full((len(items), *(widths.pop() if widths else (1,))), np.nan, dtype=dtype)
    for row, item in enumerate(items):
        if item is not None:
            values[row] = item
    return values


WRITERS: dict[str, Callable[[Path, list[str], Form, list[Any], list[str]], None]] = {
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".parquet": _parquet,
    ".npz": _npz,
}
"""Writers by the ending of a file's name."""
