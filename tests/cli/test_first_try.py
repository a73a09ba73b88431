"""What someone meets who tries it for the first time: programs that end themselves, misspelt ids, runs that cannot be compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_looking import run_folder

from roadworthy.cli import app


@pytest.mark.parametrize("json_wanted", [False, True])
def test_a_subject_that_ends_the_program_at_import_is_an_error(tiny, cli, json_wanted):
    (tiny.folder / "subject.py").write_text("import sys\nsys.exit('no licence')\n")
    answer = cli("assess", tiny.file, *(["--json"] if json_wanted else []))
    assert answer.code == 2
    said = json.loads(answer.out)["error"] if json_wanted else answer.err
    assert "no licence" in said and "importing the subject" in said


def test_a_subject_that_exits_with_0_at_import_is_no_met_claim(tiny, cli):
    (tiny.folder / "subject.py").write_text("raise SystemExit(0)\n")
    assert cli("assess", tiny.file).code == 2


def test_a_case_that_ends_the_program_failed(tiny, cli):
    source = (tiny.folder / "subject.py").read_text()
    ends = "    if (images[:, 0, 0] % 7 == 0).any():\n        raise SystemExit(3)\n    left ="
    (tiny.folder / "subject.py").write_text(source.replace("    left =", ends, 1))
    answer = cli("assess", tiny.file, "--json")
    assert answer.code in (0, 1, 3)
    run = json.loads(answer.out)
    assert run["cases"]["failed"] > 0 and "SystemExit: 3" in run["warnings"][0]


def test_code_that_ends_the_program_anywhere_else_is_an_error_too(cli, monkeypatch):
    def program(only):
        def command(*arguments, **options):
            raise SystemExit(0)

        return command

    monkeypatch.setattr(app, "program", program)
    answer = cli("runs")
    assert answer.code == 2 and "sys.exit(0)" in answer.err


def test_a_reader_who_left_is_no_error(monkeypatch, cli):
    def program(only):
        def command(*arguments, **options):
            try:
                raise BrokenPipeError(32, "Broken pipe")
            except BrokenPipeError:
                raise SystemExit(1)  # noqa: B904 (as rich does it)

        return command

    monkeypatch.setattr(app, "program", program)
    assert cli("runs").code == 0


@pytest.fixture
def answers(tiny) -> Path:
    """Predictions for the clean cases, every tenth id misspelt."""
    arrays = np.load(tiny.folder / "test.npz")
    lines = []
    for i, image in enumerate(arrays["images"].astype(float)):
        name = f"img-{i}" if i % 10 == 0 else str(i)
        lines.append(
            json.dumps(
                {"id": name, "scores": [image[:, :4].mean() / 255, image[:, 4:].mean() / 255]}
            )
        )
    (tiny.folder / "answers.jsonl").write_text("\n".join(lines) + "\n")
    text = tiny.spec(**{"python: subject.py:predict": "predictions: answers.jsonl"}).read_text()
    start, stop = text.index("circumstances:"), text.index("slices:")
    tiny.file.write_text(text[:start] + text[stop:])
    return tiny.file


def test_ids_that_fit_no_case_are_named(answers, cli):
    out = " ".join(cli("assess", answers).out.split())
    assert (
        "warning: 20 ids in answers.jsonl fit no case, such as 'img-0'; cases have ids such as '0'"
        in out
    )
    assert "20 cases gave no answer" in out


def test_the_report_is_named_by_its_whole_path_from_the_root(tiny, cli, monkeypatch):
    monkeypatch.chdir("/")
    out = cli("assess", tiny.file).out
    report = next(line for line in out.splitlines() if line.startswith("Report: ")).removeprefix(
        "Report: "
    )
    assert os.path.isabs(report) and Path(report).is_file()


def test_runs_on_other_data_are_said_to_be_so_first(tiny, cli, tmp_path):
    first = run_folder(cli, tiny.file, tmp_path / "first")
    arrays = dict(np.load(tiny.folder / "test.npz"))
    arrays["labels"] = 1 - arrays["labels"]
    np.savez(tiny.folder / "test.npz", **arrays)
    second = run_folder(cli, tiny.file, tmp_path / "second")
    answer = cli("compare", first, second)
    assert answer.code == 0
    assert answer.out.startswith("note: the test data differ")
    assert json.loads(cli("compare", first, second, "--json").out)["notes"]


def test_runs_of_other_measures_are_not_compared(tiny, cli, tmp_path):
    first = run_folder(cli, tiny.file, tmp_path / "first")
    other = tiny.spec(
        **{"media: none": "media: none\nmeasure: error_rate", "accuracy: {min": "error_rate: {max"}
    )
    second = run_folder(cli, other, tmp_path / "second")
    answer = cli("compare", first, second)
    assert answer.code == 2
    assert "cannot be compared" in answer.err and "error_rate" in answer.err


def test_a_missing_extra_is_said_before_any_case(tmp_path, cli, monkeypatch):
    import sys

    from scipy.io import wavfile

    wavfile.write(tmp_path / "a.wav", 8000, np.ones(80, np.int16))
    (tmp_path / "clips.csv").write_text("audio,transcript\na.wav,hello\n")
    (tmp_path / "subject.py").write_text(
        "def transcribe(audio):\n    raise AssertionError('a case was run')\n"
    )
    file = tmp_path / "assessment.yaml"
    file.write_text(
        "subject: {task: speech, python: subject.py:transcribe}\ndata: {test: {audio: clips.csv}}\n"
    )
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    answer = cli("assess", file)
    assert answer.code == 2
    assert (
        "wer needs rapidfuzz" in answer.err
        and "[audio]" in answer.err
        and "constraints.txt" in answer.err
    )


def test_a_transform_that_cannot_be_made_is_refused_before_every_case_fails(tiny, cli, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cv2", None)
    answer = cli("assess", tiny.file)
    assert answer.code == 2
    assert (
        "circumstances.noise.transform: gaussian_noise needs cv2" in answer.err
        and "[vision]" in answer.err
    )


def test_outside_a_checkout_extras_are_installed_by_name(monkeypatch, tmp_path):
    from roadworthy import registry

    assert registry.install("audio") == 'pip install -c constraints.txt -e ".[audio]"'
    monkeypatch.setattr(registry, "_CHECKOUT", tmp_path)
    assert registry.install("audio") == 'pip install "roadworthy[audio]"'


def test_the_fields_of_the_preparation_are_listed(cli):
    out = cli("list", "adapters").out
    assert "input.mean: float" in out and "input.layout" in out
    listed = json.loads(cli("list", "adapters", "--json").out)
    torch = next(c for c in listed["adapters"] if c["name"] == "torch")
    assert {"mean", "std", "scale"} <= set(torch["parameters"]["input"]["fields"])


def test_a_run_in_which_nothing_can_fail_says_so_before_any_number(tiny, cli):
    answer = cli("assess", numbers(tiny))
    assert answer.out.startswith("warning: ")
    assert answer.out.count("no case counts as failed") == 1


def numbers(tiny) -> Path:
    """The subject gives the difference of its halves, which the data holds: a regression without a bound."""
    arrays = np.load(tiny.folder / "test.npz")
    np.savez(
        tiny.folder / "test.npz",
        images=arrays["images"],
        labels=arrays["labels"] + 0.5,
        site=arrays["site"],
    )
    (tiny.folder / "subject.py").write_text(
        "def predict(image):\n    return [image.mean() / 255]\n"
    )
    return tiny.spec(
        classification="regression",
        accuracy="rmse",
        min="max",
        **{"\n  classes: [left, right]": "", "[max_softmax]": "[]"},
    )


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "roadworthy", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("roadworthy ")
