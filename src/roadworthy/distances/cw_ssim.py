"""One minus complex-wavelet structural similarity (Sampat et al. 2009, eq. 4): small translations and
rotations of an image, which move the phases of all coefficients alike, hardly count.

Both images are decomposed by a complex steerable pyramid (Portilla and Simoncelli 2000) in the
frequency domain. With c and e their coefficients in a window of 7 x 7,
``S = (2 |sum c e*| + K) / (sum |c|² + sum |e|² + K)``. The distance is one minus the mean of S over
windows, then over bands, then over channels; where both images are flat S is 1. It is 0 to 1.

Variants differ widely: the coarsest level alone hardly sees noise, all bands do. Two facts to know,
since K = 0: an inverted image has the distance 0 (the measure is blind to polarity), and contrast
times 0.5 always gives 0.2, whatever the image (2 * 0.5 / (1 + 0.25) = 0.8).

>>> rng = np.random.default_rng(0)
>>> image = rng.integers(100, 200, (64, 64)).astype(np.uint8) * 1.0 / 255
>>> cw_ssim(image, image), round(cw_ssim(image, 1 - image), 9), round(cw_ssim(image, image / 2), 9)
(0.0, 0.0, 0.2)
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from roadworthy.data.pixels import Limits, check_limits, opencv
from roadworthy.distances.images import EXTRA, mean_over_channels
from roadworthy.registry import register

LIMITS: dict[str, Limits] = {
    "levels": (1, None),
    "orientations": (1, 16),
    "window": (1, None),
    "k": (0, None),
}
FLAT = 1e-10
"""Coefficients of this share of white are rounding errors of the transform: nothing is there."""


@register(
    "distances",
    "cw_ssim",
    of=("image",),
    bounded=True,
    extra=EXTRA,
    variant="complex steerable pyramid; mean over windows, then bands, then channels",
)
def cw_ssim(
    first: Any,
    second: Any,
    *,
    levels: int = 4,
    orientations: int = 8,
    k: float = 0.0,
    window: int = 7,
    bands: Literal["all", "coarsest"] = "all",
) -> float:
    """One minus complex-wavelet SSIM; hardly sees small translations, and no change of polarity."""
    given = {"levels": levels, "orientations": orientations, "window": window, "k": k}
    check_limits("cw_ssim", given, LIMITS)

    def compare(one: np.ndarray, other: np.ndarray, white: float) -> float:
        # K is meant for pixels from 0 to 255.
        pair = np.stack([one, other]) * (255 / white)
        found = _levels(pair, levels, orientations, k, window)
        return 1 - float(np.mean(found if bands == "all" else found[-1]))

    # The coarsest band is a window wide at least.
    least = (window - 1) * 2 ** (levels - 1) + 1
    return mean_over_channels(
        first, second, compare, least=least, name=f"cw_ssim with {levels} levels"
    )


def _levels(pair: np.ndarray, levels: int, orientations: int, k: float, window: int) -> list[float]:
    """The mean similarity of each level's bands, finest first; `pair` is (2, rows, columns)."""
    from scipy import fft

    spectra = fft.fft2(pair)
    # Made once: to obtain large arrays again and again takes longer than to fill them.
    space = np.empty(3 * spectra.size // 2, dtype=np.complex128)
    found = []
    for level in range(1, levels + 1):
        shape = spectra.shape[1:]
        size = shape[0] * shape[1]
        place, free = space[: 2 * size].reshape(2, *shape), space[2 * size :][:size].reshape(shape)
        similar = 0.0
        for band in _filters(pair.shape[1], pair.shape[2], level, orientations):
            np.multiply(spectra, band, out=place)
            similar += _similarity_of_bands(fft.ifft2(place, overwrite_x=True), free, k, window)
        found.append(similar / orientations)
        rows, columns = (_low(side, 1) for side in shape)
        spectra = spectra[:, rows[:, None], columns]
    return found


def _similarity_of_bands(bands: np.ndarray, free: np.ndarray, k: float, window: int) -> float:
    """The mean of S over all windows that lie inside the band (Sampat et al. 2009, eq. 4).

    The two bands (2, rows, columns) are overwritten, and so is the free place of one.
    """
    cv2 = opencv()
    pairs = (*free.shape, 2)
    np.conjugate(bands[1], out=free)
    free *= bands[0]
    parts = bands.view(np.float64)
    parts *= parts
    squares, cross = parts
    squares += cross
    # No running sums: their rounding errors would fill flat areas beside strong edges.
    ones = np.ones(window)
    cv2.sepFilter2D(free.view(np.float64).reshape(pairs), -1, ones, ones, dst=cross.reshape(pairs))
    size, energy = free.view(np.float64).reshape(2, *free.shape)
    np.add(squares[:, ::2], squares[:, 1::2], out=size)
    cv2.sepFilter2D(size, -1, ones, ones, dst=energy)
    cross *= cross
    np.add(cross[:, ::2], cross[:, 1::2], out=size)
    np.sqrt(size, out=size)
    inside = slice(window // 2, -((window - 1) // 2) or None)
    size, energy = size[inside, inside], energy[inside, inside]
    flat = energy + k <= 2 * window**2 * (FLAT * 255) ** 2
    size[flat], energy[flat] = 0.5, 1.0
    return float(np.mean((2 * size + k) / (energy + k)))


def _low(side: int, times: int) -> np.ndarray:
    """Places of the lowest frequencies, halved some times, in the order of a transform."""
    count = side
    for _ in range(times):
        count = math.ceil(count / 2)
    return np.fft.ifftshift(np.arange(count) - count // 2) % side


@functools.lru_cache(maxsize=8)  # two sizes of images; one of 1920 x 1080 takes 90 MB
def _filters(height: int, width: int, level: int, orientations: int) -> np.ndarray:
    """The filters of one level, (orientations, rows, columns); level 1 is the finest.

    Radial: the band from 2^-(level + 1) to 2^-(level - 1) of the highest frequency, in cosines of its
    logarithm; angular: a power of the cosine over a half plane, so that coefficients are complex.
    """
    down, right = (np.fft.fftfreq(side, 0.5)[_low(side, level - 1)] for side in (height, width))
    y, x = np.meshgrid(down, right, indexing="ij")
    radius = np.hypot(x, y)
    radius[0, 0] = 1.0  # the mean of the image is in no band
    octave = np.log2(radius)
    radial = np.abs(np.sin(np.pi / 2 * np.clip(octave + level - 1, -1, 0)))
    radial *= np.cos(np.pi / 2 * np.clip(octave + level, -1, 0))
    radial[0, 0] = 0.0
    order = orientations - 1
    scale = 2 ** (order + 1) * math.factorial(order)
    scale /= math.sqrt(orientations * math.factorial(2 * order))
    made = np.empty((orientations, *radius.shape), dtype=np.float32)
    for band in range(orientations):
        angle = np.pi * band / orientations
        along = (x * np.cos(angle) + y * np.sin(angle)) / radius
        made[band] = scale * radial * np.where(along > 0, along, 0.0) ** order * (along > 0)
    return made
