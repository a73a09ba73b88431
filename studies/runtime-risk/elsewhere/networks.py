"""A small convolutional network as a subject: three layers, 64 hidden units that its detectors read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from detectors import Answers, Reference, columns
from scores import Fold

HIDDEN, CHANNELS, BATCH = 64, (16, 32, 32), 64


class Images(NamedTuple):
    """Grey images of 8 bits, and the class of each (-1: of none that is known)."""

    pixels: np.ndarray
    truth: np.ndarray


def judged(
    folds: dict[str, Images], *, train: Images, classes: int, epochs: int, names: tuple[str, ...]
) -> Iterator[Fold]:
    """Trains a network and says what it and the named detectors make of each fold; the same on the same machine."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in zip((1, *CHANNELS), CHANNELS, strict=False):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    units = CHANNELS[-1] * (train.pixels.shape[1] // 8) ** 2
    body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(units, HIDDEN), nn.ReLU())
    head = nn.Linear(HIDDEN, classes)

    def tensor(pixels: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(pixels[:, None].astype(np.float32) / 255)

    def answers(pixels: np.ndarray) -> Answers:
        with torch.no_grad():
            hidden = body(tensor(pixels))
            return Answers(hidden.numpy().astype(float), head(hidden).numpy().astype(float))

    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    given, wanted = tensor(train.pixels), torch.from_numpy(train.truth.astype(np.int64))
    for _ in range(epochs):
        for rows in torch.randperm(len(given)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(body(given[rows])), wanted[rows]).backward()
            optimiser.step()
    seen = Reference(answers(train.pixels).hidden, train.truth)
    for name, images in folds.items():
        found = answers(images.pixels)
        yield Fold(name, found.told == images.truth, columns(names, found, seen))
