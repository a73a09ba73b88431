"""The Open Inference Protocol adapter against a real server on the loopback interface: a linear model in numpy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Input, Layer
from roadworthy.subject.system import Cases

CLASSIFY = TASKS["classification"]
RNG = np.random.default_rng(2)
WEIGHTS = RNG.normal(size=(16, 3)).astype(np.float32)
IMAGES = RNG.integers(0, 200, (20, 4, 4), dtype=np.uint8)
IDS = [f"case-{i}" for i in range(20)]
POISON = 255
"""A first pixel of this value is what the server cannot stand."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stopped: threading.Event
    binary = False
    ready = True
    fault = ""
    batch = -1
    version = "1"
    labels = False
    seen: list[tuple[str, int]]

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        self.seen.append((self.path, self.client_address[1]))
        if self.path == "/v2/health/ready":
            self.answer(200 if self.ready else 503, b"")
        elif self.path == "/v2":
            extensions = ["binary_tensor_data"] if self.binary else []
            self.answer(200, json.dumps({"name": "numpy", "extensions": extensions}).encode())
        elif self.path == "/v2/models/linear":
            told = {
                "name": "linear",
                "versions": [self.version],
                "platform": "numpy",
                "inputs": [{"name": "image", "datatype": "FP32", "shape": [self.batch, 1, 4, 4]}],
                "outputs": [{"name": "scores", "datatype": "FP32", "shape": [self.batch, 3]}],
            }
            self.answer(200, json.dumps(told).encode())
        else:
            self.answer(404, json.dumps({"error": f"no {self.path}"}).encode())

    def do_POST(self) -> None:
        self.seen.append((self.path, self.client_address[1]))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.stopped.is_set() or (self.fault == "idle" and len(self.seen) == 4):
            self.close_connection = True
            return None
        length = self.headers.get("Inference-Header-Content-Length")
        document = json.loads(body if length is None else body[: int(length)])
        (tensor,) = document["inputs"]
        if length is None:
            image = np.array(tensor["data"], dtype=np.float32).reshape(tensor["shape"])
        else:
            image = np.frombuffer(body[int(length) :], dtype="<f4").reshape(tensor["shape"])
        poisoned = image[:, 0, 0, 0] == 1.0
        if poisoned.any() and self.fault == "refuse":
            return self.answer(500, json.dumps({"error": "the picture burns"}).encode())
        if poisoned.any() and self.fault == "hang":
            self.stopped.wait()
        if poisoned.any() and self.fault == "hang up":
            self.close_connection = True
            return None
        if self.fault == "not json":
            return self.answer(200, b"<html>")
        if self.fault == "no outputs":
            return self.answer(200, b'{"error": null}')
        if self.fault == "short":
            return self.answer(
                200,
                b'{"outputs": [{"name": "scores", "shape": [20, 3], "datatype": "FP32", "data": [1]}]}',
            )
        scores = image.reshape(len(image), -1) @ WEIGHTS
        if self.fault == "nan":
            scores[poisoned, 1] = np.nan
        return self.reply(scores, binary=length is not None)

    def reply(self, scores: np.ndarray, *, binary: bool) -> None:
        tensor = {"name": "scores", "shape": list(scores.shape), "datatype": "FP32"}
        if not binary:
            tensor["data"] = scores.ravel().tolist()
            return self.answer(200, json.dumps({"outputs": [tensor]}).encode())
        content = scores.astype("<f4").tobytes()
        tensor["parameters"] = {"binary_data_size": len(content)}
        texts = len(scores) * b"\x03\0\0\0cat" if self.labels else b""
        label = {"name": "label", "shape": [len(scores)], "datatype": "BYTES"}
        label["parameters"] = {"binary_data_size": len(texts)}
        head = json.dumps({"outputs": [*([label] if self.labels else []), tensor]}).encode()
        self.answer(
            200, head + texts + content, {"Inference-Header-Content-Length": str(len(head))}
        )

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(**settings) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    seen: list[tuple[str, int]] = []
    handler = type(
        "Configured",
        (Handler,),
        {**settings, "seen": seen, "stopped": (stopped := threading.Event())},
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()


def build(address: str, tmp_path, **more):
    given = {"model": "linear", "timeout_s": 5.0, "retries": 0, **more}
    return get("adapters", "server").bind(path=address, base=tmp_path, task=CLASSIFY, **given)()


def expected(images: np.ndarray) -> np.ndarray:
    return (images.astype(np.float32) / np.float32(255)).reshape(len(images), -1) @ WEIGHTS


def poisoned() -> np.ndarray:
    images = IMAGES.copy()
    images[7, 0, 0] = POISON
    return images


@pytest.mark.parametrize("binary", [False, True])
def test_answers_are_those_of_the_model_over_one_connection(tmp_path, binary):
    with serving(binary=binary) as (address, seen):
        system = build(address, tmp_path, batch=6)
        trace = system.run(Cases(IDS, IMAGES), {"model": frozenset({Input()})})
    np.testing.assert_allclose(trace["system"].output, expected(IMAGES), atol=1e-5)
    assert trace["system"].output.dtype == np.float32
    assert trace["model"].columns["input"].shape == (20, 1, 4, 4)
    assert len({port for _, port in seen}) == 1
    assert sum(path.endswith("/infer") for path, _ in seen) == 4


def test_an_output_that_was_not_asked_for_need_not_be_one_of_numbers(tmp_path):
    with serving(binary=True, labels=True) as (address, _):
        trace = build(address, tmp_path).run(Cases(IDS, IMAGES))["system"]
    assert trace.ok.all(), trace.error[0]
    np.testing.assert_allclose(trace.output, expected(IMAGES), atol=1e-5)


@pytest.mark.parametrize("size", [1, 8])
def test_a_model_of_a_fixed_batch_gets_it(tmp_path, size):
    with serving(batch=size) as (address, seen):
        output = build(address, tmp_path).run(Cases(IDS, IMAGES))["system"].output
    np.testing.assert_allclose(output, expected(IMAGES), atol=1e-5)
    assert sum(path.endswith("/infer") for path, _ in seen) == -(-20 // size)


@pytest.mark.parametrize(
    ("fault", "says", "more"),
    [
        ("refuse", "500: the picture burns", {}),
        ("nan", "has 1 NaN", {}),
        ("hang", "did not answer within 1 s", {"timeout_s": 1.0}),
        ("hang up", "closed the connection without an answer", {}),
    ],
)
def test_only_the_row_that_the_server_cannot_stand_fails(tmp_path, fault, says, more):
    with serving(fault=fault) as (address, _):
        trace = build(address, tmp_path, **more).run(Cases(IDS, poisoned()))["system"]
    assert says in trace.error[7]
    others = [i for i in range(20) if i != 7]
    assert trace.ok[others].all()
    np.testing.assert_allclose(
        np.asarray(trace.output)[others], expected(IMAGES)[others], atol=1e-5
    )


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("not json", "is not JSON"),
        ("no outputs", "no list 'outputs'"),
        ("short", "a tensor that cannot be read"),
    ],
)
def test_malformed_answers_are_named(tmp_path, fault, says):
    with serving(fault=fault) as (address, _):
        trace = build(address, tmp_path).run(Cases(IDS[:3], IMAGES[:3]))["system"]
    assert all(says in error for error in trace.error)


def test_a_server_that_is_down_is_told_with_its_address(tmp_path):
    with serving() as (address, _):
        system = build(address, tmp_path)
    with pytest.raises(
        SubjectError, match=f"no server at {address} .*start it, or correct the address"
    ):
        build(address, tmp_path, retries=1)
    with pytest.raises(SubjectError, match=f"no server at {address}"):
        system.run(Cases(IDS, IMAGES))


def test_a_connection_that_the_server_let_go_is_opened_again(tmp_path):
    with serving(fault="idle") as (address, seen):
        trace = build(address, tmp_path).run(Cases(IDS, IMAGES))["system"]
    assert trace.ok.all()
    assert [path.rsplit("/", 1)[1] for path, _ in seen[3:]] == ["infer", "infer"]
    assert len({port for _, port in seen}) == 2


def test_what_the_server_does_not_have_is_told(tmp_path):
    with serving() as (address, _):
        with pytest.raises(
            SubjectError, match=r"does not serve the model 'liner': .*404: no /v2/models/liner"
        ):
            build(address, tmp_path, model="liner")
        with pytest.raises(SubjectError, match=r"inputs have no 'imag' \(did you mean 'image'\?\)"):
            build(address, tmp_path, input_name="imag")
        with pytest.raises(SubjectError, match=r"takes FP32, .* write input: \{dtype: float32\}"):
            build(address, tmp_path, input={"dtype": "uint8"})
        assert "has no layer" in build(address, tmp_path).modules["model"].offers(Layer("conv"))
    with serving(ready=False) as (address, _), pytest.raises(SubjectError, match="is not ready"):
        build(address, tmp_path)
    with pytest.raises(SubjectError, match="is no server address"):
        build("localhost:8000", tmp_path)


def test_the_fingerprint_is_of_the_address_the_model_the_version_and_the_preparation(tmp_path):
    with serving() as (address, _), serving() as (elsewhere, _):
        first = build(address, tmp_path).fingerprint
        assert build(address, tmp_path).fingerprint == first
        assert build(elsewhere, tmp_path).fingerprint != first
        for other in ({"version": "2"}, {"input": {"scale": 1.0}}, {"batch": 3}):
            assert build(address, tmp_path, **other).fingerprint != first, other
        module = build(address, tmp_path).modules["model"]
        told = replace(module, metadata={**module.metadata, "versions": ["another"]})
        assert told.fingerprint != module.fingerprint
