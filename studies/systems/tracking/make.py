"""Makes the scenes and the detector's weights: ``python studies/systems/tracking/make.py``.

Scenes go to ``studies/systems/cache/tracking/``; ``--train`` also trains the detector (a few minutes
on one core) and writes ``detector.safetensors``, which is committed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from scenes import HEIGHT, LEAST_SEEN, WIDTH, photographs, scene, write

HERE = Path(__file__).parent
CACHE = HERE.parent / "cache" / "tracking"
SETS = {"reference": 10, "calibration": 5, "test": 10}
FRAMES = 20
SEED = 20260


def scenes(folder: Path, sizes: dict[str, int], frames: int) -> None:
    """A folder of sequences for each set."""
    photos = photographs()
    for number, (name, size) in enumerate(sizes.items()):
        shutil.rmtree(folder / name, ignore_errors=True)
        for i in range(size):
            rng = np.random.default_rng([SEED, number, i])
            write(scene(photos, rng, frames=frames), folder / name / f"{name}-{i:02d}")


def train(*, images: int = 1600, epochs: int = 12, batch: int = 16) -> None:
    """The detector, on single frames of scenes of its own."""
    import torch
    from detector import CELL, Detector, loss, wanted
    from safetensors.torch import save_file

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    photos, rng = photographs(), np.random.default_rng(SEED)
    frames, heats, rests = [], [], []
    for _ in range(images):
        one = scene(photos, rng, frames=1, training=True)
        seen = one.objects[one.objects[:, 6] >= LEAST_SEEN, 2:6]
        heat, rest = wanted(seen, HEIGHT // CELL, WIDTH // CELL)
        frames.append(torch.from_numpy(one.frames[0]).permute(2, 0, 1))
        heats.append(heat)
        rests.append(rest)
    inputs, heat, rest = torch.stack(frames), torch.stack(heats), torch.stack(rests)
    model = Detector().train().to(memory_format=torch.channels_last)
    rate = 3e-3
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    steps = epochs * (images // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(images)[: images // batch * batch].split(batch):
            found = model.maps(inputs[rows].float() / 255)
            cost = loss(found, heat[rows], rest[rows])
            optimiser.zero_grad()
            cost.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            schedule.step()
            total += float(cost.detach()) * batch / images
        print(f"epoch {epoch + 1}: loss {total:.3f}", flush=True)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    save_file(weights, HERE / "detector.safetensors")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", action="store_true", help="train the detector too")
    given = parser.parse_args()
    scenes(CACHE, SETS, FRAMES)
    if given.train:
        train()
