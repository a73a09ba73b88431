"""A detector: pixels above a threshold, one box around each connected group of them."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from roadworthy.data.values import BOXES, IMAGE, Boxes
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

THRESHOLD = 128


def boxes_of(image: np.ndarray) -> Boxes:
    """Corners and mean brightness of every bright region."""
    regions, _ = ndimage.label(image > THRESHOLD)
    found = ndimage.find_objects(regions)
    corners = [[x.start, y.start, x.stop, y.stop] for y, x in found]
    return Boxes.of(corners, scores=[float(image[place].mean()) / 255 for place in found])


WAVER = 0.05
"""Standard deviation of the factor that each pixel is multiplied by: Gaussian dropout, as Srivastava et al. (2014) put it."""


def boxes_of_wavering(image: np.ndarray, rng: np.random.Generator) -> Boxes:
    """The same after Gaussian dropout of the pixels."""
    return boxes_of(image * rng.normal(1.0, WAVER, image.shape))


def build() -> System:
    """A system of one module, case by case."""
    module = function_module(boxes_of, outputs={"found": BOXES})
    return System({"finder": module}, {"finder.image": "input"}, "finder.found", IMAGE)


def build_wavering() -> System:
    """The same with Gaussian dropout."""
    module = function_module(boxes_of_wavering, outputs={"found": BOXES})
    return System({"finder": module}, {"finder.image": "input"}, "finder.found", IMAGE)
