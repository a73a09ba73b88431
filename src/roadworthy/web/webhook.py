"""Alarms on their way out: to a webhook, in order, and to a log of JSON lines.

The state file is the queue: an alarm waits there until the webhook has answered 2xx. After 5xx,
408, 429, a time-out or a connection error it is sent again, with a growing pause, and the others
wait behind it. Any other 4xx is logged, and the alarm is not sent again. An alarm may arrive twice
(an answer can get lost); its ``key`` is the same each time. Nothing here makes a post wait: a
thread of its own delivers.

>>> [round(pause(n), 1) for n in (0, 1, 2, 20)]
[1.0, 2.0, 4.0, 300.0]
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roadworthy.store import StoreError
from roadworthy.web import ServiceError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.log import LOG, ThrottledLog
from roadworthy.web.state_file import (
    DELIVERED,
    NO_WEBHOOK,
    REFUSED,
    WAITING,
    StateFile,
    make_folder,
)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
TIMEOUT_S = 10.0
REACH_S = 3.0
RETRIED = frozenset({408, 429})
"""Answers from 400 to 499 that are about the moment, not about the alarm (RFC 9110, 6585)."""

Alarm = Mapping[str, Any]


def pause(failures: int, *, first: float = FIRST_PAUSE_S) -> float:
    """Seconds before the next try, twice as long each time."""
    return min(first * 2.0 ** min(failures, 30), LONGEST_PAUSE_S)


class Webhook:
    """Posts alarms as JSON; a user and a password in the address become Basic authorization."""

    def __init__(
        self,
        address: str,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        try:
            self._address = address_of(address)
        except ValueError as error:
            raise ServiceError(
                f"--webhook {without_password(address)!r} is not an address: {error}. "
                "Write it as in https://alerts.example/hook."
            ) from None
        self._first, self._warn = first_pause_s, warn or ThrottledLog()
        self._settled: Callable[[Alarm, int], Any] = lambda alarm, became: None
        self._queue: deque[Alarm] = deque()
        self._some = threading.Event()
        self._ended = threading.Event()
        self.sent = self.failed = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self, settled: Callable[[Alarm, int], Any]) -> None:
        """Begin to deliver; `settled` is told what became of each alarm."""
        self._settled = settled
        self._thread.start()

    def send(self, alarm: Alarm) -> None:
        """Queue an alarm; returns at once."""
        self._queue.append(alarm)
        self._some.set()

    @property
    def waiting(self) -> int:
        """Alarms that were not delivered yet."""
        return len(self._queue)

    def close(self) -> None:
        """Stop; what waits is sent after the next start."""
        self._ended.set()
        self._some.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        if not self._queue:
            self._try_to_reach()
        failures = 0
        while not self._ended.is_set():
            if not self._queue:
                self._some.wait()
                self._some.clear()
                continue
            alarm = self._queue[0]
            became, trouble = self._post(alarm)
            if became == WAITING:
                self.failed += 1
                self._warn(f"An alarm was not delivered: {trouble}. {self.waiting:,} wait.")
                self._ended.wait(pause(failures, first=self._first))
                failures += 1
                continue
            failures = 0
            self._queue.popleft()
            if became == DELIVERED:
                self.sent += 1
            else:
                self.dropped += 1
                LOG.error("Alarm %s is not sent again: %s.", alarm.get("key"), trouble)
            self._settled(alarm, became)

    def _try_to_reach(self) -> None:
        """Report a wrong address at the start, before the first alarm is due; nothing is sent."""
        try:
            self._address.reach(REACH_S)
        except Exception as error:  # whatever it is, the thread goes on
            self._warn(
                f"--webhook: {self._address.host} cannot be reached now "
                f"({error or type(error).__name__}). Alarms will be retried until it answers."
            )

    def _post(self, alarm: Alarm) -> tuple[int, str]:
        """Send an alarm once: what became of it, and what went wrong."""
        headers = {"Content-Type": "application/json"}
        if self._address.authorization:
            headers["Authorization"] = self._address.authorization
        try:
            connection = self._address.connection(TIMEOUT_S)
            try:
                connection.request("POST", self._address.path, json.dumps(alarm), headers)
                status = connection.getresponse().status
            finally:
                connection.close()
        except Exception as error:  # the next try may succeed
            return WAITING, f"the webhook cannot be reached ({error or type(error).__name__})"
        if 200 <= status < 300:
            return DELIVERED, ""
        final = 400 <= status < 500 and status not in RETRIED
        return REFUSED if final else WAITING, f"the webhook answered {status}"


class AlarmLog:
    """A file with one alarm a line, synced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed = 0
        """Lines that could not be written when they were due."""
        try:
            make_folder(path, called=f"--alarm-log {path}")
            path.open("ab").close()
        except OSError as error:
            raise ServiceError(
                f"--alarm-log {path} cannot be written ({error.strerror or error})."
            ) from None

    def write(self, alarm: Alarm) -> None:
        """Add one line, or nothing and raise; what was cut short before stays apart from it."""
        with self.path.open("a+b", buffering=0) as file:
            end = file.tell()
            line = json.dumps(alarm).encode() + b"\n"
            if end:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:  # it is written again later: what is there of it goes
                if os.fstat(file.fileno()).st_size > end:
                    file.truncate(end)
                raise


class Outbox:
    """Keeps alarms in the state file and hands them to webhook and log; one thread uses it.

    A full disk does not hold an alarm back: what cannot be written to the state file now is kept in
    memory, sent all the same, and written as soon as it can be.
    """

    def __init__(
        self,
        file: StateFile,
        *,
        webhook: Webhook | None = None,
        log: AlarmLog | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._file, self._webhook, self._log = file, webhook, log
        self._warn = warn or ThrottledLog()
        self._unkept: dict[str, Alarm] = {}
        self._became: list[tuple[int, str]] = []
        """What became of alarms at the webhook, not written yet."""
        self._logged: list[tuple[int, str]] = []
        """Alarms that are in the log, which is not written yet."""
        self._unlogged: deque[Alarm] = deque(file.unlogged() if log is not None else ())
        if webhook is not None:
            for alarm in file.undelivered():
                webhook.send(alarm)
        self.catch_up()

    @property
    def unlogged(self) -> int:
        """Alarms that are not in the alarm log yet."""
        return len(self._unlogged)

    def knows(self, key: str) -> bool:
        """Whether an alarm was added before."""
        return key in self._unkept or self._file.knows_alarm(key)

    def add(self, alarm: Alarm) -> None:
        """Log, keep and send an alarm; after a crash it comes twice rather than never."""
        self._unkept[alarm["key"]] = alarm
        if self._log is not None:
            self._unlogged.append(alarm)
        self.catch_up()
        if self._log is not None:
            self._log.failed += bool(self._unlogged)
        if self._webhook is not None:
            self._webhook.send(alarm)

    def settle(self, alarm: Alarm, became: int) -> None:
        """The webhook has accepted or refused an alarm."""
        self._became.append((became, alarm["key"]))
        self.catch_up()

    def catch_up(self) -> None:
        """Write what could not be written before, as far as possible."""
        self._write_log()
        with contextlib.suppress(StoreError):  # it is tried again every second
            self._keep()

    def _write_log(self) -> None:
        try:
            while self._unlogged and self._log is not None:
                self._log.write(self._unlogged[0])
                self._logged.append((1, self._unlogged.popleft()["key"]))
        except OSError as error:
            self._warn(
                f"The alarm log cannot be written ({error.strerror or error}): "
                f"{self.unlogged:,} alarms wait."
            )

    def _keep(self) -> None:
        waiting = {alarm["key"] for alarm in self._unlogged}
        delivered = NO_WEBHOOK if self._webhook is None else WAITING
        for key, alarm in list(self._unkept.items()):
            self._file.keep_alarm(alarm, delivered=delivered, logged=key not in waiting)
            del self._unkept[key]
        for column, settled in (("delivered", self._became), ("logged", self._logged)):
            if settled:
                self._file.settle_alarms(column, settled)
                settled.clear()
