"""Speed of COCO's 12 figures against faster-coco-eval and pycocotools: ratios of one run, and how the cost grows.

    python benchmarks/detection.py                # both sides; the peers from .venv-peers/detection
    python benchmarks/detection.py --slow         # pycocotools as well (a minute)

Images with 10 objects and 10 detections each, of 80 classes and of one. The peers' clock runs from `evaluate` to `summarize`, on
data that are loaded and indexed; ours runs from lists of `Boxes` to the summary, by class as well. Processor time of one thread,
the sides taking turns, best of 3. The last columns are 200 bootstrap resamples of all 12 figures.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-peers" / "detection" / "bin" / "python"
EACH = 10
IMAGES = (500, 1000, 2000, 5000)
CLASSES = (80, 1)
ROUNDS, RESAMPLES = 3, 200


def drawn(images: int, classes: int) -> dict[str, np.ndarray]:
    """Objects of all sizes and detections near them, as x, y, width, height; the same on both sides."""
    rng = np.random.default_rng(0)
    n = images * EACH
    sides = np.exp(rng.uniform(np.log(10), np.log(200), (n, 2)))
    truth = np.hstack([rng.uniform(0, 400, (n, 2)), sides])
    found = truth + rng.normal(0, 0.08, (n, 4)) * np.tile(sides, 2)
    found[:, 2:] = np.maximum(found[:, 2:], 1)
    labels = rng.integers(0, classes, n)
    answers = np.where(rng.random(n) < 0.8, labels, rng.integers(0, classes, n))
    scores = rng.random(n).round(3)
    return {"truth": truth, "labels": labels, "found": found, "answers": answers, "scores": scores}


def ours(images: int, classes: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A summary, and the resamples of one evaluation."""
    from roadworthy.data.values import Boxes
    from roadworthy.measures import coco

    data = drawn(images, classes)
    corners = {k: np.hstack([data[k][:, :2], data[k][:, :2] + data[k][:, 2:]]) for k in ("truth", "found")}  # fmt: skip
    places = [slice(i * EACH, (i + 1) * EACH) for i in range(images)]
    truth = [Boxes.of(corners["truth"][s], data["labels"][s]) for s in places]
    found = [Boxes.of(corners["found"][s], data["answers"][s], data["scores"][s]) for s in places]
    draws = np.random.default_rng(1).multinomial(images, [1 / images] * images, size=RESAMPLES)

    def summary() -> list[float]:
        # Other objects, so that no evaluation is found again.
        summary = coco.detection_summary([Boxes(b.xyxy, b.labels, b.scores) for b in found], truth)
        return [getattr(summary, name) for name in coco.FIGURES]

    return summary, lambda: coco.summaries(coco.evaluate_boxes(found, truth), draws)


def peer(images: int, classes: int, name: str) -> Callable[[], Any]:
    """One evaluation by a peer, on data that it has loaded."""
    if name == "faster-coco-eval":
        from faster_coco_eval import COCO
        from faster_coco_eval import COCOeval_faster as Evaluation
    else:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval as Evaluation
    data = drawn(images, classes)
    image = np.repeat(np.arange(images), EACH).tolist()

    def rows(boxes: str, labels: str) -> list[dict[str, Any]]:
        columns = zip(image, data[labels].tolist(), data[boxes].tolist(), strict=True)
        return [
            {"id": at, "image_id": i, "category_id": c + 1, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
            for at, (i, c, b) in enumerate(columns, start=1)
        ]  # fmt: skip

    reference = COCO()
    reference.dataset = {
        "info": {},
        "images": [{"id": i, "width": 900, "height": 900} for i in range(images)],
        "categories": [{"id": c + 1, "name": str(c)} for c in range(classes)],
        "annotations": rows("truth", "labels"),
    }
    reference.createIndex()
    scores = data["scores"].tolist()
    found = [r | {"score": s} for r, s in zip(rows("found", "answers"), scores, strict=True)]
    answers = reference.loadRes(found)

    def run() -> list[float]:
        evaluation = Evaluation(reference, answers, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        return [float(s) for s in evaluation.stats[:12]]

    return run


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a call, and what it gave."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def serve(name: str, images: int, classes: int) -> None:
    """The peer's side: a line of JSON whenever a line comes in."""
    with contextlib.redirect_stdout(io.StringIO()):
        call = peer(images, classes, name)
        call()
    for _ in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()):
            found = seconds(call)
        print(json.dumps(found), flush=True)


class Peer:
    """A process of the peers' environment that measures when asked."""

    def __init__(self, name: str, images: int, classes: int) -> None:
        command = [str(PEERS), __file__, "--side", name, str(images), str(classes)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self) -> tuple[float, list[float]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        spent, figures = json.loads(self.process.stdout.readline())
        return float(spent), figures

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def row(images: int, classes: int, slow: bool) -> str:
    """One line of the table."""
    summary, resamples = ours(images, classes)
    summary(), resamples()
    names = ["faster-coco-eval", *(["pycocotools"] if slow else [])]
    peers = [Peer(name, images, classes) for name in names]
    spent: dict[str, list[float]] = {name: [] for name in ("ours", "resamples", *names)}
    for _ in range(ROUNDS):
        own, figures = seconds(summary)
        spent["ours"].append(own)
        spent["resamples"].append(seconds(resamples)[0])
        for name, measured in zip(names, peers, strict=True):
            took, others = measured()
            spent[name].append(took)
            assert np.allclose(figures, others, atol=1e-5), (name, figures, others)
    for measured in peers:
        measured.close()
    least = {name: min(times) for name, times in spent.items()}
    cells = [f"{images:,}", str(classes), f"{least['ours']:.3f}"]
    for name in names:
        cells += [f"{least[name]:.3f}", f"{least['ours'] / least[name]:.2f}"]
    cells += [f"{least['resamples']:.2f}"]
    cells += [f"{least['resamples'] / least[name]:.1f}" for name in ("ours", names[0])]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """The table, or a peer's side of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slow", action="store_true", help="compare with pycocotools as well")
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        serve(options.side[0], int(options.side[1]), int(options.side[2]))
        return 0
    if not PEERS.exists():
        where = PEERS.relative_to(ROOT)
        print(f"{where} is not there: make it from benchmarks/peers-detection.txt", file=sys.stderr)
        return 2
    extra = " pycocotools, s | ours / it |" if options.slow else ""
    print(
        f"| images | classes | ours, s | faster-coco-eval, s | ours / it |{extra} "
        f"{RESAMPLES} resamples, s | in evaluations of ours | in those of faster-coco-eval |"
    )
    print("| ---: |" + " ---: |" * (7 + 2 * options.slow))
    for classes in CLASSES:
        for images in IMAGES:
            print(row(images, classes, options.slow), flush=True)
    return 0


if __name__ == "__main__":
    for pool in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{pool}_NUM_THREADS"] = "1"
    raise SystemExit(main())
