"""COCO's figures against pycocotools (tests/measures/oracle), of all classes and of each, and many weightings at once."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.data.values import Boxes
from roadworthy.measures import coco
from roadworthy.measures.coco import FIGURES, detection_summary, evaluate_boxes, summaries
from roadworthy.registry import get

ORACLE = Path(__file__).with_name("oracle")
EXPECTED = json.loads(ORACLE.joinpath("coco.json").read_text())
_spec = importlib.util.spec_from_file_location("make_coco", ORACLE / "make_coco.py")
assert _spec is not None and _spec.loader is not None
make_coco: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_coco)
Cases = tuple[list[Boxes | None], list[Boxes]]


def drawn(name: str) -> tuple[Cases, np.ndarray]:
    images, weights = make_coco.scenes(**make_coco.SETS[name])
    found = [Boxes.of(i.found, i.found_labels, i.scores) for i in images]
    truth = [Boxes.of(i.truth, i.labels, ignore=i.crowd, area=i.area) for i in images]
    return (found, truth), weights


def figures(summary: coco.DetectionSummary) -> list[float]:
    return [getattr(summary, name) for name in FIGURES]


def numbers(summary: coco.DetectionSummary) -> list[float]:
    return [getattr(summary, name) for name in summary._fields if name != "by_class"]


def known(values: list[float | None]) -> list[float]:
    return [np.nan if v is None else v for v in values]


@pytest.mark.parametrize("name", EXPECTED)
def test_all_figures_equal_pycocotools(name: str) -> None:
    (found, truth), weights = drawn(name)
    summary, expected = detection_summary(found, truth, weights=weights), EXPECTED[name]
    assert figures(summary) == pytest.approx(known(expected["all"]), abs=1e-5, nan_ok=True)
    for label, of_class in enumerate(expected["by class"]):
        if label in summary.by_class:
            ours = figures(summary.by_class[label])
            assert ours == pytest.approx(known(of_class), abs=1e-5, nan_ok=True)
        else:
            assert set(of_class) == {None}
    assert [summary.tp, summary.fp, summary.fn] == expected["counts"]


@pytest.mark.parametrize("name", ["everything", "crowds"])
def test_every_measure_is_the_figure_of_its_name(name: str) -> None:
    (found, truth), _ = drawn(name)
    summary = detection_summary(found, truth)
    for measure in (*FIGURES, "precision", "recall"):
        value = get("measures", measure).bind()(found, truth).value()
        assert value == pytest.approx(getattr(summary, measure), abs=1e-12), measure


@pytest.mark.parametrize("name", ["everything, images repeated", "areas of segments"])
@pytest.mark.parametrize("silent", [0, 4])
def test_many_weightings_at_once_equal_evaluating_copies(name: str, silent: int) -> None:
    (found, truth), _ = drawn(name)
    found[:silent] = [None] * silent
    rng = np.random.default_rng(0)
    n = len(found)
    weights = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(4)])
    for summary, w in zip(summaries(evaluate_boxes(found, truth), weights), weights, strict=True):
        rows = np.repeat(np.arange(n), w)
        copied = detection_summary([found[i] for i in rows], [truth[i] for i in rows])
        assert numbers(summary) == pytest.approx(numbers(copied), abs=1e-9, nan_ok=True)
        for label, of_class in copied.by_class.items():
            ours = numbers(summary.by_class[label])
            assert ours == pytest.approx(numbers(of_class), abs=1e-9, nan_ok=True), label


def test_blocks_of_weightings_and_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (found, truth), weights = drawn("everything, images repeated")
    rows = np.stack([np.roll(weights, k) for k in range(5)])
    whole = summaries(evaluate_boxes(found, truth), rows)
    monkeypatch.setattr(coco, "_WEIGHTS_AT_ONCE", 2 * sum(map(len, found)))
    monkeypatch.setattr(coco, "_PAIRS_AT_ONCE", 3)
    parts = summaries(evaluate_boxes(list(found), [*truth[:-1], replace(truth[-1])]), rows)
    for one, other in zip(whole, parts, strict=True):
        assert numbers(one) == pytest.approx(numbers(other), abs=1e-12, nan_ok=True)


def test_with_silence_the_summary_has_the_values_of_the_measures() -> None:
    (found, truth), weights = drawn("everything, images repeated")
    found[3:9] = [None] * 6
    summary = detection_summary(found, truth, weights=weights)
    for name in (*FIGURES, "precision", "recall"):
        scored = get("measures", name).bind()(found, truth)
        assert scored.value(weights) == pytest.approx(getattr(summary, name), abs=1e-12), name


def test_another_iou_and_score_change_the_counts_alone() -> None:
    (found, truth), _ = drawn("plain")
    plain, other = (
        detection_summary(found, truth),
        detection_summary(found, truth, iou=0.62, min_score=0.2),
    )
    assert figures(plain) == figures(other) and plain.tp != other.tp
    assert other.tp + other.fn == plain.tp + plain.fn == sum(map(len, truth))
    assert other.precision == other.tp / (other.tp + other.fp)


def test_no_object_at_all_is_not_defined() -> None:
    summary = detection_summary([Boxes.of([[0, 0, 4, 4]])], [Boxes.of([])])
    assert all(np.isnan(v) for v in figures(summary)) and summary.fp == 1.0
    assert np.isnan(summary.recall) and summary.precision == 0.0
    nothing = detection_summary([], [])
    assert np.isnan(nothing.ap) and nothing.tp == 0.0


def test_an_evaluation_is_kept_for_the_same_answers_only() -> None:
    (found, truth), _ = drawn("plain")
    first = evaluate_boxes(found, truth)
    assert evaluate_boxes(list(found), list(truth)) is first
    assert evaluate_boxes([None, *found[1:]], truth) is not first


def test_weights_of_another_number_of_cases_and_unmatched_ious_are_refused() -> None:
    (found, truth), _ = drawn("plain")
    with pytest.raises(ValueError, match=r"shape \(3,\); one row a weighting .* the 30 cases"):
        summaries(evaluate_boxes(found, truth), np.ones(3))
    with pytest.raises(ValueError, match=r"iou is 1\.5; a number above 0 and at most 1"):
        detection_summary(found, truth, iou=1.5)
    with pytest.raises(ValueError, match=r"nothing was matched at an IoU of 0\.62"):
        summaries(evaluate_boxes(found, truth), np.ones((1, 30)), iou=0.62)
