"""Drops and differences where little or nothing changes, where clean is not above 0, and where groups span a filter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.analysis import performance
from roadworthy.analysis.observed import Observed
from roadworthy.claims import Claim, judge
from roadworthy.measures.scored import Scored, complement


def seen(
    scored: Scored, name: str = "", groups=None, samples=None, versus: str = "clean"
) -> Observed:
    n = len(scored)
    names = np.array([str(i) for i in range(n)] if samples is None else samples, dtype=object)
    return Observed(
        name, None, names, groups, scored, scored.failure, np.zeros(n, bool), versus=versus
    )


def test_what_changes_nothing_has_a_finite_drop_and_meets_its_claim() -> None:
    right = np.r_[np.ones(950), np.zeros(50)]
    evidence = performance.relative_drop(
        seen(Scored.proportion(right), "identity"), seen(Scored.proportion(right))
    )
    found = evidence.interval(0.95, "two")
    assert -0.005 < found.low < 0 < found.high < 0.005
    assert judge(Claim("A", "relative_drop", 0.05, "max"), [evidence]).status == "met"


def test_the_drop_of_an_error_rate_mirrors_its_quotient() -> None:
    right = np.r_[np.ones(360), np.zeros(40)]
    here = np.r_[np.zeros(10), np.ones(350), np.zeros(36), np.ones(4)]
    clean = seen(Scored.proportion(right, better="lower"))
    evidence = performance.relative_drop(
        seen(Scored.proportion(here, better="lower"), "snow"), clean
    )
    assert evidence.value == pytest.approx(46 / 40 - 1)
    found = evidence.interval(0.95, "two")
    assert -0.1 < found.low < evidence.value < found.high < 0.5
    nothing = performance.relative_drop(
        clean, seen(Scored.proportion(np.ones(400), better="lower"))
    )
    assert math.isnan(nothing.value)


def tracks(errors: np.ndarray) -> Scored:
    return Scored.ratio(
        errors, np.full(len(errors), 4.0), error=errors / 4, failure=errors > 4, better="higher", scale=complement,
        limits=(-math.inf, 1.0),
    )  # fmt: skip


def test_a_drop_from_a_negative_mota_is_not_defined() -> None:
    rng = np.random.default_rng(0)
    clean, here = tracks(rng.poisson(6, 60).astype(float)), tracks(rng.poisson(8, 60).astype(float))
    assert clean.value() < 0
    assert math.isnan(performance.relative_drop(seen(here, "snow"), seen(clean)).value)
    found = performance.performance_findings(
        seen(clean),
        [seen(here, "snow")],
        [seen(clean)],
        quantity="mota",
        confidence=0.95,
        smallest_slice=30,
    )
    drop = next(f for f in found if f.quantity == "relative_drop")
    assert drop.interval is None and "not defined" in drop.reason


def filtered(
    rng: np.random.Generator, groups: int = 20, size: int = 20
) -> tuple[Observed, Observed]:
    """Cases of one population in and out of a filter that has nothing to do with it, patients on both sides."""
    patient = np.repeat(np.arange(groups), size)
    right = (
        rng.random(groups * size) < 1 / (1 + np.exp(-1.5 - rng.normal(0, 1.2, groups)[patient]))
    ).astype(float)
    inside = rng.random(groups * size) < 0.5
    names, labels = np.arange(groups * size).astype(str), patient.astype(str).astype(object)
    here = seen(Scored.proportion(right[inside]), "site B", labels[inside], names[inside], "rest")
    return here, seen(Scored.proportion(right[~inside]), "", labels[~inside], names[~inside])


def test_patients_on_both_sides_of_a_filter_are_joined() -> None:
    here, rest = filtered(np.random.default_rng(2))
    joined = performance.change_from_clean(here, rest).interval(0.95, "two")
    assert "joined groups" in joined.method
    strangers = Observed(
        **{**vars(rest), "groups": np.array([f"other {g}" for g in rest.groups], dtype=object)}
    )
    apart = performance.change_from_clean(here, strangers).interval(0.95, "two")
    assert joined.width < apart.width and "joined" not in apart.method


@pytest.mark.slow
def test_the_difference_of_a_filter_covers_and_is_not_needlessly_wide() -> None:
    rng = np.random.default_rng(3)
    held, runs = 0, 500
    for _ in range(runs):
        held += performance.change_from_clean(*filtered(rng)).interval(0.95, "two").contains(0.0)
    assert binom.cdf(held, runs, 0.95) > 0.01, held / runs
