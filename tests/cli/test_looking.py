"""Commands that look at what is there: compare, report, runs, list, schema, data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roadworthy import registry
from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND


def run_folder(cli, file: Path, runs: Path) -> Path:
    cli("assess", file, "--runs", runs)
    (found,) = [p.parent for p in runs.glob("*/run.json")]
    return found


@pytest.fixture
def two_runs(tiny, cli, tmp_path) -> tuple[Path, Path]:
    """The same subject, and one that is wrong wherever the corner is even: about half of the cases."""
    first = run_folder(cli, tiny.file, tmp_path / "first")
    source = (tiny.folder / "subject.py").read_text()
    worse = source.replace(
        "left =",
        "images = np.where(images[:, :1, :1] % 2 == 0, images[:, :, ::-1], images)\n    left =",
        1,
    )
    (tiny.folder / "subject.py").write_text(worse)
    second = run_folder(
        cli, tiny.spec(**{"seed": "seed", "name: tiny": "name: tiny\nseed: 5"}), tmp_path / "second"
    )
    return first, second


def test_compare_shows_what_differs_largest_clear_change_first(two_runs, cli):
    answer = cli("compare", *two_runs)
    assert answer.code == 0
    assert "A-1" in answer.out and "met" in answer.out and "breached" in answer.out
    assert "seed" in answer.out and "smallest_slice" not in answer.out
    content = json.loads(cli("compare", *two_runs, "--json").out)
    assert [(d["field"], d["first"], d["second"]) for d in content["spec"]] == [("seed", 0, 5)]
    (claim,) = content["claims"]
    assert (claim["id"], claim["first"], claim["second"]) == ("A-1", "met", "breached")
    sizes = [abs(c["difference"]) for c in content["changes"]]
    assert sizes == sorted(sizes, reverse=True) and sizes
    clean = next(
        c for c in content["changes"] if (c["quantity"], c["about"]) == ("accuracy", "clean")
    )
    assert clean["direction"] == "worse" and clean["interval"]["high"] < 0


def test_one_version_of_two_contents_is_said_first(tmp_path, cli):
    (tmp_path / "cases.csv").write_text(
        "\n".join(["a,b,label", *(f"{i % 3},0,{i % 3}" for i in range(60))])
    )
    folders = []
    for shift in (0, 1):
        (tmp_path / "subject.py").write_text(
            f"import numpy as np\ndef predict(x):\n    return np.eye(3)[(int(x[0]) + {shift}) % 3]\n"
        )
        file = tmp_path / "assessment.yaml"
        file.write_text(
            'subject: {task: classification, python: subject.py:predict, version: "1.0", classes: [0, 1, 2]}\n'
            "data: {test: {csv: cases.csv, features: [a, b]}}\n"
        )
        folders.append(run_folder(cli, file, tmp_path / str(shift)))
    answer = cli("compare", *folders)
    assert answer.out.startswith(
        "warning: Both runs are of version 1.0, and the subject differs: subject.py."
    )
    content = json.loads(cli("compare", *folders, "--json").out)
    assert content["subject"] == ["subject.py"] and content["main"]["second"] == 0.0


def test_an_alarm_that_no_longer_exists_is_no_improvement(tmp_path, cli):
    for name, offset in (("test", 0), ("calibration", 500)):
        rows = (
            f"{i + offset},{i % 3},{i * 7 % 10 + (i + offset) / 1e4},{i % 3}" for i in range(120)
        )
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,a,b,label", *rows]))
    (tmp_path / "subject.py").write_text(
        "import numpy as np\ndef predict(x):\n"
        "    return np.eye(3)[(int(x[0]) + (x[1] > 9)) % 3] * (10 - x[1]) / 10 + x[1] / 30\n"
    )
    folders = []
    for more in ("calibration: {csv: calibration.csv, features: [a, b]}", ""):
        file = tmp_path / "assessment.yaml"
        file.write_text(
            "subject: {task: classification, python: subject.py:predict, classes: [0, 1, 2]}\n"
            f"data: {{test: {{csv: test.csv, features: [a, b]}}, {more}}}\n"
            "supervisors: [max_softmax]\n"
        )
        folders.append(run_folder(cli, file, tmp_path / f"runs{len(folders)}"))
    content = json.loads(cli("compare", *folders, "--json").out)
    assert content["vanished_alarms"] == ["max_softmax"]
    assert json.loads(cli("compare", *folders[::-1], "--json").out)["vanished_alarms"] == []
    assert "warning: max_softmax" in cli("compare", *folders).out


def test_a_changed_limit_is_one_difference(tiny, cli, tmp_path):
    first = run_folder(cli, tiny.file, tmp_path / "first")
    second = run_folder(cli, tiny.spec(limit=0.97), tmp_path / "second")
    content = json.loads(cli("compare", first, second, "--json").out)
    assert content["spec"] == [{"field": "claims.A-1.min", "first": 0.8, "second": 0.97}]
    assert [(c["first"], c["second"]) for c in content["claims"]] == [("met", "breached")]


def test_a_run_compared_with_itself_shows_no_change(two_runs, cli):
    content = json.loads(cli("compare", two_runs[0], two_runs[0], "--json").out)
    assert content["spec"] == content["claims"] == content["changes"] == []
    assert content["no_clear_change"] > 0
    answer = cli("compare", two_runs[0], two_runs[0])
    assert answer.code == 0 and "no clear change" in answer.out


def test_compare_refuses_what_is_no_run(tmp_path, cli):
    answer = cli("compare", tmp_path, tmp_path)
    assert answer.code == 2 and "is not a run" in answer.err


def test_a_report_is_rendered_again_from_the_folder_alone(tiny, cli, tmp_path):
    folder = run_folder(cli, tiny.file, tmp_path / "runs")
    before = (folder / "report.json").read_text()
    (folder / "report.json").unlink()
    assert cli("report", folder, "--format", "json").code == 0
    after = json.loads((folder / "report.json").read_text())
    # The time that writing the reports took is known only after they were written.
    old = json.loads(before)
    assert old.pop("timings").keys() <= after.pop("timings").keys()
    assert after == old
    assert cli("report", folder, "--format", "junit").out.strip() == str(folder / "junit.xml")
    moved = folder.rename(tmp_path / "moved")
    assert cli("report", moved, "--out", tmp_path / "again.html").code == 0
    assert (tmp_path / "again.html").read_text().startswith("<!")
    assert json.loads(cli("report", moved, "--format", "json", "--out", "-").out)["name"] == "tiny"
    wrong = cli("report", moved, "--format", "jsn")
    assert wrong.code == 2 and "did you mean 'json'?" in wrong.err
    assert cli("report", tmp_path / "nowhere").code == 2


def test_without_a_browser_there_is_no_pdf_but_the_page_is_written(
    tiny, cli, tmp_path, monkeypatch
):
    from roadworthy.report import html

    folder = run_folder(cli, tiny.file, tmp_path / "runs")
    (folder / "report.html").unlink()
    monkeypatch.setattr(html, "BROWSERS", ())
    answer = cli("report", folder, "--format", "pdf")
    assert answer.code == 2 and "install chromium" in answer.err
    assert (folder / "report.html").read_text().startswith("<!")
    assert not (folder / "report.pdf").exists()


def test_runs_are_listed_from_their_folders(two_runs, cli):
    root = two_runs[0].parent
    (row,) = json.loads(cli("runs", root, "--json").out)
    assert Path(row["folder"]) == two_runs[0]
    assert (row["verdict"], row["cases"]) == ("met", 600)
    assert two_runs[0].name in cli("runs", root).out
    assert cli("runs", root / "nowhere").code == 2
    assert not (root / "nowhere").exists()


def test_list_holds_every_registered_name_with_parameters_and_levels(cli):
    content = json.loads(cli("list", "--json").out)
    assert set(content) == set(registry.ROOMS)
    for room, components in content.items():
        assert [c["name"] for c in components] == list(registry.components(room))
    noise = next(c for c in content["transforms"] if c["name"] == "gaussian_noise")
    assert noise["parameters"]["scale"]["required"] and noise["origin"] == "roadworthy"
    assert len(noise["traits"]["tables"]["hendrycks"]) == 5
    assert "level 5 of hendrycks" in cli("list", "transforms").out
    wrong = cli("list", "transform")
    assert wrong.code == 2 and "did you mean 'transforms'?" in wrong.err


def test_every_estimator_that_a_simulation_may_name_is_listed(cli):
    for text in (
        cli("list", "estimators").out,
        cli("list").out.split("estimators\n")[1].partition("\n\n\n")[0],
    ):
        assert {*OF_ANOTHER_KIND, *registry.components("estimators")} <= {
            line.split()[0] for line in text.splitlines() if line.strip()
        }


def test_supervisors_are_listed_with_what_they_read(cli):
    text = cli("list", "supervisors").out
    assert "reads outputs; needs no reference data" in text
    assert "reads outputs and activations; fitted on reference data" in text
    content = {
        c["name"]: c for c in json.loads(cli("list", "supervisors", "--json").out)["supervisors"]
    }
    assert content["max_softmax"]["reads"] == ["outputs"] and not content["max_softmax"]["fitted"]
    assert "activations" in content["knn"]["reads"] and content["knn"]["fitted"]
    distances = cli("list", "distances").out
    assert f"needs sacrebleu ({registry.install('text')})" in distances


def test_the_schema_takes_what_the_program_takes(tiny, cli):
    import jsonschema
    import yaml

    schema = json.loads(cli("schema").out)
    content = yaml.safe_load(tiny.file.read_text())
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "circumstance": {}}, schema)


def test_data_get_refuses_what_is_not_the_published_file(tmp_path, cli):
    answer = cli("data", "get", "mnist", "--into", tmp_path / "into", "--from", tmp_path)
    assert answer.code == 2 and "is missing" in answer.err
    wrong = cli("data", "get", "minst")
    assert wrong.code == 2 and "did you mean 'mnist'?" in wrong.err


def test_help_imports_neither_numpy_nor_the_rooms():
    code = (
        "import sys; from roadworthy.cli.app import run; run(['--help']);"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'torch', 'cv2', 'roadworthy.spec') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert "assess" in done.stdout and "Exit codes" in done.stdout


def test_importing_the_package_imports_nothing_else_and_every_public_name_is_there():
    code = (
        "import sys; before = set(sys.modules); import roadworthy;"
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith(('_', 'encodings'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = {
        "roadworthy",
        "importlib",
        "typing",
        "collections",
        "functools",
        "types",
        "operator",
        "keyword",
        "reprlib",
    }
    loaded = {m.split(".")[0] for m in json.loads(done.stdout.replace("'", '"'))}
    assert not loaded & {"numpy", "scipy", "pydantic", "typer", "rich", "yaml"}, loaded - light
    import roadworthy

    assert all(getattr(roadworthy, name) is not None for name in roadworthy.__all__)
    assert set(roadworthy.__all__) <= set(dir(roadworthy))
    with pytest.raises(AttributeError, match="asess"):
        roadworthy.asess  # noqa: B018


def test_a_reader_who_has_seen_enough_does_not_change_the_verdict(tiny):
    process = tiny.start("assess", str(tiny.spec(limit=0.97)))
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "BrokenPipe" not in err
