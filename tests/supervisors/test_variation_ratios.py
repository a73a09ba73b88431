"""vr and vro: what they ask for, where they apply, what they read."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy import registry
from roadworthy.data.values import BOXES, CLASS_SCORES, IMAGE, TEXT, VECTOR
from roadworthy.subject.needs import Passes
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.variation import VariationRatio, VariationRatioOfOriginal


def test_both_ask_for_the_same_passes():
    settings = {"distance": "iou", "kind": "own", "n": 5}
    vr, vro = (registry.get("supervisors", name).bind(**settings) for name in ("vr", "vro"))
    assert vr.needs == vro.needs == (Passes("own", 5, distance="iou"),)
    assert not vr.fitted


def test_by_default_they_make_the_ten_dropout_passes_of_the_seed():
    assert VariationRatio().needs == (Passes("dropout", 10, distance="auto"),)
    assert VariationRatio(rate=0.1).needs == (Passes("dropout", 10, 0.1, "auto"),)


def test_an_ensemble_has_as_many_passes_as_members():
    assert VariationRatioOfOriginal(kind="ensemble").needs == (
        Passes("ensemble", 0, distance="auto"),
    )


def test_they_apply_to_whatever_the_distance_compares_and_say_why_not():
    assert VariationRatio().applies_to(BOXES) is None
    assert VariationRatio(distance="cosine").applies_to(VECTOR) is None
    assert VariationRatio(distance="cosine").applies_to(CLASS_SCORES) is None
    assert "the module gives text; distances that fit: bleu" in VariationRatio(
        distance="iou"
    ).applies_to(TEXT)
    assert "no distance compares image" in VariationRatio().applies_to(IMAGE)


def test_a_distance_that_needs_an_extra_does_not_apply_without_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "[text]" in VariationRatio().applies_to(TEXT)


def test_each_reads_its_own_column_and_has_no_score_where_there_is_no_answer():
    ratios = np.array([[0.5, 0.25], [np.nan, np.nan], [0.1, 0.9]])
    error = np.array([None, "broke", None], dtype=object)
    rows = ModuleTrace(
        np.arange(3),
        np.arange(3),
        error,
        np.zeros(3),
        TEXT,
        ["a", None, "b"],
        {"passes.own.10.auto": ratios},
    )
    np.testing.assert_array_equal(VariationRatio(kind="own").score(rows), ratios[:, 0])
    np.testing.assert_array_equal(VariationRatioOfOriginal(kind="own").score(rows), ratios[:, 1])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"n": 1}, "at least 2 passes are needed"),
        ({"rate": 1.5}, "a share between 0 and 1"),
        ({"rate": 0.1, "kind": "own"}, "only with dropout"),
        ({"distance": "iuo"}, "did you mean 'iou'"),
        ({"kind": "other"}, "dropout"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        registry.get("supervisors", "vr").bind(**settings)


def test_one_pass_is_enough_to_compare_with_the_answer():
    assert VariationRatioOfOriginal(n=1).needs == (Passes("dropout", 1, distance="auto"),)
    with pytest.raises(ValueError, match="at least 1 pass is needed"):
        VariationRatioOfOriginal(n=0)
