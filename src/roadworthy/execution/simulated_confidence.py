"""The confidence that cbpe reads in a simulation: which score it is, that it falls with confidence, and what is learned from it."""

from __future__ import annotations

import math

import numpy as np

from roadworthy.analysis.risk.confidence import Cbpe
from roadworthy.analysis.simulation.streams import CLEAN, Pool
from roadworthy.registry import did_you_mean
from roadworthy.spec.simulation import Simulation
from roadworthy.statistics.ranking import auc

BEYOND = 3.0
"""Standard errors beyond which it is no chance that wrong answers are the more confident ones."""


def check_confidence(spec: Simulation, rows: Pool) -> None:
    """The table has the score that cbpe reads, be it named in the file or not."""
    name = spec.confidence_from
    if name in rows.columns:
        return
    there = f"the table has no score {name!r}{did_you_mean(name, rows.columns)}; it has {', '.join(rows.columns)}"
    some = next(iter(rows.columns))
    if "confidence_from" in spec.model_fields_set:
        raise spec.error(
            ("confidence_from",),
            f"cbpe reads the classifier's confidence from this score, and {there}",
        )
    raise spec.error(
        ("estimators", spec.estimators.index("cbpe")),
        f"cbpe reads the classifier's confidence from a score, {name} where confidence_from names no other, and {there}. Name "
        f"the score that falls with confidence, as in confidence_from: {some}, or leave cbpe out",
    )


def _rises_when_wrong(confidence: np.ndarray, correct: np.ndarray) -> bool:
    """Whether wrong answers are the more confident ones, by more than chance would have it."""
    right = int(correct.sum())
    wrong = len(correct) - right
    if not right or not wrong:
        return False
    by_chance = math.sqrt((right + wrong + 1) / (12.0 * right * wrong))
    return auc(confidence, correct) < 0.5 - BEYOND * by_chance


def cbpe_of(spec: Simulation, rows: Pool) -> Cbpe:
    """Fitted, as its authors do, on clean rows alone."""
    confidence = 1.0 - rows.columns[spec.confidence_from]
    some = rows.of((CLEAN,)) & np.isfinite(confidence)
    if _rises_when_wrong(confidence[some], rows.correct[some]):
        name = spec.confidence_from
        raise spec.error(
            ("confidence_from",),
            f"cbpe reads confidence from a score that falls with it, and clean rows are right more often where {name} is high: add "
            f"a column of 1 - {name} and name that, or another score",
        )
    try:
        return Cbpe.fit(confidence[some], rows.correct[some])
    except ValueError as error:
        raise spec.error(
            ("confidence_from",), f"cbpe learns from clean rows that have this score: {error}"
        ) from error
