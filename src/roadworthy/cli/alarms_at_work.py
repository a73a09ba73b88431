"""Whose alarms call a person, as the options of `calibrate` say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.data.samples import DataError

if TYPE_CHECKING:
    from roadworthy.analysis.risk.deployed import Deployed
    from roadworthy.analysis.risk.tree import Tree
    from roadworthy.data.scores import ScoreTable


def alarms_at_work(
    table: ScoreTable, tree: Tree, detector: str | None, threshold: float | None
) -> Deployed | None:
    """The score and the threshold that were named; None where none was. A verdict of 0 or 1 needs no threshold."""
    from roadworthy.analysis.risk.deployed import Deployed
    from roadworthy.analysis.risk.prototypes import asks_for_alarms
    from roadworthy.registry import did_you_mean

    if detector is None:
        if threshold is not None:
            raise DataError(f"--threshold {threshold:g}: whose? Name the score with --detector")
        return None
    if not asks_for_alarms(tree):
        raise DataError(
            f"--detector {detector}: no cost depends on an alarm; say what one costs with --cost necessary=1905 (and "
            "unnecessary), or leave it out"
        )
    if detector not in table.columns:
        near = did_you_mean(detector, list(table.columns))
        raise DataError(
            f"--detector: {table.source} has no score {detector!r}{near}; it has {', '.join(table.columns)}"
        )
    if threshold is None:
        values = np.unique(table.columns[detector])
        if not np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
            raise DataError(
                f"--detector {detector}: above which score does it raise an alarm? Say it with --threshold"
            )
        threshold = 0.5
    if not math.isfinite(threshold):
        raise DataError(f"--threshold: a number was expected, found {threshold}")
    return Deployed(detector, threshold)


def looks_reversed(table: ScoreTable, deployed: Deployed | None) -> str | None:
    """That alarms are raised on clean rows as often as on shifted ones, or on none, or on all: rather a slip than a fail-safe."""
    if deployed is None or table.kind is None:
        return None
    raised, clean = deployed.raised(table.columns[deployed.name]), table.kind == "clean"
    by_clean, by_shifted = float(raised[clean].mean()), float(raised[~clean].mean())
    if by_clean < by_shifted:
        return None
    return (
        f"{deployed} raises an alarm on {by_clean:.1%} of the clean rows and on {by_shifted:.1%} of the shifted ones: an alarm is "
        "a score above the threshold; where yours is one below, negate the column and the threshold"
    )


def whose(tree: Tree, deployed: Deployed | None) -> list[str]:
    """Whose alarms call a person, where a cost depends on one."""
    from roadworthy.analysis.risk.alarmed_cells import NOBODY_SAID_WHOSE, alarms_in_words
    from roadworthy.analysis.risk.prototypes import asks_for_alarms

    if deployed is not None:
        return [alarms_in_words(deployed)]
    if not asks_for_alarms(tree):
        return []
    return [f"{NOBODY_SAID_WHOSE}; name the score at work with --detector and --threshold"]
