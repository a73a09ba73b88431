"""Small versions of the steering study: exact angles, the system under contrast, Udacity's tables."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from roadworthy.data.samples import load
from roadworthy.measures.regression import rmse
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.needs import Layer, Passes
from roadworthy.subject.system import Cases

STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "steering"


def named(path: str):
    return resolve_path(path, STUDY).target


def test_the_angle_leads_to_the_middle_of_the_road():
    """A car that turns its wheels by it drives a circle through the middle, `AHEAD` metres on."""
    pose = named("scenes.py:Pose")(0.8, -0.04, 0.01)
    base, ahead = named("scenes.py:BASE"), named("scenes.py:AHEAD")
    radius = base / np.tan(pose.steering())
    x, y = pose.middle(np.array(ahead))
    assert np.hypot(x - radius, y) == pytest.approx(abs(radius))
    straight = named("scenes.py:Pose")(0.0, 0.0, 0.0)
    assert straight.steering() == 0.0


def test_low_contrast_costs_accuracy(tmp_path):
    named("make.py:roads")(tmp_path, {"test": 40})
    data = load(
        {"csv": "test.csv", "images": "test", "target": ["steering"]}, base=tmp_path, name="test"
    )
    system = named("system.py:build")()
    asked = frozenset({Layer("penultimate"), Passes("dropout", 4, distance="auto")})
    cases = Cases(list(data.ids), data.inputs)
    clean = system.run(cases, dict.fromkeys(("deep", "wide", "pooled"), asked))
    angles = clean["system"].output
    each = [clean[name].output for name in ("deep", "wide", "pooled")]
    np.testing.assert_allclose(angles, np.mean(each, axis=0), atol=1e-6)
    hurt = system.run(cases, at={"input": lambda i, case, step: (i * 0.05 + 110).astype(np.uint8)})
    before = rmse(angles, data.targets).value()
    assert before < 0.02
    assert rmse(hurt["system"].output, data.targets).value() > 1.5 * before
    for request in asked:
        assert np.isfinite(clean["wide"].columns[request.column]).all()


def test_udacity_tables_become_pairs_of_consecutive_frames(tmp_path):
    rng = np.random.default_rng(0)
    times = [10**9, 10**9 + 5 * 10**7, 10**9 + 10**8, 10**10]
    (tmp_path / "center").mkdir()
    for time in times:
        picture = rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)
        cv2.imwrite(str(tmp_path / "center" / f"{time}.jpg"), picture)
    lines = [f"{t},center_camera,center/{t}.jpg,{i / 10}" for i, t in enumerate(times)]
    lines.insert(1, f"{times[0]},left_camera,left/{times[0]}.jpg,0.9")
    head = "index,frame_id,filename,angle\n"
    (tmp_path / "interpolated.csv").write_text(head + "\n".join(lines))
    made = named("udacity.py:pairs")(tmp_path / "interpolated.csv", tmp_path, tmp_path / "a")
    lines = [f"{t},{i / 10}" for i, t in enumerate(times)]
    (tmp_path / "final.csv").write_text("frame_id,steering_angle\n" + "\n".join(lines))
    again = named("udacity.py:pairs")(tmp_path / "final.csv", tmp_path / "center", tmp_path / "b")
    assert made == again == 2  # the fourth frame comes nine seconds later
    for out in ("a", "b"):
        data = load(
            {"csv": "pairs.csv", "images": "pairs", "target": ["steering"]},
            base=tmp_path / out,
            name="test",
        )
        assert np.ravel(data.targets).tolist() == [0.1, 0.2]
        first, second = data.inputs[0], data.inputs[1]
        assert first.shape == (128, 128, 3)
        np.testing.assert_array_equal(first[64:], second[:64])
