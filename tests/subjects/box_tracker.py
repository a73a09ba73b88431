"""A detector and a tracker that keeps identities by the nearest centre; what it remembers is its state."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from roadworthy.data.values import BOXES, FRAMES, TRACKS, Boxes, Tracks
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

REACH = 6.0


def detect(frame: np.ndarray) -> Boxes:
    """One box around each bright region."""
    regions, _ = ndimage.label(frame > 128)
    return Boxes.of([[x.start, y.start, x.stop, y.stop] for y, x in ndimage.find_objects(regions)])


WAVER = 0.05
"""Standard deviation of the factor that each pixel is multiplied by: Gaussian dropout."""


def detect_wavering(frame: np.ndarray, rng: np.random.Generator) -> Boxes:
    """The same after Gaussian dropout of the pixels."""
    return detect(frame * rng.normal(1.0, WAVER, frame.shape))


def follow(boxes: Boxes, state):
    """Each box takes the identity whose last centre is nearest and within reach, else a new one."""
    known, unused = state or ({}, 1)
    free, identities, seen = dict(known), [], {}
    for x1, y1, x2, y2 in boxes.xyxy.tolist():
        centre = (x1 + x2) / 2, (y1 + y2) / 2
        near = min(free, key=lambda i: np.hypot(*np.subtract(free[i], centre)), default=None)
        if near is None or np.hypot(*np.subtract(free[near], centre)) > REACH:
            near, unused = unused, unused + 1
        free.pop(near, None)
        identities.append(near)
        seen[near] = centre
    return Tracks.of(np.zeros(len(boxes)), identities, boxes.xyxy), (seen, unused)


def build() -> System:
    """frame -> detector -> boxes -> tracker -> tracks."""
    return _joined(detect)


def build_wavering() -> System:
    """The same with Gaussian dropout in the detector."""
    return _joined(detect_wavering)


def _joined(detector) -> System:
    return System(
        {
            "detector": function_module(detector, outputs={"boxes": BOXES}),
            "tracker": function_module(follow, outputs={"tracks": TRACKS}),
        },
        {"detector.frame": "input", "tracker.boxes": "detector.boxes"},
        "tracker.tracks",
        FRAMES,
    )
