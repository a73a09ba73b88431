"""How a chunk of cases is cut into a model's batches, and what the adapters of image models have in
common.

A model's answers can differ in their last bits with the size of the batch, so the cuts are fixed:
the chunk by the plan, the batches within it by `batch`. The same chunk is cut in the same way by
every worker.

>>> [(s.start, s.stop) for s in spans(5, 2)]
[(0, 2), (2, 4), (4, 5)]
>>> pooled(np.arange(8.0).reshape(1, 2, 2, 2), "mean").tolist()
[[1.5, 5.5]]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roadworthy.data.values import BOXES, CLASS_SCORES, IMAGE, MASK, VECTOR, Boxes, Kind, Task
from roadworthy.registry import did_you_mean
from roadworthy.subject.module import Answers, Context, SubjectError, no_query
from roadworthy.subject.needs import (
    EARLY,
    LATE,
    MIDDLE,
    Input,
    Layer,
    Output,
    Pool,
    Request,
)


def spans(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover n rows in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, filled up to `size` with copies of the last one, for models whose batch has a fixed
    size."""
    missing = size - len(rows)
    return rows if missing <= 0 else np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])


def pooled(activations: np.ndarray, pool: Pool, *, features_last: bool = True) -> np.ndarray:
    """A row of numbers a case, float32; (n, c, h, w) is pooled over space, (n, tokens, c) over the
    tokens, else flattened.

    With `features_last` False, (n, c, t) is pooled over t.
    """
    values = np.asarray(activations, dtype=np.float32)
    if pool != "none" and values.ndim > 2:
        axes = (1,) if values.ndim == 3 and features_last else tuple(range(2, values.ndim))
        values = (
            values.mean(axis=axes, dtype=np.float32) if pool == "mean" else values.max(axis=axes)
        )
    return np.ascontiguousarray(values.reshape(len(values), -1))


def refused(request: Request, layers: Iterable[str], *, where: str) -> str | None:
    """Why an image model does not grant a request: None for its input, its output and the layers it
    has."""
    if isinstance(request, Output | Input):
        return None
    if not isinstance(request, Layer):
        return f"{request.column} arises inside a model, which the adapter torch can see and this one cannot"
    name, known = request.name, list(layers)
    if name in known:
        return None
    shown = ", ".join(known[:30]) + (f" and {len(known) - 30} more" if len(known) > 30 else "")
    return f"{where} has no layer {name!r}{did_you_mean(name, known)}; it has: {shown or 'none'}"


MASKS_AT_ONCE = 16
"""Images in a batch for segmentation at most: scores of many pixels and classes fill the memory."""


def takes_images(task: Task, adapter: str, batch: int) -> int:
    """The size of a batch; refuses a task that does not go from images to class scores, a vector, boxes or a mask."""
    if task.input is not IMAGE or task.output not in (CLASS_SCORES, VECTOR, BOXES, MASK):
        raise SubjectError(
            f"the adapter {adapter} goes from images to class scores, vectors, boxes or masks, and the task {task.name} from "
            f"{task.input} to {task.output}; write a Python function and use the adapter python or system"
        )
    return min(batch, MASKS_AT_ONCE) if task.output is MASK else batch


class ImageModule(ABC):
    """What modules that take images in batches have in common."""

    kind: Kind
    batched = True

    @property
    def inputs(self) -> tuple[str, ...]:
        """The images."""
        return ("image",)

    @property
    def outputs(self) -> Mapping[str, Kind]:
        """The answers."""
        return {"output": self.kind}

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        """One image."""
        answers = self.batch({"image": [inputs["image"]]}, Context(ids=("",)))
        return {"output": answers.outputs["output"][0]}, state

    @abstractmethod
    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The answers for the images, and what else is asked for."""

    offers_query = no_query


def joined_columns(parts: Sequence[Any]) -> Any:
    """Columns one below the other; masks, whose sizes may differ, as a list."""
    if isinstance(parts[0], np.ndarray) and parts[0].ndim < 3:
        return np.concatenate(parts)
    return [item for part in parts for item in part]


def check_detector(names: Collection[str]) -> None:
    """Refuse a detector whose outputs have other names than boxes, labels and scores."""
    missing = [name for name in BOXES_PORTS if name not in names]
    if missing:
        raise SubjectError(
            f"the model has no output {missing[0]!r}; a detector has the outputs {DETECTOR}, "
            f"and this one has: {', '.join(names)}"
        )


def tensor_answers(tensors: Mapping[str, Any], output: str | None, n: int, kind: Kind) -> Any:
    """The answers for n images in a model's output tensors by name; boxes come as boxes (n, m, 4),
    labels and scores, without n where it is 1.

    Rows with a score of 0 or less are padding.
    """
    wanted = BOXES_PORTS if kind is BOXES else (str(output),)
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise ValueError(f"the model gave no {missing[0]!r}; it gave: {', '.join(tensors)}")
    corners, *others = (np.asarray(tensors[name]) for name in wanted)
    if kind is not BOXES:
        return answer_rows(corners, n, kind)
    if corners.ndim == 2 and n == 1:
        corners, *others = (part[None] for part in (corners, *others))
    shapes = [corners.shape[:2]] * 2 if corners.shape[2:] == (4,) and len(corners) == n else []
    if [part.shape for part in others] != shapes:
        found = ", ".join(f"{k} {v.shape}" for k, v in zip(wanted, (corners, *others), strict=True))
        raise ValueError(f"the model gave {found} for {n} images; expected: {DETECTOR}")
    return [_detections(*parts) for parts in zip(corners, *others, strict=True)]


def _detections(corners: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> Boxes:
    kept = ~(scores <= 0)  # a NaN is no padding, but an answer that is refused
    if kept.any() and corners[kept].max() <= 1:
        raise ValueError(f"the model gave boxes between 0 and 1; expected: {DETECTOR}")
    return Boxes.of(corners[kept], labels[kept], scores[kept])


def answer_rows(values: np.ndarray, n: int, kind: Kind) -> Any:
    """A model's answers as (n, k) float32, or masks (n, h, w); another shape is refused by a sentence."""
    if kind is MASK and values.ndim in (3, 4) and len(values) == n:
        masks = [kind.read(scores) for scores in values]
        return masks if any(map(kind.problem, masks)) else np.stack(masks)
    if values.ndim == 1 and len(values) == n and kind is VECTOR:
        values = values[:, None]
    if values.ndim != 2 or len(values) != n:
        raise SubjectError(
            f"the model answered {n} image{'s' * (n > 1)} with an array of shape {values.shape}; {kind.name} of shape "
            f"({n}, {'h, w' if kind is MASK else 'k'}) was expected, one row an image"
        )
    if kind is CLASS_SCORES and values.shape[1] < 2:
        raise SubjectError(
            "the model gives one score an image; class scores have a column a class. For a single logit z return "
            "both columns, (0, z); for a probability p return (1 - p, p)"
        )
    if values.dtype.kind not in "fiub":
        raise SubjectError(f"the model answers in {values.dtype}, which are no numbers")
    return values.astype(np.float32, copy=False)


BOXES_PORTS = ("boxes", "labels", "scores")
DETECTOR = "boxes (n, m, 4) as x1 y1 x2 y2 in pixels, labels (n, m) and scores (n, m)"
"""The outputs of a detector for n images; without n for one."""
SHARES = {EARLY: 0.25, MIDDLE: 0.5, LATE: 0.75}
"""How far through the model each name stands."""


def by_depth(layers: Sequence[str], *, taken: Collection[str] = ()) -> dict[str, str]:
    """Which of a model's layers with weights, in order, stand for "early", "middle" and "late".

    A name that is `taken`, because a layer of the model bears it itself, is left out. A share of
    the way through k layers is reached in layer number ceil(share k), counted from 1: of five
    layers these are the second, the third and the fourth; of three the first, the second and the
    last; one layer is all three.

    >>> by_depth(["conv1", "conv2", "conv3", "hidden", "logits"])
    {'early': 'conv2', 'middle': 'conv3', 'late': 'hidden'}
    >>> by_depth(["hidden", "logits"], taken=["hidden", "late", "logits"])
    {'early': 'hidden', 'middle': 'hidden'}
    """
    if not layers:
        return {}
    return {
        name: layers[math.ceil(share * len(layers)) - 1]
        for name, share in SHARES.items()
        if name not in taken
    }


FULL_SCALE = {"uint8": 255.0, "uint16": 65535.0}
"""What white is, by type; in images of any other type white is 1."""
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in grey: ITU-R BT.601."""


@dataclass(frozen=True)
class InputPreparation:
    """How an image becomes a model's input: ``(image / scale - mean) / std``, in the layout, channels
    and type it was trained on.

    >>> prepare = InputPreparation(mean=0.5, std=0.5)
    >>> prepare(np.array([[[0, 255]]], dtype=np.uint8)).tolist()
    [[[[-1.0, 1.0]]]]
    >>> prepare([np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.uint8)])
    Traceback (most recent call last):
    ValueError: row 1 is prepared to the shape (1, 2, 3) and row 0 to (1, 2, 2); one batch needs one shape
    """

    scale: float | None = None
    """Pixels are divided by this; by default by what white is, or by 1 where `dtype` is an integer.
    """
    mean: float | tuple[float, ...] | None = None
    """Subtracted after scaling: one number, or one a channel."""
    std: float | tuple[float, ...] | None = None
    """Divided by after the mean was subtracted."""
    layout: Literal["nchw", "nhwc"] = "nchw"
    channels: Literal[1, 3] | None = None
    """Grey is repeated, colour weighted to grey, alpha dropped; None leaves the channels as they
    are."""
    colour: Literal["rgb", "bgr"] = "rgb"
    """The order of the channels that the model takes; images are read as RGB."""
    dtype: Literal["float32", "float16", "float64", "uint8"] = "float32"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for name in ("scale", "std"):
            given = getattr(self, name)
            if given is not None and not np.all(np.asarray(given, dtype=np.float64) > 0):
                raise SubjectError(
                    f"input.{name} is {given}; it divides the pixels and must be above 0"
                )

    def facts(self, *, rows: bool = False) -> dict[str, str]:
        """What happens to an image, or to a row of features, for the report."""
        what = "features" if rows else "pixels"
        plain = rows or self.dtype == "uint8"
        range_ = f"{what} as they are" if plain else "pixels over white: 0 to 1"
        facts = {
            "range": range_ if self.scale is None else f"{what} / {self.scale:g}",
            "mean": "0" if self.mean is None else str(self.mean),
            "deviation": "1" if self.std is None else str(self.std),
            "layout": self.layout,
            "channels": "as in the image" if self.channels is None else str(self.channels),
            "colour order": self.colour.upper(),
            "size": "as in the image",
            "type": self.dtype,
        }
        return {k: facts[k] for k in ("range", "mean", "deviation", "type")} if rows else facts

    def __call__(self, images: Sequence[Any] | np.ndarray) -> np.ndarray:
        """The batch, (n, c, h, w) or (n, h, w, c), or rows of features (n, columns); images that
        cannot stand in one batch raise ValueError."""
        if isinstance(images, np.ndarray) and images.dtype != object:
            prepared = self._dense(images)
            # A model may work in place, and what it is given must not be the caller's images.
            return prepared.copy() if np.may_share_memory(prepared, images) else prepared
        arrays = [np.asarray(image) for image in images]
        if not arrays:
            raise ValueError("there are no images to prepare")
        # Stacking unlike types would promote 0..255 to float unscaled, so only like images are stacked unprepared.
        if len({(a.shape, a.dtype) for a in arrays}) == 1:
            return self._dense(np.stack(arrays))
        rows = [self._dense(a[None]) for a in arrays]
        for number, row in enumerate(rows):
            if row.shape != rows[0].shape:
                raise ValueError(
                    f"row {number} is prepared to the shape {row.shape[1:]} and row 0 to {rows[0].shape[1:]}; "
                    "one batch needs one shape"
                )
        return np.concatenate(rows)

    def _dense(self, images: np.ndarray) -> np.ndarray:
        if images.ndim == 2:  # rows of features: mean and std have one number, or one a column
            columns = self._scaled(images[:, None, None, :], self.scale or 1.0)
            return columns[:, 0, 0].astype(self.dtype, copy=False)
        if images.ndim == 3:
            images = images[..., None]
        if images.ndim != 4:
            raise ValueError(
                f"an input has the shape {images.shape[1:]}; (height, width), (height, width, channels) or a row "
                "of features was expected. Prepare it in a Python function, and use the adapter python"
            )
        divisor = self._divisor(images.dtype)
        values = _with_channels(images, self.channels)
        if self.colour == "bgr":
            values = values[..., ::-1]
        if (
            divisor == 1
            and self.mean is None
            and self.std is None
            and values.dtype == np.dtype(self.dtype)
        ):
            return self._laid_out(values)
        return self._laid_out(self._scaled(values, divisor)).astype(self.dtype, copy=False)

    def _scaled(self, values: np.ndarray, divisor: float) -> np.ndarray:
        working = np.float64 if self.dtype == "float64" else np.float32
        values = values.astype(working)  # a copy, which is then scaled in place
        if divisor != 1:
            values /= working(divisor)
        if self.mean is not None:
            values -= self.per_channel("mean", values.shape[3], working)
        if self.std is not None:
            values /= self.per_channel("std", values.shape[3], working)
        return values

    def _divisor(self, dtype: np.dtype) -> float:
        if self.scale is not None:
            return self.scale
        return 1.0 if self.dtype == "uint8" else FULL_SCALE.get(dtype.name, 1.0)

    def per_channel(self, name: str, channels: int, working: type) -> np.ndarray:
        """Mean or std as an array of one number, or of one a channel."""
        given: np.ndarray = np.atleast_1d(np.asarray(getattr(self, name), dtype=working))
        if len(given) not in (1, channels):
            raise ValueError(
                f"input.{name} has {len(given)} numbers and the image {channels} channel{'s' * (channels > 1)}; "
                "give one number a channel, or set input.channels"
            )
        return given

    def _laid_out(self, values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(
            values.transpose(0, 3, 1, 2) if self.layout == "nchw" else values
        )


def _with_channels(images: np.ndarray, wanted: int | None) -> np.ndarray:
    found = images.shape[3]
    if wanted is None or found == wanted:
        return images
    if found not in (1, 3, 4):
        raise ValueError(f"an image has {found} channels; 1, 3 or 4 can be made {wanted}")
    colour = images[..., :3]
    if wanted == 3:
        return np.repeat(images, 3, axis=3) if found == 1 else colour
    grey = (colour.astype(np.float32) @ LUMA)[..., None]
    return (
        np.rint(grey).astype(images.dtype)
        if images.dtype.kind in "iu"
        else grey.astype(images.dtype)
    )
