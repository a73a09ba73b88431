"""The sections risk and monitor: what they mean, and what is said of mistakes in them."""

from __future__ import annotations

import jsonschema
import pytest

from roadworthy.analysis.risk.prototypes import Costs, base_tree, detector_tree, several_events
from roadworthy.analysis.risk.tree import endings, expectation
from roadworthy.spec import Assessment, SpecError, assessment_schema

BASE = "subject: {task: classification, predictions: a.csv}\ndata: {test: {npz: a.npz}}\n"
MEDICAL = """\
subject: {task: detection, predictions: preds/, version: lesion-2.3.1}
data:
  calibration: {coco: cal.json, images: img/}
  test: {coco: test.json, images: img/, metadata: test.csv}
  group: patient_id
failure: {missed: lesion, iou: 0.3, where: {diameter_mm: {min: 6}}}
circumstances:
  hospital_b: {where: {site: B}, probability: 0.2, exposure: 4, likelihood: 3, severity: 5}
  motion: {transform: motion_blur, levels: [1, 2, 3], probability: 0.03}
slices: [sex, age_band, site]
supervisors: [max_softmax, knn, fused]
risk: {unit: EUR per patient, costs: {missed: 6100, false_alarm: 180, referred: 1290}}
claims:
  - {id: HAZ-07, recall: {min: 0.92}, confidence: 0.975, every: slices}
  - {id: HAZ-09, risk: {max: 1925}}
monitor: {window: 500, false_alarms: 1 per month}
"""
TREE = "{event: rain, branches: {wet: {p: p_rain, then: {outcome: skid, cost: 50}}, dry: {then: {outcome: fine, cost: 0}}}}"


def refused(text):
    with pytest.raises(SpecError) as caught:
        Assessment.parse(BASE + text, "a.yaml")
    return str(caught.value)


def test_the_file_of_a_medical_team_is_read():
    spec = Assessment.parse(MEDICAL, "a.yaml")
    tree = spec.risk.event_tree()
    assert tree == detector_tree(
        Costs(0, 6100, necessary=1290, unnecessary=180), unit="EUR per patient"
    )
    assert (
        spec.risk.needs_alarms
        and spec.monitor.windows == (500,)
        and spec.monitor.false_alarms == "1 per month"
    )
    assert spec.claims[1].quantity == "risk" and spec.claims[1].max == 1925


def test_costs_of_right_and_wrong_make_the_base_tree():
    spec = Assessment.parse(BASE + "risk: {unit: EUR per case, costs: {wrong: 7}}", "a.yaml")
    assert (
        spec.risk.event_tree() == base_tree(Costs(0, 7), unit="EUR per case")
        and not spec.risk.needs_alarms
    )


def test_an_intervention_costs_the_same_unless_the_file_says_otherwise():
    spec = Assessment.parse(BASE + "risk: {unit: EUR, costs: {wrong: 7, referred: 3}}", "a.yaml")
    costs = {leaf.outcome: leaf.cost for _, leaf in endings(spec.risk.event_tree())}
    assert costs["necessary intervention"] == costs["unnecessary intervention"] == 3


def test_any_tree_with_constants_is_read():
    text = f"risk: {{unit: EUR per km, tree: {TREE}, constants: {{p_rain: {{successes: 18, trials: 20}}}}, tolerable: 9}}"
    risk = Assessment.parse(BASE + text, "a.yaml").risk
    assert risk.known_constants() == {"p_rain": (18, 20)} and risk.tolerable == 9
    assert risk.event_tree().unit == "EUR per km"
    assert expectation(risk.event_tree(), {"p_rain": 0.1}) == pytest.approx(5.0)


EVENTS = "risk: {unit: EUR, costs: {right: 1, wrong: 9}, events: [shift, adversarial], constants: {CONSTANTS}}"


def test_several_events_are_a_field_beside_the_costs():
    text = EVENTS.replace(
        "CONSTANTS", "p_adversarial: 0.01, accuracy_adversarial: {successes: 30, trials: 100}"
    )
    risk = Assessment.parse(BASE + text, "a.yaml").risk
    assert risk.event_tree() == several_events(["shift", "adversarial"], Costs(1, 9), unit="EUR")
    assert not risk.needs_alarms
    found = expectation(
        risk.event_tree(),
        {
            "p_shift": 0.2,
            "accuracy_shifted": 0.5,
            "accuracy_clean": 0.9,
            "p_adversarial": 0.01,
            "accuracy_adversarial": 0.3,
        },
    )
    assert found == pytest.approx(1 + 8 * (0.2 * 0.5 + 0.01 * 0.7 + 0.79 * 0.1))
    meet = text.replace(
        "constants: {", "successive: true, constants: {accuracy_shifted_adversarial: 0.2, "
    )
    tree = Assessment.parse(BASE + meet, "a.yaml").risk.event_tree()
    assert tree == several_events(
        ["shift", "adversarial"], Costs(1, 9), successive=True, unit="EUR"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            EVENTS.replace("CONSTANTS", "p_adversarial: 0.01"),
            "risk: no case can estimate accuracy_adversarial",
        ),
        (
            EVENTS.replace("CONSTANTS", "p_adversarial: 0.1, accuracy_adversarial: 0.3").replace(
                "wrong: 9", "wrong: 9, referred: 3"
            ),
            "risk: events: go with costs of right and wrong alone",
        ),
        (
            f"risk: {{unit: EUR, tree: {TREE}, constants: {{p_rain: 0.1}}, events: [shift]}}",
            "risk: events: go with costs of right and wrong alone",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, events: [shift, shift]}",
            "risk: events: give one or more distinct events",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, events: [wet road]}",
            "such as module_failure; found 'wet road'",
        ),
        ("risk: {unit: EUR, costs: {wrong: 1}, events: []}", "risk.events: "),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, successive: true}",
            "risk: successive: is about events; add events",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, events: [shift, a, b], constants: "
            "{p_a: 0.6, p_b: 0.6, accuracy_a: 0, accuracy_b: 0}}",
            "p_shift, p_a, p_b add up to 1.2",
        ),
    ],
)
def test_events_that_make_no_tree_are_told_with_what_is_missing(text, said):
    message = refused(text)
    assert said in message and message.startswith("a.yaml:3: "), message


def test_the_schema_names_what_an_event_asks_for_where_that_is_not_its_own_name():
    described = assessment_schema()["$defs"]["RiskSpec"]["properties"]["events"]["description"]
    for event in ("shift", "adversarial", "ambiguous", "module_failure"):
        usual = {"accuracy_clean", f"p_{event}", f"accuracy_{event}"}
        assert all(name in described for name in set(several_events([event]).parameters) - usual), (
            event
        )


def test_the_published_schema_takes_what_is_read_and_refuses_what_is_not():
    import yaml

    jsonschema.validate(yaml.safe_load(MEDICAL), assessment_schema())
    for wrong in ({"unit": "EUR", "tolerble": 3}, {"costs": {"wrong": 3}}, 7):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(MEDICAL) | {"risk": wrong}, assessment_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            yaml.safe_load(MEDICAL) | {"monitor": {"windows": 3}}, assessment_schema()
        )


def test_without_a_window_the_monitor_has_those_of_a_bundle():
    from roadworthy.monitor import Windows

    spec = Assessment.parse(BASE + "monitor: {events_per_day: 3000}", "a.yaml")
    assert spec.monitor.windows == Windows().lengths == (100, 1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "risk: 5",
            "risk: takes keys; write risk: {unit: EUR per case, costs: {right: 0, wrong: 100}}",
        ),
        ("risk: {costs: {wrong: 3}}", "risk.unit: is missing"),
        ("risk: {unit: EUR}", "risk: needs exactly one of costs"),
        (
            f"risk: {{unit: EUR, costs: {{wrong: 1}}, tree: {TREE}}}",
            "risk: needs exactly one of costs",
        ),
        (
            "risk: {unit: EUR, costs: {wrnog: 5}}",
            "risk.costs: unknown outcome 'wrnog' (did you mean 'wrong'?)",
        ),
        (
            "risk: {unit: EUR, costs: {right: 5}}",
            "risk.costs: says nothing of the cost of a wrong answer",
        ),
        (
            "risk: {unit: EUR, costs: {missed: 5, wrong: 6}}",
            "'wrong' is another word for an outcome that is there",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: dear}}",
            "risk.costs.wrong: input should be a valid number",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: .inf}}",
            "risk.costs.wrong: input should be a finite number",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, loss_bins: [5, 5]}",
            "risk.loss_bins: is a rising list of the costs between",
        ),
        ("risk: {unit: EUR, costs: {wrong: 1}, loss_bins: []}", "risk.loss_bins: "),
        ("risk: {unit: EUR, costs: {wrong: 1}, loss_bins: 100}", "risk.loss_bins: "),
        ("risk: {unit: EUR, costs: {wrong: 1}, tolerble: 5}", "(did you mean 'tolerable'?)"),
        (
            f"risk: {{unit: EUR, tree: {TREE}}}",
            "risk: no case can estimate p_rain",
        ),
        (
            f"risk: {{unit: EUR, tree: {TREE.replace('p_rain', 'p_shft')}}}",
            "p_shft (did you mean 'p_shift'?)",
        ),
        (
            f"risk: {{unit: EUR, tree: {TREE.replace('p:', 'q:')}}}",
            "risk.tree: branches.wet: expected then",
        ),
        (
            f"risk: {{unit: EUR, tree: {TREE.replace('wet', 'yes')}}}",
            "put yes, no, on, off and null in quotes",
        ),
        (
            f"risk: {{unit: EUR, tree: {TREE.replace('cost: 50', 'cost: x')}}}",
            "the cost of 'skid' must be a finite number",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, constants: {tpr: 0.5}}",
            "the tree has no parameter 'tpr'; it has: p_shift",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1, necessary: 2}, constants: {p_shift: 0.1, tpr: 0.9, tnr: 0.9}}",
            "risk: constants: tpr, tnr are counted, on cases and in the stream, and cannot be a constant",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, constants: {p_shift: 5}}",
            "p_shift must be a probability",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, constants: {p_shift: {of: 3}}}",
            "p_shift must be a probability",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, constants: {p_shift: {successes: 3, trials: 2}}}",
            "risk.constants: p_shift must be a probability",
        ),
        (
            "risk: {unit: EUR, costs: {wrong: 1}, supervisor: knn}",
            "risk.supervisor: 'knn' is not among the supervisors",
        ),
        (
            "monitor: [500]",
            "monitor: takes keys; write monitor: {window: 500, false_alarms: 1 per month}",
        ),
        (
            "monitor: {window: 5}",
            "monitor.window: a window holds 10 events or more; write 500, or [100, 1000]; it is 5",
        ),
        ("monitor: {windows: 500}", "(did you mean 'window'?)"),
        (
            "monitor: {false_alarms: 3}",
            "monitor.false_alarms: is a number per time: write 1 per month, or 2 per day; it is 3",
        ),
        ("monitor: {false_alarms: 0 per day}", "is a number per time"),
        ("monitor: {group_events: 0}", "monitor.group_events"),
        (
            "monitor: {half_life: 0.5}",
            "monitor.half_life: input should be greater than or equal to 1",
        ),
        (
            "monitor: {prior: 0.05}",
            "monitor.prior: takes keys; write prior: {rate: 0.05, events: 20}",
        ),
        ("monitor: {prior: {rate: 0}}", "monitor.prior.rate: input should be greater than 0"),
        ("monitor: {prior: {events: 20}}", "monitor.prior.rate: is missing"),
    ],
)
def test_mistakes_name_the_field_and_what_would_be_right(text, said):
    message = refused(text)
    assert said in message and message.startswith("a.yaml:3: ")


RISK = "risk: {unit: EUR, costs: {wrong: 1}, constants: {p_shift: 0.1}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "claims: [{id: A, risk: {max: 3}}]",
            "claims[0]: claims what cases cost",
        ),
        (
            RISK.replace(", constants: {p_shift: 0.1}", "") + "claims: [{id: A, risk: {max: 3}}]",
            "Give circumstances a probability",
        ),
        (
            RISK + "claims: [{id: A, risk: {min: 3}}]",
            "so a claim limits it from above: risk: {max: 3}",
        ),
        (RISK + "claims: [{id: A, risk: 3}]", "risk needs min or max, such as risk: {max: 3}"),
        (
            RISK + "slices: [a]\nclaims: [{id: A, risk: {max: 3}, every: slices}]",
            "claims[0].every: risk is over all cases",
        ),
        (
            RISK.replace("wrong: 1", "wrong: 1, referred: 2") + "claims: [{id: A, risk: {max: 3}}]",
            "add `supervisors`",
        ),
        (
            RISK.replace("wrong: 1", "wrong: 1, referred: 2")
            + "supervisors: [knn]\nclaims: [{id: A, risk: {max: 3}}]",
            "add `data.calibration`",
        ),
        (
            RISK
            + "circumstances: {a: {where: {x: 1}, probability: 0.8}, b: {where: {x: 2}, probability: 0.8}}",
            "circumstances: their probabilities add up to 1.6",
        ),
    ],
)
def test_a_claim_on_risk_that_cannot_be_judged_is_refused(text, said):
    assert said in refused(text)


def test_what_is_tolerable_is_claimed_unless_a_claim_says_more():
    text = """
subject: {task: classification, python: "m.py:f"}
data: {test: {npz: t.npz}}
risk: {unit: EUR per case, costs: {right: 0, wrong: 10}, tolerable: 2, constants: {p_shift: 0.1}}
"""
    implied = Assessment.parse(text, "a.yaml").claims
    assert [(c.id, c.quantity, c.max) for c in implied] == [("TOLERABLE", "risk", 2.0)]
    own = Assessment.parse(text + "claims: [{id: HAZ-9, risk: {max: 3}}]\n", "a.yaml").claims
    assert [c.id for c in own] == ["HAZ-9"]


@pytest.mark.parametrize("tolerable", ["9", "4", "0", "-2"])
def test_a_tolerable_cost_that_nothing_or_everything_exceeds_is_refused_at_its_line(tolerable):
    text = (
        f"risk:\n  unit: EUR per case\n  costs: {{right: 0, wrong: 4}}\n  tolerable: {tolerable}\n"
    )
    line = (BASE + text).splitlines().index(f"  tolerable: {tolerable}") + 1
    assert refused(text).startswith(
        f"a.yaml:{line}: risk.tolerable: tolerable must lie between 0 and 4"
    )
