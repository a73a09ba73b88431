"""What every transform of recordings shares: which waves it may be given, and what becomes of the result.

A transform of recordings is written for waves of (samples, channels), and `on_waves` makes it serve mono too: it checks
the recording, restores the form and type of the wave, and cuts off what leaves [-1, 1], as a sound card would.

>>> @on_waves
... def louder(audio, rng, *, by: float = 3.0):
...     return audio.wave * by
>>> louder(Audio(np.array([0.125, 0.5], np.float32), 8000), None).wave.tolist()
[0.375, 1.0]
>>> louder(Audio(np.zeros((0, 2)), 8000), None)
Traceback (most recent call last):
ValueError: the recording has a wave of shape (0, 2); (samples,) or (samples, channels) was expected
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from roadworthy.data.values import AUDIO, Audio
from roadworthy.registry import not_installed


def on_waves(change: Callable[..., np.ndarray]) -> Callable[..., Audio]:
    """Make a function from waves of (samples, channels) to such waves a transform of recordings."""

    @functools.wraps(change)
    def make(audio: Audio, rng: np.random.Generator, **parameters: Any) -> Audio:
        if problem := AUDIO.problem(audio):
            raise ValueError(f"the recording {problem}")
        given = audio.wave
        wave = given.reshape(len(given), -1)
        changed = change(dataclasses.replace(audio, wave=wave), rng, **parameters)
        if not len(changed):
            raise ValueError(
                f"the recording has {len(given)} samples, too few for {change.__name__}; leave it out"
            )
        if changed.min() < -1 or changed.max() > 1 or np.may_share_memory(changed, given):
            changed = np.clip(changed, -1, 1)
        whole = changed.astype(given.dtype, copy=False).reshape(-1, *given.shape[1:])
        return dataclasses.replace(audio, wave=whole)

    return make


def in_range(name: str, parameter: str, value: float, least: float, most: float) -> None:
    """Refuse a parameter outside its range."""
    if not least <= value <= most:
        raise ValueError(f"{name}: {parameter} is {value}; {least:g} to {most:g} was expected")


def power(wave: np.ndarray) -> float:
    """The mean square over all samples and channels."""
    flat = np.ascontiguousarray(wave).reshape(-1)
    # Sums of 4096, short enough for float32; not np.dot, whose last bits depend on its threads.
    rows = flat[: flat.size // 4096 * 4096].reshape(-1, 4096)
    rest = flat[rows.size :]
    sums = np.einsum("ij,ij->i", rows, rows).sum(dtype=np.float64) + np.einsum("i,i", rest, rest)
    return float(sums) / flat.size


def at_rate(wave: np.ndarray, rate: float, to: float) -> np.ndarray:
    """A wave of one sampling rate at another."""
    # MQ: the noise floor of 16 bits, which most recordings have.
    return wave if rate == to else _library("soxr").resample(wave, rate, to, "MQ")


def stretched(audio: Audio, *, tempo: float = 1.0, semitones: float = 0.0) -> np.ndarray:
    """A wave of (samples, channels) played at another tempo or pitch, the other kept."""
    stretch = _library("python_stretch").Signalsmith.Stretch()
    stretch.preset(audio.wave.shape[1], audio.rate)
    stretch.setTimeFactor(tempo)
    stretch.setTransposeSemitones(semitones)
    # A copy, because waves that cannot be written to are refused.
    made: np.ndarray = stretch.process(np.array(audio.wave.T, dtype=np.float32, order="C"))
    return made.T


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(not_installed(f"this transform needs {name}", "audio")) from error
