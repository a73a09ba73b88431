"""How pictures become what a generative model reads: 256 grey levels a channel, on a canvas of one size.

Sizes are those of the first picture, or of as much of it as `side` allows, rounded to a `multiple` that can be halved; pictures
of another size are averaged over areas. Reading levels rather than numbers makes one picture in uint8, float16 and float32 the
same to the model, gives pixels a probability, and keeps what no picture can hold (a pixel of 1e30) from overflowing.

>>> canvas = Canvas.of(np.zeros((2, 30, 45), np.uint8), side=32)
>>> canvas.height, canvas.width, canvas.channels
(20, 32, 1)
>>> levels, sound = canvas.read([np.full((30, 45), 0.2), np.full((60, 90), 51, np.uint8), None])
>>> levels.shape, sound.tolist(), levels.max(axis=(1, 2, 3)).tolist()
((3, 1, 20, 32), [True, True, False], [51, 51, 0])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import described

LEVELS = 256
FULL_SCALE = {np.dtype(np.uint8): 255.0, np.dtype(np.uint16): 65535.0, np.dtype(np.bool_): 1.0}
"""What white is, by type; for other types it is learned from the pictures."""
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in grey: ITU-R BT.601."""
AT_ONCE = 2**22
"""Numbers read at once."""
Pictures = np.ndarray | Sequence[Any]


@dataclass(frozen=True)
class Canvas:
    """The size and the channels that every picture is brought to."""

    height: int
    width: int
    channels: int
    """1 (grey) or 3; a fourth, alpha, is dropped."""
    white: float = 1.0
    """What white is in pictures whose type does not say it."""
    flat: bool = True
    """Whether pictures came, and go, without an axis for channels."""

    @classmethod
    def of(cls, pictures: Pictures, *, side: int = 32, multiple: int = 4) -> Canvas:
        """A canvas for these pictures; what is no picture, or has pixels that are no numbers, is refused."""
        if len(pictures) == 0:
            raise ValueError("a generative model is fitted on pictures, and there are none")
        if side < multiple:
            raise ValueError(f"side is {side}; at least {multiple} was expected")
        shapes = _shapes(pictures)
        broken = sum(int((~_finite(block)).sum()) for _, block in _blocks(pictures))
        if broken:
            raise ValueError(
                f"{broken} of {len(pictures)} pictures have NaN or infinite pixels; leave them out of what the model is fitted on"
            )
        shrunk = min(1.0, side / max(shapes[0][:2]))
        height, width = (
            max(multiple, round(edge * shrunk) // multiple * multiple) for edge in shapes[0][:2]
        )
        flat = all(len(shape) == 2 for shape in shapes)
        channels = max(1 if len(shape) == 2 or shape[2] == 1 else 3 for shape in shapes)
        return cls(height, width, channels, _white(pictures), flat)

    @property
    def pixels(self) -> int:
        """Numbers a picture."""
        return self.height * self.width * self.channels

    def read(self, pictures: Pictures) -> tuple[np.ndarray, np.ndarray]:
        """Levels, uint8 of shape (n, channels, height, width), and which rows hold a picture of finite pixels.

        Pixels beyond black and white are cut off. A row of None, or with NaN, is black, and marked.
        """
        sound = np.zeros(len(pictures), dtype=bool)
        levels = np.zeros((len(pictures), self.channels, self.height, self.width), dtype=np.uint8)
        for rows, block in _blocks(pictures):
            finite = _finite(block)[:, None, None, None]
            values = np.where(finite, block.reshape(*block.shape[:3], -1), 0)
            scale = self._scale(values)
            # Cut off before the type is changed: float32 holds less than float64.
            values = np.clip(values, 0, scale).astype(np.float32) / scale
            fitted = self._fitted(_with_channels(values, self.channels))
            levels[rows] = np.rint(np.clip(fitted, 0, 1) * np.float32(LEVELS - 1)).astype(np.uint8)
            sound[rows] = finite.ravel()
        return levels, sound

    def show(self, values: np.ndarray) -> np.ndarray:
        """(n, channels, height, width) from 0 to 1 as pictures: (n, height, width), with channels last where they came so."""
        shown = np.clip(values, 0, 1).astype(np.float32)
        return shown[:, 0] if self.flat and self.channels == 1 else shown.transpose(0, 2, 3, 1)

    def array(self) -> np.ndarray:
        """As numbers, for keeping."""
        return np.array(
            [self.height, self.width, self.channels, self.white, self.flat], dtype=np.float64
        )

    @classmethod
    def from_array(cls, array: np.ndarray) -> Canvas:
        """What `array` gave."""
        height, width, channels, white, flat = array.tolist()
        return cls(int(height), int(width), int(channels), white, bool(flat))

    def _scale(self, values: np.ndarray) -> np.ndarray:
        """What white is in each picture: by its type, else as in fitting, but 1 where pixels are fractions of 1."""
        said = FULL_SCALE.get(values.dtype)
        scale = np.full((len(values), 1, 1, 1), said or self.white, dtype=np.float32)
        if said is None and self.white > 1:
            shares = (values.max(axis=(1, 2, 3)) <= 1) & ((values > 0) & (values < 1)).any(
                axis=(1, 2, 3)
            )
            scale[shares] = 1
        return scale

    def _fitted(self, values: np.ndarray) -> np.ndarray:
        """Channels first, each pixel of the canvas the mean of the area it covers."""
        first = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        if first.shape[2:] == (self.height, self.width):
            return first
        resized: np.ndarray = (
            _areas(first.shape[2], self.height) @ first @ _areas(first.shape[3], self.width).T
        )
        return resized


def _areas(before: int, after: int) -> np.ndarray:
    """(after, before): the share of each old pixel in each new one, along one edge.

    >>> _areas(4, 2).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    new = np.arange(after + 1)[:, None] * before / after
    old = np.arange(before)[None, :]
    overlap = np.minimum(new[1:], old + 1) - np.maximum(new[:-1], old)
    shares: np.ndarray = (np.maximum(overlap, 0) * after / before).astype(np.float32)
    return shares


def _shapes(pictures: Pictures) -> list[tuple[int, ...]]:
    """Every picture's shape; one stands for all where they are one array."""
    one_array = isinstance(pictures, np.ndarray) and pictures.dtype != object
    return [
        _shape(picture, row) for row, picture in enumerate(pictures[:1] if one_array else pictures)
    ]


def _stacks(pictures: Pictures) -> Iterator[tuple[np.ndarray, np.ndarray | list[np.ndarray]]]:
    """Pictures of one shape and type together, with their rows; None is left out."""
    if isinstance(pictures, np.ndarray) and pictures.dtype != object:
        _shapes(pictures)
        yield np.arange(len(pictures)), pictures
        return
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row, picture in enumerate(pictures):
        if picture is not None:
            alike.setdefault((_shape(picture, row), np.asarray(picture).dtype), []).append(row)
    for rows in alike.values():
        yield np.array(rows), [np.asarray(pictures[row]) for row in rows]


def _blocks(pictures: Pictures) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The stacks, a few pictures at a time, so that no copy of all of them is made."""
    for rows, stack in _stacks(pictures):
        size = max(1, AT_ONCE // stack[0].size) if len(stack) else 1
        for start in range(0, len(rows), size):
            yield rows[start : start + size], np.asarray(stack[start : start + size])


def _finite(block: np.ndarray) -> np.ndarray:
    finite: np.ndarray = np.isfinite(block).reshape(len(block), -1).all(axis=1)
    return finite


def _shape(picture: Any, row: int) -> tuple[int, ...]:
    array = np.asarray(picture)
    pictured = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if not pictured or not array.size or array.dtype.kind not in "biuf":
        raise ValueError(
            f"input {row} is no picture: it {described(picture)}; numbers of the shape (height, width) or "
            "(height, width, 1, 3 or 4) were expected"
        )
    return array.shape


def _white(pictures: Pictures) -> float:
    """What white is in pictures whose type does not say it: 1, or 255 where pixels are larger."""
    dense = isinstance(pictures, np.ndarray) and pictures.dtype != object
    parts: list[np.ndarray] = [np.asarray(p) for p in ([pictures] if dense else pictures)]
    unsaid = [p for p in parts if p.dtype not in FULL_SCALE]
    if not unsaid:
        return max(FULL_SCALE[p.dtype] for p in parts)
    lowest, highest = min(float(p.min()) for p in unsaid), max(float(p.max()) for p in unsaid)
    if lowest < 0 or highest > 255:
        raise ValueError(
            f"pixels lie between {lowest:g} and {highest:g}; 0 to 1 or 0 to 255 was expected: hand pictures over as they "
            "arrived, not as they were prepared for a network"
        )
    return 1.0 if highest <= 1 else 255.0


def _with_channels(values: np.ndarray, wanted: int) -> np.ndarray:
    colour = values[..., :3]
    if colour.shape[3] == wanted:
        return colour
    return np.repeat(colour, 3, axis=3) if wanted == 3 else (colour @ LUMA)[..., None]
