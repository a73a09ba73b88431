"""Pictures of discs and squares on noise with their masks, and subjects that find them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roadworthy.data.png import encode_png

CLASSES = ("background", "disc", "square")
COLOURS = np.array([[70, 70, 70], [200, 90, 60], [60, 110, 210]], dtype=float)

SUBJECT = '''
import numpy as np

COLOURS = np.array([[70, 70, 70], [200, 90, 60], [60, 110, 210]], dtype=float)


def scores(image):
    """Minus the distance to the colour of each class, (classes, h, w)."""
    return -np.abs(image[None].astype(float) - COLOURS[:, None, None]).sum(axis=3) / 100


def segment(image):
    return scores(image).argmax(axis=0)


def steady(image, rng):
    return scores(image + rng.normal(0, 3, image.shape))


def wavering(image, rng):
    return scores(image + rng.normal(0, 12, image.shape))
'''


def scene(rng: np.random.Generator, height: int = 48, width: int = 64) -> tuple:
    """A picture and its mask: a disc and, in most, a square, of a brightness of their own."""
    mask = np.zeros((height, width), np.uint8)
    y, x = np.mgrid[:height, :width]
    radius = rng.uniform(6, 12)
    cy, cx = rng.uniform(radius, height - radius), rng.uniform(radius, width / 2)
    mask[(y - cy) ** 2 + (x - cx) ** 2 < radius**2] = 1
    if rng.random() < 0.8:
        side, top, left = rng.integers(8, 16), rng.integers(0, 30), rng.integers(36, 46)
        mask[top : top + side, left : left + side] = 2
    image = COLOURS[mask] * rng.uniform(0.75, 1.15) + rng.normal(0, 18, (height, width, 3))
    return np.clip(image, 0, 255).astype(np.uint8), mask


def place(folder: Path, n: int = 24, *, seed: int = 3) -> list[np.ndarray]:
    """images/, masks/, subject.py and cases.csv; the true masks. A border of one pixel is ignored in every other one."""
    rng = np.random.default_rng(seed)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    masks = []
    rows = ["id,drive,site"]
    for i in range(n):
        image, mask = scene(rng)
        if i % 2:
            mask[[0, -1]] = mask[:, [0, -1]] = 255
        (folder / "images" / f"{i:02}.png").write_bytes(encode_png(image))
        (folder / "masks" / f"{i:02}.png").write_bytes(encode_png(mask))
        rows.append(f"{i:02}.png,d{seed}{i // 3},{'AB'[i % 2]}")
        masks.append(mask)
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "cases.csv").write_text("\n".join(rows) + "\n")
    return masks
