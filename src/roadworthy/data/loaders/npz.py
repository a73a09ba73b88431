"""Arrays of one npz file: images (or rows of features), labels (or numbers to predict), and whatever describes them.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "set.npz"
>>> np.savez(file, images=np.zeros((2, 8, 8), np.uint8), labels=[0, 1], site=["A", "B"])
>>> npz(path=file.name, base=file.parent, columns=["site"], group="site").groups.tolist()
['A', 'B']
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.files import located
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import IMAGE, LABEL, VECTOR
from roadworthy.registry import did_you_mean, register


@register(
    "loaders",
    "npz",
    keys=("npz",),
    gives={"inputs": ("image", "vector"), "targets": ("label", "vector")},
)
@reads
def npz(
    *,
    path: str,
    images: str = "images",
    labels: str | None = "labels",
    probabilities: str | None = None,
    ids: str | None = None,
    groups: str | None = None,
    columns: list[str] | None = None,
    base: Path = Path(),
) -> Samples:
    """Arrays of an npz file by name: images, labels, label probabilities, ids, groups, and columns of metadata."""
    file = located(path, base=base, what="npz")
    extra = list(dict.fromkeys([*(columns or []), *([groups] if groups else [])]))
    arrays = _read(file, [a for a in [images, labels, probabilities, ids, *extra] if a is not None])
    inputs = arrays[images]
    if inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "uif":
        raise DataError(
            f"{file}: {images!r} is {inputs.dtype} of shape {inputs.shape}; images (rows, height, width, …) or features "
            "(rows, columns) were expected"
        )
    for other, array in arrays.items():
        if array.shape[:1] != inputs.shape[:1]:
            raise DataError(
                f"{file}: {other!r} has the shape {array.shape} but {images!r} has {len(inputs)} rows; give each sample one"
            )
    targets = None if labels is None else arrays[labels]
    whole = targets is not None and targets.ndim == 1 and targets.dtype.kind in "iu"
    if targets is not None and not whole:
        targets = _numbers(file, str(labels), targets)
    return Samples(
        source=file,
        input_kind=VECTOR if inputs.ndim == 2 else IMAGE,
        inputs=inputs,
        target_kind=None if targets is None else LABEL if whole else VECTOR,
        targets=targets.astype(np.int64) if whole and targets is not None else targets,
        ids=None if ids is None else [str(i) for i in arrays[ids]],
        columns={c: _column(arrays[c]) for c in extra},
        group=groups,
        probabilities=None if probabilities is None else arrays[probabilities],
    )


def _read(file: Path, wanted: list[str]) -> Mapping[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as found:
            if not hasattr(found, "files"):
                raise DataError(
                    f"{file}: holds one bare array; save several by name with numpy.savez"
                )
            for array in wanted:
                if array not in found.files:
                    raise DataError(
                        f"{file} has no array {array!r}{did_you_mean(array, found.files)}; it has: "
                        f"{', '.join(found.files)}. Name yours under images and labels (labels: null for none)"
                    )
            return {array: found[array] for array in wanted}
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise DataError(
            f"{file}: cannot be read as npz ({error}); save plain arrays (numbers or text) with numpy.savez again"
        ) from error


def _numbers(file: Path, array: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiu" or values.ndim > 2:
        raise DataError(
            f"{file}: {array!r} is {values.dtype} of shape {values.shape}; class indices or numbers were expected"
        )
    rows = values.reshape(len(values), -1).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise DataError(
            f"{file}: {array!r} is not finite in row {bad[0]} ({bad.size} such rows); leave those rows out"
        )
    return rows


def _column(values: np.ndarray) -> np.ndarray:
    return values.astype(object) if values.dtype.kind in "US" else values
