"""The clock of the service: a leap of the machine's own, back or ahead, moves no stamp, and none comes twice."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from monitored import START

from roadworthy.monitor import Bundle, Taken
from roadworthy.web.clock import LEAP_S, SETTLE_S, Clock
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger

ONE = Taken(1, 0, 0, 0)


class Machine:
    """A machine whose clock can be set, with the clock of a service on it."""

    def __init__(self) -> None:
        self.wall, self.seconds, self.said = START, 1000.0, list[str]()
        self.clock = Clock(wall=lambda: self.wall, steady=lambda: self.seconds, remark=self.said.append)

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
        assert machine.after(10.0, leap=LEAP_S / 2) == machine.wall
    assert machine.after(1.0, leap=-3.0) == machine.wall + 2.0, "within a leap the last time stands until it is reached"
    assert machine.after(10.0) == machine.wall and not machine.said


@given(st.lists(st.tuples(st.floats(0.0, 1e4), st.floats(-1e6, 1e6)), max_size=30))
def test_whatever_happens_to_the_machine_no_time_goes_back(steps):
    machine = Machine()
    shown = [machine.clock.now()] + [machine.after(seconds, leap=leap) for seconds, leap in steps]
    assert shown == sorted(shown)


class Stamped:
    """A service's counting on such a machine; posts as the application reads them."""

    def __init__(self, made: Bundle, path) -> None:
        self.machine = Machine()
        ledger = Ledger(path, bundle=made.id, content="{}")
        self.counting = Counting(made, ledger, clock=self.machine.clock)
        self._reader = Reader(made.calibration, subject=made.subject)
        self._n = 0

    def post(self, **more) -> Taken:
        self._n += 1
        body = {"id": f"p{self._n}", "scores": {"knn": 0.1, "energy": 0.1}, **more}
        (taken,) = self.counting.commit([self._reader.read(json.dumps(body).encode(), now=self.counting.clock.now())])
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
