"""The threshold that keeps a stated rate of false alarms, found by simulating clean streams before release.

What clean is, is known from the calibration's clean counts alone, up to chance: of many draws from their Dirichlet posterior
("worlds") those are simulated whose windows look riskier than 94% to 99% of the others do, so that the stated rate is kept not on
average over calibrations but by nearly every one. Windows are evaluated as the monitor will, and alarms counted with hysteresis.

Beyond what was simulated the rate is extrapolated: the peaks of alarms over a level that they reach often are taken to be
exponential. The tail of the log-odds themselves is not, since they flatten where the risk of a kind that nobody has seen is in
doubt; the mean shift score of the same windows goes on, a mean of many events whose tail falls faster than that. Peaks are
therefore measured on its scale, onto which the log-odds are mapped by windows with more and more shift in them. The threshold is
the upper end of its bootstrap interval over streams.

The same is done for windows that hold fewer independent events, and for the longer stretch that is read beside them (see
`roadworthy.monitor.stretches`); where both are read, each gets half of the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.alarms import GAP, AlarmRule, alarms_per_day, walk
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.due import costs_of
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.rule_notes import rule_notes
from roadworthy.monitor.stretches import enough_events, tried_times
from roadworthy.monitor.worlds import clean_worlds, mean_scores, stream, unlucky_worlds, window_of

if TYPE_CHECKING:
    from roadworthy.analysis.risk.transfer import Estimator

WORLDS, LOOKS = 800, 200
"""Draws of what clean may be, and evaluations along each stream that is simulated."""
TIMES = (2.0, 5.0, 12.0, 30.0, 70.0)
"""Autocorrelation times for which a threshold is found, as long as a window holds more than `LEAST` independent events."""
LEAST = 6
_JUST_BELOW = 0.999
LIKELIER = 0.0
"""An alarm means that the risk is more likely than not above the tolerable, however seldom clean streams come near it."""
LEVEL = 0.98
"""Quantile of the clean log-odds above which peaks are fitted."""
CONFIDENCE, RESAMPLES = 0.9, 200
QUIET, FEW = 0.9, 200
"""The share of clean windows that are passed over in each of two scores while the threshold is sought, of so many."""
MIXTURES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Shares of shifted or bad events in the windows that show which scores go with which log-odds."""
NEAR, WORST = 2.0, 0.9
"""Log-odds below the threshold that are still near it; the share of clean events that are not bad."""
STEP, ENOUGH, DETECTIONS = 0.3, 0.95, 60
"""The step in the rate of shift that should be noticed within two windows, how often it should be, and of how many tries."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Which mean shift score goes with which log-odds, for windows of one length."""

    score: Floats
    log_odds: Floats

    @classmethod
    def of(cls, watched: Watched, worlds: Floats, *, length: int, seed: int) -> Scale:
        """By windows with more and more of every kind of shift; as both rise together, rank by rank."""
        kinds = [rows.sum(axis=0) + 1e-9 for rows in watched.estimator.calibration.table[1:]]
        score, _, log_odds = mixtures(watched, worlds, kinds, length=length, seed=seed)
        return cls(np.sort(score), np.sort(log_odds))

    def score_of(self, log_odds: float) -> float:
        """On the scale of the shift score; beyond all windows it goes on as at its end."""
        return float(np.interp(log_odds, self.log_odds, self.score)) + max(0.0, log_odds - float(self.log_odds[-1]))

    def log_odds_of(self, score: float) -> float:
        """The inverse of `score_of`."""
        return float(np.interp(score, self.score, self.log_odds)) + max(0.0, score - float(self.score[-1]))


def alarm_rule(
    estimator: Estimator,
    *,
    windows: Sequence[int],
    stride: int | None = None,
    false_alarms: str = "1 per month",
    events_per_day: float = 10_000.0,
    seed: int = 0,
) -> AlarmRule:
    """The rule for the shortest of the windows that notices a step to 30% shift; for the longest where none does.

    Kinds of which 30% is tolerable are no reason for a longer one.
    """
    assert estimator.tolerable is not None
    not_due = {kind: cost for kind, cost in costs_of(estimator, STEP).items() if cost <= estimator.tolerable}
    per_event = alarms_per_day(false_alarms) / events_per_day
    calibration = estimator.calibration
    scores = CellScores.of(calibration)
    worlds = clean_worlds(calibration, WORLDS, np.random.default_rng([seed, 1]))
    for window in sorted(windows):
        watched = _quietened(Watched(estimator, scores, window, stride or default_stride(window)), worlds, seed)
        unlucky = unlucky_worlds(watched, worlds)
        on = max(LIKELIER, threshold(watched, unlucky, per_event, seed=seed))
        detects = detections(watched, worlds, on, seed=seed)
        if min((share for kind, share in detects if kind not in not_due), default=1.0) >= ENOUGH:
            break
    stretch = enough_events(watched, worlds, per_event, step=STEP)
    tried = tried_times(watched.window, stretch)
    first = tried[0][0] if tried else math.inf
    by_time = [(1.0, on)]
    for time in _times(watched.window, first):
        # From where a stretch is read beside the window, false alarms come from both: there the threshold takes a step.
        accepted = per_event / 2.0 if time >= first else per_event
        by_time.append((time, max(LIKELIER, threshold(watched, unlucky, accepted, time=time, seed=seed))))
    longer = _quietened(replace(watched, window=stretch), worlds, seed)
    by_stretch = tuple(
        (time, max(LIKELIER, threshold(longer, unlucky, per_event / 2.0, length=length, time=time, seed=seed)))
        for time, length in tried
    )
    quiet = _hushed(watched, worlds, on, seed)
    if by_stretch:
        lower = _hushed(longer, worlds, min(on for _, on in by_stretch), seed)
        quiet = min(quiet[0], lower[0]), min(quiet[1], lower[1])
    return AlarmRule(
        watched.window,
        watched.stride,
        on,
        off_for(on),
        false_alarms,
        float(events_per_day),
        tuple(by_time),
        quiet,
        detects,
        rule_notes(
            estimator, detects, not_due=not_due, step=STEP, false_alarms=false_alarms, events_per_day=events_per_day
        ),
        stretch if by_stretch else 0,
        by_stretch,
        tuple(not_due),
    )


def _times(window: int, first: float) -> list[float]:
    """Autocorrelation times for which a threshold is found; `first` is the one from which on a longer stretch is read."""
    last = window / LEAST
    ends = [time for time in (first, last) if 1.0 < time <= last]
    apart = [time for time in TIMES if time < last and all(not 0.8 < time / end < 1.25 for end in ends)]
    return sorted({*apart, *ends, *(end * _JUST_BELOW for end in ends if end == first)})


def default_stride(window: int) -> int:
    """Five looks a window, but none before 50 new events: each costs as much as counting a hundred."""
    return max(window // 5, min(window // 2, 50), 1)


def off_for(on: float) -> float:
    """Where an alarm is cleared."""
    return min(0.0, on - GAP)


def threshold(
    watched: Watched,
    worlds: Floats,
    per_event: float,
    *,
    length: int | None = None,
    time: float = 1.0,
    seed: int = 0,
) -> float:
    """The log-odds that clean streams reach `per_event` times an event at most, with confidence.

    A stretch of `length` independent events is read: those of a window where none is given.
    """
    rng = np.random.default_rng([seed, 2, int(time)])
    length = max(1, round(watched.window / time)) if length is None else length
    stride = max(1, round(watched.stride / time))
    ends = length + stride * np.arange(LOOKS)
    series = [watched.log_odds(stream(w, int(ends[-1]), rng), ends, length=length) for w in worlds]
    scale = Scale.of(watched, worlds, length=length, seed=seed)
    level = float(np.quantile(np.concatenate(series), LEVEL, method="higher"))
    if not math.isfinite(level):
        level = float(max(values.max() for values in series)) - 1.0
    start = scale.score_of(level)
    peaks = [[scale.score_of(peak) for peak in _peaks(values, level)] for values in series]
    # Of `time` events in a row one is new; a stream of these is `time` times as long in events.
    wanted = per_event * stride * time
    chosen = [_extrapolated(peaks, start, wanted)]
    for _ in range(RESAMPLES):
        again = rng.integers(len(peaks), size=len(peaks))
        chosen.append(_extrapolated([peaks[i] for i in again], start, wanted))
    return max(level, scale.log_odds_of(max(chosen[0], float(np.quantile(chosen, CONFIDENCE)))))


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
    mean = float((heights - level).mean()) if len(heights) else 0.0
    return level + max(mean, 1e-3) * max(math.log(rate / wanted), 0.0)


def detections(watched: Watched, worlds: Floats, on: float, *, seed: int = 0) -> tuple[tuple[str, float], ...]:
    """By kind of shift: how often a step from none to 30% raises an alarm within two windows."""
    calibration = watched.estimator.calibration
    # Looks fall anywhere between two strides; the step is taken to lie in the middle.
    ends = watched.window + np.arange((watched.stride + 1) // 2, 2 * watched.window + 1, watched.stride)
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


def mixtures(
    watched: Watched, worlds: Floats, kinds: Sequence[Floats], *, length: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Mean shift score, mean expected error and log-odds of windows with a share of one of the kinds in them."""
    few = worlds[: max(FEW // (4 * len(kinds)), 8)]
    windows = [
        window_of(world, kind, rate, length=length, seed=(seed, 4, i, round(1e6 * rate)))
        for kind in kinds
        for rate in MIXTURES
        for i, world in enumerate(few)
    ]
    size = len(watched.scores.shift)
    log_odds = watched.estimator.log_odds(np.stack([np.bincount(cells, minlength=size) for cells in windows]))
    return *mean_scores(watched.scores, windows), log_odds


def _quietened(watched: Watched, worlds: Floats, seed: int) -> Watched:
    """With the level above which most alarms of clean streams lie, to find the threshold at little cost."""
    windows = [
        window_of(world, None, 0.0, length=watched.window, seed=(seed, 5, i)) for i, world in enumerate(worlds[:FEW])
    ]
    shift, error = mean_scores(watched.scores, windows)
    return replace(watched, quiet=(float(np.quantile(shift, QUIET)), float(np.quantile(error, QUIET))))


def _hushed(watched: Watched, worlds: Floats, on: float, seed: int) -> tuple[float, float]:
    """The levels below which no window comes near the threshold.

    Windows with a little and with much of every kind of shift say which shift scores go with log-odds down to two below the
    threshold; clean windows with more and more of the cells in which most errors are expected say which expected errors do.
    """
    clean = worlds.mean(axis=0)
    order = np.argsort(watched.scores.error, kind="stable")
    worst = np.zeros_like(clean)
    worst[order] = np.where(np.cumsum(clean[order]) >= WORST, clean[order], 0.0)
    kinds = [rows.sum(axis=0) + 1e-9 for rows in watched.estimator.calibration.table[1:]]
    shift, _, log_odds = mixtures(watched, worlds, kinds, length=watched.window, seed=seed)
    _, error, bad = mixtures(watched, worlds, [worst], length=watched.window, seed=seed)
    near = shift[log_odds >= on - NEAR]
    # No mean error exceeds 1: where nothing comes near, no level is needed.
    errors = error[bad >= on - NEAR]
    return float(near.min()) if len(near) else watched.quiet[0], float(errors.min(initial=2.0))
