"""The layers of an ONNX graph: its inner tensors, and those that the names penultimate, early, middle and late stand for.

A layer with weights is a convolution or a matrix product with a constant operand, on the way to the output that is read; its
activations are what it puts out, with the bias where that is added by a node of its own. The penultimate activation is what goes
into the last of them. These are the layers of the torch model that was exported, unless the exporter merged or split some (it
merges a batch norm into the convolution before it).

>>> from onnx import TensorProto, helper
>>> weights = [helper.make_tensor(name, TensorProto.FLOAT, [2, 2], [1, 0, 0, 1]) for name in ("w1", "w2")]
>>> nodes = [
...     helper.make_node("MatMul", ["x", "w1"], ["hidden"]),
...     helper.make_node("Relu", ["hidden"], ["active"]),
...     helper.make_node("MatMul", ["active", "w2"], ["scores"]),
... ]
>>> graph = helper.make_graph(nodes, "two layers", [], [helper.make_tensor_value_info("scores", 1, None)], weights)
>>> found = Layers.of(graph, "scores")
>>> found.inner, found.named
(('hidden', 'active'), {'penultimate': 'active', 'early': 'hidden', 'middle': 'hidden', 'late': 'scores'})
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roadworthy.subject.adapters.depths import by_depth
from roadworthy.subject.needs import PENULTIMATE

CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul")
QUANTISED = ("QLinearConv", "QLinearMatMul")
"""Their inputs are x, its scale and zero point, w, and so on."""


@dataclass(frozen=True)
class Layers:
    """The tensors of a graph that can be asked for."""

    inner: tuple[str, ...]
    """All that nodes put out, but for the graph's outputs."""
    named: dict[str, str]
    """Penultimate, early, middle and late, where no tensor bears such a name itself, with the tensor each stands for."""
    channels_first: frozenset[str]
    """Tensors that go into or come out of a convolution: (n, channels, places)."""

    @classmethod
    def of(cls, graph: Any, output: str) -> Layers:
        """Those of a graph (``onnx.GraphProto``) whose `output` is read."""
        final = {o.name for o in graph.output}
        inner = tuple(
            name for node in graph.node for name in node.output if name and name not in final
        )
        constants = _constants(graph)
        weighted = [
            (n, x)
            for n in _before(graph, output)
            for x in [_activation(n, constants)]
            if x is not None
        ]
        convolutions = {
            t for n, x in weighted if n.op_type in CONVOLUTIONS for t in (x, n.output[0])
        }
        named = by_depth([_put_out(graph, n, constants) for n, _ in weighted], taken=inner)
        if weighted and PENULTIMATE not in inner:
            named = {PENULTIMATE: weighted[-1][1], **named}
        return cls(inner, named, frozenset(convolutions))

    @property
    def names(self) -> Sequence[str]:
        """Everything that can be asked for."""
        return (*self.inner, *self.named)

    def tensor(self, name: str) -> str:
        """The tensor that a layer's name stands for."""
        return self.named.get(name, name)


def _constants(graph: Any) -> set[str]:
    """Tensors that do not depend on the input: the weights as stored, and what is made from them alone."""
    known = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if all(name in known for name in node.input if name):
            known.update(node.output)
    return known


def _before(graph: Any, output: str) -> list[Any]:
    """The nodes that an output depends on, in order."""
    wanted, found = {output}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            found.append(node)
    return found[::-1]


def _activation(node: Any, constants: set[str]) -> str | None:
    """What a node with weights multiplies them with; None for every other node."""
    if node.op_type not in CONVOLUTIONS + PRODUCTS:
        return None
    # A product of two activations (attention) has no weights, and one of two constants no activation.
    operands = [node.input[0], node.input[3 if node.op_type in QUANTISED else 1]]
    varying = [name for name in operands if name not in constants]
    return varying[0] if len(varying) == 1 else None


def _put_out(graph: Any, node: Any, constants: set[str]) -> str:
    """A node's output, or the sum with its bias where that is what becomes of it."""
    name: str = node.output[0]
    readers = [n for n in graph.node if name in n.input]
    if (
        len(readers) == 1
        and readers[0].op_type == "Add"
        and set(readers[0].input) - {name} <= constants
    ):
        return str(readers[0].output[0])
    return name
