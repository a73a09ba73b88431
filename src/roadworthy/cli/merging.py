"""What `monitor merge` prints: the windows of all replicas together, the limit, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.analysis.risk.amounts import amount, priced
from roadworthy.cli.amounts import many

if TYPE_CHECKING:
    from roadworthy.monitor import Bundle, Monitor


def window_line(window: Mapping[str, Any]) -> str:
    """The estimates of a window, by the scores and by labels."""
    unit, audited = window["unit"], window["audited"]
    said = _figures(window, unit) if window["n"] else "no events"
    if window["cannot_tell"]:
        said = f"no estimate: {window['cannot_tell']}"
    if audited is None:
        return said
    return f"{said}; by {audited['labels']:,} labels: {_figures(audited, unit)}"


def again(repeated: int) -> str:
    """What follows the number of events if some came more than once.

    >>> again(0), again(1251)
    ('', '; 1,251 repeated events are not counted again')
    """
    return f"; {many(repeated, 'repeated event')} are not counted again" if repeated else ""


def differing_line(ids: int) -> str:
    """A note on ids that stand for different events."""
    were = "was" if ids == 1 else "were"
    sent = f"{many(ids, 'id')} {were} sent with different scores"
    return f"note: {sent} to more than one replica: the first stands"


def versions_line(model: str, versions: Sequence[str]) -> str:
    """A note if the model server answered as several versions."""
    listed = f"{', '.join(versions[:-1])} and {versions[-1]}"
    return f"note: model {model!r} has answered as version {listed}; all are counted as one subject"


def tolerable_line(bundle: Bundle) -> str:
    """The limit that figures are compared with."""
    if bundle.tolerable is None:
        return "tolerable: no limit set, so there is no alarm"
    return f"tolerable: {priced(bundle.tolerable, bundle.unit)}"


def unproven_line(monitor: Monitor, windows: Sequence[Mapping[str, Any]]) -> str:
    """A note if labels put the cost above the limit and no alarm is on."""
    limit = monitor.bundle.tolerable
    audits = [w["audited"] for w in windows if w["audited"] is not None]
    if limit is None or monitor.alarm or not any(a["risk_low"] > limit for a in audits):
        return ""
    return (
        "note: labels put the cost above the limit, but are too few for an alarm within its "
        "false-alarm budget; label more events"
    )


def alarm_line(monitor: Monitor, alarmed: Sequence[str], *, untold: bool) -> str:
    """The verdict on all replicas together; `alarmed` are those whose own alarm is on."""
    limit = priced(monitor.bundle.tolerable or 0.0, monitor.bundle.unit)
    there = f" Alarm on in: {', '.join(alarmed)}." if alarmed else ""
    if monitor.alarm:
        by = "labels" if monitor.alarm_by_labels else "scores"
        return f"ALARM is on, by {by}: the cost of all together may be above {limit}.{there}"
    if untold:
        return f"No alarm, but no estimate either. Treat it as an alarm.{there}"
    return f"No alarm.{there}"


def _figures(figures: Mapping[str, Any], unit: str) -> str:
    return (
        f"accuracy {figures['accuracy']:.1%} "
        f"({figures['accuracy_low']:.1%} to {figures['accuracy_high']:.1%}), cost "
        f"{amount(figures['risk'])} ({amount(figures['risk_low'])} to "
        f"{amount(figures['risk_high'])}) {unit}"
    )
