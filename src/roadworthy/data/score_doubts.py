"""Numeric columns that may be no scores: few values, a name of something else, or an order that gives the answer away.

A calibration believes every column it is given. A class, a counter or the time that an answer took can tell the rows of a table
apart for reasons of how the table was made, and say nothing in use; and what was made from the outcome is not known there.

>>> shifted = np.repeat([False, True], 50)
>>> doubts({"site": np.repeat([1.0, 2.0], 50)}, shifted)[0].partition(":")[0]
"score 'site' has 2 different values and alone tells clean from shifted rows (AUC 1.000)"
>>> doubts({"energy": np.random.default_rng(0).normal(3.0 * shifted)}, shifted)
[]
>>> outcome_doubts({"loss_2": np.repeat([0.1, 2.0], 50)}, ~shifted)
["score 'loss_2' alone tells right from wrong answers (AUC 1.000): is it known in use, before anybody says what was right?"]
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

FEW = 10
"""Different values up to which a column may as well be a class or a setting."""
PERFECT = 0.995
"""The area under the curve from which on one column alone is too good to be true."""
ENOUGH = 20
"""Rows from which on any of this is no accident."""
NUMBERED = 50
"""Rows from which on whole numbers that are all different are no accident."""
NO_SCORES = frozenset(
    {"", "class", "index", "label", "level", "loss", "row", "target", "y", "y_true"}
    | {"y_pred", "pred", "pred_class", "predicted", "predicted_class", "predicted_label"}
)
"""Numeric columns that are taken for a score only when they are named: in use nobody knows a label or a loss."""
ID_WORDS = frozenset(
    {
        "id",
        "uid",
        "uuid",
        "guid",
        "key",
        "pk",
        "serial",
        "number",
        "num",
        "no",
        "nr",
        "idx",
        "index",
    }
)
"""The last word of a column's name by which it may be an id."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ODD_NAMES = re.compile(
    r"predicted_.*|.*_(ms|us|ns|no|nr|number|idx|index|count)|(.*_)?(latency|duration|runtime)(_.*)?"
)


def is_no_score(column: str) -> bool:
    """Whether a numeric column of that name is left out unless it is asked for.

    >>> [is_no_score(c) for c in ("label", "prediction_3", "predicted_class", "predictive_entropy", "energy")]
    [True, True, True, False, False]
    """
    name = column.strip().lower()
    return name in NO_SCORES or name.startswith("prediction")


def is_id(column: str, values: np.ndarray, kind: np.ndarray | None = None) -> bool:
    """Whether a column has the name of an id and its numbers: whole ones, no two alike; under another kind a case comes again.

    >>> [is_id(c, np.arange(50.0)) for c in ("TransactionID", "txnId", "order-no", "id_order", "ROW_KEY", "centroid")]
    [True, True, True, True, True, False]
    >>> is_id("site_id", np.arange(50.0) % 3), is_id("frame_id", np.arange(50.0) % 25, np.repeat(["clean", "fog"], 25))
    (False, True)
    """
    words = [word.lower() for word in _WORDS.findall(column)]
    if not words or not (words[-1] in ID_WORDS or words[0] == "id"):
        return False
    known = np.isfinite(values)
    numbers = values[known]
    kinds = (
        np.zeros(len(numbers)) if kind is None else np.unique(kind[known], return_inverse=True)[1]
    )
    order = np.lexsort((numbers, kinds))
    again = (np.diff(numbers[order]) == 0) & (np.diff(kinds[order]) == 0)
    return len(numbers) >= NUMBERED and not (numbers % 1).any() and not again.any()


def doubts(columns: Mapping[str, np.ndarray], shifted: np.ndarray | None) -> list[str]:
    """A sentence for every score that may be none; `shifted` says which rows are not clean, where that is known."""
    return [said for name, values in columns.items() if (said := _doubt(name, values, shifted))]


def outcome_doubts(columns: Mapping[str, np.ndarray], correct: np.ndarray) -> list[str]:
    """A sentence for every score that knows the outcome: no confidence is as good as that where some answers are wrong."""
    said = []
    for name, values in columns.items():
        known = np.isfinite(values)
        right = int(correct[known].sum())
        if min(right, int(known.sum()) - right) >= ENOUGH and (
            (apart := separation(values[known], correct[known])) > PERFECT
        ):
            said.append(
                f"score {name!r} alone tells right from wrong answers (AUC {apart:.3f}): is it known in use, before anybody says "
                "what was right?"
            )
    return said


def _doubt(name: str, values: np.ndarray, shifted: np.ndarray | None) -> str | None:
    known = np.isfinite(values)
    if known.sum() < ENOUGH:
        return None
    different, steps = len(np.unique(values[known])), np.diff(values[known])
    few, ordered = different <= FEW, bool((steps >= 0).all() or (steps <= 0).all())
    numbered = different == known.sum() >= NUMBERED and not (values[known] % 1).any()
    apart = 0.5 if shifted is None else separation(values[known], shifted[known])
    sole = apart > PERFECT and (few or ordered)
    reasons = {
        f"has {different} different value{'s' if different != 1 else ''}": few,
        f"{'rises' if steps.sum() > 0 else 'falls'} from row to row": sole and not few,
        "has another whole number in every row": numbered and not sole,
        "has the name of something else": _ODD_NAMES.fullmatch(name.strip().lower()) is not None,
        f"alone tells clean from shifted rows (AUC {apart:.3f})": sole,
    }
    if not any(reasons.values()):
        return None
    said = " and ".join(reason for reason, holds in reasons.items() if holds)
    question = ": does it know from how the table was made? If" if sole else "; if"
    return f"score {name!r} {said}{question} it is no score, name those that are with --score"


def separation(values: np.ndarray, shifted: np.ndarray) -> float:
    """The area under the ROC curve of a column alone, in the direction that suits it; 0.5 where there is nothing to compare.

    >>> separation(np.array([3.0, 2.0, 2.0, 1.0]), np.array([False, False, True, True]))
    0.875
    """
    clean, other = np.sort(values[~shifted]), values[shifted]
    if not len(clean) or not len(other):
        return 0.5
    below, upto = np.searchsorted(clean, other, "left"), np.searchsorted(clean, other, "right")
    area = float(((below + upto) / 2).mean() / len(clean))
    return max(area, 1.0 - area)
