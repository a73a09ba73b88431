"""Rendered scenes of walkers in front of photographed ground: exact boxes and identities, occlusion.

A walker is a head and a body cut from a photograph of scikit-image; what stands lower in the image
is nearer and hides what is behind it, and so do pillars of brick. Textures of walkers in training
come from the left halves of the photographs, those of all other sets from the right halves.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

WIDTH, HEIGHT = 256, 192
CLOTHES = ("astronaut.png", "chelsea.png", "coffee.png", "color.png", "ihc.png", "retina.jpg")
CLOTHES += ("hubble_deep_field.jpg", "motorcycle_left.png")
GROUNDS = ("grass.png", "gravel.png", "brick.png")
LEAST_SEEN = 0.25
"""An object of which less is visible does not count in the ground truth."""


@dataclass(frozen=True)
class Scene:
    """Frames (n, h, w, 3) uint8, and a row of frame, identity, x1, y1, x2, y2, visible an object."""

    frames: np.ndarray
    objects: np.ndarray


def photographs() -> dict[str, np.ndarray]:
    """The photographs that scikit-image ships, by file name; red, green, blue."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("scikit-image is missing: pip install -r studies/systems/requirements.txt")
    folder = Path(next(iter(found.submodule_search_locations))) / "data"
    return {n: cv2.imread(str(folder / n))[..., ::-1] for n in (*CLOTHES, *GROUNDS)}


def scene(
    photos: dict[str, np.ndarray], rng: np.random.Generator, *, frames: int, training: bool = False
) -> Scene:
    """One scene of three to six walkers; the camera shakes, the light differs from scene to scene."""
    ground = _ground(photos, rng)
    pillars = [(int(x), int(rng.integers(12, 22))) for x in rng.integers(20, WIDTH - 40, 1)]
    brick = np.repeat(_part(photos["brick.png"], rng, HEIGHT, 40)[:, :, :1], 3, axis=2) * 0.8
    walkers = [_walker(photos, rng, training, frames) for _ in range(int(rng.integers(3, 7)))]
    walkers.sort(key=lambda w: w.bottom)
    light = rng.uniform(0.7, 1.15)
    images, objects = [], []
    for t in range(frames):
        shake = rng.integers(-1, 2, 2)
        canvas = ground[8 + shake[1] : 8 + shake[1] + HEIGHT, 8 + shake[0] : 8 + shake[0] + WIDTH]
        canvas = canvas.copy()
        owner = np.full((HEIGHT, WIDTH), -1)
        for i, walker in enumerate(walkers):
            walker.paint(canvas, owner, i, t, shake)
        for x, width in pillars:
            canvas[:, x : x + width] = brick[:, :width]
            owner[:, x : x + width] = len(walkers)
        for i, walker in enumerate(walkers):
            box, area = walker.seen(t, shake)
            if box is not None:
                objects.append((t, i + 1, *box, np.count_nonzero(owner == i) / area))
        images.append(np.clip(canvas * light + rng.normal(0, 2, canvas.shape), 0, 255))
    table = np.array(objects, dtype=np.float64).reshape(-1, 7)
    return Scene(np.stack(images).astype(np.uint8), table)


def write(scene: Scene, folder: Path) -> None:
    """The scene in the layout of MOTChallenge, which counts frames and pixels from 1."""
    (folder / "img1").mkdir(parents=True, exist_ok=True)
    (folder / "gt").mkdir(exist_ok=True)
    for t, image in enumerate(scene.frames, start=1):
        cv2.imwrite(str(folder / "img1" / f"{t:06d}.png"), image[..., ::-1])
    lines = [
        f"{t + 1:.0f},{i:.0f},{x1 + 1:g},{y1 + 1:g},{x2 - x1:g},{y2 - y1:g},"
        f"{int(seen >= LEAST_SEEN)},1,{seen:.3f}"
        for t, i, x1, y1, x2, y2, seen in scene.objects
    ]
    (folder / "gt" / "gt.txt").write_text("\n".join(lines) + "\n")


@dataclass(frozen=True)
class _Walker:
    cloth: np.ndarray
    mask: np.ndarray
    x: np.ndarray
    """Left edge, frame by frame."""
    y: np.ndarray

    @property
    def bottom(self) -> float:
        return float(self.y[0] + len(self.mask))

    def paint(
        self, canvas: np.ndarray, owner: np.ndarray, name: int, t: int, shake: np.ndarray
    ) -> None:
        place = self._place(t, shake)
        if place is not None:
            there, here = place
            mask = self.mask[here]
            canvas[there][mask] = self.cloth[here][mask]
            owner[there][mask] = name

    def seen(self, t: int, shake: np.ndarray) -> tuple[tuple[int, ...] | None, int]:
        """The box inside the image, and the area of the whole walker."""
        place = self._place(t, shake)
        if place is None:
            return None, 1
        (rows, columns), _ = place
        return (columns.start, rows.start, columns.stop, rows.stop), int(self.mask.sum())

    def _place(self, t: int, shake: np.ndarray) -> tuple[tuple[slice, slice], ...] | None:
        h, w = self.mask.shape
        x, y = round(self.x[t]) - int(shake[0]), round(self.y[t]) - int(shake[1])
        x1, y1, x2, y2 = max(x, 0), max(y, 0), min(x + w, WIDTH), min(y + h, HEIGHT)
        if x2 - x1 < 4 or y2 - y1 < 4:
            return None
        return (slice(y1, y2), slice(x1, x2)), (slice(y1 - y, y2 - y), slice(x1 - x, x2 - x))


def _walker(
    photos: dict[str, np.ndarray], rng: np.random.Generator, training: bool, frames: int
) -> _Walker:
    depth = rng.uniform(0.0, 1.0)
    height = int(44 + 40 * depth)
    width = int(height * rng.uniform(0.38, 0.48))
    photo = photos[str(rng.choice(CLOTHES))]
    half = photo.shape[1] // 2
    cloth = _part(photo[:, :half] if training else photo[:, half:], rng, height, width)
    mask = np.zeros((height, width), np.uint8)
    head = int(height * 0.13)
    cv2.circle(mask, (width // 2, head), head, 1, -1)
    cv2.rectangle(mask, (width // 8, 2 * head), (width - width // 8 - 1, height * 6 // 10), 1, -1)
    cv2.rectangle(mask, (0, 2 * head + 2), (width - 1, height // 2), 1, -1)
    legs = height * 6 // 10
    cv2.rectangle(mask, (width // 6, legs), (width * 5 // 12, height - 1), 1, -1)
    cv2.rectangle(mask, (width * 7 // 12, legs), (width * 5 // 6, height - 1), 1, -1)
    skin = np.array(rng.choice([[224, 172, 105], [141, 85, 36], [255, 205, 148]]), np.float64)
    cloth[: 2 * head] = 0.25 * cloth[: 2 * head] + 0.75 * skin
    speed = rng.uniform(0.8, 3.5) * rng.choice([-1, 1])
    start = rng.uniform(0, WIDTH - width) if speed < 0 else rng.uniform(-10, WIDTH - width - 20)
    steps = np.arange(frames)
    x = start + speed * steps + 2 * np.sin(steps * rng.uniform(0.2, 0.5))
    y = 60 + 45 * depth + rng.uniform(-6, 6) + 1.5 * np.sin(steps * 0.9 + rng.uniform(0, 6))
    return _Walker(cloth, mask.astype(bool), x, y)


def _ground(photos: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    texture = _part(photos[str(rng.choice(GROUNDS))], rng, HEIGHT + 16, WIDTH + 16)
    shade = np.linspace(rng.uniform(0.7, 1.2), rng.uniform(0.5, 1.0), HEIGHT + 16)[:, None, None]
    return texture * shade * rng.uniform(0.6, 1.1, 3)


def _part(photo: np.ndarray, rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A random part of a photograph, (height, width, 3), float."""
    scale = max(1.05 * height / photo.shape[0], 1.05 * width / photo.shape[1], 0.5)
    if scale != 1.0:
        photo = cv2.resize(np.ascontiguousarray(photo), None, fx=scale, fy=scale)
    y = int(rng.integers(0, photo.shape[0] - height + 1))
    x = int(rng.integers(0, photo.shape[1] - width + 1))
    return photo[y : y + height, x : x + width].astype(np.float64)
