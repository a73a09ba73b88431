"""A subject that works in place changes neither the data nor what others hear, and its findings are those of one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.data.values import AUDIO, FRAMES, GOAL, IMAGE, TASKS, VECTOR, Audio
from roadworthy.registry import get
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.module import copied, function_module
from roadworthy.subject.system import Cases, System, single

IN_PLACE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sub_(0.5).div_(0.25).flatten(1)


def build(): return Model()
"""


def halved(x):
    x /= 2
    return np.ravel(x)


def halved_columns(x):
    return [halved(v) for v in x]


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_a_function_that_works_in_place_leaves_the_data_as_they_are(batched, listed):
    data = np.arange(12.0).reshape(3, 4)
    rows = list(data.copy()) if listed else data.copy()
    module = function_module(
        halved_columns if batched else halved, outputs={"y": VECTOR}, batched=batched
    )
    trace = single(module, VECTOR).run(Cases(list("abc"), rows))
    np.testing.assert_array_equal(rows, data)
    np.testing.assert_array_equal(trace["system"].output, data / 2)


def test_a_batch_that_raises_half_way_is_asked_again_for_what_it_was_given_first():
    def halves_and_fails(x):
        answers = halved_columns(x)
        if len(x) > 1:
            raise ValueError("one at a time")
        return answers

    module = function_module(halves_and_fails, outputs={"y": VECTOR}, batched=True)
    data = np.ones((3, 4))
    output = single(module, VECTOR).run(Cases(list("abc"), list(data)))["system"].output
    np.testing.assert_array_equal(output, data / 2)


@pytest.mark.parametrize("batched", [True, False])
def test_two_modules_at_one_wire_hear_the_same(batched):
    modules = {
        name: function_module(
            halved_columns if batched else halved, outputs={"y": VECTOR}, batched=batched
        )
        for name in ("first", "second")
    }
    system = System(modules, {"first.x": "input", "second.x": "first.y"}, "second.y", VECTOR)
    trace = system.run(Cases(list("a"), [np.full(4, 8.0)]))
    assert trace["first"].output.tolist() == [[4.0] * 4] and trace["second"].output.tolist() == [
        [2.0] * 4
    ]


def test_frames_waves_and_goals_stay_as_they_are():
    def of_frame(x):
        x[:] = 0
        return [1.0]

    def of_audio(x):
        x.wave[:] = 0
        return [1.0]

    def of_goal(x):
        x["hotel"].clear()
        return [1.0]

    given = {
        FRAMES: (of_frame, [np.ones((2, 2), np.uint8)] * 2),
        AUDIO: (of_audio, Audio(np.ones(3, np.float32), 8000)),
        GOAL: (of_goal, {"hotel": {"area": "north"}}),
    }
    for kind, (function, value) in given.items():
        single(function_module(function, outputs={"y": VECTOR}), kind).run(
            Cases(list("a"), [value])
        )
    assert (
        np.array(given[FRAMES][1]).all() and given[AUDIO][1].wave.all() and given[GOAL][1]["hotel"]
    )


def test_an_answer_that_is_filled_again_for_the_next_case_stays_what_it_was():
    buffer = np.zeros(2)

    def same_array(x):
        buffer[:] = x
        return buffer

    trace = single(function_module(same_array, outputs={"y": VECTOR}), VECTOR).run(
        Cases(list("ab"), [np.full(2, 1.0), np.full(2, 2.0)])
    )
    assert trace["model"].output.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_a_state_that_is_also_the_answer_stays_what_it_was_at_its_step():
    def running(x, state):
        state = np.zeros(2) if state is None else state
        state += x.mean()
        return state, state

    frames = [np.full((2, 2), v, np.uint8) for v in (1, 2, 3)]
    trace = single(function_module(running, outputs={"y": VECTOR}), FRAMES).run(
        Cases(list("a"), [frames])
    )
    assert trace["model"].output.tolist() == [[1.0, 1.0], [3.0, 3.0], [6.0, 6.0]]


@pytest.mark.parametrize(
    "images", [np.full((2, 3, 3), 0.75, np.float32), np.full((2, 3, 3, 1), 9, np.uint8)]
)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_what_is_prepared_is_never_the_images_themselves(images, layout):
    prepared = InputPreparation(layout=layout, dtype=images.dtype.name)(images)
    assert not np.shares_memory(prepared, images)
    np.testing.assert_array_equal(prepared.ravel(), images.ravel())


def test_a_torch_model_that_works_in_place_answers_the_same_again(tmp_path):
    (tmp_path / "model.py").write_text(IN_PLACE)
    system = get("adapters", "torch").build(
        path="model.py:build", base=tmp_path, task=TASKS["classification"]
    )
    images = np.linspace(0, 1, 18, dtype=np.float32).reshape(2, 3, 3)
    given = Cases(list("ab"), images.copy())
    assert system.input_kind is IMAGE
    first, again = (system.run(given)["system"].output for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(given.inputs, images)
    np.testing.assert_allclose(first, (images.reshape(2, -1) - 0.5) / 0.25, rtol=1e-6)


def test_what_cannot_be_copied_is_handed_on():
    lines = (line for line in "ab")
    assert copied(lines) is lines
    assert copied([lines, "a"])[0] is lines
