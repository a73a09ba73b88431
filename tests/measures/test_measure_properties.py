"""Rules that hold for every measure: order does not matter, silence never helps, perfect is best, a weight is a repetition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import KINDS, Boxes, Episode, Tracks
from roadworthy.measures import for_values
from roadworthy.measures.scored import Scored
from roadworthy.registry import components, get

Cases = tuple[list[Any], list[Any]]


class Kindred(NamedTuple):
    """How to draw cases of one pair of kinds, and the perfect answer to a target."""

    draw: Callable[[np.random.Generator, int], Cases]
    perfect: Callable[[Any], Any]


def class_scores(rng: np.random.Generator, n: int) -> Cases:
    return list(rng.random((n, 3))), rng.integers(0, 3, n).tolist()


def split_labels(rng: np.random.Generator, n: int) -> Cases:
    return list(rng.random((n, 3))), list(rng.dirichlet(np.full(3, 0.5), n))


def vectors(rng: np.random.Generator, n: int) -> Cases:
    return list(rng.normal(0, 2, (n, 2))), list(rng.normal(0, 2, (n, 2)))


def some_boxes(rng: np.random.Generator, n: int) -> np.ndarray:
    corner = rng.integers(0, 12, (n, 2)).astype(float)
    return np.hstack([corner, corner + rng.integers(4, 9, (n, 2))])


def boxes(rng: np.random.Generator, n: int) -> Cases:
    found, truth = [], []
    for at in range(n):
        a, b = int(rng.integers(0, 6)), int(rng.integers(0, 4))
        scale = (1, 8, 25)[at % 3]  # small, medium and large objects
        truth.append(Boxes.of(scale * some_boxes(rng, b), rng.integers(0, 2, b)))
        hit = rng.random(b) < 0.7
        corners = np.vstack([truth[-1].xyxy[hit], scale * some_boxes(rng, a)])
        labels = np.concatenate([truth[-1].labels[hit], rng.integers(0, 2, a)])
        # Scores of one decimal: ties are the hard case.
        found.append(Boxes.of(corners, labels, rng.integers(0, 10, len(corners)) / 10))
    return found, truth


def untied(outputs: list[Any]) -> list[Any]:
    """The same without equal scores of boxes, which COCO takes in the order of the cases."""
    return [
        replace(o, scores=o.scores + 1e-6 * (at + np.arange(len(o)) / 100))
        if isinstance(o, Boxes)
        else o
        for at, o in enumerate(outputs)
    ]


def some_tracks(rng: np.random.Generator) -> Tracks:
    present = np.argwhere(rng.random((4, 3)) < rng.choice([0.0, 0.6], p=[0.2, 0.8]))
    home = np.array([[0, 0, 6, 6], [4, 2, 10, 8], [20, 20, 26, 26]], dtype=float)
    jitter = np.tile(rng.integers(-1, 2, (len(present), 2)), 2)
    return Tracks.of(present[:, 0], present[:, 1], home[present[:, 1]] + jitter)


def tracks(rng: np.random.Generator, n: int) -> Cases:
    return [some_tracks(rng) for _ in range(n)], [some_tracks(rng) for _ in range(n)]


def texts(rng: np.random.Generator, n: int) -> Cases:
    def text(least: int) -> str:
        return " ".join(rng.choice(["yes", "no", "maybe", "never"], int(rng.integers(least, 6))))

    return [text(0) for _ in range(n)], [text(0) for _ in range(n)]


def episodes(rng: np.random.Generator, n: int) -> Cases:
    def values() -> dict[str, Any]:
        return {"area": str(rng.choice(["north", "south"])), "stars": int(rng.integers(1, 3))}

    return [Episode(({},) * int(rng.integers(1, 5)), values()) for _ in range(n)], [
        values() for _ in range(n)
    ]


def masks(rng: np.random.Generator, n: int) -> Cases:
    truth = rng.choice([0, 1, 2, 255], p=[0.5, 0.2, 0.2, 0.1], size=(n, 3, 4))
    truth[rng.random(n) < 0.2] = 0
    return list(np.where(rng.random(truth.shape) < 0.6, truth % 255, 1)), list(truth)


KINDRED = {
    ("class_scores", "label"): Kindred(class_scores, lambda label: np.eye(3)[label]),
    ("class_scores", "distribution"): Kindred(split_labels, lambda label: label),
    ("vector", "vector"): Kindred(vectors, lambda vector: vector),
    ("boxes", "boxes"): Kindred(boxes, lambda truth: truth),
    ("mask", "mask"): Kindred(masks, lambda truth: truth % 255),
    ("tracks", "tracks"): Kindred(tracks, lambda truth: truth),
    ("text", "text"): Kindred(texts, lambda text: text),
    ("episode", "goal"): Kindred(episodes, lambda goal: Episode(({},), goal)),
}
MEASURES = [name for kinds in KINDRED for name in for_values(*kinds)]
each_measure = pytest.mark.parametrize("name", MEASURES)
seeds = st.integers(0, 2**32 - 1)
some_rows = st.sets(st.integers(0, 5))
WITH_A_WORST_ANSWER = [
    "accuracy",
    "error_rate",
    "top_k",
    "balanced_accuracy",
    "top_pair",
    "expected_accuracy",
    "label_distance",
    "recall",
    "success_rate",
    "mask_iou",
    "dice",
]
EMPTY = {"boxes": Boxes.of([]), "tracks": Tracks.of([], [], []), "text": ""}
CAN_BE_EMPTY = [(name, EMPTY[kind]) for kind in EMPTY for name in for_values(kind, kind)]


def drawn(name: str, seed: int, n: int = 6) -> tuple[Callable[..., Scored], Kindred, Cases]:
    component = get("measures", name)
    kindred = KINDRED[component.traits["of"]]
    outputs, targets = kindred.draw(np.random.default_rng(seed), n)
    return component.bind(), kindred, (outputs, targets)


def gain(before: Scored, after: Scored) -> float:
    """How much better the value has become; nothing where it was not defined."""
    gained = after.value() - before.value()
    return 0.0 if np.isnan(before.value()) else gained if before.better == "higher" else -gained


def silenced(outputs: list[Any], rows: Iterable[int]) -> list[Any]:
    return [None if row in set(rows) else output for row, output in enumerate(outputs)]


def answers_have_a_value(
    measure: Callable[..., Scored], outputs: list[Any], targets: list[Any]
) -> bool:
    rows = [i for i, output in enumerate(outputs) if output is not None]
    return bool(
        np.isfinite(measure([outputs[i] for i in rows], [targets[i] for i in rows]).value())
    )


def close(first: float, second: float) -> bool:
    return bool(np.isclose(first, second, rtol=1e-9, atol=1e-12, equal_nan=True))


def test_every_measure_is_of_known_kinds_and_tried_here() -> None:
    for name, component in components("measures").items():
        output, target = component.traits["of"]
        assert output in KINDS and target in KINDS
        assert component.traits["better"] in ("higher", "lower")
        assert component.origin != "roadworthy" or name in MEASURES


@each_measure
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_the_order_of_the_cases_does_not_matter(name: str, seed: int) -> None:
    measure, _, (outputs, targets) = drawn(name, seed)
    outputs = untied([None, *outputs[1:]])
    order = np.random.default_rng(seed).permutation(len(outputs))
    plain = measure(outputs, targets)
    moved = measure([outputs[i] for i in order], [targets[i] for i in order])
    assert close(plain.value(), moved.value())
    assert np.allclose(plain.error[order], moved.error)
    assert (plain.failure[order] == moved.failure).all()


@each_measure
@settings(max_examples=25, deadline=None)
@given(seed=seeds, silent=st.integers(0, 3))
def test_a_case_without_answer_never_improves_the_value_and_is_the_worst_failure(
    name: str, seed: int, silent: int
) -> None:
    measure, kindred, (outputs, targets) = drawn(name, seed)
    outputs[:silent] = [None] * silent
    _, more = kindred.draw(np.random.default_rng(seed + 1), 1)
    before, after = measure(outputs, targets), measure([*outputs, None], [*targets, *more])
    assert after.failure[-1]
    assert after.error[-1] >= after.error.max() - 1e-12
    if answers_have_a_value(measure, outputs, targets):
        assert gain(before, after) <= 1e-9
    assert before.better == get("measures", name).traits["better"]


@each_measure
@settings(max_examples=40, deadline=None)
@given(seed=seeds, first=some_rows, second=some_rows)
def test_silence_gains_nothing_where_an_answer_as_bad_remains(
    name: str, seed: int, first: set[int], second: set[int]
) -> None:
    measure, _, (outputs, targets) = drawn(name, seed)
    twice, truth = outputs + outputs, targets + targets
    before = measure(silenced(twice, {row + 6 for row in first}), truth)
    after = measure(silenced(twice, {row + 6 for row in first | second}), truth)
    assert gain(before, after) <= 1e-9
    assert np.isfinite(after.value()) or np.isnan(before.value())
    assert (after.error >= before.error - 1e-12).all()
    assert (after.failure >= before.failure).all()


@pytest.mark.parametrize("name", WITH_A_WORST_ANSWER)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, first=some_rows, second=some_rows)
def test_silence_gains_nothing_over_any_answer_where_there_is_a_worst_one(
    name: str, seed: int, first: set[int], second: set[int]
) -> None:
    measure, _, (outputs, targets) = drawn(name, seed)
    before = measure(silenced(outputs, first), targets)
    after = measure(silenced(outputs, first | second), targets)
    assert gain(before, after) <= 1e-12
    assert (after.error >= before.error).all()


@each_measure
@settings(max_examples=25, deadline=None)
@given(seed=seeds, perfect=some_rows, rows=some_rows)
def test_silence_gains_nothing_over_a_perfect_answer_and_turns_no_failure_into_a_success(
    name: str, seed: int, perfect: set[int], rows: set[int]
) -> None:
    measure, kindred, (outputs, targets) = drawn(name, seed)
    outputs = [
        kindred.perfect(targets[i]) if i in perfect else output for i, output in enumerate(outputs)
    ]
    before, after = measure(outputs, targets), measure(silenced(outputs, rows & perfect), targets)
    assert (after.error >= before.error - 1e-12).all()
    if answers_have_a_value(measure, silenced(outputs, rows & perfect), targets):
        assert gain(before, after) <= 1e-9
    assert (
        measure(silenced(outputs, rows), targets).failure
        == before.failure | np.isin(range(6), [*rows])
    ).all()


@pytest.mark.parametrize(("name", "empty"), CAN_BE_EMPTY)
def test_silence_on_an_empty_target_is_charged_for(name: str, empty: Any) -> None:
    measure, kindred, (_, targets) = drawn(name, 1)
    targets = [*targets, empty, empty]
    answers = [kindred.perfect(target) for target in targets]
    values = [measure(silenced(answers, rows), targets) for rows in ((), (6,), (6, 7))]
    assert gain(values[0], values[1]) < -1e-3 and gain(values[1], values[2]) < -1e-3
    nothing_there = measure([None, empty], [empty, empty])
    assert gain(values[0], nothing_there) < -1e-3


@each_measure
@settings(max_examples=25, deadline=None)
@given(seed=seeds, rows=some_rows, weights=st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_weights_and_rows_taken_mean_the_same_with_silent_cases(
    name: str, seed: int, rows: set[int], weights: list[int]
) -> None:
    measure, _, (outputs, targets) = drawn(name, seed)
    outputs = silenced(outputs, rows)
    repeated = np.repeat(np.arange(6), weights)
    scored, again = (
        measure(outputs, targets),
        measure([outputs[i] for i in repeated], [targets[i] for i in repeated]),
    )
    taken = scored.take(repeated)
    assert close(scored.value(np.array(weights)), again.value())
    assert close(taken.value(), again.value())
    assert np.allclose(taken.error, again.error) and (taken.failure == again.failure).all()
    scored = measure(untied(outputs), targets)
    assert close(scored.value(np.array(weights) / 2), scored.value(np.array(weights)))


@pytest.mark.parametrize(
    "name", [n for n in MEASURES if get("measures", n).traits.get("compares", True)]
)
@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_perfect_answers_have_no_error_and_the_best_value(name: str, seed: int) -> None:
    measure, kindred, (outputs, targets) = drawn(name, seed)
    perfect = measure([kindred.perfect(t) for t in targets], targets)
    if name != "turns":
        assert not perfect.failure.any()
        assert np.allclose(perfect.error, 0.0)
    drawn_value, best = measure(outputs, targets).value(), perfect.value()
    if np.isfinite(drawn_value) and np.isfinite(best):
        assert best >= drawn_value if perfect.better == "higher" else best <= drawn_value
        edge = perfect.limits[1] if perfect.better == "higher" else perfect.limits[0]
        assert name in ("turns", "ar1", "expected_accuracy") or best == pytest.approx(edge)


@each_measure
@settings(max_examples=25, deadline=None)
@given(seed=seeds, weights=st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_a_weight_counts_as_that_many_repetitions(name: str, seed: int, weights: list[int]) -> None:
    measure, _, (outputs, targets) = drawn(name, seed)
    rows = np.repeat(np.arange(6), weights)
    scored = measure(outputs, targets)
    weighted = scored.value(np.array(weights))
    assert close(weighted, scored.take(rows).value())
    if len(rows):
        repeated = measure([outputs[i] for i in rows], [targets[i] for i in rows])
        assert close(weighted, repeated.value())
        assert (repeated.failure == scored.take(rows).failure).all()


@each_measure
@pytest.mark.parametrize("silent", [(), (0, 4)])
def test_many_weightings_at_once_have_the_values_of_each(name: str, silent: tuple[int]) -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        measure, _, (outputs, targets) = drawn(name, seed)
        scored = measure(silenced(outputs, silent), targets)
        weights = np.vstack([rng.integers(0, 4, (5, 6)), np.zeros(6, dtype=int)])
        rows = np.array([5, 0, 0, 3])
        for one, own in ((scored, weights), (scored.take(rows), weights[:, rows])):
            each = [one.value(row) for row in own]
            assert np.allclose(one.values(own), each, rtol=1e-12, equal_nan=True)


@each_measure
def test_values_stay_within_the_limits_a_measure_declares(name: str) -> None:
    for seed in range(20):
        measure, _, (outputs, targets) = drawn(name, seed)
        scored = measure(outputs, targets)
        assert np.isnan(scored.value()) or scored.limits[0] <= scored.value() <= scored.limits[1]


@each_measure
def test_outputs_and_targets_of_different_number_are_refused(name: str) -> None:
    measure, _, (outputs, targets) = drawn(name, 0)
    with pytest.raises(ValueError, match="6 outputs but 5 targets"):
        measure(outputs, targets[:5])


@each_measure
def test_no_cases_at_all_have_no_value(name: str) -> None:
    measure, _, (outputs, targets) = drawn(name, 0)
    assert np.isnan(measure(outputs[:0], targets[:0]).value())
    assert np.isnan(measure(outputs, targets).value(np.zeros(6)))
    assert len(measure(outputs, targets).take(np.zeros(6, dtype=bool))) == 0


@each_measure
def test_only_silence_is_failure_all_over(name: str) -> None:
    measure, _, (_, targets) = drawn(name, 0)
    scored = measure([None] * 6, targets)
    assert scored.failure.all()
    assert (scored.error > 0).all()
