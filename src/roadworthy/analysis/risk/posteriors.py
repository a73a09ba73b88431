"""What is known of a probability after counting: Beta and Dirichlet posteriors, and the spread of a cost that depends on them.

Counts of nested conditions (shifted; of these detected; of these right) have independent posteriors, so that each parameter
of a tree is drawn on its own. Shares of one node that are counted together are drawn together, or they could exceed 1.

>>> known = Beta.from_counts(successes=18, trials=20)
>>> round(known.mean, 3), round(known.variance, 5)
(0.881, 0.00477)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.finding import Sided
from roadworthy.statistics.interval import Interval

JEFFREYS = 0.5


@dataclass(frozen=True)
class Beta:
    """The posterior of one probability."""

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (0.0 < self.a < math.inf and 0.0 < self.b < math.inf):
            raise ValueError(
                f"a Beta distribution needs two positive numbers, found {self.a!r} and {self.b!r}"
            )

    @classmethod
    def from_counts(
        cls, successes: float, trials: float, *, prior: tuple[float, float] = (JEFFREYS, JEFFREYS)
    ) -> Beta:
        """After so many successes in so many trials; by default from the prior of Jeffreys."""
        if not 0 <= successes <= trials < math.inf:
            raise ValueError(
                f"expected 0 <= successes <= trials, found {successes!r} of {trials!r}"
            )
        return cls(successes + prior[0], trials - successes + prior[1])

    @property
    def mean(self) -> float:
        """The expected probability."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        """Of the probability."""
        return self.mean * (1.0 - self.mean) / (self.a + self.b + 1.0)

    def draw(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """n probabilities that the counts allow."""
        return rng.beta(self.a, self.b, n)

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values."""
        return {"a": self.a, "b": self.b}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Beta:
        """From ``{a, b}``, or from counts ``{successes, trials}``."""
        keys = set(record)
        if keys == {"a", "b"}:
            return cls(float(record["a"]), float(record["b"]))
        if keys == {"successes", "trials"}:
            return cls.from_counts(float(record["successes"]), float(record["trials"]))
        raise ValueError(
            f"a probability from counts has successes and trials (or a and b), found {sorted(map(str, keys))}"
        )


@dataclass(frozen=True)
class Dirichlet:
    """The joint posterior of shares that add up to at most 1; the last weight is that of the rest."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) < 2 or not all(0.0 < w < math.inf for w in self.weights):
            raise ValueError(f"shares need at least two positive weights, found {self.weights!r}")

    @classmethod
    def from_counts(cls, counts: tuple[float, ...], *, prior: float = JEFFREYS) -> Dirichlet:
        """After counting each share, and last the rest."""
        return cls(tuple(float(n) + prior for n in counts))

    @property
    def means(self) -> NDArray[np.float64]:
        """Of the shares, without the rest."""
        weights = np.array(self.weights)
        return weights[:-1] / weights.sum()

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Of the shares, without the rest."""
        m = self.means
        return (np.diag(m) - np.outer(m, m)) / (sum(self.weights) + 1.0)

    def draw(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """n times all shares, without the rest: (n, shares)."""
        return rng.dirichlet(self.weights, n)[:, :-1]


@dataclass(frozen=True, eq=False)
class Spread:
    """How far a cost may lie from its best guess: by the delta method, and by draws from the posteriors."""

    at_means: float
    """The cost at the means of the posteriors."""
    variance_delta: float
    """Squared slopes times variances: first order."""
    draws: NDArray[np.float64]
    """Costs at draws from the posteriors, in rising order."""
    unit: str = ""

    @property
    def mean(self) -> float:
        """Of the draws."""
        return float(self.draws.mean())

    @property
    def variance(self) -> float:
        """Of the draws."""
        return float(self.draws.var(ddof=1)) if len(self.draws) > 1 else 0.0

    def interval(self, confidence: float = 0.95, sided: Sided = "two") -> Interval:
        """Quantiles of the draws; a one-sided interval is open on the other side."""
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must lie between 0 and 1, found {confidence!r}")
        tail = (1.0 - confidence) / (2.0 if sided == "two" else 1.0)
        low, high = (float(q) for q in np.quantile(self.draws, [tail, 1.0 - tail]))
        low, high = (
            (-math.inf if sided == "upper" else low),
            (math.inf if sided == "lower" else high),
        )
        return Interval(
            low, high, float(confidence), f"posterior propagation, {len(self.draws)} draws"
        )

    def exceedance(self, tolerable: float) -> float:
        """P(cost > tolerable): the share of draws above it."""
        above = len(self.draws) - int(np.searchsorted(self.draws, tolerable, side="right"))
        return above / len(self.draws)

    def exceedance_delta(self, tolerable: float) -> float:
        """P(cost > tolerable) as a normal tail by the delta method: it does not end where the draws do."""
        if self.variance_delta == 0.0:
            return float(self.at_means > tolerable)
        return 0.5 * math.erfc((tolerable - self.at_means) / math.sqrt(2.0 * self.variance_delta))


def means_and_covariance(
    posteriors: Mapping[Any, Beta | Dirichlet | float], names: tuple[str, ...]
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """The mean of every named parameter, and their covariance in the order of the names."""
    means: dict[str, float] = {}
    covariance, at = np.zeros((len(names), len(names))), {name: i for i, name in enumerate(names)}
    for key, known in _by_group(posteriors, names).items():
        if isinstance(known, Dirichlet):
            means.update(zip(key, (float(m) for m in known.means), strict=True))
            here = [(at[name], i) for i, name in enumerate(key) if name in at]
            for row, i in here:
                for column, j in here:
                    covariance[row, column] = known.covariance[i, j]
        else:
            means[key[0]] = known.mean if isinstance(known, Beta) else float(known)
            covariance[at[key[0]], at[key[0]]] = known.variance if isinstance(known, Beta) else 0.0
    return means, covariance


def draw_parameters(
    posteriors: Mapping[Any, Beta | Dirichlet | float],
    names: tuple[str, ...],
    draws: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Arrays of draws for every named parameter; a certain one stays a number."""
    found: dict[str, Any] = {}
    for key, known in _by_group(posteriors, names).items():
        if isinstance(known, Dirichlet):
            found.update(zip(key, known.draw(rng, draws).T, strict=True))
        else:
            found[key[0]] = known.draw(rng, draws) if isinstance(known, Beta) else float(known)
    return found


def _by_group(
    posteriors: Mapping[Any, Beta | Dirichlet | float], names: tuple[str, ...]
) -> dict[tuple[str, ...], Beta | Dirichlet | float]:
    """Only what the names need, in an order that does not depend on the mapping's."""
    groups = {(k,) if isinstance(k, str) else tuple(k): v for k, v in posteriors.items()}
    for key, known in groups.items():
        shares = len(known.weights) - 1 if isinstance(known, Dirichlet) else 1
        if len(key) != shares:
            raise ValueError(
                f"{', '.join(key)}: expected a Dirichlet of {len(key) + 1} weights, the last for the rest, "
                f"or for one name a Beta or a number; found {known!r}"
            )
    twice = [n for n in names if sum(n in key for key in groups) > 1]
    if twice:
        raise ValueError(f"{', '.join(twice)}: given more than once; one posterior a parameter")
    return {key: groups[key] for key in sorted(groups) if set(key) & set(names)}
