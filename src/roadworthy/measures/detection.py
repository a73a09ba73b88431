"""Measures of detected boxes against true ones: average precision, recall, precision.

Average precision is COCO's: greedy matching in score order (see `matching`), precision made
monotone, read at 101 recalls, mean over the classes that have objects. It is computed from case
weights, so a bootstrap repeats only the cheap half: an image of weight 2 counts as that image
twice. Detections of equal score are taken together, since no threshold can part them; COCO takes
them in the order of the files, which makes its value depend on that order.

An object with `ignore` is neither found nor missed. A detection that found no object and lies in
such a region of its class (intersection over its own area at least the IoU asked for, COCO's rule
for crowds) is left out: it is neither right nor false.

A case's error is the share ``(missed + false) / (2 found + missed + false)`` at `min_score`, which
is 1 - F1; it fails when an object is missed or a detection is false at that score. A case without
answer has found nothing, has made as many false detections as the worst answer, has the error 1 and
fails (see `silence`).

>>> from roadworthy.data.values import Boxes
>>> truth = [Boxes.of([[0, 0, 2, 2]]), Boxes.of([[0, 0, 2, 2]])]
>>> found = [Boxes.of([[0, 0, 2, 2]], scores=[0.9]), None]
>>> scored = ap50(found, truth)
>>> round(scored.value(), 4), scored.value(np.array([1, 0])), scored.failure.tolist()
(0.2525, 1.0, [False, True])
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.data.values import BOXES, Boxes, Parts
from roadworthy.distances.overlap import box_iou
from roadworthy.measures.classification import OverClasses
from roadworthy.measures.scored import (
    Charged,
    Scored,
    answered,
    of_ratio,
    refuse_unknown_truth,
    same_cases,
)
from roadworthy.registry import register

_PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Matched:
    """Detections and objects of all cases, both in case order, and what became of them.

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

    def take(self, rows: np.ndarray) -> Matched:
        """The cases `rows`, renumbered; a row may be taken more than once."""
        detections, case = _gather(self.case, rows)
        truths, truth_case = _gather(self.truth_case, rows)
        return Matched(
            case,
            self.label[detections],
            self.score[detections],
            self.hit[detections],
            truth_case,
            self.truth_label[truths],
            self.found_at[truths],
            self.ignored[truths],
            self.answered[rows],
        )

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


class _Pairs(NamedTuple):
    detection: np.ndarray
    truth: np.ndarray
    iou: np.ndarray


def match(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    iou: float = 0.5,
    max_detections: int | None = None,
) -> Matched:
    """Match detections with objects; of more than `max_detections` of a class in an image, the best
    scores count.

    Greedy, as COCO does it: within an image and a class, detections choose in the order of their
    scores, each the object of the highest IoU that is still free. What a score threshold keeps is a
    prefix of that order, so one matching serves all thresholds.

    >>> from roadworthy.data.values import Boxes
    >>> matched = match([Boxes.of([[0, 0, 2, 2], [5, 5, 6, 6]], scores=[0.9, 0.8])], [Boxes.of([[0, 0, 2, 1.5]])])
    >>> matched.hit.tolist(), matched.found_at.tolist()
    ([True, False], [0.9])
    """
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    found, truth = BOXES.pack(outputs), BOXES.pack(targets)
    case, truth_case = _cases(found), _cases(truth)
    if max_detections is not None:
        keep = _best_of_each(case, found, max_detections)
        found = {part: found[part][keep] for part in ("xyxy", "labels", "scores")}
        case = case[keep]
    pairs = _candidates(found, case, truth, truth_case, min(iou, 1 - 1e-10))
    real = ~truth["ignore"][pairs.truth]
    partner = _greedy(_Pairs(*(column[real] for column in pairs)), found["scores"], len(truth_case))
    hit = np.zeros(len(case), dtype=bool)
    hit[partner[partner >= 0]] = True
    found_at = np.full(len(truth_case), -np.inf)
    found_at[partner >= 0] = found["scores"][partner[partner >= 0]]
    judged = np.ones(len(case), dtype=bool)
    judged[pairs.detection[~real]] = False
    judged |= hit
    return Matched(
        case[judged],
        found["labels"][judged],
        found["scores"][judged],
        hit[judged],
        truth_case,
        truth["labels"],
        found_at,
        truth["ignore"],
        answered(outputs),
    )


def _cases(parts: Parts) -> np.ndarray:
    lengths = np.diff(parts["offsets"])
    return np.repeat(np.arange(len(lengths)), lengths)


def _gather(case: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the entries of `rows` in a sorted column of cases, and their new case numbers."""
    start = np.searchsorted(case, rows, side="left")
    lengths = np.searchsorted(case, rows, side="right") - start
    return _ranges(start, lengths), np.repeat(np.arange(len(rows)), lengths)


def _ranges(start: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start[0], start[0]+1, … for lengths[0] numbers, then start[1], …"""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(start - before, lengths)


def _best_of_each(case: np.ndarray, found: Parts, most: int) -> np.ndarray:
    """Which detections are among the best `most` of their image and class."""
    order = np.lexsort((-found["scores"], found["labels"], case))
    fresh = (np.diff(case[order], prepend=-1) != 0) | (
        np.diff(found["labels"][order], prepend=-1) != 0
    )
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    keep = np.zeros(len(order), dtype=bool)
    keep[order] = np.arange(len(order)) - first < most
    return keep


def _candidates(
    found: Parts, case: np.ndarray, truth: Parts, truth_case: np.ndarray, least: float
) -> _Pairs:
    """Pairs of one image and class whose IoU, in a region to ignore the share of the detection that
    lies in it, is at least `least`."""
    classes = int(max(found["labels"].max(initial=0), truth["labels"].max(initial=0))) + 1
    key, truth_key = case * classes + found["labels"], truth_case * classes + truth["labels"]
    by_key = np.argsort(truth_key, kind="stable")
    start = np.searchsorted(truth_key[by_key], key, side="left")
    lengths = np.searchsorted(truth_key[by_key], key, side="right") - start
    kept = [_Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for block in _blocks(lengths):
        detection = np.repeat(np.arange(block.start, block.stop), lengths[block])
        object_ = by_key[_ranges(start[block], lengths[block])]
        overlap = box_iou(
            found["xyxy"][detection],
            truth["xyxy"][object_],
            of_first=truth["ignore"][object_] if truth["ignore"].any() else None,
        )
        near = overlap >= least
        kept.append(_Pairs(detection[near], object_[near], overlap[near]))
    return _Pairs(*(np.concatenate(column) for column in zip(*kept, strict=True)))


def _blocks(lengths: np.ndarray) -> Iterator[slice]:
    """Slices of the detections that make about `_PAIRS_AT_ONCE` pairs each, to bound the memory."""
    marks = np.cumsum(lengths) // _PAIRS_AT_ONCE
    edges = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist(), len(lengths)]
    return (slice(a, b) for a, b in itertools.pairwise(edges) if b > a)


def _greedy(pairs: _Pairs, scores: np.ndarray, truths: int) -> np.ndarray:
    """For each object the detection that found it, or -1."""
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    # COCO gives the later of two objects of equal IoU to the detection; hence the last sort key.
    order = np.lexsort((-pairs.truth, -pairs.iou, rank[pairs.detection]))
    partner = [-1] * truths
    settled = -1
    for detection, object_ in zip(
        pairs.detection[order].tolist(), pairs.truth[order].tolist(), strict=True
    ):
        if detection != settled and partner[object_] < 0:
            partner[object_] = detection
            settled = detection
    return np.array(partner, dtype=np.int64)


RECALLS = np.linspace(0.0, 1.0, 101)
MAX_DETECTIONS = 100
"""COCO's: of one class in one image, the 100 best scores count."""


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
    return _average_precision(
        match(outputs, targets, iou=iou, max_detections=max_detections), min_score
    )


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
    matched = match(outputs, targets, iou=iou)
    objects, found, *_ = matched.counts(min_score)
    objects = np.where(matched.answered, objects, np.maximum(objects, 1.0))
    missed = objects - found
    error = np.where(matched.answered, missed / np.maximum(objects, 1.0), 1.0)
    failure = (missed > 0) | ~matched.answered
    return Scored.ratio(
        found, objects, error=error, failure=failure, better="higher", limits=(0.0, 1.0)
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
    matched = match(outputs, targets, iou=iou)
    _, found, false, _ = matched.counts(min_score)
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
    """Detections of one class from the highest score down; `ends` are the last positions of equal
    scores."""

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

    objects, found, false, _ = matched.counts(min_score)
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
    truth_case, truth_label = (
        c[~matched.ignored] for c in (matched.truth_case, matched.truth_label)
    )
    for label in np.unique(truth_label):
        own = order[
            np.searchsorted(labels, label, side="left") : np.searchsorted(
                labels, label, side="right"
            )
        ]
        ends = np.flatnonzero(np.diff(matched.score[own], append=-np.inf) != 0) if len(own) else own
        objects = truth_case[truth_label == label]
        case, hit = matched.case[own], matched.hit[own]
        curves.append(_Curve(case, hit.astype(np.float64), ends, objects, _false_ranks(case, hit)))
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
    """Average precision of one class, None where the weights leave it no object; `silent` is the
    unanswered weight."""
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
    """At each score, the most false detections that a case with weight has made so far; 1 before
    any was made."""
    ranks = np.where(counted, curve.false_rank, -1)
    return (
        np.maximum.accumulate(np.maximum(ranks + 1, 1))[curve.ends] if len(ranks) else np.zeros(0)
    )
