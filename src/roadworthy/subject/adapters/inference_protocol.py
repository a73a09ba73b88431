"""The Open Inference Protocol, version 2, over HTTP: tensors as JSON or as bytes, and a connection that is kept open.

>>> body, headers = encode_tensors("x", np.array([[1.5, 2.0]], dtype=np.float32), output=None, binary=False)
>>> body
b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2.0]}]}'
>>> decode_tensors(b'{"outputs": [{"name": "y", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}', {})["y"].tolist()
[[1.0, 2.0]]
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from roadworthy.subject.module import SubjectError

DATATYPES = {
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BOOL": "bool",
    **{
        f"{sign}INT{bits}": f"{sign.lower()}int{bits}"
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
}
NAMES = {numpy: name for name, numpy in DATATYPES.items()}
HEADER_LENGTH = "Inference-Header-Content-Length"
BUSY = (429, 502, 503, 504)
"""Answers that may be another one a moment later."""
PAUSE_S = 0.1
LOST = (http.client.HTTPException, ConnectionResetError, BrokenPipeError)
"""What is raised where a server was there and went away."""


class ServerRefused(RuntimeError):
    """The server answered that it cannot serve this request."""


class ServerFailed(ServerRefused):
    """The server could not serve this request now; another time it may."""


class MalformedAnswer(RuntimeError):
    """The server's answer is not what the protocol asks for."""


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Server:
    """One server, one open connection."""

    address: str
    timeout_s: float = 30.0
    retries: int = 2
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SubjectError(
                f"{self.address!r} is no server address; write it as in http://127.0.0.1:8000"
            )

    def get(self, path: str) -> Any:
        """The JSON document at a path."""
        reply = self.ask("GET", path)
        if reply.status != 200:
            raise ServerRefused(f"{self.address}{path} answered {_reason(reply)}")
        return parsed(reply.body) if reply.body else {}

    def is_ready(self) -> bool:
        """Whether the server says that it takes requests."""
        return self.ask("GET", "/v2/health/ready").status == 200

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request; a lost connection or a busy server is tried again, a server that is not there is an error."""
        reply: Reply | None = None
        lost: Exception | None = None
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                reply = self._once(method, path, body, headers or {})
            except TimeoutError as error:
                raise TimeoutError(
                    f"{self.address} did not answer within {self.timeout_s:g} s"
                ) from error
            except (OSError, http.client.HTTPException) as error:
                lost = error
                continue
            if reply.status not in BUSY:
                break
        if reply is not None:
            return reply
        if isinstance(lost, LOST) and self._answers():
            raise ServerFailed(f"{self.address} closed the connection without an answer")
        raise SubjectError(
            f"there is no server at {self.address} ({lost}); start it, or correct the address in the assessment file"
        )

    def _once(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        with self._lock:
            kept = self._connection is not None
            try:
                return self._exchange(method, path, body, headers)
            except LOST:
                if not kept:
                    raise
                # The server may have let an idle connection go; that is no failure, and one fresh try is free.
                return self._exchange(method, path, body, headers)

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        parts = urlsplit(self.address)
        if self._connection is None:
            kind = (
                http.client.HTTPSConnection
                if parts.scheme == "https"
                else http.client.HTTPConnection
            )
            self._connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        try:
            self._connection.request(
                method, parts.path.rstrip("/") + path, body or None, dict(headers)
            )
            answer = self._connection.getresponse()
            return Reply(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        except BaseException:
            self._connection.close()
            self._connection = None
            raise

    def _answers(self) -> bool:
        """Whether the server is still there, so that it was the request that it could not stand."""
        try:
            return self._once("GET", "/v2/health/ready", b"", {}).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def infer(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The output tensors of one request."""
        reply = self.ask("POST", f"{path}/infer", body, headers)
        if reply.status != 200:
            passing = reply.status >= 500 or reply.status in (*BUSY, 408)
            raise (ServerFailed if passing else ServerRefused)(
                f"the server answered {_reason(reply)}"
            )
        return decode_tensors(reply.body, reply.headers)


def encode_tensors(
    name: str, values: np.ndarray, *, output: str | None, binary: bool
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request for inference."""
    tensor: dict[str, Any] = {
        "name": name,
        "shape": list(values.shape),
        "datatype": NAMES[values.dtype.name],
    }
    request: dict[str, Any] = {"inputs": [tensor]}
    if output is not None:
        request["outputs"] = [
            {"name": output, **({"parameters": {"binary_data": True}} if binary else {})}
        ]
    if not binary:
        tensor["data"] = values.ravel().tolist()
        return json.dumps(request).encode(), {"Content-Type": "application/json"}
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    tensor["parameters"] = {"binary_data_size": len(content)}
    head = json.dumps(request).encode()
    return head + content, {
        "Content-Type": "application/octet-stream",
        HEADER_LENGTH: str(len(head)),
    }


class Answer(dict[str, Any]):
    """The tensors of an answer by name, each read when it is asked for: what nobody asks for need not be readable."""

    def __init__(self, document: Mapping[str, Any], outputs: Mapping[str, _Output]) -> None:
        super().__init__(outputs)
        self.document = document

    def __getitem__(self, name: str) -> np.ndarray:
        output: _Output = super().__getitem__(name)
        return output.read()


class _Output(NamedTuple):
    tensor: Mapping[str, Any]
    content: memoryview | None
    """Its bytes, where it comes as such."""

    def read(self) -> np.ndarray:
        tensor, content = self
        called = (
            f"the server's answer holds a tensor that cannot be read: output {tensor['name']!r}"
        )
        datatype = str(tensor.get("datatype"))
        if datatype not in DATATYPES:
            raise MalformedAnswer(
                f"{called} is of type {datatype}; numbers were expected, as {', '.join(DATATYPES)}"
            )
        if content is None and "data" not in tensor:
            raise MalformedAnswer(
                f"{called} has no data (it may lie in shared memory); have the server send it in the answer"
            )
        dtype = np.dtype(DATATYPES[datatype])
        try:
            if content is not None:
                values = np.frombuffer(content, dtype=dtype.newbyteorder("<")).astype(dtype)
            else:
                values = np.asarray(tensor["data"], dtype=dtype)
            return values.reshape([int(side) for side in tensor["shape"]])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise MalformedAnswer(f"{called}: {error!r}") from error


def decode_tensors(body: bytes, headers: Mapping[str, str]) -> Answer:
    """The tensors of an answer; what does not fit the protocol raises `MalformedAnswer`, of a tensor once it is asked for."""
    length = headers.get(HEADER_LENGTH.lower())
    if length is not None and not (length.strip().isdecimal() and len(length) < 20):
        raise MalformedAnswer(
            f"the server's answer has {HEADER_LENGTH} {length!r}; a number of bytes was expected"
        )
    place = len(body) if length is None else int(length)
    document = parsed(body[:place])
    if not isinstance(document, Mapping) or not isinstance(document.get("outputs"), list):
        raise MalformedAnswer("the server's answer has no list 'outputs'")
    outputs = dict[str, _Output]()
    for tensor in document["outputs"]:
        if not isinstance(tensor, Mapping) or not isinstance(tensor.get("name"), str):
            raise MalformedAnswer("the server's answer holds a tensor without a name")
        size, left = _parameters(tensor).get("binary_data_size"), max(len(body) - place, 0)
        if size is not None and not (isinstance(size, int) and 0 <= size <= left):
            raise MalformedAnswer(
                f"the server's answer says that output {tensor['name']!r} has {size!r} bytes; {left:,} are left of it"
            )
        content = None if size is None else memoryview(body)[place : place + size]
        expected = _size_of(tensor)
        if size is not None and expected is not None and size != expected:
            # Nobody would know where the next one begins.
            raise MalformedAnswer(
                f"the server's answer says that output {tensor['name']!r} has {size:,} bytes; {expected:,} were expected of its "
                "datatype and shape"
            )
        outputs[tensor["name"]] = _Output(tensor, content)
        place += size or 0
    if place < len(body):
        raise MalformedAnswer(
            f"the server's answer has {len(body) - place:,} bytes that are of no output"
        )
    return Answer(document, outputs)


def _size_of(tensor: Mapping[str, Any]) -> int | None:
    """The bytes that a tensor's datatype and shape take; None where they do not say."""
    try:
        return math.prod(tensor["shape"]) * np.dtype(DATATYPES[tensor["datatype"]]).itemsize
    except (KeyError, TypeError):
        return None


def _parameters(tensor: Mapping[str, Any]) -> Mapping[str, Any]:
    found = tensor.get("parameters")
    return found if isinstance(found, Mapping) else {}


def parsed(body: bytes) -> Any:
    """A JSON document."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the server's answer is not JSON: {body[:60]!r}") from error


def _reason(reply: Reply) -> str:
    try:
        said = json.loads(reply.body).get("error", "")
    except (ValueError, AttributeError):
        said = reply.body[:200].decode(errors="replace")
    return f"{reply.status}{': ' if said else ''}{said}"
