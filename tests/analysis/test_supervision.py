"""AUC-ROC of supervisors against counting pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis import supervision
from roadworthy.analysis.observed import Observed
from roadworthy.measures.scored import Scored


def pairs(scores: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs in which the positive scores higher; a tie is half."""
    won = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    return float(np.mean(won))


def observed(scores, wrong, name: str = "", level: float | None = None, groups=None) -> Observed:
    wrong = np.asarray(wrong, bool)
    scored = Scored.proportion((~wrong).astype(float))
    samples = np.array([str(i) for i in range(len(wrong))], dtype=object)
    unanswered = np.isnan(np.asarray(scores, float))
    return Observed(
        name, level, samples, groups, scored, wrong, unanswered, {"s": np.asarray(scores, float)}
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=4, max_size=40))
def test_the_area_for_failures_is_the_share_of_pairs_in_order(rows):
    scores, wrong = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows])
    evidence = supervision.detects_failure(observed(scores, wrong), "s")
    if wrong.all() or not wrong.any():
        assert np.isnan(evidence.value)
        assert evidence.reason in (
            f"all {len(rows)} cases are failures",
            f"there are no failures among the {len(rows)} cases",
        )
    else:
        assert evidence.value == pytest.approx(pairs(scores, wrong))
        interval = evidence.interval(0.95, "two")
        assert 0 <= interval.low <= evidence.value <= interval.high <= 1


def test_the_area_for_shift_compares_the_same_samples_under_two_conditions():
    rng = np.random.default_rng(0)
    clean, shifted = rng.normal(0, 1, 50).round(1), rng.normal(0.8, 1, 50).round(1)
    here = observed(shifted, np.zeros(50), "snow", 2)
    evidence = supervision.detects_shift(here, observed(clean, np.zeros(50)), "s")
    expected = pairs(np.r_[shifted, clean], np.r_[np.ones(50, bool), np.zeros(50, bool)])
    assert evidence.value == pytest.approx(expected)
    assert str(evidence.about) == "snow@2 | s | vs clean"


def test_a_case_without_a_score_counts_against_the_supervisor():
    scores, wrong = np.array([0.1, 0.9, np.nan, 0.4]), np.array([False, True, True, False])
    evidence = supervision.detects_failure(observed(scores, wrong), "s")
    assert evidence.value == pairs(np.array([0.1, 0.9, -1.0, 0.4]), wrong) == 0.5
    assert evidence.n == 4


def test_an_infinite_score_is_the_riskiest():
    scores, wrong = np.array([0.1, np.inf, 0.3, 0.4]), np.array([False, True, False, False])
    assert supervision.detects_failure(observed(scores, wrong), "s").value == 1.0


def test_correlated_pairs_are_taken_as_clusters():
    # every sample's score moves by exactly the same amount: as clusters the shift is surer than as strangers
    rng = np.random.default_rng(1)
    clean = rng.normal(0, 1, 80)
    here = observed(clean + 0.5, np.zeros(80), "snow", 1)
    paired = supervision.detects_shift(here, observed(clean, np.zeros(80)), "s").interval(
        0.95, "two"
    )
    strangers = Observed(**{**vars(here), "role": "circumstance:snow"})
    apart = supervision.detects_shift(strangers, observed(clean, np.zeros(80)), "s").interval(
        0.95, "two"
    )
    assert "80 groups" in paired.method
    assert paired.high - paired.low < apart.high - apart.low


def test_findings_hold_both_areas_for_every_condition_or_say_why_not():
    clean = observed([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1])
    here = observed([0.5, 0.6, 0.7, 0.8], [0, 0, 0, 0], "snow", 1)
    found = {f.id: f for f in supervision.ranking_findings(clean, [here], [clean], confidence=0.95)}
    curves = ("auc", "aupr", "fpr95")
    assert set(found) == {
        f"{curve}_{place}"
        for curve in curves
        for place in (
            "failure | clean | s",
            "failure | snow@1 | s",
            "shift | snow@1 | s | vs clean",
        )
    }
    assert (
        found["fpr95_failure | clean | s"].value == 0.0
        and found["fpr95_failure | clean | s"].better == "lower"
    )
    assert found["aupr_failure | clean | s"].value == 1.0
    assert found["auc_failure | snow@1 | s"].reason == "there are no failures among the 4 cases"
    assert found["auc_failure | clean | s"].value == 1.0
