"""The burden of proof that keeps a stated rate of false alarms, found by simulating clean streams.

What clean is, is known from the calibration's clean counts up to chance: of many draws from their
Dirichlet posterior ("worlds") those are simulated whose windows give more evidence of shift than 96%
of the others do, so that nearly every calibration keeps the stated rate, not their average. Windows
are evaluated as the monitor will. Beyond what was simulated the peaks of alarms are taken to be
exponential; the burden is the upper end of its bootstrap interval over streams.

A window of n autocorrelated events holds n / tau independent ones. As long as these still notice a
step to 30% shift, the window is read; beyond, as many events as hold so many independent ones.

>>> peaks_above([-3.0, 2.5, 2.8, 1.5, 0.5, 3.0], 2.0)
[2.8, 3.0]
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.estimator import Estimator, Odds, costs_of
from roadworthy.monitor.alarm import (
    GAP,
    LIKELIER,
    LONGEST,
    AlarmRule,
    alarms_per_day,
    bins_before,
    odds_before,
)
from roadworthy.monitor.events import Floats
from roadworthy.monitor.messages import rule_notes

WORLDS, UNLUCKY = 1200, 0.96
"""Draws of what clean may be, and the rank of their evidence above which they are simulated."""
LOOKS = 500
"""Evaluations along each stream that is simulated."""
LEVEL, SOME = 0.99, 0.06
"""Quantile of the clean evidence above which peaks are fitted; the share of windows that is worked
out to find it."""
CONFIDENCE, RESAMPLES = 0.9, 200
STEP, ENOUGH, DETECTIONS = 0.3, 0.95, 60
"""The step in the rate of shift that should be noticed within two windows, how often it should be,
and of how many tries."""
FEWEST, PARTS, STILL = 5, 2, 0.8
"""Independent events that a window must hold, by how much fewer are tried each time, and how often
they must notice such a step for the window alone to be read."""
CLEARED = 0.9
"""The share of clean windows that clear an alarm which is on."""
CLEAN_WINDOWS = 200
_PRIOR = 0.5


def alarm_rule(
    estimator: Estimator,
    *,
    windows: Sequence[int],
    false_alarms: str,
    events_per_day: float,
    seed: int,
) -> AlarmRule:
    """The rule for the shortest of the windows that notices a step to 30% shift, else the longest.

    Kinds of which 30% is tolerable are no reason for a longer one.
    """
    assert estimator.tolerable is not None
    if not events_per_day > 0:
        raise ValueError(f"Events a day are a number above 0, found {events_per_day}.")
    costs = costs_of(estimator, STEP)
    not_due = tuple(kind for kind, cost in costs.items() if cost <= estimator.tolerable)
    per_event = alarms_per_day(false_alarms) / events_per_day
    worlds = clean_worlds(estimator.calibration, WORLDS, np.random.default_rng([seed, 1]))
    everywhere = CleanStreams(estimator, worlds, seed)
    for window in sorted(windows):
        stride = default_stride(window)
        seen = _odds_after_steps(everywhere, window, stride)
        if window < max(windows) and _least(_noticed(seen, 0.0), not_due) < ENOUGH:
            continue  # not even with the lowest burden that there is
        # Those in which clean looks riskier than in most.
        order = np.argsort(estimator.odds(worlds * window).evidence, kind="stable")
        clean = CleanStreams(estimator, worlds[order[int(UNLUCKY * WORLDS) :]], seed)
        burden = clean.burden(window, stride, per_event)
        detects = _noticed(seen, burden)
        if _least(detects, not_due) >= ENOUGH:
            break
    table, enough = [(1.0, window, burden)], window
    while enough // PARTS >= FEWEST:
        length = enough // PARTS
        time = window / length
        every = max(1, round(stride / time))
        burden = clean.burden(length, every, per_event, time=time)
        seen = _odds_after_steps(everywhere, length, every, least=burden)
        if _least(_noticed(seen, burden), not_due) < STILL:
            break
        table.append((time, window, burden))
        enough = length
    # From here on the independent events stay the same, until so many events can no longer be read.
    first, last = window / enough, max(window, LONGEST) / enough
    for time in (math.sqrt(first * last), last, 2.0 * last):
        length = enough if time <= last else enough // 2
        every = max(1, round(stride / time))
        found = clean.burden(length, every, per_event, time=time)
        table.append((time, round(min(time, last) * enough), found))
    rate, off = (false_alarms, float(events_per_day)), _cleared_below(clean, window)
    notes = rule_notes(estimator, detects, not_due)
    return AlarmRule(window, stride, *rate, tuple(table), LIKELIER, off, detects, not_due, notes)


def default_stride(window: int) -> int:
    """Five looks a window, but none before 50 new events: each costs as much as counting a hundred."""
    return max(window // 5, min(window // 2, 50), 1)


def clean_worlds(calibration: Calibration, draws: int, rng: np.random.Generator) -> Floats:
    """What clean may be: Dirichlet draws over the bins of the shift score, and within each its cells.

    Rows that came in groups count for as many as are independent.
    """
    rows = calibration.table[0].sum(axis=0).astype(np.float64)
    worth = float(calibration.effective[0]) / max(rows.sum(), 1.0)
    counts = (rows * worth).reshape(calibration.shift.bins, -1)
    bins = rng.dirichlet(counts.sum(axis=1) + _PRIOR, draws)
    inner = rng.standard_gamma(counts + _PRIOR / counts.shape[1], (draws, *counts.shape))
    inner = np.maximum(inner, 1e-300)
    return (bins[:, :, None] * inner / inner.sum(axis=2, keepdims=True)).reshape(draws, -1)


def stream(world: Floats, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Independent cells of one world."""
    upto = np.cumsum(world)
    return np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(world) - 1)


class CleanStreams:
    """Simulations of clean streams, each done once."""

    def __init__(self, estimator: Estimator, worlds: Floats, seed: int = 0) -> None:
        self.estimator, self.worlds, self.seed = estimator, worlds, seed
        self._found: dict[tuple[int, int], tuple[float, list[list[float]]]] = {}

    def burden(self, length: int, stride: int, per_event: float, *, time: float = 1.0) -> float:
        """The evidence that clean streams give `per_event` times an event at most, with confidence.

        Windows have `length` independent events, `stride` apart; `time` events of the real stream
        are one of these.
        """
        if (length, stride) not in self._found:
            self._found[length, stride] = self._peaks(length, stride)
        level, peaks = self._found[length, stride]
        wanted = per_event * stride * time
        rng = np.random.default_rng([self.seed, 6])
        resampled = [
            extrapolated([peaks[i] for i in again], level, wanted)
            for again in rng.integers(len(peaks), size=(RESAMPLES, len(peaks)))
        ]
        upper = float(np.quantile(resampled, CONFIDENCE))
        return max(0.0, upper, extrapolated(peaks, level, wanted))

    def _peaks(self, length: int, stride: int) -> tuple[float, list[list[float]]]:
        """A level that the evidence seldom reaches, and the peaks of each stream above it."""
        rng = np.random.default_rng([self.seed, 2, length])
        ends = length + stride * np.arange(LOOKS)
        streams = [stream(world, int(ends[-1]), rng) for world in self.worlds]
        estimator = self.estimator
        bins = [bins_before(estimator.calibration, cells, ends, length)[0] for cells in streams]
        most = [estimator.most_evidence(counts) for counts in bins]
        # The windows with the most evidence are among these; the others need not be worked out.
        least = float(np.quantile(most, 1.0 - SOME))
        odds = [odds_before(estimator, cells, ends, length, least=least) for cells in streams]
        series = [each.evidence for each in odds]
        level = float(np.quantile(series, LEVEL, method="higher"))
        return level, [peaks_above(values.tolist(), level) for values in series]


def peaks_above(values: Iterable[float], level: float) -> list[float]:
    """The height of every alarm that a threshold at this level would raise, with hysteresis."""
    heights, active = list[float](), False
    for value in values:
        if active:
            heights[-1] = max(heights[-1], value)
            active = value >= level - GAP
        elif value >= level:
            heights.append(value)
            active = True
    return heights


def extrapolated(peaks: Sequence[Sequence[float]], level: float, wanted: float) -> float:
    """Where alarms become as rare as wanted (per look), their peaks exponential above the level."""
    heights = np.array([peak for stream_peaks in peaks for peak in stream_peaks])
    rate = max(len(heights), 1) / (len(peaks) * LOOKS)
    mean = float((heights - level).mean()) if len(heights) else 0.0
    return level + max(mean, 1e-3) * max(math.log(rate / wanted), 0.0)


def _odds_after_steps(
    clean: CleanStreams, window: int, stride: int, *, least: float = -math.inf
) -> dict[str, Odds]:
    """By kind: the odds of every look within two windows of steps to 30% of it, steps x looks."""
    estimator, calibration = clean.estimator, clean.estimator.calibration
    # Looks fall anywhere between two strides; the step is taken to lie in the middle.
    ends = window + np.arange((stride + 1) // 2, 2 * window + 1, stride)
    found = {}
    for number, kind in enumerate(calibration.kinds[1:], start=1):
        rng = np.random.default_rng([clean.seed, 3, number])
        shifted = calibration.table[number].sum(axis=0) + 1e-9
        odds = []
        for world in clean.worlds[:DETECTIONS]:
            cells = stream(world, 3 * window, rng)
            where = np.flatnonzero(rng.random(2 * window) < STEP) + window
            cells[where] = stream(shifted, len(where), rng)
            odds.append(odds_before(estimator, cells, ends, length=window, least=least))
        found[kind] = Odds(*np.stack(odds, axis=1))
    return found


def _noticed(seen: Mapping[str, Odds], burden: float) -> tuple[tuple[str, float], ...]:
    """How often steps of each kind raise an alarm."""
    highest = {kind: odds.judged(burden).max(axis=1) for kind, odds in seen.items()}
    return tuple((kind, float((most >= LIKELIER).mean())) for kind, most in highest.items())


def _least(detects: Sequence[tuple[str, float]], not_due: Collection[str]) -> float:
    """How often the kind is noticed that is noticed least, of those for which an alarm is due."""
    return min((share for kind, share in detects if kind not in not_due), default=1.0)


def _cleared_below(clean: CleanStreams, window: int) -> float:
    """The log-odds that nine in ten clean windows fall below, within a gap below the alarm."""
    worlds, estimator = clean.worlds, clean.estimator
    rng = np.random.default_rng([clean.seed, 7])
    windows = [stream(worlds[i % len(worlds)], window, rng) for i in range(CLEAN_WINDOWS)]
    counts = [np.bincount(cells, minlength=estimator.calibration.cells) for cells in windows]
    above = estimator.odds(counts).above
    return float(np.clip(np.quantile(above, CLEARED), LIKELIER - GAP, LIKELIER))
