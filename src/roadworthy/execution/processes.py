"""The executor that works in several processes.

Each worker is a fresh interpreter that is given the assessment file and what the sections request of the subject, as JSON,
then chunk numbers, one line each; it answers with one line of JSON. It loads no section. No object crosses, so nothing is
pickled, and a script that calls `assess` needs no guard.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from roadworthy.execution.memory import keep_freed_memory
from roadworthy.execution.plan import Plan, Wants, resolve
from roadworthy.execution.work import Done, Unfinished, work
from roadworthy.registry import register
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache, open_cache

PATIENCE = 0.5
"""Seconds that workers are given to end by themselves."""


@register("executors", "processes")
def processes(
    plan: Plan, cache: ChunkCache, indices: Iterable[int], *, workers: int = 2
) -> Iterator[Done]:
    """Several chunks at a time, each in a process of its own."""
    pool = [_Worker(plan, cache) for _ in range(workers)]
    answers: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()
    todo = iter(indices)
    busy = 0
    try:
        for worker in pool:
            threading.Thread(target=worker.listen, args=(answers,), daemon=True).start()
            busy += worker.give(next(todo, None), plan)
        while busy:
            worker, answer = answers.get()
            busy -= 1
            if answer is None:
                raise Unfinished(_died(worker))
            if "error" in answer:
                raise _raised(answer)
            yield Done(**answer)
            busy += worker.give(next(todo, None), plan)
    finally:
        _end(pool)


def _end(pool: Sequence[_Worker]) -> None:
    """Close their inputs, and end those that do not end by themselves; also if Ctrl-C is pressed again meanwhile."""
    until = time.monotonic() + PATIENCE
    try:
        for worker in pool:
            worker.close()
        for worker in pool:
            worker.process.wait(timeout=max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for worker in pool:
            worker.process.kill()
        for worker in pool:
            worker.process.wait()


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, plan: Plan, cache: ChunkCache) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "roadworthy.execution.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        document = plan.spec.document
        self._say(
            {
                "text": document.text,
                "path": str(document.path.resolve()),
                "execution": dict(plan.spec.execution),
                "cache": cache.address,
                "wants": plan.wants.to_json(),
            }
        )
        self.chunk: int | None = None

    def _say(self, content: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(content) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            # Its end is noticed by the listener, which has the reason.
            return

    def give(self, chunk: int | None, plan: Plan) -> int:
        """Hand it a chunk; 1 if there was one.

        The key goes with it: a subject whose fingerprint holds in one process only would have another one there.
        """
        self.chunk = chunk
        if chunk is None:
            return 0
        self._say([chunk, plan.chunks[chunk].key])
        return 1

    def listen(self, answers: queue.Queue[tuple[_Worker, dict[str, Any] | None]]) -> None:
        """Pass its answers on; None if it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answers.put((self, json.loads(line)))
        if self.chunk is not None:
            answers.put((self, None))

    def close(self) -> None:
        """It is given no more."""
        self.chunk = None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


def _died(worker: _Worker) -> str:
    code = worker.process.wait()
    cause = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
    return (
        f"a worker process ended by {cause} while computing chunk {worker.chunk}; out of memory is the usual cause. "
        "Run the same command again with fewer workers"
    )


def _raised(answer: dict[str, Any]) -> BaseException:
    from roadworthy.spec import SpecError
    from roadworthy.subject.module import SubjectError

    known: dict[str, type[BaseException]] = {"SubjectError": SubjectError, "SpecError": SpecError}
    if answer["error"] == "OSError":
        return OSError(answer["errno"], answer["message"])
    kind = known.get(answer["error"])
    return (
        kind(answer["message"]) if kind else RuntimeError(f"{answer['error']}: {answer['message']}")
    )


def _serve() -> None:
    """The worker's side. What the subject prints goes to standard error, so that it cannot garble the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = json.loads(sys.stdin.readline())
    try:
        spec = Assessment.bare(first["text"], first["path"], first["execution"])
        cache = open_cache(first["cache"])
        plan = resolve(spec, wants=Wants.from_json(first["wants"]), keep=cache.root)
        plan.evidence.ignored = cache.own_folders
        for line in sys.stdin:
            index, key = json.loads(line)
            _answer(out, vars(work(plan, cache, index, key=key)))
    except Exception as error:
        message: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        if isinstance(error, OSError):
            message.update(
                error="OSError", errno=error.errno or 0, message=error.strerror or str(error)
            )
        _answer(out, message)


def _answer(out: Any, content: dict[str, Any]) -> None:
    out.write(json.dumps(content) + "\n")
    out.flush()


if __name__ == "__main__":
    _serve()
