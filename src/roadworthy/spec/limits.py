"""Which limits a claim can have: what its quantity can be at all, so that 90 is not taken for 0.9.

>>> refusal("accuracy", "min", 90, measure="accuracy")
'accuracy lies between 0 and 1, but the limit is 90 (did you mean 0.9?)'
>>> refusal("relative_drop", "max", 0.1, measure="accuracy")
''
>>> example("wer", 0.1)
'wer: {max: 0.1}'
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from roadworthy import registry

SHARES = (
    "accuracy",
    "alarm_rate",
    "ap50",
    "auc_failure",
    "auc_shift",
    "aupr_failure",
    "aupr_shift",
    "balanced_accuracy",
    "error_rate",
    "failure_rate",
    "false_alarm_rate",
    "fpr95_failure",
    "fpr95_shift",
    "idf1",
    "miss_rate",
    "precision",
    "recall",
    "success_rate",
    "top_k",
)
"""Quantities between 0 and 1. A measure of another package says so by its trait `range`."""
AT_LEAST_0 = ("wer", "cer", "rmse", "mae", "turns")
AT_MOST = (
    "failure_rate",
    "relative_drop",
    "fpr95_failure",
    "fpr95_shift",
    "miss_rate",
    "false_alarm_rate",
    "risk",
)
"""Quantities that are worse the higher they are, besides measures that say so themselves."""
ONE_WAY = {
    "relative_drop": ("max", "how much worse it gets (0.1 is a tenth worse, below 0 is better)"),
    "miss_rate": ("max", "the share of failures without an alarm"),
    "false_alarm_rate": ("max", "the share of right answers with an alarm"),
    "risk": ("max", "what a case is expected to cost"),
    "fpr95_failure": (
        "max",
        "the share of right answers with an alarm where 95% of failures have one",
    ),
    "fpr95_shift": (
        "max",
        "the share of clean cases with an alarm where 95% of shifted ones have one",
    ),
    "auc_failure": ("min", "how well failures are told from right answers (1 is perfect)"),
    "auc_shift": ("min", "how well shifted cases are told from clean ones (1 is perfect)"),
    "aupr_failure": ("min", "how well failures are told from right answers (1 is perfect)"),
    "aupr_shift": ("min", "how well shifted cases are told from clean ones (1 is perfect)"),
}
"""Quantities that a limit from the other side would only call good because they are bad: the side, and what they say.

`alarm_rate` takes both: under a circumstance alarms may be wanted, or a nuisance.
"""


def refusal(quantity: str, side: str, limit: float, *, measure: str) -> str:
    """Why such a limit makes no sense, else empty."""
    right, says = ONE_WAY.get(quantity, (side, ""))
    if side != right:
        shown = abs(limit) if quantity == "relative_drop" else limit
        way = "above" if right == "max" else "below"
        return f"{quantity} says {says}, so a claim limits it from {way}: {quantity}: {{{right}: {shown:g}}}"
    low, high = _range(quantity, measure)
    if math.isfinite(limit) and low <= limit <= high:
        return ""
    if math.isinf(high):
        where = f"is {low:g} or more" if math.isfinite(low) else "is a number"
    else:
        where = (
            f"lies between {low:g} and {high:g}" if math.isfinite(low) else f"is {high:g} or less"
        )
    percent = limit / 100
    meant = (
        f" (did you mean {percent:g}?)"
        if high == 1 and 1 < abs(limit) <= 100 and low <= percent
        else ""
    )
    return f"{quantity} {where}, but the limit is {limit:g}{meant}"


def meant(key: str, content: object, others: Iterable[str]) -> bool:
    """Whether a key of a claim is meant as its quantity: it is one, or carries a number and is near no other key.

    >>> meant("accuracy", [0.9], ["confidence"]), meant("confidnce", 0.9, ["confidence"])
    (True, False)
    """
    known = {*registry.components("measures"), *SHARES, *AT_MOST, "difference"}
    return key in known or (
        isinstance(content, int | float) and not registry.did_you_mean(key, others)
    )


def example(quantity: str, limit: object) -> str:
    """How a limit is written: the side that makes sense for the quantity."""
    if not isinstance(limit, int | float):
        limit = 0.9
    known = registry.components("measures")
    lower = quantity in AT_MOST or (
        quantity in known and known[quantity].traits.get("better") == "lower"
    )
    return f"{quantity}: {{{'max' if lower else 'min'}: {limit}}}"


def _range(quantity: str, measure: str) -> tuple[float, float]:
    component = registry.components("measures").get(quantity)
    declared = component.traits.get("range") if component else None
    if declared is not None:
        return float(declared[0]), float(declared[1])
    if quantity in SHARES:
        return 0.0, 1.0
    if quantity == "difference" and measure in SHARES:
        return -1.0, 1.0
    if quantity == "relative_drop" and measure in SHARES and measure != "error_rate":
        return -math.inf, 1.0
    if quantity == "mota":
        return -math.inf, 1.0
    return (0.0 if quantity in AT_LEAST_0 else -math.inf), math.inf
