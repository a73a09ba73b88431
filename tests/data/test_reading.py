"""Answers in the forms that people's functions give by themselves are read; what cannot be read is told what would be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    LABEL,
    TEXT,
    TRACKS,
    VECTOR,
    Boxes,
    Episode,
    Tracks,
)

CORNERS = [[0, 1, 4, 5], [2, 2, 3, 9]]


def forms(rows: Any) -> list[Any]:
    """The same numbers as a list, an array, a tensor, a tensor with a gradient, and a list of tensors."""
    array = np.asarray(rows, dtype=np.float64)
    tensor = torch.tensor(array)
    return [rows, array, tensor, tensor.clone().requires_grad_(True), list(tensor)]


@pytest.mark.parametrize("form", range(5))
def test_boxes_come_from_a_dict_or_rows_of_any_array(form):
    whole = BOXES.read(
        {
            "boxes": forms(CORNERS)[form],
            "labels": forms([1, 2])[form],
            "scores": forms([0.5, 0.25])[form],
        }
    )
    rows = BOXES.read(
        forms([[*c, s, k] for c, s, k in zip(CORNERS, (0.5, 0.25), (1, 2), strict=True)])[form]
    )
    for found in (whole, rows):
        assert BOXES.problem(found) is None
        assert found.xyxy.tolist() == CORNERS
        assert (found.labels.tolist(), found.scores.tolist()) == ([1, 2], [0.5, 0.25])
    bare = BOXES.read(forms(CORNERS)[form])
    assert (bare.labels.tolist(), bare.scores.tolist()) == ([0, 0], [1.0, 1.0])
    scored = BOXES.read(forms([[*c, 0.5] for c in CORNERS])[form])
    assert (scored.labels.tolist(), scored.scores.tolist()) == ([0, 0], [0.5, 0.5])


@pytest.mark.parametrize(
    "none", [[], np.zeros((0, 4)), torch.zeros((0, 4)), {"boxes": []}, np.zeros((0, 6))]
)
def test_no_boxes_and_no_tracks_are_an_answer(none):
    assert len(BOXES.read(none)) == 0 and BOXES.problem(BOXES.read(none)) is None
    if not isinstance(none, dict):
        assert len(TRACKS.read(none)) == 0


@pytest.mark.parametrize("form", range(5))
def test_tracks_come_from_rows_with_or_without_steps_or_a_dict(form):
    here = TRACKS.read(forms([[7, *CORNERS[0]], [8, *CORNERS[1]]])[form])
    case = TRACKS.read(forms([[0, 7, *CORNERS[0]], [3, 8, *CORNERS[1]]])[form])
    named = TRACKS.read(
        {"ids": forms([7, 8])[form], "boxes": forms(CORNERS)[form], "steps": [0, 3]}
    )
    for found, steps in ((here, [0, 0]), (case, [0, 3]), (named, [0, 3])):
        assert TRACKS.problem(found) is None
        assert (found.ids.tolist(), found.step.tolist(), found.xyxy.tolist()) == (
            [7, 8],
            steps,
            CORNERS,
        )


@given(st.floats(-1e6, 1e6, width=32))
def test_one_number_is_a_vector_in_every_form(number):
    for item in (
        number,
        np.float32(number),
        np.array(number),
        torch.tensor(number),
        [number],
        [[number]],
    ):
        read = VECTOR.read(item)
        assert VECTOR.problem(read) is None
        np.testing.assert_array_equal(
            np.asarray(read, dtype=np.float32), np.array([number], np.float32)
        )


@given(hnp.arrays("f4", st.integers(2, 6), elements=st.floats(-9, 9, width=32)))
def test_class_scores_come_as_list_tuple_tensor_or_a_table_of_one_row(scores):
    for item in (
        scores.tolist(),
        tuple(scores.tolist()),
        torch.tensor(scores),
        scores[None],
        torch.tensor(scores)[None],
    ):
        read = CLASS_SCORES.read(item)
        assert CLASS_SCORES.problem(read) is None
        np.testing.assert_array_equal(np.asarray(read, dtype=np.float32), scores)


def test_texts_labels_and_episodes():
    assert TEXT.read({"text": "hello", "segments": []}) == "hello"
    assert [LABEL.read(i) for i in (np.bool_(True), torch.tensor(3), np.array([2]))] == [1, 3, 2]
    turn = {"said": "hi", "outcome": {}}
    assert EPISODE.read(turn) is turn and EPISODE.problem(turn) is None
    with pytest.raises(ValueError, match="a dict of what happened in this step"):
        EPISODE.join([Episode((), {})])


@pytest.mark.parametrize(
    ("kind", "item", "said"),
    [
        (
            BOXES,
            {"a": 1, "b": 2},
            "is dict with the keys a, b; boxes are a dict with boxes (x1 y1 x2 y2), labels, scores",
        ),
        (BOXES, np.zeros((3, 7)), "is ndarray of shape (3, 7); boxes are"),
        (BOXES, "two cars", "is str; boxes are"),
        (BOXES, [{"box": 1}], "is list of 1 items; boxes are"),
        (
            BOXES,
            {"boxes": [[0, 0, 1, 1]], "labels": ["car"]},
            "is dict with the keys boxes, labels",
        ),
        (
            TRACKS,
            {"boxes": CORNERS},
            "is dict with the keys boxes; tracks are rows of id x1 y1 x2 y2",
        ),
        (TRACKS, np.zeros((2, 4)), "is ndarray of shape (2, 4); tracks are"),
        (CLASS_SCORES, 3, "class scores are one row with a number for every class"),
        (CLASS_SCORES, [3], "class scores are one row with a number for every class"),
        (CLASS_SCORES, {"cat": 0.5}, "is dict with the keys cat, not numbers; class scores are"),
        (CLASS_SCORES, "cat", "not numbers; class scores are"),
        (CLASS_SCORES, [[1, 2], [3]], "is list of 2 items of different lengths; class scores are"),
        (TEXT, ["hello"], "is list of 1 items, not text"),
        (EPISODE, "done", "is str; a step gives a dict"),
    ],
)
def test_what_cannot_be_read_is_told_what_would_be_right(kind, item, said):
    assert said in (kind.problem(kind.read(item)) or "")


def test_what_is_in_its_own_form_stays_the_same_object():
    boxes, tracks = Boxes.of(CORNERS), Tracks.of([0], [1], [CORNERS[0]])
    assert BOXES.read(boxes) is boxes and TRACKS.read(tracks) is tracks
