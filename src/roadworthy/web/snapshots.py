"""The monitor kept in its file from time to time, so that a restart replays seconds and the log does not grow for ever.

A step at a time, with posts between: to make the bytes, to write them, and to forget the log before them portion by portion. In
one go they would keep posts waiting for a quarter of a second. A restart at any of these finds the same monitor: it reads the
snapshot that is there, and of the log what came after it.
"""

from __future__ import annotations

from typing import NamedTuple

from roadworthy.monitor import Monitor
from roadworthy.web.ledger import Full, Ledger

SNAPSHOT_BYTES = 32 << 20
"""The log grows by this much (a million events), or by twice the snapshot, before the next one: a restart replays for seconds."""
PORTION = 4 << 20
"""Bytes of the log that are forgotten at a time: some ten milliseconds."""


class _Made(NamedTuple):
    """A monitor as bytes that are not written yet."""

    body: bytes
    seq: int
    clock: float
    log_bytes: int


class Snapshots:
    """When to keep a monitor, and how far that has come."""

    def __init__(self, ledger: Ledger, *, every: int = SNAPSHOT_BYTES) -> None:
        self._ledger, self._every = ledger, every
        self.log_bytes = 0
        """Of the log since the monitor was last kept."""
        self._size = 0
        self._made: _Made | None = None

    def step(self, monitor: Monitor, *, seq: int, clock: float) -> bool:
        """Go on with what is due of a monitor that has counted the log up to a row; whether there is more to do."""
        if self._made is not None:
            self._write(self._made, monitor, seq=seq, clock=clock)
            return True
        if self._ledger.forget_before_snapshot(PORTION):
            return True
        if self.log_bytes > max(self._every, 2 * self._size):
            self._made = _Made(monitor.to_bytes(), seq, clock, self.log_bytes)
        return self._made is not None

    def at_once(self, monitor: Monitor, *, seq: int, clock: float) -> None:
        """Keep a monitor, and forget the log before it, in one transaction: this makes room."""
        self._made = None  # older than this one: the log in between is forgotten
        body = monitor.to_bytes()
        self._ledger.snapshot(body, upto=seq, clock=clock)
        self.log_bytes, self._size = 0, len(body)

    def _write(self, made: _Made, monitor: Monitor, *, seq: int, clock: float) -> None:
        try:
            self._ledger.snapshot(made.body, upto=made.seq, clock=made.clock, forget=False)
        except Full:
            self.at_once(monitor, seq=seq, clock=clock)
            return
        self._made = None
        self.log_bytes, self._size = self.log_bytes - made.log_bytes, len(made.body)
