"""Reverb: speech in an empty room (Wang et al. 2022, table 1).

The room's response is drawn for the case: normal numbers for each channel that fall by 60 dB within `decay` seconds. What
it makes of the recording, as loud as the recording, is mixed with it: `wet` is its share. The length stays: the end is cut
off. The levels are named after Wang et al.; equality with the effect that they used is not claimed.

>>> import numpy as np
>>> click = Audio(np.eye(1, 8000, dtype=np.float32)[0], 8000)
>>> heard = reverb(click, np.random.default_rng(0), wet=1.0).wave
>>> bool(np.abs(heard[:800]).mean() > 10 * np.abs(heard[2400:3200]).mean())
True
"""

from __future__ import annotations

import math

import numpy as np

from roadworthy.cases.audio.waves import in_range, on_waves, power
from roadworthy.cases.transform import transform
from roadworthy.data.values import AUDIO, Audio

TABLES = {"wang": [{"wet": w} for w in (0.33, 0.67, 1.0)]}


@transform("reverb", of=AUDIO, tables=TABLES, draw="case", identity={"wet": 0.0})
@on_waves
def reverb(audio: Audio, rng: np.random.Generator, *, wet: float, decay: float = 0.5) -> np.ndarray:
    """The recording is heard through a room that reverberates."""
    in_range("reverb", "wet", wet, 0, 1)
    in_range("reverb", "decay", decay, 0.01, 20)
    wave = audio.wave
    response = _response(rng, decay * audio.rate, wave.shape[1]).astype(wave.dtype)
    mixed: np.ndarray = _convolved(wave, response)
    echo = power(mixed)
    mixed *= wave.dtype.type(wet * math.sqrt(power(wave) / echo) if echo else 0)
    mixed += wave * wave.dtype.type(1 - wet)
    return mixed


def _convolved(wave: np.ndarray, response: np.ndarray) -> np.ndarray:
    """The convolution as long as the wave, block by block: twice as fast as scipy's for stereo."""
    from scipy import fft

    (n, channels), m = wave.shape, len(response)
    size = fft.next_fast_len(4 * m, real=True)
    step = size - m + 1
    padded = np.zeros((channels, -(-n // step), step), wave.dtype)
    padded.reshape(channels, -1)[:, :n] = wave.T
    parts = fft.irfft(fft.rfft(padded, size) * fft.rfft(response.T, size)[:, None], size)
    joined = np.zeros((channels, padded.shape[1] * step + m), wave.dtype)
    for block in range(padded.shape[1]):
        joined[:, block * step : block * step + size] += parts[:, block]
    return joined[:, :n].T


def _response(rng: np.random.Generator, samples: float, channels: int) -> np.ndarray:
    """Noise that falls to a thousandth, by 60 dB, over so many samples."""
    time = np.arange(max(int(samples), 1), dtype=np.float32)
    noise = rng.standard_normal((len(time), channels), dtype=np.float32)
    noise *= np.float32(10) ** (-3 * time / np.float32(samples))[:, None]
    return noise
