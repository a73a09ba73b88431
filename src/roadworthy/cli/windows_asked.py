"""Which windows a bundle is to have, and what is believed of the rate of shift before they are full, as options say it.

>>> windows_asked(100, None, adaptive=True).names
('100', '1000', 'adaptive')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.data.samples import DataError

if TYPE_CHECKING:
    from roadworthy.monitor.windows import Windows


def windows_asked(window: int, half_life: float | None, *, adaptive: bool) -> Windows:
    """The alarm's window, one ten times as long to compare with the forecast, and what else is asked for."""
    from roadworthy.monitor.windows import Windows

    try:
        return Windows((window, 10 * window), half_life, adaptive)
    except ValueError as error:
        raise DataError(f"--half-life: {error}") from error


def prior_asked(rate: float | None, events: float | None) -> tuple[float, float]:
    """What is believed before a window is full; of a rate that nobody gives, nobody can say how much it is worth."""
    from roadworthy.monitor.bundle import JEFFREYS, WORTH, Beforehand

    if rate is None:
        if events is not None:
            raise DataError(
                "--prior-events says how many events --prior is worth: add --prior 0.05, the rate you expect"
            )
        return JEFFREYS
    try:
        return Beforehand(rate, WORTH if events is None else events).pseudo_events
    except ValueError as error:
        raise DataError(f"--prior: {error}") from error
