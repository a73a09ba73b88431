"""The burden of proof that keeps a stated rate of false alarms, found by simulating clean streams before release.

What clean is, is known from the calibration's clean counts alone, up to chance: of many draws from their Dirichlet posterior
("worlds") those are simulated whose windows give more evidence of shift than 96% of the others do, so that the stated rate is kept
not on average over calibrations but by nearly every one. Windows are evaluated as the monitor will, and alarms counted with
hysteresis.

Beyond what was simulated the rate is extrapolated (`roadworthy.monitor.tails`).

Where clean data may themselves cost as much as is tolerable, an alarm without shift would be a true one, and shift need not be
what it rings for. There it rings with nothing proven, too, where it is sure (97.5%) that the cost is above, and its notes say so.

The same is done for windows that hold fewer independent events, and for the longer stretch that is read beside them (see
`roadworthy.monitor.stretches`); where both are read, each gets half of the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roadworthy.analysis.risk.kind_costs import costs_of
from roadworthy.monitor.alarm import GAP, LIKELIER, AlarmRule, alarms_per_day
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import NOTHING_QUIET, Watched
from roadworthy.monitor.rule_notes import rule_notes
from roadworthy.monitor.stretches import enough_events, tried_times
from roadworthy.monitor.tails import CERTAIN, FEW, MIXTURES, Tails, counted, mixtures
from roadworthy.monitor.worlds import (
    UNLUCKY,
    UNLUCKY_TOO,
    Swaying,
    clean_worlds,
    mean_scores,
    stream,
    unlucky_worlds,
)

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimator, Odds

WORLDS = 1200
"""Draws of what clean may be."""
TIMES = (2.0, 5.0, 12.0, 30.0, 70.0)
"""Autocorrelation times for which a burden is found, as long as a window holds more than `LEAST` independent events."""
LEAST = 10
"""Of fewer no burden that keeps clean streams quiet is carried by any shift; a longer stretch is read then."""
FEWEST = 5
"""A short window is read down to so few, up to where the stretch begins."""
_JUST_BELOW = 0.999
SURE = math.log(0.975 / 0.025)
"""From where on an alarm that cannot keep its rate has nothing to prove: the lower end of a 95% interval is above the tolerable."""
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


def alarm_rule(
    estimator: Estimator,
    *,
    windows: Sequence[int],
    stride: int | None = None,
    false_alarms: str = "1 per month",
    events_per_day: float = 10_000.0,
    group_events: int | None = None,
    seed: int = 0,
) -> AlarmRule:
    """The rule for the shortest of the windows that notices a step to 30% shift; for the longest where none does.

    Kinds of which 30% is tolerable are no reason for a longer one. `group_events` of one group come in a row on the stream: where
    clean differs between groups, the alarm allows for it; without that number it does not.
    """
    assert estimator.tolerable is not None
    if group_events is not None and group_events < 1:
        raise ValueError(f"of one group 1 event or more come in a row, found {group_events}")
    asked = group_events or 0
    not_due = {
        kind: cost
        for kind, cost in costs_of(estimator, STEP).items()
        if cost <= estimator.tolerable
    }
    per_event = alarms_per_day(false_alarms) / events_per_day
    calibration = estimator.calibration
    scores = CellScores.of(calibration)
    worlds = clean_worlds(calibration, WORLDS, np.random.default_rng([seed, 1]))
    swaying = Swaying.of(calibration, asked)
    clean, _, most = estimator.forecast(0.0)
    sure = SURE if clean >= estimator.tolerable else math.inf
    for window in sorted(windows):
        plain = Watched(estimator, scores, window, stride or default_stride(window))
        watched = _quietened(plain, worlds, seed)
        seen = odds_after_steps(
            watched if sure == math.inf else plain, worlds, seed=seed, swaying=swaying
        )
        if window < max(windows) and _least(_noticed(seen, 0.0, sure), not_due) < ENOUGH:
            continue  # not even with the lowest burden that there is
        unlucky = unlucky_worlds(watched, worlds, UNLUCKY if swaying is None else UNLUCKY_TOO)
        tails = Tails(watched, unlucky, seed, swaying)
        burden = tails.burden(per_event)
        detects = _noticed(seen, burden, sure)
        if _least(detects, not_due) >= ENOUGH:
            break
    freely = _noticed(seen, burden, SURE)
    if most >= estimator.tolerable and _most(detects, not_due) < MUTE <= _most(freely, not_due):
        sure, detects = SURE, freely
    groups = 0.0 if swaying is None else swaying.spread(watched.window)
    stretch = enough_events(watched, worlds, per_event, step=STEP, groups=groups)
    tried = tried_times(watched.window, stretch)
    first = tried[0][0] if tried else math.inf
    by_time = [(1.0, burden)]
    for time in _times(watched.window, first):
        # From where a stretch is read beside the window, false alarms come from both: there the burden takes a step.
        accepted = per_event / 2.0 if time >= first else per_event
        by_time.append((time, tails.burden(accepted, time=time)))
    by_stretch = tuple(
        (time, tails.burden(per_event / 2.0, length=length, time=time)) for time, length in tried
    )
    longer = _quietened(replace(watched, window=stretch), worlds, seed)
    hushed = _hushed(watched, worlds, burden, seed)
    quiet, heard = hushed.levels, hushed.rings
    if by_stretch:
        lower = _hushed(longer, worlds, min(burden for _, burden in by_stretch), seed)
        quiet = min(quiet[0], lower.levels[0]), min(quiet[1], lower.levels[1])
        heard = heard or lower.rings
    unproven = hushed.unproven if burden < CERTAIN else calibration.kinds[1:]
    above = _clean_log_odds(watched, unlucky, seed)
    off = float(np.clip(np.quantile(above, CLEARED), LIKELIER - GAP, LIKELIER))
    return AlarmRule(
        watched.window,
        watched.stride,
        burden,
        false_alarms,
        float(events_per_day),
        off=off,
        by_time=tuple(by_time),
        quiet=quiet if sure == math.inf else NOTHING_QUIET,
        detects=detects,
        notes=rule_notes(
            estimator,
            detects,
            not_due=not_due,
            step=STEP,
            false_alarms=false_alarms,
            events_per_day=events_per_day,
            group_events=asked,
            kept=sure == math.inf,
            freely=dict(_noticed(seen, -math.inf)),
            cleared=float((above < off).mean()),
            unproven=None if heard and burden < CERTAIN else unproven,
        ),
        stretch=stretch if by_stretch else 0,
        by_stretch=by_stretch,
        not_due=tuple(not_due),
        group_events=asked,
        sure=sure,
    )


def _times(window: int, first: float) -> list[float]:
    """Autocorrelation times for which a burden is found; `first` is the one from which on a longer stretch is read."""
    last = window / LEAST
    if first < math.inf:  # no times between the two of which nothing is read
        last = max(last, min(first, window / FEWEST))
    ends = [time for time in (first, last) if 1.0 < time <= last]
    apart = [
        time for time in TIMES if time < last and all(not 0.8 < time / end < 1.25 for end in ends)
    ]
    return sorted({*apart, *ends, *(end * _JUST_BELOW for end in ends if end == first)})


def default_stride(window: int) -> int:
    """Five looks a window, but none before 50 new events: each costs as much as counting a hundred."""
    return max(window // 5, min(window // 2, 50), 1)


def odds_after_steps(
    watched: Watched, worlds: Floats, *, seed: int = 0, swaying: Swaying | None = None
) -> dict[str, Odds]:
    """By kind of shift: the odds of every look within two windows of steps from none to 30% of it, steps x looks."""
    calibration = watched.estimator.calibration
    # Looks fall anywhere between two strides; the step is taken to lie in the middle.
    ends = watched.window + np.arange(
        (watched.stride + 1) // 2, 2 * watched.window + 1, watched.stride
    )
    found = {}
    for number, kind in enumerate(calibration.kinds[1:], start=1):
        rng = np.random.default_rng([seed, 3, number])
        shifted = calibration.table[number].sum(axis=0) + 1e-9
        some, n = worlds[:DETECTIONS], 3 * watched.window
        before = (
            None
            if swaying is None
            else swaying.streams(some, n, np.random.default_rng([seed, 6, number]))
        )
        streams = []
        for at, world in enumerate(some):
            cells = stream(world, n, rng) if before is None else before[at]
            where = np.flatnonzero(rng.random(2 * watched.window) < STEP) + watched.window
            cells[where] = stream(shifted, len(where), rng)
            streams.append(cells)
        found[kind] = watched.odds_of(streams, ends, length=watched.window)
    return found


def _noticed(
    seen: Mapping[str, Odds], burden: float, sure: float = math.inf
) -> tuple[tuple[str, float], ...]:
    """How often steps of each kind ring."""
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
    shift, error = mean_scores(watched.scores, windows)
    return replace(
        watched, quiet=(float(np.quantile(shift, QUIET)), float(np.quantile(error, QUIET)))
    )


def _clean_log_odds(watched: Watched, worlds: Floats, seed: int) -> Floats:
    """Of clean windows, without any burden: what an alarm that is on is cleared by."""
    rng = np.random.default_rng([seed, 7])
    windows = [stream(worlds[i % len(worlds)], watched.window, rng) for i in range(FEW)]
    return watched.estimator.odds(counted(windows, len(watched.scores.shift))).above


class Hushed(NamedTuple):
    """Which windows an alarm passes over, and whether those of nothing but shift are among the silent ones."""

    levels: tuple[float, float]
    """Mean shift score and mean expected error: a window below both does not come near an alarm."""
    rings: bool
    """Whether windows of nothing but shift ring, of one kind at least."""
    unproven: tuple[str, ...]
    """The kinds whose windows fall short of the burden of proof, and less of the tolerable cost if at all."""


def _hushed(watched: Watched, worlds: Floats, burden: float, seed: int) -> Hushed:
    """The levels below which no window comes near an alarm, and what windows of nothing but shift do.

    Windows with a little and with much of every kind of shift say which shift scores go with log-odds down to two below it; clean
    windows with more and more of the cells in which most errors are expected say which expected errors do.
    """
    clean = worlds.mean(axis=0)
    order = np.argsort(watched.scores.error, kind="stable")
    worst = np.zeros_like(clean)
    worst[order] = np.where(np.cumsum(clean[order]) >= WORST, clean[order], 0.0)
    kinds = [rows.sum(axis=0) + 1e-9 for rows in watched.estimator.calibration.table[1:]]
    shifted = mixtures(watched, worlds, kinds, length=watched.window, seed=seed)
    bad = mixtures(watched, worlds, [worst], length=watched.window, seed=seed)
    judged = shifted.odds.judged(burden)
    near = shifted.shift[judged >= LIKELIER - NEAR]
    # No mean error exceeds 1: where nothing comes near, no level is needed.
    errors = bad.error[bad.odds.judged(burden) >= LIKELIER - NEAR]
    levels = float(near.min()) if len(near) else watched.quiet[0], float(errors.min(initial=2.0))
    # Of the two that an alarm asks for, what keeps a window silent is the one that it falls short of the more.
    by_burden = burden - shifted.odds.evidence >= -shifted.odds.above
    rings, unproven = (
        _of_nothing_but(said, len(kinds)) >= MUTE for said in (judged >= LIKELIER, by_burden)
    )
    names = watched.estimator.calibration.kinds[1:]
    return Hushed(
        levels,
        bool(rings.any()),
        tuple(kind for kind, so in zip(names, unproven, strict=True) if so),
    )


def _of_nothing_but(said: np.ndarray, kinds: int) -> Floats:
    """By kind, in what share of the windows of nothing but that kind it is so."""
    result: Floats = said.reshape(kinds, len(MIXTURES), -1)[:, -1].mean(axis=1)
    return result
