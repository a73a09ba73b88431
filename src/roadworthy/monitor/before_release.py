"""What is found out before a bundle is compiled: a limit for those who give none, and how intervals fare on kinds left out.

>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "snow"], 300)
>>> shifted = kind != "clean"
>>> right = rng.random(900) < np.where(shifted, 0.5, 0.9)
>>> rows = LabelledRows({"knn": rng.normal(1.5 * shifted)}, kind, right)
>>> found = left_out(rows)
>>> found.windows > 30, found.observed > 0.8
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roadworthy.monitor.risk_state import Coverage

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.deployed import Deployed
    from roadworthy.analysis.risk.tree import Tree

CLEAN = "clean"
EVENTS_PER_DAY = 10_000.0
"""Where nobody says how many come."""
WINDOW = 100
RATES = tuple(np.repeat(np.linspace(0.1, 1.0, 10), 3).tolist())
"""Rates of shift at which windows are drawn to see how often the intervals hold the truth."""
TOLERATED = 0.2
"""The share of shifted events, beyond those that are expected, whose cost is tolerated where nobody says what is tolerable."""


class LabelledRows(NamedTuple):
    """Scores of rows whose kind of shift and outcome are known."""

    columns: Mapping[str, np.ndarray]
    kind: np.ndarray
    correct: np.ndarray
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    """Seconds; they say how clean varies where there are no groups."""

    @property
    def units(self) -> np.ndarray:
        """Numbers of what belongs together: the groups, else the rows."""
        if self.groups is None:
            return np.arange(len(self.kind))
        numbers: np.ndarray = np.unique(self.groups.astype(str), return_inverse=True)[1]
        return numbers

    def take(self, rows: np.ndarray) -> LabelledRows:
        """Some of them, by mask or index."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        groups, times = (None if part is None else part[rows] for part in (self.groups, self.times))
        return LabelledRows(columns, self.kind[rows], self.correct[rows], groups, times)

    def calibrated(
        self,
        counted: LabelledRows | None = None,
        *,
        deployed: Deployed | None = None,
        aside: Sequence[str] = (),
        seed: int = 0,
    ) -> Calibration:
        """Learned from these rows, and counted on others, which have every kind of these; else by folds on themselves."""
        from roadworthy.analysis.risk.calibration import calibrate

        on = None if counted is None else tuple(counted)
        times = (self if counted is None else counted).times
        return calibrate(
            self.columns,
            self.kind,
            self.correct,
            groups=self.groups,
            times=times,
            count_on=on,
            deployed=deployed,
            aside=aside,
            seed=seed,
        )

    def without(self, names: Sequence[str]) -> LabelledRows:
        """The same rows without some of the scores."""
        return self._replace(
            columns={name: column for name, column in self.columns.items() if name not in names}
        )


def tolerated(
    calibration: Calibration,
    tree: Tree,
    constants: Mapping[str, float | tuple[float, float]],
    *,
    expected_rate: float = 0.0,
) -> float:
    """What a stream costs in which one event in five of those that should be clean is shifted: a limit for those who give none.

    Kinds of a few rows have no say in it.
    """
    from roadworthy.analysis.risk.calibration import of_firm_kinds
    from roadworthy.monitor.bundle import Bundle

    calibration = of_firm_kinds(calibration)
    rate = expected_rate + TOLERATED * (1.0 - expected_rate)
    risk, _, _ = Bundle("none", calibration, tree, constants).estimator.forecast(rate)
    digits = 3 - int(np.floor(np.log10(abs(risk)))) - 1 if risk else 0
    return round(risk, digits)


def left_out(
    rows: LabelledRows, counted: LabelledRows | None = None, *, seed: int = 0
) -> Coverage | None:
    """How often intervals of accuracy and of the share shifted hold the truth under a kind that the calibration does not know.

    Each kind is left out in turn, with half of the clean rows; windows at several rates are drawn from what was left out. With
    `counted` rows it is half of these (whole groups) that are counted, and the other half from which windows are drawn. None
    where there is only one kind of more than a few rows, since nothing would be left to learn from.
    """
    from roadworthy.analysis.risk.calibration import FEW_OF_A_KIND
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.analysis.risk.prototypes import accuracy_tree

    names, counts = np.unique(rows.kind, return_counts=True)
    kinds = [
        str(k) for k, n in zip(names, counts, strict=True) if k != CLEAN and n >= FEW_OF_A_KIND
    ]
    if len(kinds) < 2:
        return None
    rng = np.random.default_rng([seed, 12])
    judged = rows if counted is None else counted
    units = judged.units
    first = rng.random(units.max() + 1)[units] < 0.5
    covered = rates = windows = 0
    for kind in kinds:
        mine = judged.kind == kind
        if counted is None:
            aside = mine | ((judged.kind == CLEAN) & ~first)
            learned, on = rows.take(~aside), None
        else:
            aside = (mine | (judged.kind == CLEAN)) & ~first
            learned, on = rows.take(rows.kind != kind), judged.take(~mine & first)
        if not (mine & aside).any():
            continue
        try:
            calibration = learned.calibrated(on)
        except ValueError:  # what is left has too little in it; the whole table is judged elsewhere
            continue
        cells = np.full(len(judged.kind), -1)
        cells[aside] = calibration.place(
            {name: judged.columns[name][aside] for name in calibration.names}
        )
        picked = _windows(judged.kind, np.flatnonzero(aside), kind, rng)
        windowed = [
            np.bincount(cells[at][cells[at] >= 0], minlength=calibration.cells) for at in picked
        ]
        found = Estimator(calibration, accuracy_tree()).estimate(windowed)
        right, shifted = judged.correct[picked].mean(axis=1), mine[picked].mean(axis=1)
        told = np.array([reason is None for reason in found.cannot_tell])
        covered += int(
            (told & (found.accuracy_low <= right) & (right <= found.accuracy_high)).sum()
        )
        rates += int((told & (found.rate_low <= shifted) & (shifted <= found.rate_high)).sum())
        windows += int(told.sum())
    return Coverage(0.95, covered / windows, windows, rate=rates / windows) if windows else None


def _windows(
    kinds: np.ndarray, aside: np.ndarray, kind: str, rng: np.random.Generator
) -> np.ndarray:
    """Rows of windows of 100 that were put aside, at rates of shift from 0.1 to 1."""
    of_kind = aside[kinds[aside] == kind]
    clean = aside[kinds[aside] == CLEAN]
    shifted = rng.random((len(RATES), WINDOW)) < np.array(RATES)[:, None]
    return np.where(
        shifted,
        rng.choice(of_kind, shifted.shape),
        rng.choice(clean if len(clean) else of_kind, shifted.shape),
    )
