"""The event tree of a bundle as a picture, with the numbers of a window now; those from before release where it cannot be told.

The picture is whole by itself: style and palette are in it, so that it looks the same on the page, in a dashboard and in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from roadworthy.monitor import Bundle, Monitor, RiskState
from roadworthy.monitor.estimate import tree_parameters
from roadworthy.report.charts import event_tree
from roadworthy.report.charts.palette import css
from roadworthy.statistics.interval import Interval
from roadworthy.web.views import window_label

NARROWEST, WIDE, WIDEST = 320, 920, 4000
"""Pixels at which the picture is laid out: below some 700 branches stand below each other."""
_STYLE = "svg{background:var(--rw-surface);font-family:-apple-system,'Segoe UI',Roboto,Arial,'Liberation Sans',sans-serif}"


class TreeNow(NamedTuple):
    """What is drawn: a window, the tree's parameters in it, and why these are those from before release, where they are."""

    state: RiskState
    parameters: Mapping[str, float]
    instead: str | None


def tree_now(monitor: Monitor, window: str | None, *, late: str = "") -> TreeNow:
    """What a window says now; `late` is why no window can be relied on."""
    state = monitor.risk(window)
    instead = late or state.cannot_tell
    if instead is None:
        return TreeNow(state, tree_parameters(monitor, window), None)
    return TreeNow(state, _before_release(monitor.bundle), instead)


def tree_picture(bundle: Bundle, now: TreeNow, *, width: int = WIDE) -> str:
    """An SVG document."""
    state = now.state
    drawn = event_tree(
        bundle.tree,
        now.parameters,
        title=f"The event tree of {bundle.title}",
        heading=_heading(bundle, now),
        remark=_remark(bundle, now),
        tolerable=bundle.tolerable,
        interval=None
        if now.instead
        else Interval(state.risk_low, state.risk_high, state.confidence, ""),
        width=width,
    )
    start, _, rest = drawn.partition(">")
    return f"{start}><style>{escape(css() + _STYLE, quote=False)}</style>{rest}"


def _before_release(bundle: Bundle) -> dict[str, float]:
    return bundle.estimator.parameters_at(0.0 if bundle.forecast is None else bundle.forecast.rate)


def _window(state: RiskState) -> str:
    words = window_label(state.window, state.half_life)
    return f"window of {words}" if state.window.isdigit() else words


def _remark(bundle: Bundle, now: TreeNow) -> str:
    """Which share of shift the tree has, where another one is told: costs add up by the mean, and a rate is told by the middle."""
    if now.instead is not None or "p_shift" not in bundle.tree.parameters:
        return ""
    mean, told = (f"{share:.1%}" for share in (now.parameters["p_shift"], now.state.rate))
    if mean == told:
        return ""
    return f"{mean} shifted is the mean of what is likely, by which the cost adds up; the share is told as {told}, about its middle"


def _heading(bundle: Bundle, now: TreeNow) -> str:
    if now.instead is None:
        # Labels that were given say something of the whole, not of every branch.
        alone = ", by the scores alone" if now.state.audited is not None else ""
        return f"Now, {_window(now.state)}{alone}"
    rate = 0.0 if bundle.forecast is None else bundle.forecast.rate
    return f"Cannot be told now; as calibrated, {rate:.0%} shifted: {now.instead}"
