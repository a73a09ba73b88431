"""From scores to verdicts, and what these are worth: thresholds on calibration rows, rates and counts on test rows.

Nominal are the clean calibration cases that were answered rightly: an alarm on such a case is a false one, so that the rate
a rule keeps is the false-alarm rate that is reported. Risky are the calibration cases that failed, clean or under any
circumstance. A case without a score raises an alarm (docs/decisions/0005), and counts as one where a threshold is chosen.
Where the cases come in groups, a conformal threshold holds for a case of a new group; other rules take rows as independent.

>>> rule = VerdictRule("false_positive_rate", rate=0.1)
>>> rule.choose(np.arange(20.0), np.arange(30.0, 50.0)).value
17.0
>>> VerdictRule("conformal", rate=0.05).least
19
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.analysis import calibration
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.finding import About, Evidence, Finding
from roadworthy.statistics import Interval, clustered_proportion, simultaneous

WORST = "worst_miss_rate"
"""The miss rate where it is highest of all places, with an interval that allows for having looked at all of them."""
RATED = ("conformal", "false_positive_rate")
"""Rules that keep a rate of false alarms."""
RATES = ("miss_rate", "false_alarm_rate", "alarm_rate")
ASSUMED = (
    "the threshold was chosen on calibration rows, none of which is judged",
    "a case without a score counts as an alarm",
)
NEW_GROUP = "the threshold's rate of false alarms is that of a case of a new group, each calibration group weighing the same"
ALONE = "calibration cases of one group were taken as independent when the threshold was chosen"


@dataclass(frozen=True)
class VerdictRule:
    """The rule that chooses thresholds, with its parameters."""

    rule: str = "conformal"
    rate: float = 0.05
    per_class: bool = False
    miss: float | None = None
    false_alarm: float | None = None
    prevalence: float | None = None

    @property
    def least(self) -> int:
        """Nominal rows (groups, for a conformal threshold where there are some) below which it never raises an alarm."""
        inverse = math.ceil(1.0 / self.rate - 1e-9)
        return {"conformal": inverse - 1, "false_positive_rate": inverse}.get(
            self.rule, calibration.LEAST
        )

    def assumed(self, *, grouped: bool) -> str:
        """What it takes for granted about groups; empty where the cases have none."""
        return "" if not grouped else NEW_GROUP if self.rule == "conformal" else ALONE

    def choose(
        self,
        nominal: np.ndarray,
        risky: np.ndarray,
        classes: tuple[np.ndarray, np.ndarray] | None = None,
        groups: np.ndarray | None = None,
    ) -> Threshold:
        """The threshold; `classes` are those of the nominal and of the risky rows, `groups` those of the nominal ones.

        Raises ValueError where it cannot be chosen.
        """
        rows = [nominal]
        function: Any = {
            "conformal": calibration.conformal,
            "false_positive_rate": calibration.at_false_positive_rate,
            "balanced_accuracy": calibration.at_balanced_accuracy,
            "cost": calibration.at_cost,
        }[self.rule]
        given: dict[str, Any] = {}
        if self.rule == "conformal":
            given = {"alpha": self.rate} | (
                {} if groups is None else {"groups": groups.astype(str)}
            )
        elif self.rule == "false_positive_rate":
            given = {"rate": self.rate}
        else:
            rows.append(risky)
        if self.rule == "cost":
            given = {
                "miss": self.miss,
                "false_alarm": self.false_alarm,
                "prevalence": self.prevalence,
            }
        if classes is None:
            return function(*rows, **given)  # type: ignore[no-any-return]
        both = (rows[1], classes[1]) if len(rows) > 1 else None
        return calibration.per_class(function, rows[0], classes[0], risky=both, **given)


def choose(
    rule: VerdictRule,
    clean: Observed,
    shifted: Sequence[Observed],
    supervisor: str,
    rows: np.ndarray | None = None,
) -> Threshold:
    """A supervisor's threshold from calibration cases (of the samples in `rows`), clean and under circumstances."""
    keep = np.ones(len(clean), bool) if rows is None else rows
    nominal = keep & ~clean.failure
    if not nominal.any():
        raise ValueError(
            f"none of the {int(keep.sum())} clean calibration cases was answered rightly"
        )
    own = clean.scores[supervisor][nominal]
    if np.isnan(own).all():
        raise ValueError(
            f"none of the {len(own)} clean calibration cases that were answered rightly has a score by which to choose"
        )
    risky = [(o, keep & o.failure) for o in (clean, *shifted)]
    classes = None
    if rule.per_class:
        assert clean.predicted is not None
        wrong = [o.predicted[failed] for o, failed in risky if o.predicted is not None]
        classes = clean.predicted[nominal], np.concatenate(wrong)
    scores = np.concatenate([o.scores[supervisor][failed] for o, failed in risky])
    return rule.choose(
        own, scores, classes, None if clean.groups is None else clean.groups[nominal]
    )


def alarms(threshold: Threshold, observed: Observed, supervisor: str) -> np.ndarray:
    """Which cases the supervisor calls risky."""
    return threshold.verdict(
        observed.scores[supervisor], observed.predicted if threshold.per_class else None
    )


def any_alarm(
    thresholds: Mapping[str, Threshold], observed: Observed, supervisors: Iterable[str]
) -> np.ndarray:
    """Which cases at least one of several supervisors calls risky."""
    found = [alarms(thresholds[s], observed, s) for s in supervisors]
    return np.logical_or.reduce(found)


def rate(quantity: str, observed: Observed, raised: np.ndarray, supervisor: str = "") -> Evidence:
    """One of `RATES` under a condition, from which cases an alarm was raised on."""
    about = replace(observed.about, supervisor=supervisor)
    if quantity == "miss_rate":
        return _share(quantity, about, ~raised, observed.failure, observed.groups, "failed")
    if quantity == "false_alarm_rate":
        return _share(
            quantity, about, raised, ~observed.failure, observed.groups, "was answered rightly"
        )
    return _share(
        quantity, about, raised, np.ones(len(observed), bool), observed.groups, "is there"
    )


def mute(threshold: Threshold, rule: VerdictRule) -> str:
    """Why no score ever raises an alarm, and what would change that; empty where some score does.

    >>> mute(Threshold(math.inf, "conformal", 10, 0.0), VerdictRule())
    'the threshold is infinite: conformal at 0.05 needs 19 clean, right calibration cases, and there are 10'
    """
    if any(t.value != math.inf for t in (threshold, *threshold.per_class.values())):
        return ""
    if threshold.overrun:
        return f"the threshold is infinite: too many calibration cases have no score to keep {rule.rule} at {rule.rate:g}"
    if rule.rule in RATED:
        return f"the threshold is infinite: {too_few(threshold, rule)}"
    return f"the threshold is infinite: by the rule {rule.rule} no alarm at all is best"


def too_few(threshold: Threshold, rule: VerdictRule) -> str:
    """How many calibration cases, or groups of them, a rate needs and how many there are."""
    grouped = threshold.groups is not None
    there = threshold.groups if grouped else threshold.chosen_on
    each = " of each class" if rule.per_class else f", and there are {there}"
    return f"{rule.rule} at {rule.rate:g} needs {rule.least} {'groups of ' if grouped else ''}clean, right calibration cases{each}"


def verdict_findings(
    clean: Observed,
    others: Sequence[Observed],
    thresholds: Mapping[str, Threshold],
    *,
    confidence: float,
) -> list[Finding]:
    """Miss rates, false-alarm rates and alarm rates of every supervisor that has a threshold."""
    found = []
    for supervisor, threshold in thresholds.items():
        missed = []
        for o in (clean, *others):
            raised = alarms(threshold, o, supervisor)
            rates = [rate(q, o, raised, supervisor) for q in RATES]
            found += [finding(r, confidence) for r in rates]
            missed += [r for r in rates if r.quantity == "miss_rate"]
        worst = worst_of(missed, confidence)
        found += [] if worst is None else [worst]
    return found


def worst_of(missed: Sequence[Evidence], confidence: float) -> Finding | None:
    """The highest of several miss rates, with an interval that holds whichever of them it is; None where nothing failed.

    >>> places = [_share("miss_rate", About(), np.arange(10) < k, np.ones(10, bool), None, "failed") for k in (3, 6)]
    >>> found = worst_of(places, 0.95)
    >>> found.value, round(found.interval.confidence, 3), found.corrected
    (0.6, 0.975, 'the worst of 2 places (Bonferroni): all their intervals hold together at 95%')
    """
    known = [e for e in missed if not e.reason]
    if not known:
        return None
    worst = max(known, key=lambda e: e.value)
    found = finding(replace(worst, quantity=WORST), simultaneous(confidence, len(known)))
    if len(known) == 1:
        return found
    words = f"the worst of {len(known)} places (Bonferroni): all their intervals hold together at {100 * confidence:.4g}%"
    return replace(found, corrected=words)


def finding(evidence: Evidence, confidence: float) -> Finding:
    """The evidence with its two-sided interval."""
    return Finding(
        evidence.quantity,
        evidence.value,
        None if evidence.reason else evidence.interval(confidence, "two"),
        evidence.n,
        groups=evidence.groups,
        about=evidence.about,
        better=evidence.better,
        reason=evidence.reason,
        assumptions=ASSUMED,
    )


def _share(
    quantity: str,
    about: About,
    outcome: np.ndarray,
    among: np.ndarray,
    groups: np.ndarray | None,
    what: str,
) -> Evidence:
    outcomes, n = outcome[among].astype(np.float64), int(among.sum())
    own = None if groups is None else groups[among]

    def interval(confidence: float, sided: Any) -> Interval:
        # One-sided bounds judge claims and must not err more often than they say; see `performance`.
        method: Any = "wilson" if sided == "two" else "clopper_pearson"
        return clustered_proportion(
            outcomes, own, confidence=confidence, sided=sided, method=method
        )

    reason = "" if n else f"no case {what} here"
    value = float(outcomes.mean()) if n else math.nan
    count = None if own is None else len(np.unique(own.astype(str)))
    return Evidence(quantity, about, value, n, "lower", interval, groups=count, reason=reason)
