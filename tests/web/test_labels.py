"""Labels: what they say is kept over a kill, contradicts the scores if it must, and is sent once."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from monitored import START, batch_of, counting_at, events, killed, serving

from roadworthy.monitor import Bundle
from roadworthy.statistics.proportion import wilson
from roadworthy.web import views
from roadworthy.web.counting import Counting
from roadworthy.web.events import Label, Single
from roadworthy.web.offline import questions, together


def seldom_right(i: int) -> bool:
    return i % 3 == 0


@pytest.fixture
def counting(made: Bundle, tmp_path: Path) -> Counting:
    """With an alarm by labels that the queue drew."""
    found = counting_at(tmp_path / "s.sqlite", made)
    found.commit([batch_of(events(1000), made)])
    asked = [q.id for q in found.questions(100, None)]
    found.commit([[Label(name, seldom_right(i)) for i, name in enumerate(asked)]])
    assert found.monitor.alarm_by_labels and found.outbox.kinds == ["raised"]
    return found


def test_an_alarm_by_labels_is_on_after_a_kill_and_sent_once(made, counting):
    before = counting.monitor.to_bytes()
    again = killed(counting)
    assert again.monitor.alarm_by_labels and again.monitor.to_bytes() == before
    again.commit([batch_of(events(60, first=1000), made)])
    third = killed(again)
    assert third.monitor.alarm_by_labels and not again.outbox.kinds and not third.outbox.kinds
    empty = counting_at(third.file.path.with_name("empty.sqlite"), made)
    both = [str(third.file.path), str(empty.file.path)]
    assert together(both).monitor.alarm_by_labels, "whoever reads the file finds it, too"


def test_questions_that_came_after_labels_do_not_change_what_those_said(made, counting):
    """Asking again raises the probabilities of all that were asked before."""
    for first in (1000, 1300):
        counting.commit([batch_of(events(300, first=first), made)])
        names = [q.id for q in counting.questions(150, None)]
        counting.commit([[Label(name, i % 10 > 0) for i, name in enumerate(names)]])
    before = counting.monitor.to_bytes()
    again = killed(counting)
    assert again.monitor.to_bytes() == before and not again.outbox.kinds


def test_a_probability_is_on_disk_before_it_is_given_away(made, tmp_path):
    path = tmp_path / "s.sqlite"
    counting = counting_at(path, made)
    counting.commit([batch_of(events(400, shifted=0.5), made)])
    first = counting.questions(20, None)
    counting.file.close()
    second = questions(str(path), 20)
    assert not {q.id for q in first} & {q["id"] for q in second}
    again = counting_at(path, made)
    again.commit([[Label(first[0].id, True), Label(second[0]["id"], True)]])
    labels = again.monitor.state.labels
    weights = sorted(labels.weighed(key).probability for key in labels.given)
    assert all(w >= min(first[0].probability, second[0]["probability"]) for w in weights)
    assert not any(math.isclose(w, 1.0) for w in weights), "they were drawn, not sure"


def test_all_labels_of_a_group_share_one_row(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(19), made)])
    posts = [[Label(f"e{i}", i % 2 == 0), Label(f"nobody {i}", True)] for i in range(19)]
    assert all(found.taken == 1 for found in counting.commit(posts))
    assert [kind for _, kind, _ in counting.file.restored()[1]] == [1, 2]


def test_a_label_that_comes_with_its_event_is_unknown_yet(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    found = counting.commit([Single("new", START, None, 3), [Label("new", False)]])
    assert found[0].accepted == 1 and found[1].unknown == ("new",)
    assert counting.commit([[Label("new", False)]])[0].taken == 1


def test_corrected_labels_and_raised_probabilities_show_at_once(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(100), made)])
    seen = []
    for right in (True, False):
        counting.commit([[Label(f"e{i}", right) for i in range(100)]])
        seen.append(counting.now().windows[0]["audited"]["accuracy"])
    assert seen[0] > 0.9 and seen[1] < 0.1


@pytest.mark.parametrize("p", [1e-160, 5e-324])
def test_a_label_with_a_probability_next_to_none_takes_the_page_from_nobody(made, tmp_path, p):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(100), made)])
    for i in range(3):
        counting.commit([[Label(f"e{i}", i == 0, p if i == 0 else 0.5)]])
        (dot,) = counting.live(after=0.0, after_event=-1)[0]["labels"]
        assert (
            dot["n"] == i + 1 and dot["accuracy"] == 1.0 and 0.0 < dot["low"] < dot["high"] == 1.0
        )
        assert dot["low"] == pytest.approx(wilson(1.0, 1.0).low), (
            "one label stands for all the others"
        )
    again = killed(counting)
    assert again.live(after=0.0, after_event=-1)[0]["labels"] == [dot]
    again.close()


def test_labels_that_prove_an_intolerable_risk_raise_an_alarm_whatever_the_scores_say(
    made, tmp_path
):
    counting = counting_at(tmp_path / "s.sqlite", made)
    counting.commit([batch_of(events(400), made)])
    counting.commit([[Label(f"e{i}", i % 2 == 0) for i in range(300, 400)]])
    live, _ = counting.live(after=0.0, after_event=-1)
    window = live["windows"][0]
    assert live["alarm"] and window["audited"]["risk_low"] > made.tolerable > window["risk"]
    assert live["alarm_by_labels"] and not live["alarm_by_scores"]
    for correct in (True, False):
        counting.commit([[Label(f"e{i}", correct or i % 2 == 0) for i in range(300, 400)]])
    assert counting.outbox.kinds == ["raised", "cleared", "raised"]
    assert len({alarm["key"] for alarm in counting.outbox.alarms}) == 3, "at the same event"
    again = killed(counting)
    assert again.monitor.alarm and not again.outbox.kinds


def test_where_nothing_can_be_told_no_figure_is_given(made, tmp_path):
    counting = counting_at(tmp_path / "s.sqlite", made)
    for window in counting.now().windows:
        assert window["n"] == 0 and all(window[name] is None for name in views.FIGURES)
    lacking = [
        {**event, "scores": {}} if i % 3 == 0 else event for i, event in enumerate(events(300))
    ]
    counting.commit([batch_of(lacking, made)])
    for window in counting.now().windows:
        assert window["no_estimate"] and all(window[name] is None for name in views.FIGURES)
    counting.commit([batch_of(events(1000, first=300), made)])
    for window in counting.now().windows:
        of_all = set(views.FIGURES) - {"alarm_log_odds"}
        assert window["no_estimate"] is None and all(window[name] is not None for name in of_all)
        assert (window["alarm_log_odds"] is not None) == (window["window"] == made.watched)


def test_a_service_that_is_killed_says_after_its_start_what_it_said_before(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(1000))
        asked = service.post([], "/v1/label-queue?n=100").json["questions"]
        labels = [{"id": q["id"], "correct": seldom_right(i)} for i, q in enumerate(asked)]
        service.post(labels, "/v1/labels")
        before = service.get("/v1/live")
        assert before["alarm"]
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        after = service.get("/v1/live")
        assert after["alarm"] and after["windows"] == before["windows"]
        assert after["alarms"] == before["alarms"]
