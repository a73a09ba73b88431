"""What the service says, as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.statistics.proportion import wilson

if TYPE_CHECKING:
    from roadworthy.monitor import Alarm, Bundle, Monitor, RiskState
    from roadworthy.monitor.labels import LabelledEvent

FIGURES = (
    *("rate", "rate_low", "rate_high", "accuracy", "accuracy_low", "accuracy_high"),
    *("risk", "risk_low", "risk_high", "exceedance", "log_odds", "alarm_log_odds"),
)
"""None of them is given if there is no estimate for a window."""
DOTS = 48
"""Labels are shown in at most so many groups."""


def window_label(name: str, half_life: float | None = None) -> str:
    """
    >>> window_label("1000"), window_label("decay", 200.0), window_label("adaptive")
    ('1,000 events', 'fading, half after 200 events', 'since the last change')
    """
    fading = "fading" if half_life is None else f"fading, half after {half_life:,g} events"
    others = {"decay": fading, "adaptive": "since the last change", "time": "a span of time"}
    return f"{int(name):,} events" if name.isdigit() else others.get(name, name)


def risk_view(state: RiskState) -> dict[str, Any]:
    """All that is said about a window."""
    return without_figures(
        {**state.to_dict(), "label": window_label(state.window, state.half_life)}
    )


def without_figures(window: dict[str, Any], *, no_estimate: str | None = None) -> dict[str, Any]:
    """A window; its figures are null without events, or for this reason or its own.

    A program that reads a number believes it, whatever stands beside it.
    """
    reason = no_estimate or window["no_estimate"]
    if reason is None and window["n"]:
        return window
    return {**window, **dict.fromkeys(FIGURES), "no_estimate": reason}


def bundle_view(bundle: Bundle) -> dict[str, Any]:
    """What the numbers rest on."""
    calibration, forecast = bundle.calibration, bundle.forecast
    medians = (float(f"{np.nanmedian(clean):.4g}") for clean in calibration.references)
    return {
        "id": bundle.id,
        "subject": bundle.subject,
        "unit": bundle.unit,
        "tolerable": bundle.tolerable,
        "confidence": bundle.confidence,
        "scores": list(calibration.names),
        "example": {"id": "case-1", "scores": dict(zip(calibration.names, medians, strict=True))},
        "windows": windows_of(bundle),
        "watched": bundle.watched,
        "prior": prior_view(bundle),
        "alarm": _alarm_rule(bundle),
        "forecast": None if forecast is None else asdict(forecast),
        "coverage": None if bundle.coverage is None else str(bundle.coverage),
        "kinds": [
            {"kind": kind, "rows": calibration.rows(kind), "accuracy": calibration.accuracy(kind)}
            for kind in calibration.kinds
        ],
        "calibrated_on": bundle.calibrated_on,
        "blind_to": list(bundle.blind_to),
        "notes": [*calibration.notes, *map(str, bundle.made.get("notes", ()))],
        "made": dict(bundle.made),
        "lateness_s": bundle.lateness,
        "id_horizon": bundle.id_horizon,
    }


def windows_of(bundle: Bundle) -> list[dict[str, str]]:
    """The windows: name and label."""
    half_life = bundle.windows.half_life
    return [
        {"window": name, "label": window_label(name, half_life)} for name in bundle.windows.names
    ]


def prior_view(bundle: Bundle) -> dict[str, Any] | None:
    """The prior rate of shift, and how many events it is worth; None if none was given."""
    return None if bundle.prior is None else bundle.prior._asdict()


def _alarm_rule(bundle: Bundle) -> dict[str, Any] | None:
    rule = bundle.alarm
    if rule is None:
        return None
    return {
        "window": str(rule.window),
        "label": window_label(str(rule.window)),
        "stride": rule.stride,
        "on_log_odds": rule.on,
        "off_log_odds": rule.off,
        "burden": plain(rule.burden),
        "false_alarms": rule.false_alarms,
        "events_per_day": rule.events_per_day,
        "notes": list(rule.notes),
    }


def alarm_view(alarm: Alarm, bundle: Bundle, *, replica: str) -> dict[str, Any]:
    """An alarm as it is kept, logged and sent; its `key` is unique, and the same each time."""
    by_labels = f"-labels-{alarm.by_labels}" if alarm.by_labels else ""
    return {
        **{
            name: plain(value) for name, value in asdict(alarm).items() if name != "reason" or value
        },
        "key": f"{bundle.id}-{replica}-{alarm.event}-{alarm.kind}{by_labels}",
        "replica": replica,
        "subject": bundle.subject,
        "bundle": bundle.id,
        "tolerable": bundle.tolerable,
        "unit": bundle.unit,
        "window": bundle.watched,
    }


def reading_view(monitor: Monitor, *, no_estimate: str | None = None) -> dict[str, Any]:
    """A point of the charts: what the watched window says after the events counted so far."""
    state = monitor.risk()
    return without_figures(
        {
            "time": state.end,
            "event": monitor.state.counted,
            "window": state.window,
            "n": state.n,
            "effective_n": state.effective_n,
            "alarm": monitor.alarm,
            "alarm_by_scores": alarm_by_scores(monitor),
            **{name: plain(getattr(state, name)) for name in (*FIGURES, "no_estimate")},
        },
        no_estimate=no_estimate,
    )


def alarm_by_scores(monitor: Monitor) -> bool:
    """Whether the scores keep the alarm on, whatever labels say."""
    return monitor.alarm_by_scores


def label_view(labels: Sequence[LabelledEvent]) -> list[dict[str, Any]]:
    """Labels in groups by time: the share that was right, by inverse probability, with an interval.

    >>> from roadworthy.monitor.labels import LabelledEvent
    >>> label_view([LabelledEvent(1.0, 0, True, 0.5), LabelledEvent(3.0, 0, False, 0.5)])[0]["accuracy"]
    0.5
    """
    if not labels:
        return []
    groups = np.array_split(
        np.array(sorted(labels), dtype=np.float64), max(1, min(DOTS, len(labels) // 20))
    )
    found = []
    for group in groups:
        time, _, correct, probability = group.T
        weight = probability.min() / probability  # scaled, so that squares stay finite
        share, effective = (
            float(weight @ correct / weight.sum()),
            float(weight.sum() ** 2 / (weight @ weight)),
        )
        interval = wilson(share * effective, effective)
        found.append(
            {
                "time": float(time.mean()),
                "n": len(group),
                "accuracy": share,
                "low": interval.low,
                "high": interval.high,
            }
        )
    return found


def plain(value: Any) -> Any:
    """A value; None instead of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
