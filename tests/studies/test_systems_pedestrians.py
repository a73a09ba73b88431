"""The pedestrian video: the clean run is its own reference, and a corrupted one is farther from it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.samples import load
from roadworthy.measures.tracking import mota
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.system import Cases

STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "pedestrians"
VIDEO = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")


@pytest.mark.skipif(not VIDEO.is_file(), reason="apt-get install opencv-doc has the video")
@pytest.mark.skipif(importlib.util.find_spec("trackers") is None, reason="trackers is missing")
def test_the_clean_run_agrees_with_itself(tmp_path):
    resolve_path("make.py:sequences", STUDY).target(VIDEO, tmp_path / "v", count=2, frames=3)
    data = load({"frames": "v"}, base=tmp_path, name="test")
    system = resolve_path("system.py:build", STUDY).target()
    cases = Cases(list(data.ids), data.inputs)
    assert mota(system.run(cases)["system"].output, data.targets).value() == 1.0
    dark = system.run(cases, at={"input": lambda frame, case, step: np.full_like(frame, 90)})
    assert mota(dark["system"].output, data.targets).value() == 0.0
