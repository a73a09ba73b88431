"""Streams without shift of the kinds that alarms are tried on, and what a monitor makes of them.

Every score has the marginal distribution of the calibration's clean rows (normal, deviation 1), whatever its neighbours are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows

STREAMS = ("independent", "AR(.5)", "AR(.9)", "AR(.98)", "repeated x10", "daily cycle")
ALIKE = {"repeated x10": 10}
DAY = 100_000
"""Events a day."""
SWING = 0.1
"""How far the mean score of the daily cycle goes up and down, in standard deviations of all scores. Nobody can tell a cycle from
shift that comes and goes: at its height this one looks like 6% shift, and one of 0.2 like 11%, near the 16% that are tolerable."""
CHUNK = 20_000
RUN = 200
"""Events of one patient after another."""


def watching(calibration: Calibration, window: int, *, stated: int) -> Bundle:
    """A bundle of one window by which so many false alarms are accepted in a million events."""
    return Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="s",
        tolerable=0.12,
        windows=Windows((window,)),
        false_alarms="1 per day",
        events_per_day=1e6 / stated,
    )


class Detection(NamedTuple):
    """What became of steps in the rate of shift."""

    within_two: float
    """The share that was noticed within two windows."""
    noticed: float
    """The share that was noticed at all."""
    delay: float
    """Median events from the step to the alarm, of those noticed; NaN where none was."""


def clean_scores(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Scores without shift."""
    if kind.startswith("AR("):
        rho = float(kind[3:-1])
        noise = rng.normal(size=n) * math.sqrt(1 - rho**2)
        return lfilter([1.0], [1.0, -rho], noise, zi=[rho * rng.normal()])[0]
    if kind == "repeated x10":
        return np.repeat(rng.normal(size=-(-n // 10)), 10)[:n]
    if kind == "daily cycle":
        cycle = SWING * np.sin(2 * math.pi * (np.arange(n) / DAY + rng.random()))
        return cycle + math.sqrt(1 - SWING**2 / 2) * rng.normal(size=n)
    if kind.startswith(("cycle ", "patients ")):
        how, size = kind.split()
        return lean_of(how, float(size), n, rng) + rest_of(how, float(size)) * rng.normal(size=n)
    assert kind == "independent", kind
    return rng.normal(size=n)


def lean_of(how: str, size: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """How much harder clean is at each event: with the hour of the day, or from one patient to the next."""
    if how == "cycle":
        return size * np.sin(2 * math.pi * (np.arange(n) / DAY + rng.random()))
    return np.repeat(rng.normal(0.0, size, -(-n // RUN)), RUN)[:n]


def rest_of(how: str, size: float) -> float:
    """The deviation beside it, so that all scores have deviation 1."""
    return math.sqrt(1 - (size**2 / 2 if how == "cycle" else size**2))


def grouped(kind: str, *, groups: int = 40, rows: int = 50, seed: int = 0) -> Calibration:
    """A detector of AUC .9 calibrated on so many groups: hours of a cycle, patients, or ones that do not differ."""
    rng = np.random.default_rng([seed, groups, rows])
    how, size = kind.split() if " " in kind else ("patients", "0")
    hours = float(size) * np.sin(2 * math.pi * (np.arange(groups) / groups + rng.random()))
    lean = hours if how == "cycle" else rng.normal(0.0, float(size), groups)
    group = np.tile(np.repeat(np.arange(groups), rows), 3)
    names = np.repeat(["clean", "blur", "fog"], groups * rows)
    shifted = names != "clean"
    scores = (
        lean[group] + rest_of(how, float(size)) * rng.normal(size=len(group)) + GAIN[0.9] * shifted
    )
    right = rng.random(len(group)) < np.where(shifted, 0.5, 0.95)
    return fit_calibration({"energy": scores}, names, right, groups=group)


def stepped_scores(
    kind: str, n: int, step: int, rate: float, rng: np.random.Generator, *, auc: float = 0.9
) -> np.ndarray:
    """Scores of which a share is shifted from an event on; those that repeat each other are shifted together."""
    alike = ALIKE.get(kind, 1)
    shifted = np.repeat(rng.random(-(-n // alike)) < rate, alike)[:n]
    return clean_scores(kind, n, rng) + GAIN[auc] * (shifted & (np.arange(n) >= step))


def raised_without_shift(bundle: Bundle, kind: str, *, n: int = 1_000_000, seed: int = 0) -> int:
    """False alarms over a stream without shift."""
    scores = clean_scores(kind, n, np.random.default_rng([seed, 1]))
    monitor = Monitor(bundle)
    for start in range(0, n, CHUNK):
        monitor.update(Events(None, None, columns={"energy": scores[start : start + CHUNK]}))
    return sum(alarm.kind == "raised" for alarm in monitor.alarms)


def detection(
    bundle: Bundle,
    kind: str,
    *,
    rate: float,
    before: int,
    after: int,
    tries: int,
    seed: int = 0,
    auc: float = 0.9,
) -> Detection:
    """How soon steps are noticed after so many events without shift; streams in which an alarm rang before do not count."""
    assert bundle.alarm is not None
    delays = []
    for again in range(tries):
        rng = np.random.default_rng([seed, 2, again])
        monitor = Monitor(bundle)
        scores = stepped_scores(kind, before + after, before, rate, rng, auc=auc)
        for start in range(0, len(scores), CHUNK):
            monitor.update(Events(None, None, columns={"energy": scores[start : start + CHUNK]}))
        raised = [alarm.event - before for alarm in monitor.alarms if alarm.kind == "raised"]
        if not raised or raised[0] > 0:
            delays.append(raised[0] if raised else math.inf)
    found = np.array(delays)
    told = found[np.isfinite(found)]
    return Detection(
        float((found <= 2 * bundle.alarm.window).mean()),
        float(np.isfinite(found).mean()),
        float(np.median(told)) if len(told) else math.nan,
    )
