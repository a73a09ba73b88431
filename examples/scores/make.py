"""Makes the tables of this folder from the Fashion-MNIST classifier: ``python examples/scores/make.py``.

The 10,000 published test images, which the classifier has never seen, are shuffled once and handed out: an image stands in one
row of one table and nowhere else. Supervisors are fitted on the bundled reference images, which are training images. The rest
of the images served to choose the kinds of shift of the streams (`screen.py`); the README of this folder says how.

Needs the extras torch and vision, and the whole data set: ``roadworthy data get fashion-mnist``, or Debian's package.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roadworthy.cases.transform import at_level
from roadworthy.data.loaders.bundled import bundled
from roadworthy.data.loaders.idx import read_idx
from roadworthy.data.seeds import generator
from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.adapters.torch_model import torch_model
from roadworthy.subject.needs import Input
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import ModuleTrace

HERE = Path(__file__).parent
SEED = 20260302
SUPERVISORS: dict[str, dict[str, int]] = {
    "max_softmax": {},
    "energy": {},
    "knn": {},
    "mahalanobis": {},
    "mc_dropout_mi": {"n": 20},
    "autoencoder": {},
    "typicality": {},
}
CALIBRATED = {
    "sensor_noise": ("gaussian_noise", (1, 2, 3)),
    "camera_shake": ("motion_blur", (1, 2)),
    "snowfall": ("snow", (1, 2, 3)),
    "dim_light": ("contrast", (1, 2)),
}
"""Kind of shift -> the transform that makes it, and the levels (Wang et al. 2022, table 1) that its rows are drawn from."""
CLEAN_ROWS, KIND_ROWS, TODAY_ROWS, STRANGE_ROWS = 2000, 600, 3000, 1000
TODAY_KIND, TODAY_BEGINS, TODAY_RATE = "dead_columns", 1500, 0.7
"""The shift of today's stream, the event with which it begins, and the share of events that it then strikes."""
STRANGE_KIND, STRANGE_BEGINS = "negative", 400

Shift = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def dead_columns(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Four columns of the sensor are stuck at white."""
    broken = image.copy()
    broken[:, rng.choice(image.shape[1], 4, replace=False)] = 255
    return broken


def negative(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Black is white: a camera with another polarity."""
    return 255 - image


def haze(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A grey veil."""
    return (0.75 * image + 60).astype(np.uint8)


def low_resolution(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Few, large pixels."""
    return np.asarray(at_level("pixelate", 3, table="wang").value(image, rng))


def upside_down(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The camera hangs from the ceiling."""
    return image[::-1]


def off_centre(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The garment lies five pixels to one side."""
    return np.roll(image, int(rng.choice([-5, 5])), axis=1)


def occlusion(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A white label of 10 x 10 pixels sticks on the lens."""
    covered = image.copy()
    top, left = rng.integers(2, 16, 2)
    covered[top : top + 10, left : left + 10] = 255
    return covered


def dropped_pixels(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One pixel in ten is black or white."""
    drawn = rng.random(image.shape)
    return np.where(drawn < 0.05, 0, np.where(drawn > 0.95, 255, image)).astype(np.uint8)


UNSEEN: dict[str, Shift] = {
    f.__name__: f
    for f in (
        dead_columns,
        dropped_pixels,
        haze,
        low_resolution,
        negative,
        occlusion,
        off_centre,
        upside_down,
    )
}
"""Kinds that are not in the calibration; see `screen.py`."""


def shifted(images: np.ndarray, ids: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Every image under its kind of shift, at a level drawn for it."""
    made = images.copy()
    for row, (case, kind) in enumerate(zip(ids.tolist(), kinds.tolist(), strict=True)):
        if kind in CALIBRATED:
            name, levels = CALIBRATED[kind]
            level = int(generator(SEED, case, kind).choice(levels))
            made[row] = at_level(name, level, table="wang").at_step(images[row], SEED, case)
        elif kind != "clean":
            made[row] = UNSEEN[kind](images[row], generator(SEED, case, kind))
    return made


class Scorer:
    """The classifier with its supervisors."""

    def __init__(self) -> None:
        self._system = torch_model(
            path="model.py:build",
            base=HERE.parent / "fashion",
            task=TASKS["classification"],
            weights="weights.safetensors",
        )
        self._supervisors = {
            name: get("supervisors", name).bind(**given) for name, given in SUPERVISORS.items()
        }
        reference = bundled(path="fashion-mnist", split="reference")
        trace = self._trace(np.asarray(reference.inputs[:]))
        for supervisor in self._supervisors.values():
            if supervisor.fitted:
                supervisor.fit(trace, reference.targets)

    def __call__(
        self, images: np.ndarray, labels: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Scores by supervisor, and which answers are right."""
        trace = self._trace(images)
        scores = {name: s.score(trace).astype(np.float32) for name, s in self._supervisors.items()}
        return scores, np.asarray(trace.output).argmax(axis=1) == labels

    def _trace(self, images: np.ndarray) -> ModuleTrace:
        requests = frozenset(r for s in self._supervisors.values() for r in s.needs)
        cases = Cases([str(row) for row in range(len(images))], images, SEED)
        rows = self._system.run(cases, {"model": requests})["model"]
        return replace(rows, columns={**rows.columns, Input().column: images})


class Pool:
    """The images in a fixed random order; what was handed out is gone."""

    def __init__(self, source: Path) -> None:
        self._images = read_idx(source / "t10k-images-idx3-ubyte.gz")
        self._labels = read_idx(source / "t10k-labels-idx1-ubyte.gz")
        self._order = np.random.default_rng(SEED).permutation(len(self._images))

    def take(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The next n: images, labels and ids."""
        rows, self._order = self._order[:n], self._order[n:]
        return self._images[rows], self._labels[rows], np.array([f"t10k/{row:05d}" for row in rows])


def times(n: int, rng: np.random.Generator) -> pa.Array:
    """So many moments of a day, in order."""
    start = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
    seconds = np.sort(rng.uniform(0, 86400, n))
    return pa.array(
        [start + datetime.timedelta(seconds=round(s, 3)) for s in seconds.tolist()],
        pa.timestamp("ms", "UTC"),
    )


def write(name: str, columns: Mapping[str, object]) -> None:
    """A Parquet file in this folder."""
    pq.write_table(pa.table(dict(columns)), HERE / f"{name}.parquet", compression="zstd")
    print(f"{name}.parquet: {(HERE / f'{name}.parquet').stat().st_size / 1024:.0f} kB")


def write_stream(
    name: str, scorer: Scorer, pool: Pool, kinds: np.ndarray, rng: np.random.Generator
) -> None:
    """A stream without labels, and a second table with them."""
    images, labels, ids = pool.take(len(kinds))
    scores, correct = scorer(shifted(images, ids, kinds), labels)
    write(name, {"time": times(len(ids), rng), "id": ids, **scores})
    write(f"{name}_truth", {"id": ids, "kind": kinds, "correct": correct})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the tables of examples/scores")
    parser.add_argument(
        "--source",
        type=Path,
        default=Path("/usr/share/datasets/fashion-mnist"),
        help="the idx files",
    )
    pool, scorer, rng = Pool(parser.parse_args().source), Scorer(), np.random.default_rng(SEED)
    kinds = np.repeat(["clean", *CALIBRATED], [CLEAN_ROWS] + [KIND_ROWS] * len(CALIBRATED))
    images, labels, ids = pool.take(len(kinds))
    scores, correct = scorer(shifted(images, ids, kinds), labels)
    write("calibration", {"id": ids, "kind": kinds, "correct": correct, **scores})
    event = np.arange(TODAY_ROWS)
    struck = (event >= TODAY_BEGINS) & (rng.random(TODAY_ROWS) < TODAY_RATE)
    write_stream("today", scorer, pool, np.where(struck, TODAY_KIND, "clean"), rng)
    event = np.arange(STRANGE_ROWS)
    write_stream(
        "strange", scorer, pool, np.where(event >= STRANGE_BEGINS, STRANGE_KIND, "clean"), rng
    )


if __name__ == "__main__":
    main()
