"""The share of words that must be changed to make one text of another: a word error rate that knows no reference.

Words to substitute, delete and insert (rapidfuzz), over the words of the longer text: 0 to 1, and a metric of its own kind that
says more than BLEU about texts of few words.

>>> edits("go left now", "go right now"), edits("", "go"), edits("", "")
(0.3333333333333333, 1.0, 0.0)
"""

from __future__ import annotations

from roadworthy.registry import not_installed, register


@register("distances", "edits", of=("text",), bounded=True, extra=("rapidfuzz", "audio"))
def edits(first: str, second: str) -> float:
    """Words to substitute, delete and insert, over the words of the longer text."""
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise ImportError(not_installed("the distance edits needs rapidfuzz", "audio")) from error
    return float(Levenshtein.normalized_distance(first.split(), second.split()))
