"""What the log says about troubles that last: the same, but for numbers in it, at most once a minute.

>>> moments = iter([0.0, 1.0, 2.0, 3.0, 61.0])
>>> said: list[str] = []
>>> remark = Remarks(said.append, clock=lambda: next(moments))
>>> for text in ("the disk is full", "5 wait", "6 wait", "the disk is full", "the disk is full"):
...     remark(text)
>>> said
['the disk is full', '5 wait', 'the disk is full']
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable

PAUSE_S = 60.0
ALIKE = 40
"""Remarks that begin with the same characters are of one kind."""
MOST = 5
"""Different ones of a kind in that time: a reason may quote what was found, which is never the same."""
_LOG = logging.getLogger("roadworthy.monitor")
_NUMBERS = re.compile(r"[\d,.]+")


class Remarks:
    """Says something in the log; any thread may. Where numbers are names, those that differ in them are not alike."""

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        *,
        numbers_alike: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._clock, self._numbers_alike = say or warn, clock, numbers_alike
        self._lock = threading.Lock()
        self._said: dict[str, dict[str, float]] = {}
        """When remarks were made, by their kind."""

    def __call__(self, text: str) -> None:
        kind = _NUMBERS.sub("#", text)[:ALIKE]
        text_alone = _NUMBERS.sub("#", text) if self._numbers_alike else text
        with self._lock:
            now = self._clock()
            lately = {
                other: when
                for other, when in self._said.get(kind, {}).items()
                if now - when < PAUSE_S
            }
            if text_alone in lately or len(lately) >= MOST:
                return
            self._said[kind] = {**lately, text_alone: now}
        self._say(text)


def warn(text: str) -> None:
    """Say something in the log, whatever was said before."""
    _LOG.warning("%s", text)
