"""The bundled sample: real rows of Fashion-MNIST, small, disjoint, and the example model reads them well."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from make_bundled import SPLITS, bands, drawn_split, make

from roadworthy.data.loaders.bundled import FOLDER, bundled

EXAMPLE = Path(__file__).parents[2] / "examples/fashion"


@pytest.mark.parametrize(
    ("split", "n"), [("test", 2000), ("calibration", 1000), ("reference", 2000)]
)
def test_splits_have_their_size_and_ids_that_name_the_original_row(split: str, n: int) -> None:
    data = bundled(path="fashion-mnist", split=split)  # type: ignore[arg-type]
    assert data.inputs.shape == (n, 28, 28) and data.inputs.dtype == np.uint8
    part = SPLITS[split][0]
    assert all(i.startswith(f"{part}/") and len(i) == len(part) + 6 for i in data.ids)
    # simple random draws of ten equal classes: a class count beyond five standard deviations would be a broken draw
    counts = np.bincount(data.targets, minlength=10)
    assert np.abs(counts - n / 10).max() < 5 * np.sqrt(n * 0.09)
    assert set(data.metadata["brightness"]) == {"dark", "mid", "bright"}
    assert data.groups is None and "MIT" in data.licence


def test_calibration_and_test_share_no_image() -> None:
    one, other = (bundled(path="fashion-mnist", split=s) for s in ("calibration", "test"))  # type: ignore[arg-type]
    assert not set(one.ids) & set(other.ids)


def test_brightness_is_the_tercile_of_mean_grey_on_the_reference_split() -> None:
    reference = bundled(path="fashion-mnist", split="reference")
    grey = reference.inputs.reshape(2000, -1).mean(axis=1)
    cuts = np.quantile(grey, [1 / 3, 2 / 3])
    expected = np.where(grey < cuts[0], "dark", np.where(grey < cuts[1], "mid", "bright"))
    assert (reference.metadata["brightness"] == expected).all()
    assert bands(np.array([1.0]), cuts=(1.0, 2.0)).tolist() == ["mid"]


def test_n_and_limit_take_the_first_rows() -> None:
    assert len(bundled(path="fashion-mnist", split="test", n=7)) == 7
    assert len(bundled(path="fashion-mnist", split="test", n=7, limit=3)) == 3


def test_the_files_are_small_and_carry_their_licence() -> None:
    assert sum(f.stat().st_size for f in FOLDER.iterdir() if f.is_file()) < 5_000_000
    assert "2017 Zalando SE" in (FOLDER / "LICENSE-fashion-mnist.txt").read_text()


def test_making_the_sample_is_deterministic_and_disjoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gzip
    import struct

    rng = np.random.default_rng(0)
    for part, n in (("train", 30), ("t10k", 40)):
        pixels, labels = (
            rng.integers(0, 256, (n, 2, 2), dtype=np.uint8),
            rng.integers(0, 10, n, dtype=np.uint8),
        )
        head = bytes([0, 0, 8, 3]) + struct.pack(">3I", n, 2, 2)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(head + pixels.tobytes())
        )
        head = bytes([0, 0, 8, 1]) + struct.pack(">I", n)
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(head + labels.tobytes())
        )
    one, two = tmp_path / "one", tmp_path / "two"
    for into in (one, two):
        into.mkdir()
        make(tmp_path, into)
    assert all((one / f.name).read_bytes() == f.read_bytes() for f in two.iterdir())
    first, rest = drawn_split(tmp_path, "t10k", 0, 25), drawn_split(tmp_path, "t10k", 25, 40)
    assert len({*first["ids"], *rest["ids"]}) == 40


def test_the_committed_weights_read_the_test_split_well() -> None:
    import torch

    spec = importlib.util.spec_from_file_location("fashion_model", EXAMPLE / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = bundled(path="fashion-mnist", split="test")
    with torch.no_grad():
        scores = module.load()(torch.from_numpy(data.inputs).unsqueeze(1).float() / 255)
    assert float((scores.argmax(1).numpy() == data.targets).mean()) >= 0.90
    assert (EXAMPLE / "weights.safetensors").stat().st_size <= 1_000_000
