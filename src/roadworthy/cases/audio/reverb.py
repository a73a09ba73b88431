"""Reverb: speech in an empty room (Wang et al. 2022, table 1).

The room's response is drawn for the case: normal numbers, one row a channel, that fall by 60 dB within `decay` seconds.
The recording heard through it alone, as loud as the recording, is mixed with the recording itself: `wet` is its share. The
length stays, so what still sounds at the end is cut off. The levels are named after Wang et al.; equality with the effect
that they used is not claimed.

>>> import numpy as np
>>> click = Audio(np.eye(1, 8000, dtype=np.float32)[0], 8000)
>>> heard = reverb(click, np.random.default_rng(0), wet=1.0).wave
>>> bool(np.abs(heard[:800]).mean() > 10 * np.abs(heard[2400:3200]).mean())
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.audio.waves import in_range, on_waves
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"wet": w} for w in (0.33, 0.67, 1.0)]}


@transform("reverb", of=AUDIO, tables=TABLES, draw="case", identity={"wet": 0.0})
@on_waves
def reverb(audio: Audio, rng: np.random.Generator, *, wet: float, decay: float = 0.5) -> np.ndarray:
    """The recording is heard through a room that reverberates."""
    from scipy.signal import oaconvolve

    in_range("reverb", "wet", wet, 0, 1)
    in_range("reverb", "decay", decay, 0.01, 20)
    wave = audio.wave
    response = _response(rng, decay * audio.rate, wave.shape[1]).astype(wave.dtype)
    echo = oaconvolve(wave, response, axes=0)[: len(wave)]
    heard = float(np.linalg.norm(echo))
    loudness = float(np.linalg.norm(wave)) / heard if heard else 0.0
    mixed: np.ndarray = wave * wave.dtype.type(1 - wet) + echo * wave.dtype.type(wet * loudness)
    return mixed


def _response(rng: np.random.Generator, samples: float, channels: int) -> np.ndarray:
    """Noise that falls to a thousandth, by 60 dB, over so many samples."""
    time = np.arange(max(int(samples), 1), dtype=np.float32)
    noise = rng.standard_normal((len(time), channels), dtype=np.float32)
    noise *= np.float32(10) ** (-3 * time / np.float32(samples))[:, None]
    return noise
