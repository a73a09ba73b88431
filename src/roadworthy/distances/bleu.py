"""One minus BLEU between two texts (seed 000, table 3, eq. 9 and 10), by sacrebleu.

Sentence BLEU with up to four-grams, fewer where a text has fewer words ("effective order"), and exponential smoothing. BLEU asks
which of the two is the reference; here each is in turn, and the distance is the mean of the two. Two texts without words are
equal; one without words has nothing in common with any other.

>>> bleu("go left", "go left"), round(bleu("go left", "go right"), 3), bleu("go", ""), bleu("", " ")
(0.0, 0.5, 1.0, 0.0)
"""

from __future__ import annotations

import functools
from typing import Any

from roadworthy.registry import install, register

EXTRA = ("sacrebleu", "text")
"""What counts the n-grams, and the extra that brings it."""


@register("distances", "bleu", of=("text",), default=("text",), bounded=True, extra=EXTRA)
def bleu(first: str, second: str) -> float:
    """One minus sentence BLEU, with either text as the reference in turn."""
    if first.split() == second.split():
        return 0.0
    if not first.split() or not second.split():
        return 1.0
    score = _scorer().sentence_score
    alike = score(first, [second]).score + score(second, [first]).score
    # A score is a percentage, and rounding may put it above 100.
    return min(max(1.0 - float(alike) / 200.0, 0.0), 1.0)


@functools.cache
def _scorer() -> Any:
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise ImportError(f"the distance bleu needs sacrebleu: {install('text')}") from error
    return BLEU(effective_order=True)
