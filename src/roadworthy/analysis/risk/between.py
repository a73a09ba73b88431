"""How far clean rows differ between groups: between drives, patients, hours of the day.

A window of a stream lies within one group or a few, and a group that is harder than others looks like a little shift, however
many groups the calibration has. What a pooled count knows is how all of them are together. From the clean rows of each
group two means are taken, of the shift score and of the expected error beside it. Where an analysis of variance says that they
differ by more than chance, the variance between groups tau^2 is the one that makes the weighted differences as large as expected
(Paule and Mandel 1982; for groups of one size the analysis of variance's own), so that a huge group has no more say than others:

    sum w_g (y_g - sum w y / sum w)^2 = G - 1,    w_g = 1 / (tau^2 + MS_within / n_g)

Of few groups this is poorly known: it is taken by (G - 1) / chi^2_0.1(G - 1) larger. A group's *lean* is its own difference from
all rows, scaled so that the leans of all groups vary as tau does and not as chance on top of it. Less than five groups say nothing.

>>> rng = np.random.default_rng(0)
>>> drive = np.repeat(np.arange(40), 50)
>>> harder = rng.normal(0.0, 0.3, 40)[drive]
>>> found = leans(rng.normal(harder)[None], drive)
>>> len(found), bool(0.25 < np.std([lean for lean, in found]) < 0.45), leans(rng.normal(size=(1, 2000)), drive[:1][[0] * 2000])
(40, True, ())
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.scores_of_cells import expected_errors, shift_scores
from roadworthy.statistics.clusters import kish_size

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Leans = tuple[tuple[float, ...], ...]
"""Of each group, how many standard deviations its mean lies above that of all clean rows, direction by direction."""

FEWEST = 5
"""Groups below which nobody can tell how far groups differ."""
DOUBT = 0.1
"""The variance between groups is larger than what it is taken for in one of ten calibrations."""
BY_CHANCE = 0.01
"""How likely chance alone makes groups differ so much, from which on they are taken not to."""
MOST = 100
"""Groups that are kept: of more, every so manyth by their first lean."""
STEPS = 60
"""Halvings in which that variance is found."""
OWN = 0.02
"""The share of its variance from which on the expected error says something of its own beside the shift score."""
STRETCHES, LEAST_ROWS = 40, 20
"""Stretches of time that stand for groups, and the clean rows of each at least."""
HOUR, DAY, DAYS = 3600.0, 86400.0, 2
"""Seconds; and the days that times must span for the hours of the day to be groups."""


class Stretches(NamedTuple):
    """Groups by time."""

    codes: Ints
    """One a row; -1 where it belongs to none."""
    called: str


def directions(calibration: Calibration) -> Floats:
    """The shift score of each cell and what its expected error says beside it, both of mean 0 and deviation 1 among clean rows.

    Zeros where there is no such thing.
    """
    rows = calibration.table[0].sum(axis=0).astype(np.float64)
    share = rows / max(rows.sum(), 1.0)
    shift, error = (
        _standard(shift_scores(calibration).cells, share),
        _standard(expected_errors(calibration), share),
    )
    beside = error - float(share @ (error * shift)) * shift
    if float(share @ beside**2) < OWN:
        beside = np.zeros_like(shift)
    return np.stack([shift, _standard(beside, share)])


def _standard(values: Floats, share: Floats) -> Floats:
    centred = values - float(share @ values)
    deviation = float(np.sqrt(share @ centred**2))
    result: Floats = centred / deviation if deviation > 1e-9 else np.zeros_like(values)
    return result


def leans(values: Floats, groups: ArrayLike) -> Leans:
    """How far each group lies from all rows in each direction, beyond chance; nothing where groups do not differ.

    `values` are directions x rows. Nothing is said either of fewer than five groups, or of groups of one row each.
    """
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)
    n, count = len(codes), len(sizes)
    if count < FEWEST or count == n:
        return ()
    found = np.stack([_leans(row, codes, sizes) for row in values], axis=1)
    if not found.any():
        return ()
    if count > MOST:
        order = np.argsort(found[:, 0], kind="stable")
        found = found[
            order[np.round((np.arange(MOST) + 0.5) * count / MOST - 0.5).astype(np.int64)]
        ]
    return tuple(tuple(map(float, row)) for row in np.round(found, 6))


def _leans(values: Floats, codes: Ints, sizes: Floats) -> Floats:
    from scipy.stats import chi2, f

    n, count = len(values), len(sizes)
    centred = values - values.mean()
    means = np.bincount(codes, centred) / sizes
    within = float(np.square(centred - means[codes]).sum() / (n - count))
    between = float((sizes * means**2).sum() / (count - 1))
    if between <= within or (
        within > 0.0 and float(f.sf(between / within, count - 1, n - count)) > BY_CHANCE
    ):
        return np.zeros(count)
    variance = _variance(means, within / sizes)
    groups = kish_size(1.0 / (variance + within / sizes))
    if groups < FEWEST:
        return np.zeros(count)
    larger = variance * (groups - 1.0) / float(chi2.ppf(DOUBT, groups - 1.0))
    result: Floats = means * np.sqrt(larger / (variance + within / sizes))
    return result


def _variance(means: Floats, chance: Floats) -> float:
    """The variance between groups beside which the differences of their means are what chance would make of them."""
    low, high = 0.0, float(means.var(ddof=1)) * len(means)
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        weights = 1.0 / (middle + chance)
        about = float(weights @ means / weights.sum())
        low, high = (
            (middle, high)
            if float(weights @ (means - about) ** 2) > len(means) - 1
            else (low, middle)
        )
    return high


def with_leans(calibration: Calibration, rows: Rows, times: ArrayLike | None = None) -> Calibration:
    """With the leans of its clean rows' groups, or of stretches of time where there are no groups.

    Cells are those of the models that a monitor will use: models of folds differ a little themselves, which is not the groups'.
    """
    if calibration.grouped:
        tried = [Stretches(np.unique(rows.groups, return_inverse=True)[1], "groups")]
    elif times is not None:
        # Rows without groups are each their own, numbered as in the table that they come from.
        clean = np.zeros(len(np.asarray(times)), dtype=bool)
        clean[rows.groups[rows.kind == 0]] = True
        tried = [Stretches(codes[rows.groups], called) for codes, called in stretches(times, clean)]
    else:
        return calibration
    cells = calibration.place(rows.columns)
    looks, found = directions(calibration), []
    for codes, called in tried:
        on = (rows.kind == 0) & (cells >= 0) & (codes >= 0)
        found.append((leans(looks[:, cells[on]], codes[on]), len(np.unique(codes[on])), called))
    best, count, called = max(found, key=lambda one: spread(one[0]), default=((), 0, ""))
    if not best:
        return calibration
    return replace(calibration, between=best, between_what=f"{count} {called}")


def in_words(calibration: Calibration) -> str:
    """How far clean scores differ, and between what; nothing where they do not."""
    if not calibration.between:
        return ""
    apart = spread(calibration.between)
    return f"clean scores differ between the {calibration.between_what}, by {apart:.2f} of their standard deviation"


def spread(found: Leans) -> float:
    """How far groups lie apart in the shift score, as a standard deviation about 0."""
    return float(np.sqrt(np.mean(np.square([lean[0] for lean in found])))) if found else 0.0


def stretches(times: ArrayLike, clean: ArrayLike) -> list[Stretches]:
    """Groups of clean rows by time, where there are times: stretches of as many rows each, and the hours of the day.

    >>> [(s.called, len(set(s.codes.tolist()))) for s in stretches(np.arange(500) * 600.0, np.ones(500, dtype=bool))]
    [('stretches of time', 25), ('hours of the day', 24)]
    """
    at = np.asarray(times, dtype=np.float64)
    rows = np.flatnonzero(np.asarray(clean, dtype=bool) & np.isfinite(at))
    count = min(STRETCHES, len(rows) // LEAST_ROWS)
    if count < FEWEST or np.ptp(at[rows]) <= 0.0:
        return []
    codes = np.full(len(at), -1)
    codes[rows[np.argsort(at[rows], kind="stable")]] = np.arange(len(rows)) * count // len(rows)
    found = [Stretches(codes, "stretches of time")]
    if np.ptp(at[rows]) >= DAYS * DAY:
        hours = np.full(len(at), -1)
        hours[rows] = (at[rows] % DAY // HOUR).astype(np.int64)
        found.append(Stretches(hours, "hours of the day"))
    return found
