"""A million events without shift, of many kinds, and steps in them: false alarms as stated, and what is noticed how soon.

The stated rate is kept by nearly every calibration, not by every one (96% and more by design: thresholds are made for the unlucky
4%). So several calibrations are tried, each on a stream of its own, and one of them may be an unlucky one.

A daily cycle is no stream of that promise: nobody can tell it from shift that comes and goes. Of 32 calibrations 4, 7 and 1
(windows of 100, 300 and 1,000) rang more often than stated, 135 times at worst; what holds is that most do not.

With `-s` the figures are printed: false alarms of every calibration where ten were accepted; steps to 30% and 60% noticed within
two windows, noticed within six thousand events, and median events until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from alarm_streams import STREAMS, clean_scores, detection, raised_without_shift, watching
from synthetic_detectors import synthetic

from roadworthy.monitor import Bundle, Events, Monitor

WINDOWS = (100, 300, 1000)
STATED = 10
"""False alarms in a million events."""
CALIBRATIONS = (11, 20, 21, 22, 23, 24, 25)
TRIES = 20
LEAST_NOTICED = {
    ("independent", 100): 0.7,
    ("independent", 300): 0.95,
    ("independent", 1000): 0.95,
    ("daily cycle", 100): 0.7,
    ("daily cycle", 300): 0.95,
    ("daily cycle", 1000): 0.95,
    ("AR(.5)", 100): 0.5,
    ("AR(.5)", 300): 0.8,
    ("AR(.5)", 1000): 0.95,
    ("AR(.9)", 1000): 0.7,
    ("repeated x10", 300): 0.3,
    ("repeated x10", 1000): 0.8,
}
"""Of steps to 30% within two windows."""
LATEST = {
    ("AR(.9)", 100): 1400,
    ("AR(.9)", 300): 1700,
    ("AR(.98)", 100): 2400,
    ("AR(.98)", 300): 4200,
    ("repeated x10", 100): 1300,
}
"""Of the other streams two windows do not hold enough independent events: median events until steps to 30% are noticed."""
NOTICED_IN_THE_END = {("AR(.98)", 1000): 0.5}
"""Of steps to 30% and 60% within six thousand events, where these are few for the stretch that is read; of all others 95%."""


@cache
def bundle_of(window: int, seed: int = CALIBRATIONS[0]) -> Bundle:
    return watching(synthetic(0.9, seed=seed), window, stated=STATED)


def assert_kept(kind: str, found: Sequence[int]) -> None:
    """By the mean and by all calibrations but one, which rings twice as often at most; of the daily cycle by more than half."""
    if kind == "daily cycle":
        assert np.median(found) <= STATED
    else:
        assert np.mean(found) <= STATED and sum(raised > STATED for raised in found) <= 1
        assert max(found) <= 2 * STATED


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_million_events_without_shift_raise_at_most_as_many_alarms_as_stated(window, kind):
    found = [
        raised_without_shift(bundle_of(window, seed), kind, seed=seed) for seed in CALIBRATIONS
    ]
    print(f"{window:5d} {kind:13s} {np.mean(found):4.1f} of {STATED}  {found}")
    assert_kept(kind, found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("window", WINDOWS)
def test_steps_are_noticed(window, kind):
    steps = [
        detection(
            bundle_of(window),
            kind,
            rate=rate,
            before=12 * window,
            after=max(6000, 2 * window),
            tries=TRIES,
            seed=11,
        )
        for rate in (0.3, 0.6)
    ]
    told = "  ".join(f"{s.within_two:4.0%} {s.noticed:4.0%} {s.delay:6.0f}" for s in steps)
    print(f"{window:5d} {kind:13s} {told}")
    key = kind, window
    assert key in {**LEAST_NOTICED, **LATEST, **NOTICED_IN_THE_END}
    assert steps[0].within_two >= LEAST_NOTICED.get(key, 0.0) and steps[0].delay <= LATEST.get(
        key, np.inf
    )
    assert min(step.noticed for step in steps) >= NOTICED_IN_THE_END.get(key, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMS)
def test_the_beginnings_of_a_hundred_streams_raise_no_more_alarms_than_stated(kind):
    """A million events of a hundred streams: at first nobody knows how much they are alike."""
    found = []
    for seed in CALIBRATIONS:
        raised = 0
        for again in range(100):
            monitor = Monitor(bundle_of(100, seed))
            scores = clean_scores(kind, 10_000, np.random.default_rng([seed, 9, again]))
            monitor.update(Events(None, None, columns={"energy": scores}))
            raised += sum(alarm.kind == "raised" for alarm in monitor.alarms)
        found.append(raised)
    print(f"begin {kind:13s} {np.mean(found):4.1f} of {STATED}  {found}")
    assert_kept(kind, found)


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
def test_a_stream_that_begins_shifted_rings_within_two_windows(window):
    found = detection(
        bundle_of(window), "independent", rate=0.6, before=0, after=2 * window, tries=TRIES, seed=11
    )
    assert found.within_two >= 0.95
