"""Tempo: speech that is faster or slower at the same pitch (Wang et al. 2022, table 1, "Speed", read the other way).

The recording is stretched by Signalsmith's method to 1 / `factor` of its length. Below 0.5 that method draws random phases
which no seed reaches, so a case could not be made again: it is refused.

>>> import numpy as np
>>> second = Audio(np.zeros(16000, np.float32), 16000)
>>> len(tempo(second, np.random.default_rng(0), factor=2.0).wave)
8000
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.audio.waves import in_range, on_waves, stretched
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"factor": f} for f in (0.8, 1.5, 2.0)]}


@transform(
    "tempo",
    of=AUDIO,
    tables=TABLES,
    changes_shape=True,
    strength=False,
    extra=("python_stretch", "audio"),
)
@on_waves
def tempo(audio: Audio, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """The recording is faster or slower at the same pitch; its length changes."""
    in_range("tempo", "factor", factor, 0.5, 4)
    return stretched(audio, tempo=factor)
