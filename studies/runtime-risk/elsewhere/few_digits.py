"""A small set, like a medical one: 250 clean rows to calibrate on, two kinds of shift, three weak detectors; six times over.

    .venv-peers/risk/bin/python studies/runtime-risk/elsewhere/few_digits.py

The subject is a perceptron that learned 300 of scikit-learn's digits of 8 x 8 pixels. Each time other rows train it, and
another pair of kinds shifts the rest; a kind's name has the number of the time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from perceptron import Perceptron
from scores import CLEAN, handed_out, write

SIDE, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS = 8, 300, 250, 400
TIMES = range(1, 7)
DETECTORS = ("knn", "grad_magnitude", "typicality")


def smeared(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Faint, doubled and noisy."""
    return 0.6 * images + 0.3 * np.roll(images, 1, axis=2) + rng.normal(0, 0.2, images.shape)


def vignetted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A row lower, and dark on the right."""
    images = np.roll(images, 1, axis=1)
    images[:, :, 5:] *= 0.3
    return images + rng.normal(0, 0.08, images.shape)


def banded(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two rows are nearly lost."""
    images = images.copy()
    images[:, 3:5] *= 0.2
    return images + rng.normal(0, 0.05, images.shape)


def bold(images: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Strokes a pixel broader."""
    return 0.9 * np.maximum(images, np.roll(images, 1, axis=2))


def mirrored(images: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Half of it is its reflection in the diagonal."""
    return 0.5 * images + 0.5 * images.transpose(0, 2, 1)


def hazy(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bright veil, of another strength for each."""
    return 1 - (1 - images) * rng.uniform(0.4, 0.9, (len(images), 1, 1))


Shift = Callable[[np.ndarray, np.random.Generator], np.ndarray]
KINDS: tuple[Shift, ...] = (smeared, vignetted, banded, bold, mirrored, hazy)


def pair(time: int) -> tuple[Shift, Shift]:
    """The two kinds of one time."""
    return KINDS[time - 1], KINDS[(time + 1) % len(KINDS)]


def main() -> None:
    """The command."""
    from sklearn.datasets import load_digits

    images, truth = load_digits(return_X_y=True)
    images = images.reshape(-1, SIDE, SIDE) / 16
    for time in TIMES:
        rng = np.random.default_rng(time)
        kinds = {f"{shift.__name__} {time}": shift for shift in pair(time)}
        sizes = {
            "train": TRAIN_ROWS,
            **dict.fromkeys(CLEAN, CLEAN_ROWS),
            **dict.fromkeys(kinds, KIND_ROWS),
        }
        rows = handed_out(np.arange(len(truth)), sizes, rng)
        train = rows.pop("train")
        flat = images.reshape(len(truth), -1)
        subject = Perceptron.fit(
            flat[train], truth[train], units=(48,), rounds=100, seed=time, standardised=False
        )
        folds = []
        for name, some in rows.items():
            given = kinds[name](images[some], rng).clip(0, 1) if name in kinds else images[some]
            folds.append(subject.fold(name, given.reshape(len(some), -1), truth[some], DETECTORS))
        write(f"few digits {time}", folds)


if __name__ == "__main__":
    main()
