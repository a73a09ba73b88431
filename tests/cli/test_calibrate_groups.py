"""Groups that say nothing are told as such, and scores are not blamed for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from roadworthy.monitor.bundle import Bundle

pytestmark = pytest.mark.usefixtures("quick_alarms")


def table(path: Path, name: str, group: Callable[[str, int], str]) -> Path:
    """Scores that tell shift well; what stands in the column of that name depends on the kind and the row."""
    rng = np.random.default_rng(0)
    lines = [f"kind,correct,energy,{name}"]
    for kind, shift, right in (("clean", 0.0, 0.92), ("fog", 2.5, 0.5), ("night", 2.0, 0.6)):
        drawn = ((int(rng.random() < right), rng.normal(shift), i) for i in range(200))
        lines += [f"{kind},{correct},{energy:.4f},{group(kind, i)}" for correct, energy, i in drawn]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("one", ["A", ""])
def test_a_table_of_one_group_is_refused_by_the_name_of_its_column(cli, tmp_path, one):
    found = cli("calibrate", table(tmp_path / "t.csv", "session", lambda kind, i: one))
    assert found.code == 2 and not (tmp_path / "t.bundle.json").exists()
    assert "600 rows" in found.err and f"session is {one!r}" in found.err
    assert "--group COLUMN" in found.err and "--group none" in found.err


def test_that_there_are_no_groups_can_be_said(cli, tmp_path):
    found = cli(
        "calibrate", table(tmp_path / "t.csv", "session", lambda kind, i: "A"), "--group", "none"
    )
    assert found.code == 0 and "warning" not in found.out and "session for group" not in found.out
    bundle = Bundle.load(tmp_path / "t.bundle.json")
    assert not bundle.calibration.grouped and bundle.calibration.names == ("energy",)


def test_a_column_that_is_called_none_is_the_column(cli, tmp_path):
    assert (
        cli(
            "calibrate",
            table(tmp_path / "t.csv", "none", lambda kind, i: f"p{i}"),
            "--group",
            "none",
        ).code
        == 0
    )
    assert Bundle.load(tmp_path / "t.bundle.json").calibration.grouped


def test_few_groups_are_blamed_and_not_the_scores(cli, tmp_path):
    """Every kind was recorded in one session of its own, so that nobody can tell the kind from the session."""
    found = cli("calibrate", table(tmp_path / "t.csv", "session", lambda kind, i: kind))
    assert found.code == 0
    assert (
        "rows of clean, fog, night are of so few groups that they count for 1 row at most"
        in found.out
    )
    assert "the scores do not tell" not in found.out and "they do not tell" not in found.out
