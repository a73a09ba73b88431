"""Glow (Kingma and Dhariwal 2018): how likely a picture is, exactly, by a chain of invertible
layers.

Pixels are 256 levels. In training each is spread over its level by uniform noise, which makes the
density a lower bound of the levels' probability (Theis, van den Oord and Bethge 2016); when
pictures are scored, each stands in the middle of its level, so that a picture's likelihood is its
own. Likelihoods are in nats of the picture as the canvas holds it.

>>> shades = np.repeat(np.arange(0, 250, 10, dtype=np.uint8), 16).reshape(-1, 4, 4)
>>> glow = Glow.fit(shades, epochs=60)
>>> flat, checks = glow.log_likelihood(np.stack([shades[12], np.indices((4, 4)).sum(axis=0).astype(np.uint8) % 2 * 255]))
>>> bool(flat > checks)
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from roadworthy.generative.canvas import LEVELS, Canvas, Pictures
from roadworthy.generative.training import (
    epochs_for,
    fill,
    in_batches,
    isolated,
    train,
    weights_of,
)

LARGEST = 2.0
"""No coupling stretches a number by more than e to this power, so that no input makes the flow
overflow."""
WIDEST = 7.0
"""Nor is the logarithm of a predicted deviation larger than this, in either direction."""


class ActNorm(nn.Module):
    """An affine map of each channel; the first batch sets it to mean 0 and deviation 1 (section
    3.1)."""

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
    """The invertible 1x1 convolution as W = P L (U + diag(s)): its determinant is the product of s
    (section 3.2)."""

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
    """A 3x3 convolution that begins at zero, plus a number for every place: pictures are rarely
    alike everywhere."""

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
    """Some channels are moved and stretched by what a small network says of the others (section
    3.3)."""

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
    """Channels that leave the flow, as deviations from a normal distribution that the others
    predict (section 3.3, split)."""

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
    """Squeeze, steps of actnorm, mixing and coupling, and half of the channels leave (figure 2b);
    at the last level all do."""

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
    """The flow of Glow (Kingma and Dhariwal 2018, table 1): a picture in, standard normal latents out.

    Each layer gives what it makes of its input and the log-determinant of its Jacobian, one a row;
    `inverse` undoes it.

    >>> flow = Flow(channels=1, height=4, width=4, levels=2, steps=1, hidden=4).double()
    >>> image = torch.linspace(-0.5, 0.5, 16, dtype=torch.float64).reshape(1, 1, 4, 4)
    >>> latents, _ = flow(image)
    >>> [tuple(z.shape) for z in latents], bool(torch.allclose(flow.inverse(latents), image))
    ([(1, 2, 2, 2), (1, 8, 1, 1)], True)
    """

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


STEPS = 600
"""Updates where the number of epochs is not given."""
RATE = 1e-2
FIRST = 256
"""Pictures that set the scale of the layers."""


class Glow:
    """A fitted flow; made by `fit` or `from_arrays`."""

    def __init__(
        self,
        canvas: Canvas,
        *,
        levels: int,
        steps: int,
        hidden: int,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:

        if min(levels, steps, hidden) < 1:
            raise ValueError(
                f"levels, steps and hidden are {levels}, {steps}, {hidden}; at least 1 was expected of each"
            )
        self.canvas, self.sizes = canvas, (levels, steps, hidden)
        self._device, self._memory_mb = device, memory_mb
        shape = (canvas.channels, canvas.height, canvas.width)
        self._flow = Flow(*shape, levels=levels, steps=steps, hidden=hidden)

    @classmethod
    def fit(
        cls,
        images: Pictures,
        *,
        levels: int = 2,
        steps: int = 4,
        hidden: int = 16,
        epochs: int | None = None,
        side: int = 32,
        seed: int = 0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> Glow:
        """Learn from pictures; longer sides than `side` are shrunk to it. Without `epochs`, as many
        as `STEPS` updates need."""
        canvas = Canvas.of(images, side=side, multiple=2**levels)
        read, _ = canvas.read(images)
        with isolated(seed=seed) as generator:
            made = cls(
                canvas,
                levels=levels,
                steps=steps,
                hidden=hidden,
                device=device,
                memory_mb=memory_mb,
            )
            flow = made._flow.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

            def spread(batch: Any) -> Any:
                noise = torch.rand(batch.shape, generator=generator).to(device)
                return _centred(batch.float(), noise)

            def loss(batch: Any, _: Any) -> Any:
                return -flow.log_density(spread(batch)).mean() / canvas.pixels

            with torch.no_grad():
                flow(spread(torch.from_numpy(read[:FIRST]).to(device)), initialise=True)
            count = epochs_for(len(read), steps=STEPS) if epochs is None else epochs
            train(flow, loss, read, epochs=count, rate=RATE, generator=generator, device=device)
        flow.double()
        return made

    def log_likelihood(self, images: Pictures) -> np.ndarray:
        """In nats, float64, one a row; NaN where a row has no picture."""
        levels, sound = self.canvas.read(images)
        values = self._batches(lambda x: self._flow.log_density(_centred(x, 0.5)), levels)
        # From the density of numbers between -1/2 and 1/2 to that of levels.
        result = np.asarray(values, dtype=np.float64) - self.canvas.pixels * math.log(LEVELS)
        result[~sound] = np.nan
        return result

    def latents(self, images: Pictures) -> np.ndarray:
        """Standard normal numbers, as many as pixels, one row a picture; NaN where a row has no
        picture."""
        levels, sound = self.canvas.read(images)
        result = self._batches(lambda x: _joined(self._flow(_centred(x, 0.5))[0]), levels)
        result[~sound] = np.nan
        return result

    def inverse(self, latents: np.ndarray) -> np.ndarray:
        """Pictures from latents: from 0 to 1, cut off at black and white."""
        values = np.asarray(latents, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.canvas.pixels:
            raise ValueError(
                f"latents have the shape {values.shape}; (n, {self.canvas.pixels}) was expected"
            )
        centred = self._batches(lambda z: self._flow.inverse(self._parted(z)), values)
        return self.canvas.show(((centred + 0.5) * LEVELS - 0.5) / (LEVELS - 1))

    def sample(self, n: int, rng: np.random.Generator, *, temperature: float = 1.0) -> np.ndarray:
        """New pictures; a lower temperature draws likelier ones."""
        return self.inverse(temperature * rng.standard_normal((n, self.canvas.pixels)))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned, for keeping without pickle."""
        return {"canvas": self.canvas.array(), "sizes": np.array(self.sizes)} | weights_of(
            self._flow
        )

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], *, device: str = "cpu", memory_mb: int = 512
    ) -> Glow:
        """What `arrays` gave."""
        levels, steps, hidden = (int(size) for size in arrays["sizes"])
        canvas = Canvas.from_array(arrays["canvas"])
        with isolated(seed=0):
            made = cls(
                canvas,
                levels=levels,
                steps=steps,
                hidden=hidden,
                device=device,
                memory_mb=memory_mb,
            )
        fill(made._flow, arrays)
        made._flow.double().to(device)
        return made

    def _parted(self, latents: Any) -> list[Any]:
        shapes = self._flow.latent_shapes()
        parts = latents.split([math.prod(shape) for shape in shapes], dim=1)
        return [part.reshape(len(part), *shape) for part, shape in zip(parts, shapes, strict=True)]

    def _batches(self, function: Any, rows: np.ndarray) -> np.ndarray:
        # The widest layer stands on a quarter of the places, or on all where they cannot be squeezed.
        width = 4 * self.canvas.pixels + 2 * self.sizes[2] * self.canvas.height * self.canvas.width
        return in_batches(
            function, rows, width=width, memory_mb=self._memory_mb, device=self._device
        )


def _centred(levels: Any, within: Any) -> Any:
    """Between -1/2 and 1/2; `within` is the place within a level."""
    return (levels + within) / LEVELS - 0.5


def _joined(latents: list[Any]) -> Any:
    return torch.cat([latent.flatten(1) for latent in latents], dim=1)
