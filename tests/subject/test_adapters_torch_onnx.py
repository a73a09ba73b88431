"""Torch and ONNX models end to end, against the model called directly."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file

from roadworthy.data.values import TASKS
from roadworthy.registry import get, not_installed
from roadworthy.subject.module import Context, SubjectError
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes
from roadworthy.subject.system import Cases

CLASSIFY = TASKS["classification"]
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.relu = nn.ReLU()
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, x):
        return self.head(self.relu(self.conv(x)).flatten(1))

def build():
    torch.manual_seed(0)
    return Net()

class Dropping(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(torch.ones(len(x), 50), 0.5, self.training)

class Fragile(nn.Module):
    def forward(self, x):
        if (x > 0.99).any(): raise RuntimeError("saturated")
        scores = x.flatten(1)[:, :2].clone()
        scores[scores[:, 0] < 0.001] = float("nan")
        return scores

class Detector(nn.Module):
    def forward(self, images):
        return [{"boxes": torch.tensor([[0.0, 0.0, i.mean().item(), 1.0]]), "labels": torch.tensor([2]),
                 "scores": torch.tensor([0.5])} for i in images]

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Identity()
        self.line = nn.Conv1d(8, 5, 1)
    def forward(self, x):
        rows = self.tokens(x[:, 0])
        return self.line(rows).mean(2)

class Steering(nn.Module):
    def forward(self, x): return x.mean((1, 2, 3))

class Maps(nn.Module):
    def forward(self, x): return x

class Words(nn.Module):
    def forward(self, x): return "left"

def nothing(): return 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("torch")
    (place / "model.py").write_text(MODEL)
    return place


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(1).integers(0, 250, (64, 8, 8), dtype=np.uint8)


@pytest.fixture(scope="module")
def net(folder):
    namespace = torch_system(folder, "build").modules["model"]
    return namespace.model


@pytest.fixture(scope="module")
def exported(folder, net):
    def export(name: str, batch: int, dynamic: bool) -> str:
        axes = {"image": {0: "n"}, "scores": {0: "n"}} if dynamic else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                net,
                (torch.zeros(batch, 1, 8, 8),),
                str(folder / name),
                dynamo=False,
                input_names=["image"],
                output_names=["scores"],
                dynamic_axes=axes,
            )
        return name

    return export


def torch_system(folder, function, task=CLASSIFY, **more):
    return get("adapters", "torch").bind(
        path=f"model.py:{function}", base=folder, task=task, **more
    )()


def onnx_system(folder, name, task=CLASSIFY, **more):
    return get("adapters", "onnx").bind(path=name, base=folder, task=task, **more)()


def ids(n: int) -> list[str]:
    return [f"case-{i}" for i in range(n)]


def direct(net, images: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return net(torch.from_numpy(images[:, None].astype(np.float32) / np.float32(255))).numpy()


def test_scores_are_those_of_the_model(folder, net, images):
    trace = torch_system(folder, "build", batch=10).run(Cases(ids(64), images))["system"]
    assert trace.output.dtype == np.float32 and trace.ok.all()
    np.testing.assert_allclose(trace.output, direct(net, images), atol=1e-6)


def test_the_same_cuts_give_the_same_bits_in_one_call_or_two(folder, images):
    system = torch_system(folder, "build", batch=16)
    whole = system.run(Cases(ids(64), images))["system"].output
    halves = [
        system.run(Cases(ids(64)[part], images[part]))["system"].output
        for part in (slice(0, 32), slice(32, 64))
    ]
    np.testing.assert_array_equal(whole, np.concatenate(halves))
    np.testing.assert_array_equal(
        whole, torch_system(folder, "build", batch=16).run(Cases(ids(64), images))["system"].output
    )


@pytest.mark.parametrize("pool", ["none", "mean", "max"])
def test_layers_are_those_of_the_model_after_pooling(folder, net, images, pool):
    requests = frozenset({Layer("relu", pool), Layer("head"), Input(), Output()})
    system = torch_system(folder, "build", batch=24)
    columns = system.run(Cases(ids(64), images), {"model": requests})["model"].columns
    with torch.inference_mode():
        prepared = torch.from_numpy(images[:, None].astype(np.float32) / np.float32(255))
        relu = torch.relu(net.conv(prepared))
    reduce = {
        "none": lambda t: t.flatten(1),
        "mean": lambda t: t.mean((2, 3)),
        "max": lambda t: t.amax((2, 3)),
    }
    got = columns[Layer("relu", pool).column]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reduce[pool](relu).numpy(), atol=1e-6)
    np.testing.assert_allclose(columns["layer.head"], direct(net, images), atol=1e-6)
    np.testing.assert_array_equal(columns["input"], prepared.numpy())


def test_tokens_are_pooled_over_tokens_and_channels_over_time(folder, images):
    system = torch_system(folder, "Tokens")
    columns = system.run(
        Cases(ids(64), images), {"model": frozenset({Layer("tokens"), Layer("line")})}
    )["model"].columns
    np.testing.assert_allclose(columns["layer.tokens"], (images / 255).mean(axis=1), atol=1e-6)
    assert columns["layer.line"].shape == (64, 5)


def test_offers_say_what_there_is_and_what_there_is_not(folder):
    module = torch_system(folder, "build").modules["model"]
    assert [module.offers(r) for r in (Output(), Input(), Layer("conv"))] == [None, None, None]
    assert (
        module.offers(Layer("haed"))
        == "the model has no layer 'haed' (did you mean 'head'?); it has: penultimate, early, middle, late, conv, relu, head"
    )
    assert (
        module.offers(Passes("dropout", 10, 0.1)) is None
        and module.offers(Gradient("ones_input")) is None
    )


def test_the_model_is_in_evaluation_mode(folder, images):
    assert (
        torch_system(folder, "Dropping").run(Cases(ids(64), images))["system"].output == 1
    ).all()


def test_only_the_rows_that_raise_or_are_nan_fail(folder, images):
    changed = np.clip(images[:4], 5, 200)
    changed[1, 0, 0], changed[2, 0, 0] = 255, 0
    trace = torch_system(folder, "Fragile").run(Cases(ids(4), changed))["system"]
    assert "saturated" in trace.error[1] and "NaN" in trace.error[2]
    assert trace.ok.tolist() == [True, False, False, True]
    np.testing.assert_allclose(trace.output[3], changed[3].ravel()[:2] / 255, rtol=1e-6)


def test_images_of_several_sizes_are_asked_one_by_one(folder, images):
    mixed = [images[0], images[1][:6], images[2]]
    trace = torch_system(folder, "build").run(Cases(ids(3), mixed))["system"]
    assert trace.ok.tolist() == [True, False, True]
    assert "mat1 and mat2" in trace.error[1]


def test_detection_and_regression_are_read_by_their_kind(folder, images):
    boxes = (
        torch_system(folder, "Detector", TASKS["detection"], batch=7)
        .run(Cases(ids(64), images))["system"]
        .output
    )
    assert len(boxes) == 64 and boxes[9].labels.tolist() == [2]
    assert boxes[9].xyxy[0, 2] == pytest.approx(images[9].mean() / 255, rel=1e-6)
    angles = (
        torch_system(folder, "Steering", TASKS["regression"])
        .run(Cases(ids(64), images))["system"]
        .output
    )
    np.testing.assert_allclose(angles[:, 0], images.mean((1, 2)) / 255, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "task", "says"),
    [
        ("Maps", "classification", r"shape \(64, 1, 8, 8\); class_scores of shape \(64, k\)"),
        ("Words", "classification", r"returned str; a tensor"),
        ("Steering", "classification", r"shape \(64,\)"),
        ("build", "detection", "a list with a dict of boxes"),
    ],
)
def test_answers_of_another_kind_stop_the_run_with_a_sentence(folder, images, function, task, says):
    with pytest.raises(SubjectError, match=says):
        torch_system(folder, function, TASKS[task]).run(Cases(ids(64), images))


def test_weights_change_the_answers_and_the_fingerprint(folder, net, images):
    state = {k: v.clone() + 0.01 for k, v in net.state_dict().items()}
    save_file(state, folder / "new.safetensors")
    torch.save({"state_dict": state, "epoch": 3}, folder / "new.pt")
    plain = torch_system(folder, "build")
    systems = [torch_system(folder, "build", weights=f"new.{end}") for end in ("safetensors", "pt")]
    assert systems[0].fingerprint == systems[1].fingerprint != plain.fingerprint
    assert plain.fingerprint == torch_system(folder, "build").fingerprint
    for how in ({"batch": 3}, {"threads": 2}, {"device": "cpu:0"}, {"version": "2"}):
        assert plain.fingerprint != torch_system(folder, "build", **how).fingerprint, how
    assert plain.fingerprint != torch_system(folder, "build", input={"mean": 0.5}).fingerprint
    first, second = (s.run(Cases(ids(64), images))["system"].output for s in systems)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - direct(net, images)).max() > 1e-3
    assert [f.name for f in systems[0].modules["model"].files] == ["model.py", "new.safetensors"]


def test_weights_that_do_not_fit_or_could_run_code_are_refused(folder, net):
    state = dict(net.state_dict())
    cases = {
        "lacks.safetensors": {k: v for k, v in state.items() if k != "conv.bias"},
        "more.safetensors": {**state, "tail.bias": torch.zeros(1)},
        "shape.safetensors": {**state, "head.bias": torch.zeros(7)},
    }
    says = {
        "lacks": r"do not fit .*Missing key\(s\) in state_dict: \"conv.bias\"",
        "more": r"Unexpected key\(s\) in state_dict: \"tail.bias\"",
        "shape": "size mismatch for head.bias",
    }
    for name, weights in cases.items():
        save_file(weights, folder / name)
        with pytest.raises(SubjectError, match=says[name.split(".")[0]]):
            torch_system(folder, "build", weights=name)
    torch.save(torch.nn.Linear(2, 2), folder / "whole.pt")
    with pytest.raises(SubjectError, match="a pickle that can run code is not loaded"):
        torch_system(folder, "build", weights="whole.pt")
    (folder / "model.pkl").write_bytes(b"")
    (folder / "broken.safetensors").write_bytes(b"half a fi")
    for name, said in (
        ("model.pkl", "save_file"),
        ("broken.safetensors", "cannot be read"),
        ("no.pt", "no weights file"),
    ):
        with pytest.raises(SubjectError, match=said):
            torch_system(folder, "build", weights=name)


def test_settings_that_cannot_be_used_are_refused(folder):
    with pytest.raises(SubjectError, match=r"device 'nonsense' cannot be used .*write device: cpu"):
        torch_system(folder, "build", device="nonsense")
    with pytest.raises(SubjectError, match="batch is 0"):
        torch_system(folder, "build", batch=0)
    with pytest.raises(SubjectError, match=r"returned int; a torch\.nn\.Module"):
        torch_system(folder, "nothing")
    with pytest.raises(SubjectError, match="from audio to text"):
        torch_system(folder, "build", TASKS["speech"])


def test_a_missing_torch_is_named_with_its_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SubjectError) as refused:
        torch_system(folder, "build")
    assert str(refused.value) == not_installed("the adapter torch needs torch", "torch")


@pytest.mark.parametrize("checkout", [True, False])
def test_missing_safetensors_and_onnxruntime_are_named_with_their_extras(
    folder, exported, tmp_path, monkeypatch, checkout
):
    name = exported("net.onnx", 1, True)
    (folder / "kept.safetensors").touch()
    for module in ("safetensors", "safetensors.torch", "onnxruntime"):
        monkeypatch.setitem(sys.modules, module, None)
    if not checkout:
        monkeypatch.setattr("roadworthy.registry._CHECKOUT", tmp_path)
    how = (
        'pip install -c constraints.txt -e ".[{}]"' if checkout else 'pip install "roadworthy[{}]"'
    )
    with pytest.raises(SubjectError) as weights:
        torch_system(folder, "build", weights="kept.safetensors")
    assert str(
        weights.value
    ) == "kept.safetensors needs safetensors, which is not installed: " + how.format("torch")
    with pytest.raises(SubjectError) as model:
        onnx_system(folder, name)
    assert str(
        model.value
    ) == "the adapter onnx needs onnxruntime, which is not installed: " + how.format("onnx")


def test_onnx_answers_as_torch_does(folder, net, images, exported):
    system = onnx_system(folder, exported("net.onnx", 1, True), batch=10)
    trace = system.run(Cases(ids(64), images))["system"]
    np.testing.assert_allclose(trace.output, direct(net, images), atol=1e-5)
    assert system.modules["model"].files[0].name == "net.onnx"


@pytest.mark.parametrize("size", [1, 5])
def test_onnx_models_of_a_fixed_batch_get_it(folder, net, images, exported, size):
    system = onnx_system(folder, exported(f"fixed{size}.onnx", size, False))
    requests = frozenset({Layer("/relu/Relu_output_0")})
    trace = system.run(Cases(ids(64), images), {"model": requests})
    np.testing.assert_allclose(trace["system"].output, direct(net, images), atol=1e-5)
    assert trace["model"].columns["layer./relu/Relu_output_0"].shape == (64, 4)


def test_onnx_layers_are_the_inner_tensors(folder, net, images, exported):
    system = onnx_system(folder, exported("net.onnx", 1, True), batch=24)
    module = system.modules["model"]
    request = Layer("/relu/Relu_output_0")
    assert module.offers(request) is None and module.offers(Output()) is None
    assert "did you mean '/relu/Relu_output_0'?" in module.offers(Layer("/relu/Relu_output_1"))
    assert "the adapter torch can" in module.offers(Passes("dropout", 10))
    assert "the adapter torch can" in module.offers(Gradient("ones_input"))
    columns = system.run(Cases(ids(64), images), {"model": frozenset({request, Input()})})[
        "model"
    ].columns
    with torch.inference_mode():
        want = (
            torch.relu(net.conv(torch.from_numpy(images[:, None] / np.float32(255))))
            .mean((2, 3))
            .numpy()
        )
    np.testing.assert_allclose(columns[request.column], want, atol=1e-5)
    assert columns["input"].shape == (64, 1, 8, 8)


def test_onnx_layers_need_onnx(folder, exported, monkeypatch):
    module = onnx_system(folder, exported("net.onnx", 1, True)).modules["model"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert module.offers(Layer("/relu/Relu_output_0")).endswith("pip install onnx")
    assert module.offers(Output()) is None


def test_onnx_fingerprints_follow_file_and_preparation(folder, net, exported):
    name = exported("net.onnx", 1, True)
    first = onnx_system(folder, name).fingerprint
    assert onnx_system(folder, name).fingerprint == first
    assert onnx_system(folder, name, batch=3).fingerprint != first
    assert onnx_system(folder, name, threads=2).fingerprint != first
    assert onnx_system(folder, name, input={"std": 0.5}).fingerprint != first
    model = onnx.load(str(folder / name))
    weight = model.graph.initializer[0]
    weight.CopyFrom(
        onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + 1, weight.name)
    )
    onnx.save(model, str(folder / "moved.onnx"))
    assert onnx_system(folder, "moved.onnx").fingerprint != first


def test_onnx_refuses_what_does_not_fit(folder, images, exported):
    name = exported("net.onnx", 1, True)
    with pytest.raises(SubjectError, match=r"no output 'score' \(did you mean 'scores'\?\)"):
        onnx_system(folder, name, output="score")
    with pytest.raises(
        SubjectError, match=r"takes tensor\(float\), .* write input: \{dtype: float32\}"
    ):
        onnx_system(folder, name, input={"dtype": "uint8"})
    with pytest.raises(SubjectError, match="no output 'boxes'"):
        onnx_system(folder, name, TASKS["detection"])
    (folder / "broken.onnx").write_bytes(b"not a graph")
    with pytest.raises(SubjectError, match=r"cannot load broken\.onnx"):
        onnx_system(folder, "broken.onnx")
    trace = onnx_system(folder, name).run(Cases(ids(2), [images[0], images[1][:4]]))["system"]
    assert trace.error[0] is None and "invalid dimensions" in trace.error[1]


def test_onnx_models_of_features_answer_with_their_scores_not_their_labels(folder):
    weights = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    floats, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [
        node("MatMul", ["x", "w"], ["scores"]),
        node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    for name, outputs in (("both", ("label", "scores")), ("labels", ("label",))):
        kinds = {"label": (whole, ["n"]), "scores": (floats, ["n", 3])}
        graph = onnx.helper.make_graph(
            nodes,
            name,
            [value("x", floats, ["n", 4])],
            [value(o, *kinds[o]) for o in outputs],
            [onnx.numpy_helper.from_array(weights, "w")],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
        )
        onnx.save(model, folder / f"{name}.onnx")
    rows = np.random.default_rng(1).normal(size=(6, 4))
    trace = onnx_system(folder, "both.onnx").run(Cases(ids(6), rows))["system"]
    np.testing.assert_allclose(trace.output, rows @ weights, atol=1e-5)
    with pytest.raises(SubjectError, match=r"label of tensor\(int64\); export it"):
        onnx_system(folder, "labels.onnx")


def test_onnx_detectors_are_read_by_their_outputs(folder, images):
    helper = onnx.helper
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["level"], keepdims=0),
        helper.make_node("Mul", ["corner", "level"], ["boxes"]),
        helper.make_node("Identity", ["one"], ["labels"]),
        helper.make_node("Identity", ["half"], ["scores"]),
    ]
    constants = {
        "corner": np.array([[0, 0, 10, 20]], np.float32),
        "one": np.array([1]),
        "half": np.array([0.5], np.float32),
    }
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "detector",
        [info("image", 1, [1, 1, 8, 8])],
        [info("boxes", 1, [1, 4]), info("labels", 7, [1]), info("scores", 1, [1])],
        [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "detector.onnx"))
    boxes = (
        onnx_system(folder, "detector.onnx", TASKS["detection"])
        .run(Cases(ids(5), images[:5]))["system"]
        .output
    )
    assert boxes[3].xyxy[0, 3] == pytest.approx(20 * images[3].mean() / 255, rel=1e-5)
    assert boxes[3].labels.tolist() == [1] and boxes[3].scores.tolist() == [0.5]


def test_one_step_is_a_batch_of_one(folder, images, exported):
    for system in (
        torch_system(folder, "build"),
        onnx_system(folder, exported("net.onnx", 1, True)),
    ):
        module = system.modules["model"]
        step, _ = module.step({"image": images[0]}, None, None)
        batch = module.batch({"image": images[:1]}, Context(ids=("a",)))
        np.testing.assert_array_equal(step["output"], batch.outputs["output"][0])


REBUILD = """
import sys
from pathlib import Path
import numpy as np
from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.system import Cases
name, path, folder = sys.argv[1:]
system = get("adapters", name).bind(path=path, base=Path(folder), task=TASKS["classification"], batch=16)()
images = np.load(Path(folder) / "images.npy")
output = system.run(Cases([f"case-{i}" for i in range(len(images))], images))["system"].output
print(system.fingerprint, output.tobytes().hex())
"""


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_another_process_builds_the_same_system_and_gets_the_same_bits(
    folder, images, exported, name
):
    np.save(folder / "images.npy", images)
    path = {"torch": "model.py:build", "onnx": exported("net.onnx", 1, True)}[name]
    told = subprocess.run(
        [sys.executable, "-c", REBUILD, name, path, str(folder)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    here = get("adapters", name).bind(path=path, base=folder, task=CLASSIFY, batch=16)()
    output = here.run(Cases(ids(64), images))["system"].output
    assert told == [here.fingerprint, output.tobytes().hex()]


def test_the_penultimate_activation_is_what_goes_into_the_last_layer(tmp_path) -> None:
    (tmp_path / "two.py").write_text(
        "import torch\n\ndef build():\n    torch.manual_seed(0)\n    return torch.nn.Sequential(\n"
        "        torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(5, 3)\n    )\n"
    )
    system = get("adapters", "torch").build(
        path="two.py:build", base=tmp_path, task=TASKS["classification"]
    )
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8)).astype(np.uint8)
    request = Layer("penultimate", "none")
    assert system.modules["model"].offers(request) is None
    trace = system.run(Cases([str(i) for i in range(6)], images), {"model": frozenset({request})})
    flat, first, relu, _, _ = system.modules["model"].model
    with torch.inference_mode():
        expected = relu(first(flat(torch.from_numpy(images / 255.0).float()[:, None])))
    np.testing.assert_allclose(trace["model"].columns[request.column], expected.numpy(), rtol=1e-6)
