"""Performance per circumstance, level and slice: value, failure rate, difference to clean, relative drop.

The relative drop is that of Wang et al. 2022, tables 4 to 7: 1 - here/clean where higher is better, here/clean - 1 where lower is.
Differences are paired where the same samples were seen under both conditions. Everything is offered as `Evidence`, which
knows its interval at any confidence, so that findings (two-sided, the report's confidence) and claims (one-sided, their
own) come from one calculation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.data.seeds import generator
from roadworthy.finding import About, Evidence, Finding
from roadworthy.measures.interval import measure_difference as measured_difference
from roadworthy.measures.interval import measure_interval as measured_interval
from roadworthy.measures.interval import measure_quotient as measured_quotient
from roadworthy.measures.scored import Scored
from roadworthy.statistics import (
    Interval,
    clustered_proportion,
    effective_size,
    holm,
    p_value_from_bound,
    simultaneous,
)

INDEPENDENT = "cases are independent of each other"
GROUPED = "cases of one group may depend on each other, groups do not"
UNDEFINED = "the quantity is not defined on these cases"
NO_RIGHT_ANSWER = "no right answer"
COUNTED = "cases without an answer are counted as wrong"


def measured(observed: Observed, quantity: str, *, seed: int = 0) -> Evidence:
    """The measure itself under one condition."""
    return evidence_of(observed.scored, observed.groups, quantity, observed.about, seed=seed)


def failure_rate(observed: Observed, *, seed: int = 0) -> Evidence:
    """The share of cases that fail, by the assessment's criterion."""
    scored = observed.failed() if observed.valid else observed.scored
    return evidence_of(scored, observed.groups, "failure_rate", observed.about, seed=seed)


def change_from_clean(here: Observed, clean: Observed, *, seed: int = 0) -> Evidence:
    """The measure here minus the measure on the clean data (or on the rest, for a filter).

    A group that stands inside and outside of a filter is one group, not two that are independent.
    """
    paired = here.paired_with(clean)
    rng = functools.partial(generator, seed, "difference", here.name)

    def interval(confidence: float, sided: Any) -> Interval:
        return measured_difference(
            here.scored,
            clean.scored,
            here.groups,
            paired=paired,
            second_groups=clean.groups,
            joined=_share_groups(here, clean),
            confidence=confidence,
            sided=sided,
            rng=rng(),
        ).interval

    return Evidence(
        "difference",
        replace(here.about, versus=here.versus),
        here.scored.value() - clean.scored.value(),
        len(here),
        here.scored.better,
        interval,
        groups=here.group_count,
        proportion=False,
    )


def relative_drop(here: Observed, clean: Observed, *, seed: int = 0) -> Evidence:
    """How much worse, relative to clean; positive is worse (Wang et al. 2022, tables 4 to 7)."""
    before, after = clean.scored.value(), here.scored.value()
    drop = _drop(after, before, here.scored.better)
    rng = functools.partial(generator, seed, "drop", here.name)

    def interval(confidence: float, sided: Any) -> Interval:
        return _drop_interval(here, clean, confidence, sided, rng)

    about = replace(here.about, versus=here.versus)
    groups = here.group_count
    return Evidence(
        "relative_drop", about, drop, len(here), "lower", interval, groups=groups, proportion=False
    )


def slices(
    observed: Observed, column: str, *, smallest: int, quantity: str, seed: int = 0
) -> list[Evidence]:
    """The measure on each slice of a column; a slice with too few cases is shown but not judged."""
    parts = [observed.cut(column, content) for content in observed.contents(column)]
    return [judged_if_large(measured(part, quantity, seed=seed), smallest) for part in parts]


def judged_if_large(evidence: Evidence, smallest: int) -> Evidence:
    """The same evidence, with the reason why it is not judged if it rests on too few cases."""
    if evidence.reason or evidence.n >= smallest:
        return evidence
    reason = f"the slice has {evidence.n} cases, fewer than the {smallest} that are judged (smallest_slice)"
    return replace(evidence, reason=reason)


def performance_findings(
    clean: Observed,
    others: Sequence[Observed],
    references: Sequence[Observed],
    *,
    quantity: str,
    confidence: float,
    smallest_slice: int,
    seed: int = 0,
) -> list[Finding]:
    """All findings on performance: clean, per condition, differences and drops, slices.

    `references` says for each of `others` what it is compared with: the clean cases, or for a filter the rest of them.
    """
    found = [f for o in (clean, *others) for f in _at(o, quantity, confidence, seed)]
    differences = [
        change_from_clean(o, r, seed=seed) for o, r in zip(others, references, strict=True)
    ]
    p_values = [_p_value(d, o) for d, o in zip(differences, others, strict=True)]
    adjusted = _adjusted(p_values)
    for here, reference, d, p in zip(others, references, differences, adjusted, strict=True):
        drop = relative_drop(here, reference, seed=seed)
        details = {
            "quantity": quantity,
            "clean": reference.scored.value(),
            "here": here.scored.value(),
            "relative_drop": drop.value,
            "p": p,
            "paired": here.paired_with(reference),
        }
        corrected = (
            f"p is adjusted by Holm over {len(others)} conditions"
            if p is not None and len(others) > 1
            else ""
        )
        found.append(finding_of(d, here, confidence, details=details, corrected=corrected))
        found.append(finding_of(drop, here, confidence, details={"quantity": quantity}))
    for column in clean.slices:
        found.extend(_slice_findings(clean, column, quantity, confidence, smallest_slice, seed))
    return found


def _at(observed: Observed, quantity: str, confidence: float, seed: int) -> Iterator[Finding]:
    yield finding_of(measured(observed, quantity, seed=seed), observed, confidence)
    yield finding_of(failure_rate(observed, seed=seed), observed, confidence)


def _slice_findings(
    clean: Observed, column: str, quantity: str, confidence: float, smallest: int, seed: int
) -> Iterator[Finding]:
    parts = slices(clean, column, smallest=smallest, quantity=quantity, seed=seed)
    judged = sum(not e.reason for e in parts)
    for e in parts:
        part = clean.cut(column, e.about.slice.removeprefix(f"{column}="))
        if e.reason:
            yield Finding(
                quantity,
                e.value,
                None,
                e.n,
                about=e.about,
                better=e.better,
                reason=e.reason,
                assumptions=_assumed(part),
            )
            continue
        wide = e.interval(simultaneous(confidence, judged), "two")
        details = {"simultaneous_low": wide.low, "simultaneous_high": wide.high, "slices": judged}
        corrected = f"details give the interval that holds for all {judged} slices of {column} together (Bonferroni)"
        yield finding_of(e, part, confidence, details=details, corrected=corrected)


def finding_of(
    evidence: Evidence,
    observed: Observed,
    confidence: float,
    *,
    details: dict[str, Any] | None = None,
    corrected: str = "",
) -> Finding:
    """The evidence with its two-sided interval, or why there is none."""
    if np.isnan(evidence.value):
        return Finding(
            evidence.quantity,
            evidence.value,
            None,
            evidence.n,
            about=evidence.about,
            better=evidence.better,
            reason=evidence.reason or (UNDEFINED if observed.valid else NO_RIGHT_ANSWER),
            details=details or {},
        )
    return Finding(
        evidence.quantity,
        evidence.value,
        evidence.interval(confidence, "two"),
        evidence.n,
        effective_n=evidence.effective_n,
        groups=observed.group_count,
        failed=int(observed.unanswered.sum()),
        about=evidence.about,
        better=evidence.better,
        assumptions=_assumed(observed),
        corrected=corrected,
        details=details or {},
    )


def _assumed(observed: Observed) -> tuple[str, ...]:
    first = INDEPENDENT if observed.groups is None else GROUPED
    return (first, COUNTED) if observed.unanswered.any() else (first,)


def evidence_of(
    scored: Scored, groups: np.ndarray | None, quantity: str, about: About, *, seed: int = 0
) -> Evidence:
    """What a measure says of some cases, of these groups."""
    rng = functools.partial(generator, seed, quantity, str(about))

    def interval(confidence: float, sided: Any) -> Interval:
        if scored.shape == "proportion" and scored.numerator is not None and sided != "two":
            # Verdicts are judged on these, and must not err more often than they say: near 0 and 1, one-sided Wilson
            # bounds do (at 0.9 and n = 100, 7% instead of 5%), exact ones never.
            return clustered_proportion(
                scored.numerator,
                groups,
                confidence=confidence,
                sided=sided,
                method="clopper_pearson",
            )
        return measured_interval(scored, groups, confidence=confidence, sided=sided, rng=rng())

    effective = None
    if groups is not None and scored.shape == "proportion" and len(scored) > 1:
        effective = effective_size(scored.error, groups)
    return Evidence(
        quantity,
        about,
        scored.value(),
        len(scored),
        scored.better,
        interval,
        effective_n=effective,
        groups=None if groups is None else len(set(groups.tolist())),
        proportion=scored.shape == "proportion",
    )


def _p_value(evidence: Evidence, observed: Observed) -> float | None:
    """Two-sided, against no difference; for proportions, whose intervals need no resampling."""
    if observed.scored.shape != "proportion" or np.isnan(evidence.value):
        return None
    # The end of a two-sided interval that touches 0 has the two-sided p-value as its error probability.
    if evidence.value >= 0:
        return p_value_from_bound(
            lambda c: evidence.interval(c, "two").low, 0.0, alternative="greater"
        )
    return p_value_from_bound(lambda c: evidence.interval(c, "two").high, 0.0, alternative="less")


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    known = [i for i, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    if known:
        for i, p in zip(
            known, holm(np.array([p_values[i] for i in known], dtype=float)), strict=True
        ):
            adjusted[i] = float(p)
    return adjusted


def _drop(after: float, before: float, better: str) -> float:
    """Not defined unless the clean value is above 0: a MOTA below 0 has nothing to lose a share of."""
    if np.isnan(before) or before <= 0:
        return float("nan")
    return 1 - after / before if better == "higher" else after / before - 1


def _drop_interval(
    here: Observed,
    clean: Observed,
    confidence: float,
    sided: Any,
    rng: Callable[[], np.random.Generator],
) -> Interval:
    """That of the quotient here / clean, mirrored where higher is better."""
    higher = here.scored.better == "higher"
    kept = measured_quotient(
        here.scored,
        clean.scored,
        here.groups,
        paired=here.paired_with(clean),
        second_groups=clean.groups,
        joined=_share_groups(here, clean),
        confidence=confidence,
        sided={"lower": "upper", "upper": "lower"}.get(sided, sided) if higher else sided,
        rng=rng(),
    )
    low, high = (1 - kept.high, 1 - kept.low) if higher else (kept.low - 1, kept.high - 1)
    return Interval(low, high, confidence, kept.method)


def _share_groups(here: Observed, clean: Observed) -> bool:
    """Whether a group stands on both sides of a filter."""
    if here.versus != "rest" or here.groups is None or clean.groups is None:
        return False
    return bool(set(here.groups.tolist()) & set(clean.groups.tolist()))
