"""A few events, and the state they must lead to: the proof that a bundle means on this machine what it meant where it was made.

Whole numbers must be the same, others agree to 1e-9: cells, what became of each event, counts, and the figures of a window.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle

EVENTS = 40
TOLERANCE = 1e-9
_SMOOTH = ("rate", "accuracy", "risk", "log_odds", "effective_n")
"""Figures that do not jump where a sum comes out differently in its last digit."""


def sample_events(bundle: Bundle) -> dict[str, Any]:
    """Scores over and beyond what was calibrated, some missing; one event comes twice, one late, one out of order."""
    columns = {}
    names = bundle.calibration.names
    for i, (name, reference, reach) in enumerate(
        zip(names, bundle.calibration.references, bundle.calibration.reach, strict=True)
    ):
        values = np.quantile(np.array([*reference, *reach]), np.linspace(0.0, 1.0, EVENTS))
        # Each column starts elsewhere, so that scores meet in other pairs than lowest with lowest.
        scores: list[float | None] = np.roll(values, 7 * i).tolist()
        scores[3 + i % 5] = None
        scores[11] = None
        columns[name] = scores
    times = [60.0 * i for i in range(EVENTS)]
    times[20] = times[18] - 1.0
    times[30] = -bundle.lateness - 1.0
    ids = [f"event {i}" for i in range(EVENTS)]
    ids[25] = ids[24]
    return {"id": ids, "time": times, "columns": columns}


def expected_state(bundle: Bundle) -> dict[str, Any]:
    """The events, and what this bundle makes of them."""
    events = sample_events(bundle)
    return {"events": events, "expected": outcome(bundle, events)}


def outcome(bundle: Bundle, record: dict[str, Any]) -> dict[str, Any]:
    """What a monitor of the bundle says after these events."""
    from roadworthy.monitor.events import Events
    from roadworthy.monitor.monitor import Monitor

    columns = {
        name: np.array([math.nan if v is None else v for v in column])
        for name, column in record["columns"].items()
    }
    monitor = Monitor(bundle)
    cells = bundle.calibration.place(columns)
    taken = monitor.update(Events(record["id"], record["time"], columns=columns))
    total = monitor.state.buckets.total()
    risk = monitor.risk(str(max(bundle.windows.lengths)))
    return {
        "cells": cells.tolist(),
        "taken": list(taken),
        "counts": [[int(i), int(total[i])] for i in np.flatnonzero(total)],
        "figures": {name: getattr(risk, name) for name in _SMOOTH} | _watched(bundle, total),
    }


def _watched(bundle: Bundle, counts: np.ndarray) -> dict[str, float]:
    """What the alarm would make of these events."""
    if bundle.alarm is None:
        return {}
    odds = bundle.estimator.odds(
        counts[: bundle.calibration.cells]
    )  # behind them stands how many have no place
    return {"watched": float(odds.above[0]), "evidence": float(odds.evidence[0])}


def failure(bundle: Bundle) -> str | None:
    """How the state differs from the one that was expected; None where it does not."""
    test = bundle.self_test
    if not test:
        return "there is none"
    try:
        found = outcome(bundle, dict(test["events"]))
    except (KeyError, TypeError, ValueError) as error:
        return f"its events cannot be taken ({error})"
    expected = test["expected"]
    for name in ("cells", "taken", "counts"):
        if found[name] != expected.get(name):
            return f"{name} are {_shortened(found[name])} and should be {_shortened(expected.get(name))}"
    for name, value in found["figures"].items():
        wanted = expected["figures"].get(name)
        if (value is None) != (wanted is None):
            return f"{name} is {value} and should be {wanted}"
        if value is not None and not math.isclose(value, wanted, rel_tol=TOLERANCE, abs_tol=1e-12):
            return f"{name} is {value!r} and should be {wanted!r}"
    return None


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
