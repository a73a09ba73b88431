"""Every kind of value packs into arrays and comes back, None included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.data import values
from roadworthy.data.values import (
    KINDS,
    TASKS,
    Audio,
    Boxes,
    Episode,
    Tracks,
    Unreadable,
    probabilities,
)

finite = st.floats(-1e6, 1e6, width=32)
words = st.text(max_size=8)
plain = st.dictionaries(words, st.integers() | words | st.booleans() | st.none(), max_size=3)
pixels = st.sampled_from(["uint8", "uint16", "float32"]).flatmap(
    lambda d: hnp.arrays(
        d,
        st.tuples(st.integers(1, 4), st.integers(1, 4))
        | st.tuples(st.integers(1, 4), st.integers(1, 4), st.just(3)),
        elements=st.floats(0, 1, width=32) if d == "float32" else None,
    )
)


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(dtype, shape, elements=finite if dtype[0] == "f" else st.integers(0, 99))


boxes = st.integers(0, 3).flatmap(
    lambda n: st.builds(
        Boxes.of,
        arrays("f8", (n, 4)),
        arrays("i8", (n,)),
        arrays("f8", (n,)),
        st.none() | hnp.arrays("bool", (n,)),
    )
)
tracks = st.integers(0, 3).flatmap(
    lambda n: st.builds(Tracks.of, arrays("i8", (n,)), arrays("i8", (n,)), arrays("f8", (n, 4)))
)
ITEMS: dict[str, st.SearchStrategy[Any]] = {
    "class_scores": arrays("f4", (3,)),
    "vector": arrays("f4", (2,)),
    "label": st.integers(0, 9),
    "distribution": st.sampled_from([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]).map(
        lambda row: np.array(row, dtype=np.float32)
    ),
    "boxes": boxes,
    "tracks": tracks,
    "text": st.text(),
    "goal": plain,
    "episode": st.builds(Episode, st.lists(plain, max_size=3).map(tuple), plain),
    "image": pixels,
    "mask": st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(lambda s: arrays("u1", s)),
    "frames": st.lists(pixels, min_size=1, max_size=3),
    "images": st.lists(pixels, min_size=0, max_size=3),
    "audio": st.builds(
        Audio,
        st.sampled_from([(1,), (5,), (3, 1), (4, 2), (2, 6)]).flatmap(lambda s: arrays("f4", s)),
        st.integers(1, 48000),
    ),
}
EMPTY: dict[str, Any] = {"label": -1, "boxes": Boxes.of([]), "tracks": Tracks.of([], [], [])}


def same(one: Any, other: Any) -> bool:
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, f), getattr(other, f)) for f in one.__dataclass_fields__)
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and np.array_equal(
            one, other, equal_nan=one.dtype.kind == "f"
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_every_kind_is_tried_here() -> None:
    assert set(ITEMS) == set(KINDS)
    assert {t.input for t in TASKS.values()} | {t.output for t in TASKS.values()} <= set(
        KINDS.values()
    )


@pytest.mark.parametrize("name", sorted(ITEMS))
@given(draw=st.data())
def test_items_come_back_as_they_were_packed(name: str, draw: st.DataObject) -> None:
    kind = KINDS[name]
    items = draw.draw(st.lists(ITEMS[name] | st.none(), min_size=1, max_size=5))
    back = list(kind.unpack(kind.pack(items)))
    assert len(back) == len(items)
    for item, found in zip(items, back, strict=True):
        if item is not None:
            assert same(np.asarray(item) if isinstance(item, np.ndarray) else item, found)
        elif kind in (values.CLASS_SCORES, values.VECTOR, values.DISTRIBUTION):
            assert np.isnan(found).all()
        else:
            assert same(EMPTY[name], found) if name in EMPTY else found is None


@pytest.mark.parametrize("name", sorted(ITEMS))
@given(draw=st.data())
def test_sound_items_have_no_problem_and_a_stranger_has_one(name: str, draw: st.DataObject) -> None:
    item = draw.draw(ITEMS[name])
    if name == "boxes":
        item = Boxes.of(
            np.sort(item.xyxy.reshape(-1, 2, 2), axis=1).reshape(-1, 4), item.labels, item.scores
        )
    if name == "tracks":
        item = Tracks.of(
            item.step,
            np.arange(len(item)),
            np.sort(item.xyxy.reshape(-1, 2, 2), axis=1).reshape(-1, 4),
        )
    assert KINDS[name].problem(item) is None
    stranger = 3 if name == "text" else "text" if name != "frames" else ["text"]
    assert KINDS[name].problem(stranger) is not None


def test_boxes_packed_before_they_could_be_ignored_are_still_read() -> None:
    parts = values.BOXES.pack([Boxes.of([[0, 0, 2, 2]], ignore=[True]), None])
    del parts["ignore"]
    found, none = values.BOXES.unpack(parts)
    assert found.ignore.tolist() == [False] and len(none) == 0 and none.ignore.dtype == bool


def test_marks_to_ignore_are_read_from_a_dict_and_must_be_as_many_as_boxes() -> None:
    read = values.BOXES.read({"boxes": [[0, 0, 2, 2], [1, 1, 2, 2]], "ignore": [0, 1]})
    assert read.ignore.tolist() == [False, True]
    short = Boxes.of([[0, 0, 2, 2]], ignore=[True, False])
    assert values.BOXES.problem(short) == "has 1 boxes, 1 labels, 1 scores and 2 marks to ignore"


def test_an_unreadable_image_says_why() -> None:
    assert (
        values.IMAGE.problem(Unreadable("a.png: cut short"))
        == "could not be read: a.png: cut short"
    )


@pytest.mark.parametrize(
    ("wave", "sentence"),
    [
        (np.zeros((2, 48000), np.float32), "(samples,) or (samples, channels)"),
        (np.zeros((2, 3, 4), np.float32), "(samples,) or (samples, channels)"),
        (np.zeros((0, 2), np.float32), "(samples,) or (samples, channels)"),
        (np.zeros(5, np.int16), "floats from -1 to 1"),
        (np.array([[0.1, np.nan]], np.float32), "NaN"),
    ],
)
def test_a_wave_of_another_form_is_refused(wave: np.ndarray, sentence: str) -> None:
    assert sentence in str(values.AUDIO.problem(Audio(wave, 16000)))


@pytest.mark.parametrize(
    "name",
    ["boxes", "tracks", "audio", "text", "goal", "episode", "frames", "image", "label", "mask"],
)
def test_no_items_are_packed_too(name: str) -> None:
    assert len(KINDS[name].unpack(KINDS[name].pack([]))) == 0


def test_steps_join_into_a_case() -> None:
    steps = [
        Tracks.of([0], [4], [[0, 0, 1, 1]]),
        None,
        Tracks.of([0, 0], [4, 5], [[1, 1, 2, 2]] * 2),
    ]
    joined = values.TRACKS.join(steps)
    assert joined.step.tolist() == [0, 2, 2] and joined.ids.tolist() == [4, 4, 5]
    episode = values.EPISODE.join(
        [{"said": "hi"}, None, {"said": "bye", "outcome": {"success": True}}]
    )
    assert episode == Episode(({"said": "hi"}, {"said": "bye"}), {"success": True})
    assert values.TEXT.join(["a", "b"]) == "b" and values.TEXT.join([]) is None


@given(
    hnp.arrays("f8", st.tuples(st.integers(1, 4), st.integers(2, 4)), elements=st.floats(-30, 30))
)
def test_probabilities_are_a_softmax_that_leaves_distributions_alone(logits: np.ndarray) -> None:
    from scipy.special import softmax

    distribution = (logits >= 0).all(axis=1) & (np.abs(logits.sum(axis=1) - 1) < 1e-3)
    expected = np.where(distribution[:, None], logits, softmax(logits, axis=1))
    # Others may be rounded ones: see test_scores.
    plain = distribution | ((logits < -1e-3) | (logits > 1.001)).any(axis=1)
    np.testing.assert_allclose(probabilities(logits)[plain], expected[plain], atol=1e-12)
    sure = softmax(logits, axis=1)
    np.testing.assert_array_equal(probabilities(sure), sure)


def test_tracks_that_name_an_identity_twice_in_a_step_or_turn_a_box_over_are_refused() -> None:
    still = [[0, 0, 2, 2]] * 3
    assert KINDS["tracks"].problem(Tracks.of([0, 1, 1], [7, 7, 8], still)) is None
    assert "twice in one step" in str(
        KINDS["tracks"].problem(Tracks.of([0, 1, 1], [7, 7, 7], still))
    )
    assert "second corner" in str(KINDS["tracks"].problem(Tracks.of([0], [7], [[2, 0, 0, 2]])))


LABELS = np.array([[0, 1, 1, 2], [2, 0, 0, 0], [1, 1, 1, 1], [0, 0, 2, 2]], dtype=np.uint8)
LOGITS = np.where(np.arange(3)[:, None, None] == LABELS, 2.0, -1.0)


@pytest.mark.parametrize(
    "item",
    [
        LABELS,
        LABELS.astype(np.int64),
        LABELS.astype(np.float32),
        LABELS.tolist(),
        LABELS[None],
        LABELS[..., None],
        LOGITS,
        LOGITS.transpose(1, 2, 0),
        LOGITS > 0,
    ],
    ids=["u1", "i8", "f4", "list", "1hw", "hw1", "chw", "hwc", "one-hot"],
)
def test_a_mask_is_read_out_of_what_networks_give(item: Any) -> None:
    read = values.MASK.read(item)
    assert read.dtype == np.uint8 and values.MASK.problem(read) is None
    np.testing.assert_array_equal(read, LABELS)


@pytest.mark.parametrize(
    "item",
    [
        np.array([[0.2, 0.9, 0.5]]),
        np.array([[-3.0, 0.2, 0.0]]),
        np.array([[[-3.0, 300.0, 0.0]]]),
        np.array([[False, True, False]]),
        np.array([[0, 255, 0]], dtype=np.uint8),
    ],
    ids=["probabilities", "logits", "large logits", "truth values", "0 and 255"],
)
def test_one_channel_becomes_the_classes_0_and_1(item: Any) -> None:
    read = values.MASK.read(item)
    assert read.dtype == np.uint8 and read.tolist() == [[0, 1, 0]]


def test_scores_of_256_classes_and_more_are_read() -> None:
    scores = np.zeros((400, 500, 300), np.float32)
    scores[..., 299] = 1
    assert values.MASK.read(scores).max() == 299
    assert values.MASK.read(np.array([[0, 3, 255]])).tolist() == [[0, 3, 255]]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (np.full((3, 4, 5), np.nan), "has NaN or infinite class scores"),
        (np.array([[0.1, np.inf]]), "has NaN or infinite class scores"),
        (np.zeros((8, 8, 3), np.uint8), "is ndarray of shape (8, 8, 3); a mask is a class index"),
        (np.zeros(4), "is ndarray of shape (4,); a mask is a class index"),
        (np.array([[0, -1]]), "has a class index below 0"),
        (np.zeros((0, 4), np.uint8), "has no pixels"),
        ("a.png", "is str; a mask is a class index"),
        (Unreadable("a.png: cut short"), "could not be read: a.png: cut short"),
    ],
)
def test_what_is_no_mask_is_refused(item: Any, reason: str) -> None:
    assert str(values.MASK.problem(values.MASK.read(item))).startswith(reason)
