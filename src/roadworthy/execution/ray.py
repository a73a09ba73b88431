"""The executor that works on a Ray cluster: chunks are tasks on actors that hold the subject once.

An actor gets what a worker process gets: the assessment file and what the sections request, as text. Its
answers go to the shared cache; the driver learns a line a chunk. Every actor has a second chunk waiting
while it computes one. A worker that is lost is replaced where there is room, and its chunks go to those that
are there; a driver that was lost goes on from the cache when the same command is run again.

Files of the subject and of the data must be where the assessment file says on every node, and the runs
folder must be the same one, mounted, or a store under a URL.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from roadworthy.data.samples import DataError
from roadworthy.execution.plan import Plan, Wants, resolve
from roadworthy.execution.versions import code_version, libraries
from roadworthy.execution.work import Done, Unfinished, work
from roadworthy.registry import not_installed, register
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import ChunkCache, StoreError, StoreUnreachable, open_cache
from roadworthy.subject.module import SubjectError
from roadworthy.subject.training import cores

WAITING = 2
"""Chunks an actor has at a time: the next one is there when it has finished one."""
RESTARTS = 3
"""How often a lost worker is replaced, and a lost chunk given again."""
LOOK_S = 10.0
"""Between two looks at whether the cluster still has a node, while nothing is done."""
NO_WORKER_S = 900.0
"""For so long no worker may be ready: a cluster may have no room, and a large subject takes minutes to load."""
GPU = "cuda"
"""A subject with this `device` has a GPU for each actor."""


@register("executors", "ray", extra=("ray", "ray"))
def on_ray(
    plan: Plan,
    cache: ChunkCache,
    indices: Iterable[int],
    *,
    workers: int | None = None,
    address: str = "",
) -> Iterator[Done]:
    """Several chunks at a time, on the actors of a Ray cluster; one is started here if no address is given."""
    ray = _ray()
    try:
        pool = _pool(ray, plan, cache, workers, address)
        yield from pool.work(plan, iter(indices))
    except ray.exceptions.RayError as error:
        raise Unfinished(f"the Ray cluster failed: {_first_line(error)}") from error


def close() -> None:
    """End the actors, and the cluster if it was started here; `assess` calls it when no more chunks come."""
    while _HELD:
        _HELD.pop().close()


on_ray.close = close  # type: ignore[attr-defined]
_HELD: list[Workforce] = []
"""The pool of this process, if there is one: Ray itself connects a process to one cluster."""


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise SpecError(not_installed("the executor ray", "ray")) from error
    return ray


def _connect(ray: Any, address: str) -> bool:
    """Connect to the cluster; whether it was done here, and not by the program that calls."""
    if ray.is_initialized():
        return False
    path = os.pathsep.join(p for p in sys.path if p)
    # With one thread, which is Ray's default, sums of large matrices differ in the last digits from those made here.
    threads = os.environ.get("OMP_NUM_THREADS", str(cores()))
    given = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": threads}}
    options = {"log_to_driver": False, "logging_level": "error", "runtime_env": given}
    ends = signal.getsignal(signal.SIGTERM)
    try:
        if address:
            _knock(address)
            ray.init(address=address, **options)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to Ray's makers
            ray.init(address="local", include_dashboard=False, **options)
    except (OSError, ValueError, RuntimeError) as error:
        where = f"no Ray cluster answers at {address!r}" if address else "Ray cannot be started"
        raise SpecError(
            f"{where}: {_first_line(error)}. Start one with `ray start --head`; if one runs there with tokens, Ray's default, "
            "set RAY_AUTH_MODE=token"
        ) from error
    finally:
        # Ray makes SIGTERM a SystemExit in whatever runs just then, such as the subject.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ends)
    return True


def _knock(address: str) -> None:
    """Fail within seconds where nothing listens; Ray itself asks for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


def _pool(ray: Any, plan: Plan, cache: ChunkCache, workers: int | None, address: str) -> Workforce:
    """The actors for this plan: those of the call before, if they have the same; as many as asked for or as fit."""
    document = plan.spec.document
    task = {
        "text": document.text,
        "path": str(document.path.resolve()),
        "execution": dict(plan.spec.execution),
        "cache": cache.address,
        "wants": plan.wants.to_json(),
        "version": f"{code_version()}, {libraries()}",
        "answers_of": _contents(plan),
    }
    if not _HELD or _HELD[0].task != task:
        close()
        _HELD.append(Workforce(ray, task, plan, cache, own=_connect(ray, address)))
    _HELD[0].grow(workers)
    return _HELD[0]


class Workforce:
    """Actors that hold the subject of one plan, also between the calls in which its chunks come."""

    def __init__(
        self, ray: Any, task: dict[str, Any], plan: Plan, cache: ChunkCache, *, own: bool
    ) -> None:
        self.task, self._ray, self._own, self._claimed = task, ray, own, cache.claimed
        self._actors: list[Any] = []
        self._token = f"owners/{uuid.uuid4().hex}"
        self._claimed.write(self._token, b"")
        gpu = plan.spec.subject.get("device") == GPU
        kind, room = ("num_gpus", "GPU") if gpu else ("num_cpus", "CPU")
        self._room = int(ray.cluster_resources().get(room, 0))
        if not self._room:
            self.close()
            raise SpecError(f"the Ray cluster has no {room}, and each worker needs one")
        self._actor = ray.remote(**{kind: 1})(SubjectActor)
        self._tries: list[int] = []
        """How many before each one were lost without a chunk; less than 0 if it was lost itself."""
        self._live: set[int] = set()
        self._running: dict[Any, tuple[int, int | None]] = {}
        """By Ray's reference: an actor, and its chunk; None while it loads the subject."""

    def grow(self, workers: int | None) -> None:
        """To so many, or as many as the cluster has room for; none is ended."""
        here = sum(tries >= 0 for tries in self._tries)
        for _ in range(here, min(workers or self._room, self._room)):
            self._start(0)

    def close(self) -> None:
        """End them."""
        self._claimed.delete(self._token)
        for actor in self._actors:
            self._ray.kill(actor)
        if self._own:
            self._ray.shutdown()

    def _start(self, tries: int) -> None:
        actor = self._actor.remote(json.dumps({**self.task, "token": self._token}))
        self._running[actor.ready.remote()] = (len(self._actors), None)
        self._actors.append(actor)
        self._tries.append(tries)

    def work(self, plan: Plan, todo: Iterator[int]) -> Iterator[Done]:
        """Hand chunks out as actors have room; Ray keeps nothing of those that are done."""
        again: deque[int] = deque()
        lost: Counter[int] = Counter()
        busy, ended = 0, False

        def give(actor: int) -> None:
            nonlocal busy, ended
            index = again.popleft() if again else None if ended else next(todo, None)
            if index is None:
                ended = True
                return
            found = self._actors[actor].compute.remote(index, plan.chunks[index].key)
            self._running[found] = (actor, index)
            busy += 1

        def fill(actors: Iterable[int]) -> None:
            for actor in [*actors] * WAITING:
                give(actor)

        fill(self._live)
        while busy or again or not ended:
            for one in self._finished():
                actor, index = self._running.pop(one)
                busy -= index is not None
                try:
                    answer = json.loads(self._ray.get(one))
                except self._ray.exceptions.RayError as error:
                    self._replace(actor, error)
                    if index is not None:
                        lost[index] += 1
                        if lost[index] > RESTARTS:
                            raise Unfinished(_died(index, error)) from error
                        again.append(index)
                    continue
                _raise_if_refused(answer)
                if index is None:
                    self._live.add(actor)
                    fill([actor])
                else:
                    self._tries[actor] = 0
                    give(actor)
                    yield Done(**answer)
            if again:
                fill(self._live)

    def _finished(self) -> list[Any]:
        """What is done, after a wait for at least one."""
        running = list(self._running)
        # All that are done: one look at thousands of chunks costs as much as the next.
        ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        until = math.inf if self._live else time.monotonic() + NO_WORKER_S
        while not ready and time.monotonic() < until:
            ready, _ = self._ray.wait(running, num_returns=1, timeout=LOOK_S)
            if not ready and not any(node["Alive"] for node in self._ray.nodes()):
                raise Unfinished("the Ray cluster has lost its last node")
        if not ready:
            raise Unfinished(
                f"no Ray worker was ready within {NO_WORKER_S:.0f} s: the cluster has no room (see `ray status`), "
                "or the subject loads longer"
            )
        return list(ready)

    def _replace(self, actor: int, error: Exception) -> None:
        """Start another one in the place of one that was lost."""
        if self._tries[actor] < 0:
            return  # it was replaced when another of its chunks was missed
        tries, self._tries[actor] = self._tries[actor], -1
        self._live.discard(actor)
        self._ray.kill(self._actors[actor])  # it may only have been out of reach
        if tries < RESTARTS:
            self._start(tries + 1)
        elif not self._live and not any(i is None for _, i in self._running.values()):
            raise Unfinished(
                f"no worker of the Ray cluster is left: {_first_line(error)}"
            ) from error


def _contents(plan: Plan) -> dict[str, str]:
    """What all who compute must have alike: the data, and the subject if its fingerprint holds in other processes."""
    found = {f"the data {role}": d.input_fingerprint for role, d in plan.data.items()}
    if all(getattr(module, "mark", "set") for module in plan.subject.modules.values()):
        found["the subject"] = plan.subject.fingerprint
    return found


def _died(chunk: int, error: Exception) -> str:
    return (
        f"{RESTARTS + 1} Ray workers were lost while computing chunk {chunk}; out of memory is the usual cause. "
        f"Run the same command again with fewer workers. The last one: {_first_line(error)}"
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class SubjectActor:
    """The worker's side: the subject, loaded once. It answers in text."""

    def __init__(self, first: str) -> None:
        # Ray makes SIGTERM a SystemExit in what runs just then, and the subject's answer would be recorded as failed.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._refused: dict[str, Any] = {}
        try:
            self._open(json.loads(first))
        except Exception as error:
            self._refused = _refusal(error)

    def _open(self, first: dict[str, Any]) -> None:
        version = f"{code_version()}, {libraries()}"
        if version != first["version"]:
            raise SpecError(f"it has roadworthy {version}; the driver has {first['version']}")
        if not Path(first["path"]).parent.is_dir():
            raise SpecError(f"it cannot see {Path(first['path']).parent}; mount it there")
        self._cache = open_cache(first["cache"])
        if self._cache.claimed.read(first["token"]) is None:
            raise SpecError(f"it sees another folder at {first['cache']} than the driver; mount it")
        spec = Assessment.bare(first["text"], first["path"], first["execution"])
        wants = Wants.from_json(first["wants"])
        self._plan = resolve(spec, wants=wants, keep=self._cache.root)
        self._plan.evidence.ignored = self._cache.own_folders
        here = _contents(self._plan)
        for what, expected in first["answers_of"].items():
            if here.get(what, expected) != expected:
                raise SpecError(
                    f"it has another content of {what} than the driver; make the files the same. What is learned on the way "
                    "is found again where all nodes mount one runs folder, or train it before"
                )

    def ready(self) -> str:
        """Whether it can work."""
        return json.dumps(self._refused)

    def compute(self, index: int, key: str) -> str:
        """Compute a chunk and keep it under its key."""
        if self._refused:
            return self.ready()
        try:
            return json.dumps(vars(work(self._plan, self._cache, index, key=key)))
        except Exception as error:
            return json.dumps(_refusal(error))


def _refusal(error: Exception) -> dict[str, Any]:
    import ray

    node = ray.util.get_node_ip_address()
    about = {
        "error": type(error).__name__,
        "message": str(error),
        "node": f"{node}, process {os.getpid()}",
    }
    return {**about, "errno": error.errno or 0} if isinstance(error, OSError) else about


def _raise_if_refused(answer: dict[str, Any]) -> None:
    if "error" not in answer:
        return
    said = f"the Ray worker on {answer['node']}: {answer['message']}"
    if answer.get("errno"):
        raise OSError(answer["errno"], said)
    kinds = (SubjectError, SpecError, StoreError, StoreUnreachable, DataError)
    raise {kind.__name__: kind for kind in kinds}.get(answer["error"], RuntimeError)(said)
