"""Makes the data and the model of this example: `python examples/reliability/make.py` (torch needed, ten seconds).

Sixteen compact groups of points on the unit square, eight of each class. Training data is collected evenly over the groups; in
operation some groups are met twenty times as often as others. Two rare groups are missing from the training data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
GROUPS, RADIUS, RARE = 16, 0.035, (5, 10)


def centres(rng: np.random.Generator) -> np.ndarray:
    """One group in each field of a 4 x 4 board, near its middle."""
    fields = np.stack(np.meshgrid(range(4), range(4)), -1).reshape(-1, 2)
    return (fields + 0.5 + rng.uniform(-0.12, 0.12, (GROUPS, 2))) / 4


def draw(n: int, shares: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of groups drawn by their shares, and their labels."""
    group = rng.choice(GROUPS, n, p=shares / shares.sum())
    angle, reach = rng.uniform(0, 2 * np.pi, n), RADIUS * np.sqrt(rng.uniform(0, 1, n))
    around = np.stack([np.cos(angle), np.sin(angle)], 1) * reach[:, None]
    return MIDDLES[group] + around, CLASSES[group]


def train(points: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """A network 2-16-2."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
    adam = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(1500):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(4 * x - 2), y).backward()
        adam.step()
    names = ("w1", "b1", "w2", "b2")
    return {n: p.detach().numpy() for n, p in zip(names, model.parameters(), strict=True)}


rng = np.random.default_rng(7)
MIDDLES = centres(rng)
CLASSES = rng.permutation(np.arange(GROUPS) % 2)
EVEN, MET = np.ones(GROUPS), rng.permutation(np.geomspace(1, 0.05, GROUPS))
EVEN[list(RARE)], MET[list(RARE)] = 0.0, 0.03

if __name__ == "__main__":
    points, labels = draw(600, EVEN, rng)
    np.savez(HERE / "weights.npz", **train(points, labels))
    np.savez(HERE / "reference.npz", points=points.astype(np.float32), labels=labels)
    for name, n, labelled in (
        ("operational", 6000, 500),
        ("test", 1000, 1000),
        ("calibration", 600, 600),
    ):
        points, labels = draw(n, MET, rng)
        labels[labelled:] = -1
        np.savez(HERE / f"{name}.npz", points=points.astype(np.float32), labels=labels)
