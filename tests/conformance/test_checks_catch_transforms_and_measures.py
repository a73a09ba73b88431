"""For every rule there is a component that breaks it, and the check says so: what all rooms declare, transforms, measures."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roadworthy.cases.transform import Transform
from roadworthy.data.values import Audio, Boxes, Tracks
from roadworthy.measures.scored import Scored

IMAGE_TABLE = {"plain": [{"by": 0.5}]}


def right(outputs, targets, **_):
    answered = [
        o is not None and int(np.argmax(o)) == t for o, t in zip(outputs, targets, strict=True)
    ]
    return Scored.proportion(np.array(answered, dtype=float))


MEASURE = {"of": ("class_scores", "label"), "better": "higher"}


def test_a_sound_measure_breaks_nothing(broken):
    def sound(outputs, targets):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", sound, **MEASURE) == set()


def test_a_missing_docstring(broken):
    def silent(outputs, targets):
        return right(outputs, targets)

    assert broken("measures", silent, **MEASURE) == {"has_a_docstring"}


def test_a_name_in_camel_case(broken):
    def sound(outputs, targets):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", sound, name="TopOne", **MEASURE) == {"name_is_snake_case"}


def test_a_parameter_by_position(broken):
    def loose(outputs, targets, k=1):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", loose, **MEASURE) == {"parameters_are_keyword_only"}


def test_parameters_of_any_name(broken):
    def loose(outputs, targets, **anything):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", loose, **MEASURE) == {"parameters_are_keyword_only"}


def test_a_parameter_without_a_type(broken):
    def loose(outputs, targets, *, k=1):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", loose, **MEASURE) == {"parameters_have_types"}


def test_a_default_that_json_cannot_hold(broken):
    def loose(outputs, targets, *, k: object = np.zeros(2)):
        """Share of right answers."""
        return right(outputs, targets)

    assert broken("measures", loose, **MEASURE) >= {"defaults_can_be_written_in_a_file"}


def image_transform(make: Callable[..., Any]) -> Callable[..., Any]:
    def change(image, rng, *, by: float):
        """Changes pixels."""
        return make(image, rng, by)

    return change


def as_transform(
    broken: Callable[..., set[str]], make: Callable[..., Any], **traits: Any
) -> set[str]:
    return broken(
        "transforms",
        image_transform(make),
        **{"of": "image", "tables": IMAGE_TABLE, "draw": "step", **traits},
    )


def darker(image, rng, by):
    return (image * by).astype(image.dtype)


def test_a_sound_transform_breaks_nothing(broken):
    assert as_transform(broken, darker) == set()


def test_a_kind_or_a_way_of_drawing_that_is_not_known(broken):
    assert as_transform(broken, darker, draw="sometimes") == {"declares_kind_tables_and_draw"}


def test_no_level_to_try_it_at(broken):
    assert as_transform(broken, darker, tables={}) == {"declares_kind_tables_and_draw"}


def test_a_table_with_a_row_that_it_does_not_take(broken):
    tables = {"plain": [{"by": 0.5}, {"bye": 0.5}]}
    assert "declares_kind_tables_and_draw" in as_transform(broken, darker, tables=tables)


def test_a_level_0_that_does_something(broken, monkeypatch):
    monkeypatch.setattr(Transform, "identity", property(lambda self: False))
    assert "level_0_is_the_identity" in as_transform(broken, darker)


def test_an_identity_that_does_something(broken):
    assert as_transform(broken, darker, identity={"by": 1.0}) == set()
    assert as_transform(broken, darker, identity={"by": 0.9}) == {"level_0_is_the_identity"}
    assert "declares_kind_tables_and_draw" in as_transform(broken, darker, identity={"bye": 1.0})


@pytest.mark.parametrize("fault", ["in_place", "fewer", "undeclared", "another_kind"])
def test_targets_that_do_not_come_back_as_they_went_in(broken, fault):
    class Slip:
        def target(self, target):
            if fault == "in_place" and isinstance(target, np.ndarray):
                target[:] = 0
            if fault == "fewer" and isinstance(target, Boxes):
                return Boxes.of([])
            if fault == "another_kind" and isinstance(target, Tracks):
                return Boxes.of(target.xyxy)
            return target.copy() + 1 if isinstance(target, np.ndarray) else target

    def change(image, rng, *, by: float):
        """Changes pixels."""
        return darker(image, rng, by)

    change.move = lambda shape, rng, *, by: Slip()
    traits = {
        "of": "image",
        "tables": IMAGE_TABLE,
        "draw": "case",
        "geometry": fault != "undeclared",
    }
    assert broken("transforms", change, **traits) == {"targets_move_only_with_the_picture"}


def test_another_type(broken):
    assert as_transform(broken, lambda image, rng, by: image.astype(np.float32) / 65535) == {
        "kind_type_and_shape_are_kept"
    }


def test_another_shape(broken):
    assert as_transform(broken, lambda image, rng, by: image[1:]) == {
        "kind_type_and_shape_are_kept"
    }


def test_another_length_where_it_is_declared_but_never_another_type_or_rate(broken):
    def half(audio, rng, *, by: float = 0.5):
        """Every other sample."""
        return Audio(audio.wave[::2], audio.rate)

    def slower(audio, rng, *, by: float = 0.5):
        """Another rate."""
        return Audio(audio.wave, audio.rate // 2)

    audio = {"of": "audio", "tables": {}, "draw": "case"}
    rule = {"kind_type_and_shape_are_kept"}
    assert broken("transforms", half, **audio) == rule
    assert broken("transforms", half, name="declared", changes_shape=True, **audio) == set()
    assert broken("transforms", slower, name="other_rate", changes_shape=True, **audio) == rule


def test_missing_values_where_they_are_not_declared(broken):
    def empty(row, rng, *, at: int = 0):
        """One value is missing."""
        left = row.copy()
        left[at] = np.nan
        return left

    vector = {"of": "vector", "tables": {}, "draw": "step"}
    assert broken("transforms", empty, **vector) == {"kind_type_and_shape_are_kept"}
    assert broken("transforms", empty, name="declared_gap", gives_nan=True, **vector) == set()


def test_colour_that_is_not_expected(broken):
    def grey_only(image, rng, by):
        rows, columns = image.shape
        return image.reshape(rows, columns)

    assert "kind_type_and_shape_are_kept" in as_transform(broken, grey_only)


def test_pixels_beyond_white(broken):
    def brighter(image, rng, by):
        return image + 1 if image.dtype.kind == "f" else image

    assert as_transform(broken, brighter) == {"kind_type_and_shape_are_kept"}


def test_a_wave_beyond_its_range(broken):
    def louder(audio, rng, *, by: float = 9.0):
        """Louder."""
        return Audio(audio.wave * np.float32(by), audio.rate)

    assert broken("transforms", louder, of="audio", tables={}, draw="case") == {
        "kind_type_and_shape_are_kept"
    }


def test_an_input_changed_in_place(broken):
    def in_place(image, rng, by):
        image[0] = 0
        return image.copy()

    assert "input_is_never_changed" in as_transform(broken, in_place)


def test_chance_from_elsewhere(broken):
    elsewhere = itertools.cycle(range(1, 7))  # never the same twice running, as chance sometimes is

    def restless(image, rng, by):
        return np.roll(image, next(elsewhere), axis=0)

    assert "chance_comes_from_the_generator_alone" in as_transform(broken, restless)


def as_measure(
    broken: Callable[..., set[str]], make: Callable[..., Any], **traits: Any
) -> set[str]:
    def measure(outputs, targets):
        """Share of right answers, more or less."""
        return make(outputs, targets)

    return broken("measures", measure, **{**MEASURE, **traits})


def test_kinds_that_are_not_known(broken):
    assert as_measure(broken, right, of=("scores", "label")) == {"declares_kinds_and_direction"}


def test_a_direction_other_than_declared(broken):
    assert "gives_one_error_and_failure_a_case" in as_measure(broken, right, better="lower")


def test_a_bare_number(broken):
    assert "gives_one_error_and_failure_a_case" in as_measure(broken, lambda outputs, targets: 0.5)


def test_silence_that_pays(broken):
    def generous(outputs, targets):
        answered = [
            o is None or int(np.argmax(o)) == t for o, t in zip(outputs, targets, strict=True)
        ]
        return Scored.proportion(np.array(answered, dtype=float))

    assert as_measure(broken, generous) == {"no_answer_is_worst"}


def test_silence_that_is_left_out_of_the_count(broken):
    def of_the_answers(outputs, targets):
        scored = right(outputs, targets)
        answered = np.array([o is not None for o in outputs], dtype=float)
        return Scored.ratio(
            1 - scored.error,
            answered,
            error=scored.error,
            failure=scored.failure,
            better="higher",
            limits=(0, 1),
        )

    assert as_measure(broken, of_the_answers) == {"no_answer_is_worst"}


def test_silence_that_is_forgiven_its_error(broken):
    def mild(outputs, targets):
        error = np.array(
            [
                0.5 if o is None else float(np.argmax(o) != t)
                for o, t in zip(outputs, targets, strict=True)
            ]
        )
        return Scored.ratio(
            error, np.ones(len(error)), error=error, failure=error > 0, better="lower"
        )

    assert "no_answer_is_worst" in as_measure(broken, mild, better="lower")


def test_an_order_that_matters(broken):
    def early(outputs, targets):
        scored = right(outputs, targets)
        weights = 1.0 / np.arange(1, len(scored) + 1)
        return Scored(
            scored.error,
            scored.failure,
            "free",
            lambda w: float(np.dot(w * weights, 1 - scored.error)),
            "higher",
        )

    assert "rows_count_as_if_alone" in as_measure(broken, early)


def test_weights_that_are_ignored(broken):
    def deaf(outputs, targets):
        scored = right(outputs, targets)
        return Scored(
            scored.error,
            scored.failure,
            "free",
            lambda w: float(np.mean(1 - scored.error)) if len(scored) else float("nan"),
            "higher",
            subset=lambda rows: deaf([outputs[i] for i in rows], [targets[i] for i in rows]),
        )

    assert as_measure(broken, deaf) == {"rows_count_as_if_alone"}


def test_rows_that_are_not_measured_as_if_alone(broken):
    def sticky(outputs, targets):
        scored = right(outputs, targets)
        return Scored(
            scored.error,
            scored.failure,
            "free",
            scored.weighted,
            "higher",
            subset=lambda rows: scored,
        )

    assert as_measure(broken, sticky) == {"rows_count_as_if_alone"}


def test_perfect_answers_that_fail(broken):
    def contrary(outputs, targets):
        wrong = [
            o is not None and int(np.argmax(o)) != t for o, t in zip(outputs, targets, strict=True)
        ]
        return Scored.proportion(np.array(wrong, dtype=float))

    assert as_measure(broken, contrary) == {"perfect_answers_are_best"}
