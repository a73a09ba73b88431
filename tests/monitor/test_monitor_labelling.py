"""Many labels at once are those labels one by one, taken all or none."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.monitor import EventError, Events, Monitor
from roadworthy.monitor import monitor as module
from roadworthy.monitor.labels import KEPT, SLACK, Label, Labels

GOOD = [
    ("a1", True, None, None, None),
    (7, False, 0.5, None, None),
    ("r#3", True, 1.0, None, None),
    ("long gone", False, 0.2, 3, 4.0),
    ("a1", False, None, None, None),
]


def stream(bundle) -> Monitor:
    monitor = Monitor(bundle, replica="r")
    monitor.update(Events(["a0", "a1", 7], [1.0, 2.0, 2.0], columns={"energy": [0.1, 0.2, 0.3]}))
    monitor.update(Events(None, [3.0, 4.0], columns={"energy": [0.1, 0.2]}))
    monitor.update(
        Events(np.arange(100, 200), np.full(100, 5.0), columns={"energy": np.zeros(100)})
    )
    return monitor


def test_many_labels_are_those_labels_one_by_one(bundle):
    answers = [*GOOD, *((i, i % 2 == 0, None, None, None) for i in range(199, 99, -1))]
    together, single = stream(bundle), stream(bundle)
    together.label_all(answers)
    for id, correct, probability, cell, time in answers:
        single.label(id, correct, probability, cell=cell, time=time)
    assert together.to_bytes() == single.to_bytes()
    assert together.state.labels.counts.sum() == len(together.state.labels.given) == 104


def test_labels_of_events_that_nobody_can_name_are_all_counted(bundle):
    """However they come, and whatever else is labelled, or labelled again, between them."""
    monitor, nameless = stream(bundle), (None, True, None, 1, 2.0)
    for answers in (
        [*GOOD, nameless, nameless],
        [GOOD[0], nameless],
        [nameless],
        [GOOD[1], nameless, GOOD[2]],
    ):
        monitor.label_all(answers)
    monitor.label(*nameless[:3], cell=1, time=2.0)
    assert monitor.state.labels.counts.sum() == len(monitor.state.labels.given) == 4 + 6


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("nobody", True, None, None, None), "'nobody' is not among the last 105 events"),
        (("nobody", True, None, 99_999, 4.0), "'nobody' has cell 99999"),
        (("nobody", True, None, 1, 1e6), "'nobody' is of an event at 1000000 s"),
        (("a1", True, 0.0, None, None), "above 0 and is at most 1, found 0.0 for 'a1'"),
        ((3.5, True, None, None, None), "an id is a text or a whole number"),
    ],
)
def test_one_that_is_refused_leaves_none(bundle, wrong, says):
    monitor = stream(bundle)
    before = monitor.to_bytes()
    with pytest.raises(EventError, match=says):
        monitor.label_all([*GOOD, wrong])
    with pytest.raises(EventError, match="watches"):
        monitor.label_all(GOOD, subject="another")
    monitor.label_all([])
    assert monitor.to_bytes() == before


def test_many_labels_are_looked_at_once(watchful, monkeypatch):
    monitor, looks = Monitor(watchful), []
    monitor.update(Events(np.arange(300), np.arange(300.0), columns={"energy": np.zeros(300)}))
    monkeypatch.setattr(module.Watching, "look_at_labels", lambda *_: looks.append(1))
    monitor.label_all([(i, True, None, None, None) for i in range(300)])
    monitor.label_all([(i, True, None, None, None) for i in range(300)], look=False)
    assert len(looks) == 1


def test_of_more_labels_than_are_kept_the_latest_stay():
    labels, n = Labels(cells=1), KEPT + 5 * SLACK
    labels.add_all((i, Label(float(n - i), 0, True, None)) for i in range(n))
    assert len(labels.given) == KEPT and labels.counts.sum() == n
    assert max(labels.given) == KEPT - 1, (
        "by the time of their events, not in the order in which they came"
    )
