"""Trees of loss bins: their expectation is the mean loss of the rows they were made of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.analysis.risk.loss_bins import loss_tree
from roadworthy.analysis.risk.tree import Tree, evaluate, expectation, leaves, spread

rows = st.lists(
    st.tuples(st.integers(0, 9), st.floats(0, 50), st.booleans()), min_size=1, max_size=60
)


@given(rows, st.integers(1, 8))
def test_the_expectation_is_the_mean_loss_of_the_calibration_rows(table, bins):
    cells, losses, shifted = (np.array(column) for column in zip(*table, strict=True))
    plain = loss_tree(cells, losses, bins=bins, count=10)
    assert expectation(plain.tree, plain.values) == pytest.approx(
        losses.mean(), rel=1e-9, abs=1e-12
    )
    assert len(plain.names) <= bins
    by_kind = loss_tree(cells, losses, kind=np.where(shifted, "fog", "clean"), bins=bins, count=10)
    assert expectation(by_kind.tree, by_kind.values) == pytest.approx(
        losses.mean(), rel=1e-9, abs=1e-12
    )
    # Counts of the cells alone give the same shares as the rows they were counted from.
    assert plain.shares(np.bincount(cells, minlength=10)) == pytest.approx(plain.values)
    assert Tree.from_dict(by_kind.tree.to_dict()) == by_kind.tree


def test_cells_of_similar_expected_loss_share_a_bin_of_about_equal_rows():
    rng = np.random.default_rng(0)
    cells = np.repeat(np.arange(20), 50)
    losses = rng.exponential(1.0 + (cells * 7) % 20)
    made = loss_tree(cells, losses, bins=4)
    expected = np.array([losses[cells == c].mean() for c in range(20)])
    ranges = [expected[made.bin_of_cell == b] for b in range(4)]
    assert all(a.max() < b.min() for a, b in itertools.pairwise(ranges))
    assert [len(r) for r in ranges] == [5, 5, 5, 5]
    costs = [leaf.cost for _, leaf in leaves(made.tree)]
    assert costs == pytest.approx(
        [losses[np.isin(cells, np.flatnonzero(made.bin_of_cell == b))].mean() for b in range(4)]
    )


def test_a_harmless_kind_of_shift_is_told_from_a_harmful_one():
    # Calibration: cell 0 clean, cell 1 harmless shift, cell 2 harmful shift. A stream of harmless shift only: a tree of shift
    # and right-or-wrong would expect the mean loss of all shifts, 0.5; the bins see that it is harmless.
    cells, losses = np.repeat([0, 1, 2], 100), np.repeat([0.05, 0.1, 0.9], 100)
    made = loss_tree(cells, losses, bins=3)
    assert expectation(made.tree, made.shares([0, 500, 0])) == pytest.approx(0.1)


def test_conditions_without_rows_get_probability_zero_and_a_note():
    cells, losses = np.array([0, 0, 1, 1, 3]), np.array([0.0, 0.0, 1.0, 1.0, 5.0])
    made = loss_tree(cells, losses, kind=["clean", "fog", "fog", "fog", "fog"], bins=3, count=4)
    assert made.notes == (
        "1 of 4 cells have no calibration rows: given probability zero, and counted as the dearest bin if seen",
        "no clean calibration row has an expected loss of 1: this is given probability zero",
        "no clean calibration row has an expected loss of 5: this is given probability zero",
    )
    found = evaluate(made.tree, made.values).leaves
    assert [leaf.probability for leaf in found if leaf.path[0] == "clean"] == pytest.approx(
        [0.2, 0, 0]
    )
    assert made.bin_of_cell[2] == 2
    plain = loss_tree(cells, losses, bins=3, count=4)
    assert expectation(plain.tree, plain.shares([0, 0, 7, 0])) == 5.0


def test_the_spread_is_that_of_the_mean_of_bins():
    cells, losses = np.repeat([0, 1, 2], [60, 30, 10]), np.repeat([0.0, 1.0, 10.0], [60, 30, 10])
    made = loss_tree(cells, losses, bins=3)
    found = spread(made.tree, made.posteriors, draws=20_000)
    # A multinomial mean: (sum p c^2 - (sum p c)^2) / n, nearly.
    assert found.variance_delta == pytest.approx((0.3 * 1 + 0.1 * 100 - 1.3**2) / 100, rel=0.05)
    assert found.variance == pytest.approx(found.variance_delta, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cells": [0, 1], "losses": [1.0]}, "a cell .* and a loss a row"),
        ({"cells": [], "losses": []}, "a cell .* and a loss a row"),
        ({"cells": [0.5], "losses": [1.0]}, "a whole number from 0"),
        ({"cells": [-1], "losses": [1.0]}, "a whole number from 0"),
        ({"cells": [0], "losses": [np.nan]}, "a finite loss"),
        ({"cells": [0], "losses": [1.0], "bins": 0}, "bins must be 1 to 50"),
        (
            {"cells": [3], "losses": [1.0], "count": 2},
            "there are 2 cells, but a row lies in cell 3",
        ),
        (
            {"cells": [0], "losses": [1.0], "kind": ["clean", "fog"]},
            "a kind for each of 1 rows, found 2",
        ),
    ],
)
def test_rows_that_make_no_tree_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        loss_tree(arguments.pop("cells"), arguments.pop("losses"), **arguments)


def test_counts_that_do_not_fit_are_refused():
    made = loss_tree([0, 1], [0.0, 1.0], bins=2)
    with pytest.raises(ValueError, match="a count for each of 2 cells"):
        made.shares([1, 2, 3])
    with pytest.raises(ValueError, match="not all zero"):
        made.shares([0, 0])
    with pytest.raises(ValueError, match="asks first whether a case is shifted"):
        loss_tree([0, 1], [0.0, 1.0], kind=["clean", "fog"]).shares([1, 1])


@pytest.mark.parametrize(
    ("losses", "names"),
    [
        ((0.12341, 0.12342), ("0.12341", "0.12342")),
        ((1000001.0, 1000002.0), ("1000001", "1000002")),
        ((1.0, 1.0 + 2**-52), ("1", "1.0000000000000002")),
        ((0.1, 0.2), ("0.1", "0.2")),
    ],
)
def test_losses_that_differ_little_make_bins_with_names_of_their_own(losses, names):
    made = loss_tree([0, 0, 1, 1], np.repeat(losses, 2), bins=2)
    assert made.names == names
    assert expectation(made.tree, made.values) == pytest.approx(np.mean(losses))


def test_losses_that_differ_by_rounding_alone_do_not_make_names_long():
    losses = [0.3, 0.1 + 0.2, 20.0, 30.0]
    assert loss_tree(np.arange(4), losses, bins=2).names == ("0.3", "20 to 30")
