"""Answers of odd servers, as a client behind the sidecar gets them: those of its own request, with the headers that are due."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from monitored import serving

from roadworthy.web.answer_scores import Passed
from roadworthy.web.sidecar import NoServer, Sidecar
from roadworthy.web.watched_model import Model

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"
DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


class Scripted:
    """A server that answers the requests of one connection with these bytes, one after the other, and then lets it go."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rb") as coming:
            for answer in self._answers:
                headers = dict(
                    line.lower().split(b": ", 1)
                    for line in iter(coming.readline, b"\r\n")
                    if b": " in line
                )
                coming.read(int(headers.get(b"content-length", b"0")))
                connection.sendall(answer)

    def close(self) -> None:
        self._thread.join(10)
        self._socket.close()


@contextmanager
def in_front_of(*answers: bytes) -> Iterator[Sidecar]:
    server = Scripted(*answers)
    sidecar = Sidecar(server.address, {"knn": "distance"})
    try:
        yield sidecar
    finally:
        asyncio.run(sidecar.close())
        server.close()


@pytest.mark.parametrize(
    "interim", [b"100 Continue", b"103 Early Hints\r\nLink: </a>", b"102 A\r\n\r\nHTTP/1.1 103 B"]
)
def test_what_comes_before_an_answer_is_not_taken_for_it(interim):
    """The answer itself had gone to whoever asked next."""
    with in_front_of(
        b"HTTP/1.1 " + interim + b"\r\n\r\n" + PLAIN.replace(b"plain", b"for A"), PLAIN
    ) as sidecar:
        first, second = (sidecar.ask("POST", "/v2/models/m/infer", [], b"{}") for _ in range(2))
    assert (first.status, first.body, second.body) == (200, b"for A", b"plain"), "on one connection"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (PLAIN[:-2], "broke off its answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npl", "broke off its answer"),
        (b"garbage\r\n\r\n", r"answered with what is not HTTP \(BadStatusLine: garbage"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_a_server_that_is_there_is_not_said_to_be_none(answer, said):
    with (
        in_front_of(answer) as sidecar,
        pytest.raises(NoServer, match=f"the server at {sidecar.address} {said}"),
    ):
        sidecar.ask("POST", "/v2/models/m/infer", [], b"{}")


def test_answers_have_the_headers_that_are_due(bundle_path, tmp_path):
    server = Scripted(
        f"HTTP/1.1 200 OK\r\nDate: {DATE}\r\nServer: a model\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
        PLAIN,
    )
    with serving(bundle_path, tmp_path / "s.sqlite", "--proxy", server.address) as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)

        def asked(method: str, path: str = "/v2") -> tuple[http.client.HTTPMessage, bytes]:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.headers, answer.read()

        headers, _ = asked("GET")
        assert len(headers.get_all("Date")) == 1 and headers.get_all("Server") == ["a model"]
        for method, length in (("HEAD", ["1234"]), ("GET", None), ("GET", None)):
            headers, body = asked(method)
            assert (
                headers.get_all("Content-Length") == length
                and headers["Transfer-Encoding"] is None
                and not body
            )
        assert asked("GET")[1] == b"plain", "on the same connections"
        assert len(asked("GET", "/health")[0].get_all("Date")) == 1
        connection.close()
    server.close()


def test_ids_that_a_server_does_not_give_back_are_said_to_be_missing(caplog):
    score = {"name": "distance", "datatype": "FP64", "shape": [1], "data": [0.5]}
    fed: list[str] = []

    async def feed(ids, columns):
        fed.extend(ids)

    for unique in (False, True):
        sidecar = Sidecar("http://127.0.0.1:1", {"knn": "distance"}, ids_unique=unique, model="m")
        for own in ({}, {"id": "r1"}, {}):
            passed = Passed(200, [], json.dumps({**own, "outputs": [score]}).encode())
            asyncio.run(sidecar._feed(passed, Model("m"), feed, lambda size: None))
    assert fed[4] == "r1/0" and len(set(fed)) == 6
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "an answer of the server of models has no id: sent again it counts again, in spite of --ids-unique"
    ]
