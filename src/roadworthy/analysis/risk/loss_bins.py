"""Trees whose leaves are bins of expected loss instead of right and wrong: what seed 003 leaves as future work (section 6).

Rows fall into cells (score bins of a supervisor, or of several together). A cell's expected loss is the mean loss of its
calibration rows; cells of similar expected loss make a bin with about as many rows as any other, or one between edges that were
given, and a bin costs the mean loss of its rows. In operation the bin of a case is seen, its loss is not: `shares` reads the tree's
parameters from counts of cells. A kind of shift whose cases are mostly harmless is then no longer taken for one that is not.

>>> made = loss_tree([0, 0, 1, 1], [0.0, 0.2, 1.0, 0.6], bins=2)
>>> made.tree.parameters, made.values
(('loss_bin_1',), {'loss_bin_1': 0.5})
>>> from roadworthy.analysis.risk.tree import expectation
>>> round(expectation(made.tree, made.values), 3), round(expectation(made.tree, made.shares([30, 10])), 3)
(0.45, 0.275)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .nodes import Branch, Leaf, Node, Tree
from .posteriors import Dirichlet

Floats = NDArray[np.float64]
MOST_BINS = 50


@dataclass(frozen=True, eq=False)
class LossTree:
    """A tree over bins of expected loss, the shares counted at calibration, and which bin each cell belongs to."""

    tree: Tree
    values: Mapping[str, float]
    posteriors: Mapping[Any, Dirichlet]
    bin_of_cell: NDArray[np.int64]
    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    """Of expected losses in each bin, lowest first: from edge to edge where edges were given, an open end infinite."""
    notes: tuple[str, ...] = ()
    by_kind: bool = False

    def shares(self, counts: ArrayLike) -> dict[str, float]:
        """The tree's parameters for counts of cells seen in operation, of which nobody knows whether they are shifted."""
        if self.by_kind:
            raise ValueError(
                "this tree asks first whether a case is shifted; make one without kind to read counts of cells"
            )
        seen = np.asarray(counts, dtype=np.float64)
        if seen.shape != self.bin_of_cell.shape or not np.all(seen >= 0.0) or not seen.sum() > 0.0:
            raise ValueError(
                f"expected a count for each of {len(self.bin_of_cell)} cells, not all zero, found {counts!r}"
            )
        share = np.bincount(self.bin_of_cell, weights=seen, minlength=len(self.names)) / seen.sum()
        return dict(zip(self.tree.parameters, (float(s) for s in share[:-1]), strict=True))


def loss_tree(
    cells: ArrayLike,
    losses: ArrayLike,
    *,
    kind: Iterable[str] | None = None,
    clean: str = "clean",
    count: int | None = None,
    bins: int = 5,
    edges: Sequence[float] = (),
    weights: ArrayLike | None = None,
    unit: str = "loss per case",
) -> LossTree:
    """The tree of calibration rows, given the cell and the loss of each; its expectation there is their mean loss.

    With the `kind` of each row the tree asks first for shift (``p_shift``), then for the bin. `count` is the number of cells;
    one without rows belongs to the dearest bin, and a note says so. Bins are those between `edges`, where these are given and
    something lies there. `weights` are how much rows count; weighted shares were not counted and have no posterior.
    """
    cell, loss = _rows(cells, losses, bins)
    weight = np.ones(len(loss)) if weights is None else _checked_weights(weights, loss)
    width = int(cell.max()) + 1 if count is None else int(count)
    if width <= cell.max():
        raise ValueError(f"there are {width} cells, but a row lies in cell {int(cell.max())}")
    bin_of_cell, ranges = _bins(cell, loss, weight, width, bins, _checked_edges(edges))
    names = _names(ranges)
    place = bin_of_cell[cell]
    means = _means(place, loss, weight)
    notes = [] if (empty := width - len(np.unique(cell))) == 0 else [_empty_cells(empty, width)]
    if kind is None:
        node, values, posteriors = _node(place, loss, weight, means, names, "", notes)
        known = posteriors if weights is None else {}
        return LossTree(
            Tree(node, unit), values, known, bin_of_cell, names, tuple(ranges), tuple(notes)
        )
    shifted = np.asarray(list(kind)).astype(str) != clean
    if shifted.shape != loss.shape:
        raise ValueError(f"expected a kind for each of {len(loss)} rows, found {len(shifted)}")
    made = {
        word: _node(place[rows], loss[rows], weight[rows], means, names, f"_{word}", notes)
        for word, rows in _kinds(shifted)
    }
    branches = (
        Branch("shifted", "p_shift", made["shifted"][0]),
        Branch("clean", None, made["clean"][0]),
    )
    rate = float(weight[shifted].sum() / weight.sum())
    values = {"p_shift": rate, **made["shifted"][1], **made["clean"][1]}
    known = {**made["shifted"][2], **made["clean"][2]} if weights is None else {}
    tree = Tree(Node("shift", branches), unit)
    return LossTree(
        tree, values, known, bin_of_cell, names, tuple(ranges), tuple(notes), by_kind=True
    )


def _rows(cells: ArrayLike, losses: ArrayLike, bins: int) -> tuple[NDArray[np.int64], Floats]:
    cell, loss = np.asarray(cells), np.asarray(losses, dtype=np.float64)
    if (
        cell.ndim != 1
        or cell.shape != loss.shape
        or not len(cell)
        or cell.dtype.kind not in "iu"
        or cell.min() < 0
    ):
        raise ValueError(
            f"give a cell (a whole number from 0) and a loss a row, found {cell.shape} and {loss.shape}"
        )
    if not np.isfinite(loss).all():
        raise ValueError(
            "every calibration row needs a finite loss; leave out the rows without one"
        )
    if not 1 <= bins <= MOST_BINS:
        raise ValueError(f"bins must be 1 to {MOST_BINS}, found {bins}")
    return cell.astype(np.int64), loss


def _checked_weights(weights: ArrayLike, loss: Floats) -> Floats:
    found = np.asarray(weights, dtype=np.float64)
    if (
        found.shape != loss.shape
        or not np.isfinite(found).all()
        or (found < 0.0).any()
        or not found.sum() > 0.0
    ):
        raise ValueError(
            f"expected a weight for each of {len(loss)} rows, none below 0 and not all 0"
        )
    return found


def _checked_edges(edges: Sequence[float]) -> Floats:
    found = np.asarray(edges, dtype=np.float64)
    if (
        found.ndim != 1
        or len(found) >= MOST_BINS
        or not np.isfinite(found).all()
        or (np.diff(found) <= 0.0).any()
    ):
        raise ValueError(
            f"edges rise and are fewer than {MOST_BINS}, such as 100, 1000; found {list(edges)}"
        )
    return found


def _means(place: NDArray[np.int64], loss: Floats, weight: Floats, count: int = 0) -> Floats:
    """The mean loss of each place; of one whose rows all weigh nothing, as if they weighed alike."""
    weighed, rows = (
        np.bincount(place, weights=weight, minlength=count),
        np.bincount(place, minlength=count),
    )
    plain = np.bincount(place, weights=loss, minlength=count) / np.maximum(rows, 1)
    sums = np.bincount(place, weights=loss * weight, minlength=count)
    means = np.where(weighed > 0.0, sums / np.where(weighed > 0.0, weighed, 1.0), plain)
    # Rows that lose the same lose that on average, to the last digit: it is by their means that cells are told apart.
    least, most = np.full(len(means), np.inf), np.full(len(means), -np.inf)
    np.minimum.at(least, place, loss)
    np.maximum.at(most, place, loss)
    return np.where(rows > 0, np.clip(means, least, np.maximum(least, most)), 0.0)


def _kinds(shifted: NDArray[np.bool_]) -> tuple[tuple[str, NDArray[np.bool_]], ...]:
    return ("shifted", shifted), ("clean", ~shifted)


def _bins(
    cell: NDArray[np.int64], loss: Floats, weight: Floats, width: int, bins: int, edges: Floats
) -> tuple[NDArray[np.int64], list[tuple[float, float]]]:
    """The bin of every cell, and the range of expected losses in every bin, in rising order."""
    seen = np.bincount(cell, minlength=width) > 0
    expected = _means(cell, loss, weight, width)[seen]
    levels, level_of = np.unique(
        expected, return_inverse=True
    )  # cells that expect the same loss stay together
    if len(edges):
        classes = np.searchsorted(edges, levels, side="right")
        held, bin_of_level = np.unique(classes, return_inverse=True)
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        ranges = [(float(ends[c]), float(ends[c + 1])) for c in held]
        return _bin_of_cell(width, seen, bin_of_level[level_of]), ranges
    if len(levels) <= bins:
        bin_of_level = np.arange(len(levels))
    else:
        each = np.bincount(
            level_of, weights=np.bincount(cell, weights=weight, minlength=width)[seen]
        )
        middle = (np.cumsum(each) - each / 2) / each.sum()
        bin_of_level = np.unique(
            np.minimum((middle * bins).astype(np.int64), bins - 1), return_inverse=True
        )[1]
    each_bin = [levels[bin_of_level == b] for b in range(int(bin_of_level.max()) + 1)]
    return _bin_of_cell(width, seen, bin_of_level[level_of]), [
        (float(b.min()), float(b.max())) for b in each_bin
    ]


def _bin_of_cell(width: int, seen: NDArray[np.bool_], bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of every cell; of one without rows, the dearest."""
    found = np.full(width, bins.max(), dtype=np.int64)
    found[seen] = bins
    return found


def _node(
    place: NDArray[np.int64],
    loss: Floats,
    weight: Floats,
    means: Floats,
    names: tuple[str, ...],
    suffix: str,
    notes: list[str],
) -> tuple[Node, dict[str, float], dict[Any, Dirichlet]]:
    rows = np.bincount(place, minlength=len(names))
    costs = np.where(rows > 0, _means(place, loss, weight, len(names)), means)
    of = suffix.strip("_")
    notes += [
        f"no {of} calibration row has an expected loss of {name}: this is given probability zero"
        for name, n in zip(names, rows, strict=True)
        if n == 0
    ]
    parameters = tuple(f"loss_bin_{i + 1}{suffix}" for i in range(len(names) - 1))
    branches = tuple(
        Branch(
            name,
            parameters[i] if i < len(parameters) else None,
            Leaf(f"expected loss {name}", float(costs[i])),
        )
        for i, name in enumerate(names)
    )
    weighed = np.bincount(place, weights=weight, minlength=len(names))
    share = weighed / (weighed.sum() or 1.0)
    values = dict(zip(parameters, (float(s) for s in share[:-1]), strict=True))
    known = Dirichlet.from_counts(tuple(float(n) for n in rows)) if parameters else None
    return Node("expected loss", branches), values, {} if known is None else {parameters: known}


def _names(ranges: list[tuple[float, float]]) -> tuple[str, ...]:
    """The range of each bin in words, with as many digits, four or more, as tell the bins apart.

    >>> _names([(0.5, 0.5), (1.0, 2.0)]), _names([(1000001.0, 1000001.0), (1000002.0, 1000003.0)])
    (('0.5', '1 to 2'), ('1000001', '1000002 to 1000003'))
    """
    found: tuple[str, ...] = ()
    for digits in range(4, 18):  # seventeen tell any two numbers apart
        ends = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for low, high in ranges]
        found = tuple(_range(low, high) for low, high in ends)
        if len(set(found)) == len(found):
            break
    return found


def _range(low: str, high: str) -> str:
    if low == "-inf":
        return f"below {high}"
    return low if low == high else f"{low} or more" if high == "inf" else f"{low} to {high}"


def _empty_cells(empty: int, width: int) -> str:
    return f"{empty} of {width} cells have no calibration rows: given probability zero, and counted as the dearest bin if seen"
