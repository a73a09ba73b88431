"""What a person should know about an alarm before relying on it: whether one is due, what it misses, and what would help.

>>> misses(0.78), misses(0.0), misses(0.06), misses(0.4)
('about one in five', 'every one', 'nearly every one', 'about 6 in 10')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadworthy.analysis.risk.transfer import Estimator

ENOUGH, FEW_ROWS = 0.9, 100
"""How often a step should be noticed; rows of a kind below which more of them come first."""
_WORDS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def rule_notes(
    estimator: Estimator,
    detects: Sequence[tuple[str, float]],
    *,
    step: float,
    false_alarms: str,
    events_per_day: float,
) -> tuple[str, ...]:
    """Remarks on a rule that notices steps to a rate of shift so often, by kind."""
    tolerable = estimator.tolerable
    assert tolerable is not None
    clean, stepped = (estimator.forecast(rate)[0] for rate in (0.0, step))
    if clean > tolerable:
        return (
            f"without any shift the risk is {clean:.4g} already, above the tolerable {tolerable:.4g}: alarms say little; "
            "raise the tolerable risk, or better the subject",
        )
    if stepped <= tolerable:
        return (
            f"a step to {step:.0%} shift is expected to cost {stepped:.4g}, within the tolerable {tolerable:.4g}: "
            "no alarm is due for it",
        )
    missed = {kind: share for kind, share in detects if share < ENOUGH}
    if not missed:
        return ()
    said = ", ".join(f"{misses(share)} of {kind}" for kind, share in missed.items())
    return (
        f"of steps to {step:.0%} shift the alarm misses within two windows {said} (at {false_alarms} and "
        f"{events_per_day:,.0f} events a day): {_advice(estimator, list(missed))}",
    )


def misses(noticed: float) -> str:
    """How many are missed, as one would say it."""
    missed = 1.0 - noticed
    if missed > 0.995:
        return "every one"
    if missed > 0.92:
        return "nearly every one"
    if missed > 0.45:
        return f"about {round(10 * missed)} in 10"
    return f"about one in {_WORDS[min(round(1 / missed), 10)]}" if missed > 0.05 else "hardly any"


def _advice(estimator: Estimator, missed: Sequence[str]) -> str:
    """What would help: more rows where there are few, else another window, other costs or other scores."""
    calibration = estimator.calibration
    few = [kind for kind in (calibration.kinds[0], *missed) if calibration.rows(kind) < FEW_ROWS]
    parts = []
    if few:
        parts.append(f"add rows of {' and '.join(f'{kind} (there are {calibration.rows(kind)})' for kind in few)}")
    if not set(missed) <= set(few):
        parts += ["lengthen the window", "accept more false alarms", "add supervisors that tell shift better"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, or {parts[-1]}"
