"""Surprise adequacy: how unlike the training activations of the predicted class an input's
activations are (Weiss et al. 2022, VII-B).

LSA (Kim, Feldt and Yoo 2019) is minus the log of a kernel density, MDSA (Kim et al. 2020) a
Mahalanobis distance, DSA (Kim, Feldt and Yoo 2019, refined by Weiss et al. 2021) a ratio of two
distances. Reference rows belong to the class the module *predicts* for them, as in the authors'
code; labels are not used. A class that no reference row was predicted as has no activations of its
own: such a row is as surprising as it would be to the class that it surprises least (for DSA: to
the class of the nearest activation).

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> activations = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 4.0], [1.0, 4.0]])
>>> scores = np.eye(2)[[0, 0, 1, 1]]
>>> def rows(a, s):
...     n = np.arange(len(a))
...     return ModuleTrace(n, n, np.full(len(a), None), n, CLASS_SCORES, s, {"layer.penultimate": a})
>>> dsa = DistanceSurprise()
>>> dsa.fit(rows(activations, scores), None)
>>> dsa.score(rows(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]]), np.eye(2)[[0, 0, 0]])).tolist()
[0.0, 0.5, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.statistics.density import Covariance, KernelDensity, has_spread, mahalanobis_squared
from roadworthy.statistics.neighbours import Points
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.activations import ActivationSupervisor, ByClass, unseen_classes
from roadworthy.supervisors.plain import OfClasses


class _OfPredictedClass(OfClasses, ActivationSupervisor):
    """Surprise with regard to the predicted class."""

    why = "it compares within the predicted class"
    unseen = "as surprising as it would be to the class that it surprises least"
    """What becomes of an answer that no reference row has."""

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from the rows that have an answer, and note the classes that none of them has."""
        self._said: dict[str, list[str]] = {}
        super().fit(trace, truth)
        for what, classes in self._said.items():
            which = f"class {classes[0]}" if len(classes) == 1 else f"{len(classes)} classes"
            self.notes.append(f"{which}: {what}")
        width = np.asarray(trace.output).reshape(len(trace), -1).shape[1]
        missing = unseen_classes(width, self._learned["labels"])
        if missing:
            self.notes.append(
                f"no reference row is predicted as class {missing}; such an answer is {self.unseen}"
            )

    def _by_class(
        self,
        activations: np.ndarray,
        predicted: np.ndarray,
        surprise: Callable[[int, np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """`surprise(i, rows)` of the i-th class; rows of a class not seen in fitting take the
        smallest over all."""
        labels = self._learned["labels"]
        result = np.empty(len(activations))
        for i, label in enumerate(labels):
            rows = predicted == label
            if rows.any():
                result[rows] = surprise(i, activations[rows])
        unseen = ~np.isin(predicted, labels)
        if unseen.any():
            result[unseen] = np.min(
                [surprise(i, activations[unseen]) for i in range(len(labels))], axis=0
            )
        return result

    def _factor(
        self, sorted_rows: ByClass, i: int, columns: np.ndarray | None = None
    ) -> np.ndarray | None:
        """None where a class has a covariance of its own, else the Cholesky factor of the one that
        all classes share."""
        own = sorted_rows.rows(i)
        if has_spread(own if columns is None else own[:, columns]):
            return None
        label = sorted_rows.labels[i]
        points, means = sorted_rows.points, sorted_rows.means()
        if columns is not None:
            points, means = points[:, columns], means[:, columns]
        try:
            shared = Covariance.fit(
                points, centre=means, which=sorted_rows.classes(), device=self.device
            )
        except np.linalg.LinAlgError:
            self._say(label, "rows without spread in any class; distances are Euclidean")
            return np.eye(points.shape[1])
        self._say(label, "rows without spread; the covariance is that within all classes")
        return shared.factor

    def _say(self, label: object, what: str) -> None:
        """Remember what was done for a class: one note for all classes with the same."""
        self._said.setdefault(what, []).append(str(label))

    def _note_shrinkage(self, label: object, share: float) -> None:
        if share:
            self._say(label, "fewer independent rows than activations; the covariance is shrunk")


@register("supervisors", "mdsa")
class MahalanobisSurprise(_OfPredictedClass):
    """Mahalanobis-distance surprise adequacy: distance from the training activations of the
    predicted class.

    A singular covariance (fewer rows than activations) is shrunk by Ledoit and Wolf's rule, and
    `notes` says so. Activations that are constant in a class take the mean variance of the others.
    """

    name = "mdsa"

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        sorted_rows = ByClass.of(activations, classes)
        means, width = sorted_rows.means(), activations.shape[1]
        factors = np.empty((len(means), width, width))
        for i, label in enumerate(sorted_rows.labels):
            factor = self._factor(sorted_rows, i)
            if factor is None:
                rows = sorted_rows.rows(i)
                own = Covariance.fit(rows, device=self.device)
                self._note_shrinkage(label, own.shrinkage)
                factor = own.factor
            factors[i] = factor
        return {
            "width": np.array(width),
            "labels": sorted_rows.labels,
            "means": means,
            "factors": factors,
        }

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        means, factors = self._learned["means"], self._learned["factors"]
        squared = self._by_class(
            activations,
            predicted,
            lambda i, rows: mahalanobis_squared(rows, means[i], factors[i], device=self.device),
        )
        distances: np.ndarray = np.sqrt(squared)
        return distances


@register("supervisors", "lsa")
class LikelihoodSurprise(_OfPredictedClass):
    """Likelihood-based surprise adequacy: minus the log density of the predicted class's training
    activations.

    Gaussian kernels with the class's covariance and Scott's bandwidth, on the class's `features`
    activations of highest variance.
    """

    name = "lsa"

    def __init__(
        self,
        *,
        features: int = 300,
        layer: str = "penultimate",
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(layer=layer, pool=pool, device=device, memory_mb=memory_mb)
        if features < 1:
            raise ValueError(f"features is {features}; at least 1 was expected")
        self.features = features
        self._kernels: dict[int, KernelDensity] = {}

    def _forget(self) -> None:
        self._kernels = {}

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        sorted_rows = ByClass.of(activations, classes)
        count, width = len(sorted_rows.labels), activations.shape[1]
        kept = min(self.features, width)
        columns = np.empty((count, kept), dtype=np.int64)
        points, centres = (
            np.empty((len(activations), kept), dtype=activations.dtype),
            np.empty((count, kept)),
        )
        factors = np.empty((count, kept, kept))
        for i, label in enumerate(sorted_rows.labels):
            rows = sorted_rows.rows(i)
            variance = rows.var(axis=0, dtype=np.float64)
            variance = variance if variance.any() else activations.var(axis=0, dtype=np.float64)
            columns[i] = np.sort(np.argsort(variance, kind="stable")[width - kept :])
            factor = self._factor(sorted_rows, i, columns[i])
            kernels = KernelDensity.fit(rows[:, columns[i]], factor=factor, device=self.device)
            self._note_shrinkage(label, kernels.shrinkage)
            points[sorted_rows.starts[i] : sorted_rows.starts[i + 1]] = kernels.points
            centres[i], factors[i] = kernels.centre, kernels.factor
        return {
            "width": np.array(width),
            "labels": sorted_rows.labels,
            "starts": sorted_rows.starts,
            "columns": columns,
            "points": points,
            "centres": centres,
            "factors": factors,
        }

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return self._by_class(activations, predicted, self._surprise)

    def _surprise(self, i: int, rows: np.ndarray) -> np.ndarray:
        known = self._learned
        if i not in self._kernels:
            points = known["points"][known["starts"][i] : known["starts"][i + 1]]
            self._kernels[i] = KernelDensity(points, known["centres"][i], known["factors"][i])
        kernels = self._kernels[i]
        return -kernels.log_density(
            rows[:, known["columns"][i]], memory_mb=self.memory_mb, device=self.device
        )


@register("supervisors", "dsa")
class DistanceSurprise(_OfPredictedClass):
    """Distance-based surprise adequacy: how far from the predicted class, against how near that
    place is to another class.

    With a the reference activation of the predicted class nearest to x, it is |x - a| / |a - b|,
    where b is the activation of any other class nearest to a. `share` of every class's rows are
    used, drawn once (Weiss et al.: 0.3). Where a and b coincide, their distance is taken as the
    resolution of a float, so that the score stays a number.
    """

    name = "dsa"
    unseen = "compared with the class of the nearest activation"

    def __init__(
        self,
        *,
        share: float = 1.0,
        layer: str = "penultimate",
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(layer=layer, pool=pool, device=device, memory_mb=memory_mb)
        if not 0 < share <= 1:
            raise ValueError(f"share is {share}; above 0 and up to 1 was expected")
        self.share = share
        self._points: Points | None = None
        self._to_others = np.zeros(0)

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        sorted_rows = ByClass.of(activations, classes)
        if len(sorted_rows.labels) < 2:
            raise ValueError(
                f"dsa compares classes, and all {len(classes)} reference rows are predicted as class {classes[0]}; "
                "give reference data of more classes"
            )
        if self.share < 1:
            rng = np.random.default_rng(0)
            sizes = np.diff(sorted_rows.starts)
            drawn = [
                start + np.sort(rng.permutation(size)[: int(np.ceil(self.share * size))])
                for start, size in zip(sorted_rows.starts, sizes, strict=False)
            ]
            rows = np.concatenate(drawn)
            sorted_rows = ByClass.of(
                sorted_rows.points[rows], sorted_rows.labels[sorted_rows.classes()[rows]]
            )
        return {
            "width": np.array(activations.shape[1]),
            "labels": sorted_rows.labels,
            "starts": sorted_rows.starts,
            "points": sorted_rows.points,
        }

    def _forget(self) -> None:
        self._points = None
        # Distances from a reference activation to the other classes, worked out when a first input asks for them.
        self._to_others = np.full(len(self._learned["points"]), np.nan)

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        labels, starts = self._learned["labels"], self._learned["starts"]
        points = self._points or Points(
            self._learned["points"], device=self.device, memory_mb=self.memory_mb
        )
        self._points = points
        position = np.searchsorted(labels, predicted)
        unseen = ~np.isin(predicted, labels)
        if unseen.any():
            at = points.nearest(activations[unseen]).indices[:, 0]
            position[unseen] = np.searchsorted(starts, at, side="right") - 1
        nearest, winners = np.empty(len(activations)), np.empty(len(activations), dtype=np.int64)
        for i in np.unique(position):
            rows = position == i
            found = points.nearest(activations[rows], start=int(starts[i]), stop=int(starts[i + 1]))
            nearest[rows], winners[rows] = found.distances[:, 0], found.indices[:, 0]
        self._measure_to_others(points, np.unique(winners))
        result: np.ndarray = nearest / self._to_others[winners]
        return result

    def _measure_to_others(self, points: Points, winners: np.ndarray) -> None:
        """Fill in the distance of these reference activations to the nearest one of another class."""
        new = winners[np.isnan(self._to_others[winners])]
        if not len(new):
            return
        activations, starts = self._learned["points"][new], self._learned["starts"]
        own = np.searchsorted(starts, new, side="right") - 1
        distance = points.nearest(
            activations, without=np.stack([starts[own], starts[own + 1]], axis=1)
        ).distances[:, 0]
        norms = np.sqrt(np.einsum("ij,ij->i", activations, activations, dtype=np.float64))
        resolution = np.finfo(np.float32).eps * norms + np.finfo(np.float32).tiny
        self._to_others[new] = np.maximum(distance, resolution)
