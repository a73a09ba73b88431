"""The risk of a sample run: the tree with a detector, counted on made-up cases, and a claim on its cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.analysis.risk.expected_cost import AssessedRisk, CountedCases, assess_risk
from roadworthy.analysis.risk.prototypes import Costs, detector_tree
from roadworthy.claims import Claim, judge
from roadworthy.finding import Finding

COSTS = Costs(right=635.0, wrong=6735.0, necessary=1905.0, unnecessary=1955.0)


def sample() -> AssessedRisk:
    """Clean cases and two circumstances: right, right with an alarm, wrong, wrong with an alarm."""
    counts = {
        "clean": [1700, 100, 90, 110],
        "fog@1": [1200, 300, 200, 300],
        "fog@3": [500, 600, 200, 700],
    }
    probabilities = {"clean": 0.7, "fog@1": 0.15, "fog@3": 0.15}
    kinds = []
    for name, cells in counts.items():
        cell = np.repeat(np.arange(4), cells)
        score = np.random.default_rng(len(kinds)).normal(1.5 * (cell % 2) + (cell >= 2))
        kinds.append(CountedCases(name, probabilities[name], cell >= 2, cell % 2 == 1, score=score))
    return assess_risk(detector_tree(COSTS, unit="USD per patient"), kinds[0], kinds[1:])


def risky(run: dict[str, Any], findings: list[Finding]) -> None:
    """Add it to a run."""
    found = sample()
    classes = found.to_dict(0.95, 1925.0, loss_bins=(1000.0, 5000.0))
    run["risk"] = {**classes, "supervisor": "fused", "scored_by": "fused"}
    findings.append(found.finding(0.95))
    claim = Claim("HAZ-12", "risk", 1925.0, "max", text="risk at most 1925 USD per patient")
    run["claims"].append(judge(claim, [found.evidence()]).to_dict())
