"""Each rule of estimators of the rate, broken by one that was made to break it."""

from __future__ import annotations

import numpy as np

from roadworthy.analysis.risk.rates import Rates


def told(value, *, off: float = 0.1, confidence: float = 0.95) -> Rates:
    value = np.asarray(value, dtype=np.float64)
    half = off * (1.0 + confidence)
    return Rates(value, np.maximum(value - half, 0.0), np.minimum(value + half, 1.0), confidence)


def share(counts, calibrated, *, confidence: float = 0.95) -> Rates:
    """The share of alarms, as it should be."""
    return told(counts[..., 1] / counts.sum(axis=-1), confidence=confidence)


def test_a_sound_estimator_breaks_nothing(broken):
    assert broken("estimators", share, reads="verdicts") == set()


def test_what_it_reads_must_be_declared(broken):
    assert broken("estimators", share, name="no_word") >= {"declares_what_it_reads"}
    assert "declares_what_it_reads" in broken(
        "estimators", share, name="odd_word", reads="tea leaves"
    )


def test_it_is_called_by_name_alone_with_a_confidence(broken):
    def needy(counts, calibrated, *, by: float) -> Rates:
        """Needs to know by how much."""
        return share(counts, calibrated)

    assert "declares_what_it_reads" in broken("estimators", needy, reads="verdicts")


def test_numbers_without_an_interval_or_outside_it_are_caught(broken):
    def bare(counts, calibrated, *, confidence: float = 0.95):
        """No interval."""
        return counts[..., 1] / counts.sum(axis=-1)

    def outside(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """More than everything."""
        return told(1.0 + counts[..., 1] / counts.sum(axis=-1), confidence=confidence)

    def deaf(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """The same interval whatever is asked."""
        return told(
            counts[..., 1] / counts.sum(axis=-1), off=0.2 - 0.1 * confidence, confidence=confidence
        )

    rule = "tells_every_window_a_share_and_an_interval"
    for build in (bare, outside, deaf):
        assert rule in broken("estimators", build, name=build.__name__, reads="verdicts"), (
            build.__name__
        )


def test_one_that_is_turned_round_is_caught(broken):
    def turned(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """The share of those cleared."""
        return told(counts[..., 0] / counts.sum(axis=-1), confidence=confidence)

    assert broken("estimators", turned, reads="verdicts") == {"tells_more_where_more_is_shifted"}


def test_one_that_looks_at_other_windows_or_changes_what_it_reads_is_caught(broken):
    def ranked(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """Compared with the highest of all."""
        alarms = counts[..., 1]
        return told(alarms / alarms.max(), confidence=confidence)

    def careless(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """Counts on."""
        found = share(counts, calibrated, confidence=confidence)
        counts += 1.0
        return found

    rule = "tells_a_window_the_same_beside_any_other"
    assert rule in broken("estimators", ranked, name="ranked", reads="verdicts")
    assert rule in broken("estimators", careless, name="careless", reads="verdicts")
