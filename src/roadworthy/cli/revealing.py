"""What a revealed truth says against a replay: cost above the tolerable while no alarm was on, and intervals that do not hold.

Of a window the true share of right answers varies by chance, too. So what is above the limit and yet within its interval is no
charge against the scores; that they do not see something is said where the truth lies outside more often than chance explains.
Windows that share events miss together: chance is asked of windows that share none, and all of them are counted.

>>> too_often(1, 20), too_often(4, 20), too_often(10, 20)
(False, False, True)
>>> apart(np.array([100, 125, 199, 200, 225, 310]), 100).tolist()
[0, 3, 5]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.analysis.risk.amounts import priced
from roadworthy.cli.amounts import many

if TYPE_CHECKING:
    from roadworthy.cli.replaying import Replayed
    from roadworthy.monitor.bundle import Bundle

MISSES = 0.05
"""Of intervals at 95%."""
RARELY = 0.01
"""How likely so many misses or more may be by chance before it is said that there are too many."""


class Unseen(NamedTuple):
    """Windows whose truth is known, by what it says against the estimates."""

    windows: int
    outside: int
    """Their truth lies outside the interval."""
    above: int
    """They cost more than is tolerable, and no alarm was on at any time."""
    above_outside: int
    """Of these, the ones whose accuracy lies below its interval."""
    many: bool
    """Of those that share no event, more lie outside than chance explains."""


def unseen(bundle: Bundle, found: Replayed) -> Unseen | None:
    """What the truth says against a replay; None where it is not known."""
    rows, e = found.revealed, found.estimates
    if not rows.any():
        return None
    low, high = found.truth < e.accuracy_low, found.truth > e.accuracy_high
    quiet = rows & _dear(bundle, found) & ~_alarmed(found)
    outside = (low | high)[rows]
    alone = outside[apart(found.ends[rows], found.window)]
    much = too_often(int(alone.sum()), len(alone))
    return Unseen(
        len(outside), int(outside.sum()), int(quiet.sum()), int((quiet & low).sum()), much
    )


def against(bundle: Bundle, found: Replayed) -> list[str]:
    """The same in one sentence, where there is something to say."""
    said = unseen(bundle, found)
    if said is None:
        return []
    limit = f"The truth was above the tolerable {priced(bundle.tolerable or 0.0, bundle.unit)} in {many(said.above, 'window')}"
    if said.many and 2 * said.above_outside > said.above:
        return [f"{limit} without an alarm: the scores do not see it."]
    if said.many:
        return [
            f"The truth lies outside the interval in {said.outside:,} of {many(said.windows, 'window')}, far more than 1 in 20: "
            "the scores do not tell how often answers are right in this stream."
        ]
    if said.above:
        inside, below, interval = (
            said.above - said.above_outside,
            said.above_outside,
            "the interval of the accuracy",
        )
        held = f"in {inside:,} within {interval}, which holds the chance of so few events"
        missed = f"in {below:,} below {'it' if inside else interval}"
        return [
            f"{limit} without an alarm: {', '.join([held] * bool(inside) + [missed] * bool(below))}."
        ]
    return []


def unseen_in(bundle: Bundle, found: Replayed) -> dict[str, Any]:
    """The same for a program."""
    said = unseen(bundle, found)
    above = None if said is None else said.above
    return {"above_tolerable_without_alarm": above, "said": against(bundle, found)}


class Sample(NamedTuple):
    """Outcomes that are known of some events only, beside what was estimated of the windows they lie in."""

    known: int
    right: int
    share: float
    low: float
    high: float
    estimate: float | None
    """The mean of the windows' estimates, each as often as outcomes of it are known; None where none could be told."""
    all_known: int
    """Known outcomes of the whole stream, those of windows that could not be told among them."""


def sampled(found: Replayed) -> Sample | None:
    """What known outcomes say, however few a window; None where there are none.

    Where some windows could not be told, only outcomes of the others are held against their estimates, each once.
    """
    from roadworthy.statistics import wilson

    known, right = found.outcomes
    if not known:
        return None
    weights, told = found.known.astype(np.float64), np.flatnonzero(found.told)
    if len(told) < len(found.ends):
        told = told[apart(found.ends[told], found.window)]
        if weights[told].any():
            known, right = int(found.known[told].sum()), int(found.right[told].sum())
    estimate = None
    if weights[told].any():
        estimate = float(np.average(found.estimates.accuracy[told], weights=weights[told]))
    bounds = wilson(right, known)
    return Sample(known, right, right / known, bounds.low, bounds.high, estimate, found.outcomes[0])


def of_a_sample(found: Replayed) -> list[str]:
    """The same in words, and why no interval is held against the truth; to be said where none is."""
    said = sampled(found)
    if said is None:
        return []
    where = (
        ""
        if said.known == said.all_known
        else f" in windows with figures (of {said.all_known:,} in all)"
    )
    beside = "no window that has figures holds one of them"
    if said.estimate is not None:
        beside = f"the estimates of the windows that they lie in are {said.estimate:.2f} on average"
    lines = [
        f"Truth sampled: {said.right:,} of {many(said.known, 'known answer')}{where} {'is' if said.right == 1 else 'are'} right, "
        f"{said.share:.2f} [{said.low:.2f}, {said.high:.2f}] if they were drawn at random; {beside}."
    ]
    if (found.known < found.mostly).all():
        lines.append(
            "The intervals are not held against the truth: in no window are nine in ten outcomes known."
        )
    else:
        lines.append(
            "The intervals are not held against the truth: no window of which nine in ten are known could be told."
        )
    return lines


def too_often(missed: int, windows: int) -> bool:
    """Whether so many of so many intervals at 95% miss hardly ever."""
    from scipy.stats import binom

    return bool(binom.sf(missed - 1, windows, MISSES) < RARELY)


def apart(ends: np.ndarray, window: int) -> np.ndarray:
    """Of windows in order, which to take so that no two share an event: the first, and each that begins after the one before."""
    chosen: list[int] = []
    for at, end in enumerate(ends.tolist()):
        if not chosen or end - ends[chosen[-1]] >= window:
            chosen.append(at)
    return np.array(chosen, dtype=np.int64)


def _dear(bundle: Bundle, found: Replayed) -> np.ndarray:
    """Windows that truly cost more than is tolerable, where outcomes alone say what they cost."""
    from roadworthy.analysis.risk.prototypes import answer_costs

    costs = answer_costs(bundle.tree)
    if costs is None or bundle.tolerable is None:
        return np.zeros(len(found.ends), dtype=bool)
    right, wrong = costs
    dear: np.ndarray = right * found.truth + wrong * (1.0 - found.truth) > bundle.tolerable
    return dear


def _alarmed(found: Replayed) -> np.ndarray:
    """Windows in which an alarm was on at some time."""
    on = np.zeros(len(found.ends), dtype=bool)
    firsts = found.ends - found.window + 1
    since: int | None = None
    for alarm in found.alarms:
        if alarm.kind == "raised" and since is None:
            since = alarm.event
        elif alarm.kind == "cleared" and since is not None:
            on |= (found.ends >= since) & (firsts <= alarm.event)
            since = None
    return on if since is None else on | (found.ends >= since)
