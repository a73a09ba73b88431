"""Supervisors that read several passes: of Monte-Carlo dropout (Gal and Ghahramani 2016), or of the members of an ensemble
(Lakshminarayanan et al. 2017); Weiss et al. 2022, section VII-B.

Each is a pure function of the summary of the passes. Weiss et al. make 100 passes, Wang et al. 2022 makes 10 and puts dropout of
0.1 into a model that has none (`rate`). Each member of an ensemble is one pass. The predictive entropy doubts where passes doubt or
disagree; the mutual information only where they disagree; the mean softmax of members is what `max_softmax` reads from the
ensemble's own answer.

>>> summary = Summary.of([np.array([[0.9, 0.1]]), np.array([[0.3, 0.7]])])
>>> measures = (variation_ratio, mutual_information, predictive_entropy, mean_softmax)
>>> [round(float(measure(summary)[0]), 4) for measure in measures]
[0.5, 0.205, 0.673, 0.4]
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from roadworthy.data.probabilities import entropies
from roadworthy.registry import register
from roadworthy.subject.needs import Output, Passes, Request
from roadworthy.subject.passes import Summary
from roadworthy.supervisors.plain import PlainSupervisor
from roadworthy.supervisors.softmax import max_softmax


def variation_ratio(summary: Summary) -> np.ndarray:
    """One minus the share of the passes that vote for the class most of them vote for."""
    shares: np.ndarray = summary.votes.max(axis=1) / summary.votes.sum(axis=1)
    return 1.0 - shares


def predictive_entropy(summary: Summary) -> np.ndarray:
    """The entropy of the mean probabilities, in nats."""
    return entropies(summary.mean_probability)


def mutual_information(summary: Summary) -> np.ndarray:
    """The entropy of the mean less the mean of the entropies: what the passes do not agree on. Rounding never makes it negative."""
    return np.maximum(predictive_entropy(summary) - summary.mean_entropy, 0.0)


def mean_softmax(summary: Summary) -> np.ndarray:
    """One minus the highest mean probability."""
    return max_softmax(summary.mean_probability)


class FromPasses(PlainSupervisor):
    """A supervisor that is a pure function (`quantify`) of the summary of the passes that it asks for."""

    def __init__(self, request: Passes) -> None:
        self.needs: tuple[Request, ...] = (Output(), request)

    @staticmethod
    @abstractmethod
    def quantify(summary: Summary) -> np.ndarray:
        """One number a row; higher is riskier."""

    def risk(self, scores: np.ndarray, packed: np.ndarray) -> np.ndarray:
        """From the summary of each row."""
        return type(self).quantify(Summary.unpack(packed))


class _MonteCarloDropout(FromPasses):
    def __init__(self, *, n: int = 100, rate: float | None = None) -> None:
        if n < 1:
            raise ValueError(
                f"n is {n}; one pass at least is needed, and some ten of them to say anything"
            )
        if rate is not None and not 0 < rate < 1:
            raise ValueError(f"rate is {rate}; a share between 0 and 1 was expected, such as 0.1")
        super().__init__(Passes("dropout", n, rate))
        self.n, self.rate = n, rate


@register("supervisors", "mc_dropout_vr")
class DropoutVariationRatio(_MonteCarloDropout):
    """Share of dropout passes that do not vote for the modal class."""

    quantify = staticmethod(variation_ratio)


@register("supervisors", "mc_dropout_mi")
class DropoutMutualInformation(_MonteCarloDropout):
    """Mutual information of class and dropout mask: entropy of the mean less the mean entropy."""

    quantify = staticmethod(mutual_information)


@register("supervisors", "mc_dropout_pe")
class DropoutPredictiveEntropy(_MonteCarloDropout):
    """Entropy of the mean probabilities over dropout passes."""

    quantify = staticmethod(predictive_entropy)


@register("supervisors", "mc_dropout_ms")
class DropoutMeanSoftmax(_MonteCarloDropout):
    """1 - highest mean probability over dropout passes."""

    quantify = staticmethod(mean_softmax)


MEMBERS = Passes("ensemble", 0)
"""One pass a member, however many there are."""


class _FromMembers(FromPasses):
    def __init__(self) -> None:
        super().__init__(MEMBERS)


@register("supervisors", "ensemble_mi")
class EnsembleMutualInformation(_FromMembers):
    """Mutual information of class and member: entropy of the mean less the members' mean entropy."""

    quantify = staticmethod(mutual_information)


@register("supervisors", "ensemble_pe")
class EnsemblePredictiveEntropy(_FromMembers):
    """Entropy of the members' mean probabilities."""

    quantify = staticmethod(predictive_entropy)


@register("supervisors", "ensemble_ms")
class EnsembleMeanSoftmax(_FromMembers):
    """1 - highest mean probability over the members."""

    quantify = staticmethod(mean_softmax)
