"""The monitor is light: numpy, scipy and the standard library."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import roadworthy

# numpy.f2py itself loads charset_normalizer where something else has installed it.
LIGHT = {"numpy", "scipy", "roadworthy", "charset_normalizer"}

ALL = """
import importlib, pkgutil, roadworthy.monitor as room
for part in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"roadworthy.monitor.{part.name}")
"""
USED = """
import numpy as np
from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
rng = np.random.default_rng(0)
kind = np.repeat(["clean", "fog"], 100)
calibration = fit_calibration({"energy": rng.normal(np.repeat([0.0, 2.0], 100))}, kind, rng.random(200) < 0.8)
monitor = Monitor(Bundle.compile(calibration, accuracy_tree(), subject="s", windows=Windows((20,), adaptive=True)))
monitor.update(Events(None, None, columns={"energy": rng.normal(size=50)}))
monitor.risk("adaptive"), monitor.queue(3), monitor.history(60.0), Monitor.from_bytes(monitor.bundle, monitor.to_bytes())
"""


def files_after(code: str) -> set[str]:
    """The files of all modules that a fresh interpreter has after some code."""
    listed = "import sys, json; print(json.dumps([f for m in sys.modules.values() if (f := getattr(m, '__file__', None))]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{listed}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def loaded_after(code: str) -> set[str]:
    """The packages that some code loads, but for the standard library and what an interpreter has at its start."""
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    own = Path(roadworthy.__file__).parents[1]
    standard = Path(sysconfig.get_path("stdlib"))
    found = set()
    for file in map(Path, files_after(code) - files_after("")):
        home = next((place for place in (*installed, own) if file.is_relative_to(place)), None)
        if home is not None:
            found.add(file.relative_to(home).parts[0].partition(".")[0])
        elif not file.is_relative_to(standard):
            found.add(str(file))
    return found


def test_what_is_no_light_package_is_seen():
    assert loaded_after("import pytest") > {"pytest"}


def test_importing_the_room_loads_numpy_and_scipy_alone():
    assert loaded_after("import roadworthy.monitor") <= LIGHT


def test_every_part_of_it_and_its_use_load_numpy_and_scipy_alone():
    assert loaded_after(ALL + USED) <= LIGHT
