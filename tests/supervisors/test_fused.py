"""Fused scores against ranks counted by hand and against the fusion that they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.values import VECTOR
from roadworthy.registry import get
from roadworthy.statistics.fusion import LogisticFusion
from roadworthy.subject.needs import Score
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.fused import Fused
from roadworthy.supervisors.supervisor import reduce_steps


def cases(failed=(), **scores) -> ModuleTrace:
    n = len(next(iter(scores.values())))
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    ids = np.array([f"c{i}" for i in range(n)], dtype=object)
    columns = {f"score.{name}": np.asarray(column, float) for name, column in scores.items()}
    return ModuleTrace(
        ids, np.zeros(n, np.int32), error, np.zeros(n), VECTOR, np.zeros((n, 1)), columns
    )


def rank(x: float, reference: np.ndarray) -> float:
    """The share of reference scores below, ties half, pulled a little off 0 and 1."""
    below = sum(1.0 for r in reference if r < x) + 0.5 * sum(1.0 for r in reference if r == x)
    return (below + 0.5) / (len(reference) + 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=30))
def test_ranks_are_the_mean_of_ranks_counted_one_by_one(rows):
    rng = np.random.default_rng(3)
    clean = {"a": rng.integers(-9, 9, 25).astype(float), "b": rng.integers(-9, 9, 25).astype(float)}
    fused = Fused(members=("a", "b"))
    fused.fit(cases(**clean), None)
    a, b = (np.array(column, float) for column in zip(*rows, strict=True))
    expected = [(rank(x, clean["a"]) + rank(y, clean["b"])) / 2 for x, y in zip(a, b, strict=True)]
    assert fused.score(cases(a=a, b=b)) == pytest.approx(expected)


def test_a_strictly_increasing_change_of_a_member_changes_nothing():
    rng = np.random.default_rng(0)
    clean, here = rng.normal(size=(2, 50)), rng.normal(size=(2, 20))
    found = []
    for change in (lambda x: x, np.exp):
        fused = Fused(members=("a", "b"))
        fused.fit(cases(a=change(clean[0]), b=clean[1]), None)
        found.append(fused.score(cases(a=change(here[0]), b=here[1])))
    assert found[0].tolist() == found[1].tolist()


def test_logistic_is_the_logistic_fusion_of_marked_cases():
    rng = np.random.default_rng(1)
    shifted = np.arange(300) % 2 == 0
    a, b = rng.normal(size=300) + shifted, rng.normal(size=300) - 0.5 * shifted
    fused = Fused(members=("a", "b"), how="logistic")
    assert fused.contrasts and not Fused(members=("a", "b")).contrasts
    fused.fit(cases(a=a, b=b), shifted)
    expected = LogisticFusion.fit({"a": a, "b": b}, shifted).score({"a": a, "b": b})
    assert fused.score(cases(a=a, b=b)).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="truth marks the shifted ones"):
        fused.fit(cases(a=a, b=b), None)


def test_without_members_it_reads_every_score_it_is_shown():
    fused = Fused()
    assert fused.needs == (Score("*"),)
    fused.fit(cases(knn=[1.0, 2.0], energy=[3.0, 4.0]), None)
    assert fused._learned["names"].tolist() == ["energy", "knn"]


def test_failed_and_unscored_cases_have_no_score_and_infinite_ones_the_highest():
    fused = Fused(members=("a",))
    fused.fit(cases(a=np.arange(9.0)), None)
    scores = fused.score(cases(failed=[0], a=[3.0, np.nan, np.inf, 8.5]))
    assert np.isnan(scores[:2]).all() and scores[2] == scores[3] == 0.95


def test_what_it_cannot_do_is_said(tmp_path):
    with pytest.raises(ValueError, match="has not been fitted"):
        Fused(members=("a",)).score(cases(a=[1.0]))
    with pytest.raises(ValueError, match=r"reads the scores of b; the trace has score\.a"):
        Fused(members=("a", "b")).fit(cases(a=[1.0]), None)
    with pytest.raises(ValueError, match="its member a scored none of 2 cases"):
        Fused(members=("a",)).fit(cases(a=[np.nan, np.nan]), None)
    with pytest.raises(ValueError, match="named twice"):
        Fused(members=("a", "a"))
    with pytest.raises(ValueError, match="how"):
        get("supervisors", "fused").bind(how="voting")


@pytest.mark.parametrize("how", ["ranks", "logistic"])
def test_it_comes_back_from_its_folder_for_its_own_subject_alone(tmp_path, how):
    rng = np.random.default_rng(2)
    a, shifted = rng.normal(size=80), np.arange(80) < 40
    fused = Fused(members=("a",), how=how)
    fused.meta["subject"] = "cnn-1"
    fused.fit(cases(a=a + shifted), shifted)
    fused.save(tmp_path / "kept")

    def loaded(subject):
        found = Fused(members=("a",), how=how)
        found.meta["subject"] = subject
        found.load(tmp_path / "kept")
        return found

    again = loaded("cnn-1")
    assert again.score(cases(a=a)).tolist() == fused.score(cases(a=a)).tolist()
    with pytest.raises(ValueError, match="was fitted on the subject cnn-1, and this one is cnn-2"):
        loaded("cnn-2")
    arrays = tmp_path / "kept" / "supervisor.npz"
    arrays.write_bytes(arrays.read_bytes()[:-20])
    with pytest.raises(ValueError, match="missing, shortened or not the file that was saved"):
        loaded("cnn-1")
    (tmp_path / "kept" / "supervisor.json").write_text('{"supervisor"')
    with pytest.raises(ValueError, match="cannot be read as the description of a saved supervisor"):
        loaded("cnn-1")


def steps(scores, case) -> tuple[ModuleTrace, np.ndarray]:
    n = len(scores)
    return ModuleTrace(
        np.array(case, dtype=object),
        np.arange(n),
        np.full(n, None),
        np.zeros(n),
        VECTOR,
        np.zeros((n, 1)),
    ), np.array(scores, float)


def test_only_nan_is_no_score_when_steps_are_reduced():
    trace, scores = steps(
        [1, np.inf, np.nan, 3, np.nan, -np.inf, -np.inf], ["a", "a", "b", "b", "c", "d", "d"]
    )
    wanted = np.array(["a", "b", "c", "d", "e"], dtype=object)
    assert reduce_steps(trace, scores, wanted).tolist()[:2] == [np.inf, 3.0]
    assert np.isnan(reduce_steps(trace, scores, wanted)[[2, 4]]).all()
    assert reduce_steps(trace, scores, wanted)[3] == -np.inf
    mean = reduce_steps(trace, scores, wanted, "mean")
    assert mean[[0, 1, 3]].tolist() == [np.inf, 3.0, -np.inf] and np.isnan(mean[[2, 4]]).all()
