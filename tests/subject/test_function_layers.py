"""Functions that show activations, for one item of a case or for many."""

import numpy as np
import pytest

from roadworthy.data.values import IMAGES, TEXT, VECTOR
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.needs import Layer, Output
from roadworthy.subject.system import Cases, System


def crop(image):
    """One crop a bright row of the image."""
    return [row[None, :] for row in image if row.max() > 0]


def read(crops):
    features = np.array([[c.sum(), c.max()] for c in crops]).reshape(-1, 2)
    return {"text": " ".join(str(int(c.sum())) for c in crops), "last": features}


def system():
    modules = {
        "det": function_module(crop, outputs={"crops": IMAGES}),
        "rec": function_module(read, outputs={"text": TEXT}, layers=["last"]),
    }
    return System(modules, {"det.image": "input", "rec.crops": "det.crops"}, "rec.text", VECTOR)


IMAGES_GIVEN = [
    np.array([[1, 2], [0, 0], [5, 1]], np.uint8),
    np.zeros((2, 2), np.uint8),
    np.array([[4, 4]], np.uint8),
]


@pytest.mark.parametrize("pool, first", [("mean", [4.5, 3.5]), ("max", [6.0, 5.0])])
def test_activations_of_many_items_become_one_row_a_case(pool, first):
    asked = {"rec": frozenset({Layer("last", pool)})}
    trace = system().run(Cases(["a", "b", "c"], IMAGES_GIVEN), asked)
    assert trace["system"].output == ["3 6", "", "8"]
    found = trace["rec"].columns[Layer("last", pool).column]
    np.testing.assert_array_equal(found, [first, [np.nan, np.nan], [8.0, 4.0]])


def test_only_its_own_layers_are_offered():
    rec = system().modules["rec"]
    assert rec.offers(Layer("last")) is None and rec.offers(Output()) is None
    assert rec.offers(Layer("penultimate")) == "its layers are: last"
    assert "shows no layers" in system().modules["det"].offers(Layer("last"))


def test_layers_of_a_batched_function_are_refused():
    with pytest.raises(SubjectError, match="one case at a time"):
        function_module(read, outputs={"text": TEXT}, layers=["last"], batched=True)


def test_many_items_without_a_pool_fail_with_a_sentence():
    asked = {"rec": frozenset({Layer("last", "none")})}
    with pytest.raises(SubjectError, match="one row an item"):
        system().run(Cases(["a"], IMAGES_GIVEN[:1]), asked)


def test_images_of_a_case_are_packed_and_come_back():
    items = [[np.ones((2, 3), np.uint8), np.zeros((1, 1), np.uint8)], [], None]
    back = IMAGES.unpack(IMAGES.pack(items))
    assert [None if b is None else [a.tolist() for a in b] for b in back] == [
        [[[1] * 3] * 2, [[0]]],
        [],
        None,
    ]
    assert IMAGES.problem([]) is None
    assert "image 1 has the shape" in IMAGES.problem([np.ones((2, 2), np.uint8), np.ones(3)])
