"""Posts that were made to do harm: they are refused in words, and nobody else notices them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from monitored import START, Service, events, serving

SURROGATE = b'{"id": "\\ud800", "time": %d, "scores": {"knn": 0.1, "energy": 0.1}}' % int(START)
NO_CHANCE = {"id": "zz", "correct": True, "probability": 1e999}


@pytest.fixture(scope="module")
def service(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(bundle_path, tmp_path_factory.mktemp("review") / "s.sqlite") as running:
        yield running


@pytest.mark.parametrize(
    ("path", "bad"),
    [("/v1/labels", json.dumps(NO_CHANCE).encode()), ("/v1/events", SURROGATE)],
    ids=["probability", "surrogate"],
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
        "probability" in refused.json["error"] or "UTF-8" in refused.json["error"]
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
        ("POST", "/v1/labels", b'{"id":"q","correct":true,"probability":%s}' % (b"9" * 400)),
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
    old = {"id": "e15", "correct": True}
    posts = [(events(20, first=20 * i), "/v1/events") for i in range(6)]
    posts[1:1] = [
        ([old, NO_CHANCE], "/v1/labels"),
        (SURROGATE, "/v1/events"),
        ([old], "/v1/labels"),
    ]
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
