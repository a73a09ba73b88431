"""The report's expected cost and the forecast of its monitor weigh circumstances alike, and where one is not told, it is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sorter import SMALL, drawn, laid_out, run

from roadworthy.assessment.assess import Run
from roadworthy.store import RunFolder

COSTS = "risk: {unit: EUR per case, costs: {right: 0, wrong: 4}MORE}\nexecution:"
NOISE = "noise: {transform: gaussian_noise, levels: [1, 3], table: wang}"
SITE = "  site_b: {where: {site: B}}"
DIM = "  dim: {transform: contrast, levels: [3], table: wang}"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return laid_out(tmp_path)


def costed(user: Path, circumstances: str, more: str = "", *changes: tuple[str, str]) -> Run:
    return run(
        user, SMALL, (NOISE, circumstances), ("execution:", COSTS.replace("MORE", more)), *changes
    )


def mean_cost(done: Run, kind: str, level: int | None = None) -> float:
    """Of the cases of a kind, from the table of cases; of those without a circumstance, the ones of a site."""
    cases = {n: np.asarray(c) for n, c in RunFolder.open(done.folder).cases().items()}
    rows = cases["circumstance"] == ("" if kind.startswith("site") else kind)
    if kind.startswith("site"):
        rows &= (np.array([int(s) % 4 == 0 for s in cases["sample"]])) == (kind == "site_b")
    if level is not None:
        rows &= cases["level"] == level
    return 4.0 * float(cases["failure"][rows].mean())


def agree(done: Run, by_hand: float, rate: float) -> None:
    report, forecast = (
        done.record.plain()["sections"]["risk"],
        done.record.plain()["sections"]["monitor"]["forecast"],
    )
    assert report["value"] == pytest.approx(by_hand) == pytest.approx(forecast["risk"])
    assert report["parameters"]["p_shift"] == pytest.approx(rate) == pytest.approx(forecast["rate"])
    assert forecast["high"] == pytest.approx(report["interval"]["high"], rel=0.03)


def test_filtered_cases_count_as_often_as_in_the_test_data_and_others_only_where_stated(
    user: Path,
) -> None:
    likely = NOISE.replace("}", ", probability: 0.1}")
    done = costed(user, f"{likely}\n{SITE}\n{DIM}")
    costs = {kind: mean_cost(done, kind) for kind in ("site_a", "site_b", "noise")}
    agree(done, 0.65 * costs["site_a"] + 0.25 * costs["site_b"] + 0.1 * costs["noise"], 0.35)
    assert (
        "risk: site_b (25.0%) counts as often as in the test data; say otherwise with probability: …"
        in done.record.notes
    )


def test_a_stated_rate_of_shift_is_shared_evenly_where_nothing_else_is_stated(user: Path) -> None:
    done = costed(user, f"{NOISE}\n{SITE}", ", constants: {p_shift: 0.4}")
    costs = {kind: mean_cost(done, kind) for kind in ("site_a", "site_b", "noise")}
    agree(done, 0.6 * costs["site_a"] + 0.2 * costs["site_b"] + 0.2 * costs["noise"], 0.4)
    assert not any("as often as in the test data" in n for n in done.record.notes)


def test_a_level_that_changes_nothing_has_its_share_of_the_cost_in_both(user: Path) -> None:
    done = costed(user, NOISE.replace("[1, 3]", "[0, 3]").replace("}", ", probability: 0.4}"))
    agree(done, 0.8 * mean_cost(done, "") + 0.2 * mean_cost(done, "noise", 3), 0.4)


def test_what_the_monitor_has_no_cases_of_costs_as_in_the_report(user: Path) -> None:
    """Calibration cases without a site: the monitor knows nothing of site B, the forecast counts it."""
    np.savez(user / "plain.npz", **{k: v for k, v in drawn(200, 2).items() if k != "site"})
    likely = NOISE.replace("}", ", probability: 0.1}")
    named = ("{npz: calibration.npz, columns: [site]}", "{npz: plain.npz}")
    done = costed(user, f"{likely}\n{SITE[:-1]}, probability: 0.2}}", ", tolerable: 2", named)
    costs = {kind: mean_cost(done, kind) for kind in ("site_a", "site_b", "noise")}
    agree(done, 0.7 * costs["site_a"] + 0.2 * costs["site_b"] + 0.1 * costs["noise"], 0.3)


def test_where_nobody_says_how_often_anything_occurs_there_is_no_forecast(user: Path) -> None:
    done = costed(user, f"{NOISE}\n{SITE}")
    because = (
        "no circumstance has a probability; give them one, or risk: {constants: {p_shift: 0.1}}"
    )
    assert (
        done.record.plain()["sections"]["risk"]["because"] == because
        and done.record.plain()["sections"]["monitor"]["forecast"] is None
    )
    chosen = done.record.sections["monitor"].chosen
    assert f"There is no forecast of the cost: {because}" in chosen


def test_filters_alone_need_no_probability_for_a_claim(user: Path) -> None:
    claimed = ("execution:", "claims:\n  - {id: R, risk: {max: 3}}\nexecution:")
    done = costed(user, SITE.strip(), "", claimed)
    agree(done, 0.75 * mean_cost(done, "site_a") + 0.25 * mean_cost(done, "site_b"), 0.25)
    assert done.verdict == "met"
