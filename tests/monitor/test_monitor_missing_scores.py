"""Events that lack scores which the calibration always had say nothing; it is said why, and by one rule everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ready_made import alarm_rule
from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.looks import LEAST_SCORED

NAMES = ("conf", "knn", "recon")


def scores_of(shifted: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(2.5 * shifted) for name in NAMES}


def learned(*, holes: float = 0.0) -> Calibration:
    shifted = np.repeat([0, 1], 500)
    rng = np.random.default_rng(1)
    columns = scores_of(shifted, 2)
    for column in columns.values():
        column[rng.random(1000) < holes] = np.nan
    return calibrate(
        columns, np.where(shifted, "fog", "clean"), rng.random(1000) < np.where(shifted, 0.4, 0.95)
    )


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """With an alarm that nobody had to set by simulation."""
    made = Bundle.compile(learned(), accuracy_tree(), subject="s", windows=Windows((100,)))
    return replace(made, tolerable=0.2, alarm=alarm_rule(by_time=((1.0, 3.0), (50.0, 3.0))))


def lacking(n: int, gone: int, *, name: str = "recon", seed: int = 3) -> dict[str, np.ndarray]:
    """Clean events, of which the last so many lack a score."""
    columns = scores_of(np.zeros(n), seed)
    columns[name][n - gone :] = np.nan
    return columns


def test_it_is_known_which_scores_calibration_rows_always_had():
    assert learned().always == NAMES and learned(holes=0.1).always == ()
    found = learned()
    columns = lacking(10, 4)
    assert (found.place(columns) < 0).sum() == 4
    assert found.lacks(columns) == {"recon": 4}
    assert found.lacks(lacking(10, 0)) == {}
    assert (
        found.why_nowhere(1, lacking=["recon"])
        == "lacks a score that every calibration row had: recon"
    )
    assert learned(holes=0.1).why_nowhere(3) == "have no score at all"


def test_a_misspelt_score_of_a_single_event_is_refused_and_more_scores_than_needed_are_not(bundle):
    monitor = Monitor(bundle)
    with pytest.raises(
        EventError,
        match=r"event 'a': unknown score 'knm' \(did you mean 'knn'\?\); .* conf, knn, recon",
    ):
        monitor.update_one("a", 1000.0, {"conf": 1.0, "knm": 2.0, "recon": 0.5})
    assert monitor.state.taken.total == 0
    whole = {"conf": 1.0, "knn": 2.0, "recon": 0.5}
    assert monitor.update_one("a", 1000.0, {**whole, "latency": 3.0}).accepted == 1
    assert monitor.update_one("b", 1000.0, {**whole, "knn": np.nan, "latency": 3.0}).unscored == 1
    assert monitor.update_one("c", 1000.0, {"conf": 1.0}).unscored == 1


def test_a_monitor_says_of_events_without_a_place_what_they_lack(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(columns=lacking(100, 10)))
    notes = " ".join(monitor.risk().notes)
    assert (
        "10 of 100 events say nothing, since they lack a score that every calibration row had"
        in notes
    )
    assert "no score" not in notes
    one = Monitor(bundle)
    one.update(Events(columns=lacking(100, 1)))
    assert "1 of 100 events says nothing, since it lacks a score" in " ".join(one.risk().notes)


@pytest.mark.parametrize("gone", [0, 20, 21, 40, 98, 100])
def test_no_figures_stand_where_more_than_a_fifth_has_no_place_and_the_alarm_says_the_same(
    bundle, gone
):
    """The rule of `Monitor.risk` is that of the alarm: as soon as one cannot tell, the other cannot."""
    monitor = Monitor(bundle)
    monitor.update(Events(columns=scores_of(np.zeros(1000), 5)))
    for _ in range(4):
        monitor.update(Events(columns=lacking(100, gone)))
    risk = monitor.risk()
    assert (risk.n, risk.unscored) == (100 - gone, gone)
    told = 100 - gone >= LEAST_SCORED * 100
    assert (risk.cannot_tell is None) == told == (not monitor.cannot_tell)
    if not told:
        assert risk.cannot_tell == monitor.alarms[-1].reason
        assert risk.cannot_tell.startswith(
            f"{gone} of 100 events lack a score that every calibration row had"
        )


def test_a_supervisor_that_fails_on_just_the_shifted_inputs_is_no_good_news(bundle):
    """Four events in ten are shifted, and on exactly those a score is missing: what remains looks clean."""
    monitor = Monitor(bundle)
    monitor.update(Events(columns=scores_of(np.zeros(1000), 6)))
    shifted = np.random.default_rng(7).random(600) < 0.4
    columns = scores_of(shifted, 8)
    columns["recon"][shifted] = np.nan
    monitor.update(Events(columns=columns))
    assert monitor.risk().cannot_tell is not None and monitor.cannot_tell


def test_spans_of_history_follow_the_same_rule(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(None, np.arange(300.0), columns=lacking(300, 150)))
    assert any(
        said.cannot_tell and "lack a score" in said.cannot_tell for said in monitor.history(300.0)
    )
