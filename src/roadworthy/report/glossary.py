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
}
"""The quantities that every run may have; a measure explains itself."""


def explained(view: RunView) -> list[tuple[str, str]]:
    """Name (as claims write it) and meaning of each quantity in findings and claims, the measure first."""
    occurring = {f.quantity for f in view.findings} | {c.quantity for c in view.claims}
    direction = f" {view.better.capitalize()} is better."
    entries = [(view.measure, measured(view.measure) + direction)] if measured(view.measure) else []
    return entries + [(q.replace("_", " "), text) for q, text in QUANTITIES.items() if q in occurring]


def measured(name: str) -> str:
    """What a measure says of itself, without its source; empty for one that is not installed here."""
    try:
        summary = get("measures", name).summary
    except RegistryError:
        return ""
    return re.sub(r" \(seed [^)]*\)", "", summary)
