"""What counts as a failure can be said in the assessment file, and a slip of the pen is answered with a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roadworthy.data.samples import DataError
from roadworthy.data.values import Boxes
from roadworthy.measures.classification import accuracy
from roadworthy.measures.detection import ap50
from roadworthy.measures.failure import CriterionError, failures
from roadworthy.measures.regression import mae

CLASSES = ("car", "lesion")
LEFT, RIGHT = [0, 0, 10, 10], [50, 50, 60, 60]
TRUTH = [Boxes.of([LEFT, RIGHT], labels=[1, 0])] * 4 + [Boxes.of([])]
FOUND = [
    Boxes.of([LEFT, RIGHT], labels=[1, 0]),
    Boxes.of([[0, 0, 10, 4], RIGHT], labels=[1, 0]),  # IoU 0.4 with the lesion
    Boxes.of([LEFT], labels=[1]),
    Boxes.of([RIGHT], labels=[0]),
    Boxes.of([LEFT], labels=[1]),
]
DIAMETER = np.array([8, 8, 8, 4, 0])


def missed(
    found: list[Boxes | None] = FOUND, metadata: dict | None = None, **criterion: Any
) -> list[bool]:
    scored = ap50(found, TRUTH)
    return failures(scored, found, TRUTH, criterion, classes=CLASSES, metadata=metadata).tolist()


def test_a_missed_class_fails_and_nothing_else_does() -> None:
    assert missed(missed="lesion") == [False, True, False, True, False]
    assert missed(missed="car") == [False, False, True, False, False]
    assert (
        missed(missed=True) == missed(missed=["car", "lesion"]) == [False, True, True, True, False]
    )
    assert missed(missed=1) == missed(missed="lesion")


def test_a_looser_overlap_finds_more() -> None:
    assert missed(missed="lesion", iou=0.3) == [False, False, False, True, False]


def test_a_detection_below_the_score_does_not_find() -> None:
    faint = [Boxes.of([LEFT, RIGHT], labels=[1, 0], scores=[0.3, 0.9])] * 5
    assert missed(faint, missed="lesion") == [True, True, True, True, False]
    assert missed(faint, missed="lesion", min_score=0.2) == [False] * 5


def test_an_object_to_ignore_is_not_missed_and_conditions_stay_with_their_objects() -> None:
    truth = [Boxes.of([LEFT, RIGHT], labels=[1, 1], ignore=[True, False])] * 2
    found = [Boxes.of([RIGHT], labels=[1]), Boxes.of([])]
    criterion = {"missed": "lesion", "where": {"diameter_mm": {"min": 6}}}
    for diameters, failed in (([8, 4], [False, False]), ([4, 8], [False, True])):
        metadata = {"diameter_mm": [diameters] * 2}
        scored = ap50(found, truth)
        assert failures(
            scored, found, truth, criterion, classes=CLASSES, metadata=metadata
        ).tolist() == (failed)


def test_conditions_may_be_on_the_case_or_on_each_object() -> None:
    large = {"diameter_mm": {"min": 6}}
    assert missed(missed="lesion", where=large, metadata={"diameter_mm": DIAMETER}) == [
        False,
        True,
        False,
        False,
        False,
    ]
    by_object = np.empty(5, dtype=object)
    by_object[:] = [[8, 1], [5, 9], [8, 1], [7, 1], []]
    assert missed(missed="lesion", where=large, metadata={"diameter_mm": by_object}) == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_a_wrong_number_of_object_values_is_refused() -> None:
    with pytest.raises(CriterionError, match=r"1 value\(s\) in row 0, which has 2 object\(s\)"):
        missed(missed="lesion", where={"d": 1}, metadata={"d": [[1], [1, 1], [1, 1], [1, 1], []]})


def test_no_answer_fails_under_every_criterion_and_condition() -> None:
    silent = [None, *FOUND[1:]]
    nowhere = {"diameter_mm": {"min": 100}}
    data = {"diameter_mm": DIAMETER}
    assert missed(silent, missed="lesion", where=nowhere, metadata=data) == [
        True,
        False,
        False,
        False,
        False,
    ]
    nothing_to_miss = [*FOUND[:4], None]
    assert missed(nothing_to_miss, missed="lesion") == [False, True, False, True, True]
    assert missed(silent, error={"above": 2.0}) == [True, False, False, False, False]
    assert missed(silent, wrong=True, where=nowhere, metadata=data) == [
        True,
        False,
        False,
        False,
        False,
    ]
    scores = np.array([[0.9, 0.1], [np.nan, np.nan]])
    only = {"confused": {"truth": ["car"], "with": ["lesion"]}}
    labels = np.array([0, 1])
    assert failures(accuracy(scores, labels), scores, labels, only, classes=CLASSES).tolist() == [
        False,
        True,
    ]


def test_the_default_is_what_the_measure_calls_wrong() -> None:
    scored = ap50(FOUND, TRUTH)
    assert failures(scored, FOUND, TRUTH).tolist() == scored.failure.tolist()
    assert missed(wrong=True) == scored.failure.tolist()


def test_an_error_above_a_bound_fails_where_the_condition_holds() -> None:
    found, truth = np.array([0.0, 0.3, 0.5]), np.zeros(3)
    above = {"error": {"above": 0.2}}
    assert failures(mae(found, truth), found, truth, above).tolist() == [False, True, True]
    site = {**above, "where": {"site": "B"}}
    found_at_b = failures(
        mae(found, truth), found, truth, site, metadata={"site": np.array(["B", "A", "B"])}
    )
    assert found_at_b.tolist() == [False, False, True]


def test_only_the_named_confusions_count_and_never_the_right_answer() -> None:
    scores, labels = np.eye(3)[[0, 1, 2, 1, 2]], np.array([0, 0, 0, 1, 1])
    scored = accuracy(scores, labels)
    names = ("a", "b", "c")
    some = {"confused": {"truth": ["a", "b"], "with": ["b"]}}
    assert failures(scored, scores, labels, some, classes=names).tolist() == [
        False,
        True,
        False,
        False,
        False,
    ]
    listed = failures(
        scored, list(scores), labels.tolist(), {"confused": {"truth": 0, "with": [1, 2]}}
    )
    assert listed.tolist() == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        ({"mised": "lesion"}, "no key 'mised' \\(did you mean 'missed'\\?\\)"),
        (
            {"missed": "lesoin"},
            "no class is called 'lesoin' \\(did you mean 'lesion'\\?\\); classes are car, lesion",
        ),
        ({"missed": 7}, "no class is called 7"),
        ({"missed": "lesion", "iuo": 0.3}, "did you mean 'iou'"),
        ({"missed": "lesion", "wrong": True}, "found missed and wrong; keep one"),
        ({"iou": 0.3}, "but found none"),
        ({"wrong": True, "iou": 0.3}, "beside wrong it takes where"),
        ({"wrong": False}, "write `wrong: true`"),
        ({"error": 0.2}, "error is 0.2; \\{above: …\\} is expected"),
        ({"error": {"abov": 0.2}}, "did you mean 'above'"),
        ({"error": {"above": "0.2"}}, "a number is expected"),
        ({"error": {}}, "lacks above"),
        ({"confused": {"truth": ["car"], "with": ["lesion"]}}, "confused is for class scores"),
    ],
)
def test_a_criterion_that_cannot_be_read_says_what_would_be_right(
    criterion: dict, said: str
) -> None:
    with pytest.raises(CriterionError, match=said):
        missed(**criterion)


def test_missed_is_refused_where_there_are_no_boxes() -> None:
    scores, labels = np.eye(2), np.array([0, 1])
    with pytest.raises(CriterionError, match="missed is for boxes"):
        failures(accuracy(scores, labels), scores, labels, {"missed": "car"}, classes=CLASSES)


def test_a_condition_on_unknown_metadata_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match="did you mean 'diameter_mm'"):
        missed(missed="lesion", where={"diameter": 6}, metadata={"diameter_mm": DIAMETER})
