"""Pictures between two classes, with probabilistic labels (AmbiGuess, Weiss et al. 2023).

Two-class autoencoders (`generative.raae`) are trained for each pair of classes, several a pair, and
those whose latent space is not as it should be are rejected. Between the two classes the latent space
is cut into a grid. A cell whose centre belongs to one class by more than `delta_max` is left out;
the others are drawn in proportion to how fast the picture changes there, and a point inside
uniformly. With more than two latent dimensions, as many centres are scattered instead. The
discriminator gives the label: how much the point belongs to either class. No classifier and no score
of a supervisor takes part.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.data.samples import drawn_labels
from roadworthy.subject.trace import partial_name

if TYPE_CHECKING:  # torch is loaded when autoencoders are trained, not when components are listed
    from roadworthy.generative.raae import Form, PairAutoencoders

Pair = tuple[int, int]
FEWEST = 50
"""Pictures of a class that an autoencoder can be learned from."""

GRID = 50
"""Cells a side of the latent grid."""
ACROSS, ALONG = 1.0, 5.0
"""The grid goes from -1 to 1 between the classes, and from -5 to 5 along the other axis."""
SCATTERED = 0.2
"""Side of a cell along the other axes, where centres are scattered."""
AT_ONCE = 450
"""Autoencoders that are trained together; fewer on a processor, whose memory is small."""
AT_ONCE_CPU = 90
TRIES = 50
"""Rounds of drawing until all points are ambiguous enough."""
PIXELS_DECODED = 2**26


@dataclass(frozen=True)
class AmbiguousCases:
    """Pictures that belong to two classes."""

    images: np.ndarray
    """As the pictures learned from: same shape and type."""
    probabilities: np.ndarray
    """(cases, classes), each row sums to 1."""
    pair: np.ndarray
    """(cases, 2): the classes between which each lies."""
    autoencoder: np.ndarray
    """Which autoencoder made it, by its number among all that are accepted."""
    nothing: dict[Pair, str] = field(default_factory=dict)
    """Pairs that produced no case, and why."""

    def __len__(self) -> int:
        return len(self.images)

    def drawn_labels(self, rng: np.random.Generator) -> np.ndarray:
        """A hard label a case, drawn from its distribution."""
        return drawn_labels(self.probabilities, rng.random(len(self)))


@dataclass(frozen=True)
class FittedPairs:
    """The accepted autoencoders of all pairs, and what was rejected."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    names: tuple[str, ...]
    """Of all classes."""
    parts: list[PairAutoencoders]
    nothing: dict[Pair, str]

    def accepted(self) -> dict[Pair, list[tuple[int, int]]]:
        """By pair, its accepted autoencoders as (part, row)."""
        found: dict[Pair, list[tuple[int, int]]] = {}
        for at, part in enumerate(self.parts):
            for row, (pair, judged) in enumerate(zip(part.pairs, part.acceptance, strict=True)):
                if judged.accepted:
                    found.setdefault(pair, []).append((at, row))
        return found

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        delta_max: float = 0.25,
        use: Callable[[int], bool] = lambda number: True,
    ) -> AmbiguousCases:
        """So many cases, as many from each pair as from any other; `use` chooses autoencoders of a pair
        by their number, so that two sets can come from different ones."""
        every = {
            pair: [place for number, place in enumerate(places) if use(number)]
            for pair, places in self.accepted().items()
        }
        nothing, left = dict(self.nothing), dict[Pair, list[tuple[int, int]]]()
        grids = {at: _grid(part, delta_max) for at, part in enumerate(self.parts)}
        for pair, places in every.items():
            left[pair] = [(at, row) for at, row in places if grids[at][row].sum() > 0]
            if not left[pair]:
                nothing[pair] = f"no point between them is within delta_max {delta_max:g}"
        left = {pair: places for pair, places in left.items() if places}
        if not left:
            (first, second), why = next(iter(nothing.items()))
            raise ValueError(
                f"no case can be made between any of {len(nothing)} pairs of classes; of the first, "
                f"{self.names[first]} and {self.names[second]}: {why}"
            )
        share = dict(zip(left, _spread(n, len(left)), strict=True))
        wanted: dict[tuple[int, int], int] = {}
        for pair, places in left.items():
            wanted.update(zip(places, _spread(share[pair], len(places)), strict=True))
        return self._made(wanted, grids, rng, delta_max, nothing)

    def _made(
        self,
        wanted: dict[tuple[int, int], int],
        grids: dict[int, np.ndarray],
        rng: np.random.Generator,
        delta_max: float,
        nothing: dict[Pair, str],
    ) -> AmbiguousCases:
        images, probabilities, pairs, numbers = [], [], [], []
        every = [place for places in self.accepted().values() for place in places]
        for (at, row), count in wanted.items():
            if not count:
                continue
            part = self.parts[at]
            z = _points(part, row, grids[at][row], count, rng, delta_max)
            one = _One(part, row)
            second = one.second_class(z)
            images.append(_pictures(one.decode(z), self.shape, self.dtype))
            first_class, second_class = part.pairs[row]
            table = np.zeros((count, len(self.names)))
            table[:, first_class], table[:, second_class] = 1 - second, second
            probabilities.append(table)
            pairs.append(np.tile(part.pairs[row], (count, 1)))
            numbers.append(np.full(count, every.index((at, row))))
        order = rng.permutation(sum(map(len, images)))
        columns = (images, probabilities, pairs, numbers)
        joined = [np.concatenate(parts)[order] for parts in columns]
        return AmbiguousCases(joined[0], joined[1], joined[2], joined[3], nothing)


def fit_pairs(
    images: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    pairs: Sequence[Pair] | None = None,
    autoencoders: int = 2,
    epochs: int | None = None,
    form: Form | None = None,
    seed: int = 0,
    device: str = "cpu",
    names: Sequence[str] | None = None,
    together: int | None = None,
    keep: Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> FittedPairs:
    """Train `autoencoders` for each pair, so many `together`; with `keep`, those that are trained are
    found again in that folder."""
    import torch

    from roadworthy.generative.raae import Form, PairAutoencoders

    form = form or Form()
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"device is {device}, and torch finds no GPU; write device: cpu")
    if progress is not None:
        progress(0.0)
    if images.dtype.kind not in "uf" or images.ndim < 3:
        raise ValueError(
            f"images are {images.dtype} of shape {images.shape}; images (n, height, width, …) were expected"
        )
    if images.dtype.kind == "f" and (images.min() < 0 or images.max() > 1):
        raise ValueError(
            f"images are floats from {images.min():.3g} to {images.max():.3g}; from 0 to 1 was expected"
        )
    called = tuple(names or (f"class {c}" for c in range(classes)))
    counts = np.bincount(labels, minlength=classes)
    every = list(pairs) if pairs is not None else list(itertools.combinations(range(classes), 2))
    few = {p: min(p, key=lambda c: counts[c]) for p in every if min(counts[list(p)]) < FEWEST}
    nothing = {
        p: f"{called[c]} has {counts[c]} images; {FEWEST} or more were expected"
        for p, c in few.items()
    }
    todo = [p for _ in range(autoencoders) for p in every if p not in few]
    white = 1.0 if images.dtype.kind == "f" else float(np.iinfo(images.dtype).max)
    pixels = images.astype(np.float32) / white
    size = together or (AT_ONCE_CPU if device == "cpu" else AT_ONCE)
    blocks = [todo[s : s + size] for s in range(0, len(todo), size)]
    key = hashlib.blake2b(digest_size=8)
    for array in (images, labels):
        key.update(np.ascontiguousarray(array).tobytes())
    key.update(repr((epochs, seed, size, tuple(form))).encode())
    parts = []
    for number, block in enumerate(blocks):
        file = (
            None if keep is None else keep / f"pairs-{key.hexdigest()}-{_name(block)}-{number}.npz"
        )
        if file is not None and file.exists():
            with np.load(file, allow_pickle=False) as kept:
                parts.append(PairAutoencoders.from_arrays(dict(kept), device=device))
        else:
            parts.append(
                PairAutoencoders.fit(
                    pixels, labels, block, form=form, epochs=epochs, seed=seed + 1000 * number,
                    device=device, progress=_part_of(progress, number, len(blocks)),
                )
            )  # fmt: skip
            if file is not None:
                keep_arrays(file, parts[-1].arrays())
        if progress is not None:
            progress((number + 1) / len(blocks))
    found = FittedPairs(images.shape[1:], images.dtype, called, parts, nothing)
    for pair in every:
        if pair not in nothing and pair not in found.accepted():
            nothing[pair] = _rejected(pair, parts)
    return found


def _part_of(
    progress: Callable[[float], None] | None, number: int, blocks: int
) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress((number + share) / blocks)


def _name(block: Sequence[Pair]) -> str:
    return hashlib.blake2b(repr(list(block)).encode(), digest_size=4).hexdigest()


def keep_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an npz file under a temporary name first, so that a file that is there is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    half = partial_name(file)
    with half.open("wb") as to:
        np.savez(to, **arrays)  # type: ignore[arg-type]
    half.rename(file)


def _rejected(pair: Pair, parts: Sequence[PairAutoencoders]) -> str:
    """Why all autoencoders of a pair are rejected: the reason of the one that comes nearest."""
    judged = [
        a for part in parts for p, a in zip(part.pairs, part.acceptance, strict=True) if p == pair
    ]
    nearest = max(judged, key=lambda a: min(a.two_class, 0.9) - max(0.0, abs(a.fooled - 0.5) - 0.1))
    return f"all {len(judged)} autoencoders are rejected; of the best one {nearest.reason}"


@dataclass(frozen=True)
class _One:
    """One autoencoder of many: points (n, latent) in, rows out."""

    part: PairAutoencoders
    row: int

    def second_class(self, z: np.ndarray) -> np.ndarray:
        return self.part.one(self.row).second_class(z[None])[0]

    def decode(self, z: np.ndarray) -> np.ndarray:
        return self.part.one(self.row).decode(z[None])[0]


def _centres(latent: int) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each grid cell, (cells, latent), and the sides of a cell."""
    across = (np.arange(GRID) + 0.5) / GRID * 2 * ACROSS - ACROSS
    if latent == 2:
        along = (np.arange(GRID) + 0.5) / GRID * 2 * ALONG - ALONG
        centres = np.stack(np.meshgrid(across, along, indexing="ij"), axis=-1).reshape(-1, 2)
        return centres, np.array([2 * ACROSS, 2 * ALONG]) / GRID
    centres = np.random.default_rng(0).normal(size=(GRID**2, latent))
    centres[:, 0] = np.repeat(across, GRID)
    return centres, np.array([2 * ACROSS / GRID] + [SCATTERED] * (latent - 1))


def _grid(part: PairAutoencoders, delta_max: float) -> np.ndarray:
    """By autoencoder, how often each cell is drawn from: 0 if its centre is not ambiguous enough."""
    centres, _ = _centres(part.form.latent)
    centres = np.broadcast_to(centres, (len(part.pairs), *centres.shape))
    apart = np.abs(2 * part.second_class(centres) - 1)
    found = np.empty(apart.shape)
    width = part.pixels + 8 * part.form.channels * part.pixels  # maps of a convolution are wider
    for cells in _slices(GRID**2, len(part.pairs) * width):
        found[:, cells] = part.density(centres[:, cells])
    return np.where(apart <= delta_max, found, 0.0)


def _slices(total: int, width: int) -> Iterator[slice]:
    size = max(1, PIXELS_DECODED // width)
    return (slice(s, s + size) for s in range(0, total, size))


def _points(
    part: PairAutoencoders,
    row: int,
    weights: np.ndarray,
    count: int,
    rng: np.random.Generator,
    delta_max: float,
) -> np.ndarray:
    """Latent points inside drawn cells, each ambiguous enough itself."""
    centres, size = _centres(part.form.latent)
    one, found = _One(part, row), np.empty((0, part.form.latent))
    for _ in range(TRIES):
        cells = rng.choice(len(centres), count, p=weights / weights.sum())
        z = centres[cells] + (rng.random((count, len(size))) - 0.5) * size
        good = np.abs(2 * one.second_class(z) - 1) <= delta_max
        found = np.concatenate([found, z[good]])
        if len(found) >= count:
            return found[:count]
    return np.concatenate([found, centres[cells]])[:count]  # centres are ambiguous enough


def _pictures(
    decoded: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> np.ndarray:
    """As the pictures learned from."""
    if dtype.kind != "f":
        decoded = np.rint(decoded * np.iinfo(dtype).max)  # type: ignore[type-var]
    return decoded.astype(dtype).reshape(-1, *shape)


def _spread(total: int, over: int) -> list[int]:
    """So many in nearly equal parts.

    >>> _spread(7, 3)
    [3, 2, 2]
    """
    return [total // over + (k < total % over) for k in range(over)]
