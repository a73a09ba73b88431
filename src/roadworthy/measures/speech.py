"""Measures of a transcript against what was said: word and character error rate.

WER is equation 3 of Wang et al. (Wang et al. 2022), ``(S + D + I) / N``, summed over all cases before it is divided.
With `normalise` texts are compared in lower case and without punctuation (an apostrophe inside a word stays).
A case fails when its own rate is above `tolerance`: with the default 0, when one word is wrong. A case
without answer has all its words deleted, one where nothing was said, or as many errors as the worst answer
would have there, whichever is more (see `silence`).

>>> scored = wer(["the cat sat", None], ["The cat sat.", "Hello there"])
>>> scored.value(), scored.failure.tolist()
(0.4, [False, True])
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from roadworthy.measures.scored import (
    Scored,
    answered,
    of_ratio,
    refuse_unknown_truth,
    same_cases,
    silent_edits,
)
from roadworthy.registry import not_installed, register

EXTRA = ("rapidfuzz", "audio")
"""What counts the edits, and the extra that brings it."""

_PUNCTUATION = re.compile(r"(?<!\w)'|'(?!\w)|[^\w\s']|_")


def words(text: str, *, normalise: bool = True) -> list[str]:
    """The words of a text.

    >>> words("Don't stop, 'Ann-Marie'!")
    ["don't", 'stop', 'ann', 'marie']
    """
    return (_PUNCTUATION.sub(" ", text.replace("’", "'").lower()) if normalise else text).split()


@register("measures", "wer", of=("text", "text"), better="lower", extra=EXTRA, range=(0, math.inf))
def wer(
    outputs: Sequence[str | None],
    targets: Sequence[str],
    *,
    normalise: bool = True,
    tolerance: float = 0.0,
) -> Scored:
    """Word error rate: words to substitute, delete and insert, over words said (Wang et al. 2022, eq. 3).

    No answer costs all words, one at least, at the rate of the worst answer if that is above 1.
    """
    return _error_rate(outputs, targets, lambda text: words(text, normalise=normalise), tolerance)


@register("measures", "cer", of=("text", "text"), better="lower", extra=EXTRA, range=(0, math.inf))
def cer(
    outputs: Sequence[str | None],
    targets: Sequence[str],
    *,
    normalise: bool = True,
    tolerance: float = 0.0,
) -> Scored:
    """Character error rate; words are joined by one space, which counts as a character.

    No answer costs all characters, one at least, at the rate of the worst answer if that is above 1.
    """
    return _error_rate(
        outputs, targets, lambda text: " ".join(words(text, normalise=normalise)), tolerance
    )


def _error_rate(
    outputs: Sequence[str | None],
    targets: Sequence[str],
    units: Callable[[str], Sequence[Hashable]],
    tolerance: float,
) -> Scored:
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    distance = _levenshtein()
    has_answer = answered(outputs)
    said = [units(text) for text in targets]
    errors = np.array(
        [0 if o is None else distance(s, units(o)) for s, o in zip(said, outputs, strict=True)],
        dtype=np.float64,
    )
    lengths = np.array([len(s) for s in said], dtype=np.float64)
    return of_ratio(
        (errors, lengths), has_answer, silent_edits, better="lower", tolerance=tolerance
    )


def _levenshtein() -> Callable[[Any, Any], int]:
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise ImportError(
            not_installed("word and character error rates need rapidfuzz", "audio")
        ) from error
    return Levenshtein.distance
