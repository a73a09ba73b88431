"""What replay makes of a table of outcomes: it needs id and correct only, and what the scores do not see is said."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.app import run

pytestmark = pytest.mark.usefixtures("quick_alarms")

EVENTS = 400


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    folder = tmp_path_factory.mktemp("revealed")
    rng = np.random.default_rng(1)
    lines = ["kind,correct,knn"]
    for kind, n, shift, right in (("clean", 400, 0.0, 0.95), ("fog", 200, 2.5, 0.5), ("rain", 200, 2.5, 0.5)):
        lines += [f"{kind},{int(rng.random() < right)},{rng.normal(shift):.4f}" for _ in range(n)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    with redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(folder / "t.csv"), "--events-per-day", "1000", "--json"]) == 0
    return folder / "t.bundle.json"


def stream(path: Path, shift: float) -> Path:
    scores = np.random.default_rng(2).normal(shift, size=EVENTS)
    path.write_text("\n".join(["id,knn", *(f"e{i},{v:.4f}" for i, v in enumerate(scores))]) + "\n")
    return path


def truth(path: Path, right: float, *, kind: str = "") -> Path:
    drawn = np.random.default_rng(3).random(EVENTS) < right
    more, cell = (",kind,group,time", f",{kind},,noon") if kind else ("", "")
    path.write_text("\n".join([f"id,correct{more}", *(f"e{i},{int(r)}{cell}" for i, r in enumerate(drawn))]) + "\n")
    return path


def test_a_table_of_outcomes_needs_id_and_correct_only(cli, bundle, tmp_path):
    plain = cli("replay", bundle, stream(tmp_path / "s.csv", 2.5), "--truth", truth(tmp_path / "p.csv", 0.5))
    more = cli("replay", bundle, tmp_path / "s.csv", "--truth", truth(tmp_path / "m.csv", 0.5, kind="dark"))
    assert plain.code == more.code == 1, more.err
    assert plain.out == more.out
    assert "Truth revealed" in more.out
