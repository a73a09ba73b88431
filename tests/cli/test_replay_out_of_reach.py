"""Where many events have a score that no calibration row had, replay names the score and both ranges: it may be another unit."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.amounts import amount
from roadworthy.cli.app import run
from roadworthy.cli.out_of_reach import MANY, OutOfReach
from roadworthy.monitor.bundle import Bundle

pytestmark = pytest.mark.usefixtures("quick_alarms")


def scores(shifted: np.ndarray, seed: int) -> np.ndarray:
    """Energy and knn."""
    drawn = np.random.default_rng(seed).normal(2.5 * shifted[:, None], size=(len(shifted), 2))
    return drawn * [1.3, 0.2] + [-8.0, 0.4]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    folder = tmp_path_factory.mktemp("reach")
    kind = np.repeat(["clean", "fog", "night"], [400, 200, 200])
    right = np.random.default_rng(1).random(800) < np.where(kind == "clean", 0.95, 0.5)
    rows = zip(kind, right, scores((kind != "clean").astype(float), 2), strict=True)
    lines = [f"{k},{int(r)},{e:.4f},{q:.4f}" for k, r, (e, q) in rows]
    (folder / "t.csv").write_text("\n".join(["kind,correct,energy,knn", *lines]) + "\n")
    with redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(folder / "t.csv"), "--events-per-day", "1000", "--json"]) == 0
    return folder / "t.bundle.json"


def stream(path: Path, drawn: np.ndarray) -> Path:
    path.write_text("\n".join(["energy,knn", *(f"{e:.4f},{q:.4f}" for e, q in drawn)]) + "\n")
    return path


def test_a_score_on_another_scale_is_named_with_both_ranges_beside_the_reason(
    cli, bundle, tmp_path
):
    drawn = np.round(scores(np.zeros(400), 3), 4) * [100, 1]
    said = cli("replay", bundle, stream(tmp_path / "s.csv", drawn))
    low, high = Bundle.load(bundle).calibration.reach[0]
    energy = drawn[:, 0]
    beyond = energy[(energy < low) | (energy > high)]
    note = (
        f"score energy: {len(beyond)} of 400 events lie outside what any calibration row had, {amount(beyond.min())} to "
        f"{amount(beyond.max())} where those have {amount(low)} to {amount(high)}: another unit"
    )
    assert said.code == 3 and note in said.out and "score knn" not in said.out
    lines = said.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Cannot tell, events 1 to 400"))
    assert note in lines[at + 1], "near the reason"
    content = json.loads(cli("replay", bundle, tmp_path / "s.csv", "--json").out)
    assert sum(note in n for n in content["notes"]) == 1


def test_a_scale_that_changes_late_is_named_too_and_an_ordinary_stream_is_not(
    cli, bundle, tmp_path
):
    drawn = scores(np.zeros(2000), 4)
    assert "lie outside" not in cli("replay", bundle, stream(tmp_path / "q.csv", drawn)).out
    drawn[-150:, 1] *= 1000
    said = cli("replay", bundle, stream(tmp_path / "s.csv", drawn)).out
    assert "score knn: " in said and "score energy: " not in said


@given(
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    window=st.integers(1, 7),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_it_is_the_same_however_the_stream_is_cut(cuts, window, seed):
    column = np.random.default_rng(seed).normal(size=sum(cuts)) * 1.5
    seen = OutOfReach({"knn": (-1.0, 1.0)}, window=window)
    for part in np.split(column, np.cumsum(cuts)[:-1]):
        seen.add({"knn": part})
    outside = np.abs(column) > 1.0
    whole = len(column) // window * window
    worst = outside[:whole].reshape(-1, window).mean(axis=1).max(initial=0.0)
    assert bool(seen.notes) == (worst > MANY)
    if seen.notes:
        assert seen.notes[0].startswith(f"score knn: {outside.sum()} of {len(column)} event")
