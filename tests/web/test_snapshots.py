"""A monitor kept a step at a time: a restart at any of the steps finds the same, and the log goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from monitored import START, events

from roadworthy.monitor import Bundle, Monitor
from roadworthy.web import snapshots as module
from roadworthy.web.batch import Batch, Label
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import EVENTS, Full, Ledger
from roadworthy.web.replaying import restored
from roadworthy.web.snapshots import Snapshots


def ledger_at(path: Path, made: Bundle) -> Ledger:
    return Ledger(path, bundle=made.id, content="{}")


def batch_of(made: Bundle, first: int, n: int = 500) -> Batch:
    body = json.dumps(events(n, first=first, step=0.01)).encode()
    return Reader(made.calibration, subject=made.subject).read(body, now=START)


def after_a_kill(path: Path, folder: Path, made: Bundle) -> bytes:
    """What a restart would find if the process died now: the files are copied as they lie."""
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, folder / file.name)
    ledger = ledger_at(folder / path.name, made)
    try:
        return restored(made, ledger).monitor.to_bytes()
    finally:
        ledger.close()


def test_a_restart_between_any_two_steps_finds_all_that_was_counted(made, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PORTION", 40_000)
    path = tmp_path / "s.sqlite"
    counting = Counting(made, ledger_at(path, made), snapshot_bytes=100_000)
    seen: list[tuple[bool, int]] = []
    for turn in range(60):
        counting.commit([batch_of(made, 500 * turn)])
        counting.commit([[Label(f"e{500 * turn + 3}", turn % 3 > 0, 0.5)]])
        counting.read()
        body, rows = counting.ledger.restored()
        seen.append((body is not None, len(counting.ledger._ask("select 1 from log")) - len(rows)))
        assert after_a_kill(path, tmp_path / str(turn), made) == counting.monitor.to_bytes()
    kept = [old for there, old in seen if there]
    assert len(kept) < 60 and 0 in kept and len(set(kept)) > 3, (
        "rows before the snapshot go in portions, and all of them"
    )


def test_posts_between_making_and_writing_are_behind_the_snapshot(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting = Counting(made, ledger_at(path, made), snapshot_bytes=1)
    counting.commit([batch_of(made, 0)])
    counting.read()
    assert counting.ledger.restored()[0] is None, "made, and not written yet"
    counting.commit([batch_of(made, 500)])
    counting.read()
    body, rows = counting.ledger.restored()
    assert Monitor.from_bytes(made, body).state.counted == 500 and len(rows) == 1
    assert after_a_kill(path, tmp_path / "killed", made) == counting.monitor.to_bytes()


def test_one_that_is_made_never_takes_the_place_of_a_later_one(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting = Counting(made, ledger_at(path, made), snapshot_bytes=1)
    counting.commit([batch_of(made, 0)])
    counting.read()
    counting.commit([batch_of(made, 500)])
    counting.snapshot()  # as where the disk is full, and the log between the two is gone
    for _ in range(3):
        counting.read()
    assert after_a_kill(path, tmp_path / "killed", made) == counting.monitor.to_bytes()
    assert counting.monitor.state.counted == 1000


def test_where_there_is_no_room_beside_the_log_it_takes_the_place_of_the_log(made, tmp_path):
    path = tmp_path / "s.sqlite"
    ledger = ledger_at(path, made)
    counting = Counting(made, ledger, snapshot_bytes=30_000)
    for _ in range(20):
        counting.commit([batch_of(made, 0)])  # the log has each, the snapshot will have it once
    counting.read()
    ledger.limit(ledger._ask("pragma page_count")[0][0] * 8192)
    counting._snapshots.step(counting.monitor, seq=counting._seq, clock=START)
    body, rows = ledger.restored()
    assert Monitor.from_bytes(made, body).state.counted == 500 and not rows and not ledger.has_log()
    assert after_a_kill(path, tmp_path / "killed", made) == counting.monitor.to_bytes()


@pytest.mark.parametrize("sizes", [[10, 10, 10, 10, 10], [35, 1, 1], [1] * 50, [100]])
def test_the_log_is_forgotten_from_its_oldest_row_on_and_no_more_than_a_portion_and_a_row(
    sizes, made, tmp_path
):
    ledger = ledger_at(tmp_path / "s.sqlite", made)
    last = ledger.append([(EVENTS, b"x" * size) for size in sizes])
    ledger.append([(EVENTS, b"later")])
    assert not ledger.forget_before_snapshot(30), "nothing is kept yet"
    ledger.snapshot(b"kept", upto=last, forget=False)
    held = [len(body) for (body,) in ledger._ask("select body from log order by seq")]
    while ledger.forget_before_snapshot(30):
        left = [len(body) for (body,) in ledger._ask("select body from log order by seq")]
        gone = held[: len(held) - len(left)]
        assert gone and held[len(gone) :] == left and sum(gone[:-1]) < 30
        held = left
    assert held == [5] and ledger.restored() == (b"kept", [(last + 1, EVENTS, b"later")])


def test_the_next_one_waits_for_the_log_to_grow_again(made, tmp_path):
    ledger = ledger_at(tmp_path / "s.sqlite", made)
    snapshots, monitor = Snapshots(ledger, every=1000), Monitor(made)
    seq = ledger.append([(EVENTS, b"x" * 2000)])
    snapshots.log_bytes = 2000
    steps = [snapshots.step(monitor, seq=seq, clock=START) for _ in range(5)]
    assert steps == [True, True, True, False, False] and snapshots.log_bytes == 0
    assert ledger.restored()[1] == [] and ledger.snapshot_clock() == START


def test_the_log_is_forgotten_also_where_there_is_no_room_for_readings(made, tmp_path, monkeypatch):
    ledger = ledger_at(tmp_path / "s.sqlite", made)
    counting = Counting(made, ledger, snapshot_bytes=100_000)
    for first in range(0, 10_000, 500):
        counting.commit([batch_of(made, first)])
    while ledger.restored()[0] is None:
        counting.read()
    counting.commit([batch_of(made, 10_000)])

    def full(readings):
        raise Full("no space is left")

    monkeypatch.setattr(ledger, "keep_readings", full)
    with pytest.raises(Full):
        counting.read()
    assert len(ledger._ask("select 1 from log")) == len(ledger.restored()[1]) == 1
