"""What a monitor says about one window: estimates with intervals, and what must be known to read them.

>>> str(Coverage(0.95, 0.98, 96, rate=0.74))
'accuracy held in 98% of 96 windows, the share shifted in 74% (kinds left out in turn), nominal 95%'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from roadworthy.monitor import messages
from roadworthy.monitor.labels import Audited
from roadworthy.monitor.windows import Reading

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
ENOUGH = 1000
"""Events, over an hour at least, from which the pace of a stream is judged."""
LONG_AGO = 1e8
"""Seconds below which a time counts from the beginning of something, not from 1970."""


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth on kinds of shift that were left out of the calibration."""

    nominal: float
    observed: float
    """Of intervals of the accuracy."""
    windows: int
    on: str = "kinds left out in turn"
    rate: float | None = None
    """The same of intervals of the share that is shifted; None if it was not counted."""

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", the share shifted in {self.rate:.0%}"
        held = f"accuracy held in {self.observed:.0%} of {self.windows:,} windows"
        return f"{held}{rate} ({self.on}), nominal {self.nominal:.0%}"


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
    """Times of the first and the last event that was read; None if there is none."""
    end: float | None
    n: int
    """Events with a score."""
    wanted: int | None
    """Events of a full window; before, the prior of the rate counts as well."""
    unscored: int
    effective_n: float
    autocorrelation_time: float
    rate: float
    """The share of shifted events; as all figures below NaN if there is no estimate."""
    rate_low: float
    rate_high: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    risk: float
    risk_low: float
    risk_high: float
    exceedance: float | None
    """P(risk > tolerable), by the same estimate as the interval of the risk; None if no limit is set."""
    log_odds: float | None
    """Of the same."""
    strangeness: float
    cannot_tell: str | None
    """Why there is no estimate; None if there is one."""
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
    """What the alarm watches, of its own window: the log-odds that the risk is above the tolerable, with the burden of proof
    of an alarm that is not on. At a look, every `stride` events, it is raised from the rule's `on` on, and cleared below `off`."""
    half_life: float | None = None
    """Events after which one counts for half, if older ones fade; None in other windows."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


FIGURES = (
    *("rate", "rate_low", "rate_high", "accuracy", "accuracy_low", "accuracy_high"),
    *("risk", "risk_low", "risk_high"),
)
"""Estimates, each with the ends of its interval."""


def states_of(
    bundle: Bundle,
    readings: Sequence[Reading],
    *,
    state: State,
    time: float,
    alarm: bool,
    audited: Audited | None = None,
) -> list[RiskState]:
    """What is said about every reading, of a stream of which `time` events say as much as one."""
    if not readings:
        return []
    estimates = bundle.estimator.estimate(
        np.stack([reading.counts for reading in readings]),
        shrink=1.0 / time,
        filled=[reading.filled for reading in readings],
        confidence=bundle.confidence,
    )
    general = messages.stream_notes(bundle, state, time, _events_per_day(state))
    found = []
    for i, reading in enumerate(readings):
        few = messages.too_few_scored(bundle.calibration, reading.n, reading.first)
        cannot_tell = few or estimates.cannot_tell[i]
        names = (*FIGURES, "strangeness")
        figures = {name: float(getattr(estimates, name)[i]) for name in names}
        log_odds = float(estimates.log_odds[i])
        if cannot_tell:
            # Whoever reads a number believes it, whatever stands beside it.
            figures, log_odds = figures | dict.fromkeys(FIGURES, math.nan), math.nan
        known = math.isfinite(log_odds)
        notes = [*messages.window_notes(bundle, reading, audited), *general]
        if audited is not None and cannot_tell is None:
            by_scores = figures["accuracy"], figures["accuracy_low"], figures["accuracy_high"]
            said = messages.contradiction(audited, by_scores)
            notes = [*([said] if said else []), *notes]
        found.append(
            RiskState(
                window=reading.window,
                start=reading.start,
                end=reading.end,
                n=reading.n,
                wanted=reading.wanted,
                unscored=reading.unscored,
                effective_n=reading.effective / time,
                autocorrelation_time=time,
                **figures,
                exceedance=float(expit(log_odds)) if known else None,
                log_odds=log_odds if known else None,
                cannot_tell=cannot_tell,
                tolerable=bundle.tolerable,
                unit=bundle.unit,
                confidence=bundle.confidence,
                alarm=alarm,
                audited=audited,
                forecast=bundle.forecast,
                coverage=bundle.coverage,
                calibrated_on=bundle.calibrated_on,
                blind_to=bundle.blind_to,
                notes=tuple(notes),
                half_life=reading.half_life,
            )
        )
    return found


def _events_per_day(state: State) -> float | None:
    """How fast events come; None before an hour and a thousand events, or without times of 1970 on.

    The first bucket is left out: if events come in posts, there is one post more than pauses.
    """
    if state.counted < ENOUGH or state.newest < LONG_AGO:
        return None
    (_, begun), first = state.buckets.spans()[0]
    span = state.newest - begun
    return (state.counted - int(first.sum())) / span * DAY if span >= HOUR - MINUTE else None
