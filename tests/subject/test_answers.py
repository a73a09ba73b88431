"""What a module answered is read in the forms people use, and told what would be right where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.data.values import BOXES, CLASS_SCORES, FRAMES, IMAGE, TRACKS, VECTOR, Kind
from roadworthy.subject.module import function_module
from roadworthy.subject.system import Cases, single

IMAGES = np.zeros((3, 4, 4), np.uint8)


def answered(
    function, kind: Kind, *, batched: bool = False, input_kind: Kind = IMAGE, inputs=IMAGES
):
    """The system's rows for three cases."""
    module = function_module(function, outputs={"output": kind}, batched=batched)
    return single(module, input_kind).run(Cases(["a", "b", "c"], inputs))["system"]


@pytest.mark.parametrize("batched", [False, True])
def test_a_detector_may_answer_as_torchvision_does(batched):
    def detect(image):
        return {
            "boxes": torch.tensor([[0.0, 0.0, 2.0, 2.0]]),
            "labels": torch.tensor([3]),
            "scores": torch.tensor([0.5]),
        }

    found = answered(
        (lambda images: [detect(i) for i in images]) if batched else detect, BOXES, batched=batched
    )
    assert [e for e in found.error if e] == []
    assert found.output[2].labels.tolist() == [3] and found.output[2].xyxy.tolist() == [
        [0, 0, 2, 2]
    ]


@pytest.mark.parametrize("batched", [False, True])
def test_tensors_with_gradients_and_bare_numbers_are_answers(batched):
    def scores(images):
        return torch.ones((len(images), 4), requires_grad=True)

    found = answered(
        scores if batched else lambda image: scores([image])[0], CLASS_SCORES, batched=batched
    )
    assert np.asarray(found.output).shape == (3, 4)
    one = answered(
        (lambda x: [0.5] * len(x)) if batched else (lambda x: 0.5), VECTOR, batched=batched
    )
    assert [e for e in one.error if e] == [] and np.asarray(one.output).tolist() == [[0.5]] * 3


@pytest.mark.parametrize("answer", [1, [1], np.float32(1)])
def test_a_class_where_scores_are_expected_fails_with_what_would_be_right(answer):
    for batched in (False, True):
        found = answered(
            (lambda x, a=answer: [a] * len(x)) if batched else (lambda x, a=answer: a),
            CLASS_SCORES,
            batched=batched,
        )
        assert all(
            "class scores are one row with a number for every class" in e for e in found.error
        )
    whole = answered(lambda images: np.ones(len(images)), CLASS_SCORES, batched=True)
    assert all("a number for every class" in e for e in whole.error)


def test_a_tracker_may_answer_rows_a_step():
    inputs = [[IMAGES[0]] * 2] * 3
    found = answered(lambda frame: [[5, 0, 0, 2, 2]], TRACKS, input_kind=FRAMES, inputs=inputs)
    assert [e for e in found.error if e] == []
    assert found.output[0].step.tolist() == [0, 1] and found.output[0].ids.tolist() == [5, 5]


def test_an_answer_of_no_form_names_what_it_was():
    found = answered(lambda image: {"a": 1, "b": 2}, BOXES)
    assert "is dict with the keys a, b; boxes are a dict with boxes" in found.error[0]
