"""Transforms that move pixels, and the boxes, tracks and masks that move with them.

Such a transform is a function ``move(shape, rng, *, …)`` that draws a `Warp`: where each pixel of
the new picture comes from. The decorator `geometry` registers it as a transform of images, drawn
once for a case; the same draw moves the targets of all its steps.

A moved box is the hull of its moved outline (of its corners if the map is affine, of points along
its sides if not), cut at the edge. If less than `least_visible` of its area is left, it becomes a
region to ignore: too little is seen of the object to expect that it is found, and too much to call
a detection false. As many boxes come out as went in.

>>> half_turn = Warp(np.array([[-1.0, 0.0, 7.0], [0.0, -1.0, 7.0]]), (8, 8))
>>> half_turn.boxes(Boxes.of([[0, 0, 2, 3]])).xyxy.tolist()
[[6.0, 5.0, 8.0, 8.0]]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roadworthy.cases.image.pixels import Limits, check_limits, opencv, sound_image
from roadworthy.cases.transform import Tables, transform
from roadworthy.data.values import IMAGE, Boxes, Tracks
from roadworthy.distances.overlap import box_area

SAMPLES = 16
"""Points along each side of a box under a dense map."""
ROUNDS, STEP = 6, 0.6
"""How the place of an old point in the new picture is searched for. Whole steps would swing where a
strong map folds the picture."""


def geometry(
    name: str,
    *,
    tables: Tables | None = None,
    identity: Mapping[str, Any] | None = None,
    limits: Mapping[str, Limits] | None = None,
) -> Callable[[Callable[..., Warp]], Callable[..., np.ndarray]]:
    """Register a transform of images that moves pixels."""

    def decorate(move: Callable[..., Warp]) -> Callable[..., np.ndarray]:
        @functools.wraps(move)
        def drawn(shape: tuple[int, int], rng: np.random.Generator, **parameters: Any) -> Warp:
            check_limits(name, parameters, limits or {})
            return move(shape, rng, **parameters)

        @functools.wraps(move)
        def make(image: np.ndarray, rng: np.random.Generator, **parameters: Any) -> np.ndarray:
            plain = sound_image(image)
            return drawn(plain.shape[:2], rng, **parameters).picture(plain)

        make.move = drawn  # type: ignore[attr-defined]
        make.extra = ("cv2", "vision")  # type: ignore[attr-defined]
        return register(make)

    register = transform(
        name, of=IMAGE, tables=tables, draw="case", identity=identity, geometry=True
    )
    return decorate


@dataclass(frozen=True)
class Warp:
    """Where each pixel of a picture of `shape` (height, width) comes from."""

    backward: np.ndarray | None
    """From new to old pixels: an affine map (2, 3), the old x and y of every pixel (h, w, 2), or
    None if all stay in place."""
    shape: tuple[int, int]
    border: Literal["black", "reflected"] = "black"
    """What is seen beyond the old picture."""
    window: tuple[int, int, int, int] | None = None
    """x1 y1 x2 y2, outside of which the new picture is black."""

    def picture(self, image: np.ndarray) -> np.ndarray:
        """The picture, moved; an alpha channel moves with it."""
        return self._painted(image, opencv().INTER_LINEAR)

    def mask(self, mask: np.ndarray) -> np.ndarray:
        """A mask (height, width) of whole numbers, moved; 0 where nothing is known."""
        if mask.shape != self.shape or mask.dtype.kind not in "iub":
            raise ValueError(
                f"the mask is {mask.dtype} of shape {mask.shape}; whole numbers of shape "
                f"{self.shape}, the picture's, were expected"
            )
        exact = np.ascontiguousarray(mask, dtype=np.float64)  # OpenCV moves no 64-bit integers
        return self._painted(exact, opencv().INTER_NEAREST).astype(mask.dtype)

    def boxes(self, boxes: Boxes, *, least_visible: float = 0.3) -> Boxes:
        """The boxes, moved; those of which less than `least_visible` is left are to be ignored."""
        corners, visible = self._cut(boxes.xyxy)
        unseen = boxes.ignore | (visible < least_visible)
        area = None if boxes.area is None else boxes.area * visible
        return Boxes(corners, boxes.labels, boxes.scores, unseen, area)

    def tracks(self, tracks: Tracks, *, least_visible: float = 0.3) -> Tracks:
        """The rows of tracks, moved; tracks know no regions to ignore, so an object of which less
        than `least_visible` is left is absent from its step."""
        corners, visible = self._cut(tracks.xyxy)
        seen = visible >= least_visible
        return Tracks(tracks.step[seen], tracks.ids[seen], corners[seen])

    def target(self, target: Any, *, least_visible: float = 0.3) -> Any:
        """Boxes, tracks or a mask, moved; any other target (a label, a number) as it is."""
        if isinstance(target, Boxes):
            return self.boxes(target, least_visible=least_visible)
        if isinstance(target, Tracks):
            return self.tracks(target, least_visible=least_visible)
        is_mask = isinstance(target, np.ndarray) and target.shape == self.shape
        return self.mask(target) if is_mask else target

    def _painted(self, image: np.ndarray, interpolation: int) -> np.ndarray:
        cv2 = opencv()
        edge = cv2.BORDER_CONSTANT if self.border == "black" else cv2.BORDER_REFLECT
        if self.backward is None:
            moved = image.copy() if self.window is None else image
        elif self.backward.ndim == 2:
            how, size = interpolation | cv2.WARP_INVERSE_MAP, self.shape[::-1]
            moved = cv2.warpAffine(image, self.backward, size, flags=how, borderMode=edge)
        else:
            moved = cv2.remap(image, self.backward, None, interpolation, borderMode=edge)
        moved = moved.reshape(image.shape)  # OpenCV drops a lone channel
        if self.window is None:
            return moved
        x1, y1, x2, y2 = self.window
        seen = np.zeros_like(moved)
        seen[y1:y2, x1:x2] = moved[y1:y2, x1:x2]
        return seen

    def _cut(self, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moved boxes, cut at the window, and which share of each is left."""
        hulls = self._hulls(corners)
        x1, y1, x2, y2 = self.window or (0, 0, *self.shape[::-1])
        low, high = np.array([x1, y1, x1, y1], dtype=float), np.array([x2, y2, x2, y2], dtype=float)
        cut = np.minimum(np.maximum(hulls, low), high)
        own, left = box_area(hulls), box_area(cut)
        if own.all():
            return cut, left / own
        # A box without area is seen if it lies in the window.
        inside = (hulls[:, :2] <= high[:2]) & (hulls[:, 2:] >= low[2:])
        return cut, np.divide(left, own, out=inside.all(axis=1).astype(float), where=own > 0)

    def _hulls(self, corners: np.ndarray) -> np.ndarray:
        """Boxes around the moved ones; a box reaches from 0 to 1 if it is the first pixel."""
        if self.backward is None or not len(corners):
            return corners
        cv2 = opencv()
        if self.backward.ndim == 2:
            forward = cv2.invertAffineTransform(self.backward)
            turn, shift = forward[:, :2].T, forward[:, 2]
            centre = (corners[:, :2] + corners[:, 2:] - 1) / 2 @ turn + shift + 0.5
            half = (corners[:, 2:] - corners[:, :2]) / 2 @ np.abs(turn)
            return np.concatenate([centre - half, centre + half], axis=1)
        old = _outlines(corners.astype(np.float32)) - np.float32(0.5)
        new = old
        for _ in range(ROUNDS):
            seen = cv2.remap(self.backward, new, None, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
            new = new + np.float32(STEP) * (old - seen)
        return np.concatenate([new.min(axis=0), new.max(axis=0)], axis=1).astype(np.float64) + 0.5  # type: ignore[no-any-return]


def _outlines(corners: np.ndarray) -> np.ndarray:
    """Points (4 x SAMPLES, n, 2) along the sides of boxes; in this order hulls are quick to take."""
    share = np.arange(SAMPLES, dtype=np.float32) / SAMPLES
    zero, one = np.zeros_like(share), np.ones_like(share)
    right = np.concatenate([share, one, 1 - share, zero])
    down = np.concatenate([zero, share, one, 1 - share])
    x1, y1, x2, y2 = corners.T
    return np.stack([x1 + (x2 - x1) * right[:, None], y1 + (y2 - y1) * down[:, None]], axis=-1)
