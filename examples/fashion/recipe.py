"""A recipe for the members of an ensemble: the network of `model.py`, trained on the images it is given.

`ensemble.yaml` hands in the bundled reference split, 2,000 of the 60,000 training images, so that a member takes seconds on one
core; the classifier of `train.py` has seen thirty times as many, and is better for it. Members differ by their first weights,
by the order of the images and by which of them are mirrored: all drawn from `seed`.
"""

from __future__ import annotations

import torch
from model import build
from torch import nn

from roadworthy.data.samples import Dataset

EPOCHS, BATCH, RATE = 10, 50, 2e-3


def train_member(seed: int, data: Dataset) -> nn.Module:
    """Adam with one rise and fall of the learning rate; half of the images mirrored each time."""
    torch.manual_seed(seed)
    images = torch.from_numpy(data.inputs[:]).unsqueeze(1).float() / 255
    labels = torch.as_tensor(data.targets)
    model = build()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, total_steps=EPOCHS * (len(images) // BATCH)
    )
    for epoch in range(EPOCHS):
        total = 0.0
        order = torch.randperm(len(images))
        for batch in order[: len(order) // BATCH * BATCH].split(BATCH):
            mirrored = torch.rand(BATCH, 1, 1, 1) < 0.5
            shown = torch.where(mirrored, images[batch].flip(-1), images[batch])
            loss = nn.functional.cross_entropy(model(shown), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * BATCH
        print(f"epoch {epoch + 1}/{EPOCHS}: loss {total / len(images):.4f}")
    return model.eval()
