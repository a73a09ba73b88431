"""Measures of tracks against true ones: MOTA and IDF1.

MOTA is equation 2 of Wang et al. (Wang et al. 2022) by the CLEAR-MOT rule of Bernardin and Stiefelhagen (2008): a
correspondence of the step before is kept while its IoU still suffices; the rest is assigned so that the sum
of IoU is largest; an object that comes back under another identity than its last one is a switch. IDF1
(Ristani et al. 2016) asks for one identity over the whole case instead.

A case is a sequence; its error is its own ``(missed + false + switched) / objects``, which may exceed 1, and
it fails when that is above `tolerance` (0.5 by default: few sequences are without any error). A case without
answer has missed everything, and has as many errors as the worst answer would have there (see `silence`).

>>> from roadworthy.data.values import Tracks
>>> still = [[0, 0, 2, 2]] * 4
>>> truth = Tracks.of([0, 1, 2, 3], [7, 7, 7, 7], still)
>>> scored = mota([Tracks.of([0, 1, 2, 3], [1, 1, 5, 5], still)], [truth])
>>> scored.value(), idf1([Tracks.of([0, 1, 2, 3], [1, 1, 5, 5], still)], [truth]).value()
(0.75, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roadworthy.data.values import Tracks
from roadworthy.distances.clear import ROUNDING, Clear, clear_by_step, steps
from roadworthy.measures.scored import (
    Charged,
    Scored,
    answered,
    as_bad_as_any,
    complement,
    of_ratio,
    refuse_unknown_truth,
    same_cases,
    silent_edits,
)
from roadworthy.registry import register

_NOTHING = Tracks.of([], [], [])


@register("measures", "mota", of=("tracks", "tracks"), better="higher", range=(-math.inf, 1))
def mota(
    outputs: Sequence[Tracks | None],
    targets: Sequence[Tracks],
    *,
    iou: float = 0.5,
    tolerance: float = 0.5,
) -> Scored:
    """Multiple object tracking accuracy, 1 - (missed + false + switched) / objects (Wang et al. 2022, eq. 2).

    No answer costs all objects, one at least, at the error rate of the worst answer if that is above 1.
    """
    _check(outputs, targets)
    has_answer = answered(outputs)
    pairs = zip((o or _NOTHING for o in outputs), targets, strict=True)
    counts = [clear_by_step(o, t, iou=iou) for o, t in pairs]
    objects = np.array([sum(c.objects for c in s.values()) for s in counts], dtype=np.float64)
    wrong = np.array([sum(c.errors for c in s.values()) for s in counts], dtype=np.float64)
    found = of_ratio(
        (wrong, objects),
        has_answer,
        silent_edits,
        better="higher",
        tolerance=tolerance,
        scale=complement,
        limits=(-math.inf, 1.0),
    )

    def by_step(case: np.ndarray, step: np.ndarray) -> Scored:
        rows = [
            counts[c].get(s, Clear()) for c, s in zip(case.tolist(), step.tolist(), strict=True)
        ]
        here = np.array([c.objects for c in rows], dtype=np.float64)
        made = np.array([c.errors for c in rows], dtype=np.float64)
        # A case without an answer costs each of its objects what it costs the case on average.
        charged = here * found.error[case]
        made = np.where(has_answer[case], made, charged)
        error = made / np.maximum(here, 1.0)
        failure = (error > tolerance) | ~has_answer[case]
        return Scored.ratio(
            made, here, error=error, failure=failure, better="higher", scale=complement,
            limits=(-math.inf, 1.0),
        )  # fmt: skip

    return replace(found, by_step=by_step)


@register("measures", "idf1", of=("tracks", "tracks"), better="higher", range=(0, 1))
def idf1(
    outputs: Sequence[Tracks | None],
    targets: Sequence[Tracks],
    *,
    iou: float = 0.5,
    tolerance: float = 0.5,
) -> Scored:
    """F1 of detections under the best one-to-one mapping of identities; a case's error is 1 - its own.

    No answer costs as many false detections as it has objects, one at least, or as the worst answer would make there.
    """
    _check(outputs, targets)
    has_answer = answered(outputs)
    pairs = list(zip((o or _NOTHING for o in outputs), targets, strict=True))
    columns = (
        np.array([identical(o, t, iou=iou) for o, t in pairs], dtype=np.float64),
        np.array([len(o) for o, _ in pairs], dtype=np.float64),
        np.array([len(t) for _, t in pairs], dtype=np.float64),
    )
    return of_ratio(
        columns, has_answer, _f1, better="higher", tolerance=tolerance, limits=(0.0, 1.0)
    )


def _f1(
    kept: np.ndarray,
    made: np.ndarray,
    objects: np.ndarray,
    *,
    answered: np.ndarray,
    weights: np.ndarray,
) -> Charged:
    made = np.where(answered, made, as_bad_as_any(made, objects, answered & (weights > 0)))
    kept = np.where(answered, 2 * kept, 0.0)
    total = made + objects
    return Charged(kept, total, 1.0 - np.where(total > 0, kept / np.maximum(total, 1.0), 1.0))


def identical(found: Tracks, truth: Tracks, *, iou: float = 0.5) -> int:
    """Most detections that can lie on their object when each identity is mapped to at most one other."""
    if not len(found) or not len(truth):
        return 0
    from scipy.optimize import linear_sum_assignment

    truth_names, found_names = np.unique(truth.ids), np.unique(found.ids)
    together = np.zeros((len(truth_names), len(found_names)))
    for step in steps(found, truth):
        rows, columns = np.nonzero(step.overlap >= iou - ROUNDING)
        at = (
            np.searchsorted(truth_names, step.truth_ids[rows]),
            np.searchsorted(found_names, step.found_ids[columns]),
        )
        together[at] += (
            1.0  # once for a pair of names, also where one of them stands twice in this step
        )
    return int(together[linear_sum_assignment(together, maximize=True)].sum())


def _check(outputs: Sequence[Tracks | None], targets: Sequence[Tracks]) -> None:
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    for case, truth in enumerate(targets):
        if len(truth) and len(np.unique(np.stack([truth.step, truth.ids]), axis=1).T) < len(truth):
            raise ValueError(
                f"the true tracks of row {case} name an identity twice in one step; one box an identity and step is expected"
            )
