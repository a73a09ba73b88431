"""Groups of posts, counted: what each is told, what a restart finds, and what the file keeps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitored import START, events

from roadworthy.monitor import Bundle, EventError, Taken
from roadworthy.store import StoreError
from roadworthy.web import counting as module
from roadworthy.web.batch import Batch, Label, Labelled, Single
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Full, Ledger
from roadworthy.web.readings import AT_ONCE


def ledger_at(path: Path, made: Bundle, **more) -> Ledger:
    return Ledger(path, bundle=made.id, content="{}", **more)


def batch_of(items: list[dict], made: Bundle) -> Batch:
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


def single_of(item: dict, made: Bundle) -> Single:
    return Reader(made.calibration, subject=made.subject).read(json.dumps(item).encode(), now=START)


def test_a_group_counts_as_its_posts_would_one_by_one(made, tmp_path):
    a, b, c = events(30), events(30, first=20), events(1, first=500)[0]
    posts = [
        batch_of(a, made),
        single_of(c, made),
        batch_of(b, made),
        single_of(c, made),
        single_of(events(1, first=900)[0], made),
    ]
    counting = Counting(made, ledger_at(tmp_path / "s.sqlite", made))
    found = counting.commit(posts)
    assert sum(t.accepted for t in found) == 52 and sum(t.repeated for t in found) == 11
    assert found[0].total == found[2].total == 30 and {found[1].accepted, found[3].accepted} == {
        0,
        1,
    }
    assert found[4] == Taken(1, 0, 0, 0)
    assert counting.commit([posts[0], posts[4]]) == [Taken(0, 30, 0, 0), Taken(0, 1, 0, 0)]
    fresh = [
        batch_of(events(7, first=1000), made),
        single_of({"id": "x", "time": START + 1010, "scores": {}}, made),
    ]
    assert counting.commit(fresh) == [Taken(7, 0, 0, 0), Taken(0, 0, 0, 1)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_restart_finds_what_was_there(made, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("restart") / "s.sqlite"
    counting = Counting(made, ledger_at(path, made))
    for _ in range(data.draw(st.integers(1, 4))):
        firsts = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=4))
        posts: list = [
            batch_of(events(n, first=f), made)
            for f in firsts
            if (n := data.draw(st.integers(1, 25)))
        ]
        posts += [single_of(events(1, first=f, shifted=1.0)[0], made) for f in firsts]
        posts += [
            [
                Label(
                    f"e{firsts[0]}",
                    data.draw(st.booleans()),
                    data.draw(st.sampled_from([None, 0.5])),
                )
            ]
        ]
        counting.commit(posts)
        if data.draw(st.booleans()):
            counting.snapshot()
    before = counting.monitor.to_bytes()
    counting.ledger.close()  # as if it had been killed: no snapshot in the end
    again = Counting(made, ledger_at(path, made))
    assert again.monitor.to_bytes() == before
    again.ledger.close()


def test_what_cannot_be_written_is_not_counted(made, tmp_path):
    ledger = ledger_at(tmp_path / "s.sqlite", made)
    counting = Counting(made, ledger)
    counting.commit([batch_of(events(100), made)])
    ledger.limit(ledger._ask("pragma page_count")[0][0] * 8192)
    with pytest.raises(Full, match="nothing of this was counted"):
        for first in range(100, 100_000, 100):
            counting.commit([batch_of(events(100, first=first), made)])
    counted = counting.monitor.state.counted
    ledger.limit(None)
    assert counting.commit([batch_of(events(100, first=counted), made)]) == [Taken(100, 0, 0, 0)]
    ledger.close()
    again = Counting(made, ledger_at(tmp_path / "s.sqlite", made))
    assert again.monitor.state.counted == counted + 100


def test_a_clock_that_goes_back_neither_refuses_nor_doubles(made, tmp_path, monkeypatch):
    counting = Counting(made, ledger_at(tmp_path / "s.sqlite", made))
    clock = START + 10.0
    monkeypatch.setattr(module.time, "time", lambda: clock)
    assert counting.commit([batch_of(events(10), made)]) == [Taken(10, 0, 0, 0)]
    far = [{**e, "time": START + 86_400 + i} for i, e in enumerate(events(5, first=100))]
    assert counting.commit([batch_of(far, made)]) == [
        Taken(0, 0, 0, 0, 5)
    ]  # ahead of the clock by more than an hour
    clock -= 7 * 86_400.0
    assert counting.commit([batch_of(events(10, first=5), made)]) == [Taken(5, 5, 0, 0)]
    back = [{**e, "time": START - 7200.0} for e in events(3, first=200)]
    assert counting.commit([batch_of(back, made)]) == [Taken(0, 0, 3, 0)]
    assert any("look at the clocks" in note for note in counting.windows()[0]["notes"])


def test_the_file_stays_small_and_readings_grow_coarse(made, tmp_path):
    counting = Counting(made, ledger_at(tmp_path / "s.sqlite", made), snapshot_bytes=20_000)
    for first in range(0, 30_000, 1000):
        counting.commit([batch_of(events(1000, first=first, step=0.01), made)])
        counting.read()
    snapshot, rows = counting.ledger.restored()
    assert 0 < len(rows) < 30 and sum(len(row[2]) for row in rows) <= 2 * len(snapshot) + 60_000
    numbers = [reading["event"] for reading in counting.ledger.readings()]
    assert 10 * AT_ONCE < len(numbers) <= 30 * AT_ONCE and 30_000 - numbers[-1] < 1000
    ledger = counting.ledger
    with ledger._transaction() as db:
        db.execute("delete from points")
        db.executemany(
            "insert into points values (?, ?, '{}')", [(i, START + i) for i in range(7200)]
        )
    ledger.thin()
    times = [t for (t,) in ledger._ask("select time from points order by time")]
    assert (
        3600 <= len(times) <= 3600 + 62 and max(np.diff(times)) <= 120 and times[-1] == START + 7199
    )


def test_labels_of_events_that_are_gone_need_their_cell_and_time(made, tmp_path):
    counting = Counting(made, ledger_at(tmp_path / "s.sqlite", made))
    counting.commit([batch_of(events(10), made)])
    old = Label("long gone", True, 0.5, 3, START - 1000.0)
    found = counting.commit([[Label("e3", False), Label("nobody", True), old]])
    assert found == [Labelled(2, ("nobody",), without_probability=1)]
    labels = counting.monitor.state.labels
    assert sorted(labels.weighed(mark).probability for mark in labels.given) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("apart", "says"), [(1e8, "after the last one"), (-1e8, "before the first one")]
)
def test_a_label_of_an_event_outside_the_stream_is_refused_and_not_kept(
    made, tmp_path, apart, says
):
    counting = Counting(made, ledger_at(tmp_path / "s.sqlite", made))
    counting.commit([batch_of(events(10), made)])
    (refused,) = counting.commit(
        [[Label("e3", True), Label("far off", True, 0.5, 3, START + apart)]]
    )
    assert isinstance(refused, EventError) and "'far off'" in str(refused) and says in str(refused)
    assert not counting.monitor.state.labels.given, "a post is taken whole or not at all"


def test_inputs_drawn_for_labelling_keep_their_probability(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting = Counting(made, ledger_at(path, made))
    counting.commit([batch_of(events(400, shifted=0.5), made)])
    beside = Ledger(path)  # as `label-queue` on the file, while the service runs
    first = module.draw(module.restored(made, beside).monitor, beside, 20).questions
    beside.close()
    second = counting.questions(20, None)
    assert not {q.id for q in first} & {q.id for q in second}
    asked = counting.ledger.asked()
    assert set(asked) == {q.id for q in (*first, *second)} and all(
        0 < p <= 1 for p in asked.values()
    )
    assert all(asked[q.id] >= q.probability for q in first)
    counting.commit([[Label(first[0].id, True)]])
    labels = counting.monitor.state.labels
    (key,) = labels.given
    assert math.isclose(labels.weighed(key).probability, asked[first[0].id])
    counting.questions(100, None)
    raised = counting.ledger.asked()[first[0].id]
    assert raised > asked[first[0].id] and math.isclose(labels.weighed(key).probability, raised)
    counting.ledger.close()
    again = Counting(made, ledger_at(path, made))
    assert math.isclose(again.monitor.state.labels.weighed(key).probability, raised), (
        "also after a restart"
    )


def test_a_file_is_counted_into_by_one_process_only(made, tmp_path):
    ledger = ledger_at(tmp_path / "s.sqlite", made)
    with pytest.raises(StoreError, match="running"):
        ledger_at(tmp_path / "s.sqlite", made)
    ledger.close()
    ledger_at(tmp_path / "s.sqlite", made).close()
    with pytest.raises(StoreError, match="there is no state file"):
        Ledger(tmp_path / "none.sqlite")
