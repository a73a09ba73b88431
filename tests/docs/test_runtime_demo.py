"""The thirty seconds that `make demo` ends with: they run on the core install, and what they say is computed and true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

PROJECT = Path(__file__).parents[2]
DEMO = PROJECT / "examples" / "runtime" / "demo.py"
SCORES = PROJECT / "examples" / "scores"
CORE_ONLY = """
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "cv2", "onnxruntime", "safetensors", "rapidfuzz", "starlette", "uvicorn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = [sys.argv[1]]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def said() -> str:
    """What a log gets, without any extra installed."""
    done = subprocess.run(
        [sys.executable, "-c", CORE_ONLY, str(DEMO)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def truth(name: str) -> tuple[list[str], list[bool]]:
    table = pq.read_table(SCORES / f"{name}_truth.parquet")
    return table["kind"].to_pylist(), table["correct"].to_pylist()


def test_a_log_gets_plain_lines_and_no_control_characters(said):
    assert "\x1b" not in said
    lines = [line for line in said.splitlines() if " events   confidence " in line]
    assert len(lines) >= 20 and all("roadworthy" in line for line in lines)


def test_the_alarm_comes_after_the_shift_with_its_delay_and_cost(said):
    kinds, right = truth("today")
    begins = next(i for i, kind in enumerate(kinds) if kind != "clean")
    assert kinds[begins] not in pq.read_table(SCORES / "calibration.parquet")["kind"].to_pylist()
    alarm = int(re.search(r"ALARM after ([\d,]+) events", said)[1].replace(",", ""))
    assert begins < alarm <= begins + 400
    came = re.search(
        r"The alarm came (\d+) events later; their mistakes cost ([\d,]+) EUR. False alarms: (\d+)",
        said,
    )
    assert int(came[1]) == alarm - begins
    assert int(came[2].replace(",", "")) == 4 * right[begins:alarm].count(False)
    assert came[3] == "0"


def test_the_truth_is_told_at_the_end_and_the_monitor_is_nearer_to_it(said):
    _, right = truth("today")
    last = round(100 * sum(right[-200:]) / 200)
    shown = re.search(
        r"confidence says (\d+)%\s+━━ roadworthy (\d+)% \((\d+)% to (\d+)%\)\s+●● truth (\d+)%",
        said,
    )
    confidence, ours, low, high, true = map(int, shown.groups())
    assert true == last and low <= true <= high
    off = re.search(
        r"confidence was (\d+) points off, roadworthy (\d+); its band held (\d+)%", said
    )
    assert int(off[2]) < int(off[1]) and int(off[3]) >= 90
    assert abs(ours - true) < abs(confidence - true)
    assert said.index(f"truth {true}%") > said.index("3,000 events   confidence")


def test_the_second_stream_says_that_it_cannot_tell_and_why(said):
    second = said[said.index("Another stream") :]
    assert re.search(r"No estimate: .+\.", second)
    assert re.search(r"^      ALARM .*; no estimate of its cost$", second, re.MULTILINE)
    _, right = truth("strange")
    assert f"{round(100 * sum(right[-200:]) / 200)}% of the answers are right" in second


def test_the_last_lines_are_the_commands_for_ones_own_file_and_can_be_typed_here(said):
    lines = [line.partition(" ") for line in said.strip().splitlines()[-2:]]
    assert [rest for _, _, rest in lines] == [
        "calibrate yours.csv",
        "replay yours.bundle.json today.csv",
    ]
    (program,) = {name for name, _, _ in lines}
    beside = Path(sys.executable).with_name("roadworthy")
    assert shutil.which(program) and (
        program == "roadworthy" or Path(program).resolve() == beside.resolve()
    )


def test_nothing_that_is_shown_is_written_in_the_code(said):
    numbers = set(re.findall(r"\b\d+(?:\.\d+)?%|\) = 0\.\d+", said))
    code = DEMO.read_text() + (DEMO.parent / "drawing.py").read_text()
    assert numbers and not [n for n in numbers if n in code]


def test_make_demo_ends_with_it_and_the_readme_shows_it():
    target = re.search(
        r"^demo:.*?(?=^\S)", (PROJECT / "Makefile").read_text(), re.DOTALL | re.MULTILINE
    )[0]
    assert target.strip().splitlines()[-1].strip().endswith("python examples/runtime/demo.py")
    readme = (PROJECT / "README.md").read_text()
    picture = (PROJECT / "docs" / "pictures" / "runtime.svg").read_text()
    assert readme.index("docs/pictures/runtime.svg") < readme.index("## See it")
    assert "url(" not in picture.replace("url(#", "")
