"""The probability that the risk is intolerable and the interval of the risk are of one estimate: neither contradicts the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from roadworthy.analysis.risk.weighted import RESOLUTION

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows

TAIL = 0.025
STEPS = 2.0 / RESOLUTION
"""A histogram shares a value between two points, each of which stands for half a step more."""


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Two kinds that are hurt differently; nothing is tolerable yet."""
    rng = np.random.default_rng(4)
    kind = np.repeat(["clean", "fog", "night"], [800, 300, 300])
    apart = {"clean": 0.0, "fog": 1.5, "night": 2.5}
    chance = {"clean": 0.93, "fog": 0.7, "night": 0.45}
    scores = {name: rng.normal([apart[k] for k in kind]) for name in ("energy", "knn")}
    made = calibrate(scores, kind, rng.random(len(kind)) < np.array([chance[k] for k in kind]))
    return Bundle.compile(made, accuracy_tree(), subject="s", windows=Windows((100, 1000)))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("window", ["100", "1000"])
def test_an_interval_above_or_below_the_tolerable_says_the_same_as_the_probability(
    bundle, rate, window
):
    """With the limit just below the interval the risk is above it with 97.5% or more, and just above it with 2.5% or less."""
    rng = np.random.default_rng([int(window), int(10 * rate)])
    shifted = rng.random(1000) < rate
    events = Events(columns={name: rng.normal(2.0 * shifted) for name in ("energy", "knn")})

    def said(tolerable: float):
        monitor = Monitor(replace(bundle, tolerable=tolerable))
        monitor.update(events)
        return monitor.risk(window)

    told = said(0.5)
    assert said(told.risk_low - STEPS).exceedance >= 1 - TAIL
    assert said(told.risk_high + STEPS).exceedance <= TAIL
    assert TAIL <= said((told.risk_low + told.risk_high) / 2).exceedance <= 1 - TAIL


def test_simulated_windows_never_contradict_themselves(bundle):
    """Limits anywhere: low > tolerable implies 97.5% or more, high < tolerable 2.5% or less, up to the steps."""
    rng = np.random.default_rng(9)
    calibration, decided = bundle.calibration, 0
    for tolerable in (0.08, 0.15, 0.25, 0.35):
        chosen = replace(bundle, tolerable=tolerable)
        for rate in (0.0, 0.2, 0.5, 0.9):
            shifted = rng.random(100) < rate
            cells = calibration.place(
                {name: rng.normal(2.2 * shifted) for name in ("energy", "knn")}
            )
            monitor = Monitor(chosen)
            monitor.update(Events(cells=cells))
            risk = monitor.risk("100")
            if risk.risk_low - STEPS > tolerable:
                decided += 1
                assert risk.exceedance >= 1 - TAIL
            if risk.risk_high + STEPS < tolerable:
                decided += 1
                assert risk.exceedance <= TAIL
    assert decided >= 3
