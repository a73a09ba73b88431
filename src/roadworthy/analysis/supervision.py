"""How well a supervisor tells failures from successes, and shifted cases from clean ones: AUC-ROC, AUPR and FPR@95TPR.

Each with its interval. The same sample stands among the clean and the shifted cases, so shift is judged with samples (or
groups) as clusters. A case that gave no answer has no score; it is counted against the supervisor, as if it had scored the
wrong way: silence never helps. Only ranks matter, so an infinite score is merely the riskiest or the safest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.finding import About, Evidence, Finding
from roadworthy.statistics import (
    Interval,
    auc,
    average_precision,
    average_precision_interval,
    cases_to_settle_area,
    delong,
    fpr_at_tpr,
    fpr_at_tpr_interval,
)
from roadworthy.statistics.arguments import group_codes


class _Curve(NamedTuple):
    """One reading of a ranking: its value, its interval, and which way it is better."""

    value: Callable[..., float]
    interval: Callable[..., Interval]
    better: str


CURVES = {
    "auc": _Curve(auc, delong, "higher"),
    "aupr": _Curve(average_precision, average_precision_interval, "higher"),
    "fpr95": _Curve(fpr_at_tpr, fpr_at_tpr_interval, "lower"),
}
FAILURE = tuple(f"{curve}_failure" for curve in CURVES)
SHIFT = tuple(f"{curve}_shift" for curve in CURVES)
QUANTITIES = (*FAILURE, *SHIFT)


@dataclass(frozen=True)
class _Marked:
    """Cases of which some are to be found, made once for all supervisors."""

    positive: np.ndarray
    groups: np.ndarray | None
    what: str
    designed: bool
    """Whether the share of positives was chosen, not observed."""


def detects_failure(observed: Observed, supervisor: str, quantity: str = "auc_failure") -> Evidence:
    """How well a supervisor's score finds the failures under one condition."""
    return _failure(observed, supervisor, quantity, _failures(observed))


def detects_shift(
    here: Observed, clean: Observed, supervisor: str, quantity: str = "auc_shift"
) -> Evidence:
    """How well a supervisor's score finds what is shifted at all."""
    return _shift(here, clean, supervisor, quantity, _shifted(here, clean))


def ranking_findings(
    clean: Observed,
    others: Sequence[Observed],
    references: Sequence[Observed],
    *,
    confidence: float,
) -> list[Finding]:
    """Every reading for every supervisor and condition."""
    places = [(o, _failures(o)) for o in (clean, *others)]
    pairs = [(o, r, _shifted(o, r)) for o, r in zip(others, references, strict=True)]
    found: list[Evidence] = []
    for supervisor in clean.scores:
        found.extend(_failure(o, supervisor, q, marked) for q in FAILURE for o, marked in places)
        found.extend(_shift(o, r, supervisor, q, marked) for q in SHIFT for o, r, marked in pairs)
    return [_finding(e, confidence) for e in found]


def _failures(observed: Observed) -> _Marked:
    groups = None if observed.groups is None else group_codes(observed.groups, len(observed))[0]
    return _Marked(observed.failure.astype(bool), groups, "failures", designed=False)


def _shifted(here: Observed, clean: Observed) -> _Marked:
    positive = np.r_[np.ones(len(here), bool), np.zeros(len(clean), bool)]
    names = np.concatenate([here.clusters, clean.clusters])
    return _Marked(
        positive,
        group_codes(names, len(names))[0] if len(names) else None,
        "shifted cases",
        designed=True,
    )


def _failure(observed: Observed, supervisor: str, quantity: str, marked: _Marked) -> Evidence:
    about = replace(observed.about, supervisor=supervisor)
    found = _evidence(quantity, about, observed.scores[supervisor], marked)
    return replace(found, groups=observed.group_count)


def _shift(
    here: Observed, clean: Observed, supervisor: str, quantity: str, marked: _Marked
) -> Evidence:
    about = replace(here.about, supervisor=supervisor, versus=here.versus)
    return _evidence(
        quantity, about, np.concatenate([here.scores[supervisor], clean.scores[supervisor]]), marked
    )


def _finding(evidence: Evidence, confidence: float) -> Finding:
    interval = None if evidence.reason else evidence.interval(confidence, "two")
    return Finding(
        evidence.quantity,
        evidence.value,
        interval,
        evidence.n,
        about=evidence.about,
        better=evidence.better,
        reason=evidence.reason,
        assumptions=("cases that gave no answer have no score and count against the supervisor",),
    )


def _evidence(quantity: str, about: About, scores: np.ndarray, marked: _Marked) -> Evidence:
    curve, positive = CURVES[quantity.split("_")[0]], marked.positive
    n, positives = len(scores), int(positive.sum())
    if positives == 0 or positives == n:
        what = marked.what
        reason = (
            f"all {n} cases are {what}"
            if n and positives
            else f"there are no {what} among the {n} cases"
        )
        return Evidence(
            quantity,
            about,
            float("nan"),
            n,
            curve.better,
            _nothing,
            proportion=False,
            reason=reason,
        )
    scores = silence_counted(scores, positive)
    bounded = curve.interval
    if curve.interval is average_precision_interval:
        bounded = functools.partial(bounded, fixed=marked.designed)

    def interval(confidence: float, sided: Any) -> Interval:
        return bounded(scores, positive, marked.groups, confidence=confidence, sided=sided)

    def settled_by(limit: float, confidence: float) -> int | None:
        return cases_to_settle_area(scores, positive, limit, marked.groups, confidence=confidence)

    return Evidence(
        quantity,
        about,
        curve.value(scores, positive),
        n,
        curve.better,
        interval,
        proportion=False,
        settled_by=settled_by if curve.value is auc else None,
    )


def silence_counted(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Scores of which a missing one ranks its case the wrong way; infinite ones become finite."""
    known = np.where(np.isnan(scores), np.where(positive, -np.inf, np.inf), scores)
    return np.clip(known, -np.finfo(float).max, np.finfo(float).max)


def _nothing(confidence: float, sided: Any) -> Interval:
    return Interval(0.0, 1.0, confidence, "nothing observed")
