"""What `monitor merge` says: the windows of all replicas together, by the scores and by labels, what is tolerable, the verdict.

>>> from roadworthy.cli.merging import listed
>>> listed(("a.sqlite",)), listed(("a.sqlite", "b.sqlite", "c.sqlite"))
('a.sqlite', 'a.sqlite, b.sqlite and c.sqlite')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.analysis.risk.amounts import amount, priced
from roadworthy.cli.amounts import many, moment

if TYPE_CHECKING:
    from roadworthy.monitor import Alarm, Bundle, Monitor


def window_line(window: Mapping[str, Any]) -> str:
    """What a window says, and what labels say about it."""
    unit, audited = window["unit"], window["audited"]
    if window["cannot_tell"]:
        said = f"cannot tell, because {window['cannot_tell']}"
    elif not window["n"]:
        said = "no events"
    else:
        said = _figures(window, unit)
    if audited is None:
        return said
    earlier = " of earlier events" if audited["carried"] else ""
    said += f"; by {audited['labels']:,} labels{earlier}: {_figures(audited, unit)}"
    against = [note for note in window["notes"] if note.startswith("labels say")]
    return said + (f" ({against[0].rpartition(': ')[2]})" if against else "")


def again(repeated: int) -> str:
    """What is said behind the number of events where some were sent, or held, more than once.

    >>> again(0), again(1251)
    ('', '; 1,251 more came with an id that was known, to the same replica or to another, and are not counted again')
    """
    if not repeated:
        return ""
    verb = "is" if repeated == 1 else "are"
    return f"; {repeated:,} more came with an id that was known, to the same replica or to another, and {verb} not counted again"


def differing_line(ids: int) -> str:
    """What is said where one id stands for different events.

    >>> differing_line(1)
    'note: 1 id was sent with different scores to more than one replica: the first stands'
    """
    sent = f"{many(ids, 'id')} {'was' if ids == 1 else 'were'} sent with different scores"
    return f"note: {sent} to more than one replica: the first stands"


def versions_line(model: str, versions: Sequence[str]) -> str:
    """What is said where the server of models has answered as several versions.

    >>> versions_line("lesion", ("1", "2"))
    "note: model 'lesion' has answered as version 1 and 2: all are counted, as one subject"
    """
    return f"note: model {model!r} has answered as version {listed(versions)}: all are counted, as one subject"


def tolerable_line(bundle: Bundle) -> str:
    """What figures are to be held against."""
    if bundle.tolerable is None:
        return "tolerable: nobody said what is, so that there is no alarm"
    return f"tolerable: {priced(bundle.tolerable, bundle.unit)}"


def unproven_line(monitor: Monitor, windows: Sequence[Mapping[str, Any]]) -> str:
    """Why no alarm rings where labels put the cost above the tolerable; nothing where they do not, or where one rings."""
    bundle = monitor.bundle
    above = [
        w["audited"]
        for w in windows
        if w["audited"] is not None
        and bundle.tolerable is not None
        and w["audited"]["risk_low"] > bundle.tolerable
    ]
    if not above or monitor.alarm or bundle.alarm is None:
        return ""
    said = "note: labels put the cost above the tolerable, and no alarm rings for it"
    if all(audited["carried"] for audited in above):
        return f"{said}: they are of earlier events, and what is so far from now proves nothing of it; label later ones"
    return (
        f"{said}: it is not proven yet. The alarm by labels needs evidence that keeps the stated rate of false alarms "
        f"({bundle.alarm.false_alarms}) however often one looks, which is more than an interval is; label more events"
    )


def alarm_line(monitor: Monitor, alarmed: Sequence[str], *, untold: bool) -> str:
    """The verdict: whose alarm is on, and what all together say."""
    there = f"the alarm of {listed(alarmed)} is on" if alarmed else ""
    if not monitor.alarm:
        cleared = f" ({there}, but not that of all together)" if there else ""
        return (
            f"No alarm is on{cleared}, but it cannot be told: take that as seriously as one"
            if untold
            else (
                f"No alarm of all together, though {there}: look at it there"
                if there
                else "No alarm."
            )
        )
    bundle, said = monitor.bundle, _rung(monitor)
    limit = priced(bundle.tolerable or 0.0, bundle.unit)
    if monitor.alarm_by_labels:
        return f"ALARM is on, by labels: they say that the cost of all together is above {limit}"
    if said is None or said.exceedance is None:
        whose = f", carried over from {listed(alarmed)}" if alarmed else ""
        return f"ALARM is on{whose}: of all together it cannot be told now whether the cost is above {limit}"
    when = (
        f" up to {moment(said.time)}, where one of them ends"
        if said.time < monitor.state.newest
        else ""
    )
    together = (
        f"the cost of all together may be above {limit} (probability {said.exceedance:.1%}{when})"
    )
    return f"ALARM is on: {together}" + (f"; {there} as well" if there else "")


def _rung(monitor: Monitor) -> Alarm | None:
    """The alarm by the scores that is on, as it was raised: other windows may say something else."""
    return next(
        (
            alarm
            for alarm in reversed(monitor.alarms)
            if alarm.kind == "raised" and not alarm.by_labels
        ),
        None,
    )


def listed(names: Sequence[str]) -> str:
    """Names as one says them."""
    return (
        names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
    )


def _figures(figures: Mapping[str, Any], unit: str) -> str:
    return (
        f"accuracy {figures['accuracy']:.3f} ({figures['accuracy_low']:.3f} to {figures['accuracy_high']:.3f}), risk "
        f"{amount(figures['risk'])} ({amount(figures['risk_low'])} to {amount(figures['risk_high'])}) {unit}"
    )
