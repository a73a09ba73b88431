"""What a calibration learnt, in numbers that a person can check against what they know of their data.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> rng = np.random.default_rng(0)
>>> kind, right = np.repeat(["clean", "fog"], 300), rng.random(600) < np.repeat([0.9, 0.5], 300)
>>> rows = learnt(calibrate({"knn": rng.normal(np.repeat([0.0, 1.5], 300))}, kind, right), kind, right)
>>> [(r.kind, r.rows, round(r.accuracy, 2), r.auc and round(r.auc, 2)) for r in rows]
[('clean', 300, 0.86, None), ('fog', 300, 0.46, 0.86)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.data.score_tables import CLEAN

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration
    from roadworthy.analysis.risk.tree import Tree
    from roadworthy.data.score_tables import ScoreTable
    from roadworthy.monitor.risk_state import Coverage

WINDOW = 100
RATES = tuple(np.repeat(np.linspace(0.1, 1.0, 10), 3).tolist())
"""Rates of shift at which windows are drawn to see how often the intervals hold the truth."""
TOLERATED = 0.2
"""The share of shifted events whose cost is tolerated where nobody says what is tolerable."""


@dataclass(frozen=True)
class KindLearnt:
    """One kind of rows."""

    kind: str
    rows: int
    accuracy: float
    low: float
    high: float
    auc: float | None
    """How well the combined scores tell it from clean: 0.5 not at all, 1 perfectly. By models that had not seen the rows."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(vars(self))


def learnt(
    calibration: Calibration, kind: np.ndarray, correct: np.ndarray, groups: np.ndarray | None = None
) -> list[KindLearnt]:
    """Rows, accuracy with its 95% interval (of whole groups, where there are some), and AUC, kind by kind."""
    from roadworthy.statistics import clustered_proportion

    bins = calibration.folded(calibration.table).sum(axis=(1, 3, 4, 5)).astype(np.float64)
    shares = bins / np.maximum(bins.sum(axis=1, keepdims=True), 1.0)
    below = np.concatenate([[0.0], np.cumsum(shares[0])[:-1]]) + 0.5 * shares[0]
    found = []
    for at, name in enumerate(calibration.kinds):
        rows = kind == name
        interval = clustered_proportion(correct[rows].astype(float), None if groups is None else groups[rows])
        auc = None if at == 0 else float(shares[at] @ below)
        share = float(correct[rows].mean())
        found.append(KindLearnt(name, int(rows.sum()), share, interval.low, interval.high, auc))
    return found


def left_out(table: ScoreTable, *, seed: int = 0) -> Coverage | None:
    """How often the intervals hold the truth under a kind of shift that the calibration does not know.

    Each kind is left out in turn, with half of the clean rows; windows at several rates are drawn from what was left out. None
    where there is only one kind, since nothing would be left to learn from.
    """
    from roadworthy.analysis.risk.cells import calibrate
    from roadworthy.analysis.risk.prototypes import accuracy_tree
    from roadworthy.analysis.risk.transfer import Estimator
    from roadworthy.monitor.risk_state import Coverage

    assert table.kind is not None and table.correct is not None
    kinds = [str(k) for k in np.unique(table.kind) if k != CLEAN]
    if len(kinds) < 2:
        return None
    rng = np.random.default_rng([seed, 12])
    units = np.arange(table.n) if table.group is None else np.unique(table.group, return_inverse=True)[1]
    kept_clean = rng.random(units.max() + 1)[units] < 0.5
    covered = windows = 0
    for kind in kinds:
        aside = np.flatnonzero((table.kind == kind) | ((table.kind == CLEAN) & ~kept_clean))
        rest = table.take(np.setdiff1d(np.arange(table.n), aside))
        assert rest.kind is not None and rest.correct is not None
        try:
            calibration = calibrate(rest.columns, rest.kind, rest.correct, groups=rest.group)
        except ValueError:  # what is left has too little in it; the whole table is judged elsewhere
            continue
        cells = np.full(table.n, -1)
        cells[aside] = calibration.place({name: column[aside] for name, column in table.columns.items()})
        picked = _windows(table.kind, aside, kind, rng)
        counts = [np.bincount(cells[rows][cells[rows] >= 0], minlength=calibration.cells) for rows in picked]
        found = Estimator(calibration, accuracy_tree()).estimate(counts)
        truth = table.correct[picked].mean(axis=1)
        told = np.array([reason is None for reason in found.cannot_tell])
        covered += int((told & (found.accuracy_low <= truth) & (truth <= found.accuracy_high)).sum())
        windows += int(told.sum())
    return Coverage(0.95, covered / windows, windows) if windows else None


def _windows(kinds: np.ndarray, aside: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Rows of windows of 100 that were put aside, at rates of shift from 0.1 to 1."""
    of_kind = aside[kinds[aside] == kind]
    clean = aside[kinds[aside] == CLEAN]
    shifted = rng.random((len(RATES), WINDOW)) < np.array(RATES)[:, None]
    return np.where(
        shifted, rng.choice(of_kind, shifted.shape), rng.choice(clean if len(clean) else of_kind, shifted.shape)
    )


def chosen_tree(costs: Sequence[str], unit: str | None, file: Path | None) -> tuple[Tree, dict[str, float]]:
    """The event tree that the options describe, and the numbers that a file gives beside it.

    >>> chosen_tree(["right=635", "wrong=6735"], "EUR per patient", None)[0].unit
    'EUR per patient'
    """
    from roadworthy.analysis.risk.prototypes import accuracy_tree, cost_tree

    if file is not None:
        if costs:
            raise DataError(
                "--tree and --cost say the same thing in two ways; the costs of a tree stand at its outcomes"
            )
        return _tree_of(file, unit)
    if not costs:
        if unit is not None:
            raise DataError(
                "--unit says what costs are counted in, and there are none; give --cost right=… --cost wrong=…"
            )
        return accuracy_tree(), {}
    named = _costs(costs)
    try:
        return cost_tree(named, unit=unit or "cost per case"), {}
    except ValueError as error:
        raise DataError(f"--cost: {error}") from error


def _costs(given: Sequence[str]) -> dict[str, float]:
    named: dict[str, float] = {}
    for text in given:
        name, _, amount = text.partition("=")
        try:
            named[name.strip()] = float(amount)
        except ValueError:
            raise DataError(f"--cost {text}: a name and a number were expected, such as wrong=6735") from None
    if "wrong" not in named:
        raise DataError("--cost: what a wrong answer costs is missing; give --cost wrong=…")
    return named


def _tree_of(file: Path, unit: str | None) -> tuple[Tree, dict[str, float]]:
    import yaml

    from roadworthy.analysis.risk.tree import Tree

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: {str(error).splitlines()[0]}") from error
    if not isinstance(content, Mapping):
        raise DataError(f"{file}: a tree was expected, with event and branches; found {type(content).__name__}")
    constants = content.get("constants") or {}
    if not isinstance(constants, Mapping) or not all(isinstance(v, int | float) for v in constants.values()):
        raise DataError(f"{file}: constants are names with a number each, such as constants: {{p_attack: 0.01}}")
    try:
        tree = Tree.from_dict({k: v for k, v in content.items() if k != "constants"}, unit=unit)
    except (ValueError, TypeError) as error:
        raise DataError(f"{file}: {error}") from error
    return tree, {str(k): float(v) for k, v in constants.items()}


def tolerated(calibration: Calibration, tree: Tree, constants: Mapping[str, float]) -> float:
    """What a stream would cost in which one event in five is shifted: a limit for those who give none."""
    from roadworthy.analysis.risk.transfer import Estimator

    risk, _, _ = Estimator(calibration, tree, constants=constants).forecast(TOLERATED)
    digits = 3 - int(np.floor(np.log10(abs(risk)))) - 1 if risk else 0
    return round(risk, digits)
