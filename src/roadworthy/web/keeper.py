"""Group commit: posts of some milliseconds share one transaction: written, counted, answered.

The event loop collects posts; one thread (`Counting`) writes and counts them group by group, and
meanwhile the next group is collected. Events that were not synced were not acknowledged, and events
that were are counted exactly once, whenever the process dies. What cannot be written is refused,
and nothing of it is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, cast

from roadworthy.monitor import Taken
from roadworthy.store import StoreError
from roadworthy.web.counting import Counting, Labelled
from roadworthy.web.events import Batch, Label, Post, Single
from roadworthy.web.log import LOG, ThrottledLog
from roadworthy.web.metrics import Histogram

COLLECT_S = 0.005
"""How long the first post of a group waits for others."""
MOST_WAITING = 200_000
"""Events that may wait to be written; more are refused for now."""
READING_S = 1.0
"""How often readings are taken while events come."""
LEISURE = 3.0
"""While more is due, a pause so many times as long as the last step took: posts come first."""
THINNING_S = 600.0
"""How often old readings are thinned."""
_T = TypeVar("_T")


class Busy(Exception):
    """More waits to be written than is allowed; a client tries again in a moment."""


class Keeper:
    """Collects posts, and has them counted by a thread of its own."""

    def __init__(
        self,
        counting: Counting,
        *,
        collect_s: float = COLLECT_S,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.counting, self.bundle, self.clock = counting, counting.bundle, counting.clock
        self.trouble = ""
        """Why the last group could not be written; empty if it was, or something was since."""
        self.writing = Histogram()
        self.sizes = Histogram((1, 2, 5, 10, 20, 50, 100, 200, 500, 1000))
        self._collect_s, self._most_waiting = collect_s, most_waiting
        self._waiting: list[tuple[Post, asyncio.Future[Any]]] = []
        self.waiting, self._since = 0, 0.0
        self.refused = 0
        """Posts that were refused; the event loop alone counts them."""
        self._warn = ThrottledLog()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = ThreadPoolExecutor(1, "keeper")

    def start(self) -> None:
        """Begin; from within the event loop."""
        self._some = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            self._loop.create_task(self._write_groups()),
            self._loop.create_task(self._take_readings()),
        ]

    def events(self, events: Batch | Single) -> asyncio.Future[Taken]:
        """Count events; done when they are on disk and counted."""
        return self._put(events)

    async def labels(self, labels: Sequence[Label]) -> Labelled:
        """Count labels; returns when they are on disk and counted."""
        return cast(Labelled, await self._put(labels))

    async def ask(self, question: Callable[[Counting], _T]) -> _T:
        """Put a question to the thread that counts."""
        return await self._loop.run_in_executor(self._thread, question, self.counting)

    def soon(self, work: Callable[[Counting], Any]) -> Future[Any]:
        """Have the thread that counts do something; from any other thread."""
        return self._thread.submit(work, self.counting)

    async def close(self) -> None:
        """Write what waits, keep a snapshot, and let go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._waiting:
            await self._write_group()
        await self.ask(lambda counting: counting.outbox.catch_up())
        await self.ask(Counting.close)
        self._thread.shutdown()

    def _put(self, post: Post) -> asyncio.Future[Any]:
        """Count a post with the next group."""
        size = len(post)
        if self.waiting and self.waiting + size > self._most_waiting:
            raise Busy(
                f"{self.waiting:,} events wait to be written. Nothing of this was counted; send it "
                "again."
            )
        if not self.waiting:
            self._since = self._loop.time()
            self._some.set()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((post, future))
        self.waiting += size
        return future

    async def _write_groups(self) -> None:
        while True:
            await self._some.wait()
            # What has waited while the group before was written does not wait again.
            await asyncio.sleep(self._since + self._collect_s - self._loop.time())
            self._some.clear()
            await self._write_group()

    async def _write_group(self) -> None:
        group, self._waiting, self.waiting = self._waiting, [], 0
        posts = [post for post, _ in group]
        began = time.perf_counter()
        writing = asyncio.ensure_future(self.ask(lambda counting: counting.commit(posts)))
        try:
            outcomes = await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Stopped while the thread writes: these posts are still answered.
            await asyncio.wait([writing])
            self._settle(group, writing)
            raise
        except Exception as error:
            self._note([error])
            self._settle(group, writing)
            return
        self._note([outcome for outcome in outcomes if isinstance(outcome, Exception)])
        self.writing.add(time.perf_counter() - began)
        self.sizes.add(len(outcomes))
        if self.counting.late:
            self._warn(self.counting.late)
        self._settle(group, writing)

    def _note(self, errors: list[Exception]) -> None:
        """Remember whether the state can be written; a wrong post says nothing about that."""
        stored = [error for error in errors if isinstance(error, StoreError)]
        self.trouble = str(stored[0]) if stored else ""
        if stored:
            self._warn(f"A group of posts was not counted: {self.trouble}")

    @staticmethod
    def _settle(
        group: list[tuple[Post, asyncio.Future[Any]]], written: asyncio.Future[list[Any]]
    ) -> None:
        error = written.exception()
        outcomes = [error] * len(group) if error else written.result()
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():  # its client has gone
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def _try_again(self) -> None:
        """Notice that the state can be written again, though no post comes that would show it."""
        try:
            await self.ask(Counting.try_to_write)
        except StoreError as error:
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def _take_readings(self) -> None:
        pause, thinned = READING_S, self._loop.time()
        while True:
            await asyncio.sleep(pause)
            self.clock.now()  # a leap is noticed when it happens, and not with the next event
            began, pause = self._loop.time(), READING_S
            try:
                await self.ask(lambda counting: counting.outbox.catch_up())
                if self.trouble:
                    await self._try_again()
                if await self.ask(Counting.read):
                    pause = min(LEISURE * (self._loop.time() - began), READING_S)
                if began - thinned >= THINNING_S:
                    thinned = began
                    await self.ask(lambda counting: counting.file.thin())
            except StoreError as error:
                self._warn(f"A reading was not kept: {error}")
            except Exception as error:
                LOG.error("A reading failed", exc_info=error)
