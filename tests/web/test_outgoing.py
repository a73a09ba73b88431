"""Alarms that wait for their receiver: in order, within bounds, and none behind one that is refused."""

from __future__ import annotations

from roadworthy.web.delivery import pause
from roadworthy.web.outgoing import Outgoing


class Moment:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(kind: str, event: int, **more: object) -> dict:
    return {"key": f"{event}-{kind}", "kind": kind, "event": event, **more}


def waiting(*names: str, room: int = 10) -> tuple[Outgoing, Moment]:
    moment = Moment()
    outgoing = Outgoing(room, pause=pause, clock=moment)
    for name in names:
        outgoing.add({"key": name})
    return outgoing, moment


def key(outgoing: Outgoing) -> str | None:
    alarm = outgoing.next()
    return None if alarm is None else alarm["key"]


def test_the_pause_between_rounds_grows_and_begins_anew_once_none_is_refused():
    outgoing, moment = waiting("a")
    for expected in (1.0, 2.0, 4.0, 8.0):
        outgoing.refused({"key": "a"})
        assert key(outgoing) is None and outgoing.due_in() == expected
        moment.now += expected
    outgoing.taken({"key": "a"})
    assert len(outgoing) == 0 and outgoing.due_in() is None
    outgoing.add({"key": "b"})
    outgoing.refused({"key": "b"})
    assert outgoing.due_in() == 1.0


def test_a_new_alarm_goes_before_those_that_are_tried_again():
    outgoing, moment = waiting("a", "b")
    outgoing.refused({"key": "a"})
    outgoing.refused({"key": "b"})
    moment.now = 1.0
    assert key(outgoing) == "a"
    outgoing.add({"key": "c"})
    outgoing.refused({"key": "a"})  # what was on its way meanwhile
    assert key(outgoing) == "c"
    outgoing.taken({"key": "c"})
    assert key(outgoing) == "b", "the round goes on where it was"


def test_the_oldest_refused_alarm_makes_room():
    outgoing, moment = waiting("a", "b", "c", room=3)
    outgoing.refused({"key": "a"})
    assert not outgoing.add({"key": "d"}) and len(outgoing) == 3 and outgoing.refusals == 0
    outgoing.refused({"key": "b"})
    outgoing.refused({"key": "c"})
    moment.now = 1.0
    outgoing.taken({"key": "d"})
    outgoing.refused({"key": "b"})
    assert outgoing.add({"key": "e"}) and not outgoing.add({"key": "f"})
    outgoing.taken({"key": "e"})
    outgoing.taken({"key": "f"})
    assert key(outgoing) == "c"


def test_what_stood_aside_is_not_sent_once_a_later_one_says_how_it_is():
    outgoing, moment = waiting()
    alarms = [
        said("cleared", 1),
        said("cannot tell", 2),
        said("cannot tell", 3, late=True),
        said("raised", 4),
    ]
    for alarm in alarms:
        outgoing.add(alarm)
    for alarm in alarms[:3]:
        outgoing.refused(alarm)
    assert outgoing.taken(alarms[3]) == [alarms[0]], "whose matter it is, and no other"
    outgoing.add(said("can tell", 5))
    assert outgoing.taken(said("can tell", 5)) == [alarms[1]] and len(outgoing) == 1
    moment.now = 1.0
    assert outgoing.next() == alarms[2]


def test_those_that_stood_aside_are_sent_again_in_their_order_and_none_is_given_up_for_one_that_was_refused_too():
    outgoing, moment = waiting()
    alarms = [
        said(kind, event) for event, kind in enumerate(("raised", "cleared", "raised", "cleared"))
    ]
    for alarm in alarms:
        outgoing.add(alarm)
        outgoing.refused(alarm)
    assert outgoing.refusals == 4 and outgoing.next() is None
    moment.now = 1.0
    for left, alarm in zip((3, 2, 1, 0), alarms, strict=True):
        assert outgoing.next() == alarm and outgoing.taken(alarm) == [] and len(outgoing) == left
    assert outgoing.due_in() is None


def test_one_that_is_refused_again_is_given_up_once_the_next_of_its_matter_is_taken():
    outgoing, moment = waiting()
    cleared, raised = said("cleared", 1), said("raised", 2, by_labels=1)
    for alarm in (cleared, raised):
        outgoing.add(alarm)
        outgoing.refused(alarm)
    moment.now = 1.0
    outgoing.refused(cleared)
    assert outgoing.next() == raised
    outgoing.refused(raised)
    assert outgoing.next() is None and outgoing.due_in() == 2.0
    moment.now = 3.0
    outgoing.refused(cleared)
    assert outgoing.taken(raised) == [cleared] and len(outgoing) == 0 and outgoing.due_in() is None


def test_one_that_is_refused_for_the_first_time_does_not_wait_as_long_as_old_ones():
    outgoing, moment = waiting("old")
    outgoing.refused({"key": "old"})
    for _ in range(10):
        moment.now += outgoing.due_in()
        outgoing.refused({"key": "old"})
    assert outgoing.due_in() == 300.0
    moment.now += 1.0
    for name in ("new", "newer"):
        outgoing.add({"key": name})
        outgoing.refused({"key": name})
        assert outgoing.due_in() == 1.0
    moment.now += 0.5
    outgoing.add({"key": "newest"})
    outgoing.refused({"key": "newest"})
    assert outgoing.due_in() == 0.5, "nor does it make others wait"


def test_of_many_that_are_refused_for_good_a_round_tries_the_oldest_and_the_last_until_the_pause_is_the_longest():
    outgoing, moment = waiting(room=1000)
    kinds = ("raised", "cleared")
    alarms = [said(kinds[event % 2], event) for event in range(100)]
    alarms.insert(50, said("cannot tell", 50))
    for alarm in alarms:
        outgoing.add(alarm)
        outgoing.refused(alarm)
    tried = list[list[int]]()
    for _ in range(10):
        moment.now += outgoing.due_in()
        tried.append([])
        while (alarm := outgoing.next()) is not None:
            outgoing.refused(alarm)
            tried[-1].append(alarm["event"])
    assert tried[0] == [*range(10), 50, 99] and all(events == tried[0] for events in tried[:9])
    assert tried[9] == [alarm["event"] for alarm in alarms], "all of them, where it is cheap"
    moment.now += outgoing.due_in()
    for alarm in alarms[:9]:
        outgoing.refused(alarm)
    assert outgoing.taken(alarms[9]) == alarms[:9] and outgoing.next() == alarms[10], (
        "none is held back"
    )


def test_one_that_made_room_while_it_was_on_its_way_takes_back_nothing_later():
    outgoing, moment = waiting(room=2)
    cleared, other, raised = said("cleared", 1), said("cannot tell", 2), said("raised", 3)
    for alarm in (cleared, other):
        outgoing.add(alarm)
        outgoing.refused(alarm)
    moment.now = 1.0
    assert outgoing.next() == cleared  # which is on its way now
    assert not outgoing.add(raised)
    outgoing.refused(raised)
    assert outgoing.taken(cleared) == [] and raised in (outgoing.next(), *outgoing._refused)


def test_what_waited_last_time_goes_first_all_of_it():
    outgoing, _ = waiting("c", room=3)
    outgoing.add_before({"key": name} for name in "xab")
    assert outgoing.add({"key": "d"}), "and takes no room from others"
    found = []
    while (alarm := outgoing.next()) is not None:
        found.append(alarm["key"])
        outgoing.taken(alarm)
    assert found == ["x", "a", "b", "c", "d"]
