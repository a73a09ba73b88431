"""How many bytes of requests and answers may be held at the same time, so that many large ones do not take all memory.

>>> room = InFlight(100)
>>> first, second = room.share(), room.share()
>>> first.take(80)
>>> second.take(30)
Traceback (most recent call last):
roadworthy.web.in_flight.TooMuch: 80 of 100 bytes are in use by other requests; send it again
>>> first.give_back()
>>> second.take(30)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from roadworthy.web.http_io import Receive


class TooMuch(Exception):
    """There is no room for this now; a client tries again in a moment."""


class InFlight:
    """The room that all requests share; any thread may ask for some of it."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._lock = threading.Lock()

    def share(self) -> Share:
        """What one request will hold."""
        return Share(self)

    def add(self, size: int) -> None:
        """Take room, or give it back where the size is negative."""
        with self._lock:
            if size > 0 and self.used + size > self.most:
                raise TooMuch(
                    f"{self.used:,} of {self.most:,} bytes are in use by other requests; send it again"
                )
            self.used += size


class Share:
    """What one request holds of the room."""

    def __init__(self, room: InFlight) -> None:
        self._room, self._held, self._over = room, 0, False
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Hold so many bytes more."""
        with self._lock:
            if self._over:
                raise TooMuch("this request was given up")
            self._room.add(size)
            self._held += size

    def give_back(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._room.add(-self._held)
            self._held, self._over = 0, True

    def counted(self, receive: Receive) -> Receive:
        """The same messages, with their bytes held."""

        async def receive_counted() -> Mapping[str, Any]:
            message = await receive()
            self.take(len(message.get("body", b"")))
            return message

        return receive_counted
