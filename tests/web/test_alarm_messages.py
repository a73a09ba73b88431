"""What an alarm says when it ends: the figures that it read; and that the scores' own alarm has ended, where labels keep one on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from monitored import START, events

from ready_made import alarm_rule
from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.web.batch import Label
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger
from roadworthy.web.readings import MOST, readings

ALIKE = 5


def alike(n: int, *, shifted: float, seed: int) -> dict[str, np.ndarray]:
    """Scores of which five in a row are the same."""
    rng = np.random.default_rng(seed)
    fog = rng.random(n // ALIKE) < shifted
    columns = {"knn": rng.normal(2.5 * fog), "energy": rng.normal(1.5 * fog)}
    return {name: np.repeat(column, ALIKE) for name, column in columns.items()}


@pytest.mark.parametrize(
    "window_too", [False, True], ids=["the stretch alone", "the window as well"]
)
def test_an_alarm_that_is_cleared_carries_the_figures_of_what_was_read(made, window_too):
    by_time = ((1.0, 9.0), (30.0, 4.0)) if window_too else ((1.0, 9.0), (2.0, 4.0))
    rule = alarm_rule(stride=20, by_time=by_time, stretch=60, by_stretch=((1.0, 3.0), (30.0, 3.0)))
    bundle = replace(made, alarm=rule)
    monitor, cells, time = Monitor(bundle), list[np.ndarray](), 1.0
    for seed, (n, shifted) in enumerate(((2000, 0.0), (600, 0.9), (1000, 0.0))):
        columns = alike(n, shifted=shifted, seed=seed)
        cells.append(bundle.calibration.place(columns))
        for at in range(0, n, rule.stride):
            if monitor.alarm:  # what an alarm is judged by stays what it was
                time = monitor._watching.time
            part = slice(at, at + rule.stride)
            monitor.update(
                Events(None, None, columns={name: column[part] for name, column in columns.items()})
            )
    raised, cleared = monitor.alarms
    lengths = [p.length for p in rule.passes(time)]
    assert (
        raised.kind == "raised"
        and (rule.window in lengths) == window_too
        and max(lengths) > 2 * rule.window
    )
    # The shift is out of the window long before it is out of the stretch, so that it is the stretch by which it is cleared.
    assert (
        cleared.kind == "cleared"
        and cleared.read == max(lengths)
        and cleared.event > 2600 + rule.window
    )
    read = np.concatenate(cells)[cleared.event - cleared.read : cleared.event]
    odds = bundle.estimator.odds(
        np.bincount(read, minlength=bundle.calibration.cells), shrink=1.0 / time
    )
    assert (
        cleared.log_odds == cleared.alarm_log_odds == pytest.approx(float(odds.above[0]))
        and cleared.log_odds < -1.0
    )


def batch(items: list[dict], made: Bundle):
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


def test_that_the_scores_alarm_has_ended_is_shown_while_labels_keep_one_on(made, tmp_path):
    counting = Counting(made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"))
    counting.commit([batch(events(400), made)])
    counting.commit([[Label(f"e{i}", i % 2 == 0) for i in range(300, 400)]])
    active = dict[int, bool]()
    for first in range(400, 1200, 20):
        counting.commit([batch(events(20, first=first, shifted=0.9 if first < 700 else 0.0), made)])
        active[first + 20] = counting.monitor._watching.active
    assert [(a.kind, bool(a.by_labels)) for a in counting.monitor.alarms] == [
        ("raised", True),
        ("raised", False),
    ]
    assert not counting.monitor._watching.active and any(active.values()), (
        "and its end was not told"
    )
    points = {p["event"]: p for p in readings(counting.monitor, 400, at_once=MOST)}
    assert set(points) == set(active)
    for event, point in points.items():
        assert point["alarm"] and point["alarm_by_scores"] == active[event], event
        if active[event] == active.get(
            event - 20, False
        ):  # else it is told as the alarm saw it when it changed
            watched = counting.monitor.alarm_log_odds_at(event, on=active[event])
            assert point["alarm_log_odds"] == watched, event
    after = max(event for event, on in active.items() if on) + 20
    assert (
        counting.monitor.alarm_log_odds_at(after + 20, on=True)
        > points[after + 20]["alarm_log_odds"] + 1.0
    )
    live = counting.live(after=0.0, after_event=-1)
    assert live["alarm"] and live["alarm_by_labels"] and not live["alarm_by_scores"]
    counting.close()
