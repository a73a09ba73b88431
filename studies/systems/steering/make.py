"""Makes the roads and the networks' weights: ``python studies/systems/steering/make.py``.

Roads go to ``studies/systems/cache/steering/``; ``--train`` also trains the three networks (a few
minutes on one core) and writes ``NAME.safetensors``, which are committed.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path

import cv2
import numpy as np
from scenes import drive

HERE = Path(__file__).parent
CACHE = HERE.parent / "cache" / "steering"
SETS = {"reference": 400, "calibration": 100, "test": 200}
SEED = 20261


def roads(folder: Path, sizes: dict[str, int]) -> None:
    """A folder of images and a table of angles for each set."""
    for number, (name, size) in enumerate(sizes.items()):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["image", "steering"])
            for i in range(size):
                image, angle = drive(np.random.default_rng([SEED, number, i]))
                cv2.imwrite(str(folder / name / f"{i:04d}.png"), image[..., ::-1])
                table.writerow([f"{i:04d}.png", f"{angle:.6f}"])


def train(*, images: int = 5000, epochs: int = 10, batch: int = 50) -> None:
    """Each network on roads of its own: what one gets wrong, another may get right."""
    import torch
    from models import NETWORKS, SCALE
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    for number, (name, build) in enumerate(NETWORKS.items()):
        torch.manual_seed(SEED + number)
        rng = np.random.default_rng([SEED, 100 + number])
        made = [drive(rng) for _ in range(images)]
        inputs = torch.from_numpy(np.stack([image for image, _ in made])).permute(0, 3, 1, 2)
        angles = torch.tensor([[angle] for _, angle in made], dtype=torch.float32)
        model = build().train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
        steps = epochs * (images // batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
        for epoch in range(epochs):
            total = 0.0
            for rows in torch.randperm(images).split(batch):
                off = (model(inputs[rows].float() / 255) - angles[rows]) / SCALE
                cost = off.square().mean()
                optimiser.zero_grad()
                cost.backward()
                optimiser.step()
                schedule.step()
                total += float(cost.detach()) * batch / images
            print(f"{name}, epoch {epoch + 1}: RMSE {SCALE * total**0.5:.4f}", flush=True)
        save_file(model.state_dict(), HERE / f"{name}.safetensors")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", action="store_true", help="train the networks too")
    given = parser.parse_args()
    roads(CACHE, SETS)
    if given.train:
        train()
