"""Fusion against brute-force ranks and scipy's optimum of the same penalised likelihood, and on published scores."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.statistics import auc
from roadworthy.statistics.fusion import (
    LogisticFusion,
    features,
    fit_logistic,
    rank_average,
    ranks,
    thinned,
)

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "pra-scores"

scores = st.floats(-20, 20) | st.sampled_from([np.inf, -np.inf, 0.0, 1.0, np.nan])
real = st.floats(-20, 20) | st.sampled_from([np.inf, -np.inf, 0.0, 1.0])


@settings(max_examples=100, deadline=None)
@given(st.lists(scores, max_size=20), st.lists(real, min_size=1, max_size=20))
def test_a_rank_counts_the_reference_scores_below_and_half_of_the_equal_ones(values, reference):
    found = ranks(values, reference)
    for value, rank in zip(values, found, strict=True):
        if np.isnan(value):
            assert np.isnan(rank)
        else:
            below, equal = sum(r < value for r in reference), sum(r == value for r in reference)
            assert rank == (below + equal / 2 + 0.5) / (len(reference) + 1)
            assert 0 < rank < 1


def test_reference_rows_without_a_score_say_nothing():
    assert ranks([1.0], [0.0, np.nan, 2.0]) == ranks([1.0], [0.0, 2.0])
    with pytest.raises(ValueError, match="no reference scores"):
        ranks([1.0], [np.nan])


def test_thinned_scores_are_scores_and_rank_almost_as_well():
    rng = np.random.default_rng(0)
    reference, values = rng.normal(size=20_000), rng.normal(size=500)
    small = thinned(reference)
    assert len(small) == 1001
    assert np.isin(small, reference).all()
    assert np.abs(ranks(values, small) - ranks(values, reference)).max() < 1.5e-3
    assert (thinned(reference[:100]) == np.sort(reference[:100])).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(scores, scores, scores), min_size=1, max_size=8), st.permutations("abc"))
def test_the_order_of_the_members_does_not_matter_for_the_average(rows, order):
    table = np.array(rows, dtype=float)
    columns = {name: table[:, i] for i, name in enumerate("abc")}
    references = {"a": [0.0, 1.0], "b": [-3.0, 0.0, 5.0], "c": [1.0]}
    found = rank_average(columns, references)
    again = rank_average(
        {n: columns[n] for n in order}, {n: references[n] for n in reversed(order)}
    )
    np.testing.assert_array_equal(found, again)
    for row, value in zip(rows, found, strict=True):
        each = [
            ranks([s], references[n])[0] for n, s in zip("abc", row, strict=True) if not np.isnan(s)
        ]
        assert np.isnan(value) if not each else value == pytest.approx(np.mean(each))


def test_features_are_the_powers_of_the_ranks():
    table = np.array([[0.5, 0.25], [0.1, 0.9]])
    np.testing.assert_allclose(features(table), np.c_[table, table**2, table**6], rtol=1e-14)


def penalised(coefficients, x, y, w, ridge):
    """The quantity that a fit minimises, written out for the standardised features."""
    centre = np.average(x, axis=0, weights=w)
    scale = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=w))
    margin = coefficients[0] + (x - centre) / scale @ coefficients[1:]
    return np.sum(w * (np.logaddexp(0, margin) - y * margin)) + ridge / 2 * np.sum(
        coefficients[1:] ** 2
    )


@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
def test_the_fit_is_the_optimum_that_scipy_finds(ridge):
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 4)) * [1, 10, 0.1, 3] + [0, 5, 1, -2]
    y = (rng.random(300) < 1 / (1 + np.exp(-x[:, 0] - 0.2 * x[:, 1]))).astype(float)
    w = rng.integers(1, 4, 300).astype(float)
    best = minimize(penalised, np.zeros(5), (x, y, w, ridge), method="BFGS", options={"gtol": 1e-7})
    centre = np.average(x, axis=0, weights=w)
    slopes = best.x[1:] / np.sqrt(np.average((x - centre) ** 2, axis=0, weights=w))
    expected = np.r_[best.x[0] - slopes @ centre, slopes]
    np.testing.assert_allclose(
        fit_logistic(x, y, weights=w, ridge=ridge), expected, rtol=1e-4, atol=1e-5
    )


def test_a_weight_of_two_is_the_row_twice():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    w = rng.integers(1, 4, 40)
    twice = fit_logistic(np.repeat(x, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(fit_logistic(x, y, weights=w), twice, rtol=1e-8)


@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_separated_classes_have_a_finite_fit_that_separates_them(ridge):
    x = np.r_[np.zeros(30), np.ones(30)][:, None] + np.linspace(0, 0.5, 60)[:, None]
    y = np.r_[np.zeros(30), np.ones(30)]
    fitted = fit_logistic(np.c_[x, np.ones(60)], y, ridge=ridge)
    assert np.isfinite(fitted).all()
    assert fitted[2] == 0.0  # a constant feature
    assert (((fitted[0] + x[:, 0] * fitted[1]) > 0) == y).all()


def test_one_class_alone_is_refused():
    with pytest.raises(ValueError, match=r"both classes.*class 1 has no row"):
        fit_logistic(np.ones((5, 1)), np.zeros(5))
    with pytest.raises(ValueError, match="ridge must be positive"):
        fit_logistic(np.ones((2, 1)), [0, 1], ridge=0.0)


def three(rng: np.random.Generator, n: int = 200) -> tuple[dict[str, np.ndarray], np.ndarray]:
    shifted = np.repeat([0, 1], n)
    columns = {
        name: rng.normal(size=2 * n) + by * shifted
        for name, by in (("a", 1.0), ("b", 0.7), ("c", 0.0))
    }
    return columns, shifted


def test_a_monotone_change_of_a_member_leaves_the_result_unchanged():
    rng = np.random.default_rng(5)
    columns, shifted = three(rng)
    changed = {"a": np.exp(columns["a"]), "b": 3 * columns["b"] - 7, "c": np.arctan(columns["c"])}
    before = LogisticFusion.fit(columns, shifted).score(columns)
    after = LogisticFusion.fit(changed, shifted).score(changed)
    np.testing.assert_array_equal(before, after)


def test_a_case_has_the_same_score_alone_and_among_others():
    columns, shifted = three(np.random.default_rng(7))
    fusion = LogisticFusion.fit(columns, shifted)
    alone = [
        fusion.score({k: v[i : i + 1] for k, v in columns.items()})[0] for i in range(0, 400, 7)
    ]
    np.testing.assert_array_equal(alone, fusion.score(columns)[::7])


def test_a_missing_member_takes_the_average_rank_of_the_others():
    columns, shifted = three(np.random.default_rng(8))
    fusion = LogisticFusion.fit(columns, shifted)
    reference = {k: v[shifted == 0] for k, v in columns.items()}
    given = {"a": 0.3, "b": 1.1}
    mean = np.mean([ranks([v], reference[k])[0] for k, v in given.items()])
    table = np.array([[ranks([0.3], reference["a"])[0], ranks([1.1], reference["b"])[0], mean]])
    expected = fusion.coefficients[0] + features(table) @ np.array(fusion.coefficients[1:])
    found = fusion.score({"a": [0.3, np.nan], "b": [1.1, np.nan], "c": [np.nan, np.nan]})
    assert found[0] == pytest.approx(expected[0])
    assert np.isnan(found[1])
    with pytest.raises(ValueError, match="c is missing"):
        fusion.score({"a": [0.3], "b": [1.1]})


def test_two_weak_members_together_rank_better_than_each():
    rng = np.random.default_rng(9)
    columns, shifted = three(rng, 1000)
    fusion = LogisticFusion.fit(columns, shifted)
    fresh, marks = three(rng, 1000)
    alone = max(auc(v, marks) for v in fresh.values())
    assert auc(fusion.score(fresh), marks) > alone + 0.02
    # calibrated at even odds: of the cases given 60 to 80% about so many are shifted
    p = 1 / (1 + np.exp(-fusion.score(fresh)))
    band = (p > 0.6) & (p < 0.8)
    assert marks[band].mean() == pytest.approx(p[band].mean(), abs=0.06)


def test_fusion_loads_no_scipy():
    code = (
        "from roadworthy.statistics.fusion import LogisticFusion as F\nimport sys\n"
        "F.fit({'a': [0., 1., 2., 3.]}, [0, 0, 1, 1]).score({'a': [1.]})\nprint('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def published(name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Fold of each row, and each detector's scores."""
    columns = {}
    for path in sorted(PUBLISHED.glob(f"{name}-*.csv.gz")):
        with gzip.open(path, "rt") as file:
            rows = list(csv.DictReader(file))
        columns[path.name.removesuffix(".csv.gz").split("-")[1]] = np.array(
            [float(r["score"]) for r in rows]
        )
    return np.array([r["fold"] for r in rows]), columns


def fused_and_best(name: str, seed: int) -> tuple[float, float, float, float]:
    """AUC of shift on fresh rows: logistic, rank average, the detector that was best on the fitted rows, the best of all."""
    fold, columns = published(name)
    kinds = np.unique(fold[~np.isin(fold, ["train", "ind_val", "ind_test"])])
    half = np.random.default_rng(seed).permutation(len(fold)) % 2 == 0
    shifted = np.isin(fold, kinds)
    fit = (fold == "ind_val") | (shifted & half)
    judge = (fold == "ind_test") | (shifted & ~half)
    # the published orientations differ: shift scores higher on the rows that choose
    oriented = {k: v if auc(v[fit], shifted[fit]) >= 0.5 else -v for k, v in columns.items()}
    fitted = {k: auc(v[fit], shifted[fit]) for k, v in oriented.items()}
    fresh = {k: auc(v[judge], shifted[judge]) for k, v in oriented.items()}
    fusion = LogisticFusion.fit({k: v[fit] for k, v in oriented.items()}, shifted[fit])
    rows = {k: v[judge] for k, v in oriented.items()}
    average = rank_average(rows, {k: v[fold == "ind_val"] for k, v in oriented.items()})
    logistic = auc(fusion.score(rows), shifted[judge])
    return (
        logistic,
        auc(average, shifted[judge]),
        fresh[max(fitted, key=fitted.__getitem__)],
        max(fresh.values()),
    )


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published detector scores are not beside the project"
)
def test_published_detectors_together_see_shift_better_than_the_best_of_them():
    found = np.array([fused_and_best(name, 0) for name in ("CCT", "Office31", "OfficeHome")])
    logistic, _, chosen, best = found.mean(axis=0)
    assert logistic > best >= chosen
