"""Pitch shift: a higher or lower voice at the same speed (Wang et al. 2022, table 1).

All frequencies are multiplied by 2^(`semitones` / 12), by Signalsmith's method; the length stays.

>>> import numpy as np
>>> second = Audio(np.zeros(16000, np.float32), 16000)
>>> len(pitch_shift(second, np.random.default_rng(0), semitones=4).wave)
16000
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.audio.waves import in_range, on_waves, stretched
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"semitones": s} for s in (2.0, 4.0, 6.0)]}


@transform(
    "pitch_shift",
    of=AUDIO,
    tables=TABLES,
    identity={"semitones": 0.0},
    extra=("python_stretch", "audio"),
)
@on_waves
def pitch_shift(audio: Audio, rng: np.random.Generator, *, semitones: float) -> np.ndarray:
    """The recording is higher or lower by semitones; its length stays."""
    in_range("pitch_shift", "semitones", semitones, -24, 24)
    # Stretching by nothing is not exactly nothing.
    return audio.wave if semitones == 0 else stretched(audio, semitones=semitones)
