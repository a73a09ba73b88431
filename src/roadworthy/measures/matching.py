"""Which detection found which object: done once, read by every measure of boxes.

Greedy, as COCO does it: within an image and a class, detections choose in the order of their scores, each the
object of the highest IoU that is still free. What a score threshold keeps is a prefix of that order, so one
matching serves all thresholds.

>>> from roadworthy.data.values import Boxes
>>> matched = match([Boxes.of([[0, 0, 2, 2], [5, 5, 6, 6]], scores=[0.9, 0.8])], [Boxes.of([[0, 0, 2, 1.5]])])
>>> matched.hit.tolist(), matched.found_at.tolist()
([True, False], [0.9])
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.data.values import BOXES, Boxes, Parts
from roadworthy.distances.overlap import box_iou
from roadworthy.measures.answers import answered, refuse_unknown_truth, same_length

_PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Matched:
    """Detections and objects of all cases, both in case order, and what became of them."""

    case: np.ndarray
    label: np.ndarray
    score: np.ndarray
    hit: np.ndarray
    """Whether the detection found an object."""
    truth_case: np.ndarray
    truth_label: np.ndarray
    found_at: np.ndarray
    """Score of the detection that found the object; minus infinity for none."""
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
            self.answered[rows],
        )

    def counts(self, min_score: float) -> Counts:
        """Objects, found objects and false detections of each case, of detections at or above a score."""
        n = len(self.answered)
        kept = self.score >= min_score
        return Counts(
            np.bincount(self.truth_case, minlength=n).astype(np.float64),
            np.bincount(self.case[kept & self.hit], minlength=n).astype(np.float64),
            np.bincount(self.case[kept & ~self.hit], minlength=n).astype(np.float64),
        )


class Counts(NamedTuple):
    """By case: true objects, those found, and detections that found none."""

    objects: np.ndarray
    found: np.ndarray
    false: np.ndarray


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
    """Match detections with objects; of more than `max_detections` of a class in an image, the best scores count."""
    same_length(outputs, targets)
    refuse_unknown_truth(targets)
    found, truth = BOXES.pack(outputs), BOXES.pack(targets)
    case, truth_case = _cases(found), _cases(truth)
    if max_detections is not None:
        keep = _best_of_each(case, found, max_detections)
        found = {part: found[part][keep] for part in ("xyxy", "labels", "scores")}
        case = case[keep]
    pairs = _candidates(found, case, truth, truth_case, min(iou, 1 - 1e-10))
    partner = _greedy(pairs, found["scores"], len(truth_case))
    hit = np.zeros(len(case), dtype=bool)
    hit[partner[partner >= 0]] = True
    found_at = np.full(len(truth_case), -np.inf)
    found_at[partner >= 0] = found["scores"][partner[partner >= 0]]
    return Matched(
        case,
        found["labels"],
        found["scores"],
        hit,
        truth_case,
        truth["labels"],
        found_at,
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
    """Pairs of one image and class whose IoU is at least `least`."""
    classes = int(max(found["labels"].max(initial=0), truth["labels"].max(initial=0))) + 1
    key, truth_key = case * classes + found["labels"], truth_case * classes + truth["labels"]
    by_key = np.argsort(truth_key, kind="stable")
    start = np.searchsorted(truth_key[by_key], key, side="left")
    lengths = np.searchsorted(truth_key[by_key], key, side="right") - start
    kept = [_Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for block in _blocks(lengths):
        detection = np.repeat(np.arange(block.start, block.stop), lengths[block])
        object_ = by_key[_ranges(start[block], lengths[block])]
        overlap = box_iou(found["xyxy"][detection], truth["xyxy"][object_])
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
