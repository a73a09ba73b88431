"""Masks in files: one picture a case that holds the class index of every pixel.

PNG or TIFF, grey or with a palette, whose indices are then the classes. 0 is the background. Pixels
of 255 are ignored (Pascal VOC, Cityscapes), unless the masks of a data set hold nothing but 0 and
255: then 255 is class 1, as drawing programs write it.

>>> import tempfile
>>> from roadworthy.data.png import encode_png
>>> file = Path(tempfile.mkdtemp()) / "a.png"
>>> _ = file.write_bytes(encode_png(np.array([[0, 2]], np.uint8)))
>>> read_mask(file).tolist()
[[0, 2]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.files import Files, decode_image, image_files, read_image
from roadworthy.data.png import SIGNATURE, palette_as_grey
from roadworthy.data.samples import DataError
from roadworthy.data.values import IGNORED, MASK

BINARY = "The masks hold 0 and 255 only. 255 is read as class 1, not as ignored."


def read_mask(file: Path) -> np.ndarray:
    """The class indices in a file (h, w), as they are stored."""
    if file.suffix.lower() in (".jpg", ".jpeg"):
        raise DataError(f"{file}: JPEG changes class indices; save the mask as a grey PNG")
    content = file.read_bytes()
    pixels = decode_image(palette_as_grey(content), file)
    if pixels.ndim == 3 and bool((pixels[..., :3] == pixels[..., :1]).all()):
        pixels = np.ascontiguousarray(pixels[..., 0])
    if pixels.ndim != 2 or pixels.dtype.kind != "u":
        raise DataError(
            f"{file}: is a colour picture or holds no whole numbers; save the mask as a grey PNG "
            "whose values are class indices, 0 for the background"
        )
    depth = content[24] if content.startswith(SIGNATURE) else 8
    # A decoder stretches 1, 2 and 4 bits to 8.
    return pixels // (255 // (2**depth - 1)) if depth < 8 else pixels


def read_answer(file: Path) -> np.ndarray:
    """The mask in a file that a subject wrote, or of 0 and 255 only."""
    return np.asarray(MASK.read(read_mask(file)))


def masks_of(
    images: Mapping[str, Path], folder: Path, classes: Sequence[str] | None
) -> tuple[Files, tuple[str, ...]]:
    """The masks of images by their ids, in files of the same names, whatever the ending; and notes.

    All are read once: one that is missing, cannot be read, or does not go with its image or the
    classes is refused.
    """
    known = {f.relative_to(folder).with_suffix(""): f for f in image_files(folder)}
    stems = {i: Path(i).with_suffix("") for i in images}
    missing = [i for i in images if stems[i] not in known]
    if missing:
        raise DataError(
            f"{images[missing[0]]}: has no mask {folder / stems[missing[0]]}.png ({len(missing)} "
            "such image(s)); add it, or leave the image out"
        )
    files = tuple(known[stem] for stem in stems.values())
    seen: set[int] = set()
    for image, file in zip(images.values(), files, strict=True):
        mask = read_mask(file)
        _refuse_other_size(mask, file, image)
        values = np.flatnonzero(np.bincount(mask.ravel())).tolist()
        odd = [v for v in values if classes and v >= len(classes) and v != IGNORED]
        if odd:
            raise DataError(
                f"{file}: holds the value {odd[0]}; the {len(classes or ())} classes are numbered "
                f"from 0, and {IGNORED} is ignored"
            )
        seen.update(values)
    if IGNORED in seen and seen <= {0, IGNORED}:
        return Files(files, read_answer), (BINARY,)
    return Files(files, read_mask), ()


def _refuse_other_size(mask: np.ndarray, file: Path, image: Path) -> None:
    try:
        size = read_image(image).shape[:2]
    except (DataError, OSError):
        return  # a broken image costs its own case
    if size != mask.shape:
        raise DataError(
            f"{file}: has {mask.shape[1]} x {mask.shape[0]} pixels and its image {image.name} "
            f"{size[1]} x {size[0]}; a mask has the size of its image"
        )
