"""A folder of images: one subfolder a class, or a folder of masks beside it, or neither.

>>> image_folder(path="no-such-folder")
Traceback (most recent call last):
roadworthy.data.samples.DataError: image_folder: no-such-folder does not exist; paths are relative to the folder of the
assessment file (.): correct the path, or put the folder there
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import SUFFIXES, Files, image_files, located, read_image
from roadworthy.data.loaders.joining import Samples, in_order, label_indices, reads
from roadworthy.data.loaders.masks import masks_of
from roadworthy.data.samples import DataError
from roadworthy.data.values import IMAGE, LABEL, MASK
from roadworthy.registry import register


@register(
    "loaders",
    "image_folder",
    keys=("image_folder", "masks"),
    gives={"inputs": ("image",), "targets": ("label", "mask")},
)
@reads
def image_folder(
    *,
    path: str,
    masks: str | None = None,
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """Images in one subfolder a class, with `masks` of the same names in another folder, or without labels; the id is the path."""
    folder = located(path, base=base, what="image_folder", folder=True)
    files = image_files(folder)
    if not files:
        raise DataError(
            f"{folder}: holds no images ({', '.join(sorted(SUFFIXES))}); name the folder above the classes"
        )
    ids = [file.relative_to(folder).as_posix() for file in files]
    names, notes = classes, tuple[str, ...]()
    targets: Any
    if masks is not None:
        truth = located(masks, base=base, what="masks", folder=True)
        targets, notes = masks_of(dict(zip(ids, files, strict=True)), truth, classes)
    else:
        names, targets = _labels(folder, ids, classes)
    return Samples(
        source=folder,
        input_kind=IMAGE,
        inputs=Files(tuple(files), read_image),
        target_kind=None if targets is None else LABEL if masks is None else MASK,
        targets=targets,
        ids=ids,
        classes=names,
        notes=notes,
    )


def _labels(
    folder: Path, ids: list[str], classes: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, np.ndarray | None]:
    flat = [i for i in ids if "/" not in i]
    if len(flat) == len(ids):
        return classes, None
    if flat:
        raise DataError(
            f"{folder}: {len(flat)} image(s) lie beside the class folders ({flat[0]!r}); move each into the folder of its class"
        )
    words = [i.split("/")[0] for i in ids]
    known = classes or in_order(
        d.name for d in folder.iterdir() if d.is_dir() and not d.name.startswith(".")
    )
    empty = sorted(set(known) - set(words)) if classes is None else []
    if empty:
        # Left out without a word it would shift the number of every later class.
        raise DataError(
            f"{folder}: the class folder {empty[0]!r} holds no images ({len(empty)} such); fill or remove it, or name all "
            f"classes of the subject, in its order: classes: [{', '.join(known)}]"
        )
    return known, label_indices(words, known, where=lambda row: str(folder / ids[row]))
