"""Alarms that wait for their receiver, in order. One that it refuses stands aside: nobody waits behind it, and it is tried again.

Refused ones are gone through from the oldest after a pause that grows, and is short again for one that was refused just now;
whatever else waits goes first. One that comes new is tried at once, whatever became of others. There is room for so many beside
those of last time, and the oldest refused one makes it. Of a matter of which many are refused again, one after the other, a round
goes on with the last one, which says how it is; with all of them where the pause grows no more.

A receiver acts on what it hears last. So one that stands aside is not sent any more once a later one of its `matter` was taken:
"cleared" after a later "raised" would say that all is well while it is not. That a later one is refused as well takes nothing
back: who was away for a moment hears all of them, in their order.

>>> moment = 0.0
>>> outgoing = Outgoing(3, pause=lambda rounds: 10.0, clock=lambda: moment)
>>> for name in "ab": _ = outgoing.add({"key": name})
>>> outgoing.refused(outgoing.next()); outgoing.next()
{'key': 'b'}
>>> _ = outgoing.taken({"key": "b"}); outgoing.next(), outgoing.due_in()
(None, 10.0)
>>> moment = 10.0; outgoing.next()
{'key': 'a'}
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Alarm = Mapping[str, Any]
WELL = frozenset({"cleared", "can tell"})
"""Kinds of alarms of which nobody needs to hear who was told of no trouble."""
IN_A_ROW = 10
"""Of one matter so many that are refused again, one after the other, before a round passes over the next ones: one that is refused
for good holds none back, and a receiver that refuses a thousand is not sent a thousand each time."""


def matter(alarm: Alarm) -> str | None:
    """What an alarm says how it is; None where no other one takes that back.

    By the scores or by labels is one matter: nothing is told as cleared before both are. That most of what comes is not counted
    (`late`) is one of its own.

    >>> [matter({"kind": kind}) for kind in ("raised", "cleared", "cannot tell", "can tell")]
    ['risk', 'risk', 'figures', 'figures']
    >>> matter({"kind": "can tell", "late": True})
    'figures late'
    """
    found = {
        "raised": "risk",
        "cleared": "risk",
        "cannot tell": "figures",
        "can tell": "figures",
    }.get(alarm.get("kind", ""))
    return f"{found} late" if found and alarm.get("late") else found


def still_to_send(alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """Of alarms, oldest first, those that were not delivered and that no later one of their matter was taken after.

    Of those that nobody was sent, since there was no webhook, the last of a matter alone, and where it says other than what was
    sent before it. Who was sent nothing takes it that all is well.

    >>> def kinds(*said): return [a["kind"] for a in still_to_send([{"kind": k, "delivered": d} for k, d in said])]
    >>> kinds(("raised", False), ("cannot tell", False), ("cleared", True), ("raised", False), ("cleared", False))
    ['cannot tell', 'raised', 'cleared']
    >>> kinds(("cleared", True), ("raised", "no webhook")), kinds(("raised", True), ("cleared", "no webhook"))
    (['raised'], ['cleared'])
    >>> kinds(("raised", False), ("raised", "no webhook"), ("cleared", "no webhook"))
    ['raised', 'cleared']
    >>> kinds(("raised", "no webhook"), ("cleared", "no webhook"))
    []
    """
    sent, unsent = dict[str | None, str](), dict[str | None, Alarm]()
    for alarm in alarms:
        about = matter(alarm)
        if isinstance(alarm["delivered"], bool):
            sent[about] = str(alarm.get("kind"))
            unsent.pop(about, None)
        elif about is not None:
            unsent[about] = alarm
    news = {
        id(alarm)
        for about, alarm in unsent.items()
        if (alarm["kind"] != sent[about] if about in sent else alarm["kind"] not in WELL)
    }
    over, found = set[str](), list[dict[str, Any]]()
    for alarm in reversed(alarms):
        about = matter(alarm)
        if about is not None and alarm["delivered"] is True:
            over.add(about)
        elif id(alarm) in news or (alarm["delivered"] is False and about not in over):
            found.append({name: value for name, value in alarm.items() if name != "delivered"})
    return found[::-1]


class Outgoing:
    """What waits; one thread takes from it, and any may add."""

    def __init__(
        self,
        room: int,
        *,
        pause: Callable[[int], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._room, self._pause, self._clock = room, pause, clock
        self._lock = threading.Lock()
        self._waiting: deque[Alarm] = deque()
        self._refused: list[Alarm] = []
        self._at = self._rounds = 0
        """Which refused one comes next, and how often they were gone through since one was refused for the first time."""
        self._again = Counter[str | None]()
        """How many of a matter were refused again in this round, one after the other."""
        self._due = 0.0
        """When they are gone through."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._refused)

    @property
    def refusals(self) -> int:
        """How many stand aside."""
        return len(self._refused)

    def add(self, alarm: Alarm) -> bool:
        """One more; False where another one had to make room."""
        with self._lock:
            full = len(self) >= self._room
            if full and self._refused:
                del self._refused[0]
                self._at = max(self._at - 1, 0)
            elif full:
                self._waiting.popleft()
            self._waiting.append(alarm)
        return not full

    def add_before(self, alarms: Iterable[Alarm]) -> None:
        """Those of last time go first, however many: whoever left some out would send them after later ones, or never."""
        with self._lock:
            held = list(alarms)
            self._room += len(held)
            self._waiting.extendleft(reversed(held))

    def next(self) -> Alarm | None:
        """Which to send now; it stays here until it is said what became of it."""
        with self._lock:
            if self._waiting:
                return self._waiting[0]
            due = self._refused and self._clock() >= self._due
            return self._refused[self._at] if due else None

    def due_in(self) -> float | None:
        """Seconds until the next one is due, where none is now; None where only a new one will be."""
        with self._lock:
            return max(self._due - self._clock(), 0.0) if self._refused else None

    def taken(self, alarm: Alarm) -> list[Alarm]:
        """The receiver has it; those that stood aside and are not sent any more, since they are of before."""
        with self._lock:
            about, before, own = matter(alarm), list[Alarm](), list[Alarm]()
            if self._waiting and self._waiting[0] == alarm:
                before = self._refused
                self._waiting.popleft()
            elif alarm in self._refused:
                at = self._refused.index(alarm)
                before, own = self._refused[:at], self._refused[at : at + 1]
            gone = [other for other in before if about is not None and matter(other) == about]
            del self._again[about]
            self._drop([*gone, *own])
            return gone

    def refused(self, alarm: Alarm) -> None:
        """The receiver does not want it: the others go on."""
        with self._lock:
            if self._waiting and self._waiting[0] == alarm:
                self._refused.append(self._waiting.popleft())
                self._begin_anew()
            elif self._refused[self._at : self._at + 1] == [alarm]:
                self._at += 1
                self._again[matter(alarm)] += 1
                self._move_on()

    def _begin_anew(self) -> None:
        """One that is refused for the first time does not wait for as long as those before it do by now."""
        now, first = self._clock(), self._pause(0)
        self._due = now + first if now >= self._due else min(self._due, now + first)
        self._at = self._rounds = 0
        self._again.clear()

    def _drop(self, gone: Sequence[Alarm]) -> None:
        """Some that stand aside are gone."""
        if gone:
            these = {id(alarm) for alarm in gone}
            self._at -= sum(id(alarm) in these for alarm in self._refused[: self._at])
            self._refused = [alarm for alarm in self._refused if id(alarm) not in these]
            self._move_on()

    def _move_on(self) -> None:
        """Pass over those that are left out of this round; after the last, a pause."""
        whole = self._pause(self._rounds) >= self._pause(self._rounds + 1)
        last = {matter(alarm): at for at, alarm in enumerate(self._refused)}
        while self._at < len(self._refused):
            about = matter(self._refused[self._at])
            if whole or about is None or self._at == last[about] or self._again[about] < IN_A_ROW:
                return
            self._at += 1
        self._at, self._rounds = 0, self._rounds + 1
        self._again.clear()
        self._due = self._clock() + self._pause(self._rounds)
