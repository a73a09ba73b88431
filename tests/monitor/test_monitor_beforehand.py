"""What is believed before a window is full: it speaks alone before any event, and not at all of a full window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roadworthy.analysis.risk.tree import expectation
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.beforehand import Beforehand
from roadworthy.monitor.tree_parameters import tree_parameters

EXPECTED = Beforehand(0.05, 20.0)


@pytest.fixture(scope="module")
def believing(bundle) -> Bundle:
    return replace(
        bundle,
        prior=EXPECTED.pseudo_events,
        windows=Windows((50, 200), half_life=40.0, adaptive=True),
    )


def told(bundle: Bundle, scores: np.ndarray, window: str = "200"):
    monitor = Monitor(bundle)
    if len(scores):
        monitor.update(Events(None, None, columns={"energy": scores}))
    return monitor.risk(window)


@pytest.mark.parametrize("window", ["50", "200", "decay", "adaptive"])
def test_before_any_event_the_rate_is_that_of_the_prior(believing, window):
    nothing = told(believing, np.zeros(0), window)
    assert nothing.rate == pytest.approx(EXPECTED.rate, abs=0.002)
    assert nothing.risk == pytest.approx(believing.estimator.forecast(EXPECTED.rate)[0], abs=0.01)
    upper = 1.0 - 0.025 ** (
        1.0 / 19.0
    )  # of Beta(1, 19), whose distribution function is 1 - (1 - x)^19
    assert nothing.rate_high == pytest.approx(upper, abs=0.01)


def test_a_full_window_says_what_it_would_without_a_prior(believing, bundle, scores_at):
    for rate in (0.0, 0.3):
        scores = scores_at(200, rate)
        assert told(believing, scores).rate == told(bundle, scores).rate
    fading = [
        told(b, scores_at(800, 0.3), "decay").rate
        for b in (believing, replace(believing, prior=(0.5, 0.5)))
    ]
    assert fading[0] == pytest.approx(fading[1], abs=1e-9)


def test_the_fuller_a_window_the_less_the_prior_says(believing, bundle, scores_at):
    """Of events that are all shifted: drawn towards what was expected, by less and less."""
    scores = scores_at(200, 1.0)
    drawn = [
        told(bundle, scores[:n]).rate - told(believing, scores[:n]).rate for n in (10, 40, 120, 200)
    ]
    assert (
        drawn == sorted(drawn, reverse=True)
        and drawn[0] > 0.1
        and drawn[2] < 0.05
        and drawn[3] == 0.0
    )


def test_after_a_change_nothing_is_believed_from_before(believing, scores_at):
    scores = np.concatenate([scores_at(400, 0.0), scores_at(30, 1.0)])
    plain = replace(believing, prior=(0.5, 0.5))
    assert told(believing, scores, "adaptive").n < 100
    assert told(believing, scores, "adaptive").rate == told(plain, scores, "adaptive").rate


def test_the_event_tree_costs_what_a_window_does_while_it_fills(believing, scores_at):
    monitor = Monitor(believing)
    monitor.update(Events(None, None, columns={"energy": scores_at(20, 0.0)}))
    for window in ("50", "200", "decay", "adaptive"):
        found = expectation(believing.tree, tree_parameters(monitor, window))
        assert found == pytest.approx(monitor.risk(window).risk, rel=1e-6), window


def test_the_state_says_what_was_believed(believing, scores_at):
    assert told(believing, scores_at(5, 0.0)).notes[0] == (
        "5 of 200 events so far: the fewer, the more the figures are a guess from before (5% shifted, worth 20 events)"
    )
    assert (
        told(believing, scores_at(40, 0.0), "decay")
        .notes[0]
        .startswith("40 events so far, 50% of a full window by weight: the fewer")
    )
    assert not any("so far" in note for note in told(believing, scores_at(400, 0.0), "decay").notes)
    assert (
        told(believing, scores_at(40, 0.0), "adaptive")
        .notes[0]
        .startswith("40 events so far: the fewer")
    )


def test_a_bundle_keeps_what_is_believed_and_is_another_by_it(believing, tmp_path):
    from roadworthy.monitor.self_test import expected_state

    made = replace(believing, self_test=expected_state(believing))
    made.save(tmp_path / "b.json")
    assert Bundle.load(tmp_path / "b.json").beforehand == pytest.approx(EXPECTED)
    assert replace(believing, prior=(0.5, 0.5)).beforehand is None
    assert replace(believing, prior=(0.5, 0.5)).id != believing.id


@pytest.mark.parametrize(
    "wrong", [(0.0, 20.0), (1.0, 20.0), (0.1, 0.0), (0.1, np.inf), (np.nan, 3.0)]
)
def test_what_nobody_can_believe_is_refused(wrong):
    with pytest.raises(ValueError, match="lies above 0 and below 1"):
        _ = Beforehand(*wrong).pseudo_events
