"""Writes coco.json: COCO's figures of random scenes by pycocotools 2.0.11, over all classes and by class.

Run in an environment of its own: ``pip install numpy pycocotools==2.0.11``, then
``python tests/measures/oracle/make_coco.py``. The test draws the same scenes again with `scenes`.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CLASSES = 5
SETS: dict[str, dict[str, Any]] = {
    "plain": {"seed": 0},
    "one class": {"seed": 1, "classes": 1},
    "ties": {"seed": 2, "decimals": 1},
    "all scores equal": {"seed": 3, "decimals": 0},
    "crowds": {"seed": 4, "crowds": 0.3},
    "areas of segments": {"seed": 5, "segments": True},
    "sizes at the limits": {"seed": 6, "grid": 32},
    "whole pixels, objects twice": {"seed": 7, "grid": 1, "twice": True},
    "many detections": {"seed": 8, "images": 4, "classes": 1, "extra": 150, "decimals": 2},
    "empty images and classes": {"seed": 9, "empty": 0.5, "missing": True},
    "100 objects a class": {"seed": 10, "images": 100, "objects": 1, "classes": 1},
    "everything": {
        "seed": 11, "decimals": 1, "crowds": 0.2, "segments": True, "grid": 4, "twice": True,
        "empty": 0.2, "missing": True,
    },
    "everything, images repeated": {
        "seed": 12, "decimals": 1, "crowds": 0.2, "segments": True, "grid": 4, "twice": True,
        "empty": 0.2, "missing": True, "repeated": True,
    },
    "one class, images repeated": {"seed": 13, "classes": 1, "decimals": 1, "repeated": True},
}  # fmt: skip


class Image(NamedTuple):
    """Corners (n, 4), and a column of each further property."""

    truth: np.ndarray
    labels: np.ndarray
    area: np.ndarray
    crowd: np.ndarray
    found: np.ndarray
    found_labels: np.ndarray
    scores: np.ndarray


def scenes(
    *,
    seed: int,
    images: int = 30,
    classes: int = CLASSES,
    objects: int = 12,
    extra: int = 6,
    decimals: int = 9,
    crowds: float = 0.0,
    segments: bool = False,
    grid: int = 0,
    twice: bool = False,
    empty: float = 0.0,
    missing: bool = False,
    repeated: bool = False,
) -> tuple[list[Image], np.ndarray]:
    """Images with objects of all sizes and detections near them, and how often each image counts."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(images):
        k = objects if objects == 1 else int(rng.integers(1, objects))
        n = k + int(rng.integers(0, extra)) if extra < 100 else k + extra
        corner = rng.uniform(0, 300, (n, 2))
        whole = np.hstack([corner, corner + np.exp(rng.uniform(np.log(8), np.log(250), (n, 2)))])
        near = whole + rng.normal(0, 0.07, (n, 4)) * np.tile(whole[:, 2:] - whole[:, :2], 2)
        labels = rng.integers(0, classes, n)
        if twice:  # objects at one place, and detections of them
            whole, near = np.vstack([whole[:k], whole[:2], whole[k:]]), np.vstack([near, near[:2]])
            labels = np.concatenate([labels[:k], labels[: min(2, n)], labels[k:]])
            k, n = k + min(2, n), len(whole)
            near = near[:n]
        if grid:
            whole, near = (np.round(b / grid) * grid for b in (whole, near))
        for boxes in (whole, near):
            boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + max(grid, 1))
        seen = rng.random(n) < 0.9
        found_labels = np.where(rng.random(n) < 0.9, labels, rng.integers(0, classes, n))
        scores = np.round(rng.random(n), decimals) if decimals else np.full(n, 0.5)
        size = (whole[:k, 2] - whole[:k, 0]) * (whole[:k, 3] - whole[:k, 1])
        area = size * rng.uniform(0.3, 1.0, k) if segments else size
        if missing:  # no object of the last class, no detection of the first
            labels[labels == classes - 1] = 1
            seen &= found_labels != 0
        crowd = rng.random(k) < crowds
        if rng.random() < empty:
            seen[:] = False
        if rng.random() < empty:
            k = 0
        drawn.append(
            Image(
                whole[:k], labels[:k], area[:k], crowd[:k],
                near[seen], found_labels[seen], scores[seen],
            )
        )  # fmt: skip
    weights = rng.integers(0, 5, images) if repeated else np.ones(images, dtype=np.int64)
    return drawn, weights


def evaluated(images: list[Image], classes: int) -> dict[str, Any]:
    """The 12 figures over all classes and by class, and counts at a score and an IoU of 0.5."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def bbox(box: np.ndarray) -> list[float]:
        return [float(v) for v in (box[0], box[1], box[2] - box[0], box[3] - box[1])]

    truth, found = [], []
    for i, image in enumerate(images, start=1):
        for box, label, area, crowd in zip(*image[:4], strict=True):
            own = {"id": len(truth) + 1, "image_id": i, "category_id": int(label) + 1}
            truth.append(own | {"bbox": bbox(box), "area": float(area), "iscrowd": int(crowd)})
        for box, label, score in zip(*image[4:], strict=True):
            own = {"image_id": i, "category_id": int(label) + 1, "bbox": bbox(box)}
            found.append(own | {"score": float(score)})
    reference = COCO()
    reference.dataset = {
        "info": {},
        "images": [{"id": i + 1} for i in range(len(images))],
        "categories": [{"id": c + 1, "name": str(c)} for c in range(classes)],
        "annotations": truth,
    }
    reference.createIndex()
    answers = reference.loadRes(found)
    evaluation = COCOeval(reference, answers, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    every = slice(None)
    cuts = [(every, 0), (slice(0, 1), 0), (slice(5, 6), 0), (every, 1), (every, 2), (every, 3)]
    counts = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (3, 2)]

    def figures(of: slice) -> list[float | None]:
        tables = [precision[t, :, of, a, 2] for t, a in cuts]
        tables += [recall[:, of, a, m] for a, m in counts]
        return [float(s[s > -1].mean()) if (s > -1).any() else None for s in tables]

    evaluation.params.maxDets = [1, 10, 10_000]
    evaluation.evaluate()
    tp = fp = objects = 0
    for one in evaluation.evalImgs[:]:
        if one is not None and one["aRng"] == [0, 1e10]:
            sure = np.array(one["dtScores"]) >= 0.5
            ignored, matched = one["dtIgnore"][0][sure] > 0, one["dtMatches"][0][sure] > 0
            tp, fp = tp + int((matched & ~ignored).sum()), fp + int((~matched & ~ignored).sum())
            objects += int((one["gtIgnore"] == 0).sum())
    by_class = [figures(slice(c, c + 1)) for c in range(classes)]
    return {
        "all": figures(every),
        "by class": by_class,
        "counts": [tp, fp, objects - tp],
    }


def main() -> None:
    """Evaluate every set."""
    found = {}
    for name, options in SETS.items():
        images, weights = scenes(**options)
        copies = [image for image, w in zip(images, weights, strict=True) for _ in range(w)]
        with contextlib.redirect_stdout(io.StringIO()):
            found[name] = evaluated(copies, options.get("classes", CLASSES))
    Path(__file__).with_name("coco.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
