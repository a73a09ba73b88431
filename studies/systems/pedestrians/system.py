"""OpenCV's people detector (Dalal and Triggs 2005) and SORT on a real video: modules nobody here
trained. The detector shows no layers and draws nothing, so that no supervisor of its own applies; a
pass of the tracker drops a tenth of the boxes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from roadworthy.data.values import BOXES, FRAMES, TRACKS, Boxes, Tracks
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

RATE = 0.1
MARGIN = 0.1
"""The share of a window on each side that is not the person."""
_PEOPLE = cv2.HOGDescriptor()
_PEOPLE.setSVMDetector(cv2.HOGDescriptor_getDefaultPeopleDetector())


def detect(frame: np.ndarray) -> Boxes:
    """The people in a frame, with the margin of the decision as the score."""
    found, scores = _PEOPLE.detectMultiScale(frame, winStride=(8, 8), padding=(8, 8), scale=1.1)
    if not len(found):
        return Boxes.of([])
    x, y, w, h = np.asarray(found, dtype=np.float64).T
    cut = [x + MARGIN * w, y + MARGIN * h, x + (1 - MARGIN) * w, y + (1 - MARGIN) * h]
    return Boxes.of(np.stack(cut, axis=1), scores=np.ravel(scores))


def follow(boxes: Boxes, state: Any = None, rng: Any = None) -> tuple[Tracks, Any]:
    """One frame of SORT, which is the state."""
    import supervision
    from trackers import SORTTracker

    state = state or SORTTracker(lost_track_buffer=15, minimum_consecutive_frames=1)
    kept = np.ones(len(boxes), bool) if rng is None else rng.random(len(boxes)) >= RATE
    given = supervision.Detections(
        boxes.xyxy[kept].astype(np.float32), confidence=np.ones(kept.sum(), np.float32)
    )
    found = state.update(given)
    named = found.tracker_id >= 0
    return Tracks.of(np.zeros(named.sum()), found.tracker_id[named], found.xyxy[named]), state


def build() -> System:
    """frame -> people detector -> SORT."""
    return System(
        {
            "detector": function_module(detect, outputs={"boxes": BOXES}),
            "tracker": function_module(follow, outputs={"tracks": TRACKS}),
        },
        {"detector.frame": "input", "tracker.boxes": "detector.boxes"},
        "tracker.tracks",
        FRAMES,
    )
