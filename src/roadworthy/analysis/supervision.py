"""How well a supervisor tells failures from successes, and shifted cases from clean ones: AUC-ROC with its interval.

The same sample stands among the clean and the shifted cases, so shift is judged with samples (or groups) as clusters. A case
that gave no answer has no score; it is counted against the supervisor, as if it had scored the wrong way: silence never helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.finding import About, Evidence, Finding
from roadworthy.statistics import Interval, auc, delong


def detects_failure(observed: Observed, supervisor: str) -> Evidence:
    """AUC-ROC of a supervisor's score for the failures under one condition."""
    about = replace(observed.about, supervisor=supervisor)
    return _area("auc_failure", about, observed.scores[supervisor], observed.failure, observed.groups, "failures")


def detects_shift(here: Observed, clean: Observed, supervisor: str) -> Evidence:
    """AUC-ROC of a supervisor's score for being shifted at all."""
    about = replace(here.about, supervisor=supervisor, versus=here.versus)
    scores = np.concatenate([here.scores[supervisor], clean.scores[supervisor]])
    shifted = np.r_[np.ones(len(here), bool), np.zeros(len(clean), bool)]
    groups = np.concatenate([here.clusters, clean.clusters])
    return _area("auc_shift", about, scores, shifted, groups, "shifted cases")


def findings(
    clean: Observed, others: Sequence[Observed], references: Sequence[Observed], *, confidence: float
) -> list[Finding]:
    """Both areas for every supervisor and condition."""
    found: list[Evidence] = []
    for supervisor in clean.scores:
        found.extend(detects_failure(o, supervisor) for o in (clean, *others))
        found.extend(detects_shift(o, r, supervisor) for o, r in zip(others, references, strict=True))
    return [_finding(e, confidence) for e in found]


def _finding(evidence: Evidence, confidence: float) -> Finding:
    interval = None if evidence.reason else evidence.interval(confidence, "two")
    return Finding(
        evidence.quantity,
        evidence.value,
        interval,
        evidence.n,
        about=evidence.about,
        reason=evidence.reason,
        assumptions=("cases that gave no answer have no score and count against the supervisor",),
    )


def _area(
    quantity: str, about: About, scores: np.ndarray, positive: np.ndarray, groups: np.ndarray | None, what: str
) -> Evidence:
    # Rank-based, so an infinite score is merely the riskiest or the safest.
    scores = np.where(np.isnan(scores), np.where(positive, -np.inf, np.inf), scores)
    scores = np.clip(scores, -np.finfo(float).max, np.finfo(float).max)
    n, positives = len(scores), int(positive.sum())
    if positives == 0 or positives == n:
        reason = f"all {n} cases are {what}" if n and positives else f"there are no {what} among the {n} cases"
        return Evidence(quantity, about, float("nan"), n, "higher", _nothing, proportion=False, reason=reason)

    def interval(confidence: float, sided: Any) -> Interval:
        return delong(scores, positive, groups, confidence=confidence, sided=sided)

    return Evidence(quantity, about, auc(scores, positive), n, "higher", interval, proportion=False)


def _nothing(confidence: float, sided: Any) -> Interval:
    return Interval(0.0, 1.0, confidence, "nothing observed")
