"""The section `verdicts`: the rule by which a supervisor's score becomes a verdict on calibration rows.

>>> VerdictSpec.model_validate({"rule": "false_positive_rate", "rate": 0.01}).rate
0.01
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roadworthy.registry import did_you_mean

RULES = ("conformal", "false_positive_rate", "balanced_accuracy", "cost")
ALIASES = {
    "alpha": "rate",
    "false_alarm_rate": "rate",
    "level": "rate",
    "target": "rate",
    "method": "rule",
}
"""What others call the keys."""
PRICES = ("miss", "false_alarm", "prevalence")


class VerdictSpec(BaseModel):
    """How thresholds are chosen on the calibration data."""

    model_config = ConfigDict(extra="forbid")

    rule: Literal["conformal", "false_positive_rate", "balanced_accuracy", "cost"] = Field(
        "conformal",
        description="conformal: at most `rate` false alarms are expected, whatever the scores' distribution, and where the "
        "data has groups, for a case of a new group; "
        "false_positive_rate: at most this share of the calibration rows; balanced_accuracy; cost: least expected cost",
    )
    rate: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="False alarms among clean cases that were answered rightly, and in batches",
    )
    per_class: bool = Field(False, description="A threshold for each predicted class")
    miss: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="cost: of a failure without an alarm"
    )
    false_alarm: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="cost: of an alarm without a failure"
    )
    prevalence: float | None = Field(
        None, gt=0, lt=1, description="cost: the share of failures to expect in use"
    )

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping | VerdictSpec):
            near = did_you_mean(str(raw), RULES)
            rule = near.split("'")[1] if near else RULES[0]
            price = (
                ", miss: 100, false_alarm: 1, prevalence: 0.1" if rule == "cost" else ", rate: 0.05"
            )
            raise ValueError(f"takes keys; write verdicts: {{rule: {rule}{price}}}")
        return raw

    @model_validator(mode="after")
    def _prices(self) -> VerdictSpec:
        given = [p for p in PRICES if getattr(self, p) is not None]
        missing = [p for p in PRICES if p not in given]
        if self.rule == "cost" and missing:
            raise ValueError(
                f"the rule cost needs {', '.join(missing)}, such as {{rule: cost, miss: 100, false_alarm: 1, prevalence: 0.1}}"
            )
        if self.rule != "cost" and given:
            raise ValueError(
                f"{given[0]} belongs to the rule cost, and the rule is {self.rule}; leave it out, or write rule: cost"
            )
        return self
