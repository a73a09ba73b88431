"""The clock of the service: a leap of the machine's own, back or ahead, moves no stamp, and none comes twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import START, counting_at, events, single_of

from roadworthy.monitor import Bundle, Taken
from roadworthy.web.clock import PACE, SETTLE_S, Clock

ONE = Taken(1, 0, 0, 0)


class Machine:
    """A machine whose clock can be set, with the clock of a service on it."""

    def __init__(self, wall: float = START) -> None:
        self.wall, self.seconds, self.said = wall, 1000.0, list[str]()
        self.clock = Clock(
            wall=lambda: self.wall, steady=lambda: self.seconds, warn=self.said.append
        )

    def after(self, seconds: float, *, leap: float = 0.0) -> float:
        self.wall += seconds + leap
        self.seconds += seconds
        return self.clock.now()


def test_a_leap_ahead_is_not_believed_until_it_lasts():
    machine = Machine()
    assert machine.clock.now() == START
    assert machine.after(1.0, leap=86_400.0) == START + 1.0
    assert machine.after(1.0, leap=-86_400.0) == START + 2.0, "the clock is right again"
    machine.after(1.0, leap=86_400.0)
    for i in range(1, 11):
        assert machine.after(SETTLE_S / 11) == pytest.approx(START + 3.0 + i * SETTLE_S / 11)
    assert machine.after(SETTLE_S / 10) == machine.wall, "and is taken over where it stays"
    assert len(machine.said) == 2 and "ahead by 86,400 s" in machine.said[0]


def test_a_clock_that_was_set_back_is_met_at_half_the_pace():
    machine = Machine()
    machine.clock.now()
    shown = [machine.after(1.0, leap=-7200.0)]
    for _ in range(1600):
        shown.append(machine.after(10.0))
    assert all(b > a for a, b in pairwise(shown)), "no moment comes twice"
    assert shown[0] == START + 1.0 and shown[-1] == machine.wall
    assert "back by 7,200 s" in machine.said[0]


def test_a_clock_that_is_corrected_a_little_at_a_time_is_followed():
    machine = Machine()
    machine.clock.now()
    for _ in range(100):
        assert machine.after(30.0, leap=PACE * 30.0) == pytest.approx(machine.wall, abs=1e-6)
    assert machine.after(1.0, leap=-3.0) == machine.wall + 2.0, (
        "within a leap the last time stands until it is reached"
    )
    assert machine.after(10.0) == machine.wall and not machine.said


@given(st.lists(st.tuples(st.floats(0.0, 1e4), st.floats(-1e6, 1e6)), max_size=30))
def test_whatever_happens_to_the_machine_no_time_goes_back(steps):
    machine = Machine()
    shown = [machine.clock.now()] + [machine.after(seconds, leap=leap) for seconds, leap in steps]
    assert shown == sorted(shown)


class Stamped:
    """A service's counting on such a machine; posts as the application reads them."""

    def __init__(self, made: Bundle, path, *, wall: float = START, first: int = 0) -> None:
        self.machine, self.made = Machine(wall), made
        self.counting = counting_at(path, made, clock=self.machine.clock)
        self._n = first

    def post(self, **more) -> Taken:
        self._n += 1
        (clean,) = events(1, first=self._n)
        body = {"id": f"p{self._n}", "scores": clean["scores"], **more}
        now = self.counting.clock.now()
        (taken,) = self.counting.commit([single_of(body, self.made, now=now)])
        return taken


def test_events_without_a_time_are_counted_though_the_clock_goes_back(made, tmp_path):
    stamped = Stamped(made, tmp_path / "s.sqlite")
    assert stamped.post() == ONE
    stamped.machine.after(1.0, leap=-7200.0)
    for _ in range(3):
        assert stamped.post() == ONE
        stamped.machine.after(SETTLE_S)
    assert stamped.post(time=stamped.machine.clock.now()) == ONE


def test_one_leap_ahead_makes_nobody_late(made, tmp_path):
    stamped = Stamped(made, tmp_path / "s.sqlite")
    assert stamped.post() == ONE
    stamped.machine.after(1.0, leap=86_400.0)
    assert stamped.post() == ONE
    stamped.machine.after(1.0, leap=-86_400.0)
    assert stamped.post() == ONE and stamped.post(time=stamped.machine.wall) == ONE
    assert stamped.counting.monitor.state.newest == stamped.machine.wall


def test_a_clock_set_back_does_not_refuse_right_times_in_silence(made, tmp_path):
    stamped = Stamped(made, tmp_path / "s.sqlite")
    machine, right = stamped.machine, START
    taken = []
    for second in range(900):
        machine.after(1.0, leap=-3600.0 if second == 10 else 0.0)
        right += 1.0
        taken.append(stamped.post(time=right))
    assert sum(one.ahead for one in taken) > 400, "the clock falls behind those that post"
    assert "ahead" in stamped.counting.late
    windows = stamped.counting.now().windows
    assert all(window["no_estimate"] == stamped.counting.late for window in windows)
    assert stamped.counting.outbox.kinds == ["no estimate"]
    machine.after(1.0, leap=3600.0)
    for _ in range(500):
        machine.after(1.0)
        right = machine.wall
        taken.append(stamped.post(time=right))
    assert taken[-1] == ONE and not stamped.counting.late
    assert stamped.counting.outbox.kinds == ["no estimate", "estimates again"]


def test_a_small_leap_ahead_is_believed_after_as_many_seconds(made, tmp_path):
    stamped = Stamped(made, tmp_path / "s.sqlite")
    taken = []
    for second in range(600):
        stamped.machine.after(1.0, leap=120.0 if second == 10 else 0.0)
        taken.append(stamped.post(time=stamped.machine.wall))
    assert 100 <= sum(one.ahead for one in taken) <= 120
    assert stamped.counting.outbox.kinds == ["no estimate", "estimates again"]


@pytest.mark.parametrize("killed", [False, True])
def test_after_a_restart_the_clock_goes_on_from_where_it_was(made, tmp_path, killed):
    before = Stamped(made, tmp_path / "s.sqlite")
    assert before.post() == ONE
    before.machine.after(1.0, leap=86_400.0)
    before.machine.after(SETTLE_S)
    assert before.post() == ONE and before.counting.monitor.state.newest > START + 86_400.0
    before.machine.after(1.0, leap=-86_400.0)
    assert before.post() == ONE
    shown = before.machine.clock.now()
    if killed:
        before.counting.file.close()
    else:
        before.counting.close()
    after = Stamped(made, tmp_path / "s.sqlite", wall=before.machine.wall + 60.0, first=100)
    assert shown <= after.machine.clock.now() < shown + 1.0
    assert "behind" in after.machine.said[0]
    for _ in range(10):
        after.machine.after(60.0)
        assert after.post() == ONE


def test_a_restart_takes_over_no_time_that_no_event_has(made, tmp_path):
    before = Stamped(made, tmp_path / "s.sqlite")
    assert before.post() == ONE
    before.machine.after(1.0, leap=86_400.0)
    before.machine.after(SETTLE_S)
    assert before.machine.clock.now() > START + 86_400.0
    before.counting.close()
    after = Stamped(made, tmp_path / "s.sqlite", wall=START + 400.0, first=100)
    assert after.machine.clock.now() == START + 400.0 and not after.machine.said
