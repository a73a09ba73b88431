"""What a stream's distributions may be: draws of the calibration's uncertainty, and of how far a new kind of shift may lie.

A shift on the road is a kind of its own: each draw mixes the calibrated kinds by
random weights, and then moves the mixture towards or away from clean (a tilt along the log likelihood ratio of the bins, normal
with deviation `TILT`). Accuracies move up or down on the logit scale (`SWAY`), by another way for every draw and rate (`ways`),
since no window tells which. Without the two steps an interval speaks only of kinds that were calibrated, and covers unseen ones
too seldom (FIELD.md, section 2).

The draws are stratified, and made from the raw numbers of a bit generator, which stay the same in every version of numpy.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 300)
>>> calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 300))}, kind, rng.random(600) < 0.8)
>>> made = drawn(calibration, draws=50)
>>> made.clean.shape == made.shifted.shape == (50, calibration.shift.bins), bool(np.allclose(made.shifted.sum(axis=1), 1.0))
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.calibration import Calibration

Floats = NDArray[np.float64]

TILT, SWAY = 0.7, 0.8
"""Chosen on the published scores of seed 003 (`studies/runtime-risk`), and checked there on scores that chose nothing."""
NEAR = 0.3
"""The tilt that a point estimate allows for: it speaks of kinds like those calibrated, the interval of others too."""
NEARER, STRANGER = 0.2, 0.1
"""Of a rate: the tilt of a kind like those calibrated, and how likely the shift is a stranger, as far from them as its interval
allows for (`roadworthy.analysis.risk.likely_worlds`)."""
FAR = 2.1
"""How many times the tilt a stranger lies from the calibrated kinds. A rate is told by looks alone, so that a kind which looks
unlike all others misleads it most; an accuracy is told by what answers look like, too."""
STEEP, FURTHEST = 3.0, 1.5
"""A tilt of 1 multiplies the odds of a bin by its likelihood ratio to the power 1/3, by at most exp(1.5)."""
BIN_PRIOR = 0.1
"""Rows added to every bin: half a row in each of fifteen would put a twentieth of 150 shifted rows where none belong."""
SHARED = 4.0
"""Rows of the mean accuracy that are added to every bin, so that an empty bin has the mean."""
FLOOR = 0.1
"""Rows that a bin has at least of right and of wrong answers: where nobody has seen a wrong one, any bin may hold it."""
UNSEEN = 0.5
"""Right and wrong answers added to all rows of a kind (Jeffreys' prior)."""
KIND_PRIOR = 0.5
"""Of mixtures of kinds: between one calibrated kind at a time (0) and always their even mixture (infinite)."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws x bins: how clean and shifted events fall into the bins of the shift score, and how often answers are right.

    Answers to shifted events are those of calibrated kinds: the sway to others is not in here.
    """

    clean: Floats
    shifted: Floats
    right_clean: Floats
    right_shifted: Floats
    usual: Floats
    """Of each draw, how much more likely it is if the shift is nearly of a kind that was calibrated; 1 on average."""
    alike: Floats
    """The same for the rate."""
    strange: Floats
    """How shifted events fall into the bins if their kind is a stranger."""
    kinds: Floats
    """Draws x calibrated kinds: the parts of each draw's mixture."""
    cut: int | None = None
    """The bin of the shift score from which on an event raises an alarm, where answers with and without one are counted apart:
    the bins of being right then stand twice, without an alarm, then with one."""

    def right_if(self, clean: Floats, shifted: Floats) -> tuple[Floats, Floats]:
        """By draw, window and bin of the shift score: events that are right if they are clean, and if they are shifted.

        Given are all by window, bin of the shift score, and bin of being right if clean, or if shifted.
        """

        def right(events: Floats, share: Floats) -> Floats:
            parts = [np.matmul(events[:, at], some.T) for at, some in self._apart(share)]
            return np.concatenate(parts, axis=1).transpose(2, 0, 1)

        return right(clean, self.right_clean), right(shifted, self.right_shifted)

    def right_of_bins(self, clean: Floats, shifted: Floats) -> tuple[Floats, Floats]:
        """How likely an event is clean and right, and shifted and right: by bin of the shift score, and of being right.

        Given is by draw and bin of the shift score how likely it is clean, and shifted.
        """

        def right(weights: Floats, share: Floats) -> Floats:
            return np.concatenate(
                [np.einsum("bs,bc->sc", weights[:, at], some) for at, some in self._apart(share)]
            )

        return right(clean, self.right_clean), right(shifted, self.right_shifted)

    def _apart(self, share: Floats) -> list[tuple[slice, Floats]]:
        """Bins of the shift score whose answers were counted together, and the shares of right ones there."""
        if self.cut is None:
            return [(slice(None), share)]
        without, alarmed = np.split(share, 2, axis=1)
        return [(slice(None, self.cut), without), (slice(self.cut, None), alarmed)]

    def falling(self, cells: Floats, rate: float) -> Floats:
        """Draws x cells: where an event falls at a rate of shift, if it falls into these `cells` of clean and of each kind."""
        clean, shifted = _moved(cells[:1], self.clean), _moved(self.kinds @ cells[1:], self.shifted)
        result: Floats = (1.0 - rate) * clean + rate * shifted
        return result


def drawn(
    calibration: Calibration,
    *,
    draws: int = 200,
    seed: int = 0,
    tilt: float = TILT,
    cut: int | None = None,
) -> Draws:
    """So many possible worlds, each as likely as another before the stream is seen.

    Where a tree asks for alarms of the shift score, raised from the bin `cut` on, answers with and without one are counted apart:
    the bins of being right do not tell an alarm that catches failures from one that does not.

    How events fall into the bins is taken at its mean: its chance weakens what a window says instead (`Estimator`), since of a few
    hundred draws of many bins hardly one would be near the truth.
    """
    source = _Source(draws, seed)
    # kinds, right or wrong, shift, clean, shifted, outside; rows of groups count for as many as are independent
    table = calibration.folded(calibration.table * calibration.worth[:, None, None])
    bins = table.sum(axis=(1, 3, 4, 5))
    ratio = _log_ratio(bins)
    means = (bins + BIN_PRIOR) / (bins + BIN_PRIOR).sum(axis=1, keepdims=True)
    clean = np.tile(means[0], (draws, 1))
    kinds = _kinds(source.dirichlet(np.full(len(bins) - 1, KIND_PRIOR)))
    tilts = tilt * source.normal()
    right_clean, right_shifted = _answers(source, table, kinds, [slice(None)])
    shifted, strange = (
        _tilted(kinds @ means[1:], by, ratio) for by in (tilts, FAR * tilt * source.normal())
    )
    usual, alike = (_as_if(min(near, tilt), tilts, tilt) for near in (NEAR, NEARER))
    if cut is not None:
        # Drawn last, so that rates are the same whether or not alarms are asked for.
        right_clean, right_shifted = _answers(
            source, table, kinds, [slice(None, cut), slice(cut, None)]
        )
    return Draws(clean, shifted, right_clean, right_shifted, usual, alike, strange, kinds, cut)


def _answers(
    source: _Source, table: Floats, kinds: Floats, parts: Sequence[slice]
) -> tuple[Floats, Floats]:
    """How often answers to clean and to shifted events are right: draws x bins of being right, for each part of the shift score's.

    Each part has a mean of its own, as the tree has an accuracy for each verdict.
    """
    right_clean = np.hstack(
        [source.shares(*table[0, :, part].sum(axis=(1, 3, 4))) for part in parts]
    )
    each = [
        table[1:, :, part].sum(axis=(2, 3, 5)) for part in parts
    ]  # kinds, right or wrong, bins if shifted
    right = np.stack(
        [
            np.hstack([source.shares(*rows) for rows in of_kind])
            for of_kind in zip(*each, strict=True)
        ],
        1,
    )
    outcomes = np.concatenate(each, axis=2)
    share = (
        kinds[:, :, None]
        * (outcomes.sum(axis=1) + BIN_PRIOR)
        / (outcomes + BIN_PRIOR).sum(axis=(1, 2))[:, None]
    )
    return right_clean, (right * share).sum(axis=1) / share.sum(axis=1)


def _moved(cells: Floats, bins: Floats) -> Floats:
    """Shares of cells, such that those of every bin of the shift score add up to the bin's."""
    parts = cells.reshape(len(cells), bins.shape[1], -1)
    result: Floats = parts * (bins / parts.sum(axis=2))[:, :, None]
    return result.reshape(len(bins), -1)


def _tilted(shares: Floats, tilts: Floats, ratio: Floats) -> Floats:
    """Shares of bins moved towards or away from clean."""
    moved = shares * np.exp(tilts[:, None] * ratio)
    return moved / moved.sum(axis=1, keepdims=True)


def _kinds(mixtures: Floats) -> Floats:
    """Every other draw is of one kind alone, in turn: a stream is often shifted in one way, and few mixtures come near it."""
    draws, kinds = mixtures.shape
    turn = np.arange(draws)
    return np.where((turn % 2 == 0)[:, None], np.eye(kinds)[turn // 2 % kinds], mixtures)


def _log_ratio(bins: Floats) -> Floats:
    """By bin, the centred log likelihood ratio of shifted (kinds even) against clean, scaled and kept within bounds."""
    shares = (bins + BIN_PRIOR) / (bins + BIN_PRIOR).sum(axis=1, keepdims=True)
    shifted = shares[1:].mean(axis=0)
    ratio = np.log(shifted / shares[0])
    result: Floats = np.clip((ratio - ratio @ shifted) / STEEP, -FURTHEST, FURTHEST)
    return result


def _as_if(deviation: float, tilts: Floats, tilt: float) -> Floats:
    """Weights that make normal draws of one deviation, `tilt`, draws of another; 1 on average."""
    if tilt == 0.0 or deviation == tilt:
        return np.ones(len(tilts))
    weights = np.exp(-0.5 * tilts**2 * (deviation**-2 - tilt**-2))
    return weights / weights.mean()


def ways(draws: int, rates: int) -> tuple[Floats, Floats]:
    """Two normal numbers for every draw and rate, spread so evenly that those of any few neighbours are spread as a normal is.

    They are the points of Kronecker sequences whose steps are powers of the plastic number (M. Roberts, 2018), and of its square
    roots: whichever draws and rates a window makes likely, ways of all sizes are among them.

    >>> bool(abs(ways(100, 101)[0][40:44, 20:30].mean()) < 0.15), round(float(ways(100, 101)[1].std()), 2)
    (True, 1.0)
    """
    from scipy.special import ndtri

    across, along = np.arange(draws)[:, None], np.arange(rates)
    steps = (PLASTIC**-1, PLASTIC**-2), (PLASTIC**-0.5, PLASTIC**-1.5)
    first, second = (
        np.asarray(ndtri((0.5 + a * across + b * along) % 1.0 * 0.999 + 0.0005)) for a, b in steps
    )
    return first, second


PLASTIC = 1.32471795724474602596


class Sway:
    """Accuracies moved on the logit scale by so many deviations, with their mean left where it was."""

    def __init__(self, deviation: float, by: Floats) -> None:
        from scipy.special import expit, logit, ndtri

        self.times = np.exp(deviation * by)
        self._more = self.times - 1.0
        shares = np.linspace(0.02, 0.98, 49)
        normal = ndtri((np.arange(200) + 0.5) / 200)
        gained = expit(logit(shares)[:, None] + deviation * normal).mean(axis=1) / shares - 1.0
        curve = (1.0 - shares) * (1.0 - 2.0 * shares)
        # The mean gains towards one half, and very nearly by a multiple of this curve.
        self.gain = float(gained @ curve / (curve @ curve))

    def moved(self, right: Floats, of: Floats, rates: slice) -> Floats:
        """Of `of` events, how many are right, by draw, window and rate."""
        times = self.times[:, None, rates]
        share = right / np.maximum(of, 1e-12)
        below = share * self._more[:, None, rates]
        below += 1.0
        gained = share * (2.0 * self.gain)
        gained -= 3.0 * self.gain
        gained *= share
        gained += 1.0 + self.gain
        below *= gained
        share *= times
        share /= below
        share *= of
        return np.minimum(share, of, out=share)


def check_constant(name: str, value: ArrayLike, draws: int) -> None:
    """Refuse what is neither one probability for all draws nor one for each."""
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.shape not in ((), (draws, 1, 1)) or not ((found >= 0.0) & (found <= 1.0)).all():
        raise ValueError(
            f"the constant {name} must be a number from 0 to 1, or one a draw in shape {(draws, 1, 1)}, found {value!r:.60}"
        )


class _Source:
    """Stratified uniform numbers, a column at a time, and what is made of them."""

    def __init__(self, draws: int, seed: int) -> None:
        self._draws = draws
        self._bits = np.random.PCG64(seed)

    def uniform(self) -> Floats:
        """One number in the middle of each of so many equal parts of (0, 1), in random order."""
        order = np.argsort(self._bits.random_raw(self._draws), kind="stable")
        return (order + 0.5) / self._draws

    def normal(self) -> Floats:
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform()))

    def dirichlet(self, counts: Floats) -> Floats:
        from scipy.special import gammaincinv

        parts = np.column_stack([gammaincinv(c, self.uniform()) for c in counts])
        parts = np.maximum(
            parts, 1e-12
        )  # a bin that can hold nothing would make an event there impossible
        result: Floats = parts / parts.sum(axis=1, keepdims=True)
        return result

    def shares(self, right: Floats, wrong: Floats) -> Floats:
        """Shares of right answers by bin: their mean over all rows from its own posterior, the bins as Beta draws around it.

        Bins alone would each take the rows of the others for their own: of 200 right answers and no wrong one they would say that
        there is none, where one in 60 is possible.
        """
        from scipy.special import betaincinv

        total_right, total_wrong = float(right.sum()), float(wrong.sum())
        mean = (total_right + UNSEEN) / (total_right + total_wrong + 2.0 * UNSEEN)
        ends = zip(
            right + max(SHARED * mean, FLOOR),
            wrong + max(SHARED * (1.0 - mean), FLOOR),
            strict=True,
        )
        drawn = np.column_stack([betaincinv(a, b, self.uniform()) for a, b in ends])
        overall = betaincinv(total_right + UNSEEN, total_wrong + UNSEEN, self.uniform())
        rows = np.maximum(right + wrong, 1e-9)
        # The rarer of right and wrong is scaled, so that a share stays a share.
        rare, wanted = (1.0 - drawn, 1.0 - overall) if mean > 0.5 else (drawn, overall)
        rare = np.minimum(
            rare * (wanted / np.maximum(rare @ rows / rows.sum(), 1e-300))[:, None], 1.0
        )
        return 1.0 - rare if mean > 0.5 else rare
