"""What distances between images share (metric M14 of Wozniak et al. 2024): pairs of channels, many
pairs in a stream, and the variant that a run records.

Two images are compared if they have one shape and one type. Colour is compared channel by channel
and averaged; an alpha channel is not compared. Pixels keep their units: white is 255, 65535 or 1.

>>> dark, light = np.zeros((4, 4), np.uint8), np.full((4, 4), 255, np.uint8)
>>> pair_distances("mse", [dark, dark], [dark, light]).tolist()
[0.0, 1.0]
>>> variant_of("cw_ssim", levels=3).partition(": ")[0]
"cw_ssim(levels=3, orientations=8, k=0.0, window=7, bands='all')"
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from roadworthy.data.pixels import sound_image, white
from roadworthy.distances import for_kind
from roadworthy.distances.features import image_features
from roadworthy.registry import Component, components, get, missing
from roadworthy.statistics import Interval, bootstrap
from roadworthy.statistics.row_blocks import threads

_T = TypeVar("_T")
EXTRA = ("cv2", "vision")
"""What filters images, and the extra that brings it."""
AHEAD = 2
"""Pairs a thread that are read before the first of them is compared."""
NOT_A_DISTANCE = {
    "psnr": "psnr falls with distance and is infinite between equal images; take mse as the distance"
}


def mean_over_channels(
    first: Any,
    second: Any,
    compare: Callable[[np.ndarray, np.ndarray, float], float],
    *,
    least: int,
    name: str,
) -> float:
    """The mean of `compare(first, second, white)` over the channels of two images; 0 if all are equal.

    Images with a side below `least` pixels are refused.
    """
    one, other = checked_pair(first, second)
    if min(one.shape[:2]) < least:
        height, width = one.shape[:2]
        raise ValueError(
            f"{name} needs images of at least {least} x {least} pixels; these have {width} x {height}"
        )
    pairs = list(zip(_channels(one), _channels(other), strict=True))
    if all(np.array_equal(a, b) for a, b in pairs):
        return 0.0
    found = float(np.mean([compare(a, b, white(one.dtype)) for a, b in pairs]))
    # A similarity of 1 may be exceeded by a rounding error.
    return max(0.0, found)


def checked_pair(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two sound images of one shape and type, contiguous; others are refused by a sentence."""
    one, other = sound_image(first), sound_image(second)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        raise ValueError(
            f"the images are {one.shape} {one.dtype} and {other.shape} {other.dtype}; "
            "only images of one shape and type are compared"
        )
    return one, other


def _channels(image: np.ndarray) -> Iterator[np.ndarray]:
    """The colours of an image, each contiguous; no alpha."""
    if image.ndim == 2:
        yield image
        return
    yield from (np.ascontiguousarray(image[:, :, c]) for c in range(min(image.shape[2], 3)))


def image_distance(name: str) -> Component:
    """The distance between images of that name; ValueError says why there is none."""
    if name in NOT_A_DISTANCE:
        raise ValueError(NOT_A_DISTANCE[name])
    component = get("distances", name)
    if "image" not in component.traits.get("of", ()):
        of = " and ".join(component.traits.get("of", ()))
        raise ValueError(f"{name} compares {of}; for images take: {', '.join(for_kind('image'))}")
    if missing(component):
        raise ValueError(missing(component))
    return component


def variant_of(name: str, **parameters: Any) -> str:
    """The name with all parameters and the choices that have none: what a run records."""
    component = image_distance(name)
    given = ", ".join(f"{key}={value!r}" for key, value in component.check(parameters).items())
    fixed = component.traits.get("variant", "")
    return f"{name}({given})" + (f": {fixed}" if fixed else "")


def pair_distances(
    name: str, firsts: Iterable[Any], seconds: Iterable[Any], **parameters: Any
) -> np.ndarray:
    """The distance of each pair of images, float64 (pairs,).

    Images may come from iterators: few pairs are in memory at once. Pairs are compared on several
    threads, since OpenCV and the Fourier transforms release the interpreter's lock.
    """
    compare = image_distance(name).bind(**parameters)
    pairs = zip(firsts, seconds, strict=True)
    return np.array(_in_threads(lambda pair: compare(*pair), pairs), dtype=np.float64)


def _in_threads(work: Callable[[Any], _T], items: Iterator[Any]) -> list[_T]:
    """What `work` gives of each item, in order, with few items in memory."""
    from concurrent.futures import ThreadPoolExecutor

    count, found = threads(), list[_T]()
    with ThreadPoolExecutor(count) as pool:
        while block := list(itertools.islice(items, AHEAD * count)):
            found += pool.map(work, block)
    return found


class SetMetric(NamedTuple):
    """One distance between two sets of images: M14 to M17 of Wozniak et al. 2024."""

    metric: str
    method: str
    value: float
    interval: Interval | None = None
    """Of the mean over pairs; None for distances between sets."""
    notes: tuple[str, ...] = ()


def paired_metrics(
    firsts: Iterable[Any], seconds: Iterable[Any], *, distance: str = "ssim"
) -> tuple[list[SetMetric], list[bool]]:
    """All distances over the pairs that differ, and which do: the others would pull them down."""
    compare, pairs = image_distance(distance).bind(), zip(firsts, seconds, strict=True)
    looked = _in_threads(lambda pair: (compare(*pair), *map(image_features, pair)), pairs)
    d, source, target = map(np.array, zip(*looked, strict=True))
    differ = (d > 0) | (source != target).any(axis=1)
    rows = differ if differ.any() else ~differ
    rng, mean = np.random.default_rng(0), lambda w: float(w @ d[rows] / w.sum())
    interval = bootstrap(mean, int(rows.sum()), method="percentile", rng=rng)
    first = SetMetric("M14", variant_of(distance), float(d[rows].mean()), interval)
    return [first, *set_metrics(source[rows], target[rows], paired=True)], differ.tolist()


def set_metrics(source: np.ndarray, target: np.ndarray, *, paired: bool) -> list[SetMetric]:
    """Every registered distance between two sets of features; of two images or more."""
    found = []
    for name, component in components("set_distances").items():
        if min(len(source), len(target)) > 1 and (paired or not component.traits["paired"]):
            one, metric = component.bind()(source, target), component.traits.get("known_as", "")
            found.append(SetMetric(metric, name, one.value, notes=one.notes))
    return sorted(found, key=lambda one: one.metric)
