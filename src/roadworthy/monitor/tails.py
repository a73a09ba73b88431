"""How much evidence clean streams give: what is simulated of them, and where beyond it alarms become as rare as wanted.

Beyond what was simulated the rate is extrapolated: the peaks of alarms over a level that they reach often are taken to be
exponential. The tail of the evidence itself is not, where a calibration of few rows weakens what a window says; the mean shift
score of the same windows goes on, a mean of many events whose tail falls faster than that. Peaks are therefore measured on its
scale, onto which the evidence is mapped by windows with more and more shift in them. What is found is the upper end of its
bootstrap interval over streams. That the risk must be more likely than not above the tolerable as well is not counted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.estimator import Odds
from roadworthy.monitor.alarm import GAP, walk
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.worlds import Swaying, mean_scores, stream, window_of

LOOKS = 500
"""Evaluations along each stream that is simulated."""
LEVEL = 0.99
"""Quantile of the clean evidence above which peaks are fitted."""
CONFIDENCE, RESAMPLES = 0.9, 200
LOUD = 0.96
"""The share of windows that are passed over in each of two scores while those above that level are sought."""
HARDEST = 6.0
"""Standard deviations of the groups up to which harder and harder ones show which scores go with which evidence."""
FEW = 200
"""Windows with one share of shift or another that are tried at most, over all kinds."""
CERTAIN = 600.0
"""Evidence from which on no shift has probability 0 as far as numbers go: how far beyond, it does not say."""
MIXTURES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Shares of shifted or bad events in the windows that show which scores go with which evidence."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Which mean shift score goes with which evidence, for windows of one length."""

    score: Floats
    evidence: Floats

    @classmethod
    def of(cls, watched: Watched, worlds: Floats, *, length: int, seed: int) -> Scale:
        """By windows with more and more of every kind of shift; as both rise together, rank by rank."""
        kinds = [rows.sum(axis=0) + 1e-9 for rows in watched.estimator.calibration.table[1:]]
        found = mixtures(watched, worlds, kinds, length=length, seed=seed)
        evidence = found.odds.evidence
        told = evidence < CERTAIN
        return cls(np.sort(found.shift[told]), np.sort(evidence[told]))

    def score_of(self, evidence: float) -> float:
        """On the scale of the shift score; beyond all windows it goes on, one for one."""
        return float(np.interp(evidence, self.evidence, self.score)) + max(
            0.0, evidence - float(self.evidence[-1])
        )

    def evidence_of(self, score: float) -> float:
        """The inverse of `score_of`."""
        return float(np.interp(score, self.score, self.evidence)) + max(
            0.0, score - float(self.score[-1])
        )


@dataclass(frozen=True, eq=False)
class Tail:
    """The peaks of the alarms of each simulated stream over a level, on the scale of the shift score."""

    level: float
    scale: Scale
    peaks: list[list[float]]
    again: NDArray[np.int64]
    """Streams of each resample."""
    apart: float
    """Events between two looks."""

    def reached(self, per_event: float) -> float:
        """The evidence that clean streams give `per_event` times an event at most, with confidence."""
        start, wanted = self.scale.score_of(self.level), per_event * self.apart
        chosen = extrapolated(self.peaks, start, wanted)
        resampled = [
            extrapolated([self.peaks[i] for i in again], start, wanted) for again in self.again
        ]
        return max(
            self.level,
            self.scale.evidence_of(max(chosen, float(np.quantile(resampled, CONFIDENCE)))),
        )


@dataclass
class Tails:
    """Simulations of one window's clean streams, each done once."""

    watched: Watched
    worlds: Floats
    seed: int = 0
    swaying: Swaying | None = None
    _scales: dict[int, Scale] = field(default_factory=dict)
    _found: dict[tuple[int, int, int], Tail] = field(default_factory=dict)

    def burden(self, per_event: float, *, length: int | None = None, time: float = 1.0) -> float:
        """The evidence that clean streams give `per_event` times an event at most, with confidence; never less than none.

        A stretch of `length` independent events is read: those of a window where none is given.
        """
        length = max(1, round(self.watched.window / time)) if length is None else length
        stride = max(1, round(self.watched.stride / time))
        key = length, stride, int(time)
        if key not in self._found:
            self._found[key] = self._simulated(*key, time)
        # Of `time` events in a row one is new; a stream of these is `time` times as long in events.
        return max(0.0, replace(self._found[key], apart=stride * time).reached(per_event))

    def _simulated(self, length: int, stride: int, number: int, time: float) -> Tail:
        rng = np.random.default_rng([self.seed, 2, number])
        ends = length + stride * np.arange(LOOKS)
        streams = self._streams(int(ends[-1]), time, rng)
        loud = replace(self.watched, quiet=self._loudest(streams, ends, length))
        series = loud.odds_of(streams, ends, length=length).evidence
        if length not in self._scales:
            self._scales[length] = self._scale(length)
        scale = self._scales[length]
        level = float(np.quantile(series, LEVEL, method="higher"))
        if not math.isfinite(level):
            level = float(series.max()) - 1.0
        peaks = [[scale.score_of(peak) for peak in _peaks(values, level)] for values in series]
        again = rng.integers(len(peaks), size=(RESAMPLES, len(peaks)))
        return Tail(level, scale, peaks, again, float(stride))

    def _streams(self, n: int, time: float, rng: np.random.Generator) -> list[np.ndarray]:
        if self.swaying is None:
            return [stream(world, n, rng) for world in self.worlds]
        return self.swaying.streams(self.worlds, n, rng, time=time)

    def _scale(self, length: int) -> Scale:
        """By what takes clean windows up: shift that looks like it, or harder and harder groups where those are simulated."""
        if self.swaying is None:
            return Scale.of(self.watched, self.worlds, length=length, seed=self.seed)
        rng = np.random.default_rng([self.seed, 4])
        worlds = self.worlds[np.arange(FEW) % len(self.worlds)]
        windows = [
            stream(world, length, rng)
            for world in self.swaying.harder(worlds, np.linspace(0.0, HARDEST, FEW))
        ]
        evidence = self.watched.estimator.odds(
            counted(windows, len(self.watched.scores.shift))
        ).evidence
        told = evidence < CERTAIN
        return Scale(
            np.sort(mean_scores(self.watched.scores, windows)[0][told]), np.sort(evidence[told])
        )

    def _loudest(
        self, streams: Sequence[np.ndarray], ends: np.ndarray, length: int
    ) -> tuple[float, float]:
        """The scores above which the windows lie that give the most evidence: the others need not be worked out."""
        means = [self.watched.means(cells, ends, length=length) for cells in streams]
        shift, error = (
            float(np.quantile(np.concatenate([m[i] for m in means]), LOUD)) for i in (0, 1)
        )
        return shift, error


def _peaks(values: Floats, level: float) -> list[float]:
    """The height of every alarm that a threshold at this level would raise."""
    changes, _ = walk(values, level, level - GAP, active=False)
    starts = [i for i, raised in changes if raised]
    ends = [i for i, raised in changes if not raised] + [len(values)]
    return [float(values[start:end].max()) for start, end in zip(starts, ends, strict=False)]


def extrapolated(peaks: Sequence[Sequence[float]], level: float, wanted: float) -> float:
    """Where alarms become as rare as wanted (per look), their peaks exponential above the level."""
    heights = np.array([peak for stream_peaks in peaks for peak in stream_peaks])
    rate = max(len(heights), 1) / (len(peaks) * LOOKS)
    mean = float((heights - level).mean()) if len(heights) else 0.0
    return level + max(mean, 1e-3) * max(math.log(rate / wanted), 0.0)


class Mixed(NamedTuple):
    """What windows say that have a share of something else in them."""

    shift: Floats
    """The mean shift score."""
    error: Floats
    """The mean expected error."""
    odds: Odds


def mixtures(
    watched: Watched, worlds: Floats, kinds: Sequence[Floats], *, length: int, seed: int
) -> Mixed:
    """Of windows with a share of one of the kinds in them."""
    few, rng = worlds[: max(FEW // (4 * len(kinds)), 8)], np.random.default_rng([seed, 4])
    windows = [
        window_of(world, kind, rate, length=length, rng=rng)
        for kind in kinds
        for rate in MIXTURES
        for world in few
    ]
    odds = watched.estimator.odds(counted(windows, len(watched.scores.shift)))
    return Mixed(*mean_scores(watched.scores, windows), odds)


def counted(windows: Sequence[np.ndarray], cells: int) -> NDArray[np.int64]:
    """Windows by cell."""
    return np.stack([np.bincount(window, minlength=cells) for window in windows])
