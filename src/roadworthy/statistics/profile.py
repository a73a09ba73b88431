"""The operational profile: how likely an input is, by a Gaussian kernel density of rows.

Equation 8 of Zhao et al. 2021 with 1 / (n h^d), a bandwidth for every feature and reflection at the
faces of the domain. The bandwidth is one factor times each feature's deviation, chosen by the
likelihood of rows left out. Cells of a grid hold the integral of the density: with A and B the
integrals of every row's kernel over the cells of either feature, masses are A Bᵀ / n, and the limit
of their bootstrap variance is [(A∘A)(B∘B)ᵀ / n - f²] / n, without a resample.

A kernel density is biased and enters no bound; it serves maps, allocation, the row "smoothed, no
guarantee", and the monitor's score: minus the log density of an input.

>>> rng = np.random.default_rng(0)
>>> profile = Profile.fit(rng.beta(2, 3, (400, 2)), domain=[(0, 1), (0, 1)])
>>> cells = profile.cell_masses(Grid.over([(0, 1), (0, 1)], side=0.25))
>>> round(float(cells.mass.sum()), 6), int(cells.mass.argmax())
(1.0, 5)
>>> profile.log_density(np.array([[0.4, 0.3], [0.98, 0.98]])).round(1).tolist()
[1.1, -7.2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from roadworthy.statistics.change_points import since_change
from roadworthy.statistics.density import EXPONENTS, LOG_2PI, log_kernel_sums, scott
from roadworthy.statistics.partition import Centres, Grid

Rule = Literal["likelihood", "silverman", "scott"]
DRAWN = 5_000
"""Rows by which a bandwidth is chosen, at most."""
TRIED = np.logspace(-3, 1, 15)
"""Factors of the deviation among which the likelihood's search begins."""
NEAR_FACE = 10.0
"""Bandwidths from a face within which a kernel's reflection is not negligible."""
MEMORY = 2**25
"""Numbers held at once by sums over a grid."""


class CellMasses(NamedTuple):
    """By cell, its probability and that figure's variance; what is missing to 1 lies outside."""

    mass: np.ndarray
    variance: np.ndarray


class Smoothed(NamedTuple):
    """The assembled probability of failure by the kernel density: an estimate without guarantee."""

    estimate: float
    deviation: float
    """With the covariance between cells, by the influence of every row, groups summed."""
    independent_deviation: float
    """As if cells were independent (assumption 1 of the paper)."""
    outside: float
    """Mass outside the cells, which counts as failing."""


@dataclass(frozen=True)
class Profile:
    """A product Gaussian kernel on every row."""

    points: np.ndarray
    weights: np.ndarray
    """By row; their sum is 1."""
    bandwidth: np.ndarray
    """By feature, in its units."""
    domain: np.ndarray | None = None
    """(features, 2), or None: no reflection. Rows outside have no kernel and keep their weight."""
    at_edge: bool = False
    """The likelihood's choice lies at an edge of its search: look at the data."""

    @classmethod
    def fit(
        cls,
        points: np.ndarray,
        *,
        bandwidth: Rule | float = "likelihood",
        domain: Sequence[tuple[float, float]] | None = None,
        weights: np.ndarray | None = None,
        seed: int = 0,
    ) -> Profile:
        """The profile of operational rows; a number is the bandwidth of every feature."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or not np.isfinite(points).all():
            raise ValueError(f"rows of finite numbers were expected, found {points.shape} points")
        n, d = points.shape
        box = None if domain is None else np.asarray(domain, dtype=np.float64).reshape(d, 2)
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != (n,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ValueError("weights must be one finite number a row, not negative, and not all 0")
        weights = weights / weights.sum()
        inside = _inside(points, box) & (weights > 0)
        if not inside.any() or not np.ptp(points[inside], axis=0).all():
            raise ValueError(
                f"{inside.sum()} rows in the domain with a feature that does not vary: no "
                "bandwidth; leave the feature out, or add rows"
            )
        if not isinstance(bandwidth, str):
            if not 0 < bandwidth < np.inf:
                raise ValueError(f"bandwidth is {bandwidth!r}; a positive number was expected")
            return cls(points, weights, np.full(d, float(bandwidth)), box)
        effective = weights[inside].sum() ** 2 / (weights[inside] ** 2).sum()
        mean = np.average(points[inside], axis=0, weights=weights[inside])
        variance = np.average((points[inside] - mean) ** 2, axis=0, weights=weights[inside])
        deviation = np.sqrt(variance * effective / max(effective - 1, 1))
        if bandwidth == "scott":
            return cls(points, weights, deviation * scott(effective, d), box)
        if bandwidth == "silverman":
            return cls(points, weights, deviation * scott(effective * (d + 2) / 4, d), box)
        if bandwidth != "likelihood":
            raise ValueError(
                f"bandwidth is {bandwidth!r}; likelihood, silverman, scott or a number was expected"
            )
        factor, at_edge = _likeliest(points[inside], weights[inside], deviation, box, seed)
        return cls(points, weights, deviation * factor, box, at_edge)

    def log_density(self, queries: np.ndarray) -> np.ndarray:
        """One number a query; minus infinity outside the domain."""
        return self._log_density(np.asarray(queries, dtype=np.float64), None)

    def leave_one_out(self, rows: np.ndarray | None = None) -> np.ndarray:
        """The log density of its own rows (all, or these), each without itself and its copies."""
        return self._log_density(
            self.points if rows is None else self.points[rows],
            np.arange(len(self.points)) if rows is None else rows,
        )

    def threshold(self, share: float = 0.99) -> float:
        """The quantile of minus the left-out log density of rows in the domain (5,000 of them at
        most): an input above it is beyond the profile, as is one outside the domain."""
        rows = np.flatnonzero(_inside(self.points, self.domain))
        found = self.leave_one_out(np.random.default_rng(0).permutation(rows)[:DRAWN])
        return float(np.quantile(-found, share, method="higher"))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Inputs from the profile, folded back at the faces of the domain."""
        chances = np.where(_inside(self.points, self.domain), self.weights, 0)
        rows = rng.choice(len(self.points), size=n, p=chances / chances.sum())
        drawn = self.points[rows] + rng.standard_normal((n, len(self.bandwidth))) * self.bandwidth
        if self.domain is None:
            return drawn
        low, extent = self.domain[:, 0], np.ptp(self.domain, axis=1)
        turned = np.mod(drawn - low, 2 * extent)
        return np.add(low, np.minimum(turned, 2 * extent - turned))

    def _log_density(self, queries: np.ndarray, own: np.ndarray | None) -> np.ndarray:
        if queries.ndim != 2 or queries.shape[1] != self.points.shape[1]:
            width = self.points.shape[1]
            raise ValueError(f"shape {queries.shape}; (rows, {width}) was expected")
        held = np.flatnonzero(_inside(self.points, self.domain) & (self.weights > 0))
        points, weights = self.points[held], self.weights[held]
        centre = points.mean(axis=0)
        white, asked = (points - centre) / self.bandwidth, (queries - centre) / self.bandwidth
        log_weights = np.log(weights)
        copies = np.unique(self.points, axis=0, return_inverse=True)[1] if own is not None else None

        def adjust(part: slice, exponents: np.ndarray) -> None:
            exponents += log_weights
            if self.domain is not None:
                _reflect(exponents, queries[part], points, self.bandwidth, self.domain)
            if copies is not None and own is not None:
                exponents[copies[own[part]][:, None] == copies[held]] = -np.inf

        d = len(self.bandwidth)
        halves = 0.5 * np.einsum("ij,ij->i", white, white)
        size = max(1, EXPONENTS // len(white))
        sums = log_kernel_sums(asked, white, halves, size, adjust=adjust)
        sums -= float(np.log(self.bandwidth).sum()) + d / 2 * LOG_2PI
        if copies is not None and own is not None:
            copied = np.bincount(copies[held], weights=weights, minlength=copies.max() + 1)
            sums -= np.log1p(-copied[copies[own]] / weights.sum())
        return np.where(_inside(queries, self.domain), sums, -np.inf)

    def cell_masses(self, cells: Grid | Centres) -> CellMasses:
        """The density's integral over every cell of a grid; of regions around centres the weight of
        the rows in them. The variance is that of the bootstrap, in the limit."""
        if isinstance(cells, Centres):
            place = cells.cell_of(self.points)
            mass, squares = (
                np.bincount(place, weights=w, minlength=cells.cells)
                for w in (self.weights, self.weights**2)
            )
            products = squares
        else:
            factors = self._factors(cells)
            mass = on_grid(factors, weights=self.weights)
            products = on_grid(factors, weights=self.weights**2)
            squares = on_grid([a**2 for a in factors], weights=self.weights**2)
        variance = squares - 2 * mass * products + mass**2 * (self.weights**2).sum()
        return CellMasses(mass, np.maximum(variance, 0))

    def smoothed(
        self,
        cells: Grid | Centres,
        unastuteness: np.ndarray,
        *,
        variances: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> Smoothed:
        """The masses times the failing share of every cell; mass outside the cells fails.

        `variances` are those of the failing shares, from draws of their own in every cell; rows of
        a group depend on each other.
        """
        noise = np.zeros(cells.cells) if variances is None else variances
        mass, spread = self.cell_masses(cells)
        if isinstance(cells, Centres):
            failing = unastuteness[cells.cell_of(self.points)]
        else:
            factors = self._factors(cells)
            covered = np.prod([a.sum(axis=0) for a in factors], axis=0)
            failing = row_sums(factors, unastuteness) + 1 - covered
        estimate = float(self.weights @ failing)
        influence = self.weights * (failing - estimate)
        if groups is not None:
            influence = np.bincount(np.unique(groups, return_inverse=True)[1], weights=influence)
        sampled = float((mass**2 * noise).sum())
        independent = float((unastuteness**2 * spread + noise * spread).sum()) + sampled
        return Smoothed(
            estimate=estimate,
            deviation=float(influence @ influence + sampled) ** 0.5,
            independent_deviation=independent**0.5,
            outside=max(0.0, 1 - float(mass.sum())),
        )

    def _factors(self, grid: Grid) -> list[np.ndarray]:
        """By feature, the integral of every row's kernel over the cells: (cells, rows)."""
        inside = _inside(self.points, self.domain)
        faces = [None] * grid.dimension if self.domain is None else list(self.domain)
        return [
            _integrals(grid.edges(k), self.points[:, k], self.bandwidth[k], faces[k]) * inside
            for k in range(grid.dimension)
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays for a file of any format; `from_arrays` reads them back."""
        kept = {"points": self.points, "weights": self.weights, "bandwidth": self.bandwidth}
        kept["at_edge"] = np.array(self.at_edge)
        return kept if self.domain is None else kept | {"domain": self.domain}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Profile:
        kept = {name: arrays[name] for name in ("points", "weights", "bandwidth")}
        return cls(**kept, domain=arrays.get("domain"), at_edge=bool(arrays["at_edge"]))


def gaussian(at: np.ndarray, values: np.ndarray, bandwidth: float) -> np.ndarray:
    """The kernel around every value at these places of one feature: (places, values)."""
    scaled = (at[:, None] - values) / bandwidth
    return np.divide(np.exp(-0.5 * scaled**2), bandwidth * np.sqrt(2 * np.pi))


def _integrals(
    edges: np.ndarray, values: np.ndarray, bandwidth: float, faces: np.ndarray | None
) -> np.ndarray:
    """The kernel around every value, and its images behind the faces, between the edges."""
    from scipy.special import ndtr

    result: np.ndarray = np.diff(ndtr((edges[:, None] - values) / bandwidth), axis=0)
    for face in () if faces is None else faces:
        near = np.flatnonzero(np.abs(values - face) < NEAR_FACE * bandwidth)
        image = 2 * face - values[near]
        result[:, near] += np.diff(ndtr((edges[:, None] - image) / bandwidth), axis=0)
    return result


def _reflect(
    exponents: np.ndarray,
    queries: np.ndarray,
    points: np.ndarray,
    bandwidth: np.ndarray,
    domain: np.ndarray,
) -> None:
    """Adds the images behind both faces of every feature: a kernel's image is the kernel times
    exp(-2 u v), u and v the distances of query and point from the face in bandwidths."""
    for k, faces in enumerate(domain):
        u = np.abs(queries[:, k] - faces[:, None]) / bandwidth[k]
        v = np.abs(points[:, k] - faces[:, None]) / bandwidth[k]
        rows, columns = (np.flatnonzero((x < NEAR_FACE).any(axis=0)) for x in (u, v))
        if len(rows) and len(columns):
            images = np.exp(-2 * u[0, rows, None] * v[0, columns])
            images += np.exp(-2 * u[1, rows, None] * v[1, columns])
            exponents[np.ix_(rows, columns)] += np.log1p(images, out=images)


def on_grid(factors: Sequence[np.ndarray], weights: np.ndarray | None = None) -> np.ndarray:
    """Σ_j w_j Π_k factors[k][i_k, j] for every cell (i_1, …, i_d), the last fastest."""
    first = factors[0] if weights is None else factors[0] * weights
    if len(factors) == 1:
        return first.sum(axis=1)
    rows = []
    for part in _parts(first, factors):
        for middle in factors[1:-1]:
            part = (part[:, None, :] * middle).reshape(-1, middle.shape[1])
        rows.append((part @ factors[-1].T).reshape(-1))
    return np.concatenate(rows)


def row_sums(factors: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
    """Σ_i values_i Π_k factors[k][i_k, j] for every row j: the adjoint of `on_grid`."""
    shape = tuple(len(a) for a in factors)
    total = np.zeros(factors[0].shape[1])
    start = 0
    for part in _parts(factors[0], factors):
        held = values.reshape(shape)[start : start + len(part)] @ factors[-1]
        for middle in reversed(factors[1:-1]):
            held = np.einsum("...mj,mj->...j", held, middle)
        total += np.einsum("mj,mj->j", held, part) if len(factors) > 1 else held
        start += len(part)
    return total


def _parts(first: np.ndarray, factors: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cells of the first feature in parts whose products fit the memory; one feature: all."""
    if len(factors) == 1:
        return [first]
    middle = int(np.prod([len(a) for a in factors[1:-1]]))
    size = max(1, MEMORY // max(middle * first.shape[1], 1))
    return [first[start : start + size] for start in range(0, len(first), size)]


def _inside(points: np.ndarray, domain: np.ndarray | None) -> np.ndarray:
    if domain is None:
        return np.ones(len(points), dtype=bool)
    return np.all((points >= domain[:, 0]) & (points <= domain[:, 1]), axis=1)


def _likeliest(
    points: np.ndarray,
    weights: np.ndarray,
    deviation: np.ndarray,
    domain: np.ndarray | None,
    seed: int,
) -> tuple[float, bool]:
    """The factor of the deviation under which rows left out are likeliest, and whether it lies at
    an edge of the search.

    Chosen on at most 5,000 rows and scaled to all by the rate n^(-1/(d+4)) of the best bandwidth.
    """
    from scipy.optimize import minimize_scalar

    n, d = points.shape
    chosen = np.random.default_rng(seed).permutation(n)[:DRAWN]
    some, own = points[chosen], weights[chosen] / weights[chosen].sum()

    def loss(log_factor: float, rows: np.ndarray) -> float:
        tried = Profile(some, own, deviation * np.exp(log_factor), domain)
        return -float(np.average(tried.leave_one_out(rows), weights=own[rows]))

    every, grid = np.arange(len(some)), np.log(TRIED)
    best = int(np.argmin([loss(s, every[:1_000]) for s in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    settings = {"bounds": ends, "method": "bounded", "options": {"xatol": 0.01}}
    found = minimize_scalar(loss, args=(every,), **settings)
    at_edge = min(found.x - grid[0], grid[-1] - found.x) < 0.05
    return float(np.exp(found.x)) * (len(some) / n) ** (1 / (d + 4)), bool(at_edge)


class RowWeights(NamedTuple):
    """Weights of operational rows, fixed before the rows are counted or not."""

    values: np.ndarray
    """By row; their expectation is 1 if fixed, their mean if not."""
    largest: float
    """What no row's weight exceeds: the range of a bounded mean."""
    fixed: bool
    """Stated beforehand; others serve the profile and never a bound."""
    effective_size: float


def class_weights(
    classes: np.ndarray, wanted: Sequence[float], *, sampled: Sequence[float] | None = None
) -> RowWeights:
    """A row of class c weighs wanted[c] / sampled[c]: its share in operation over its share in how
    rows were sampled. Without `sampled` the latter is counted, and the weights are not fixed.

    >>> class_weights(np.array([0, 0, 1]), [0.9, 0.1], sampled=[0.6, 0.4]).values.round(2).tolist()
    [1.5, 1.5, 0.25]
    """
    shares = np.asarray(wanted, dtype=np.float64)
    if (classes < 0).any() or (classes >= len(shares)).any():
        raise ValueError("a class of every row is needed, with a share each; label all rows")
    counted = np.bincount(classes, minlength=len(shares)) / len(classes)
    given = counted if sampled is None else np.asarray(sampled, dtype=np.float64)
    if any(abs(s.sum() - 1) > 1e-6 or (s < 0).any() for s in (shares, given)):
        raise ValueError("shares of classes must not be negative and must add up to 1")
    if ((given <= 0) & (shares > 0)).any():
        raise ValueError("a wanted class has no share among the sampled rows: no weight can add it")
    ratios = np.divide(shares, given, out=np.zeros(len(shares)), where=given > 0)
    if sampled is None:
        return expert_weights(ratios[classes])
    return expert_weights(ratios[classes], expected=1.0, largest=float(ratios.max()))


def expert_weights(
    factors: np.ndarray, *, expected: float | None = None, largest: float | None = None
) -> RowWeights:
    """How much likelier an expert holds each row in operation than among the rows; `expected` is
    the mean factor over all inputs and `largest` the highest possible, both stated beforehand.
    Without them the rows' own are taken and the weights are not fixed."""
    if not ((factors >= 0) & (factors < np.inf)).all() or not factors.any():
        raise ValueError("factors must be finite, not negative, and not all 0")
    mean = float(np.mean(factors)) if expected is None else expected
    top = float(np.max(factors)) if largest is None else largest
    if (factors > top).any() or mean <= 0:
        raise ValueError(f"a factor of {np.max(factors):g} exceeds the stated largest, {top:g}")
    values, fixed = factors / mean, expected is not None and largest is not None
    return RowWeights(values, top / mean, fixed, float(values.sum() ** 2 / (values**2).sum()))


class Updated(NamedTuple):
    """A profile after new operational rows."""

    profile: Profile
    changed_at: int | None
    """Old and new rows in order of time: the first row after the last change; None: no change."""


def updated(
    profile: Profile,
    rows: np.ndarray,
    cells: Grid | Centres,
    *,
    bucket: int = 50,
    alpha: float = 0.01,
    bandwidth: Rule | float = "likelihood",
) -> Updated:
    """The profile of its own and new rows, or of those after the last change of how they fall into
    cells (chosen on other rows). Rows in order of time, weights equal; the test's false alarms are
    at most `alpha` for one look."""
    every = np.concatenate([profile.points, np.asarray(rows, dtype=np.float64)])
    place = cells.cell_of(every) + 1
    buckets = np.arange(len(every)) // bucket
    counts = np.zeros((buckets[-1] + 1, max(cells.cells + 1, 2)))
    np.add.at(counts, (buckets, place), 1)
    start = since_change(counts, alpha) * bucket
    domain = None if profile.domain is None else [(low, high) for low, high in profile.domain]
    fitted = Profile.fit(every[start:], bandwidth=bandwidth, domain=domain)
    return Updated(fitted, start or None)
