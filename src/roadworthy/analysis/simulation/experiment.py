"""A simulation: draw streams whose truth is known, estimate without looking at it, and compare.

An `Experiment` says what to draw and how to estimate; a `Source` is where events come from, with
what was calibrated before: a table of scores, or a synthetic detector. The rows of one table are
divided: half of every kind (or whole groups) are calibrated on, the stream draws from the others.

The truth of a window is its own share of shifted events (*rate*) and of right answers (*accuracy*),
and the expected cost of its events (*risk*): the tree with which of them are shifted and detected,
and with each one's probability of a right answer. Alarms are due while the expected cost, at the
schedule's rate of the moment, is above the tolerable.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.simulation.streams import Segment
>>> experiment = Experiment(Schedule((Segment(constant=0.3),)), 2000, accuracy_tree())
>>> source = detector_source(Detector(0.9, 0.9), experiment)
>>> case = run_experiment(experiment, [source]).cases[0]
>>> case.errors["rogan_gladen"]["rate"].mean_absolute < 0.05
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import live_parameters
from roadworthy.analysis.risk.refusal import alarmed_cells
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.analysis.simulation.estimators import (
    QUANTITIES,
    Cbpe,
    Estimated,
    Estimators,
    StreamWindows,
)
from roadworthy.analysis.simulation.streams import (
    CLEAN,
    Detector,
    Pool,
    Schedule,
    Stream,
    draw_shift,
    draw_stream,
    draw_verdicts,
    verdict_rows,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
USUAL = ("event_tree", "rogan_gladen", "mean")


class ExperimentError(ValueError):
    """A mistake in an experiment, and the key of the simulation file that it is about."""

    def __init__(self, place: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.place = place


@contextmanager
def _about(*place: str) -> Iterator[None]:
    """What is wrong here is about this key of the file."""
    try:
        yield
    except ValueError as error:
        raise ExperimentError(place, str(error)) from error


@dataclass(frozen=True)
class Experiment:
    """What to draw, and how to estimate."""

    schedule: Schedule
    events: int
    """Of one stream."""
    tree: Tree
    constants: Mapping[str, float] = field(default_factory=dict)
    tolerable: float | None = None
    """The expected cost above which an alarm is due."""
    kinds: tuple[str, ...] | None = None
    """Of the shifted events; None: every kind but clean."""
    batches: tuple[int, ...] = (1,)
    """Events that are clean or shifted together: one size, or several mixed."""
    runs: float = 1.0
    order: float = 0.0
    by: str | None = None
    estimators: tuple[str, ...] = USUAL
    confidence_from: str = "max_softmax"
    window: int = 100
    batch: int | None = None
    """Events that are judged together, for estimators that read batches."""
    confidence: float = 0.95
    repeats: int = 1
    seed: int = 0

    def estimator(self, calibration: Calibration) -> Estimator:
        """The estimator on a calibration."""
        limit = self.tolerable
        with _about("risk"):
            return Estimator(calibration, self.tree, constants=self.constants, tolerable=limit)


@dataclass(frozen=True, eq=False)
class Source:
    """Where events come from, and what was known of them before."""

    label: str
    estimators: Estimators
    parameters: Mapping[str, float]
    """The truth about the tree in the long run, but p_shift."""
    rows: Pool | Detector
    kinds: tuple[str, ...]
    """Of the shifted events."""
    chance: np.ndarray
    """P(right) of every row of a table, as far as its scores tell; empty for a detector."""
    notes: tuple[str, ...] = ()

    def draw(self, experiment: Experiment, rng: np.random.Generator) -> tuple[Stream, np.ndarray]:
        """One stream, and P(right) of its events."""
        made = experiment
        shift = draw_shift(made.schedule, made.events, batches=made.batches, rng=rng)
        if isinstance(self.rows, Detector):
            return draw_verdicts(self.rows, shift, rng=rng), self.rows.right(shift.shifted)
        how: dict[str, Any] = {"runs": made.runs, "order": made.order, "by": made.by}
        stream = draw_stream(self.rows, shift, kinds=self.kinds, rng=rng, **how)
        return stream, self.chance[stream.row]


def detector_source(
    detector: Detector,
    experiment: Experiment,
    *,
    clean: int = 1000,
    shifted: int = 1000,
    number: int = 0,
) -> Source:
    """A synthetic detector that was calibrated on so many clean and shifted rows."""
    rng = np.random.default_rng([experiment.seed, number, experiment.repeats])
    rows = verdict_rows(detector, clean, shifted, rng=rng)
    calibration = fit_calibration(rows.columns, rows.kind, rows.correct, seed=experiment.seed)
    known = {"tpr": detector.tpr, "tnr": detector.tnr, **experiment.constants}
    for side in ("clean", "shifted"):
        for end in ("", "_detected", "_undetected"):
            known[f"accuracy_{side}{end}"] = getattr(detector, f"accuracy_{side}")
    estimators = Estimators(experiment.estimator(calibration), confidence=experiment.confidence)
    label = f"TPR {detector.tpr:g}, TNR {detector.tnr:g}"
    return Source(label, estimators, known, detector, rows.kinds, np.zeros(0))


def table_source(
    pool: Pool,
    experiment: Experiment,
    *,
    learned: Pool | None = None,
    groups: np.ndarray | None = None,
    without: tuple[str, ...] = (),
) -> Source:
    """Rows of a table; `learned` are those to calibrate on, by default half of the table.

    `groups` are those of the rows to calibrate on; `without` names kinds to leave out there.
    """
    kinds = pool.kinds if experiment.kinds is None else experiment.kinds
    notes: tuple[str, ...] = ()
    given = pool if learned is None else learned
    with _about("stream", "kinds"):
        wanted = pool.of((CLEAN, *kinds))
    with _about("calibration", "without"):
        kept = ~given.of(without)
    if learned is None:
        half = _half(pool, groups, np.random.default_rng([experiment.seed, 2]))
        kept &= half
        # A group that was calibrated on is not streamed, whatever the kind of its rows.
        left = ~kept if groups is None else ~half
        pool, wanted = pool.taken(left), wanted[left]
        many = f"{int(kept.sum()):,} rows to calibrate on, {len(pool.kind):,} to draw from"
        notes = (f"the table is divided: {many}",)
    rows, chosen = given.taken(kept), None if groups is None else groups[kept]
    pool = pool.taken(wanted)
    with _about("calibration"):
        calibration = fit_calibration(
            rows.columns, rows.kind, rows.correct, groups=chosen, seed=experiment.seed
        )
    with _about("stream"):
        cells = calibration.place(pool.columns).astype(np.int64)
    shifted = pool.kind != CLEAN
    known = parameters_of_rows(shifted, _detected(calibration, cells), pool.correct)
    estimator = experiment.estimator(calibration)
    cbpe = _cbpe(rows, experiment.confidence_from) if "cbpe" in experiment.estimators else None
    return Source(
        "",
        Estimators(estimator, cbpe, experiment.confidence),
        {**estimator.constants, **known},
        pool,
        kinds,
        _chances(calibration, cells, shifted, pool.correct),
        notes=(*notes, *calibration.notes),
    )


def _half(pool: Pool, groups: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Which rows are in the first half: half of the groups, or half of the rows of every kind."""
    if groups is not None:
        names, place = np.unique(groups, return_inverse=True)
        chosen: np.ndarray = (rng.permutation(len(names)) < len(names) // 2)[place]
        return chosen
    first = np.zeros(len(pool.kind), dtype=bool)
    for kind in (CLEAN, *pool.kinds):
        rows = rng.permutation(np.flatnonzero(pool.kind == kind))
        first[rows[: len(rows) // 2]] = True
    return first


def _cbpe(rows: Pool, score: str) -> Cbpe:
    """Fitted, as its authors do, on clean rows alone; the score falls with confidence."""
    with _about("confidence_from"):
        if score not in rows.columns:
            there = ", ".join(rows.columns)
            raise ValueError(f"cbpe: the table has no score {score!r}; scores are {there}")
        confidence = 1.0 - rows.columns[score]
        some = (rows.kind == CLEAN) & np.isfinite(confidence)
        return Cbpe.fit(confidence[some], rows.correct[some])


def _detected(calibration: Calibration, cells: np.ndarray) -> np.ndarray:
    return (cells >= 0) & alarmed_cells(calibration)[np.maximum(cells, 0)]


def _chances(
    calibration: Calibration, cells: np.ndarray, shifted: np.ndarray, correct: np.ndarray
) -> np.ndarray:
    """P(right) of each row: the share of right answers among rows whose scores look the same."""
    _, clean, of_shifted, _ = np.unravel_index(np.maximum(cells, 0), calibration.shape)
    condition = np.where(cells < 0, -1, np.where(shifted, of_shifted, clean)) * 2 + shifted
    _, place = np.unique(condition, return_inverse=True)
    share: np.ndarray = np.bincount(place, weights=correct) / np.bincount(place)
    return share[place]


@dataclass(frozen=True)
class Error:
    """How far estimates lie from the truth, on average."""

    mean_absolute: float
    bias: float
    """Estimate minus truth."""
    coverage: float
    """The share of intervals that hold the truth; NaN if there are none."""
    width: float
    """The mean width of the intervals."""
    estimated: float
    """The share of windows for which there is an estimate."""
    windows: int


def error_of(found: Estimated, truth: ArrayLike) -> Error:
    """The errors over windows; those without an estimate are left out."""
    value, true = np.asarray(found.value), np.asarray(truth, dtype=np.float64)
    ends = (value * np.nan if end is None else end for end in (found.low, found.high))
    low, high = map(np.asarray, ends)
    some = ~np.isnan(value)
    bound = some & ~np.isnan(low) & ~np.isnan(high)
    off = (value - true)[some]
    # A bound on a grid and a truth that should lie on it may differ by rounding.
    held = (low[bound] <= true[bound] + 1e-9) & (true[bound] <= high[bound] + 1e-9)
    return Error(
        mean_absolute=_mean(np.abs(off)),
        bias=_mean(off),
        coverage=_mean(held),
        width=_mean((high - low)[bound]),
        estimated=_mean(some),
        windows=len(true),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")


def parameters_of_rows(
    shifted: ArrayLike, detected: ArrayLike, chance: ArrayLike
) -> dict[str, float]:
    """A tree's live parameters, but p_shift, from rows (in the last axis) and P(right) of each."""
    alarm, right = np.asarray(detected, dtype=bool), np.asarray(chance, dtype=np.float64)
    sides = []
    for side in (~np.asarray(shifted, dtype=bool), np.asarray(shifted, dtype=bool)):
        cells = [[p * side * a for a in (~alarm, alarm)] for p in (right, 1.0 - right)]
        sides.append(np.moveaxis(np.array(cells).sum(axis=-1), (0, 1), (-2, -1)))
    return live_parameters(*sides)


class Truth(NamedTuple):
    """What was true of each window, and when alarms were due."""

    rate: Floats
    accuracy: Floats
    risk: Floats
    due: Bools
    """By event, whether the cost at its rate is above the tolerable; nowhere without a limit."""


def truth_of(
    stream: Stream,
    window: int,
    tree: Tree,
    parameters: Mapping[str, float],
    *,
    detected: ArrayLike,
    chance: ArrayLike,
    tolerable: float | None = None,
) -> Truth:
    """The truth of each whole window.

    `parameters` hold in the long run (all of the tree's but p_shift); `detected` and `chance` are
    each event's verdict and probability of a right answer.
    """
    shifted, alarm, right = (windowed(v, window) for v in (stream.shifted, detected, chance))
    rate = shifted.mean(axis=1)
    live = {"p_shift": rate, **parameters_of_rows(shifted, alarm, right)}
    risk = np.asarray(expectation(tree, {**parameters, **live}), dtype=np.float64)
    due = np.zeros(len(stream.rate), dtype=bool)
    if tolerable is not None:
        levels, place = np.unique(stream.rate, return_inverse=True)
        costs = np.asarray(expectation(tree, {**parameters, "p_shift": levels}))
        due = np.broadcast_to(costs > tolerable, levels.shape)[place]
    accuracy = windowed(stream.correct, window).mean(axis=1)
    return Truth(rate, accuracy, np.broadcast_to(risk, accuracy.shape), due)


def windowed(values: ArrayLike, window: int) -> np.ndarray:
    """Whole windows one under the other: (windows, events); what is left at the end is cut."""
    array = np.asarray(values)
    whole = len(array) // window
    return array[: whole * window].reshape(whole, window)


def window_counts(cells: ArrayLike, window: int, count: int) -> NDArray[np.int64]:
    """Events of each whole window in each of `count` cells; those without a cell are left out."""
    table = windowed(np.asarray(cells, dtype=np.int64), window)
    keys = (table + np.arange(len(table))[:, None] * count)[table >= 0]
    return np.bincount(keys, minlength=len(table) * count).reshape(len(table), count)


@dataclass(frozen=True)
class AlarmRecord:
    """How late alarms were when they were due, and how many were raised when they were not."""

    due: int
    """Stretches of the stream in which an alarm was due."""
    missed: int
    """Stretches that ended without an alarm."""
    delays: tuple[int, ...]
    """Events from the start of a stretch to its alarm; 0 if it was raised already."""
    false: int
    """Alarms raised when no event of the window came under shift."""
    quiet_events: int
    """Events at which an alarm would have been false."""
    under_tolerable_shift: int
    """Alarms raised under shift that was tolerable, throughout the window."""
    tolerable_shift_events: int
    """Events at which an alarm would have been one of these."""

    def __add__(self, other: AlarmRecord) -> AlarmRecord:
        return AlarmRecord(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def alarm_record(
    raised: Sequence[int], cleared: Sequence[int], due: Bools, *, window: int, shifted: Bools
) -> AlarmRecord:
    """Match alarms (numbers of the events that raised or cleared them) with when they were due.

    `shifted` says at which events there was shift, if only as much as is tolerable.
    """
    edges = np.diff(np.concatenate([[0], due.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    change = np.zeros(len(due) + 1, dtype=np.int64)
    np.add.at(change, np.asarray(raised, dtype=np.int64), 1)
    np.add.at(change, np.asarray(cleared, dtype=np.int64), -1)
    alarmed = np.cumsum(change)[:-1] > 0
    stretches = [alarmed[start:stop] for start, stop in zip(starts, stops, strict=True)]
    delays = tuple(int(stretch.argmax()) for stretch in stretches if stretch.any())
    none_due = _none_within(due, window)
    quiet = none_due & _none_within(shifted, window)
    early, at = none_due & ~quiet, np.asarray(raised, dtype=np.int64)
    counted = (int(events.sum()) for events in (quiet[at], quiet, early[at], early))
    return AlarmRecord(len(starts), len(starts) - len(delays), delays, *counted)


def _none_within(events: Bools, window: int) -> Bools:
    """At which events none of the last `window` is one of these."""
    past = np.concatenate([[0], np.cumsum(events)])
    number = np.arange(len(events))
    none: Bools = past[number + 1] - past[np.maximum(number + 1 - window, 0)] == 0
    return none


class WatchedStream(NamedTuple):
    """What a monitor made of a stream."""

    autocorrelation: np.ndarray
    """After each window, how many events say as much as one independent event."""
    raised: list[int]
    """Numbers of the events that raised an alarm; the first is 0."""
    cleared: list[int]
    alarm_window: int | None
    """Events that the alarm looks back on; None without an alarm."""


Watch = Callable[[np.ndarray], WatchedStream]
"""From the cells of a stream's events."""


@dataclass(frozen=True)
class Case:
    """What was found on one source, all streams together."""

    source: str
    tpr: float
    tnr: float
    """Of the verdicts that the simple estimators read: as calibrated, or the detector's own."""
    errors: Mapping[str, Mapping[str, Error]]
    """By estimator and quantity."""
    outside: Mapping[str, float]
    """By estimator, the share of windows whose alarms are outside [FPR, TPR], if there are any."""
    no_estimate: Mapping[str, str]
    """By estimator, why there is no estimate for any window."""
    alarms: AlarmRecord | None


@dataclass(frozen=True)
class Simulated:
    """What a simulation found."""

    experiment: Experiment
    calibrated_on: Mapping[str, int]
    """Rows by kind."""
    streamed: tuple[str, ...]
    """Kinds of the shifted events."""
    cases: tuple[Case, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        made = self.experiment
        own = ("calibrated_on", "streamed", "notes")
        return {
            **{name: getattr(made, name) for name in ("events", "window", "repeats", "tolerable")},
            "unit": made.tree.unit,
            **{name: getattr(self, name) for name in own},
            "cases": [_plain(asdict(case)) for case in self.cases],
        }


def _plain(value: Any) -> Any:
    """Mappings and numbers as JSON has them: NaN is null."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def run_experiment(
    experiment: Experiment,
    sources: Iterable[Source],
    *,
    monitor: Callable[[Source], Watch | None] = lambda source: None,
    advance: Callable[[int], None] = lambda events: None,
) -> Simulated:
    """Run a simulation; the same settings and seed give the same answer.

    `monitor` makes the monitor that watches the streams of a source, if any; `advance` hears how
    many events are done.
    """
    cases = []
    for number, source in enumerate(sources):
        cases.append(_case(experiment, source, number, monitor(source), advance))
    calibration = source.estimators.estimator.calibration
    return Simulated(
        experiment,
        {kind: calibration.rows(kind) for kind in calibration.kinds},
        source.kinds,
        tuple(cases),
        source.notes,
    )


def _case(
    experiment: Experiment,
    source: Source,
    number: int,
    watch: Watch | None,
    advance: Callable[[int], None],
) -> Case:
    estimator, names = source.estimators.estimator, experiment.estimators
    truths: list[Truth] = []
    windows: list[StreamWindows] = []
    record: AlarmRecord | None = None
    for repeat in range(experiment.repeats):
        rng = np.random.default_rng([experiment.seed, number, repeat])
        with _about("stream"):
            stream, chance = source.draw(experiment, rng)
        cells = estimator.calibration.place(stream.columns)
        truth = truth_of(
            stream,
            experiment.window,
            estimator.tree,
            source.parameters,
            detected=_detected(estimator.calibration, cells),
            chance=chance,
            tolerable=estimator.tolerable,
        )
        shrink = np.ones(len(truth.rate))
        if watch is not None:
            watched = watch(cells)
            shrink = 1.0 / watched.autocorrelation[: len(shrink)]
            if (window := watched.alarm_window) is not None:
                shifted, alarms = stream.rate > 0, (watched.raised, watched.cleared)
                new = alarm_record(*alarms, truth.due, window=window, shifted=shifted)
                record = new if record is None else record + new
        truths.append(truth)
        windows.append(_windows(experiment, source, stream, cells, shrink))
        advance(experiment.events)
    every = StreamWindows._make(
        None if part[0] is None else np.concatenate(part) for part in zip(*windows, strict=True)
    )
    true = Truth._make(map(np.concatenate, zip(*truths, strict=True)))
    found = {name: source.estimators.estimate(name, every) for name in names}
    verdicts = source.rows if isinstance(source.rows, Detector) else estimator.separation
    rates = {name: by["rate"] for name, by in found.items()}
    return Case(
        source.label,
        verdicts.tpr,
        verdicts.tnr,
        {n: {q: error_of(by[q], getattr(true, q)) for q in QUANTITIES} for n, by in found.items()},
        {n: float(np.mean(rate.outside)) for n, rate in rates.items() if np.any(rate.outside)},
        {name: rate.reason for name, rate in rates.items() if rate.reason is not None},
        record,
    )


def _windows(
    experiment: Experiment, source: Source, stream: Stream, cells: np.ndarray, shrink: Floats
) -> StreamWindows:
    calibration = source.estimators.estimator.calibration
    counts = window_counts(cells, experiment.window, calibration.cells)
    confidences, batches = None, None
    if source.estimators.cbpe is not None:
        confidences = windowed(1.0 - stream.columns[experiment.confidence_from], experiment.window)
    if experiment.batch is not None:
        bins, per = calibration.shift.bins, experiment.window // experiment.batch
        each = window_counts(calibration.shift_bin(cells), experiment.batch, bins)
        batches = each[: len(counts) * per].reshape(len(counts), per, bins)
    return StreamWindows(counts, shrink, confidences, batches)
