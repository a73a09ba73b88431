"""The metamorphic relation, against box 7, a dense grid and simulations with known truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.analysis.robustness.relation import (
    TOLERANCE,
    Epsilon,
    PairedDraws,
    RelationVerdict,
    judge_draws,
    judge_relation,
    over_circumstances,
    performance_loss,
    robust_for_all,
    significance_weight,
)
from roadworthy.statistics import Interval

BOX_5 = {
    "Precision": (0.564, 0.498, 0.066),
    "Recall": (0.510, 0.384, 0.126),
    "AP50": (0.526, 0.414, 0.112),
    "AP75": (0.396, 0.264, 0.132),
    "AP": (0.340, 0.246, 0.094),
}
BOX_7 = Epsilon.of([(0.25, 0, 0.01), (1, 1, 0)])
D = 0.154


def between(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "given")


def test_box_5_differences():
    for source, target, printed in BOX_5.values():
        assert performance_loss(source, target, "higher") == pytest.approx(printed, abs=1e-12)
        assert performance_loss(source, target, "higher", "absolute") == pytest.approx(printed)


@pytest.mark.parametrize(
    "text",
    ["0.25:0.01, 1:0+1d", "0.25: 0.01,1: d", " .25 : 1e-2 , 1 : 1 d + 0", "0.25: .01, 1: 1.0d"],
)
def test_box_7_in_one_line(text):
    assert Epsilon.parse(text) == BOX_7


@pytest.mark.parametrize("text", ["", "0.25", "1:", ":1", "1: x", "1: 0.1 0.2d", "1: 2dd", "1: 0,"])
def test_a_line_that_is_no_epsilon_is_refused_by_its_part(text):
    with pytest.raises(ValueError, match=r"cannot read '.*'; write up_to: intercept"):
        Epsilon.parse(text)


def test_box_7_is_not_robust_for_any_metric():
    found = {m: judge_relation(round(s - t, 3), D, BOX_7) for m, (s, t, _) in BOX_5.items()}
    all_five = robust_for_all(found)
    assert (all_five.outcome, all_five.holds, all_five.metrics) == ("breached", 0, 5)
    three = robust_for_all({m: found[m] for m in ("AP", "Precision", "Recall")})
    assert (three.outcome, three.holds, three.metrics) == ("breached", 0, 3)
    assert found["AP"].weighted.margin == pytest.approx(0.01 - 0.094)


def test_at_a_jump_the_left_piece_holds():
    assert BOX_7(0.25) == 0.01
    assert BOX_7(0.25 + TOLERANCE / 2) == 0.01  # the tolerance of comparisons
    assert BOX_7(0.2500001) == pytest.approx(0.2500001)
    assert BOX_7(1.0) == 1.0
    assert BOX_7(1.01) is None
    assert judge_relation(0.2, 0.25, BOX_7).outcome == "breached"
    assert judge_relation(0.2, 0.26, BOX_7).outcome == "met"


def test_a_loss_of_exactly_epsilon_is_met_in_binary_numbers_too():
    loss = performance_loss(0.51, 0.50, "higher")
    assert loss > 0.01
    assert judge_relation(loss, 0.1, BOX_7).outcome == "met"


def test_a_jump_inside_the_interval_of_d_is_inconclusive():
    sure = judge_relation(0.1, 0.26, BOX_7)
    unsure = judge_relation(0.1, 0.26, BOX_7, d_interval=between(0.24, 0.28))
    assert (sure.outcome, unsure.outcome) == ("met", "inconclusive")
    assert judge_relation(0.3, 0.26, BOX_7, d_interval=between(0.24, 0.28)).outcome == "breached"


def test_a_distance_beyond_the_last_piece_is_not_covered():
    beyond = judge_relation(0.5, 1.1, BOX_7)
    assert beyond.outcome == "not covered"
    assert math.isnan(beyond.weighted.margin)
    partly = judge_relation(0.0, 0.98, BOX_7, d_interval=between(0.9, 1.05))
    assert partly.outcome == "inconclusive"
    met = judge_relation(0.0, 0.5, BOX_7)
    assert robust_for_all({"a": beyond, "b": met}).outcome == "inconclusive"
    assert robust_for_all({"a": beyond, "b": judge_relation(0.9, 0.5, BOX_7)}).outcome == "breached"


def test_the_interval_of_the_loss_decides():
    flat = Epsilon.of([(1, 0, 0.1)])
    outcomes = [
        judge_relation(0.08, 0.5, flat, loss_interval=between(*ends)).outcome
        for ends in ((0.06, 0.1), (0.06, 0.12), (0.11, 0.15))
    ]
    assert outcomes == ["met", "inconclusive", "breached"]


def test_a_weight_tightens_epsilon_and_both_verdicts_are_kept():
    weight = significance_weight(20, 10)
    found = judge_relation(0.008, D, BOX_7, weight=weight)
    assert (weight, found.weighted.outcome, found.unweighted.outcome) == (0.5, "breached", "met")
    assert found.weighted.margin == pytest.approx(0.005 - 0.008)
    assert significance_weight(3, 10) == 1.0


def test_an_improvement_holds_unless_the_difference_is_absolute():
    assert performance_loss(0.4, 0.6, "higher") == pytest.approx(-0.2)
    assert performance_loss(0.4, 0.6, "lower") == pytest.approx(0.2)
    assert performance_loss(0.4, 0.6, "higher", "absolute") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no piece"),
        ([(0.5, 0, 0.1), (0.5, 0, 0.2)], "order the pieces"),
        ([(0.5, -1, 0.1)], "0 or more"),
        ([(math.inf, 0, 0.1)], "not finite"),
    ],
)
def test_an_epsilon_that_makes_no_sense_is_refused(rows, said):
    with pytest.raises(ValueError, match=said):
        Epsilon.of(rows)


heights = st.floats(0, 1)
widths = st.floats(0.01, 0.5)
pieces = st.lists(st.tuples(widths, heights, heights), min_size=1, max_size=4)


def epsilon_of(drawn) -> Epsilon:
    """From width, height at its left end and at its right end of each piece."""
    rows, start = [], 0.0
    for width, left, right in drawn:
        slope = (right - left) / width
        rows.append((start + width, slope, left - slope * start))
        start += width
    return Epsilon.of(rows)


@settings(max_examples=150, deadline=None)
@given(pieces, st.floats(0, 1), st.floats(0, 1))
def test_least_and_greatest_epsilon_are_those_of_a_dense_grid(drawn, one, other):
    epsilon = epsilon_of(drawn)
    ends = np.array([p.up_to for p in epsilon.pieces])
    low, high = sorted((one * ends[-1], other * ends[-1]))
    found = epsilon.over(low, high)
    # Just right of each jump, past the tolerance, too: the grid must see the limit from the right.
    beside = ends[:-1] + 2 * TOLERANCE
    grid = np.concatenate([np.linspace(low, high, 2001), ends, beside])
    values = epsilon.at(grid[(grid >= low) & (grid <= high)])
    steepest = max(abs(p.slope) for p in epsilon.pieces)
    slack = steepest * ((high - low) / 2000 + 1e-8) + 1e-9
    assert found[0] - 1e-9 <= values.min() <= found[0] + slack
    assert found[1] - slack <= values.max() <= found[1] + 1e-9


@settings(max_examples=100, deadline=None)
@given(pieces, st.floats(0, 2))
def test_epsilon_of_an_array_is_epsilon_of_each(drawn, d):
    epsilon = epsilon_of(drawn)
    expected = next((p.at(d) for p in epsilon.pieces if d <= p.up_to + TOLERANCE), None)
    assert epsilon(d) == pytest.approx(expected) if expected is not None else epsilon(d) is None
    one_point = epsilon.over(d, d)
    assert (one_point is None) == (expected is None)
    if one_point:
        assert one_point == pytest.approx((expected, expected))


def bootstrapped(source, target, d, rng, resamples=300):
    """Means of pairs, resampled together."""
    n = len(source)
    weights = rng.multinomial(n, np.full(n, 1 / n), resamples) / n
    return PairedDraws(weights @ source, weights @ target, weights @ d, n)


def judged(pairs, rng, epsilon, **options) -> RelationVerdict:
    source, target, d = pairs
    draws = bootstrapped(source, target, d, rng)
    values = (float(x.mean()) for x in (source, target, d))
    return judge_draws(*values, draws, epsilon, better="higher", **options)


def pairs_of(n, rng, loss, d, *, spread=0.3, spread_d=0.08, together=0.5):
    """Pairs with a mean loss and a mean distance, both uncertain and correlated."""
    common = rng.normal(size=n)
    source = 0.7 + spread * rng.normal(size=n)
    own = np.sqrt(1 - together**2) * rng.normal(size=n)
    target = source - loss - spread * (together * common + own)
    return source, target, d + spread_d * common


def test_a_verdict_from_resamples_is_that_of_its_intervals_at_any_confidence():
    rng = np.random.default_rng(0)
    found = judged(pairs_of(400, rng, 0.05, 0.3), rng, Epsilon.of([(1, 1, 0)]))
    assert found.loss_interval.contains(found.loss)
    assert found.d_interval.contains(found.d)
    assert found.weighted.low == pytest.approx(found.d_interval.low - found.loss_interval.high)
    assert found.weighted.high == pytest.approx(found.d_interval.high - found.loss_interval.low)
    assert found.outcome == "met"
    # Loss and distance are resampled in pairs, so that what both share does not widen the loss.
    assert found.loss_interval.width == pytest.approx(2 * 1.96 * 0.3 / 20, rel=0.2)
    assert found.at(0.8).loss_interval.width < found.loss_interval.width


def test_an_absolute_loss_near_zero_has_an_interval_down_to_zero():
    rng = np.random.default_rng(1)
    pairs = pairs_of(100, rng, 0.0, 0.3)
    found = judged(pairs, rng, Epsilon.of([(1, 0, 0.0)]), kind="absolute")
    assert found.loss_interval.low == 0.0
    assert found.outcome == "inconclusive"


def wrong_verdicts(outcome, epsilon, loss, d, studies=500, n=150, **options):
    rng = np.random.default_rng(2024)
    found = [judged(pairs_of(n, rng, loss, d), rng, epsilon, **options) for _ in range(studies)]
    return sum(v.outcome == outcome for v in found), found


SLOPE, BOX = Epsilon.of([(1, 0.2, 0)]), BOX_7


@pytest.mark.parametrize(
    ("epsilon", "loss", "d", "kind"),
    [
        (Epsilon.of([(1, 0, 0.05)]), 0.05, 0.3, "one-sided"),
        (SLOPE, 0.06, 0.3, "one-sided"),
        (BOX, 0.0101, 0.2499, "one-sided"),  # just beyond epsilon and just left of the jump
        (Epsilon.of([(1, 0, 0.05)]), 0.05, 0.3, "absolute"),
    ],
)
def test_robust_is_wrong_at_most_as_often_as_stated(epsilon, loss, d, kind):
    wrong, found = wrong_verdicts("met", epsilon, loss, d, kind=kind)
    assert binom.sf(wrong - 1, len(found), 0.05) > 0.01, f"{wrong} of {len(found)}"
    # The p-value says the same as the intervals, and the margin's ends hold the truth.
    for verdict in found[:20]:
        assert (verdict.p <= 0.05) == (verdict.outcome == "met")
    held = sum(v.weighted.low <= epsilon(d) - loss <= v.weighted.high for v in found)
    assert binom.cdf(held, len(found), 0.95) > 0.01, f"{held} of {len(found)}"


def test_not_robust_is_wrong_at_most_as_often_as_stated_and_intervals_cover():
    wrong, found = wrong_verdicts("breached", SLOPE, 0.06, 0.3)
    assert binom.sf(wrong - 1, len(found), 0.05) > 0.01, f"{wrong} of {len(found)}"
    covered = sum(v.loss_interval.contains(0.06) for v in found)
    assert binom.cdf(covered, len(found), 0.95) > 0.01, f"{covered} of {len(found)}"
    # And the verdict is decided where the truth is far from the limit.
    decided, found = wrong_verdicts("met", SLOPE, -0.05, 0.3, studies=100)
    assert decided > 90


def test_holm_over_circumstances_takes_the_weakest_metric_of_each():
    sure = judge_relation(0.0, 0.1, BOX_7)

    def with_p(p):
        found = replace(sure)
        found.__dict__["p"] = p
        return found

    table = {
        "fog": {"AP": with_p(0.001), "AR": with_p(0.03)},
        "rain": {"AP": with_p(0.01), "AR": with_p(0.002)},
        "snow": {"AP": with_p(0.001)},
    }
    found = over_circumstances(table)
    assert [round(a.p_adjusted, 9) for a in found.values()] == [0.03, 0.02, 0.003]
    assert {a.outcome for a in found.values()} == {"met"}
    found = over_circumstances({**table, "dark": {"AP": with_p(0.028)}})
    assert [round(a.p_adjusted, 9) for a in found.values()] == [0.056, 0.03, 0.004, 0.056]
    assert [a.outcome for a in found.values()] == ["inconclusive", "met", "met", "inconclusive"]
    assert {a.unadjusted for a in found.values()} == {"met"}
    with pytest.raises(ValueError, match="resamples"):
        over_circumstances({"fog": {"AP": sure}})


def draws_of(source, target, groups=20):
    source, target = np.asarray(source, float), np.asarray(target, float)
    return PairedDraws(source, target, np.full(len(source), 0.1), groups)


def against_30_points(source, target, draws, confidence=0.95):
    return judge_draws(
        source,
        target,
        0.1,
        draws,
        Epsilon.of([(1, 0, 0.3)]),
        better="higher",
        confidence=confidence,
    )


def test_tails_beyond_the_resamples_follow_t_and_are_never_narrower_than_percentiles():
    rng = np.random.default_rng(0)
    target = 0.2 + 0.02 * rng.standard_normal(200)
    draws = draws_of(np.full(200, 0.9), target)
    near, far = (against_30_points(0.9, 0.2, draws, c).loss_interval for c in (0.95, 0.9999))
    assert np.isfinite([far.low, far.high]).all()
    assert far.low < near.low and near.high < far.high
    assert against_30_points(0.9, 0.2, draws, 0.9999).outcome == "breached"


def test_groups_that_do_not_differ_leave_what_so_many_of_them_cannot_rule_out():
    draws = draws_of(np.ones(100), np.zeros(100))
    found = against_30_points(1.0, 0.0, draws)
    assert found.loss_interval.low == pytest.approx(1 - 2 * (1 - 0.025 ** (1 / 20)))
    assert found.outcome == "breached"


def test_a_metric_that_is_not_defined_is_inconclusive():
    nothing = np.full(50, np.nan)
    assert (
        against_30_points(0.9, float("nan"), draws_of(np.full(50, 0.9), nothing)).outcome
        == "inconclusive"
    )
