"""Makes the bundled sample of Fashion-MNIST from the four idx files: ``python -m roadworthy.data.bundled.make --source FOLDER``.

Rows are drawn once with a fixed seed: reference from the training files, calibration and test from the t10k files without
overlap. An id names the original row (``t10k/00017``). The one piece of metadata is measured, not invented: the band of the
image's mean grey, cut at the terciles of the reference split.

>>> bands(np.array([10.0, 50.0, 90.0]), cuts=(40.0, 80.0)).tolist()
['dark', 'mid', 'bright']
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.idx import read_idx

SEED = 20170825
"""The day the set was published; any constant would do."""
SPLITS = {
    "reference": ("train", 0, 2000),
    "test": ("t10k", 0, 2000),
    "calibration": ("t10k", 2000, 3000),
}
"""Split -> file it is drawn from, and which places of that file's shuffled order."""


def bands(grey: np.ndarray, *, cuts: tuple[float, float]) -> np.ndarray:
    """dark, mid or bright, by mean grey."""
    return np.array(["dark", "mid", "bright"])[np.digitize(grey, cuts)]


def drawn_split(source: Path, part: str, start: int, stop: int) -> dict[str, np.ndarray]:
    """Some places of a file's shuffled order: images, labels and ids."""
    images = read_idx(source / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(source / f"{part}-labels-idx1-ubyte.gz")
    order = np.random.Generator(np.random.Philox(SEED)).permutation(len(images))[start:stop]
    ids = np.array([f"{part}/{row:05d}" for row in order])
    return {"images": images[order], "labels": labels[order], "ids": ids}


def make(source: Path, into: Path) -> list[Path]:
    """Write one compressed file a split."""
    splits = {split: drawn_split(source, *where) for split, where in SPLITS.items()}
    grey = {split: arrays["images"].mean(axis=(1, 2)) for split, arrays in splits.items()}
    low, high = (float(q) for q in np.quantile(grey["reference"], [1 / 3, 2 / 3]))
    written = []
    for split, arrays in splits.items():
        written.append(into / f"fashion-mnist-{split}.npz")
        arrays["brightness"] = bands(grey[split], cuts=(low, high))
        np.savez_compressed(written[-1], **arrays)  # type: ignore[arg-type]
    return written


def write_bundled(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the bundled sample of Fashion-MNIST")
    parser.add_argument("--source", type=Path, required=True, help="folder with the four idx files")
    parser.add_argument(
        "--into", type=Path, default=Path(__file__).parent, help="where to write (this package)"
    )
    chosen = parser.parse_args(arguments)
    for file in make(chosen.source, chosen.into):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    write_bundled()
