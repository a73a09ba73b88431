"""The burden of proof that keeps a stated rate of false alarms, found by simulating clean streams before release.

What clean is, is known from the calibration's clean counts up to chance: of many draws from their Dirichlet posterior
("worlds") those are simulated whose windows give more evidence of shift than 96% of the others do, so that the stated rate is
kept not on average over calibrations but by nearly every one. Windows are evaluated as the monitor will, and alarms counted
with hysteresis.

Beyond what was simulated the rate is extrapolated: the peaks of alarms over a level that they reach often are taken to be
exponential. The tail of the evidence itself is not, if a calibration of few rows weakens what a window says; the mean shift
score of the same windows is. Peaks are therefore measured on its scale, onto which the evidence is mapped by windows with more
and more shift in them. The burden is the upper end of its bootstrap interval over streams.

If clean data may cost as much as is tolerable, an alarm without shift would be a true one: it then is also raised with nothing
proven once it is sure (97.5%) that the cost is above.

The same is done for windows of autocorrelated events, which hold fewer independent ones, and for the longer stretch that is
read beside them. It holds as many independent events as notice a step to a rate r (z for the false alarms, 0.84 for four steps
in five):

    n = ((z s_0 + 0.84 s_1) / (r d - u))^2 , at least (0.84 s_1 / ((r - r_t) d))^2

with s_0 and s_1 the deviation of the score without shift and at the rate r, d the distance of the means of shifted and clean
events, u what clean may lie higher than its counts say, and r_t the rate that is still tolerable.

>>> [(round(time), length) for time, length in stretch_times(300, 100)]
[(6, 100), (31, 100), (164, 100), (328, 50)]
>>> walk([-3.0, 2.5, 1.0, -1.0, 3.0], 2.0, 0.0)
[(1, True), (3, False), (4, True)]
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.estimator import Odds
from roadworthy.analysis.risk.tolerable import costs_of
from roadworthy.monitor.alarm import (
    GAP,
    LIKELIER,
    LONGER,
    LONGEST,
    NOTHING_QUIET,
    AlarmRule,
    Watched,
    alarms_per_day,
)
from roadworthy.monitor.events import Floats
from roadworthy.monitor.messages import rule_notes
from roadworthy.monitor.windows import CellScores

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.estimator import Estimator

WORLDS = 1200
"""Draws of what clean may be."""
UNLUCKY = 0.96
"""The rank, by the evidence of their windows on average, above which worlds are simulated."""
TIMES = (2.0, 5.0, 12.0, 30.0, 70.0)
"""Autocorrelation times for which a burden is found, as long as a window holds more than `LEAST` independent events."""
LEAST, FEWEST = 10, 5
"""Independent events below which no burden that keeps clean streams quiet is passed; a short window is read down to the second."""
SURE = math.log(0.975 / 0.025)
"""From where on an alarm that cannot keep its rate has nothing to prove: a 95% interval lies above the tolerable."""
CLEARED = 0.9
"""The share of clean windows that clear an alarm which is on, if the log-odds at which it is raised are high enough for it."""
MUTE = 0.5
"""An alarm that notices steps of no kind so often is no alarm."""
QUIET = 0.9
"""The share of clean windows that are passed over in each of two scores while steps are sought."""
NEAR, WORST = 2.0, 0.9
"""Log-odds below an alarm that are still near it; the share of clean events that are not bad."""
STEP, ENOUGH, DETECTIONS = 0.3, 0.95, 60
"""The step in the rate of shift that should be noticed within two windows, how often it should be, and of how many tries."""
LOOKS = 500
"""Evaluations along each stream that is simulated."""
LEVEL = 0.99
"""Quantile of the clean evidence above which peaks are fitted."""
CONFIDENCE, RESAMPLES = 0.9, 200
LOUD = 0.96
"""The share of windows that are passed over in each of two scores while those above that level are sought."""
FEW = 200
"""Windows with one share of shift or another that are tried at most, over all kinds."""
CERTAIN = 600.0
"""Evidence from which on no shift has probability 0 as far as numbers go."""
MIXTURES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Shares of shifted or bad events in the windows that show which scores go with which evidence."""
NOTICED, ABOVE_COUNTS = 0.84, 2.0
"""Standard deviations: of a stretch that notices four steps in five; by which clean may lie above what was counted."""
TYPICAL, LOOKS_A_STRETCH = 10.0, 5.0
"""A typical autocorrelation time, and looks a stretch, to turn false alarms an event into those of one look."""
FEWEST_IN_STRETCH = 20
_PRIOR = 0.5
_JUST_BELOW = 0.999


def alarm_rule(
    estimator: Estimator,
    *,
    windows: Sequence[int],
    stride: int | None = None,
    false_alarms: str = "1 per month",
    events_per_day: float = 10_000.0,
    seed: int = 0,
) -> AlarmRule:
    """The rule for the shortest of the windows that notices a step to 30% shift; for the longest if none does.

    Kinds of which 30% is tolerable are no reason for a longer one.
    """
    assert estimator.tolerable is not None
    costs = costs_of(estimator, STEP)
    not_due = {kind: cost for kind, cost in costs.items() if cost <= estimator.tolerable}
    per_event = alarms_per_day(false_alarms) / events_per_day
    scores = CellScores.of(estimator.calibration)
    worlds = clean_worlds(estimator.calibration, WORLDS, np.random.default_rng([seed, 1]))
    clean, _, most = estimator.forecast(0.0)
    sure = SURE if clean >= estimator.tolerable else math.inf
    for window in sorted(windows):
        plain = Watched(estimator, scores, window, stride or default_stride(window))
        watched = _quietened(plain, worlds, seed)
        seen = _odds_after_steps(watched if sure == math.inf else plain, worlds, seed)
        if window < max(windows) and _least(_noticed(seen, 0.0, sure), not_due) < ENOUGH:
            continue  # not even with the lowest burden that there is
        unlucky = unlucky_worlds(watched, worlds)
        clean_streams = CleanStreams(watched, unlucky, seed)
        burden = clean_streams.burden(per_event)
        detects = _noticed(seen, burden, sure)
        if _least(detects, not_due) >= ENOUGH:
            break
    freely = _noticed(seen, burden, SURE)
    if most >= estimator.tolerable and _most(detects, not_due) < MUTE <= _most(freely, not_due):
        sure, detects = SURE, freely
    stretch = stretch_events(watched, worlds, per_event)
    tried = stretch_times(watched.window, stretch)
    first = tried[0][0] if tried else math.inf
    by_time = [(1.0, burden)]
    for time in _times(watched.window, first):
        # From where a stretch is read beside the window, each gets half of the false alarms.
        accepted = per_event / 2.0 if time >= first else per_event
        by_time.append((time, clean_streams.burden(accepted, time=time)))
    by_stretch = tuple(
        (time, clean_streams.burden(per_event / 2.0, length=length, time=time))
        for time, length in tried
    )
    quiet = _quiet_levels(watched, worlds, burden, seed)
    if by_stretch:
        longer = _quietened(replace(watched, window=stretch), worlds, seed)
        lower = _quiet_levels(longer, worlds, min(b for _, b in by_stretch), seed)
        quiet = min(quiet[0], lower[0]), min(quiet[1], lower[1])
    above = _clean_log_odds(watched, unlucky, seed)
    return AlarmRule(
        watched.window,
        watched.stride,
        burden,
        false_alarms,
        float(events_per_day),
        off=float(np.clip(np.quantile(above, CLEARED), LIKELIER - GAP, LIKELIER)),
        by_time=tuple(by_time),
        quiet=quiet if sure == math.inf else NOTHING_QUIET,
        detects=detects,
        notes=rule_notes(
            estimator, detects, not_due=not_due, step=STEP, kept=sure == math.inf, rate=false_alarms
        ),
        stretch=stretch if by_stretch else 0,
        by_stretch=by_stretch,
        not_due=tuple(not_due),
        sure=sure,
    )


def default_stride(window: int) -> int:
    """Five looks a window, but none before 50 new events: each costs as much as counting a hundred."""
    return max(window // 5, min(window // 2, 50), 1)


def _times(window: int, first: float) -> list[float]:
    """Autocorrelation times for which a burden is found; `first` is the one from which on a longer stretch is read."""
    last = window / LEAST
    if first < math.inf:  # no times between the two for which nothing is read
        last = max(last, min(first, window / FEWEST))
    ends = [time for time in (first, last) if 1.0 < time <= last]
    apart = [
        time for time in TIMES if time < last and all(not 0.8 < time / end < 1.25 for end in ends)
    ]
    return sorted({*apart, *ends, *(end * _JUST_BELOW for end in ends if end == first)})


def stretch_events(watched: Watched, worlds: Floats, per_event: float) -> int:
    """Independent events that notice a step in the rate of shift of any kind, at most those of a window."""
    from scipy.stats import norm

    estimator, score = watched.estimator, watched.scores.shift
    without, with_all = (estimator.forecast(rate)[0] for rate in (0.0, 1.0))
    assert estimator.tolerable is not None
    if with_all <= max(without, estimator.tolerable):
        return watched.window
    tolerable = min(max((estimator.tolerable - without) / (with_all - without), 0.0), 1.0)
    rate = max(STEP, min(1.0, 2.0 * tolerable))
    means = worlds @ score
    clean = float(means.mean())
    spread = max(float(worlds.mean(axis=0) @ score**2) - clean**2, 0.0)
    doubt = ABOVE_COUNTS * float(means.std())
    needed = float(min(FEWEST_IN_STRETCH, watched.window))
    for rows in estimator.calibration.table[1:].sum(axis=1):
        share = rows / max(rows.sum(), 1)
        distance = float(share @ score) - clean
        rise, above = rate * distance - doubt, (rate - tolerable) * distance
        if rise <= 0.0 or above <= 0.0:
            return watched.window
        of_shifted = float(share @ (score - clean) ** 2)
        mixed = (1.0 - rate) * spread + rate * of_shifted - (rate * distance) ** 2
        s_0, s_1 = math.sqrt(spread), math.sqrt(max(mixed, 0.0))
        for _ in range(5):
            z = float(norm.isf(min(0.1, per_event * TYPICAL * needed / LOOKS_A_STRETCH)))
            found = max(((z * s_0 + NOTICED * s_1) / rise) ** 2, (NOTICED * s_1 / above) ** 2)
            needed = min(max(needed, found), float(watched.window))
    return math.ceil(needed)


def stretch_times(window: int, stretch: int) -> tuple[tuple[float, int], ...]:
    """Autocorrelation times for which a burden of the stretch is found, and the independent events it then holds.

    From where it is longer enough than the window up to the longest that is read, and beyond that to where it holds half as many.
    """
    first, last = LONGER * window / stretch, LONGEST / stretch
    if first >= last:
        return ()
    return (
        (first, stretch),
        (math.sqrt(first * last), stretch),
        (last, stretch),
        (2.0 * last, round(stretch / 2)),
    )


def clean_worlds(calibration: Calibration, draws: int, rng: np.random.Generator) -> Floats:
    """What clean may be: Dirichlet draws over the bins of the shift score, and within each over its cells.

    Rows that came in groups count for as many as are independent.
    """
    rows = calibration.table[0].sum(axis=0).astype(np.float64)
    worth = float(calibration.effective[0]) / max(rows.sum(), 1.0)
    counts = (rows * worth).reshape(calibration.shift.bins, -1)
    bins = rng.dirichlet(counts.sum(axis=1) + _PRIOR, draws)
    inner = rng.standard_gamma(counts + _PRIOR / counts.shape[1], (draws, *counts.shape))
    inner = np.maximum(inner, 1e-300)
    worlds: Floats = bins[:, :, None] * inner / inner.sum(axis=2, keepdims=True)
    return worlds.reshape(draws, -1)


def unlucky_worlds(watched: Watched, worlds: Floats) -> Floats:
    """Those in which clean looks riskier than in most."""
    order = np.argsort(watched.estimator.odds(worlds * watched.window).evidence, kind="stable")
    return worlds[order[int(UNLUCKY * len(order)) :]]


def stream(world: Floats, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent cells of one world."""
    upto = np.cumsum(world)
    return np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(world) - 1)


class Mixed(NamedTuple):
    """What windows say that have a share of something else in them: mean shift score, mean expected error, odds."""

    shift: Floats
    error: Floats
    odds: Odds


def mixtures(
    watched: Watched, worlds: Floats, kinds: Sequence[Floats], *, length: int, seed: int
) -> Mixed:
    """Of windows with a share of one of the kinds in them."""
    few, rng = worlds[: max(FEW // (4 * len(kinds)), 8)], np.random.default_rng([seed, 4])
    windows = []
    for kind in kinds:
        for rate in MIXTURES:
            for world in few:
                cells = stream(world, length, rng)
                where = np.flatnonzero(rng.random(length) < rate)
                cells[where] = stream(kind, len(where), rng)
                windows.append(cells)
    odds = watched.estimator.odds(_counted(windows, watched.cells))
    return Mixed(*_mean_scores(watched.scores, windows), odds)


@dataclass(frozen=True, eq=False)
class Scale:
    """Which mean shift score goes with which evidence, for windows of one length."""

    score: Floats
    evidence: Floats

    @classmethod
    def of(cls, watched: Watched, worlds: Floats, *, length: int, seed: int) -> Scale:
        """By windows with more and more of every kind of shift; as both rise together, rank by rank."""
        found = mixtures(watched, worlds, _kinds(watched), length=length, seed=seed)
        evidence = found.odds.evidence
        usable = evidence < CERTAIN
        return cls(np.sort(found.shift[usable]), np.sort(evidence[usable]))

    def score_of(self, evidence: float) -> float:
        """On the scale of the shift score; beyond all windows it goes on, one for one."""
        beyond = max(0.0, evidence - float(self.evidence[-1]))
        return float(np.interp(evidence, self.evidence, self.score)) + beyond

    def evidence_of(self, score: float) -> float:
        """The inverse of `score_of`."""
        beyond = max(0.0, score - float(self.score[-1]))
        return float(np.interp(score, self.score, self.evidence)) + beyond


@dataclass(frozen=True, eq=False)
class Tail:
    """The peaks of the alarms of each simulated stream over a level, on the scale of the shift score."""

    level: float
    scale: Scale
    peaks: list[list[float]]
    again: NDArray[np.int64]
    """Streams of each resample."""

    def reached(self, per_look: float) -> float:
        """The evidence that clean streams give `per_look` times a look at most, with confidence."""
        start = self.scale.score_of(self.level)
        chosen = extrapolated(self.peaks, start, per_look)
        resampled = [
            extrapolated([self.peaks[i] for i in again], start, per_look) for again in self.again
        ]
        upper = max(chosen, float(np.quantile(resampled, CONFIDENCE)))
        return max(self.level, self.scale.evidence_of(upper))


@dataclass
class CleanStreams:
    """Simulations of one window's clean streams, each done once."""

    watched: Watched
    worlds: Floats
    seed: int = 0
    _scales: dict[int, Scale] = field(default_factory=dict)
    _found: dict[tuple[int, int, int], Tail] = field(default_factory=dict)

    def burden(self, per_event: float, *, length: int | None = None, time: float = 1.0) -> float:
        """The evidence that clean streams give `per_event` times an event at most, with confidence; never less than none.

        A stretch of `length` independent events is read: those of a window if none is given.
        """
        length = max(1, round(self.watched.window / time)) if length is None else length
        stride = max(1, round(self.watched.stride / time))
        key = length, stride, int(time)
        if key not in self._found:
            self._found[key] = self._simulated(*key)
        # Of `time` events in a row one is new; a stream of these is `time` times as long in events.
        return max(0.0, self._found[key].reached(per_event * stride * time))

    def _simulated(self, length: int, stride: int, number: int) -> Tail:
        rng = np.random.default_rng([self.seed, 2, number])
        ends = length + stride * np.arange(LOOKS)
        streams = [stream(world, int(ends[-1]), rng) for world in self.worlds]
        loud = replace(self.watched, quiet=self._loudest(streams, ends, length))
        series = loud.odds_of(streams, ends, length=length).evidence
        if length not in self._scales:
            self._scales[length] = Scale.of(
                self.watched, self.worlds, length=length, seed=self.seed
            )
        scale = self._scales[length]
        level = float(np.quantile(series, LEVEL, method="higher"))
        if not math.isfinite(level):
            level = float(series.max()) - 1.0
        peaks = [[scale.score_of(peak) for peak in _peaks(values, level)] for values in series]
        return Tail(level, scale, peaks, rng.integers(len(peaks), size=(RESAMPLES, len(peaks))))

    def _loudest(
        self, streams: Sequence[np.ndarray], ends: np.ndarray, length: int
    ) -> tuple[float, float]:
        """The scores above which the windows lie that give the most evidence: the others need not be worked out."""
        means = [self.watched.means(cells, ends, length=length) for cells in streams]
        shift, error = (np.concatenate([m[i] for m in means]) for i in (0, 1))
        return float(np.quantile(shift, LOUD)), float(np.quantile(error, LOUD))


def walk(log_odds: Iterable[float], on: float, off: float) -> list[tuple[int, bool]]:
    """Where alarms are raised (True) and cleared along a series."""
    changes, active = [], False
    for i, value in enumerate(log_odds):
        if (value >= on) if not active else (value < off):
            active = not active
            changes.append((i, active))
    return changes


def _peaks(values: Floats, level: float) -> list[float]:
    """The height of every alarm that a threshold at this level would raise."""
    changes = walk(values, level, level - GAP)
    starts = [i for i, raised in changes if raised]
    ends = [i for i, raised in changes if not raised] + [len(values)]
    return [float(values[start:end].max()) for start, end in zip(starts, ends, strict=False)]


def extrapolated(peaks: Sequence[Sequence[float]], level: float, wanted: float) -> float:
    """Where alarms become as rare as wanted (per look), their peaks exponential above the level."""
    heights = np.array([peak for stream_peaks in peaks for peak in stream_peaks])
    rate = max(len(heights), 1) / (len(peaks) * LOOKS)
    mean = float((heights - level).mean()) if len(heights) else 0.0
    return level + max(mean, 1e-3) * max(math.log(rate / wanted), 0.0)


def _odds_after_steps(watched: Watched, worlds: Floats, seed: int) -> dict[str, Odds]:
    """By kind of shift: the odds of every look within two windows of steps from none to 30% of it, steps x looks."""
    calibration, window = watched.estimator.calibration, watched.window
    # Looks fall anywhere between two strides; the step is taken to lie in the middle.
    ends = window + np.arange((watched.stride + 1) // 2, 2 * window + 1, watched.stride)
    found = {}
    for number, kind in enumerate(calibration.kinds[1:], start=1):
        rng = np.random.default_rng([seed, 3, number])
        shifted = calibration.table[number].sum(axis=0) + 1e-9
        streams = []
        for world in worlds[:DETECTIONS]:
            cells = stream(world, 3 * window, rng)
            where = np.flatnonzero(rng.random(2 * window) < STEP) + window
            cells[where] = stream(shifted, len(where), rng)
            streams.append(cells)
        found[kind] = watched.odds_of(streams, ends, length=window)
    return found


def _noticed(
    seen: Mapping[str, Odds], burden: float, sure: float = math.inf
) -> tuple[tuple[str, float], ...]:
    """How often steps of each kind raise an alarm."""
    return tuple(
        (kind, float((odds.judged(burden, sure).max(axis=1) >= LIKELIER).mean()))
        for kind, odds in seen.items()
    )


def _least(detects: Sequence[tuple[str, float]], not_due: Collection[str]) -> float:
    """How often the kind is noticed that is noticed least, of those for which an alarm is due."""
    return min((share for kind, share in detects if kind not in not_due), default=1.0)


def _most(detects: Sequence[tuple[str, float]], not_due: Collection[str]) -> float:
    """How often the kind is noticed that is noticed most, of those for which an alarm is due."""
    return max((share for kind, share in detects if kind not in not_due), default=1.0)


def _quietened(watched: Watched, worlds: Floats, seed: int) -> Watched:
    """With the level above which most alarms of clean streams lie, to find the burden at little cost."""
    rng = np.random.default_rng([seed, 5])
    windows = [stream(world, watched.window, rng) for world in worlds[:FEW]]
    shift, error = _mean_scores(watched.scores, windows)
    return replace(
        watched, quiet=(float(np.quantile(shift, QUIET)), float(np.quantile(error, QUIET)))
    )


def _clean_log_odds(watched: Watched, worlds: Floats, seed: int) -> Floats:
    """Of clean windows, without any burden: what an alarm that is on is cleared by."""
    rng = np.random.default_rng([seed, 7])
    windows = [stream(worlds[i % len(worlds)], watched.window, rng) for i in range(FEW)]
    return watched.estimator.odds(_counted(windows, watched.cells)).above


def _quiet_levels(
    watched: Watched, worlds: Floats, burden: float, seed: int
) -> tuple[float, float]:
    """Mean shift score and mean expected error: a window below both does not come near an alarm.

    Windows with a little and with much of every kind of shift say which shift scores go with log-odds down to two below it;
    clean windows with more and more of the cells in which most errors are expected say which expected errors do.
    """
    clean = worlds.mean(axis=0)
    order = np.argsort(watched.scores.error, kind="stable")
    worst = np.zeros_like(clean)
    worst[order] = np.where(np.cumsum(clean[order]) >= WORST, clean[order], 0.0)
    length = watched.window
    shifted = mixtures(watched, worlds, _kinds(watched), length=length, seed=seed)
    bad = mixtures(watched, worlds, [worst], length=length, seed=seed)
    near = shifted.shift[shifted.odds.judged(burden) >= LIKELIER - NEAR]
    # No mean error exceeds 1: if nothing comes near, no level is needed.
    errors = bad.error[bad.odds.judged(burden) >= LIKELIER - NEAR]
    return float(near.min()) if len(near) else watched.quiet[0], float(errors.min(initial=2.0))


def _kinds(watched: Watched) -> list[Floats]:
    return [rows.sum(axis=0) + 1e-9 for rows in watched.estimator.calibration.table[1:]]


def _mean_scores(scores: CellScores, windows: Sequence[np.ndarray]) -> tuple[Floats, Floats]:
    """The mean shift score and the mean expected error of each window."""
    cells = np.stack(windows)
    return scores.shift[cells].mean(axis=1), scores.error[cells].mean(axis=1)


def _counted(windows: Sequence[np.ndarray], cells: int) -> NDArray[np.int64]:
    """Windows by cell."""
    return np.stack([np.bincount(window, minlength=cells) for window in windows])
