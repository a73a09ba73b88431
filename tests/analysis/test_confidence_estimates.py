from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, minimize

from roadworthy.analysis.risk.confidence import NEVER_SURE, RIDGE, Atc, Cbpe, Doc, isotonic

rows = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40)


def columns(pairs) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in pairs]) / 20, np.array([r for _, r in pairs])


def clean_rows(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 2, n)
    return confidence, rng.random(n) < confidence**2


@given(rows)
def test_the_rising_fit_equals_scipys(pairs) -> None:
    x, right = columns(pairs)
    values, code, weights = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(code, weights=right) / weights
    expected = isotonic_regression(means, weights=weights).x
    assert np.interp(values, *isotonic(x, right)) == pytest.approx(expected, abs=1e-9)


@given(rows)
def test_the_rising_fit_is_the_max_of_min_of_means(pairs) -> None:
    x, right = columns(pairs)
    values = np.unique(x)
    knots, levels = isotonic(x, right)
    for v in values:
        starts, ends = values[values <= v], values[values >= v]
        expected = max(min(right[(x >= a) & (x <= b)].mean() for b in ends) for a in starts)
        assert np.interp(v, knots, levels) == pytest.approx(expected, abs=1e-9)
    assert set(knots) <= set(values)


@given(rows)
def test_on_its_own_rows_the_calibrated_mean_is_the_accuracy(pairs) -> None:
    x, right = columns(pairs)
    assert float(Cbpe.fit(x, right).estimate(x)) == pytest.approx(right.mean(), abs=1e-9)


def test_platt_minimises_the_penalised_log_loss_of_the_log_odds() -> None:
    x, right = clean_rows()
    odds = np.log(x / (1 - x))
    scaled = (odds - odds.mean()) / odds.std()

    def loss(b: np.ndarray) -> float:
        margin = b[0] + b[1] * scaled
        return float(np.sum(np.logaddexp(0.0, margin) - right * margin) + RIDGE / 2 * b[1] ** 2)

    intercept, slope = minimize(loss, [0.0, 0.0], tol=1e-12).x
    fitted = Cbpe.fit(x, right, how="platt")
    expected = 1 / (1 + np.exp(-(intercept + slope * scaled)))
    assert fitted.probability(x) == pytest.approx(expected, abs=1e-4)
    assert float(fitted.estimate(x)) == pytest.approx(right.mean(), abs=1e-6)


def test_platt_recovers_the_curve_that_made_the_rows() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.02, 0.98, 20_000)
    truth = 1 / (1 + np.exp(-(0.5 + 0.7 * np.log(x / (1 - x)))))
    fitted = Cbpe.fit(x, rng.random(len(x)) < truth, how="platt")
    assert fitted.knots == pytest.approx((0.5, 0.7), abs=0.06)


def test_confidence_of_one_is_finite_and_one_outcome_only_is_kept() -> None:
    for how in ("isotonic", "platt"):
        assert np.isfinite(
            Cbpe.fit([0.5, 1.0, 0.0], [True, True, False], how=how).estimate([1.0, 0.0, 0.3])
        )
        assert float(Cbpe.fit([0.5, 0.9], [True, True], how=how).estimate([0.1, 0.2])) == 1.0
    assert 0.0 < NEVER_SURE < 1e-3


@given(rows, rows)
def test_thresholded_confidence_equals_a_loop(pairs, window) -> None:
    x, right = columns(pairs)
    best, chosen = None, None
    for t in [min(x) - 1e-12, *sorted(set(x))]:
        miss = abs(sum(c > t for c in x) - right.sum())
        if best is None or miss <= best:
            best, chosen = miss, t
    cases = columns(window)[0].tolist()
    expected = sum(c > chosen for c in cases) / len(cases)
    assert float(Atc.fit(x, right).estimate(cases)) == pytest.approx(expected)


def test_without_ties_as_many_clean_rows_lie_above_as_were_right() -> None:
    x, right = clean_rows()
    assert float(Atc.fit(x, right).estimate(x)) == right.mean()


@given(rows, rows)
def test_difference_of_confidences_is_its_formula_within_the_unit(pairs, window) -> None:
    x, right = columns(pairs)
    cases, _ = columns(window)
    expected = min(max(right.mean() - (x.mean() - cases.mean()), 0.0), 1.0)
    assert float(Doc.fit(x, right).estimate(cases)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("way", [Cbpe, Atc, Doc])
def test_many_windows_at_once_equal_each_alone_along_either_axis(way) -> None:
    fitted = way.fit(*clean_rows())
    windows = np.random.default_rng(2).random((5, 30))
    alone = [float(fitted.estimate(w)) for w in windows]
    assert fitted.estimate(windows) == pytest.approx(alone)
    assert fitted.estimate(windows.T, axis=0) == pytest.approx(alone)


@pytest.mark.parametrize("way", [Cbpe, Atc, Doc])
def test_cases_without_confidence_are_left_out_and_a_window_of_them_has_no_estimate(way) -> None:
    fitted = way.fit(*clean_rows())
    found = fitted.estimate([[0.2, 0.9, np.nan], [np.nan, np.nan, np.nan]])
    assert found[0] == pytest.approx(float(fitted.estimate([0.2, 0.9])))
    assert np.isnan(found[1])


@pytest.mark.parametrize("way", [Cbpe, Atc, Doc])
@pytest.mark.parametrize(
    "confidence, correct, say",
    [
        ([], [], "at least one row"),
        ([0.5], [True, False], "found shapes"),
        ([np.nan, 0.5], [1, 0], "NaN or infinite"),
        ([0.4, 0.5], [0, 2], "0/1"),
    ],
)
def test_rows_that_cannot_teach_are_refused(way, confidence, correct, say) -> None:
    with pytest.raises(ValueError, match=say):
        way.fit(confidence, correct)
