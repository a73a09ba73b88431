"""Makes our own table of scores: the classifier of examples/fashion under twelve kinds of shift, on images it has never seen.

    python studies/runtime-risk/fashion_scores.py        # a minute or two; writes cache/fashion-scores.npz, which is not committed

The 10,000 published test images are handed out once: 2,000 clean ones to calibrate, 2,000 to stream, 500 to each kind of shift.
Constants of `misfit.py` and `unlike.py` were set with them in view, no others. Levels were set once, to be seen and yet be
readable, and never changed.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
from protocol import CLEAN_CALIBRATION, CLEAN_STREAM, OWN, ROOT

from roadworthy.cases.transform import at_level
from roadworthy.data.seeds import generator

SEED, CLEAN_ROWS, KIND_ROWS = 7, 2000, 500
BUILT_IN = {
    "sensor_noise": ("gaussian_noise", (1, 2)),
    "camera_shake": ("motion_blur", (1,)),
    "snowfall": ("snow", (1, 2)),
    "dim_light": ("contrast", (1, 2)),
    "low_resolution": ("pixelate", (2, 3)),
}


def rotated(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turned by 10 to 35 degrees, either way."""
    import cv2

    angle = rng.uniform(10, 35) * rng.choice([-1, 1])
    return np.asarray(
        cv2.warpAffine(image, cv2.getRotationMatrix2D((13.5, 13.5), angle, 1.0), (28, 28))
    )


def moved(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three to seven pixels aside, and up or down."""
    by = rng.integers(3, 8, 2) * rng.choice([-1, 1], 2)
    framed = np.pad(image, 7)
    return framed[7 + by[0] : 35 + by[0], 7 + by[1] : 35 + by[1]]


def hidden(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A grey patch of 10 x 10 in front of it."""
    y, x = rng.integers(4, 15, 2)
    image = image.copy()
    image[y : y + 10, x : x + 10] = 128
    return image


def overexposed(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gamma from 0.25 to 0.5."""
    return np.round(255 * (image / 255) ** rng.uniform(0.25, 0.5)).astype(np.uint8)


def impulses(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Five to fifteen percent of the pixels are black or white."""
    struck = rng.random(image.shape) < rng.uniform(0.05, 0.15)
    return np.where(struck, rng.choice(np.array([0, 255], np.uint8), image.shape), image)


def defocused(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A Gaussian blur of 1 to 2 pixels."""
    import cv2

    return np.asarray(cv2.GaussianBlur(image, (0, 0), rng.uniform(1.0, 2.0)))


def dead_rows(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three rows of the sensor are black."""
    image = image.copy()
    image[rng.choice(np.arange(4, 24), 3, replace=False)] = 0
    return image


Shift = Callable[[np.ndarray, np.random.Generator], np.ndarray]
OWN_KINDS: dict[str, Shift] = {
    f.__name__: f for f in (rotated, moved, hidden, overexposed, impulses, defocused, dead_rows)
}


def example() -> ModuleType:
    """examples/scores/make.py, which has the classifier with its supervisors."""
    spec = importlib.util.spec_from_file_location(
        "make_scores", ROOT / "examples" / "scores" / "make.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shifted(images: np.ndarray, ids: np.ndarray, kind: str) -> np.ndarray:
    """Images under one kind of shift, each at a level drawn for it."""
    made = images.copy()
    for row, case in enumerate(ids.tolist()):
        rng = generator(SEED, case, kind)
        if kind in OWN_KINDS:
            made[row] = OWN_KINDS[kind](images[row], rng)
        else:
            name, levels = BUILT_IN[kind]
            made[row] = at_level(name, int(rng.choice(levels)), table="wang").at_step(
                images[row], SEED, case
            )
    return made


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--source",
        type=Path,
        default=Path("/usr/share/datasets/fashion-mnist"),
        help="the idx files",
    )
    scores = example()
    pool, scorer = scores.Pool(parser.parse_args().source), scores.Scorer()
    folds, parts, corrects = [], [], []
    for fold in (CLEAN_CALIBRATION, CLEAN_STREAM, *BUILT_IN, *OWN_KINDS):
        clean = fold in (CLEAN_CALIBRATION, CLEAN_STREAM)
        images, labels, ids = pool.take(CLEAN_ROWS if clean else KIND_ROWS)
        columns, correct = scorer(images if clean else shifted(images, ids, fold), labels)
        folds.append(np.full(len(ids), fold))
        parts.append(columns)
        corrects.append(correct)
        print(f"{fold:16} {len(ids):5} rows, accuracy {correct.mean():.3f}", flush=True)
    OWN.parent.mkdir(exist_ok=True)
    table = {
        f"score.{name}": np.concatenate([p[name] for p in parts]).astype(float) for name in parts[0]
    }
    np.savez_compressed(OWN, fold=np.concatenate(folds), correct=np.concatenate(corrects), **table)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
