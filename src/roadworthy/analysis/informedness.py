"""Informedness: the share of failures with an alarm less that of right answers (Youden 1950, "Index for rating diagnostic tests").

Who raises an alarm on everything catches all failures and has an informedness of 0. Each level of a circumstance is compared with
itself, weighed by its failures: else whoever tells strong levels from mild ones would seem to tell wrong answers from right ones.
Levels where nothing fails, or nothing is right, say nothing.

>>> failed = np.array([True, True, True, True, False, False, False, False])
>>> found = informedness([Alarms(np.array([1, 1, 1, 0, 1, 0, 0, 0], bool), failed, np.arange(8))], confidence=0.95)
>>> found.value, found.caught, found.false_alarms, found.low < 0
(0.5, 0.75, 0.25, True)
>>> informedness([Alarms(np.ones(8, bool), failed, np.arange(8))], confidence=0.95).value
0.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roadworthy.statistics import clustered_proportion, simultaneous


class Alarms(NamedTuple):
    """The cases of one level: on which an alarm was raised, which failed, and what each belongs to."""

    raised: np.ndarray
    failed: np.ndarray
    clusters: np.ndarray


class Informedness(NamedTuple):
    """What alarms are worth at a place; NaN where no level has both failures and right answers."""

    value: float
    caught: float
    false_alarms: float
    low: float
    """Its lower end: exact ends of every share, at a confidence at which they hold together."""
    standard_error: float


def informedness(levels: Sequence[Alarms], *, confidence: float) -> Informedness:
    """The informedness of alarms over the levels of a circumstance, with its lower end."""
    told = [a for a in levels if a.failed.any() and not a.failed.all()]
    if not told:
        return Informedness(math.nan, math.nan, math.nan, -math.inf, math.nan)
    failures = np.array([a.failed.sum() for a in told], dtype=np.float64)
    weights = failures / failures.sum()
    false = np.array([a.raised[~a.failed].mean() for a in told])
    caught = np.concatenate([a.raised[a.failed] for a in told])
    # Cases of one sample occur at several levels, so the ends hold together by Bonferroni and not by independence.
    sure = simultaneous(confidence, 1 + len(told))
    least = clustered_proportion(
        caught,
        np.concatenate([a.clusters[a.failed] for a in told]),
        confidence=sure,
        sided="lower",
        method="clopper_pearson",
    ).low
    most = [
        clustered_proportion(
            a.raised[~a.failed],
            a.clusters[~a.failed],
            confidence=sure,
            sided="upper",
            method="clopper_pearson",
        ).high
        for a in told
    ]
    share, right = float(caught.mean()), np.array([(~a.failed).sum() for a in told])
    variance = share * (1 - share) / len(caught) + float(
        (weights**2 * false * (1 - false) / right).sum()
    )
    alarms = float(weights @ false)
    return Informedness(
        share - alarms, share, alarms, float(least - weights @ np.array(most)), math.sqrt(variance)
    )
