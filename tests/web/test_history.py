"""Points of the charts: in the time of events, however fast they came, and within a budget."""

from __future__ import annotations

import pytest
from monitored import START, batch_of, counting_at, events, killed, serving, until

from roadworthy.monitor import Bundle
from roadworthy.web import views
from roadworthy.web.counting import Counting
from roadworthy.web.history import BURST_S, SHARE, Curve


def points(counting: Counting) -> list[dict]:
    counting.read()
    return counting.file.readings()


def test_a_batch_that_is_posted_at_once_shows_its_curve(made: Bundle, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(1000, shifted=0.0), made)])
    counting.commit([batch_of(events(1000, first=1000, shifted=0.9), made)])
    found = points(counting)
    numbers = [point["event"] for point in found]
    assert len(found) >= 10 and numbers == sorted(set(numbers)) and numbers[-1] == 2000
    assert all(point["time"] == START + point["event"] - 1 for point in found)
    assert not found[0]["alarm"] and found[-1]["alarm"] and found[-1]["alarm_by_scores"]
    said = counting.monitor.risk()
    assert [found[-1][name] for name in views.FIGURES] == [getattr(said, n) for n in views.FIGURES]


def test_points_of_a_slow_stream_are_those_of_every_look(made: Bundle, tmp_path, monkeypatch):
    counting = counting_at(tmp_path / "s.sqlite", made)
    monkeypatch.setattr(counting.curve, "affordable", lambda: 1)
    for first in range(0, 200, 5):
        counting.commit([batch_of(events(5, first=first), made)])
    assert [point["event"] for point in points(counting)] == list(range(20, 201, 20))
    again = killed(counting)
    again.commit([batch_of(events(7, first=200), made)])
    assert [point["event"] for point in points(again)][-2:] == [200, 207]


def test_points_take_a_share_of_the_time_and_no_more():
    now = 0.0
    curve = Curve(0, clock=lambda: now)
    curve._cost = 0.01
    assert curve.affordable() == int(BURST_S / 0.01)
    curve._saved = 0.0
    assert curve.affordable() == 0
    now = 1.0
    assert curve.affordable() == int(SHARE / 0.01)
    now = 1000.0
    assert curve.affordable() == int(BURST_S / 0.01)


def test_who_continues_from_an_event_gets_every_reading(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(400))

        def page(query: str) -> list[int]:
            return [reading["event"] for reading in service.get(f"/v1/history?{query}")["readings"]]

        found, looks = [0], page("limit=5000")
        while events_of := page(f"after_event={found[-1]}&limit=4"):
            found += events_of
        assert found[1:] == looks and looks[-1] == 400
        assert page("limit=4") == looks[-4:], "without a place in it, the latest"
        whole = service.get("/v1/history")
        assert whole["counted"] == 400 and whole["look_every"] == 20


def test_an_event_ahead_does_not_hold_the_points_after_it(bundle_path, tmp_path):
    import time

    with serving(bundle_path, tmp_path / "s.sqlite") as service:

        def found(after: int) -> list[dict]:
            return service.get(f"/v1/live?after_event={after}")["history"]

        now = time.time()
        service.post(events(100, start=now - 60.0, step=0.1))
        service.post([{**events(1, first=200)[0], "time": now + 50.0}])
        until(lambda: [p for p in found(-1) if p["event"] == 101])
        for i, first in enumerate((300, 400)):
            service.post(events(100, first=first, start=now - 45.0 - 0.1 * first, step=0.1))
            last = 201 + 100 * i
            more = until(lambda: [p for p in found(last - 100) if p["event"] >= last])  # noqa: B023
            assert max(p["time"] for p in more) <= time.time()
        numbers = [p["event"] for p in found(-1)]
        assert numbers == sorted(numbers) and found(numbers[-1]) == []


@pytest.mark.parametrize("share", [3, 2])
def test_points_without_an_estimate_have_no_figures(made: Bundle, tmp_path, share):
    counting = counting_at(tmp_path / "s.sqlite", made)
    lacking = [
        {**event, "scores": {}} if i % share == 0 else event for i, event in enumerate(events(300))
    ]
    counting.commit([batch_of(lacking, made)])
    found = points(counting)
    assert found[-1]["no_estimate"] and all(found[-1][name] is None for name in views.FIGURES)
