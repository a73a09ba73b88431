"""The Python on the page about the monitor runs as it stands there, and does what its comments say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Monitor, Taken, Windows

PAGE = (Path(__file__).parents[2] / "docs" / "monitor-service.md").read_text()
POSTED, CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code of the page leaves behind, beside a bundle of the name it has there."""
    rng = np.random.default_rng(0)
    shifted = np.repeat([0.0, 1.0], 300)
    scores = {"knn": rng.normal(0.4 + shifted, 0.2), "energy": rng.normal(2.0 * shifted - 3.0)}
    calibration = fit_calibration(
        scores, np.where(shifted, "fog", "clean"), rng.random(600) < np.where(shifted, 0.4, 0.9)
    )
    bundle = Bundle.compile(
        calibration, accuracy_tree(), subject="lesion-2.3.1", windows=Windows((100,))
    )
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
    used = set(re.findall(r"monitor\.(\w+)\(", CODE)) | {
        "label_all",
        "merge",
        "to_bytes",
        "from_bytes",
    }
    assert used >= {"update", "update_one", "risk", "queue", "label"} and all(
        hasattr(Monitor, name) for name in used
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_becomes_the_events_that_are_posted(tmp_path, monkeypatch, kind):
    """Scores that are missing stay so, times are those of the table, and the service takes every line."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from roadworthy.web.events import Batch, Reader

    knn, energy = [0.41, 0.38, float("nan") if kind == "parquet" else None], [-2.7, None, -3.1]
    start = 1_772_409_600
    dates = pa.array([1000 * start, 1000 * start + 250, None], pa.timestamp("ms", tz="UTC"))
    table = pa.table(
        {"id": [7, 8, 9], "time": dates, "knn": knn, "energy": energy, "note": ["", "a", "b"]}
    )
    monkeypatch.chdir(tmp_path)
    if kind == "csv":
        csv.write_csv(table, "today.csv")
    else:
        parquet.write_table(table, "today.parquet")
    comment = re.search(r"# or (pyarrow\.parquet\.\S+)", POSTED)
    assert comment is not None
    read = (
        POSTED if kind == "csv" else POSTED.replace('pyarrow.csv.read_csv("today.csv")', comment[1])
    )
    Path("made.py").write_text(read)
    runpy.run_path("made.py")
    body = Path("today.ndjson").read_bytes()
    scores = [json.loads(line)["scores"] for line in body.splitlines()]
    assert scores == [
        {"knn": 0.41, "energy": -2.7},
        {"knn": 0.38, "energy": None},
        {"knn": None, "energy": -3.1},
    ]
    rng = np.random.default_rng(0)
    known = {name: rng.normal(np.repeat([0.0, 2.0], 300)) for name in ("knn", "energy")}
    calibration = fit_calibration(known, np.repeat(["clean", "fog"], 300), rng.random(600) < 0.8)
    batch = Reader(calibration, subject="lesion-2.3.1").read(body, now=start + 60.0)
    assert isinstance(batch, Batch) and batch.ids == ["7", "8", "9"]
    assert np.allclose(batch.times - start, [0.0, 0.25, 60.0], atol=1e-5)
