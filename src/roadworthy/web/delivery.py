"""Alarms on their way out: to a webhook, again and again until it takes them, and to a log of JSON lines.

Nothing here makes a post wait: a thread of its own delivers from a bounded queue. An alarm may arrive twice (an answer can
get lost after it was taken), and never less than once, unless more wait than the queue holds; its ``key`` is the same each
time. Where the webhook has trouble, all wait in their order; one that it refuses by itself is sent again after the others, unless
it took one that says how it is since. Who cannot deliver says so in the log, and counts it.

>>> [round(pause(n), 1) for n in (0, 1, 2, 20)]
[1.0, 2.0, 4.0, 300.0]
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from roadworthy.store import StoreError
from roadworthy.web import ServiceError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.folders import make_folder
from roadworthy.web.outgoing import Alarm, Outgoing
from roadworthy.web.remarks import Remarks, warn

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
TIMEOUT_S = 10.0
ANSWER_S = 30.0
"""For how long an answer may take in all: a timeout counts from the last byte, and an answer that drips in would never end."""
REACH_S = 3.0
"""For how long a webhook is tried to be reached at the start."""
WAITING = 1000
"""Alarms that wait at most; the oldest goes first, and is counted as dropped."""
NOT_NOW = frozenset({401, 407, 408, 425, 429})
"""Answers from 400 to 499 that say nothing about the alarm that was sent, but of a password or the moment: it is to be sent again
(RFC 9110, 8470, 6585). A 404 may be of an alarm that the receiver does not know to be open."""


def pause(failures: int, *, first: float = FIRST_PAUSE_S) -> float:
    """Seconds before the next try, twice as long each time."""
    return min(first * 2.0 ** min(failures, 30), LONGEST_PAUSE_S)


class AlarmLog:
    """A file with one alarm a line, synced; one thread writes it."""

    def __init__(self, path: Path, *, remark: Callable[[str], None] | None = None) -> None:
        self._path, self._remark = path, remark or Remarks()
        self._told: Callable[[list[Alarm]], Any] = lambda alarms: None
        self._waiting: deque[Alarm] = deque(maxlen=WAITING)
        self._unlogged: Callable[[int], Iterable[Alarm]] = lambda most: []
        self._more = True
        """Whether more may be unlogged than wait here."""
        self._caught_up: list[Alarm] = []
        """Those that had waited and are written, as long as nobody was told."""
        self.failed = 0
        """Lines that could not be written when they were due."""
        try:
            make_folder(path, called=f"--alarm-log {path}")
            path.open("ab").close()
        except OSError as error:
            raise ServiceError(
                f"--alarm-log {path} cannot be written ({error.strerror or error}); name a file that can"
            ) from None

    @property
    def waiting(self) -> int:
        """Alarms that are not in the file yet."""
        return len(self._waiting)

    def start(
        self, told: Callable[[list[Alarm]], Any], unlogged: Callable[[int], Iterable[Alarm]]
    ) -> None:
        """Begin with what was not written last time, of which `unlogged` gives the oldest; `told` hears of alarms that had waited
        and are in the file."""
        self._told, self._unlogged = told, unlogged
        self.catch_up()

    def write(self, alarm: Alarm) -> bool:
        """Add a line, after those that could not be written before; False where it has to wait."""
        self._more |= self.waiting == WAITING  # the oldest makes room
        self._waiting.append(alarm)
        self._catch_up(but=alarm)
        self.failed += bool(self._waiting)
        return not self._waiting

    def catch_up(self) -> None:
        """Write what waits; where that is all, the next of those for which there was no room here."""
        self._catch_up()
        if self._more and not self._waiting and not self._caught_up:
            self._waiting.extend(self._unlogged(WAITING))
            self._more = self.waiting == WAITING
            self._catch_up()

    def _catch_up(self, but: Alarm | None = None) -> None:
        self._caught_up += [alarm for alarm in self._written() if alarm is not but]
        if self._caught_up:
            with contextlib.suppress(StoreError):  # then they are told with the next
                self._told(self._caught_up)
                self._caught_up = []

    def _written(self) -> list[Alarm]:
        """Write what waits; those that are in the file now."""
        written: list[Alarm] = []
        try:
            while self._waiting:
                self._add(self._waiting[0])
                written.append(self._waiting.popleft())
        except OSError as error:
            self._remark(
                f"the alarm log {self._path} cannot be written ({error.strerror or error}): {self.waiting:,} alarms wait"
            )
        return written

    def _add(self, alarm: Alarm) -> None:
        """One line, or nothing; what was cut short before stays apart from it."""
        with self._path.open("a+b", buffering=0) as file:
            end = file.tell()
            line = (
                (b"\n" if end and not _ends_a_line(file) else b"")
                + json.dumps(alarm).encode()
                + b"\n"
            )
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:  # it is written again, every second: what is there of it goes
                if os.fstat(file.fileno()).st_size > end:
                    file.truncate(end)
                raise


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


@contextlib.contextmanager
def _ended_after(seconds: float, line: socket.socket) -> Iterator[None]:
    """Let a line be used for so long; then it is cut, and TimeoutError raised, also where what was read by then has a status."""
    cut = threading.Event()

    def end() -> None:
        cut.set()
        with contextlib.suppress(OSError):  # it has ended by itself
            socket.socket.shutdown(
                line, socket.SHUT_RDWR
            )  # of an encrypted one too, whoever reads it

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if not cut.is_set():
            raise
    finally:
        timer.cancel()
    if cut.is_set():
        raise TimeoutError(f"no answer within {seconds:g} s")


class Became(Enum):
    """What became of an alarm that was sent once."""

    TAKEN = "taken"
    REFUSED = "refused"
    """The webhook understood, and does not want this one."""
    FAILED = "failed"
    """The webhook has trouble, whichever it is sent."""


class Webhook:
    """Posts alarms as JSON to one address; a user and a password that stand in it are sent as Basic authorization."""

    def __init__(
        self,
        address: str,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        remark: Callable[[str], None] | None = None,
    ) -> None:
        try:
            self._address = address_of(address)
        except ValueError as error:
            raise ServiceError(
                f"--webhook {without_password(address)!r} is no address of a webhook: {error}; write it as in "
                "https://alerts.example/hook"
            ) from None
        self._first, self._remark, self._say = first_pause_s, remark or Remarks(), remark or warn
        self._told: Callable[[Alarm], Any] = lambda alarm: None
        self._outgoing = Outgoing(WAITING, pause=lambda rounds: pause(rounds, first=first_pause_s))
        self._some = threading.Event()
        self._ended = threading.Event()
        self.sent = self.failed = self.dropped = 0
        self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(
        self, told: Callable[[Alarm], Any] = lambda alarm: None, waiting: Iterable[Alarm] = ()
    ) -> None:
        """Begin with what was not taken last time; `told` hears of every alarm that is."""
        self._told = told
        self._outgoing.add_before(waiting)
        self._thread.start()

    def send(self, alarm: Alarm) -> None:
        """Queue an alarm; returns at once."""
        if not self._outgoing.add(alarm):
            self.dropped += 1
            self._remark(
                f"more than {WAITING:,} alarms wait for the webhook: the oldest is sent after the next start, if no later one took "
                "its place"
            )
        self._some.set()

    @property
    def waiting(self) -> int:
        """Alarms that were not taken yet."""
        return len(self._outgoing)

    @property
    def refused(self) -> int:
        """Those of them that the webhook refuses, while others go on."""
        return self._outgoing.refusals

    def close(self) -> None:
        """Stop; what waits is sent after the next start."""
        self._ended.set()
        self._some.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _try_to_reach(self) -> None:
        """Say at the start what would else be noticed when there is an alarm to send; nothing is sent."""
        try:
            self._address.reach(REACH_S)
        except Exception as error:  # whatever it is, the thread goes on
            self._remark(
                f"--webhook: {self._address.host} port {self._address.port_or_usual} cannot be reached now "
                f"({error or type(error).__name__}); alarms will be sent again and again until it takes them, so start again "
                "with another address only if this one is wrong"
            )

    def _run(self) -> None:
        if not self.waiting:  # of an alarm that waits, the first try says the same
            self._try_to_reach()
        failures = 0
        while not self._ended.is_set():
            alarm = self._outgoing.next()
            if alarm is None:
                self._some.wait(self._outgoing.due_in())
                self._some.clear()
                continue
            became = self._sent(alarm)
            if became is Became.FAILED:
                self.failed += 1
                self._remark(f"an alarm was not delivered: {self.trouble}; {self.waiting:,} wait")
                self._ended.wait(pause(failures, first=self._first))
                failures += 1
                continue
            failures = 0
            if became is Became.TAKEN:
                self.sent += 1
                self._given_up(self._outgoing.taken(alarm), alarm)
                self._told(alarm)
            else:
                self.failed += 1
                self._outgoing.refused(alarm)
                self._remark(
                    f"an alarm was refused ({alarm.get('kind')}, key {alarm.get('key')}): {self.trouble}; the others are sent "
                    "without it, and it is sent again after a while"
                )

    def _given_up(self, gone: Iterable[Alarm], alarm: Alarm) -> None:
        for other in gone:
            self._say(
                f"an alarm is not sent any more ({other.get('kind')}, key {other.get('key')}): the webhook had refused it, and a "
                f"later one says how it is ({alarm.get('kind')}, key {alarm.get('key')})"
            )

    def _sent(self, alarm: Alarm) -> Became:
        """Send an alarm once. Whatever goes wrong, the thread goes on: the next try may succeed."""
        headers = {"Content-Type": "application/json"}
        if self._address.authorization:
            headers["Authorization"] = self._address.authorization
        try:
            connection = self._address.connection(TIMEOUT_S)
            try:
                connection.connect()
                with _ended_after(ANSWER_S, connection.sock):
                    connection.request("POST", self._address.path, json.dumps(alarm), headers)
                    status = connection.getresponse().status
            finally:
                connection.close()
        except Exception as error:
            self.trouble = f"the webhook cannot be reached ({error or type(error).__name__})"
            return Became.FAILED
        taken = 200 <= status < 300
        self.trouble = "" if taken else f"the webhook answered {status}"
        if taken:
            return Became.TAKEN
        return Became.REFUSED if 400 <= status < 500 and status not in NOT_NOW else Became.FAILED
