"""The threshold that keeps a stated rate of false alarms, found by simulating clean streams before release.

What clean is, is known from the calibration's clean counts alone, up to chance: of many draws from their Dirichlet posterior
("worlds") those are simulated whose windows look riskier than 94% to 99% of the others do, so that the stated rate is kept not on
average over calibrations but by nearly every one. Windows are evaluated as the monitor will, and alarms counted with hysteresis.
Beyond what was simulated the rate is extrapolated: the peaks of alarms over a level they reach often are taken to be exponential
(the log-odds are a log likelihood ratio, whose tail falls at least that fast). The threshold is the upper end of its bootstrap
interval over streams. The same is done for windows that hold fewer independent events, for autocorrelated streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.alarms import GAP, AlarmRule, alarms_per_day, walk
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration
    from roadworthy.analysis.risk.transfer import Estimator

WORLDS, LOOKS = 800, 200
"""Draws of what clean may be, and evaluations along each stream that is simulated."""
UNLUCKY = (0.94, 0.99)
"""Which worlds are simulated, by the rank of the log-odds that their windows have on average."""
TIMES = (1.0, 2.0, 5.0, 12.0, 30.0)
"""Autocorrelation times for which a threshold is found, as long as a window holds `LEAST` independent events."""
LEAST = 6
QUIET = 0.9
"""The share of clean windows that are passed over in each of two scores while the threshold is sought."""
MIXTURES, NEAR, WORST = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0), 2.0, 0.9
"""Shares of shifted or bad events in the windows that show what lies near a threshold; how near; which clean events are bad."""
FEW = 200
LEVEL = 0.98
"""Quantile of the clean log-odds above which peaks are fitted."""
CONFIDENCE, RESAMPLES = 0.9, 200
STEP, ENOUGH = 0.3, 0.9
"""The step in the rate of shift that should be noticed within two windows, and how often it should be."""
DETECTIONS = 40
_PRIOR = 0.5


@dataclass(frozen=True)
class Watched:
    """What is watched, and how: everything about an alarm but its thresholds."""

    estimator: Estimator
    scores: CellScores
    window: int
    stride: int
    quiet: tuple[float, float] = (-math.inf, -math.inf)

    def log_odds(self, cells: np.ndarray, ends: np.ndarray, *, length: int, shrink: float = 1.0) -> Floats:
        """The log-odds of the windows of so many events before each of these ends; minus infinity where all is quiet."""
        scored = cells >= 0
        safe = np.where(scored, cells, 0)
        totals = [
            np.concatenate([[0.0], np.cumsum(np.where(scored, column[safe], 0.0))])
            for column in (self.scores.shift, self.scores.error, np.ones_like(self.scores.shift))
        ]
        shift, error, n = (total[ends] - total[np.maximum(ends - length, 0)] for total in totals)
        n = np.maximum(n, 1.0)
        found = np.full(len(ends), -math.inf)
        loud = np.flatnonzero((shift / n >= self.quiet[0]) | (error / n >= self.quiet[1]))
        if len(loud):
            size = len(self.scores.shift)
            counts = np.empty((len(loud), size))
            for row, end in zip(counts, ends[loud].tolist(), strict=True):
                part = cells[max(end - length, 0) : end]
                row[:] = np.bincount(part[part >= 0], minlength=size)
            found[loud] = self.estimator.log_odds(counts, shrink=shrink)
        return found


def alarm_rule(
    estimator: Estimator,
    *,
    windows: Sequence[int],
    stride: int | None = None,
    false_alarms: str = "1 per month",
    events_per_day: float = 10_000.0,
    seed: int = 0,
) -> AlarmRule:
    """The rule for the shortest of the windows that notices a step to 30% shift; for the longest where none does."""
    per_event = alarms_per_day(false_alarms) / events_per_day
    calibration = estimator.calibration
    scores = CellScores.of(calibration)
    worlds = clean_worlds(calibration, WORLDS, np.random.default_rng([seed, 1]))
    for window in sorted(windows):
        watched = _quietened(Watched(estimator, scores, window, stride or default_stride(window)), worlds, seed)
        unlucky = unlucky_worlds(watched, worlds)
        on = threshold(watched, unlucky, per_event, seed=seed)
        detects = detections(watched, worlds, on, seed=seed)
        if min((share for _, share in detects), default=0.0) >= ENOUGH:
            break
    by_time = [(1.0, on)]
    for time in TIMES[1:]:
        if watched.window / time >= LEAST:
            by_time.append((time, threshold(watched, unlucky, per_event, time=time, seed=seed)))
    watched = _hushed(watched, worlds, on, seed)
    notes = _notes(estimator, watched.window, false_alarms, events_per_day, detects)
    return AlarmRule(
        watched.window,
        watched.stride,
        on,
        off_for(on),
        false_alarms,
        float(events_per_day),
        tuple(by_time),
        watched.quiet,
        detects,
        notes,
    )


def default_stride(window: int) -> int:
    """Five looks a window, but none before 50 new events: each costs as much as counting a hundred."""
    return max(window // 5, min(window // 2, 50), 1)


def off_for(on: float) -> float:
    """Where an alarm is cleared."""
    return min(0.0, on - GAP)


def clean_worlds(calibration: Calibration, draws: int, rng: np.random.Generator) -> Floats:
    """What clean may be: Dirichlet draws over the bins of the shift score, and within each over its cells."""
    counts = calibration.table[0].sum(axis=0).astype(np.float64).reshape(calibration.shift.bins, -1)
    bins = rng.dirichlet(counts.sum(axis=1) + _PRIOR, draws)
    inner = rng.standard_gamma(counts + _PRIOR / counts.shape[1], (draws, *counts.shape))
    inner = np.maximum(inner, 1e-300)
    worlds = bins[:, :, None] * inner / inner.sum(axis=2, keepdims=True)
    result: Floats = worlds.reshape(draws, -1)
    return result


def unlucky_worlds(watched: Watched, worlds: Floats) -> Floats:
    """Those in which clean looks riskier than in most."""
    order = np.argsort(watched.estimator.log_odds(worlds * watched.window), kind="stable")
    low, high = (int(share * len(order)) for share in UNLUCKY)
    return worlds[order[low:high]]


def stream(world: Floats, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent cells of one world."""
    upto = np.cumsum(world)
    return np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(world) - 1)


def threshold(watched: Watched, worlds: Floats, per_event: float, *, time: float = 1.0, seed: int = 0) -> float:
    """The log-odds that clean streams reach `per_event` times an event at most, with confidence."""
    rng = np.random.default_rng([seed, 2, int(time)])
    length, stride = max(1, round(watched.window / time)), max(1, round(watched.stride / time))
    ends = length + stride * np.arange(LOOKS)
    series = [watched.log_odds(stream(w, int(ends[-1]), rng), ends, length=length) for w in worlds]
    # Of `time` events in a row one is new; a stream of these is `time` times as long in events.
    wanted = per_event * stride * time
    level = float(np.quantile(np.concatenate(series), LEVEL, method="higher"))
    if not math.isfinite(level):
        level = float(max(values.max() for values in series)) - 1.0
    peaks = [_peaks(values, level) for values in series]
    chosen = [_extrapolated(peaks, level, wanted)]
    for _ in range(RESAMPLES):
        again = rng.integers(len(peaks), size=len(peaks))
        chosen.append(_extrapolated([peaks[i] for i in again], level, wanted))
    return max(chosen[0], float(np.quantile(chosen, CONFIDENCE)))


def _peaks(values: Floats, level: float) -> list[float]:
    """The height of every alarm that a threshold at this level would raise."""
    changes, _ = walk(values, level, off_for(level), active=False)
    starts = [i for i, raised in changes if raised]
    ends = [i for i, raised in changes if not raised] + [len(values)]
    return [float(values[start:end].max()) for start, end in zip(starts, ends, strict=False)]


def _extrapolated(peaks: Sequence[Sequence[float]], level: float, wanted: float) -> float:
    """Where alarms become as rare as wanted (per look), their peaks exponential above the level."""
    heights = np.array([peak for stream_peaks in peaks for peak in stream_peaks])
    rate = max(len(heights), 1) / (len(peaks) * LOOKS)
    scale = float((heights - level).mean()) if len(heights) else 1.0
    return level + max(scale, 0.05) * max(math.log(rate / wanted), 0.0)


def detections(watched: Watched, worlds: Floats, on: float, *, seed: int = 0) -> tuple[tuple[str, float], ...]:
    """By kind of shift: how often a step from none to 30% raises an alarm within two windows."""
    calibration = watched.estimator.calibration
    ends = watched.window + np.unique(np.linspace(1.0, 2.0, 5) * watched.window).astype(int)
    found = []
    for number, kind in enumerate(calibration.kinds[1:], start=1):
        rng = np.random.default_rng([seed, 3, number])
        shifted = calibration.table[number].sum(axis=0) + 1e-9
        raised = 0
        for world in worlds[:DETECTIONS]:
            cells = stream(world, 3 * watched.window, rng)
            where = np.flatnonzero(rng.random(2 * watched.window) < STEP) + watched.window
            cells[where] = stream(shifted, len(where), rng)
            raised += bool((watched.log_odds(cells, ends, length=watched.window) >= on).any())
        found.append((kind, raised / DETECTIONS))
    return tuple(found)


def _quietened(watched: Watched, worlds: Floats, seed: int) -> Watched:
    """With the level above which most alarms of clean streams lie, to find the threshold at little cost."""
    shift, error = _means(
        watched, [_window(watched, world, None, 0.0, seed, i) for i, world in enumerate(worlds[:FEW])]
    )
    return replace(watched, quiet=(float(np.quantile(shift, QUIET)), float(np.quantile(error, QUIET))))


def _hushed(watched: Watched, worlds: Floats, on: float, seed: int) -> Watched:
    """With the levels below which no window comes near the threshold.

    Windows with a little and with much of every kind of shift say which shift scores go with log-odds down to two below the
    threshold; clean windows with more and more of the cells in which most errors are expected say which expected errors do.
    """
    calibration, error = watched.estimator.calibration, watched.scores.error
    kinds = [rows.sum(axis=0) + 1e-9 for rows in calibration.table[1:]]
    clean = worlds.mean(axis=0)
    order = np.argsort(error, kind="stable")
    worst = np.zeros_like(clean)
    worst[order] = np.where(np.cumsum(clean[order]) >= WORST, clean[order], 0.0)
    shift, _ = _near(watched, worlds, kinds, on, seed)
    _, errors = _near(watched, worlds, [worst], on, seed)
    # No mean error exceeds 1: where nothing comes near, no level is needed.
    return replace(
        watched, quiet=(float(shift.min()) if len(shift) else watched.quiet[0], float(errors.min(initial=2.0)))
    )


def _near(watched: Watched, worlds: Floats, kinds: Sequence[Floats], on: float, seed: int) -> tuple[Floats, Floats]:
    """The mean scores of those windows, each with a share of one of the kinds, whose log-odds come near the threshold."""
    few = worlds[: max(FEW // (4 * len(kinds)), 8)]
    windows = [
        _window(watched, world, kind, rate, seed, i)
        for kind in kinds
        for rate in MIXTURES
        for i, world in enumerate(few)
    ]
    size = len(watched.scores.shift)
    log_odds = watched.estimator.log_odds(np.stack([np.bincount(cells, minlength=size) for cells in windows]))
    shift, error = _means(watched, windows)
    near = log_odds >= on - NEAR
    return shift[near], error[near]


def _window(watched: Watched, clean: Floats, shifted: Floats | None, rate: float, seed: int, number: int) -> np.ndarray:
    """The cells of one window of a world, a share of them shifted."""
    rng = np.random.default_rng([seed, 4, number, round(1e6 * rate)])
    cells = stream(clean, watched.window, rng)
    if shifted is not None:
        where = np.flatnonzero(rng.random(watched.window) < rate)
        cells[where] = stream(shifted, len(where), rng)
    return cells


def _means(watched: Watched, windows: Sequence[np.ndarray]) -> tuple[Floats, Floats]:
    """The mean shift score and the mean expected error of each window."""
    cells = np.stack(windows)
    return watched.scores.shift[cells].mean(axis=1), watched.scores.error[cells].mean(axis=1)


def _notes(
    estimator: Estimator, window: int, false_alarms: str, events_per_day: float, detects: Sequence[tuple[str, float]]
) -> tuple[str, ...]:
    notes = []
    tolerable = estimator.tolerable
    assert tolerable is not None
    clean, _, _ = estimator.forecast(0.0)
    if clean > tolerable:
        notes.append(
            f"without any shift the risk is {clean:.4g} already, above the tolerable {tolerable:.4g}: alarms say little; "
            "raise the tolerable risk, or better the subject"
        )
    stepped, _, _ = estimator.forecast(STEP)
    if stepped <= tolerable:
        notes.append(
            f"a step to {STEP:.0%} shift is expected to cost {stepped:.4g}, within the tolerable {tolerable:.4g}: "
            "no alarm is due for it"
        )
    missed = [f"{kind} ({share:.0%})" for kind, share in detects if share < ENOUGH]
    if missed:
        notes.append(
            f"at {false_alarms} and {events_per_day:,.0f} events a day a window of {window} events seldom notices a step to "
            f"{STEP:.0%} of {', '.join(missed)} within two windows: lengthen the window, accept more false alarms, or add "
            "supervisors that tell shift better"
        )
    if estimator.calibration.grouped:
        notes.append("calibration rows came in groups: the rate of false alarms takes them as independent")
    return tuple(notes)
