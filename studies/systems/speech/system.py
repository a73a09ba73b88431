"""Speech as two learned modules (Wang et al. 2022, SpeechBrain): an acoustic encoder, then a decoder
that writes characters. The decoder is recurrent with attention (`build`) or a transformer
(`build_transformer`). Passes leave out a tenth of the channels, the same ones from the first frame
or character to the last; the answer itself is made without dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from models import DROPOUT, ENCODED, RATE, Drop, Recogniser, features, read

from roadworthy.data.values import AUDIO, TEXT, VECTOR, Audio
from roadworthy.subject.adapters.torch_answers import running
from roadworthy.subject.adapters.torch_model import load_weights
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

HERE = Path(__file__).parent
FRAMES = 160
"""Vectors of the encoded sequence, 25 a second; what a shorter recording leaves is 0."""


@contextmanager
def drawn(module: torch.nn.Module, rng: np.random.Generator | None) -> Iterator[None]:
    """In here, one mask from the generator at every place with dropout; without one, none."""
    places = [part for part in module.modules() if isinstance(part, Drop)]
    for place in places if rng is not None else ():
        kept = rng.random(place.width) >= DROPOUT
        place.mask = torch.from_numpy(kept.astype(np.float32)) / (1 - DROPOUT)
    try:
        # Sums in another order would have other last bits.
        with torch.inference_mode(), running(1):
            yield
    finally:
        for place in places:
            place.mask = None


class Modules:
    """The two modules of a recogniser, one recording at a time."""

    def __init__(self, file: Path) -> None:
        self.model = Recogniser(file.stem).eval()
        load_weights(self.model, file)

    def encode(self, audio: Audio, rng: Any = None) -> dict[str, Any]:
        """The sequence as one row, which has one length for all recordings."""
        most = FRAMES * RATE // 25
        if audio.rate != RATE or audio.wave.ndim != 1 or len(audio.wave) >= most:
            found = f"{audio.wave.shape} at {audio.rate} Hz"
            raise ValueError(f"the recording has {found}; below {most} at {RATE} Hz was expected")
        frames = torch.from_numpy(features(audio.wave))[None].float()
        with drawn(self.model.encoder, rng):
            before, encoded, _ = self.model.encoder(frames, torch.ones(1, frames.shape[1], 1))
        row = np.zeros((FRAMES, ENCODED), np.float32)
        row[: encoded.shape[1]] = encoded[0].numpy()
        return {"encoded": row.ravel(), "penultimate": before[0].numpy()}

    def decode(self, encoded: np.ndarray, rng: Any = None) -> dict[str, Any]:
        """The text, and a row of the penultimate layer for each character."""
        rows = np.asarray(encoded, np.float32).reshape(1, FRAMES, ENCODED)
        length = 1 + np.flatnonzero(rows[0].any(axis=1)).max(initial=0)
        with drawn(self.model.decoder, rng):
            sequence = torch.from_numpy(rows[:, :length])
            tokens, before = self.model.decoder.decode(sequence, torch.ones(1, length, 1))
        return {"text": read(tokens[0]), "penultimate": before[0].numpy()}


def _system(name: str) -> System:
    modules, shown = Modules(HERE / f"{name}.safetensors"), ("penultimate",)
    return System(
        {
            "encoder": function_module(modules.encode, outputs={"encoded": VECTOR}, layers=shown),
            "decoder": function_module(modules.decode, outputs={"text": TEXT}, layers=shown),
        },
        {"encoder.audio": "input", "decoder.encoded": "encoder.encoded"},
        "decoder.text",
        AUDIO,
    )


def build() -> System:
    """Encoder and recurrent decoder with attention."""
    return _system("recurrent")


def build_transformer() -> System:
    """Encoder and transformer decoder."""
    return _system("transformer")
