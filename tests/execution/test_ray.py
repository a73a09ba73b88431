"""Chunks on two Ray nodes, each a set of processes of its own on this machine: the same findings, whoever is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.execution import ray as executor
from roadworthy.execution.work import Unfinished
from roadworthy.spec import SpecError
from roadworthy.store import ChunkCache
from roadworthy.store.shared import MIRRORS

pytestmark = pytest.mark.usefixtures("no_monitor")
SUBJECT = """
import os, time
from pathlib import Path
def predict(vector):
    here = Path(__file__).parent
    (here / "pids" / str(os.getpid())).touch()
    time.sleep(1 if (here / "wait").exists() else 0.1 if (here / "slow").exists() else 0)
    return [float(vector.sum()), 0.0]
"""
FILE = """
name: shared
subject: {task: classification, python: subject.py:predict, version: "1", classes: [a, b]}
data: {test: {npz: test.npz, images: x, classes: [a, b]}}
claims: [{id: A, accuracy: {min: 0.5}}]
execution: {chunk: 5}
"""


@pytest.fixture(scope="module")
def cluster():
    """A head and a second node, two processors each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    found.add_node(num_cpus=2)
    yield found
    found.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    np.savez(tmp_path / "test.npz", x=x, labels=(x.sum(axis=1) < 0.3).astype(int))
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "pids").mkdir()
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


def command(folder: Path, runs: str, *words: str) -> list[str]:
    file = str(folder / "assessment.yaml")
    return [
        sys.executable,
        "-m",
        "roadworthy.cli",
        "assess",
        file,
        "--runs",
        str(folder / runs),
        *words,
    ]


def findings(folder: Path, runs: str) -> bytes:
    (found,) = (folder / runs).glob("shared-*/findings.json")
    return found.read_bytes()


def chunks_done(folder: Path, runs: str) -> int:
    found = (folder / runs / ".cache").glob("??/*/chunk.json")
    # Who is killed while it writes leaves a chunk that has no name yet.
    return sum(path.parent.suffix != ".partial" for path in found)


def until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def test_findings_are_the_same_here_in_processes_and_on_two_nodes(folder: Path, cluster) -> None:
    file = folder / "assessment.yaml"
    assess(file, runs=folder / "here", workers=1)
    assess(file, runs=folder / "two", workers=2)
    for n in (1, 2, 4):
        for pid in (folder / "pids").iterdir():
            pid.unlink()
        words = ("--executor", "ray", "--address", cluster.address, "--workers", str(n))
        done = subprocess.run(command(folder, f"ray{n}", *words), capture_output=True, text=True)
        assert done.returncode in (0, 1, 3), done.stderr
        (folder / "slow").touch()  # until a second worker is there
        # Each process holds the subject for many chunks.
        assert min(n, 2) <= len(list((folder / "pids").iterdir())) <= n
    same = {findings(folder, runs) for runs in ("here", "two", "ray1", "ray2", "ray4")}
    assert len(same) == 1


def test_workers_a_node_and_the_driver_may_be_lost(folder: Path, cluster) -> None:
    assess(folder / "assessment.yaml", runs=folder / "here", workers=1)
    (folder / "slow").touch()
    (folder / "wait").touch()  # until most workers are there
    third = cluster.add_node(num_cpus=2)
    # All that the cluster has room for: what is lost with a node has no place elsewhere.
    words = ("--executor", "ray", "--address", cluster.address)
    running = subprocess.Popen(command(folder, "lost", *words), stderr=subprocess.PIPE, text=True)
    until(lambda: len(list((folder / "pids").iterdir())) > 3)
    (folder / "wait").unlink()
    mine = {str(os.getpid()), str(running.pid)}
    workers = [int(p.name) for p in (folder / "pids").iterdir() if p.name not in mine]
    alive = [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    os.kill(alive[0], signal.SIGKILL)
    os.kill(alive[1], signal.SIGTERM)  # as a cluster does with what it takes away
    cluster.remove_node(third, allow_graceful=False)
    before = chunks_done(folder, "lost")
    until(lambda: chunks_done(folder, "lost") >= before + 2)
    running.send_signal(signal.SIGKILL)
    running.wait()
    kept = chunks_done(folder, "lost")
    assert kept < 20
    running = subprocess.Popen(command(folder, "lost", *words), stderr=subprocess.PIPE, text=True)
    until(lambda: chunks_done(folder, "lost") > kept or running.poll() is not None)
    running.terminate()  # as a scheduler of jobs does: no answer of the subject is recorded as failed
    assert running.wait(timeout=30) == -signal.SIGTERM
    done = subprocess.run(command(folder, "lost", *words), capture_output=True, text=True)
    assert done.returncode in (0, 1, 3), done.stderr
    record = json.loads(next((folder / "lost").glob("shared-*/run.json")).read_text())
    assert record["cases"]["from_cache"] >= 5 * kept
    assert findings(folder, "lost") == findings(folder, "here")


APART = """
from pathlib import Path
here = Path(__file__).parent
def predict(vector):
    weight = float((here / "weight").read_text())
    if (here / "away").exists() and abs(vector[0]) > 1.5:
        raise TimeoutError("no answer")
    return [weight * float(vector.sum()) * (-1 if (here / "turned").exists() else 1), 0.0]
"""


@pytest.fixture
def apart(tmp_path: Path):
    """A cluster whose nodes keep their own copies of a store, as other machines do."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    def node(name: str) -> dict:
        return {"num_cpus": 1, "env_vars": {MIRRORS: str(tmp_path / name)}}

    found = Cluster(
        initialize_head=True, head_node_args={"include_dashboard": False, **node("one")}
    )
    found.add_node(**node("two"))
    yield found.address
    found.shutdown()


def test_nodes_with_copies_of_their_own_share_a_store(
    folder: Path, apart: str, monkeypatch
) -> None:
    (folder / "subject.py").write_text(APART)
    (folder / "weight").write_text("1.5")  # opened when it answers
    (folder / "away").touch()
    words = ("--executor", "ray", "--address", apart)
    monkeypatch.setenv(MIRRORS, str(folder / "driver"))
    url = f"file://{folder}/store"
    line = [*command(folder, "", *words)]
    line[line.index("--runs") + 1] = url

    def record(*more: str) -> dict:
        done = subprocess.run([*line, *more], capture_output=True, text=True)
        assert done.returncode in (0, 1, 3), done.stderr
        (found,) = (folder / "store").glob("shared-*/run.json")
        return json.loads(found.read_text())

    cases = record()["cases"]
    failed = cases["failed"]
    assert failed > 5 and cases["computed"] == 100
    (folder / "away").unlink()
    cases = record()["cases"]
    assert cases["failed"] == 0 and failed <= cases["computed"] < 100
    (found,) = (folder / "store").glob("shared-*/findings.json")
    before = found.read_bytes()
    assess(folder / "assessment.yaml", runs=folder / "here", workers=1, fresh=True)
    assert before == findings(folder, "here")
    assert record()["cases"]["computed"] == 0
    (folder / "turned").touch()
    assert record("--fresh")["cases"]["computed"] == 100 and found.read_bytes() != before


def test_a_worker_with_other_data_or_another_subject_is_refused(
    folder: Path, cluster, monkeypatch
) -> None:
    known = executor._contents
    how = {"executor": "ray", "address": cluster.address, "workers": 1}
    for what in ("the data test", "the subject"):
        with monkeypatch.context() as patch:
            patch.setattr(executor, "_contents", lambda plan, w=what: {**known(plan), w: "other"})
            with pytest.raises(SpecError, match=f"it has another content of {what}"):
                assess(folder / "assessment.yaml", runs=folder / "none", execution=how)


class FakeRay:
    """As much of Ray as hands chunks out, with workers that are lost as a test says."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, lost: Callable[[int, int | None], bool], room: int = 2) -> None:
        self.lost, self.room, self.started, self.asked = lost, room, 0, []

    def cluster_resources(self) -> dict[str, int]:
        return {"CPU": self.room}

    def remote(self, **_: int):
        return lambda kind: SimpleNamespace(remote=self._actor)

    def _actor(self, first: str):
        number, self.started = self.started, self.started + 1
        ready = SimpleNamespace(remote=lambda: (number, None, object()))
        compute = SimpleNamespace(remote=lambda index, key: (number, index, object()))
        return SimpleNamespace(ready=ready, compute=compute)

    def kill(self, actor) -> None:
        pass

    def wait(self, refs, num_returns, timeout=None):
        return refs[:1], refs[1:]

    def get(self, ref):
        number, index, _ = ref
        if self.lost(number, index):
            raise RuntimeError("the actor died")
        self.asked.append(index)
        done = {"index": index, "cases": 1, "failed": 0, "seconds": 0.0}
        return json.dumps({} if index is None else done)


class Emptied(FakeRay):
    """A cluster whose nodes are all lost: nothing is ever done, and no worker is reported."""

    def wait(self, refs, num_returns, timeout=None):
        return [], refs

    def nodes(self) -> list[dict[str, bool]]:
        return [{"Alive": False}]


def done_with(
    lost: Callable[[int, int | None], bool], folder: Path, kind: type[FakeRay] = FakeRay
) -> tuple[FakeRay, list[int]]:
    ray = kind(lost)
    plan = SimpleNamespace(
        chunks=dict.fromkeys(range(9), SimpleNamespace(key="")), spec=SimpleNamespace(subject={})
    )
    pool = executor.Workforce(ray, {}, plan, ChunkCache(folder), own=False)
    pool.grow(None)
    return ray, sorted(done.index for done in pool.work(plan, iter(range(9))))


def test_chunks_of_lost_workers_go_to_those_that_are_left(tmp_path: Path) -> None:
    ray, done = done_with(lambda actor, index: actor == 0 and index is not None, tmp_path)
    assert done == list(range(9)) and ray.started == 3


def test_workers_that_never_start_are_given_up(tmp_path: Path) -> None:
    with pytest.raises(Unfinished, match="no worker of the Ray cluster is left: the actor died"):
        done_with(lambda actor, index: True, tmp_path)


def test_a_cluster_without_a_node_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(Unfinished, match="the Ray cluster has lost its last node"):
        done_with(lambda actor, index: False, tmp_path, Emptied)


def test_a_chunk_that_ends_every_worker_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unfinished, match="4 Ray workers were lost while computing chunk 5"):
        done_with(lambda actor, index: index == 5, tmp_path)


def test_a_worker_that_differs_is_refused_by_its_node(folder: Path, cluster) -> None:
    import ray

    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False)
    try:
        first = {"version": "another", "path": str(folder / "assessment.yaml")}
        (said,) = [json.loads(executor.SubjectActor(json.dumps(first)).ready())]
        assert (
            "it has roadworthy" in said["message"] and "the driver has another" in said["message"]
        )
        assert said["node"].endswith(f"process {os.getpid()}")
        version = f"{executor.code_version()}, {executor.libraries()}"
        away = {"version": version, "path": str(folder / "elsewhere" / "assessment.yaml")}
        said = json.loads(executor.SubjectActor(json.dumps(away)).ready())
        assert "it cannot see" in said["message"] and "mount it there" in said["message"]
        with pytest.raises(SpecError, match=r"the Ray worker on .*: it cannot see"):
            executor._raise_if_refused(said)
    finally:
        ray.shutdown()


def test_a_cluster_that_is_started_here_reports_to_nobody_and_adds_up_as_this_machine(
    monkeypatch,
) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    said: list[str | None] = []

    def init(**how) -> None:
        said.append(os.environ.get("RAY_USAGE_STATS_ENABLED"))
        said.append(how["runtime_env"]["env_vars"]["OMP_NUM_THREADS"])

    executor._connect(SimpleNamespace(is_initialized=lambda: False, init=init), "")
    assert said == ["0", str(len(os.sched_getaffinity(0)))]


def test_no_cluster_and_no_ray_are_refused_in_one_sentence(folder: Path, monkeypatch) -> None:
    how = {"executor": "ray", "address": "127.0.0.1:1"}
    with pytest.raises(SpecError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        assess(folder / "assessment.yaml", runs=folder / "none", execution=how)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SpecError, match=r"the executor ray, which is not installed.*\[ray\]"):
        assess(folder / "assessment.yaml", runs=folder / "none", execution=how)
