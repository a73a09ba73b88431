"""A small detector of one class: every cell of 8 x 8 pixels says whether an object's centre lies in
it, where in the cell, and how large the object is (Zhou et al. 2019, "Objects as points")."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

CELL = 8
USUAL = 48.0
"""Pixels: sizes are learned as the logarithm of their ratio to this."""
MOST = 16
"""Boxes in a frame at most."""
LEAST_SCORE = 0.1
MOST_OVERLAP = 0.6


class Detector(nn.Module):
    """(n, 3, h, w) in 0..1 to a dict of boxes, labels and scores an image; dropout of 0.1 as in
    Wang et al. 2022."""

    def __init__(self) -> None:
        super().__init__()
        wide = ((3, 16, 2), (16, 32, 2), (32, 48, 2), (48, 64, 1), (64, 64, 1))
        self.trunk = nn.Sequential(*(_block(*shape) for shape in wide))
        self.drop = nn.Dropout(0.1)
        self.last = _block(64, 64, 1, dilation=2)
        self.drop_features = nn.Dropout(0.1)
        self.head = nn.Conv2d(64, 5, 1)
        nn.init.constant_(self.head.bias[:1], -3.0)

    def maps(self, images: torch.Tensor) -> torch.Tensor:
        """(n, 5, h / 8, w / 8): logit of a centre, its place in the cell, log width and height."""
        return self.head(self.drop_features(self.last(self.drop(self.trunk(images - 0.5)))))

    def forward(self, images: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        """The boxes of each image, the surest first."""
        return [_decoded(maps) for maps in self.maps(images).detach()]


def _block(inside: int, outside: int, stride: int, dilation: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, dilation, dilation, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    )


def _decoded(maps: torch.Tensor) -> dict[str, torch.Tensor]:
    height, width = maps.shape[1:]
    scores = maps[0].sigmoid()
    peaks = scores * (scores == nn.functional.max_pool2d(scores[None], 3, 1, 1)[0])
    top = peaks.flatten().topk(min(2 * MOST, peaks.numel()))
    where = top.indices[top.values >= LEAST_SCORE]
    found = maps.flatten(1)[:, where]
    centre = torch.stack([where % width, where // width]) + found[1:3].sigmoid()
    half = found[3:5].clamp(-3, 3).exp() * USUAL / 2
    corners = torch.cat([centre * CELL - half, centre * CELL + half]).T
    limits = torch.tensor([width, height, width, height]) * CELL
    corners = torch.minimum(corners.clamp(min=0), limits)
    kept = _apart(corners.numpy())[:MOST]
    sure = top.values[: len(where)][kept]
    return {"boxes": corners[kept], "labels": torch.zeros(len(kept)).long(), "scores": sure}


def _apart(corners: np.ndarray) -> list[int]:
    """Which boxes stay if none may overlap a surer one by more than `MOST_OVERLAP`."""
    kept: list[int] = []
    for i, box in enumerate(corners):
        overlap = np.minimum(box[2:], corners[kept, 2:]) - np.maximum(box[:2], corners[kept, :2])
        shared = np.clip(overlap, 0, None).prod(axis=1)
        areas = (corners[kept, 2:] - corners[kept, :2]).prod(axis=1)
        union = areas + (box[2:] - box[:2]).prod() - shared
        if not (shared > MOST_OVERLAP * union).any() and (box[2:] - box[:2]).min() > 1:
            kept.append(i)
    return kept


def wanted(boxes: np.ndarray, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the maps should be for these boxes (n, 4): a heat map that is 1 at centres and falls off
    around them, and the four numbers at the centres (NaN elsewhere)."""
    heat = np.zeros((height, width), np.float32)
    rest = np.full((4, height, width), np.nan, np.float32)
    rows, columns = np.mgrid[:height, :width]
    for x1, y1, x2, y2 in boxes:
        cx, cy = (x1 + x2) / 2 / CELL, (y1 + y2) / 2 / CELL
        column, row = min(int(cx), width - 1), min(int(cy), height - 1)
        spread = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * 0.8**2))
        heat = np.maximum(heat, spread)
        size = np.log(np.array([x2 - x1, y2 - y1]) / USUAL)
        rest[:, row, column] = [cx - column, cy - row, *size]
    return torch.from_numpy(heat.astype(np.float32)), torch.from_numpy(rest)


def loss(maps: torch.Tensor, heat: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """Focal loss of the heat map (eq. 1 there), absolute error of place and size at the centres."""
    p = maps[:, 0].sigmoid().clamp(1e-4, 1 - 1e-4)
    centre = heat == 1
    hit = ((1 - p) ** 2 * p.log())[centre].sum()
    miss = ((1 - heat) ** 4 * p**2 * (1 - p).log())[~centre].sum()
    known = ~rest.isnan()
    said = torch.cat([maps[:, 1:3].sigmoid(), maps[:, 3:5]], dim=1)
    off = (said[known] - rest[known]).abs().sum()
    return (off - hit - miss) / max(int(centre.sum()), 1)
