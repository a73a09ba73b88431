"""What every command prints, as a whole: words and layout. Numbers are masked, other tests check them.

`UPDATE_SNAPSHOTS=1 pytest tests/cli/test_command_snapshots.py` writes the files anew; read the difference.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import made_scores as scores
import pytest
from test_looking import run_folder
from test_robustness_tasks import BOX_7, box_5, boxes_file

from roadworthy.cli.app import run

HERE = Path(__file__).parent / "snapshots"


def masked(text: str, folder: Path) -> str:
    """Without paths of this machine, numbers, hashes, and the widths that follow from numbers."""
    text = text.replace(f"{folder}/", "")
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "HASH", text)
    text = re.sub(r"\d+(?:[.,:]\d+)*", "#", text)
    text = re.sub(r"[▁▂▃▄▅▆▇█]+", "█", text)
    text = re.sub(r"─+", "─", text)
    return "\n".join(re.sub(r" {3,}", "   ", line).rstrip() for line in text.splitlines()) + "\n"


@pytest.fixture
def matches(tmp_path) -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        file, found = HERE / f"{name}.txt", masked(text, tmp_path)
        if os.environ.get("UPDATE_SNAPSHOTS"):
            file.write_text(found)
        assert found == file.read_text(), f"see {file}; UPDATE_SNAPSHOTS=1 writes it anew"

    return check


@pytest.mark.usefixtures("quick_alarms")
def test_calibrate_and_replay(cli, tmp_path, matches):
    table = scores.calibration(tmp_path / "scores.csv")
    said = cli("calibrate", table, "--events-per-day", 500, "--prior", 0.05)
    matches("calibrate", said.out)
    energy = scores.normal(1000)
    energy[600:] += scores.FAR
    energy[300:400] = float("nan")
    right = [i % 9 > 0 for i in range(1000)]
    path = scores.stream(tmp_path / "today.parquet", energy, correct=right)
    matches("replay", cli("replay", tmp_path / "scores.bundle.json", path).out)


def test_init(tiny, cli, tmp_path, matches):
    tiny.file.unlink()
    with contextlib.chdir(tiny.folder):
        said = cli("init")
    matches("init", said.out + "\n" + tiny.file.read_text().replace(tmp_path.name, "FOLDER"))


def test_assess_runs_compare_and_report(tiny, cli, tmp_path, matches):
    with contextlib.chdir(tiny.folder):
        matches("assess", cli("assess", tiny.file.name, "--runs", "first").out)
        (first,) = Path("first").glob("*/run.json")
        matches("runs", cli("runs", "first").out)
        second = run_folder(cli, tiny.spec(limit=0.97), Path("second"))
        matches("compare", cli("compare", first.parent, second).out)
        matches("report", cli("report", second, "--format", "junit").out)


def test_cases(tiny, cli, matches):
    exported = cli("cases", "export", tiny.file, "--out", tiny.folder / "cases")
    matches("cases-export", exported.out)


def test_list(cli, matches):
    matches("list", cli("list", "measures").out)


def test_robustness_task_by_task(cli, tmp_path, matches):
    file = boxes_file(tmp_path, "exclusive: [[motion_blur, gaussian_blur]]")
    said = [cli("robustness", task, file).out for task in ("circumstances", "gap")]
    said.append(
        cli("robustness", "relation", box_5(tmp_path), "--epsilon", BOX_7, "--loss", "absolute").out
    )
    matches("robustness", "\n".join(said))


def test_help(matches, capsys):
    run(["--help"])
    matches("help", capsys.readouterr().out)
