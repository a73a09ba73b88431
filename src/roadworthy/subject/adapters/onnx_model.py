"""An ONNX model, run by onnxruntime on the CPU; its inner tensors can be asked for as layers where
`onnx` is installed, by the names they have in the graph or as penultimate, early, middle and late.

A model whose batch has a fixed size gets batches of that size, the last one filled up with copies
of its last image.

A layer with weights is a convolution or a matrix product with a constant operand, on the way to the
output that is read; its activations are what it puts out, with the bias where that is added by a
node of its own. The penultimate activation is what goes into the last of them. These are the layers
of the torch model that was exported, unless the exporter merged or split some (it merges a batch
norm into the convolution before it).

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import BOXES, CLASS_SCORES, Kind, Task
from roadworthy.registry import did_you_mean, not_installed, register
from roadworthy.subject.adapters.image_models import (
    BOXES_PORTS,
    ImageModule,
    InputPreparation,
    by_depth,
    check_detector,
    joined_columns,
    padded,
    pooled,
    refused,
    spans,
    takes_images,
    tensor_answers,
)
from roadworthy.subject.adapters.loading import classes_in, digest_of, existing_file
from roadworthy.subject.module import Answers, ClassNames, Context, SubjectError
from roadworthy.subject.needs import PENULTIMATE, Input, Layer, Request
from roadworthy.subject.system import System, single

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
    """Penultimate, early, middle and late, where no tensor bears such a name itself, with the
    tensor each stands for."""
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
    """Tensors that do not depend on the input: the weights as stored, and what is made from them
    alone."""
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


TENSORS = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
}
"""onnxruntime's name of an input's type -> the preparation's."""


@register("adapters", "onnx")
def onnx_model(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    input: InputPreparation | None = None,
    output: str | None = None,
    batch: int = 256,
    threads: int = 1,
) -> System:
    """An ONNX file; `output` names the tensor that answers (the first one by default)."""
    batch = takes_images(task, "onnx", batch)
    if batch < 1 or threads < 1:
        raise SubjectError(f"batch is {batch} and threads {threads}; both must be at least 1")
    file = existing_file(path, base, what="ONNX file")
    beside = _beside(file)
    session = _session(str(file), threads, file.name)
    module = OnnxModule(
        session,
        task.output,
        input or InputPreparation(),
        output=_output_name(session, task.output, output),
        batch_size=batch,
        threads=threads,
        files=(file, *beside),
    )
    return single(module, task.input, version=version)


@dataclass(frozen=True)
class OnnxModule(ImageModule):
    """An onnxruntime session as a module that takes images in batches."""

    session: Any
    kind: Kind
    prepare: InputPreparation
    output: str
    batch_size: int
    threads: int
    files: tuple[Path, ...]
    with_layers: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)
    """Sessions of the same graph with some inner tensors put out as well, by their names."""

    def __post_init__(self) -> None:
        taken = self.session.get_inputs()
        if len(taken) != 1:
            raise SubjectError(
                f"{self.files[0].name} takes the inputs {', '.join(i.name for i in taken)}; one image input was expected"
            )
        wanted = TENSORS.get(taken[0].type)
        if wanted != self.prepare.dtype:
            raise SubjectError(
                f"{self.files[0].name} takes {taken[0].type}, and the preparation makes {self.prepare.dtype}; "
                f"write input: {{dtype: {wanted or ' or '.join(TENSORS.values())}}}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's files, the output that is read, the preparation, and of batch and
        threads."""
        run = f"batch {self.batch_size} threads {self.threads}"
        return digest_of(
            *(f.read_bytes() for f in self.files),
            self.output,
            repr(self.prepare),
            self.kind.name,
            run,
        )

    @cached_property
    def classes(self) -> ClassNames | None:
        """Names in the file's metadata, or in a node that lists its class labels (scikit-learn)."""
        stored = self.session.get_modelmeta().custom_metadata_map
        named = classes_in(stored, f"metadata of {self.files[0].name}")
        if named is not None or not _has_onnx():
            return named
        import onnx

        graph = onnx.load(str(self.files[0]), load_external_data=False).graph
        listed = (a for n in graph.node for a in n.attribute if a.name.startswith("classlabels_"))
        for attribute in listed:
            words = [w.decode() for w in attribute.strings] or [str(i) for i in attribute.ints]
            if words:
                return ClassNames(tuple(words), f"class labels in {self.files[0].name}")
        return None

    @cached_property
    def layers(self) -> Layers:
        """The inner tensors of the graph, and those that the names of depths stand for."""
        import onnx

        return Layers.of(onnx.load(str(self.files[0]), load_external_data=False).graph, self.output)

    def offers(self, request: Request) -> str | None:
        """Its input, its output, and where onnx is installed the inner tensors of the graph, by
        name or by depth."""
        if isinstance(request, Layer) and not _has_onnx():
            return "the inner tensors of an ONNX model need onnx to be read, which is not installed: pip install onnx"
        known = self.layers.names if isinstance(request, Layer) else ()
        return refused(request, known, where=self.files[0].name)

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The answers for the images, and the layers that are asked for, from one run of the graph."""
        granted = sorted(
            (r for r in context.requests if isinstance(r, Layer | Input)), key=lambda r: r.column
        )
        names = tuple(sorted({self.layers.tensor(r.name) for r in granted if isinstance(r, Layer)}))
        session = self._session_with(names)
        answers: list[Any] = []
        extras: dict[Request, list[np.ndarray]] = {r: [] for r in granted}
        for span in spans(len(context.ids), self._size()):
            prepared = self.prepare(inputs["image"][span])
            raw = self._run(session, prepared, names)
            answers.append(tensor_answers(raw, self.output, len(prepared), self.kind))
            for r in granted:
                extras[r].append(
                    prepared if isinstance(r, Input) else self._read(raw, r, len(prepared))
                )
        return Answers(
            {"output": joined_columns(answers)},
            {r: np.concatenate(parts) for r, parts in extras.items()},
        )

    def _read(self, raw: Mapping[str, np.ndarray], request: Layer, n: int) -> np.ndarray:
        tensor = self.layers.tensor(request.name)
        values = raw[tensor]
        if values.ndim == 0 or len(values) != n:
            raise SubjectError(
                f"the layer {request.name!r} gave {values.shape} for {n} images; one row an image was expected"
            )
        return pooled(values, request.pool, features_last=tensor not in self.layers.channels_first)

    def _size(self) -> int:
        fixed = self.session.get_inputs()[0].shape[0]
        if isinstance(fixed, int) and fixed > 0:
            return fixed
        return 1 if self.kind is BOXES else self.batch_size

    def _run(
        self, session: Any, prepared: np.ndarray, layers: tuple[str, ...]
    ) -> dict[str, np.ndarray]:
        port = session.get_inputs()[0]
        n, fixed = len(prepared), port.shape[0]
        given = padded(prepared, fixed) if isinstance(fixed, int) else prepared
        answers = BOXES_PORTS if self.kind is BOXES else (self.output,)
        names = list(dict.fromkeys(name for name in (*answers, *layers) if name != port.name))
        values = dict(zip(names, session.run(names, {port.name: given}), strict=True))
        # A model of one layer has its input for the penultimate activation, and a graph does not put out its input.
        values[port.name] = given
        return {
            k: v[:n] if len(given) > n and v.ndim and len(v) == len(given) else v
            for k, v in values.items()
        }

    def _session_with(self, names: tuple[str, ...]) -> Any:
        known = {port.name for port in (*self.session.get_inputs(), *self.session.get_outputs())}
        names = tuple(name for name in names if name not in known)
        if not names:
            return self.session
        if names not in self.with_layers:
            import onnx

            graph = onnx.load(str(self.files[0]))
            graph.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
            self.with_layers[names] = _session(
                graph.SerializeToString(), self.threads, self.files[0].name
            )
        return self.with_layers[names]


def _session(model: str | bytes, threads: int, name: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise SubjectError(not_installed("the adapter onnx needs onnxruntime", "onnx")) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise SubjectError(f"onnxruntime cannot load {name}: {reason}") from error


def _output_name(session: Any, kind: Kind, wanted: str | None) -> str:
    names = [o.name for o in session.get_outputs()]
    if kind is BOXES:
        check_detector(names)
        return "boxes"
    if wanted is not None and wanted not in names:
        raise SubjectError(
            f"the model has no output {wanted!r}{did_you_mean(wanted, names)}; it has: {', '.join(names)}"
        )
    # A classifier made by scikit-learn gives its labels first, which are no scores.
    floats = [
        o.name for o in session.get_outputs() if kind is not CLASS_SCORES or o.type in TENSORS
    ]
    chosen = wanted or (floats or names)[0]
    if chosen not in floats:
        types = ", ".join(f"{o.name} of {o.type}" for o in session.get_outputs())
        raise SubjectError(
            f"class scores are a tensor of floats, and the model gives {types}; "
            "export it with one, with skl2onnx by options={'zipmap': False}"
        )
    return chosen


def _beside(file: Path) -> list[Path]:
    """Weights too large for the file itself stand beside it, in files that it names."""
    content = file.read_bytes()
    others = sorted(p for p in file.parent.iterdir() if p.is_file() and p != file)
    return [p for p in others if p.name.startswith(file.name) or p.name.encode() in content]


def _has_onnx() -> bool:
    from importlib.util import find_spec

    return find_spec("onnx") is not None
