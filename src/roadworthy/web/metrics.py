"""What `/metrics` shows, in the text format of Prometheus (version 0.0.4).

>>> page = Page()
>>> page.add("roadworthy_events_total", "counter", "Events.", [({"outcome": "accepted"}, 12)])
>>> print(page.text(), end="")
# HELP roadworthy_events_total Events.
# TYPE roadworthy_events_total counter
roadworthy_events_total{outcome="accepted"} 12
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roadworthy.web.counting import Counting
    from roadworthy.web.keeper import Keeper
    from roadworthy.web.sidecar import Sidecar
    from roadworthy.web.webhook import AlarmLog, Webhook

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

WINDOW_FIGURES = (
    ("risk", "Expected cost of an event, in the unit of the bundle."),
    ("risk_low", "Lower end of its interval."),
    ("risk_high", "Upper end of its interval."),
    ("accuracy", "Expected share of right answers."),
    ("accuracy_low", "Lower end of its interval."),
    ("accuracy_high", "Upper end of its interval."),
    ("rate", "Estimated share of shifted events."),
    ("rate_low", "Lower end of its interval."),
    ("rate_high", "Upper end of its interval."),
    ("exceedance", "Probability that the risk is above the tolerable limit."),
    ("log_odds", "Log-odds of the same."),
    ("alarm_log_odds", "Log-odds that the alarm watches, with its burden of proof."),
)
"""NaN while there is no estimate."""
WITH_LIMIT = ("exceedance", "log_odds", "alarm_log_odds")
"""Figures that exist only if there is a tolerable limit."""
WINDOW_COUNTS = (
    ("strangeness", "Probability that a calibrated window fits at least as badly."),
    ("n", "Events with a score in the window."),
    ("unscored", "Events without a score in the window."),
    ("effective_n", "Effective number of independent events."),
)
AUDITED = (
    ("risk", "Expected cost of an event by labels, in the unit of the bundle."),
    ("risk_low", "Lower end of its interval."),
    ("risk_high", "Upper end of its interval."),
    ("accuracy", "Share of right answers by labels."),
    ("accuracy_low", "Lower end of its interval."),
    ("accuracy_high", "Upper end of its interval."),
    ("labels", "Labels on which they rest."),
)
ALARMS = ("raised", "cleared", "no estimate", "estimates again")
OUTCOMES = ("accepted", "repeated", "late", "unscored", "ahead")

Sample = tuple[Mapping[str, str], float | None]


class Page:
    """Families of samples, in the order in which they were added."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help: str, samples: Iterable[Sample]) -> None:
        """A family; samples without a number (None) are left out."""
        lines = [
            f"{name}{_labels(labels)} {_number(value)}"
            for labels, value in samples
            if value is not None
        ]
        if lines:
            self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}", *lines]

    def gauge(self, name: str, help: str, value: float | None) -> None:
        """One number, without labels."""
        self.add(name, "gauge", help, [({}, value)])

    def histogram(self, name: str, help: str, seen: Histogram) -> None:
        """A histogram with its buckets, sum and count."""
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} histogram"]
        total = 0
        for step, count in zip((*map(str, seen.steps), "+Inf"), seen.counts, strict=True):
            total += count
            self._lines.append(f'{name}_bucket{{le="{step}"}} {total}')
        self._lines += [f"{name}_sum {_number(seen.total)}", f"{name}_count {total}"]

    def text(self) -> str:
        """The page."""
        return "\n".join(self._lines) + "\n"


class Histogram:
    """Counts of durations.

    >>> seen = Histogram(); seen.add(0.004); seen.add(9.0)
    >>> seen.counts[2], seen.counts[-1], seen.total
    (1, 1, 9.004)
    """

    def __init__(self, steps: tuple[float, ...] = STEPS) -> None:
        self.steps, self.counts, self.total = steps, [0] * (len(steps) + 1), 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(self.steps, seconds)] += 1
        self.total += seconds


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """
    >>> _number(3), _number(0.25), _number(math.inf), _number(True)
    ('3', '0.25', '+Inf', '1')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    )


def metrics_page(
    counting: Counting,
    keeper: Keeper,
    webhook: Webhook | None = None,
    sidecar: Sidecar | None = None,
    alarm_log: AlarmLog | None = None,
) -> str:
    """The page; called by the thread that counts."""
    page = Page()
    _stream(page, counting)
    _windows(page, counting)
    _alarms(page, counting)
    page.add("roadworthy_posts_refused_total", "counter", "Posts refused.", [({}, keeper.refused)])
    page.histogram("roadworthy_group_seconds", "Time to write and count a group.", keeper.writing)
    page.histogram("roadworthy_group_posts", "Posts in a group.", keeper.sizes)
    page.gauge("roadworthy_waiting_events", "Events that wait to be written.", keeper.waiting)
    page.gauge("roadworthy_state_bytes", "Size of the state on disk.", counting.file.size())
    trouble = bool(keeper.trouble)
    page.gauge("roadworthy_write_trouble", "Whether the last write failed.", trouble)
    if sidecar is not None:
        _sidecar(page, sidecar)
    if webhook is not None:
        outcomes = {"taken": webhook.sent, "failed": webhook.failed, "dropped": webhook.dropped}
        page.add(
            "roadworthy_webhook_total",
            "counter",
            "Alarms sent: taken, failed tries, and dropped (4xx).",
            [({"outcome": name}, value) for name, value in outcomes.items()],
        )
        page.gauge("roadworthy_webhook_waiting", "Alarms not delivered yet.", webhook.waiting)
    if alarm_log is not None:
        page.add(
            "roadworthy_alarm_log_failed_total",
            "counter",
            "Alarms that could not be logged when they were due.",
            [({}, alarm_log.failed)],
        )
        unlogged = counting.outbox.unlogged
        page.gauge("roadworthy_alarm_log_waiting", "Alarms not in the log yet.", unlogged)
    return page.text()


def _stream(page: Page, counting: Counting) -> None:
    bundle, state = counting.bundle, counting.monitor.state
    info = {"bundle": bundle.id, "subject": bundle.subject, "unit": bundle.unit}
    page.add("roadworthy_bundle_info", "gauge", "The bundle.", [(info, 1)])
    page.add(
        "roadworthy_events_total",
        "counter",
        "Events since the start, by outcome.",
        [({"outcome": name}, counting.totals[name]) for name in OUTCOMES],
    )
    page.gauge("roadworthy_events_counted", "Events in the state, all starts.", state.counted)
    newest = state.newest if state.newest > float("-inf") else None
    page.gauge("roadworthy_newest_event_seconds", "Time of the latest event.", newest)
    labels = state.labels.counted
    page.gauge("roadworthy_labels", "Labels received.", labels)
    page.gauge("roadworthy_tolerable_risk", "Limit of the bundle.", bundle.tolerable)


def _windows(page: Page, counting: Counting) -> None:
    windows, watched = counting.now().windows, counting.bundle.watched
    for name, help in WINDOW_FIGURES:
        shown = [w for w in windows if name != "alarm_log_odds" or w["window"] == watched]
        samples = [({"window": w["window"]}, _figure(w, name)) for w in shown]
        page.add(f"roadworthy_{name}", "gauge", help, samples)
    for name, help in WINDOW_COUNTS:
        samples = [({"window": w["window"]}, w[name]) for w in windows]
        page.add(f"roadworthy_{name}", "gauge", help, samples)
    page.add(
        "roadworthy_no_estimate",
        "gauge",
        "Whether there is no estimate for a window: then its figures are NaN.",
        [({"window": w["window"]}, w["no_estimate"] is not None) for w in windows],
    )
    audited = [(w["window"], w["audited"]) for w in windows if w["audited"] is not None]
    for name, help in AUDITED:
        samples = [({"window": window}, found[name]) for window, found in audited]
        page.add(f"roadworthy_audited_{name}", "gauge", help, samples)


def _alarms(page: Page, counting: Counting) -> None:
    monitor = counting.monitor
    page.gauge(
        "roadworthy_mostly_late",
        "Whether most recent events were refused as late or ahead: then there is no estimate.",
        bool(counting.late),
    )
    page.gauge("roadworthy_alarm", "Whether an alarm is on.", monitor.alarm)
    by_labels = monitor.alarm_by_labels
    page.gauge("roadworthy_alarm_by_labels", "Whether labels keep it on.", by_labels)
    page.add(
        "roadworthy_alarms_total",
        "counter",
        "Alarms since the start; no estimate: no estimate for a whole window.",
        [({"kind": kind}, counting.totals[f"alarms {kind}"]) for kind in ALARMS],
    )


def _sidecar(page: Page, sidecar: Sidecar) -> None:
    skipped = {
        "unreadable": sidecar.unread,
        "not written": sidecar.lost,
        "another model": sidecar.others,
    }
    page.add(
        "roadworthy_sidecar_skipped_total",
        "counter",
        "Answers of the model server that were not counted.",
        [({"reason": reason}, value) for reason, value in skipped.items()],
    )
    page.add(
        "roadworthy_sidecar_model_info",
        "gauge",
        "The model whose answers are counted.",
        [({"model": sidecar.model}, 1)],
    )
    page.gauge("roadworthy_upstream_up", "Whether the model server answers.", sidecar.up)


def _figure(window: Mapping[str, Any], name: str) -> float | None:
    """A figure, or NaN if there is no estimate; None if it never exists."""
    if name in WITH_LIMIT and window["tolerable"] is None:
        return None
    value: float | None = window[name]
    return math.nan if value is None else value
