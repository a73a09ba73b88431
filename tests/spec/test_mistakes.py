"""Mistakes in the assessment file: the message names the one that matters, and what would be right."""

from __future__ import annotations

import pytest

from roadworthy import registry
from roadworthy.spec import Assessment, SpecError, assessment_schema

TEXT = "subject: {task: classification, predictions: a.csv}\ndata: {test: {npz: a.npz}}\n"
CIRCUMSTANCES = "circumstances: {dim: {transform: contrast, levels: [1]}}\n"


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        Assessment.parse(text, "a.yaml")
    return str(caught.value)


def claim(content: str) -> str:
    return f"{TEXT}{CIRCUMSTANCES}claims:\n  - {{id: A, {content}}}\n"


@pytest.mark.parametrize(
    ("content", "right"),
    [
        ("accuracy: 0.9", "accuracy: {min: 0.9}"),
        ("failure_rate: 0.1", "failure_rate: {max: 0.1}"),
        ("wer: 0.1", "wer: {max: 0.1}"),
        ("accuracy: [0.5, 0.9]", "accuracy: {min: 0.9}"),
        ("accuracy: null", "accuracy: {min: 0.9}"),
    ],
)
def test_a_limit_without_its_side_is_told_how_to_write_it(content, right):
    name = content.split(":")[0]
    assert (
        refused(claim(content)) == f"a.yaml:5: claims[0]: {name} needs min or max, such as {right}"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "accuracy: {min: 90}",
            "accuracy lies between 0 and 1, but the limit is 90 (did you mean 0.9?)",
        ),
        ("failure_rate: {max: -0.1}", "failure_rate lies between 0 and 1, but the limit is -0.1"),
        ("auc_failure: {min: 80}, supervisor: max_softmax", "(did you mean 0.8?)"),
        ("difference: {min: -5}, circumstance: dim", "(did you mean -0.05?)"),
        (
            "relative_drop: {max: 10}, circumstance: dim",
            "relative_drop is 1 or less, but the limit is 10 (did you mean 0.1?)",
        ),
        (
            "relative_drop: {min: 0.1}, circumstance: dim",
            "limits it from above: relative_drop: {max: 0.1}",
        ),
        ("accuracy: {min: .nan}", "finite number"),
    ],
)
def test_a_limit_that_the_quantity_cannot_reach_is_refused(content, said):
    message = refused(claim(content))
    assert said in message and message.startswith("a.yaml:5: claims[0].")


@pytest.mark.parametrize(
    "content",
    ["accuracy: {min: 0}", "accuracy: {min: 1}", "relative_drop: {max: -0.1}, circumstance: dim"],
)
def test_limits_within_reach_stand(content):
    assert Assessment.parse(claim(content), "a.yaml").claims


def test_every_measure_of_ours_has_a_range():
    ours = [c for c in registry.components("measures").values() if c.origin == "roadworthy"]
    assert ours and all("range" in c.traits for c in ours)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            TEXT.replace("subject", "subjct"),
            "a.yaml:1: subjct: this key is not known (did you mean 'subject'?)",
        ),
        (
            TEXT.replace("test:", "tset:"),
            "a.yaml:2: data.tset: this key is not known (did you mean 'test'?)",
        ),
        (
            "claims: [{id: A, accuracy: {min: high}}]\n" + TEXT.replace("data", "dta"),
            "a.yaml:3: dta: this key is not known (did you mean 'data'?)",
        ),
        (claim("accuracy: {min: 0.9}, confidnce: 0.9"), "did you mean 'confidence'?"),
    ],
)
def test_a_misspelt_key_that_is_required_is_the_one_shown(text, said):
    assert said in refused(text)


def test_the_schema_offers_nothing_that_is_refused():
    every = assessment_schema()["$defs"]["ClaimSpec"]["properties"]["every"]
    assert every["type"] == "string" and "levels" not in str(every)


@pytest.mark.parametrize(
    "quantity", ["miss_rate", "false_alarm_rate", "fpr95_failure", "fpr95_shift"]
)
def test_a_limit_that_a_bad_supervisor_would_keep_is_refused(quantity):
    message = refused(claim(f"{quantity}: {{min: 0.5}}, supervisor: max_softmax"))
    assert message.endswith(f"so a claim limits it from above: {quantity}: {{max: 0.5}}")


@pytest.mark.parametrize("quantity", ["auc_failure", "auc_shift", "aupr_failure", "aupr_shift"])
def test_a_ceiling_on_how_well_failures_are_found_is_refused(quantity):
    message = refused(claim(f"{quantity}: {{max: 0.8}}, supervisor: max_softmax"))
    assert message.endswith(f"so a claim limits it from below: {quantity}: {{min: 0.8}}")


@pytest.mark.parametrize("side", ["min", "max"])
def test_alarms_may_be_wanted_or_a_nuisance(side):
    text = TEXT + "supervisors: [max_softmax]\nclaims:\n"
    assert Assessment.parse(
        f"{text}  - {{id: A, alarm_rate: {{{side}: 0.5}}, supervisor: max_softmax}}\n", "a.yaml"
    )


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ("{rule: conformal, alpha: 0.05}", "verdicts.alpha: this key is not known"),
        (
            "conformal",
            "verdicts: takes keys; write verdicts: {rule: conformal, rate: 0.05}; it is 'conformal'",
        ),
        ("{rule: conformol}", "(did you mean 'conformal'?); it is 'conformol'"),
    ],
)
def test_verdicts_written_otherwise_are_told_how(verdicts, said):
    assert said in refused(f"{TEXT}supervisors: [max_softmax]\nverdicts: {verdicts}\n")


def test_all_is_every_registered_supervisor_once():
    spec = Assessment.parse(TEXT + "supervisors: all\n", "a.yaml")
    assert spec.every_supervisor and spec.supervisors == list(registry.components("supervisors"))
    assert not Assessment.parse(TEXT + "supervisors: [knn]\n", "a.yaml").every_supervisor
    assert "supervisors: all; it is 'al'" in refused(TEXT + "supervisors: al\n")
    assert {"const": "all"} in assessment_schema()["properties"]["supervisors"]["anyOf"]
