"""Supervisors that read the members of an ensemble (Lakshminarayanan et al. 2017; Weiss et al. 2022, section VII-B).

Each member is one pass, and the formulas are those of Monte-Carlo dropout (`passes`). The predictive entropy doubts where the
members doubt or disagree; the mutual information only where they disagree; the mean softmax is what `max_softmax` reads from
the ensemble's own answer, so that both are the same score wherever the answer is the mean of the members.

>>> import numpy as np
>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.passes import Summary
>>> from roadworthy.subject.trace import ModuleTrace
>>> alike, apart = [[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]
>>> summary = Summary.of([np.array(alike), np.array(apart)])
>>> n, columns = np.arange(2), {MEMBERS.column: summary.pack()}
>>> rows = ModuleTrace(n, n, np.array([None, None]), n, CLASS_SCORES, summary.mean_probability, columns)
>>> [s.score(rows).round(4).tolist() for s in (EnsembleMutualInformation(), EnsemblePredictiveEntropy())]
[[0.0, 0.6931], [0.6931, 0.6931]]
"""

from __future__ import annotations

from roadworthy.registry import register
from roadworthy.subject.needs import Passes
from roadworthy.supervisors.passes import (
    FromPasses,
    mean_softmax,
    mutual_information,
    predictive_entropy,
)

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
