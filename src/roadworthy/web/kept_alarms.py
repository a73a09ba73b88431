"""Alarms, and what became of them, in the state file: at once where it can be written, or else as soon as it can.

A full disk must not keep an alarm back. What the webhook took and what the alarm log has meanwhile is remembered until the alarm is
kept; whoever forgot it would send it again after the next start, or write its line twice. One thread at a time uses this.

>>> import tempfile
>>> from pathlib import Path
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = Ledger(Path(folder.name) / "state.sqlite", bundle="0123abcd", content="{}")
>>> kept = KeptAlarms(ledger, webhook=True)
>>> kept.add({"key": "a", "event": 20, "kind": "raised"}, logged=True)
>>> kept.delivered({"key": "a"}); ledger.alarms()
[{'key': 'a', 'event': 20, 'kind': 'raised', 'delivered': True}]
>>> ledger.close(); folder.cleanup()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from roadworthy.store import StoreError
from roadworthy.web.ledger import Ledger
from roadworthy.web.outgoing import Alarm


class KeptAlarms:
    """Keeps alarms in a ledger, in their order."""

    def __init__(self, ledger: Ledger, *, webhook: bool) -> None:
        self._ledger, self._webhook = ledger, webhook
        self._unkept: dict[str, tuple[Alarm, bool]] = {}
        """Those that could not be kept yet, by their key, each with whether it needs no line in the alarm log any more."""
        self._taken: list[Alarm] = []
        """Those that the webhook took, as long as that is not kept."""

    @property
    def unkept(self) -> list[Alarm]:
        """Those that could not be kept yet, oldest first."""
        return [alarm for alarm, _ in self._unkept.values()]

    def add(self, alarm: Alarm, *, logged: bool) -> None:
        """Keep an alarm; `logged` is False where it belongs in an alarm log and is not there yet."""
        self._unkept[alarm["key"]] = (alarm, logged)
        self.catch_up()

    def delivered(self, alarm: Alarm) -> None:
        """The webhook took an alarm."""
        self._taken.append(alarm)
        self.catch_up()

    def logged(self, alarms: Iterable[Alarm]) -> None:
        """Alarms that had waited are in the alarm log by now; raises StoreError where that cannot be kept."""
        told = list(alarms)
        for alarm in told:
            if alarm["key"] in self._unkept:
                self._unkept[alarm["key"]] = (alarm, True)
        self._ledger.logged(told)

    def catch_up(self) -> None:
        """Keep what could not be kept before, as far as it can be."""
        with contextlib.suppress(StoreError):  # then the next second
            while self._unkept:
                key = next(iter(self._unkept))
                alarm, logged = self._unkept[key]
                self._ledger.keep_alarm(
                    alarm, delivered=False if self._webhook else None, logged=logged
                )
                del self._unkept[key]
            if self._taken:
                self._ledger.delivered(self._taken)
                self._taken = []
