"""Rendered roads with exact steering angles, two consecutive frames a case.

A flat road of constant curvature is seen by a pinhole camera; curvature, the car's offset and
heading, light, haze, textures, markings and the camera's height and pitch differ. The label is the
steering angle of pure pursuit: the angle of the front wheels that leads a car of wheelbase `BASE`
to the middle of the road `AHEAD` metres on, which depends on all three of them (Coulter 1992).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 128, 64
BASE, AHEAD = 2.7, 12.0
HALF = 3.5
"""Half the width of the road, in metres."""
STEP = 1.0
"""Metres driven between the two frames."""


class Pose(NamedTuple):
    """Where the car is: metres right of the middle, radians right of the road, curvature (1 / m,
    positive to the right)."""

    offset: float
    heading: float
    curvature: float

    def steering(self) -> float:
        """The angle of the front wheels in radians, positive to the right."""
        x, y = self.middle(np.array(AHEAD))
        return float(np.arctan(2 * BASE * x / (x**2 + y**2)))

    def middle(self, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The middle of the road `along` metres on: right of and before the car."""
        right, before = self.curvature * along**2 / 2 - self.offset, along
        c, s = np.cos(self.heading), np.sin(self.heading)
        return c * right - s * before, s * right + c * before

    def after(self, metres: float) -> Pose:
        """The pose after driving straight on, to first order."""
        return Pose(
            self.offset + metres * np.sin(self.heading),
            self.heading - metres * self.curvature,
            self.curvature,
        )


class Look(NamedTuple):
    """What a drive looks like."""

    light: float
    haze: float
    road: np.ndarray
    grass: np.ndarray
    sky: np.ndarray
    marks: float
    dashes: float
    rough: float
    height: float
    pitch: float
    grain: np.ndarray
    """A texture of the ground, looked up by its coordinates."""


def drive(rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """A case: the frame before above the frame now, (2 height, width, 3), uint8; and the angle now."""
    curvature = rng.normal(0, 0.008)
    pose = Pose(rng.uniform(-1.2, 1.2), rng.normal(0, 0.05), float(np.clip(curvature, -0.02, 0.02)))
    look = _look(rng)
    start = rng.uniform(0, 100)
    frames = [
        _frame(p, look, start + moved, rng) for p, moved in ((pose, 0.0), (pose.after(STEP), STEP))
    ]
    return np.concatenate(frames), pose.after(STEP).steering()


def _look(rng: np.random.Generator) -> Look:
    return Look(
        light=rng.uniform(0.5, 1.15),
        haze=rng.uniform(0.0, 0.5),
        road=np.array([95, 95, 98]) * rng.uniform(0.6, 1.3) + rng.normal(0, 4, 3),
        grass=np.array([rng.uniform(60, 150), rng.uniform(90, 160), rng.uniform(40, 90)]),
        sky=np.array([150, 185, 225]) * rng.uniform(0.7, 1.1) + rng.normal(0, 8, 3),
        marks=rng.uniform(0.5, 1.0),
        dashes=rng.uniform(5, 9),
        rough=rng.uniform(4, 22),
        height=rng.uniform(1.2, 1.6),
        pitch=rng.uniform(-0.02, 0.03),
        grain=rng.normal(0, 1, (64, 64)),
    )


def _frame(pose: Pose, look: Look, travelled: float, rng: np.random.Generator) -> np.ndarray:
    """The road as the camera sees it, by casting a ray through every pixel."""
    focal = WIDTH * 0.6
    rows, columns = np.mgrid[:HEIGHT, :WIDTH].astype(np.float64) + 0.5
    down = (rows - HEIGHT * 0.38) / focal + look.pitch
    aside = (columns - WIDTH / 2) / focal
    ground = down > 0.012
    before = look.height / np.where(ground, down, 1.0)
    right = aside * before
    c, s = np.cos(pose.heading), np.sin(pose.heading)
    along, across = c * before - s * right, s * before + c * right
    across = across + pose.offset - pose.curvature * along**2 / 2
    place = along + travelled
    image = np.where((np.abs(across) < HALF)[..., None], look.road, look.grass)
    edge = np.abs(np.abs(across) - (HALF - 0.3)) < 0.09
    dashed = (np.abs(across) < 0.09) & (place % look.dashes < look.dashes / 2)
    image = np.where((edge | dashed)[..., None], 255 * look.marks, image)
    coarse = (place * 1.5).astype(int) % 64, (across * 1.5).astype(int) % 64
    image = image + look.rough * look.grain[coarse][..., None]
    far = np.clip(before / 120, 0, 1) * look.haze
    image = image * (1 - far[..., None]) + look.sky * far[..., None]
    image = np.where(ground[..., None], image, look.sky)
    return np.clip(image * look.light + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8)
