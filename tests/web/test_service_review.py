"""Posts that were made to do harm: they are refused in words, and nobody else, and nothing on disk, notices them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from monitored import START, Service, events, serving

from roadworthy.monitor import Bundle, EventError, Monitor, Taken
from roadworthy.web.batch import Label, Labelled, Single
from roadworthy.web.clock import Clock
from roadworthy.web.counting import Counting
from roadworthy.web.events import Reader
from roadworthy.web.ledger import LABELS, Ledger

SURROGATE = b'{"id": "\\ud800", "time": %d, "scores": {"knn": 0.1, "energy": 0.1}}' % int(START)
NO_CELL = {"id": "zz", "correct": True, "cell": 9999, "time": START}


@pytest.fixture
def counting(made: Bundle, tmp_path: Path) -> Iterator[Counting]:
    opened = Counting(made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"))
    yield opened
    opened.ledger.close()


def single(made: Bundle, number: int) -> Single:
    item = events(1, first=number)[0]
    return Reader(made.calibration, subject=made.subject).read(json.dumps(item).encode(), now=START)


def after_a_kill(counting: Counting) -> Counting:
    """The same file, opened again; the one before kept no snapshot."""
    counting.ledger.close()
    return Counting(
        counting.bundle, Ledger(counting.ledger.path, bundle=counting.bundle.id, content="{}")
    )


def test_a_label_that_cannot_be_counted_takes_no_other_post_with_it(made, counting):
    bad = [Label("g1", True, 1.0, 3, START), Label("bad", True, 1.0, 9999, START)]
    posts = [single(made, 0), bad, [Label("g2", True, 1.0, 3, START)], single(made, 1)]
    found = counting.commit(posts)
    assert isinstance(found[1], EventError) and "cell 9999" in str(found[1])
    assert found[:1] + found[2:] == [Taken(1, 0, 0, 0), Labelled(1, ()), Taken(1, 0, 0, 0)]
    assert counting.monitor.state.counted == 2 and len(counting.monitor.state.labels.given) == 1
    before = counting.monitor.to_bytes()
    again = after_a_kill(counting)
    assert again.monitor.to_bytes() == before
    again.ledger.close()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    posts=st.lists(
        st.one_of(
            st.tuples(
                st.just("event"),
                st.sampled_from(["a", "b", "c", "\ud800", "d"]),
                st.integers(-1, 2),
            ),
            st.tuples(
                st.just("label"),
                st.sampled_from(["a", "b", "\udfff", "e"]),
                st.sampled_from([-7, -1, 3, 9999]),
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_is_in_a_group_disk_and_memory_stay_equal(made, tmp_path_factory, posts):
    path = tmp_path_factory.mktemp("equal") / "s.sqlite"
    counting = Counting(made, Ledger(path, bundle=made.id, content="{}"))
    group = [
        Single(name, START + i, None, cell)
        if kind == "event"
        else [Label(name, True, 0.5, cell, START)]
        for i, (kind, name, cell) in enumerate(posts)
    ]
    found = counting.commit(group)
    for (kind, name, cell), outcome in zip(posts, found, strict=True):
        wrong = name >= "\ud800" or (kind == "label" and cell not in (-1, 3))
        assert isinstance(outcome, Exception) == wrong
    before = counting.monitor.to_bytes()
    again = after_a_kill(counting)
    assert again.monitor.to_bytes() == before
    again.ledger.close()


@pytest.mark.parametrize("name", ["update_one", "label_all"])
def test_a_post_that_fails_while_it_is_counted_is_undone_on_disk_too(
    made, counting, monkeypatch, name
):
    real = getattr(Monitor, name)

    def fails(self: Monitor, first: object, *rest: object, **more: object) -> object:
        found = real(self, first, *rest, **more)
        if first == "e13" or (name == "label_all" and any(label.id == "e13" for label in first)):
            raise MemoryError("in the middle of it")
        return found

    counting.commit([single(made, i) for i in (10, 11, 12)])
    monkeypatch.setattr(Monitor, name, fails)
    at = [Label(f"e{i}", True) for i in (10, 13)] if name == "label_all" else []
    if name == "label_all":
        counting.commit([single(made, 13)])
        found = counting.commit([single(made, 14), at, [Label("e11", False)]])
        assert isinstance(found[1], MemoryError) and found[2] == Labelled(1, (), 1)
        assert len(counting.monitor.state.labels.given) == 1 and counting.monitor.state.counted == 5
    else:
        # A single event is counted by itself where another of its group was seen before.
        found = counting.commit([single(made, 10), single(made, 13), single(made, 11)])
        assert found[0] == found[2] == Taken(0, 1, 0, 0) and isinstance(found[1], MemoryError)
        assert counting.monitor.state.counted == 3
    before = counting.monitor.to_bytes()
    monkeypatch.undo()
    again = after_a_kill(counting)
    assert again.monitor.to_bytes() == before
    again.ledger.close()


def test_a_log_that_holds_what_cannot_be_counted_is_opened_without_it(made, counting):
    counting.commit([single(made, 0)])
    bad = [["g1", True, 1.0, 3, START], ["bad", True, 1.0, 9999, START]]
    counting.ledger.append([(LABELS, json.dumps(bad).encode()), (LABELS, b"no JSON")])
    counting.ledger.append([(LABELS, json.dumps([["g2", True, 1.0, 3, START]]).encode())])
    again = after_a_kill(counting)
    assert again.monitor.state.counted == 1 and len(again.monitor.state.labels.given) == 1
    again.ledger.close()


def test_a_label_holds_though_its_event_is_pushed_out_in_the_same_moment(tmp_path):
    from monitored import bundle

    made = bundle(id_horizon=1000)
    counting = Counting(made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"))
    reader = Reader(made.calibration, subject=made.subject)

    held = counting.monitor.state.recent.capacity

    def batch(first: int) -> object:
        return reader.read(json.dumps(events(held, first=first, step=0.1)).encode(), now=START)

    counting.commit([batch(0)])
    found = counting.commit([[Label("e5", False)], batch(held)])
    assert found == [Labelled(1, (), 1), Taken(held, 0, 0, 0)]
    assert "e5" not in counting.monitor.state.recent.names.values()
    assert [label.time for label in counting.monitor.state.labels.given.values()] == [START + 0.5]
    counting.ledger.close()


def test_an_alarm_that_cannot_be_told_fails_no_post(made, tmp_path):
    def alarmed(alarm: dict) -> None:
        raise RuntimeError("nobody listens")

    counting = Counting(
        made, Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}"), alarmed=alarmed
    )
    reader = Reader(made.calibration, subject=made.subject)
    body = json.dumps(events(300, shifted=1.0)).encode()
    assert counting.commit([reader.read(body, now=START)]) == [Taken(300, 0, 0, 0)]
    assert counting.monitor.alarm
    counting.ledger.close()


def test_events_cannot_walk_the_clock_ahead(made, tmp_path):
    clock = passed = START
    ledger = Ledger(tmp_path / "s.sqlite", bundle=made.id, content="{}")
    counting = Counting(made, ledger, clock=Clock(wall=lambda: clock, steady=lambda: passed))
    found = [counting.commit([Single(f"x{k}", START + 50.0 * k, None, 0)])[0] for k in range(1, 30)]
    assert found == [Taken(1, 0, 0, 0)] + [Taken(0, 0, 0, 0, 1)] * 28
    assert counting.commit([Single("honest", clock, None, 0)]) == [Taken(1, 0, 0, 0)]
    clock, passed = clock + 7200.0, passed + 7200.0
    assert counting.commit([Single("later", clock + 59.0, None, 0)]) == [Taken(1, 0, 0, 0)]
    clock -= 86_400.0  # the machine's own clock goes back: what it showed before still counts
    assert counting.commit([Single("meanwhile", clock + 86_410.0, None, 0)]) == [Taken(1, 0, 0, 0)]
    ledger.close()


@pytest.fixture(scope="module")
def service(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(bundle_path, tmp_path_factory.mktemp("review") / "s.sqlite") as running:
        yield running


@pytest.mark.parametrize(
    ("path", "bad"),
    [("/v1/labels", json.dumps(NO_CELL).encode()), ("/v1/events", SURROGATE)],
    ids=["cell", "surrogate"],
)
def test_the_posts_beside_a_bad_one_are_answered_as_if_it_were_not_there(service, path, bad):
    first = 1000 if path == "/v1/labels" else 2000
    posts = [(json.dumps(events(1, first=first + i)[0]).encode(), "/v1/events") for i in range(20)]
    posts[10:10] = [(bad, path)] * 3
    before = service.counted()
    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda post: service.post(*post).status, posts))
    assert statuses == [200] * 10 + [400] * 3 + [200] * 10
    assert service.ask("GET", "/health").status == 200 and service.counted() == before + 20
    refused = service.post(bad, path)
    assert refused.json["line"] == 1 and (
        "cell" in refused.json["error"] or "UTF-8" in refused.json["error"]
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/history?limit=inf", None),
        ("GET", "/v1/history?limit=nan", None),
        ("GET", "/v1/history?limit=-1", None),
        ("GET", "/v1/history?after=nan", None),
        ("GET", "/v1/history?every=1e-320", None),
        ("GET", "/v1/history?every=inf", None),
        ("GET", "/v1/history?every=-1", None),
        ("GET", "/v1/live?after=nan", None),
        ("POST", "/v1/label-queue?n=nan", None),
        ("POST", "/v1/label-queue?n=inf", None),
        ("POST", "/v1/label-queue?n=1e300", None),
        ("POST", "/v1/label-queue?n=2.5", None),
        ("POST", "/v1/events", b"[" * 200_000),
        ("POST", "/v1/labels", b"[" * 200_000),
        ("POST", "/v1/events", b"[" * 1000 + b"]" * 1000),
        ("POST", "/v1/labels", b"[" * 1000 + b"]" * 1000),
        ("POST", "/v1/events", b'{"id":"q","time":%s,"scores":{"knn":NaN}}' % (b"9" * 400)),
        (
            "POST",
            "/v1/events",
            b'{"id":"q","time":1,"scores":{"knn":NaN,"energy":%s}}' % (b"9" * 5000),
        ),
        ("POST", "/v1/events", b'{"id":"q","time":1,"cell":%s,"x":NaN}' % (b"9" * 400)),
        ("POST", "/v1/events", b'{"id":%s,"time":1,"cell":1,"x":NaN}' % (b"9" * 400)),
        (
            "POST",
            "/v1/events",
            b'{"id":"q","time":"0001-01-01T00:00:00+23:59","cell":%s}' % (b"9" * 30),
        ),
        ("POST", "/v1/labels", b'{"id":"q","correct":true,"cell":1,"time":%s}' % (b"9" * 400)),
        ("POST", "/v1/labels", b'{"id":"\\ud800","correct":true}'),
        ("POST", "/v1/labels", b'{"id":"q","correct":true,"probability":NaN}'),
        ("POST", "/v1/events", b'{"id":"q","time":1,"scores":{"\\ud800":NaN}}'),
        ("POST", "/v1/events", b'{"id":"q","time":1,"subject":"\\ud800","scores":{}}'),
    ],
)
def test_what_nobody_would_send_by_accident_is_refused_in_words(service, method, path, body):
    before = service.counted()
    reply = service.ask(method, path, body)
    assert reply.status == (409 if b"subject" in (body or b"") else 400), reply.body
    assert len(reply.json["error"]) < 400
    assert service.counted() == before and service.ask("GET", "/health").status == 200


def test_after_a_kill_among_bad_posts_the_same_is_counted(bundle_path, tmp_path):
    known = [{"id": f"e{i}", "correct": i % 2 == 0, "probability": 0.5} for i in range(10)]
    old = {"id": "old", "correct": True, "cell": 3, "time": START - 1000.0}
    posts = [(events(20, first=20 * i), "/v1/events") for i in range(6)]
    posts[1:1] = [([old, NO_CELL], "/v1/labels"), (SURROGATE, "/v1/events"), ([old], "/v1/labels")]
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(*posts[0])
        with ThreadPoolExecutor(8) as pool:
            statuses = list(
                pool.map(
                    lambda post: service.post(*post).status, [*posts[1:], (known, "/v1/labels")]
                )
            )
        assert statuses == [400, 400] + [200] * 7
        before = service.get("/v1/live")
        assert before["total"]["accepted"] == 120 and before["total"]["labels"] == 11
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        after = service.get("/v1/live")
        assert after["total"] == before["total"] and after["labels"] == before["labels"]
