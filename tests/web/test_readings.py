"""Points of the charts: one a look of the alarm, in the time of events, however fast they came."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import monitored
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import START, events, serving, until

from roadworthy.monitor import Alarm, Bundle, Events, Monitor
from roadworthy.monitor.alarm import Alarmed
from roadworthy.web import views
from roadworthy.web.batch import Batch
from roadworthy.web.counting import Counting
from roadworthy.web.ledger import Ledger
from roadworthy.web.readings import (
    AT_ONCE,
    IN_A_HURRY,
    MOST,
    _on,
    _on_by_scores,
    due,
    readings,
    thinned,
)


def monitor_of(made: Bundle, n: int) -> Monitor:
    monitor = Monitor(made)
    told = events(400)[:n]
    columns = {name: [event["scores"][name] for event in told] for name in made.calibration.names}
    monitor.update(
        Events([event["id"] for event in told], [event["time"] for event in told], columns=columns)
    )
    return monitor


@given(
    *(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 60)),
    *(st.sets(st.integers(0, 6000), max_size=5), st.integers(1, 100)),
)
def test_looks_are_thinned_evenly_but_neither_alarms_nor_the_last(before, more, stride, kept, most):
    counted = before + more
    looks = counted // stride - before // stride
    every = thinned(looks, most)
    found = due(before, counted, stride=stride, kept=kept, every=every)
    assert found == sorted(set(found)) and len(found) <= most + len(kept) + 1
    assert (more == 0) == (found == [])
    if more:
        assert found[-1] == counted and {n for n in kept if before < n <= counted} <= set(found)
        even = [n for n in found if n % (stride * every) == 0]
        assert even == [n for n in range(before + 1, counted + 1) if n % (stride * every) == 0]
        assert set(found) <= {*even, *kept, counted}
        assert looks > most or len({n for n in found if n % stride == 0}) >= looks


def test_a_point_says_what_the_monitor_said_then(made):
    whole, half = monitor_of(made, 400), monitor_of(made, 200)
    assert whole.autocorrelation_time == half.autocorrelation_time == 1.0
    points = {point["event"]: point for point in readings(whole, 0, at_once=MOST)}
    assert list(points) == list(range(20, 401, 20))
    for monitor, n in ((half, 200), (whole, 400)):
        said = monitor.risk()
        assert points[n]["time"] == START + n - 1 == said.end
        for name in set(views.FIGURES) - {"alarm_log_odds"}:
            assert points[n][name] == pytest.approx(getattr(said, name)), name
    # What the alarm watches is worked out by what it knows now of how much events resemble each other.
    assert points[400]["alarm_log_odds"] == pytest.approx(whole.risk().alarm_log_odds)
    assert points[80]["alarm_log_odds"] is None, "its window is not full"


def test_a_burst_is_worked_off_in_parts_and_a_restart_goes_on_where_it_was(made, tmp_path):
    path, told = tmp_path / "s.sqlite", events(1000)
    columns = {
        name: np.array([event["scores"][name] for event in told]) for name in made.calibration.names
    }
    cells = made.calibration.place(columns)

    def opened() -> Counting:
        return Counting(made, Ledger(path, bundle=made.id, content="{}"))

    counting = opened()
    counting.commit([Batch([e["id"] for e in told], np.array([e["time"] for e in told]), cells)])
    counting.read()
    assert [r["event"] for r in counting.ledger.readings()] == list(range(20, 20 * AT_ONCE + 1, 20))
    counting.ledger.close()  # as if it had been killed
    counting = opened()
    counting.commit([Batch(["late one"], np.array([told[-1]["time"] + 1.0]), cells[:1])])
    counting.close()
    ledger = Ledger(path)
    assert [r["event"] for r in ledger.readings()] == [*range(20, 1001, 20), 1001]
    ledger.close()


def test_two_things_said_at_one_look_are_both_told(made, tmp_path):
    told: list[str] = []
    ledger = Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}")
    counting = Counting(made, ledger, alarmed=lambda alarm: told.append(alarm["kind"]))
    alarm = Alarm(START, 100, "raised", 0.99, 0.4, 5.0)
    for kind in ("raised", "cannot tell"):
        counting.monitor.alarms.append(replace(alarm, kind=kind))
        counting._notice_alarms()
        counting._notice_alarms()
    assert told == ["raised", "cannot tell"]
    counting.close()


def test_a_thousand_events_at_once_leave_a_curve_and_alarms_say_that_nobody_was_told(
    bundle_path, tmp_path
):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(500) + events(500, first=500, shifted=0.9))
        found = until(
            lambda: (
                [r for r in service.get("/v1/history")["readings"] if r["event"] == 1000]
                and service.get("/v1/history")
            )
        )
        assert [r["event"] for r in found["readings"]] == list(range(20, 1001, 20))
        alarms = service.get("/v1/alarms")["alarms"]
        assert alarms and {alarm["delivered"] for alarm in alarms} == {"no webhook"}
        lost = service.ask("GET", "/v1/nothing")
        assert lost.status == 404 and "docs/" not in lost.json["error"]
        for address in ("POST /v1/events", "GET /v1/risk", "GET /metrics"):
            assert address in lost.json["error"]


def test_no_gauge_has_a_figure_that_cannot_be_relied_on(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        strange = [
            {**event, "scores": {"knn": 40.0 + i % 7, "energy": -40.0}}
            for i, event in enumerate(events(150))
        ]
        service.post([*strange, {"id": "nothing", "time": START + 150, "scores": {}}])
        text = service.ask("GET", "/metrics").body.decode()
        numbers = dict(
            line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
        )
        assert numbers['roadworthy_cannot_tell{window="100"}'] == "1"
        for name in ("risk", "risk_high", "exceedance", "log_odds", "accuracy", "rate"):
            assert numbers[f'roadworthy_{name}{{window="100"}}'] == "NaN", name
        assert numbers['roadworthy_unscored{window="100"}'] == "1"
        assert numbers['roadworthy_n{window="100"}'] == "99"


def test_whether_the_scores_alarm_was_on_is_known_after_one_by_labels():
    said = [
        Alarm(0.0, 10, "raised"),
        Alarm(0.0, 20, "raised", by_labels=1),
        Alarm(0.0, 30, "cleared", by_labels=2),
    ]
    told = SimpleNamespace(
        alarms=[*said, Alarm(0.0, 40, "raised", by_labels=3)], alarmed=Alarmed([(4, 25)])
    )
    assert [_on(told, event) for event in (5, 10, 25, 30, 45)] == [False, True, True, False, True]
    assert [_on_by_scores(told, event) for event in (5, 10, 24, 25, 30, 45)] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]


def posted(counting: Counting, made: Bundle, n: int, *, first: int = 0) -> None:
    cells = np.random.default_rng(first).integers(0, made.calibration.cells, n).astype(np.int16)
    names, times = (
        [f"e{i}" for i in range(first, first + n)],
        START + 0.001 * np.arange(first, first + n),
    )
    counting.commit([Batch(names, times, cells)])


def test_after_a_large_post_the_looks_that_are_shown_lie_evenly(made, tmp_path):
    counting = Counting(made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"))
    posted(counting, made, 50_000)
    for _ in range(4):
        assert counting.read()
    found = counting.history(after=-np.inf, after_event=-1, limit=5000)
    even = [r["event"] for r in found["readings"] if r["event"] % 100 == 0]
    assert len(even) > AT_ONCE and even == list(range(100, even[-1] + 1, 100)), (
        "2,500 looks: one in five is shown"
    )
    assert found["counted"] == 50_000 and found["look_every"] == 20
    # From the first to the last that is shown, each look is shown or is said to be left out.
    every = {e for e in (r["event"] for r in found["readings"]) if e % 20 == 0}
    assert found["looks_left_out"] == (max(every) - min(every)) // 20 + 1 - len(every)
    counting.ledger.close()


def test_where_events_come_faster_than_points_the_curve_gets_coarser_and_not_behind(made, tmp_path):
    counting = Counting(made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"))
    posted(counting, made, 4000)
    assert counting.read()
    posted(counting, made, 4000, first=4000)
    counting.read()
    # Points at which an alarm changed come on top of the even ones, and push the last out of this round.
    assert (
        counting.curve.upto > 8000 - 2 * 8000 // AT_ONCE
        and len(counting.ledger.readings()) <= 2 * AT_ONCE
    )
    counting.ledger.close()


def test_events_that_leave_before_they_are_shown_leave_points(tmp_path):
    small = monitored.bundle(id_horizon=1000)
    counting = Counting(small, Ledger(tmp_path / "s.sqlite", bundle=small.id, content="{}"))
    capacity = counting.monitor.state.recent.capacity
    for first in range(0, 2 * capacity, capacity // 2):
        posted(counting, small, capacity // 2, first=first)
    while counting.read():
        pass
    found = counting.ledger.readings()
    events = [0, *(r["event"] for r in found)]
    assert max(np.diff(events)) <= 2 * capacity / IN_A_HURRY and events[-1] == 2 * capacity
    assert {r["n"] for r in found if r["event"] >= 100} == {100}, "no point of half a window"
    counting.ledger.close()


def test_a_window_that_has_lost_events_is_no_point(made):
    monitor = Monitor(made)
    n = monitor.state.recent.capacity + 5000
    cells = np.random.default_rng(0).integers(0, made.calibration.cells, n).astype(np.int16)
    monitor.update(Events(None, None, cells=cells))
    points = readings(monitor, 0)
    assert points[0]["event"] >= 5000 + 100 and {point["n"] for point in points} == {100}


def test_the_history_reaches_the_last_event_of_a_post_that_was_answered(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(3000))
        found = service.get("/v1/history")
        assert (
            found["counted"] == found["readings"][-1]["event"] == 3000
            and found["looks_left_out"] == 0
        )
        assert [r["event"] for r in found["readings"]] == list(range(20, 3001, 20))


def test_a_point_that_cannot_be_told_has_no_figures(made):
    monitor = monitor_of(made, 100)
    monitor.update(
        Events([f"u{i}" for i in range(60)], START + 100.0 + np.arange(60), cells=[-1] * 60)
    )
    points = readings(monitor, 0, at_once=MOST)
    untold = [point for point in points if point["cannot_tell"] is not None]
    assert [point["event"] for point in untold] == [140, 160], "from a fifth without scores on"
    assert all(point[name] is None for point in untold for name in views.FIGURES)
    assert all(point["risk"] is not None for point in points if point not in untold)


def test_who_goes_on_from_an_event_gets_every_reading(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(300))

        def page(query: str) -> list[int]:
            return [reading["event"] for reading in service.get(f"/v1/history?{query}")["readings"]]

        found, looks = [0], list(range(20, 301, 20))
        while events_of := page(f"after_event={found[-1]}&limit=4"):
            found += events_of
        assert found[1:] == looks == page("after_event=-1")
        assert page(f"after={START + 99}&limit=2") == [120, 140]
        assert page("limit=4") == looks[-4:], "who asks for no place in it gets the latest"
