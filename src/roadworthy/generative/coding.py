"""The two networks of a variational autoencoder of small pictures: an encoder to a normal distribution, a decoder to pixels.

The decoder's normal distribution has one learned deviation for all pixels (Rybkin, Daniilidis and Levine 2021), which weighs
reconstruction against the prior by itself, whatever the contrast of the data. This module loads torch, and is itself loaded on
first use.

>>> coder = Coder(channels=1, height=8, width=8, latent=2, hidden=4)
>>> mean, log_variance = coder.encode(torch.zeros(3, 1, 8, 8))
>>> tuple(mean.shape), tuple(coder.decode(mean).shape)
((3, 2), (3, 1, 8, 8))
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

FINEST = math.log(1 / 255)
"""The decoder claims no more than a grey level."""
WIDEST = 8.0
"""No logarithm of a latent variance is larger, in either direction: its exponential stays a number."""


class Coder(nn.Module):
    """Encoder and decoder; sizes are multiples of 4."""

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
        """The lower bound of log p(x) (Kingma and Welling 2014, equation 10), at one draw of the latents or at their mean."""
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
