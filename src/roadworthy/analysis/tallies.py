"""Counts, not rates: how many test rows of each kind of shift, right or wrong, got which verdict, score bin or batch verdict.

They are what a monitor is compiled from. Bins and batch thresholds come from the clean calibration rows, all of them: a
stream without shift has wrong answers too. Batches are drawn at random from a condition's cases, each case in one batch, and
what is left over at the end is in none; batch verdicts are counted by batch, and by row, each row with its batch's verdict.

>>> counted({"clean": (np.array([True, True, False]), np.array([0, 1, 1]))}, None).table.tolist()
[[[1, 1], [0, 1]]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.analysis import calibration
from roadworthy.analysis.calibration import BATCH_SIZES, BatchThreshold, Counts, Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.verdicts import alarms
from roadworthy.data.seeds import generator

BINS = 15
"""As many as the combination of detectors in FIELD.md, section 2."""
Columns = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""By kind of shift: which rows are right, and the verdict or bin of each."""


def counted(columns: Columns, edges: tuple[float, ...] | None) -> Counts:
    """Rows by kind of shift, right or wrong, and column."""
    width = 2 if edges is None else len(edges) + 1
    kinds = sorted(columns)
    table = np.zeros((len(kinds), 2, width), dtype=np.int64)
    for i, kind in enumerate(kinds):
        right, column = columns[kind]
        cells = (~right).astype(np.intp) * width + column.astype(np.intp)
        table[i] = np.bincount(cells, minlength=2 * width).reshape(2, width)
    return Counts(tuple(kinds), table, edges)


def supervisor_tables(
    reference: np.ndarray,
    conditions: Sequence[Observed],
    supervisor: str,
    threshold: Threshold,
    *,
    rate: float,
    seed: int,
) -> dict[str, Any]:
    """What a monitor needs of one supervisor; `reference` are its scores on the clean calibration rows."""
    rows = np.where(np.isnan(reference), np.inf, reference)
    by_kind = {o.name: o for o in conditions}
    verdicts = {k: (~o.failure, alarms(threshold, o, supervisor)) for k, o in by_kind.items()}
    content: dict[str, Any] = {
        "threshold": threshold.to_dict(),
        "verdicts": counted(verdicts, None).to_dict(),
    }
    try:
        edges = calibration.score_edges(rows, bins=min(BINS, len(rows)))
        binned = {
            k: (~o.failure, calibration.score_bins(o.scores[supervisor], edges))
            for k, o in by_kind.items()
        }
        content["bins"] = counted(binned, edges).to_dict()
    except ValueError as error:
        content["bins"] = {"reason": str(error)}
    content["batches"] = []
    for how in ("mean", "ks"):
        for size in BATCH_SIZES:
            # The same generator for every size: the distance then compares with the same half of the rows.
            entry = _batches(rows, by_kind, supervisor, size, how, rate, generator(seed, "batches"))
            if how == "ks" and entry.get("threshold"):
                content["ks_reference"] = entry["threshold"].pop("reference")
                entry["threshold"]["reference"] = []
            content["batches"].append(entry)
    return content


def _batches(
    rows: np.ndarray,
    by_kind: Mapping[str, Observed],
    supervisor: str,
    size: int,
    how: Any,
    rate: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    entry: dict[str, Any] = {"size": size, "how": how}
    try:
        threshold = calibration.batch_threshold(rows, size=size, how=how, rate=rate, rng=rng)
    except ValueError as error:
        return {**entry, "threshold": None, "reason": str(error)}
    found = {kind: _judged(threshold, o, supervisor, rng) for kind, o in sorted(by_kind.items())}
    entry["threshold"] = threshold.to_dict()
    entry["batches"] = {
        kind: [int((~risky).sum()), int(risky.sum())] for kind, (risky, _) in found.items()
    }
    entry["rows"] = counted({kind: column for kind, (_, column) in found.items()}, None).to_dict()
    return entry


def _judged(
    threshold: BatchThreshold, observed: Observed, supervisor: str, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The verdicts on the batches, and their rows: which are right, and the verdict of each one's batch."""
    order = rng.permutation(len(observed))
    risky = threshold.verdict(observed.scores[supervisor][order])
    rows = order[: len(risky) * threshold.size]
    return risky, (~observed.failure[rows], np.repeat(risky, threshold.size))
