"""How long a stretch an alarm reads where events resemble each other: as long as it takes to hold enough independent ones.

A window of 300 events of which 19 say as much as one holds 16 independent events: no burden that keeps clean streams quiet is
passed by a step to 30% shift. What can be noticed at all takes n independent events, and n times the autocorrelation time of
them are read, at most as many as a window of independent events has. n is found for the mean shift score, taken to be normal
(z for the false alarms, 0.84 for four steps in five that are noticed as soon as they fill the stretch):

    n = ((z s_0 + 0.84 s_1) / (r d - u))^2 , at least (0.84 s_1 / ((r - r_t) d))^2

with s_0 and s_1 the deviation of the score without shift and at the rate r, d the distance of the means of shifted and clean
events, u what clean may lie higher than its calibration counts say, by chance or in a hard group, and r_t the rate that is still
tolerable. It need not be exact: the burden of the stretch is found by simulation.

>>> [(round(time), length) for time, length in tried_times(300, 100)]
[(6, 100), (31, 100), (164, 100), (328, 50)]
>>> tried_times(10_000, 100)
()
"""

from __future__ import annotations

import math

from roadworthy.monitor.alarm import LONGER, LONGEST
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import Watched

NOTICED = 0.84
"""Standard deviations: four steps in five are noticed by a stretch that is full of it, and more by those after it."""
UNLUCKY = 2.0
"""Standard deviations by which clean may lie above what was counted."""
TYPICAL = 10.0
"""The autocorrelation time by which false alarms an event become false alarms an independent event; its logarithm matters."""
LOOKS = 5.0
"""Looks a stretch, beyond which false alarms are the same ones."""
FEWEST = 20


def enough_events(
    watched: Watched, worlds: Floats, per_event: float, *, step: float, groups: float = 0.0
) -> int:
    """Independent events that notice a step in the rate of shift of any kind, at most those of a window.

    `groups` is the deviation of windows that lie in harder and easier groups, in standard deviations of the shift score.
    """
    from scipy.stats import norm

    estimator, score = watched.estimator, watched.scores.shift
    without, with_all = (estimator.forecast(rate)[0] for rate in (0.0, 1.0))
    assert estimator.tolerable is not None
    if with_all <= max(without, estimator.tolerable):
        return watched.window
    tolerable = min(max((estimator.tolerable - without) / (with_all - without), 0.0), 1.0)
    rate = max(step, min(1.0, 2.0 * tolerable))
    means = worlds @ score
    clean = float(means.mean())
    spread = float(worlds.mean(axis=0) @ score**2) - clean**2
    doubt = UNLUCKY * math.hypot(float(means.std()), groups * math.sqrt(max(spread, 0.0)))
    needed = float(min(FEWEST, watched.window))
    for rows in estimator.calibration.table[1:].sum(axis=1):
        share = rows / max(rows.sum(), 1)
        distance = float(share @ score) - clean
        rise, above = rate * distance - doubt, (rate - tolerable) * distance
        if rise <= 0.0 or above <= 0.0:
            return watched.window
        mixed = (
            (1.0 - rate) * spread
            + rate * float(share @ (score - clean) ** 2)
            - (rate * distance) ** 2
        )
        sd, wider = math.sqrt(max(spread, 0.0)), math.sqrt(max(mixed, 0.0))
        for _ in range(5):
            z = float(norm.isf(min(0.1, per_event * TYPICAL * needed / LOOKS)))
            found = max(((z * sd + NOTICED * wider) / rise) ** 2, (NOTICED * wider / above) ** 2)
            needed = min(max(needed, found), float(watched.window))
    return math.ceil(needed)


def tried_times(window: int, stretch: int) -> tuple[tuple[float, int], ...]:
    """Autocorrelation times for which a burden of the stretch is found, and the independent events it then holds.

    From where it is longer enough than the window up to the longest that is read, and beyond that to where it holds half as many.
    """
    first, last = LONGER * window / stretch, LONGEST / stretch
    if first >= last:
        return ()
    return (
        (first, stretch),
        (math.sqrt(first * last), stretch),
        (last, stretch),
        (2.0 * last, round(stretch / 2)),
    )
