"""`roadworthy simulate`: what it finds is what was put in; mistakes are named by file, line and field; the examples run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from roadworthy.analysis.risk.tolerable import nobody_said
from roadworthy.execution.simulating import simulate
from roadworthy.spec.simulation import Simulation

pytestmark = pytest.mark.usefixtures("quick_alarms")

RUNTIME = Path(__file__).parents[2] / "examples" / "runtime"
DETECTOR = """name: a good detector
stream:
  detector: {tpr: 0.95, tnr: 0.95, accuracy: {clean: 0.9, shifted: 0.4}}
  shift: {constant: 0.3}
  events: 10000
risk: {costs: {wrong: 10}, unit: EUR per case}
estimators: [event_tree, mean, rogan_gladen, bayes]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "simulation.yaml"
    path.write_text(DETECTOR)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Clean rows, fog and rain; a score that tells them apart, and rows of ten to a group."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "rain"], [800, 400, 400])
    energy = rng.normal(np.repeat([0.0, 2.5, 2.0], [800, 400, 400]))
    right = rng.random(1600) < np.repeat([0.95, 0.4, 0.6], [800, 400, 400])
    unsure = np.clip(rng.beta(1, 8, 1600) + 0.2 * ~right, 0, 1)
    path = tmp_path / "scores.csv"
    with path.open("w") as out:
        out.write("kind,correct,group,energy,max_softmax\n")
        for i, row in enumerate(zip(kind, right.astype(int), energy, unsure, strict=True)):
            out.write(f"{row[0]},{row[1]},g{i // 10},{row[2]:.4f},{row[3]:.4f}\n")
    return path


def test_errors_are_those_of_the_formulas(cli, file):
    content = json.loads(cli("simulate", file, "--json").out)
    (case,) = content["cases"]
    assert (case["tpr"], case["tnr"], content["unit"]) == (0.95, 0.95, "EUR per case")
    assert content["calibrated_on"] == {"clean": 1000, "shifted": 1000}
    errors = case["errors"]
    # the mean of verdicts expects 0.3 * 0.95 + 0.7 * 0.05 = 0.32
    assert errors["mean"]["rate"]["bias"] == pytest.approx(0.02, abs=0.01)
    assert abs(errors["rogan_gladen"]["rate"]["bias"]) < 0.012
    # right answers of 100 events scatter by sqrt(sum p (1 - p)) / 100; E|X| = sqrt(2 / pi) of that
    chance = np.sqrt((0.7 * 0.9 * 0.1 + 0.3 * 0.4 * 0.6) / 100) * np.sqrt(2 / np.pi)
    assert errors["rogan_gladen"]["accuracy"]["mean_absolute"] == pytest.approx(chance, rel=0.25)
    assert (
        errors["event_tree"]["accuracy"]["coverage"] > 0.93
        and errors["event_tree"]["rate"]["coverage"] > 0.93
    )
    assert {e["accuracy"]["windows"] for e in errors.values()} == {100}


def test_the_same_seed_finds_the_same_and_another_does_not(cli, file):
    first, again = cli("simulate", file, "--json").out, cli("simulate", file, "--json").out
    file.write_text(DETECTOR + "seed: 7\n")
    assert first == again != cli("simulate", file, "--json").out


def test_the_table_names_every_estimator(cli, file):
    answer = cli("simulate", file)
    assert answer.code == 0
    for words in (
        "a good detector",
        "event tree (roadworthy)",
        "Rogan-Gladen",
        "Bayes",
        "mean of verdicts",
        "100%",
    ):
        assert words in answer.out


def test_a_folder_gets_the_result_and_every_window(cli, file, tmp_path):
    answer = cli("simulate", file, "--json", "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == json.loads(answer.out)
    rows = list(csv.DictReader((tmp_path / "out" / "windows.csv").open()))
    assert len(rows) == 100 and rows[-1]["event"] == "10000"
    error = np.mean([abs(float(r["mean_rate"]) - float(r["true_rate"])) for r in rows])
    assert error == pytest.approx(
        json.loads(answer.out)["cases"][0]["errors"]["mean"]["rate"]["mean_absolute"]
    )


def test_a_table_is_divided_by_groups_and_an_unseen_kind_is_kept_from_calibration(
    cli, tmp_path, table
):
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, kinds: [fog], shift: {constant: 0.5}, events: 4000}\n"
        "calibration: {without: [fog]}\nestimators: [event_tree, cbpe, likelihood]\n"
    )
    content = json.loads(cli("simulate", file, "--json").out)
    rows = content["calibrated_on"]
    assert set(rows) == {"clean", "rain"} and content["streamed"] == ["fog"]
    assert 300 < rows["clean"] < 500 and not any(
        n % 10 for n in rows.values()
    )  # whole groups of ten
    # half of 160 groups of ten
    assert (
        content["notes"][0]
        == f"the table is divided: {sum(rows.values())} rows to calibrate on, 800 to draw from"
    )
    errors = content["cases"][0]["errors"]
    assert errors["event_tree"]["rate"]["mean_absolute"] < 0.15
    assert errors["cbpe"]["rate"]["mean_absolute"] is None
    assert (
        errors["cbpe"]["accuracy"]["mean_absolute"]
        > errors["event_tree"]["accuracy"]["mean_absolute"]
    )


def test_alarms_come_after_the_step_and_not_before(cli, tmp_path, table):
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, shift: [{constant: 0.0, events: 2000}, {constant: 0.8, events: 1000}]}\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.0}\nestimators: [event_tree]\nrepeats: 3\n"
        "alarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
    )
    said = cli("simulate", file, "--out", tmp_path / "out").out
    answer = json.loads((tmp_path / "out" / "result.json").read_text())
    alarms = answer["cases"][0]["alarms"]
    assert (alarms["due"], alarms["missed"], alarms["false"]) == (3, 0, 0)
    assert all(0 < delay <= 200 for delay in alarms["delays"])
    assert "raised in 3" in said


def test_a_bundle_is_judged_as_it_is(cli, tmp_path, table):
    assert (
        cli(
            "calibrate", table, "--cost", "wrong=10", "--unit", "EUR per case", "--tolerable", "2"
        ).code
        == 0
    )
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, shift: {constant: 0.5}, events: 2000}\n"
        "calibration: {bundle: scores.bundle.json}\nestimators: [event_tree]\n"
    )
    content = json.loads(cli("simulate", file, "--json").out)
    assert (content["unit"], content["tolerable"]) == ("EUR per case", 2.0)
    assert content["cases"][0]["alarms"]["due"] == 1
    assert "take others" in " ".join(content["notes"])


MISTAKES = [
    (
        "tnr: 0.95",
        "tnr: 1.95",
        "simulation.yaml:3: stream.detector.tnr: input should be less than or equal to 1",
    ),
    (
        "constant: 0.3",
        "constnat: 0.3",
        "simulation.yaml:4: stream.shift[0].constnat: this key is not known",
    ),
    (
        "constant: 0.3",
        "constant: 3",
        "simulation.yaml:4: stream.shift[0]: the rate is a probability",
    ),
    ("constant: 0.3", "step: [0, 1]", "step needs at"),
    (
        "constant: 0.3",
        "step: [0, 1], at: 10000",
        "simulation.yaml:4: stream.shift.at: the step is at event 10,000 of 10,000",
    ),
    (
        "{constant: 0.3}",
        "[{step: [0, 1], at: 50, events: 50}, {constant: 0}]",
        "stream.shift[0].at: the step is at event 50",
    ),
    (
        "unit: EUR per case",
        "unit: EUR per case, tolerable: 10",
        "risk.tolerable: a tolerable 10 is never exceeded",
    ),
    (
        "unit: EUR per case",
        "unit: EUR per case, tolerable: -1",
        "risk.tolerable: a tolerable -1 is always exceeded",
    ),
    (
        "events: 10000",
        "events: 50",
        "simulation.yaml:5: stream.events: a window of 100 does not fit",
    ),
    ("estimators: [event_tree", "estimators: [event_tre", "(did you mean 'event_tree'?)"),
    (
        "wrong: 10",
        "wron: 10",
        "simulation.yaml:6: risk: unknown outcome 'wron' (did you mean 'wrong'?)",
    ),
    ("mean, ", "cbpe, ", "simulation.yaml:7: estimators: cbpe needs the confidence"),
    ("name: a good detector", "title: x", "simulation.yaml:1: title: this key is not known"),
    (
        "name: a good detector",
        "calibration: {bundle: b.json}",
        "simulation.yaml:1: calibration.bundle: a synthetic",
    ),
    ("  events: 10000\n", "", "simulation.yaml:2: stream: needs events"),
    ("detector: {tpr: 0.95, tnr: 0.95,", "detector: {tpr: 0.95,", "give tpr and tnr, or grid"),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_named_with_line_and_field(cli, file, old, new, said):
    assert old in DETECTOR
    file.write_text(DETECTOR.replace(old, new, 1))
    answer = cli("simulate", file)
    assert answer.code == 2 and said in answer.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("kinds: [fgo]", "stream.kinds: no row is of kind 'fgo' (did you mean 'fog'?)"),
        ("replace: false", "draw with replacement"),
        ("by: enregy, order: 0.5", "there is no score 'enregy' (did you mean 'energy'?)"),
        ("truth: other.csv", "other.csv"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_what_there_is(cli, tmp_path, table, line, said):
    file = tmp_path / "s.yaml"
    file.write_text(
        f"stream: {{scores: scores.csv, shift: {{constant: 0.5}}, events: 4000, {line}}}\n"
    )
    answer = cli("simulate", file)
    assert answer.code == 2 and said in answer.err


def test_a_table_without_truth_is_refused(cli, tmp_path):
    (tmp_path / "bare.csv").write_text("energy\n1\n2\n")
    (tmp_path / "s.yaml").write_text(
        "stream: {scores: bare.csv, shift: {constant: 0.5}, events: 400}\n"
    )
    answer = cli("simulate", tmp_path / "s.yaml")
    assert (
        answer.code == 2
        and "has no column kind and correct" in answer.err
        and "truth" in answer.err
    )


def test_a_file_that_is_not_there_says_where_to_start(cli, tmp_path):
    answer = cli("simulate", tmp_path / "none.yaml")
    assert answer.code == 2 and "examples/runtime" in answer.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name: x\nstream:\n  scores: gone.csv\n",
            "s.yaml:3: stream.scores: there is no file gone.csv",
        ),
        (
            "stream:\n  scores: s.yaml\n  truth: no.csv\n",
            "s.yaml:3: stream.truth: there is no file no.csv",
        ),
        (
            "calibration: {scores: no.csv}\nstream:\n  scores: s.yaml\n",
            "s.yaml:1: calibration.scores: there is no",
        ),
        (
            "calibration:\n  bundle: b.json\nstream:\n  scores: s.yaml\n",
            "s.yaml:2: calibration.bundle: there is no",
        ),
    ],
)
def test_a_file_that_is_named_and_not_there_is_told_by_its_line(cli, tmp_path, text, said):
    (tmp_path / "s.yaml").write_text(f"{text}  shift: {{constant: 0.5}}\n  events: 400\n")
    answer = cli("simulate", tmp_path / "s.yaml")
    assert answer.code == 2 and said in answer.err


def test_files_of_another_kind_are_recognised(cli, tmp_path):
    path = tmp_path / "other.yaml"
    path.write_text((RUNTIME.parent / "fashion" / "assessment.yaml").read_text())
    answer = cli("simulate", path)
    assert (
        answer.code == 2
        and f"this is an assessment file; `roadworthy assess {path}` runs it" in answer.err
    )
    path.write_text(
        json.dumps({"format": "roadworthy bundle 1", "subject": "x", "calibration": {}})
    )
    assert "this is a bundle" in cli("simulate", path).err


def test_costs_without_a_unit_are_costs(cli, file):
    file.write_text(DETECTOR.replace(", unit: EUR per case", ""))
    assert "Expected cost per case" in " ".join(cli("simulate", file).out.split())
    assert json.loads(cli("simulate", file, "--json").out)["unit"] == "cost per case"


@pytest.mark.parametrize("name", sorted(path.stem for path in RUNTIME.glob("*.yaml")))
def test_every_example_runs_as_it_is_but_shorter(cli, tmp_path, name):
    text = (
        (RUNTIME / f"{name}.yaml").read_text().replace("../scores", str(RUNTIME.parent / "scores"))
    )
    content = {**yaml.safe_load(text), "repeats": 1}
    if name == "detectors":
        content["stream"]["shift"]["events"] = 500
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    answer = cli("simulate", tmp_path / f"{name}.yaml", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert len(found["cases"]) == (55 if name == "detectors" else 1)
    for case in found["cases"]:
        told = case["errors"]["event_tree"]["accuracy"]["mean_absolute"]
        assert told is None or told < 0.25, case["source"]
    assert (
        (found["tolerable"] is None)
        == (found["cases"][0]["alarms"] is None)
        == (found["alarm_window"] is None)
    )


def test_a_detector_that_rarely_speaks_is_still_heard(cli, file):
    file.write_text(
        DETECTOR.replace("tpr: 0.95, tnr: 0.95", "tpr: 0.1, tnr: 1.0").replace("0.3}", "0.6}")
    )
    answer = cli("simulate", file, "--json")
    assert answer.code == 0, answer.err
    errors = json.loads(answer.out)["cases"][0]["errors"]
    # six alarms in a hundred events are 60% shift: Rogan-Gladen says so, with the spread of a count of six
    assert abs(errors["rogan_gladen"]["rate"]["bias"]) < 0.1
    assert errors["event_tree"]["rate"]["mean_absolute"] < 0.3


def test_one_that_never_speaks_cannot_tell(cli, file):
    file.write_text(DETECTOR.replace("tpr: 0.95, tnr: 0.95", "tpr: 0.0, tnr: 1.0"))
    answer = cli("simulate", file, "--json")
    assert answer.code == 0, answer.err
    errors = json.loads(answer.out)["cases"][0]["errors"]
    for name in ("rogan_gladen", "bayes"):
        assert errors[name]["rate"]["mean_absolute"] is None and errors[name]["rate"]["told"] == 0
    assert cli("simulate", file).code == 0


def test_missed_stretches_that_never_filled_the_window_are_told_apart(cli, tmp_path, table):
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream:\n  scores: scores.csv\n"
        "  shift: [{bursts: [0.0, 0.9], every: 1000, length: 20, events: 4000}, {constant: 0.9, events: 1000}]\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.0}\nestimators: [event_tree]\nwindow: 200\n"
        "alarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
    )
    said = " ".join(cli("simulate", file, "--out", tmp_path / "out").out.split())
    content = json.loads((tmp_path / "out" / "result.json").read_text())
    alarms = content["cases"][0]["alarms"]
    assert (
        alarms["missed"] == alarms["missed_shorter_than_window"] > 0
        and content["alarm_window"] == 200
    )
    assert (
        f"Of the missed, {alarms['missed']} were shorter than the alarm's window of 200 events"
        in said
    )
    assert "0 lasted a window or longer" in said


def test_a_log_hears_of_the_stages_and_json_stays_alone(cli, file):
    said = cli("simulate", file)
    assert "calibrating" in said.err and "estimating streams (10,000 events)" in said.err
    assert cli("simulate", file, "--json").err == ""


def test_progress_ends_where_it_was_said_to():
    class Heard:
        def __init__(self) -> None:
            self.stages: list[tuple[str, int]] = []
            self.done = 0

        def stage(self, name: str, total: int) -> None:
            self.stages.append((name, total))

        def advance(self, n: int) -> None:
            self.done += n

        def note(self, text: str) -> None:
            raise AssertionError(text)

    grid = (
        DETECTOR.replace("tpr: 0.95, tnr: 0.95", "grid: 3").replace("10000", "301") + "repeats: 2\n"
    )
    heard = Heard()
    found = simulate(Simulation.parse(grid, "grid.yaml"), progress=heard)
    assert heard.stages == [("calibrating", 0), ("estimating streams", 2 * 301 * len(found.cases))]
    assert heard.done == 2 * 301 * len(found.cases)


def test_an_alarm_that_allows_for_groups_rings_less_and_what_the_streams_show_of_it_is_said(
    cli, tmp_path
):
    """Forty drives of forty rows, some harder than others; a step to a shift that looks hardly worse than the hardest."""
    rng = np.random.default_rng(0)
    kind, drive = np.repeat(["clean", "fog"], [1600, 800]), np.tile(np.arange(40), 60)
    energy = rng.normal(rng.normal(0.0, 0.6, 40)[drive] + 1.5 * (kind == "fog"))
    right = rng.random(2400) < np.where(kind == "fog", 0.4, 0.95)
    rows = [
        f"{k},{int(r)},d{d},{e:.4f}" for k, r, d, e in zip(kind, right, drive, energy, strict=True)
    ]
    (tmp_path / "drives.csv").write_text("kind,correct,group,energy\n" + "\n".join(rows) + "\n")
    simulation = tmp_path / "s.yaml"
    text = (
        "stream: {scores: drives.csv, shift: [{constant: 0.0, events: 2000}, {constant: 0.4, events: 1000}]}\n"
        "risk: {tolerable: 0.12}\nestimators: [event_tree]\nwindow: 200\nrepeats: 5\n"
        "alarm: {false_alarms: 1 per day, events_per_day: 10000%s}\n"
    )
    found = []
    for lasting in ("", ", group_events: 1000"):
        simulation.write_text(text % lasting)
        found.append(json.loads(cli("simulate", simulation, "--json").out))
    plain, allowing = (content["cases"][0]["alarms"] for content in found)
    assert plain["due"] == allowing["due"] == 5 and plain["missed"] < allowing["missed"]
    assert not cited(found[0], "in a row") and cited(
        found[1], "allows for 1,000 events of one in a row"
    )
    assert found[0]["cases"][0]["errors"] == found[1]["cases"][0]["errors"], (
        "what is said of windows stays the same"
    )


def test_groups_that_last_are_refused_where_there_are_none(cli, file, tmp_path, table):
    file.write_text(DETECTOR + "alarm: {group_events: 50}\n")
    assert (
        "simulation.yaml:8: alarm.group_events: the verdicts of a synthetic detector"
        in cli("simulate", file).err
    )
    bare = [line.split(",") for line in table.read_text().splitlines()]
    (tmp_path / "bare.csv").write_text(
        "\n".join(",".join(row[:2] + row[3:]) for row in bare) + "\n"
    )
    text = "stream: {scores: %s, shift: {constant: 0.0}, events: 500}\nestimators: [event_tree]\nalarm: {group_events: %d}\n"
    file.write_text(text % ("bare.csv", 50))
    answer = cli("simulate", file)
    assert (
        answer.code == 2
        and "simulation.yaml:3: alarm.group_events: bare.csv has no column group" in answer.err
    )
    file.write_text(text % ("scores.csv", 0))
    assert (
        "alarm.group_events: input should be greater than or equal to 1"
        in cli("simulate", file).err
    )
    file.write_text(text % ("scores.csv", 50))
    assert cited(json.loads(cli("simulate", file, "--json").out), "group_events changes nothing")


def test_alarms_without_a_limit_get_the_one_that_calibrate_would_choose_and_it_is_said(
    cli, tmp_path, table, file
):
    simulation = tmp_path / "s.yaml"
    shift = "[{constant: 0.0, events: 2000}, {constant: 0.8, events: 1000}]"
    text = f"stream: {{scores: scores.csv, shift: {shift}}}\nestimators: [event_tree]\n"
    simulation.write_text(text + "alarm: {events_per_day: 2000}\n")
    content = json.loads(cli("simulate", simulation, "--json").out)
    said = cli("simulate", simulation).out
    # One event in five, kinds even: 0.8 of 5% wrong, and 0.2 of 50%.
    assert content["tolerable"] == pytest.approx(0.8 * 0.05 + 0.2 * 0.5, abs=0.03)
    assert content["cases"][0]["alarms"]["due"] == 1
    limit = f"{nobody_said(content['tolerable'], 'wrong answers per case')}; set yours with risk: {{tolerable: …}}"
    assert limit in said and "Alarms: due in 1 stretch above" in said
    simulation.write_text(text)
    content = json.loads(cli("simulate", simulation, "--json").out)
    assert (
        content["tolerable"] is None
        and content["cases"][0]["alarms"] is None
        and not cited(content, "nobody said")
    )
    file.write_text(
        DETECTOR.replace("events: 10000", "events: 500") + "alarm: {events_per_day: 2000}\n"
    )
    assert cited(json.loads(cli("simulate", file, "--json").out), "nobody said")


def cited(content: dict, words: str) -> bool:
    return any(words in note for note in content["notes"])


def test_alarms_of_a_grid_of_detectors_need_a_limit(cli, file):
    file.write_text(
        DETECTOR.replace("tpr: 0.95, tnr: 0.95", "grid: 3") + "alarm: {events_per_day: 2000}\n"
    )
    said = cli("simulate", file)
    assert said.code == 2 and "alarm: needs to know what is tolerable" in said.err
