"""Each rule of distances, broken by a distance that was made to break it."""

from __future__ import annotations

import numpy as np

from roadworthy.distances.sets import SetDistance


def size(first, second) -> float:
    """How far two numbers are apart, as it should be."""
    return float(np.abs(np.subtract(first, second)).sum())


def test_a_sound_distance_breaks_nothing(broken):
    assert broken("distances", size, of=("vector",)) == set()


def test_what_is_declared_must_be_known(broken):
    assert broken("distances", size, name="no_kind") == {"declares_what_it_compares"}
    assert "declares_what_it_compares" in broken("distances", size, name="a_word", of="vector")
    assert broken("distances", size, name="other_default", of=("vector",), default=("text",)) == {
        "declares_what_it_compares"
    }
    assert broken(
        "distances", size, name="second_default", of=("vector",), default=("vector",)
    ) == {"declares_what_it_compares"}
    assert broken("distances", size, name="odd_mean", of=("vector",), mean="harmonic") == {
        "declares_what_it_compares"
    }


def test_a_parameter_without_default_cannot_be_named_alone(broken):
    def scaled(first, second, *, by: float) -> float:
        """Needs to know by how much."""
        return by * size(first, second)

    assert "declares_what_it_compares" in broken("distances", scaled, of=("vector",))


def test_a_similarity_is_no_distance(broken):
    def alike(first, second) -> float:
        """1 where equal."""
        return 1.0 - min(size(first, second), 1.0)

    assert "equal_values_are_at_distance_zero" in broken("distances", alike, of=("vector",))


def test_a_distance_with_a_direction_is_caught(broken):
    def ahead(first, second) -> float:
        """Only what the second has more."""
        return float(np.maximum(np.subtract(second, first), 0).sum())

    assert broken("distances", ahead, of=("vector",)) == {"keeps_the_laws_of_a_distance"}


def test_negative_and_unbounded_numbers_are_caught(broken):
    def below(first, second) -> float:
        """Less than nothing."""
        return -size(first, second)

    rule = "keeps_the_laws_of_a_distance"
    assert rule in broken("distances", below, of=("vector",))
    assert broken("distances", size, name="too_far", of=("vector",), bounded=True) == {rule}


def test_a_distance_that_sees_no_difference_is_caught(broken):
    def blind(first, second) -> float:
        """All is one."""
        return 0.0

    assert broken("distances", blind, of=("text",)) == {"separates_different_values"}


def test_a_distance_that_changes_what_it_compares_is_caught(broken):
    def greedy(first, second) -> float:
        """Takes the first away."""
        apart = size(first, second)
        first[:] = 0
        return apart

    assert "keeps_the_laws_of_a_distance" in broken("distances", greedy, of=("vector",))


def test_a_distance_between_sets_that_gives_a_bare_number_or_changes_features_is_caught(broken):
    rule = "keeps_the_laws_of_a_set_distance"

    def bare(source, target):
        """Distance of the means."""
        return float(np.linalg.norm(source.mean(axis=0) - target.mean(axis=0)))

    def sound(source, target):
        """Distance of the means."""
        return SetDistance(bare(source, target))

    def greedy(source, target):
        """Takes the source away."""
        found = sound(source, target)
        source[:] = 0
        return found

    assert broken("set_distances", sound, paired=False) == set()
    assert broken("set_distances", bare, name="bare", paired=False) == {rule}
    assert broken("set_distances", greedy, name="greedy", paired=False) == {rule}
    assert broken("set_distances", sound, name="unsaid") == {rule}
