"""Where a stream of counts last changed: a test of bounded false alarms for every sample size, its cost linear in the buckets.

Buckets of events in order of time are counted by bin. For every place to split, the Bayes factor of two multinomials against one,
under uniform Dirichlet priors, is G = m(left) m(right) / m(all), m(x) = (B-1)! prod_b x_b! / (n+B-1)!. If nothing changed, the left
counts given the sum of both are hypergeometric, whatever the bins' probabilities. Every possible left side then adds the same
to the expectation of G: C(n+B-1, B-1) / (C(l+B-1, B-1) C(r+B-1, B-1)). There are at most as many as the smaller of the last two
binomials, and at most prod_b (1 + min(n_b, l, r)) over all bins but the largest. G over that bound has expectation at most 1 (an
e-value), and so has any weighted mean over places; by Markov's inequality it exceeds 1 / alpha with probability at most alpha,
without asymptotics or simulation. Weights fall with the distance from the end: a window asks about what is recent.

The bound is for one look at independent events. Looking again after every bucket has more chances, of which a test keeps count, and
`shrink` scales the counts of events that are not independent.

>>> steady = [[9, 1]] * 30
>>> since_change(steady), since_change(steady + [[4, 6]] * 10)
(0, 30)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def since_change(bucket_counts: ArrayLike, alpha: float = 0.01, *, shrink: float = 1.0) -> int:
    """The index of the first bucket after the last change that is detected; 0 where none is.

    Where a change is found, what follows it is tested again, each time at `alpha`.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(
            f"alpha must lie between 0 and 1, found {alpha!r}; write 0.01 for at most one false alarm in a hundred looks"
        )
    counts = _counts(bucket_counts) * _share(shrink)
    start = 0
    while len(counts) - start > 1:
        evidence = _weighted(counts[start:])
        if _log_sum(evidence) < -math.log(alpha):
            break
        start += int(np.argmax(evidence)) + 1
    return start


def change_evidence(bucket_counts: ArrayLike, *, shrink: float = 1.0) -> float:
    """The log e-value that something changed somewhere: by chance above log(1 / alpha) with probability at most alpha."""
    counts = _counts(bucket_counts) * _share(shrink)
    return _log_sum(_weighted(counts)) if len(counts) > 1 else 0.0


def _weighted(counts: Floats) -> Floats:
    """By place to split (after the first bucket, the second, ...), log weight plus log e-value."""
    from scipy.special import gammaln

    left = np.cumsum(counts, axis=0)
    whole, left = left[-1], left[:-1]
    right = np.maximum(whole - left, 0.0)
    bins, n = counts.shape[1], float(whole.sum())
    before, after = left.sum(axis=1), right.sum(axis=1)
    factorials = (
        gammaln(left + 1.0).sum(axis=1)
        + gammaln(right + 1.0).sum(axis=1)
        - gammaln(whole + 1.0).sum()
    )
    ways_before, ways_after, ways = (
        gammaln(x + bins) - gammaln(x + 1.0) - gammaln(bins) for x in (before, after, n)
    )
    # log m(left) m(right) / m(all): the (n + B - 1)! of m are the ways to divide n among the bins, times n!.
    evidence = (
        factorials
        - (ways_before + gammaln(before + 1.0))
        - (ways_after + gammaln(after + 1.0))
        + ways
        + gammaln(n + 1.0)
    )
    smaller = np.minimum(before, after)[:, None]
    possible = np.log1p(np.minimum(np.delete(whole, whole.argmax()), smaller)).sum(axis=1)
    number = np.minimum(np.minimum(ways_before, ways_after), possible)
    bound = number + ways - ways_before - ways_after
    distance = np.arange(len(left), 0, -1.0)
    return evidence - bound - np.log(distance) - math.log((1.0 / distance).sum())


def _log_sum(logs: Floats) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))


def _counts(bucket_counts: ArrayLike) -> Floats:
    counts = np.asarray(bucket_counts, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[1] < 2:
        raise ValueError(
            f"counts must be a table of buckets x bins, two bins or more, found shape {counts.shape}"
        )
    if not np.isfinite(counts).all() or (counts < 0.0).any():
        raise ValueError("counts must be finite and not negative; check how they were counted")
    return counts


def _share(shrink: float) -> float:
    if not 0.0 < shrink <= 1.0:
        raise ValueError(
            f"shrink must lie above 0 and be at most 1, found {shrink!r}; 1 is for independent events"
        )
    return shrink
