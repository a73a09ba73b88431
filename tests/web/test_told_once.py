"""What is told to others: every alarm of every replica, and labels as they stand now."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from monitored import START, events

from roadworthy.monitor import Alarm, Bundle, Taken
from roadworthy.web.batch import Label, Labelled, Single
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger, Unwritable

ALARM = Alarm(START, 100, "raised", 0.99, 0.4, 5.0)


def counting_at(path, made: Bundle, **more) -> Counting:
    return Counting(made, Ledger(path, bundle=made.id, content="{}"), **more)


def batch(items: list[dict], made: Bundle):
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


def test_no_alarm_is_lost_however_many_come_at_once(made, tmp_path):
    told: list[int] = []
    counting = counting_at(
        tmp_path / "s.sqlite", made, alarmed=lambda alarm: told.append(alarm["event"])
    )
    counting.monitor.alarms.extend(replace(ALARM, event=i) for i in range(700))
    counting._notice_alarms()
    counting._notice_alarms()
    assert told == list(range(700))


def test_an_alarm_that_could_not_be_told_is_told_with_the_next_post(made, tmp_path):
    told: list[int] = []

    def alarmed(alarm: dict) -> None:
        if not told and not failed:
            failed.append(alarm)
            raise OSError("not now")
        told.append(alarm["event"])

    failed: list[dict] = []
    counting = counting_at(tmp_path / "s.sqlite", made, alarmed=alarmed)
    counting.monitor.alarms.extend(replace(ALARM, event=i) for i in (100, 120))
    counting._notice_alarms()
    assert not told
    counting._notice_alarms()
    assert told == [100, 120]


def test_replicas_and_successors_have_keys_of_their_own(made, tmp_path):
    told: list[dict] = []
    for name in ("a", "b"):
        counting = counting_at(tmp_path / f"{name}.sqlite", made, alarmed=told.append)
        counting.monitor.alarms.append(ALARM)
        counting._notice_alarms()
        assert told[-1]["replica"] == counting.ledger.replica
        counting.close()
    assert told[0]["key"] != told[1]["key"]
    again: list[dict] = []
    counting = counting_at(tmp_path / "a.sqlite", made, alarmed=again.append)
    assert [alarm["key"] for alarm in again] == [told[0]["key"]], "and the same after a restart"


def test_corrected_labels_and_raised_probabilities_show_at_once(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch(events(200, shifted=0.5), made)])

    def audited() -> float:
        return counting.windows()[0]["audited"]["accuracy"]

    counting.commit([[Label(f"e{i}", True) for i in range(180, 200)]])
    right = audited()
    counting.commit([[Label(f"e{i}", False) for i in range(180, 200)]])
    wrong = audited()
    assert wrong < right
    counting.questions(50, None)
    assert counting._spoken.at != (counting.monitor.state.taken.total, counting._labelled)


@pytest.mark.parametrize("single", [False, True])
def test_a_label_that_comes_with_its_event_finds_it(made, tmp_path, single):
    counting = counting_at(tmp_path / "s.sqlite", made)
    event = Single("new", START, None, 3) if single else batch(events(3), made)
    labels = [Label("new" if single else "e2", False), Label("nobody", True)]
    other = [Label("nobody else", True)]
    found = counting.commit([event, labels, other])
    assert found[1:] == [Labelled(1, ("nobody",), 1), Labelled(0, ("nobody else",))]
    assert isinstance(found[0], Taken) and found[0].late == 0
    before = counting.monitor.to_bytes()
    counting.ledger.close()  # as if it had been killed
    again = counting_at(tmp_path / "s.sqlite", made)
    assert again.monitor.to_bytes() == before


def test_where_its_label_cannot_be_written_an_event_is_counted_all_the_same(
    made, tmp_path, monkeypatch
):
    counting = counting_at(tmp_path / "s.sqlite", made)
    real, rows = counting.ledger.append, []

    def append(new):
        if rows:
            raise Unwritable("no space")
        rows.extend(new)
        return real(new)

    monkeypatch.setattr(counting.ledger, "append", append)
    found = counting.commit([Single("new", START, None, 3), [Label("new", False)]])
    assert found[0] == Taken(1, 0, 0, 0) and isinstance(found[1], Unwritable)
    assert counting.monitor.state.counted == 1 and not counting.monitor.state.labels.given


def test_a_label_of_an_event_that_is_refused_with_it_is_unknown(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch(events(3), made)])
    found = counting.commit([Single("old", START - 9000.0, None, 3), [Label("old", False)]])
    assert found == [Taken(0, 0, 1, 0), Labelled(0, ("old",))]
