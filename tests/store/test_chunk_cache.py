"""The cache keeps chunks for good or for one run, notices every change to them, and stands processes at work side by side."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.values import CLASS_SCORES
from roadworthy.store import ChunkCache, RunFolder, list_runs
from roadworthy.store.cache import KeptScores
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace, link_chunk, this_machine

KEY = "ab" * 16


def trace(value: float = 0.5, n: int = 4) -> Trace:
    ids = np.array([str(i) for i in range(n)], dtype=object)
    scores = np.full((n, 2), value, np.float32)
    errors = np.full(n, None, dtype=object)
    return Trace(
        {SYSTEM: ModuleTrace(ids, np.zeros(n, np.int32), errors, np.zeros(n), CLASS_SCORES, scores)}
    )


def value(folder: Path) -> float:
    return float(Trace.read(folder)[SYSTEM].output[0][0])


def test_a_chunk_with_failures_that_may_pass_serves_this_run_and_not_the_next(tmp_path):
    cache = ChunkCache(tmp_path)
    cache.write(KEY, trace(0.1), passing=2)
    assert value(cache.folder(KEY)) == pytest.approx(0.1)
    assert cache.read(KEY)[SYSTEM].output[0][0] == np.float32(0.1)
    assert not cache.has(KEY) and not ChunkCache(tmp_path).has(KEY)
    cache.write(KEY, trace(0.2))
    assert ChunkCache(tmp_path).has(KEY)
    assert value(cache.folder(KEY)) == pytest.approx(0.2)


def test_a_chunk_that_is_there_for_good_stays_when_another_process_computes_it_too(tmp_path):
    cache = ChunkCache(tmp_path)
    cache.write(KEY, trace(0.1))
    cache.write(KEY, trace(0.2))
    assert value(cache.folder(KEY)) == pytest.approx(0.1)


def test_an_edit_in_place_is_noticed_and_what_is_computed_again_replaces_it(tmp_path):
    ChunkCache(tmp_path).write(KEY, trace(0.1))
    file = ChunkCache(tmp_path).folder(KEY) / "system.output.values.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    cache = ChunkCache(tmp_path)
    with pytest.raises(
        ValueError, match=r"system\.output\.values\.npy has not the content that was written"
    ):
        cache.read(KEY)
    assert not cache.has(KEY)
    cache.write(KEY, trace(0.2))
    assert cache.has(KEY) and value(cache.folder(KEY)) == pytest.approx(0.2)


def test_a_chunk_computed_again_takes_the_place_of_the_old_one_in_the_run_folder(tmp_path):
    cache = ChunkCache(tmp_path / "cache")
    cache.write(KEY, trace(0.1))
    cache.link_into(KEY, tmp_path / "run")
    cache.drop(KEY)
    cache.write(KEY, trace(0.2))
    cache.link_into(KEY, tmp_path / "run")
    assert value(tmp_path / "run" / KEY) == pytest.approx(0.2)
    assert [p.name for p in (tmp_path / "run").iterdir()] == [KEY]


def at_once(work, n=4):
    errors, ready = [], threading.Barrier(n)

    def go():
        ready.wait()
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=go) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_runs_that_link_the_same_chunk_at_once_all_succeed(tmp_path):
    trace().write(tmp_path / "chunk")
    for number in range(50):
        target = tmp_path / "run" / str(number)
        target.parent.mkdir(exist_ok=True)
        assert at_once(lambda target=target: link_chunk(tmp_path / "chunk", target)) == []
    assert len(list((tmp_path / "run").iterdir())) == 50


def test_a_chunk_replaced_by_many_at_once_is_whole_in_the_end(tmp_path):
    cache = ChunkCache(tmp_path)
    for _ in range(10):
        assert at_once(lambda: ChunkCache(tmp_path).write(KEY, trace(0.3), passing=1)) == []
        assert value(cache.folder(KEY)) == pytest.approx(0.3)
    assert [p.name for p in cache.folder(KEY).parent.iterdir()] == [KEY]


def test_tables_of_cases_written_at_once_leave_one_whole_table_and_nothing_else(tmp_path):
    folder = RunFolder(tmp_path)
    for _ in range(10):
        assert at_once(lambda: folder.write_cases({"case": [str(i) for i in range(500)]})) == []
    assert [p.name for p in (tmp_path / "tables").iterdir()] == ["cases.parquet"]
    assert len(folder.cases()["case"]) == 500


def test_what_a_dead_process_left_is_swept_also_from_the_run_folder(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for place in (tmp_path / "cache" / "ab", tmp_path / "run"):
        (place / f"x.{dead.pid}-{this_machine()}-1234.partial").mkdir(parents=True)
    elsewhere = tmp_path / "run" / f"x.{dead.pid}-0a0b0c0d-1234.partial"
    elsewhere.mkdir()
    ChunkCache(tmp_path / "cache").sweep(tmp_path / "run")
    assert list(tmp_path.rglob("*.partial")) == [elsewhere]


def test_the_manifest_holds_a_hash_of_every_file(tmp_path):
    trace().write(tmp_path / "chunk")
    manifest = json.loads((tmp_path / "chunk" / "chunk.json").read_text())
    names = {p.name for p in (tmp_path / "chunk").iterdir()} - {"chunk.json"}
    assert set(manifest["hashes"]) == set(manifest["sizes"]) == names


def test_scores_go_with_their_chunk_and_what_was_half_written_of_them_is_swept(tmp_path):
    cache = ChunkCache(tmp_path)
    cache.write(KEY, trace())
    cache.keep_scores("knn", KEY, KeptScores(np.zeros(4), 0.1))
    kept = cache.supervisor("knn") / "scores" / f"{KEY}.npz"
    half = kept.with_name(f"a.npz.999999999-{this_machine()}-abcdef12.partial")
    half.write_bytes(b"half")
    cache.sweep()
    assert not half.exists() and cache.kept_scores("knn", KEY, 4) is not None
    cache.drop(KEY)
    assert not kept.exists() and not cache.has(KEY)


def test_runs_come_newest_first_and_what_cannot_be_read_is_left_out(tmp_path):
    for number, text in enumerate(["", "", "{", "[]"]):
        record = {
            "key": "k",
            "name": "sorter",
            "created": f"2026-01-0{number + 1}",
            "status": "finished",
            "verdict": "met",
            "subject": {"fingerprint": "f", "version": "1.0"},
            "cases": {"total": 7},
        }
        (tmp_path / f"run-{number}").mkdir()
        (tmp_path / f"run-{number}" / "run.json").write_text(text or json.dumps(record))
    rows = list_runs(tmp_path)
    assert [row["folder"] for row in rows] == ["run-1", "run-0"]
    assert (rows[0]["cases"], rows[0]["version"], rows[0]["verdict"]) == (7, "1.0", "met")
