"""Glow (Kingma and Dhariwal 2018): how likely a picture is, exactly, by a chain of invertible layers.

Pixels are 256 levels. In training each is spread over its level by uniform noise, which makes the density a lower bound of the
levels' probability (Theis, van den Oord and Bethge 2016); when pictures are scored, each stands in the middle of its level, so that
a picture's likelihood is its own. Likelihoods are in nats of the picture as the canvas holds it.

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

from roadworthy.generative.canvas import LEVELS, Canvas, Pictures
from roadworthy.generative.training import (
    epochs_for,
    fill,
    in_batches,
    isolated,
    torch_module,
    train,
    weights_of,
)

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
        from roadworthy.generative.flow import Flow

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
        """Learn from pictures; longer sides than `side` are shrunk to it. Without `epochs`, as many as `STEPS` updates need."""
        torch = torch_module()
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
        """Standard normal numbers, as many as pixels, one row a picture; NaN where a row has no picture."""
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
    return torch_module().cat([latent.flatten(1) for latent in latents], dim=1)
