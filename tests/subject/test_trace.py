"""A trace comes back from disk as it was written, whole or not at all."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.values import (
    AUDIO,
    BOXES,
    CLASS_SCORES,
    EPISODE,
    FRAMES,
    GOAL,
    IMAGE,
    LABEL,
    TEXT,
    TRACKS,
    VECTOR,
    Audio,
    Boxes,
    Episode,
    Tracks,
)
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.system import Cases, System
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace, concatenate, is_whole, link_chunk

ITEMS = {
    CLASS_SCORES: np.array([0.25, 0.75], np.float32),
    VECTOR: np.array([1.5], np.float32),
    LABEL: 3,
    BOXES: Boxes.of([[0, 0, 2, 2]], scores=[0.5]),
    TRACKS: Tracks.of([0], [7], [[0, 0, 2, 2]]),
    TEXT: "grüß Gott",
    GOAL: {"area": "north"},
    EPISODE: Episode(({"said": "hi"},), {"n": 1}),
    IMAGE: np.arange(12, dtype=np.uint8).reshape(3, 4),
    FRAMES: [np.zeros((3, 4), np.uint8), np.ones((3, 4), np.uint8)],
    AUDIO: Audio(np.linspace(-1, 1, 5, dtype=np.float32), 8000),
}


def rows(kind, items, errors=None, **columns) -> ModuleTrace:
    n = len(items)
    error = np.array([*(errors or [None] * n), None], dtype=object)[:-1]
    case = np.array([f"c{i}" for i in range(n)], dtype=object)
    return ModuleTrace(case, np.zeros(n, np.int32), error, np.full(n, 0.5), kind, items, columns)


def same(a, b) -> bool:
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dataclass_fields__") and not isinstance(a, Episode):
        return all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return bool(a == b)


@pytest.mark.parametrize("kind", ITEMS, ids=lambda k: k.name)
def test_every_kind_comes_back_and_failed_rows_stay_with_their_reason(kind, tmp_path):
    items = [ITEMS[kind], None, ITEMS[kind]]
    Trace({"m": rows(kind, items, [None, "it broke", None])}).write(tmp_path / "chunk")
    found = Trace.read(tmp_path / "chunk")["m"]
    assert found.kind is kind
    assert found.ok.tolist() == [True, False, True]
    assert found.error.tolist() == [None, "it broke", None]
    assert found.case.tolist() == ["c0", "c1", "c2"]
    assert same(ITEMS[kind], found.output[0])
    assert same(ITEMS[kind], found.output[2])


def test_dense_columns_are_mapped_not_read(tmp_path):
    layer = np.arange(6, dtype=np.float32).reshape(3, 2)
    scores = np.full((3, 2), 0.5, np.float32)
    Trace({"m": rows(CLASS_SCORES, scores, **{"layer.fc1": layer})}).write(tmp_path / "chunk")
    found = Trace.read(tmp_path / "chunk")["m"]
    assert isinstance(found.output, np.memmap)
    assert isinstance(found.columns["layer.fc1"], np.memmap)
    assert (found.columns["layer.fc1"] == layer).all()


def test_the_systems_time_and_failures_are_its_own_though_its_output_is_written_once(tmp_path):
    def failing(x):
        if x[0] == 2:
            raise ValueError("after the answer")
        return x

    system = System(
        {
            "answer": function_module(lambda x: x + 1, outputs={"y": VECTOR}),
            "check": function_module(failing, outputs={"z": VECTOR}),
        },
        {"answer.x": "input", "check.x": "input"},
        "answer.y",
        VECTOR,
    )
    batched = System(
        {name: function_module(lambda x, f=m.function: [f(v) for v in x], outputs=dict(m.outputs), batched=True)
         for name, m in system.modules.items()},
        system.wires, system.output, VECTOR,
    )  # fmt: skip
    trace = batched.run(Cases(["a", "b"], [np.array([1.0]), np.array([2.0])]))
    trace.write(tmp_path / "chunk")
    found = Trace.read(tmp_path / "chunk")
    assert not list((tmp_path / "chunk").glob("system.output.*"))
    assert found["answer"].ok.tolist() == [True, True]
    assert found[SYSTEM].ok.tolist() == [True, False]
    assert found[SYSTEM].seconds == pytest.approx(trace[SYSTEM].seconds.astype(np.float32))
    assert found[SYSTEM].output[0].tolist() == [2.0]


def test_a_chunk_that_misses_a_byte_or_a_file_is_not_whole(tmp_path):
    Trace({"m": rows(CLASS_SCORES, np.full((3, 2), 0.5, np.float32))}).write(tmp_path / "chunk")
    assert is_whole(tmp_path / "chunk")
    values = tmp_path / "chunk" / "m.output.values.npy"
    content = values.read_bytes()
    values.write_bytes(content[:-1])
    assert not is_whole(tmp_path / "chunk")
    with pytest.raises(
        ValueError, match=r"m\.output\.values\.npy is missing or has not the \d+ bytes"
    ):
        Trace.read(tmp_path / "chunk")
    values.unlink()
    assert not is_whole(tmp_path / "chunk")
    assert not is_whole(tmp_path / "nowhere")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="No space left"):
        Trace({"m": rows(CLASS_SCORES, np.full((3, 2), 0.5, np.float32))}).write(tmp_path / "chunk")
    assert list(tmp_path.iterdir()) == []


def test_a_chunk_written_twice_stays_as_it_was_first(tmp_path):
    trace = Trace({"m": rows(TEXT, ["a", "b"])})
    trace.write(tmp_path / "chunk")
    trace.write(tmp_path / "chunk")
    assert [p.name for p in tmp_path.iterdir()] == ["chunk"]


def test_chunks_concatenate_to_what_one_chunk_would_hold():
    scores = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    whole = rows(CLASS_SCORES, scores, **{"layer.a": scores * 2})
    parts = [
        rows(CLASS_SCORES, scores[s], **{"layer.a": scores[s] * 2})
        for s in (slice(0, 2), slice(2, 5))
    ]
    joined = concatenate(parts)
    assert (joined.output == whole.output).all()
    assert (joined.columns["layer.a"] == whole.columns["layer.a"]).all()
    assert len(joined) == 5


def failed(n: int, output: object, **columns: np.ndarray) -> ModuleTrace:
    nothing = rows(CLASS_SCORES, output, **columns)
    return replace(nothing, error=np.array(["no answer"] * n, dtype=object))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_chunk_in_which_nobody_answered_takes_no_column_away(place):
    scores = np.random.default_rng(0).random((4, 3)).astype(np.float16)
    sound = [
        rows(CLASS_SCORES, scores[s], **{"layer.a": scores[s], "own": scores[s, 0]})
        for s in (slice(2), slice(2, 4))
    ]
    parts = [
        *sound[:place],
        failed(2, np.zeros((2, 0), np.float32), own=np.full(2, np.nan)),
        *sound[place:],
    ]
    joined = concatenate(parts)
    kept = np.delete(np.arange(6), [2 * place, 2 * place + 1])
    for found in (joined.output, joined.columns["layer.a"], joined.columns["own"][:, None]):
        assert np.isnan(np.delete(found, kept, axis=0)).all()
    assert joined.columns["layer.a"].dtype == joined.output.dtype == np.float16
    np.testing.assert_array_equal(joined.columns["layer.a"][kept], scores)
    np.testing.assert_array_equal(joined.columns["own"][kept], scores[:, 0])


def test_a_column_that_a_chunk_with_answers_lacks_is_not_made_up():
    scores = np.ones((2, 3), np.float32)
    assert (
        concatenate([rows(CLASS_SCORES, scores, a=scores), rows(CLASS_SCORES, scores)]).columns
        == {}
    )


def test_answers_of_changing_length_are_refused_by_a_sentence(tmp_path):
    with pytest.raises(
        SubjectError, match="module 'm' gave a vector of length 1 and one of length 3; every case"
    ):
        Trace({"m": rows(VECTOR, [np.ones(3), np.ones(1)])}).write(tmp_path / "chunk")
    with pytest.raises(
        SubjectError, match="the subject gave a vector of length 1 and one of length 3"
    ):
        concatenate([rows(VECTOR, np.ones((2, 3))), rows(VECTOR, np.ones((2, 1)))])


def test_a_linked_chunk_survives_the_loss_of_the_first(tmp_path: Path):
    import shutil

    Trace({"m": rows(TEXT, ["a"])}).write(tmp_path / "chunk")
    link_chunk(tmp_path / "chunk", tmp_path / "run" / "chunk")
    shutil.rmtree(tmp_path / "chunk")
    assert list(Trace.read(tmp_path / "run" / "chunk")["m"].output) == ["a"]
