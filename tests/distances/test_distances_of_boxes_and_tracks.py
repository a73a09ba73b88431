"""1 - IoU against all matchings there are, 1 - MOTA against sequences counted by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import Boxes, Tracks
from roadworthy.distances.clear import clear
from roadworthy.distances.iou import iou
from roadworthy.distances.mota import mota

A, B, FAR = [0, 0, 10, 10], [20, 0, 30, 10], [90, 90, 99, 99]


@st.composite
def some_boxes(draw) -> Boxes:
    count = draw(st.integers(0, 4))
    rows = [[draw(st.integers(0, 6)) for _ in range(4)] for _ in range(count)]
    return Boxes.of(
        [[x, y, x + w, y + h] for x, y, w, h in rows],
        [draw(st.integers(0, 1)) for _ in range(count)],
    )


def overlap(a, b) -> float:
    """IoU by counting the unit squares that lie in both and in either; boxes without area share all if they are equal."""
    if (a == b).all():
        return 1.0
    cells = [
        set(itertools.product(range(int(x1), int(x2)), range(int(y1), int(y2))))
        for x1, y1, x2, y2 in (a, b)
    ]
    either = len(cells[0] | cells[1])
    return len(cells[0] & cells[1]) / either if either else 0.0


def best_of_all_matchings(first: Boxes, second: Boxes) -> float:
    small, large = sorted((first, second), key=len)
    if not len(large):
        return 0.0
    sums = [
        sum(
            overlap(small.xyxy[i], large.xyxy[j]) if small.labels[i] == large.labels[j] else 0.0
            for i, j in enumerate(chosen)
        )
        for chosen in itertools.permutations(range(len(large)), len(small))
    ]
    return 1 - max(sums) / len(large)


@settings(max_examples=80, deadline=None)
@given(some_boxes(), some_boxes())
def test_boxes_are_matched_as_well_as_any_matching_does(first, second):
    assert iou(first, second) == pytest.approx(best_of_all_matchings(first, second), abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(some_boxes(), some_boxes(), some_boxes())
def test_a_way_round_is_no_shorter(first, second, third):
    assert iou(first, third) <= iou(first, second) + iou(second, third) + 1e-12


def test_no_boxes_equal_no_boxes_and_are_far_from_any():
    assert iou(Boxes.of([]), Boxes.of([])) == 0.0
    assert iou(Boxes.of([]), Boxes.of([A])) == iou(Boxes.of([A]), Boxes.of([])) == 1.0


def test_another_class_at_the_same_place_is_another_object():
    assert iou(Boxes.of([A, B], [0, 1]), Boxes.of([A, B], [0, 2])) == 0.5


def path(*steps: dict[int, list[float]]) -> Tracks:
    """Tracks from one {identity: box} a step."""
    rows = [(t, name, box) for t, step in enumerate(steps) for name, box in step.items()]
    return Tracks.of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def rows_of(rows: list[tuple[int, int, list[float]]]) -> Tracks:
    return Tracks.of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def test_names_of_identities_do_not_matter():
    assert mota(path({1: A, 2: B}, {1: A, 2: B}), path({8: A, 9: B}, {8: A, 9: B})) == 0.0


def test_a_miss_is_counted_against_either_number_of_objects():
    # two objects in two steps, one missed: 1/4 of the first, and one false against the 3 of the second
    assert mota(path({1: A, 2: B}, {1: A, 2: B}), path({1: A, 2: B}, {1: A})) == pytest.approx(
        (1 / 4 + 1 / 3) / 2
    )


def test_a_changed_identity_is_one_switch_either_way():
    # seen from the first: object 1 is called 5 and then 6, one switch of 3; from the second: 5 and 6 are both called 1, none
    once, twice = path({1: A}, {1: A}, {1: A}), path({5: A}, {5: A}, {6: A})
    assert mota(once, twice) == mota(twice, once) == pytest.approx((1 / 3 + 0) / 2)


def test_more_errors_than_objects_are_cut_at_one():
    # MOTA of the second against the first is 1 - (1 missed + 2 false) / 1, which is negative
    assert mota(path({1: A}), path({1: FAR, 2: B})) == 1.0


def test_tracks_of_nothing_equal_each_other_and_are_far_from_any():
    assert mota(path(), path()) == 0.0
    assert mota(path(), path({1: A})) == mota(path({1: A}), path()) == 1.0


def test_objects_that_coincide_are_equal_to_themselves():
    crossing = path({1: A, 2: A}, {1: A, 2: B})
    assert mota(crossing, Tracks.of(crossing.step, crossing.ids, crossing.xyxy)) == 0.0


def test_the_overlap_that_counts_can_be_set():
    shifted = path({1: [0, 0, 10, 8]})
    assert mota(path({1: A}), shifted) == 0.0
    assert mota(path({1: A}), shifted, iou=0.9) == 1.0


def test_a_detection_is_taken_once_though_an_identity_stands_twice():
    doubled = Tracks.of([0, 1, 1], [1, 1, 1], [A, A, A])
    once = path({5: A}, {5: A})
    assert clear(once, doubled) == (3, 1, 0, 0)
    assert clear(doubled, once) == (2, 0, 1, 0)
    assert mota(once, doubled) == pytest.approx((1 / 3 + 1 / 2) / 2)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([A, B, FAR])), max_size=6
    ).map(rows_of)
)
def test_no_count_is_below_zero_whatever_stands_in_the_tracks(found):
    for counts in (
        clear(found, path({5: A}, {5: A, 6: B})),
        clear(path({5: A}, {5: A, 6: B}), found),
    ):
        assert min(counts) >= 0


def test_boxes_without_area_are_equal_to_themselves_among_others():
    point = [3.0, 3.0, 3.0, 3.0]
    assert iou(Boxes.of([point, A]), Boxes.of([A, point, B])) == pytest.approx(1 / 3)


def test_values_stay_as_they_were():
    first, second = Boxes.of([A, B]), Boxes.of([B])
    before = first.xyxy.copy()
    iou(first, second)
    np.testing.assert_array_equal(first.xyxy, before)
