"""A stream that is refused as late is said to be, and an event ahead of the clock holds nobody's chart."""

from __future__ import annotations

import json
import sqlite3
import time

from monitored import START, events, serving, until

from roadworthy.monitor import Bundle, Taken
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger


def counting_at(path, made: Bundle, **more) -> Counting:
    return Counting(made, Ledger(path, bundle=made.id, content="{}"), **more)


def batch(items: list[dict], made: Bundle):
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


def test_figures_are_not_told_while_most_events_are_refused_as_late(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch(events(200, start=START + 86_400.0), made)])
    assert counting.windows()[0]["cannot_tell"] is None and not counting.late
    assert counting.commit([batch(events(15, first=300), made)]) == [Taken(0, 0, 15, 0)]
    assert not counting.late, "fifteen of two hundred are not most of them"
    assert counting.commit([batch(events(90, first=400), made)]) == [Taken(0, 0, 90, 0)]
    for window in counting.windows():
        assert "refused as late" in window["cannot_tell"] and "2023-11-15" in window["cannot_tell"]
    counting.commit([batch(events(110, first=500, start=START + 86_400.0), made)])
    assert not counting.late and counting.windows()[0]["cannot_tell"] is None
    counting.close()


def test_that_most_events_are_late_is_an_alarm_told_once_also_over_a_restart(made, tmp_path):
    told: list[dict] = []

    def opened() -> Counting:
        ledger = Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}")

        def alarmed(alarm: dict) -> None:
            told.append(alarm)
            ledger.keep_alarm(alarm, delivered=None)

        return Counting(made, ledger, alarmed=alarmed)

    counting = opened()
    counting.commit([batch(events(100, start=START + 86_400.0), made)])
    for first in (200, 300, 400):
        counting.commit([batch(events(100, first=first), made)])
    assert [alarm["kind"] for alarm in told] == ["cannot tell"] and "refused as late" in told[0][
        "reason"
    ]
    counting.close()
    counting = opened()
    assert counting.late == told[0]["reason"] == counting.windows()[0]["cannot_tell"], (
        "as it was said before"
    )
    counting.commit([batch(events(5, first=500, start=START + 86_400.0), made)])
    assert len(told) == 1 and counting.late, "five events say nothing"
    counting.commit([batch(events(100, first=600), made)])
    counting.commit([batch(events(100, first=700, start=START + 86_400.0), made)])
    assert [alarm["kind"] for alarm in told] == ["cannot tell", "can tell"]
    assert not counting.late and counting.windows()[0]["cannot_tell"] is None
    assert told[0]["key"] != told[1]["key"] and json.dumps(told[1]["risk"]) == "null"
    counting.close()


def test_a_service_to_which_everything_is_late_is_not_well(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        service.post(events(100, start=now, step=0.001))
        assert service.ask("GET", "/health").status == 200
        assert (
            service.post(events(150, first=200, start=now - 9000.0, step=0.001)).json["late"] == 150
        )
        probe = service.ask("GET", "/health")
        assert probe.status == 503 and "refused as late" in probe.json["status"]
        assert all(
            "refused as late" in window["cannot_tell"]
            for window in service.get("/v1/risk")["windows"]
        )
        metrics = service.ask("GET", "/metrics").body.decode()
        assert (
            "roadworthy_mostly_late 1" in metrics and 'roadworthy_risk{window="100"} NaN' in metrics
        )
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        assert service.ask("GET", "/health").json == probe.json, "a restart has changed nothing"
        assert service.get("/v1/live")["windows"][0]["risk"] is None
        service.post(events(200, first=600, start=now, step=0.001))
        assert service.ask("GET", "/health").status == 200
        assert [alarm["kind"] for alarm in service.get("/v1/alarms")["alarms"]] == [
            "cannot tell",
            "can tell",
        ]


def test_a_service_to_which_everything_is_ahead_is_not_well(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        service.post(events(100, start=now, step=0.001))
        assert (
            service.post(events(30, first=200, start=now + 600.0, step=0.001)).json["ahead"] == 30
        )
        assert service.ask("GET", "/health").status == 200, (
            "thirty of a hundred and thirty are not most of them"
        )
        assert (
            service.post(events(120, first=300, start=now + 600.0, step=0.001)).json["ahead"] == 120
        )
        probe = service.ask("GET", "/health")
        assert probe.status == 503 and "ahead of this machine's clock" in probe.json["status"]
        assert all(
            window["cannot_tell"] == probe.json["status"]
            for window in service.get("/v1/risk")["windows"]
        )
        assert "roadworthy_mostly_late 1" in service.ask("GET", "/metrics").body.decode()
        (alarm,) = service.get("/v1/alarms")["alarms"]
        assert alarm["kind"] == "cannot tell" and alarm["reason"] == probe.json["status"]


def test_that_most_are_late_is_said_rather_than_what_the_few_that_are_counted_lack(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch([{"id": "x", "time": START + 86_400.0, "scores": {"knn": 0.4}}], made)])
    assert "lacks" in counting.windows()[0]["cannot_tell"]
    counting.commit([batch(events(300), made)])
    for window in counting.windows():
        assert (
            window["cannot_tell"] == counting.late and "300 of the last 300 events" in counting.late
        )
        assert counting.late.endswith(
            "to try the service with older data, start it with a new --state"
        )
    counting.close()


def test_late_and_ahead_together_are_most_events(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    now = time.time()
    counting.commit([batch(events(100, start=now, step=0.001), made)])
    counting.commit([batch(events(40, first=200, start=now - 9000.0, step=0.001), made)])
    assert not counting.late
    counting.commit([batch(events(40, first=300, start=now + 9000.0, step=0.001), made)])
    counting.commit([batch(events(30, first=400, start=now, step=0.001), made)])
    assert "40 as late" in counting.late and "40 as ahead of this machine's clock" in counting.late
    counting.close()


def test_an_event_ahead_does_not_hold_the_points_after_it(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:

        def points(after: int) -> list[dict]:
            return service.get(f"/v1/live?after_event={after}")["history"]

        now = time.time()
        service.post(events(100, start=now - 60.0, step=0.1))
        service.post([{**events(1, first=200)[0], "time": now + 50.0}])
        until(lambda: [p for p in points(-1) if p["event"] == 101])
        for i, first in enumerate((300, 400)):
            service.post(events(100, first=first, start=now - 45.0 - 0.1 * first, step=0.1))
            last = 201 + 100 * i
            found = until(lambda: [p for p in points(last - 100) if p["event"] >= last])  # noqa: B023
            assert max(p["time"] for p in found) <= time.time()
        numbers = [p["event"] for p in points(-1)]
        assert numbers == sorted(numbers) and points(numbers[-1]) == []
        assert [p["event"] for p in service.get("/v1/history?after_event=201")["readings"]] == [
            n for n in numbers if n > 201
        ]


def test_readings_of_a_file_that_has_them_by_time_are_kept(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting_at(path, made).close()
    with sqlite3.connect(path) as db:
        db.execute("drop table points")
        db.execute("create table readings (time real primary key, body text not null)")
        rows = [(START + i, json.dumps({"time": START + i, "event": 20 * i})) for i in range(1, 4)]
        db.executemany("insert into readings values (?, ?)", rows)
    counting = counting_at(path, made)
    assert [reading["event"] for reading in counting.ledger.readings()] == [20, 40, 60]
    counting.close()
