"""Regularised adversarial autoencoders of two classes, many in one tensor program (Weiss et al. 2023).

Each autoencoder learns the pictures of one pair of classes; its latent space is pressed onto two
normal distributions, one a class, with empty space between them (Makhzani et al. 2015). The
discriminator is asked whether a latent point, joined with a class, is a draw from that class's
distribution; between the two distributions it says how much a point belongs to either. Layers hold
the weights of all autoencoders side by side, so that training 45 of them is one sequence of batched
products. They share no weight. A `Form` with convolutions and more latent dimensions gives sharper
pictures than the paper's, at a higher cost.

>>> rng = np.random.default_rng(0)
>>> shades = np.r_[rng.integers(0, 80, (300, 16)), rng.integers(170, 250, (300, 16))].astype(np.float32) / 255
>>> made = PairAutoencoders.fit(shades, np.repeat([0, 1], 300), [(0, 1)], epochs=30, batch=100)
>>> middle = made.decode(np.zeros((1, 1, 2)))[0, 0].mean()
>>> bool(0.2 < middle < 0.8)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from roadworthy.generative.training import isolated

CENTRE = 3.0
"""The classes' normal distributions are centred at -3 and 3 on the first latent axis."""
SLOPE = 0.3
"""Of a leaky unit, as in the authors' framework."""
DROPOUT = 0.1
FOOLED = (0.4, 0.6)
"""Accepted, if the discriminator tells encoded pictures from draws this well: hardly at all."""
TWO_CLASS = 0.9
"""Accepted, if it assigns so many pictures to their own class."""
STEPS = 12
"""Steps an epoch on whole MNIST, where batches are of 1,000; smaller sets have smaller batches."""
SMALLEST_BATCH, LARGEST_BATCH = 32, 1000
EPOCHS = 80
CONVOLVED_STEPS, LARGEST_CONVOLVED_BATCH = 2400, 200
"""Convolutions with more latent dimensions need more steps, and learn from smaller batches."""
CONVOLVED_FOOLING = 1.5
"""Their encoder has to fool in more dimensions: so much faster it learns to."""


class _Dense(nn.Module):
    """A layer of many networks: weights (networks, inputs, outputs)."""

    def __init__(self, networks: int, inputs: int, outputs: int) -> None:
        super().__init__()
        limit = math.sqrt(6 / (inputs + outputs))
        self.weight = nn.Parameter((torch.rand(networks, inputs, outputs) * 2 - 1) * limit)
        self.bias = nn.Parameter(torch.zeros(networks, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class _Unit(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(functional.leaky_relu(x, SLOPE), DROPOUT, self.training)


def _network(networks: int, inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        _Dense(networks, inputs, hidden),
        _Unit(),
        _Dense(networks, hidden, hidden),
        _Unit(),
        _Dense(networks, hidden, outputs),
    )


class Form(NamedTuple):
    """What each autoencoder is built of; the default is the paper's."""

    hidden: int = 128
    """Units of a dense layer."""
    latent: int = 2
    channels: int = 0
    """Channels of the outer convolution; 0: layers are dense."""


CONVOLUTIONAL = Form(latent=8, channels=16)
"""Our variant, with sharper and more diverse pictures."""


class _Maps(nn.Module):
    """From rows of pixels to maps that convolutions of many networks read, or back: (networks, rows,
    values) is (rows, networks x channels, height, width)."""

    def __init__(
        self, networks: int, channels: int, height: int, width: int, *, back: bool
    ) -> None:
        super().__init__()
        self.form, self.back = (networks, channels, height, width), back

    def forward(self, x: Tensor) -> Tensor:
        networks, channels, height, width = self.form
        if self.back:
            return x.unflatten(1, (networks, -1)).transpose(0, 1).flatten(2)
        return x.unflatten(2, (channels, height, width)).transpose(0, 1).flatten(1, 2)


class _Frame(nn.Module):
    """Pixels in rows (height, width, colours) as maps whose sides are multiples of four, or back."""

    def __init__(self, shape: tuple[int, ...], *, back: bool) -> None:
        super().__init__()
        self.height, self.width, self.colours = (*shape, 1)[:3]
        self.back = back

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the maps."""
        return -(-self.height // 4) * 4, -(-self.width // 4) * 4

    def forward(self, x: Tensor) -> Tensor:
        high, wide = self.sides
        if self.back:
            maps = x.unflatten(2, (self.colours, high, wide))[..., : self.height, : self.width]
            return maps.movedim(2, 4).flatten(2)
        maps = x.unflatten(2, (self.height, self.width, self.colours)).movedim(4, 2)
        return functional.pad(maps, (0, wide - self.width, 0, high - self.height)).flatten(2)


def _coders(networks: int, shape: tuple[int, ...], form: Form) -> tuple[nn.Module, nn.Module]:
    """Encoders and decoders."""
    if not form.channels:
        pixels = math.prod(shape)
        return (
            _network(networks, pixels, form.hidden, form.latent),
            _network(networks, form.latent, form.hidden, pixels),
        )
    inward, outward = _Frame(shape, back=False), _Frame(shape, back=True)
    high, wide = inward.sides
    few, more, inner = form.channels, 2 * form.channels, high * wide // 16
    halving = partial(nn.Conv2d, kernel_size=4, stride=2, padding=1, groups=networks)
    doubling = partial(nn.ConvTranspose2d, kernel_size=4, stride=2, padding=1, groups=networks)
    colours = inward.colours
    encoder = nn.Sequential(
        inward,
        _Maps(networks, colours, high, wide, back=False),
        halving(networks * colours, networks * few),
        _Unit(),
        halving(networks * few, networks * more),
        _Maps(networks, more, high // 4, wide // 4, back=True),
        _Unit(),
        _Dense(networks, more * inner, form.hidden),
        _Unit(),
        _Dense(networks, form.hidden, form.latent),
    )
    decoder = nn.Sequential(
        _Dense(networks, form.latent, more * inner),
        _Unit(),
        _Maps(networks, more, high // 4, wide // 4, back=False),
        doubling(networks * more, networks * few),
        _Unit(),
        doubling(networks * few, networks * colours),
        _Maps(networks, colours, high, wide, back=True),
        outward,
    )
    return encoder, decoder


@dataclass(frozen=True)
class Acceptance:
    """What one autoencoder's latent space came to look like."""

    fooled: float
    """The discriminator's accuracy at telling encoded pictures from draws; 0.5 is ideal."""
    two_class: float
    """Share of pictures that it assigns to their own class."""

    @property
    def accepted(self) -> bool:
        """Whether the latent space is as it should be."""
        return FOOLED[0] <= self.fooled <= FOOLED[1] and self.two_class >= TWO_CLASS

    @property
    def reason(self) -> str:
        """Why it is rejected; empty if it is not."""
        if not FOOLED[0] <= self.fooled <= FOOLED[1]:
            return f"the discriminator tells {self.fooled:.0%} of latent points from draws"
        if self.two_class < TWO_CLASS:
            return f"only {self.two_class:.0%} of the pictures are assigned to their own class"
        return ""


class PairAutoencoders(nn.Module):
    """Fitted autoencoders, one a row of `pairs`; made by `fit` or `from_arrays`."""

    def __init__(
        self, pairs: Sequence[tuple[int, int]], shape: tuple[int, ...], form: Form
    ) -> None:
        super().__init__()
        self.pairs: list[tuple[int, int]] = [(a, b) for a, b in pairs]
        self.shape, self.form = shape, form
        count = len(self.pairs)
        self.encoder, self.decoder = _coders(count, shape, form)
        self.discriminator = _network(count, form.latent + 2, form.hidden, 1)
        self.acceptance: list[Acceptance] = []

    @property
    def pixels(self) -> int:
        """Numbers a picture."""
        return math.prod(self.shape)

    @classmethod
    def fit(
        cls,
        images: np.ndarray,
        labels: np.ndarray,
        pairs: Sequence[tuple[int, int]],
        *,
        form: Form = Form(),  # noqa: B008
        epochs: int | None = None,
        batch: int | None = None,
        rate: float = 1e-3,
        seed: int = 0,
        device: str = "cpu",
        progress: Callable[[float], None] | None = None,
    ) -> PairAutoencoders:
        """Learn from pictures (n, …), white being 1; a pair may occur several times.

        Without `batch`, an epoch has 12 steps as in the paper, with batches of at most 1,000; without
        `epochs`, there are 80.
        """
        rows = [np.flatnonzero(np.isin(labels, pair)) for pair in pairs]
        with isolated(seed=seed), _short_products():
            made = cls(pairs, images.shape[1:], form).to(device)
            on_device = torch.device(device)
            pixels = torch.as_tensor(images, dtype=torch.float32, device=on_device).flatten(1)
            index = _Rows.of(rows, labels, pairs, on_device)
            if on_device.type == "cuda":
                torch.cuda.manual_seed(seed)
            largest = LARGEST_CONVOLVED_BATCH if form.channels else LARGEST_BATCH
            size = batch or min(largest, max(SMALLEST_BATCH, index.longest // STEPS))
            size = min(size, index.longest)
            enough = math.ceil(CONVOLVED_STEPS / (index.longest // size))
            count = epochs or (enough if form.channels else EPOCHS)
            made._train_all(pixels, index, count, size, rate, progress)
            made.eval()
            made.acceptance = made._judged(pixels, index)
        return made

    def _train_all(
        self,
        pixels: Tensor,
        index: _Rows,
        epochs: int,
        batch: int,
        rate: float,
        progress: Callable[[float], None] | None,
    ) -> None:
        """Three steps a batch: reconstruct, tell encoded from drawn, and fool."""
        coder = [*self.encoder.parameters(), *self.decoder.parameters()]
        fooling = rate * (CONVOLVED_FOOLING if self.form.channels else 1.0)
        optimisers = [
            torch.optim.Adam(parameters, lr=speed)
            for parameters, speed in (
                (coder, rate),
                (self.discriminator.parameters(), rate),
                (self.encoder.parameters(), fooling),
            )
        ]
        self.train()
        for epoch in range(epochs):
            for picked, of_second in index.batches(batch):
                x = pixels[picked]
                self._step(optimisers, x, of_second)
            if progress is not None:
                progress((epoch + 1) / epochs)

    def _step(self, optimisers: Sequence[torch.optim.Optimizer], x: Tensor, second: Tensor) -> None:
        rebuild, tell, fool = optimisers
        rebuild.zero_grad(set_to_none=True)
        # Losses are means over one autoencoder's pictures, summed over autoencoders: each has the
        # gradient that it would have alone.
        squares = (torch.sigmoid(self.decoder(self.encoder(x))) - x).square()
        squares.mean(dim=(1, 2)).sum().backward()
        rebuild.step()
        tell.zero_grad(set_to_none=True)
        with torch.no_grad():
            encoded = self.encoder(x)
            drawn = _drawn(second, self.form.latent)
        said = [self.discriminator(_joined(z, second)) for z in (drawn, encoded)]
        (_bce(said[0], 1.0) + _bce(said[1], 0.0)).backward()
        tell.step()
        fool.zero_grad(set_to_none=True)
        _bce(self.discriminator(_joined(self.encoder(x), second)), 1.0).backward()
        fool.step()

    @torch.no_grad()
    def _judged(self, pixels: Tensor, index: _Rows) -> list[Acceptance]:
        """How each discriminator does on its pictures."""
        zero = torch.zeros(len(self.pairs), device=pixels.device)
        right, own, n = zero, zero, 0
        for picked, second in index.batches(min(1000, index.longest)):
            z = self.encoder(pixels[picked])
            drawn = self.discriminator(_joined(_drawn(second, self.form.latent), second)) > 0
            taken = self.discriminator(_joined(z, second))
            right = right + (drawn.float().sum((1, 2)) + (taken <= 0).float().sum((1, 2))) / 2
            own = own + (taken > self.discriminator(_joined(z, 1 - second))).float().sum((1, 2))
            n += picked.shape[1]
        fooled, two_class = (np.asarray((total / n).cpu()) for total in (right, own))
        return [Acceptance(float(f), float(t)) for f, t in zip(fooled, two_class, strict=True)]

    @torch.no_grad()
    def decode(self, latents: np.ndarray) -> np.ndarray:
        """Pictures (autoencoders, points, pixels) of latent points (autoencoders, points, latent), white being 1."""
        return np.asarray(torch.sigmoid(self.decoder(self._tensor(latents))).cpu())

    @torch.no_grad()
    def second_class(self, latents: np.ndarray) -> np.ndarray:
        """How much latent points belong to the second class of the pair, from 0 to 1."""
        z = self._tensor(latents)
        ones = z.new_ones(z.shape[:2])
        one, other = (
            torch.sigmoid(self.discriminator(_joined(z, s * ones)))[..., 0] for s in (0, 1)
        )
        return np.asarray((other / (one + other).clamp_min(1e-12)).cpu())

    @torch.no_grad()
    def density(self, latents: np.ndarray, *, step: float = 1e-3) -> np.ndarray:
        """How fast the picture changes around latent points: the norm of the decoder's gradient."""
        z = self._tensor(latents)
        total = torch.zeros(z.shape[:2], device=z.device)
        for axis in range(self.form.latent):
            shift = torch.zeros(self.form.latent, device=z.device)
            shift[axis] = step
            ahead, behind = (torch.sigmoid(self.decoder(z + s * shift)) for s in (1, -1))
            total = total + ((ahead - behind) / (2 * step)).square().sum(dim=2)
        return np.asarray(total.sqrt().cpu())

    def _tensor(self, latents: np.ndarray) -> Tensor:
        device = next(self.decoder.parameters()).device
        return torch.tensor(np.asarray(latents), dtype=torch.float32, device=device)

    def one(self, row: int) -> PairAutoencoders:
        """One of them alone, sharing its weights."""
        with torch.device("meta"):
            alone = PairAutoencoders([self.pairs[row]], self.shape, self.form)
        own = {
            name: weights.unflatten(0, (len(self.pairs), -1))[row]
            for name, weights in self.state_dict().items()
        }
        alone.load_state_dict(own, assign=True)
        return alone.eval()

    def arrays(self) -> dict[str, np.ndarray]:
        """What sampling needs, for keeping without pickle: decoders, discriminators, acceptance."""
        kept = {k: v for k, v in self.state_dict().items() if not k.startswith("encoder")}
        judged = np.array([(a.fooled, a.two_class) for a in self.acceptance])
        sizes = np.array([*self.form, *self.shape])
        arrays = {k: v.cpu().numpy() for k, v in kept.items()}
        return {"pairs": np.array(self.pairs), "sizes": sizes, "acceptance": judged, **arrays}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], *, device: str = "cpu"
    ) -> PairAutoencoders:
        """What `arrays` gave; it decodes and labels, and cannot encode."""
        sizes = tuple(int(s) for s in arrays["sizes"])
        form, shape = Form(*sizes[:3]), sizes[3:]
        with isolated(seed=0):
            made = cls([(int(a), int(b)) for a, b in arrays["pairs"]], shape, form)
        state = {k: torch.as_tensor(np.array(v)) for k, v in arrays.items() if "." in k}
        made.load_state_dict(state, strict=False)
        made.acceptance = [Acceptance(float(f), float(t)) for f, t in arrays["acceptance"]]
        return made.to(device).eval()


@contextmanager
def _short_products() -> Iterator[None]:
    """On a GPU, products of float32 rounded to ten bits: four times as fast, and enough to learn."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _drawn(second: Tensor, latent: int) -> Tensor:
    """Draws from the normal distribution of each row's class."""
    z = torch.randn(*second.shape, latent, device=second.device)
    z[..., 0] += CENTRE * (2 * second - 1)
    return z


def _joined(z: Tensor, second: Tensor) -> Tensor:
    """Latent points with their class as one-hot."""
    return torch.cat([z, (1 - second)[..., None], second[..., None]], dim=2)


def _bce(logits: Tensor, target: float) -> Tensor:
    """Cross-entropy from logits, a mean over rows, summed over autoencoders."""
    loss = functional.softplus(-logits) if target else functional.softplus(logits)
    return loss.mean(dim=(1, 2)).sum()


@dataclass(frozen=True)
class _Rows:
    """The pictures of each autoencoder's pair, padded to one length by repetition."""

    index: Tensor
    """(autoencoders, longest): rows of the pictures."""
    second: Tensor
    """Whether the picture there is of the pair's second class, 0 or 1."""

    @classmethod
    def of(
        cls,
        rows: Sequence[np.ndarray],
        labels: np.ndarray,
        pairs: Sequence[tuple[int, int]],
        device: torch.device,
    ) -> _Rows:
        longest = max(len(r) for r in rows)
        index = np.stack([np.resize(r, longest) for r in rows])
        second = np.stack(
            [labels[i] == pair[1] for i, pair in zip(index, pairs, strict=True)]
        ).astype(np.float32)
        return cls(torch.as_tensor(index, device=device), torch.as_tensor(second, device=device))

    @property
    def longest(self) -> int:
        """Pictures of the largest pair."""
        return int(self.index.shape[1])

    def batches(self, size: int) -> list[tuple[Tensor, Tensor]]:
        """All pictures once, each autoencoder in an order of its own; the last rows that fill no
        batch are left out."""
        order = torch.rand(self.index.shape, device=self.index.device).argsort(dim=1)
        index, second = self.index.gather(1, order), self.second.gather(1, order)
        starts = range(0, self.longest - size + 1, size)
        return [(index[:, s : s + size], second[:, s : s + size]) for s in starts]
