"""How often source images show a circumstance, from pixels alone (Wozniak et al. 2024, task 3).

A score is higher the more an image shows: blur (Crete et al. 2007), noise (median of a high-pass
filter, Immerkaer 1996), low contrast, darkness, salt and pepper, rotation. A threshold is chosen on
half of some images known to be clean and the same images transformed at level 2; sensitivity and
specificity are counted on the other half. The frequency is corrected for both (Rogan and Gladen
1978), with an interval that also allows for real circumstances to look unlike the transform.

Calibrate on images of the source data itself. With the better score of each transform, the error at
true rates of 0, 10 and 30% was then at most 0.07 on photographs, 0.06 on Fashion-MNIST; calibrated
on other photographs it was up to 0.30, with wide intervals (`benchmarks/robustness_estimators.py`).

>>> rng = np.random.default_rng(0)
>>> found = calibrate_score(rng.normal(0, 1, 200), rng.normal(3, 1, 200))
>>> found.sensitivity, found.specificity
(0.88, 0.98)
>>> seen = estimated_frequency(np.r_[rng.normal(0, 1, 700), rng.normal(3, 1, 300)], found)
>>> round(seen.value, 1), seen.interval.contains(0.3)
(0.3, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.rates import Calibrated
from roadworthy.analysis.risk.rates.rogan_gladen import rogan_gladen
from roadworthy.analysis.robustness.gap import SourceFrequency
from roadworthy.cases.image.pixels import sound_image, white
from roadworthy.statistics import Interval, auc, effective_size
from roadworthy.statistics.arguments import Floats, group_codes, real_values, same_length

FEWEST = 20
"""Images of each sort with which a threshold can be chosen and counted."""
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def luma(image: np.ndarray) -> np.ndarray:
    """Brightness from 0 (black) to 1 (white), height x width; an alpha channel is left out."""
    plain = sound_image(image)
    values = plain.astype(np.float32) / np.float32(white(plain.dtype))
    if values.ndim == 2:
        return values
    return values[:, :, 0] if values.shape[2] == 1 else np.asarray(values[:, :, :3] @ _LUMA)


def blur_score(image: np.ndarray) -> float:
    """How little a further blur takes away, 0 to 1: the larger over rows and columns."""
    from scipy.ndimage import uniform_filter1d

    grey = luma(image)
    found = []
    for axis in (0, 1):
        steps = np.abs(np.diff(grey, axis=axis))
        soft = np.abs(np.diff(uniform_filter1d(grey, 5, axis=axis), axis=axis))
        whole = float(steps.sum())
        found.append(1 - float(np.maximum(steps - soft, 0).sum()) / whole if whole > 0 else 1.0)
    return max(found)


def noise_score(image: np.ndarray) -> float:
    """The standard deviation of the noise, white is 1; straight lines and slopes do not count."""
    grey = luma(image)
    rows = grey[:-2] - 2 * grey[1:-1] + grey[2:]
    second = np.abs(rows[:, :-2] - 2 * rows[:, 1:-1] + rows[:, 2:])
    # Near black and white noise is cut off, or there is none (shot noise on a black background).
    inner = grey[1:-1, 1:-1]
    kept = second[(inner > 0.1) & (inner < 0.9)]
    # The weights of the mask have a norm of 6, and a normal number a median size of 0.6745.
    return float(np.median(kept if kept.size > 20 else second)) / (6 * 0.6745)


def low_contrast_score(image: np.ndarray) -> float:
    """1 less the spread of brightness, without the lowest and the highest 0.1% of the pixels."""
    low, high = np.quantile(luma(image), (0.001, 0.999))
    return float(1 - (high - low))


def darkness_score(image: np.ndarray) -> float:
    """1 less the brightness that 1% of the pixels exceed: dark objects leave something bright."""
    return 1 - float(np.quantile(luma(image), 0.99))


def salt_and_pepper_score(image: np.ndarray) -> float:
    """The share of black or white pixels that differ from the median around them by over 0.2."""
    from scipy.ndimage import median_filter

    grey = luma(image)
    extreme = (grey <= 0.01) | (grey >= 0.99)
    return float(np.mean(extreme & (np.abs(grey - median_filter(grey, 3)) > 0.2)))


def rotation_score(image: np.ndarray) -> float:
    """How far edges lie from the horizontal and the vertical, in degrees: 0 to 45."""
    down, right = np.gradient(luma(image))
    strength = np.hypot(down, right)
    # Directions that differ by a quarter turn are the same: their angle counts four times.
    turned = np.sum(strength * np.exp(4j * np.arctan2(down, right)))
    return abs(math.degrees(np.angle(turned))) / 4


def black_corner_score(image: np.ndarray) -> float:
    """The share of black pixels along the four sides: what a turned scan leaves empty."""
    grey = luma(image)
    sides = np.concatenate([grey[0], grey[-1], grey[1:-1, 0], grey[1:-1, -1]])
    return float(np.mean(sides <= 0.01))


ESTIMATORS: dict[str, Callable[[np.ndarray], float]] = {
    "blur": blur_score,
    "noise": noise_score,
    "low_contrast": low_contrast_score,
    "darkness": darkness_score,
    "salt_and_pepper": salt_and_pepper_score,
    "rotation": rotation_score,
    "black_corners": black_corner_score,
}
"""The scores by name."""
ESTIMATORS_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gaussian_blur", "motion_blur", "defocus_blur"), ("blur",)),
    **dict.fromkeys(("lower_resolution", "zoom_blur"), ("blur",)),
    **dict.fromkeys(("gaussian_noise", "shot_noise", "speckle_noise"), ("noise",)),
    "contrast": ("low_contrast",),
    "low_light": ("darkness",),
    "salt_and_pepper": ("salt_and_pepper",),
    "rotation": ("black_corners", "rotation"),
}
"""By transform, the scores that may show it: take the one with the higher calibrated AUC."""


@dataclass(frozen=True)
class ScoreCalibration:
    """A threshold, and how images with and without the circumstance fall about it."""

    threshold: float
    """A score above it counts as showing the circumstance."""
    clean: tuple[float, float]
    """Clean images: cleared, flagged. Images of one group count as their effective number."""
    shown: tuple[float, float]
    """Transformed images: missed, flagged; likewise."""
    auc: float

    @property
    def sensitivity(self) -> float:
        """Share of transformed images that are flagged."""
        return self.shown[1] / sum(self.shown)

    @property
    def specificity(self) -> float:
        """Share of clean images that are not flagged."""
        return self.clean[0] / sum(self.clean)


def calibrate_score(
    clean: ArrayLike, transformed: ArrayLike, groups: ArrayLike | None = None
) -> ScoreCalibration:
    """The threshold with the highest sensitivity + specificity, chosen on every other group.

    Row i of both columns is the same image, before and after. Clean images must not show the
    circumstance (check them by hand) and must come from the data whose frequency is asked.
    """
    without, having = real_values(clean, "clean"), real_values(transformed, "transformed")
    same_length(without, having, "clean and transformed")
    if len(without) < FEWEST:
        raise ValueError(f"found {len(without)} images to calibrate on; expected {FEWEST} or more")
    codes, _ = group_codes(groups, len(without))
    chosen, counted = codes % 2 == 0, codes % 2 == 1
    if not counted.any():
        raise ValueError("all images are of one group; a threshold needs two groups or more")
    threshold = _balanced(without[chosen], having[chosen])
    rows = [_about(threshold, x[counted], codes[counted]) for x in (without, having)]
    marks = np.repeat([0, 1], len(without))
    return ScoreCalibration(threshold, rows[0], rows[1], auc(np.r_[without, having], marks))


def _balanced(without: Floats, having: Floats) -> float:
    """Halfway between two neighbouring scores, so that neither lies on the threshold."""
    scores = np.unique(np.r_[without, having])
    below = [np.searchsorted(np.sort(x), scores, side="right") / len(x) for x in (without, having)]
    best = int(np.argmax(below[0] - below[1]))
    return float(scores[best : best + 2].mean())


def _about(threshold: float, scores: Floats, groups: ArrayLike) -> tuple[float, float]:
    """How many scores are not above the threshold, and above it: effective numbers."""
    flagged = scores > threshold
    size, share = effective_size(flagged, groups), float(flagged.mean())
    return size * (1 - share), size * share


def estimated_frequency(
    scores: ArrayLike,
    calibration: ScoreCalibration,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
) -> SourceFrequency:
    """How often images with these scores show the circumstance, by Rogan and Gladen.

    Raises `CannotTell` if transformed images are flagged no more often than clean ones.
    """
    values = real_values(scores, "scores")
    counts = _about(calibration.threshold, values, group_codes(groups, len(values))[0])
    table = Calibrated.from_table({"clean": calibration.clean, "shown": calibration.shown})
    found = rogan_gladen(counts, table, confidence=confidence)
    method = f"Rogan-Gladen, sensitivity {calibration.sensitivity:.3f}, "
    method += f"specificity {calibration.specificity:.3f}"
    interval = Interval(float(found.low), float(found.high), confidence, method)
    return SourceFrequency(float(found.value), "estimator", interval, len(values))
