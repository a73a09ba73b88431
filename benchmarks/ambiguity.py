"""Two-class autoencoders of all pairs in one tensor program, against one after another: python benchmarks/ambiguity.py

Bundled Fashion-MNIST, one autoencoder a pair. Wanted on a GPU (`--device cuda`): 10 times as fast together; on two cores the
ratio is reported (about 1).
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np

from roadworthy.data.samples import load
from roadworthy.generative.raae import CONVOLUTIONAL, Form, PairAutoencoders

SIZES = (1, 5, 15, 45)


def seconds(
    images: np.ndarray, labels: np.ndarray, pairs: list[tuple[int, int]], **how: object
) -> float:
    """Of one training."""
    started = time.perf_counter()
    PairAutoencoders.fit(images, labels, pairs, **how)  # type: ignore[arg-type]
    return time.perf_counter() - started


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    data = load({"bundled": "fashion-mnist", "split": "reference"}, base=Path(), name="reference")
    images = np.asarray(data.inputs[:]).astype(np.float32) / 255
    labels = np.asarray(data.targets)
    every = list(itertools.combinations(range(10), 2))
    print("| autoencoders | together, s | one after another, s | ratio | ms an epoch each |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, form in (("dense", Form()), ("convolutional", CONVOLUTIONAL)):
        how = {"epochs": given.epochs, "device": given.device, "form": form}
        seconds(
            images, labels, every[:2], **{**how, "epochs": 1}
        )  # the first call loads the device
        alone = sum(seconds(images, labels, [pair], **how) for pair in every[::9]) / len(every[::9])
        for n in SIZES:
            together = seconds(images, labels, every[:n], **how)
            each = 1000 * together / n / given.epochs
            print(
                f"| {n} {name} | {together:.2f} | {alone * n:.2f} | {alone * n / together:.1f} | {each:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
