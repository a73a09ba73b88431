"""A variational autoencoder (Kingma and Welling 2014) of small pictures: what it cannot give back,
it has not seen.

Arrays go in and come out. What is scored is computed at the mean of the encoder's distribution,
without sampling, and in float64, so that a picture's score is its own.

>>> shades = np.repeat(np.arange(0, 250, 10, dtype=np.uint8), 64).reshape(-1, 8, 8)
>>> vae = VAE.fit(shades, latent=2, epochs=80)
>>> errors = vae.reconstruction_error(np.stack([shades[12], np.indices((8, 8)).sum(axis=0).astype(np.uint8) % 2 * 255]))
>>> bool(errors[1] > 10 * errors[0])
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.generative.canvas import LEVELS, Canvas, Pictures
from roadworthy.generative.training import epochs_for, fill, in_batches, isolated, train, weights_of

FINEST = math.log(1 / 255)
"""The decoder claims no more than a grey level."""
WIDEST = 8.0
"""No logarithm of a latent variance is larger, in either direction: its exponential stays a number.
"""


class Coder(nn.Module):
    """The two networks of a variational autoencoder: an encoder to a normal distribution, a decoder to
    pixels; sizes are multiples of 4.

    The decoder's normal distribution has one learned deviation for all pixels (Rybkin, Daniilidis
    and Levine 2021), which weighs reconstruction against the prior by itself, whatever the contrast
    of the data.

    >>> coder = Coder(channels=1, height=8, width=8, latent=2, hidden=4)
    >>> mean, log_variance = coder.encode(torch.zeros(3, 1, 8, 8))
    >>> tuple(mean.shape), tuple(coder.decode(mean).shape)
    ((3, 2), (3, 1, 8, 8))
    """

    def __init__(self, channels: int, height: int, width: int, *, latent: int, hidden: int) -> None:
        super().__init__()
        inner = (2 * hidden, height // 4, width // 4)
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, hidden, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, 2 * hidden, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(math.prod(inner), 2 * latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, math.prod(inner)),
            nn.ReLU(),
            nn.Unflatten(1, inner),
            nn.ConvTranspose2d(2 * hidden, hidden, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(hidden, channels, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )
        # Small at first, or the prior outweighs the pictures before the latents have come to mean anything.
        self.log_deviation = nn.Parameter(torch.tensor(-4.0))

    def encode(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of the latents of pixels from 0 to 1."""
        mean, raw = self.encoder(pixels).chunk(2, dim=1)
        return mean, WIDEST * torch.tanh(raw / WIDEST)

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels from 0 to 1."""
        pixels: Tensor = self.decoder(latents)
        return pixels

    def evidence(self, pixels: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The lower bound of log p(x) (Kingma and Welling 2014, equation 10), at one draw of the
        latents or at their mean."""
        mean, log_variance = self.encode(pixels)
        latents = mean if noise is None else mean + noise * (0.5 * log_variance).exp()
        log_deviation = self.log_deviation.clamp(min=FINEST)
        missed = (pixels - self.decode(latents)) * (-log_deviation).exp()
        fits = -(0.5 * missed.square() + log_deviation + 0.5 * math.log(2 * math.pi)).sum(
            dim=(1, 2, 3)
        )
        apart = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)
        bound: Tensor = fits - apart
        return bound


STEPS = 800
"""Updates where the number of epochs is not given."""
RATE = 5e-3


class VAE:
    """A fitted autoencoder; made by `fit` or `from_arrays`."""

    def __init__(
        self, canvas: Canvas, *, latent: int, hidden: int, device: str = "cpu", memory_mb: int = 512
    ) -> None:

        if latent < 1 or hidden < 1:
            raise ValueError(
                f"latent is {latent} and hidden {hidden}; at least 1 was expected of each"
            )
        self.canvas, self.latent, self.hidden = canvas, latent, hidden
        self._device, self._memory_mb = device, memory_mb
        self._coder = Coder(
            canvas.channels, canvas.height, canvas.width, latent=latent, hidden=hidden
        )

    @classmethod
    def fit(
        cls,
        images: Pictures,
        *,
        latent: int = 16,
        hidden: int = 16,
        epochs: int | None = None,
        side: int = 32,
        seed: int = 0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> VAE:
        """Learn from pictures; longer sides than `side` are shrunk to it. Without `epochs`, as many
        as `STEPS` updates need."""
        canvas = Canvas.of(images, side=side)
        levels, _ = canvas.read(images)
        with isolated(seed=seed) as generator:
            made = cls(canvas, latent=latent, hidden=hidden, device=device, memory_mb=memory_mb)
            coder = made._coder.to(device)

            def loss(batch: Any, generator: Any) -> Any:

                noise = torch.randn(len(batch), latent, generator=generator).to(device)
                return -coder.evidence(_pixels(batch.float()), noise=noise).mean() / canvas.pixels

            count = epochs_for(len(levels), steps=STEPS) if epochs is None else epochs
            train(coder, loss, levels, epochs=count, rate=RATE, generator=generator, device=device)
        coder.double()
        return made

    def reconstruct(self, images: Pictures) -> np.ndarray:
        """The pictures as the model gives them back: from 0 to 1, in the canvas's size; NaN where a
        row has none."""
        return self.canvas.show(
            self._of_sound(images, lambda x: self._coder.decode(self._coder.encode(x)[0]))
        )

    def reconstruction_error(self, images: Pictures) -> np.ndarray:
        """The mean squared difference from the reconstruction, white being 1; NaN where a row has
        no picture."""
        return self._of_sound(images, self._error)

    def elbo(self, images: Pictures) -> np.ndarray:
        """The evidence lower bound in nats, at the mean of the latents; NaN where a row has no
        picture."""
        return self._of_sound(images, self._coder.evidence)

    def encode(self, images: Pictures) -> np.ndarray:
        """The means of the latents, (n, latent)."""
        return self._of_sound(images, lambda x: self._coder.encode(x)[0])

    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Pictures from latents, from 0 to 1."""
        values = np.asarray(latents, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.latent:
            raise ValueError(
                f"latents have the shape {values.shape}; (n, {self.latent}) was expected"
            )
        return self.canvas.show(self._batches(self._coder.decode, values))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """New pictures: latents from the prior, decoded."""
        return self.decode(rng.standard_normal((n, self.latent)))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned, for keeping without pickle."""
        sizes = np.array([self.latent, self.hidden])
        return {"canvas": self.canvas.array(), "sizes": sizes} | weights_of(self._coder)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], *, device: str = "cpu", memory_mb: int = 512
    ) -> VAE:
        """What `arrays` gave."""
        latent, hidden = (int(size) for size in arrays["sizes"])
        canvas = Canvas.from_array(arrays["canvas"])
        with isolated(seed=0):
            made = cls(canvas, latent=latent, hidden=hidden, device=device, memory_mb=memory_mb)
        fill(made._coder, arrays)
        made._coder.double().to(device)
        return made

    def _error(self, pixels: Any) -> Any:
        again = self._coder.decode(self._coder.encode(pixels)[0])
        return (pixels - again).square().mean(dim=(1, 2, 3))

    def _of_sound(self, images: Pictures, function: Any) -> np.ndarray:
        levels, sound = self.canvas.read(images)
        values = self._batches(lambda x: function(_pixels(x)), levels)
        result = np.asarray(values, dtype=np.float64)
        result[~sound] = np.nan
        return result

    def _batches(self, function: Any, rows: np.ndarray) -> np.ndarray:
        width = self.canvas.pixels + self.hidden * self.canvas.height * self.canvas.width
        return in_batches(
            function, rows, width=width, memory_mb=self._memory_mb, device=self._device
        )


def _pixels(levels: Any) -> Any:
    """From 0 to 1."""
    return levels / (LEVELS - 1)
