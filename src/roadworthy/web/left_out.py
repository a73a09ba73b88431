"""Why events of a post were left out, as the answer to it says: each reason has a remedy of its own.

>>> from roadworthy.monitor.state import State
>>> state = State(cells=2, capacity=10, lateness=3600.0)
>>> state.newest = 1_700_000_000.0
>>> with_reasons(Taken(0, 0, 1, 0), state, outrun=0, now=1_700_000_005.0).why["why_late"]
'older than the newest event that was counted (2023-11-14 22:13:20 UTC) by more than 3,600 s'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from roadworthy.monitor import Taken
from roadworthy.monitor.messages import lasting
from roadworthy.web.lately import utc

if TYPE_CHECKING:
    from roadworthy.monitor.state import State


class LeftOut(Taken):
    """What became of events of which some were left out, and why."""

    why: Mapping[str, str]
    """By the name under which the answer says it."""


def with_reasons(taken: Taken, state: State, *, outrun: int, now: float) -> LeftOut:
    """The reasons beside the counts; `outrun` is what the state had of it before these events, and `now` the clock they were held
    against."""
    found = LeftOut(*taken)
    found.why = {
        **({"why_late": _why_late(taken.late, state.outrun - outrun, state)} if taken.late else {}),
        **({"why_ahead": _why_ahead(state, now)} if taken.ahead else {}),
    }
    return found


def _why_late(late: int, outrun: int, state: State) -> str:
    by_clock = f"older than the newest event that was counted ({utc(state.newest)}) by more than {lasting(state.lateness)}"
    by_ids = (
        f"older than all of the {len(state.recent):,} events whose ids are still known, which reach back "
        f"{lasting(state.reach)}, so that nobody can tell whether it was counted before"
    )
    if not outrun:
        return by_clock
    return by_ids if outrun == late else f"{late - outrun:,} {by_clock}; {outrun:,} {by_ids}"


def _why_ahead(state: State, now: float) -> str:
    return f"later than this machine's clock, which is taken to show {utc(now)}, by more than {lasting(state.ahead)}"
