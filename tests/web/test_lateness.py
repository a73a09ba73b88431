"""Events refused as late or as ahead: each is told why, and if most are, there is no estimate."""

from __future__ import annotations

import time

import monitored
import pytest
from monitored import START, batch_of, counting_at, events, killed, serving

from roadworthy.monitor import Bundle, Taken
from roadworthy.web.events import Single
from roadworthy.web.lateness import LateTaken

LATER = START + 86_400.0


def test_there_is_no_estimate_while_most_events_are_late(made: Bundle, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(200, start=LATER), made)])
    assert counting.now().windows[0]["no_estimate"] is None and not counting.late
    assert counting.commit([batch_of(events(15, first=300), made)]) == [Taken(0, 0, 15, 0)]
    assert not counting.late, "fifteen of two hundred are not most of them"
    assert counting.commit([batch_of(events(90, first=400), made)]) == [Taken(0, 0, 90, 0)]
    now = counting.now()
    assert counting.late and now.tree.instead == counting.late
    for window in now.windows:
        assert window["no_estimate"] == counting.late and window["risk"] is None
    counting.commit([batch_of(events(110, first=500, start=LATER), made)])
    assert not counting.late and counting.now().windows[0]["no_estimate"] is None


def test_late_events_are_an_alarm_that_is_sent_once_also_over_a_restart(made: Bundle, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(100, start=LATER), made)])
    for first in (200, 300, 400):
        counting.commit([batch_of(events(100, first=first), made)])
    assert counting.outbox.kinds == ["no estimate"]
    again = killed(counting)
    assert not again.late, "a restart knows nothing about what comes now"
    again.commit([batch_of(events(5, first=500, start=LATER), made)])
    assert again.outbox.kinds == [], "five events say nothing"
    again.commit([batch_of(events(100, first=600), made)])
    assert again.late and again.outbox.kinds == [], "it was said before the restart"
    again.commit([batch_of(events(100, first=700, start=LATER), made)])
    assert again.outbox.kinds == ["estimates again"] and not again.late
    assert len({alarm["key"] for alarm in again.file.alarms()}) == 2


@pytest.mark.parametrize(("apart", "name"), [(-9000.0, "late"), (600.0, "ahead")])
def test_health_is_503_while_most_events_are_refused_and_recovers(
    bundle_path, tmp_path, apart, name
):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        service.post(events(100, start=now, step=0.001))
        assert service.ask("GET", "/health").status == 200
        assert service.post(events(150, first=200, start=now + apart, step=0.001)).json[name] == 150
        probe = service.ask("GET", "/health")
        assert probe.status == 503 and name in probe.json["status"]
        assert service.ask("GET", "/livez").status == 200
        windows = service.get("/v1/risk")["windows"]
        assert all(window["no_estimate"] == probe.json["status"] for window in windows)
        metrics = service.ask("GET", "/metrics").body.decode()
        assert "roadworthy_mostly_late 1" in metrics
        assert 'roadworthy_risk{window="100"} NaN' in metrics
        service.post(events(200, first=600, start=now, step=0.001))
        assert service.ask("GET", "/health").status == 200, "data come again"
        service.post(events(150, first=1000, start=now + apart, step=0.001))
        assert service.ask("GET", "/health").status == 503
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        assert service.ask("GET", "/health").status == 200, "a restart begins anew"
        service.post(events(200, first=2000, start=now, step=0.001))
        kinds = [alarm["kind"] for alarm in service.get("/v1/alarms")["alarms"]]
        assert kinds == ["no estimate", "estimates again"] * 2


def test_late_and_ahead_together_are_most_events(made: Bundle, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    now = time.time()
    counting.commit([batch_of(events(100, start=now, step=0.001), made)])
    counting.commit([batch_of(events(40, first=200, start=now - 9000.0, step=0.001), made)])
    assert not counting.late
    counting.commit([batch_of(events(40, first=300, start=now + 9000.0, step=0.001), made)])
    counting.commit([batch_of(events(30, first=400, start=now, step=0.001), made)])
    assert "40 late, 40 ahead" in counting.late


def test_an_answer_says_why_events_were_late_or_ahead(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        assert set(service.post(events(100, start=now, step=0.001)).json) == {
            *("accepted", "repeated", "late", "unscored", "ahead")
        }
        for n in (1, 30, 2000):
            late = service.post(events(n, first=10_000 + n, start=now - 90_000.0, step=0.001)).json
            assert late["late"] == n and "3,600 s" in late["why_late"]
            ahead = service.post(events(n, first=30_000 + n, start=now + 900.0, step=0.001)).json
            assert ahead["ahead"] == n and "60 s" in ahead["why_ahead"] and "why_late" not in ahead
        both = [
            *events(1, first=50_000, start=now - 90_000.0),
            {"id": "lacks all", "time": now, "scores": {}},
        ]
        found = service.post(both).json
        assert found["late"] == found["unscored"] == 1
        assert found["why_late"] and found["why_unscored"]


def test_an_event_older_than_all_known_ids_is_late(tmp_path):
    small = monitored.bundle(id_horizon=1000)
    counting = counting_at(tmp_path / "s.sqlite", small)
    capacity = counting.monitor.state.recent.capacity
    fast = [Single(f"e{i}", START + 0.01 * i, None, 0) for i in range(capacity + 100)]
    for at in range(0, len(fast), 5000):
        counting.commit(fast[at : at + 5000])
    (late,) = counting.commit([Single("slow", START, None, 0)])
    assert isinstance(late, LateTaken) and late.late == 1 and "known ids" in late.why["why_late"]
