"""Risk in a run: which cases count for which kind, whose alarms call a person, and what the event tree then costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.analysis import verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.assessed import QUANTITY, AssessedRisk, Rows, assess_risk
from roadworthy.analysis.risk.posteriors import Beta
from roadworthy.execution.failing import never_wrong
from roadworthy.execution.plan import Plan
from roadworthy.finding import About, Evidence, Finding
from roadworthy.statistics.interval import Interval

FUSED = "fused"


@dataclass(frozen=True)
class Risk:
    """What a run says of risk: the assessed one, or why there is none."""

    assessed: AssessedRisk | None = None
    because: str = ""
    supervisor: str = ""
    notes: tuple[str, ...] = ()

    def evidence(self) -> Evidence:
        """For claims."""
        if self.assessed is not None:
            return self.assessed.evidence()
        return Evidence(QUANTITY, About(), math.nan, 0, "lower", _anything, proportion=False, reason=self.because)

    def findings(self, confidence: float) -> list[Finding]:
        """One, or none."""
        return [] if self.assessed is None else [self.assessed.finding(confidence)]

    def record(self, confidence: float, tolerable: float | None) -> dict[str, Any]:
        """For run.json."""
        if self.assessed is None:
            return {"because": self.because}
        return {**self.assessed.to_dict(confidence, tolerable), "supervisor": self.supervisor}


def check_risk(plan: Plan) -> None:
    """Refuse, before any work, a risk where no answer can be wrong."""
    wrong = never_wrong(plan.spec) if plan.spec.risk is not None else ""
    if wrong:
        raise plan.spec.error(("risk",), f"is about failures, and {wrong}")


def risk_of(
    plan: Plan, clean: Observed, others: Sequence[Observed], thresholds: Mapping[str, Threshold]
) -> Risk | None:
    """The risk on what was observed; None where the file says nothing of costs."""
    spec = plan.spec.risk
    if spec is None:
        return None
    label, notes = "", []
    if spec.needs_alarms:
        label = spec.supervisor or _chosen(thresholds)
        if label not in thresholds:
            who = f"{label} has no" if label else "no supervisor has"
            return _none(f"the tree asks who raises an alarm, and {who} verdicts; the notes say why")
        if not spec.supervisor and len(thresholds) > 1:
            notes.append(f"the risk counts the alarms of {label}; risk: {{supervisor: …}} names another")
    constants = spec.known_constants()
    try:
        kinds = _kinds(plan, clean, others, constants.get("p_shift"))
        counted = [_rows(o, p, thresholds, label) for o, p in kinds]
        found = assess_risk(spec.event_tree(), counted[0], counted[1:], constants=constants, seed=plan.spec.seed)
    except ValueError as error:
        return _none(str(error))
    return Risk(found, supervisor=label, notes=(*notes, *(f"risk: {note}" for note in found.notes)))


def _none(because: str) -> Risk:
    return Risk(because=because, notes=(f"there is no expected cost: {because}",))


def _chosen(thresholds: Mapping[str, Threshold]) -> str:
    return FUSED if FUSED in thresholds else next(iter(thresholds), "")


def _rows(observed: Observed, probability: float, thresholds: Mapping[str, Threshold], label: str) -> Rows:
    alarm = verdicts.alarms(thresholds[label], observed, label) if label else None
    return Rows(observed.name, probability, observed.failure.astype(bool), alarm, observed.clusters)


def _kinds(
    plan: Plan, clean: Observed, others: Sequence[Observed], rate: float | Beta | None
) -> list[tuple[Observed, float]]:
    """Clean first, then every circumstance at every level, each with its probability in use."""
    probabilities = {c.name: c.probability for c in plan.circumstances}
    given = {name: p for name, p in probabilities.items() if p is not None}
    if rate is None and not given:
        raise ValueError("no circumstance has a probability; give them one, or risk: {constants: {p_shift: 0.1}}")
    if not given:
        given = dict.fromkeys(probabilities, 1.0 / max(len(probabilities), 1))
    total = math.fsum(given.values())
    shifted = total if rate is None else rate.mean if isinstance(rate, Beta) else rate
    found = [o for o in others if o.circumstance in given]
    levels = {name: sum(o.circumstance == name for o in found) for name in given}
    unseen = [name for name, p in given.items() if p > 0 and not levels[name]]
    if unseen:
        # Left out, their share would be costed as if it were clean.
        raise ValueError(f"there are no cases of {', '.join(unseen)} to count, and the file says that they occur")
    scale = shifted / total if total else 0.0
    weighed = [(o, given[o.circumstance] / levels[o.circumstance] * scale) for o in found]
    # What a filter picks out is counted under its own name, not among the rest as well.
    own = {s for o in found if o.versus == "rest" for s in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    return [(rest, 1.0 - shifted), *weighed]


def _anything(confidence: float, sided: Any) -> Interval:
    return Interval(-math.inf, math.inf, confidence, "nothing observed")
