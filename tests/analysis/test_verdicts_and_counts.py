"""Thresholds, rates and counts of verdicts against counting case by case."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.analysis import verdicts
from roadworthy.analysis.calibration import BATCH_SIZES, Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.tallies import tally_verdicts, verdicts_on_batches
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.measures.scored import Scored
from roadworthy.statistics import clopper_pearson, clustered_proportion, wilson


def observed(
    scores, wrong, name="", level=None, groups=None, predicted=None, role="test"
) -> Observed:
    wrong = np.asarray(wrong, bool)
    scored = Scored.proportion((~wrong).astype(float))
    samples = np.array([str(i) for i in range(len(wrong))], dtype=object)
    column = np.asarray(scores, float)
    return Observed(
        name,
        level,
        samples,
        groups,
        scored,
        wrong,
        np.isnan(column),
        {"s": column},
        predicted=predicted,
        role=role,
    )


def test_nominal_are_the_clean_cases_that_are_right_and_risky_those_that_failed():
    rng = np.random.default_rng(0)
    clean = observed(rng.normal(size=200), rng.random(200) < 0.2)
    fog = observed(rng.normal(1, 1, 200), rng.random(200) < 0.5, "fog", 1)
    nominal = np.sort(clean.scores["s"][~clean.failure])
    risky = np.r_[clean.scores["s"][clean.failure], fog.scores["s"][fog.failure]]
    n = len(nominal)
    found = verdicts.choose(VerdictRule("conformal", rate=0.05), clean, [fog], "s")
    assert found.value == nominal[int(np.ceil((n + 1) * 0.95)) - 1]
    best = verdicts.choose(VerdictRule("balanced_accuracy"), clean, [fog], "s")
    balanced = [((risky > t).mean() + (nominal <= t).mean()) / 2 for t in np.r_[nominal, risky]]
    assert ((risky > best.value).mean() + (nominal <= best.value).mean()) / 2 == pytest.approx(
        max(balanced)
    )
    price = VerdictRule("cost", miss=50.0, false_alarm=1.0, prevalence=0.1)
    cheapest = verdicts.choose(price, clean, [fog], "s")
    costs = [
        0.1 * 50 * (risky <= t).mean() + 0.9 * (nominal > t).mean() for t in np.r_[nominal, risky]
    ]
    here = 0.1 * 50 * (risky <= cheapest.value).mean() + 0.9 * (nominal > cheapest.value).mean()
    assert here == pytest.approx(min(costs))


def test_only_the_samples_that_are_left_choose():
    clean = observed(np.arange(100.0), np.zeros(100))
    half = np.arange(100) < 50
    assert (
        verdicts.choose(VerdictRule("false_positive_rate", rate=0.1), clean, [], "s", half).value
        == 44.0
    )


def test_a_threshold_for_each_predicted_class():
    rng = np.random.default_rng(1)
    predicted = np.arange(400) % 2
    clean = observed(rng.normal(size=400) + 5 * predicted, np.zeros(400), predicted=predicted)
    found = verdicts.choose(VerdictRule("conformal", per_class=True), clean, [], "s")
    raised = verdicts.alarms(found, clean, "s")
    assert set(found.per_class) == {"0", "1"}
    assert found.per_class["1"].value - found.per_class["0"].value == pytest.approx(5, abs=1)
    assert abs(int(raised[predicted == 0].sum()) - int(raised[predicted == 1].sum())) <= 1


def test_a_missing_score_is_an_alarm_and_counts_as_one_when_choosing():
    clean = observed(np.r_[np.arange(38.0), np.nan], np.zeros(39))
    found = verdicts.choose(VerdictRule("conformal", rate=0.05), clean, [], "s")
    assert found.value == 37.0  # the 38th of 39, the missing one being the highest
    assert verdicts.alarms(found, clean, "s").tolist() == [False] * 38 + [True]


def test_missing_scores_beyond_the_rate_leave_no_false_promise():
    clean = observed(np.r_[np.arange(90.0), np.full(10, np.nan)], np.zeros(100))
    found = verdicts.choose(VerdictRule("conformal", rate=0.05), clean, [], "s")
    assert found.overrun and found.expected_rate == pytest.approx(11 / 101)
    with pytest.raises(
        ValueError,
        match="none of the 20 clean calibration cases that were answered rightly has a score",
    ):
        verdicts.choose(VerdictRule(), observed(np.full(20, np.nan), np.zeros(20)), [], "s")


def test_a_conformal_threshold_is_for_a_case_of_a_new_group_and_other_rules_say_that_theirs_is_not():
    rng = np.random.default_rng(6)
    groups = np.repeat([f"p{i}" for i in range(30)], 10).astype(object)
    clean = observed(np.repeat(rng.normal(size=30), 10), np.zeros(300), groups=groups)
    found = verdicts.choose(VerdictRule(rate=0.1), clean, [], "s")
    # 31 of groups and the new one at 10%: two whole groups may lie above
    assert found.value == np.sort(np.unique(clean.scores["s"]))[-3] and found.groups == 30
    assert (
        verdicts.choose(VerdictRule("false_positive_rate", rate=0.1), clean, [], "s").groups is None
    )
    assert "new group" in VerdictRule().assumed(grouped=True)
    assert "taken as independent" in VerdictRule("cost").assumed(grouped=True)
    assert VerdictRule("cost").assumed(grouped=False) == ""


def test_the_worst_of_many_places_has_an_interval_that_holds_for_all_of_them():
    rng = np.random.default_rng(7)
    limit = {"s": Threshold(0.0, "r", 9, 0.1)}
    places = [observed(rng.normal(size=60), np.ones(60), "fog", level) for level in range(1, 6)]
    found = verdicts.verdict_findings(observed([0.1, -0.2], [0, 0]), places, limit, confidence=0.95)
    missed = [f for f in found if f.quantity == "miss_rate" and f.n]
    (worst,) = [f for f in found if f.quantity == "worst_miss_rate"]
    assert worst.value == max(f.value for f in missed) and worst.about.level in range(1, 6)
    assert worst.interval == wilson(round(worst.value * 60), 60, confidence=0.99)
    assert "worst of 5 places" in worst.corrected and "95%" in worst.corrected
    assert verdicts.worst_of([], 0.95) is None


def test_too_few_rows_are_said():
    clean = observed(np.arange(10.0), np.zeros(10))
    assert verdicts.choose(VerdictRule(), clean, [], "s").value == np.inf
    assert VerdictRule().least == 19 and VerdictRule("false_positive_rate", rate=0.01).least == 100
    with pytest.raises(ValueError, match="needs at least 20 clean rows, found 10"):
        verdicts.choose(VerdictRule("false_positive_rate"), clean, [], "s")
    with pytest.raises(
        ValueError, match="none of the 3 clean calibration cases was answered rightly"
    ):
        verdicts.choose(VerdictRule(), observed([1, 2, 3], [1, 1, 1]), [], "s")


def test_rates_are_counted_where_they_belong_with_their_intervals():
    threshold = Threshold(0.5, "by hand", 10, 0.05)
    here = observed([0.1, 0.9, 0.2, 0.8, np.nan, 0.3], [1, 1, 0, 0, 1, 1], "fog", 2)
    raised = verdicts.alarms(threshold, here, "s")
    miss = verdicts.rate("miss_rate", here, raised, "s")
    assert (miss.value, miss.n, str(miss.about)) == (2 / 4, 4, "fog@2 | s")
    assert miss.interval(0.95, "two").low == wilson(2, 4).low
    assert miss.interval(0.95, "upper").high == clopper_pearson(2, 4, sided="upper").high
    false = verdicts.rate("false_alarm_rate", here, raised, "s")
    assert (false.value, false.n) == (1 / 2, 2)
    assert verdicts.rate("alarm_rate", here, raised, "s").value == 3 / 6
    sound = observed([0.1, 0.2], [0, 0], "fog", 2)
    nothing = verdicts.rate("miss_rate", sound, verdicts.alarms(threshold, sound, "s"), "s")
    assert nothing.reason == "no case failed here" and np.isnan(nothing.value)


def test_intervals_respect_groups():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(30), 10)
    scores = rng.normal(size=30)[groups]
    here = observed(scores, np.ones(300), "fog", 1, groups=groups)
    raised = scores > 0.3
    found = verdicts.rate("miss_rate", here, raised, "s").interval(0.95, "two")
    assert found == clustered_proportion(~raised, groups)
    assert found.width > 2 * wilson(int((~raised).sum()), 300).width


def test_findings_are_misses_false_alarms_and_alarms_at_every_place():
    clean, fog = (
        observed([0.1, 0.9, 0.2], [0, 1, 0]),
        observed([0.6, 0.7, 0.1], [0, 1, 1], "fog", 1),
    )
    found = {
        f.id: f
        for f in verdicts.verdict_findings(
            clean, [fog], {"s": Threshold(0.5, "r", 9, 0.1)}, confidence=0.95
        )
    }
    assert set(found) == {
        *(f"{q} | clean | s" for q in ("miss_rate", "false_alarm_rate", "alarm_rate")),
        *(
            f"{q} | fog@1 | s"
            for q in ("miss_rate", "false_alarm_rate", "alarm_rate", "worst_miss_rate")
        ),
    }
    false = found["false_alarm_rate | fog@1 | s"]
    assert (false.value, false.n, false.about.circumstance) == (1.0, 1, "fog")
    assert (
        found["miss_rate | fog@1 | s"].value == 0.5
        and found["alarm_rate | fog@1 | s"].better == "lower"
    )


def test_together_means_that_one_of_them_raises_an_alarm():
    here = observed([0.1, 0.9, 0.2, 0.8], [0, 0, 0, 0])
    here = Observed(
        **{**vars(here), "scores": {"a": here.scores["s"], "b": here.scores["s"][::-1]}}
    )
    limits = {"a": Threshold(0.85, "r", 9, 0.1), "b": Threshold(0.85, "r", 9, 0.1)}
    assert verdicts.any_alarm(limits, here, ["a", "b"]).tolist() == [False, True, True, False]


def test_conformal_false_alarms_keep_their_rate_on_other_rows():
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(300):
        clean = observed(rng.exponential(size=120), rng.random(120) < 0.2)
        test = observed(rng.exponential(size=50), rng.random(50) < 0.2)
        limit = verdicts.choose(VerdictRule(), clean, [], "s")
        alarms += verdicts.rate("false_alarm_rate", test, verdicts.alarms(limit, test, "s")).value
    # a mean of 300 rates of about 40 cases each: far more than 5% would be no chance
    assert binom.sf(int(alarms / 300 * 12_000), 12_000, 0.05) > 1e-6


def test_counts_add_up_to_the_cases_and_to_the_rates():
    rng = np.random.default_rng(4)
    clean = observed(rng.normal(size=1000), rng.random(1000) < 0.1)
    fog = observed(rng.normal(1, 1, 1000), rng.random(1000) < 0.4, "fog", 2)
    reference = rng.normal(size=600)
    limit = Threshold(1.5, "r", 600, 0.05)
    alarms = verdicts.alarms(limit, fog, "s")
    (right_clear, right_risky), (missed, caught) = tally_verdicts(~fog.failure, alarms)
    assert right_clear + right_risky + missed + caught == 1000
    assert verdicts.rate("miss_rate", fog, alarms).value == missed / (missed + caught)
    found = verdicts_on_batches(reference, [clean, fog], "s", rate=0.05, seed=0)
    sizes = {(b.how, b.size): b for b in found}
    assert set(sizes) == {(how, size) for how in ("mean", "ks") for size in BATCH_SIZES}
    for (_, size), entry in sizes.items():
        assert sum(entry.batches["fog@2"]) == 1000 // size
    # one standard deviation of shift: found by nearly every batch of 16, and seldom where there is none
    mean = sizes["mean", 16].batches
    assert mean["fog@2"][1] >= 55 and mean["clean"][1] <= 10
    assert verdicts_on_batches(reference, [clean, fog], "s", rate=0.05, seed=0) == found


def test_batches_that_cannot_be_calibrated_say_why():
    few = observed(np.arange(30.0), np.zeros(30))
    found = verdicts_on_batches(np.arange(30.0), [few], "s", rate=0.05, seed=0)
    entry = next(b for b in found if b.how == "ks" and b.size == 64)
    assert entry.threshold is None and "need 64 rows to draw from, found 15" in entry.reason
