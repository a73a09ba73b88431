"""What a monitor's stream is expected to cost before release: kinds of shift as often as in the report (`in_use`).

The same sum over the event tree as that of the report (`roadworthy.analysis.risk.expected_cost`), on the rows that
the monitor counted.
"""

from __future__ import annotations

from roadworthy.analysis.risk.alarmed_cells import alarms_of_rows
from roadworthy.analysis.risk.calibration import CLEAN, Calibration
from roadworthy.analysis.risk.expected_cost import Rows, assess_risk
from roadworthy.analysis.risk.tree import Tree
from roadworthy.cases.circumstance import Circumstance
from roadworthy.execution.in_use import in_use, shifted_in_use
from roadworthy.execution.plan import Plan
from roadworthy.monitor.compile import LabelledRows
from roadworthy.monitor.estimate import Forecast


def forecast_of(
    plan: Plan, calibration: Calibration, counted: LabelledRows, tree: Tree
) -> Forecast:
    """The cost to expect; ValueError where it cannot be told, with the report's reason."""
    each, rate = in_use(plan, set(calibration.kinds)), shifted_in_use(plan)
    alarm = alarms_of_rows(calibration, counted.columns)
    groups = counted.units

    def rows(kind: str, probability: float) -> Rows:
        mine = counted.kind == kind
        return Rows(
            kind, probability, ~counted.correct[mine].astype(bool), alarm[mine], groups[mine]
        )

    shifted = []
    for c in plan.circumstances:
        if c.name in each:
            idle = _idle(c)
            shifted.append(rows(c.name, each[c.name] * (1.0 - idle)))
            # A level that changes nothing has its share, too: its cases are the clean ones.
            shifted += [rows(CLEAN, each[c.name] * idle)] if idle else []
    constants = plan.spec.risk.known_constants() if plan.spec.risk else {}
    found = assess_risk(
        tree, rows(CLEAN, 1.0 - rate), shifted, constants=constants, seed=plan.spec.seed
    )
    sure = found.interval(0.95)
    return Forecast(rate, found.value, sure.low, sure.high)


def _idle(circumstance: Circumstance) -> float:
    """The share of levels that change nothing."""
    made = [c.transform for c in circumstance.conditions() if c.transform is not None]
    return sum(t.identity for t in made) / len(made) if made else 0.0
