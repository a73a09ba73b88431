"""Supervisors as a report sees them: what each was found to be worth, what it costs, and the set that a run recommends.

Older runs have neither thresholds nor costs: whatever is missing in a record is simply not shown.

>>> threshold = Threshold.read({"value": 0.4, "rule": "conformal", "chosen_on": 1000, "expected_rate": 0.05})
>>> threshold.rule, threshold.rows, threshold.expected_rate
('conformal', '1,000 rows', 0.05)
>>> place_key("snow", 2.0), place_key("", None)
('snow@2', 'clean')
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roadworthy.finding import Finding
from roadworthy.statistics.interval import Interval

from .run_parts import number

Place = tuple[str, float | None]
"""Circumstance and level; the clean test data is `CLEAN`."""
CLEAN: Place = ("", None)
QUANTITIES = (
    *("auc_failure", "aupr_failure", "fpr95_failure", "auc_shift", "aupr_shift", "fpr95_shift"),
    *("miss_rate", "worst_miss_rate", "false_alarm_rate", "alarm_rate"),
)
"""What can be found out about a supervisor at a place."""


@dataclass(frozen=True)
class Threshold:
    """Where a score becomes an alarm, and how that was decided."""

    value: float | None
    rule: str
    chosen_on: int | str
    """How many rows, or which."""
    expected_rate: float | None
    parameters: Mapping[str, Any]
    classes: int = 0
    """How many classes have a threshold of their own."""
    groups: int | None = None
    """How many groups chose it, where not rows but groups did."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Threshold:
        """From its record; rows are counted in some records and named in others."""
        on, classes = record.get("chosen_on"), record.get("per_class")
        return cls(
            _threshold_value(record.get("value")),
            str(record.get("rule") or ""),
            on if isinstance(on, int) else str(on or ""),
            _number(record.get("expected_rate")),
            record.get("parameters") or {},
            len(classes) if isinstance(classes, Mapping) else 0,
            groups if isinstance(groups := record.get("groups"), int) else None,
        )

    @property
    def ruled(self) -> str:
        """The rule in words, with its parameters."""
        name = self.rule.removeprefix("at_").replace("_", " ") + (
            " per class" if self.classes else ""
        )
        # The file calls it rate whatever the rule; conformal's own letter for it is alpha.
        given = ", ".join(
            f"{'rate' if k == 'alpha' else k.replace('_', ' ')} {_short(v)}"
            for k, v in self.parameters.items()
        )
        return f"{name} ({given})" if given else name

    @property
    def rows(self) -> str:
        """The rows that chose it, in words."""
        groups = "" if self.groups is None else f" in {self.groups:,} groups"
        return (
            f"{self.chosen_on:,} rows{groups}"
            if isinstance(self.chosen_on, int)
            else self.chosen_on
        )


@dataclass(frozen=True)
class Supervisor:
    """A supervisor, with what was found about it by quantity and place."""

    name: str
    module: str
    applicable: bool
    because: str
    parameters: Mapping[str, Any]
    found: Mapping[str, Mapping[Place, Finding]]
    fit_seconds: float | None = None
    score_seconds: float | None = None
    kept_bytes: float | None = None
    notes: tuple[str, ...] = ()
    threshold: Threshold | None = None
    fit_kept: bool = False
    """Whether the fit is that of an earlier run, and so are its seconds."""
    subject_passes: int = 0
    """About how many forward passes a case the subject makes for it on top; they are not in `score_seconds`."""
    score_kept: bool = False
    """Whether scores are those of an earlier run, all or some, and so are their seconds."""

    @classmethod
    def read(
        cls, record: Mapping[str, Any], findings: Iterable[Finding], *, several_modules: bool
    ) -> Supervisor:
        """From its record in ``run.json`` and the findings about it."""
        name, module = str(record["name"]), str(record.get("module") or "")
        found: dict[str, dict[Place, Finding]] = {q: {} for q in QUANTITIES}
        for f in findings:
            if f.quantity in found and not f.about.slice and f.about.module in ("", module):
                found[f.quantity][f.about.circumstance, f.about.level] = f
        threshold = record.get("threshold")
        return cls(
            name,
            module if several_modules else "",
            bool(record.get("applicable", True)),
            str(record.get("because") or ""),
            record.get("parameters") or {},
            found,
            _number(record.get("fit_seconds")),
            _number(record.get("score_seconds")),
            _number(record.get("kept_bytes")),
            tuple(str(n) for n in record.get("notes") or ()),
            Threshold.read(threshold) if isinstance(threshold, Mapping) else None,
            bool(record.get("fit_kept")),
            int(_number(record.get("subject_passes")) or 0),
            bool(record.get("score_kept")),
        )

    @property
    def label(self) -> str:
        """Name, and the module where there are several."""
        return f"{self.name} ({self.module})" if self.module else self.name

    @property
    def auc_failure(self) -> Mapping[Place, Finding]:
        """How well it ranks failures above successes, by place."""
        return self.found["auc_failure"]

    @property
    def auc_shift(self) -> Mapping[Place, Finding]:
        """How well it ranks cases of a circumstance above clean ones, by place."""
        return self.found["auc_shift"]

    @property
    def places(self) -> list[Place]:
        """Wherever something was found about it, in the order of the findings."""
        return list(dict.fromkeys(place for by_place in self.found.values() for place in by_place))

    def at(self, quantity: str, place: Place = CLEAN) -> Finding | None:
        """What was found at a place, by default on the clean test data."""
        return self.found[quantity].get(place)

    @property
    def worst_miss(self) -> Finding | None:
        """Where it misses the largest share of the failures, with an interval for the worst of all places.

        Older runs have no such interval; where nothing is known anywhere, any finding about misses.
        """
        if self.found["worst_miss_rate"]:
            return next(iter(self.found["worst_miss_rate"].values()))
        found = list(self.found["miss_rate"].values())
        known = [f for f in found if math.isfinite(f.value)]
        if len(known) < 2:
            return known[0] if known else next(iter(found), None)
        worst = max(known, key=lambda f: f.value)
        return replace(
            worst,
            interval=None,
            reason="the worst of many places: the interval of one does not hold for it",
        )

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The best AUC for failures on the clean test data first; then those without one, then those not applicable."""
        found = self.at("auc_failure")
        known = found is not None and math.isfinite(found.value)
        return not self.applicable, not known, -found.value if found is not None and known else 0.0


@dataclass(frozen=True)
class Rate:
    """A share of cases as the recommendation's record has it."""

    value: float | None
    interval: Interval | None
    n: int | None

    @classmethod
    def read(cls, record: Any, confidence: float) -> Rate:
        """A bare number, or a value with its interval as a pair of ends or as a finding writes it."""
        if not isinstance(record, Mapping):
            return cls(_number(record), None, None)
        n = record.get("n")
        ends = _interval(record, confidence)
        return cls(
            _number(record.get("value")), ends, int(n) if isinstance(n, int | float) else None
        )


@dataclass(frozen=True)
class Cover:
    """Who of the set is best under a circumstance, and the rate that says so: informedness, or the AUC."""

    circumstance: str
    by: str
    rate: float | None
    caught: float | None = None
    false_alarms: float | None = None
    """On right answers under that circumstance."""


@dataclass(frozen=True)
class Recommendation:
    """A small set of supervisors that together cover all circumstances."""

    names: tuple[str, ...]
    why: str = ""
    covers: tuple[Cover, ...] = ()
    miss_rate: Mapping[str, Rate] = field(default_factory=dict)
    """Of the set as a whole, by place (``snow@2``)."""
    false_alarm_rate: Mapping[str, Rate] = field(default_factory=dict)
    chosen_on: str = ""
    quantity: str = "catch_rate"
    """By what it was chosen: informedness, or the AUC where there are no verdicts; older runs, the share of failures caught."""
    worst_place: str = ""
    worst_rate: Rate | None = None
    """What the set misses where it misses most, with an interval for the worst of all places."""
    places: int = 0
    false_alarms_at: Mapping[str, Rate] = field(default_factory=dict)
    """Of the set as a whole, by place; older runs have those on clean data only."""

    @classmethod
    def read(cls, record: Any, confidence: float) -> Recommendation | None:
        """From the record of a run; None where it recommends nothing."""
        if not isinstance(record, Mapping) or not record.get("supervisors"):
            return None
        covers, quantity = record.get("covers"), str(record.get("quantity") or "catch_rate")
        worst: Mapping[str, Any] = (
            found if isinstance(found := record.get("worst"), Mapping) else {}
        )
        return cls(
            tuple(str(name) for name in record["supervisors"]),
            str(record.get("why") or ""),
            tuple(_cover(c, by, quantity) for c, by in covers.items())
            if isinstance(covers, Mapping)
            else (),
            _rates(record.get("miss_rate"), confidence),
            _rates(record.get("false_alarm_rate"), confidence),
            str(record.get("chosen_on") or ""),
            quantity,
            str(worst.get("place") or ""),
            Rate.read(worst, confidence) if worst else None,
            int(_number(worst.get("places")) or 0),
            _rates(record.get("false_alarms"), confidence),
        )

    @property
    def optimistic(self) -> bool:
        """Whether the set was chosen on the same rows that its rates are measured on."""
        return "optimistic" in self.chosen_on or self.chosen_on == "test"

    @property
    def worst(self) -> tuple[str, Rate] | None:
        """Where the set as a whole misses the largest share of the failures; older runs have no interval for that."""
        if self.worst_rate is not None:
            return self.worst_place, self.worst_rate
        known = [(place, rate) for place, rate in self.miss_rate.items() if rate.value is not None]
        if not known:
            return None
        place, rate = max(known, key=lambda entry: entry[1].value or 0.0)
        return place, rate if len(known) == 1 else Rate(rate.value, None, rate.n)

    @property
    def false_alarms(self) -> Rate | None:
        """Of the set as a whole on clean data."""
        return self.false_alarm_rate.get("clean") or next(
            iter(self.false_alarm_rate.values()), None
        )

    @property
    def most_false_alarms(self) -> tuple[str, float] | None:
        """Under which circumstance the set as a whole raises most alarms on right answers; None where none is known."""
        known = [
            (p, r.value)
            for p, r in self.false_alarms_at.items()
            if p != "clean" and r.value is not None
        ]
        return max(known, key=lambda entry: entry[1], default=None)

    def covered_by(self, place: Place) -> str:
        """Who of the set does best at a place; empty where the run does not say."""
        keys = (place_key(*place), place[0] or "clean")
        return next((c.by for c in self.covers if c.circumstance in keys), "")


def place_key(circumstance: str, level: float | None) -> str:
    """How records name a place."""
    return (
        f"{circumstance}@{level:g}"
        if circumstance and level is not None
        else circumstance or "clean"
    )


def _cover(circumstance: Any, by: Any, quantity: str) -> Cover:
    if not isinstance(by, Mapping):
        return Cover(str(circumstance), str(by or ""), None)
    caught = _number(by.get("catch_rate"))
    rate = _number(by.get(quantity, by.get("catch_rate")))
    return Cover(
        str(circumstance),
        str(by.get("by") or ""),
        rate,
        caught,
        _number(by.get("false_alarm_rate")),
    )


def _rates(record: Any, confidence: float) -> dict[str, Rate]:
    """By place; a single rate stands for the clean data."""
    if record is None:
        return {}
    if not isinstance(record, Mapping) or "value" in record:
        return {"clean": Rate.read(record, confidence)}
    return {str(place): Rate.read(rate, confidence) for place, rate in record.items()}


def _interval(record: Mapping[str, Any], confidence: float) -> Interval | None:
    ends, method = record.get("interval"), str(record.get("method") or "")
    if isinstance(ends, Mapping):
        return Interval.from_dict(ends)
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = (_number(end) for end in ends)
    if low is None or high is None:
        return None
    return Interval(
        low, high, _number(record.get("confidence")) or confidence, method or "as recorded"
    )


def _number(x: Any) -> float | None:
    return number(x) if isinstance(x, int | float) else None


def _threshold_value(x: Any) -> float | None:
    """Records write an infinite threshold as a word."""
    try:
        return None if x is None or math.isnan(float(x)) else float(x)
    except (TypeError, ValueError):
        return None


def _short(x: Any) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)
