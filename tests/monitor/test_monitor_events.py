"""Bad input is refused with the event's id and changes nothing; late, repeated and unordered events are counted as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ready_made import alarm_rule
from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Taken, Windows
from roadworthy.monitor.messages import LEAST_SCORED

NAMES = ("conf", "knn", "recon")


def codes(monitor: Monitor) -> set[str]:
    return {note.code for note in monitor.risk().notes}


def test_an_infinite_score_is_refused_with_its_event_and_nothing_of_the_call_is_counted(bundle):
    monitor = Monitor(bundle)
    with pytest.raises(EventError, match="Event 'b' has an infinite energy"):
        monitor.update(Events(["a", "b"], [1.0, 2.0], columns={"energy": [0.0, np.inf]}))
    with pytest.raises(EventError, match=r"Event 'c'.*infinite"):
        monitor.update_one("c", 1.0, {"energy": -np.inf})
    assert monitor.state.counted == 0 and not monitor.state.taken.total


def test_an_event_without_a_score_is_counted_and_says_nothing(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(
        Events(["a", "b"], [1.0, 2.0], columns={"energy": [0.0, np.nan]})
    ) == Taken(1, 0, 0, 1)
    assert monitor.update_one("c", 3.0, {"energy": np.nan}) == Taken(0, 0, 0, 1)
    assert monitor.update_one("d", 3.0, {}) == Taken(0, 0, 0, 1)
    risk = monitor.risk()
    assert (risk.n, risk.unscored) == (1, 3)
    assert "unscored" in codes(monitor)


def test_when_all_detectors_fall_silent_the_window_forgets_what_they_said(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": scores_at(200, 1.0)}))
    assert monitor.risk().rate > 0.7
    monitor.update(Events(None, None, columns={"energy": np.full(200, np.nan)}))
    assert monitor.risk().n == 0 and monitor.risk().no_estimate is not None


@pytest.mark.parametrize("time", [np.nan, np.inf, 1e20])
def test_a_time_that_no_clock_shows_is_refused_with_its_event(bundle, time):
    monitor = Monitor(bundle)
    with pytest.raises(EventError, match="Event 'b' has the time"):
        monitor.update(Events(["a", "b"], [1.0, time], cells=[0, 0]))
    assert monitor.state.counted == 0


def test_events_of_another_subject_are_refused(bundle):
    monitor = Monitor(bundle)
    with pytest.raises(
        EventError, match=r"of 'lesion-2\.4'; this monitor watches 'lesion-2\.3\.1'"
    ):
        monitor.update(Events(["a"], [1.0], cells=[0]), subject="lesion-2.4")
    with pytest.raises(EventError, match="watches"):
        monitor.update_one("a", 1.0, {"energy": 0.0}, subject="lesion-2.4")
    assert monitor.update(Events(["a"], [1.0], cells=[0]), subject="lesion-2.3.1").accepted == 1


def test_a_missing_column_is_named(bundle):
    with pytest.raises(EventError, match="'energy' is missing"):
        Monitor(bundle).update(Events(["a"], [1.0], columns={"knn": [0.0]}))


def test_cells_times_and_ids_must_fit(bundle):
    monitor = Monitor(bundle)
    cells = bundle.calibration.cells
    with pytest.raises(EventError, match=f"Event 'a' has cell {cells}"):
        monitor.update(Events(["a"], [1.0], cells=[cells]))
    with pytest.raises(EventError, match="cell -2"):
        monitor.update_one("a", 1.0, cell=-2)
    with pytest.raises(EventError, match="2 events need 2 ids, found 1"):
        monitor.update(Events(["a"], [1.0, 2.0], cells=[0, 0]))
    with pytest.raises(EventError, match="2 events need 2 times"):
        monitor.update(Events(["a", "b"], [1.0], cells=[0, 0]))
    with pytest.raises(EventError, match="either columns"):
        Events(["a"], [1.0])
    with pytest.raises(EventError, match="text or a whole number"):
        monitor.update(Events([1.5], [1.0], cells=[0]))


def test_a_clock_that_goes_back_makes_events_late_and_says_so(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(["a", "b"], [5000.0, 5001.0], cells=[0, 0]))
    assert monitor.update(Events(["c", "d"], [4500.0, 1000.0], cells=[1, 1])) == Taken(1, 0, 1, 0)
    assert monitor.state.recent.time.tolist() == [4500.0, 5000.0, 5001.0]
    assert "late" in codes(monitor)


def test_one_clock_ahead_does_not_make_all_others_late(bundle):
    monitor = Monitor(bundle)
    ahead = Events(["a", "b"], [1000.0, 9e9], cells=[0, 0])
    assert monitor.update(ahead, now=1000.0) == Taken(1, 0, 0, 0, 1)
    assert monitor.update_one("c", 9e9, cell=0, now=1001.0) == Taken(0, 0, 0, 0, 1)
    assert monitor.update_one("d", 1001.0, cell=0, now=1001.0).accepted == 1
    assert "ahead" in codes(monitor)


def test_unnamed_events_are_never_repeated_and_are_named_after_their_replica(bundle):
    monitor = Monitor(bundle, replica="r")
    assert monitor.update(Events(None, None, cells=[0, 1])).accepted == 2
    assert monitor.update(Events(None, None, cells=[0, 1])).accepted == 2
    assert monitor.update_one(None, 10.0, cell=2).accepted == 1
    monitor.label("r#4", True)
    assert monitor.state.labels.given["r#4"].cell == 2


def test_unnamed_events_of_two_replicas_are_different_events(bundle):
    a, b = Monitor(bundle, replica="a"), Monitor(bundle, replica="b")
    for one in (a, b):
        one.update(Events(None, [1.0, 2.0], cells=[0, 1]))
    a.label("a#1", False)
    a.merge(b)
    assert a.state.taken.accepted == 4 and a.state.labels.given["a#1"].cell == 1


def test_single_events_and_calls_lead_to_the_same_state(bundle, scores_at):
    one, many = Monitor(bundle), Monitor(bundle)
    scores = scores_at(300, 0.2)
    names, times = [f"e{i}" for i in range(300)], np.arange(300.0)
    many.update(Events(names, times, columns={"energy": scores}))
    for name, time, score in zip(names, times.tolist(), scores.tolist(), strict=True):
        one.update_one(name, time, {"energy": score})
    assert one.state.recent.cell.tolist() == many.state.recent.cell.tolist()
    assert one.risk() == many.risk()


def test_a_clock_a_little_ahead_takes_little_of_the_patience_with_others(bundle):
    monitor = Monitor(bundle)
    ahead = Events(["a"], [1000.0 + bundle.lateness - 1.0], cells=[0])
    assert monitor.update(ahead, now=1000.0) == Taken(0, 0, 0, 0, 1)
    assert monitor.update_one("b", 1059.0, cell=0, now=1000.0) == Taken(1, 0, 0, 0)
    others = Events([f"c{i}" for i in range(50)], [995.0] * 50, cells=[0] * 50)
    assert monitor.update(others, now=1000.0).accepted == 50


@pytest.mark.parametrize("time", [1.79e12, -1.79e12, 1.79e15])
def test_milliseconds_are_no_seconds(bundle, time):
    with pytest.raises(EventError, match="seconds"):
        Monitor(bundle).update(Events(["a"], [time], cells=[0]))
    with pytest.raises(EventError, match="seconds"):
        Monitor(bundle).update_one("a", time, cell=0)


def scores_of(shifted: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(2.5 * shifted) for name in NAMES}


def learned(*, holes: float = 0.0) -> Calibration:
    shifted = np.repeat([0, 1], 500)
    rng = np.random.default_rng(1)
    columns = scores_of(shifted, 2)
    for column in columns.values():
        column[rng.random(1000) < holes] = np.nan
    return fit_calibration(
        columns, np.where(shifted, "fog", "clean"), rng.random(1000) < np.where(shifted, 0.4, 0.95)
    )


@pytest.fixture(scope="module")
def of_three_scores() -> Bundle:
    """With an alarm that nobody had to set by simulation."""
    made = Bundle.compile(learned(), accuracy_tree(), subject="s", windows=Windows((100,)))
    return replace(made, tolerable=0.2, alarm=alarm_rule(table=((1.0, 100, 3.0), (50.0, 100, 3.0))))


def lacking(n: int, gone: int, *, name: str = "recon", seed: int = 3) -> dict[str, np.ndarray]:
    """Clean events, of which the last so many lack a score."""
    columns = scores_of(np.zeros(n), seed)
    columns[name][n - gone :] = np.nan
    return columns


def test_an_event_that_lacks_a_score_which_calibration_rows_always_had_has_no_place():
    found, columns = learned(), lacking(10, 4)
    assert (found.place(columns) < 0).sum() == 4
    last = {name: float(column[-1]) for name, column in columns.items()}
    assert found.why_nowhere(1, last) == "lacks recon" and found.place_one(last) < 0
    assert learned(holes=0.1).place_one(last) >= 0


def test_a_misspelt_score_of_a_single_event_is_refused_and_more_scores_than_needed_are_not(
    of_three_scores,
):
    monitor = Monitor(of_three_scores)
    with pytest.raises(
        EventError,
        match=r"Event 'a': .*knm.*knn",
    ):
        monitor.update_one("a", 1000.0, {"conf": 1.0, "knm": 2.0, "recon": 0.5})
    assert monitor.state.taken.total == 0
    whole = {"conf": 1.0, "knn": 2.0, "recon": 0.5}
    assert monitor.update_one("a", 1000.0, {**whole, "latency": 3.0}).accepted == 1
    assert monitor.update_one("b", 1000.0, {**whole, "knn": np.nan, "latency": 3.0}).unscored == 1
    assert monitor.update_one("c", 1000.0, {"conf": 1.0}).unscored == 1


def test_a_monitor_says_of_events_without_a_place_what_they_lack(of_three_scores):
    monitor = Monitor(of_three_scores)
    monitor.update(Events(columns=lacking(100, 10)))
    (said,) = [note for note in monitor.risk().notes if note.code == "unscored"]
    assert said.startswith("10 of 100 events")


@pytest.mark.parametrize("gone", [0, 20, 21, 40, 98, 100])
def test_no_figures_stand_where_more_than_a_fifth_has_no_place_and_the_alarm_says_the_same(
    of_three_scores, gone
):
    """The rule of `Monitor.risk` is that of the alarm: as soon as one no estimate, the other cannot."""
    monitor = Monitor(of_three_scores)
    monitor.update(Events(columns=scores_of(np.zeros(1000), 5)))
    for _ in range(4):
        monitor.update(Events(columns=lacking(100, gone)))
    risk = monitor.risk()
    assert (risk.n, risk.unscored) == (100 - gone, gone)
    told = 100 - gone >= LEAST_SCORED * 100
    assert (risk.no_estimate is None) == told == (not monitor.no_estimate)
    if not told:
        assert risk.no_estimate == monitor.alarms[-1].reason
        assert risk.no_estimate.startswith(f"{gone} of 100 events")


def test_a_supervisor_that_fails_on_just_the_shifted_inputs_is_no_good_news(of_three_scores):
    """Four events in ten are shifted, and on exactly those a score is missing: what remains looks clean."""
    monitor = Monitor(of_three_scores)
    monitor.update(Events(columns=scores_of(np.zeros(1000), 6)))
    shifted = np.random.default_rng(7).random(600) < 0.4
    columns = scores_of(shifted, 8)
    columns["recon"][shifted] = np.nan
    monitor.update(Events(columns=columns))
    assert monitor.risk().no_estimate is not None and monitor.no_estimate


def test_spans_of_history_follow_the_same_rule(of_three_scores):
    monitor = Monitor(of_three_scores)
    monitor.update(Events(None, np.arange(300.0), columns=lacking(300, 150)))
    assert any(
        said.no_estimate and " of 300 events " in said.no_estimate
        for said in monitor.history(300.0)
    )


def test_ids_that_are_numbers_of_numpy_are_kept(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events([np.int64(1), np.str_("x")], [1.0, 2.0], cells=[0, 0]))
    monitor.update(Events(np.array([5, 6]), [3.0, 4.0], cells=[0, 0]))
    monitor.update_one(np.int32(7), 5.0, cell=0)
    monitor.label(np.int64(7), True)
    again = Monitor.from_bytes(bundle, monitor.to_bytes())
    assert again.state.recent.ids == [1, "x", 5, 6, 7]
    assert again.update(Events([1, "x", 5, 6, 7], np.arange(5.0), cells=[0] * 5)).repeated == 5


def test_an_event_too_old_for_the_ids_held_is_late(bundle: Bundle):
    monitor = Monitor(bundle)
    n = monitor.state.recent.capacity + 1000
    time = 1e9 + np.arange(n) / 50_000
    monitor.update(Events(np.arange(n), time, cells=np.zeros(n, dtype=int)))
    assert monitor.update(Events([-1], [time[-1] - 3.0], cells=[0])).late == 1
    assert "late" in codes(Monitor.from_bytes(bundle, monitor.to_bytes()))
