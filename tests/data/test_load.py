"""What an assessment file says about data: one key names the loader, the rest are its parameters."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import roadworthy.data
from roadworthy import registry
from roadworthy.data import DataError, load

NAMES = {
    "idx",
    "npz",
    "image_folder",
    "csv",
    "coco",
    "yolo",
    "voc",
    "audio",
    "dialogue",
    "frames",
    "bundled",
}
SHARED = {"path", "base", "metadata", "group", "classes", "limit", "name"}


def test_every_loader_is_found_and_takes_the_shared_keywords() -> None:
    loaders = registry.components("loaders")
    assert set(loaders) >= NAMES
    for name in NAMES:
        assert set(loaders[name].parameters) >= SHARED
        assert all(
            p.kind is inspect.Parameter.KEYWORD_ONLY
            for p in inspect.signature(loaders[name].build).parameters.values()
        )
        assert loaders[name].traits["keys"][0] == name
        assert set(loaders[name].traits["gives"]) == {"inputs", "targets"}
        assert loaders[name].summary


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "no key names a loader, found: nothing"),
        ({"npzz": "a"}, "found: npzz (did you mean 'npz'?)"),
        ({"npz": "a", "coco": "b"}, "the keys npz and coco both name a loader"),
        (
            {"npz": "a.npz", "lables": "y"},
            "npz takes no parameter 'lables' (did you mean 'labels'?)",
        ),
        ({"npz": "a.npz", "path": "y"}, "write the path as npz: PATH"),
        ({"npz": "a.npz", "limit": "many"}, "limit is 'many'; input should be a valid integer"),
        (
            {"bundled": "fashion-mnist", "split": "train"},
            "split is 'train'; input should be 'calibration', 'test' or 'reference'",
        ),
        ({"bundled": "fashion-mnist"}, "needs the parameter 'split'"),
        (
            {"bundled": "mnist", "split": "test"},
            "no data set 'mnist' is bundled; there is: fashion-mnist",
        ),
        ({"npz": "."}, "is a folder, a file was expected"),
    ],
)
def test_a_wrong_entry_is_answered_with_a_sentence(tmp_path: Path, spec: dict, said: str) -> None:
    with pytest.raises(DataError) as caught:
        load(spec, base=tmp_path, name="calibration")
    assert said in str(caught.value) and str(caught.value).startswith("data 'calibration': ")


def test_exported_names_exist() -> None:
    assert all(hasattr(roadworthy.data, name) for name in roadworthy.data.__all__)
    assert callable(roadworthy.data.load)
