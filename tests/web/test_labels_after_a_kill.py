"""What labels said is said again after a kill, by the probabilities that held then, and nobody is told twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitored import START, events, serving

from roadworthy.monitor import Bundle, Events, Monitor, Taken
from roadworthy.web.batch import Label, Labelled
from roadworthy.web.counting import Counting
from roadworthy.web.drawing import draw
from roadworthy.web.events import Reader
from roadworthy.web.ledger import LOOK, Full, Ledger
from roadworthy.web.offline import together
from roadworthy.web.replaying import restored
from roadworthy.web.service import text_of


class File:
    """A state file, the one who counts into it, and what was told."""

    def __init__(self, path: Path, made: Bundle, **more: float) -> None:
        self.path, self.made, self.more = path, made, more
        self.told: list[str] = []
        self.counting = self._opened()

    def _opened(self) -> Counting:
        ledger = Ledger(self.path, bundle=self.made.id, content=text_of(self.made))

        def alarmed(alarm: dict) -> None:
            self.told.append(alarm["key"])
            ledger.keep_alarm(alarm, delivered=True)

        return Counting(self.made, ledger, alarmed=alarmed, **self.more)

    def kill(self) -> None:
        self.counting.ledger.close()
        self.counting = self._opened()

    def events(self, n: int, first: int) -> None:
        reader = Reader(self.made.calibration, subject=self.made.subject)
        self.counting.commit([reader.read(json.dumps(events(n, first=first)).encode(), now=START)])

    def label(self, names: list[str], right: Callable[[int], bool]) -> None:
        self.counting.commit([[Label(name, right(i)) for i, name in enumerate(names)]])

    def beside(self, n: int) -> list[str]:
        """As `label-queue` on the file while the service runs."""
        ledger = Ledger(self.path)
        try:
            return [q.id for q in draw(restored(self.made, ledger).monitor, ledger, n).questions]
        finally:
            ledger.close()


@pytest.fixture
def file(made: Bundle, tmp_path: Path) -> File:
    return File(tmp_path / "s.sqlite", made)


def seldom_right(i: int) -> bool:
    return i % 3 == 0


def alarmed(file: File) -> None:
    """By labels that the queue drew: of events that were sure to be labelled, so many would prove nothing."""
    file.events(1000, 0)
    file.label([q.id for q in file.counting.questions(100, None)], seldom_right)
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1


def test_an_alarm_by_labels_of_the_queue_is_on_after_a_kill_and_told_once(file):
    alarmed(file)
    before = file.counting.monitor.to_bytes()
    file.kill()
    assert file.counting.monitor.alarm_by_labels and file.counting.monitor.to_bytes() == before
    file.events(60, 1000)
    file.kill()
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1
    assert together([str(file.path), str(file.path)]).monitor.alarm_by_labels, (
        "whoever reads the file beside it finds it, too"
    )


def test_labels_of_inputs_that_another_process_drew_are_judged_by_its_probabilities_after_a_kill(
    file,
):
    file.events(1000, 0)
    file.label(file.beside(100), seldom_right)
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1
    file.kill()
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1


def test_questions_that_came_after_labels_do_not_change_what_those_said_when_they_came(file):
    """Who asks again raises the probabilities of all that were asked before; what was said stays where it was said."""
    alarmed(file)
    for first in (1000, 1300):
        file.events(300, first)
        names = [q.id for q in file.counting.questions(150, None)]
        file.label(names, lambda i: i % 10 > 0)
    before, said = file.counting.monitor.to_bytes(), list(file.told)
    file.kill()
    assert file.counting.monitor.to_bytes() == before and file.told == said


def test_a_post_that_is_undone_leaves_the_alarm_by_labels_as_it_was(file, monkeypatch):
    alarmed(file)
    before = file.counting.monitor.to_bytes()
    update = Monitor.update

    def fails(self: Monitor, events: Events, **more: float) -> Taken:
        taken = update(self, events, **more)
        if events.id[0] == "e2000":
            raise MemoryError("in the middle of it")
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(Monitor, "update", fails)
        file.events(20, 2000)
    assert file.counting.monitor.to_bytes() == before and file.counting.monitor.alarm_by_labels
    file.kill()
    assert file.counting.monitor.to_bytes() == before and len(file.told) == 1


def test_looks_are_put_off_while_labels_come_fast_and_made_before_anybody_reads(made, tmp_path):
    file = File(tmp_path / "s.sqlite", made, look_s=3600.0)
    file.events(1000, 0)
    names = [q.id for q in file.counting.questions(100, None)]
    file.label(names[:1], seldom_right)
    for name in names[1:]:
        file.label([name], lambda _: False)
    assert sum(kind == LOOK for _, kind, _ in file.counting.ledger.restored()[1]) == 1
    assert not file.counting.monitor.alarm_by_labels and not file.told
    file.kill()
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1, "a start looks"
    file.label(names, lambda _: True)
    file.label(names, lambda _: True)
    assert not file.counting.windows()[0]["alarm"], "and so does who reads"
    file.label(names, lambda _: False)
    file.counting.read()
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 3
    before = file.counting.monitor.to_bytes()
    file.kill()
    assert file.counting.monitor.to_bytes() == before and len(file.told) == 3


def test_a_look_that_cannot_be_written_is_made_all_the_same(made, tmp_path, monkeypatch):
    file = File(tmp_path / "s.sqlite", made, look_s=3600.0)
    file.events(1000, 0)
    names = [q.id for q in file.counting.questions(100, None)]
    file.label(names[:1], seldom_right)
    file.label(names[1:], seldom_right)

    def full(*_: object, **__: object) -> int:
        raise Full("no space is left")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", full)
        patched.setattr(Ledger, "snapshot", full)
        file.counting.look()
    assert file.counting.monitor.alarm_by_labels and len(file.told) == 1


def test_all_labels_of_a_group_share_one_row_and_one_look(file):
    file.events(100, 0)
    posts = [[Label(f"e{i}", i % 2 == 0), Label(f"nobody {i}", True)] for i in range(40)]
    assert file.counting.commit(posts) == [Labelled(1, (f"nobody {i}",), 1) for i in range(40)]
    rows = file.counting.ledger.restored()[1]
    assert [kind for _, kind, _ in rows[1:]] == [2, LOOK] and len(
        file.counting.monitor.state.labels.given
    ) == 40


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.sampled_from(["events", "ask", "ask beside", "label", "all wrong", "snapshot", "read"]),
        max_size=12,
    ),
    st.sampled_from([0.0, 3600.0]),
)
def test_whatever_was_done_is_found_again(made, tmp_path_factory, acts, look_s):
    file = File(tmp_path_factory.mktemp("again") / "s.sqlite", made, look_s=look_s)
    file.events(300, 0)
    names, first = [f"e{i}" for i in range(20)], 300
    for act in acts:
        if act == "events":
            file.events(70, first)
            first += 70
        elif act == "ask":
            names = [q.id for q in file.counting.questions(40, None)]
        elif act == "ask beside":
            names = file.beside(40)
        elif act in ("label", "all wrong"):
            file.label(names, seldom_right if act == "label" else lambda _: False)
        else:
            getattr(file.counting, act)()
    file.counting.look()
    before, said = file.counting.monitor.to_bytes(), list(file.told)
    held = file.counting.monitor.state.labels.asked
    news = any(p > held.get(name, 0.0) for name, p in file.counting.ledger.asked().items())
    file.kill()
    if not news:  # what was drawn beside it, and not labelled yet, is learnt by the start
        assert file.counting.monitor.to_bytes() == before and file.told == said
    before = file.counting.monitor.to_bytes()
    file.kill()
    assert file.counting.monitor.to_bytes() == before
    file.counting.ledger.close()


def test_a_service_that_is_killed_says_after_its_start_what_it_said_before(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(1000))
        asked = service.post([], "/v1/label-queue?n=100").json["questions"]
        service.post(
            [{"id": q["id"], "correct": i % 3 == 0} for i, q in enumerate(asked)], "/v1/labels"
        )
        before = service.get("/v1/live")
        assert before["alarm"]
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        after = service.get("/v1/live")
        assert (
            after["alarm"]
            and after["windows"] == before["windows"]
            and after["alarms"] == before["alarms"]
        )
