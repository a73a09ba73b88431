"""How far estimators of circumstances are off: python benchmarks/robustness_estimators.py

Photographs are those of scikit-image, cut into squares of 160 pixels. "Same photographs": every
other square is for calibration, the rest is tried. "Other photographs": calibration on every other
photograph, tried on the rest, a photograph is a group. Fashion-MNIST images come from two bundled
sets. The error is that of the estimated frequency where 0, 10 or 30% of the images are transformed
by our own transforms (level 2), mean over draws of which images are; beside it how often the 95%
interval holds the true rate. Windows and quantiles of the scores were chosen on the same
photographs, so that their AUC is a little too high.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from roadworthy.analysis.risk.rates import CannotTell
from roadworthy.analysis.robustness.estimators import (
    ESTIMATORS,
    ESTIMATORS_OF,
    calibrate_score,
    estimated_frequency,
)
from roadworthy.cases.transform import at_level
from roadworthy.data import bundled
from roadworthy.statistics import auc

PHOTOGRAPHS = (
    *("astronaut", "brick", "camera", "cell", "chelsea", "coffee", "coins", "grass", "gravel"),
    *("hubble_deep_field", "ihc", "moon", "motorcycle_left", "page", "retina", "rocket", "text"),
)
SIDE, MOST, FASHION = 160, 9, 300
RATES, DRAWS = (0.0, 0.1, 0.3), 200
Images = list[np.ndarray]


class Split(NamedTuple):
    """Images for calibration and images to try, with their groups."""

    calibration: Images
    tried: Images
    calibration_groups: list[int] | None = None
    tried_groups: list[int] | None = None


def photographs() -> list[tuple[int, np.ndarray]]:
    """Squares, each with the number of its photograph."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("scikit-image is not installed; its photographs are needed")
    folder = Path(found.submodule_search_locations[0]) / "data"
    squares = []
    for number, name in enumerate(PHOTOGRAPHS):
        image = cv2.imread(str(next(folder.glob(f"{name}.*"))))[:, :, ::-1]
        height, width = image.shape[0] - SIDE + 1, image.shape[1] - SIDE + 1
        corners = np.mgrid[0:height:SIDE, 0:width:SIDE].reshape(2, -1).T[:MOST]
        for y, x in corners:
            squares.append((number, np.ascontiguousarray(image[y : y + SIDE, x : x + SIDE])))
    return squares


def splits() -> dict[str, Split]:
    """By name, what is calibrated on and what is tried."""
    squares = photographs()
    by_photograph = [[s for s in squares if s[0] % 2 == half] for half in (0, 1)]
    images = [[image for _, image in half] for half in by_photograph]
    groups = [[number for number, _ in half] for half in by_photograph]
    folder = Path(bundled.__file__).parent
    fashion = [
        list(np.load(folder / f"fashion-mnist-{name}.npz")["images"][:FASHION])
        for name in ("calibration", "test")
    ]
    return {
        "same photographs": Split([s[1] for s in squares[::2]], [s[1] for s in squares[1::2]]),
        "other photographs": Split(*images, *groups),
        "Fashion-MNIST": Split(*fashion),
    }


def scores(images: Images, transform: str, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the images as they are, and transformed at level 2."""
    score, make = ESTIMATORS[estimator], at_level(transform, 2)
    made = [make.value(image, np.random.default_rng(i)) for i, image in enumerate(images)]
    return np.array([*map(score, images)]), np.array([*map(score, made)])


def row(split: Split, transform: str, estimator: str) -> list[str]:
    """AUC, sensitivity and specificity on images not used for the threshold, and errors by rate."""
    before, after = scores(split.calibration, transform, estimator)
    calibration = calibrate_score(before, after, split.calibration_groups)
    clean, made = scores(split.tried, transform, estimator)
    marks = np.r_[np.zeros(len(clean)), np.ones(len(made))]
    shares = [np.mean(made > calibration.threshold), np.mean(clean <= calibration.threshold)]
    cells = [f"{x:.2f}" for x in (auc(np.r_[clean, made], marks), *shares)]
    for rate in RATES:
        errors, held = [], []
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            chosen = rng.permutation(len(clean)) < round(rate * len(clean))
            try:
                mixed = np.where(chosen, made, clean)
                found = estimated_frequency(mixed, calibration, split.tried_groups)
            except CannotTell:
                return [*cells, *["cannot tell"] * len(RATES)]
            errors.append(found.value - chosen.mean())
            held.append(found.interval.contains(chosen.mean()))
        cells.append(f"{np.mean(errors):+.3f} ({np.mean(held):.0%})")
    return cells


def main() -> None:
    """Print the table."""
    heads = [f"error at {rate:.0%} (interval holds)" for rate in RATES]
    print(
        "|",
        " | ".join(
            ["images", "transform", "estimator", "AUC", "sensitivity", "specificity", *heads]
        ),
        "|",
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, split in splits().items():
        for transform, estimators in ESTIMATORS_OF.items():
            for estimator in estimators:
                cells = [name, transform, estimator, *row(split, transform, estimator)]
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
