"""Which of several assessments in one store computes a chunk: who claims it first.

A claim is a file that only one can create. Its owner shows every few seconds that it lives; a claim whose
owner has shown nothing for a minute, or whose process has ended on this machine, is taken over. Nothing
depends on the clocks of two machines agreeing. Two who compute the same chunk after all write the same answers.

>>> import tempfile
>>> from pathlib import Path
>>> from roadworthy.store.files import Folder
>>> place = Folder(Path(tempfile.mkdtemp()))
>>> with Claims(place) as one, Claims(place) as other:
...     one.take("chunk"), other.take("chunk"), one.release("chunk"), other.take("chunk")
(True, False, None, True)
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator

from roadworthy.store.cache import ChunkCache, is_alive
from roadworthy.store.files import SharedFiles

SHOWN_S = 10.0
"""Between two signs of life."""
STALE_S = 60.0
"""Without a sign of life for so long, an owner counts as gone."""
PAUSE_S = 0.2
"""Between two looks at what others compute, at first."""
LONG_S = 2.0
"""And when nothing has changed for some looks."""


class Claims:
    """The claims of one assessment."""

    def __init__(self, files: SharedFiles) -> None:
        self._files, self._owner = files, uuid.uuid4().hex
        self._held: dict[str, str] = {}
        self._generations: dict[str, int] = {}
        self._seen: dict[str, tuple[bytes, float]] = {}
        self._ended = threading.Event()
        self._beat = 0

    def __enter__(self) -> Claims:
        self._show()
        threading.Thread(target=self._live, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for key in list(self._held):
            self.release(key)
        self._files.delete(f"owners/{self._owner}")

    def take(self, key: str) -> bool:
        """Claim a chunk; False if another one has it."""
        while True:
            generation = self._generations.get(key, 0)
            name = f"claims/{key}.{generation}"
            if self._files.create(name, self._owner.encode()):
                self._held[key] = name
                return True
            owner = self._files.read(name)
            if owner and self._lives(owner.decode()):
                return False
            # Released, or left behind: the next generation is free, and only one can create it.
            self._generations[key] = generation + (owner is not None)

    def release(self, key: str) -> None:
        """The chunk is done, or is not computed after all."""
        name = self._held.pop(key, None)
        if name is not None:
            self._files.delete(name)

    def _lives(self, owner: str) -> bool:
        sign = self._files.read(f"owners/{owner}")
        if sign is None:
            return False
        about = json.loads(sign)
        if about["host"] == platform.node() and not is_alive(about["pid"]):
            return False
        before = self._seen.get(owner)
        if before is None or before[0] != sign:
            self._seen[owner] = (sign, time.monotonic())
            return True
        return time.monotonic() - before[1] < STALE_S

    def _show(self) -> None:
        self._beat += 1
        about = {"host": platform.node(), "pid": os.getpid(), "beat": self._beat}
        self._files.write(f"owners/{self._owner}", json.dumps(about).encode())

    def _live(self) -> None:
        while not self._ended.wait(SHOWN_S):
            try:
                self._show()
            except Exception:  # a store that is away; the next sign may pass
                continue


def unclaimed(
    claims: Claims, cache: ChunkCache, waiting: deque[tuple[int, str]], elsewhere: list[int]
) -> Iterator[int]:
    """The chunks to compute here, each claimed; those that others have computed meanwhile go to `elsewhere`.

    It ends when all that is still waiting is being computed by others.
    """
    moved = True
    while waiting and moved:
        moved = False
        for _ in range(len(waiting)):
            index, key = waiting.popleft()
            if cache.has(key):
                elsewhere.append(index)
            elif not claims.take(key):
                waiting.append((index, key))
                continue
            elif cache.has(key, now=True):  # done between the two looks
                claims.release(key)
                elsewhere.append(index)
            else:
                yield index
            moved = True
