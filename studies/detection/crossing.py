"""Pictures of a fixed camera over a road with a zebra crossing: six classes of road users, exact
boxes, light of the day, occlusion.

Asphalt, grass and bricks are photographs of scikit-image; road users are drawn from the outlines in
`OUTLINES`, in metres. What stands lower in the picture is nearer, larger, and hides what is behind.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from dataset import FAINTEST, Picture, hull, picture

WIDTH, HEIGHT = 288, 192
CLASSES = ("car", "truck", "bus", "bicycle", "motorcycle", "pedestrian")
SHARES = (0.36, 0.09, 0.07, 0.13, 0.11, 0.24)
PICTURES = 10
"""Pictures of a day."""
SLACK = 2
"""Pixels by which the camera may point elsewhere on another day."""
FINE = 4
"""Outlines are drawn so many times larger than they are seen."""
LIGHTS = {
    "morning": (0.92, 0.88, 0.82), "noon": (1.08, 1.06, 1.02),
    "overcast": (0.80, 0.83, 0.87), "evening": (0.86, 0.70, 0.56),
}  # fmt: skip
LANES = ((101, 1), (121, -1), (148, 1))
"""Where wheels stand, and which way the lane leads."""
ZEBRA = (196, 242)
POLE = (184, 30, 172)
"""x, top and bottom of the pole that stands before the road."""
GRAINS = {"gravel": 128, "grass": 160, "brick": 96}
"""Photographs of scikit-image, and how many pixels wide they are shown."""
STRIPS = (
    ("grass", 0, 14, 62, (58, 82, 44)),
    ("brick", 44, 26, 62, (150, 104, 84)),
    ("gravel", 0, 62, 79, (158, 154, 148)),
    ("gravel", 0, 79, 157, (92, 93, 96)),
    ("gravel", 0, 157, 178, (164, 160, 154)),
    ("grass", 0, 178, HEIGHT + 2 * SLACK, (84, 112, 56)),
)
"""Photograph, left, top, bottom and colour: trees, a house, pavement, road, pavement, grass."""
FIXED = {
    "glass": (52, 66, 80), "tyre": (26, 26, 28), "rim": (150, 152, 155), "trim": (48, 48, 50),
    "front": (250, 236, 176), "rear": (190, 26, 24),
}  # fmt: skip


def _box(role: str, x1: float, y1: float, x2: float, y2: float) -> tuple[Any, ...]:
    return role, "area", ((x1, y1), (x1, y2), (x2, y2), (x2, y1))


OUTLINES: dict[str, tuple[tuple[Any, ...], ...]] = {
    "car": (
        ("paint", "area", ((0, 0.3), (0, 0.8), (0.5, 0.95), (1.1, 1.42), (2.7, 1.45), (3.4, 0.98),
         (4.1, 0.82), (4.2, 0.3))),
        ("glass", "area", ((0.9, 0.95), (1.2, 1.33), (1.85, 1.36), (1.85, 0.95))),
        ("glass", "area", ((2.0, 0.95), (2.0, 1.36), (2.62, 1.35), (3.15, 0.95))),
        _box("trim", 0, 0.26, 4.2, 0.4), _box("rear", 0, 0.6, 0.16, 0.8),
        _box("front", 4.02, 0.58, 4.2, 0.76),
        *(("tyre", "disc", (x, 0.33, 0.36)) for x in (0.85, 3.35)),
        *(("rim", "disc", (x, 0.33, 0.17)) for x in (0.85, 3.35)),
    ),
    "truck": (
        _box("trim", 0.1, 0.5, 7.0, 0.8), _box("second", 0, 0.78, 5.3, 3.1),
        ("paint", "area", ((5.5, 0.45), (5.5, 2.55), (6.7, 2.55), (7.3, 1.6), (7.4, 0.45))),
        ("glass", "area", ((6.1, 1.55), (6.1, 2.35), (6.65, 2.35), (7.1, 1.55))),
        _box("front", 7.24, 0.7, 7.4, 0.95), _box("rear", 0, 0.6, 0.16, 0.9),
        *(("tyre", "disc", (x, 0.48, 0.5)) for x in (0.9, 2.1, 6.3)),
        *(("rim", "disc", (x, 0.48, 0.22)) for x in (0.9, 2.1, 6.3)),
    ),
    "bus": (
        ("paint", "area", ((0, 0.35), (0, 2.85), (0.2, 3.05), (8.7, 3.05), (9, 2.6), (9, 0.35))),
        _box("second", 0, 0.8, 9.0, 1.15), *(_box("glass", x, 1.5, x + 1.05, 2.55)
         for x in (0.3, 1.5, 2.7, 3.9, 5.1, 6.3)), _box("glass", 7.55, 0.55, 8.2, 2.55),
        _box("glass", 8.4, 1.3, 9.0, 2.6), _box("rear", 0, 0.6, 0.14, 1.0),
        _box("front", 8.86, 0.6, 9.0, 0.85),
        *(("tyre", "disc", (x, 0.45, 0.48)) for x in (1.8, 6.9)),
        *(("rim", "disc", (x, 0.45, 0.2)) for x in (1.8, 6.9)),
    ),
    "bicycle": (
        *(("tyre", "ring", (x, 0.34, 0.3, 0.09)) for x in (0.36, 1.4)),
        *(("paint", "line", (*a, *b, 0.08)) for a, b in (
            ((0.36, 0.34), (0.68, 0.85)), ((0.36, 0.34), (0.8, 0.34)), ((0.8, 0.34), (0.66, 0.9)),
            ((0.8, 0.34), (1.22, 0.82)), ((0.68, 0.82), (1.22, 0.82)), ((1.4, 0.34), (1.2, 0.98)))),
        ("trousers", "line", (0.66, 0.98, 0.98, 0.72, 0.17)),
        ("trousers", "line", (0.98, 0.72, 0.84, 0.3, 0.14)),
        ("cloth", "line", (0.68, 1.0, 0.95, 1.4, 0.27)),
        ("cloth", "line", (0.98, 1.36, 1.22, 1.02, 0.1)), ("skin", "disc", (1.06, 1.6, 0.14)),
    ),
    "motorcycle": (
        *(("tyre", "disc", (x, 0.33, 0.34)) for x in (0.36, 1.75)),
        *(("rim", "disc", (x, 0.33, 0.14)) for x in (0.36, 1.75)),
        ("trim", "area", ((0.6, 0.25), (0.55, 0.6), (1.4, 0.6), (1.35, 0.25))),
        ("paint", "area", ((0.05, 0.72), (0.4, 0.86), (0.9, 0.72), (1.1, 0.98), (1.5, 0.98),
         (1.72, 0.6), (1.4, 0.5), (0.6, 0.52))),
        ("trim", "line", (1.75, 0.33, 1.45, 1.05, 0.1)), ("front", "disc", (1.62, 0.9, 0.1)),
        ("trousers", "line", (0.75, 0.85, 1.2, 0.72, 0.22)),
        ("trousers", "line", (1.2, 0.72, 1.0, 0.3, 0.17)),
        ("cloth", "line", (0.72, 0.92, 0.95, 1.3, 0.32)),
        ("cloth", "line", (0.98, 1.28, 1.42, 1.05, 0.13)), ("paint", "disc", (1.08, 1.52, 0.18)),
    ),
    "pedestrian": (
        ("trousers", "line", (0.34, 0.85, 0.14, 0.08, 0.15)),
        ("trousers", "line", (0.36, 0.85, 0.56, 0.08, 0.15)),
        ("cloth", "line", (0.35, 0.92, 0.37, 1.34, 0.32)),
        ("cloth", "line", (0.37, 1.34, 0.14, 0.92, 0.1)),
        ("cloth", "line", (0.37, 1.34, 0.6, 0.95, 0.1)), ("skin", "disc", (0.4, 1.62, 0.13)),
        ("trim", "disc", (0.37, 1.67, 0.12)),
    ),
}  # fmt: skip


class Placed(NamedTuple):
    """A road user in the picture: its class, colours (h, w, 3), how much of each pixel it covers,
    and the pixel of its lower left corner."""

    label: int
    colours: np.ndarray
    cover: np.ndarray
    x: int
    bottom: int

    def paint(self, canvas: np.ndarray) -> np.ndarray:
        """Draw it onto the canvas, in place; which pixels it covers."""
        there, here = self._window(canvas)
        cover = self.cover[here][..., None]
        canvas[there] += cover * (self.colours[here] - canvas[there])
        seen = np.zeros(canvas.shape[:2], bool)
        seen[there] = cover[..., 0] > 0
        return seen

    def shade(self, canvas: np.ndarray) -> None:
        """Darken the ground below it."""
        (h, w), ground = self.cover.shape, np.zeros(canvas.shape[:2], np.float32)
        place = (self.x + w // 2, self.bottom - 1), (w // 2, max(h // 10, 1)), 0, 0, 360
        cv2.ellipse(ground, *place, 1.0, -1)
        canvas *= 1 - 0.45 * cv2.GaussianBlur(ground, (0, 0), 1.2)[..., None]

    def _window(self, canvas: np.ndarray) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        h, w = self.cover.shape
        x, y = self.x, self.bottom - h
        x1, x2, y1, y2 = max(x, 0), min(x + w, WIDTH), max(y, 0), min(y + h, HEIGHT)
        return (slice(y1, y2), slice(x1, x2)), (slice(y1 - y, y2 - y), slice(x1 - x, x2 - x))


def day(rng: np.random.Generator, number: int) -> list[Picture]:
    """The pictures of a day: one light, and a camera that was fastened a little differently."""
    light = str(rng.choice(list(LIGHTS)))
    gain = np.array(LIGHTS[light]) * rng.uniform(0.92, 1.08)
    x, y = rng.integers(0, 2 * SLACK, 2)
    ground = background()[y : y + HEIGHT, x : x + WIDTH]
    return [_picture(rng, ground, gain, light) for _ in range(PICTURES)]


def _picture(rng: np.random.Generator, ground: np.ndarray, gain: np.ndarray, light: str) -> Picture:
    placed = [road_user(rng) for _ in range(int(rng.integers(4, 9)))]
    placed.sort(key=lambda one: one.bottom)
    canvas, owner = ground.copy(), np.full((HEIGHT, WIDTH), -1)
    for i, one in enumerate(placed):
        one.shade(canvas)
        owner[one.paint(canvas)] = i
    whole = [np.count_nonzero(one.cover) for one in placed]
    x, top, bottom = POLE
    canvas[top:bottom, x : x + 3], owner[top:bottom, x : x + 3] = (70, 74, 76), -1
    image = np.clip(canvas * gain + rng.normal(0, 2, canvas.shape), 0, 255).astype(np.uint8)
    masks, labels = [owner == i for i in range(len(placed))], [one.label for one in placed]
    return picture(image, masks, whole, labels, {"light": light})


def road_user(rng: np.random.Generator) -> Placed:
    """One of the classes, where such a one moves."""
    label = int(rng.choice(len(CLASSES), p=SHARES))
    foot, way = LANES[int(rng.integers(len(LANES)))]
    if CLASSES[label] == "pedestrian":
        walks = [(66, 77), (160, 178), (84, 156)][int(rng.choice(3, p=(0.3, 0.4, 0.3)))]
        foot, way = int(rng.integers(*walks)), int(rng.choice([-1, 1]))
    else:
        foot += int(rng.integers(-2, 3))
    metre = 8.0 + 6.0 * (foot - 75) / 75
    colours, cover = sprite(rng, CLASSES[label], metre=metre, leftwards=way < 0)
    low, high = -cover.shape[1] // 3, WIDTH - 2 * cover.shape[1] // 3
    if 84 <= foot < 156 and CLASSES[label] == "pedestrian":
        low, high = ZEBRA
    return Placed(label, colours, cover, int(rng.integers(low, high)), foot)


def sprite(
    rng: np.random.Generator, name: str, *, metre: float, leftwards: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Colours and cover of a road user in random colours; `metre` is in pixels."""
    scale = metre * FINE * rng.uniform(0.92, 1.08) * np.array([rng.uniform(0.94, 1.06), 1.0])
    colours = {**FIXED, **_wardrobe(rng)}
    side = np.ceil(np.array([9.6, 3.4]) * scale).astype(int) + FINE
    picture = np.zeros((side[1], side[0], 4), np.float32)
    for role, kind, numbers in OUTLINES[name]:
        _draw(picture, (*map(float, colours[role]), 1.0), kind, numbers, scale)
    x1, y1, x2, y2 = hull(picture[..., 3] > 0)
    cut = picture[y1:y2, x1:x2]
    size = max(round((x2 - x1) / FINE), 2), max(round((y2 - y1) / FINE), 2)
    small = cv2.resize(cut, size, interpolation=cv2.INTER_AREA)[:, :: -1 if leftwards else 1]
    cover = np.where(small[..., 3] >= FAINTEST, small[..., 3], 0)
    body = small[..., :3] / np.maximum(small[..., 3:], 1e-6)
    body *= np.linspace(1.12, 0.85, len(body))[:, None, None]
    x1, y1, x2, y2 = hull(cover > 0)
    return body[y1:y2, x1:x2], cover[y1:y2, x1:x2]


def _draw(
    picture: np.ndarray, colour: tuple[float, ...], kind: str, numbers: Any, scale: Any
) -> None:
    def at(x: float, y: float) -> tuple[int, int]:
        return round(x * scale[0]), len(picture) - FINE - round(y * scale[1])

    if kind == "area":
        cv2.fillPoly(picture, [np.array([at(*point) for point in numbers])], colour)
    elif kind == "line":
        width = max(round(numbers[4] * scale[1]), FINE)
        cv2.line(picture, at(*numbers[:2]), at(*numbers[2:4]), colour, width)
    else:
        width = -1 if kind == "disc" else max(round(numbers[3] * scale[1]), FINE - 1)
        cv2.circle(picture, at(*numbers[:2]), round(numbers[2] * scale[1]), colour, width)


def _wardrobe(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random colours of what has no fixed one."""
    vivid = np.array([rng.integers(0, 180), rng.integers(70, 190), rng.integers(70, 220)])
    plain = np.array([0, 0, rng.choice([40, 90, 150, 200, 235])])
    hue = np.array([rng.integers(0, 180), rng.integers(0, 200), rng.integers(50, 230)])
    dark = np.array([rng.integers(90, 130), rng.integers(0, 130), rng.integers(30, 110)])
    tints = [vivid if rng.random() < 0.5 else plain, [0, 0, rng.integers(170, 245)], hue, dark]
    shown = cv2.cvtColor(np.array([tints], np.uint8), cv2.COLOR_HSV2RGB)[0].astype(float)
    skin = np.array([[224, 172, 125], [141, 90, 50], [245, 205, 160]])[rng.integers(3)]
    return dict(zip(("paint", "second", "cloth", "trousers", "skin"), (*shown, skin), strict=True))


@functools.cache
def background() -> np.ndarray:
    """The empty road, (height, width, 3) float."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.origin:
        raise SystemExit("scikit-image is missing: pip install -r studies/systems/requirements.txt")
    data = Path(found.origin).parent / "data"
    grain = {n: _texture(data / f"{n}.png", size) for n, size in GRAINS.items()}
    canvas = np.empty((*grain["grass"].shape, 3))
    canvas[:20] = np.linspace((168, 196, 224), (206, 218, 228), 20)[:, None]
    for name, left, top, bottom, tint in STRIPS:
        canvas[top:bottom, left:] = grain[name][top:bottom, left:, None] * tint
    for x in range(58, WIDTH - 20, 30):
        cv2.rectangle(canvas, (x, 34), (x + 12, 52), (74, 86, 98), -1)
        cv2.rectangle(canvas, (x, 34), (x + 12, 52), (206, 200, 190), 1)
    for y, thick in ((79, 2), (157, 3)):
        cv2.line(canvas, (0, y), (WIDTH + 4, y), (186, 184, 178), thick)
    for x in range(-6, WIDTH, 30):
        cv2.line(canvas, (x, 104), (x + 14, 104), (204, 204, 200), 1)
        cv2.line(canvas, (x, 129), (x + 14, 129), (204, 204, 200), 2)
    for far, near in zip(np.linspace(194, 241, 6), np.linspace(190, 248, 6), strict=True):
        corners = [(far, 82), (far + 4.6, 82), (near + 5.6, 154), (near, 154)]
        cv2.fillPoly(canvas, [np.array(corners, int)], (206, 206, 202))
    return canvas


def _texture(file: Path, size: int) -> np.ndarray:
    """A photograph, shrunk to `size` pixels and repeated, as grain: its mean is 1."""
    photo = cv2.resize(cv2.imread(str(file), 0), (size, size), interpolation=cv2.INTER_AREA)
    high, wide = HEIGHT + 2 * SLACK, WIDTH + 2 * SLACK
    tiled = np.tile(photo, (high // size + 1, wide // size + 1))[:high, :wide]
    return 0.65 + 0.35 * tiled / photo.mean()
