"""What `/metrics` shows: what became of events, what every window says, and how the service itself is doing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from roadworthy.web.counting import Counting
from roadworthy.web.delivery import AlarmLog, Webhook
from roadworthy.web.keeper import Keeper
from roadworthy.web.metrics import Page, Sample
from roadworthy.web.sidecar import Sidecar

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
    ("exceedance", "Probability that the risk is above the tolerable."),
    ("log_odds", "Log-odds of the same."),
    (
        "alarm_log_odds",
        "What the alarm watches, of its window: the same with the burden of proof of an alarm that is not on.",
    ),
)
"""Of which none is shown (NaN) while nobody can tell."""
WINDOW_COUNTS = (
    ("strangeness", "Probability that a window of what was calibrated looks at least as strange."),
    ("n", "Events with a score in the window."),
    ("unscored", "Events without a score in the window: what they were, nobody knows."),
    ("effective_n", "Independent events that they are worth."),
)
AUDITED = (
    ("risk", "Expected cost of an event by labels that came later, in the unit of the bundle."),
    ("risk_low", "Lower end of its interval."),
    ("risk_high", "Upper end of its interval."),
    ("accuracy", "Share of right answers by labels that came later."),
    ("accuracy_low", "Lower end of its interval."),
    ("accuracy_high", "Upper end of its interval."),
    ("labels", "Labels on which they rest."),
)
"""Of windows that have labels enough."""
ALARMS = ("raised", "cleared", "cannot tell", "can tell")
OUTCOMES = ("accepted", "repeated", "late", "unscored", "ahead")


def metrics_page(
    counting: Counting,
    keeper: Keeper,
    webhook: Webhook | None = None,
    sidecar: Sidecar | None = None,
    alarm_log: AlarmLog | None = None,
) -> str:
    """The page; called by the thread that counts."""
    page, bundle, totals = Page(), counting.bundle, counting.totals
    page.add(
        "roadworthy_bundle_info",
        "gauge",
        "Which bundle is watched.",
        [({"bundle": bundle.id, "subject": bundle.subject, "unit": bundle.unit}, 1)],
    )
    page.add(
        "roadworthy_events_total",
        "counter",
        "Events since the start, by what became of them.",
        [({"outcome": name}, totals[name]) for name in OUTCOMES],
    )
    page.add(
        "roadworthy_posts_refused_total",
        "counter",
        "Posts that were not taken.",
        _one(keeper.refused),
    )
    counted = counting.monitor.state.counted
    page.add(
        "roadworthy_events_counted",
        "gauge",
        "Events that the state holds, all starts together.",
        _one(counted),
    )
    page.add(
        "roadworthy_newest_event_seconds",
        "gauge",
        "Time of the latest event.",
        _one(_newest(counting)),
    )
    windows = counting.windows()
    watched = bundle.watched

    def told(window: Mapping[str, Any], name: str) -> bool:
        """What the alarm watches is told of its own window alone."""
        return name != "alarm_log_odds" or window["window"] == watched

    for name, help in WINDOW_FIGURES:
        page.add(
            f"roadworthy_{name}",
            "gauge",
            help,
            [({"window": w["window"]}, _relied(w, name)) for w in windows if told(w, name)],
        )
    for name, help in WINDOW_COUNTS:
        page.add(
            f"roadworthy_{name}",
            "gauge",
            help,
            [({"window": w["window"]}, w[name]) for w in windows],
        )
    page.add(
        "roadworthy_cannot_tell",
        "gauge",
        "Whether the figures of a window cannot be relied on: then they are NaN.",
        [({"window": w["window"]}, w["cannot_tell"] is not None) for w in windows],
    )
    page.add(
        "roadworthy_mostly_late",
        "gauge",
        "Whether most events that came lately were refused as late or as ahead: then no window can be relied on.",
        _one(bool(counting.late)),
    )
    page.add("roadworthy_tolerable_risk", "gauge", "As the bundle has it.", _one(bundle.tolerable))
    page.add("roadworthy_alarm", "gauge", "Whether an alarm is on.", _one(counting.monitor.alarm))
    page.add(
        "roadworthy_alarm_by_labels",
        "gauge",
        "Whether labels keep it on.",
        _one(counting.monitor.alarm_by_labels),
    )
    page.add(
        "roadworthy_alarms_total",
        "counter",
        "Alarms since the start; cannot tell: for a whole window.",
        [({"kind": kind}, totals[f"alarms {kind}"]) for kind in ALARMS],
    )
    labels = counting.monitor.state.labels
    page.add(
        "roadworthy_labels", "gauge", "Labels that came later.", _one(int(labels.counts.sum()))
    )
    audited = [(w["window"], w["audited"]) for w in windows if w["audited"] is not None]
    for name, help in AUDITED:
        page.add(
            f"roadworthy_audited_{name}",
            "gauge",
            help,
            [({"window": w}, a[name]) for w, a in audited],
        )
    _own(page, counting, keeper)
    _neighbours(page, webhook, sidecar, alarm_log)
    return page.text()


def _own(page: Page, counting: Counting, keeper: Keeper) -> None:
    """How the service is doing."""
    page.histogram(
        "roadworthy_group_seconds", "Writing and counting a group of posts.", keeper.writing
    )
    page.histogram("roadworthy_group_posts", "Posts in a group.", keeper.sizes)
    page.add(
        "roadworthy_waiting_events",
        "gauge",
        "Events that wait to be written.",
        _one(keeper.waiting),
    )
    page.add(
        "roadworthy_state_bytes",
        "gauge",
        "Size of the state on disk.",
        _one(counting.ledger.size()),
    )
    page.add(
        "roadworthy_write_trouble",
        "gauge",
        "Whether the last write failed.",
        _one(bool(keeper.trouble)),
    )


def _neighbours(
    page: Page, webhook: Webhook | None, sidecar: Sidecar | None, alarm_log: AlarmLog | None
) -> None:
    """How it gets on with others."""
    if sidecar is not None:
        page.add(
            "roadworthy_sidecar_skipped_total",
            "counter",
            "Answers of the server of models that were not counted.",
            [
                ({"reason": "unreadable"}, sidecar.unread),
                ({"reason": "not written"}, sidecar.lost),
                ({"reason": "another model"}, sidecar.others),
            ],
        )
        watched = sidecar.watched.model
        page.add(
            "roadworthy_sidecar_model_info",
            "gauge",
            "Whose answers are counted; none before the first answer that has scores, where nobody named one.",
            [] if watched is None else [({"model": str(watched)}, 1)],
        )
        page.add(
            "roadworthy_sidecar_mostly_skipped",
            "gauge",
            "Whether most answers of the server of models were lately not counted: then no window can be relied on.",
            _one(bool(sidecar.trouble)),
        )
    if webhook is not None:
        page.add(
            "roadworthy_webhook_total",
            "counter",
            "Alarms sent to the webhook: taken, tries that failed, and those dropped since too many waited.",
            [
                ({"outcome": "taken"}, webhook.sent),
                ({"outcome": "failed"}, webhook.failed),
                ({"outcome": "dropped"}, webhook.dropped),
            ],
        )
        page.add(
            "roadworthy_webhook_waiting", "gauge", "Alarms not taken yet.", _one(webhook.waiting)
        )
        page.add(
            "roadworthy_webhook_refused",
            "gauge",
            "Those of them that the webhook refuses (4xx), while the others are sent.",
            _one(webhook.refused),
        )
    if alarm_log is not None:
        page.add(
            "roadworthy_alarm_log_failed_total",
            "counter",
            "Alarms that could not be written to the alarm log when they were due.",
            _one(alarm_log.failed),
        )
        page.add(
            "roadworthy_alarm_log_waiting",
            "gauge",
            "Alarms not in the log yet.",
            _one(alarm_log.waiting),
        )


def _one(value: float | None) -> list[Sample]:
    return [({}, value)]


def _relied(window: Mapping[str, Any], name: str) -> float | None:
    """A figure, or NaN where it cannot be relied on; None where it is never told."""
    if name in ("exceedance", "log_odds", "alarm_log_odds") and window["tolerable"] is None:
        return None
    value: float | None = window[name]
    return math.nan if value is None else value


def _newest(counting: Counting) -> float | None:
    newest = counting.monitor.state.newest
    return newest if newest > float("-inf") else None
