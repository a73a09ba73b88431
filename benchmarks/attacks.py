"""What attacks cost beside the bare passes through the network, and beside the Adversarial Robustness Toolbox.

    python benchmarks/attacks.py                   # needs .venv-peers/attacks, see benchmarks/peers-attacks.txt
    python benchmarks/attacks.py --images 64       # a quick look

The example's network and the first 512 bundled test images in batches of 256, one thread, seconds of the
processor, best of some rounds in turns. Bare is what an attack asks of the network and nothing else: the same
number of forward and backward passes (by the pixels), on batches of the same size. Wanted: at most 1.2 times.
ART runs in an environment of its own, with the same steps and epsilon.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peers" / "attacks" / "bin" / "python"
sys.path.insert(0, str(ROOT / "tests" / "cases"))
IMAGES, BATCH, ROUNDS, EPSILON = 512, 256, 5, 8 / 255
NAMES = ("fgsm", "bim", "pgd", "deepfool")


class Counted:
    """A query that writes down what it was asked for."""

    def __init__(self, query: Any) -> None:
        self.query = query
        self.asked: list[tuple[int, int]] = []
        """Rows, and backward passes after the forward one."""

    def scores(self, x: Any) -> Any:
        """As the query."""
        self.asked.append((len(x), 0))
        return self.query.scores(x)

    def gradient(self, x: Any, loss: Any) -> Any:
        """As the query."""
        found = self.query.gradient(x, loss)
        self.asked.append((len(x), len(found) if found.ndim > x.ndim else 1))
        return found


def seconds(call: Callable[[], Any]) -> float:
    """Of the processor."""
    start = time.process_time()
    call()
    return time.process_time() - start


def ours(count: int) -> dict[str, dict[str, float]]:
    """By attack: its seconds, and those of the bare passes."""
    import oracle_art
    import torch

    from roadworthy.data.seeds import generator
    from roadworthy.data.values import CLASS_SCORES
    from roadworthy.registry import get
    from roadworthy.subject.adapters.image_models import InputPreparation
    from roadworthy.subject.adapters.torch_model import TorchModule

    torch.set_num_threads(1)
    model = oracle_art.network()
    pixels, labels = map(torch.from_numpy, oracle_art.test_images(count))
    query = TorchModule(model, CLASS_SCORES, InputPreparation()).query()

    rngs = [generator(0, row) for row in range(count)]

    def attack(name: str, asked: Any) -> None:
        bound = get("attacks", name).bind(**({} if name == "deepfool" else {"epsilon": EPSILON}))
        for first in range(0, count, BATCH):
            rows = slice(first, first + BATCH)
            bound(pixels[rows], labels[rows], asked, rngs[rows])

    def bare(asked: list[tuple[int, int]]) -> None:
        for rows, backward in asked:
            x = pixels[:rows, None].clone().requires_grad_(backward > 0)
            with torch.set_grad_enabled(backward > 0):
                totals = model(x).sum(0)
            for number in range(backward):
                left = number + 1 < backward
                total = totals[number] if backward > 1 else totals.sum()
                torch.autograd.grad(total, x, retain_graph=left)

    found: dict[str, dict[str, float]] = {}
    for name in NAMES:
        counted = Counted(query)
        attack(name, counted)
        times = [
            (
                seconds(lambda name=name: attack(name, query)),
                seconds(lambda counted=counted: bare(counted.asked)),
            )
            for _ in range(ROUNDS)
        ]
        best = np.min(times, axis=0)
        found[name] = {"ours": float(best[0]), "bare": float(best[1])}
    return found


def peers(count: int) -> dict[str, float]:
    """ART's seconds, by attack."""
    import oracle_art
    import torch
    from art.attacks.evasion import (
        BasicIterativeMethod,
        DeepFool,
        FastGradientMethod,
        ProjectedGradientDescent,
    )

    torch.set_num_threads(1)
    model = oracle_art.classifier()
    pixels, labels = oracle_art.test_images(count)
    images = pixels[:, None]
    plain = {"batch_size": BATCH}
    more = {**plain, "max_iter": oracle_art.STEPS, "eps": EPSILON, "verbose": False}
    made = {
        "fgsm": FastGradientMethod(model, eps=EPSILON, **plain),
        "bim": BasicIterativeMethod(model, eps_step=EPSILON * oracle_art.BIM_STEP, **more),
        "pgd": ProjectedGradientDescent(
            model, eps_step=EPSILON * oracle_art.PGD_STEP, num_random_init=1, **more
        ),
        "deepfool": DeepFool(model, max_iter=50, epsilon=0.02, verbose=False, **plain),
    }
    return {
        name: min(
            seconds(lambda attack=attack: attack.generate(images, y=labels))
            for _ in range(1 if name == "deepfool" else ROUNDS)
        )
        for name, attack in made.items()
    }


def main() -> int:
    """Both sides, or ART's when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(peers(options.images)))
        return 0
    if not PEER.exists():
        print(f"{PEER.relative_to(ROOT)} is not there: see benchmarks/peers-attacks.txt")
        return 2
    mine = ours(options.images)
    command = [str(PEER), "-W", "ignore", __file__, "--peer", "--images", str(options.images)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    each = 1e3 / options.images
    print(
        "| attack | ours, ms an image | bare passes, ms | times bare | wanted | ART, ms | ART / ours |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in NAMES:
        own, bare = mine[name]["ours"], mine[name]["bare"]
        print(
            f"| {name} | {own * each:.2f} | {bare * each:.2f} | {own / bare:.2f} | 1.2 "
            f"| {theirs[name] * each:.2f} | {theirs[name] / own:.1f} |"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
