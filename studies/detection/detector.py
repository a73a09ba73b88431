"""A small detector of several classes: every cell of 4 x 4 pixels says whether the centre of an
object of each class lies in it, and how far the object's four sides are (Zhou et al. 2019, "Objects
as points"; sides as in Tian et al. 2019, "FCOS")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from dataset import SEED, Picture
from torch import nn
from torch.nn import functional

from roadworthy.distances.overlap import box_iou

CELL = 4
USUAL = 16.0
"""Pixels: distances to sides are learned as the logarithm of their ratio to this."""
MOST = 40
"""Boxes of a picture at most."""
LEAST_SCORE = 0.05
MOST_OVERLAP = 0.5
TRAINED_ON = 2000
"""Pictures, of groups that stand in no set."""


class Detector(nn.Module):
    """(n, channels, h, w) in 0..1, sides divisible by 16, to a dict of boxes, labels and scores for
    each picture."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.fourth = nn.Sequential(_block(channels, 12, 2), _block(12, 24, 2))
        self.eighth = nn.Sequential(_block(24, 48, 2), _block(48, 48, 1))
        self.sixteenth = nn.Sequential(_block(48, 96, 2), _block(96, 96, 1))
        self.to_eighth, self.to_fourth = nn.Conv2d(96, 48, 1), nn.Conv2d(48, 24, 1)
        self.middle, self.last = _block(48, 48, 1), _block(24, 32, 1)
        self.head = nn.Conv2d(32, classes + 4, 1)
        nn.init.constant_(self.head.bias[:classes], -4.0)

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        """(n, classes + 4, h / 4, w / 4): logits of centres, log distances to the four sides."""
        fourth = self.fourth(images - 0.5)
        eighth = self.eighth(fourth)
        eighth = self.middle(eighth + _twice(self.to_eighth(self.sixteenth(eighth))))
        return self.head(self.last(fourth + _twice(self.to_fourth(eighth))))

    def forward(self, images: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        """The boxes of each picture, the surest first."""
        return [_decoded(maps, self.classes) for maps in self.maps(images).detach().cpu()]


def road() -> Detector:
    """Of the six classes of road users, in colour."""
    return Detector(3, 6)


def medical() -> Detector:
    """Of the four classes of lesions, in grey."""
    return Detector(1, 4)


def _block(inside: int, outside: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outside), nn.ReLU())


def _twice(maps: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(maps, scale_factor=2.0, mode="nearest")


def _decoded(maps: torch.Tensor, classes: int) -> dict[str, torch.Tensor]:
    height, width = maps.shape[1:]
    heat = maps[:classes].sigmoid()
    peaks = heat * (heat == functional.max_pool2d(heat, 3, 1, 1))
    scores, where = peaks.flatten().topk(MOST)
    where, scores = where[scores >= LEAST_SCORE], scores[scores >= LEAST_SCORE]
    label, cell = where // (height * width), where % (height * width)
    centre = torch.stack([cell % width, cell // width]) * CELL + CELL / 2
    sides = maps[classes:].flatten(1)[:, cell].clamp(-4, 3).exp() * USUAL
    corners = torch.cat([centre - sides[:2], centre + sides[2:]]).T
    limits = torch.tensor([width, height, width, height]) * CELL
    corners = torch.minimum(corners.clamp(min=0), limits)
    kept = _apart(corners.numpy(), label.numpy())
    return {"boxes": corners[kept], "labels": label[kept], "scores": scores[kept]}


def _apart(corners: np.ndarray, label: np.ndarray) -> list[int]:
    """Which boxes stay if none may overlap a surer one of its class too much."""
    close = (box_iou(corners[:, None], corners) > MOST_OVERLAP) & (label[:, None] == label)
    kept: list[int] = []
    for i in range(len(corners)):
        if not close[i, kept].any() and (corners[i, 2:] - corners[i, :2]).min() > 1:
            kept.append(i)
    return kept


def wanted(picture: Picture, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the maps should be: heat (classes, h, w) that is 1 at centres and falls off around them,
    and log distances (4, h, w) in the cells about centres, NaN elsewhere."""
    height, width = (side // CELL for side in picture.image.shape[:2])
    heat = np.zeros((classes, height, width), np.float32)
    sides = np.full((4, height, width), np.nan, np.float32)
    rows, columns = np.mgrid[:height, :width]
    sizes = (picture.boxes[:, 2:] - picture.boxes[:, :2]).prod(axis=1)
    for i in np.argsort(-sizes):  # the smallest last: it keeps the cells that several claim
        box = picture.boxes[i]
        column, row = ((box[:2] + box[2:]) // 2 // CELL).tolist()
        wide, high = np.maximum((box[2:] - box[:2]) / CELL * 0.12, 0.6)
        near = np.exp(-((columns - column) ** 2 / wide**2 + (rows - row) ** 2 / high**2) / 2)
        heat[picture.labels[i]] = np.maximum(heat[picture.labels[i]], near)
        for y, x in np.argwhere(near >= 0.2):
            at = np.array([x, y, x, y]) * CELL + CELL / 2
            distance = np.maximum((box - at) * [-1, -1, 1, 1], 0.5)
            sides[:, y, x] = np.log(distance / USUAL)
    return torch.from_numpy(heat), torch.from_numpy(sides)


def loss(maps: torch.Tensor, heat: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    """Focal loss of the heat (eq. 1 of Zhou et al.), absolute error of the sides where known."""
    logits, said = maps[:, : heat.shape[1]], maps[:, heat.shape[1] :]
    share, centre, known = logits.sigmoid(), heat == 1, ~sides.isnan()
    hits = -((1 - share) ** 2 * functional.logsigmoid(logits))[centre].sum()
    rest = -((1 - heat) ** 4 * share**2 * functional.logsigmoid(-logits))[~centre].sum()
    return (hits + rest) / centre.sum() + 2 * (said - sides)[known].abs().mean()


def train(
    build: Callable[[], Detector], pictures: Sequence[Picture], file: Path, *, steps: int = 800
) -> None:
    """Train a detector on the pictures, and write its weights in half precision."""
    from safetensors.torch import save_file

    torch.manual_seed(SEED)
    model = build().train().to(memory_format=torch.channels_last)
    images = torch.from_numpy(np.stack([p.image.reshape(*p.image.shape[:2], -1) for p in pictures]))
    images = images.permute(0, 3, 1, 2)
    targets = [wanted(p, model.classes) for p in pictures]
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for step in range(steps):
        if step * 16 % len(pictures) < 16:
            order = torch.randperm(len(pictures))
        rows = order[torch.arange(step * 16, step * 16 + 16) % len(pictures)]
        heat, sides = (torch.stack(t) for t in zip(*(targets[i] for i in rows), strict=True))
        cost = loss(model.maps(images[rows].float() / 255), heat, sides)
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1} of {steps}: loss {cost.item():.3f}", flush=True)
    save_file({n: v.half().contiguous() for n, v in model.state_dict().items()}, file)
