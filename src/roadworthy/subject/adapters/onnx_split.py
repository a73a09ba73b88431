"""An ONNX model cut before its last layer with weights, for code of other people that calls an
onnxruntime session: what goes into that layer can be read, and parts of it left out.

A packaged pipeline hands its images to a session of its own and shows nothing of the network.
`SplitSession` stands in for that session: it answers the same, keeps the penultimate activations of
the last call, and makes Monte-Carlo passes (Wang et al. 2022: dropout 0.1 at the penultimate layer)
that repeat the last layer alone. A pass costs a small part of an answer.

>>> import tempfile
>>> from onnx import TensorProto, helper, save
>>> weights = [helper.make_tensor(name, TensorProto.FLOAT, [2, 2], [1, 0, 0, 2]) for name in ("w1", "w2")]
>>> nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["y"])]
>>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2]) for name in "xy")
>>> graph = helper.make_graph(nodes, "two layers", [x], [y], weights)
>>> file = Path(tempfile.mkdtemp()) / "model.onnx"
>>> save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(file))
>>> session = SplitSession(file)
>>> session.run(["y"], {"x": np.ones((1, 2), np.float32)})[0].tolist(), session.features.tolist()
([[1.0, 4.0]], [[1.0, 2.0]])
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.subject.adapters.image_models import pooled
from roadworthy.subject.adapters.onnx_model import Layers
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import PENULTIMATE

KEPT = 32
"""Inputs whose activations are kept: passes through the crops of one case find them again."""


class SplitSession:
    """In place of an onnxruntime session: the same answers, in two parts."""

    def __init__(self, file: Path, *, threads: int = 1) -> None:
        import onnx
        import onnxruntime

        model = onnx.load(str(file))
        if len(model.graph.input) != 1 or len(model.graph.output) != 1:
            raise SubjectError(f"{file.name} must have one input and one output to be cut in two")
        self.input, self.output = model.graph.input[0].name, model.graph.output[0].name
        found = Layers.of(model.graph, self.output)
        if PENULTIMATE not in found.named:
            raise SubjectError(f"{file.name} has no layer with weights before which to cut it")
        self.inner = found.named[PENULTIMATE]
        self.channels_first = self.inner in found.channels_first
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self._whole = onnxruntime.InferenceSession(str(file), options)
        self._body, self._head = (
            onnxruntime.InferenceSession(_part(model, a, b), options)
            for a, b in ((self.input, self.inner), (self.inner, self.output))
        )
        self._kept: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._dropping: tuple[float, np.random.Generator] | None = None

    @property
    def features(self) -> np.ndarray:
        """The penultimate activations of the last call: a row an image, the mean over its places."""
        if not self._kept:
            raise SubjectError("the session has not been called yet")
        return pooled(
            next(reversed(self._kept.values())), "mean", features_last=not self.channels_first
        )

    @contextmanager
    def dropout(self, rate: float, rng: np.random.Generator | None) -> Iterator[None]:
        """Within it, each call leaves out a share of the features, the others scaled up to make up
        for it; without a generator nothing is left out."""
        self._dropping = None if rng is None else (rate, rng)
        try:
            yield
        finally:
            self._dropping = None

    def run(self, names: Sequence[str] | None, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The answer; the network before the last layer runs once for calls with the same input."""
        inner = self._activations(feeds[self.input])
        if self._dropping is not None:
            rate, rng = self._dropping
            axis = 1 if self.channels_first else inner.ndim - 1
            shape = [inner.shape[axis] if i == axis else 1 for i in range(inner.ndim)]
            inner = inner * ((rng.random(shape) >= rate) / (1 - rate)).astype(inner.dtype)
        answers: list[np.ndarray] = self._head.run([self.output], {self.inner: inner})
        return answers

    def _activations(self, given: np.ndarray) -> np.ndarray:
        key = hashlib.blake2b(given.tobytes() + repr(given.shape).encode()).digest()
        if key not in self._kept:
            (self._kept[key],) = self._body.run([self.inner], {self.input: given})
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def __getattr__(self, name: str) -> Any:
        """Names, shapes and metadata are those of the whole model."""
        return getattr(self.__dict__["_whole"], name)


def _part(model: Any, start: str, end: str) -> bytes:
    """The nodes between two tensors as a model of its own, its shapes left open."""
    import onnx
    from onnx import TensorProto, helper

    needed, nodes = {end}, []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output) - {start}:
            needed.update(name for name in node.input if name != start)
            nodes.append(node)
    weights = [t for t in model.graph.initializer if t.name in needed]
    known = {t.name for t in weights} | {name for n in nodes for name in n.output} | {start, ""}
    if outside := {name for n in nodes for name in n.input} - known:
        raise SubjectError(
            f"the model cannot be cut at {start if start in outside else end!r}: what follows also "
            f"reads {sorted(outside)[0]!r}"
        )
    ports = [onnx.ValueInfoProto(name=name) for name in (start, end)]
    for port in ports:
        port.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(nodes[::-1], "part", ports[:1], ports[1:], weights)
    part = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    content: bytes = part.SerializeToString()
    return content
