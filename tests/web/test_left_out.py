"""Why events of a post were left out is part of the answer to it."""

from __future__ import annotations

import time

import monitored
from monitored import START, events, serving

from roadworthy.web.batch import Single
from roadworthy.web.counting import Counting
from roadworthy.web.ledger import Ledger
from roadworthy.web.left_out import LeftOut


def test_an_answer_says_why_events_were_late_or_ahead_whichever_way_they_came(
    bundle_path, tmp_path
):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        now = time.time()
        assert set(service.post(events(100, start=now, step=0.001)).json) == {
            *("accepted", "repeated", "late", "unscored", "ahead")
        }
        newest = max(e["time"] for e in events(100, start=now, step=0.001))
        shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(newest))
        for n in (1, 30, 2000):  # the short way, and the long one
            late = service.post(events(n, first=10_000 + n, start=now - 90_000.0, step=0.001)).json
            assert late["late"] == n and late["why_late"] == (
                f"older than the newest event that was counted ({shown}) by more than 3,600 s"
            )
            ahead = service.post(events(n, first=30_000 + n, start=now + 900.0, step=0.001)).json
            assert ahead["ahead"] == n and "later than this machine's clock" in ahead["why_ahead"]
            assert "by more than 60 s" in ahead["why_ahead"] and "why_late" not in ahead
        both = [
            *events(1, first=50_000, start=now - 90_000.0),
            {"id": "lacks all", "time": newest, "scores": {}},
        ]
        found = service.post(both).json
        assert (
            found["late"] == found["unscored"] == 1
            and found["why_late"]
            and "lacks" in found["why_unscored"]
        )


def test_that_ids_are_no_longer_known_is_another_reason_to_be_late(tmp_path):
    small = monitored.bundle(id_horizon=1000)
    counting = Counting(small, Ledger(tmp_path / "s.sqlite", bundle=small.id, content="{}"))
    capacity = counting.monitor.state.recent.capacity
    fast = [Single(f"e{i}", START + 0.01 * i, None, 0) for i in range(capacity + 100)]
    for at in range(0, len(fast), 5000):
        counting.commit(fast[at : at + 5000])
    (late,) = counting.commit([Single("slow", START, None, 0)])
    assert isinstance(late, LeftOut) and late.late == 1
    assert (
        f"the {capacity:,} events whose ids are still known, which reach back 207 s"
        in late.why["why_late"]
    )
    (older,) = counting.commit([Single("older", START - 7000.0, None, 0)])
    assert isinstance(older, LeftOut) and "by more than 3,600 s" in older.why["why_late"]
    counting.ledger.close()
