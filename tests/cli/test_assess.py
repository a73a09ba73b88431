"""`roadworthy assess`: the exit code is the verdict, errors name what to correct, and what is done is kept."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from roadworthy.cli import exits

PATIENCE = 120
"""Seconds before a process counts as stuck: many, for a busy machine is no fault."""
PRESSES = 4
"""Of Ctrl-C within that time."""


def test_claims_that_hold_end_with_0_and_the_report_is_there(tiny, cli):
    answer = cli("assess", tiny.file)
    assert answer.code == 0
    assert "✓ met" in answer.out and "90.0%" in answer.out
    assert "600 cases: 600 computed, 0 from the cache" in answer.out
    report = next(
        line for line in answer.out.splitlines() if line.startswith("Report: ")
    ).removeprefix("Report: ")
    assert Path(report).is_file()
    again = cli("assess", tiny.file)
    assert "600 cases: 0 computed, 600 from the cache" in again.out


def test_no_claims_is_no_failure(tiny, cli):
    text = tiny.file.read_text().replace("claims:\n  - {id: A-1, accuracy: {min: 0.8}}\n", "")
    tiny.file.write_text(text)
    assert cli("assess", tiny.file).code == 0


def test_a_claim_that_is_breached_ends_with_1(tiny, cli):
    answer = cli("assess", tiny.spec(limit=0.97))
    assert answer.code == 1
    assert "✗ breached" in answer.out


def test_a_claim_that_cannot_be_decided_ends_with_3_and_says_how_many_cases_would(tiny, cli):
    answer = cli("assess", tiny.spec(limit=0.89))
    assert answer.code == 3
    assert "inconclusive" in answer.out
    claim = json.loads(cli("assess", tiny.file, "--json").out)["claims"][0]
    assert claim["cases_to_settle"] > claim["n"] == 200
    assert f"about {claim['cases_to_settle'] - 200:,} more cases" in answer.out


def test_a_typo_names_file_line_field_and_what_was_meant(tiny, cli):
    answer = cli("assess", tiny.spec(gaussian_noise="gausian_noise"))
    assert answer.code == 2
    assert f"{tiny.file}:7: circumstances.noise.transform: " in answer.err
    assert "did you mean 'gaussian_noise'?" in answer.err
    assert "Traceback" not in answer.err + answer.out
    answer = cli("assess", tiny.spec(circumstances="circumstance"))
    assert answer.code == 2
    assert f"{tiny.file}:6: circumstance" in answer.err and "'circumstances'" in answer.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subject.py:predict": "subject.py:predcit"}, "did you mean 'predict'?"),
        ({"test.npz": "tset.npz"}, "tset.npz"),
        ({"[site]\nsup": "[sit]\nsup"}, "did you mean 'site'?"),
        ({"{min: 0.8}": "{mn: 0.8}"}, "it takes min or max"),
    ],
)
def test_what_a_user_can_correct_ends_with_2_in_one_sentence(tiny, cli, change, said):
    answer = cli("assess", tiny.spec(**change))
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("error: ") == 1 and "Traceback" not in answer.err


def test_a_subject_that_answers_nothing_ends_with_2(tiny, cli):
    (tiny.folder / "subject.py").write_text(
        "def predict(image):\n    raise RuntimeError('no licence')\n"
    )
    answer = cli("assess", tiny.file)
    assert answer.code == 2
    assert "no licence" in answer.err


def test_a_full_disk_is_unfinished_and_a_fault_of_ours_is_no_verdict():
    full, ours = (
        OSError(errno.ENOSPC, "No space left on device", "cases"),
        ZeroDivisionError("division by zero"),
    )
    assert (exits.code_of(full), exits.message_of(full)) == (4, "cases: No space left on device")
    assert exits.code_of(ours) not in exits.VERDICTS.values()
    assert "ROADWORTHY_DEBUG=1" in exits.message_of(ours)


def test_usage_errors_end_with_2(cli):
    assert cli("asess").code == 2
    assert cli("assess", "a.yaml", "--worker", "2").code == 2
    missing = cli("assess", "nowhere.yaml")
    assert missing.code == 2 and "roadworthy init" in missing.err


def test_debug_shows_where_an_error_was_raised(cli, monkeypatch):
    assert "Traceback" in cli("--debug", "assess", "nowhere.yaml").err
    monkeypatch.setenv("ROADWORTHY_DEBUG", "1")
    assert "Traceback" in cli("assess", "nowhere.yaml").err


def test_json_is_json_and_nothing_else(tiny, cli):
    import jsonschema

    answer = cli("assess", tiny.file, "--json")
    content = json.loads(answer.out)
    assert answer.err == ""
    assert content["verdict"] == "met"
    assert content["claims"][0]["value"] == pytest.approx(0.9)
    jsonschema.validate(content, json.loads(cli("schema", "report").out))
    error = cli("assess", tiny.spec(limit=2), "--runs", tiny.file, "--json")
    assert set(json.loads(error.out)) == {"error", "kind", "exit_code"}
    error = cli("assess", "nowhere.yaml", "--json")
    assert json.loads(error.out)["exit_code"] == error.code == 2
    assert error.err == ""


def test_a_log_gets_plain_lines_with_stages_and_seconds(tiny, cli):
    answer = cli("assess", tiny.file)
    assert "\x1b" not in answer.err + answer.out
    stages = [line.split("] ")[1] for line in answer.err.splitlines()]
    assert "running the subject (600)" in stages


def test_cases_without_an_answer_are_noted(tiny, cli):
    source = (tiny.folder / "subject.py").read_text()
    refuses = "    if (images[:, 0, 0] % 7 == 0).any():\n        raise ValueError('odd corner')\n    left ="
    (tiny.folder / "subject.py").write_text(source.replace("    left =", refuses, 1))
    answer = cli("assess", tiny.file)
    assert "gave no answer and are counted as wrong" in answer.out and "odd corner" in answer.out


def wait_for_chunks(process: subprocess.Popen[str], runs: Path, n: int) -> None:
    until = time.monotonic() + PATIENCE
    while (found := len([p for p in runs.glob(".cache/??/*") if ".partial" not in p.name])) < n:
        if process.poll() is not None:
            pytest.fail(
                f"it ended with {process.returncode} after {found} of {n} chunks: {process.communicate(timeout=30)}"
            )
        if time.monotonic() > until:
            stuck(process, f"wrote {found} of {n} chunks")
        time.sleep(0.01)


def run_of(folder: Path) -> Path:
    (found,) = [p.parent for p in folder.glob("*/run.json")]
    return found


def interrupted(
    process: subprocess.Popen[str], by: Callable[[int, int], None] = os.kill
) -> tuple[str, str]:
    """What is said on Ctrl-C; pressed again where Python raised it in a place whose exceptions it ignores (a finaliser, say)."""
    for _ in range(PRESSES):
        by(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=PATIENCE / PRESSES)
    stuck(process, f"did not end by Ctrl-C, pressed {PRESSES} times")


def stuck(process: subprocess.Popen[str], what: str) -> NoReturn:
    """Fail with what a process said and where it is; whoever started it ends it."""
    process.send_signal(signal.SIGABRT)  # it says where it is, and ends
    try:
        said = process.communicate(timeout=30)
    except subprocess.TimeoutExpired as error:
        said = (str(error.stdout), str(error.stderr))
    pytest.fail(f"a process {what} within {PATIENCE} s; it said {said[0]!r}, and:\n{said[1]}")


def test_ctrl_c_ends_with_4_says_what_is_kept_and_the_next_run_goes_on(tiny, cli):
    process = tiny.start("assess", "assessment.yaml", HOLD_AFTER="3")
    wait_for_chunks(process, tiny.folder / "runs", 3)
    _, err = interrupted(process)
    assert process.returncode == 4, err
    assert "unfinished: stopped by the keyboard" in err
    assert "of 30 chunks are done and kept" in err and "Traceback" not in err
    again = cli("assess", tiny.file, "--runs", tiny.folder / "runs", "--json")
    assert again.code == 0, again.err
    cases = json.loads(again.out)["cases"]
    assert cases["from_cache"] >= 60 and cases["computed"] + cases["from_cache"] == 600


def test_ctrl_c_ends_workers_too(tiny):
    """As a terminal sends it: to all of the group."""
    process = tiny.start("assess", "assessment.yaml", "--workers", "2", HOLD_AFTER="2")
    wait_for_chunks(process, tiny.folder / "runs", 2)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.1)  # and again while the workers are given time to end
    _, err = interrupted(process, by=os.killpg)
    assert process.returncode == 4 and "unfinished: stopped by the keyboard" in err, err
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_process_that_does_not_end_by_ctrl_c_fails_with_where_it_is(tiny, monkeypatch):
    """This very test must not hang, nor leave anything behind."""
    monkeypatch.setitem(interrupted.__globals__, "PATIENCE", 2)
    source = (tiny.folder / "subject.py").read_text()
    deaf = "import pathlib, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\npathlib.Path('deaf').touch()\n"
    (tiny.folder / "subject.py").write_text(deaf + source)
    process = tiny.start("assess", "assessment.yaml", HOLD_AFTER="0")
    until = time.monotonic() + 120
    while not (tiny.folder / "deaf").exists() and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(
        pytest.fail.Exception, match=r"did not end by Ctrl-C, pressed 4 times(.|\n)*subject.py"
    ):
        interrupted(process)
    tiny.end()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_ctrl_c_with_json_is_json(tiny):
    process = tiny.start("assess", "assessment.yaml", "--json", HOLD_AFTER="1")
    wait_for_chunks(process, tiny.folder / "runs", 1)
    out, err = interrupted(process)
    assert json.loads(out)["exit_code"] == process.returncode == 4
    assert err == ""


def test_after_a_kill_the_findings_are_those_of_an_uninterrupted_run(tiny, cli):
    process = tiny.start("assess", "assessment.yaml", HOLD_AFTER="4")
    wait_for_chunks(process, tiny.folder / "runs", 4)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    for name in ("runs", "whole"):
        assert cli("assess", tiny.file, "--runs", tiny.folder / name).code == 0
    resumed, whole = (run_of(tiny.folder / name) for name in ("runs", "whole"))
    assert (resumed / "findings.json").read_bytes() == (whole / "findings.json").read_bytes()
    counts = [json.loads((folder / "run.json").read_text())["cases"] for folder in (resumed, whole)]
    assert counts[0]["computed"] <= 600 - 4 * 20
    assert counts[1]["computed"] == 600


def test_workers_do_not_change_a_finding(tiny, cli):
    for n in (1, 2):
        assert cli("assess", tiny.file, "--runs", tiny.folder / f"r{n}", "--workers", n).code == 0
    one, two = (run_of(tiny.folder / f"r{n}") / "findings.json" for n in (1, 2))
    assert one.read_bytes() == two.read_bytes()


def test_fresh_computes_everything_again(tiny, cli):
    assert "600 computed, 0 from the cache" in cli("assess", tiny.file).out
    assert "0 computed, 600 from the cache" in cli("assess", tiny.file).out
    again = cli("assess", tiny.file, "--fresh")
    assert again.code == 0 and "600 computed, 0 from the cache" in again.out


def test_without_claims_the_numbers_stand_above_the_last_line(tiny, cli):
    tiny.file.write_text(
        tiny.file.read_text().replace("claims:\n  - {id: A-1, accuracy: {min: 0.8}}\n", "")
    )
    out = " ".join(cli("assess", tiny.file).out.split())
    assert "numbers describe" in out and "numbers below" not in out
