"""Two runs compared: what is refused, what is paired, and intervals of measures that are not between 0 and 1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from roadworthy.analysis.comparison import Change, Recorded, change, compare, incomparable
from roadworthy.analysis.observed import Observed
from roadworthy.claims import Claim, judge
from roadworthy.finding import About, Finding
from roadworthy.measures.interval import measure_difference, measure_interval
from roadworthy.measures.scored import Scored, complement
from roadworthy.statistics import Interval, paired_difference

N = 120


def scored(kind: str, seed: int, size: float) -> Scored:
    """RMSE, WER or MOTA of made-up errors, larger with `size`."""
    rng = np.random.default_rng(seed)
    if kind == "rmse":
        errors = np.abs(rng.normal(0, size, N))
        return Scored.ratio(
            errors**2, np.ones(N), error=errors, failure=errors > 9, better="lower", scale=math.sqrt
        )  # fmt: skip
    words = rng.integers(5, 15, N).astype(float)
    errors = rng.poisson(size * words).astype(float)
    common: dict[str, Any] = {"error": errors / words, "failure": errors > words}
    if kind == "wer":
        return Scored.ratio(errors, words, better="lower", **common)
    return Scored.ratio(
        errors, words, better="higher", scale=complement, limits=(-math.inf, 1.0), **common
    )


def seen(measure: Scored, samples: list[str] | None = None) -> Observed:
    names = np.array(samples or [f"s{i}" for i in range(len(measure))], dtype=object)
    return Observed("", None, names, None, measure, measure.failure, np.zeros(len(measure), bool))


def recorded(measure: Scored, name: str, data: str = "d1", groups: Any = None) -> Recorded:
    """As a run on the clean data records it."""
    n = len(measure)
    cases = {
        "sample": np.array([f"s{i}" for i in range(n)], dtype=object),
        "group": np.full(n, "", dtype=object)
        if groups is None
        else np.asarray(groups).astype(str).astype(object),
        "role": np.full(n, "test", dtype=object),
        "circumstance": np.full(n, "", dtype=object),
        "level": np.full(n, np.nan),
        "failure": measure.failure,
        "numerator": np.full(n, np.nan) if measure.numerator is None else measure.numerator,
        "denominator": np.full(n, np.nan) if measure.denominator is None else measure.denominator,
    }
    found = measure_interval(measure, groups, rng=np.random.default_rng(0))
    finding = Finding(name, measure.value(), found, n, better=measure.better)
    failing = Scored.proportion(1.0 - measure.failure.astype(float), better="lower")
    rate = Finding(
        "failure_rate", failing.value(), measure_interval(failing, groups), n, better="lower"
    )
    return Recorded(record(name, measure.shape, data), cases, [finding, rate])


def record(name: str = "wer", shape: str = "ratio", data: str = "d1") -> dict[str, Any]:
    return {
        "name": "a run",
        "measure": {"name": name, "shape": shape, "parameters": {}, "failure": {}},
        "subject": {"task": "a task"},
        "data": {"test": {"fingerprint": data}},
    }


SIZES = {"rmse": (3.8, 13.7), "wer": (0.3, 2.4), "mota": (0.3, 2.4)}


@pytest.mark.parametrize("data", ["d1", "d2"], ids=["paired", "other data"])
@pytest.mark.parametrize("kind", SIZES)
def test_a_release_that_is_far_worse_is_not_met_by_a_clipped_bound(kind, data) -> None:
    before, after = (scored(kind, 1, size) for size in SIZES[kind])
    evidence = change(seen(after), recorded(before, kind), record=record(kind, data=data))
    worse = evidence.value if after.better == "lower" else -evidence.value
    assert worse > 1.2
    found = evidence.interval(0.95, "two")
    assert found.low <= evidence.value <= found.high and min(abs(found.low), abs(found.high)) > 1
    claim = (
        Claim("GATE", "difference", 1.1, "max")
        if after.better == "lower"
        else Claim("G", "difference", -1.1, "min")
    )
    assert judge(claim, [evidence]).status == "breached"
    changes = {c.quantity: c for c in compare(recorded(before, kind), recorded(after, kind, data))}
    assert changes[kind].direction == "worse"
    assert (changes[kind].interval.low, changes[kind].interval.high) == pytest.approx(
        (found.low, found.high), rel=0.1
    )


def test_a_change_is_that_of_the_recorded_cases_paired_only_on_the_same_data() -> None:
    before, after = scored("wer", 1, 0.1), scored("wer", 1, 0.11)
    options: dict[str, Any] = {"confidence": 0.9, "sided": "upper", "rng": np.random.default_rng(0)}
    paired = change(seen(after), recorded(before, "wer"), record=record()).interval(0.9, "upper")
    apart = change(seen(after), recorded(before, "wer"), record=record(data="d2")).interval(
        0.9, "upper"
    )
    assert paired.high == pytest.approx(
        measure_difference(after, before, paired=True, **options).interval.high, rel=0.05
    )
    assert apart.high == pytest.approx(
        measure_difference(after, before, paired=False, **options).interval.high, rel=0.05
    )
    assert paired.high < apart.high
    moved = change(
        seen(after, [f"t{i}" for i in range(N)]), recorded(before, "wer"), record=record()
    )
    assert moved.interval(0.9, "upper").high == pytest.approx(apart.high)


def test_samples_in_another_order_are_still_paired() -> None:
    right = np.random.default_rng(0).random(N) < 0.9
    other = right & (np.random.default_rng(1).random(N) < 0.95)
    first, second = (
        recorded(Scored.proportion(v.astype(float)), "accuracy") for v in (right, other)
    )
    turned = {k: v[::-1] for k, v in second.cases.items()}
    found = {c.quantity: c.interval for c in compare(first, replace(second, cases=turned))}
    assert found["accuracy"] == paired_difference(other, right)
    assert found["failure_rate"].high == pytest.approx(-found["accuracy"].low)
    apart = {
        c.quantity: c.interval
        for c in compare(first, replace(second, record=record("accuracy", "proportion", "d2")))
    }
    assert apart["accuracy"].width > found["accuracy"].width


def test_other_intervals_stretch_as_t_intervals_of_their_groups() -> None:
    def area(value: float, groups: int | None) -> Recorded:
        found = Finding(
            "auc_failure", value, Interval(value - 0.1, value + 0.1, 0.95, ""), 500, groups=groups,
            about=About(supervisor="s"),
        )  # fmt: skip
        return Recorded(
            record("ap50", "free"), recorded(scored("wer", 1, 0.2), "ap50").cases, [found]
        )

    few, many = (
        compare(area(0.7, g), area(0.75, g), confidence=0.99)[0].interval for g in (5, None)
    )
    assert few.high - 0.05 == pytest.approx(math.sqrt(2) * 0.1 * t.ppf(0.995, 4) / t.ppf(0.975, 4))
    assert many.high - 0.05 == pytest.approx(
        math.sqrt(2) * 0.1 * t.ppf(0.995, 499) / t.ppf(0.975, 499)
    )
    assert compare(area(0.1, 3), area(0.95, 3), confidence=0.999)[0].interval.high == 1.0


@pytest.mark.parametrize("place, content, words", [
    (("measure", "name"), "cer", "the measure is"),
    (("measure", "parameters"), {"tolerance": 0.2}, "parameters"),
    (("measure", "failure"), {"above": 0.3}, "failure criterion"),
    (("subject", "task"), "speech", "the task"),
])  # fmt: skip
def test_what_was_measured_otherwise_is_refused(place, content, words) -> None:
    other = record()
    other[place[0]] = {**other[place[0]], place[1]: content}
    found = incomparable(record(), other)
    assert len(found.refused) == 1 and words in found.refused[0] and not found.notes
    first = recorded(scored("wer", 1, 0.2), "wer")
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(first, replace(first, record=other))


def test_what_is_only_loosely_comparable_is_noted() -> None:
    assert (
        incomparable(record(), record()) == incomparable({}, {})
        and not incomparable(record(), record()).refused
    )
    assert "test data differ" in incomparable(record(), record(data="d2")).notes[0]
    snow = [
        {
            "name": "snow",
            "kind": "transform",
            "transform": "snow",
            "parameters": {"1": {"depth": 1}},
        }
    ]
    deep = [{**snow[0], "parameters": {"1": {"depth": 2}}}]
    notes = incomparable(
        {**record(), "circumstances": snow}, {**record(), "circumstances": deep}
    ).notes
    assert notes == ("the circumstance 'snow' is not the same in both runs",)


def test_an_earlier_run_without_the_finding_says_so() -> None:
    earlier = replace(recorded(scored("wer", 1, 0.2), "wer"), findings=[])
    evidence = change(seen(scored("wer", 1, 0.2)), earlier)
    assert math.isnan(evidence.value) and "no such finding" in evidence.reason


def test_alarms_that_fall_to_none_are_not_called_better() -> None:
    silent, fewer = (
        Change("false_alarm_rate", About(supervisor="knn"), 0.1, second, Interval(-0.12, -0.05, 0.95, ""), "lower")
        for second in (0.0, 0.02)
    )  # fmt: skip
    assert (silent.direction, fewer.direction) == ("no alarm any more", "better")
