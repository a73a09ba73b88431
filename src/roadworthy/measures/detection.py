"""Measures of detected boxes against true ones: COCO's average precision and recall, and the recall
and precision at a score (metrics M7 to M13 of Wozniak et al. 2024).

`roadworthy.measures.coco` says how detections are matched and average precision is computed, from
case weights. One evaluation serves all measures of the same answers.

An object with `ignore` is neither found nor missed. A detection that found no object and lies in
such a region of its class (intersection over its own area at least the IoU asked for, COCO's rule
for crowds) is left out: it is neither right nor false.

For an average precision, a case's error is ``(missed + false) / (2 found + missed + false)`` at
`min_score`, which is 1 - F1; the case fails when an object is missed or a detection is false at
that score. For an average recall it is the share of the objects that the allowed number of
detections could have found and did not. A case without answer has found nothing, has made as many
false detections as the worst answer, has the error 1 and fails.

>>> from roadworthy.data.values import Boxes
>>> truth = [Boxes.of([[0, 0, 2, 2]]), Boxes.of([[0, 0, 2, 2]])]
>>> found = [Boxes.of([[0, 0, 2, 2]], scores=[0.9]), None]
>>> scored = ap50(found, truth)
>>> round(scored.value(), 4), scored.value(np.array([1, 0])), scored.failure.tolist()
(0.2525, 1.0, [False, True])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.data.values import Boxes
from roadworthy.measures.classification import OverClasses
from roadworthy.measures.coco import (
    FIGURES,
    MAX_DETECTIONS,
    THRESHOLDS,
    Evaluation,
    Figure,
    by_case,
    evaluate_boxes,
    over_classes,
    values_by_class,
    with_iou,
)
from roadworthy.measures.scored import Charged, Scored, of_ratio
from roadworthy.registry import register


@dataclass(frozen=True)
class Matched:
    """Detections and objects of all cases, both in case order, and what became of them at one IoU.

    Detections in regions to ignore are left out; the regions stay among the objects, `ignored`.
    """

    case: np.ndarray
    label: np.ndarray
    score: np.ndarray
    hit: np.ndarray
    """Whether the detection found an object."""
    truth_case: np.ndarray
    truth_label: np.ndarray
    found_at: np.ndarray
    """Score of the detection that found the object; minus infinity for none."""
    ignored: np.ndarray
    """Whether the object is a region to ignore."""
    answered: np.ndarray

    def counts(self, min_score: float) -> MatchCounts:
        """Objects, found objects, false detections and ignored objects of each case, of detections
        at or above a score."""
        n = len(self.answered)
        kept = self.score >= min_score
        return MatchCounts(
            np.bincount(self.truth_case[~self.ignored], minlength=n).astype(np.float64),
            np.bincount(self.case[kept & self.hit], minlength=n).astype(np.float64),
            np.bincount(self.case[kept & ~self.hit], minlength=n).astype(np.float64),
            np.bincount(self.truth_case[self.ignored], minlength=n).astype(np.float64),
        )


class MatchCounts(NamedTuple):
    """By case: true objects, those found, detections that found none, and objects to ignore."""

    objects: np.ndarray
    found: np.ndarray
    false: np.ndarray
    ignored: np.ndarray


def match(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, iou: float = 0.5
) -> Matched:
    """Match detections with objects at one IoU, as COCO does it.

    What a score threshold keeps is a prefix of the order in which detections choose, so one
    matching serves all thresholds.

    >>> from roadworthy.data.values import Boxes
    >>> found = Boxes.of([[0, 0, 2, 2], [5, 5, 6, 6]], scores=[0.9, 0.8])
    >>> matched = match([found], [Boxes.of([[0, 0, 2, 1.5]])])
    >>> matched.hit.tolist(), matched.found_at.tolist()
    ([True, False], [0.9])
    """
    found = evaluate_boxes(
        outputs, targets, thresholds=THRESHOLDS if iou == THRESHOLDS[0] else (iou,)
    )
    first = np.uint64(1)
    judged = found.unjudged & first == 0
    return Matched(
        found.case[judged],
        found.label[judged],
        found.score[judged],
        found.hit[judged] & first > 0,
        found.truth_case,
        found.truth_label,
        found.found_at,
        found.judged & first == 0,
        found.answered,
    )


@register("measures", "ap", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, min_score: float = 0.5
) -> Scored:
    """Mean average precision over the IoUs 0.50, 0.55, …, 0.95, COCO's main figure."""
    return _figure(outputs, targets, FIGURES["ap"], min_score)


@register("measures", "ap50", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap50(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    min_score: float = 0.5,
    max_detections: int = MAX_DETECTIONS,
) -> Scored:
    """Mean average precision at one IoU; `min_score` says which detections count for a case's error
    and failure.

    No answer misses all objects and makes false detections in every class: one above all scores,
    and at every further score as many as the answer that makes most of them there.
    """
    figure = Figure("precision", iou=iou, most=max_detections)
    return _figure(outputs, targets, figure, min_score)


@register("measures", "ap75", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap75(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, min_score: float = 0.5
) -> Scored:
    """Mean average precision at an IoU of 0.75."""
    return _figure(outputs, targets, FIGURES["ap75"], min_score)


@register("measures", "ap_small", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap_small(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, min_score: float = 0.5
) -> Scored:
    """Mean average precision over the IoUs 0.50 to 0.95 of objects below 32 x 32 pixels."""
    return _figure(outputs, targets, FIGURES["ap_small"], min_score)


@register("measures", "ap_medium", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap_medium(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, min_score: float = 0.5
) -> Scored:
    """Mean average precision over the IoUs 0.50 to 0.95 of objects of 32 x 32 to 96 x 96 pixels."""
    return _figure(outputs, targets, FIGURES["ap_medium"], min_score)


@register("measures", "ap_large", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ap_large(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], *, min_score: float = 0.5
) -> Scored:
    """Mean average precision over the IoUs 0.50 to 0.95 of objects above 96 x 96 pixels."""
    return _figure(outputs, targets, FIGURES["ap_large"], min_score)


@register("measures", "ar1", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar1(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 with the best detection of a class and image."""
    return _figure(outputs, targets, FIGURES["ar1"])


@register("measures", "ar10", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar10(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 with the best 10 detections of a class and image."""
    return _figure(outputs, targets, FIGURES["ar10"])


@register("measures", "ar100", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar100(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 with the best 100 detections of a class and image."""
    return _figure(outputs, targets, FIGURES["ar100"])


@register("measures", "ar_small", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar_small(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 of objects below 32 x 32 pixels."""
    return _figure(outputs, targets, FIGURES["ar_small"])


@register("measures", "ar_medium", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar_medium(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 of objects of 32 x 32 to 96 x 96 pixels."""
    return _figure(outputs, targets, FIGURES["ar_medium"])


@register("measures", "ar_large", of=("boxes", "boxes"), better="higher", range=(0, 1))
def ar_large(outputs: Sequence[Boxes | None], targets: Sequence[Boxes]) -> Scored:
    """Mean recall over the IoUs 0.50 to 0.95 of objects above 96 x 96 pixels."""
    return _figure(outputs, targets, FIGURES["ar_large"])


@register("measures", "recall", of=("boxes", "boxes"), better="higher", range=(0, 1))
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
    found = evaluate_boxes(outputs, targets, thresholds=with_iou(iou))
    objects, right, _ = _counts(found, iou, min_score)
    objects = np.where(found.answered, objects, np.maximum(objects, 1.0))
    missed = objects - right
    error = np.where(found.answered, missed / np.maximum(objects, 1.0), 1.0)
    failure = (missed > 0) | ~found.answered
    return Scored.ratio(
        right, objects, error=error, failure=failure, better="higher", limits=(0.0, 1.0)
    )


@register("measures", "precision", of=("boxes", "boxes"), better="higher", range=(0, 1))
def precision(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    min_score: float = 0.5,
) -> Scored:
    """Share of the detections at or above a score that found an object; no answer counts as one
    that did not.

    Or as many as the answer with most false detections has of them, if that is more.
    """
    found = evaluate_boxes(outputs, targets, thresholds=with_iou(iou))
    _, right, false = _counts(found, iou, min_score)
    return of_ratio(
        (right, false),
        found.answered,
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


def _counts(
    found: Evaluation, iou: float, min_score: float, area: str = "all"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By case: objects, those found and false detections."""
    fates = (found.detections(fate, iou, min_score, area) for fate in ("right", "false"))
    objects, right, false = map(by_case, (found.objects(area), *fates))
    return objects, right, false


def _figure(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    figure: Figure,
    min_score: float = 0.5,
) -> Scored:
    found = evaluate_boxes(outputs, targets, thresholds=with_iou(figure.settings[0].iou))
    return _scored(found, figure, min_score)


def _scored(found: Evaluation, figure: Figure, min_score: float) -> Scored:
    def weighted_rows(weights: np.ndarray) -> np.ndarray:
        weights = np.asarray(weights, dtype=np.float64)
        values = values_by_class(found, [figure], weights)
        return over_classes(values, weights @ ~found.answered)[:, 0]

    error, failure = (
        _errors(found, figure, min_score) if figure.kind == "precision" else _misses(found, figure)
    )
    objects = found.objects(figure.area)
    cases = (objects.indices[a:b] for a, b in zip(objects.indptr, objects.indptr[1:], strict=False))
    return OverClasses(
        np.where(found.answered, error, 1.0),
        failure | ~found.answered,
        "free",
        lambda weights: float(weighted_rows(weights[None])[0]),
        "higher",
        weighted_rows=weighted_rows,
        subset=lambda rows: _scored(found.take(rows), figure, min_score),
        support=tuple(np.unique(own) for own in cases if len(own)),
    )


def _errors(found: Evaluation, figure: Figure, min_score: float) -> tuple[np.ndarray, np.ndarray]:
    """1 - F1 of each case at the figure's lowest IoU, and which are not perfect."""
    objects, right, false = _counts(found, figure.settings[0].iou, min_score, figure.area)
    wrong = objects - right + false
    return wrong / np.maximum(wrong + 2 * right, 1.0), wrong > 0


def _misses(found: Evaluation, figure: Figure) -> tuple[np.ndarray, np.ndarray]:
    """The share of the objects that could have been found and were not, over all IoUs, and which
    cases miss one at the lowest."""
    objects = found.objects(figure.area)
    possible = np.asarray(objects.minimum(figure.most).sum(axis=0))
    hits = by_case(found.hits(figure.area, figure.most))
    share = np.where(possible > 0, 1.0 - hits / np.maximum(possible, 1.0), 0.0)
    right = found.detections("right", THRESHOLDS[0], -np.inf, figure.area, figure.most)
    return share, by_case(right) < possible
