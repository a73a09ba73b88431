"""Whom the service lets in: names and sites it answers to, its token on every path that holds data, the headers of its answers."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from monitored import SUBJECT, TOKEN, Service, events, serving

from roadworthy.web import ServiceError
from roadworthy.web.guard import Guard

DATA = [
    *(("GET", f"/v1/{name}") for name in ("risk", "history", "alarms", "bundle", "state", "live")),
    *(("POST", f"/v1/{name}") for name in ("events", "labels", "label-queue")),
    *(
        ("GET", "/metrics"),
        ("GET", "/v1/nothing"),
        ("GET", "/v2/health/ready"),
        ("POST", "/v2/models/m/infer"),
    ),
]
"""Everything but the page, which holds no data, and the probe."""


@pytest.fixture(scope="module")
def guarded(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ("--token", TOKEN, "--name", "monitor.lan")
    options += ("--proxy", "http://127.0.0.1:1", "--model", "m")
    with serving(bundle_path, tmp_path_factory.mktemp("guard") / "s.sqlite", *options) as running:
        yield running


@pytest.mark.parametrize(("method", "path"), DATA)
def test_a_token_is_asked_for_wherever_there_is_data(guarded, method, path):
    for given in ({}, {"Authorization": TOKEN}, {"Authorization": f"Bearer {TOKEN[:-1]}"}):
        reply = guarded.ask(method, path, b"" if method == "POST" else None, **given)
        assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer"
        assert SUBJECT.encode() not in reply.body and TOKEN.encode() not in reply.body
    own = guarded.ask(
        method, path, b"" if method == "POST" else None, Authorization=f"Bearer {TOKEN}"
    )
    assert own.status not in (401, 403, 421)


def test_page_and_probe_need_no_token_and_tell_nothing(guarded):
    for path in ("/", "/health", "/livez", "/assets/page.js"):
        reply = guarded.ask("GET", path)
        assert reply.status == 200 and SUBJECT.encode() not in reply.body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:1"}, 200),
        ({"Host": "[::1]:8321"}, 200),
        ({"Host": "monitor.lan"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "evil.example:127.0.0.1"}, 400),
        ({"Host": "127.0.0.1:80@evil"}, 400),
        ({"Host": "localhost@evil.example"}, 400),
        ({"Host": "localhost, evil.example"}, 400),
        ({"Host": "[::1]evil.example"}, 400),
        ({"Host": "[::1"}, 400),
        ({"Host": "localhost:80/evil"}, 400),
        ({"Host": ""}, 421),
        ({"Host": "monitor.lan", "Origin": "https://monitor.lan"}, 200),
        ({"Host": "monitor.lan", "Origin": "http://localhost"}, 403),
        ({"Host": "localhost:8321", "Origin": "http://localhost:9000"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": ""}, 403),
        ({"Host": "localhost", "Origin": "file://localhost"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_names_and_sites_are_checked_before_the_token(guarded, headers, status):
    assert (
        guarded.ask("GET", "/v1/risk", **headers, Authorization=f"Bearer {TOKEN}").status == status
    )
    assert guarded.ask("GET", "/v1/risk", **headers).status == (401 if status == 200 else status)
    assert guarded.ask("GET", "/health", **headers).status == status


def test_a_request_without_a_host_is_turned_away(guarded):
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as s:
        s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 421 ")


def test_every_answer_that_a_browser_may_show_carries_the_policy(guarded):
    own = {"Authorization": f"Bearer {TOKEN}"}
    for path, headers in (
        ("/", {}),
        ("/v1/risk", own),
        ("/v1/risk", {}),
        ("/nowhere", own),
        ("/", {"Host": "evil"}),
    ):
        reply = guarded.ask("GET", path, **headers)
        policy = dict(
            part.strip().split(" ", 1)
            for part in reply.headers["content-security-policy"].split(";")
        )
        assert (
            policy["default-src"] == "'none'"
            and policy["script-src"] == policy["style-src"] == "'self'"
        )
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert (
            reply.headers["x-content-type-options"] == "nosniff"
            and reply.headers["cache-control"] == "no-store"
        )
        assert "access-control-allow-origin" not in reply.headers
    counted = guarded.post(events(1), **own)
    assert counted.status == 200 and counted.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.0.5", "monitor.lan", "127.1.evil.example"]
)
def test_an_address_that_others_can_reach_needs_a_token(host):
    with pytest.raises(ServiceError, match="needs a token"):
        Guard(host=host, token=None)
    with pytest.raises(ServiceError, match="needs a token"):
        Guard(host=host, token="")
    assert Guard(host=host, token=TOKEN).refusal({b"host": b"localhost"})[0] == 401


@pytest.mark.parametrize("token", ["x", "a" * 15])
def test_a_short_token_is_refused(token):
    with pytest.raises(ServiceError, match="at least 16"):
        Guard(host="127.0.0.1", token=token)
    Guard(host="127.0.0.1", token="a" * 16)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_this_machine_alone_needs_none(host):
    assert Guard(host=host, token=None).refusal({b"host": b"localhost:8321"}) is None


def test_a_name_that_was_found_right_opens_no_door_for_others():
    guard = Guard(host="127.0.0.1", token=None)
    assert guard.refusal({b"host": b"localhost:8321"}) is None
    assert guard.refusal({b"host": b"localhost:8321", b"origin": b"https://evil.example"})[0] == 403
    assert guard.refusal({b"host": b"evil.example"})[0] == 421


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (f"Bearer {TOKEN}".encode(), True),
        (f"bearer {TOKEN}".encode(), True),
        (f"BEARER  {TOKEN}".encode(), True),
        (f"Bearer {TOKEN.upper()}".encode(), False),
        (f"Basic {TOKEN}".encode(), False),
        (b"Bearer", False),
        (b"Bearer ", False),
        (TOKEN.encode(), False),
        (f"Bearer{TOKEN}".encode(), False),
    ],
)
def test_the_scheme_of_a_token_may_be_written_in_any_case_and_the_token_may_not(given, right):
    guard = Guard(host="127.0.0.1", token=TOKEN)
    refused = guard.refusal({b"host": b"localhost", b"authorization": given})
    assert (refused is None) == right


def test_a_probe_may_call_the_service_by_its_address():
    guard = Guard(host="0.0.0.0", names=("monitor.lan",), token=TOKEN)
    for host in (b"10.2.3.4:8321", b"[fd00::1]:8321"):
        assert guard.refusal({b"host": host}, open_to_all=True, probe=True) is None
        assert (
            guard.refusal({b"host": host, b"authorization": f"Bearer {TOKEN}".encode()})[0] == 421
        )
    assert guard.refusal({b"host": b"evil.example"}, open_to_all=True, probe=True)[0] == 421
    evil = {b"host": b"10.2.3.4", b"origin": b"https://evil.example"}
    assert guard.refusal(evil, open_to_all=True, probe=True)[0] == 403


def test_a_probe_by_address_is_answered_and_nothing_else_is(guarded):
    assert guarded.ask("GET", "/health", Host="10.2.3.4").status == 200
    assert (
        guarded.ask("GET", "/v1/risk", Host="10.2.3.4", Authorization=f"Bearer {TOKEN}").status
        == 421
    )
    assert guarded.ask("GET", "/v1/risk", Authorization=f"bearer {TOKEN}").status == 200


def test_a_host_that_is_no_name_is_refused_though_any_name_is_taken():
    guard = Guard(host="0.0.0.0", token=TOKEN)
    own = {b"authorization": f"Bearer {TOKEN}".encode()}
    assert guard.refusal({b"host": b"whatever:80", **own}) is None
    assert guard.refusal({b"host": b"127.0.0.1:80@evil", **own})[0] == 400


@pytest.mark.parametrize("path", ["/v1/events", "/v1/labels", "/health", "/"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Host: evil.example", "Host: localhost"),
        ("Host: localhost", "host: localhost"),
        ("Host: localhost\r\nOrigin: https://evil.example", "Origin: http://localhost"),
        ("Host: localhost\r\nAuthorization: Bearer wrong", f"Authorization: Bearer {TOKEN}"),
    ],
)
def test_a_header_that_decides_who_asks_stands_there_once(guarded, path, first, second):
    body = json.dumps(events(1, first=80_000)[0]).encode()
    method = "POST" if path.startswith("/v1") else "GET"
    more = "" if "Authorization" in second else f"\r\nAuthorization: Bearer {TOKEN}"
    head = f"{method} {path} HTTP/1.1\r\n{first}\r\n{second}{more}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as s:
        s.sendall(head.encode() + body)
        answer = http.client.HTTPResponse(s)
        answer.begin()
        assert answer.status == 400 and b"more than once" in answer.read()
