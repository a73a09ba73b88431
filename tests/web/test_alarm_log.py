"""An alarm that the alarm log could not take when it rang is there as soon as it can, whatever happens meanwhile."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path

import pytest
from monitored import Service, events, serving, until

from roadworthy.web import delivery
from roadworthy.web.delivery import AlarmLog
from roadworthy.web.ledger import Ledger, Unwritable


def blocked(log: Path) -> None:
    """Have the log fail as on a full disk."""
    log.unlink()
    log.mkdir()


def over_quota(file: int) -> None:
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def lines(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def waiting(service: Service) -> str:
    text = service.ask("GET", "/metrics").body.decode()
    return next(
        line.split()[1]
        for line in text.splitlines()
        if line.startswith("roadworthy_alarm_log_waiting ")
    )


def test_a_line_is_written_as_soon_as_it_can_be_without_another_alarm(bundle_path, tmp_path):
    log = tmp_path / "alarms.jsonl"
    with serving(bundle_path, tmp_path / "s.sqlite", "--alarm-log", str(log)) as service:
        blocked(log)
        service.post(events(300, shifted=0.9))
        assert waiting(service) == "1"
        log.rmdir()
        until(lambda: log.exists() and log.read_text(), seconds=10.0)
        assert [alarm["kind"] for alarm in lines(log)] == ["raised"] and waiting(service) == "0"
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite", "--alarm-log", str(log)) as service:
        service.stop()
    assert len(lines(log)) == 1, "once it is there it is not written again"


def test_a_line_that_was_not_written_before_a_kill_is_written_at_the_next_start(
    bundle_path, tmp_path
):
    log, state = tmp_path / "alarms.jsonl", tmp_path / "s.sqlite"
    with serving(bundle_path, state, "--alarm-log", str(log)) as service:
        blocked(log)
        service.post(events(300, shifted=0.9))
        (rang,) = service.get("/v1/alarms")["alarms"]
        service.kill()
    log.rmdir()
    with serving(bundle_path, state) as service:  # without a log there is nothing to catch up with
        service.stop()
    for _ in range(2):
        with serving(bundle_path, state, "--alarm-log", str(log)) as service:
            assert [alarm["key"] for alarm in lines(log)] == [rang["key"]]
            service.stop()
    assert [{**alarm, "delivered": "no webhook"} for alarm in lines(log)] == [rang]


def test_a_log_that_has_caught_up_is_told_of_until_that_is_kept(tmp_path):
    path, told, troubles = tmp_path / "alarms.jsonl", list[str](), [Unwritable("not now")]

    def kept(alarms: list) -> None:
        if troubles:
            raise troubles.pop()
        told.extend(alarm["key"] for alarm in alarms)

    log = AlarmLog(path, remark=lambda text: None)
    log.start(kept, lambda most: [])
    assert log.write({"key": "a"})
    blocked(path)
    assert not log.write({"key": "b"}) and not log.write({"key": "c"})
    path.rmdir()
    assert log.write({"key": "d"}) and told == []
    log.catch_up()
    log.catch_up()
    assert told == ["b", "c"] and [alarm["key"] for alarm in lines(path)] == ["b", "c", "d"]


@pytest.mark.parametrize("fails", ["sync", "half a line"])
def test_a_line_that_is_tried_again_every_second_stands_there_once(tmp_path, monkeypatch, fails):
    """A file system over its quota may write and not sync; a full one writes half a line."""
    path = tmp_path / "alarms.jsonl"
    log = AlarmLog(path, remark=lambda text: None)
    assert log.write({"key": "a"})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patched:
        if fails == "sync":
            patched.setattr(os, "fsync", over_quota)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
        try:
            assert not log.write({"key": "b"})
            for _ in range(5):
                log.catch_up()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [alarm["key"] for alarm in lines(path)] == ["a"]
    log.catch_up()
    assert [alarm["key"] for alarm in lines(path)] == ["a", "b"] and log.waiting == 0


@pytest.mark.parametrize("live", [False, True])
def test_however_many_lines_wait_all_are_written_in_portions(tmp_path, monkeypatch, live):
    monkeypatch.setattr(delivery, "WAITING", 10)
    ledger = Ledger(tmp_path / "s.sqlite", bundle="0123abcd", content="{}")
    path = tmp_path / "alarms.jsonl"
    log = AlarmLog(path, remark=lambda text: None)
    if live:
        log.start(ledger.logged, ledger.unlogged)
        blocked(path)
    for event in range(25):
        alarm = {"key": f"k{event}", "event": event}
        assert not (live and log.write(alarm))
        ledger.keep_alarm(alarm, delivered=None, logged=False)
    if live:
        path.rmdir()
    else:
        log.start(ledger.logged, ledger.unlogged)
        assert [alarm["event"] for alarm in lines(path)] == list(range(10)), "the oldest first"
    for _ in range(3):
        log.catch_up()
    assert (
        sorted(alarm["event"] for alarm in lines(path)) == list(range(25))
        and ledger.unlogged() == []
    )
    ledger.close()


@pytest.mark.parametrize("kept", [[], ["a", "b"], ["b"]])
def test_a_state_knows_which_alarms_are_not_logged(tmp_path, kept):
    ledger = Ledger(tmp_path / "s.sqlite", bundle="0123abcd", content="{}")
    assert ledger.unlogged() == [], "of which a file of before knows nothing"
    for event, key in enumerate("ab"):
        ledger.keep_alarm({"key": key, "event": event}, delivered=None, logged=key not in kept)
    ledger.close()
    ledger = Ledger(tmp_path / "s.sqlite", bundle="0123abcd", content="{}")
    assert [alarm["key"] for alarm in ledger.unlogged()] == kept
    ledger.logged([{"key": "a"}])
    assert [alarm["key"] for alarm in ledger.unlogged()] == [key for key in kept if key != "a"]
    ledger.close()
