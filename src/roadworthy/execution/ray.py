"""The executor that works on a Ray cluster: chunks are tasks on actors that hold the subject once.

An actor gets what a worker process gets: the assessment file and what the sections request, as text. Its
answers go to the shared cache; the driver learns a line a chunk. Every actor has a second chunk waiting
while it computes one. Ray starts an actor that was lost again, on another node if need be, and its chunks
go to it again; a driver that was lost goes on from the cache when the same command is run again.

Files of the subject and of the data must be where the assessment file says on every node, and the runs
folder must be the same one, mounted, or a store under a URL.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from roadworthy.execution.plan import Plan, Wants, resolve
from roadworthy.execution.versions import code_version, libraries
from roadworthy.execution.work import Done, Unfinished, work
from roadworthy.registry import not_installed, register
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import ChunkCache, open_cache
from roadworthy.subject.module import SubjectError

WAITING = 2
"""Chunks an actor has at a time: the next one is there when it has finished one."""
RESTARTS = 3
"""How often a lost actor is started again, and a chunk given again."""
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
    own = _connect(ray, address)
    token = f"owners/{uuid.uuid4().hex}"
    cache.claimed.write(token, b"")
    pool: list[Any] = []
    try:
        pool = _actors(ray, plan, cache, token, workers)
        yield from _shared_out(ray, plan, pool, iter(indices))
    except ray.exceptions.RayError as error:
        raise Unfinished(f"the Ray cluster failed: {str(error).splitlines()[0]}") from error
    finally:
        cache.claimed.delete(token)
        for actor in pool:
            ray.kill(actor)
        if own:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise SpecError(not_installed("the executor ray", "ray")) from error
    return ray


def _connect(ray: Any, address: str) -> bool:
    """Connect to the cluster; whether it was started here."""
    if ray.is_initialized():
        return False
    path = os.pathsep.join(p for p in sys.path if p)
    given = {"env_vars": {"PYTHONPATH": path}}
    options = {"log_to_driver": False, "logging_level": "error", "runtime_env": given}
    try:
        if address:
            ray.init(address=address, **options)
        else:
            ray.init(include_dashboard=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"no Ray cluster answers at {address!r}" if address else "Ray cannot be started"
        raise SpecError(
            f"{where}: {str(error).splitlines()[0]}. Start one with `ray start --head`"
        ) from error
    return True


def _actors(ray: Any, plan: Plan, cache: ChunkCache, token: str, workers: int | None) -> list[Any]:
    """As many as are asked for or as the cluster has room for, each with the subject loaded."""
    gpu = plan.spec.subject.get("device") == GPU
    kind, room = ("num_gpus", "GPU") if gpu else ("num_cpus", "CPU")
    free = int(ray.cluster_resources().get(room, 0))
    if not free:
        raise SpecError(f"the Ray cluster has no {room}; the subject's device is {GPU}")
    document = plan.spec.document
    first = {
        "text": document.text,
        "path": str(document.path.resolve()),
        "cache": cache.address,
        "token": token,
        "wants": plan.wants.to_json(),
        "version": f"{code_version()}, {libraries()}",
    }
    actor = ray.remote(**{kind: 1}, max_restarts=RESTARTS, max_task_retries=RESTARTS)(SubjectActor)
    pool = [actor.remote(json.dumps(first)) for _ in range(min(workers or free, free))]
    for found in ray.get([a.ready.remote() for a in pool]):
        _raise_if_refused(json.loads(found))
    return pool


def _shared_out(ray: Any, plan: Plan, pool: list[Any], todo: Iterator[int]) -> Iterator[Done]:
    """Hand chunks out as actors have room; Ray keeps nothing of those that are done."""
    running: dict[Any, Any] = {}

    def give(actor: Any) -> None:
        index = next(todo, None)
        if index is not None:
            running[actor.compute.remote(index, plan.chunks[index].key)] = actor

    for actor in pool * WAITING:
        give(actor)
    while running:
        # All that are done: one look at thousands of chunks costs as much as the next.
        ready, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
        ready = ready or ray.wait(list(running), num_returns=1)[0]
        for one, text in zip(ready, ray.get(ready), strict=True):
            answer = json.loads(text)
            _raise_if_refused(answer)
            give(running.pop(one))
            yield Done(**answer)


class SubjectActor:
    """The worker's side: the subject, loaded once. It answers in text."""

    def __init__(self, first: str) -> None:
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
        spec = Assessment.bare(first["text"], first["path"])
        wants = Wants.from_json(first["wants"])
        self._plan = resolve(spec, wants=wants, keep=self._cache.root)
        self._plan.evidence.ignored = self._cache.own_folders

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
    kinds: dict[str, type[Exception]] = {"SubjectError": SubjectError, "SpecError": SpecError}
    raise kinds.get(answer["error"], RuntimeError)(said)
