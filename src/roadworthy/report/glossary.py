"""What the quantities of a run mean, for the readers of its report: a sentence for each that occurs.

>>> measured("wer").startswith("Word error rate")
True
"""

from __future__ import annotations

import re

from roadworthy.registry import RegistryError, get

from .run_view import RunView

QUANTITIES = {
    "failure_rate": "the share of cases whose answer counts as wrong, as the failure criterion says.",
    "difference": "the value here minus the value on the clean data (or the rest, for a filter; or the earlier run); "
    "pp are percentage points.",
    "relative_drop": "the relative loss: the difference as a share of the clean value, positive where performance is worse.",
    "auc_failure": "AUC for failures, the chance that a supervisor scores a failure above a success: 0.5 is guessing, "
    "1 is perfect.",
    "auc_shift": "AUC for the shift itself, the chance that a supervisor scores a case of the circumstance above a clean one; "
    "it says nothing about failures.",
    "aupr_failure": "AUPR for failures, the area under the curve of precision against recall (average precision): the mean "
    "share of real failures among the riskiest cases, at every depth. Guessing gives the failure rate, 1 is perfect; so "
    "compare it only where the failure rate is the same.",
    "aupr_shift": "AUPR for the shift itself, with the cases of the circumstance to be found among the clean ones; guessing "
    "gives their share.",
    "fpr95_failure": "FPR@95 for failures, the share of right cases that would raise an alarm if the threshold were so low "
    "that 95% of the failures do: 0% is perfect, guessing gives 95%.",
    "fpr95_shift": "FPR@95 for the shift itself: the same with the cases of the circumstance to be found among the clean ones.",
    "miss_rate": "the share of the failures that raise no alarm; what is missed goes on unnoticed.",
    "worst_miss_rate": "the miss rate at the place where it is highest, with an interval that allows for having looked at all "
    "places.",
    "false_alarm_rate": "false alarms: the share of cases with a right answer that raise an alarm all the same.",
    "alarm_rate": "the share of all cases, right or wrong, that raise an alarm.",
    "risk": "what a case is expected to cost: over all outcomes of the event tree, probability times cost.",
}
"""The quantities that every run may have; a measure explains itself."""
VERDICT = (
    "a supervisor's score against its threshold: above it is an alarm, at or below it is none; a case without a score is "
    "an alarm."
)


def explained(view: RunView) -> list[tuple[str, str]]:
    """Name (as claims write it) and meaning of each quantity in findings and claims, the measure first."""
    occurring = {f.quantity for f in view.findings} | {c.quantity for c in view.claims}
    direction = f" {view.better.capitalize()} is better."
    entries = [(view.measure, measured(view.measure) + direction)] if measured(view.measure) else []
    entries += [(q.replace("_", " "), text) for q, text in QUANTITIES.items() if q in occurring]
    return entries + (
        [("verdict", VERDICT)]
        if occurring & {"miss_rate", "false_alarm_rate", "alarm_rate"}
        else []
    )


def measured(name: str) -> str:
    """What a measure says of itself, without its source; empty for one that is not installed here."""
    try:
        summary = get("measures", name).summary
    except RegistryError:
        return ""
    return re.sub(r" \(seed [^)]*\)", "", summary)
