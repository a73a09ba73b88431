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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
_PAIRS_AT_ONCE = 2_000_000
_MOST_COPIES = 64
"""Copies of an image that alternate where its scores are equal; further ones follow in one step."""


class Figure(NamedTuple):
    """One of COCO's figures: what is averaged, at which IoU, of which objects and detections."""

    kind: Literal["precision", "recall"]
    iou: float | None = None
    """None is the mean over all thresholds."""
    area: str = "all"
    most: int = MAX_DETECTIONS

    @property
    def ious(self) -> tuple[float, ...]:
        """The thresholds it is a mean over."""
        return THRESHOLDS if self.iou is None else (self.iou,)


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
COUNTS = ("tp", "fp", "fn", "precision", "recall")


@dataclass(frozen=True)
class DetectionSummary:
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
    by_class: Mapping[int, DetectionSummary] = field(default_factory=dict)


class Summaries(NamedTuple):
    """Figures by weighting: columns are those of `FIGURES`, then `COUNTS`."""

    overall: np.ndarray
    """(weightings, figures)"""
    by_class: np.ndarray
    """(weightings, figures, classes)"""
    labels: tuple[int, ...]
    """The classes, in order."""

    def column(self, figure: str, label: int | None = None) -> np.ndarray:
        """One figure of every weighting, over all classes or of one."""
        at = (*FIGURES, *COUNTS).index(figure)
        if label is None:
            return self.overall[:, at]
        return self.by_class[:, at, self.labels.index(label)]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Detections and objects of all cases, both in case order, and what became of them.

    In a `uint64`, the bit ``area * len(thresholds) + threshold`` stands for that setting.
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

    def __len__(self) -> int:
        return len(self.answered)

    def bit(self, iou: float, area: str = "all") -> int:
        """The number of the bit of a setting."""
        near = [at for at, t in enumerate(self.thresholds) if abs(t - iou) < 1e-9]
        if not near:
            known = ", ".join(f"{t:g}" for t in self.thresholds)
            raise ValueError(f"nothing was matched at an IoU of {iou:g}, but at {known}")
        return list(AREAS).index(area) * len(self.thresholds) + near[0]

    def mask(self, ious: Sequence[float], area: str = "all") -> np.uint64:
        """The bits of several IoUs."""
        return np.uint64(sum(1 << self.bit(iou, area) for iou in ious))

    def take(self, rows: np.ndarray) -> Evaluation:
        """The cases `rows`, renumbered; a row may be taken more than once."""
        own, case = _gathered(self.case, rows)
        objects, truth_case = _gathered(self.truth_case, rows)
        return Evaluation(
            self.thresholds,
            self.answered[rows],
            case,
            self.label[own],
            self.score[own],
            self.rank[own],
            self.hit[own],
            self.unjudged[own],
            truth_case,
            self.truth_label[objects],
            self.judged[objects],
            self.found_at[objects],
        )

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """The classes of objects or detections."""
        return np.unique(np.concatenate([self.label, self.truth_label]))

    @functools.cached_property
    def _curves(self) -> dict[Any, _Curves]:
        return {}

    def curves(
        self, settings: tuple[tuple[float, str], ...], most: int, weights: np.ndarray
    ) -> _Curves:
        """Curves at IoUs and areas of the best `most` detections, for weights like these."""
        largest = min(int(np.ceil(weights.max(initial=1.0))), _MOST_COPIES)
        known = self._curves.get((settings, most))
        if known is None or (known.interleaved and known.copies < largest):
            # A power of 2, so that weights that grow do not build the curves again and again.
            copies = 1 << (largest - 1).bit_length()
            known = self._curves[settings, most] = _Curves.of(self, settings, most, copies)
        return known

    @functools.cached_property
    def _tallies(self) -> dict[Any, Any]:
        return {}

    def totals(self, what: str, weights: np.ndarray, **where: Any) -> np.ndarray:
        """A tally (weightings, classes) of cases with weights (weightings, cases)."""
        return np.asarray((self.tally(what, **where) @ weights.T).T)

    def by_case(self, what: str, **where: Any) -> np.ndarray:
        """A tally over all classes."""
        return np.asarray(self.tally(what, **where).sum(axis=0))

    def tally(self, what: str, **where: Any) -> Any:
        """What cases hold, by class (classes, cases), a sparse array."""
        key = (what, *sorted(where.items()))
        if key not in self._tallies:
            from scipy.sparse import csr_array

            label, case, values = getattr(self, f"_{what}")(**where)
            at = np.searchsorted(self.labels, label), case
            shape = len(self.labels), len(self)
            self._tallies[key] = csr_array((values.astype(np.float64), at), shape=shape)
        return self._tallies[key]

    def _objects(self, area: str = "all") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own = _holds(self.judged, self.bit(self.thresholds[0], area))
        return self.truth_label[own], self.truth_case[own], own[own]

    def _hits(self, area: str, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The share of COCO's thresholds at which detections hit."""
        bits = [self.bit(iou, area) for iou in THRESHOLDS]
        own = np.flatnonzero((self.hit & self.mask(THRESHOLDS, area) > 0) & (self.rank < most))
        return self.label[own], self.case[own], _bits(self.hit[own])[bits].mean(axis=0)

    def _found(self, area: str, most: int) -> tuple[np.ndarray, ...]:
        own = _holds(self.hit, self.bit(THRESHOLDS[0], area)) & (self.rank < most)
        return self.label[own], self.case[own], own[own]

    def _right(self, iou: float, min_score: float, area: str = "all") -> tuple[np.ndarray, ...]:
        own = _holds(self.hit, self.bit(iou, area)) & (self.score >= min_score)
        return self.label[own], self.case[own], own[own]

    def _false(self, iou: float, min_score: float, area: str = "all") -> tuple[np.ndarray, ...]:
        own = ~_holds(self.hit | self.unjudged, self.bit(iou, area)) & (self.score >= min_score)
        return self.label[own], self.case[own], own[own]

    def missed_unasked(self, weights: np.ndarray, area: str) -> np.ndarray:
        """The weight of cases that have neither an answer nor an object (weightings,)."""
        return np.asarray(weights @ (~self.answered & (self.by_case("objects", area=area) == 0)))


def _holds(bits: np.ndarray, bit: int) -> np.ndarray:
    return np.asarray(bits >> np.uint64(bit) & np.uint64(1) > 0)


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
    given = tuple(outputs), tuple(targets)
    for known, at, found in tuple(_KEPT):
        if at == thresholds and all(map(_same, known, given)):
            return found
    found = _evaluated(outputs, targets, thresholds)
    _KEPT.append((given, thresholds, found))
    return found


_KEPT: deque[tuple[tuple[tuple[Any, ...], ...], tuple[float, ...], Evaluation]] = deque(maxlen=2)


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _evaluated(
    outputs: Sequence[Boxes | None], targets: Sequence[Boxes], thresholds: tuple[float, ...]
) -> Evaluation:
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    found, truth = BOXES.pack(outputs), BOXES.pack(targets)
    case, truth_case = _cases_of(found), _cases_of(truth)
    every = np.uint64((1 << len(thresholds)) - 1)
    shifts = [np.uint64(at * len(thresholds)) for at in range(len(AREAS))]
    area = truth["area"] if "area" in truth else box_area(truth["xyxy"])
    judged = np.where(truth["ignore"], np.uint64(0), _in_range(area, every, shifts))
    matched = _matched(found, case, truth, truth_case, thresholds, judged)
    finder = matched.finder
    found_at = np.full(len(finder), -np.inf)
    found_at[finder >= 0] = found["scores"][finder[finder >= 0]]
    none = ~(matched.hit | matched.unjudged)
    # COCO: a detection that found nothing counts only if it lies in the range of areas itself.
    outside = none & ~_in_range(box_area(found["xyxy"]), every, shifts)
    return Evaluation(
        thresholds, answered(outputs), case, found["labels"], found["scores"], matched.rank,
        matched.hit, matched.unjudged | outside, truth_case, truth["labels"], judged, found_at,
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


class _Matching(NamedTuple):
    """What became of every detection, and who found each object."""

    rank: np.ndarray
    hit: np.ndarray
    unjudged: np.ndarray
    """Bits: the detection was matched with an object that is not judged."""
    finder: np.ndarray
    """By object, the detection that found it in the first setting, or -1."""


class _Pairs(NamedTuple):
    detection: np.ndarray
    truth: np.ndarray
    iou: np.ndarray


def _matched(
    found: Parts,
    case: np.ndarray,
    truth: Parts,
    truth_case: np.ndarray,
    thresholds: tuple[float, ...],
    judged: np.ndarray,
) -> _Matching:
    """COCO's greedy matching of packed boxes in all settings; `judged` are bits by object."""
    classes = int(max(found["labels"].max(initial=0), truth["labels"].max(initial=0))) + 1
    key, truth_key = case * classes + found["labels"], truth_case * classes + truth["labels"]
    rank = _ranks(key, found["scores"])
    least = np.minimum(thresholds, 1 - 1e-10)
    pairs = _candidates(found, key, truth, truth_key, float(least.min()))
    reached = (1 << np.searchsorted(least, pairs.iou, side="right").astype(np.uint64)) - np.uint64(
        1
    )
    bits = np.zeros(len(reached), dtype=np.uint64)
    for at in range(len(AREAS)):
        bits |= reached << np.uint64(at * len(thresholds))
    return _greedy(pairs, bits, rank, truth["ignore"], judged)


def _ranks(key: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How many detections of the same key have a higher score, or an equal one and come before."""
    order = np.lexsort((-scores, key))
    fresh = np.diff(key[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - first
    return ranks


def _candidates(
    found: Parts, key: np.ndarray, truth: Parts, truth_key: np.ndarray, least: float
) -> _Pairs:
    """Pairs of one image and class whose IoU, in a crowd the share of the detection that lies in
    it, is at least `least`."""
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


def _greedy(
    pairs: _Pairs, bits: np.ndarray, rank: np.ndarray, crowd: np.ndarray, judged: np.ndarray
) -> _Matching:
    n = len(rank)
    hit, unjudged = np.zeros(n, dtype=np.uint64), np.zeros(n, dtype=np.uint64)
    finder = np.full(len(judged), -1, dtype=np.int64)
    real = bits & judged[pairs.truth]
    # Most pairs have no rival: nothing is left to choose.
    alone = np.bincount(pairs.detection, minlength=n)[pairs.detection] == 1
    alone &= np.bincount(pairs.truth, minlength=len(judged))[pairs.truth] == 1
    hit[pairs.detection[alone]] = real[alone]
    unjudged[pairs.detection[alone]] = (bits & ~real)[alone]
    first = alone & (real & np.uint64(1) > 0)
    finder[pairs.truth[first]] = pairs.detection[first]
    taken = np.zeros(len(judged), dtype=np.uint64)
    for detection, object_, offer, right in _rounds(pairs, bits, real, rank, ~alone):
        got = hit[detection] | unjudged[detection]
        free = offer & ~got & np.where(crowd[object_], ~np.uint64(0), ~taken[object_])
        taken[object_] |= free
        (hit if right else unjudged)[detection] |= free
        if right:
            new = free & np.uint64(1) > 0
            finder[object_[new]] = detection[new]
    return _Matching(rank, hit, unjudged, finder)


def _rounds(
    pairs: _Pairs, bits: np.ndarray, real: np.ndarray, rank: np.ndarray, rivals: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]:
    """What detections are offered, in rounds in which no two are of one image and class.

    The best detection of every image and class is first offered the objects that are judged, the
    one of the highest IoU first, then the others; then the second best, and so on.
    """
    detection, object_, iou = (column[rivals] for column in pairs)
    # COCO gives the later of two objects of equal IoU to the detection; hence the first sort key.
    order = np.lexsort((-object_, -iou, detection))
    detection, object_ = detection[order], object_[order]
    offers = real[rivals][order], (bits & ~real)[rivals][order]
    fresh = np.diff(detection, prepend=-1) != 0
    place = np.arange(len(order)) - np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    turn = rank[detection] * (place.max(initial=0) + 1) + place
    by_turn = np.argsort(turn, kind="stable")
    ends = np.flatnonzero(np.diff(turn[by_turn], append=-1)) + 1
    turns = [by_turn[a:b] for a, b in itertools.pairwise([0, *ends.tolist()])]
    of_rank = itertools.groupby(turns, key=lambda rows: rank[detection[rows[0]]])
    for _, group in of_rank:
        rounds = list(group)
        for right, offer in zip((True, False), offers, strict=True):
            for rows in rounds:
                yield detection[rows], object_[rows], offer[rows], right


@dataclass(frozen=True, eq=False)
class _Entries:
    """Detections by class, from the highest score down."""

    case: np.ndarray
    kind: np.ndarray
    """The position of the class."""
    copied: np.ndarray
    """Which entries stand for one copy of their case each; others stand for all of them."""
    copy: np.ndarray
    """By copied entry, the number of the copy."""

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where classes begin; one without entries has no start."""
        return np.flatnonzero(np.diff(self.kind, prepend=-1))

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Entries of each class that has some."""
        return np.diff(self.starts, append=len(self.case))

    def weights(self, by_case: np.ndarray) -> np.ndarray:
        """How often each entry counts."""
        own = by_case[self.case]
        if len(self.copied):
            left = np.maximum(own[self.copied] - self.copy, 0)
            own[self.copied] = np.where(self.copy < _MOST_COPIES - 1, np.minimum(left, 1), left)
        return own

    def sums(self, by_case: np.ndarray) -> np.ndarray:
        """Running sums of the weights, from 0 in every class."""
        own = self.weights(by_case)
        sums = np.cumsum(own, dtype=own.dtype)
        if len(self.starts) > 1:
            sums -= np.repeat(sums[self.starts] - own[self.starts], self.lengths)
        return sums


@dataclass(frozen=True, eq=False)
class _Curve:
    """The curves of precision over recall of all classes in one setting.

    Precision rises at hits only, so only hits are kept; what was made before each of them is read
    from the sums over the detections that are judged.
    """

    hits: _Entries
    judged: int
    """Which of the sums."""
    made: np.ndarray
    """By hit, its place in them."""
    false: _False | None
    """None if every case was answered."""

    def average(
        self, weights: np.ndarray, judged: np.ndarray, objects: np.ndarray, silent: float
    ) -> np.ndarray:
        """Average precision by class, 0 without a hit."""
        average = np.zeros(len(objects))
        starts, lengths = self.hits.starts, self.hits.lengths
        if not len(starts):
            return average
        found, made = self.hits.sums(weights), judged[self.made]
        if self.false is not None and silent > 0:
            made = made + silent * self.false.most(weights)
        made[made == 0] = 1  # nothing was found there either
        kinds = self.hits.kind[starts]
        recall = found / np.repeat(np.where(objects > 0, objects, 1.0)[kinds], lengths)
        # Points of recall that are reached. COCO's are multiples of 0.01 in floating point: 7 of
        # 100 objects do not reach the point 0.07, and neither do they here.
        point = (recall * 100 + 1e-9).astype(np.intp)
        point += 1 - (RECALLS[point] > recall)
        # Only hits that reach a further point matter, and the highest precision from there on.
        fresh = np.append(True, point[1:] != point[:-1])
        fresh[starts] = True
        own = np.flatnonzero(fresh)
        best = np.maximum.reduceat(found / made, own)
        first = np.searchsorted(own, starts)
        lengths = np.diff(first, append=len(own))
        # Later classes are put lower, so that one running maximum from the end serves all.
        level = np.repeat(np.arange(len(starts), 0, -1, dtype=np.float64), lengths)
        best = np.maximum.accumulate((best + level)[::-1])[::-1] - level
        steps = np.diff(point[own], prepend=0)
        steps[first] = point[starts]
        sums = np.add.reduceat(best * steps, first)
        average[kinds] = sums / len(RECALLS)
        return average


@dataclass(frozen=True, eq=False)
class _Curves:
    """The curves of several settings."""

    curves: tuple[_Curve, ...]
    judged: tuple[_Entries, ...]
    """Right and false detections; settings that judge the same ones share them."""
    copies: int
    interleaved: bool
    """Whether detections of one image and class have equal scores and fare differently: the copies
    of that image then stand one after the other, so that each needs entries of its own."""

    @classmethod
    def of(
        cls, found: Evaluation, settings: tuple[tuple[float, str], ...], most: int, copies: int
    ) -> _Curves:
        """Curves at the IoUs and areas in `settings`."""
        classes = np.searchsorted(found.labels, found.label)
        own = np.flatnonzero(found.rank < most)
        order = own[np.lexsort((-found.score[own], classes[own]))]
        order, copy = _with_copies(found, order, copies)
        kind, case = classes[order], found.case[order]

        def entries(chosen: np.ndarray) -> _Entries:
            number = copy[chosen]
            copied = np.flatnonzero(number >= 0)
            return _Entries(case[chosen], kind[chosen], copied, number[copied])

        hit, unjudged = _bits(found.hit[order]), _bits(found.unjudged[order])
        curves: list[_Curve] = []
        judged: list[_Entries] = []
        places, before = np.zeros(0), None
        for bit in (found.bit(iou, area) for iou, area in settings):
            if before is None or not np.array_equal(unjudged[bit], unjudged[before]):
                judged.append(entries(np.flatnonzero(~unjudged[bit])))
                places = np.cumsum(~unjudged[bit]) - 1
            before = bit
            at = np.flatnonzero(hit[bit])
            hits, false = entries(at), None
            if not found.answered.all():
                wrong = ~(hit[bit] | unjudged[bit])
                false = _False.of(entries(np.flatnonzero(wrong)), np.cumsum(wrong)[at] - 1, hits)
            curves.append(_Curve(hits, len(judged) - 1, places[at], false))
        interleaved = copies == 1 or bool((copy >= 0).any())
        return cls(tuple(curves), tuple(judged), copies, interleaved)

    def average(self, weights: np.ndarray, objects: np.ndarray, silent: float) -> np.ndarray:
        """Average precision by setting and class, of objects by the same."""
        sums = [entries.sums(weights) for entries in self.judged]
        curves = zip(self.curves, objects, strict=True)
        return np.array([c.average(weights, sums[c.judged], o, silent) for c, o in curves])


@dataclass(frozen=True, eq=False)
class _False:
    """False detections: what an answer that never came is charged with."""

    entries: _Entries
    rank: np.ndarray
    """How many false detections of its case come before each; -1 in a further copy."""
    before: np.ndarray
    """By hit, the place of the last false detection before it in its class; -1 for none."""

    @classmethod
    def of(cls, entries: _Entries, before: np.ndarray, hits: _Entries) -> _False:
        """`before` may reach into an earlier class."""
        rank = np.full(len(entries.case), -1, dtype=np.int64)
        own = np.delete(np.arange(len(rank)), entries.copied[entries.copy > 0])
        key = entries.kind[own] * (entries.case.max(initial=0) + 1) + entries.case[own]
        order = np.argsort(key, kind="stable")
        rank[own[order]] = np.arange(len(own)) - np.searchsorted(key[order], key[order])
        inside = before >= 0
        inside[inside] = entries.kind[before[inside]] == hits.kind[inside]
        return cls(entries, rank, np.where(inside, before, -1))

    def most(self, weights: np.ndarray) -> np.ndarray:
        """By hit, the most false detections that a case with weight has made so far, at least 1."""
        if not len(self.rank):
            return np.ones(len(self.before))
        made = np.where(self.entries.weights(weights) > 0, self.rank + 1, 1)
        floor = self.entries.kind * (len(made) + 1)
        most = np.maximum.accumulate(np.maximum(made, 1) + floor) - floor
        return np.where(self.before >= 0, most[self.before], 1)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """(64, n): the bits of whole numbers."""
    as_bytes = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(np.unpackbits(as_bytes, axis=1, bitorder="little").T).view(bool)


def _with_copies(
    found: Evaluation, order: np.ndarray, copies: int
) -> tuple[np.ndarray, np.ndarray]:
    """The order with `copies` of the detections that alternate when an image is repeated, and the
    number of the copy, -1 for other detections."""
    same = np.diff(order, prepend=-1) > 0
    for column in (found.case, found.label, found.score):
        same &= np.append(False, column[order][1:] == column[order][:-1])
    run = np.cumsum(~same) - 1
    first = np.flatnonzero(~same)[run]
    differs = found.hit[order] != found.hit[order[first]]
    differs |= found.unjudged[order] != found.unjudged[order[first]]
    mixed = (np.bincount(run, weights=differs) > 0)[run] if len(run) else differs
    if copies == 1 or not mixed.any():
        return order, np.full(len(order), -1)
    at = np.repeat(np.arange(len(order)), np.where(mixed, copies, 1))
    copy = np.arange(len(at)) - np.searchsorted(at, at, side="left")
    again = np.lexsort((at, copy, run[at]))
    return order[at[again]], np.where(mixed[at], copy, -1)[again]


def values_by_class(
    found: Evaluation, figures: Sequence[Figure], weights: np.ndarray
) -> np.ndarray:
    """(weightings, figures, classes) from weights (weightings, cases); NaN for a class that has no
    object of the figure's area.

    A case without answer misses all objects, one of every class if it has none, and makes false
    detections in every class: one above all scores, and at every further score as many as the
    answer that makes most of them there.
    """
    objects = {f.area: found.totals("objects", weights, area=f.area) for f in figures}
    values = np.empty((len(weights), len(figures), len(found.labels)))
    for at, figure in enumerate(figures):
        if figure.kind == "recall":
            hits = found.totals("hits", weights, area=figure.area, most=figure.most)
            missed = objects[figure.area] + found.missed_unasked(weights, figure.area)[:, None]
            values[:, at] = hits / np.maximum(missed, 1e-300)
    for most in {f.most for f in figures if f.kind == "precision"}:
        chosen = [f.kind == "precision" and f.most == most for f in figures]
        own = [f for f, mine in zip(figures, chosen, strict=True) if mine]
        values[:, chosen] = _precisions(found, own, weights, objects)
    for at, figure in enumerate(figures):
        values[:, at][objects[figure.area] <= 0] = np.nan
    return values


def _precisions(
    found: Evaluation, figures: list[Figure], weights: np.ndarray, objects: dict[str, np.ndarray]
) -> np.ndarray:
    settings = tuple(dict.fromkeys((iou, f.area) for f in figures for iou in f.ious))
    curves = found.curves(settings, figures[0].most, weights)
    rows = [[settings.index((iou, f.area)) for iou in f.ious] for f in figures]
    by_setting = np.stack([objects[area] for _, area in settings], axis=1)
    silent = weights @ ~found.answered
    values = np.empty((len(weights), len(figures), len(found.labels)))
    # Sums of whole numbers are quicker. 2**31 copies of detections do not fit into memory anyway.
    whole = weights.astype(np.int32) if (weights == np.floor(weights)).all() else weights
    for b, row in enumerate(whole):
        average = curves.average(row, by_setting[b], float(silent[b]))
        values[b] = [average[own].mean(axis=0) for own in rows]
    return values


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
    by_case = np.ones(len(found)) if weights is None else np.asarray(weights, dtype=np.float64)
    table = summaries(found, by_case[None], min_score=min_score, iou=iou)
    by_class = {
        label: DetectionSummary(*table.by_class[0, :, at].tolist())
        for at, label in enumerate(table.labels)
    }
    return replace(DetectionSummary(*table.overall[0].tolist()), by_class=by_class)


def summaries(
    found: Evaluation, weights: np.ndarray, *, min_score: float = 0.5, iou: float = 0.5
) -> Summaries:
    """All figures for many weightings (weightings, cases), of which each says how often every case
    was drawn.

    >>> from roadworthy.data.values import Boxes
    >>> truth = [Boxes.of([[0, 0, 10, 10]])] * 2
    >>> found = evaluate_boxes([Boxes.of([[0, 0, 10, 8]]), Boxes.of([])], truth)
    >>> summaries(found, np.array([[2, 0], [0, 2]])).column("ar100").tolist()
    [0.7, 0.0]
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != len(found):
        raise ValueError(
            f"weights have the shape {weights.shape}; one row a weighting with a weight for each of "
            f"the {len(found)} cases was expected"
        )
    values = values_by_class(found, tuple(FIGURES.values()), weights)
    counted = _counted(found, weights, min_score, iou)
    silent = weights @ ~found.answered
    overall = np.concatenate([over_classes(values, silent), counted[..., 0]], axis=1)
    by_class = np.concatenate([values, counted[..., 1:]], axis=1)
    return Summaries(overall, by_class, tuple(found.labels.tolist()))


def _counted(found: Evaluation, weights: np.ndarray, min_score: float, iou: float) -> np.ndarray:
    """`COUNTS` (weightings, counts, 1 + classes), first those over all classes."""
    where = {"iou": iou, "min_score": min_score}
    tp, fp = (_with_sum(found.totals(what, weights, **where)) for what in ("right", "false"))
    objects = _with_sum(found.totals("objects", weights))
    missed = found.missed_unasked(weights, "all")[:, None]
    fn = np.where(objects > 0, objects + missed, 0.0) - tp
    fn[:, 0] = objects[:, 0] + missed[:, 0] - tp[:, 0]
    if not found.answered.all():
        made = _with_sum(found.tally("false", **where).toarray().T).T
        for b, row in enumerate(weights):
            most = made[:, found.answered & (row > 0)].max(axis=1, initial=1.0)
            fp[b] += most * float(row @ ~found.answered)
    with np.errstate(invalid="ignore"):
        return np.stack([tp, fp, fn, tp / (tp + fp), tp / (tp + fn)], axis=1)


def _with_sum(by_class: np.ndarray) -> np.ndarray:
    """A column of sums before those of the classes."""
    return np.concatenate([by_class.sum(axis=1, keepdims=True), by_class], axis=1)
