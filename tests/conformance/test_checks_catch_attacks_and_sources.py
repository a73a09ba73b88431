"""Each rule of attacks and of sources of invalid inputs, broken by a component that was made to break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from roadworthy.cases.adversarial.fgsm import fgsm

TABLE = {"plain": [{"epsilon": 0.05}]}


def as_attack(broken: Callable[..., set[str]], make: Callable[..., Any], **traits: Any) -> set[str]:
    def attack(images, labels, query, rngs, *, epsilon: float):
        """Changes pixels."""
        return make(images, labels, query, rngs, epsilon)

    return broken("attacks", attack, **{"of": "image", "tables": TABLE, **traits})


def one_step(images, labels, query, rngs, epsilon):
    return fgsm(images, labels, query, rngs, epsilon=epsilon)


def test_a_sound_attack_breaks_nothing(broken):
    assert as_attack(broken, one_step) == set()


def test_levels_that_it_does_not_take_or_none_at_all(broken):
    assert "declares_valid_levels" in as_attack(broken, one_step, tables={"plain": [{"eps": 1}]})
    assert "declares_valid_levels" in as_attack(broken, one_step, tables={})


def test_pixels_beyond_white(broken):
    def bright(images, labels, query, rngs, epsilon):
        return images + epsilon

    assert "pixels_stay_in_range_and_within_epsilon" in as_attack(broken, bright)


def test_further_than_epsilon(broken):
    def twice(images, labels, query, rngs, epsilon):
        return fgsm(images, labels, query, rngs, epsilon=2 * epsilon)

    assert as_attack(broken, twice) == {"pixels_stay_in_range_and_within_epsilon"}


def test_another_shape_or_type(broken):
    def double(images, labels, query, rngs, epsilon):
        return one_step(images, labels, query, rngs, epsilon).double()

    assert "pixels_stay_in_range_and_within_epsilon" in as_attack(broken, double)


def test_images_changed_in_place(broken):
    def in_place(images, labels, query, rngs, epsilon):
        images[:] = one_step(images, labels, query, rngs, epsilon)
        return images.clone()

    assert "a_case_is_its_own" in as_attack(broken, in_place)


def test_chance_from_elsewhere(broken):
    signs = itertools.cycle([1, -1])

    def restless(images, labels, query, rngs, epsilon):
        return (images + next(signs) * epsilon).clamp(0, 1)

    assert "a_case_is_its_own" in as_attack(broken, restless)


def test_a_case_that_depends_on_its_batch(broken):
    def average(images, labels, query, rngs, epsilon):
        uphill = query.gradient(images, lambda scores: -scores.gather(1, labels[:, None])[:, 0])
        return (images + epsilon * uphill.mean(0).sign()).clamp(0, 1)

    assert "a_case_is_its_own" in as_attack(broken, average)


def test_an_attack_that_noise_beats(broken):
    def downhill(images, labels, query, rngs, epsilon):
        return (2 * images - fgsm(images, labels, query, rngs, epsilon=epsilon)).clamp(0, 1)

    table = {"plain": [{"epsilon": 0.3}]}
    assert as_attack(broken, downhill, tables=table) == {"at_least_as_successful_as_noise"}


def as_source(broken: Callable[..., set[str]], make: Callable[..., Any]) -> set[str]:
    def source(like, rng):
        """An image of nothing."""
        return make(like, rng)

    return broken("sources", source, of="image")


def test_a_sound_source_breaks_nothing(broken):
    assert as_source(broken, lambda like, rng: np.zeros_like(like)) == set()


def test_a_source_with_a_parameter_that_must_be_given(broken):
    def source(like, rng, *, shade: float):
        """An image of one shade."""
        return np.full_like(like, shade)

    assert "declares_valid_levels" in broken("sources", source, of="image")


def test_a_source_of_another_shape_type_or_range(broken):
    rule = {"shape_type_and_range_are_kept"}
    assert as_source(broken, lambda like, rng: np.zeros_like(like[1:])) == rule
    assert as_source(broken, lambda like, rng: np.zeros(like.shape, np.float32)) == rule
    assert as_source(broken, lambda like, rng: np.zeros_like(like) + like.dtype.type(2)) == rule
    assert as_source(broken, lambda like, rng: None) == rule


def test_a_source_with_chance_from_elsewhere(broken):
    shades = itertools.cycle([0, 1])
    found = as_source(broken, lambda like, rng: np.full_like(like, next(shades)))
    assert "draws_from_the_generator_alone" in found


def test_a_source_that_copies_valid_pixels_or_changes_them(broken):
    assert as_source(broken, lambda like, rng: like[::-1].copy()) == {
        "draws_from_the_generator_alone"
    }

    def wiping(like, rng):
        like[:] = 0
        return np.zeros_like(like)

    assert as_source(broken, wiping) == {"draws_from_the_generator_alone"}
