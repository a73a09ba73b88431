"""What a monitor says about one window: estimates with intervals, and what they rest on.

>>> from roadworthy.monitor.risk_state import BLIND
>>> "labelling" in BLIND[0]
True
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from roadworthy.monitor.labels import Audited

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimates

BLIND = (
    "changed prevalence of classes and changed labelling",
    "wrong answers that none of the supervisors' scores reflect",
)
"""What no estimate without labels can see."""


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth on kinds of shift that were left out of the calibration.

    >>> str(Coverage(0.95, 0.98, 96, rate=0.74))
    'accuracy held in 98% of 96 windows, the share shifted in 74% (kinds left out in turn), nominal 95%'
    """

    nominal: float
    observed: float
    """Of intervals of the accuracy."""
    windows: int
    on: str = "kinds left out in turn"
    rate: float | None = None
    """The same of intervals of the share that is shifted, which the same windows were asked for; None where nobody counted."""

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", the share shifted in {self.rate:.0%}"
        held = f"accuracy held in {self.observed:.0%} of {self.windows:,} windows"
        return f"{held}{rate} ({self.on}), nominal {self.nominal:.0%}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, of what was counted: a bundle of before is named by as much."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "rate" or value is not None
        }


@dataclass(frozen=True)
class Forecast:
    """The risk that was expected before release, at an expected rate of shift."""

    rate: float
    risk: float
    low: float
    high: float


@dataclass(frozen=True)
class RiskState:
    """The figures of one window, and everything one must know to read them."""

    window: str
    start: float | None
    """Times of the first and the last event that was read; None where there is none."""
    end: float | None
    n: int
    """Events with a score."""
    wanted: int | None
    """Events of a full window; before, what was assumed of the rate beforehand counts as well."""
    unscored: int
    effective_n: float
    autocorrelation_time: float
    rate: float
    rate_low: float
    rate_high: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    risk: float
    risk_low: float
    risk_high: float
    exceedance: float | None
    """P(risk > tolerable), by the same estimate as the interval of the risk; None where nothing is called tolerable."""
    log_odds: float | None
    """Of the same."""
    strangeness: float
    cannot_tell: str | None
    tolerable: float | None
    unit: str
    confidence: float
    alarm: bool
    audited: Audited | None
    forecast: Forecast | None
    coverage: Coverage | None
    calibrated_on: str
    blind_to: tuple[str, ...]
    notes: tuple[str, ...]
    alarm_log_odds: float | None = None
    """What the alarm watches, of its own window: the log-odds that the risk is above the tolerable, with the burden of proof of an
    alarm that is not on. At a look, every `stride` events, it rings from the rule's `on` on, and is cleared below its `off`."""
    half_life: float | None = None
    """Events after which one counts for half, where older ones fade; None in other windows."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


_FIGURES = (
    "rate",
    "rate_low",
    "rate_high",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "risk",
    "risk_low",
    "risk_high",
    "strangeness",
)


def figures(estimates: Estimates, i: int) -> dict[str, Any]:
    """The numbers of one window as plain values: all of one estimate, so that none contradicts another."""
    found: dict[str, Any] = {name: float(getattr(estimates, name)[i]) for name in _FIGURES}
    log_odds = float(estimates.log_odds[i])
    told = math.isfinite(log_odds)
    found["log_odds"] = log_odds if told else None
    found["exceedance"] = odds_to_probability(log_odds) if told else None
    return found


def odds_to_probability(log_odds: float) -> float:
    """Without overflow.

    >>> odds_to_probability(0.0), odds_to_probability(-1000.0)
    (0.5, 0.0)
    """
    if log_odds >= 0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    small = math.exp(log_odds)
    return small / (1.0 + small)
