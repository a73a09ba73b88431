"""Small versions of the tracking study: exact scenes, and all three configurations under noise."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.samples import load
from roadworthy.data.values import Boxes
from roadworthy.measures.tracking import mota
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.module import Context
from roadworthy.subject.needs import Layer, Passes
from roadworthy.subject.system import Cases

NEEDS = ("cv2", "skimage", "trackers", "deep_sort_realtime", "torch")
MISSING = [name for name in NEEDS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"pip install -r studies/systems/requirements.txt: {MISSING} missing"
)
STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "tracking"


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    found = resolve_path("make.py:scenes", STUDY)
    found.target(folder, {"test": 2}, 8)
    return load({"frames": "test"}, base=folder, name="test")


def test_truth_is_what_was_painted():
    """A walker's box is the smallest around the pixels that differ from the scene without it."""
    scenes = sys.modules[resolve_path("scenes.py:scene", STUDY).target.__module__]
    rng = np.random.default_rng(1)
    walker = scenes._walker(scenes.photographs(), rng, False, 3)
    canvas, owner = np.zeros((192, 256, 3)), np.full((192, 256), -1)
    walker.paint(canvas, owner, 0, 1, np.zeros(2, int))
    rows, columns = np.nonzero(owner == 0)
    (x1, y1, x2, y2), area = walker.seen(1, np.zeros(2, int))
    assert area >= len(rows)
    assert (x1, y1, x2, y2) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


@pytest.mark.parametrize("name", ["build", "build_sort", "build_deepsort"])
def test_noise_costs_tracks_and_the_tracker_has_passes(videos, name):
    system = resolve_path(f"system.py:{name}", STUDY).target()
    cases = Cases(list(videos.ids), videos.inputs)
    asked = Passes("own", 3, distance="auto")
    clean = system.run(
        cases, {"tracker": frozenset({asked}), "detector": frozenset({Layer("penultimate")})}
    )

    def noisy(frame, case, step):
        noise = np.random.default_rng(step).normal(0, 0.38 * 255, frame.shape)
        return np.clip(frame + noise, 0, 255).astype(np.uint8)

    hurt = system.run(cases, at={"input": noisy})
    before = mota(clean["system"].output, videos.targets).value()
    assert before > 0.5
    assert mota(hurt["system"].output, videos.targets).value() < before - 0.2
    assert np.isfinite(clean["tracker"].columns[asked.column]).all()
    assert clean["detector"].columns["layer.penultimate"].shape == (16, 64)


def test_appearance_is_one_row_a_frame_also_without_boxes(videos):
    module = resolve_path("system.py:build_deepsort", STUDY).target().modules["appearance"]
    frame = np.asarray(videos.inputs[0][0])
    given = {"frame": [frame] * 2, "boxes": [Boxes.of([[5, 5, 60, 90]] * 2), Boxes.of([])]}
    passes = Passes("dropout", 2, distance="auto")
    layer = Layer("penultimate")
    answers = module.batch(given, Context(["a", "b"], frozenset({layer, passes})))
    seen, empty = answers.outputs["output"]
    first, second = answers.outputs["features"][0].reshape(-1, len(seen))[:2]
    np.testing.assert_allclose(seen, first, rtol=1e-5)
    np.testing.assert_allclose(first, second, rtol=1e-5)
    assert not empty.any() and not answers.extras[layer][1].any()
    assert answers.extras[passes][0, 0] > 0 == answers.extras[passes][1, 0]
