"""What says that most of what comes is not counted is ended by what is of the same kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monitored import START, events

from roadworthy.monitor import Bundle
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger

NOW = START + 86_400.0


def opened(made: Bundle, path: Path, **more: Any) -> Counting:
    ledger = Ledger(path, bundle=made.id, content="{}")
    return Counting(made, ledger, alarmed=lambda alarm: ledger.keep_alarm(alarm, delivered=None), **more)


def batch(made: Bundle, n: int, *, first: int, start: float = NOW):
    items = events(n, first=first, start=start)
    return Reader(made.calibration, subject=made.subject).read(json.dumps(items).encode(), now=START)


def test_skipped_answers_outlast_events_as_long_as_there_is_a_server_that_gives_answers(made, tmp_path):
    counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 100, first=0)])
    counting.hear_of_skipped("31 of the last 61 answers were not counted")
    counting.close()
    counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 100, first=100)])
    assert counting.uncounted == counting.skipped == "31 of the last 61 answers were not counted" and not counting.late
    counting.close()
    counting = opened(made, tmp_path / "s.sqlite")
    counting.commit([batch(made, 10, first=200)])
    assert counting.uncounted, "ten events say nothing"
    counting.commit([batch(made, 10, first=210)])
    assert not counting.uncounted and [alarm["kind"] for alarm in counting.ledger.alarms()] == [
        "cannot tell",
        "can tell",
    ]
    counting.close()
