"""Measures of detected boxes against true ones: average precision, recall, precision.

Average precision is COCO's: greedy matching in score order (see `matching`), precision made monotone, read at
101 recalls, mean over the classes that have objects. It is computed from case weights, so a bootstrap repeats
only the cheap half: an image of weight 2 counts as that image twice. Detections of equal score are taken
together, since no threshold can part them; COCO takes them in the order of the files, which makes its value
depend on that order.

A case's error is the share ``(missed + false) / (2 found + missed + false)`` at `min_score`, which is 1 - F1;
it fails when an object is missed or a detection is false at that score. A case without answer has found
nothing, has made as many false detections as the worst answer, has the error 1 and fails (see `silence`).

>>> from roadworthy.data.values import Boxes
>>> truth = [Boxes.of([[0, 0, 2, 2]]), Boxes.of([[0, 0, 2, 2]])]
>>> found = [Boxes.of([[0, 0, 2, 2]], scores=[0.9]), None]
>>> scored = ap50(found, truth)
>>> round(scored.value(), 4), scored.value(np.array([1, 0])), scored.failure.tolist()
(0.2525, 1.0, [False, True])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roadworthy.data.values import Boxes
from roadworthy.measures.classification import OverClasses
from roadworthy.measures.matching import Matched, match
from roadworthy.measures.scored import Scored
from roadworthy.measures.silence import Charged, of_ratio
from roadworthy.registry import register

RECALLS = np.linspace(0.0, 1.0, 101)
MAX_DETECTIONS = 100
"""COCO's: of one class in one image, the 100 best scores count."""


@register("measures", "ap50", of=("boxes", "boxes"), better="higher")
def ap50(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    min_score: float = 0.5,
    max_detections: int = MAX_DETECTIONS,
) -> Scored:
    """Mean average precision at one IoU; `min_score` says which detections count for a case's error and failure.

    No answer misses all objects and makes false detections in every class: one above all scores, and at every
    further score as many as the answer that makes most of them there.
    """
    return _average_precision(
        match(outputs, targets, iou=iou, max_detections=max_detections), min_score
    )


@register("measures", "recall", of=("boxes", "boxes"), better="higher")
def recall(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    min_score: float = 0.5,
) -> Scored:
    """Share of the objects that are found at or above a score; a case fails when one is missed.

    No answer misses all objects, one at least.
    """
    matched = match(outputs, targets, iou=iou)
    objects, found, _ = matched.counts(min_score)
    objects = np.where(matched.answered, objects, np.maximum(objects, 1.0))
    missed = objects - found
    error = np.where(matched.answered, missed / np.maximum(objects, 1.0), 1.0)
    failure = (missed > 0) | ~matched.answered
    return Scored.ratio(
        found, objects, error=error, failure=failure, better="higher", limits=(0.0, 1.0)
    )


@register("measures", "precision", of=("boxes", "boxes"), better="higher")
def precision(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    min_score: float = 0.5,
) -> Scored:
    """Share of the detections at or above a score that found an object; no answer counts as one that did not.

    Or as many as the answer with most false detections has of them, if that is more.
    """
    matched = match(outputs, targets, iou=iou)
    _, found, false = matched.counts(min_score)
    return of_ratio(
        (found, false),
        matched.answered,
        _exactness,
        better="higher",
        tolerance=0.0,
        limits=(0.0, 1.0),
    )


def _exactness(
    found: np.ndarray, false: np.ndarray, *, answered: np.ndarray, weights: np.ndarray
) -> Charged:
    most = float(false[answered & (weights > 0)].max(initial=1.0))
    false = np.where(answered, false, most)
    return Charged(found, found + false, false / np.maximum(found + false, 1.0))


class _Curve(NamedTuple):
    """Detections of one class from the highest score down; `ends` are the last positions of equal scores."""

    case: np.ndarray
    hit: np.ndarray
    ends: np.ndarray
    truth_case: np.ndarray
    false_rank: np.ndarray
    """0 for the first false detection of a case, 1 for its second, and so on; -1 for a hit."""


def _average_precision(matched: Matched, min_score: float) -> Scored:
    curves = _curves(matched)

    def weighted(weights: np.ndarray) -> float:
        silent = float(np.sum(weights[~matched.answered]))
        known = [
            value for curve in curves if (value := _area_under(curve, weights, silent)) is not None
        ]
        if known:
            return float(np.mean(known))
        return 0.0 if silent > 0 else float("nan")

    objects, found, false = matched.counts(min_score)
    wrong = objects - found + false
    error = np.where(matched.answered, wrong / np.maximum(wrong + 2 * found, 1.0), 1.0)
    return OverClasses(
        error,
        (wrong > 0) | ~matched.answered,
        "free",
        weighted,
        "higher",
        subset=lambda rows: _average_precision(matched.take(rows), min_score),
        support=tuple(np.unique(curve.truth_case) for curve in curves),
    )


def _curves(matched: Matched) -> list[_Curve]:
    order = np.lexsort((-matched.score, matched.label))
    labels = matched.label[order]
    curves = []
    for label in np.unique(matched.truth_label):
        own = order[
            np.searchsorted(labels, label, side="left") : np.searchsorted(
                labels, label, side="right"
            )
        ]
        ends = np.flatnonzero(np.diff(matched.score[own], append=-np.inf) != 0) if len(own) else own
        truth_case = matched.truth_case[matched.truth_label == label]
        case, hit = matched.case[own], matched.hit[own]
        curves.append(
            _Curve(case, hit.astype(np.float64), ends, truth_case, _false_ranks(case, hit))
        )
    return curves


def _false_ranks(case: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """How many false detections of its own case come before each false one; -1 for a hit."""
    ranks = np.full(len(case), -1, dtype=np.int64)
    false = np.flatnonzero(~hit)
    by_case = false[np.argsort(case[false], kind="stable")]
    owner = case[by_case]
    ranks[by_case] = np.arange(len(by_case)) - np.searchsorted(owner, owner, side="left")
    return ranks


def _area_under(curve: _Curve, weights: np.ndarray, silent: float) -> float | None:
    """Average precision of one class, None where the weights leave it no object; `silent` is the unanswered weight."""
    objects = float(np.sum(weights[curve.truth_case]))
    if objects <= 0:
        return None
    own = weights[curve.case]
    found = np.cumsum(own * curve.hit)[curve.ends]
    made = np.cumsum(own, dtype=np.float64)[curve.ends]
    if silent > 0:
        made += silent * _most_false(curve, own > 0)
    exact = np.divide(found, made, out=np.zeros_like(found), where=made > 0)
    envelope = np.maximum.accumulate(exact[::-1])[::-1]
    at = np.searchsorted(found / objects, RECALLS, side="left")
    return float(np.sum(envelope[at[at < len(envelope)]])) / len(RECALLS)


def _most_false(curve: _Curve, counted: np.ndarray) -> np.ndarray:
    """At each score, the most false detections that a case with weight has made so far; 1 before any was made."""
    ranks = np.where(counted, curve.false_rank, -1)
    return (
        np.maximum.accumulate(np.maximum(ranks + 1, 1))[curve.ends] if len(ranks) else np.zeros(0)
    )
