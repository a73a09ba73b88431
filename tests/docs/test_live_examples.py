"""examples/live: the end of `make demo` and the short script run, and what they say is true."""

from __future__ import annotations

import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from roadworthy import assess
from roadworthy.data.loaders.bundled import bundled
from roadworthy.spec import Assessment

PROJECT = Path(__file__).parents[2]
LIVE, FASHION = PROJECT / "examples" / "live", PROJECT / "examples" / "fashion"
WINDOW, WRONG, BEGINS = 100, 4, 400


def loaded(name: str) -> dict[str, Any]:
    """What a script of the folder defines; its neighbours are not left behind for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LIVE))
        found = runpy.run_path(str(LIVE / name))
        for neighbour in ("drawing", "stream"):
            patch.delitem(sys.modules, neighbour, raising=False)
    return found


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory, quick_alarms: None) -> str:
    """What a log gets, of the demo's own assessment with fewer cases."""
    text = (FASHION / "assessment.yaml").read_text()
    for old, new in (("split: test}", "split: test, n: 600}"), ("[1, 2, 3]", "[1, 3]")):
        assert old in text
        text = text.replace(old, new)
    runs = tmp_path_factory.mktemp("runs")
    run = assess(Assessment.parse(text, FASHION / "assessment.yaml"), runs=runs)
    demo, heard = loaded("demo.py"), io.StringIO()
    demo["main"](demo["Stage"](Console(file=heard, width=80, highlight=False), "log"), run.folder)
    return heard.getvalue()


def right(stream: str) -> np.ndarray:
    """Which images of a stream the bare network answers rightly."""
    import torch

    network = runpy.run_path(str(FASHION / "model.py"))["load"]()
    data = bundled(path="fashion-mnist", split="calibration")
    images, labels = np.asarray(data.inputs[600:]), np.asarray(data.targets)[600:]
    changed = {"haze": (0.75 * images + 60).astype(np.uint8), "negative": 255 - images}[stream]
    every = np.concatenate([images, changed])[:, None].astype(np.float32) / 255
    with torch.inference_mode():
        answered = network(torch.from_numpy(every)).argmax(dim=1).numpy()
    return np.asarray(answered == np.tile(labels, 2))


def test_a_log_gets_plain_lines_and_no_control_characters(said):
    assert "\x1b" not in said
    lines = [line for line in said.splitlines() if " events   confidence " in line]
    assert len(lines) >= 20 and all("roadworthy" in line for line in lines)


def test_the_monitor_is_that_of_the_run(said):
    shown = re.search(r"The monitor of (\S+), calibrated on:\n(.*)\.", said)
    calibrated = set(shown[2].split(", "))
    named = Assessment.read(FASHION / "assessment.yaml").circumstances
    assert calibrated == {"clean", *(name.replace("_", " ") for name in named)}
    assert "haze" not in calibrated and f"{shown[1]}/report.html" in said
    assert f"A wrong answer costs {WRONG}.00 EUR; up to 1.00 EUR per case is tolerable." in said


def test_the_alarm_comes_after_the_shift_with_its_delay_and_cost(said):
    alarm = int(re.search(r"ALARM after ([\d,]+) events", said)[1].replace(",", ""))
    assert BEGINS < alarm <= BEGINS + 2 * WINDOW
    came = re.search(
        r"The alarm came (\d+) events later; their mistakes cost ([\d,]+) EUR. False alarms: (\d+)",
        said,
    )
    assert int(came[1]) == alarm - BEGINS
    wrong = int((~right("haze")[BEGINS:alarm]).sum())
    assert abs(int(came[2].replace(",", "")) - WRONG * wrong) <= WRONG, "but for a tie of float32"
    assert came[3] == "0"


def test_the_truth_is_told_at_the_end_and_the_monitor_is_nearer_to_it(said):
    shown = re.search(
        r"confidence says (\d+)%\s+━━ roadworthy (\d+)% \((\d+)% to (\d+)%\)\s+●● truth (\d+)%",
        said,
    )
    confidence, ours, low, high, true = map(int, shown.groups())
    assert true == pytest.approx(100 * right("haze")[-WINDOW:].mean(), abs=1.01)
    assert low <= true <= high and abs(ours - true) < abs(confidence - true)
    off = re.search(
        r"confidence was (\d+) points off, roadworthy (\d+); its band held (\d+)%", said
    )
    assert int(off[2]) < int(off[1]) and int(off[3]) >= 90
    assert said.index(f"truth {true}%") > said.index("800 events   confidence")


def test_the_second_stream_says_that_it_no_estimate_and_why(said):
    second = said[said.index("Another stream") :]
    assert re.search(r"No estimate: .+\.", second)
    assert re.search(r"^      ALARM .*; no estimate of its cost$", second, re.MULTILINE)
    true = int(re.search(r"The truth: (\d+)% of the answers are right", second)[1])
    assert true == pytest.approx(100 * right("negative")[-WINDOW:].mean(), abs=1.01)


def test_nothing_that_is_shown_is_written_in_the_code(said):
    numbers = set(re.findall(r"\b[1-9]\d*\.\d%|\) = 0\.\d+", said))
    code = "".join((LIVE / f"{name}.py").read_text() for name in ("demo", "drawing", "stream"))
    assert numbers and not [n for n in numbers if n in code]


def test_without_a_run_it_says_which_command_makes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"roadworthy assess examples/fashion/assessment\.yaml"):
        loaded("demo.py")["main"]()


def test_make_demo_ends_with_it_and_the_readme_shows_it():
    target = re.search(
        r"^demo:.*?(?=^\S)", (PROJECT / "Makefile").read_text(), re.DOTALL | re.MULTILINE
    )[0]
    assert target.strip().splitlines()[-1].strip().endswith("python examples/live/demo.py")
    readme = (PROJECT / "README.md").read_text()
    picture = (PROJECT / "docs" / "pictures" / "runtime.svg").read_text()
    assert readme.index("docs/pictures/runtime.svg") < readme.index("## See it")
    assert "url(" not in picture.replace("url(#", "")


@pytest.mark.slow
def test_the_assessment_of_the_demo_tells_the_story_of_the_readme(tmp_path):
    run = assess(FASHION / "assessment.yaml", runs=tmp_path)
    statuses = [claim.status for claim in run.claims]
    assert statuses.count("breached") == 2 and statuses.count("inconclusive") == 1
    readme = (PROJECT / "README.md").read_text()
    assert f"{run.record.cases.total:,} cases" in readme and len(statuses) == 8
    assert run.record.sections["monitor"].id


def test_live_sees_the_alarm_in_process_and_over_http(tmp_path, quick_alarms, capsys):
    loaded("live.py")["main"](tmp_path)
    out = capsys.readouterr().out
    told = re.findall(r"after (\d+) images: (\d+)% right \((\d+)% to (\d+)%\)", out)
    (_, clean, *_), here, there = [tuple(map(int, found)) for found in told]
    truth = right("haze")
    assert clean == pytest.approx(100 * truth[300:400].mean(), abs=8)
    assert here == there and here[0] == 800
    assert here[2] <= 100 * truth[-100:].mean() <= here[3] and here[1] < clean - 15
    raised = [int(event) for event in re.findall(r"alarm raised at event (\d+);", out)]
    assert len(raised) == 2 and raised[0] == raised[1] and BEGINS < raised[0] <= BEGINS + 200
