"""IoU and Dice of masks against a count of pixels one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.data.values import IGNORED, Unreadable
from roadworthy.distances.mask_iou import mask_iou as distance
from roadworthy.measures.failure import failures
from roadworthy.measures.interval import kind_of, measure_interval
from roadworthy.measures.segmentation import dice, mask_iou

some_masks = hnp.arrays("u1", (3, 4), elements=st.sampled_from([0, 0, 1, 2, 7]))
some_truth = hnp.arrays("u1", (3, 4), elements=st.sampled_from([0, 0, 1, 2, IGNORED])).filter(
    lambda truth: (truth != IGNORED).any()
)


def one_by_one(answer, truth, background=0) -> tuple[float, float]:
    """IoU and Dice of a case, from sets of pixels by class."""
    places = [p for p in np.ndindex(truth.shape) if truth[p] != IGNORED]
    classes = {int(m[p]) for m in (answer, truth) for p in places}
    if classes - {background}:
        classes -= {background}
    iou, dices = [], []
    for c in classes:
        first, second = ({p for p in places if m[p] == c} for m in (answer, truth))
        iou.append(len(first & second) / len(first | second))
        dices.append(2 * len(first & second) / (len(first) + len(second)))
    return sum(iou) / len(iou), sum(dices) / len(dices)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(some_masks, some_truth), min_size=1, max_size=4),
    st.sampled_from([0, 1, None]),
)
def test_the_values_are_those_of_pixels_counted_one_by_one(cases, background) -> None:
    answers, truth = map(list, zip(*cases, strict=True))
    expected = [one_by_one(a, t, background) for a, t in cases]
    for measure, place in ((mask_iou, 0), (dice, 1)):
        scored = measure(answers, truth, background=background)
        assert scored.value() == pytest.approx(np.mean([e[place] for e in expected]))
        assert scored.error == pytest.approx([1 - e[place] for e in expected])
        assert scored.failure.tolist() == [e[0] < 0.5 for e in expected]


@settings(max_examples=100, deadline=None)
@given(some_masks, some_masks)
def test_the_distance_is_one_minus_the_iou(first, second) -> None:
    assert distance(first, second) == pytest.approx(1 - one_by_one(first, second)[0])


def test_masks_of_different_sizes_have_no_distance() -> None:
    with pytest.raises(ValueError, match="4 x 3 and 3 x 4 pixels"):
        distance(np.zeros((3, 4), int), np.zeros((4, 3), int))


def test_only_background_is_right_where_there_is_nothing_and_one_pixel_too_many_is_not() -> None:
    nothing, stray = np.zeros((4, 4), np.uint8), np.eye(4, dtype=np.uint8)
    scored = mask_iou([nothing, stray, None], [nothing] * 3)
    assert scored.error.tolist() == [0.0, 1.0, 1.0] and scored.failure.tolist() == [
        False,
        True,
        True,
    ]


def test_an_answer_in_another_size_and_a_truth_that_is_not_there_are_refused() -> None:
    truth = [np.zeros((4, 6), np.uint8)] * 2
    with pytest.raises(
        ValueError, match=r"row 1: two masks have 3 x 2 and 6 x 4 pixels; answer in the size"
    ):
        mask_iou([truth[0], np.zeros((2, 3), np.uint8)], truth)
    with pytest.raises(ValueError, match="target of row 1 has no pixel that counts; leave it out"):
        dice(truth, [truth[0], None])
    with pytest.raises(
        ValueError, match=r"target of row 0 has no pixel that counts \(a.png: gone\)"
    ):
        dice(truth, [Unreadable("a.png: gone"), truth[0]])
    with pytest.raises(ValueError, match="target of row 0 has no pixel that counts"):
        dice(truth, [np.full((4, 6), IGNORED), truth[0]])


def test_the_interval_respects_groups_and_the_failure_can_be_set() -> None:
    rng = np.random.default_rng(0)
    truth = [np.repeat([[0, 1]], 50, axis=0).T.astype(np.uint8) for _ in range(40)]
    share = np.repeat(rng.uniform(0.4, 1.0, 8), 5)
    answers = [
        np.where(rng.random(t.shape) < s, t, 0).astype(np.uint8)
        for t, s in zip(truth, share, strict=True)
    ]
    scored = mask_iou(answers, truth)
    assert kind_of(scored) == "bounded"
    alone = measure_interval(scored)
    grouped = measure_interval(scored, np.arange(40) // 5)
    assert alone.contains(scored.value()) and "8 groups" in grouped.method
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)
    worse = failures(scored, answers, truth, {"error": {"above": 0.301}})
    assert worse.tolist() == (1 - scored.error < 0.699).tolist() != scored.failure.tolist()
