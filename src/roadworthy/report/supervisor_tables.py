"""What the tables of supervisors in a page have: rows, columns and footnotes; only what the run has numbers for.

>>> HEADS["miss_rate"]
'Missed'
"""

from __future__ import annotations

from collections.abc import Sequence

from . import numbers
from .run_view import RunView
from .supervisor_parts import Place, Supervisor
from .supervisor_wording import noted

HEADS = {
    "auc_failure": "AUC for failures",
    "aupr_failure": "AUPR for failures",
    "fpr95_failure": "FPR@95 for failures",
    "miss_rate": "Missed",
    "false_alarm_rate": "False alarms",
    "alarm_rate": "Alarms",
    "auc_shift": "AUC for the shift itself",
    "aupr_shift": "AUPR for the shift",
    "fpr95_shift": "FPR@95 for the shift",
}


def judged(view: RunView) -> list[Supervisor]:
    """Those that were applicable, the best first."""
    return [s for s in view.supervisors if s.applicable]


def measured(view: RunView, *quantities: str) -> bool:
    """Whether any supervisor has a finding of one of these quantities."""
    return any(s.found[q] for s in judged(view) for q in quantities)


def costed(view: RunView) -> bool:
    """Whether the run says what any supervisor costs."""
    return any(
        x is not None for s in judged(view) for x in (s.fit_seconds, s.score_seconds, s.kept_bytes)
    )


def columns(view: RunView) -> list[tuple[str, str]]:
    """Quantity and head of each column of the long table."""
    return [(q, head) for q, head in HEADS.items() if measured(view, q)]


def rows(view: RunView) -> list[tuple[Supervisor, Place]]:
    """Each supervisor at each place where something was found."""
    return [(s, place) for s in judged(view) for place in s.places]


def footnotes(view: RunView) -> dict[str, list[int]]:
    """The numbers of the remarks of each supervisor, by label."""
    found: dict[str, list[int]] = {}
    for i, (_, who) in enumerate(noted(judged(view)), start=1):
        for label in who:
            found.setdefault(label, []).append(i)
    return found


def widened(supervisors: Sequence[Supervisor]) -> str:
    """What the intervals of "missed at worst" allow for; empty where there are none."""
    said = {
        f.corrected for s in supervisors for f in s.found["worst_miss_rate"].values() if f.corrected
    }
    return f"Missed at worst: {'; '.join(sorted(said))}" if said else ""


def confidences(supervisors: Sequence[Supervisor]) -> str:
    """At which confidence their intervals stand; empty where there are none."""
    found = {
        f.interval.confidence
        for s in supervisors
        for quantity, at in s.found.items()
        for f in at.values()
        if f.interval and quantity != "worst_miss_rate"
    }
    return " and ".join(numbers.confidence(c) for c in sorted(found))
