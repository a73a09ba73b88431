"""Each rule of failure estimators, broken by one that was made to break it."""

from __future__ import annotations

import numpy as np

from roadworthy.search.monte_carlo import monte_carlo


def few(margin, law, rng, *, confidence: float = 0.95):
    """A thousand random inputs, as it should be."""
    return monte_carlo(margin, law, rng, confidence=confidence, draws=1000)


def test_a_sound_estimator_breaks_nothing(broken):
    assert broken("failure_estimators", few) == set()


def test_one_that_cannot_be_named_alone_is_caught(broken):
    def needy(margin, law, rng, *, draws: int):
        """Neither a default nor a confidence."""
        return few(margin, law, rng)

    assert "can_be_named_alone" in broken("failure_estimators", needy)


def test_wrong_estimates_of_a_known_probability_are_caught(broken):
    def half(margin, law, rng, *, confidence: float = 0.95):
        """Half of what it should be."""
        found = few(margin, law, rng, confidence=confidence)
        return found._replace(
            probability=found.probability / 2, low=found.low / 2, high=found.high / 2
        )

    def fixed(margin, law, rng, *, confidence: float = 0.95):
        """Always the same draws."""
        return few(margin, law, np.random.default_rng(0), confidence=confidence)

    def restless(margin, law, rng, *, confidence: float = 0.95):
        """Draws of its own."""
        return few(margin, law, np.random.default_rng(), confidence=confidence)

    def deaf(margin, law, rng, *, confidence: float = 0.95):
        """One confidence for all."""
        return few(margin, law, rng)

    def bare(margin, law, rng, *, confidence: float = 0.95):
        """A number alone."""
        return few(margin, law, rng).probability

    for build in (half, fixed, restless, deaf, bare):
        rules = broken("failure_estimators", build, name=build.__name__)
        assert "finds_a_known_probability" in rules, build.__name__


def test_zero_as_the_answer_to_nothing_found_is_caught(broken):
    def sure(margin, law, rng, *, confidence: float = 0.95):
        """The share as it is: 0 of 1000 is 0."""
        found = few(margin, law, rng, confidence=confidence)
        return found._replace(probability=np.where(found.found, found.probability, 0.0))

    def certain(margin, law, rng, *, confidence: float = 0.95):
        """The variance of eq. 14."""
        found = few(margin, law, rng, confidence=confidence)
        share = np.where(found.found, found.probability, 0.0)
        return found._replace(variance=share * (1 - share) / 999)

    def gloomy(margin, law, rng, *, confidence: float = 0.95):
        """Failures where there are none."""
        found = few(margin, law, rng, confidence=confidence)
        return found._replace(found=np.ones_like(found.found))

    rule = "finds_nothing_where_nothing_fails"
    for build in (sure, certain, gloomy):
        assert rule in broken("failure_estimators", build, name=build.__name__), build.__name__
