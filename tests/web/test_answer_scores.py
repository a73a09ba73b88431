"""What an answer of a server of models says of its rows: the outputs that are scores are read, and no others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from roadworthy.subject.adapters.inference_protocol import MalformedAnswer
from roadworthy.web.answer_scores import scores_in

SCORES = {"knn": [0.5, 3.0], "energy": [1.0, 2.0]}
WANTED = {name: name for name in SCORES}
TEXTS = b"".join(len(text).to_bytes(4, "little") + text for text in (b"cat", b"horse"))
UNREADABLE = {
    "BYTES": ({"datatype": "BYTES", "shape": [2], "data": ["cat", "horse"]}, b""),
    "BYTES as bytes": ({"datatype": "BYTES", "shape": [2]}, TEXTS),
    "BF16": ({"datatype": "BF16", "shape": [2]}, b"\x80\x3f\x00\x40"),
    "shared memory": (
        {"datatype": "FP32", "shape": [2], "parameters": {"shared_memory_region": "r"}},
        b"",
    ),
    "inhomogeneous": ({"datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3]]}, b""),
}


def answer(name: str, tensor: dict[str, Any], content: bytes) -> tuple[bytes, dict[str, str]]:
    """An output, and the scores behind it as bytes, but for the one whose place it takes."""
    more = {"parameters": {"binary_data_size": len(content)}} if content else {}
    outputs: list[dict[str, Any]] = [{"name": name, **tensor, **more}]
    for score, values in SCORES.items():
        if score != name:
            part = np.array(values, dtype="<f4").tobytes()
            size = {"binary_data_size": len(part)}
            outputs.append({"name": score, "datatype": "FP32", "shape": [2, 1], "parameters": size})
            content += part
    head = json.dumps({"id": "r1", "model_version": "7", "outputs": outputs}).encode()
    return head + content, {"inference-header-content-length": str(len(head))}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_output_that_is_no_score_may_be_whatever_it_is(kind):
    found = scores_in(*answer("label", *UNREADABLE[kind]), WANTED)
    assert {name: column.tolist() for name, column in found.columns.items()} == SCORES
    assert (found.id, found.lacking) == ("r1", ())


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_score_that_cannot_be_read_is_missing_and_said_to_be(kind):
    body, headers = answer("knn", *UNREADABLE[kind])
    found = scores_in(body, headers, WANTED)
    assert (
        found.columns["energy"].tolist() == SCORES["energy"]
        and np.isnan(found.columns["knn"]).all()
    )
    (said,) = found.lacking
    assert "output 'knn'" in said and kind.split(" as ")[0] in said
    with pytest.raises(MalformedAnswer, match=r"output 'knn'.*its outputs are: knn, energy"):
        scores_in(body, headers, {"knn": "knn"})


def test_an_answer_whose_bytes_do_not_add_up_is_not_read_in_part():
    body, headers = answer("label", *UNREADABLE["BYTES as bytes"])
    with pytest.raises(MalformedAnswer, match="output 'energy' has 8 bytes; 5 are left"):
        scores_in(body[:-3], headers, WANTED)
    with pytest.raises(MalformedAnswer, match="'abc'; a number of bytes was expected"):
        scores_in(body, {"inference-header-content-length": "abc"}, WANTED)
    negative = body.replace(b'"binary_data_size": 16', b'"binary_data_size": -6')
    assert len(negative) == len(body) and negative != body
    with pytest.raises(MalformedAnswer, match="output 'label' has -6 bytes"):
        scores_in(negative, headers, WANTED)


@pytest.mark.parametrize("name", ["logits", "knn"])
@pytest.mark.parametrize("cut", [8, -8])
def test_sizes_that_do_not_fit_the_shape_leave_no_score_in_its_place(name, cut):
    """Whatever stands behind such an output begins elsewhere than is said, and would be read as other numbers."""
    body, headers = answer(
        name, {"datatype": "FP64", "shape": [2]}, np.array([0.5, 3.0], dtype="<f8").tobytes()
    )
    length = int(headers["inference-header-content-length"])
    head = json.loads(body[:length])
    head["outputs"][0]["parameters"]["binary_data_size"] += cut
    said = json.dumps(head).encode()
    with pytest.raises(
        MalformedAnswer,
        match=f"output '{name}' has .* bytes; 16 were expected of its datatype and shape",
    ):
        scores_in(said + body[length:], {"inference-header-content-length": str(len(said))}, WANTED)


def test_bytes_of_no_output_and_lengths_beyond_reason_are_refused():
    body, headers = answer("label", *UNREADABLE["BF16"])
    with pytest.raises(MalformedAnswer, match="3 bytes that are of no output"):
        scores_in(body + b"abc", headers, WANTED)
    with pytest.raises(MalformedAnswer, match="a number of bytes was expected"):
        scores_in(body, {"inference-header-content-length": "9" * 5000}, WANTED)
    with pytest.raises(MalformedAnswer):
        scores_in(b"[" * 100_000, {}, WANTED)
