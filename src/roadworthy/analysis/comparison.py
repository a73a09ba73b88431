"""Two runs compared: what differs in their specs, and in their findings, with intervals.

Where both runs hold the same samples and the measure is a proportion, the difference is paired, case by case. Elsewhere the two
intervals are combined as if the runs were independent (MOVER), which is conservative for runs on the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.statistics import Interval, difference, paired_difference
from roadworthy.statistics.paired import mover

NOT_COMPARED = ("difference", "relative_drop")


@dataclass(frozen=True)
class Recorded:
    """A run as it was recorded."""

    record: Mapping[str, Any]
    cases: Mapping[str, np.ndarray]
    findings: Sequence[Finding]

    @property
    def quantity(self) -> str:
        """The name of its measure."""
        return str(self.record["measure"]["name"])

    @property
    def proportion(self) -> bool:
        """Whether its measure is the share of cases that are right."""
        return bool(self.record["measure"]["shape"] == "proportion")

    def rows(self, circumstance: str, level: float | None) -> np.ndarray:
        """Which cases belong to a condition."""
        at = self.cases["circumstance"] == circumstance
        if not circumstance:
            at = at & (self.cases["role"] == "test")
        levels = self.cases["level"]
        return at & (np.isnan(levels) if level is None else levels == level)

    def find(self, quantity: str, about: About) -> Finding | None:
        """The finding on one quantity at one place."""
        return next((f for f in self.findings if f.quantity == quantity and f.about == about), None)


@dataclass(frozen=True)
class Change:
    """A finding that both runs have: second minus first."""

    quantity: str
    about: About
    first: float
    second: float
    interval: Interval
    better: str

    @property
    def direction(self) -> str:
        """better, worse, or "no clear change" when the interval holds 0."""
        if self.interval.low <= 0 <= self.interval.high:
            return "no clear change"
        rises = self.interval.low > 0
        return "better" if rises == (self.better == "higher") else "worse"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "quantity": self.quantity,
            "about": str(self.about),
            "first": self.first,
            "second": self.second,
            "difference": self.second - self.first,
            "interval": self.interval.to_dict(),
            "direction": self.direction,
        }


def change(here: Observed, earlier: Recorded, *, seed: int = 0) -> Evidence:
    """This run's measure minus an earlier run's, on the clean data."""
    about = replace(here.about, versus=str(earlier.record.get("name", "earlier run")))
    rows = earlier.rows(here.circumstance, here.level)
    before = earlier.find(earlier.quantity, here.about)
    if earlier.proportion and here.scored.shape == "proportion" and rows.any():
        first, second, groups, paired = _aligned(here, earlier, rows)

        def interval(confidence: float, sided: Sided) -> Interval:
            if paired:
                return paired_difference(first, second, groups, confidence=confidence, sided=sided)
            return difference(first, second, here.groups, _groups_of(earlier, rows), confidence=confidence, sided=sided)

        value = float(np.mean(first) - np.mean(second))
        return Evidence("difference", about, value, len(first), here.scored.better, interval, proportion=False)
    if before is None or before.interval is None:
        reason = "the earlier run has no such finding"
        return Evidence(
            "difference", about, float("nan"), 0, here.scored.better, _unknown, proportion=False, reason=reason
        )

    def combined(confidence: float, sided: Sided) -> Interval:
        from roadworthy.data.seeds import generator
        from roadworthy.measures.interval import interval as measured

        level = confidence if sided == "two" else 1 - 2 * (1 - confidence)
        now = measured(here.scored, here.groups, confidence=level, rng=generator(seed, "change", here.name))
        low, high = mover((here.scored.value(), before.value), now, _at_confidence(before, level))
        return Interval(low, high, confidence, f"two runs combined (MOVER) from {now.method}")

    value = here.scored.value() - before.value
    return Evidence("difference", about, value, len(here), here.scored.better, combined, proportion=False)


def compare(first: Recorded, second: Recorded, *, confidence: float = 0.95) -> list[Change]:
    """Every finding that both runs have at the same place, second minus first."""
    changes = []
    for after in second.findings:
        before = first.find(after.quantity, after.about)
        if before is None or before.interval is None or after.interval is None or after.quantity in NOT_COMPARED:
            continue
        interval = _paired_or_combined(first, second, before, after, confidence)
        changes.append(Change(after.quantity, after.about, before.value, after.value, interval, after.better))
    return changes


def spec_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two specs differ, by dotted name, with both values.

    >>> list(spec_differences({"seed": 1, "data": {"n": 2}}, {"seed": 1, "data": {"n": 3}}))
    [('data.n', 2, 3)]
    """
    a, b = dict(_flat(first)), dict(_flat(second))
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield name, a.get(name), b.get(name)


def _paired_or_combined(
    first: Recorded, second: Recorded, before: Finding, after: Finding, confidence: float
) -> Interval:
    column = {second.quantity: "numerator", "failure_rate": "failure"}.get(after.quantity)
    shares = (first.proportion and second.proportion) or column == "failure"
    if column and shares and not after.about.supervisor:
        a, b = _cases_at(first, after.about), _cases_at(second, after.about)
        if a.sum() == b.sum() > 0 and (first.cases["sample"][a] == second.cases["sample"][b]).all():
            groups = _groups_of(second, b)
            new, old = second.cases[column][b].astype(float), first.cases[column][a].astype(float)
            return paired_difference(new, old, groups, confidence=confidence)
    low, high = mover(
        (after.value, before.value), _at_confidence(after, confidence), _at_confidence(before, confidence)
    )
    return Interval(low, high, confidence, "two runs combined (MOVER)")


def _cases_at(recorded: Recorded, about: About) -> np.ndarray:
    rows = recorded.rows(about.circumstance, about.level)
    if about.slice:
        column, content = about.slice.split("=", 1)
        rows = rows & (recorded.cases[f"slice.{column}"] == content)
    return rows


def _aligned(here: Observed, earlier: Recorded, rows: np.ndarray) -> tuple[Any, Any, Any, bool]:
    """Both runs' outcomes; paired in this run's order where they hold the same samples."""
    samples = earlier.cases["sample"][rows]
    outcomes = earlier.cases["numerator"][rows].astype(float)
    now = np.asarray(here.scored.numerator, dtype=float)
    position = {s: i for i, s in enumerate(samples)}
    if len(samples) == len(here) and all(s in position for s in here.samples):
        return now, outcomes[[position[s] for s in here.samples]], here.groups, True
    return now, outcomes, None, False


def _groups_of(recorded: Recorded, rows: np.ndarray) -> np.ndarray | None:
    groups = recorded.cases["group"][rows]
    return groups if (groups != "").any() else None


def _at_confidence(finding: Finding, confidence: float) -> Interval:
    """A recorded interval stretched to another confidence, as a normal one would stretch."""
    from scipy.stats import norm

    interval = finding.interval
    assert interval is not None
    factor = norm.ppf((1 + confidence) / 2) / norm.ppf((1 + interval.confidence) / 2)
    low = finding.value - factor * (finding.value - interval.low)
    high = finding.value + factor * (interval.high - finding.value)
    return Interval(float(low), float(high), confidence, interval.method)


def _unknown(confidence: float, sided: Sided) -> Interval:
    return Interval(float("-inf"), float("inf"), confidence, "unknown")


def _flat(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content
