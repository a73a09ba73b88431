"""While most of what comes is not counted the history has no figures either, and what ends that is of the same kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from monitored import START, events

from roadworthy.monitor import Bundle
from roadworthy.web import views
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger
from roadworthy.web.uncounted import Untold

NOW = START + 86_400.0


def opened(made: Bundle, path: Path, **more: Any) -> Counting:
    ledger = Ledger(path, bundle=made.id, content="{}")
    return Counting(
        made, ledger, alarmed=lambda alarm: ledger.keep_alarm(alarm, delivered=None), **more
    )


def batch(made: Bundle, n: int, *, first: int, start: float = NOW):
    items = events(n, first=first, start=start)
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


def reasons(counting: Counting) -> dict[int, str | None]:
    while counting.read():
        pass
    found = counting.ledger.readings()
    for point in found:
        assert all(
            (point[name] is None) == (point["cannot_tell"] is not None)
            for name in ("risk", "rate", "accuracy")
        )
    return {point["event"]: point["cannot_tell"] for point in found}


def test_points_have_no_figures_while_most_events_are_refused_and_those_before_and_after_do(
    made, tmp_path
):
    counting = opened(made, tmp_path / "s.sqlite")
    counting.commit([batch(made, 200, first=0)])
    for first in (200, 240, 280):
        counting.commit([batch(made, 150, first=1000 + first, start=START)])
        counting.commit([batch(made, 40, first=first)])
        assert counting.windows()[0]["cannot_tell"] == counting.late != ""
    counting.commit([batch(made, 200, first=320)])
    assert not counting.late
    found = reasons(counting)  # all of them worked out when it was over
    untold = [event for event, reason in found.items() if reason is not None]
    assert untold == [220, 240, 260, 280, 300, 320] and set(found) == set(range(20, 521, 20))
    assert all("refused as late" in found[event] for event in untold)
    points = {point["event"]: point for point in counting.ledger.readings()}
    assert all(points[event][name] is None for event in untold for name in views.FIGURES)
    counting.close()


@pytest.mark.parametrize("killed", [False, True])
def test_points_have_no_figures_while_most_answers_are_skipped_also_over_a_restart(
    made, tmp_path, killed
):
    counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 100, first=0)])
    counting.hear_of_skipped("31 of the last 61 answers were not counted")
    counting.commit([batch(made, 40, first=100)])
    if killed:
        counting.ledger.close()  # with no reading taken yet
        counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 40, first=140)])
    counting.hear_of_skipped("")
    counting.commit([batch(made, 40, first=180)])
    found = reasons(counting)
    untold = [
        event
        for event, reason in found.items()
        if reason == "31 of the last 61 answers were not counted"
    ]
    assert (
        untold == [120, 140, 160, 180]
        and [found[event] for event in (80, 100, 200, 220)] == [None] * 4
    )
    counting.close()


def test_skipped_answers_outlast_events_as_long_as_there_is_a_server_that_gives_answers(
    made, tmp_path
):
    counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 100, first=0)])
    counting.hear_of_skipped("31 of the last 61 answers were not counted")
    counting.close()
    counting = opened(made, tmp_path / "s.sqlite", answers=True)
    counting.commit([batch(made, 100, first=100)])
    assert (
        counting.uncounted == counting.skipped == "31 of the last 61 answers were not counted"
        and not counting.late
    )
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


def test_no_more_is_remembered_than_points_are_due():
    untold = Untold()
    for number in range(100):
        untold.say(f"{number} were late", after=40)
    for number in range(5):
        untold.say(f"{number} were skipped", after=60 + number)
    assert (
        untold.at(60) == "99 were late"
        and untold.at(61) == "0 were skipped"
        and len(untold._said) == 6
    )
    untold.forget(upto=62)
    assert untold.at(63) == "2 were skipped" and len(untold._said) == 3
