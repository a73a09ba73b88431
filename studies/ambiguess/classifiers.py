"""The four architectures of the study: a small CNN, a fully connected network, ResNet and DenseNet.

Widths and dropout are those of the authors' code (github.com/testingautomated-usi/ambguess-src). The fully
connected network has activations, which theirs lacks. Instead of a ResNet-50 that knows ImageNet, whose weights
are not at hand, stands a small network of the same building blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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


class Grown(nn.Module):
    """One layer of a dense block (Huang et al. 2017): reads all outputs before it, and adds its own."""

    def __init__(self, inner: int, growth: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, 4 * growth, 1, bias=False), nn.Dropout(dropout),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False), nn.Dropout(dropout),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """All of them side by side."""
        return torch.cat([x, self.way(x)], dim=1)


class Weighed(nn.Module):
    """Maps weighed by what all of them show (Hu et al. 2018)."""

    def __init__(self, maps: int) -> None:
        super().__init__()
        less, more = nn.Conv2d(maps, maps // 16, 1), nn.Conv2d(maps // 16, maps, 1)
        self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), less, nn.ReLU(), more, nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """The same maps, some of them fainter."""
        return x * self.weights(x)


def cnn() -> Network:
    """Two convolutions and one dense layer (the CNN of the paper)."""
    conv = [
        nn.Sequential(nn.Conv2d(a, b, 3), nn.ReLU(), nn.MaxPool2d(2))
        for a, b in ((1, 32), (32, 64))
    ]
    return Network([*conv, nn.Flatten()], nn.Sequential(nn.Dropout(0.5), nn.Linear(1600, CLASSES)))


def fc(between: Callable[[], nn.Module] = nn.ReLU) -> Network:
    """Three dense layers before the answer."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), between())
    second = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 512), between())
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 64), between(), nn.Linear(64, CLASSES))
    return Network([first, second], head)


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
    """Dense blocks of six and twelve layers with weighed maps, as the authors' code has them."""
    stem = nn.Sequential(
        nn.Conv2d(1, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    )
    first = nn.Sequential(*(Grown(width) for width in range(16, 208, 32)), Weighed(208))
    narrow = nn.Sequential(
        nn.BatchNorm2d(208), nn.ReLU(), nn.Conv2d(208, 208, 1, bias=False), nn.Dropout(0.1), nn.AvgPool2d(2)
    )
    second = nn.Sequential(narrow, Weighed(208), *(Grown(width) for width in range(208, 592, 32)), Weighed(592))
    pooled = nn.Sequential(nn.BatchNorm2d(592), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network([nn.Sequential(stem, first), second, pooled], nn.Linear(592, CLASSES))


ARCHITECTURES: dict[str, Callable[[], Network]] = {
    "cnn": cnn, "fc": fc, "resnet": resnet, "densenet": densenet, "linear": partial(fc, nn.Identity)
}  # fmt: skip
"""The linear one is the fully connected network as the authors coded it, without activations."""


def trained(
    build: Callable[[], Network], images: Tensor, labels: Tensor, *, epochs: int, seed: int, batch: int
) -> Network:
    """Adam with a rate that falls to zero; pictures (n, 28, 28) from 0 to 1 on their device."""
    torch.manual_seed(seed)
    network, there = build().to(images.device).train(), images.is_cuda
    rate = torch.tensor(1e-3, device=images.device) if there else 1e-3
    optimiser = torch.optim.Adam(network.parameters(), lr=rate, fused=there, capturable=there)
    shown, wanted = images[:batch, None].clone(), labels[:batch].clone()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(network(shown), wanted).backward()
        optimiser.step()

    again = _recorded(step) if there else step
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = torch.Generator(device=images.device).manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator, device=images.device)
        for rows in order[: len(order) // batch * batch].view(-1, batch):
            shown.copy_(images[rows, None])
            wanted.copy_(labels[rows])
            again()
            schedule.step()
    return network.eval()


def _recorded(step: Callable[[], None]) -> Callable[[], None]:
    """A step as one graph of the GPU, which else waits for Python most of the time; three are taken at once."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
