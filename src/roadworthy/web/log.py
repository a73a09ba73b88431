"""Warnings about trouble that lasts: the same one, but for its numbers, at most once a minute.

>>> moments = iter([0.0, 1.0, 2.0, 61.0])
>>> said: list[str] = []
>>> warn = ThrottledLog(said.append, clock=lambda: next(moments))
>>> for text in ("5 alarms wait", "6 alarms wait", "the disk is full", "7 alarms wait"):
...     warn(text)
>>> said
['5 alarms wait', 'the disk is full', '7 alarms wait']
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger("roadworthy.monitor")
PAUSE_S = 60.0
MOST = 20
"""Different warnings in that time: a reason may quote input, which is never the same."""
_NUMBERS = re.compile(r"[\d,.]+")


class ThrottledLog:
    """Writes warnings to the log; any thread may call it."""

    def __init__(
        self,
        say: Callable[[str], None] = lambda text: LOG.warning("%s", text),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._clock = say, clock
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        form = _NUMBERS.sub("#", text)
        with self._lock:
            now = self._clock()
            self._said = {f: when for f, when in self._said.items() if now - when < PAUSE_S}
            if form in self._said or len(self._said) >= MOST:
                return
            self._said[form] = now
        self._say(text)
