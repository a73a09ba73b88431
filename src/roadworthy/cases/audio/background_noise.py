"""Background noise: Gaussian white noise at a signal-to-noise ratio (Wang et al. 2022, table 1).

`snr_db` is 10 log10 of the recording's mean power over the noise's. The noise that was drawn is scaled to it, so a short clip
gets its ratio too. What leaves [-1, 1] is cut off, as a sound card would.

>>> import numpy as np
>>> tone = Audio(np.sin(np.arange(8000, dtype=np.float32) / 5) / 4, 16000)
>>> noise = background_noise(tone, np.random.default_rng(0), snr_db=10.0).wave - tone.wave
>>> round(float(10 * np.log10(np.mean(tone.wave**2) / np.mean(noise**2))), 2)
10.0
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"snr_db": s} for s in (10.0, 5.0, 2.0)]}


@transform("background_noise", of=AUDIO, tables=TABLES)
def background_noise(audio: Audio, rng: np.random.Generator, *, snr_db: float) -> Audio:
    """White noise is added at a signal-to-noise ratio."""
    if problem := AUDIO.problem(audio):
        raise ValueError(f"the recording {problem}")
    if not math.isfinite(snr_db):
        raise ValueError(
            f"background_noise: snr_db is {snr_db}; a finite number of decibels was expected"
        )
    signal = _power(audio.wave)
    if signal == 0:
        raise ValueError(
            f"the recording is silent, so no noise is {snr_db:g} dB below it; leave silent recordings out"
        )
    noise = rng.standard_normal(audio.wave.shape, dtype=np.float32)
    noise *= np.float32(math.sqrt(signal / (_power(noise) * 10 ** (snr_db / 10))))
    return dataclasses.replace(
        audio, wave=np.clip(audio.wave + noise, -1, 1).astype(audio.wave.dtype, copy=False)
    )


def _power(wave: np.ndarray) -> float:
    return float(np.mean(np.square(wave, dtype=np.float64)))
