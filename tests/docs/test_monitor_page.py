"""The Python on the page about the monitor runs as it stands there, and does what its comments say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.analysis.risk.cells import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Monitor, Taken, Windows

PAGE = (Path(__file__).parents[2] / "docs" / "monitor-service.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code of the page leaves behind, beside a bundle of the name it has there."""
    rng = np.random.default_rng(0)
    shifted = np.repeat([0.0, 1.0], 300)
    scores = {"knn": rng.normal(0.4 + shifted, 0.2), "energy": rng.normal(2.0 * shifted - 3.0)}
    calibration = calibrate(scores, np.where(shifted, "fog", "clean"), rng.random(600) < np.where(shifted, 0.4, 0.9))
    bundle = Bundle.compile(calibration, accuracy_tree(), subject="lesion-2.3.1", windows=Windows((100,)))
    bundle.save(tmp_path / "lesion.bundle.json")
    (tmp_path / "page.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return runpy.run_path("page.py")


def test_events_labels_and_replicas_are_counted_as_the_page_says(found):
    assert "# Taken(accepted=2, repeated=0, late=0, unscored=0, ahead=0)" in CODE
    assert found["taken"] == Taken(accepted=3, repeated=0, late=0, unscored=0, ahead=0)
    assert found["monitor"].replica == "ward-3" == found["again"].replica
    assert found["audited"] is None and len(found["monitor"].state.labels.given) == 2
    again: Monitor = found["again"]
    assert again.state.counted == 3 and again.state.taken.repeated == 2


def test_every_name_of_the_library_that_the_page_uses_is_there():
    used = set(re.findall(r"monitor\.(\w+)\(", CODE)) | {"label_all", "merge", "to_bytes", "from_bytes"}
    assert used >= {"update", "update_one", "risk", "queue", "label"} and all(hasattr(Monitor, name) for name in used)
