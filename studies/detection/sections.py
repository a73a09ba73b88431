"""Rendered cross-sections as a computed tomograph shows them, with lesions of four classes.

A patient has a body, a scanner and lesions of some contrast; of each, sections of the chest and of
the abdomen are drawn. Organs are the ellipses in `ORGANS`, bent by a smooth random map. Some of the
sections have a circumstance of use already, as the source data of Wozniak et al. 2024 (box 3).
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from dataset import FAINTEST, Picture, picture

from roadworthy.cases.image.density_contrast import density_contrast
from roadworthy.cases.image.motion_blur import motion_blur
from roadworthy.cases.image.truncated_section import truncated_section

SIDE = 192
MILLIMETRES = 2.0
"""Size of a pixel."""
CLASSES = ("lung", "liver", "kidney", "soft_tissue")
LEVELS = ("chest", "chest", "abdomen", "abdomen")
"""The sections of a patient."""
FINE = 3
SOURCE = {"density_contrast": (20, 0), "motion_blur": (20, 7), "truncated": (10, 3)}
"""Circumstances of the source data: one section of so many, and which one."""
SOFT, REST = 1, 9
"""Indices of tissues: below the skin, and where there are no lesions."""
ORGANS: dict[str, tuple[tuple[float, ...], ...]] = {
    # x, y, half width, half height in half widths and heights of the body; grey; index of the organ
    "chest": (
        (0, 0, 1, 1, 74, SOFT), (0, 0, 0.94, 0.92, 116, SOFT), (0, 0, 0.84, 0.80, 84, REST),
        (-0.43, -0.04, 0.36, 0.66, 16, 2), (0.45, -0.04, 0.34, 0.66, 16, 2),
        (0.08, -0.14, 0.30, 0.32, 136, REST), (0.02, 0.20, 0.10, 0.10, 124, REST),
        (0.13, 0.38, 0.08, 0.10, 162, REST), (0.0, 0.26, 0.05, 0.05, 10, REST),
        (0, 0.60, 0.16, 0.17, 206, REST), (0, 0.60, 0.12, 0.12, 178, REST),
        (0, 0.79, 0.15, 0.07, 200, REST), (0, 0.77, 0.06, 0.06, 104, REST),
        (0, -0.85, 0.10, 0.035, 200, REST),
    ),
    "abdomen": (
        (0, 0, 1, 1, 74, SOFT), (0, 0, 0.92, 0.90, 114, SOFT), (0, 0, 0.83, 0.80, 78, SOFT),
        (-0.40, -0.10, 0.41, 0.56, 130, 3), (-0.12, -0.42, 0.28, 0.24, 130, 3),
        (0.42, -0.34, 0.27, 0.25, 104, REST), (0.44, -0.46, 0.14, 0.08, 8, REST),
        (0.63, 0.14, 0.15, 0.28, 136, REST), (-0.38, 0.46, 0.17, 0.22, 154, 4),
        (0.40, 0.46, 0.17, 0.22, 154, 4), (-0.34, 0.46, 0.05, 0.07, 92, REST),
        (0.36, 0.46, 0.05, 0.07, 92, REST), (0.07, 0.34, 0.08, 0.10, 164, REST),
        (-0.11, 0.32, 0.09, 0.08, 148, REST), (0, 0.60, 0.17, 0.18, 206, REST),
        (0, 0.60, 0.13, 0.13, 176, REST), (0, 0.80, 0.16, 0.07, 200, REST),
        (0, 0.78, 0.06, 0.06, 104, REST), (-0.24, 0.76, 0.16, 0.12, 120, REST),
        (0.24, 0.76, 0.16, 0.12, 120, REST),
    ),
}  # fmt: skip
INDEX = {"lung": 2, "liver": 3, "kidney": 4, "soft_tissue": SOFT}
FOUND_IN = {"chest": ("lung", "lung", "soft_tissue"), "abdomen": CLASSES[1:]}
"""Lesions of a section are of these classes, with equal probability."""
CONTRAST = {"lung": (84, 116), "liver": (-46, -28), "kidney": (-66, -40), "soft_tissue": (34, 58)}
RADIUS = {"lung": (2.4, 8.0), "liver": (3.5, 11.0), "kidney": (2.8, 6.0), "soft_tissue": (2.8, 6.5)}
"""Grey levels and pixels."""


class Patient(NamedTuple):
    """What the sections of a patient have in common."""

    half: np.ndarray
    """Half width and height of the body in pixels."""
    bend: np.ndarray
    contrast: float
    noise: float
    scanner: str


def patient(rng: np.random.Generator, number: int) -> list[Picture]:
    """The sections of a patient."""
    half = np.array([rng.uniform(72, 87), rng.uniform(54, 66)])
    coarse = rng.normal(0, 1, (6, 6, 2)).astype(np.float32)
    bend = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) * 2.2
    scanner = str(rng.choice(["A", "B"]))
    one = Patient(half, bend, rng.uniform(0.75, 1.15), rng.uniform(4.0, 8.0), scanner)
    return [section(rng, one, level, number * len(LEVELS) + i) for i, level in enumerate(LEVELS)]


def section(rng: np.random.Generator, of: Patient, level: str, number: int) -> Picture:
    """One section with one to three lesions; by its number it has a circumstance of the source."""
    canvas, organs = anatomy(rng, of, level)
    body = organs > 0
    masks, labels = [], []
    for _ in range(int(rng.integers(1, 4))):
        name = str(rng.choice(FOUND_IN[level]))
        free = organs * ~np.any([np.zeros_like(body), *masks], axis=0)
        seen = lesion(rng, canvas, free == INDEX[name], name, of.contrast)
        if seen is not None:
            masks.append(seen)
            labels.append(CLASSES.index(name))
    blur = 0.95 if of.scanner == "A" else 0.55
    grain = cv2.GaussianBlur(rng.normal(0, 1, canvas.shape), (0, 0), blur)
    image = np.clip(canvas + body * grain * of.noise / grain.std(), 0, 255).astype(np.uint8)
    turn = number + number // 20  # so that all levels have their turn
    met = {name: turn % every == at for name, (every, at) in SOURCE.items()}
    image, window = _met(rng, image, met)
    known = {"level": level, "scanner": of.scanner}
    known |= {name: "yes" if there else "no" for name, there in met.items()}
    visible = [mask & window for mask in masks]
    found = picture(image, visible, [mask.sum() for mask in masks], labels, known)
    largest = (found.boxes[:, 2:] - found.boxes[:, :2]).max(initial=0) * MILLIMETRES
    return found._replace(known={**known, "diameter_mm": largest})


def anatomy(rng: np.random.Generator, of: Patient, level: str) -> tuple[np.ndarray, np.ndarray]:
    """A section without lesions, and the index of the organ at each pixel (0 outside the body)."""
    size = SIDE * FINE
    grey, organs = np.zeros((size, size), np.float32), np.zeros((size, size), np.uint8)
    slack = rng.normal(1.0, 0.03, (len(ORGANS[level]), 4))
    for (x, y, w, h, value, index), vary in zip(ORGANS[level], slack, strict=True):
        fixed = abs(x) + abs(y) == 0  # the body and its wall keep their common centre
        place = np.array([x, y, w, h]) * (1 if fixed else vary)
        _ellipse(grey, of.half, place, value)
        _ellipse(organs, of.half, place, index)
    for angle in np.linspace(0, 2 * np.pi, 19)[:-1] if level == "chest" else ():
        place = np.array([0.89 * np.cos(angle), 0.86 * np.sin(angle), 0.05, 0.035])
        _ellipse(grey, of.half, place, 196)
        _ellipse(organs, of.half, place, REST)
    _details(rng, grey, organs, of, level)
    x, y = np.meshgrid(*[np.arange(SIDE, dtype=np.float32)] * 2)
    at = [((p + of.bend[..., i]) * FINE + 1).astype(np.float32) for i, p in enumerate((x, y))]
    smooth = cv2.GaussianBlur(grey, (0, 0), 0.5 * FINE)
    canvas = cv2.remap(smooth, *at, cv2.INTER_LINEAR).astype(np.float64)
    found = cv2.remap(organs, *at, cv2.INTER_NEAREST)
    cloud = cv2.resize(rng.normal(0, 3.0, (24, 24)), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    table = np.zeros((SIDE, SIDE))
    cv2.ellipse(table, (SIDE // 2, SIDE // 2 - 30), (110, 112), 0, 50, 130, 58, 2)
    return canvas + (found > 0) * cloud + table * (found == 0), found


def lesion(
    rng: np.random.Generator, canvas: np.ndarray, where: np.ndarray, name: str, contrast: float
) -> np.ndarray | None:
    """Paint a lesion onto the canvas, in place; which pixels it covers, None if it has no room."""
    radius = rng.uniform(*RADIUS[name])
    depth = cv2.distanceTransform(where.astype(np.uint8), cv2.DIST_L2, 3)
    places = np.argwhere(depth >= 0.8 * radius)
    if not len(places):
        return None
    centre = places[rng.integers(len(places))][::-1] + 0.5
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    waves = sum(rng.normal(0, 0.07) * np.cos(k * angle + rng.uniform(0, 6)) for k in (2, 3, 4))
    reach = radius * (1 + waves)
    outline = (centre + np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)) * FINE
    fine = np.zeros((SIDE * FINE, SIDE * FINE), np.float32)
    cv2.fillPoly(fine, [np.round(outline).astype(np.int32)], 1.0)
    cover = cv2.resize(fine, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    cover[cover < FAINTEST] = 0
    usual = canvas[depth >= 0.5 * radius].mean()
    canvas += cover * (usual + contrast * rng.uniform(*CONTRAST[name]) - canvas)
    return cover > 0


def _details(
    rng: np.random.Generator, grey: np.ndarray, organs: np.ndarray, of: Patient, level: str
) -> None:
    """Vessels in the lungs and the liver, loops of bowel: what is no lesion."""
    for index, count, value in ((2, 26, 92), (3, 9, 152)):
        inside = np.argwhere(organs == index)
        for y, x in inside[rng.integers(len(inside), size=count)] if len(inside) else ():
            size = FINE * rng.uniform(0.5, 1.3)
            axes = round(size * rng.uniform(1, 4)), max(round(size), 1)
            cv2.ellipse(grey, (int(x), int(y)), axes, rng.uniform(0, 180), 0, 360, value, -1)
    for _ in range(5 if level == "abdomen" else 0):
        place = np.array([rng.uniform(-0.1, 0.5), rng.uniform(-0.2, 0.2), 0.09, 0.1])
        place[2:] *= rng.uniform(0.7, 1.3, 2)
        _ellipse(grey, of.half, place, 112)
        _ellipse(organs, of.half, place, REST)
        if rng.random() < 0.4:
            _ellipse(grey, of.half, place * [1, 1, 0.4, 0.3], 10)


def _ellipse(canvas: np.ndarray, half: np.ndarray, place: np.ndarray, value: float) -> None:
    centre = np.round((SIDE / 2 + place[:2] * half) * FINE).astype(int)
    axes = np.maximum(np.round(place[2:] * half * FINE), 1).astype(int)
    cv2.ellipse(canvas, centre.tolist(), axes.tolist(), 0, 0, 360, value, -1)


def _met(
    rng: np.random.Generator, image: np.ndarray, met: dict[str, bool]
) -> tuple[np.ndarray, np.ndarray]:
    """The image under the circumstances that it meets, and which of its pixels are seen."""
    window = np.ones(image.shape, bool)
    if met["density_contrast"]:
        image = density_contrast(image, rng, factor=1.55)
    if met["motion_blur"]:
        image = motion_blur(image, rng, radius=10, sigma=3.0, centred=True)
    if met["truncated"]:
        cut = truncated_section.move(image.shape, rng, share=0.16)  # type: ignore[attr-defined]
        x1, y1, x2, y2 = cut.window
        window[:] = False
        window[y1:y2, x1:x2] = True
        image = cut.picture(image)
    return image, window
