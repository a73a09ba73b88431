"""What is read besides the windows of a fixed length: events that fade, all since the last change, and what is believed before.

>>> from types import SimpleNamespace
>>> from roadworthy.monitor.bundle import Beforehand
>>> from roadworthy.monitor.estimate import Forecast
>>> from roadworthy.monitor.windows import Windows
>>> windows, prior, expected = Windows((100, 1000), 200.0, True), Beforehand(0.05, 20.0), Forecast(0.05, 0.09, 0.07, 0.12)
>>> for said in read_besides(SimpleNamespace(windows=windows, beforehand=prior, forecast=expected, unit="EUR per case")):
...     print(said)
Read besides: decay (fading, half after 200 events), adaptive (since the last change).
Before a window is full: 5% shifted, worth 20 events, and less the fuller it is. The alarm reads full windows alone.
Forecast before release, with 5% shifted: 0.090 EUR per case (0.070 to 0.120).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.analysis.risk.amounts import amount, priced
from roadworthy.cli.amounts import percent
from roadworthy.cli.merging import window_line
from roadworthy.web.views import FIGURES, risk_view, windows_of

if TYPE_CHECKING:
    from roadworthy.monitor import Bundle, RiskState

KEYS = ("window", "label", "half_life", "n", "wanted", "unscored", "effective_n", "cannot_tell")
"""Of a window at the end of a stream, beside its figures."""


def read_besides(bundle: Bundle) -> list[str]:
    """What `calibrate` says of it; nothing where nobody asked for any."""
    others = [
        f"{one['window']} ({one['label']})"
        for one in windows_of(bundle)
        if not one["window"].isdigit()
    ]
    said = [f"Read besides: {', '.join(others)}."] if others else []
    if bundle.beforehand is not None:
        said.append(
            f"Before a window is full: {bundle.beforehand.in_words}, and less the fuller it is. The alarm reads full windows alone."
        )
        forecast = bundle.forecast
        if forecast is not None:
            cost, sure = (
                priced(forecast.risk, bundle.unit),
                f"{amount(forecast.low)} to {amount(forecast.high)}",
            )
            said.append(
                f"Forecast before release, with {percent(forecast.rate)} shifted: {cost} ({sure})."
            )
    return said


def end_lines(states: Sequence[RiskState]) -> list[str]:
    """What `replay` says of it: what each such window reads at the end of the stream."""
    return [_line(risk_view(state)) for state in states if not state.window.isdigit()]


def end_records(states: Sequence[RiskState]) -> list[dict[str, Any]]:
    """All windows at the end of the stream, as plain JSON values."""
    told = [name for name in FIGURES if name != "alarm_log_odds"]
    return [{name: view[name] for name in (*KEYS, *told)} for view in map(risk_view, states)]


def _line(view: dict[str, Any]) -> str:
    shifted = "" if view["rate"] is None else f"{view['rate']:.0%} shifted, "
    worth = f"{view['n']:,} events, worth {view['effective_n']:,.0f}"
    return f"At the end, {view['label']} ({worth}): {shifted}{window_line(view)}."
