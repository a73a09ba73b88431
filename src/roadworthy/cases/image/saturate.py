"""More or less colourful pictures (Hendrycks and Dietterich 2019, section 3).

The saturation of a pixel in HSV is multiplied by `factor` and rises by `plus`, within 0 and 1; hue
and value stay. As in ImageNet-C a grey pixel of a colour picture counts as red if `plus` makes it
colourful. The levels fade (1, 2) and then exaggerate (3 to 5) colours: they do not grow evenly. A
picture of one channel stays as it is.

>>> import numpy as np
>>> saturate(np.array([[[0.2, 0.4, 0.1]]]), np.random.default_rng(0), factor=0.5).round(2).tolist()
[[[0.3, 0.4, 0.25]]]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2))
TABLES = {"hendrycks": [{"factor": f, "plus": p} for f, p in _LEVELS]}


@transform("saturate", of=IMAGE, tables=TABLES, colour_only=True, strength=False)
@on_pixels(factor=(0, None), plus=(0, 1))
def saturate(
    image: np.ndarray, rng: np.random.Generator, *, factor: float, plus: float = 0.0
) -> np.ndarray:
    """Colours fade or become stronger."""
    if image.ndim == 2:
        return image.copy()
    cv2, top = opencv(), white(image.dtype)
    changed = np.empty_like(image)
    for rows in strips(image):
        channels = cv2.split(as_floats(image[rows]))
        value = cv2.max(cv2.max(channels[0], channels[1]), channels[2])
        least = cv2.min(cv2.min(channels[0], channels[1]), channels[2])
        spread = value - least
        # A channel lies below the value by value x saturation x a share that the hue sets.
        wanted = cv2.min(cv2.addWeighted(spread, factor, value, plus, 0.0), value)
        grey = spread <= 1e-6 * top
        ratio = cv2.divide(wanted, cv2.max(spread, 1e-6 * top))
        ratio[grey] = 0
        made = [value - (value - c) * ratio for c in channels]
        for c in made[1:]:
            c[grey] -= wanted[grey]
        changed[rows] = as_pixels(cv2.merge(made), image.dtype)
    return changed
