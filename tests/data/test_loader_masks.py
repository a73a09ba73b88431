"""Images with masks, in folders and in COCO files: indices, palettes, 0 and 255; what does not fit is refused."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.loaders.coco import inside
from roadworthy.data.loaders.masks import read_answer, read_mask
from roadworthy.data.png import encode_png
from roadworthy.data.values import MASK, Unreadable

RNG = np.random.default_rng(0)
LABELS = np.array([[0, 1, 2, 2, 255], [0, 0, 1, 1, 255]], dtype=np.uint8)


def write(file: Path, pixels: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encode_png(pixels))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "deep/b"):
        write(tmp_path / f"images/{name}.png", RNG.integers(0, 256, (2, 5, 3), np.uint8))
        write(tmp_path / f"masks/{name}.png", LABELS)
    cv2.imwrite(str(tmp_path / "images/c.jpg"), np.zeros((2, 5, 3), np.uint8))
    write(tmp_path / "masks/c.png", LABELS[:, ::-1].copy())
    return tmp_path


def loaded(folder: Path, **more: Any) -> Dataset:
    return load({"image_folder": "images", "masks": "masks"} | more, base=folder, name="test")


def test_masks_go_with_images_of_the_same_name_and_are_read_when_asked_for(folder: Path) -> None:
    data = loaded(folder, classes=["background", "cat", "dog"])
    assert data.ids.tolist() == ["a.png", "c.jpg", "deep/b.png"] and data.target_kind is MASK
    assert data.classes == ("background", "cat", "dog") and data.notes == ()
    np.testing.assert_array_equal(data.targets[1], LABELS[:, ::-1])
    taken = data.take([2, 0])
    assert len(taken.targets) == 2 and hasattr(taken.targets, "paths")
    np.testing.assert_array_equal(taken.sample(0).target, LABELS)
    before = data.fingerprint
    write(folder / "masks/a.png", np.minimum(LABELS, 1))
    assert loaded(folder, classes=["background", "cat", "dog"]).fingerprint != before


def test_masks_of_0_and_255_alone_are_masks_of_class_1(folder: Path) -> None:
    for file in (folder / "masks").rglob("*.png"):
        write(file, np.where(LABELS == 1, 255, 0).astype(np.uint8))
    data = loaded(folder)
    assert data.targets[0].tolist() == (LABELS == 1).astype(int).tolist()
    assert data.notes == ("The masks hold 0 and 255 only. 255 is read as class 1, not as ignored.",)


def palette_png(indices: np.ndarray, depth: int, *, transparent: bool) -> bytes:
    """Written by hand, since OpenCV writes no palettes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    rows = b""
    for row in indices:
        bits = "".join(format(int(v), f"0{depth}b") for v in row)
        bits += "0" * (-len(bits) % 8)
        rows += b"\0" + bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    height, width = indices.shape
    header = struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)
    palette = RNG.integers(0, 256, (2**depth, 3), np.uint8).tobytes()
    alpha = chunk(b"tRNS", bytes([0])) if transparent else b""
    body = chunk(b"IHDR", header) + chunk(b"PLTE", palette) + alpha
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("transparent", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_the_indices_of_a_palette_are_the_classes(
    tmp_path: Path, depth: int, transparent: bool, capfd
) -> None:
    indices = RNG.integers(0, 2**depth, (7, 13))
    file = tmp_path / "mask.png"
    file.write_bytes(palette_png(indices, depth, transparent=transparent))
    np.testing.assert_array_equal(read_mask(file), indices)
    assert capfd.readouterr().err == ""


def test_grey_in_three_channels_and_16_bits_are_read(tmp_path: Path) -> None:
    write(tmp_path / "rgb.png", np.repeat(LABELS[..., None], 3, axis=2))
    write(tmp_path / "deep.png", LABELS.astype(np.uint16) + 300)
    np.testing.assert_array_equal(read_mask(tmp_path / "rgb.png"), LABELS)
    np.testing.assert_array_equal(read_mask(tmp_path / "deep.png"), LABELS.astype(int) + 300)
    write(tmp_path / "binary.png", (LABELS == 1).astype(np.uint8) * 255)
    assert read_answer(tmp_path / "binary.png").max() == 1


def test_a_broken_image_costs_its_own_case_and_a_broken_mask_the_run(folder: Path) -> None:
    (folder / "images/a.png").write_bytes(b"nothing")
    data = loaded(folder)
    assert isinstance(data.inputs[0], Unreadable) and data.targets[0].shape == (2, 5)
    (folder / "masks/a.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"masks/a\.png: 7 bytes that cannot be decoded"):
        loaded(folder)


def colour(folder: Path) -> None:
    write(folder / "masks/a.png", RNG.integers(0, 256, (2, 5, 3), np.uint8))


def photo(folder: Path) -> None:
    (folder / "masks/c.png").unlink()
    cv2.imwrite(str(folder / "masks/c.jpg"), LABELS)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda f: (f / "masks/deep/b.png").unlink(),
            r"images/deep/b\.png: has no mask \S+masks/deep/b\.png \(1 such",
        ),
        (
            lambda f: write(f / "masks/a.png", LABELS.T.copy()),
            r"masks/a\.png: has 2 x 5 pixels and its image a\.png 5 x 2",
        ),
        (
            lambda f: write(f / "masks/a.png", LABELS + np.uint8(3)),
            r"masks/a\.png: holds the value 3; the 3 classes are numbered from 0",
        ),
        (colour, r"masks/a\.png: is a colour picture .*grey PNG whose values are class indices"),
        (photo, r"masks/c\.jpg: JPEG changes class indices; save the mask as a grey PNG"),
    ],
    ids=["missing", "size", "class", "colour", "jpeg"],
)
def test_what_does_not_fit_is_refused_by_name(folder: Path, spoil, reason: str) -> None:
    spoil(folder)
    with pytest.raises(DataError, match=reason):
        loaded(folder, classes=["background", "cat", "dog"])


SQUARE = [1, 0, 3, 0, 3, 2, 1, 2]
DOCUMENT: dict[str, Any] = {
    "images": [
        {"id": 1, "file_name": "a.png", "width": 5, "height": 2},
        {"id": 2, "file_name": "b.png", "width": 5, "height": 2},
    ],
    "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 0, 2, 2], "segmentation": [SQUARE]},
        {
            "id": 2,
            "image_id": 1,
            "category_id": 3,
            "bbox": [2, 0, 2, 1],
            "segmentation": [[2, 0, 4, 0, 4, 1, 2, 1]],
        },
        {
            "id": 3,
            "image_id": 2,
            "category_id": 3,
            "bbox": [0, 0, 1, 1],
            "iscrowd": 1,
            "segmentation": [[0, 0, 1, 0, 1, 1, 0, 1]],
        },
    ],
}


def coco(folder: Path, document: Any, **more: Any) -> Dataset:
    (folder / "img").mkdir(exist_ok=True)
    (folder / "test.json").write_text(json.dumps(document))
    spec = {"coco": "test.json", "images": "img", "targets": "mask"} | more
    return load(spec, base=folder, name="test")


def test_coco_polygons_become_masks_with_a_background_and_later_ones_on_top(tmp_path: Path) -> None:
    data = coco(tmp_path, DOCUMENT)
    assert data.classes == ("background", "cat", "dog") and data.target_kind is MASK
    assert data.targets[0].tolist() == [[0, 2, 1, 1, 0], [0, 2, 2, 0, 0]]
    assert data.targets[1].tolist() == [[255, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert data.take([1]).targets[0].tolist() == data.targets[1].tolist()
    named = coco(tmp_path, DOCUMENT, classes=["background", "dog", "cat"])
    assert named.targets[0].tolist() == [[0, 1, 2, 2, 0], [0, 1, 1, 0, 0]]
    assert named.fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("segmentation", "more", "reason"),
    [
        (
            {"counts": [0, 10], "size": [2, 5]},
            {},
            r"annotations\[0\] has the segmentation .*run lengths \(RLE\) are not read",
        ),
        ([[1, 0, 3]], {}, r"polygons \[\[x1, y1"),
        ([[1, 0, 3, 0]], {}, r"polygons \[\[x1, y1"),
        (None, {}, "has the segmentation None"),
        ([SQUARE], {"width": None}, "the image 'a.png' needs height and width"),
    ],
)
def test_coco_masks_that_cannot_be_drawn_are_refused(
    tmp_path: Path, segmentation, more, reason: str
) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["annotations"][0]["segmentation"] = segmentation
    document["images"][0] |= more
    with pytest.raises(DataError, match=reason):
        coco(tmp_path, document)


def test_coco_masks_of_more_classes_than_a_mask_can_hold_are_refused(tmp_path: Path) -> None:
    many = DOCUMENT | {"categories": [{"id": i, "name": str(i)} for i in range(255)]}
    with pytest.raises(DataError, match="masks hold 254 categories at most, 255 is ignored"):
        coco(tmp_path, many)


def test_polygons_are_filled_as_cocos_own_tools_do() -> None:
    from faster_coco_eval.core import mask as tools

    rng, overlap, areas = np.random.default_rng(1), [], []
    for _ in range(200):
        angles = np.sort(rng.uniform(0, 2 * np.pi, 9))
        radius, centre = rng.uniform(8, 25, 9), rng.uniform(20, 40, 2)
        corners = centre + radius[:, None] * np.c_[np.cos(angles), np.sin(angles)]
        ours = inside(corners, 60, 80)
        theirs = tools.decode(tools.frPyObjects([corners.ravel().tolist()], 60, 80))[..., 0] > 0
        overlap.append((ours & theirs).sum() / (ours | theirs).sum())
        x, y = np.clip(corners, 0, [80, 60]).T
        areas.append(ours.sum() / (abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2))
    assert np.mean(overlap) > 0.97 and np.min(overlap) > 0.85
    assert np.mean(areas) == pytest.approx(1, abs=0.02)
