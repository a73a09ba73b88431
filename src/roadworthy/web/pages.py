"""What people look at: the files of the live page, and the event tree as a picture.

The picture is whole by itself: style and palette are in it, so that it looks the same on the page,
in a dashboard and in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import NamedTuple

from roadworthy import numbers
from roadworthy.monitor import Bundle, Monitor, RiskState
from roadworthy.report.charts import event_tree
from roadworthy.report.charts.palette import css
from roadworthy.statistics.interval import Interval
from roadworthy.web.views import window_label

NARROWEST, WIDE, WIDEST = 320, 920, 4000
"""Pixels at which the picture is laid out: below some 700, branches stand below each other."""
_STYLE = (
    "svg{background:var(--rw-surface);"
    "font-family:-apple-system,'Segoe UI',Roboto,Arial,'Liberation Sans',sans-serif}"
)
_FILES = (
    *("uplot.js", "uplot.css", "elements.js", "numbers.js", "charts.js", "page.js", "page.css"),
    "uplot.LICENSE.txt",
)
_TYPES = {"js": b"text/javascript", "css": b"text/css", "html": b"text/html; charset=utf-8"}


def page_files() -> dict[str, tuple[bytes, bytes]]:
    """The live page: path -> content type and content. It holds no data, so anybody may read it."""
    folder = resources.files("roadworthy.web") / "assets"
    files = {
        f"/assets/{n}": (_TYPES.get(n.rsplit(".", 1)[1], b"text/plain"), (folder / n).read_bytes())
        for n in _FILES
    }
    files["/assets/palette.css"] = (_TYPES["css"], css().encode())
    files["/"] = (_TYPES["html"], (folder / "page.html").read_bytes())
    return files


class TreeNow(NamedTuple):
    """A window, the tree's parameters in it, and why these are those before release."""

    state: RiskState
    parameters: Mapping[str, float]
    instead: str | None


def tree_now(monitor: Monitor, state: RiskState, *, late: str = "") -> TreeNow:
    """The tree of a window; `late` is why there is no estimate for any window."""
    instead = late or state.no_estimate
    if instead is None:
        return TreeNow(state, monitor.tree_parameters(state.window), None)
    return TreeNow(
        state, monitor.bundle.estimator.parameters_at(_forecast(monitor.bundle)), instead
    )


def tree_picture(bundle: Bundle, now: TreeNow, *, width: int = WIDE) -> str:
    """An SVG document."""
    state, interval = now.state, None
    if now.instead is None:
        interval = Interval(state.risk_low, state.risk_high, state.confidence, "")
    drawn = event_tree(
        bundle.tree,
        now.parameters,
        title=f"The event tree of {bundle.title}",
        heading=_heading(bundle, now),
        remark=_remark(bundle, now),
        tolerable=bundle.tolerable,
        interval=interval,
        width=width,
    )
    start, _, rest = drawn.partition(">")
    return f"{start}><style>{escape(css() + _STYLE, quote=False)}</style>{rest}"


def _forecast(bundle: Bundle) -> float:
    """The rate of shift that was expected before release."""
    return 0.0 if bundle.forecast is None else bundle.forecast.rate


def _remark(bundle: Bundle, now: TreeNow) -> str:
    """The tree's rate of shift if it differs from the estimate: costs add up by the mean."""
    if now.instead is not None or "p_shift" not in bundle.tree.parameters:
        return ""
    mean, estimate = (
        numbers.value(p, "percent") for p in (now.parameters["p_shift"], now.state.rate)
    )
    if mean == estimate:
        return ""
    return f"The tree uses the mean rate of shift, {mean}; the estimate (median) is {estimate}."


def _heading(bundle: Bundle, now: TreeNow) -> str:
    if now.instead is not None:
        return f"No estimate now. As calibrated, {numbers.value(_forecast(bundle), 'percent')} shifted: {now.instead}"
    label = window_label(now.state.window, now.state.half_life)
    window = f"window of {label}" if now.state.window.isdigit() else label
    # Labels say something about the whole, not about every branch.
    return f"Now, {window}{', by the scores alone' if now.state.audited is not None else ''}"
