"""In front of a real server of models: answers go through byte for byte, and the scores in them are counted."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest
from monitored import answering, serving, until

from roadworthy.subject.adapters.inference_protocol import Server, encode_tensors
from roadworthy.web.answer_scores import Passed
from roadworthy.web.keeper import Busy
from roadworthy.web.ledger import Unwritable
from roadworthy.web.sidecar import Sidecar
from roadworthy.web.watched_model import Model as ServedModel

ONE_SCORE = {"name": "distance", "datatype": "FP64", "shape": [1, 1], "data": [0.5]}


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
        options = ("--proxy", address, "--score", "knn=distance")
        with serving(
            bundle_path, tmp_path_factory.mktemp("sidecar") / "s.sqlite", *options
        ) as service:
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
    options = ("--score", "knn=distance", "--proxy")
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", *options, address) as service,
    ):
        for fault, counted in (("", 100), ("infinite", 130)):
            handler.fault = fault
            for _ in range(10 if not fault else 30):
                service.ask("POST", "/v2/models/m/infer", request(1 if fault else 10))
            until(lambda: service.counted() == counted)  # noqa: B023
        window = service.get("/v1/risk?window=100")["windows"][0]
        assert window["risk"] is None and window["cannot_tell"].startswith(
            "30 of 100 events lack a score"
        )


def test_where_most_answers_are_not_counted_nobody_can_tell_until_they_are_again(
    bundle_path, tmp_path
):
    options = ("--score", "knn=distance", "--proxy")
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", *options, address) as service,
    ):

        def answered(number: int, fault: str, model: str = "m") -> None:
            handler.fault = fault
            for _ in range(number):
                assert service.ask("POST", f"/v2/models/{model}/infer", request(10)).status == 200

        answered(20, "")
        answered(30, "none", model="other")  # which has no scores, and never had
        until(lambda: service.counted() == 200)
        assert service.ask("GET", "/health").status == 200
        answered(25, "none")
        probe = until(lambda: (reply := service.ask("GET", "/health")).status == 503 and reply)
        said = "of the server of models were not counted and are not in these figures"
        assert said in probe.json["status"] and "it has no output" in probe.json["status"]
        live = service.get("/v1/live")
        assert live["mostly_refused"] and all(window["risk"] is None for window in live["windows"])
        assert "roadworthy_sidecar_mostly_skipped 1" in service.ask("GET", "/metrics").body.decode()
        answered(80, "")
        until(lambda: service.ask("GET", "/health").status == 200)
        assert not service.get("/v1/live")["mostly_refused"]
        told = [alarm for alarm in service.get("/v1/alarms")["alarms"] if alarm.get("late")]
        assert [alarm["kind"] for alarm in told] == ["cannot tell", "can tell"] and said in told[0][
            "reason"
        ]


def test_answers_that_cannot_be_written_make_no_trouble_that_outlasts_the_states_own():
    scored = Passed(200, [], json.dumps({"outputs": [ONE_SCORE]}).encode())
    told: list[str] = []

    def answered(error: Exception | None, number: int) -> None:
        async def feed(ids, columns):
            if error is not None:
                raise error

        for _ in range(number):
            asyncio.run(sidecar._feed(scored, ServedModel("m"), feed, lambda size: None))

    sidecar = Sidecar("http://127.0.0.1:1", {"knn": "distance"}, told=told.append)
    answered(None, 10)
    answered(Unwritable("the state cannot be written now"), 60)
    assert sidecar.lost == 60 and told == [] and not sidecar.trouble
    answered(Busy("too many events wait"), 30)
    assert "30 of the last 40 answers" in sidecar.trouble, "of which nothing else tells"


def test_a_restart_forgets_skipped_answers_only_once_enough_others_have_come(bundle_path, tmp_path):
    options = ("--score", "knn=distance", "--proxy")

    def answered(number: int, fault: str) -> None:
        handler.fault = fault
        for _ in range(number):
            assert service.ask("POST", "/v2/models/m/infer", request(10)).status == 200

    def gauges() -> list[str]:
        lines = service.ask("GET", "/metrics").body.decode().splitlines()
        return [
            line
            for line in lines
            if line.startswith(("roadworthy_mostly_late", "roadworthy_sidecar_mostly"))
        ]

    def told() -> list[dict]:
        return [alarm for alarm in service.get("/v1/alarms")["alarms"] if alarm.get("late")]

    skipped = ["roadworthy_mostly_late 0", "roadworthy_sidecar_mostly_skipped 1"]
    with models() as (address, handler):
        with serving(bundle_path, tmp_path / "s.sqlite", *options, address) as service:
            answered(10, "")
            answered(30, "none")
            until(lambda: gauges() == skipped)
            (before,) = told()
            service.kill()
        with serving(bundle_path, tmp_path / "s.sqlite", *options, address) as service:
            assert (
                gauges() == skipped
                and service.ask("GET", "/health").json["status"] == before["reason"]
            )
            answered(19, "")
            until(lambda: service.counted() == 290)
            assert gauges() == skipped, (
                "rows say nothing of answers, and nineteen of these are too few"
            )
            answered(1, "")
            until(
                lambda: (
                    gauges() == ["roadworthy_mostly_late 0", "roadworthy_sidecar_mostly_skipped 0"]
                )
            )
            until(lambda: service.ask("GET", "/health").status == 200)
            assert [alarm["kind"] for alarm in told()] == ["cannot tell", "can tell"]


def test_ids_that_are_said_to_differ_name_the_events_and_the_token_stays_here(
    bundle_path, tmp_path
):
    with models() as (address, handler):
        options = (
            "--proxy",
            address,
            "--score",
            "knn=distance",
            "--ids-unique",
            "--token",
            "a-secret",
        )
        with serving(bundle_path, tmp_path / "s.sqlite", *options) as service:
            own = {"Authorization": "Bearer a-secret"}
            assert (
                service.ask("POST", "/v2/models/m/infer", request(2)).status == 401
                and not handler.seen
            )
            for name, n in (("r1", 5), ("r1", 5), ("x" * 300 + "a", 3), ("x" * 300 + "b", 3)):
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

    from roadworthy.web.in_flight import TooMuch
    from roadworthy.web.sidecar import REQUEST_BYTES, Sidecar

    async def receive():
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message):
        pass

    async def feed(ids, columns):
        held.append((len(ids), sidecar._room.used))

    scope = {"query_string": b"", "raw_path": b"/v2/models/m/infer"}
    asked = SimpleNamespace(
        method="POST", path="/v2/models/m/infer", headers={}, raw_headers=[], scope=scope
    )
    held: list[tuple[int, int]] = []
    with models() as (address, handler):
        sidecar = Sidecar(address, {"knn": "distance"}, in_flight=100_000)

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
            and sidecar._room.used == 0
        )
        with pytest.raises(TooMuch, match="send it again"):
            asyncio.run(go(request(10) + b" " * 100_000))
        assert len(handler.seen) == 1, "a request that is too large does not reach the server"
        with pytest.raises(TooMuch):
            asyncio.run(go(request(2000)))  # its answer is what is too large
        assert len(handler.seen) == 2 and sidecar._room.used == 0
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


def test_a_server_that_is_gone_is_said_to_be(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite", "--proxy", "http://127.0.0.1:1") as service:
        reply = service.ask("POST", "/v2/models/m/infer", request(2))
        assert (
            reply.status == 502
            and "there is no server at http://127.0.0.1:1" in reply.json["error"]
        )
        assert service.ask("GET", "/v1/risk").status == 200


def test_clients_that_accept_compression_are_counted_too(stack):
    service, handler, _ = stack
    handler.fault, before = "", service.counted()
    reply = service.ask(
        "POST", "/v2/models/m/infer", request(3), **{"Accept-Encoding": "gzip, deflate"}
    )
    assert handler.encodings[-1] == ["identity"] and reply.json["outputs"]
    until(lambda: service.counted() == before + 3)
    handler.fault = "packed"  # by a server that does so whatever it is asked for
    reply = service.ask("POST", "/v2/models/m/infer", request(4))
    assert (
        reply.headers["content-encoding"] == "gzip"
        and json.loads(gzip.decompress(reply.body))["outputs"]
    )
    until(lambda: service.counted() == before + 7)
    handler.fault = ""


def test_answers_that_are_not_counted_are_said_in_the_log(bundle_path, tmp_path):
    options = ("--score", "knn=distance", "--proxy")
    with (
        models() as (address, handler),
        serving(bundle_path, tmp_path / "s.sqlite", *options, address) as service,
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


def test_a_post_is_never_sent_twice_and_a_question_may_be():
    from roadworthy.web.sidecar import NoServer, Sidecar

    server = Forgetful()
    sidecar = Sidecar(server.address, {})
    assert sidecar.ask("GET", "/v2", [], b"").status == 200
    with pytest.raises(NoServer, match="closed the connection"):
        sidecar.ask("POST", "/v2/models/m/infer", [], b"{}")
    assert server.got == ["GET", "POST"], "whether it was served nobody knows: its client decides"
    assert [sidecar.ask("GET", "/v2", [], b"").status for _ in range(2)] == [200, 200]
    assert server.got == ["GET", "POST", "GET", "GET", "GET"]
    asyncio.run(sidecar.close())
    server.close()


def test_a_connection_that_the_server_has_let_go_is_not_used():
    from roadworthy.web.sidecar import Sidecar

    with models() as (address, handler):
        handler.timeout = 0.05  # ends connections on which nothing comes
        sidecar = Sidecar(address, {})
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
    from roadworthy.web.sidecar import Sidecar

    with pytest.raises(ServiceError, match="is no server address") as refused:
        Sidecar(address, {})
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
        sidecar = Sidecar(address, {})
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
