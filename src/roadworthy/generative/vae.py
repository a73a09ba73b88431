"""A variational autoencoder (Kingma and Welling 2014) of small pictures: what it cannot give back, it has not seen.

Arrays go in and come out. What is scored is computed at the mean of the encoder's distribution, without sampling, and in
float64, so that a picture's score is its own.

>>> shades = np.repeat(np.arange(0, 250, 10, dtype=np.uint8), 64).reshape(-1, 8, 8)
>>> vae = VAE.fit(shades, latent=2, epochs=80)
>>> errors = vae.reconstruction_error(np.stack([shades[12], np.indices((8, 8)).sum(axis=0).astype(np.uint8) % 2 * 255]))
>>> bool(errors[1] > 10 * errors[0])
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.generative.canvas import LEVELS, Canvas, Pictures
from roadworthy.generative.training import epochs_for, fill, in_batches, isolated, train, weights_of

STEPS = 800
"""Updates where the number of epochs is not given."""
RATE = 5e-3


class VAE:
    """A fitted autoencoder; made by `fit` or `from_arrays`."""

    def __init__(
        self, canvas: Canvas, *, latent: int, hidden: int, device: str = "cpu", memory_mb: int = 512
    ) -> None:
        from roadworthy.generative.coding import Coder

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
        """Learn from pictures; longer sides than `side` are shrunk to it. Without `epochs`, as many as `STEPS` updates need."""
        canvas = Canvas.of(images, side=side)
        levels, _ = canvas.read(images)
        with isolated(seed=seed) as generator:
            made = cls(canvas, latent=latent, hidden=hidden, device=device, memory_mb=memory_mb)
            coder = made._coder.to(device)

            def loss(batch: Any, generator: Any) -> Any:
                import torch

                noise = torch.randn(len(batch), latent, generator=generator).to(device)
                return -coder.evidence(_pixels(batch.float()), noise=noise).mean() / canvas.pixels

            count = epochs_for(len(levels), steps=STEPS) if epochs is None else epochs
            train(coder, loss, levels, epochs=count, rate=RATE, generator=generator, device=device)
        coder.double()
        return made

    def reconstruct(self, images: Pictures) -> np.ndarray:
        """The pictures as the model gives them back: from 0 to 1, in the canvas's size; NaN where a row has none."""
        return self.canvas.show(
            self._of_sound(images, lambda x: self._coder.decode(self._coder.encode(x)[0]))
        )

    def reconstruction_error(self, images: Pictures) -> np.ndarray:
        """The mean squared difference from the reconstruction, white being 1; NaN where a row has no picture."""
        return self._of_sound(images, self._error)

    def elbo(self, images: Pictures) -> np.ndarray:
        """The evidence lower bound in nats, at the mean of the latents; NaN where a row has no picture."""
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
