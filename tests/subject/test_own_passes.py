"""A module that draws from its rng is asked again with all else fixed; so is a whole system. Compared with plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES, EPISODE, FRAMES, GOAL, LABEL, TEXT, VECTOR
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.needs import Layer, Output, Passes
from roadworthy.subject.passes import Summary, variation
from roadworthy.subject.system import Cases, System, single

SEED = 7
REQUEST = Passes("own", 4, distance="standard_deviation")
COLUMN = REQUEST.column


def noisy(x, rng):
    return np.asarray(x) + rng.normal(size=2)


def noisy_columns(x, rng):
    return [np.asarray(v) + r.normal(size=2) for v, r in zip(x, rng, strict=True)]


def cases(n: int = 3) -> Cases:
    return Cases([f"c{i}" for i in range(n)], [np.full(2, float(i)) for i in range(n)], SEED)


def system_of(function, *, batched: bool = False) -> System:
    return single(function_module(function, outputs={"y": VECTOR}, batched=batched), VECTOR)


def expected(function, inputs, ids, n: int, *, name: str = "model", step: int = 0) -> np.ndarray:
    """The function called directly, once for the answer and n times more."""
    answer = [function(x, generator(SEED, i, name, step)) for x, i in zip(inputs, ids, strict=True)]
    passes = [
        np.array(
            [
                function(x, generator(SEED, i, name, step, "pass", k))
                for x, i in zip(inputs, ids, strict=True)
            ]
        )
        for k in range(n)
    ]
    as_kept = np.array(answer, dtype=np.float32), [p.astype(np.float32) for p in passes]
    return variation("standard_deviation", VECTOR, *as_kept)


@pytest.mark.parametrize("batched", [True, False])
def test_passes_are_what_the_function_gives_with_generators_of_their_own(batched):
    system = system_of(noisy_columns if batched else noisy, batched=batched)
    given = cases()
    trace = system.run(given, {"model": frozenset({REQUEST})})
    np.testing.assert_allclose(
        trace["model"].columns[COLUMN], expected(noisy, given.inputs, given.ids, 4), rtol=1e-6
    )


@pytest.mark.parametrize("batched", [True, False])
def test_the_answer_stays_what_it_is_without_the_request(batched):
    system = system_of(noisy_columns if batched else noisy, batched=batched)
    plain = system.run(cases())["model"].output
    np.testing.assert_array_equal(
        system.run(cases(), {"model": frozenset({REQUEST})})["model"].output, plain
    )
    # and it is the same whether a function takes columns or single cases
    np.testing.assert_array_equal(system_of(noisy).run(cases())["model"].output, plain)


@pytest.mark.parametrize("batched", [True, False])
def test_neither_order_nor_chunks_change_a_pass(batched):
    system, whole = system_of(noisy_columns if batched else noisy, batched=batched), cases(5)
    ratios = system.run(whole, {"model": frozenset({REQUEST})})["model"].columns[COLUMN]
    order = [4, 1]
    some = Cases([whole.ids[i] for i in order], [whole.inputs[i] for i in order], SEED)
    np.testing.assert_allclose(
        system.run(some, {"model": frozenset({REQUEST})})["model"].columns[COLUMN], ratios[order]
    )


def test_requests_share_their_passes_and_fewer_are_the_first_of_more():
    calls = []

    def counted(x, rng):
        calls.append(1)
        return noisy(x, rng)

    wanted = frozenset(
        {
            REQUEST,
            Passes("own", 2, distance="standard_deviation"),
            Passes("own", 3, distance="cosine"),
        }
    )
    columns = system_of(counted).run(cases(2), {"model": wanted})["model"].columns
    assert len(calls) == 2 * (1 + 4)
    assert sorted(columns) == sorted(r.column for r in wanted)
    alone = system_of(noisy).run(
        cases(2), {"model": frozenset({Passes("own", 2, distance="standard_deviation")})}
    )
    column = Passes("own", 2, distance="standard_deviation").column
    np.testing.assert_array_equal(columns[column], alone["model"].columns[column])


@pytest.mark.parametrize("batched", [True, False])
def test_without_a_distance_class_scores_are_summarised(batched):
    def scores(x, rng):
        return np.asarray(x)[0] * np.eye(3)[0] + rng.normal(size=3)

    def columns(x, rng):
        return np.stack([scores(v, r) for v, r in zip(x, rng, strict=True)])

    module = function_module(
        columns if batched else scores, outputs={"y": CLASS_SCORES}, batched=batched
    )
    request = Passes("own", 5)
    trace = single(module, VECTOR).run(cases(), {"model": frozenset({request})})["model"]
    summary = Summary.unpack(trace.columns[request.column])
    votes = np.zeros((3, 3))
    for row, case in enumerate(cases().ids):
        for k in range(5):
            votes[
                row, scores(np.full(2, row), generator(SEED, case, "model", 0, "pass", k)).argmax()
            ] += 1
    np.testing.assert_array_equal(summary.votes, votes)


def walk(frame, state, rng):
    """Remembers where it is, in a list that it changes in place."""
    place = [0.0] if state is None else state
    place[0] += float(frame.mean()) + rng.normal()
    return np.array([place[0], 1.0]), place


def walker() -> System:
    return System(
        {"walk": function_module(walk, outputs={"y": VECTOR})},
        {"walk.frame": "input"},
        "walk.y",
        FRAMES,
    )


def test_each_pass_of_a_step_starts_from_the_state_of_the_answer_and_its_own_is_dropped():
    frames = [np.full((2, 2), v, dtype=np.uint8) for v in (1, 2, 3)]
    given = Cases(["a"], [frames], SEED)
    plain = walker().run(given)["walk"]
    trace = walker().run(given, {"walk": frozenset({REQUEST})})["walk"]
    np.testing.assert_array_equal(trace.output, plain.output)
    place = 0.0
    for step, frame in enumerate(frames):

        def at(names, place=place, frame=frame, step=step):
            moved = (
                place + float(frame.mean()) + generator(SEED, "a", "walk", step, *names).normal()
            )
            return np.array([[moved, 1.0]], dtype=np.float32)

        passes = [at(("pass", k)) for k in range(4)]
        np.testing.assert_allclose(
            trace.columns[COLUMN][step],
            variation("standard_deviation", VECTOR, at(()), passes)[0],
            rtol=1e-5,
        )
        place += float(frame.mean()) + generator(SEED, "a", "walk", step).normal()


def test_a_state_that_cannot_be_copied_stops_the_run_with_a_reason():
    def keep(frame, state, rng):
        return np.zeros(2), (i for i in range(3))

    system = System(
        {"keep": function_module(keep, outputs={"y": VECTOR})},
        {"keep.frame": "input"},
        "keep.y",
        FRAMES,
    )
    given = Cases(["a"], [[np.zeros((2, 2), np.uint8)] * 2], SEED)
    assert system.run(given)["system"].ok.all()
    with pytest.raises(SubjectError, match="the state of module 'keep' cannot be copied"):
        system.run(given, {"keep": frozenset({REQUEST})})


@pytest.mark.parametrize("batched", [True, False])
def test_passes_that_fail_and_cases_that_fail_stay_apart(batched):
    def fragile(x, rng):
        if np.asarray(x)[0] == 1:
            raise ValueError("never")
        if np.asarray(x)[0] == 2 and rng.random() < 0.5:
            raise ValueError("sometimes")
        return "fine"

    def columns(x, rng):
        return [fragile(v, r) for v, r in zip(x, rng, strict=True)]

    module = function_module(
        columns if batched else fragile, outputs={"said": TEXT}, batched=batched
    )
    request = Passes("own", 9, distance="auto")
    seed = next(s for s in range(99) if generator(s, "c2", "model", 0).random() >= 0.5)
    trace = single(module, VECTOR).run(
        replace(cases(), seed=seed), {"model": frozenset({request})}
    )["model"]
    lost = sum(generator(seed, "c2", "model", 0, "pass", k).random() < 0.5 for k in range(9))
    assert 0 < lost < 9
    assert trace.ok.tolist() == [True, False, True]
    ratios = trace.columns[request.column]
    assert ratios[0].tolist() == [0.0, 0.0]
    assert np.isnan(ratios[1]).all()
    np.testing.assert_allclose(ratios[2], [lost * (9 - lost) / 36, lost / 9])


def test_a_function_without_rng_refuses_with_the_remedy():
    plain = function_module(lambda x: x, outputs={"y": VECTOR})
    assert "takes no rng" in plain.offers(REQUEST)
    assert "give it an argument rng" in plain.offers(REQUEST)
    drawing = function_module(noisy, outputs={"y": VECTOR})
    assert drawing.offers(REQUEST) is None
    assert "kind: own" in drawing.offers(Passes("dropout", 10))
    assert "shows no layers" in drawing.offers(Layer("fc1"))


def talk(*, unassessed: bool = True) -> System:
    """A user who asks in words that are drawn, and an answerer that mishears sometimes."""

    def ask(goal, rng):
        return ["please ", ""][int(rng.integers(2))] + goal["wish"]

    def answer(heard, rng):
        word = heard.split()[-1] if rng.random() < 0.5 else "what"
        return {
            "turn": {"heard": heard, "said": word, "outcome": {"wish": word}},
            "done": int(word != "what"),
        }

    return System(
        {
            "user": function_module(ask, outputs={"said": TEXT}),
            "bot": function_module(answer, outputs={"turn": EPISODE, "done": LABEL}),
        },
        {"user.goal": "input", "bot.heard": "user.said"},
        "bot.turn",
        GOAL,
        done="bot.done",
        max_steps=4,
        unassessed=frozenset({"user"} if unassessed else ()),
    )


def played(case: str, wish: str, drawn: tuple) -> list[str]:
    """The same by hand: the user's generators never change."""
    said = []
    for step in range(4):
        polite = ["please ", ""][int(generator(SEED, case, "user", step).integers(2))]
        word = wish if generator(SEED, case, "bot", step, *drawn).random() < 0.5 else "what"
        said.append(f"{polite}{wish}>{word}")
        if word != "what":
            break
    return said


def test_a_pass_of_a_system_runs_the_case_again_and_leaves_the_user_as_he_is():
    system, ids = talk(), ["a", "b", "c"]
    given = Cases(ids, [{"wish": w} for w in ("tea", "milk", "tea")], SEED)
    request = Passes("own", 5, distance="auto")
    trace = system.run(given, {"system": frozenset({request})})

    def told(episode):
        return [f"{t['heard']}>{t['said']}" for t in episode.turns]

    def episodes(drawn):
        return system.run(replace(given, drawn=drawn))["system"].output

    for drawn in [(), *(("pass", k) for k in range(5))]:
        for case, goal, episode in zip(ids, given.inputs, episodes(drawn), strict=True):
            assert told(episode) == played(case, goal["wish"], drawn)
    passes = [episodes(("pass", k)) for k in range(5)]
    ratios = variation("auto", EPISODE, episodes(()), passes)
    np.testing.assert_array_equal(trace["system"].columns[request.column], ratios)
    assert ratios.max() > 0
    assert request.column not in trace["bot"].columns


def test_passes_of_a_system_of_one_module_are_those_of_the_module():
    for batched in (True, False):
        system = system_of(noisy_columns if batched else noisy, batched=batched)
        wanted = frozenset({REQUEST})
        trace = system.run(cases(), {"model": wanted, "system": wanted})
        np.testing.assert_allclose(trace["system"].columns[COLUMN], trace["model"].columns[COLUMN])


def test_what_changes_a_port_changes_it_alike_in_every_pass():
    seen = []

    def change(value, case, step):
        seen.append(case)
        return value + 100

    system = system_of(lambda x, rng: np.round(x, -1))
    trace = system.run(cases(1), {"system": frozenset({REQUEST})}, {"model.x": change})
    assert seen == ["c0"] * 5
    assert trace["system"].columns[COLUMN].tolist() == [[0.0, 0.0]]


def test_a_system_offers_passes_where_a_module_that_is_assessed_draws():
    assert talk().offers(REQUEST) is None
    assert talk().offers(Output()) is None
    assert "name one of its modules: bot" in talk().offers(Layer("fc1"))
    assert "has no dropout passes" in talk().offers(Passes("dropout", 10))
    still = system_of(lambda x: x)
    assert "takes no rng" in still.offers(REQUEST)
    with pytest.raises(SubjectError, match="name one of its modules"):
        talk().run(Cases(["a"], [{"wish": "tea"}], SEED), {"system": frozenset({Layer("fc1")})})


def test_no_module_can_be_called_system():
    with pytest.raises(SubjectError, match="rename it"):
        single(function_module(noisy, outputs={"y": VECTOR}), VECTOR, name="system")


def test_ratios_come_back_from_a_chunk(tmp_path):
    wanted = frozenset({REQUEST})
    trace = system_of(noisy_columns, batched=True).run(cases(), {"model": wanted, "system": wanted})
    trace.write(tmp_path / "chunk")
    again = type(trace).read(tmp_path / "chunk")
    for name in ("model", "system"):
        np.testing.assert_array_equal(again[name].columns[COLUMN], trace[name].columns[COLUMN])


def test_vectors_of_changing_length_have_no_ratio_and_keep_their_answers():
    def ragged(x, rng):
        return np.zeros(int(rng.integers(1, 9)))

    trace = system_of(ragged).run(cases(), {"model": frozenset({REQUEST})})["model"]
    assert trace.ok.all() and [len(o) for o in trace.output] == [
        len(ragged(0, generator(SEED, f"c{i}", "model", 0))) for i in range(3)
    ]
    assert np.isnan(trace.columns[COLUMN]).all()


@pytest.mark.parametrize("batched", [True, False])
def test_every_pass_starts_from_the_inputs_that_the_answer_started_from(batched):
    def in_place(x, rng):
        x += rng.normal(size=2)
        return x

    def columns(x, rng):
        return [in_place(v, r) for v, r in zip(x, rng, strict=True)]

    given = cases()
    trace = system_of(columns if batched else in_place, batched=batched).run(
        given, {"model": frozenset({REQUEST})}
    )
    fresh = cases().inputs
    np.testing.assert_array_equal(given.inputs, fresh)
    np.testing.assert_allclose(
        trace["model"].columns[COLUMN], expected(noisy, fresh, given.ids, 4), rtol=1e-6
    )


@pytest.mark.parametrize("request_", [REQUEST, Passes("own", 3)])
def test_where_nobody_answers_the_cases_fail_and_the_run_goes_on(request_):
    def silent(x, rng):
        raise ValueError("nothing")

    module = function_module(silent, outputs={"y": CLASS_SCORES}, batched=True)
    trace = single(module, VECTOR).run(cases(), {"model": frozenset({request_})})["model"]
    assert list(trace.error) == ["ValueError: nothing"] * 3
    assert all(np.isnan(column).all() for column in trace.columns.values())
