"""Verdicts on the assumptions: what violates them is found, what does not is rarely accused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from roadworthy.analysis.reliability.assumptions import (
    ASSUMED,
    check_deterministic,
    drift_check,
    energy_test,
    even_check,
    independence_check,
    representative_check,
    separation_check,
    vote_check,
)


def test_a_label_that_reaches_a_row_of_another_class_contradicts_separation():
    labels = np.zeros(500, int)
    reached = np.where(np.arange(500) < 2, 1, np.where(np.arange(500) < 300, 0, -1))
    second, fourth = separation_check(labels, reached)
    assert (second.number, fourth.number) == (2, 4)
    assert (second.verdict, second.against, second.n) == ("contradicted", 2, 300)
    assert second.limit == pytest.approx(binomtest(2, 300).proportion_ci(0.95).high)
    assert "r-separated" in second.assumed


def test_rows_without_a_label_on_either_side_test_nothing():
    labels, reached = np.array([-1, 0, -1]), np.array([0, -1, -1])
    assert separation_check(labels, reached)[0].verdict == "not testable here"
    assert vote_check([], []).verdict == "not testable here"


@pytest.mark.parametrize("rate", [0.002, 0.02])
def test_violations_are_seen_as_often_as_their_rate_allows_and_the_limit_says_which(rate):
    rng, n, seen, inside = np.random.default_rng(0), 400, 0, 0
    for _ in range(400):
        check = separation_check(np.zeros(n, int), (rng.random(n) < rate).astype(int))[0]
        seen += check.verdict == "contradicted"
        inside += rate <= check.limit
    assert seen / 400 == pytest.approx(1 - (1 - rate) ** n, abs=0.07)
    assert binom.cdf(inside, 400, 0.975) > 0.01


def test_a_vote_against_the_label_of_its_cell_contradicts_the_fifth():
    assert vote_check([0, 1, 1], [0, 1, 0]).verdict == "contradicted"
    assert vote_check([0, 1, -1], [0, 1, 0]).verdict == "not contradicted"


def test_the_first_is_always_contradicted_and_the_ratio_says_how_much():
    check = independence_check(3.3e-4, 1.1e-4)
    assert (check.verdict, check.against) == ("contradicted", pytest.approx(3.0))
    assert math.isnan(independence_check(None, None).against)


def test_the_energy_of_a_split_is_that_of_a_double_loop():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(6, 2)), rng.normal(0.8, 1, size=(5, 2))
    both = np.concatenate([first, second])
    both = both / both.std(axis=0)

    def energy(chosen: np.ndarray) -> float:
        x, y = both[chosen], both[~chosen]
        apart = [np.mean([np.linalg.norm(a - b) for a in p for b in q]) for p, q in
                 ((x, y), (x, x), (y, y))]  # fmt: skip
        return 2 * apart[0] - apart[1] - apart[2]

    chosen = np.arange(11) < 6
    drawn = [energy(rng.permutation(chosen)) for _ in range(2000)]
    by_hand = np.mean(np.array(drawn) >= energy(chosen))
    assert energy_test(first, second) == pytest.approx(by_hand, abs=0.05)


def test_samples_of_one_profile_are_accused_as_rarely_as_the_level_says():
    rng = np.random.default_rng(1)
    p = [energy_test(*rng.normal(size=(2, 40, 3)), seed=seed) for seed in range(80)]
    assert (np.array(p) < 0.05).sum() <= binom.ppf(0.99, 80, 0.05)
    assert min(p) >= 0.001


def test_a_shifted_reference_and_a_drift_within_operation_are_seen():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(300, 4))
    assert representative_check(points + 0.5, rng.normal(size=(300, 4))).verdict == "contradicted"
    assert representative_check(points, rng.normal(size=(300, 4))).verdict == "not contradicted"
    order = rng.permutation(300)
    drifting = points + np.where(order < 150, 0.0, 0.6)[:, None]
    assert drift_check(drifting, order).verdict == "contradicted"
    assert drift_check(drifting, np.arange(300)).verdict == "not contradicted"
    assert drift_check(points[:8], order[:8]).verdict == "not testable here"


def test_failures_that_crowd_at_the_inputs_contradict_even_cells():
    n = np.arange(400)
    found = even_check(n < 30, (n >= 20) & (n < 32))
    assert (found.verdict, found.against) == ("contradicted", 22)
    assert found.p == pytest.approx(binomtest(20, 22).pvalue)
    assert even_check(n < 30, (n >= 5) & (n < 34)).verdict == "not contradicted"
    assert even_check([], []).verdict == "not testable here"


def test_a_subject_that_changes_its_answer_is_refused_with_the_input_named():
    check_deterministic([0, 1, 2], [0, 1, 2])
    with pytest.raises(ValueError, match=r"1 of 3 answers .* input 17 \(1, 2\)"):
        check_deterministic([0, 1, 2], [0, 2, 2], rows=[4, 17, 9])


def test_every_assumption_of_the_paper_has_words():
    assert set(ASSUMED) == set(range(7))
