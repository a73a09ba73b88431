"""The first page: its Python runs, and its commands are those of the program."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()


@pytest.mark.usefixtures("quick_alarms")
def test_the_python_of_the_first_page_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    with contextlib.chdir(PROJECT):
        exec(compile(block, "README.md", "exec"), {})
    alarmed, accuracy = capsys.readouterr().out.split()
    assert alarmed == "True" and 0.4 < float(accuracy) < 0.8


def test_its_commands_exist():
    named = set(re.findall(r"roadworthy (\w+) ", README)) - {"looks"}
    commands = {p.stem for p in (PROJECT / "src/roadworthy/cli/commands").glob("*.py")}
    assert named <= commands and {"calibrate", "replay", "assess"} <= named
    assert "make demo" in README and "make test" in README
