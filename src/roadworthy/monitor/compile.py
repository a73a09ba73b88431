"""From a table of scores with known outcomes to a bundle: `roadworthy.calibrate`.

The bundle learns how scores look under each kind of shift, sets a tolerable limit if none is given,
leaves kinds out in turn to see how often intervals hold on unseen ones, and sets the alarm.

>>> stem("a/today.csv.gz"), stem("today.v2.parquet")
('today', 'today.v2')
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.risk.calibration import (
    FEW_OF_A_KIND,
    Calibration,
    fit_calibration,
)
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.placement import Deployed
from roadworthy.analysis.risk.prototypes import accuracy_tree, asks_for_alarms
from roadworthy.analysis.risk.tree import Tree, priced, refuse_out_of_reach
from roadworthy.data.samples import DataError
from roadworthy.data.scores import ScoreTable, read_scores
from roadworthy.monitor.alarm import alarms_per_day
from roadworthy.monitor.bundle import Bundle, Coverage, RatePrior
from roadworthy.monitor.messages import DAY, HOUR
from roadworthy.monitor.windows import Windows
from roadworthy.registry import did_you_mean
from roadworthy.statistics import clustered_proportion

CLEAN, NEEDS = "clean", ("kind", "correct")
"""The kind without shift, and the columns that a table must have."""
EVENTS_PER_DAY = 10_000.0
"""Assumed if neither the user nor the times of the table say how many come."""
WINDOW = 100
LONGER = 10
"""A second window, so many times as long as the alarm's, to compare with the forecast."""
PRIOR_EVENTS = 20.0
"""Events that an expected rate of shift is worth."""
RATES = tuple(np.repeat(np.linspace(0.1, 1.0, 10), 3).tolist())
"""Rates of shift at which windows are drawn to see how often the intervals hold the truth."""
TOLERATED = 0.2
"""The share of shifted events, beyond those expected, whose cost is the limit if none is given."""
ALL_SCORES = (
    "No detector set. Costs of alarms assume that all scores combined raise them, at the threshold "
    "that separates shifted from clean rows best."
)
ENDINGS = (".gz", ".csv", ".tsv", ".parquet", ".pq")
"""Of tables of scores."""


def calibrate(
    table: ScoreTable | str | os.PathLike[str],
    *,
    tree: Tree | None = None,
    constants: Mapping[str, float] | None = None,
    tolerable: float | None = None,
    detector: str | None = None,
    threshold: float | None = None,
    window: int = WINDOW,
    half_life: float | None = None,
    adaptive: bool = False,
    prior: float | None = None,
    false_alarms: str = "1 per month",
    events_per_day: float | None = None,
    subject: str | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Bundle:
    """Compile a table of scores with known outcomes into the bundle that a monitor runs from.

    `table` is the path of a CSV or Parquet file with the columns `kind` ("clean" without shift),
    `correct` and scores, or such a table as `read_scores` returns it. `tree` prices outcomes (by
    default: wrong answers per case) and `constants` are those of its parameters that no stream
    gives. `detector` and `threshold` name the score whose alarms call a person. `prior` is the
    share of shifted events that is expected. `progress` is called with the name of each stage.
    """
    tree = accuracy_tree() if tree is None else tree
    constants = dict(constants or {})
    alarms_per_day(false_alarms)
    windows = Windows((window, LONGER * window), half_life, adaptive)
    if tolerable is not None:
        refuse_out_of_reach(tree, tolerable)
    if not isinstance(table, ScoreTable):
        table = read_scores(Path(table), needs=NEEDS)
    if table.kind is None or table.correct is None:
        raise DataError(f"{table.source}: the columns kind and correct are needed")
    deployed = _deployed(table, tree, detector, threshold)
    notes = [*table.notes]
    if deployed is not None:
        notes.append(f"Alarms that call a person: {deployed}.")
    elif asks_for_alarms(tree):
        notes.append(ALL_SCORES)
    rows = LabelledRows(table.columns, table.kind, table.correct, table.group)
    progress("learning how shift looks")
    calibration = rows.calibrated(deployed=deployed)
    limit = tolerated(calibration, tree, constants) if tolerable is None else tolerable
    if tolerable is None:
        cost = f"{priced(limit, tree.unit)}, the expected cost if {TOLERATED:.0%} of inputs are shifted"
        notes.append(f"No tolerable limit set. Using {cost}.")
    progress("leaving out one kind at a time")
    coverage = left_out(rows)
    progress("setting the alarm on simulated streams without shift")
    bundle = Bundle.compile(
        calibration,
        tree,
        subject=subject or stem(table.source),
        constants=constants,
        tolerable=limit,
        prior=None if prior is None else RatePrior(prior, PRIOR_EVENTS),
        windows=windows,
        alarm_window=window,
        false_alarms=false_alarms,
        events_per_day=events_per_day or pace(table) or EVENTS_PER_DAY,
        expected_rate=prior or 0.0,
        coverage=coverage,
        made={"source": table.source, "notes": notes},
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    highest = bundle.estimator.forecast(1.0)[2]
    if tolerable is not None and highest <= tolerable:
        raise ValueError(
            f"the limit {tolerable:g} {tree.unit} cannot be exceeded: if all events are shifted, "
            f"the cost is at most {highest:.4g}. Choose a lower one"
        )
    return bundle


class KindSummary(NamedTuple):
    """What a calibration knows of one kind of rows."""

    kind: str
    rows: int
    accuracy: float
    low: float
    high: float
    auc: float | None
    """How well the combined scores separate it from clean: 0.5 not at all, 1 perfectly; by models
    that had not seen the rows. None for clean itself."""


def summarise(bundle: Bundle, table: ScoreTable) -> list[KindSummary]:
    """Rows, accuracy with its 95% interval (of whole groups, if there are any) and AUC by kind."""
    assert table.kind is not None and table.correct is not None
    calibration = bundle.calibration
    bins = calibration.by_bin(calibration.table.sum(axis=1))
    shares = bins / np.maximum(bins.sum(axis=1, keepdims=True), 1.0)
    below = np.concatenate([[0.0], np.cumsum(shares[0])[:-1]]) + 0.5 * shares[0]
    found = []
    for at, name in enumerate(calibration.kinds):
        rows = table.kind == name
        right = table.correct[rows].astype(float)
        held = clustered_proportion(right, None if table.group is None else table.group[rows])
        auc = float(shares[at] @ below) if at else None
        found.append(KindSummary(name, len(right), float(right.mean()), held.low, held.high, auc))
    return found


def pace(table: ScoreTable) -> float | None:
    """Events per day by the times of a table; None if these span less than an hour."""
    times = np.zeros(0) if table.time is None else table.time[np.isfinite(table.time)]
    span = float(np.ptp(times)) if len(times) else 0.0
    return table.n / span * DAY if span >= HOUR else None


def stem(source: str | os.PathLike[str]) -> str:
    """The name of a table without its endings."""
    name = Path(source).name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name


def _deployed(
    table: ScoreTable, tree: Tree, detector: str | None, threshold: float | None
) -> Deployed | None:
    """The score whose alarms call a person; a verdict of 0 or 1 needs no threshold."""
    if detector is None:
        if threshold is not None:
            raise DataError("a threshold needs a detector: name the score it belongs to")
        return None
    if not asks_for_alarms(tree):
        raise DataError(
            f"detector {detector}: no cost depends on an alarm. Give the costs of a necessary and "
            "an unnecessary one, or leave the detector out"
        )
    if detector not in table.columns:
        names = list(table.columns)
        instead = f"{did_you_mean(detector, names)}; it has {', '.join(names)}"
        raise DataError(f"{table.source} has no score {detector!r}{instead}")
    scores = table.columns[detector]
    if threshold is None and not np.isin(scores[~np.isnan(scores)], (0.0, 1.0)).all():
        raise DataError(f"detector {detector} needs a threshold, above which it raises an alarm")
    if threshold is not None and not np.isfinite(threshold):
        raise DataError(f"a threshold is a finite number, found {threshold}")
    return Deployed(detector, 0.5 if threshold is None else threshold)


class LabelledRows(NamedTuple):
    """Scores of rows whose kind of shift and outcome are known."""

    columns: Mapping[str, np.ndarray]
    kind: np.ndarray
    correct: np.ndarray
    groups: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> LabelledRows:
        """Some of them, by mask or index."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        groups = None if self.groups is None else self.groups[rows]
        return LabelledRows(columns, self.kind[rows], self.correct[rows], groups)

    def calibrated(self, counted: LabelledRows | None = None, **settings: Any) -> Calibration:
        """Learned from these rows; counted on others with the same kinds, else by cross-fitting.

        `settings` are those of `fit_calibration`.
        """
        return fit_calibration(*self[:3], groups=self.groups, count_on=counted, **settings)

    def without(self, names: Sequence[str]) -> LabelledRows:
        """The same rows without some of the scores."""
        columns = {name: column for name, column in self.columns.items() if name not in names}
        return self._replace(columns=columns)


def tolerated(
    calibration: Calibration, tree: Tree, constants: Mapping[str, Any], expected_rate: float = 0.0
) -> float:
    """The limit if none is given: the expected cost if 20% of the clean events are shifted."""
    rate = expected_rate + TOLERATED * (1.0 - expected_rate)
    risk, _, _ = Estimator(calibration, tree, constants=constants).forecast(rate)
    digits = 3 - int(np.floor(np.log10(abs(risk)))) - 1 if risk else 0
    return round(risk, digits)


def left_out(
    rows: LabelledRows, counted: LabelledRows | None = None, *, seed: int = 0
) -> Coverage | None:
    """How often intervals of accuracy and of the share shifted hold the truth on unseen kinds.

    Each kind is left out in turn, with half of the clean rows; windows at several rates are drawn
    from what was left out. With `counted` rows, half of these (whole groups) are counted and windows
    are drawn from the other half. None if there are fewer than two kinds with enough rows.
    """
    names, counts = np.unique(rows.kind, return_counts=True)
    kinds = [str(name) for name in names[counts >= FEW_OF_A_KIND] if name != CLEAN]
    if len(kinds) < 2:
        return None
    rng = np.random.default_rng([seed, 12])
    judged = rows if counted is None else counted
    units = np.arange(len(judged.kind))
    if judged.groups is not None:
        units = np.unique(judged.groups.astype(str), return_inverse=True)[1]
    first = rng.random(units.max() + 1)[units] < 0.5
    clean = judged.kind == CLEAN
    covered = rates = windows = 0
    for kind in kinds:
        mine = judged.kind == kind
        if counted is None:
            aside = mine | (clean & ~first)
            learned, on = rows.take(~aside), None
        else:
            aside = (mine | clean) & ~first
            learned, on = rows.take(rows.kind != kind), judged.take(~mine & first)
        if not (mine & aside).any():
            continue
        try:
            calibration = learned.calibrated(on)
        except ValueError:  # what is left has too little in it; the whole table is judged elsewhere
            continue
        cells = np.full(len(judged.kind), -1)
        seen = {name: judged.columns[name][aside] for name in calibration.names}
        cells[aside] = calibration.place(seen)
        of_kind, others = np.flatnonzero(mine & aside), np.flatnonzero(clean & aside)
        others = others if len(others) else of_kind
        drawn = rng.random((len(RATES), WINDOW)) < np.array(RATES)[:, None]
        some = [rng.choice(places, drawn.shape) for places in (of_kind, others)]
        picked = np.where(drawn, *some)
        windowed = [np.bincount(at[at >= 0], minlength=calibration.cells) for at in cells[picked]]
        found = Estimator(calibration, accuracy_tree()).estimate(windowed)
        right, shifted = judged.correct[picked].mean(axis=1), mine[picked].mean(axis=1)
        known = np.array([reason is None for reason in found.no_estimate])
        held = (found.accuracy_low <= right) & (right <= found.accuracy_high)
        covered += int((known & held).sum())
        held = (found.rate_low <= shifted) & (shifted <= found.rate_high)
        rates += int((known & held).sum())
        windows += int(known.sum())
    return Coverage(0.95, covered / windows, windows, rate=rates / windows) if windows else None
