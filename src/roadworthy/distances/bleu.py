"""One minus BLEU between two texts (Wang et al. 2022, table 3, eq. 9 and 10), by sacrebleu.

Sentence BLEU with up to four-grams, fewer where a text has fewer words ("effective order"), and exponential smoothing. BLEU asks
which of the two is the reference; here each is in turn, and the distance is the mean of the two. Two texts without words are
equal; one without words has nothing in common with any other.

>>> bleu("go left", "go left"), round(bleu("go left", "go right"), 3), bleu("go", ""), bleu("", " ")
(0.0, 0.5, 1.0, 0.0)
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from roadworthy.registry import not_installed, register

EXTRA = ("sacrebleu", "text")
"""What parts the words and makes the score of the counts, and the extra that brings it."""
ORDER = 4
"""The longest sequence of words that is counted."""


@register("distances", "bleu", of=("text",), default=("text",), bounded=True, extra=EXTRA)
def bleu(first: str, second: str) -> float:
    """One minus sentence BLEU, with either text as the reference in turn."""
    if first.split() == second.split():
        return 0.0
    if not first.split() or not second.split():
        return 1.0
    one, other = _counted(first), _counted(second)
    # What two texts share is the same whichever is the reference, so both ways are one count.
    shared = [0] * ORDER
    for gram in one.grams.keys() & other.grams.keys():
        shared[len(gram) - 1] += min(one.grams[gram], other.grams[gram])
    alike = _score(shared, one, other) + _score(shared, other, one)
    # A score is a percentage, and rounding may put it above 100.
    return min(max(1.0 - alike / 200.0, 0.0), 1.0)


class _Counted(NamedTuple):
    """A text's words, as sacrebleu parts them, and how often each sequence of one to four of them stands in it."""

    words: int
    grams: Mapping[tuple[str, ...], int]


@functools.lru_cache(maxsize=256)
def _counted(text: str) -> _Counted:
    """Kept for a while: of T passes through one case, each is compared with all the others."""
    words = _scorer().tokenizer(text.rstrip()).split()
    starts = ((order, i) for order in range(1, ORDER + 1) for i in range(len(words) - order + 1))
    return _Counted(len(words), Counter(tuple(words[i : i + order]) for order, i in starts))


def _score(shared: list[int], found: _Counted, reference: _Counted) -> float:
    """The sentence BLEU of one text with the other as the reference, in percent."""
    total = [max(found.words - order, 0) for order in range(ORDER)]
    counts = (list(shared), total, found.words, reference.words)
    return float(_scorer().compute_bleu(*counts, smooth_method="exp", effective_order=True).score)


@functools.cache
def _scorer() -> Any:
    try:
        from sacrebleu.metrics import BLEU
    except ImportError as error:
        raise ImportError(not_installed("the distance bleu needs sacrebleu", "text")) from error
    return BLEU(effective_order=True)
