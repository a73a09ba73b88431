"""Risk in a run: which cases count for which kind, whose alarms call a person, and what the event tree then costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.analysis import verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.expected_cost import QUANTITY, AssessedRisk, Rows, assess_risk
from roadworthy.analysis.risk.prototypes import constants_told
from roadworthy.execution.failing import never_wrong
from roadworthy.execution.in_use import in_use, shifted_in_use, supposed
from roadworthy.execution.plan import Plan
from roadworthy.finding import About, Evidence, Finding
from roadworthy.spec.risk import RiskSpec
from roadworthy.statistics.interval import Interval

FUSED = "fused"


@dataclass(frozen=True)
class Risk:
    """What a run says of risk: the assessed one, or why there is none."""

    assessed: AssessedRisk | None = None
    because: str = ""
    supervisor: str = ""
    scored_by: str = ""
    """Whose scores tell classes of loss apart: that supervisor, also where no alarm calls a person."""
    notes: tuple[str, ...] = ()

    def evidence(self) -> Evidence:
        """For claims."""
        if self.assessed is not None:
            return self.assessed.evidence()
        return Evidence(
            QUANTITY,
            About(),
            math.nan,
            0,
            "lower",
            _anything,
            proportion=False,
            reason=self.because,
        )

    def findings(self, confidence: float) -> list[Finding]:
        """One, or none."""
        return [] if self.assessed is None else [self.assessed.finding(confidence)]

    def record(self, confidence: float, spec: RiskSpec) -> dict[str, Any]:
        """For run.json."""
        if self.assessed is None:
            return {"because": self.because}
        found = self.assessed.to_dict(confidence, spec.tolerable, loss_bins=spec.loss_bins or ())
        return {**found, "supervisor": self.supervisor, "scored_by": self.scored_by}


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
            return _none(
                f"the tree asks who raises an alarm, and {who} verdicts; the notes say why"
            )
        if not spec.supervisor and len(thresholds) > 1:
            notes.append(
                f"the risk counts the alarms of {label}; risk: {{supervisor: …}} names another"
            )
    constants = spec.known_constants()
    try:
        kinds = _kinds(plan, clean, others)
        scored_by = label or spec.supervisor or _chosen(clean.scores)
        counted = [_rows(o, p, thresholds, label, scored_by) for o, p in kinds]
        found = assess_risk(
            spec.event_tree(), counted[0], counted[1:], constants=constants, seed=plan.spec.seed
        )
    except ValueError as error:
        return _none(str(error))
    said = (*supposed(plan), *constants_told(constants), *found.notes)
    return Risk(
        found,
        supervisor=label,
        scored_by=scored_by,
        notes=(*notes, *(f"risk: {note}" for note in said)),
    )


def _none(because: str) -> Risk:
    return Risk(because=because, notes=(f"there is no expected cost: {because}",))


def _chosen(supervisors: Iterable[str]) -> str:
    names = list(supervisors)
    return FUSED if FUSED in names else next(iter(names), "")


def _rows(
    observed: Observed,
    probability: float,
    thresholds: Mapping[str, Threshold],
    label: str,
    scored_by: str,
) -> Rows:
    alarm = verdicts.alarms(thresholds[label], observed, label) if label else None
    score = observed.scores.get(scored_by)
    return Rows(
        observed.name, probability, observed.failure.astype(bool), alarm, observed.clusters, score
    )


def _kinds(plan: Plan, clean: Observed, others: Sequence[Observed]) -> list[tuple[Observed, float]]:
    """Clean first, then every circumstance at every level, each with its probability in use."""
    each = in_use(plan, {o.circumstance for o in others if len(o)})
    found = [o for o in others if o.circumstance in each]
    levels = Counter(o.circumstance for o in found)
    weighed = [(o, each[o.circumstance] / levels[o.circumstance]) for o in found]
    # What a filter picks out is counted under its own name, not among the rest as well.
    own = {s for o in found if o.versus == "rest" for s in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    return [(rest, 1.0 - shifted_in_use(plan)), *weighed]


def _anything(confidence: float, sided: Any) -> Interval:
    return Interval(-math.inf, math.inf, confidence, "nothing observed")
