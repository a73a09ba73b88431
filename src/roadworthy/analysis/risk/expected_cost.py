"""The expected cost of a system as assessed: event tree, counts on test cases, stated rates.

Cases are counted in four cells (right or wrong, with or without an alarm), clean and under each
circumstance; circumstances exclude each other, and their probabilities are given. From the cells
follow the tree's parameters, from these the cost. Its bounds carry the uncertainty of the counts
through the tree: cells are drawn from Dirichlet posteriors. For the upper bound one row that was
not seen is added to the cell that raises the cost most, for the lower one to that which lowers it
most; for one such cell this is the bound of Clopper and Pearson, for several outcomes that of
Gaffke (2005). If cases belong together (the same sample under many circumstances, the groups of the
data) the counts are worth less, by the ratio of the variances with and without clusters, as in
`roadworthy.statistics.rates`.

>>> from roadworthy.analysis.risk.prototypes import Costs, base_tree
>>> clean = CountedCases("clean", 0.8, wrong=np.arange(100) < 10)
>>> fog = CountedCases("fog", 0.2, wrong=np.arange(50) < 30)
>>> found = assess_risk(base_tree(Costs(wrong=100.0), unit="EUR per case"), clean, [fog])
>>> round(found.value, 3), found.values["accuracy_shifted"]
(20.0, 0.4)
>>> round(found.interval(0.95, "upper").high, 1)
25.7
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.statistics.arguments import group_codes, tail_probability
from roadworthy.statistics.clusters import discounted_size, group_sums, grouped_freedom
from roadworthy.statistics.interval import Interval

from .loss_bins import outcome_classes, score_classes
from .prototypes import Constant, known_probability, live_parameters, refuse_live_constants
from .tree import LIVE_PARAMETERS, Tree, derivatives, evaluate, expectation, worth

Floats = NDArray[np.float64]
DRAWS = 20_000
QUANTITY = "risk"
STEP = 1e-6
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
    notes: tuple[str, ...] = field(default=())

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
        outcomes = evaluate(tree, values).by_outcome().items()
        by_score = score_classes(tree, values, self.kinds, loss_bins)
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
            "outcomes": {name: {"probability": p, "adds": part} for name, (p, part) in outcomes},
            "loss_bins": [c.to_dict() for c in outcome_classes(tree, values, loss_bins)],
            "loss_by_score": [c.to_dict() for c in by_score],
            "kinds": [
                {"name": k.name, "probability": k.probability, "n": len(k.wrong)}
                for k in self.kinds
            ],
            "notes": list(self.notes),
        }

    def slopes(self) -> dict[str, float | None]:
        """What one more point (0.01) of each parameter adds to the cost; None if unknown."""
        found = derivatives(self.tree, self._at_the_margin)
        slopes: dict[str, float | None] = {n: 0.01 * float(slope) for n, slope in found.items()}
        if "p_shift" in slopes and _lacks_shift(self.tree, self.kinds):
            slopes["p_shift"] = None
        return slopes

    def _worth(self) -> dict[str, Any] | None:
        """What a point of the detector and one of the classifier save (figure 12), if both exist."""
        live = [name for name in LIVE_PARAMETERS if name in self.tree.parameters]
        detector = [name for name in live if name in ("tpr", "tnr")]
        classifier = [name for name in live if name.startswith("accuracy_")]
        if not (detector and classifier):
            return None
        first, second = worth(self.tree, self._at_the_margin, detector, classifier)
        return {
            "detector": detector,
            "classifier": classifier,
            "saved_by_detector": first,
            "saved_by_classifier": second,
            # A ratio of what saves to what adds would read as if both saved.
            "points": first / second if min(first, second) > 0.0 else None,
        }

    @cached_property
    def _at_the_margin(self) -> dict[str, float]:
        """The parameters for derivatives: a condition without cases has the usual accuracy.

        The cost is the same, since there are none; its derivative is not.
        """
        usual = self._parameters(self._shares)
        unseen = _unseen(self.tree, self.kinds)
        return self.values | {f"accuracy_{k}_{v}": float(usual[f"accuracy_{k}"]) for k, v in unseen}

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
    refuse_live_constants(given, but=("p_shift",))
    total = math.fsum(k.probability for k in shifted)
    if total > 1.0 + 1e-9:
        raise ValueError(
            f"circumstances exclude each other, and their probabilities add up to {total:.6g}; "
            "at most 1"
        )
    empty = [k.name for k in kinds if not len(k.wrong)]
    if empty:
        raise ValueError(f"there are no cases of {', '.join(empty)} to count")
    unknown = [name for name in tree.parameters if _of_shift(name) and name not in given]
    if unknown and not shifted and np.any(given.get("p_shift", 0.0)):
        raise ValueError(
            f"no circumstance measures {', '.join(unknown)}; add circumstances with a probability"
        )
    found = AssessedRisk(tree, kinds, given, seed, tuple(_notes(tree, kinds)))
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


def _unseen(tree: Tree, kinds: Sequence[CountedCases]) -> list[tuple[str, str]]:
    """Conditions of the tree without a case that counts: clean or shifted, and the verdict."""
    mixed = zip(("clean", "shifted"), _mixed(kinds, [k.counts for k in kinds]), strict=True)
    return [
        (word, verdict)
        for word, share in mixed
        for verdict, cells in (("detected", share[1::2]), ("undetected", share[::2]))
        if not cells.any() and f"accuracy_{word}_{verdict}" in tree.parameters
    ]


def _lacks_shift(tree: Tree, kinds: Sequence[CountedCases]) -> bool:
    """Whether the tree asks for shifted cases, and there are none."""
    return len(kinds) == 1 and any(map(_of_shift, tree.parameters))


def _notes(tree: Tree, kinds: Sequence[CountedCases]) -> list[str]:
    """Which conditions of the tree no case was in."""
    lacking = _lacks_shift(tree, kinds)
    notes = ["no case was shifted: the cost of a point of p_shift is unknown"] if lacking else []
    return notes + [
        f"no case was {word} and {verdict}: its probability is taken as zero"
        for word, verdict in _unseen(tree, kinds)
        if not (lacking and word == "shifted")
    ]
