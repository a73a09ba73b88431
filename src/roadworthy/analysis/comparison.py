"""Two runs compared: whether they can be, what differs in their specs, and in their findings, with intervals.

Measures that are proportions or ratios are compared from the recorded cases: case by case where both runs hold the same
samples of the same data (by fingerprint), as two samples elsewhere. The scale of a ratio (the root of RMSE, 1 - r of MOTA) is
the one that reproduces the recorded value. Of other findings the two intervals are combined as if the runs were independent
(MOVER), which is conservative for runs on the same data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.measures.scored import Scored, complement
from roadworthy.statistics import Interval
from roadworthy.statistics.paired import mover

NOT_COMPARED = ("difference", "relative_drop")
ALARMS = ("alarm_rate", "false_alarm_rate")
"""Shares of cases with an alarm: at 0 nothing raises one any more, and that is no improvement."""
SCALES: tuple[Callable[[float], float] | None, ...] = (None, math.sqrt, complement)
"""From a ratio of sums to a value, as measures use them."""


@dataclass(frozen=True)
class Comparability:
    """Whether two runs can be compared, in sentences."""

    refused: tuple[str, ...] = ()
    """Why they cannot; empty where they can."""
    notes: tuple[str, ...] = ()
    """What a reader of a comparison should know."""


class _Sides(NamedTuple):
    """The cases of both runs at one place: paired where both hold the same samples of the same data."""

    later: Scored
    earlier: Scored
    groups: np.ndarray | None
    earlier_groups: np.ndarray | None
    paired: bool


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
        """better, worse, "no clear change" when the interval holds 0, or "no alarm any more"."""
        if self.quantity in ALARMS and self.first > 0.0 == self.second:
            return "no alarm any more"
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


def incomparable(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparability:
    """What makes two records incomparable, and what makes them only loosely comparable.

    >>> one = {"measure": {"name": "wer"}, "subject": {"task": "speech"}, "data": {"test": {"fingerprint": "a"}}}
    >>> incomparable(one, {**one, "measure": {"name": "cer"}}).refused
    ("the measure is 'wer' in the first run and 'cer' in the second",)
    >>> incomparable(one, {**one, "data": {"test": {"fingerprint": "b"}}}).notes
    ('the test data differ, so cases are not compared one by one',)
    """
    fields: tuple[tuple[str, tuple[str, ...], Any], ...] = (
        ("the task", ("subject", "task"), ""),
        ("the measure", ("measure", "name"), ""),
        ("the measure's parameters", ("measure", "parameters"), {}),
        ("the failure criterion", ("measure", "failure"), {}),
    )
    refused = []
    for words, path, default in fields:
        a, b = (_plain(_at(record, path) or default) for record in (first, second))
        if a != b:
            refused.append(f"{words} is {a!r} in the first run and {b!r} in the second")
    notes = [
        f"the {role} data differ, so cases are not compared one by one"
        for role in sorted(set(_at(first, ("data",)) or {}) & set(_at(second, ("data",)) or {}))
        if not _same_data(first, second, role)
    ]
    before, after = (
        {
            c["name"]: {
                k: c.get(k) for k in ("kind", "transform", "table", "parameters", "port", "where")
            }
            for c in found
        }
        for found in ((record.get("circumstances") or []) for record in (first, second))
    )
    notes += [
        f"the circumstance {name!r} is not the same in both runs"
        for name in before
        if name in after and _plain(before[name]) != _plain(after[name])
    ]
    return Comparability(tuple(refused), tuple(notes))


def change(
    here: Observed, earlier: Recorded, *, record: Mapping[str, Any] | None = None, seed: int = 0
) -> Evidence:
    """This run's measure minus an earlier run's, under the same condition.

    `record` is this run's own (`data` by role, with fingerprints): cases are paired where the data are the same. Without it
    the caller vouches that equal sample names mean equal samples.
    """
    about = replace(here.about, versus=str(earlier.record.get("name", "earlier run")))
    before = earlier.find(earlier.quantity, here.about)
    better = here.scored.better
    if before is None or before.interval is None:
        reason = "the earlier run has no such finding"
        return Evidence(
            "difference", about, math.nan, 0, better, _unknown, proportion=False, reason=reason
        )
    sides = _against(here, earlier, before, record)

    def interval(confidence: float, sided: Sided) -> Interval:
        from roadworthy.data.seeds import generator
        from roadworthy.measures.interval import measure_interval as measured

        rng = generator(seed, "change", here.name)
        if sides is not None:
            return _of_sides(sides, confidence, sided, rng)
        level = confidence if sided == "two" else 1 - 2 * (1 - confidence)
        now = measured(here.scored, here.groups, confidence=level, rng=rng)
        low, high = mover((here.scored.value(), before.value), now, _at_confidence(before, level))
        return Interval(low, high, confidence, f"two runs combined (MOVER) from {now.method}")

    value = here.scored.value() - before.value
    groups = here.group_count
    return Evidence(
        "difference", about, value, len(here), better, interval, groups=groups, proportion=False
    )


def compare(first: Recorded, second: Recorded, *, confidence: float = 0.95) -> list[Change]:
    """Every finding that both runs have at the same place, second minus first; refuses what cannot be compared."""
    refused = incomparable(first.record, second.record).refused
    if refused:
        raise ValueError(f"these runs cannot be compared: {'; '.join(refused)}")
    changes = []
    for after in second.findings:
        before = first.find(after.quantity, after.about)
        if (
            before is None
            or before.interval is None
            or after.interval is None
            or after.quantity in NOT_COMPARED
        ):
            continue
        interval = _change_of(first, second, before, after, confidence)
        changes.append(
            Change(after.quantity, after.about, before.value, after.value, interval, after.better)
        )
    return changes


def subject_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The files of the subject that differ, or that only one run has; "fingerprint" if nothing else tells them apart.

    >>> run = {"fingerprint": "x", "files": [{"path": "w.npy", "sha256": "a"}]}
    >>> subject_differences(run, {"fingerprint": "x", "files": [{"path": "w.npy", "sha256": "b"}]})
    ['w.npy']
    """
    before, after = ({f["path"]: f["sha256"] for f in s.get("files", [])} for s in (first, second))
    found = [p for p in dict.fromkeys([*before, *after]) if before.get(p) != after.get(p)]
    unlike = first.get("fingerprint") != second.get("fingerprint")
    return found or (["fingerprint"] if unlike else [])


def vanished_alarms(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Who could raise an alarm in the first run and cannot in the second: supervisors with a threshold, and the monitor.

    >>> run = lambda limit: {"sections": {"supervision": {"supervisors": [{"name": "knn", "threshold": limit}]}}}
    >>> vanished_alarms(run({"value": 0.4}), run(None)), vanished_alarms(run(None), run({"value": 0.4}))
    (['knn'], [])
    """

    def raising(record: Mapping[str, Any]) -> list[str]:
        watched = _at(record, ("sections", "supervision", "supervisors")) or []
        monitor = ["monitor"] if _at(record, ("sections", "monitor", "alarm")) else []
        return [s["name"] for s in watched if s.get("threshold")] + monitor

    return [name for name in raising(first) if name not in raising(second)]


def spec_differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two specs differ, by dotted name, with both values.

    >>> list(spec_differences({"seed": 1, "data": {"n": 2}}, {"seed": 1, "data": {"n": 3}}))
    [('data.n', 2, 3)]
    """
    a, b = dict(_flat(first)), dict(_flat(second))
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield name, a.get(name), b.get(name)


def _change_of(
    first: Recorded, second: Recorded, before: Finding, after: Finding, confidence: float
) -> Interval:
    from roadworthy.data.seeds import generator

    sides = _both(first, second, before, after)
    if sides is not None:
        return _of_sides(sides, confidence, "two", generator(0, "compare", str(after.about)))
    parts = [_at_confidence(finding, confidence) for finding in (after, before)]
    low, high = mover((after.value, before.value), parts[0], parts[1])
    if after.quantity.startswith("auc_"):
        low, high = max(low, -1.0), min(high, 1.0)
    return Interval(low, high, confidence, "two runs combined (MOVER)")


def _of_sides(sides: _Sides, confidence: float, sided: Sided, rng: np.random.Generator) -> Interval:
    from roadworthy.measures.interval import measure_difference

    return measure_difference(
        sides.later,
        sides.earlier,
        sides.groups,
        paired=sides.paired,
        second_groups=sides.earlier_groups,
        confidence=confidence,
        sided=sided,
        rng=rng,
    ).interval


def _against(
    here: Observed, earlier: Recorded, before: Finding, record: Mapping[str, Any] | None
) -> _Sides | None:
    """This run's cases and the earlier run's; None where these do not say what was found."""
    if here.scored.shape == "free" or earlier.record["measure"]["shape"] != here.scored.shape:
        return None
    rows = np.flatnonzero(earlier.rows(here.circumstance, here.level))
    scored = _rescored(earlier, rows, before, here.scored.scale)
    if scored is None:
        return None
    scored = replace(scored, limits=here.scored.limits)
    same = record is None or all(
        _same_data(earlier.record, record, r) for r in set(earlier.cases["role"][rows])
    )
    order = _order(here.samples, earlier.cases["sample"][rows]) if same else None
    if order is None:
        return _Sides(here.scored, scored, here.groups, _groups_of(earlier, rows), False)
    return _Sides(here.scored, scored.take(order), here.groups, here.groups, True)


def _both(first: Recorded, second: Recorded, before: Finding, after: Finding) -> _Sides | None:
    """The cases under two findings; None where the cases do not say what was found."""
    if (
        after.about.supervisor
        or after.about.module
        or after.quantity not in (second.quantity, "failure_rate")
    ):
        return None
    old, new = (np.flatnonzero(_cases_at(run, after.about)) for run in (first, second))
    scales = SCALES if after.quantity == second.quantity and not second.proportion else (None,)
    pairs = [
        (_rescored(first, old, before, scale), _rescored(second, new, after, scale))
        for scale in scales
    ]
    found = [
        (earlier, later) for earlier, later in pairs if earlier is not None and later is not None
    ]
    if len(found) != 1:
        return None
    earlier, later = found[0]
    roles = {*first.cases["role"][old], *second.cases["role"][new]}
    same = all(_same_data(first.record, second.record, role) for role in roles)
    order = _order(second.cases["sample"][new], first.cases["sample"][old]) if same else None
    groups = _groups_of(second, new)
    if order is None:
        return _Sides(later, earlier, groups, _groups_of(first, old), False)
    return _Sides(later, earlier.take(order), groups, groups, True)


def _rescored(
    recorded: Recorded, rows: np.ndarray, finding: Finding, scale: Callable[[float], float] | None
) -> Scored | None:
    """The recorded cases as a measure again, if it has the finding's value."""
    if len(rows) == 0:
        return None
    cases, better = recorded.cases, finding.better
    if finding.quantity == "failure_rate":
        scored = Scored.proportion(1.0 - cases["failure"][rows].astype(float), better="lower")
    elif recorded.record["measure"]["shape"] == "proportion":
        counted = cases["numerator"][rows].astype(float)
        scored = Scored.proportion(counted if better == "higher" else 1.0 - counted, better=better)  # type: ignore[arg-type]
    elif recorded.record["measure"]["shape"] == "ratio":
        above, below = (cases[c][rows].astype(float) for c in ("numerator", "denominator"))
        failure = cases["failure"][rows].astype(bool)
        share = scale is None and better == "higher" and bool((above <= below).all())
        limits = (
            (0.0, 1.0) if share else (-math.inf, 1.0) if scale is complement else (0.0, math.inf)
        )
        scored = Scored.ratio(
            above,
            below,
            error=failure.astype(float),
            failure=failure,
            better=better,  # type: ignore[arg-type]
            scale=scale,
            limits=limits,
        )
    else:
        return None
    return (
        scored if math.isclose(scored.value(), finding.value, rel_tol=1e-6, abs_tol=1e-9) else None
    )


def _order(samples: np.ndarray, others: np.ndarray) -> np.ndarray | None:
    """Where each sample stands among the others; None where the two do not hold the same samples, once each."""
    position = {sample: i for i, sample in enumerate(others.tolist())}
    wanted = samples.tolist()
    if len(position) != len(others) or len(wanted) != len(others) or set(wanted) != set(position):
        return None
    return np.array([position[sample] for sample in wanted], dtype=np.int64)


def _cases_at(recorded: Recorded, about: About) -> np.ndarray:
    rows = recorded.rows(about.circumstance, about.level)
    if about.slice:
        column, content = about.slice.split("=", 1)
        rows = rows & (recorded.cases[f"slice.{column}"] == content)
    return rows


def _groups_of(recorded: Recorded, rows: np.ndarray) -> np.ndarray | None:
    groups = recorded.cases["group"][rows]
    return groups if (groups != "").any() else None


def _at_confidence(finding: Finding, confidence: float) -> Interval:
    """A recorded interval stretched to another confidence, as a t interval of its groups (or cases) would stretch."""
    from scipy.stats import t

    interval = finding.interval
    assert interval is not None
    freedom = max(1, (finding.groups or finding.n) - 1)
    factor = float(
        t.ppf((1 + confidence) / 2, freedom) / t.ppf((1 + interval.confidence) / 2, freedom)
    )
    low = finding.value - factor * (finding.value - interval.low)
    high = finding.value + factor * (interval.high - finding.value)
    return Interval(low, high, confidence, interval.method)


def _at(record: Mapping[str, Any], path: Sequence[str]) -> Any:
    content: Any = record
    for key in path:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def _same_data(first: Mapping[str, Any], second: Mapping[str, Any], role: str) -> bool:
    prints = [_at(record, ("data", role, "fingerprint")) for record in (first, second)]
    return prints[0] is not None and prints[0] == prints[1]


def _plain(content: Any) -> Any:
    """As JSON would give it back: a record that was read and one that was just made are then alike."""
    return json.loads(json.dumps(content, default=str))


def _unknown(confidence: float, sided: Sided) -> Interval:
    return Interval(float("-inf"), float("inf"), confidence, "unknown")


def _flat(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content
