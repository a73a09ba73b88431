"""What someone meets who names supervisors for the first time: mistakes are refused with the remedy, silence is explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.execution.plan import Plan
from roadworthy.spec import NEVER_WRONG, Assessment, SpecError

FILE = """subject: {task: regression, python: subject.py:predict}
data: {test: {npz: test.npz}}
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 3]}
supervisors: [SUPERVISORS]
claims:
  - {id: A, rmse: {max: 1}, circumstance: noise}
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    light = np.linspace(10, 245, 40)
    images = np.broadcast_to(light[:, None, None], (40, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "test.npz", images=images, labels=light / 255)
    np.savez(tmp_path / "classes.npz", images=images, labels=(light > 127).astype(np.int64))
    (tmp_path / "subject.py").write_text(
        "def predict(image):\n    return [image.mean() / 255]\n\n\n"
        "def scores(image):\n    x = image.mean() / 255\n    return [1 - x, x]\n"
    )
    return tmp_path


def spec_of(
    user: Path, supervisors: str = "max_softmax", *, more: str = "", **changes: str
) -> Assessment:
    text = (
        FILE.replace("[SUPERVISORS]", supervisors if supervisors == "all" else f"[{supervisors}]")
        + more
    )
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return Assessment.parse(text, user / "assessment.yaml")


def classified(user: Path, supervisors: str) -> Plan:
    changes = {
        "regression": "classification",
        "predict": "scores",
        "test.npz": "classes.npz",
        "rmse": "error_rate",
    }
    return plan_assessment(spec_of(user, supervisors, more="measure: error_rate\n", **changes))


def test_a_run_in_which_nothing_can_fail_says_so_first(user):
    run = assess(spec_of(user), runs=user / "runs")
    assert NEVER_WRONG in run.record.warnings[0] and "failure:" in run.record.warnings[0]
    pictures = run.record.gallery.pairs
    assert pictures and all(p.failure is None for p in pictures)


@pytest.mark.parametrize(
    "more", ["failure: {error: {above: 0.2}}\n", "measure: {rmse: {tolerance: 0.2}}\n"]
)
def test_where_the_file_says_what_is_wrong_there_is_no_such_note(user, more):
    assert spec_of(user).never_wrong and not spec_of(user, more=more).never_wrong


def test_failures_that_cannot_be_are_not_claimed_to_be_found(user):
    claim = "  - {id: B, auc_failure: {min: 0.8}, supervisor: max_softmax}\n"
    with pytest.raises(SpecError, match="auc_failure is about failures"):
        plan_assessment(spec_of(user, more=claim))


def test_a_claim_over_levels_says_so_and_where_it_is_worst(user):
    text = assess(spec_of(user), runs=user / "runs").claims[0].claim.text
    assert text == "rmse at most 1 under noise at every level; worst: noise @ 3"


def test_all_takes_those_that_apply_and_names_the_others_in_one_line(user):
    plan = classified(user, "all")
    names = [s.label for s in plan.supervisions]
    assert {"max_softmax", "deep_gini"} <= set(names) and all(
        s.applicable for s in plan.supervisions
    )
    assert "knn" in plan.left_out and not set(plan.left_out) & set(names)
    said = [n for n in plan.notes if "leaves out" in n]
    assert len(said) == 1 and "knn" in said[0]


def test_a_claim_on_one_that_all_left_out_says_why(user):
    claim = "  - {id: B, auc_shift: {min: 0.8}, supervisor: max_softmax, circumstance: noise}\n"
    with pytest.raises(
        SpecError, match="max_softmax is not applicable, because it reads class scores"
    ):
        plan_assessment(spec_of(user, "all", more=claim))


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("deep_gin", "(did you mean 'deep_gini'?): max_softmax, deep_gini"),
        ("energy", "can read: max_softmax, deep_gini; add it under supervisors"),
    ],
)
def test_an_unknown_member_is_answered_with_what_was_meant(user, member, said):
    with pytest.raises(SpecError) as caught:
        classified(user, f"max_softmax, deep_gini, {{fused: {{members: [{member}]}}}}")
    assert said in str(caught.value)


def test_fused_alone_is_told_to_name_others(user):
    because = classified(user, "fused").supervisions[0].because
    assert "combines the scores of others" in because


def test_a_classifier_declared_as_a_regression_is_told_its_task(user):
    with pytest.raises(
        SpecError, match="measures that fit: none; the data goes with task: classification"
    ):
        plan_assessment(spec_of(user, **{"test.npz": "classes.npz"}))


def test_a_layer_is_not_applicable_where_none_can_be_seen(user):
    assert "shows no layers" in classified(user, "{knn: {layer: fcl}}").supervisions[0].because
