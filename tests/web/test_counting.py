"""Groups of posts, counted: what each is told, what a restart finds, and that no post harms another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitored import START, batch_of, bundle, counting_at, events, killed, single_of, state_at

from roadworthy.monitor import Bundle, EventError, Monitor, Taken
from roadworthy.web import state_file
from roadworthy.web.clock import Clock
from roadworthy.web.counting import Counting, Labelled, restored
from roadworthy.web.events import Label, Single
from roadworthy.web.state_file import LABELS, Full, StateFile

ONE = Taken(1, 0, 0, 0)
FOUND_AGAIN = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def counting(made: Bundle, tmp_path: Path) -> Counting:
    return counting_at(tmp_path / "s.sqlite", made)


def test_a_group_counts_as_its_posts_would_one_by_one(made, counting):
    a, b, c = events(30), events(30, first=20), events(1, first=500)[0]
    posts = [
        batch_of(a, made),
        single_of(c, made),
        batch_of(b, made),
        single_of(c, made),
        single_of(events(1, first=900)[0], made),
    ]
    found = counting.commit(posts)
    assert sum(t.accepted for t in found) == 52 and sum(t.repeated for t in found) == 11
    assert found[0].total == found[2].total == 30
    assert (found[1], found[3], found[4]) == (ONE, Taken(0, 1, 0, 0), ONE)
    assert counting.commit([posts[0], posts[4]]) == [Taken(0, 30, 0, 0), Taken(0, 1, 0, 0)]
    unscored = single_of({"id": "x", "time": START + 1010, "scores": {}}, made)
    fresh = [batch_of(events(7, first=1000), made), unscored]
    assert counting.commit(fresh) == [Taken(7, 0, 0, 0), Taken(0, 0, 0, 1)]


@FOUND_AGAIN
@given(data=st.data())
def test_a_restart_finds_what_was_there(made, tmp_path_factory, data):
    counting = counting_at(tmp_path_factory.mktemp("restart") / "s.sqlite", made)
    for _ in range(data.draw(st.integers(1, 4))):
        firsts = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=4))
        posts: list = [
            batch_of(events(data.draw(st.integers(1, 90)), first=f), made) for f in firsts
        ]
        posts += [single_of(events(1, first=f, shifted=1.0)[0], made) for f in firsts]
        probability = data.draw(st.sampled_from([None, 0.5]))
        posts += [[Label(f"e{firsts[0]}", data.draw(st.booleans()), probability)]]
        counting.commit(posts)
        act = data.draw(st.sampled_from(["nothing", "snapshot", "read", "ask"]))
        if act == "ask":
            counting.questions(5, None)
        elif act != "nothing":
            getattr(counting, act)()
    before = counting.monitor.to_bytes()
    again = killed(counting)
    assert again.monitor.to_bytes() == before
    again.close()


def test_what_cannot_be_written_is_not_counted(made, counting):
    counting.commit([batch_of(events(100), made)])
    file = counting.file
    file.limit(file._ask("pragma page_count")[0][0] * 8192)
    with pytest.raises(Full):
        for first in range(100, 100_000, 100):
            counting.commit([batch_of(events(100, first=first), made)])
    counted = counting.monitor.state.counted
    file.limit(None)
    assert counting.commit([batch_of(events(100, first=counted), made)]) == [Taken(100, 0, 0, 0)]
    assert killed(counting).monitor.state.counted == counted + 100


def test_a_clock_that_goes_back_neither_refuses_nor_doubles(made, tmp_path):
    clock = START + 10.0
    counting = counting_at(tmp_path / "s.sqlite", made, clock=Clock(wall=lambda: clock))
    assert counting.commit([batch_of(events(10), made)]) == [Taken(10, 0, 0, 0)]
    far = [{**e, "time": START + 86_400 + i} for i, e in enumerate(events(5, first=100))]
    assert counting.commit([batch_of(far, made)]) == [Taken(0, 0, 0, 0, 5)]
    clock -= 7 * 86_400.0
    assert counting.commit([batch_of(events(10, first=5), made)]) == [Taken(5, 5, 0, 0)]
    back = [{**e, "time": START - 7200.0} for e in events(3, first=200)]
    assert counting.commit([batch_of(back, made)]) == [Taken(0, 0, 3, 0)]


def test_events_cannot_walk_the_clock_ahead(made, tmp_path):
    clock = passed = START
    own = Clock(wall=lambda: clock, steady=lambda: passed)
    counting = counting_at(tmp_path / "s.sqlite", made, clock=own)
    found = [counting.commit([Single(f"x{k}", START + 50.0 * k, None, 0)])[0] for k in range(1, 30)]
    assert found == [ONE] + [Taken(0, 0, 0, 0, 1)] * 28
    assert counting.commit([Single("honest", clock, None, 0)]) == [ONE]
    clock, passed = clock + 7200.0, passed + 7200.0
    assert counting.commit([Single("later", clock + 59.0, None, 0)]) == [ONE]
    clock -= 86_400.0  # the machine's own clock goes back: what it showed before still counts
    assert counting.commit([Single("meanwhile", clock + 86_410.0, None, 0)]) == [ONE]


def test_labels_of_events_that_are_not_held_are_not_kept(made, counting):
    counting.commit([batch_of(events(10), made)])
    found = counting.commit([[Label("e3", False), Label("nobody", True), Label("e4", True, 0.5)]])
    assert found == [Labelled(2, ("nobody",), without_probability=1)]
    labels = counting.monitor.state.labels
    assert sorted(labels.weighed(mark).probability for mark in labels.given) == [0.5, 1.0]


def test_a_label_holds_though_its_event_is_pushed_out_in_the_same_moment(tmp_path):
    made = bundle(id_horizon=1000)
    counting = counting_at(tmp_path / "s.sqlite", made)
    held = counting.monitor.state.recent.capacity
    counting.commit([batch_of(events(held, step=0.1), made)])
    later = batch_of(events(held, first=held, step=0.1), made)
    found = counting.commit([later, [Label("e5", False)]])
    assert found == [Taken(held, 0, 0, 0), Labelled(1, (), 1)]
    assert "e5" not in counting.monitor.state.recent.known
    assert [label.time for label in counting.monitor.state.labels.given.values()] == [START + 0.5]


def test_a_label_that_cannot_be_counted_takes_no_other_post_with_it(made, counting):
    counting.commit([batch_of(events(3, first=10), made)])
    bad = [Label("e10", True, 1.0), Label("e11", True, 9999.0)]
    first, second = (single_of(event, made) for event in events(2, first=20))
    found = counting.commit([first, bad, [Label("e12", True, 1.0)], second])
    assert isinstance(found[1], EventError) and "9999" in str(found[1])
    assert found[:1] + found[2:] == [ONE, Labelled(1, ()), ONE]
    assert counting.monitor.state.counted == 5 and len(counting.monitor.state.labels.given) == 1
    before = counting.monitor.to_bytes()
    assert killed(counting).monitor.to_bytes() == before


@FOUND_AGAIN
@given(
    posts=st.lists(
        st.one_of(
            st.tuples(st.just("event"), st.sampled_from("abcd\ud800"), st.integers(-1, 2)),
            st.tuples(
                st.just("label"), st.sampled_from("abe\udfff"), st.sampled_from([-7, -1, 3, 9999])
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_is_in_a_group_disk_and_memory_stay_equal(made, tmp_path_factory, posts):
    counting = counting_at(tmp_path_factory.mktemp("equal") / "s.sqlite", made)
    group = [
        Single(name, START + i, None, cell) if kind == "event" else [Label(name, True, 0.5)]
        for i, (kind, name, cell) in enumerate(posts)
    ]
    for (kind, name, _), outcome in zip(posts, counting.commit(group), strict=True):
        if kind == "event":
            assert isinstance(outcome, Exception) == (name == "\ud800")
    before = counting.monitor.to_bytes()
    again = killed(counting)
    assert again.monitor.to_bytes() == before
    again.close()


@pytest.mark.parametrize("name", ["update_one", "label_all", "update"])
def test_a_post_that_fails_while_it_is_counted_is_undone_on_disk_too(
    made, counting, monkeypatch, name
):
    real, broken = getattr(Monitor, name), "e13"

    def fails(self: Monitor, first: object, *rest: object, **more: object) -> object:
        found = real(self, first, *rest, **more)
        ids = {"update_one": lambda: [first], "update": lambda: list(first.id)}
        if broken in ids.get(name, lambda: [label.id for label in first])():
            raise MemoryError("in the middle of it")
        return found

    posts = [single_of(event, made) for event in events(3, first=10)]
    counting.commit([*posts, single_of(events(1, first=20)[0], made)])
    if name == "label_all":
        counting.commit([single_of(events(1, first=13)[0], made)])
        bad: object = [Label("e10", True), Label("e13", True)]
    elif name == "update":
        bad = batch_of(events(3, first=13), made)
    else:
        bad = single_of(events(1, first=13)[0], made)
    monkeypatch.setattr(Monitor, name, fails)
    found = counting.commit([posts[0], bad, [Label("e11", False)]])
    assert isinstance(found[1], MemoryError)
    assert found[0] == Taken(0, 1, 0, 0) and found[2] == Labelled(1, (), 1)
    before = counting.monitor.to_bytes()
    monkeypatch.undo()
    again = killed(counting)
    assert again.monitor.to_bytes() == before and len(again.monitor.state.labels.given) == 1


def test_a_log_that_holds_what_cannot_be_counted_is_opened_without_it(made, counting):
    counting.commit([batch_of(events(3), made)])
    bad, good = [["e0", True, 1.0], ["e1", True, 9999.0]], [["e2", True, 1.0]]
    for row in (json.dumps(bad).encode(), b"no JSON", json.dumps(good).encode()):
        counting.file.append([(LABELS, row)])
    again = killed(counting)
    assert again.monitor.state.counted == 3 and len(again.monitor.state.labels.given) == 1


def after_a_kill(path: Path, folder: Path, made: Bundle) -> bytes:
    """What a restart would find if the process died now: the files are copied as they lie."""
    folder.mkdir()
    for one in path.parent.glob(f"{path.name}*"):
        shutil.copy(one, folder / one.name)
    file = state_at(folder / path.name, made)
    try:
        return restored(made, file).monitor.to_bytes()
    finally:
        file.close()


def test_a_restart_between_any_two_steps_finds_all_that_was_counted(made, tmp_path, monkeypatch):
    monkeypatch.setattr(state_file, "PORTION", 40_000)
    path = tmp_path / "s.sqlite"
    counting = counting_at(path, made, snapshot_bytes=100_000)
    seen: list[int] = []
    for turn in range(16):
        counting.commit([batch_of(events(500, first=500 * turn, step=0.01), made)])
        counting.commit([[Label(f"e{500 * turn + 3}", turn % 3 > 0, 0.5)]])
        counting.read()
        body, rows = counting.file.restored()
        if body is not None:
            seen.append(len(counting.file._ask("select 1 from log")) - len(rows))
        assert after_a_kill(path, tmp_path / str(turn), made) == counting.monitor.to_bytes()
    assert 0 in seen and max(seen) > 0, "rows before the snapshot go in portions, and all of them"


def test_if_there_is_no_room_beside_the_log_a_snapshot_takes_its_place(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting = counting_at(path, made, snapshot_bytes=30_000)
    for _ in range(20):
        counting.commit([batch_of(events(500, step=0.01), made)])
    file = counting.file
    file.limit(file._ask("pragma page_count")[0][0] * 8192)
    assert counting._shorten_log() and not file.has_log()
    assert after_a_kill(path, tmp_path / "killed", made) == counting.monitor.to_bytes()


def test_no_alarm_is_lost_or_sent_twice(made, counting):
    for first in range(0, 4000, 400):
        shifted = 0.9 if first % 800 == 0 else 0.0
        counting.commit([batch_of(events(400, first=first, shifted=shifted), made)])
    said = counting.outbox.alarms
    assert [a["event"] for a in said] == [a.event for a in counting.monitor.alarms] and len(
        said
    ) > 4
    assert [a["key"] for a in counting.file.alarms()] == [a["key"] for a in said]
    again = killed(counting)
    assert again.outbox.alarms == []
    with again.file._transaction() as db:  # as if they could not be kept before the kill
        db.execute("delete from alarms where event >= ?", (said[-2]["event"],))
    third = killed(again)
    assert third.outbox.alarms == said[-2:]


def test_an_alarm_that_cannot_be_sent_fails_no_post(made, counting, monkeypatch):
    def fails(alarm: dict) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(counting.outbox, "add", fails)
    assert counting.commit([batch_of(events(300, shifted=1.0), made)]) == [Taken(300, 0, 0, 0)]
    assert counting.monitor.alarm


def test_the_file_stays_small(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made, snapshot_bytes=20_000)
    for first in range(0, 30_000, 1000):
        counting.commit([batch_of(events(1000, first=first, step=0.01), made)])
        counting.read()
    snapshot, rows = counting.file.restored()
    assert sum(len(row[2]) for row in rows) <= 2 * len(snapshot) + 60_000


def test_a_state_of_another_version_is_refused(made, tmp_path):
    counting_at(tmp_path / "s.sqlite", made).close()
    file = StateFile(tmp_path / "s.sqlite")
    with file._transaction() as db:
        db.execute("update meta set value = '1' where key = 'version'")
    file.close()
    with pytest.raises(state_file.StoreError, match="version"):
        state_at(tmp_path / "s.sqlite", made)
