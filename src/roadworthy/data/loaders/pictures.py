"""Reading one image file: PNG, JPEG or TIFF, 8 or 16 bits, colours in the order red, green, blue.

Pixels are taken as they are stored: no rotation by EXIF tags, no scaling of 16 bits to 8.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.png"
>>> _ = file.write_bytes(b"not an image")
>>> read_image(file)  # doctest: +ELLIPSIS
Traceback (most recent call last):
roadworthy.data.samples.DataError: ...a.png: 12 bytes that cannot be decoded as an image; the file is truncated or damaged:
copy it again
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.registry import not_installed

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff"})


def read_image(file: Path) -> np.ndarray:
    """The pixels, (h, w) or (h, w, 3 or 4)."""
    try:
        import cv2
    except ImportError as error:
        raise ImportError(not_installed("reading image files needs OpenCV", "vision")) from error
    data = file.read_bytes()
    try:
        with _silent(cv2):
            pixels = (
                cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
            )
    except cv2.error as error:
        raise DataError(
            f"{file}: OpenCV refuses it ({error.err or error}); convert the file to PNG"
        ) from error
    if pixels is None:
        raise DataError(
            f"{file}: {len(data)} bytes that cannot be decoded as an image; the file is truncated or damaged: copy it again"
        )
    if pixels.ndim == 3 and pixels.shape[2] >= 3:
        # OpenCV stores blue first; alpha, where there is one, stays last
        pixels = pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return np.ascontiguousarray(pixels)


@contextmanager
def _silent(cv2: Any) -> Iterator[None]:
    """OpenCV tells standard error of a broken file; the case that failed says it already, by its name."""
    logging = getattr(cv2.utils, "logging", None)
    if logging is None:
        yield
        return
    before = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(before)


def image_files(folder: Path) -> list[Path]:
    """The image files of a folder and its subfolders, by name; hidden files are left out."""
    found = (f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
    return sorted(
        f for f in found if not any(p.startswith(".") for p in f.relative_to(folder).parts)
    )
