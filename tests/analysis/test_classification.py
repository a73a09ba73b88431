"""Class by class: counts and rates against loops over the cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from roadworthy.analysis.classification import (
    calibrated,
    class_evidence,
    confusion,
)
from roadworthy.analysis.observed import Observed
from roadworthy.measures.classification import accuracy, predicted

CLASSES = 3


def seen(outputs: np.ndarray, truth: np.ndarray, groups: np.ndarray | None = None) -> Observed:
    scored = accuracy(outputs, truth)
    answered = predicted(outputs)
    return Observed(
        "",
        None,
        np.arange(len(truth)).astype(str).astype(object),
        groups,
        scored,
        scored.failure,
        answered < 0,
        predicted=answered,
        truth=truth,
        outputs=outputs,
    )


def drawn(seed: int, n: int = 60, silent: float = 0.1) -> Observed:
    """Probabilities that favour the truth, some cases without an answer, in groups of five."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, n)
    outputs = rng.dirichlet(np.ones(CLASSES), n)
    outputs[np.arange(n), truth] += rng.random(n)
    outputs /= outputs.sum(axis=1, keepdims=True)
    outputs[rng.random(n) < silent] = np.nan
    return seen(outputs, truth, np.arange(n) // 5)


def says(row: np.ndarray, k: int, threshold: float | None) -> bool:
    if np.isnan(row).any():
        return False
    return bool(row[k] >= threshold) if threshold is not None else int(np.argmax(row)) == k


def counted(observed: Observed, k: int, threshold: float | None) -> dict[str, int]:
    """Right and wrong answers, one case at a time."""
    found = dict.fromkeys(("tp", "fp", "fn", "tn", "silent"), 0)
    for row, true in zip(observed.outputs, observed.truth, strict=True):
        said = says(row, k, threshold)
        if true == k:
            found["tp" if said else "fn"] += 1
        elif np.isnan(row).any():
            found["silent"] += 1
        else:
            found["fp" if said else "tn"] += 1
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=40))
def test_rows_of_the_matrix_hold_the_cases_of_a_class_and_columns_the_answers(pairs):
    truth, answers = (np.array(column) for column in zip(*pairs, strict=True))
    matrix = confusion(truth, answers, 4)
    for true in range(4):
        assert matrix[true].sum() == sum(t == true for t, _ in pairs)
        for answer in range(4):
            assert matrix[true, answer] == sum(pair == (true, answer) for pair in pairs)
    assert matrix.shape[1] == 4 + any(answer < 0 for _, answer in pairs)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(0, 2), st.sampled_from([None, 0.2, 0.5, 0.9]), st.booleans()
)
def test_rates_of_a_class_equal_a_loop(seed, k, threshold, grouped):
    observed = drawn(seed)
    observed = observed if grouped else seen(observed.outputs, observed.truth)
    c = counted(observed, k, threshold)
    wanted = {
        "sensitivity": (c["tp"], c["tp"] + c["fn"]),
        "specificity": (c["tn"], c["tn"] + c["fp"] + c["silent"]),
        "precision": (c["tp"], c["tp"] + c["fp"]),
        "f1": (2 * c["tp"], 2 * c["tp"] + c["fp"] + c["fn"]),
    }
    for quantity, (above, below) in wanted.items():
        found = class_evidence(observed, quantity, k, "x", threshold)
        if below == 0:
            assert np.isnan(found.value) and found.reason
            continue
        assert found.value == pytest.approx(above / below)
        for sided in ("two", "lower", "upper"):
            assert found.interval(0.95, sided).contains(found.value)


def test_claims_on_sensitivity_and_specificity_are_judged_on_exact_bounds():
    observed = seen(*(getattr(drawn(3, 200), name) for name in ("outputs", "truth")))
    c = counted(observed, 1, 0.4)
    low = class_evidence(observed, "sensitivity", 1, "x", 0.4).interval(0.95, "lower").low
    assert low == pytest.approx(beta.ppf(0.05, c["tp"], c["fn"] + 1))
    high = class_evidence(observed, "specificity", 1, "x", 0.4).interval(0.95, "upper").high
    assert high == pytest.approx(beta.ppf(0.95, c["tn"] + 1, c["fp"] + c["silent"]))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 2))
def test_the_auroc_of_a_class_is_the_share_of_pairs_in_order(seed, k):
    observed = drawn(seed, 40)
    wins: list[float] = []
    for row, true in zip(observed.outputs, observed.truth, strict=True):
        for other, not_true in zip(observed.outputs, observed.truth, strict=True):
            if true == k and not_true != k:
                # A case without an answer ranks as wrongly as it can.
                high = -1.0 if np.isnan(row).any() else row[k]
                low = 2.0 if np.isnan(other).any() else other[k]
                wins.append(float(high > low) + 0.5 * (high == low))
    found = class_evidence(observed, "auroc", k, "x")
    assert found.value == pytest.approx(np.mean(wins))
    assert found.interval(0.95, "two").contains(found.value)
    assert found.settled_by is not None


def test_logits_are_read_as_probabilities():
    truth = np.array([0, 1, 1, 0])
    logits = np.array([[2.0, -1.0], [0.0, 0.5], [1.0, 0.9], [0.2, 3.0]])
    observed = seen(logits, truth)
    said = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1])) >= 0.45
    assert class_evidence(observed, "sensitivity", 1, "x", 0.45).value == said[truth == 1].mean()


def test_a_class_without_cases_and_one_that_the_subject_does_not_know_are_told_apart():
    observed = drawn(1)
    none = class_evidence(observed, "sensitivity", 7, "wolf")
    assert none.reason == "no case is of class wolf" and none.n == 0
    assert class_evidence(observed, "precision", 7, "wolf").reason
    assert class_evidence(observed, "auroc", 7, "wolf").reason == none.reason
    unknown = seen(observed.outputs, np.where(np.arange(60) < 30, observed.truth, 0))
    unknown.truth[:5] = 3  # a label that no output stands for: every answer to it is wrong
    found = class_evidence(unknown, "sensitivity", 3, "owl", 0.1)
    assert found.value == 0.0 and not found.reason


def test_the_calibration_error_is_that_of_the_answer_and_all_of_a_case_without_one():
    outputs = np.tile([0.8, 0.2], (100, 1))
    outputs[:10] = np.nan
    truth = np.zeros(100, dtype=int)
    found = calibrated(seen(outputs, truth))
    assert found.value == pytest.approx(0.9 * 0.2 + 0.1) and found.better == "lower"
    assert found.interval(0.95, "two").contains(found.value)


def test_answers_without_probabilities_have_no_calibration_error():
    outputs = np.eye(2)[np.arange(40) % 2]
    observed = seen(outputs, np.arange(40) % 2)
    assert "without probabilities" in calibrated(observed).reason
    assert "without probabilities" in class_evidence(observed, "auroc", 0, "a").reason
    assert class_evidence(observed, "sensitivity", 0, "a").value == 1.0


def test_a_subject_that_answers_nothing_is_wrong_everywhere():
    observed = seen(np.full((20, 2), np.nan), np.arange(20) % 2)
    assert calibrated(observed).value == 1.0
    assert [class_evidence(observed, "sensitivity", k, "a").value for k in (0, 1)] == [0.0, 0.0]
    assert class_evidence(observed, "precision", 0, "a").reason == "no case is answered with a"
