"""Counts, not rates: how many test cases of each condition, right or wrong, got which verdict; and verdicts on batches.

Batch thresholds come from the clean calibration rows, all of them: a stream without shift has wrong answers too. Batches are drawn
at random from a condition's cases, each case in one batch, and what is left over at the end is in none.

>>> tally_verdicts(np.array([True, True, False]), np.array([False, True, True]))
[[1, 1], [0, 1]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from roadworthy.analysis import calibration
from roadworthy.analysis.calibration import BATCH_SIZES, How
from roadworthy.analysis.observed import Observed
from roadworthy.data.seeds import generator


class BatchVerdicts(BaseModel):
    """Verdicts on batches of one size."""

    size: int
    how: How = Field(description="By the mean of the scores, or their distance from clean ones")
    threshold: float | None = None
    batches: dict[str, tuple[int, int]] = Field(
        default_factory=dict, description="By condition: batches without and with an alarm"
    )
    reason: str = Field(default="", description="Why there are none")


def tally_verdicts(right: np.ndarray, alarms: np.ndarray) -> list[list[int]]:
    """Cases by right or wrong, and by whether they are clear or risky."""
    return [[int((rows & ~alarms).sum()), int((rows & alarms).sum())] for rows in (right, ~right)]


def verdicts_on_batches(
    reference: np.ndarray,
    conditions: Sequence[Observed],
    supervisor: str,
    *,
    rate: float,
    seed: int,
) -> list[BatchVerdicts]:
    """What a supervisor says of batches, by size and statistic; `reference` are its scores on the clean calibration rows."""
    rows = np.where(np.isnan(reference), np.inf, reference)
    found = []
    for how in ("mean", "ks"):
        for size in BATCH_SIZES:
            # The same generator for every size: the distance then compares with the same half of the rows.
            rng = generator(seed, "batches")
            try:
                limit = calibration.batch_threshold(rows, size=size, how=how, rate=rate, rng=rng)
            except ValueError as error:
                found.append(BatchVerdicts(size=size, how=how, reason=str(error)))
                continue
            counts = {}
            for o in sorted(conditions, key=lambda o: o.name):
                risky = limit.verdict(o.scores[supervisor][rng.permutation(len(o))])
                counts[o.name] = (int((~risky).sum()), int(risky.sum()))
            found.append(
                BatchVerdicts(size=size, how=how, threshold=limit.threshold.value, batches=counts)
            )
    return found
