"""What is recommended, on which evidence, and when nothing is; what verdicts do about missing scores, groups and classes."""

from __future__ import annotations

import importlib.util
import json
import time
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.observed import Observed
from roadworthy.analysis.recommendation import Alarms, by_ranking, informedness
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.assessment.assess import assess
from roadworthy.assessment.recommendation import (
    Recommendation,
    SetRate,
    _exceeded,
)
from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.measures.scored import Scored
from roadworthy.registry import register, remove
from roadworthy.spec import SpecError
from roadworthy.statistics import Interval
from roadworthy.store import RunFolder
from roadworthy.subject.needs import Output
from roadworthy.subject.trace import ModuleTrace

pytestmark = pytest.mark.usefixtures("no_monitor")

_spec = importlib.util.spec_from_file_location(
    "supervising_tests", Path(__file__).with_name("test_supervising.py")
)
assert _spec is not None and _spec.loader is not None
_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_tests)
MODEL, thirds = _tests.MODEL, _tests.thirds
FILE = _tests.FILE.replace("chunk: 40", "chunk: 400")
edited, finding, record_of = _tests.edited, _tests.finding, _tests.record_of

COST = "verdicts: {rule: cost, miss: 100, false_alarm: 1, prevalence: 0.1}\nexecution:"
GROUPED = (
    ("  classes:", "  group: patient\n  classes:"),
    ("npz: test.npz, columns: [site]", "npz: test.npz, columns: [site, patient]"),
    ("npz: calibration.npz, columns: [site]", "npz: calibration.npz, columns: [site, patient]"),
    ("npz: reference.npz", "npz: reference.npz, columns: [patient]"),
)


class Made(ABC):
    """A supervisor of class scores, out of a function; registered for a test."""

    needs = (Output(),)
    fitted = False

    def applies_to(self, kind: Kind) -> str | None:
        return None if kind is CLASS_SCORES else "it reads classes"

    def fit(self, trace: ModuleTrace, truth: object) -> None:
        """Nothing."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        output = np.asarray(trace.output, float).reshape(len(trace), -1)
        return self.risk(output)

    @abstractmethod
    def risk(self, output: np.ndarray) -> np.ndarray:
        """One number a row of class scores."""

    def save(self, folder: Path) -> None:
        """Nothing."""

    def load(self, folder: Path) -> None:
        """Nothing."""


def confidence(output: np.ndarray) -> np.ndarray:
    shifted = np.exp(output - output.max(axis=1, keepdims=True))
    return shifted.max(axis=1) / shifted.sum(axis=1)


class Flaky(Made):
    """No score for every eighth answer."""

    def risk(self, output: np.ndarray) -> np.ndarray:
        return np.where((output[:, 0] * 1000).astype(int) % 8 == 0, np.nan, 1 - confidence(output))


class Backwards(Made):
    """The surer the riskier: worse than chance."""

    def risk(self, output: np.ndarray) -> np.ndarray:
        return confidence(output)


class Startled(Made):
    """Unsure on clean data; an alarm on everything that noise has touched, right or wrong."""

    def risk(self, output: np.ndarray) -> np.ndarray:
        return np.abs(output).sum(axis=1)


class Unsure(Made):
    """As `max_softmax`, and as slow as a test wants."""

    rest = 0.0

    def risk(self, output: np.ndarray) -> np.ndarray:
        time.sleep(self.rest)
        return 1 - confidence(output)


class Doubtful(Unsure):
    """The same again, at its own pace."""

    rest = 0.0


class GivesUp(Made):
    """Scores nothing."""

    def risk(self, output: np.ndarray) -> np.ndarray:
        raise ValueError("it cannot be done here")


@pytest.fixture
def odd():
    names = {
        "flaky": Flaky,
        "backwards": Backwards,
        "gives_up": GivesUp,
        "unsure": Unsure,
        "doubtful": Doubtful,
    }
    names["startled"] = Startled
    for name, made in names.items():
        register("supervisors", name)(made)
    yield
    for name in names:
        remove("supervisors", name)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    for seed, (role, n) in enumerate({"test": 120, "calibration": 400, "reference": 90}.items()):
        data = thirds(n, seed)
        data["patient"] = np.array([f"{role}{i // 10}" for i in range(n)])
        np.savez(tmp_path / f"{role}.npz", **data)
    (tmp_path / "model.py").write_text(MODEL.replace("LIMIT", "1"))
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def rewrite(user: Path, role: str, **columns: np.ndarray) -> None:
    with np.load(user / f"{role}.npz") as kept:
        content = {name: kept[name] for name in kept.files}
    np.savez(user / f"{role}.npz", **(content | columns))


def answers(images: np.ndarray) -> np.ndarray:
    """What the model answers: the brightest third."""
    rows = np.repeat([0, 1, 2], [22, 21, 21])
    flat = images.reshape(len(images), 64).astype(float)
    return np.stack([flat[:, rows == k].sum(axis=1) / 21 for k in range(3)], axis=1).argmax(axis=1)


def notes(run) -> str:
    return "\n".join(run.record.notes)


# On which evidence


@pytest.mark.parametrize("rule", [COST, "verdicts: {rule: balanced_accuracy}\nexecution:"])
def test_supervisors_are_compared_at_one_rate_whatever_rule_gives_verdicts(user, odd, rule):
    # knn raises an alarm on nearly all cases under this rule, and so would seem to catch most
    run = assess(
        edited(
            user,
            ("- max_softmax\n  - {knn: {k: 3}}\n", "- {knn: {k: 3}}\n  - max_softmax\n"),
            ("execution:", rule),
        )
    )
    found = run.record.plain()["sections"]["supervision"]["recommended"]
    assert found["supervisors"] == ["max_softmax"]
    assert "at 5% false alarms on clean data" in found["why"]
    import pyarrow.parquet as pq

    kept = {
        k: np.array(v)
        for k, v in pq.read_table(run.folder / "tables" / "calibration.parquet").to_pydict().items()
    }
    clean, failed, scores = kept["circumstance"] == "", kept["failure"], kept["max_softmax"]
    nominal = np.sort(scores[clean & ~failed])
    limit = nominal[len(nominal) - 1 - int(0.05 * len(nominal))]
    caught, false = (scores[clean & failed] > limit).mean(), (nominal > limit).mean()
    assert found["covers"]["clean"]["catch_rate"] == pytest.approx(caught)
    assert found["covers"]["clean"]["rate"] == pytest.approx(caught - false)
    cases = RunFolder.open(run.folder).cases()
    quiet = (cases["circumstance"] == "") & ~cases["failure"]
    real = record_of(run, "max_softmax")["threshold"]["value"]
    assert (
        found["false_alarms"]["clean"]["value"]
        == (cases["max_softmax"][quiet] > real).mean()
        > 0.05
    )


def test_thresholds_that_never_raise_an_alarm_recommend_nobody(user):
    np.savez(user / "calibration.npz", **thirds(15, 1))
    run = assess(user / "assessment.yaml")
    found = run.record.plain()["sections"]["supervision"]["recommended"]
    n = record_of(run, "knn")["threshold"]["chosen_on"]
    few = f"conformal at 0.05 needs 19 clean, right calibration cases, and there are {n}"
    assert (
        found["supervisors"] == []
        and f"no supervisor ever raises an alarm: the threshold is infinite: {few}"
        in (found["why"])
    )
    assert f"supervisor knn never raises an alarm: {few}" in notes(run)
    assert "No set of supervisors is recommended" in (run.folder / "report.html").read_text()


def test_few_false_alarms_of_whom_cannot_raise_one_meet_no_claim(user):
    np.savez(user / "calibration.npz", **thirds(15, 1))
    claims = (
        "  - {id: B, false_alarm_rate: {max: 0.08}, supervisor: knn}\n"
        "  - {id: C, miss_rate: {max: 0.5}, supervisor: knn}\nexecution:"
    )
    run = assess(edited(user, ("execution:", claims)))
    quiet, missing = (next(j for j in run.claims if j.claim.id == i) for i in ("B", "C"))
    n = record_of(run, "knn")["threshold"]["chosen_on"]
    assert quiet.status == "inconclusive" and missing.status == "breached"
    assert (
        f"the threshold is infinite: conformal at 0.05 needs 19 clean, right calibration cases, and there are {n}"
        in (json.dumps(run.record.plain()["claims"]))
    )


def test_without_failures_nothing_is_recommended_and_the_reason_says_so(user):
    for role in ("test", "calibration"):
        rewrite(
            user,
            role,
            labels=answers(
                thirds({"test": 120, "calibration": 400}[role], role == "calibration")["images"]
            ),
        )
    run = assess(
        edited(
            user,
            ("  noise: {transform: gaussian_noise, levels: [1, 3]}\n", ""),
            ("circumstance: noise, level: 3", "circumstance: site_b"),
        )
    )
    found = run.record.plain()["sections"]["supervision"]["recommended"]
    assert (
        found["supervisors"] == []
        and "none of the 400 calibration cases fails there" in found["not_covered"]["clean"]
    )


def test_equal_scores_recommend_nobody(user):
    constant = MODEL.replace(
        "torch.cat([torch.eye(3), -torch.eye(3)], dim=1)", "torch.zeros(3, 6)"
    ).replace("LIMIT", "1")
    (user / "model.py").write_text(constant)
    run = assess(
        edited(user, ("  - {knn: {k: 3}}\n", "  - pcs\n"), ("supervisor: knn", "supervisor: pcs"))
    )
    assert run.record.plain()["sections"]["supervision"]["recommended"]["supervisors"] == []


def test_who_does_worse_than_chance_is_never_recommended(user, odd):
    only = ("  - max_softmax\n  - {knn: {k: 3}}\n  - fused\n", "  - backwards\n")
    file = edited(user, only, ("supervisor: knn", "supervisor: backwards"))
    found = assess(file).record.plain()["sections"]["supervision"]["recommended"]
    assert (
        found["supervisors"] == []
        and "clearly above its false-alarm rate" in found["not_covered"]["clean"]
    )
    file = edited(
        user,
        ("  calibration: {npz: calibration.npz, columns: [site]}\n", ""),
        ("miss_rate: {max: 1}", "aupr_failure: {min: 0}"),
    )
    ranked = assess(file).record.plain()["sections"]["supervision"]["recommended"]
    assert (
        ranked["supervisors"] == []
        and "no supervisor ranks failures clearly above" in ranked["why"]
    )


def test_circumstances_that_no_calibration_case_speaks_of_are_named(user):
    np.savez(user / "other.npz", **thirds(80, 9))
    more = "  other: {data: {npz: other.npz}}\n  nowhere: {where: {site: B}}\n"
    rewrite(user, "calibration", site=np.full(400, "A"))
    found = assess(edited(user, ("  site_b: {where: {site: B}}\n", more))).record.plain()[
        "sections"
    ]["supervision"]["recommended"]
    assert found["not_covered"] == {
        "nowhere": "no calibration case meets its filter; add some that do",
        "other": "it has data of its own, and no calibration case is made under it",
    }
    assert "for clean data and noise, " in found["why"]
    assert "Not covered: nowhere (no calibration case meets its filter" in found["why"]


def test_every_circumstance_is_said_where_it_is_true(user):
    found = assess(user / "assessment.yaml").record.plain()["sections"]["supervision"][
        "recommended"
    ]
    assert (
        found["not_covered"] == {} and "on clean data and under every circumstance" in found["why"]
    )
    worst = max(found["miss_rate"].items(), key=lambda entry: entry[1]["value"])
    assert found["worst"]["place"] == worst[0] and found["worst"]["places"] == 4
    assert found["worst"]["interval"]["confidence"] == pytest.approx(1 - 0.05 / 4)
    assert found["worst"]["interval"]["low"] < worst[1]["interval"]["low"]


def test_how_long_scoring_took_chooses_nothing(user, odd, monkeypatch):
    two = ("  - max_softmax\n  - {knn: {k: 3}}\n  - fused\n", "  - unsure\n  - doubtful\n")
    file = edited(user, two, ("supervisor: knn", "supervisor: unsure"))
    for slow in (Unsure, Doubtful):
        monkeypatch.setattr(slow, "rest", 0.02)
        found = assess(file, runs=user / slow.__name__).record.sections["supervision"]
        assert found.recommended.supervisors == ["unsure"]
        monkeypatch.setattr(slow, "rest", 0.0)


def shifted(seed: int, level: float, *, all_alarm: bool) -> Alarms:
    rng = np.random.default_rng(seed)
    failed = rng.random(400) < level
    return Alarms(
        np.ones(400, bool) if all_alarm else failed & (rng.random(400) < 0.6),
        failed,
        np.arange(400),
    )


def test_an_alarm_on_everything_or_on_a_whole_level_is_no_skill():
    quiet = Alarms(np.zeros(400, bool), shifted(1, 0.1, all_alarm=True).failed, np.arange(400))
    found = informedness([quiet, shifted(2, 0.7, all_alarm=True)], confidence=0.95)
    assert found.caught > 0.8 and found.value == pytest.approx(0.0, abs=1e-12) and found.low < 0
    skilled = informedness(
        [shifted(1, 0.1, all_alarm=False), shifted(2, 0.7, all_alarm=False)], confidence=0.95
    )
    assert 0 < skilled.low < skilled.value == skilled.caught < found.caught


def test_who_raises_an_alarm_on_everything_under_a_shift_is_not_recommended_for_it(user, odd):
    two = ("  - max_softmax\n  - {knn: {k: 3}}\n  - fused\n", "  - startled\n  - max_softmax\n")
    file = edited(user, two, ("supervisor: knn", "supervisor: startled"))
    run = assess(file)
    found = run.record.plain()["sections"]["supervision"]["recommended"]
    assert found["supervisors"] == ["max_softmax"]
    assert set(found["false_alarms"]) == set(found["miss_rate"])
    cases = RunFolder.open(run.folder).cases()
    right = (cases["circumstance"] == "noise") & (cases["level"] == 3) & ~cases["failure"]
    raised = ~(cases["max_softmax"] <= float(record_of(run, "max_softmax")["threshold"]["value"]))
    assert found["false_alarms"]["noise@3"]["value"] == pytest.approx(raised[right].mean())
    assert finding(run, "false_alarm_rate", "max_softmax", "noise", 3).value == pytest.approx(
        raised[right].mean()
    )


def test_a_set_whose_false_alarms_exceed_what_was_asked_for_each_says_so():
    rates = {"clean": SetRate(value=0.12, interval=Interval(0.1, 0.14, 0.95, "wilson"))}
    found = Recommendation(supervisors=["a", "b"], false_alarms=rates)
    (said,) = _exceeded(found, VerdictRule())
    assert "12.0%" in said and "5%" in said
    assert not _exceeded(found, VerdictRule(rate=0.2))
    assert not _exceeded(found, VerdictRule("cost"))


def test_a_fused_of_one_member_is_not_recommended(user, odd):
    two = (
        "  - max_softmax\n  - {knn: {k: 3}}\n  - fused\n",
        "  - fused\n  - max_softmax\n  - gives_up\n",
    )
    run = assess(edited(user, two, ("supervisor: knn", "supervisor: fused")))
    assert record_of(run, "fused")["members"] == ["max_softmax"]
    assert run.record.plain()["sections"]["supervision"]["recommended"]["supervisors"] == [
        "max_softmax"
    ]


def test_fusing_all_is_as_large_as_all_of_them(user):
    run = assess(edited(user, ("  - {knn: {k: 3}}\n", "  - {knn: {k: 3}}\n  - energy\n")))
    assert record_of(run, "fused")["members"] == ["max_softmax", "knn", "energy"]
    assert (
        "fused" not in run.record.plain()["sections"]["supervision"]["recommended"]["supervisors"]
    )


def test_the_cost_class_follows_from_what_is_read(user):
    from roadworthy.assessment.recommendation import _costs
    from roadworthy.assessment.section import plan_assessment
    from roadworthy.spec import Assessment

    more = "  - fused\n  - typicality\n  - {mc_dropout_vr: {rate: 0.1}}\n  - dlpra_grad_norm\n"
    costs = _costs(plan_assessment(Assessment.read(edited(user, ("  - fused\n", more)))))
    assert (
        costs["max_softmax"]
        < costs["knn"]
        < costs["typicality"]
        < costs["mc_dropout_vr"]
        == costs["dlpra_grad_norm"]
    )


def test_what_logistic_fusion_learned_from_stands_with_its_findings(user):
    run = assess(edited(user, ("  - fused\n", "  - fused\n  - {fused: {how: logistic}}\n")))
    words = "learned from calibration cases under these same circumstances; a new kind of shift may be caught less"
    said = {f.about.supervisor for f in run.record.findings if words in f.assumptions}
    assert said == {"fused(how=logistic)"}
    assert all(
        words in f.assumptions
        for f in run.record.findings
        if f.about.supervisor == "fused(how=logistic)"
    )
    assert words in record_of(run, "fused(how=logistic)")["notes"]


def observed(name: str, level: float | None, failed: np.ndarray, **scores: np.ndarray) -> Observed:
    n = len(failed)
    scored = Scored.proportion(1.0 - failed.astype(float))
    return Observed(name, level, np.arange(n), None, scored, failed, np.zeros(n, bool), scores)


def test_ranking_leaves_out_a_level_without_failures_and_not_the_circumstance():
    failed, rising = np.arange(80) >= 40, np.arange(80.0)
    clean = observed("", None, failed, a=rising, b=rising[::-1])
    mild = observed("fog", 1, np.zeros(80, bool), a=rising, b=rising[::-1])
    hard = observed("fog", 2, failed, a=rising[::-1], b=rising)
    found = by_ranking(["a", "b"], clean, [mild, hard], 0.95)
    assert found.rates["a"]["clean"] == found.rates["b"]["fog"] == 1.0
    assert (
        np.isnan(found.rates["b"]["clean"])
        and np.isnan(found.rates["a"]["fog"])
        and not found.silent
    )


def test_a_set_chosen_by_ranking_calls_its_number_an_auc(user):
    file = edited(
        user,
        ("  calibration: {npz: calibration.npz, columns: [site]}\n", ""),
        ("miss_rate: {max: 1}", "aupr_failure: {min: 0}"),
    )
    run = assess(file)
    found = run.record.sections["supervision"].recommended
    assert found.quantity == "auc_failure" and found.covers["noise"].rate > 0.5


# Missing scores, members, groups, classes


def test_missing_scores_on_calibration_rows_are_alarms_that_are_counted_and_noted(user, odd):
    run = assess(
        edited(
            user, ("  - {knn: {k: 3}}\n", "  - flaky\n"), ("supervisor: knn", "supervisor: flaky")
        )
    )
    threshold = record_of(run, "flaky")["threshold"]
    n, missing = threshold["chosen_on"], threshold["missing"]
    assert threshold["value"] == "inf" and missing > 0.05 * n
    assert threshold["expected_rate"] == pytest.approx((missing + 1) / (n + 1))
    assert (
        f"flaky: {missing} of {n} calibration cases without a score count as alarms; the rate cannot be kept"
        in notes(run)
    )
    assert "flaky never raises an alarm" not in notes(run)
    assert finding(run, "false_alarm_rate", "flaky").value > 0.05
    assert (
        "flaky" not in run.record.plain()["sections"]["supervision"]["recommended"]["supervisors"]
    )


def test_nobody_answers_under_a_condition(user):
    rewrite(user, "calibration", images=np.zeros((400, 9, 9), np.uint8))
    run = assess(user / "assessment.yaml")
    assert "gave no answer" in notes(run) or "answered rightly" in notes(run)
    assert record_of(run, "max_softmax")["threshold"] is None


def test_fused_goes_without_a_member_that_gave_up_and_says_so(user, odd):
    run = assess(edited(user, ("  - {knn: {k: 3}}\n", "  - gives_up\n  - {knn: {k: 3}}\n")))
    fused = record_of(run, "fused")
    assert fused["applicable"] and fused["members"] == ["max_softmax", "knn"]
    assert "it goes without gives_up, because it cannot be done here" in fused["notes"]
    named = ("  - fused\n", "  - {fused: {members: [max_softmax, gives_up]}}\n")
    run = assess(edited(user, named))
    assert (
        "its member gives_up is not applicable, because it cannot"
        in record_of(run, "fused")["because"]
    )
    assert "fused was fitted on" not in notes(run)


def test_one_group_has_no_second_half_and_fused_says_so(user):
    rewrite(user, "calibration", patient=np.full(400, "one"))
    run = assess(edited(user, *GROUPED))
    because = record_of(run, "fused")["because"]
    assert "the other chooses its threshold, and there is only one group" in because
    assert "was fitted on" not in notes(run)


def test_groups_choose_conformal_thresholds_and_other_rules_say_that_they_do_not(user):
    run = assess(edited(user, *GROUPED))
    threshold = record_of(run, "knn")["threshold"]
    assert threshold["groups"] == 40 and threshold["expected_rate"] <= 0.05
    assert any(
        "a case of a new group" in a
        for a in finding(run, "miss_rate", "knn", "noise", 3).assumptions
    )
    run = assess(edited(user, ("execution:", "verdicts: {rule: false_positive_rate}\nexecution:")))
    assert record_of(run, "knn")["threshold"]["groups"] is None
    assert any(
        "taken as independent" in a for a in finding(run, "false_alarm_rate", "knn").assumptions
    )


def test_too_few_groups_are_refused_where_a_rule_was_asked_for_and_noted_elsewhere(user):
    rewrite(user, "calibration", patient=np.array([f"c{i // 50}" for i in range(400)]))
    run = assess(edited(user, *GROUPED))
    assert (
        "knn never raises an alarm: conformal at 0.05 needs 19 groups of clean, right calibration cases, and there are 8"
        in notes(run)
    )
    with pytest.raises(
        SpecError, match=r"needs at least 19 groups .*the calibration data has 8 groups"
    ):
        assess(edited(user, ("execution:", "verdicts: {rule: conformal}\nexecution:")))


def test_a_class_without_calibration_rows_takes_the_common_threshold_and_says_so(user):
    rewrite(
        user, "calibration", **{k: v for k, v in thirds(400, 1, classes=2).items() if k != "site"}
    )
    run = assess(edited(user, ("execution:", "verdicts: {rate: 0.1, per_class: true}\nexecution:")))
    threshold = record_of(run, "knn")["threshold"]
    assert "2" not in threshold["per_class"]
    assert (
        "no clean calibration case was rightly answered with class lower; there max_softmax"
        in notes(run)
    )
    assert run.record.sections["supervision"].recommended is not None


def test_classes_that_no_reference_row_has_are_noted_by_who_compares_with_them(user):
    np.savez(user / "reference.npz", **thirds(90, 2, classes=2))
    calm = thirds(90, 2, classes=2)
    keep = answers(calm["images"]) < 2
    np.savez(user / "reference.npz", **{k: v[keep] for k, v in calm.items()})
    run = assess(edited(user, ("- {knn: {k: 3}}", "- knn\n  - lsa\n  - mdsa\n  - dsa")))
    for label in ("lsa", "mdsa", "dsa"):
        assert any(
            "no reference row is predicted as class 2" in n for n in record_of(run, label)["notes"]
        ), label


def test_passes_and_gradients_stand_beside_the_time_of_scoring(user):
    more = "  - fused\n  - {mc_dropout_vr: {rate: 0.1, n: 12}}\n  - dlpra_grad_norm\n"
    run = assess(edited(user, ("  - fused\n", more)))
    passes = {
        s["name"]: s["subject_passes"]
        for s in run.record.plain()["sections"]["supervision"]["supervisors"]
    }
    assert passes == {
        "max_softmax": 0,
        "knn": 0,
        "mc_dropout_vr": 12,
        "dlpra_grad_norm": 3,
        "fused": 15,
    }
