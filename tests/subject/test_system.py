"""A system runs its modules in order, batch or step by step; `at` changes what arrives; only guilty cases fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import (
    AUDIO,
    CLASS_SCORES,
    EPISODE,
    FRAMES,
    GOAL,
    IMAGE,
    LABEL,
    TEXT,
    VECTOR,
    Episode,
    Unreadable,
)
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.needs import Passes
from roadworthy.subject.system import Cases, System, single


def doubled(x):
    return [2 * np.asarray(v, dtype=np.float64) for v in x]


def summed(x, y):
    return [a + b for a, b in zip(x, y, strict=True)]


def pipeline(batched: bool = True) -> System:
    """input -> twice -> sum(input, twice): three times the input."""
    twice, add = (doubled, summed) if batched else (lambda x: 2 * x, lambda x, y: x + y)
    return System(
        {
            "twice": function_module(twice, outputs={"y": VECTOR}, batched=batched),
            "add": function_module(add, outputs={"z": VECTOR}, batched=batched),
        },
        {"twice.x": "input", "add.x": "input", "add.y": "twice.y"},
        "add.z",
        VECTOR,
    )


def cases(*values: float) -> Cases:
    return Cases(
        [f"c{i}" for i in range(len(values))], [np.full(2, v, dtype=np.float64) for v in values]
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6), st.booleans())
def test_a_pipeline_computes_what_its_modules_compute(values, batched):
    trace = pipeline(batched).run(cases(*values))
    np.testing.assert_allclose(
        np.asarray(trace["system"].output)[:, 0], 3 * np.array(values), rtol=1e-6
    )
    np.testing.assert_allclose(
        np.asarray(trace["twice"].output)[:, 0], 2 * np.array(values), rtol=1e-6
    )


@pytest.mark.parametrize("batched", [True, False])
def test_a_change_at_an_inner_port_reaches_that_port_alone(batched):
    trace = pipeline(batched).run(cases(1.0, 2.0), at={"add.y": lambda v, case, step: v * 0})
    assert np.asarray(trace["twice"].output)[:, 0].tolist() == [2.0, 4.0]
    assert np.asarray(trace["system"].output)[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("batched", [True, False])
def test_a_change_at_the_input_reaches_every_port_wired_to_it(batched):
    seen = []

    def change(value, case, step):
        seen.append((case, step))
        return value + 1

    trace = pipeline(batched).run(cases(1.0, 2.0), at={"input": change})
    assert np.asarray(trace["system"].output)[:, 0].tolist() == [6.0, 9.0]
    assert seen == [("c0", 0), ("c1", 0)]


@pytest.mark.parametrize("batched", [True, False])
def test_recorded_values_hold_a_modules_input(batched):
    recorded = {"c0": np.full(2, 10.0), "c1": np.full(2, 20.0)}
    trace = pipeline(batched).run(
        cases(1.0, 2.0), at={"add.y": lambda v, case, step: recorded[case]}
    )
    assert np.asarray(trace["system"].output)[:, 0].tolist() == [11.0, 22.0]


def test_a_change_at_a_port_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(
        SubjectError,
        match=r"no port 'add\.w'.*did you mean 'add\.[xy]'.*input, twice\.x, add\.x, add\.y",
    ):
        pipeline().run(cases(1.0), at={"add.w": lambda v, c, s: v})


def test_a_change_that_raises_fails_its_case_alone():
    def change(value, case, step):
        if case == "c1":
            raise ArithmeticError("no root")
        return value

    for batched in (True, False):
        system = pipeline(batched).run(cases(1.0, 2.0, 3.0), at={"twice.x": change})["system"]
        assert system.ok.tolist() == [True, False, True]
        assert "the transform failed: ArithmeticError: no root" in system.error[1]


def test_a_batch_that_raises_is_asked_again_one_by_one():
    asked = []

    def fragile(x):
        asked.append(len(x))
        if any(v[0] == 2 for v in x):
            raise ValueError("two")
        return doubled(x)

    system = single(function_module(fragile, outputs={"y": VECTOR}, batched=True), VECTOR)
    trace = system.run(cases(1.0, 2.0, 3.0))["system"]
    assert asked == [3, 1, 1, 1]
    assert trace.ok.tolist() == [True, False, True]
    assert trace.error[1] == "ValueError: two"
    assert np.asarray(trace.output)[[0, 2], 0].tolist() == [2.0, 6.0]


def test_rows_of_nan_and_unreadable_inputs_fail_with_their_reason():
    def scores(image):
        return np.array([np.nan, 1.0]) if image.max() > 100 else np.array([0.5, 0.5])

    system = single(function_module(scores, outputs={"scores": CLASS_SCORES}), IMAGE)
    inputs = [
        np.zeros((8, 8), np.uint8),
        np.full((8, 8), 200, np.uint8),
        Unreadable("b.png: cut short"),
    ]
    trace = system.run(Cases(["a", "b", "c"], inputs))["system"]
    assert trace.ok.tolist() == [True, False, False]
    assert "has 1 NaN or infinite value among 2" in trace.error[1]
    assert "b.png: cut short" in trace.error[2]


def test_too_few_answers_stop_the_run_since_nobody_knows_whose_they_are():
    module = function_module(lambda x: doubled(x)[:-1], outputs={"y": VECTOR}, batched=True)
    with pytest.raises(SubjectError, match="gave 1 values at 'y' for 2 cases"):
        single(module, VECTOR).run(cases(1.0, 2.0))


def test_an_unwired_input_a_wire_from_nowhere_and_an_unknown_output_are_refused():
    modules = {"twice": function_module(doubled, outputs={"y": VECTOR}, batched=True)}
    with pytest.raises(SubjectError, match=r"twice\.x is not wired"):
        System(modules, {}, "twice.y", VECTOR)
    with pytest.raises(
        SubjectError, match=r"'twice\.z', which no module puts out \(did you mean 'twice\.y'"
    ):
        System(modules, {"twice.x": "twice.z"}, "twice.y", VECTOR)
    with pytest.raises(SubjectError, match=r"output 'twice\.q' is no port"):
        System(modules, {"twice.x": "input"}, "twice.q", VECTOR)


def test_state_lives_for_one_case_and_is_handed_in():
    def count(frame, state):
        return np.array([float((state or 0) + frame.max())]), (state or 0) + 1

    system = single(function_module(count, outputs={"n": VECTOR}), FRAMES)
    videos = [[np.zeros((4, 4), np.uint8)] * 3, [np.zeros((4, 4), np.uint8)] * 2]
    trace = system.run(Cases(["a", "b"], videos))
    assert trace["model"].step.tolist() == [0, 1, 2, 0, 1]
    assert np.asarray(trace["model"].output)[:, 0].tolist() == [0.0, 1.0, 2.0, 0.0, 1.0]
    assert np.asarray(trace["system"].output)[:, 0].tolist() == [2.0, 1.0]


def test_state_and_rng_mean_what_they_say_with_a_default_too():
    def count(frame, state=None, rng=None, gain=2.0):
        drawn = 0.0 if rng is None else rng.random()
        return np.array([gain * (state or 0), drawn]), (state or 0) + 1

    module = function_module(count, outputs={"n": VECTOR})
    assert module.inputs == ("frame",) and module.stateful and module.wants_rng
    cases = Cases(["a"], [[np.zeros((4, 4), np.uint8)] * 3])
    answer = single(module, FRAMES).run(cases)["model"].output
    assert answer.tolist() == [[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]
    again = replace(cases, drawn=("pass", 0))
    passes = [single(module, FRAMES).run(again)["model"].output for _ in "ab"]
    assert passes[0][:, 0].tolist() == [0.0, 2.0, 4.0]
    assert len(set(passes[0][:, 1].tolist())) == 3
    np.testing.assert_array_equal(*passes)


def test_passes_are_compared_with_the_answer_made_without_a_generator():
    def wave(x, rng=None):
        return x if rng is None else x + rng.choice([-1.0, 1.0])

    system = single(function_module(wave, outputs={"y": VECTOR}), VECTOR)
    asked = Passes("own", 10, distance="standard_deviation")
    trace = system.run(Cases(["a"], np.zeros((1, 1))), {"model": frozenset({asked})})["model"]
    assert trace.output.tolist() == [[0.0]]
    # Every pass lies one from the answer: sqrt(sum 1^2 / 2T).
    assert trace.columns[asked.column][0, 1] == pytest.approx(np.sqrt(0.5))


def test_every_case_begins_with_the_default_state():
    def seen(frame, state=[]):  # noqa: B006  as people write it
        state.append(1)
        return np.array([float(len(state))]), state

    videos = [[np.zeros((4, 4), np.uint8)] * 2] * 2
    trace = single(function_module(seen, outputs={"n": VECTOR}), FRAMES).run(
        Cases(["a", "b"], videos)
    )
    assert np.asarray(trace["model"].output)[:, 0].tolist() == [1.0, 2.0, 1.0, 2.0]


def loop(max_steps: int = 5) -> System:
    """A speaker who counts what came back, and an echo that ends at three."""

    def speak(goal, heard):
        return "1" if heard is None else str(int(heard) + 1)

    def echo(text):
        return {
            "turn": {"text": text, "outcome": {"n": int(text)}},
            "again": text,
            "done": int(text == "3"),
        }

    return System(
        {
            "speaker": function_module(speak, outputs={"text": TEXT}),
            "echo": function_module(echo, outputs={"turn": EPISODE, "again": TEXT, "done": LABEL}),
        },
        {"speaker.goal": "input", "speaker.heard": "echo.again", "echo.text": "speaker.text"},
        "echo.turn",
        GOAL,
        done="echo.done",
        max_steps=max_steps,
    )


def test_a_wire_from_a_later_module_carries_the_step_before_and_done_ends_the_episode():
    trace = loop().run(Cases(["g"], [{}]))
    assert list(trace["speaker"].output) == ["1", "2", "3"]
    assert trace["system"].output[0] == Episode(
        ({"text": "1"}, {"text": "2"}, {"text": "3"}), {"n": 3}
    )


def test_an_episode_ends_when_its_steps_are_spent():
    assert loop(max_steps=2).run(Cases(["g"], [{}]))["system"].output[0].outcome == {"n": 2}


def test_a_turn_stands_in_the_modules_trace_as_an_episode_of_one_turn():
    assert loop().run(Cases(["g"], [{}]))["echo"].output[1] == Episode(({"text": "2"},), {"n": 2})


def test_a_change_inside_the_loop_changes_what_follows():
    at = {"echo.text": lambda value, case, step: str(int(value) + 1)}
    trace = loop().run(Cases(["g"], [{}]), at=at)
    assert trace["system"].output[0].turns == (
        {"text": "2"},
        {"text": "4"},
        {"text": "6"},
        {"text": "8"},
        {"text": "10"},
    )


def test_a_whole_episode_where_a_turn_was_expected_fails_the_case_with_a_reason():
    system = single(function_module(lambda goal: Episode((), {}), outputs={"turn": EPISODE}), GOAL)
    trace = system.run(Cases(["g"], [{}]))["system"]
    assert "does not join to episode" in trace.error[0]


def test_a_step_that_raises_ends_its_case_and_names_module_and_step():
    def fragile(frame, state):
        if state == 1:
            raise RuntimeError("lost")
        return np.zeros(1), (state or 0) + 1

    system = single(function_module(fragile, outputs={"n": VECTOR}), FRAMES)
    trace = system.run(Cases(["a"], [[np.zeros((4, 4), np.uint8)] * 3]))
    assert trace["system"].error[0] == "model, step 1: RuntimeError: lost"
    assert trace["model"].ok.tolist() == [True, False]


def test_an_unreadable_frame_fails_its_sequence_alone():
    system = single(
        function_module(lambda frame: frame.mean(keepdims=True)[0], outputs={"n": VECTOR}), FRAMES
    )
    sound = [np.zeros((4, 4), np.uint8)] * 2
    broken = [sound[0], Unreadable("000002.png: cut short")]
    trace = system.run(Cases(["a", "b"], [broken, sound]))["system"]
    assert trace.ok.tolist() == [False, True]
    assert "000002.png: cut short" in trace.error[0]


def test_randomness_belongs_to_seed_case_module_and_step_whatever_the_order():
    system = single(function_module(lambda x, rng: rng.random(2), outputs={"y": VECTOR}), VECTOR)
    values = [np.zeros(2)] * 3
    one = np.asarray(system.run(Cases(["a", "b", "c"], values, seed=5))["system"].output)
    other = np.asarray(system.run(Cases(["c", "b", "a"], values, seed=5))["system"].output)
    assert (one == other[::-1]).all()
    assert (
        one != np.asarray(system.run(Cases(["a", "b", "c"], values, seed=6))["system"].output)
    ).all()


def test_the_fingerprint_changes_with_a_wire_a_mark_and_a_setting():
    def made(wire="input", mark="v1", steps=20):
        module = function_module(summed, outputs={"z": VECTOR}, batched=True, mark=mark)
        twice = function_module(doubled, outputs={"y": VECTOR}, batched=True, mark="v1")
        wires = {"twice.x": "input", "add.x": wire, "add.y": "twice.y"}
        return System(
            {"twice": twice, "add": module}, wires, "add.z", VECTOR, max_steps=steps
        ).fingerprint

    prints = {made(), made("twice.y"), made(mark="v2"), made(steps=3)}
    assert len(prints) == 4
    assert made() == made()


def test_ports_know_what_flows_at_them():
    system = loop()
    assert system.ports == ["input", "speaker.goal", "speaker.heard", "echo.text"]
    assert (
        system.kind_at("input"),
        system.kind_at("echo.text"),
        system.kind_at("speaker.heard"),
    ) == (GOAL, TEXT, TEXT)
    assert system.stepwise
    assert not single(function_module(lambda a: "x", outputs={"t": TEXT}), AUDIO).stepwise
