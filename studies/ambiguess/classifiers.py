"""The four architectures of the study: a small CNN, a fully connected network, ResNet and DenseNet.

Widths of dense layers and dropout are those of the authors' code (github.com/testingautomated-usi/ambguess-src).
The fully connected network has activations, which theirs lacks. ResNet-50 and DenseNet are small networks of
the same building blocks, since pictures have 28 x 28 pixels; dropout stands at the end of all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

CLASSES = 10


class Network(nn.Module):
    """Stages one after the other, then a head; `layers` are what supervisors read."""

    def __init__(self, stages: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.stages, self.head = nn.ModuleList(stages), head
        drops = [any(isinstance(m, nn.Dropout) for m in stage.modules()) for stage in stages]
        self.fixed = [*drops, True].index(True)
        """Stages before the first dropout: what passes share."""

    def before(self, x: Tensor) -> Tensor:
        """What all passes have in common."""
        return nn.Sequential(*self.stages[: self.fixed])(x)

    def after(self) -> nn.Sequential:
        """What each pass goes through."""
        return nn.Sequential(*self.stages[self.fixed :], self.head)

    def layers(self, x: Tensor) -> list[Tensor]:
        """The output of each stage; the last one is what the head reads."""
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.layers(x)[-1])


class Residual(nn.Module):
    """Two convolutions and the way past them (He et al. 2016)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        past = inner == outer and stride == 1
        self.past = nn.Identity() if past else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return torch.relu(self.way(x) + self.past(x))


class Dense(nn.Module):
    """Convolutions that each read all outputs before them (Huang et al. 2017)."""

    def __init__(self, inner: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, 1, 1, bias=False))
            for width in range(inner, inner + count * growth, growth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """All of them side by side."""
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


def _narrow(inner: int, outer: int) -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, outer, 1), nn.AvgPool2d(2))


def cnn() -> Network:
    """Two convolutions and one dense layer (the CNN of the paper)."""
    conv = [
        nn.Sequential(nn.Conv2d(a, b, 3), nn.ReLU(), nn.MaxPool2d(2))
        for a, b in ((1, 32), (32, 64))
    ]
    return Network([*conv, nn.Flatten()], nn.Sequential(nn.Dropout(0.5), nn.Linear(1600, CLASSES)))


def fc() -> Network:
    """Three dense layers before the answer, with activations, which the paper's lack."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU())
    second = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU())
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    return Network([first, second], head)


def linear() -> Network:
    """The fully connected network as the authors coded it, without activations."""
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 64), nn.Linear(64, CLASSES))
    first = nn.Sequential(nn.Flatten(), nn.Linear(784, 512))
    return Network([first, nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 512))], head)


def resnet() -> Network:
    """A residual body of six blocks, and three dense layers as in the paper."""
    stem = nn.Sequential(nn.Conv2d(1, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
    blocks = [
        nn.Sequential(Residual(a, b, stride), Residual(b, b, 1))
        for a, b, stride in ((32, 32, 1), (32, 64, 2), (64, 128, 2))
    ]
    pooled = nn.Sequential(blocks[2], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    first = nn.Sequential(nn.Linear(128, 256), nn.ReLU())
    second = nn.Sequential(nn.Dropout(0.2), nn.Linear(256, 125), nn.ReLU())
    return Network(
        [nn.Sequential(stem, blocks[0]), blocks[1], pooled, first, second],
        nn.Sequential(nn.Dropout(0.2), nn.Linear(125, CLASSES)),
    )


def densenet() -> Network:
    """Three dense blocks of four layers."""
    first = nn.Sequential(nn.Conv2d(1, 24, 3, 1, 1), Dense(24, 16, 4), _narrow(88, 44))
    second = nn.Sequential(Dense(44, 16, 4), _narrow(108, 54))
    third = nn.Sequential(
        Dense(54, 16, 4), nn.BatchNorm2d(118), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Network([first, second, third], nn.Sequential(nn.Dropout(0.1), nn.Linear(118, CLASSES)))


ARCHITECTURES: dict[str, Callable[[], Network]] = {
    "cnn": cnn, "fc": fc, "resnet": resnet, "densenet": densenet, "linear": linear
}  # fmt: skip


def trained(
    build: Callable[[], Network], images: Tensor, labels: Tensor, *, epochs: int, seed: int, batch: int
) -> Network:
    """Adam with a rate that falls to zero; pictures (n, 28, 28) from 0 to 1 on their device."""
    torch.manual_seed(seed)
    network = build().to(images.device).train()
    rate = 1e-3 * max(1.0, batch / 256) ** 0.5
    optimiser = torch.optim.Adam(network.parameters(), lr=rate, fused=images.is_cuda)
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = torch.Generator(device=images.device).manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator, device=images.device)
        for rows in order[: len(order) // batch * batch].view(-1, batch):
            optimiser.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(network(images[rows, None]), labels[rows])
            loss.backward()
            optimiser.step()
            schedule.step()
    return network.eval()
