"""In front of a real server of models: answers go through byte for byte, and the scores in them are counted."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest
from monitored import TOKEN, answering, serving, until

from roadworthy.subject.adapters.inference_protocol import Server, encode_tensors
from roadworthy.web.answer_scores import Passed
from roadworthy.web.sidecar import NoServer, Sidecar

PROXY = ("--score", "knn=distance", "--model", "m", "--proxy")


class Model(BaseHTTPRequestHandler):
    """Answers with a class and two supervisors' scores a row."""

    protocol_version = "HTTP/1.1"
    fault = ""
    seen: list[tuple[str, str, bytes]]
    encodings: list[list[str]]
    authorizations: list[str | None]

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self.seen.append(("GET", self.path, b""))
        self.answer(200 if self.path == "/v2/health/ready" else 404, b'{"name": "served"}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.authorizations.append(self.headers.get("Authorization"))
        self.encodings.append(self.headers.get_all("Accept-Encoding") or [])
        self.seen.append(("POST", self.path, body))
        length = self.headers.get("Inference-Header-Content-Length")
        request = json.loads(body if length is None else body[: int(length)])
        n = request["inputs"][0]["shape"][0]
        scores = {"distance": np.linspace(0, 1, n)[:, None], "energy": np.linspace(1, 2, n)}
        if self.fault == "nan":
            scores["energy"][0] = np.nan
        if self.fault == "infinite":
            scores["energy"][0] = np.inf
        if self.fault == "none":
            scores = {}
        if self.fault == "wide":
            scores["distance"] = np.ones((n, 3))
        if self.fault == "absent":
            del scores["energy"]
        outputs = []
        rest = b""
        for name, values in {"label": np.zeros(n), **scores}.items():
            tensor = {"name": name, "shape": list(values.shape), "datatype": "FP64"}
            if length is None:
                tensor["data"] = values.ravel().tolist()
            else:
                tensor["parameters"] = {"binary_data_size": values.size * 8}
                rest += values.astype("<f8").tobytes()
            outputs.append(tensor)
        head = json.dumps(
            {
                "model_name": "m",
                "outputs": outputs,
                **({"id": request["id"]} if "id" in request else {}),
            }
        ).encode()
        more = {} if length is None else {"Inference-Header-Content-Length": str(len(head))}
        if self.fault == "broken off":
            self.answer(200, head[:20], size=1000)
            self.close_connection = True
            return
        if "gzip" in "".join(self.encodings[-1]) or self.fault == "packed":
            head, rest, more = gzip.compress(head + rest), b"", {**more, "Content-Encoding": "gzip"}
        if self.fault == "odd":
            more["Content-Encoding"] = "br"
        self.answer(
            500 if self.fault == "500" else 200, head + rest, {**more, "X-Served-By": "a model"}
        )

    def answer(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        size: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size or len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def models() -> Iterator[tuple[str, type[Model]]]:
    handler = type("Configured", (Model,), {"seen": [], "authorizations": [], "encodings": []})
    with answering(handler) as address:
        yield address, handler


@pytest.fixture(scope="module")
def stack(bundle_path, tmp_path_factory):
    with models() as (address, handler):
        state = tmp_path_factory.mktemp("sidecar") / "s.sqlite"
        with serving(bundle_path, state, *PROXY, address) as service:
            yield service, handler, address


def request(n: int, name: str | None = None) -> bytes:
    body = {
        "inputs": [{"name": "image", "shape": [n, 2], "datatype": "FP32", "data": [0.0] * (2 * n)}]
    }
    return json.dumps({**body, **({"id": name} if name else {})}).encode()


def test_answers_go_through_unchanged_and_are_counted_row_by_row(stack):
    service, handler, _ = stack
    handler.fault = ""
    body = request(5, "r1")
    reply = service.ask("POST", "/v2/models/m/infer?x=1", body)
    assert handler.seen[-1] == ("POST", "/v2/models/m/infer?x=1", body)
    assert (
        reply.status == 200
        and reply.headers["x-served-by"] == "a model"
        and reply.json["id"] == "r1"
    )
    until(lambda: service.counted() == 5)
    service.ask("POST", "/v2/models/m/infer", body)  # clients need not give ids that differ
    service.ask("POST", "/v2/models/m/infer", request(3))
    until(lambda: service.counted() == 13)
    assert service.get("/v1/live")["total"]["repeated"] == 0
    asked = service.ask("POST", "/v1/label-queue?n=13").json["questions"]
    assert sum(q["id"].startswith("r1/") for q in asked) == 10 and all(
        len(q["id"]) <= 200 for q in asked
    )
    assert service.ask("GET", "/v2/health/ready").body == b'{"name": "served"}'
    assert service.ask("GET", "/v2/nothing").status == 404


def test_tensors_as_bytes_are_read_too(stack):
    service, handler, _ = stack
    handler.fault, before = "", service.counted()
    body, headers = encode_tensors(
        "image", np.zeros((4, 2), dtype=np.float32), output=None, binary=True
    )
    tensors = Server(service.address).infer("/v2/models/m", body, headers)
    assert (
        tensors["distance"].shape == (4, 1)
        and tensors["energy"].tolist() == np.linspace(1, 2, 4).tolist()
    )
    until(lambda: service.counted() == before + 4)


def test_what_cannot_be_counted_goes_through_all_the_same(stack):
    service, handler, _ = stack
    before = service.counted()
    for fault in ("none", "none", "500"):
        handler.fault = fault
        assert service.ask("POST", "/v2/models/m/infer", request(2)).status == (
            500 if fault == "500" else 200
        )
    handler.fault = ""
    service.ask("POST", "/v2/models/m/infer", request(2))
    until(lambda: service.counted() == before + 2)
    metrics = service.ask("GET", "/metrics").body.decode()
    assert 'roadworthy_sidecar_skipped_total{reason="unreadable"} 2' in metrics


@pytest.mark.parametrize(
    ("fault", "unscored"), [("nan", 1), ("infinite", 1), ("absent", 4), ("wide", 4)]
)
def test_a_row_whose_score_is_missing_is_an_event_that_says_nothing(stack, fault, unscored):
    service, handler, _ = stack
    before = service.get("/v1/live")["total"]
    handler.fault = fault
    assert service.ask("POST", "/v2/models/m/infer", request(4)).status == 200
    total = until(
        lambda: (
            (t := service.get("/v1/live")["total"])["unscored"] == before["unscored"] + unscored
            and t
        )
    )
    assert total["accepted"] == before["accepted"] + 4 - unscored


def test_a_supervisor_that_overflows_is_not_taken_for_calm(bundle_path, tmp_path):
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", *PROXY, address) as service,
    ):
        for fault, counted in (("", 100), ("infinite", 130)):
            handler.fault = fault
            for _ in range(10 if not fault else 30):
                service.ask("POST", "/v2/models/m/infer", request(1 if fault else 10))
            until(lambda: service.counted() == counted)  # noqa: B023
        window = service.get("/v1/risk?window=100")["windows"][0]
        assert window["risk"] is None and window["no_estimate"].startswith("30 of 100 events")


def test_ids_that_are_said_to_differ_name_the_events_and_the_token_stays_here(
    bundle_path, tmp_path
):
    with models() as (address, handler):
        options = (*PROXY, address, "--ids-unique", "--token", TOKEN)
        with serving(bundle_path, tmp_path / "s.sqlite", *options) as service:
            own = {"Authorization": f"Bearer {TOKEN}"}
            assert (
                service.ask("POST", "/v2/models/m/infer", request(2)).status == 401
                and not handler.seen
            )
            for name, n in (("r1", 5), ("r1", 5), ("x" * 300, 3), ("x" * 300, 3)):
                assert (
                    service.ask("POST", "/v2/models/m/infer", request(n, name), **own).status == 200
                )
            until(lambda: sum(service.get("/v1/live", **own)["total"].values()) == 16)
            total = service.get("/v1/live", **own)["total"]
            assert (total["accepted"], total["repeated"]) == (11, 5)
            label = {"id": "r1/4", "correct": True}
            assert service.post(label, "/v1/labels", **own).json["taken"] == 1
    assert handler.authorizations == [None] * 4


def test_a_token_that_is_not_ours_goes_through(stack):
    service, handler, _ = stack
    handler.fault, before = "", service.counted()
    service.ask("POST", "/v2/models/m/infer", request(1), Authorization="Bearer of-the-models")
    until(lambda: service.counted() == before + 1)
    assert handler.authorizations[-1] == "Bearer of-the-models"


def test_an_id_that_is_no_text_of_utf_8_is_replaced(stack):
    service, handler, _ = stack
    handler.fault, before = "", service.counted()
    body = request(2, "id").replace(b'"id": "id"', b'"id": "\\ud800"')
    assert service.ask("POST", "/v2/models/m/infer", body).status == 200
    until(lambda: service.counted() == before + 2)


def test_an_answer_that_breaks_off_is_no_answer(stack):
    service, handler, _ = stack
    handler.fault = "broken off"
    assert service.ask("POST", "/v2/models/m/infer", request(2)).status == 502
    handler.fault = ""
    assert service.ask("POST", "/v2/models/m/infer", request(2)).status == 200


def test_requests_and_answers_are_held_up_to_a_number_of_bytes():
    from types import SimpleNamespace

    from roadworthy.web.http import TooMuch
    from roadworthy.web.sidecar import REQUEST_BYTES, Sidecar

    async def receive():
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message):
        pass

    async def feed(ids, columns):
        held.append((len(ids), sidecar._memory.used))

    scope = {"query_string": b"", "raw_path": b"/v2/models/m/infer"}
    asked = SimpleNamespace(
        method="POST", path="/v2/models/m/infer", headers={}, raw_headers=[], scope=scope
    )
    held: list[tuple[int, int]] = []
    with models() as (address, handler):
        sidecar = Sidecar(address, {"knn": "distance"}, "m", in_flight=100_000)

        async def go(body):
            nonlocal sent
            sent = body
            await sidecar.serve(asked, receive, send, feed)
            await asyncio.gather(*sidecar._feeding)

        sent = b""
        asyncio.run(go(request(10)))
        assert (
            held[0][0] == 10
            and held[0][1] > REQUEST_BYTES + len(request(10))
            and sidecar._memory.used == 0
        )
        with pytest.raises(TooMuch, match="Send it again"):
            asyncio.run(go(request(10) + b" " * 100_000))
        assert len(handler.seen) == 1, "a request that is too large does not reach the server"
        with pytest.raises(TooMuch):
            asyncio.run(go(request(2000)))  # its answer is what is too large
        assert len(handler.seen) == 2 and sidecar._memory.used == 0
        asyncio.run(go(request(10)))
        assert len(held) == 2
        asyncio.run(sidecar.close())


def test_other_names_and_other_sites_do_not_reach_the_server_of_models(stack):
    service, handler, _ = stack
    handler.fault, before = "", len(handler.seen)
    assert service.ask("POST", "/v2/models/m/infer", request(1), Host="evil.example").status == 421
    assert (
        service.ask("POST", "/v2/models/m/infer", request(1), Origin="https://evil.example").status
        == 403
    )
    assert service.ask("GET", "/v2/health/ready", Origin="null").status == 403
    assert len(handler.seen) == before


def test_the_death_of_the_model_server_is_a_metric_and_a_line_of_the_log(bundle_path, tmp_path):
    def up() -> str:
        text = service.ask("GET", "/metrics").body.decode()
        return text.partition("\nroadworthy_upstream_up ")[2].partition("\n")[0]

    with models() as (address, _):
        port = int(address.rsplit(":", 1)[1])
        with serving(bundle_path, tmp_path / "s.sqlite", *PROXY, address) as service:
            assert service.ask("POST", "/v2/models/m/infer", request(2)).status == 200
            assert up() == "1"
    state = tmp_path / "other.sqlite"
    with serving(bundle_path, state, *PROXY, f"http://127.0.0.1:{port}") as service:
        until(lambda: up() == "0")  # found out though nobody asks
        reply = service.ask("POST", "/v2/models/m/infer", request(2))
        assert reply.status == 502 and "no model server at" in reply.json["error"]
        assert service.ask("GET", "/v1/risk").status == 200
        assert service.ask("GET", "/health").status == service.ask("GET", "/livez").status == 200
        service.stop()
        said = service.process.stderr.read()
    assert said.count("does not answer") == 1


@pytest.mark.parametrize(
    ("model", "path"),
    [("m", "/v2/models/m/infer"), ("m/versions/2", "/v2/models/m/versions/2/infer")],
)
def test_the_answers_of_one_model_are_counted_and_those_of_others_pass_through(
    bundle_path, tmp_path, model, path
):
    paths = ("m", "m/versions/1", "m/versions/2", "other", "mm")
    others = [p for name in paths if (p := f"/v2/models/{name}/infer") != path]
    with models() as (address, handler):
        options = ("--score", "knn=distance", "--proxy", address, "--model", model)
        with serving(bundle_path, tmp_path / "s.sqlite", *options) as service:
            for other in others:
                assert service.ask("POST", other, request(3)).status == 200
            assert service.ask("POST", path, request(5)).status == 200
            until(lambda: service.counted() == 5)
            metrics = service.ask("GET", "/metrics").body.decode()
            assert f'skipped_total{{reason="another model"}} {len(others)}' in metrics
            assert f'roadworthy_sidecar_model_info{{model="{model}"}} 1' in metrics
            assert len(handler.seen) == len(others) + 1


def test_clients_that_accept_compression_are_counted_too(stack):
    service, handler, _ = stack
    handler.fault, before = "", service.counted()
    reply = service.ask(
        "POST", "/v2/models/m/infer", request(3), **{"Accept-Encoding": "gzip, deflate"}
    )
    assert handler.encodings[-1] == ["identity"] and reply.json["outputs"]
    until(lambda: service.counted() == before + 3)


def test_answers_that_are_not_counted_are_said_in_the_log(bundle_path, tmp_path):
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", *PROXY, address) as service,
    ):
        handler.fault = "odd"
        for _ in range(3):
            assert service.ask("POST", "/v2/models/m/infer", request(1)).status == 200
        until(lambda: b'"unreadable"} 3' in service.ask("GET", "/metrics").body)
        handler.fault = "none"
        service.ask("POST", "/v2/models/m/infer", request(1))
        until(lambda: b'"unreadable"} 4' in service.ask("GET", "/metrics").body)
        service.stop()
        said = service.process.stderr.read()
    assert said.count("was not counted: it is compressed (br)") == 1, "once a minute"
    assert said.count("was not counted: it has no output") == 1, "and every reason"


@pytest.mark.parametrize(
    "path", ["/v2/../admin/shutdown", "/v2/%2e%2e/admin", "/v2/%252e%252e/a", "/v2/x/..;/a"]
)
def test_nothing_but_the_protocol_of_the_server_is_passed_on(stack, path):
    service, handler, _ = stack
    before = len(handler.seen)
    reply = service.ask("GET", path)
    assert (
        reply.status == 400 and "leaves /v2" in reply.json["error"] and len(handler.seen) == before
    )


class Forgetful:
    """A server that answers one request a connection, keeps it open, and lets it go when the next has come."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                for i in range(2):
                    head = connection.recv(65536)
                    if not head:
                        break
                    self.got.append(head.split(b" ")[0].decode())
                    if i == 0:
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> None:
        self._socket.close()


def test_no_request_is_sent_twice():
    server = Forgetful()
    sidecar = Sidecar(server.address, {}, "m")
    assert sidecar.ask("GET", "/v2", [], b"").status == 200
    with pytest.raises(NoServer, match="no whole answer"):
        sidecar.ask("POST", "/v2/models/m/infer", [], b"{}")
    assert server.got == ["GET", "POST"], "it is unknown whether it was served: its client decides"
    assert sidecar.ask("GET", "/v2", [], b"").status == 200
    asyncio.run(sidecar.close())
    server.close()


def test_a_connection_that_the_server_has_let_go_is_not_used():
    with models() as (address, handler):
        handler.timeout = 0.05  # ends connections on which nothing comes
        sidecar = Sidecar(address, {}, "m")
        for _ in range(2):
            assert sidecar.ask("POST", "/v2/models/m/infer", [], request(1)).status == 200
            (connection,) = [sidecar._idle.get()]
            sidecar._idle.put(connection)
            until(lambda: connection.sock.recv(1, socket.MSG_PEEK) == b"")  # noqa: B023
        assert len(handler.seen) == 2
        asyncio.run(sidecar.close())


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:99999", "http://me:secret@127.0.0.1:8000", "ftp://a"]
)
def test_a_server_that_can_never_be_asked_is_refused_at_the_start(address):
    from roadworthy.web import ServiceError

    with pytest.raises(ServiceError, match="is not an address") as refused:
        Sidecar(address, {}, "m")
    assert "secret" not in str(refused.value)


@pytest.fixture
def heard() -> Iterator[tuple[Sidecar, list[tuple[str, str]]]]:
    """A sidecar in front of a server that notes the headers it gets, and answers with some that are not for others."""
    found: list[tuple[str, str]] = []

    class Hears(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found[:] = [(name.lower(), value) for name, value in self.headers.items()]
            self.send_response(200)
            for name, value in (
                ("Connection", "keep-alive, X-Hop"),
                ("X-Hop", "1"),
                ("X-End", "2"),
            ):
                self.send_header(name, value)
            for cookie in ("a=1", "b=2"):
                self.send_header("Set-Cookie", cookie)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with answering(Hears) as address:
        sidecar = Sidecar(address, {}, "m")
        yield sidecar, found
        asyncio.run(sidecar.close())


def test_a_header_that_comes_twice_goes_on_with_both_values(heard):
    sidecar, found = heard
    lines = (
        (b"x-forwarded-for", b"1.1.1.1"),
        (b"cookie", b"a=1"),
        (b"X-Forwarded-For", b"2.2.2.2"),
        (b"cookie", b"b=2"),
    )
    sidecar.ask("GET", "/v2/health/ready", list(lines), b"")
    assert [value for name, value in found if name == "x-forwarded-for"] == ["1.1.1.1, 2.2.2.2"]
    assert [value for name, value in found if name == "cookie"] == ["a=1; b=2"]


def test_headers_of_one_connection_stay_on_it(heard):
    sidecar, found = heard
    lines = [(b"connection", b"close, X-Secret"), (b"Connection", b"x-other"), (b"x-kept", b"1")]
    passed = sidecar.ask("GET", "/v2", [*lines, (b"x-secret", b"hop"), (b"X-Other", b"hop")], b"")
    names = {name for name, _ in found}
    assert "x-kept" in names and names.isdisjoint({"x-secret", "x-other", "connection"})
    answered = [name for name, _ in passed.headers]
    assert b"x-end" in answered and b"x-hop" not in answered and answered.count(b"set-cookie") == 2


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
        if not connection.recv(1, socket.MSG_PEEK):  # it was tried whether there is anybody
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
    sidecar = Sidecar(server.address, {"knn": "distance"}, "m")
    try:
        yield sidecar
    finally:
        asyncio.run(sidecar.close())
        server.close()


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN[:-2],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npl",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + PLAIN,
        b"",
    ],
)
def test_a_server_that_is_there_is_not_said_to_be_none(answer):
    with in_front_of(answer) as sidecar, pytest.raises(NoServer, match="no whole answer"):
        sidecar.ask("POST", "/v2/models/m/infer", [], b"{}")


def test_answers_have_the_headers_that_are_due(bundle_path, tmp_path):
    server = Scripted(
        f"HTTP/1.1 200 OK\r\nDate: {DATE}\r\nServer: a model\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
        PLAIN,
    )
    with serving(bundle_path, tmp_path / "s.sqlite", *PROXY, server.address) as service:
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
        sidecar = Sidecar("http://127.0.0.1:1", {"knn": "distance"}, "m", ids_unique=unique)
        for own in ({}, {"id": "r1"}, {}):
            passed = Passed(200, [], json.dumps({**own, "outputs": [score]}).encode())
            asyncio.run(sidecar._feed(passed, feed))
    assert fed[4] == "r1/0" and len(set(fed)) == 6
    (said,) = [record.getMessage() for record in caplog.records]
    assert "--ids-unique" in said
