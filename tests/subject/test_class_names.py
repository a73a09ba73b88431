"""Where subjects say which class each output stands for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.adapters.loading import classes_in
from roadworthy.subject.module import SubjectError

NAMES = ("fox", "cat", "dog")


def adapted(adapter, path, folder, **more):
    return get("adapters", adapter).build(
        path=path, base=folder, task=TASKS["classification"], **more
    )


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        ("names", "{0: 'fox', 1: 'cat', 2: 'dog'}"),
        ("classes", '["fox", "cat", "dog"]'),
        ("id2label", '{"0": "fox", "2": "dog", "1": "cat"}'),
        ("labels", ["fox", "cat", "dog"]),
        ("class_names", {0: "fox", 1: "cat", 2: "dog"}),
    ],
)
def test_names_in_metadata(key, stored):
    found = classes_in({"author": "x", key: stored}, "here")
    assert found is not None and found.names == NAMES and found.source == f"here, key {key}"


@pytest.mark.parametrize("stored", ["fox, cat", "{1: 'fox', 3: 'cat'}", "[]", 3])
def test_what_is_no_list_of_names_is_none(stored):
    assert classes_in({"names": stored}, "here") is None


def written(folder, **attributes):
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
    ]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.ones(12))
    ends = [
        helper.make_tensor_value_info(n, 1, s)
        for n, s in (("x", [None, 1, 2, 2]), ("scores", [None, 3]))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, attributes)
    onnx.save(model, str(folder / "model.onnx"))


def test_an_onnx_file_names_its_classes(tmp_path):
    written(tmp_path, names=str(dict(enumerate(NAMES))))
    found = adapted("onnx", "model.onnx", tmp_path).classes
    assert found.names == NAMES and found.source == "metadata of model.onnx, key names"
    written(tmp_path)
    assert adapted("onnx", "model.onnx", tmp_path).classes is None


def test_the_header_of_predictions_names_the_classes(tmp_path):
    (tmp_path / "p.csv").write_text("id,p_fox,p_cat,p_dog\na,0.1,0.2,0.7\n")
    assert adapted("predictions", "p.csv", tmp_path).classes.names == NAMES
    (tmp_path / "p.csv").write_text("id,score_0,score_1,score_2\na,0.1,0.2,0.7\n")
    assert adapted("predictions", "p.csv", tmp_path).classes is None
    (tmp_path / "two").mkdir()
    for name, header in (("a", "fox,cat"), ("b", "cat,fox")):
        (tmp_path / "two" / f"{name}.csv").write_text(f"id,{header}\n{name},0.1,0.9\n")
    with pytest.raises(SubjectError, match="give all files one header"):
        adapted("predictions", "two", tmp_path)


def test_a_method_speaks_for_its_object(tmp_path):
    (tmp_path / "subject.py").write_text(
        "class Model:\n    classes_ = ['fox', 'cat', 'dog']\n    def predict(self, x):\n        return [1, 0, 0]\n"
        "predict = Model().predict\ndef other(x):\n    return [1, 0, 0]\n"
    )
    assert adapted("python", "subject.py:predict", tmp_path).classes.names == NAMES
    assert adapted("python", "subject.py:other", tmp_path).classes is None
