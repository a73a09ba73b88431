"""The layers of Glow (Kingma and Dhariwal 2018, table 1) and the flow they make: exact densities, exact inverses.

Each layer gives what it makes of its input and the log-determinant of its Jacobian, one a row; `inverse` undoes it. This module
loads torch, and is itself loaded on first use.

>>> flow = Flow(channels=1, height=4, width=4, levels=2, steps=1, hidden=4).double()
>>> image = torch.linspace(-0.5, 0.5, 16, dtype=torch.float64).reshape(1, 1, 4, 4)
>>> latents, _ = flow(image)
>>> [tuple(z.shape) for z in latents], bool(torch.allclose(flow.inverse(latents), image))
([(1, 2, 2, 2), (1, 8, 1, 1)], True)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGEST = 2.0
"""No coupling stretches a number by more than e to this power, so that no input makes the flow overflow."""
WIDEST = 7.0
"""Nor is the logarithm of a predicted deviation larger than this, in either direction."""


class ActNorm(nn.Module):
    """An affine map of each channel; the first batch sets it to mean 0 and deviation 1 (section 3.1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))

    @torch.no_grad()
    def initialise(self, x: Tensor) -> None:
        """Set by the data; what does not vary is only moved."""
        deviation = x.std(dim=(0, 2, 3), keepdim=True, unbiased=False)
        self.shift.copy_(-x.mean(dim=(0, 2, 3), keepdim=True))
        self.log_scale.copy_(torch.where(deviation > 1e-6, -deviation.clamp(min=1e-6).log(), 0.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        grown = self.log_scale.sum() * x.shape[2] * x.shape[3]
        return (x + self.shift) * self.log_scale.exp(), grown.expand(len(x))

    def inverse(self, y: Tensor) -> Tensor:
        return y * (-self.log_scale).exp() - self.shift


class Mixing(nn.Module):
    """The invertible 1x1 convolution as W = P L (U + diag(s)): its determinant is the product of s (section 3.2)."""

    permutation: Tensor
    sign: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        diagonal = upper.diagonal()
        self.register_buffer("permutation", permutation)
        self.register_buffer("sign", diagonal.sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_size = nn.Parameter(diagonal.abs().log())

    def _weight(self) -> Tensor:
        one = torch.eye(len(self.sign), dtype=self.lower.dtype, device=self.lower.device)
        diagonal = torch.diag(self.sign * self.log_size.exp())
        return self.permutation @ (self.lower.tril(-1) + one) @ (self.upper.triu(1) + diagonal)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        grown = self.log_size.sum() * x.shape[2] * x.shape[3]
        return functional.conv2d(x, self._weight()[:, :, None, None]), grown.expand(len(x))

    def inverse(self, y: Tensor) -> Tensor:
        return functional.conv2d(y, torch.linalg.inv(self._weight())[:, :, None, None])


class Placed(nn.Module):
    """A 3x3 convolution that begins at zero, plus a number for every place: pictures are rarely alike everywhere."""

    def __init__(self, channels: int, out: int, height: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, out, 3, padding=1)
        nn.init.zeros_(self.convolution.weight)
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]
        self.place = nn.Parameter(torch.zeros(1, out, height, width))

    def forward(self, x: Tensor) -> Tensor:
        placed: Tensor = self.convolution(x) + self.place
        return placed


class Coupling(nn.Module):
    """Some channels are moved and stretched by what a small network says of the others (section 3.3)."""

    def __init__(self, channels: int, height: int, width: int, hidden: int) -> None:
        super().__init__()
        self.changed = channels // 2
        kept = channels - self.changed
        self.network = nn.Sequential(
            nn.Conv2d(kept, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(),
            Placed(hidden, 2 * self.changed, height, width),
        )

    def _move(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        shift, raw = self.network(kept).chunk(2, dim=1)
        return shift, LARGEST * torch.tanh(raw / LARGEST)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, changed = x[:, self.changed :], x[:, : self.changed]
        shift, log_scale = self._move(kept)
        return torch.cat([(changed + shift) * log_scale.exp(), kept], dim=1), log_scale.sum(
            dim=(1, 2, 3)
        )

    def inverse(self, y: Tensor) -> Tensor:
        kept, changed = y[:, self.changed :], y[:, : self.changed]
        shift, log_scale = self._move(kept)
        return torch.cat([changed * (-log_scale).exp() - shift, kept], dim=1)


class Leaving(nn.Module):
    """Channels that leave the flow, as deviations from a normal distribution that the others predict (section 3.3, split)."""

    def __init__(self, leaving: int, staying: int, height: int, width: int) -> None:
        super().__init__()
        # Where nothing stays, a channel of zeros stands for it, and the places alone speak.
        self.predict = Placed(max(staying, 1), 2 * leaving, height, width)

    def _expected(self, staying: Tensor) -> tuple[Tensor, Tensor]:
        if not staying.shape[1]:
            staying = staying.new_zeros(len(staying), 1, *staying.shape[2:])
        mean, raw = self.predict(staying).chunk(2, dim=1)
        return mean, WIDEST * torch.tanh(raw / WIDEST)

    def forward(self, leaving: Tensor, staying: Tensor) -> tuple[Tensor, Tensor]:
        """Standard normal numbers, and the log-determinant."""
        mean, log_deviation = self._expected(staying)
        return (leaving - mean) * (-log_deviation).exp(), -log_deviation.sum(dim=(1, 2, 3))

    def inverse(self, latent: Tensor, staying: Tensor) -> Tensor:
        mean, log_deviation = self._expected(staying)
        return latent * log_deviation.exp() + mean


class Level(nn.Module):
    """Squeeze, steps of actnorm, mixing and coupling, and half of the channels leave (figure 2b); at the last level all do."""

    def __init__(
        self, channels: int, height: int, width: int, *, steps: int, hidden: int, last: bool
    ) -> None:
        super().__init__()
        self.squeezes = height % 2 == 0 and width % 2 == 0
        if self.squeezes:
            channels, height, width = 4 * channels, height // 2, width // 2
        if channels < 2:
            raise ValueError(
                f"one channel of {height} x {width} pixels cannot be squeezed; even sizes were expected"
            )
        parts = [
            nn.ModuleList(
                [ActNorm(channels), Mixing(channels), Coupling(channels, height, width, hidden)]
            )
            for _ in range(steps)
        ]
        self.steps = nn.ModuleList([layer for step in parts for layer in step])  # type: ignore[union-attr]
        self.left = channels if last else channels // 2
        self.shape = (channels - self.left, height, width)
        """Of what stays."""
        self.leaving = Leaving(self.left, channels - self.left, height, width)

    def forward(self, x: Tensor, *, initialise: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """What stays, what left, and the log-determinant."""
        x = functional.pixel_unshuffle(x, 2) if self.squeezes else x
        # Convolutions of few channels are twice as fast where a pixel's channels lie together.
        x = x.contiguous(memory_format=torch.channels_last)
        total = x.new_zeros(len(x))
        for layer in self.steps:
            if initialise and isinstance(layer, ActNorm):
                layer.initialise(x)
            x, grown = layer(x)
            total = total + grown
        staying = x[:, self.left :]
        latent, grown = self.leaving(x[:, : self.left], staying)
        return staying, latent, total + grown

    def inverse(self, staying: Tensor, latent: Tensor) -> Tensor:
        x = torch.cat([self.leaving.inverse(latent, staying), staying], dim=1)
        for layer in reversed(self.steps):
            x = layer.inverse(x)  # type: ignore[operator]
        return functional.pixel_shuffle(x, 2) if self.squeezes else x


class Flow(nn.Module):
    """All levels; a picture in, standard normal latents out."""

    def __init__(
        self, channels: int, height: int, width: int, *, levels: int, steps: int, hidden: int
    ) -> None:
        super().__init__()
        shape = (channels, height, width)
        parts = []
        for i in range(levels):
            parts.append(Level(*shape, steps=steps, hidden=hidden, last=i == levels - 1))
            shape = parts[-1].shape
        self.levels = nn.ModuleList(parts)

    def forward(self, x: Tensor, *, initialise: bool = False) -> tuple[list[Tensor], Tensor]:
        """The latents, level by level, and the log-determinant."""
        latents, total = [], x.new_zeros(len(x))
        for level in self.levels:
            x, latent, grown = level(x, initialise=initialise)
            latents.append(latent)
            total = total + grown
        return latents, total

    def log_density(self, x: Tensor) -> Tensor:
        """By the change of variables (equation 2), in nats."""
        latents, total = self(x)
        for latent in latents:
            total = total - 0.5 * (latent.square() + math.log(2 * math.pi)).sum(dim=(1, 2, 3))
        density: Tensor = total
        return density

    def latent_shapes(self) -> list[tuple[int, int, int]]:
        """(channels, height, width) of each level's latent."""
        return [(level.left, *level.shape[1:]) for level in self.levels]  # type: ignore[misc, index]

    def inverse(self, latents: list[Tensor]) -> Tensor:
        """The picture that has these latents."""
        last = latents[-1]
        x = last.new_zeros(len(last), 0, *last.shape[2:])
        for level, latent in zip(reversed(self.levels), reversed(latents), strict=True):
            x = level.inverse(x, latent)  # type: ignore[operator]
        return x
