"""What a monitor's stream is expected to cost before release: kinds of shift as often as the file says, as the report has it.

The same sum over the event tree as that of the report (`roadworthy.analysis.risk.assessed`), on the rows that the monitor counted:
where the tree asks for an alarm it is the monitor's own, where the report's is that of a supervisor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from roadworthy.analysis.risk.assessed import Rows, assess_risk
from roadworthy.analysis.risk.cells import Calibration
from roadworthy.analysis.risk.doubts import separation
from roadworthy.analysis.risk.posteriors import Beta
from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS
from roadworthy.analysis.risk.rows import CLEAN
from roadworthy.analysis.risk.tree import Tree
from roadworthy.execution.plan import Plan
from roadworthy.monitor.before_release import LabelledRows
from roadworthy.monitor.risk_state import Forecast


def expected_kinds(plan: Plan, calibration: Calibration) -> dict[str, float]:
    """How often a case is of each kind in use: as the file says; filtered cases as often as in the test data, unless it says.

    A stated rate of shift is shared out by these, evenly where nothing is said of any.
    """
    found = {}
    for c in plan.circumstances:
        if c.name in calibration.kinds:
            usual = float(plan.data["test"].where(c.where).mean()) if c.where is not None else 0.0
            found[c.name] = usual if c.probability is None else c.probability
    total, stated = math.fsum(found.values()), _constants(plan).get("p_shift")
    rate = min(total, 1.0) if stated is None else stated.mean if isinstance(stated, Beta) else float(stated)
    if not total:
        return dict.fromkeys(found, rate / max(len(found), 1))
    return {name: p * rate / total for name, p in found.items()}


def forecast_of(
    plan: Plan, calibration: Calibration, counted: LabelledRows, tree: Tree, kinds: Mapping[str, float]
) -> Forecast | None:
    """The cost to expect where kinds are so frequent; None where none is expected."""
    rate = math.fsum(kinds.values())
    if rate <= 0.0:
        return None
    alarm = calibration.shift_bin(calibration.place(counted.columns)) >= separation(calibration).cut
    groups = counted.units

    def rows(kind: str, probability: float) -> Rows:
        mine = counted.kind == kind
        return Rows(kind, probability, ~counted.correct[mine].astype(bool), alarm[mine], groups[mine])

    known = {k: v for k, v in _constants(plan).items() if k == "p_shift" or k not in LIVE_PARAMETERS}
    shifted = [rows(kind, p) for kind, p in kinds.items()]
    found = assess_risk(tree, rows(CLEAN, 1.0 - rate), shifted, constants=known, seed=plan.spec.seed)
    sure = found.interval(0.95)
    return Forecast(rate, found.value, sure.low, sure.high)


def _constants(plan: Plan) -> dict[str, float | Beta]:
    return plan.spec.risk.known_constants() if plan.spec.risk else {}
