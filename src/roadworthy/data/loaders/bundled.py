"""Real data that come with the package: nothing is downloaded.

>>> data = bundled(path="fashion-mnist", split="test", n=3)
>>> len(data), data.inputs.shape, data.classes[0], data.ids[0][:5]
(3, (3, 28, 28), 'T-shirt/top', 't10k/')
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import IMAGE, LABEL
from roadworthy.registry import did_you_mean, register

FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CLASSES = {"fashion-mnist": FASHION}
LICENCES = {"fashion-mnist": "MIT, (c) 2017 Zalando SE"}
FOLDER = Path(__file__).parent.parent / "bundled"


@register(
    "loaders",
    "bundled",
    keys=("bundled", "split"),
    gives={"inputs": ("image",), "targets": ("label",)},
)
@reads
def bundled(
    *,
    path: str,
    split: Literal["calibration", "test", "reference"],
    n: int | None = None,
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """A data set that comes with the package: `path` is its name, `n` the first so many of its shuffled rows."""
    if path not in CLASSES:
        raise DataError(
            f"no data set {path!r} is bundled{did_you_mean(path, CLASSES)}; there is: {', '.join(CLASSES)}. "
            "Your own files are named by another loader (idx, npz, image_folder, csv, coco, …)"
        )
    rows = slice(None if n is None else max(n, 0))
    with np.load(FOLDER / f"{path}-{split}.npz", allow_pickle=False) as arrays:
        return Samples(
            name=f"{path}/{split}",
            source=f"bundled/{path}",
            input_kind=IMAGE,
            inputs=arrays["images"][rows],
            target_kind=LABEL,
            targets=arrays["labels"][rows].astype(np.int64),
            ids=arrays["ids"][rows].tolist(),
            columns={"brightness": arrays["brightness"][rows].astype(object)},
            classes=classes or CLASSES[path],
            licence=LICENCES[path],
        )
