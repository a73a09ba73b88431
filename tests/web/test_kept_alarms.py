"""What became of an alarm is known also where the state could not be written then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from roadworthy.web.kept_alarms import KeptAlarms
from roadworthy.web.ledger import Full, Ledger

RAISED, CLEARED = (
    {"key": kind, "event": event, "kind": kind} for event, kind in enumerate(("raised", "cleared"))
)


@pytest.fixture
def ledger(tmp_path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "s.sqlite", bundle="0123abcd", content="{}")
    yield ledger
    ledger.close()


def full(self: Ledger, *given: object, **more: object) -> None:
    raise Full("the disk is full")


def test_an_alarm_that_was_taken_before_it_could_be_kept_is_kept_as_delivered(ledger, monkeypatch):
    kept = KeptAlarms(ledger, webhook=True)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "keep_alarm", full)
        for alarm in (RAISED, CLEARED):
            kept.add(alarm, logged=True)
        kept.delivered(RAISED)
        assert kept.unkept == [RAISED, CLEARED] and ledger.alarms() == []
    kept.catch_up()
    assert (
        ledger.alarms() == [{**RAISED, "delivered": True}, {**CLEARED, "delivered": False}]
        and kept.unkept == []
    )


def test_that_an_alarm_was_taken_is_kept_as_soon_as_it_can_be(ledger, monkeypatch):
    kept = KeptAlarms(ledger, webhook=True)
    kept.add(RAISED, logged=True)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "delivered", full)
        kept.delivered(RAISED)
        assert ledger.alarms() == [{**RAISED, "delivered": False}]
    kept.catch_up()
    assert ledger.alarms() == [{**RAISED, "delivered": True}]


def test_a_line_that_is_written_before_its_alarm_could_be_kept_is_not_written_again(
    ledger, monkeypatch
):
    """The log could be written first, and the state after it; a full disk lets nothing be taken out of an empty table."""
    kept = KeptAlarms(ledger, webhook=False)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "keep_alarm", full)
        for alarm in (RAISED, CLEARED):
            kept.add(alarm, logged=False)
        kept.logged([RAISED])
    kept.catch_up()
    assert [alarm["key"] for alarm in ledger.unlogged()] == ["cleared"]
    kept.logged([CLEARED])
    assert ledger.unlogged() == []
