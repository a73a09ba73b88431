"""What the log says about troubles that last: the same at most once a minute.

>>> moments = iter([0.0, 1.0, 2.0, 61.0])
>>> said: list[str] = []
>>> remark = Remarks(said.append, clock=lambda: next(moments))
>>> for text in ("the disk is full", "the disk is full", "no answer", "the disk is full"):
...     remark(text)
>>> said
['the disk is full', 'no answer', 'the disk is full']
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

PAUSE_S = 60.0
ALIKE = 40
"""Remarks that begin with the same characters are the same."""
_LOG = logging.getLogger("roadworthy.monitor")


class Remarks:
    """Says something in the log; any thread may."""

    def __init__(
        self, say: Callable[[str], None] | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say or _warn, clock
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        kind = text[:ALIKE]
        with self._lock:
            now = self._clock()
            if kind in self._said and now - self._said[kind] < PAUSE_S:
                return
            self._said[kind] = now
        self._say(text)


def _warn(text: str) -> None:
    _LOG.warning("%s", text)
