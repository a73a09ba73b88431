"""What the service says where labels contradict the scores, and where it cannot tell."""

from __future__ import annotations

import json

import pytest
from monitored import START, events

from roadworthy.monitor import Bundle
from roadworthy.statistics.proportion import wilson
from roadworthy.web import views
from roadworthy.web.batch import Label
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Ledger


def counting_at(path, made: Bundle, **more) -> Counting:
    return Counting(made, Ledger(path, bundle=made.id, content="{}"), **more)


def batch(items: list[dict], made: Bundle):
    return Reader(made.calibration, subject=made.subject).read(
        json.dumps(items).encode(), now=START
    )


@pytest.mark.parametrize("p", [1e-160, 5e-324])
def test_a_label_with_a_probability_next_to_none_takes_the_page_from_nobody(made, tmp_path, p):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch(events(100), made)])
    for i in range(3):
        counting.commit([[Label(f"e{i}", i == 0, p if i == 0 else 0.5)]])
        (dot,) = counting.live(after=0.0, after_event=-1)["labels"]
        assert (
            dot["n"] == i + 1 and dot["accuracy"] == 1.0 and 0.0 < dot["low"] < dot["high"] == 1.0
        )
        assert dot["low"] == pytest.approx(wilson(1.0, 1.0).low), (
            "one label stands for all the others"
        )
    counting.ledger.close()
    again = counting_at(tmp_path / "s.sqlite", made)
    assert again.live(after=0.0, after_event=-1)["labels"] == [dot]
    again.close()


def test_labels_that_prove_an_intolerable_risk_are_told_as_an_alarm_once_and_after_a_restart_not_again(
    made, tmp_path
):
    told: list[dict] = []
    counting = counting_at(tmp_path / "s.sqlite", made, alarmed=told.append)
    counting.commit([batch(events(400), made)])
    counting.commit([[Label(f"e{i}", i % 2 == 0) for i in range(300, 400)]])
    live = counting.live(after=0.0, after_event=-1)
    assert (
        live["alarm"]
        and live["windows"][0]["audited"]["risk_low"] > made.tolerable > live["windows"][0]["risk"]
    )
    assert [alarm["kind"] for alarm in told] == ["raised"] and told[0]["reason"].startswith(
        "by labels"
    )
    assert told[0]["key"].endswith("-labels-1")
    for correct in (True, False):
        counting.commit([[Label(f"e{i}", correct or i % 2 == 0) for i in range(300, 400)]])
    assert [alarm["kind"] for alarm in told] == ["raised", "cleared", "raised"]
    assert len({alarm["key"] for alarm in told}) == 3, "at the same event, and yet not the same"
    for alarm in told:
        counting.ledger.keep_alarm(alarm, delivered=None)
    counting.ledger.close()  # without a snapshot: the log is counted again
    again: list[dict] = []
    counting = counting_at(tmp_path / "s.sqlite", made, alarmed=again.append)
    assert counting.monitor.alarm and not again


def test_where_nothing_can_be_told_no_figure_is_given(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    for window in counting.windows():
        assert window["n"] == 0 and all(window[name] is None for name in views.FIGURES)
    lacking = [
        {**event, "scores": {}} if i % 3 == 0 else event for i, event in enumerate(events(300))
    ]
    counting.commit([batch(lacking, made)])
    for window in counting.windows():
        assert window["cannot_tell"] and all(window[name] is None for name in views.FIGURES)
    counting.commit([batch(events(1000, first=300), made)])
    for window in counting.windows():
        of_all = set(views.FIGURES) - {"alarm_log_odds"}
        assert window["cannot_tell"] is None and all(window[name] is not None for name in of_all)
        assert (window["alarm_log_odds"] is not None) == (window["window"] == made.watched)
