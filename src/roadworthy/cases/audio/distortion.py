"""Distortion: a microphone or amplifier that is driven too hard (Wang et al. 2022, table 1).

The wave is amplified by `gain_db` decibels and then bent by tanh. The levels are named after Wang et al.; equality with
the effect that they used is not claimed.

>>> import numpy as np
>>> quiet = Audio(np.array([0.0, 0.01, 0.5]), 16000)
>>> distortion(quiet, np.random.default_rng(0), gain_db=20.0).wave.round(4).tolist()
[0.0, 0.0997, 0.9999]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.audio.waves import in_range, on_waves
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"gain_db": g} for g in (15.0, 20.0, 30.0)]}


@transform("distortion", of=AUDIO, tables=TABLES)
@on_waves
def distortion(audio: Audio, rng: np.random.Generator, *, gain_db: float) -> np.ndarray:
    """The wave is amplified and bent by tanh."""
    in_range("distortion", "gain_db", gain_db, 0, 100)
    bent: np.ndarray = np.tanh(audio.wave * audio.wave.dtype.type(10 ** (gain_db / 20)))
    return bent
