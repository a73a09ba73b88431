"""The expected cost of a system as assessed: event tree, counts on test cases, stated rates.

Cases are counted in four cells (right or wrong, with or without an alarm), clean and under each
circumstance; circumstances exclude each other, and their probabilities are given. From the cells
follow the tree's parameters, from these the cost. Bounds carry the uncertainty of the counts through
the tree: cells are drawn from Dirichlet posteriors, and for the upper (lower) bound one row that was
not seen is added to the cell that raises (lowers) the cost most. For one such cell this is the bound
of Clopper and Pearson, for several outcomes that of Gaffke (2005). If cases belong together, counts
are worth less, by the ratio of the variances with and without clusters.

Classes of loss are outcomes by their cost, and cases by the loss that their score lets expect: cells
of the score with similar mean loss make a bin, and the bin costs the mean loss of its rows
(Torpmann-Hagen et al. 2025, section 6, leave this as future work). The classes of either table cost
together what the tree does.

>>> from roadworthy.analysis.risk.prototypes import Costs, base_tree
>>> clean = CountedCases("clean", 0.8, wrong=np.arange(100) < 10)
>>> fog = CountedCases("fog", 0.2, wrong=np.arange(50) < 30)
>>> found = assess_risk(base_tree(Costs(wrong=100.0), unit="EUR per case"), clean, [fog])
>>> round(found.value, 3), found.values["accuracy_shifted"]
(20.0, 0.4)
>>> round(found.interval(0.95, "upper").high, 1)
25.7
>>> [(c.low, round(c.probability, 2)) for c in outcome_classes(found.tree, found.values)]
[(0.0, 0.8), (100.0, 0.2)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.statistics.arguments import group_codes, tail_probability
from roadworthy.statistics.clusters import discounted_size, group_sums, grouped_freedom
from roadworthy.statistics.interval import Interval

from .prototypes import Constant, known_probability, live_parameters
from .tree import LIVE_PARAMETERS, Tree, derivatives, evaluate, expectation, worth

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DRAWS = 20_000
QUANTITY = "risk"
STEP = 1e-6
BINS = 5
"""Classes at most, if no edges are given."""
MOST_CELLS, LEAST_CASES = 20, 30
"""Score cells that cases fall into, and cases of each: fewer say little about their loss."""
ASSUMED = (
    "circumstances exclude each other and occur as often as the file says; levels of one are "
    "equally frequent"
)


@dataclass(frozen=True, eq=False)
class CountedCases:
    """Test cases of one kind of shift, or clean ones."""

    name: str
    probability: float
    """Of the kind, in use."""
    wrong: NDArray[np.bool_]
    alarm: NDArray[np.bool_] | None = None
    clusters: ArrayLike | None = None
    """Which cases belong together."""
    score: NDArray[np.float64] | None = None
    """Of a supervisor; higher is riskier."""

    @cached_property
    def cell(self) -> NDArray[np.int64]:
        """By case: 0 right, 1 right with an alarm, 2 wrong, 3 wrong with an alarm."""
        alarm = np.zeros(len(self.wrong), bool) if self.alarm is None else self.alarm
        return 2 * self.wrong.astype(np.int64) + alarm.astype(np.int64)

    @cached_property
    def counts(self) -> Floats:
        """Cases in each cell."""
        return np.bincount(self.cell, minlength=4).astype(np.float64)

    @cached_property
    def names(self) -> NDArray[Any]:
        """The cluster of each case; without clusters, one of its own."""
        if self.clusters is None:
            return np.array([f"{self.name}:{i}" for i in range(len(self.wrong))], dtype=object)
        return np.asarray(self.clusters).astype(str).astype(object)


@dataclass(frozen=True, eq=False)
class AssessedRisk:
    """The expected cost, what it rests on, and its bounds."""

    tree: Tree
    kinds: tuple[CountedCases, ...]
    """Clean first."""
    constants: Mapping[str, Constant]
    seed: int = 0

    @cached_property
    def values(self) -> dict[str, float]:
        """The tree's parameters as measured."""
        found = self._parameters(self._shares) | self._given
        return {name: float(found[name]) for name in self.tree.parameters}

    @cached_property
    def value(self) -> float:
        """The expected cost at these parameters."""
        return float(expectation(self.tree, self.values))

    @property
    def n(self) -> int:
        """Cases under it."""
        return sum(len(k.wrong) for k in self.kinds)

    @property
    def design_effect(self) -> float:
        """The variance of the cost relative to that of independent cases; 1 or more."""
        return self._design[0]

    def interval(self, confidence: float = 0.95, sided: Sided = "two") -> Interval:
        """Bounds by posterior propagation, pessimistic on both sides."""
        tail = tail_probability(confidence, sided)
        low, high = -math.inf, math.inf
        if sided != "upper":
            low = float(np.quantile(self._drawn(tail, highest=False), tail))
        if sided != "lower":
            high = float(np.quantile(self._drawn(tail, highest=True), 1.0 - tail))
        effect = self.design_effect
        clustered = f", counts worth 1/{effect:.3g}" if effect > 1.0005 else ""
        method = f"posterior propagation through the event tree, {DRAWS} draws{clustered}"
        return Interval(min(low, self.value), max(high, self.value), float(confidence), method)

    def exceedance(self, tolerable: float) -> float:
        """The probability that the expected cost is above the tolerable one, pessimistically."""
        return float((self._drawn(0.05, highest=True) > tolerable).mean())

    def evidence(self) -> Evidence:
        """For a claim."""
        return Evidence(
            QUANTITY,
            About(),
            self.value,
            self.n,
            "lower",
            self.interval,
            effective_n=self.n / self.design_effect,
            proportion=False,
            # Constants that are known from counts are no surer for more cases.
            by_cases=not any(np.ndim(self.constants.get(n, 0.0)) for n in self.tree.parameters),
        )

    def finding(self, confidence: float) -> Finding:
        """For the run."""
        return Finding(
            QUANTITY,
            self.value,
            self.interval(confidence),
            self.n,
            effective_n=self.n / self.design_effect,
            better="lower",
            assumptions=(ASSUMED, *self.notes),
            details={"unit": self.tree.unit},
        )

    def to_dict(
        self, confidence: float, tolerable: float | None = None, *, loss_bins: Sequence[float] = ()
    ) -> dict[str, Any]:
        """For the run's record; `loss_bins` are the edges between classes of loss."""
        tree, values = self.tree, self.values
        outcomes: dict[str, dict[str, float]] = {}
        for leaf in evaluate(tree, values).leaves:
            found = outcomes.setdefault(leaf.outcome, {"probability": 0.0, "adds": 0.0})
            found["probability"] += leaf.probability
            found["adds"] += leaf.contribution
        return {
            "unit": tree.unit,
            "tree": tree.to_dict(),
            "parameters": values,
            "slopes": self.slopes(),
            "worth": self._worth(),
            "value": self.value,
            "interval": self.interval(confidence).to_dict(),
            "tolerable": tolerable,
            "exceedance": None if tolerable is None else self.exceedance(tolerable),
            "outcomes": outcomes,
            "loss_bins": [vars(c) for c in outcome_classes(tree, values, loss_bins)],
            "loss_by_score": [vars(c) for c in score_classes(tree, values, self.kinds, loss_bins)],
            "kinds": [
                {"name": k.name, "probability": k.probability, "n": len(k.wrong)}
                for k in self.kinds
            ],
            "notes": list(self.notes),
        }

    def slopes(self) -> dict[str, float | None]:
        """What one more point (0.01) of each parameter adds to the cost; None if unknown."""
        found = derivatives(self.tree, self.values)
        slopes: dict[str, float | None] = {n: 0.01 * float(slope) for n, slope in found.items()}
        if "p_shift" in slopes and self._lacks_shift:
            slopes["p_shift"] = None
        return slopes

    @property
    def notes(self) -> tuple[str, ...]:
        """Which conditions of the tree no case was in."""
        lacking, notes = self._lacks_shift, list[str]()
        if lacking:
            notes.append("no case was shifted: the cost of a point of p_shift is unknown")
        mixed = _mixed(self.kinds, [k.counts for k in self.kinds])[: 1 if lacking else 2]
        for word, share in zip(("clean", "shifted"), mixed, strict=False):
            for verdict, cells in (("detected", share[1::2]), ("undetected", share[::2])):
                if not cells.any() and f"accuracy_{word}_{verdict}" in self.tree.parameters:
                    what = f"no case was {word} and {verdict}"
                    notes.append(f"{what}: its probability is taken as zero")
        return tuple(notes)

    @property
    def _lacks_shift(self) -> bool:
        """Whether the tree asks for shifted cases, and there are none."""
        return len(self.kinds) == 1 and any(map(_of_shift, self.tree.parameters))

    def _worth(self) -> dict[str, Any] | None:
        """What a point of the detector and one of the classifier save (figure 12), if both exist."""
        live = [name for name in LIVE_PARAMETERS if name in self.tree.parameters]
        detector = [name for name in live if name in ("tpr", "tnr")]
        classifier = [name for name in live if name.startswith("accuracy_")]
        if not (detector and classifier):
            return None
        first, second = worth(self.tree, self.values, detector, classifier)
        return {
            "detector": detector,
            "classifier": classifier,
            "saved_by_detector": first,
            "saved_by_classifier": second,
            # A ratio of what saves to what adds would read as if both saved.
            "points": first / second if min(first, second) > 0.0 else None,
        }

    @cached_property
    def _shares(self) -> list[Floats]:
        return [k.counts / max(len(k.wrong), 1) for k in self.kinds]

    def _parameters(self, shares: Sequence[Floats]) -> dict[str, Any]:
        """Every live parameter, from the shares of the four cells (..., 4) of each kind."""
        rate = min(sum(k.probability for k in self.kinds[1:]), 1.0)
        tables = (part.reshape(*part.shape[:-1], 2, 2) for part in _mixed(self.kinds, shares))
        found = {k: np.clip(v, 0.0, 1.0) for k, v in live_parameters(*tables).items()}
        return {"p_shift": rate, **found}

    def _cost(self, shares: Sequence[Floats], **drawn: Floats) -> Any:
        return expectation(self.tree, {**self._parameters(shares), **self._given, **drawn})

    @cached_property
    def _given(self) -> dict[str, float]:
        return {name: known_probability(name, value) for name, value in self.constants.items()}

    @cached_property
    def _influence(self) -> list[Floats]:
        """By kind: how far the cost moves per unit of weight shifted to each cell."""
        base, found = self._cost(self._shares), []
        for i, share in enumerate(self._shares):
            shares = [np.broadcast_to(s, (4, 4)) for s in self._shares]
            shares[i] = share + STEP * (np.eye(4) - share)
            found.append((np.broadcast_to(self._cost(shares), (4,)) - base) / STEP)
        return found

    @cached_property
    def _design(self) -> tuple[float, float, int]:
        """The design effect, the degrees of freedom with which it is known, and the clusters."""
        codes, count = group_codes(np.concatenate([k.names for k in self.kinds]), self.n)
        if count == len(codes):
            return 1.0, math.inf, count
        triples = list(zip(self.kinds, self._shares, self._influence, strict=True))
        per_row = [g[k.cell] / len(k.wrong) for k, _, g in triples]
        moves = group_sums(np.concatenate(per_row), codes, count)
        alone = math.fsum(float(s @ g**2) / len(k.wrong) for k, s, g in triples)
        if alone <= 0.0 or count < 2:
            return self.n / count, math.inf, count
        effect = max(float(np.square(moves).sum()) * count / (count - 1) / alone, 1.0)
        return effect, grouped_freedom(moves, np.bincount(codes).astype(np.float64)), count

    def _drawn(self, tail: float, *, highest: bool) -> Floats:
        """Costs at draws of the cells; a row that was not seen raises (or lowers) the cost most."""
        effect, freedom, clusters = self._design
        # Whatever the dependence, a cluster is worth a row: the discount must not say less.
        size = max(
            discounted_size(1.0 / effect, freedom, tail), min(1.0 / effect, clusters / self.n)
        )
        rng, shares = np.random.default_rng(self.seed), []
        for kind, slopes in zip(self.kinds, self._influence, strict=True):
            weights = kind.counts * size
            weights[int(np.argmax(slopes) if highest else np.argmin(slopes))] += 1.0
            drawn = rng.standard_gamma(weights, (DRAWS, 4))
            shares.append(drawn / drawn.sum(axis=1, keepdims=True))
        constants = {
            name: rng.beta(known[0] + 0.5, known[1] - known[0] + 0.5, DRAWS)
            for name, known in sorted(self.constants.items())
            if isinstance(known, tuple)
        }
        return np.broadcast_to(self._cost(shares, **constants), (DRAWS,))


def assess_risk(
    tree: Tree,
    clean: CountedCases,
    shifted: Sequence[CountedCases],
    *,
    constants: Mapping[str, Constant] | None = None,
    seed: int = 0,
) -> AssessedRisk:
    """The expected cost of a tree whose live parameters are counted on these rows.

    Other parameters are `constants`. The rate of shift may be among them, as ``p_shift``: it then
    takes the place of the sum of probabilities.
    """
    kinds, given = (clean, *shifted), dict(constants or {})
    if empty := [k.name for k in kinds if not len(k.wrong)]:
        raise ValueError(f"there are no cases of {', '.join(empty)} to count")
    unknown = [name for name in tree.parameters if _of_shift(name) and name not in given]
    if unknown and not shifted and np.any(given.get("p_shift", 0.0)):
        raise ValueError(
            f"no circumstance measures {', '.join(unknown)}; add circumstances with a probability"
        )
    found = AssessedRisk(tree, kinds, given, seed)
    _ = found.value  # refuses a parameter that neither cases nor constants give
    return found


def _of_shift(name: str) -> bool:
    return name == "tpr" or name.startswith("accuracy_shifted")


def _mixed(kinds: Sequence[CountedCases], shares: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Shares of the cells among clean and shifted cases, circumstances as often as they occur."""
    weights = [k.probability for k in kinds[1:]]
    rate, even = min(sum(weights), 1.0), 1.0 / max(len(weights), 1)
    parts = [s * (w / rate if rate else even) for w, s in zip(weights, shares[1:], strict=True)]
    return shares[0], sum(parts, start=np.zeros_like(shares[0]))


@dataclass(frozen=True)
class LossClass:
    """Cases whose expected loss lies in a range; an end that is open is infinite."""

    low: float
    high: float
    probability: float
    expected_loss: float
    adds: float
    """To the expected cost."""
    leaves: tuple[Mapping[str, Any], ...] = ()
    """For classes of outcomes: path and outcome of those that end here."""
    wrong: float | None = None
    """For classes of scores: the share of wrong answers."""


def loss_bins(
    cell: Ints, loss: Floats, weight: Floats, edges: Sequence[float]
) -> tuple[Ints, list[LossClass]]:
    """The bin of each cell, and what is in the bins, lowest loss first.

    Rows have a cell (0, 1, …, none empty), a loss and a weight. Bins lie between rising `edges`, or
    hold about as many rows each.
    """
    # Cells that expect the same loss stay together: they share a level.
    levels, level_of = np.unique(_means(cell, loss, weight), return_inverse=True)
    places = np.searchsorted(edges, levels, side="right")
    if not len(edges):
        each = np.bincount(level_of, weights=np.bincount(cell, weights=weight))
        middle = (np.cumsum(each) - each / 2) / each.sum()
        even = np.minimum((middle * BINS).astype(np.int64), BINS - 1)
        places = even if len(levels) > BINS else np.arange(len(levels))
    taken, bin_of_level = np.unique(places, return_inverse=True)
    bin_of_cell = bin_of_level[level_of].astype(np.int64)
    costs = _means(bin_of_cell[cell], loss, weight).tolist()
    shares = (np.bincount(bin_of_cell[cell], weights=weight) / weight.sum()).tolist()
    ends, classes = [-math.inf, *map(float, edges), math.inf], []
    for place, share, cost in zip(taken, shares, costs, strict=True):
        own = levels[places == place]
        low, high = ends[place : place + 2] if len(edges) else (float(own.min()), float(own.max()))
        classes.append(LossClass(low, high, share, cost, share * cost))
    return bin_of_cell, classes


def _means(place: Ints, loss: Floats, weight: Floats) -> Floats:
    """The mean loss of each place; if its rows all weigh nothing, as if they weighed alike."""
    weight = np.where(np.bincount(place, weights=weight)[place] > 0.0, weight, 1.0)
    means = np.bincount(place, weights=loss * weight) / np.bincount(place, weights=weight)
    # Rows of equal loss have that mean to the last digit: cells are told apart by their means.
    least, most = np.full(len(means), np.inf), np.full(len(means), -np.inf)
    np.minimum.at(least, place, loss)
    np.maximum.at(most, place, loss)
    return np.clip(means, least, most)


def outcome_classes(
    tree: Tree, parameters: Mapping[str, float], edges: Sequence[float] = ()
) -> list[LossClass]:
    """The leaves of a tree by their cost, in classes between edges, or in five at most."""
    leaves = evaluate(tree, parameters).leaves
    weights, costs = (
        np.array([getattr(leaf, name) for leaf in leaves]) for name in ("probability", "cost")
    )
    bin_of_cell, classes = loss_bins(np.arange(len(leaves)), costs, weights, edges)
    ends: list[list[Mapping[str, Any]]] = [[] for _ in classes]
    for leaf, place in zip(leaves, bin_of_cell, strict=True):
        ends[place].append({"path": list(leaf.path), "outcome": leaf.outcome})
    return [replace(c, leaves=tuple(end)) for c, end in zip(classes, ends, strict=True)]


def score_classes(
    tree: Tree,
    parameters: Mapping[str, float],
    kinds: Sequence[CountedCases],
    edges: Sequence[float] = (),
) -> list[LossClass]:
    """Test cases by the loss that their score lets expect; none if scores or cases are too few.

    `kinds` are clean cases and those of each circumstance. There are no classes either if cases,
    weighted by how often their circumstance occurs, do not cost what the tree expects.
    """
    scores = [k.score for k in kinds if k.score is not None]
    if len(scores) < len(kinds):
        return []
    score, wrong = np.concatenate(scores), np.concatenate([k.wrong for k in kinds])
    weight = np.repeat(
        [k.probability / max(len(k.wrong), 1) for k in kinds], [len(k.wrong) for k in kinds]
    )
    loss = np.concatenate(
        [_costs(tree, parameters, shifted=at > 0)[kind.cell] for at, kind in enumerate(kinds)]
    )
    expected = float(expectation(tree, parameters))
    whole = math.isclose(float(weight @ loss), expected, rel_tol=1e-6, abs_tol=1e-12)
    count, known = min(MOST_CELLS, len(score) // LEAST_CASES), np.isfinite(score)
    if not whole or count < 2 or not weight.sum() > 0.0:
        return []
    # Cells of about as many cases each; cases without a score have one of their own.
    inner = np.quantile(score[known], np.arange(1, count) / count) if known.any() else np.zeros(0)
    cells = np.where(known, np.searchsorted(inner, score, side="right"), count)
    cells = np.unique(cells, return_inverse=True)[1]
    bin_of_cell, classes = loss_bins(cells, loss, weight, edges)
    failed = _means(bin_of_cell[cells], wrong.astype(np.float64), weight).tolist()
    return [replace(c, wrong=share) for c, share in zip(classes, failed, strict=True)]


def _costs(tree: Tree, parameters: Mapping[str, float], *, shifted: bool) -> Floats:
    """What a case costs by its cell (`CountedCases.cell`): live probabilities are then 0 or 1."""
    alarm, right = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    decided = {
        **dict.fromkeys(LIVE_PARAMETERS, right),
        "p_shift": np.full(4, float(shifted)),
        "tpr": alarm,
        "tnr": 1.0 - alarm,
    }
    given = {name: decided.get(name, value) for name, value in parameters.items()}
    return np.broadcast_to(np.asarray(expectation(tree, given), dtype=np.float64), (4,))
