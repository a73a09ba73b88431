"""Layers of ONNX models by depth: the same network in torch gives the same activations, and the same scores."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.adapters.onnx_model import Layers
from roadworthy.subject.needs import EARLY, LATE, MIDDLE, PENULTIMATE, Layer, Output
from roadworthy.subject.system import Cases

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
CLASSIFY = TASKS["classification"]
DEPTHS = (EARLY, MIDDLE, LATE, PENULTIMATE)
OF_LAYERS = (
    "mahalanobis",
    "kde",
    "knn",
    "lsa",
    "mdsa",
    "dsa",
    "dlpra_knn",
    "grad_norm",
    "vim",
    "react",
    "dissector",
)


def ids(n):
    return [f"case-{i}" for i in range(n)]


def onnx_system(folder, name="model.onnx", **more):
    return get("adapters", "onnx").bind(path=name, base=folder, task=CLASSIFY, **more)()


def columns_of(system, images, requests):
    return system.run(Cases(ids(len(images)), images), {"model": frozenset(requests)})["model"]


@pytest.fixture(scope="module")
def fashion():
    """Reference and test rows of the example, from the torch model and from its ONNX file, with every layer by depth."""
    parts = {
        s: get("loaders", "bundled").bind(path="fashion-mnist", split=s, base=Path())()
        for s in ("reference", "test")
    }
    images = {
        s: np.stack(list(d.inputs))[:n] for (s, d), n in zip(parts.items(), (400, 120), strict=True)
    }
    systems = {
        "torch": get("adapters", "torch").bind(
            path="model.py:build", base=FASHION, task=CLASSIFY, weights="weights.safetensors"
        )(),
        "onnx": onnx_system(FASHION),
    }
    requests = {Output(), *(Layer(name) for name in DEPTHS)}
    traces = {
        k: {s: columns_of(system, images[s], requests) for s in images}
        for k, system in systems.items()
    }
    return traces, np.asarray(parts["reference"].targets)[:400]


@pytest.mark.parametrize("depth", DEPTHS)
def test_activations_are_those_of_the_torch_model(fashion, depth):
    first, second = (fashion[0][k]["test"].columns[f"layer.{depth}"] for k in ("torch", "onnx"))
    assert (
        first.shape
        == second.shape
        == (120, {EARLY: 32, MIDDLE: 48, LATE: 80, PENULTIMATE: 80}[depth])
    )
    np.testing.assert_allclose(second, first, atol=1e-4)


@pytest.mark.parametrize("name", OF_LAYERS)
def test_supervisors_score_the_same_in_both(fashion, name):
    traces, labels = fashion
    found = {}
    for way, parts in traces.items():
        supervisor = get("supervisors", name).bind()
        supervisor.fit(parts["reference"], labels)
        found[way] = supervisor.score(parts["test"])
    assert np.isfinite(found["torch"]).all()
    np.testing.assert_allclose(found["onnx"], found["torch"], rtol=1e-4, atol=1e-4)


def exported(model, folder, size, name="model.onnx"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            (torch.zeros(1, 1, *size),),
            str(folder / name),
            dynamo=False,
            input_names=["image"],
            output_names=["scores"],
            dynamic_axes={"image": {0: "n"}, "scores": {0: "n"}},
        )
    return onnx_system(folder, name)


def graph_layers(folder, name="model.onnx"):
    return Layers.of(onnx.load(str(folder / name)).graph, "scores")


def test_a_product_and_its_bias_are_one_layer_and_attention_is_none(tmp_path):
    class Attending(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = (
                torch.nn.Linear(8, 6),
                torch.nn.Linear(6, 6),
                torch.nn.Linear(6, 3),
            )

        def forward(self, x):
            tokens = self.second(torch.relu(self.first(x[:, 0])))
            mixed = torch.softmax(tokens @ tokens.transpose(1, 2), dim=2) @ tokens
            return self.last(mixed.mean(1))

    torch.manual_seed(0)
    model = Attending()
    system = exported(model, tmp_path, (8, 8))
    images = np.random.default_rng(0).integers(0, 255, (5, 8, 8), dtype=np.uint8)
    seen = {}
    for name in ("first", "second", "last"):
        layer = getattr(model, name)
        layer.register_forward_hook(
            lambda _, taken, given, n=name: seen.update({n: given, f"into_{n}": taken[0]})
        )
    with torch.no_grad():
        model(torch.from_numpy(images[:, None] / np.float32(255)))
    columns = columns_of(system, images, {Layer(d) for d in DEPTHS}).columns
    wanted = {EARLY: seen["first"].mean(1), MIDDLE: seen["second"].mean(1), LATE: seen["last"]}
    for depth, values in {**wanted, PENULTIMATE: seen["into_last"]}.items():
        np.testing.assert_allclose(columns[f"layer.{depth}"], values.numpy(), atol=1e-5)


def test_channels_of_a_line_are_pooled_over_time(tmp_path):
    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Conv1d(8, 5, 1), torch.nn.Conv1d(5, 3, 1)

        def forward(self, x):
            return self.last(torch.relu(self.first(x[:, 0]))).mean(2)

    system = exported(Line(), tmp_path, (8, 8))
    images = np.random.default_rng(0).integers(0, 255, (4, 8, 8), dtype=np.uint8)
    columns = columns_of(
        system, images, {Layer(EARLY), Layer(PENULTIMATE), Layer(PENULTIMATE, "none")}
    ).columns
    assert columns["layer.early"].shape == columns["layer.penultimate"].shape == (4, 5)
    places = columns["layer@none.penultimate"].reshape(4, 5, 8)
    np.testing.assert_allclose(columns["layer.penultimate"], places.mean(axis=2), atol=1e-6)


def written(folder, nodes, weights, outputs=("scores",), name="model.onnx"):
    info = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 1, 4])],
        info,
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / name))
    return onnx_system(folder, name)


ROW = np.arange(12).reshape(3, 1, 4).astype(np.uint8) * 20
W = np.random.default_rng(0).normal(size=(4, 3))


def test_a_model_of_one_layer_has_its_input_for_the_penultimate_activation(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["image", "w"], ["product"]),
        helper.make_node("Flatten", ["product"], ["scores"]),
    ]
    trace = columns_of(
        written(tmp_path, nodes, {"w": W}), ROW, {Layer(PENULTIMATE, "none"), Layer(LATE, "none")}
    )
    np.testing.assert_allclose(trace.columns["layer@none.penultimate"], ROW[:, 0] / 255, atol=1e-6)
    np.testing.assert_allclose(trace.columns["layer@none.late"], ROW[:, 0] / 255 @ W, atol=1e-5)


def test_weights_behind_constant_nodes_are_weights_and_other_outputs_do_not_count(tmp_path):
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Transpose", ["w_t"], ["w"]),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
        helper.make_node("MatMul", ["scores", "square"], ["elsewhere"]),
    ]
    weights = {"w_t": W.T, "square": np.eye(3)}
    system = written(tmp_path, nodes, weights, outputs=("scores", "elsewhere"))
    assert graph_layers(tmp_path).named == {
        PENULTIMATE: "flat",
        **dict.fromkeys((EARLY, MIDDLE, LATE), "scores"),
    }
    trace = columns_of(system, ROW, {Layer(PENULTIMATE), Layer(LATE)})
    np.testing.assert_array_equal(trace.columns["layer.late"], trace.output)
    np.testing.assert_allclose(trace.columns["layer.penultimate"], ROW[:, 0] / 255, atol=1e-6)
    other = onnx_system(tmp_path, output="elsewhere").modules["model"]
    assert other.layers.named[PENULTIMATE] == "scores"


def test_a_tensor_that_bears_the_name_itself_is_that_tensor(tmp_path):
    nodes = [
        helper.make_node("Flatten", ["image"], ["penultimate"]),
        helper.make_node("MatMul", ["penultimate", "w"], ["late"]),
        helper.make_node("Neg", ["late"], ["scores"]),
    ]
    written(tmp_path, nodes, {"w": W})
    assert graph_layers(tmp_path).named == {EARLY: "late", MIDDLE: "late"}


def test_offers_name_the_depths_or_say_that_there_are_none(tmp_path):
    module = onnx_system(FASHION).modules["model"]
    assert [module.offers(Layer(name)) for name in DEPTHS] == [None] * 4
    said = module.offers(Layer("penultimat"))
    assert said.startswith("model.onnx has no layer 'penultimat' (did you mean 'penultimate'?)")
    assert said.endswith("penultimate, early, middle, late")
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Neg", ["flat"], ["scores"]),
    ]
    bare = written(tmp_path, nodes, {}).modules["model"]
    assert bare.offers(Layer(PENULTIMATE)) == "model.onnx has no layer 'penultimate'; it has: flat"


def test_a_missing_onnx_is_named(monkeypatch):
    module = onnx_system(FASHION).modules["model"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert module.offers(Layer(PENULTIMATE)).endswith("pip install onnx")
