"""Speed: a recording played faster or slower, as a tape would be (Wang et al. 2022, table 1).

At `factor` 2 it takes half as long and sounds an octave higher. Wang et al. do not say whether the pitch is kept: `tempo`
keeps it. Their levels 0.8, 1.5 and 2 pass through 1, no change, so there is no strength between two levels.

>>> import numpy as np
>>> second = Audio(np.zeros(16000, np.float32), 16000)
>>> len(speed(second, np.random.default_rng(0), factor=2.0).wave)
8000
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.audio.waves import at_rate, in_range, on_waves
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"factor": f} for f in (0.8, 1.5, 2.0)]}


@transform(
    "speed", of=AUDIO, tables=TABLES, changes_shape=True, strength=False, extra=("soxr", "audio")
)
@on_waves
def speed(audio: Audio, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """The recording is played faster or slower; its length and pitch change."""
    in_range("speed", "factor", factor, 0.1, 10)
    return at_rate(audio.wave, audio.rate * factor, audio.rate)
