"""Supervisors inside `assess`: calibration chooses, test judges; inputs by reference; what is kept; and data that break them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.calibration import Threshold
from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.assessment.supervisors import stacked
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.registry import get, register, remove
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import RunFolder
from roadworthy.subject.needs import Input, Output
from roadworthy.subject.trace import ModuleTrace

pytestmark = pytest.mark.usefixtures("no_monitor")

MODEL = """
import torch
from torch import nn


class Blow(nn.Module):
    def forward(self, x):
        return torch.exp(LIMIT * x)


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), Blow(), nn.Hardtanh(0, 50), nn.Linear(6, 3))
    thirds = torch.eye(3).repeat_interleave(torch.tensor([22, 21, 21]), dim=1) / 21
    with torch.no_grad():
        model[1].weight.copy_(torch.cat([3 * thirds, -3 * thirds]))
        model[1].bias.zero_()
        model[4].weight.copy_(torch.cat([torch.eye(3), -torch.eye(3)], dim=1))
        model[4].bias.zero_()
    return model
"""
FILE = """name: thirds
subject: {task: classification, torch: model.py:build}
data:
  test: {npz: test.npz, columns: [site]}
  calibration: {npz: calibration.npz, columns: [site]}
  reference: {npz: reference.npz}
  classes: [upper, middle, lower]
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 3]}
  site_b: {where: {site: B}}
supervisors:
  - max_softmax
  - {knn: {k: 3}}
  - fused
claims:
  - {id: A, miss_rate: {max: 1}, supervisor: knn, circumstance: noise, level: 3}
execution: {chunk: 40}
"""


def thirds(n: int, seed: int, classes: int = 3) -> dict[str, np.ndarray]:
    """Images with one bright third, some of them hardly brighter than the rest."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    rows = np.repeat([0, 1, 2], [22, 21, 21])
    bright = np.where(rows[None, :] == labels[:, None], rng.uniform(0, 110, n)[:, None], 0)
    images = (
        np.clip(60 + bright + rng.normal(0, 60, (n, 64)), 0, 255).astype(np.uint8).reshape(n, 8, 8)
    )
    return {"images": images, "labels": labels, "site": np.where(rng.random(n) < 0.5, "A", "B")}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    for seed, (role, n) in enumerate({"test": 120, "calibration": 100, "reference": 90}.items()):
        np.savez(tmp_path / f"{role}.npz", **thirds(n, seed))
    (tmp_path / "model.py").write_text(MODEL.replace("LIMIT", "1"))
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def edited(user: Path, *changes: tuple[str, str]) -> Path:
    text = (user / "assessment.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (user / "assessment.yaml").write_text(text)
    return user / "assessment.yaml"


def record_of(run, label: str) -> dict:
    return next(
        s
        for s in run.record.plain()["sections"]["supervision"]["supervisors"]
        if s["name"] == label
    )


def finding(
    run, quantity: str, supervisor: str, circumstance: str = "", level: float | None = None
):
    about = (circumstance, level, supervisor)
    found = [f for f in run.record.findings if f.quantity == quantity]
    return next(
        f for f in found if (f.about.circumstance, f.about.level, f.about.supervisor) == about
    )


def test_thresholds_come_from_calibration_cases_and_rates_from_test_cases(user):
    run = assess(user / "assessment.yaml")
    folder = RunFolder.open(run.folder)
    cases = folder.cases()
    import pyarrow.parquet as pq

    kept = pq.read_table(run.folder / "tables" / "calibration.parquet").to_pydict()
    clean = np.array([not c for c in kept["circumstance"]])
    right = ~np.array(kept["failure"])
    scores = np.array(kept["knn"])
    nominal = np.sort(scores[clean & right])
    n = len(nominal)
    threshold = Threshold.from_dict(record_of(run, "knn")["threshold"])
    assert threshold.value == nominal[int(np.ceil((n + 1) * 0.95)) - 1] and threshold.chosen_on == n
    assert set(kept["role"]) == {"calibration"} and set(cases["role"]) == {"test"}
    assert kept["case"][0] == "calibration:0" and "calibration:0~noise@3" in kept["case"]
    here = (cases["circumstance"] == "noise") & (cases["level"] == 3) & cases["failure"]
    missed = cases["knn"][here] <= threshold.value
    found = finding(run, "miss_rate", "knn", "noise", 3)
    assert (found.value, found.n) == (missed.mean(), here.sum())
    quiet = (cases["circumstance"] == "") & ~cases["failure"]
    alarms = cases["knn"][quiet] > threshold.value
    assert finding(run, "false_alarm_rate", "knn").value == alarms.mean()
    counts = record_of(run, "knn")["verdicts"]
    assert counts["kinds"] == ["clean", "noise@1", "noise@3", "site_b"]
    assert counts["table"][0][0][1] == alarms.sum()
    assert run.verdict == "met"


def test_the_recommended_set_is_chosen_on_calibration_and_judged_on_test(user):
    np.savez(user / "calibration.npz", **thirds(400, 1))
    run = assess(user / "assessment.yaml")
    found = run.record.plain()["sections"]["supervision"]["recommended"]
    assert found["chosen_on"] == "calibration" and set(found["covers"]) == {
        "clean",
        "noise",
        "site_b",
    }
    assert set(found["miss_rate"]) == {"clean", "noise@1", "noise@3", "site_b"}
    cases = RunFolder.open(run.folder).cases()
    raised = np.zeros(len(cases["case"]), bool)
    for label in found["supervisors"]:
        raised |= ~(cases[label] <= float(record_of(run, label)["threshold"]["value"]))
    failed = (cases["circumstance"] == "noise") & (cases["level"] == 1) & cases["failure"]
    assert found["miss_rate"]["noise@1"]["value"] == pytest.approx((~raised[failed]).mean())
    assert found["miss_rate"]["noise@1"]["n"] == failed.sum()
    quiet = (cases["circumstance"] == "") & ~cases["failure"]
    assert found["false_alarms"]["clean"]["value"] == pytest.approx(raised[quiet].mean())


def test_findings_are_the_same_bytes_for_any_number_of_workers_and_again(user):
    found = []
    for place, workers in (("one", 1), ("two", 2), ("two", 1)):
        run = assess(user / "assessment.yaml", runs=user / place, workers=workers)
        found.append(
            [(run.folder / "findings.json").read_bytes(), record_of(run, "knn")["batches"]]
        )
    assert found[0] == found[1] == found[2]
    fresh = assess(user / "assessment.yaml", runs=user / "two", fresh=True)
    assert record_of(fresh, "knn")["fit_seconds"] != record_of(run, "knn")["fit_seconds"]


def test_without_calibration_data_there_are_scores_and_the_way_to_verdicts(user):
    file = edited(
        user,
        ("  calibration: {npz: calibration.npz, columns: [site]}\n", ""),
        ("miss_rate: {max: 1}", "aupr_failure: {min: 0}"),
    )
    run = assess(file)
    assert record_of(run, "knn")["threshold"] is None
    assert any("No alarm thresholds" in n and "data.calibration" in n for n in run.record.notes)
    assert "learns from calibration cases" in record_of(run, "fused")["because"]
    assert (
        run.record.plain()["sections"]["supervision"]["recommended"]["chosen_on"]
        == "test (optimistic)"
    )
    edited(user, ("aupr_failure: {min: 0}", "miss_rate: {max: 1}"))
    with pytest.raises(SpecError, match=r"claims\[0\]: miss_rate needs thresholds"):
        assess(file)


def test_fused_is_fitted_on_one_half_and_its_threshold_chosen_on_the_other(user):
    more = ("  - fused\n", "  - fused\n  - {fused: {how: logistic}}\n")
    run = assess(edited(user, more, ("transform: gaussian_noise", "transform: contrast")))
    assert (
        record_of(run, "knn")["threshold"]["chosen_on"]
        > 1.6 * record_of(run, "fused")["threshold"]["chosen_on"]
    )
    assert any(
        "fused was fitted on 50 of the 100 calibration samples" in n for n in run.record.notes
    )
    assert record_of(run, "fused")["members"] == ["max_softmax", "knn"]
    logistic = finding(run, "auc_shift", "fused(how=logistic)", "noise", 3).value
    single = [finding(run, "auc_shift", s, "noise", 3).value for s in ("max_softmax", "knn")]
    assert logistic > max(single) - 0.05 and max(single) > 0.7


def test_what_each_takes_stands_in_the_record_and_not_in_the_findings(user):
    run = assess(user / "assessment.yaml")
    knn, soft = record_of(run, "knn"), record_of(run, "max_softmax")
    assert knn["fit_seconds"] > 0 and knn["score_seconds"] > 0 and knn["kept_bytes"] > 90 * 6 * 4
    assert soft["fit_seconds"] == 0 and soft["kept_bytes"] == 0 and soft["notes"] == []
    assert "seconds" not in (run.folder / "findings.json").read_text()


def loaded(folder, subject):
    """The supervisor that was saved in a folder, for a subject."""
    about = json.loads((folder / "supervisor.json").read_text())
    found = get("supervisors", about["supervisor"]).bind(**about["parameters"])
    found.meta["subject"] = subject
    found.load(folder)
    return found


def test_a_saved_supervisor_serves_its_own_subject_alone(user):
    run = assess(user / "assessment.yaml")
    print_of = run.record.subject.modules[0].fingerprint
    kept = run.folder / "supervisors" / "knn"
    again = loaded(kept, print_of)
    plan = plan_assessment(Assessment.read(user / "assessment.yaml"))
    from roadworthy.store import ChunkCache

    trace = ChunkCache(user / "runs" / ".cache").read(plan.chunks[0].key)
    cases = RunFolder.open(run.folder).cases()
    assert again.score(trace["model"]).tolist() == cases["knn"][:40].tolist()
    with pytest.raises(ValueError, match="Fit it on this subject"):
        loaded(kept, "another")
    (kept / "supervisor.npz").write_bytes((kept / "supervisor.npz").read_bytes()[:100])
    with pytest.raises(ValueError, match="shortened"):
        loaded(kept, print_of)


def test_a_kept_fit_that_was_damaged_is_made_again(user):
    first = assess(user / "assessment.yaml")
    (kept,) = (user / "runs" / ".cache").glob("supervisors/*/fit/supervisor.npz")
    kept.write_bytes(b"PK")
    again = assess(user / "assessment.yaml")
    assert len(kept.read_bytes()) > 2
    assert [f.to_dict() for f in again.record.findings] == [
        f.to_dict() for f in first.record.findings
    ]


# What breaks supervisors


def test_infinite_activations_leave_one_supervisor_out_and_the_others_go_on(user):
    (user / "model.py").write_text(MODEL.replace("LIMIT", "1e4"))
    file = edited(user, ("- {knn: {k: 3}}", "- {knn: {k: 3, layer: '2'}}"))
    run = assess(file)
    knn = record_of(run, "knn")
    assert not knn["applicable"] and "NaN or infinite activations in" in knn["because"]
    assert "choose another layer" in knn["because"]
    fused = record_of(run, "fused")
    assert fused["applicable"] and fused["members"] == ["max_softmax"]
    assert "it goes without knn, because knn cannot be fitted" in fused["notes"][0]
    assert (
        record_of(run, "max_softmax")["threshold"]
        and finding(run, "auc_failure", "max_softmax").interval
    )
    assert run.verdict == "inconclusive" and "knn is not applicable" in run.claims[0].members[0].why


def test_infinite_activations_in_use_alone_are_alarms(user):
    (user / "model.py").write_text(MODEL.replace("LIMIT", "45"))
    calm = thirds(90, 2)
    calm["images"] = calm["images"] // 8
    np.savez(user / "reference.npz", **calm)
    run = assess(
        edited(user, ("- {knn: {k: 3}}", "- {knn: {k: 3, layer: '2'}}"), ("  - fused\n", ""))
    )
    scores = RunFolder.open(run.folder).cases()["knn"]
    assert np.isnan(scores).sum() > 0 and record_of(run, "knn")["applicable"]
    table = np.array(record_of(run, "knn")["verdicts"]["table"])
    assert table[:, :, 1].sum() >= np.isnan(scores).sum()


def test_a_class_never_predicted_in_the_reference_rows_is_scored_or_says_so(user):
    np.savez(user / "reference.npz", **thirds(90, 2, classes=2))
    run = assess(
        edited(user, ("- {knn: {k: 3}}", "- knn\n  - lsa\n  - mdsa\n  - dsa\n  - mahalanobis"))
    )
    for label in ("lsa", "mdsa", "dsa", "mahalanobis"):
        assert record_of(run, label)["applicable"], label
        assert np.isfinite(finding(run, "auc_failure", label).value)


def test_a_layer_that_does_not_exist_is_answered_with_those_that_do(user):
    with pytest.raises(SpecError) as caught:
        plan_assessment(
            Assessment.read(edited(user, ("- {knn: {k: 3}}", "- {knn: {layer: erly}}")))
        )
    assert ":13: supervisors[1]: knn: the model has no layer 'erly' (did you mean 'early'?)" in str(
        caught.value
    )
    assert str(caught.value).endswith("; it has: penultimate, early, middle, late, 0, 1, 2, 3, 4")


BAD_FILES = {
    "a member that does not exist": (
        ("- fused", "- {fused: {members: [knn, max_sofmax]}}"),
        r"supervisors\[2\]: fused names the member 'max_sofmax'.*did you mean 'max_softmax'\?",
    ),
    "a member that reads scores itself": (
        ("- fused", "- fused\n  - {fused: {members: [fused]}}"),
        r"supervisors\[3\]: .*names the member 'fused', which is not among",
    ),
    "calibration too small for the rule": (
        ("execution:", "verdicts: {rule: conformal, rate: 0.005}\nexecution:"),
        r"verdicts\.rule: conformal at 0\.005 needs at least 199 clean cases.*the calibration data has 100",
    ),
    "prices without cost": (
        ("execution:", "verdicts: {miss: 3}\nexecution:"),
        "verdicts: miss belongs to the rule cost",
    ),
    "cost without prices": (
        ("execution:", "verdicts: {rule: cost, miss: 3}\nexecution:"),
        "verdicts: the rule cost needs false_alarm, prevalence",
    ),
    "an unknown key": (
        ("execution:", "verdicts: {rat: 0.1}\nexecution:"),
        r"verdicts\.rat: .*did you mean 'rate'\?",
    ),
    "a rate without its supervisor": (
        ("miss_rate: {max: 1}, supervisor: knn", "miss_rate: {max: 1}"),
        "miss_rate is about a supervisor",
    ),
}


@pytest.mark.parametrize(("change", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_what_is_wrong_with_a_file_is_said_before_any_work(user, change, said):
    with pytest.raises(SpecError, match=said):
        assess(edited(user, change))
    assert not list((user / "runs").glob("*/run.json"))


def test_false_alarms_under_a_circumstance_are_claimed_where_they_are_found(user):
    run = assess(edited(user, ("miss_rate: {max: 1}", "false_alarm_rate: {max: 1}")))
    claimed = run.record.plain()["claims"][0]
    found = finding(run, "false_alarm_rate", "knn", "noise", 3).value
    assert claimed["status"] == "met" and claimed["value"] == found > 0


def test_verdicts_without_calibration_data_are_refused(user):
    file = edited(
        user,
        ("  calibration: {npz: calibration.npz, columns: [site]}\n", ""),
        ("execution:", "verdicts: {rule: balanced_accuracy}\nexecution:"),
    )
    with pytest.raises(
        SpecError,
        match="verdicts: No alarm thresholds",
    ):
        assess(file)


def test_a_small_calibration_set_that_nobody_asked_a_rule_of_leaves_a_note(user):
    np.savez(user / "calibration.npz", **thirds(15, 1))
    run = assess(user / "assessment.yaml")
    assert record_of(run, "knn")["threshold"]["value"] == "inf"
    assert any(
        "knn never raises an alarm" in n and "needs 19 clean, right calibration cases" in n
        for n in run.record.notes
    )
    assert finding(run, "miss_rate", "knn", "noise", 3).value == 1.0


def test_logistic_fusion_needs_shifted_calibration_cases(user):
    file = edited(
        user,
        ("- fused", "- {fused: {how: logistic}}"),
        ("  noise: {transform: gaussian_noise, levels: [1, 3]}\n", ""),
        (", circumstance: noise, level: 3", ""),
    )
    assert "circumstance with a transform" in record_of(assess(file), "fused")["because"]
    file = edited(
        user,
        ("  calibration: {npz: calibration.npz, columns: [site]}\n", ""),
        ("miss_rate: {max: 1}", "auc_failure: {min: 0}"),
    )
    assert "Add `data.calibration`" in record_of(assess(file), "fused")["because"]


# Inputs by reference


class Seen:
    """Scores the mean of what the module was given."""

    needs = (Output(), Input())
    fitted = True

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def applies_to(self, kind: Kind) -> str | None:
        return None if kind is CLASS_SCORES else "it reads classes"

    def fit(self, trace: ModuleTrace, truth: object) -> None:
        self.shapes.append(trace.columns["input"].shape)

    def score(self, trace: ModuleTrace) -> np.ndarray:
        return trace.columns["input"].reshape(len(trace), -1).mean(axis=1).astype(np.float64)

    def save(self, folder: Path) -> None:
        """Nothing."""

    def load(self, folder: Path) -> None:
        """Nothing."""


@pytest.fixture
def seen():
    register("supervisors", "seen_input")(Seen)
    yield
    remove("supervisors", "seen_input")


def test_inputs_are_made_again_as_the_module_saw_them_and_never_kept(user, seen):
    run = assess(
        edited(
            user, ("- {knn: {k: 3}}", "- seen_input"), ("supervisor: knn", "supervisor: seen_input")
        )
    )
    cases = RunFolder.open(run.folder).cases()
    means = thirds(120, 0)["images"].reshape(120, -1).mean(axis=1)
    assert cases["seen_input"][:120] == pytest.approx(means)
    from roadworthy.cases.transform import at_level

    strong = at_level("gaussian_noise", 3)
    at = cases["case"].tolist().index("7~noise@3")
    made = strong.at_step(thirds(120, 0)["images"][7], 0, "7~noise@3")
    assert cases["seen_input"][at] == made.mean() != means[7]
    assert not list((user / "runs").rglob("*input*.npy"))


def test_inputs_of_an_inner_module_are_not_kept_and_the_reason_says_so(tmp_path, seen):
    data = thirds(40, 0)
    for role in ("test", "reference"):
        np.savez(tmp_path / f"{role}.npz", **thirds(40, len(role)))
    (tmp_path / "parts.py").write_text(
        "import numpy as np\nfrom roadworthy.data.values import CLASS_SCORES, IMAGE, VECTOR\n"
        "from roadworthy.subject.module import function_module\nfrom roadworthy.subject.system import System\n\n\n"
        "def halves(image):\n    return image.reshape(-1)[:63].reshape(3, 21).mean(axis=1) / 255\n\n\n"
        "def choose(means):\n    return means / means.sum()\n\n\n"
        "def build():\n"
        "    modules = {'see': function_module(halves, outputs={'means': VECTOR}),\n"
        "               'say': function_module(choose, outputs={'scores': CLASS_SCORES})}\n"
        "    return System(modules, {'see.image': 'input', 'say.means': 'see.means'}, 'say.scores', IMAGE)\n"
    )
    (tmp_path / "a.yaml").write_text(
        "subject: {task: classification, system: parts.py:build}\n"
        "data: {test: {npz: test.npz}, reference: {npz: reference.npz}}\nsupervisors: [seen_input]\n"
    )
    plan = plan_assessment(Assessment.read(tmp_path / "a.yaml"))
    assert (
        plan.supervisions[0].because
        == "it reads the module's input, and what say gets from see.means is not kept"
    )
    assert len(data["labels"]) == 40


def test_unreadable_inputs_are_nan_among_images_of_one_shape_and_none_elsewhere():
    one = np.ones((2, 2), np.uint8)
    assert np.isnan(stacked([one, None])[1]).all() and stacked([one, one]).dtype == np.uint8
    mixed = stacked([one, np.ones((3, 3), np.uint8), None])
    assert mixed.dtype == object and mixed[2] is None
    assert stacked(["a", None]).tolist() == ["a", None]


def test_a_moved_run_folder_keeps_its_supervisors(user, tmp_path):
    run = assess(user / "assessment.yaml")
    moved = tmp_path / "elsewhere"
    shutil.move(run.folder, moved)
    assert loaded(moved / "supervisors" / "knn", run.record.subject.modules[0].fingerprint)
