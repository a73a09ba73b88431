"""The monitor is light: numpy, scipy and the standard library."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("pydantic", "yaml", "pyarrow", "torch", "rich", "typer", "jinja2", "cv2", "onnxruntime")

ALL = """
import importlib, pkgutil, roadworthy.monitor as room
for part in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"roadworthy.monitor.{part.name}")
"""
USED = """
import numpy as np
from roadworthy.analysis.risk.cells import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
rng = np.random.default_rng(0)
kind = np.repeat(["clean", "fog"], 100)
calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 100))}, kind, rng.random(200) < 0.8)
monitor = Monitor(Bundle.compile(calibration, accuracy_tree(), subject="s", windows=Windows((20,), adaptive=True)))
monitor.update(Events(None, None, columns={"energy": rng.normal(size=50)}))
monitor.risk("adaptive"), monitor.queue(3), monitor.history(60.0), Monitor.from_bytes(monitor.bundle, monitor.to_bytes())
"""


def loaded_after(code: str) -> list[str]:
    report = f"{code}\nimport sys, json; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_room_loads_nothing_heavy():
    assert loaded_after("import roadworthy.monitor") == []


def test_every_part_of_it_and_its_use_load_nothing_heavy():
    assert loaded_after(ALL + USED) == []
