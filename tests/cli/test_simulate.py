"""`roadworthy simulate`: it finds what was put in, names mistakes by line and field, and runs the
examples."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.usefixtures("quick_alarms")

RUNTIME = Path(__file__).parents[2] / "examples" / "runtime"
SNAPSHOT = Path(__file__).parent / "snapshots" / "simulate.txt"
DETECTOR = """name: a good detector
stream:
  detector: {tpr: 0.95, tnr: 0.95, accuracy: {clean: 0.9, shifted: 0.4}}
  shift: {constant: 0.3}
  events: 10000
risk: {costs: {wrong: 10}, unit: EUR per case}
estimators: [event_tree, mean, rogan_gladen]
"""
TABLE = "stream: {scores: scores.csv, shift: {constant: 0.5}, events: 400}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "simulation.yaml"
    path.write_text(DETECTOR)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Clean rows, fog and rain in groups of ten; a score, and 1 minus the confidence."""
    rng, rows = np.random.default_rng(0), [800, 400, 400]
    kind = np.repeat(["clean", "fog", "rain"], rows)
    energy = rng.normal(np.repeat([0.0, 2.5, 2.0], rows))
    right = rng.random(1600) < np.repeat([0.95, 0.4, 0.6], rows)
    unsure = np.clip(rng.beta(1, 8, 1600) + 0.2 * ~right, 0, 1)
    lines = [
        f"{k},{int(r)},g{i // 10},{e:.4f},{u:.4f}"
        for i, (k, r, e, u) in enumerate(zip(kind, right, energy, unsure, strict=True))
    ]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["kind,correct,group,energy,max_softmax", *lines]) + "\n")
    return path


@pytest.fixture
def found(cli, tmp_path):
    """What a simulation file finds, as JSON."""

    def run(text: str) -> dict:
        path = tmp_path / "s.yaml"
        path.write_text(text)
        answer = cli("simulate", path, "--json")
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    return run


def test_errors_are_those_of_the_formulas(found):
    content = found(DETECTOR)
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
    assert errors["event_tree"]["accuracy"]["coverage"] > 0.93
    assert errors["event_tree"]["rate"]["coverage"] > 0.93
    assert {e["accuracy"]["windows"] for e in errors.values()} == {100}


def test_the_same_seed_finds_the_same_and_another_does_not(found):
    assert found(DETECTOR) == found(DETECTOR) != found(DETECTOR + "seed: 7\n")


def test_what_is_printed(cli, tmp_path, table):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: Step to fog\n"
        "stream:\n  scores: scores.csv\n  kinds: [fog]\n"
        "  shift: [{constant: 0.0, events: 2000}, {constant: 0.6, events: 1000}]\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.0}\n"
        "alarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
        "estimators: [event_tree, cbpe, rogan_gladen]\n"
    )
    answer = cli("simulate", path)
    assert answer.code == 0, answer.err
    assert "estimating streams (3,000)" in answer.err
    # Words and layout alone: figures are tested as fields, and the note on alarms outside comes and goes.
    said = re.sub(r"─+", "─", re.sub(r" +", " ", re.sub(r"\d+(?:[.,]\d+)*", "#", answer.out)))
    kept = [line.rstrip() for line in said.splitlines() if "outside [FPR" not in line]
    assert "\n".join(kept) + "\n" == SNAPSHOT.read_text()


def test_a_table_is_divided_by_groups_and_an_unseen_kind_is_kept_from_calibration(found, table):
    content = found(
        "stream: {scores: scores.csv, kinds: [fog], shift: {constant: 0.5}, events: 4000}\n"
        "calibration: {without: [fog]}\nestimators: [event_tree, cbpe, rogan_gladen]\n"
    )
    rows = content["calibrated_on"]
    assert set(rows) == {"clean", "rain"} and content["streamed"] == ["fog"]
    assert 300 < rows["clean"] < 500 and not any(n % 10 for n in rows.values())  # whole groups
    assert f"{sum(rows.values())} rows to calibrate on, 800 to draw from" in content["notes"][0]
    errors = content["cases"][0]["errors"]
    assert errors["event_tree"]["rate"]["mean_absolute"] < 0.15
    assert errors["cbpe"]["rate"]["mean_absolute"] is None
    by_confidence, by_tree = (
        errors[n]["accuracy"]["mean_absolute"] for n in ("cbpe", "event_tree")
    )
    assert by_confidence > by_tree


def test_alarms_come_after_the_step_and_not_before(found, table):
    content = found(
        "stream: {scores: scores.csv, shift: [{constant: 0.0, events: 2000}, "
        "{constant: 0.8, events: 1000}]}\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.0}\n"
        "estimators: [event_tree]\nrepeats: 3\n"
        "alarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
    )
    alarms = content["cases"][0]["alarms"]
    assert (alarms["due"], alarms["missed"], alarms["false"]) == (3, 0, 0)
    assert all(0 < delay <= 200 for delay in alarms["delays"])


def test_alarms_under_a_shift_that_is_tolerable_are_not_false(found, table):
    """Half of the events are shifted and cost just less than the limit."""
    content = found(
        "stream: {scores: scores.csv, shift: [{constant: 0.0, events: 2000}, "
        "{constant: 0.5, events: 4000}]}\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.9}\n"
        "estimators: [event_tree]\nalarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
    )
    alarms = content["cases"][0]["alarms"]
    assert (alarms["due"], alarms["false"], alarms["quiet_events"]) == (0, 0, 2000)
    assert alarms["under_tolerable_shift"] > 0 and alarms["tolerable_shift_events"] == 4000


MISTAKES = [
    ("tnr: 0.95", "tnr: 1.95", ":3: stream.detector.tnr: input should be less than or equal to 1"),
    ("tnr: 0.95", "tnt: 0.95", ":3: stream.detector.tnt: this key is not known (did you mean"),
    (
        "constant: 0.3",
        "constnat: 0.3",
        ":4: stream.shift[0].constnat: this key is not known (did you mean",
    ),
    ("constant: 0.3", "constant: 3", ":4: stream.shift[0].constant: input should be less than"),
    ("unit: EUR per case", "tolerable: 10", ":6: risk: tolerable must lie between"),
    ("events: 10000", "events: 50", "window: 100 is more than the 50 events"),
    ("estimators: [event_tree", "estimators: [event_tre", "(did you mean 'event_tree'?)"),
    ("wrong: 10", "wron: 10", ":6: risk: unknown outcome 'wron' (did you mean 'wrong'?)"),
    ("mean, ", "cbpe, ", ":7: estimators: cbpe needs the confidence"),
    ("name: a good detector", "title: x", ":1: title: this key is not known"),
    ("name: a good detector", "calibration: {scores: b.csv}", ":1: calibration.scores: does not"),
    ("name: a good detector", "alarm: {events_per_day: 9}", ":1: alarm: an alarm needs a limit"),
    ("name: a good detector", "batch: 32", ":1: batch: estimators that judge batches"),
    ("mean, ", "batches, ", ":7: estimators: estimators that judge batches (batches)"),
    ("  events: 10000\n", "", ":2: stream: needs events"),
    ("tpr: 0.95, tnr: 0.95,", "tpr: 0.95,", "give tpr and tnr, or grid"),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_named_with_line_and_field(cli, file, old, new, said):
    assert old in DETECTOR
    file.write_text(DETECTOR.replace(old, new, 1))
    answer = cli("simulate", file)
    assert answer.code == 2 and said in answer.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.replace("events", "kinds: [fgo], events"), "stream.kinds: no row is of kind 'fgo'"),
        (TABLE.replace("events", "by: eny, order: 0.5, events"), "there is no score 'eny'"),
        (TABLE.replace("scores.csv", "gone.csv"), "gone.csv"),
        (TABLE.replace("events", "truth: gone.csv, events"), "gone.csv"),
        (TABLE + "calibration: {scores: scores.csv}", "calibration.scores: this is the stream's"),
        (TABLE + "calibration: {without: [fo]}", "calibration.without: no row is of kind 'fo'"),
        (
            TABLE + "estimators: [cbpe]\nconfidence_from: enrgy",
            ":3: confidence_from: cbpe: the table has no score",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_what_there_is(cli, tmp_path, table, text, said):
    (tmp_path / "s.yaml").write_text(text)
    answer = cli("simulate", tmp_path / "s.yaml")
    assert answer.code == 2 and said in " ".join(answer.err.split())


def test_a_table_without_truth_is_refused(cli, tmp_path):
    (tmp_path / "scores.csv").write_text("energy\n1\n2\n")
    (tmp_path / "s.yaml").write_text(TABLE)
    answer = cli("simulate", tmp_path / "s.yaml")
    assert answer.code == 2 and "needs the columns kind and correct" in answer.err


def test_files_that_are_no_simulation_are_refused(cli, tmp_path):
    assert "examples/runtime" in cli("simulate", tmp_path / "none.yaml").err
    answer = cli("simulate", RUNTIME.parent / "fashion" / "assessment.yaml")
    assert answer.code == 2 and "no simulation file" in answer.err


def test_the_truth_may_stand_in_a_table_of_its_own(cli, found, table, tmp_path):
    """Rows are matched by id; rows without an outcome are left out, and are no wrong answers."""
    lines = [line.split(",") for line in table.read_text().splitlines()[1:]]
    unknown = np.random.default_rng(5).random(len(lines)) < 0.5
    scores = [f"e{i},{row[3]}" for i, row in enumerate(lines)]
    (tmp_path / "s.csv").write_text("\n".join(["id,energy", *scores]) + "\n")
    truth = [
        f"e{i},{r[0]},{'' if u else r[1]}"
        for i, (r, u) in enumerate(zip(lines, unknown, strict=True))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["id,kind,correct", *truth[::-1]]) + "\n")
    text = (
        "stream: {scores: s.csv, truth: t.csv, shift: {constant: 0.0}, events: 2000}\n"
        "estimators: [event_tree]\n"
    )
    content = found(text)
    accuracy = content["cases"][0]["errors"]["event_tree"]["accuracy"]
    assert abs(accuracy["bias"]) < 0.05
    assert sum(content["calibrated_on"].values()) < 500
    (tmp_path / "t.csv").write_text("\n".join(["id,kind,correct", *truth[1:]]) + "\n")
    answer = cli("simulate", tmp_path / "s.yaml")
    assert answer.code == 2 and "stream.truth" in answer.err and "'e0'" in answer.err


def test_windows_whose_alarms_no_rate_explains_are_counted(cli, file, found):
    file.write_text(
        "stream: {detector: {tpr: 0.8, tnr: 0.8}, shift: {constant: 0.0}, events: 4000}\n"
        "estimators: [rogan_gladen, mean]\n"
    )
    outside = found(file.read_text())["cases"][0]["outside"]
    # without shift the share of alarms is below the FPR about every other time
    assert list(outside) == ["rogan_gladen"] and 0.2 < outside["rogan_gladen"] < 0.8
    shown = f"outside [FPR, TPR]: {outside['rogan_gladen']:.1%} (Rogan-Gladen)"
    assert shown in " ".join(cli("simulate", file).out.split())


@pytest.mark.parametrize("rates", ["tpr: 0.3, tnr: 0.6", "tpr: 0.0, tnr: 1.0"])
def test_a_detector_that_says_nothing_gives_no_estimate_and_the_reason(cli, file, found, rates):
    file.write_text(DETECTOR.replace("tpr: 0.95, tnr: 0.95", rates))
    (case,) = found(file.read_text())["cases"]
    for name in ("rogan_gladen", "mean"):
        assert case["errors"][name]["rate"]["mean_absolute"] is None
        assert case["errors"][name]["rate"]["estimated"] == 0 and case["no_estimate"][name]
    assert "No estimate by" in cli("simulate", file).out


def test_a_detector_that_rarely_alarms_is_still_heard(found):
    text = DETECTOR.replace("tpr: 0.95, tnr: 0.95", "tpr: 0.1, tnr: 1.0").replace("0.3}", "0.6}")
    errors = found(text)["cases"][0]["errors"]
    # six alarms in a hundred events are 60% shift, with the spread of a count of six
    assert abs(errors["rogan_gladen"]["rate"]["bias"]) < 0.1
    assert errors["event_tree"]["rate"]["mean_absolute"] < 0.3


@pytest.mark.parametrize(
    "together, right, wrong", [(16, "batches", "mixed_batches"), (1, "mixed_batches", "batches")]
)
def test_uniform_and_mixed_batches_are_read_by_their_own_estimator(found, together, right, wrong):
    (case,) = found(
        "stream:\n  detector: {tpr: 0.8, tnr: 0.8}\n  shift: {constant: 0.25}\n  events: 16000\n"
        f"  batches: {together}\nestimators: [batches, mixed_batches]\nbatch: 16\nwindow: 800\n"
    )["cases"]
    errors = {name: by["rate"] for name, by in case["errors"].items()}
    assert errors[right]["coverage"] >= 0.9 and errors[right]["mean_absolute"] < 0.06
    assert errors[wrong]["mean_absolute"] > 1.5 * errors[right]["mean_absolute"]


EXAMPLES = [
    pytest.param(
        path.stem, marks=[pytest.mark.slow] if path.stem in ("autocorrelated", "bursts") else []
    )
    for path in sorted(RUNTIME.glob("*.yaml"))
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs_as_it_is_but_shorter(cli, tmp_path, name):
    scores = str(RUNTIME.parent / "scores")
    text = (RUNTIME / f"{name}.yaml").read_text().replace("../scores", scores)
    content = {**yaml.safe_load(text), "repeats": 1}
    if name == "detectors":
        content["stream"]["detector"]["grid"] = 4
        content["stream"]["shift"]["events"] = 500
    if name == "bursts":
        content["stream"]["shift"][0]["events"] = 1000
    if name == "step":
        content["stream"]["shift"][0]["events"] = 1000
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    answer = cli("simulate", tmp_path / f"{name}.yaml", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert len(found["cases"]) == (10 if name == "detectors" else 1)
    for case in found["cases"]:
        error = case["errors"]["event_tree"]["accuracy"]["mean_absolute"]
        assert error is None or error < 0.25, case["source"]
    assert (found["tolerable"] is None) == (found["cases"][0]["alarms"] is None)
