"""The interval follows from the measure's shape, respects groups, and covers as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from roadworthy import statistics
from roadworthy.data.values import Boxes, Tracks
from roadworthy.measures.classification import OverClasses, accuracy, balanced_accuracy, error_rate
from roadworthy.measures.coco import detection_summary, evaluate_boxes
from roadworthy.measures.detection import ap50, recall
from roadworthy.measures.interval import (
    measure_difference,
    measure_interval,
    measure_quotient,
    summary_intervals,
)
from roadworthy.measures.regression import rmse
from roadworthy.measures.scored import Scored
from roadworthy.measures.speech import wer
from roadworthy.measures.tracking import mota

RNG = np.random.default_rng(11)
SCORES, LABELS = RNG.random((60, 3)), RNG.integers(0, 3, 60)
GROUPS = np.repeat([f"drive {i}" for i in range(12)], 5)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def seen(n: int, misses: list[int]) -> Scored:
    """Recall of n images with two objects each, of which some images miss one."""
    boxes = [[0, 0, 4, 4], [10, 10, 14, 14]]
    found = [Boxes.of(boxes[: 1 if i in misses else 2]) for i in range(n)]
    return recall(found, [Boxes.of(boxes)] * n)


def tracked(n: int, misses: list[int]) -> Scored:
    truth = Tracks.of([0, 1], [1, 1], [[0, 0, 4, 4]] * 2)
    short = Tracks.of([0], [1], [[0, 0, 4, 4]])
    return mota([short if i in misses else truth for i in range(n)], [truth] * n)


def test_a_proportion_without_groups_gets_wilsons_interval() -> None:
    scored = accuracy(SCORES, LABELS)
    p, n, z = scored.value(), 60, float(norm.ppf(0.975))
    centre, half = (p + z * z / 2 / n), z * math.sqrt(p * (1 - p) / n + z * z / 4 / n**2)
    found = measure_interval(scored)
    assert (found.low, found.high) == pytest.approx(
        ((centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n))
    )
    assert found.method.startswith("wilson")


def test_an_error_rate_mirrors_the_accuracy() -> None:
    right, wrong = (
        measure_interval(accuracy(SCORES, LABELS), GROUPS),
        measure_interval(error_rate(SCORES, LABELS), GROUPS),
    )
    assert (wrong.low, wrong.high) == pytest.approx((1 - right.high, 1 - right.low))
    assert "12 groups" in right.method


def test_a_ratio_is_the_one_of_statistics_mapped_through_its_scale() -> None:
    found, truth = np.random.default_rng(0).normal(size=(2, 60))
    scored = rmse(found, truth)
    plain = statistics.ratio((found - truth) ** 2, np.ones(60), GROUPS, confidence=0.9)
    mapped = measure_interval(scored, GROUPS, confidence=0.9)
    assert (mapped.low, mapped.high) == pytest.approx((math.sqrt(plain.low), math.sqrt(plain.high)))
    assert plain.method in mapped.method


def test_the_ends_of_a_falling_scale_are_swapped_and_so_are_the_sides() -> None:
    scored = tracked(20, [3, 8, 15])
    plain = statistics.ratio(scored.numerator, scored.denominator, confidence=0.95, kind="count")
    both = measure_interval(scored)
    assert both.low == pytest.approx(1 - plain.high)
    assert both.high == pytest.approx(min(1 - plain.low, 1.0))
    lower, upper = measure_interval(scored, sided="lower"), measure_interval(scored, sided="upper")
    assert lower.high == 1.0 and both.low < lower.low < scored.value()
    assert upper.low == -math.inf and scored.value() < upper.high


def test_ends_stay_within_what_the_measure_can_be() -> None:
    found = measure_interval(seen(12, [4]))
    assert found.high <= 1.0 and 0.5 < found.low < seen(12, [4]).value()
    assert 0.0 < measure_interval(wer(["a b", "a c", "a b"], ["a b"] * 3)).low < 0.01
    assert measure_interval(rmse(np.array([0.0, 0.0, 9.0]), np.zeros(3))).low == 0.0


def test_a_perfect_recall_still_has_a_lower_bound() -> None:
    found = measure_interval(seen(40, []))
    assert (found.low, found.high) == pytest.approx((0.025 ** (1 / 40), 1.0))
    assert "does not vary" in found.method
    grouped = measure_interval(seen(40, []), np.repeat(np.arange(8), 5), sided="lower")
    assert grouped.low == pytest.approx(0.05 ** (1 / 8))


def test_perfect_tracks_have_a_bound_from_the_number_of_sequences() -> None:
    found = measure_interval(tracked(20, []), sided="lower")
    assert (found.low, found.high) == pytest.approx((0.05 ** (1 / 20), 1.0))
    assert "each of 20 cases as one trial of rate at most 1" in found.method


def test_no_word_wrong_bounds_the_rate_by_utterances_not_by_words() -> None:
    found = measure_interval(wer(["a b c d e"] * 300, ["a b c d e"] * 300), sided="upper")
    assert found.high == pytest.approx(1 - 0.05 ** (1 / 300))
    grouped = measure_interval(
        wer(["a b c d e"] * 300, ["a b c d e"] * 300), np.repeat(np.arange(30), 10), sided="upper"
    )
    assert grouped.high == pytest.approx(1 - 0.05 ** (1 / 30))


def test_a_free_measure_is_bootstrapped_over_groups() -> None:
    boxes = [[0, 0, 4, 4], [10, 10, 14, 14]]
    scored = ap50([Boxes.of(boxes[: 1 + (i % 7 > 2)]) for i in range(60)], [Boxes.of(boxes)] * 60)
    found = measure_interval(scored, GROUPS, rng=rng(), resamples=300)
    assert found.method.startswith("bootstrap bca, 12 groups, 300 resamples")
    assert found.low < scored.value() < found.high
    assert found == measure_interval(scored, GROUPS, rng=rng(), resamples=300)
    with pytest.raises(ValueError, match="needs rng"):
        measure_interval(scored)


def test_a_measure_that_is_not_defined_says_so() -> None:
    nothing = ap50([Boxes.of([])] * 3, [Boxes.of([])] * 3)
    found = measure_interval(nothing, rng=rng())
    assert (found.low, found.high) == (0.0, 1.0) and "not defined" in found.method
    assert "not defined" in measure_interval(accuracy(SCORES[:0], LABELS[:0])).method
    compared = measure_difference(nothing, nothing, paired=True, rng=rng())
    assert math.isnan(compared.value) and (compared.interval.low, compared.interval.high) == (
        -1.0,
        1.0,
    )


def test_differences_of_proportions_come_from_statistics() -> None:
    first, second = accuracy(SCORES, LABELS), accuracy(SCORES[::-1], LABELS)
    right, other = first.numerator, second.numerator
    paired = measure_difference(first, second, GROUPS, paired=True)
    assert paired.value == pytest.approx(first.value() - second.value())
    assert paired.interval == statistics.paired_difference(right, other, GROUPS)
    apart = measure_difference(
        first, second, GROUPS, second_groups=GROUPS, paired=False, sided="lower"
    )
    assert apart.interval == statistics.difference(right, other, GROUPS, GROUPS, sided="lower")


def test_a_paired_difference_of_ratios_uses_what_the_cases_share() -> None:
    noise, small = np.random.default_rng(5).normal(size=(2, 60))
    first, second = rmse(noise * 3 + small * 0.1 + 0.2, np.zeros(60)), rmse(noise * 3, np.zeros(60))
    paired = measure_difference(first, second, GROUPS, paired=True, rng=rng())
    apart = measure_difference(first, second, GROUPS, second_groups=GROUPS, paired=False, rng=rng())
    assert paired.value == apart.value == pytest.approx(first.value() - second.value())
    assert paired.interval.width < apart.interval.width / 3
    assert paired.interval.contains(paired.value) and apart.interval.contains(apart.value)
    assert paired.interval.method.startswith("paired bootstrap bca, 12 groups")
    assert apart.interval.method.startswith("two samples, bootstrap bca, 24 groups")


def test_a_change_of_few_words_is_bounded_and_none_too() -> None:
    said = ["a b c d e f g h i j"] * 400
    first = wer(["a b c d e f g h i x"] * 6 + said[6:], said)
    second = wer(said[:3] + ["a b c d e f g h i x"] * 6 + said[9:], said)
    found = measure_difference(first, second, paired=True)
    assert found.value == 0.0 and found.interval.low == pytest.approx(-found.interval.high)
    assert 3 / 4000 < found.interval.high < 0.01
    same = measure_difference(first, first, paired=True, sided="upper")
    assert same.interval.high == pytest.approx(1 - 0.05 ** (1 / 400))
    kept = measure_quotient(first, first, paired=True)
    assert kept.low < 1 < kept.high < math.inf


def test_a_root_mean_square_error_that_does_not_change_has_a_finite_quotient() -> None:
    scored = rmse(np.random.default_rng(0).normal(size=60), np.zeros(60))
    kept = measure_quotient(scored, scored, paired=True, rng=rng())
    gap = measure_difference(scored, scored, paired=True, rng=rng()).interval
    assert 0.5 < kept.low < 1 < kept.high < 2
    assert -1 < gap.low < 0 < gap.high < 1


def test_nothing_is_a_share_of_a_value_that_is_not_above_zero() -> None:
    bad = Scored.ratio(
        np.full(9, 2.0), np.ones(9), error=np.ones(9), failure=np.ones(9, bool), better="higher",
        scale=lambda r: 1 - r, limits=(-math.inf, 1.0),
    )  # fmt: skip
    found = measure_quotient(bad, bad, paired=True, rng=rng())
    assert math.isinf(found.low) and math.isinf(found.high) and "above 0" in found.method


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="one measure on both sides"):
        measure_difference(accuracy(SCORES, LABELS), error_rate(SCORES, LABELS), paired=True)
    with pytest.raises(ValueError, match="there are 60 and 59"):
        measure_difference(accuracy(SCORES, LABELS), accuracy(SCORES[1:], LABELS[1:]), paired=True)


def covered(hits: int, trials: int, confidence: float) -> bool:
    """Whether so few hits are not evidence of coverage below nominal, one-sided at 1%."""
    return bool(binom.cdf(hits, trials, confidence) > 0.01)


@pytest.mark.slow
def test_the_intervals_of_rmse_and_of_a_difference_cover_as_often_as_they_say() -> None:
    draws = np.random.default_rng(17)
    hits = apart = 0
    trials = 400
    for _ in range(trials):
        drive = np.repeat(draws.normal(0, 0.7, 30), 6)
        error, other = drive + draws.normal(0, 1, 180), drive + draws.normal(0, 1, 180)
        groups = np.repeat(np.arange(30), 6)
        first, second = rmse(error, np.zeros(180)), rmse(other, np.zeros(180))
        hits += measure_interval(first, groups).contains(math.sqrt(1.49))
        gap = measure_difference(first, second, groups, paired=True, rng=draws, resamples=400)
        apart += gap.interval.contains(0.0)
    assert covered(hits, trials, 0.95), hits / trials
    assert covered(apart, trials, 0.95), apart / trials


@pytest.mark.slow
def test_the_interval_of_average_precision_covers_as_often_as_it_says() -> None:
    draws = np.random.default_rng(23)

    def images(n: int) -> Scored:
        found, truth = [], []
        for _ in range(n):
            real, hard = int(draws.integers(1, 4)), draws.normal(0, 0.7)
            seen_ones = draws.random(real) < 0.85
            stray = int(draws.poisson(0.6))
            place = np.arange(real + stray)[:, None] * 20.0 + np.array([0, 0, 8, 8])
            keep = np.concatenate([seen_ones, np.ones(stray, bool)])
            score = np.concatenate([draws.normal(1 + hard, 1, real), draws.normal(0, 1, stray)])
            found.append(Boxes.of(place[keep], scores=score[keep]))
            truth.append(Boxes.of(place[:real]))
        return ap50(found, truth)

    true_value = images(40_000).value()
    trials = 200
    hits = sum(
        measure_interval(images(150), rng=draws, resamples=300).contains(true_value)
        for _ in range(trials)
    )
    assert covered(hits, trials, 0.95), hits / trials


def test_a_detector_that_finds_nothing_or_everything_gets_a_bound_that_decides() -> None:
    rng = np.random.default_rng(0)
    truth = [Boxes.of(rng.random((2, 4)).cumsum(axis=1)) for _ in range(80)]
    nothing = ap50([Boxes.of(np.zeros((0, 4)))] * 80, truth)
    unlike = 1 - 0.025 ** (1 / 80)
    found = measure_interval(nothing, rng=rng)
    assert (found.low, found.high) == pytest.approx((0.0, 1 - (1 - unlike) ** 2))
    perfect = measure_interval(ap50(truth, truth), rng=rng, sided="lower")
    assert perfect.low == pytest.approx(0.05 ** (2 / 80)) and perfect.high == 1.0
    in_groups = measure_interval(nothing, np.repeat(np.arange(8), 10), rng=rng)
    assert in_groups.high > found.high


def test_balanced_accuracy_is_bounded_by_its_smallest_class() -> None:
    labels = np.repeat([0, 1], [990, 10])
    perfect = balanced_accuracy(np.eye(2)[labels], labels)
    found = measure_interval(perfect, sided="lower")
    assert found.low == pytest.approx(1 - (1 - 0.05 ** (1 / 10)) / 2, abs=1e-4)
    assert measure_interval(perfect.take(labels == 1), sided="lower").low == pytest.approx(
        0.05 ** (1 / 10)
    )
    same = measure_difference(perfect, perfect, paired=True, sided="lower", rng=rng(), resamples=50)
    assert same.interval.low < -0.1 and "MOVER" in same.interval.method


def test_an_average_precision_over_classes_at_its_extreme_rests_on_each_class() -> None:
    def scored(weights: np.ndarray) -> float:
        return 1.0

    none = np.zeros(500)
    support = (np.arange(495), np.arange(495, 500))
    perfect = OverClasses(
        none, none > 0, "free", scored, subset=lambda rows: perfect, support=support
    )
    found = measure_interval(perfect, rng=rng(), resamples=50, sided="lower")
    assert found.low == pytest.approx((0.05 ** (2 / 495) + 0.05 ** (2 / 5)) / 2)
    with pytest.raises(ValueError, match="subset"):
        OverClasses(none, none > 0, "free", scored)


def recalled(draws: np.random.Generator, n: int, rate: float) -> Scored:
    objects = draws.integers(1, 4, n).astype(float)
    found = draws.binomial(objects.astype(int), rate).astype(float)
    missed = objects - found
    return Scored.ratio(
        found, objects, error=missed / objects, failure=missed > 0, better="higher", limits=(0.0, 1.0)
    )  # fmt: skip


def test_rates_in_joined_groups_combine_the_bounds_of_both_sides() -> None:
    draws = np.random.default_rng(2)
    inside, outside = recalled(draws, 60, 0.95), recalled(draws, 540, 0.99)
    groups, others = np.arange(60) % 30, np.arange(540) % 30
    options = {"paired": False, "second_groups": others, "joined": True}
    found = measure_difference(inside, outside, groups, **options)  # type: ignore[arg-type]
    assert "MOVER" in found.interval.method and "joined groups" in found.interval.method
    assert found.interval.contains(found.value)
    kept = measure_quotient(inside, outside, groups, **options)  # type: ignore[arg-type]
    assert kept.contains(inside.value() / outside.value()) and "MOVER" in kept.method


@pytest.mark.slow
@pytest.mark.parametrize("sided", ["lower", "upper"])
@pytest.mark.parametrize(
    "rate, n, m, groups", [(0.99, 60, 540, 30), (0.98, 40, 160, 20), (0.9, 200, 200, 20)]
)
def test_a_difference_of_rates_over_joined_groups_covers(rate, n, m, groups, sided) -> None:
    draws = np.random.default_rng(29)
    held = 0
    for _ in range(500):
        found = measure_difference(
            recalled(draws, n, rate), recalled(draws, m, rate), np.arange(n) % groups,
            second_groups=np.arange(m) % groups, paired=False, joined=True, sided=sided,
        ).interval  # fmt: skip
        held += found.contains(0.0)
    assert covered(held, 500, 0.95), held / 500


def test_a_perfect_ap_knows_no_more_of_a_rare_class_than_its_few_cases_tell() -> None:
    truth = [Boxes.of([[0, 0, 4, 4]], labels=[0])] * 495 + [
        Boxes.of([[0, 0, 4, 4]], labels=[1])
    ] * 5
    common = measure_interval(
        ap50(truth[:495], truth[:495]), rng=np.random.default_rng(0), sided="lower"
    ).low
    both = measure_interval(ap50(truth, truth), rng=np.random.default_rng(0), sided="lower").low
    assert common > 0.98 and both < 0.75


def test_the_intervals_of_a_detector_are_quantiles_over_whole_groups_drawn_again():
    boxes = [[0, 0, 4, 4], [10, 10, 14, 14]]
    truth = [Boxes.of(boxes)] * 60
    found = [
        Boxes.of(boxes[: 1 + (i // 5) % 3 % 2], scores=[0.9, 0.8][: 1 + (i // 5) % 3 % 2])
        for i in range(60)
    ]
    ends = summary_intervals(evaluate_boxes(found, truth), GROUPS, rng=rng(), resamples=999)
    groups = np.arange(60).reshape(12, 5)
    draws = [groups[row].ravel() for row in np.random.default_rng(8).integers(0, 12, (999, 12))]
    again = [detection_summary([found[i] for i in d], [truth[i] for i in d]) for d in draws]
    for name in ("recall", "ap50", "fn"):
        values = [getattr(one, name) for one in again]
        # A little wider than plain quantiles: 12 groups (Hesterberg 2015).
        expected = np.quantile(values, [0.013, 0.987])
        spread = expected[1] - expected[0]
        assert [ends[name].low, ends[name].high] == pytest.approx(expected, abs=0.12 * spread)
    assert ends["precision"].method.endswith("the statistic does not vary")
