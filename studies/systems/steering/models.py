"""Three differently shaped networks from two frames, one above the other, to a steering angle.

All have dropout of 0.1 (Wang et al. 2022), and a last linear layer whose input is what the
supervisors of activations read.
"""

from __future__ import annotations

import torch
from torch import nn

SCALE = 0.05
"""Radians: networks answer in units of this, about the deviation of the angles."""


class Steering(nn.Module):
    """A trunk of convolutions, and a head of one hidden layer."""

    def __init__(self, trunk: nn.Module, width: int, hidden: int) -> None:
        super().__init__()
        self.trunk, self.flat = trunk, nn.Flatten()
        self.hidden = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, hidden), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.angle = nn.Linear(hidden, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, 3, 2h, w) in 0..1 to (n, 1) in radians; the upper half is the frame before."""
        half = images.shape[2] // 2
        frames = torch.cat([images[:, :, :half], images[:, :, half:]], dim=1) - 0.5
        return SCALE * self.angle(self.drop(self.hidden(self.flat(self.trunk(frames)))))


def deep() -> Steering:
    """Five strided convolutions, as in Bojarski et al. 2016."""
    shapes = ((6, 16, 5, 2), (16, 24, 5, 2), (24, 32, 5, 2), (32, 48, 3, 1), (48, 48, 3, 1))
    layers = [_conv(*shape) for shape in shapes]
    return Steering(nn.Sequential(*layers, nn.AdaptiveAvgPool2d((4, 8))), 48 * 32, 48)


def wide() -> Steering:
    """Two layers with large kernels, and pooling."""
    trunk = nn.Sequential(_conv(6, 32, 9, 4), _conv(32, 48, 5, 2), nn.MaxPool2d((2, 1)))
    return Steering(trunk, 48 * 64, 32)


def pooled() -> Steering:
    """Small kernels between poolings; rows of the image are averaged away at the end."""
    shapes = ((6, 16), (16, 32), (32, 48))
    layers = [part for a, b in shapes for part in (_conv(a, b, 3, 1), nn.MaxPool2d(2))]
    return Steering(nn.Sequential(*layers, nn.AdaptiveAvgPool2d((2, 16))), 48 * 32, 40)


NETWORKS = {"deep": deep, "wide": wide, "pooled": pooled}


def _conv(inside: int, outside: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    )
