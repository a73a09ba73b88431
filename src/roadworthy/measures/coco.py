"""Detectors evaluated as COCO does it: average precision (AP) and average recall (AR), over all
classes and by class, for any weights of the images (metrics M7 to M13 of Wozniak et al. 2024).

Within an image and a class, detections choose in the order of their scores: each takes the object
of the highest IoU that is still free, else an object that is not judged (a crowd, or one outside
of the range of areas), and then is not judged either. Equal scores stand in the order of the
files. The 10 IoU thresholds and 4 ranges of areas are bits of one number, so that one matching
serves all 40. A class without objects is left out of the means.

Matching does not depend on the weights, so a bootstrap repeats only the cheap half. A weight of 2
counts as that image twice, one after the other.

>>> from roadworthy.data.values import Boxes
>>> truth = [Boxes.of([[0, 0, 10, 10]]), Boxes.of([[0, 0, 10, 10]])]
>>> found = [Boxes.of([[0, 0, 10, 8]], scores=[0.9]), Boxes.of([])]
>>> summary = detection_summary(found, truth)
>>> round(summary.ap50, 4), round(summary.ap, 4), summary.tp, summary.fn, summary.ap_large
(0.505, 0.3535, 1.0, 1.0, nan)
>>> detection_summary(found, truth, weights=[1, 0]).ap50
1.0
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Literal, NamedTuple

import numpy as np

from roadworthy.data.values import BOXES, Boxes, Parts
from roadworthy.distances.overlap import box_area, box_iou
from roadworthy.measures.scored import answered, refuse_unknown_truth, same_cases

THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
RECALLS = np.linspace(0.0, 1.0, 101)
AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}  # fmt: skip
"""COCO's ranges of areas in pixels, both ends included."""
MAX_DETECTIONS = 100
"""COCO's: of one class in one image, the 100 best scores count."""
_PAIRS_AT_ONCE, _WEIGHTS_AT_ONCE = 2_000_000, 700_000
_MOST_COPIES = 64
"""Copies of an image that alternate where its scores are equal; further ones follow in one step."""


class Setting(NamedTuple):
    """What a curve of precision over recall is drawn for."""

    iou: float
    area: str
    most: int
    """Detections of a class that count in one image."""


class Figure(NamedTuple):
    """One of COCO's figures: what is averaged, at which IoU, of which objects and detections."""

    kind: Literal["precision", "recall"]
    iou: float | None = None
    """None is the mean over all thresholds."""
    area: str = "all"
    most: int = MAX_DETECTIONS

    @property
    def settings(self) -> list[Setting]:
        """What it is a mean over."""
        ious = THRESHOLDS if self.iou is None else (self.iou,)
        return [Setting(iou, self.area, self.most) for iou in ious]


FIGURES: dict[str, Figure] = {
    "ap": Figure("precision"),
    "ap50": Figure("precision", iou=0.5),
    "ap75": Figure("precision", iou=0.75),
    "ap_small": Figure("precision", area="small"),
    "ap_medium": Figure("precision", area="medium"),
    "ap_large": Figure("precision", area="large"),
    "ar1": Figure("recall", most=1),
    "ar10": Figure("recall", most=10),
    "ar100": Figure("recall"),
    "ar_small": Figure("recall", area="small"),
    "ar_medium": Figure("recall", area="medium"),
    "ar_large": Figure("recall", area="large"),
}


class DetectionSummary(NamedTuple):
    """COCO's 12 figures, and what was found at a score and an IoU; NaN is "not defined"."""

    ap: float
    ap50: float
    ap75: float
    ap_small: float
    ap_medium: float
    ap_large: float
    ar1: float
    ar10: float
    ar100: float
    ar_small: float
    ar_medium: float
    ar_large: float
    tp: float
    fp: float
    fn: float
    precision: float
    recall: float
    by_class: Mapping[int, DetectionSummary] = {}


def _kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an evaluation whose results are kept with it."""

    @functools.wraps(make)
    def kept(self: Evaluation, *asked: Any) -> Any:
        key = (make.__name__, *asked)
        if key not in self.kept:
            self.kept[key] = make(self, *asked)
        return self.kept[key]

    return kept


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Detections and objects of all cases, both in case order, and what became of them.

    In a `uint64`, the bit ``area * len(thresholds) + threshold`` stands for that setting. Tallies
    are sparse arrays (classes, cases).
    """

    thresholds: tuple[float, ...]
    answered: np.ndarray
    case: np.ndarray
    label: np.ndarray
    score: np.ndarray
    rank: np.ndarray
    """0 for the best detection of its class and image, and so on."""
    hit: np.ndarray
    """Bits: the detection found an object that is judged."""
    unjudged: np.ndarray
    """Bits: the detection is neither right nor false."""
    truth_case: np.ndarray
    truth_label: np.ndarray
    judged: np.ndarray
    """Bits: the object can be found and missed."""
    found_at: np.ndarray
    """By object, the score of the detection that found it in the first setting; minus infinity for
    none."""
    kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.answered)

    def bit(self, iou: float, area: str) -> np.uint64:
        """The number of the bit of a setting."""
        near = [at for at, t in enumerate(self.thresholds) if abs(t - iou) < 1e-9]
        if not near:
            raise ValueError(f"nothing was matched at an IoU of {iou:g}")
        return np.uint64(list(AREAS).index(area) * len(self.thresholds) + near[0])

    def take(self, rows: np.ndarray) -> Evaluation:
        """The cases `rows`, renumbered; a row may be taken more than once."""
        own, case = _gathered(self.case, rows)
        objects, truth_case = _gathered(self.truth_case, rows)
        return Evaluation(
            self.thresholds, self.answered[rows], case, self.label[own], self.score[own],
            self.rank[own], self.hit[own], self.unjudged[own], truth_case,
            self.truth_label[objects], self.judged[objects], self.found_at[objects],
        )  # fmt: skip

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """The classes of objects or detections."""
        return np.unique(np.concatenate([self.label, self.truth_label]))

    @functools.cached_property
    def classes(self) -> np.ndarray:
        """By detection, the position of its class in `labels`."""
        return np.searchsorted(self.labels, self.label)

    @functools.cached_property
    def truth_classes(self) -> np.ndarray:
        """The same by object."""
        return np.searchsorted(self.labels, self.truth_label)

    @functools.cached_property
    def alternating(self) -> np.ndarray:
        """Which detections have the score of another one of their image and class that fares
        differently: when the image is repeated, they take turns."""
        order = np.lexsort((self.score, self.label, self.case))
        fresh = _changes(self.case[order], self.label[order], self.score[order])
        group = np.cumsum(fresh) - 1
        first = order[fresh][group]
        differs = self.hit[order] != self.hit[first]
        differs |= self.unjudged[order] != self.unjudged[first]
        found = np.zeros(len(order), dtype=bool)
        found[order] = np.isin(group, group[differs])
        return found

    def ranking(self, weights: np.ndarray) -> Ranking:
        """The order of detections for weights like these."""
        most, copies = int(np.ceil(weights.max(initial=1.0))), 1
        if most > 1 and self.alternating.any():
            # A power of 2, so that weights that grow do not rank again and again.
            copies = min(1 << (most - 1).bit_length(), _MOST_COPIES)
        found: Ranking = self._ranking(copies)
        return found

    @_kept
    def _ranking(self, copies: int) -> Ranking:
        return Ranking.of(self, copies)

    @_kept
    def curves(self, setting: Setting, copies: int) -> Any:
        """The curves of all classes if images are repeated up to `copies` times."""
        return _Curves.of(self, setting, self._ranking(copies))

    @_kept
    def objects(self, area: str) -> Any:
        """Objects that are judged."""
        own = _holds(self.judged, self.bit(self.thresholds[0], area))
        return self._tally(self.truth_classes[own], self.truth_case[own])

    @_kept
    def hits(self, area: str, most: int) -> Any:
        """Objects that the best `most` detections of an image and class found, as the share of
        COCO's thresholds."""
        own = np.flatnonzero(self.rank < most)
        bits = [self.bit(iou, area) for iou in THRESHOLDS]
        share = np.mean([_holds(self.hit[own], bit) for bit in bits], axis=0)
        return self._tally(self.classes[own], self.case[own], share)

    @_kept
    def detections(
        self, fate: str, iou: float, min_score: float, area: str = "all", most: float = np.inf
    ) -> Any:
        """Detections at or above a score that are `right`, or `false`."""
        bits = self.hit if fate == "right" else ~(self.hit | self.unjudged)
        own = _holds(bits, self.bit(iou, area)) & (self.score >= min_score) & (self.rank < most)
        return self._tally(self.classes[own], self.case[own])

    def _tally(self, classes: np.ndarray, case: np.ndarray, values: Any = None) -> Any:
        from scipy.sparse import csr_array

        values = np.ones(len(case)) if values is None else values
        return csr_array((values, (classes, case)), shape=(len(self.labels), len(self)))

    def missed_unasked(self, weights: np.ndarray, area: str) -> np.ndarray:
        """The weight of cases that have neither an answer nor an object (weightings,)."""
        return np.asarray(weights @ (~self.answered & (by_case(self.objects(area)) == 0)))


def by_case(tally: Any) -> np.ndarray:
    """A tally over all classes."""
    return np.asarray(tally.sum(axis=0))


def _totals(tally: Any, weights: np.ndarray) -> np.ndarray:
    """A tally (weightings, classes) of cases with weights (weightings, cases)."""
    return np.asarray((tally @ weights.T).T)


def _holds(bits: np.ndarray, bit: np.uint64) -> np.ndarray:
    return np.asarray(bits >> bit & np.uint64(1)).astype(bool)


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Which rows differ from the row before."""
    changes = np.ones(len(columns[0]), dtype=bool)
    changes[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return changes


def _places(changes: np.ndarray) -> np.ndarray:
    """How many rows come after the latest change: 0, 1, 2, 0, 1, …"""
    at = np.arange(len(changes))
    return np.asarray(at - np.maximum.accumulate(np.where(changes, at, 0)))


def with_iou(iou: float) -> tuple[float, ...]:
    """COCO's thresholds, and this one."""
    if not 0 < iou <= 1:
        raise ValueError(f"iou is {iou:g}; a number above 0 and at most 1 was expected")
    known = any(abs(t - iou) < 1e-9 for t in THRESHOLDS)
    return THRESHOLDS if known else tuple(sorted((*THRESHOLDS, iou)))


def evaluate_boxes(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> Evaluation:
    """Match once for all figures; the latest evaluations are kept, since one set of answers is
    asked for many."""
    given = (*outputs, *targets)
    for known, at, found in tuple(_LATEST):
        if at == thresholds and len(known) == len(given) and all(map(is_, known, given)):
            return found
    found = _evaluated(outputs, targets, thresholds)
    _LATEST.append((given, thresholds, found))
    return found


_LATEST: deque[tuple[tuple[Any, ...], tuple[float, ...], Evaluation]] = deque(maxlen=2)


def _evaluated(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], thresholds: tuple[float, ...]
) -> Evaluation:
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    found, truth = BOXES.pack(outputs), BOXES.pack(targets)
    case, truth_case = _cases_of(found), _cases_of(truth)
    labels, truth_labels, scores = found["labels"], truth["labels"], found["scores"]
    classes = int(max(labels.max(initial=0), truth_labels.max(initial=0))) + 1
    key, truth_key = case * classes + labels, truth_case * classes + truth_labels
    order = np.lexsort((-scores, key))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = _places(_changes(key[order]))

    every = np.uint64((1 << len(thresholds)) - 1)
    shifts = [np.uint64(at * len(thresholds)) for at in range(len(AREAS))]
    area = truth["area"] if "area" in truth else box_area(truth["xyxy"])
    judged = np.where(truth["ignore"], np.uint64(0), _in_range(area, every, shifts))
    least = np.minimum(thresholds, 1 - 1e-10)
    pairs = _candidates(found, key, truth, truth_key, float(least.min()))
    reached = np.searchsorted(least, pairs.iou, side="right").astype(np.uint64)
    bits = (np.uint64(1) << reached) - np.uint64(1)
    bits = np.bitwise_or.reduce([bits << shift for shift in shifts])
    hit, unjudged, found_at = _greedy(pairs, bits, rank, scores, truth["ignore"], judged)
    # COCO: a detection that found nothing counts only if it lies in the range of areas itself.
    outside = ~(hit | unjudged) & ~_in_range(box_area(found["xyxy"]), every, shifts)
    return Evaluation(
        thresholds, answered(outputs), case, labels, scores, rank, hit, unjudged | outside,
        truth_case, truth_labels, judged, found_at,
    )  # fmt: skip


def _in_range(area: np.ndarray, every: np.uint64, shifts: list[np.uint64]) -> np.ndarray:
    bits = np.zeros(len(area), dtype=np.uint64)
    for (low, high), shift in zip(AREAS.values(), shifts, strict=True):
        bits[(area >= low) & (area <= high)] |= every << shift
    return bits


def _cases_of(parts: Parts) -> np.ndarray:
    """The case of every packed box."""
    lengths = np.diff(parts["offsets"])
    return np.repeat(np.arange(len(lengths)), lengths)


def _gathered(case: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the entries of `rows` in a sorted column of cases, and their new case numbers."""
    start = np.searchsorted(case, rows, side="left")
    lengths = np.searchsorted(case, rows, side="right") - start
    return _ranges(start, lengths), np.repeat(np.arange(len(rows)), lengths)


def _ranges(start: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start[0], start[0]+1, … for lengths[0] numbers, then start[1], …"""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(start - before, lengths)


class _Pairs(NamedTuple):
    detection: np.ndarray
    truth: np.ndarray
    iou: np.ndarray


def _candidates(
    found: Parts, key: np.ndarray, truth: Parts, truth_key: np.ndarray, least: float
) -> _Pairs:
    """Pairs of one image and class whose IoU, in a crowd the share of the detection that lies in
    it, is at least `least`."""
    by_key = np.argsort(truth_key, kind="stable")
    start = np.searchsorted(truth_key[by_key], key, side="left")
    lengths = np.searchsorted(truth_key[by_key], key, side="right") - start
    # Blocks of detections bound the memory.
    blocks = np.flatnonzero(np.diff(np.cumsum(lengths) // _PAIRS_AT_ONCE)) + 1
    kept = []
    for a, b in itertools.pairwise([0, *blocks.tolist(), len(lengths)]):
        detection = np.repeat(np.arange(a, b), lengths[a:b])
        object_ = by_key[_ranges(start[a:b], lengths[a:b])]
        boxes, crowd = (found["xyxy"][detection], truth["xyxy"][object_]), truth["ignore"][object_]
        overlap = box_iou(*boxes, of_first=crowd if crowd.any() else None)
        near = overlap >= least
        kept.append(_Pairs(detection[near], object_[near], overlap[near]))
    return _Pairs(*(np.concatenate(column) for column in zip(*kept, strict=True)))


def _greedy(
    pairs: _Pairs, bits: np.ndarray, rank: np.ndarray, scores: np.ndarray, crowd: np.ndarray,
    judged: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """By detection, the bits in which it found an object that is judged, and one that is not; by
    object, the score of the detection that found it in the first setting.

    In one round no two detections are of one image and class. The best one is first offered the
    objects that are judged, that of the highest IoU first, then the others; then the second best
    detection, and so on.
    """
    detection, truth, iou = pairs
    # Most pairs have no rival and come first, all at once.
    rivals = (np.bincount(detection)[detection] > 1) | (np.bincount(truth)[truth] > 1)
    rounds = [(np.flatnonzero(~rivals), other) for other in (0, 1)]
    # COCO gives the later of two objects of equal IoU to the detection; hence the first sort key.
    order = np.flatnonzero(rivals)
    order = order[np.lexsort((-truth[order], -iou[order], detection[order]))]
    place = _places(_changes(detection[order]))
    places = place.max(initial=0) + 1
    turn = 2 * places * rank[detection[order]] + place
    turn = np.concatenate([turn, turn + places])
    by_turn = np.argsort(turn, kind="stable")
    ends = np.flatnonzero(np.diff(turn[by_turn], append=-1)) + 1
    for a, b in itertools.pairwise([0, *ends.tolist()]):
        rounds.append((order[by_turn[a:b] % len(order)], int(by_turn[a] >= len(order))))
    found = np.zeros((2, len(rank)), dtype=np.uint64)
    taken, found_at = np.zeros_like(judged), np.full(len(judged), -np.inf)
    for rows, other in rounds:
        own, object_ = detection[rows], truth[rows]
        free = bits[rows] & (judged[object_] if other == 0 else ~judged[object_])
        free &= ~found[0, own] & ~found[1, own]
        free &= np.where(crowd[object_], free, ~taken[object_])
        taken[object_] |= free
        found[other, own] |= free
        if other == 0:
            first = _holds(free, np.uint64(0))
            found_at[object_[first]] = scores[own[first]]
    return found[0], found[1], found_at


class Ranking(NamedTuple):
    """Detections by class, from the highest score down; equal scores in the order of the files.

    When an image is repeated, its detections of one class and score alternate. If they fare
    differently, each copy of the image has entries and a column of weights of its own.
    """

    detection: np.ndarray
    column: np.ndarray
    """Whose weight counts: columns are all cases, then the copies of those in `repeated`."""
    copy: np.ndarray
    repeated: np.ndarray
    copies: int

    @classmethod
    def of(cls, found: Evaluation, copies: int) -> Ranking:
        """The order if images are repeated up to `copies` times."""
        turns = found.alternating if copies > 1 else np.zeros(len(found.case), dtype=bool)
        times = np.where(turns, copies, 1)
        own, copy = np.repeat(np.arange(len(times)), times), _ranges(np.zeros_like(times), times)
        order = np.lexsort((found.case[own] * copies + copy, -found.score[own], found.classes[own]))
        own, copy = own[order], copy[order]
        case, repeated = found.case[own], np.unique(found.case[turns])
        place = len(found) + np.searchsorted(repeated, case) * copies + copy
        return cls(own, np.where(turns[own], place, case), copy, repeated, copies)

    def by_column(self, weights: np.ndarray) -> np.ndarray:
        """Weights (columns, weightings): a copy counts up to once, the last as often as is left."""
        left = weights[:, self.repeated, None] - np.arange(self.copies, dtype=weights.dtype)
        left[..., :-1] = np.minimum(left[..., :-1], 1)
        copies = np.maximum(left, 0).reshape(len(weights), -1)
        return np.ascontiguousarray(np.concatenate([weights, copies], axis=1).T)


class _Further(NamedTuple):
    """False detections after the first of their case and class, by run."""

    run: np.ndarray
    case: np.ndarray
    so_far: np.ndarray
    """How many there are up to this one."""

    @classmethod
    def of(cls, run: np.ndarray, case: np.ndarray, kind: np.ndarray) -> _Further:
        """From all false detections, by class and score."""
        order = np.lexsort((case, kind))
        so_far = np.empty_like(order)
        so_far[order] = _places(_changes(kind[order], case[order])) + 1
        more = so_far > 1
        return cls(run[more], case[more], so_far[more])


@dataclass(frozen=True, eq=False)
class _Curves:
    """The curves of precision over recall of all classes in one setting.

    Precision falls at false detections alone, so only the last hit before each of them matters. A
    run is some false detections and the hits that follow.
    """

    runs: Any
    """Sparse (2 runs, columns of weights): the false detections of a run, then its hits."""
    kind: np.ndarray
    """The position of the class of each run."""
    starts: np.ndarray
    """The first run of every class that has detections."""
    lengths: np.ndarray
    """How many runs it has."""
    level: np.ndarray
    """By run, the number of classes from here on: what is added to numbers up to 1 so that one
    running maximum serves all classes."""
    further: _Further | None
    """None if every case was answered."""

    @classmethod
    def of(cls, found: Evaluation, setting: Setting, ranking: Ranking) -> _Curves:
        """The curves of an evaluation."""
        from scipy.sparse import csr_array

        bit = found.bit(setting.iou, setting.area)
        judged = ~_holds(found.unjudged, bit) & (found.rank < setting.most)
        chosen = np.flatnonzero(judged[ranking.detection])
        own = ranking.detection[chosen]
        right, kind = _holds(found.hit, bit)[own], found.classes[own]
        ends = np.roll(_changes(kind), -1) | (right & ~np.roll(right, -1))
        run, kinds = np.cumsum(ends) - ends, kind[ends]
        parts = np.bincount(2 * run + right, minlength=2 * len(kinds))
        shape = len(parts), len(found) + len(ranking.repeated) * ranking.copies
        places = ranking.column[chosen], np.append(0, np.cumsum(parts))
        runs = csr_array((np.ones(len(own), dtype=np.int32), *places), shape=shape)
        starts = np.flatnonzero(_changes(kinds))
        lengths = np.diff(starts, append=len(kinds))
        level = np.repeat(np.arange(len(starts), 0, -1, dtype=np.float64), lengths)
        further = None
        if not found.answered.all():
            # Further copies of a case make no more false detections than its first.
            false = np.flatnonzero(~right & (ranking.copy[chosen] == 0))
            further = _Further.of(run[false], found.case[own[false]], kind[false])
        return cls(runs, kinds, starts, lengths, level, further)

    def average(self, weights: np.ndarray, objects: np.ndarray, silent: np.ndarray) -> np.ndarray:
        """Average precision, 0 without a hit, by weighting and class; from weights by column,
        objects by weighting and class, and the weight of unanswered cases."""
        average, kinds = np.zeros(objects.shape), self.kind[self.starts]
        if not len(kinds):
            return average
        parts = (self.runs @ weights).reshape(len(self.kind), 2, -1)
        made, found = (self._running_sum(parts[:, at].T) for at in (0, 1))
        made += found
        if self.further is not None and silent.any():
            made = made + silent[:, None] * self._most_false(self.further, weights)
        made[made == 0] = 1  # nothing was found there either
        best = found / made
        best += self.level
        np.maximum.accumulate(best[:, ::-1], axis=1, out=best[:, ::-1])
        best -= self.level
        objects = objects[:, kinds]
        recall = found / np.repeat(np.where(objects > 0, objects, 1.0), self.lengths, axis=1)
        # Points of recall that are reached. COCO's are multiples of 0.01 in floating point: 7 of
        # 100 objects do not reach the point 0.07, and neither do they here.
        point = np.floor(recall * 100 + 1e-9)
        point += point * RECALLS[1] <= recall
        steps = point.copy()
        steps[:, 1:] -= point[:, :-1]
        steps[:, self.starts] = point[:, self.starts]
        best *= steps
        average[:, kinds] = np.add.reduceat(best, self.starts, axis=1) / len(RECALLS)
        return average

    def _running_sum(self, parts: np.ndarray) -> np.ndarray:
        """Sums up to each run, from 0 in every class."""
        parts = np.ascontiguousarray(parts)
        sums = np.cumsum(parts, axis=1, dtype=parts.dtype)
        if len(self.starts) > 1:
            before = sums[:, self.starts] - parts[:, self.starts]
            sums -= np.repeat(before, self.lengths, axis=1)
        return sums

    def _most_false(self, further: _Further, weights: np.ndarray) -> np.ndarray:
        """By run, the most false detections that a case with weight has made so far, at least 1."""
        most = np.ones((len(self.kind), weights.shape[1]))
        counts = np.where(weights[further.case] > 0, further.so_far[:, None], 1)
        fresh = np.flatnonzero(_changes(further.run))
        if len(fresh):
            most[further.run[fresh]] = np.maximum.reduceat(counts, fresh, axis=0)
        level = self.level * (further.so_far.max(initial=1) + 1)
        return np.asarray(np.maximum.accumulate(most.T - level, axis=1) + level)


def values_by_class(
    found: Evaluation, figures: Sequence[Figure], weights: np.ndarray
) -> np.ndarray:
    """(weightings, figures, classes) from weights (weightings, cases); NaN for a class that has no
    object of the figure's area.

    A case without answer misses all objects, one of every class if it has none, and makes false
    detections in every class: one above all scores, and at every further score as many as the
    answer that makes most of them there.
    """
    objects = {f.area: _totals(found.objects(f.area), weights) for f in figures}
    averages = _averages(found, figures, weights, objects)
    values = np.empty((len(weights), len(figures), len(found.labels)))
    for at, figure in enumerate(figures):
        if figure.kind == "precision":
            values[:, at] = np.mean([averages[s] for s in figure.settings], axis=0)
        else:
            hits = _totals(found.hits(figure.area, figure.most), weights)
            missed = found.missed_unasked(weights, figure.area)[:, None]
            values[:, at] = hits / np.maximum(objects[figure.area] + missed, 1e-300)
        values[:, at][objects[figure.area] <= 0] = np.nan
    return values


def _averages(
    found: Evaluation,
    figures: Sequence[Figure],
    weights: np.ndarray,
    objects: Mapping[str, np.ndarray],
) -> dict[Setting, np.ndarray]:
    """Average precision (weightings, classes) by setting."""
    settings = {s for f in figures if f.kind == "precision" for s in f.settings}
    averages = {s: np.empty_like(objects[s.area]) for s in settings}
    ranking, silent = found.ranking(weights), weights @ ~found.answered
    # Sums of whole numbers are quicker. 2**31 detections do not fit into memory anyway.
    whole = (weights == np.floor(weights)).all()
    weights = weights.astype(np.int32) if whole else weights
    step = max(1, _WEIGHTS_AT_ONCE // max(1, len(found.case)))
    for own in (slice(at, at + step) for at in range(0, len(weights), step)):
        columns = ranking.by_column(weights[own])
        for setting, average in averages.items():
            curves = found.curves(setting, ranking.copies)
            average[own] = curves.average(columns, objects[setting.area][own], silent[own])
    return averages


def over_classes(values: np.ndarray, silent: np.ndarray) -> np.ndarray:
    """The mean over the classes (the last axis) that are defined; where none is, 0 if a case has no
    answer and NaN otherwise."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0).sum(axis=-1)
    nothing = np.where(silent > 0, 0.0, np.nan).reshape(-1, *[1] * (sums.ndim - 1))
    return np.where(known.any(axis=-1), sums / np.maximum(known.sum(axis=-1), 1), nothing)


def detection_summary(
    outputs: Sequence[Boxes | None],
    targets: Sequence[Boxes],
    *,
    weights: Any = None,
    min_score: float = 0.5,
    iou: float = 0.5,
) -> DetectionSummary:
    """COCO's figures, and true, false and missed detections at a score and an IoU.

    A case without answer is charged for as the measures of the same names do it.
    """
    found = evaluate_boxes(outputs, targets, thresholds=with_iou(iou))
    weights = np.ones(len(found)) if weights is None else np.asarray(weights)
    return summaries(found, weights[None], min_score=min_score, iou=iou)[0]


def summaries(
    found: Evaluation, weights: np.ndarray, *, min_score: float = 0.5, iou: float = 0.5
) -> list[DetectionSummary]:
    """One summary a weighting (weightings, cases), which says how often every case was drawn.

    >>> from roadworthy.data.values import Boxes
    >>> truth = [Boxes.of([[0, 0, 10, 10]])] * 2
    >>> found = evaluate_boxes([Boxes.of([[0, 0, 10, 8]]), Boxes.of([])], truth)
    >>> [summary.ar100 for summary in summaries(found, np.array([[2, 0], [0, 2]]))]
    [0.7, 0.0]
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != len(found):
        raise ValueError(
            f"weights have the shape {weights.shape}; one row a weighting with a weight for each of "
            f"the {len(found)} cases was expected"
        )
    by_class = values_by_class(found, tuple(FIGURES.values()), weights)
    overall = over_classes(by_class, weights @ ~found.answered)
    values = np.concatenate([overall[:, :, None], by_class], axis=2)
    table = np.concatenate([values, _counts(found, weights, min_score, iou)], axis=1)
    made = ([DetectionSummary(*row) for row in rows] for rows in table.swapaxes(1, 2).tolist())
    labels = found.labels.tolist()
    return [all_._replace(by_class=dict(zip(labels, each, strict=True))) for all_, *each in made]


def _counts(found: Evaluation, weights: np.ndarray, min_score: float, iou: float) -> np.ndarray:
    """True, false and missed detections, precision and recall (weightings, 5, 1 + classes), first
    over all classes."""
    right, false = (found.detections(fate, iou, min_score) for fate in ("right", "false"))
    tallies = right, false, found.objects("all")
    tp, fp, objects = (_with_sum(_totals(tally, weights)) for tally in tallies)
    missed = found.missed_unasked(weights, "all")[:, None]
    fn = np.where(objects > 0, objects + missed, 0.0) - tp
    fn[:, 0] = objects[:, 0] + missed[:, 0] - tp[:, 0]
    if not found.answered.all():
        made = _with_sum(false.toarray().T).T
        for b, row in enumerate(weights):
            most = made[:, found.answered & (row > 0)].max(axis=1, initial=1.0)
            fp[b] += most * float(row @ ~found.answered)
    with np.errstate(invalid="ignore"):
        return np.stack([tp, fp, fn, tp / (tp + fp), tp / (tp + fn)], axis=1)


def _with_sum(by_class: np.ndarray) -> np.ndarray:
    """A column of sums before those of the classes."""
    return np.concatenate([by_class.sum(axis=1, keepdims=True), by_class], axis=1)
