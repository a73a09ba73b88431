"""Supervisors that read the boxes of a detector alone, so that a file of predictions is enough.

A box is *kept* if its score is at least `min_score`, as in the measures of detection. Scores are
probabilities, 0 to 1. In the order of what they see:

- `lowest_kept_score`: the weakest of the kept boxes, which is the likeliest to be false;
- `near_threshold`: boxes that a slightly different score would have dropped or kept;
- `mean_box_entropy`: doubt about the boxes on average, whatever is kept;
- `class_doubt`: boxes of two classes at one place;
- `box_count`: more or fewer kept boxes than in the reference data. It alone notices a detector
  that finds nothing: an image without boxes is the least risky one for all others.

>>> from roadworthy.data.values import Boxes
>>> here, there = [0, 0, 4, 4], [8, 8, 12, 12]
>>> found = [Boxes.of([here, here, there], labels=[0, 1, 0], scores=[0.8, 0.4, 0.5]), Boxes.of([])]
>>> n = np.arange(2)
>>> rows = ModuleTrace(n, n, np.full(2, None), n, BOXES, found)
>>> for made in (LowestKeptScore, NearThreshold, MeanBoxEntropy, ClassDoubt):
...     print(made.__name__, made().score(rows).round(3).tolist())
LowestKeptScore [0.5, 0.0]
NearThreshold [2.6, 0.0]
MeanBoxEntropy [0.622, 0.0]
ClassDoubt [0.5, 0.0]
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.probabilities import entropies
from roadworthy.data.values import BOXES, Kind, spans_between
from roadworthy.distances.overlap import box_iou
from roadworthy.registry import register
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor
from roadworthy.supervisors.plain import PlainSupervisor

ROUNDING = 1e-6
"""How far float32 may carry a score beyond 0 or 1."""
SMALLEST_TAIL = 1e-300
"""Below it a tail probability is 0 for a float, and has no logarithm."""


class _Found(NamedTuple):
    """The boxes of all images, image after image."""

    offsets: np.ndarray
    image: np.ndarray
    xyxy: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, trace: ModuleTrace) -> _Found:
        parts = BOXES.pack(
            [item if good else None for item, good in zip(trace.output, trace.ok, strict=True)]
        )
        lengths, scores = np.diff(parts["offsets"]), np.asarray(parts["scores"], np.float64)
        if scores.size and (scores.min() < -ROUNDING or scores.max() > 1 + ROUNDING):
            raise ValueError(
                f"scores of boxes are read as probabilities, 0 to 1; found {scores.min():g} to "
                f"{scores.max():g}. Let the detector give probabilities"
            )
        image = np.repeat(np.arange(len(lengths)), lengths)
        return cls(parts["offsets"], image, parts["xyxy"], parts["labels"], np.clip(scores, 0, 1))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum over the boxes of each image; 0 without boxes."""
        return np.bincount(self.image, values, minlength=len(self.offsets) - 1)

    def highest(self, values: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """The highest over the marked boxes of each image; minus infinity without any."""
        found = np.full(len(self.offsets) - 1, -np.inf)
        np.maximum.at(found, self.image[boxes], values[boxes])
        return found


class _OfBoxes:
    """One that needs boxes."""

    def applies_to(self, kind: Kind) -> str | None:
        """Boxes only."""
        return None if kind is BOXES else f"it reads boxes, and the module gives {kind.name}"


class _BoxFormula(_OfBoxes, PlainSupervisor):
    """A formula of the boxes of an image; nothing is learned."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer."""
        return np.where(trace.ok, self.risk(_Found.of(trace)), np.nan)

    @abstractmethod
    def risk(self, found: _Found) -> np.ndarray:  # type: ignore[override]
        """One number an image, higher is riskier."""


def _share(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; a number between 0 and 1 was expected, such as 0.5")
    return value


@register("supervisors", "lowest_kept_score")
class LowestKeptScore(_BoxFormula):
    """1 - the lowest score of a kept box; if none is kept, the highest score; without boxes 0."""

    def __init__(self, *, min_score: float = 0.5) -> None:
        self.min_score = _share("min_score", min_score)

    def risk(self, found: _Found) -> np.ndarray:
        """The likelihood that a kept box is false, or that the best dropped one is not."""
        kept = found.scores >= self.min_score
        lowest = found.highest(1 - found.scores, kept)
        dropped = np.maximum(found.highest(found.scores, ~kept), 0.0)
        return np.where(np.isfinite(lowest), lowest, dropped)


@register("supervisors", "near_threshold")
class NearThreshold(_BoxFormula):
    """Boxes near the threshold: the sum of 4 p (1 - p), p the score moved so that it is 0.5 there.

    The odds of p are those of the score over those of `min_score`: a box at the threshold counts
    as 1, one of score 0 or 1 not at all. For a `min_score` of 0.5, p is the score itself, and the
    sum is four times the variance of the number of true boxes, if scores are their probabilities.
    """

    def __init__(self, *, min_score: float = 0.5) -> None:
        self.min_score = _share("min_score", min_score)

    def risk(self, found: _Found) -> np.ndarray:
        """No width has to be chosen."""
        kept = found.scores * (1 - self.min_score)
        dropped = (1 - found.scores) * self.min_score
        return found.sums(4 * kept * dropped / (kept + dropped) ** 2)


@register("supervisors", "mean_box_entropy")
class MeanBoxEntropy(_BoxFormula):
    """Mean binary entropy of the scores of all boxes, in nats; without boxes 0."""

    def risk(self, found: _Found) -> np.ndarray:
        """Boxes that are dropped count as those that are kept."""
        doubt = entropies(np.stack([found.scores, 1 - found.scores], axis=1))
        return found.sums(doubt) / np.maximum(np.diff(found.offsets), 1)


@register("supervisors", "class_doubt")
class ClassDoubt(_BoxFormula):
    """How near a kept box is to being of another class: IoU times the ratio of the two scores.

    The other box has another class, at most the same score and at least the overlap `iou`; the
    highest over all such pairs. 0 for a detector that gives no competing boxes.
    """

    def __init__(self, *, min_score: float = 0.5, iou: float = 0.5) -> None:
        self.min_score, self.iou = _share("min_score", min_score), _share("iou", iou)

    def risk(self, found: _Found) -> np.ndarray:
        """Image by image: pairs of all images at once would not fit into memory."""
        doubt = np.zeros(len(found.offsets) - 1)
        for i, span in enumerate(spans_between(found.offsets)):
            corners, labels, scores = found.xyxy[span], found.labels[span], found.scores[span]
            kept = scores >= self.min_score
            if kept.any() and (labels != labels[0]).any():
                overlap = box_iou(corners[kept][:, None], corners[None])
                rival = (labels[kept][:, None] != labels) & (scores[kept][:, None] >= scores)
                ratio = overlap * scores / scores[kept][:, None]
                doubt[i] = ratio.max(where=rival & (overlap >= self.iou), initial=0.0)
        return doubt


@register("supervisors", "box_count")
class BoxCount(_OfBoxes, LearnedSupervisor):
    """How unusual the number of kept boxes is: minus log of the smaller tail probability.

    The tails, P(N <= n) and P(N >= n), are those of the negative binomial distribution with the
    mean and variance of the reference data; of Poisson's if the variance is not above the mean.
    """

    name = "box_count"
    needs = PlainSupervisor.needs

    def __init__(self, *, min_score: float = 0.5) -> None:
        super().__init__()
        self.min_score = _share("min_score", min_score)

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn mean and variance; half a box more than was counted keeps the mean above 0."""
        counts = self._counts(trace)[trace.ok]
        self._refuse_none(counts, trace)
        mean = (counts.sum() + 0.5) / len(counts)
        self._learned = {"mean": np.array(mean), "variance": np.array(counts.var())}

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer."""
        from scipy import stats

        self._refuse_unfitted()
        mean, variance = float(self._learned["mean"]), float(self._learned["variance"])
        usual = stats.poisson(mean)
        if variance > mean:
            usual = stats.nbinom(mean**2 / (variance - mean), mean / variance)
        counts = self._counts(trace)
        tail = np.minimum(usual.cdf(counts), usual.sf(counts - 1))
        return np.where(trace.ok, -np.log(np.maximum(tail, SMALLEST_TAIL)), np.nan)

    def _counts(self, trace: ModuleTrace) -> np.ndarray:
        found = _Found.of(trace)
        return found.sums((found.scores >= self.min_score).astype(np.float64))
