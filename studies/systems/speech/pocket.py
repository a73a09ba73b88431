"""PocketSphinx with the US English models of its package, as a recogniser that shows nothing inside
(PyPI `pocketsphinx` 5.1.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pocketsphinx import Decoder

_DECODER = Decoder(loglevel="FATAL", samprate=16000)


def transcribe(audio: Any) -> str:
    """The words of a recording; none if the decoder finds no path."""
    if audio.rate != 16000:
        raise ValueError(f"the recording has {audio.rate} samples a second; 16000 were expected")
    samples = np.clip(audio.wave * 32767, -32768, 32767).astype(np.int16)
    # What was heard before must not change what is heard now.
    _DECODER.reinit_feat()
    _DECODER.start_utt()
    _DECODER.process_raw(samples.tobytes(), full_utt=True)
    _DECODER.end_utt()
    found = _DECODER.hyp()
    return found.hypstr if found else ""
