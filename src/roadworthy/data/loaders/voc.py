"""Detection in the Pascal VOC format: an XML file an image, with its objects.

Corners are pixels counted from 1, the last one included: xmin 1, xmax 40 are the corners 0 and 40.
Objects marked difficult are not judged (Everingham et al. 2010, section 4.2): regions to ignore.

>>> text = "<annotation><filename>a.png</filename><object><name>dog</name><bndbox><xmin>1</xmin>"
>>> text += "<ymin>1</ymin><xmax>40</xmax><ymax>30</ymax></bndbox></object></annotation>"
>>> picture = _read(text, "a.xml")
>>> picture.file, picture.names, picture.corners
('a.png', ['dog'], [(0.0, 0.0, 40.0, 30.0)])
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from roadworthy.data.loaders.boxes import Corners, Size, sound_corners
from roadworthy.data.loaders.files import Files, located, read_image, read_text
from roadworthy.data.loaders.joining import Samples, in_order, label_indices, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import BOXES, IMAGE, Boxes
from roadworthy.registry import register


@register(
    "loaders",
    "voc",
    keys=("voc", "images"),
    gives={"inputs": ("image",), "targets": ("boxes",)},
)
@reads
def voc(
    *,
    path: str,
    images: str,
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """Images with boxes in Pascal VOC files; `path` is the folder of the XML files, and the id is the image's file name."""
    labels = located(path, base=base, what="voc", folder=True)
    folder = located(images, base=base, what="images", folder=True)
    files = sorted(labels.glob("*.xml"))
    if not files:
        raise DataError(f"{labels}: holds no XML files; name the folder of the annotations")
    pictures = [_read(read_text(file), str(file)) for file in files]
    names = classes or in_order(name for p in pictures for name in p.names)
    found = []
    for file, p in zip(files, pictures, strict=True):
        at = label_indices(p.names, names, where=partial(_place, file))
        found.append(Boxes.of(p.corners, at, ignore=p.difficult))
    return Samples(
        source=folder,
        input_kind=IMAGE,
        inputs=Files(tuple(folder / p.file for p in pictures), read_image),
        target_kind=BOXES,
        targets=found,
        ids=[p.file for p in pictures],
        classes=names or None,
    )


def _place(file: Path, row: int) -> str:
    return f"{file}, object {row + 1}"


class _Picture(NamedTuple):
    file: str
    names: list[str]
    corners: list[Corners]
    difficult: list[bool]


def _read(text: str, where: str) -> _Picture:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        # Entities can grow without bound or read other files.
        raise DataError(
            f"{where}: declares a document type, which is not read; remove <!DOCTYPE …>"
        )
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{where}: is not XML ({error}); correct it there") from error
    file = Path(_text(root, "filename", where)).name
    width, height = (_number(root, f"size/{side}", where, 0.0) for side in ("width", "height"))
    size = Size(width, height) if width and height else Size()
    found = _Picture(file, [], [], [])
    for at, entry in enumerate(root.iter("object"), start=1):
        place = f"{where}, object {at}"
        x1, y1, x2, y2 = (
            _number(entry, f"bndbox/{corner}", place) for corner in ("xmin", "ymin", "xmax", "ymax")
        )
        found.corners.append(sound_corners(place, (x1 - 1, y1 - 1, x2, y2), size))
        found.names.append(_text(entry, "name", place))
        found.difficult.append(_number(entry, "difficult", place, 0.0) > 0)
    return found


def _text(parent: ElementTree.Element, name: str, where: str) -> str:
    found = (parent.findtext(name) or "").strip()
    if not found:
        raise DataError(f"{where} has no <{name}>; add it")
    return found


def _number(
    parent: ElementTree.Element, name: str, where: str, default: float | None = None
) -> float:
    if default is not None and parent.find(name) is None:
        return default
    text = _text(parent, name, where)
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where} has {text!r} in <{name}>; a number was expected") from None


def voc_document(file: str, boxes: Boxes, names: tuple[str, ...], size: Size) -> str:
    """The objects of one image as the content of a Pascal VOC file; those to ignore are difficult.

    An object to ignore of which a transform left nothing is left out.

    >>> document = voc_document("a.png", Boxes.of([[0, 0, 40, 30]]), ("dog",), Size(40, 30))
    >>> _read(document, "a.xml").corners
    [(0.0, 0.0, 40.0, 30.0)]
    """
    rows = zip(boxes.xyxy.tolist(), boxes.labels.tolist(), boxes.ignore.tolist(), strict=True)
    objects = "".join(
        f"<object><name>{escape(names[label])}</name><difficult>{int(ignore)}</difficult><bndbox>"
        f"<xmin>{x1 + 1:.12g}</xmin><ymin>{y1 + 1:.12g}</ymin>"
        f"<xmax>{x2:.12g}</xmax><ymax>{y2:.12g}</ymax></bndbox></object>\n"
        for (x1, y1, x2, y2), label, ignore in rows
        if not ignore or (x2 > x1 and y2 > y1)
    )
    sides = f"<width>{size.width:g}</width><height>{size.height:g}</height><depth>3</depth>"
    return (
        f"<annotation><filename>{escape(file)}</filename><size>{sides}</size>\n"
        f"{objects}</annotation>\n"
    )
