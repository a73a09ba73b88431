"""Specification, gaps, estimators and proposals, against the paper's boxes and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from roadworthy import registry
from roadworthy.analysis.risk.rates import CannotTell
from roadworthy.analysis.robustness.circumstances import (
    CHECKLIST,
    TargetCircumstance,
    check_exclusive,
    link_notes,
    name_notes,
    ranked,
    ratings_by_factor,
    scale_value,
    specification_notes,
)
from roadworthy.analysis.robustness.estimators import (
    ESTIMATORS,
    ESTIMATORS_OF,
    ScoreCalibration,
    calibrate_score,
    estimated_frequency,
)
from roadworthy.analysis.robustness.gap import (
    counted_frequency,
    gap_list,
    known_frequency,
    sampled_frequency,
)
from roadworthy.analysis.robustness.proposal import (
    LoadPoint,
    from_load_test,
    from_reference,
    smallest_breaking,
)
from roadworthy.cases.transform import at_level

# Boxes 1 and 3, figure A1: probability, source frequency, exposure, likelihood, severity.
MDS = {
    "1": ("density contrast", 0.15, 0.05, 3, 2, 3),
    "2": ("shifted lines", 0.2, 0.0, 3, 3, 2),
    "3": ("truncated section", 0.15, 0.1, 5, 2, 2),
    "4": ("motion blur", 0.1, 0.05, 5, 1, 3),
    "5": ("Gaussian blur", 0.1, 0.0, 3, 1, 3),
    "6": ("salt and pepper", 0.1, 0.0, 3, 1, 1),
    "7": ("rotation", 0.1, 0.0, 5, 1, 2),
    "8": ("resolution", 0.1, 0.0, 3, 2, 2),
}
TARGETS = [TargetCircumstance(i, n, p, *scales) for i, (n, p, _, *scales) in MDS.items()]
PRIORITIES = ["3", "1", "2", "4", "8", "7", "5", "6"]


def test_box_2_is_10_by_its_numbers_and_8_by_its_word():
    assert TargetCircumstance("1", "", None, 1, 2, 5).significance == 10
    assert TargetCircumstance("1", "", None, "Rare", "unlikely", "critical").significance == 8
    assert TargetCircumstance("1", "", None, 1, 2).significance is None


def test_figure_a1_significance_order_and_distribution():
    assert [t.significance for t in TARGETS] == [18, 18, 20, 15, 9, 3, 10, 12]
    assert [t.id for t in ranked(TARGETS)] == PRIORITIES
    counts = ratings_by_factor(TARGETS)
    assert counts["exposure"] == (0, 0, 5, 0, 3)
    assert counts["likelihood"] == (4, 3, 1, 0, 0)
    assert counts["severity"] == (1, 4, 3, 0, 0)


def test_ids_are_ordered_by_value_and_those_without_significance_come_last():
    same = [TargetCircumstance(i, "", None, 2, 2, 2) for i in ("b", "10", "2", "a")]
    lone = TargetCircumstance("1")
    assert [t.id for t in ranked([lone, *same])] == ["2", "10", "a", "b", "1"]


def test_what_is_not_on_the_scale_is_refused_with_the_scale():
    for wrong in (0, 6, 2.5, "often", "5"):
        with pytest.raises(ValueError, match="4 critical"):
            scale_value("severity", wrong)
    with pytest.raises(ValueError, match="between 0 and 1"):
        TargetCircumstance("1", "", 1.2)


def test_a_probable_circumstance_of_rare_likelihood_is_a_note():
    rare = [TargetCircumstance(str(p), "", p, 1, "rare", 1) for p in (0.5, 0.6)]
    assert [note.split(":")[0] for note in specification_notes(rare)] == ["circumstance 0.6"]
    assert name_notes({"2": "Same lines"}, {"2": "Some lines", "3": "cut"})
    assert not name_notes({"2": "lines"}, {"2": "lines "})


def test_exclusive_groups_are_declared_and_sum_to_at_most_one():
    assert check_exclusive({"day": 0.7, "night": 0.3}) == 0.0
    assert check_exclusive({"day": 0.6, "night": 0.3}) == pytest.approx(0.1)
    assert check_exclusive({"day": 0.7, "night": 0.3 - 5e-7}, exhaustive=True) < 1e-6
    with pytest.raises(ValueError, match="at most 1"):
        check_exclusive({"day": 0.7, "night": 0.4})
    with pytest.raises(ValueError, match="none of them"):
        check_exclusive({"day": 0.6, "night": 0.3}, exhaustive=True)


def test_links_name_known_circumstances_and_what_has_none_is_noted():
    notes = link_notes({"moving": ["blur"]}, ["moving", "old scanner"], ["blur", "noise"])
    assert [note.split()[1] for note in notes] == ["old", "noise"]
    with pytest.raises(ValueError, match="blurr"):
        link_notes({"moving": ["blurr"]}, ["moving"], ["blur"])


def test_the_checklist_and_the_estimators_name_transforms_that_exist():
    assert 25 <= len(CHECKLIST) <= 35
    assert len({hazard.group for hazard in CHECKLIST}) == 10
    named = [hazard.transform for hazard in CHECKLIST if hazard.transform]
    assert len(set(named)) == len(named)
    for name in [*named, *ESTIMATORS_OF]:
        assert registry.get("transforms", name).traits["of"] == "image"


def test_boxes_1_and_3_give_the_list_and_the_shares_of_figure_a1():
    gaps = gap_list(TARGETS, {i: known_frequency(row[2]) for i, row in MDS.items()})
    assert [row.target.id for row in gaps.to_generate] == PRIORITIES
    assert (gaps.missing, gaps.over_or_under, gaps.covered) == (63, 100, 0)
    assert gaps.rows[0].gap == pytest.approx(0.05)
    assert gaps.of("over-represented") == []


def test_over_represented_equal_and_unstated_circumstances_are_kept_apart():
    targets = [TargetCircumstance(str(i), "", p) for i, p in enumerate((0.1, 0.3, 0.2, None))]
    sources = {"0": known_frequency(0.2), "1": known_frequency(0.1 + 0.2)}
    gaps = gap_list(targets, {**sources, "3": known_frequency(0.5)})
    statuses = {row.target.id: row.status for row in gaps.rows}
    assert statuses == {
        "0": "over-represented",
        "1": "covered",
        "2": "not stated",
        "3": "not stated",
    }
    assert (gaps.missing, gaps.over_or_under, gaps.covered) == (0, 50, 50)
    with pytest.raises(ValueError, match="no target circumstance"):
        gap_list(targets, {"9": known_frequency(0.1)})


def test_a_sample_that_is_too_small_cannot_tell():
    targets = [TargetCircumstance("1", "", 0.1), TargetCircumstance("2", "", 0.1)]
    gaps = gap_list(targets, {"1": counted_frequency(0, 20), "2": counted_frequency(0, 200)})
    assert [row.status for row in gaps.rows] == ["cannot tell", "missing"]
    assert gaps.rows[1].interval.low == pytest.approx(0.1 - beta.ppf(0.975, 1, 200))


def test_a_sample_in_groups_is_less_sure():
    shown = np.repeat([1, 0, 0, 0, 0, 0, 0, 0, 1, 0], 10)
    alone = sampled_frequency(shown)
    grouped = sampled_frequency(shown, np.repeat(np.arange(10), 10))
    assert alone.value == grouped.value == 0.2
    assert grouped.interval.width > 1.5 * alone.interval.width
    assert alone.interval.low == pytest.approx(counted_frequency(20, 100).interval.low)


def photograph(rng: np.random.Generator) -> np.ndarray:
    """Blocks of random brightness with fine texture: sharp, of full contrast, hardly noisy."""
    blocks = np.kron(rng.integers(0, 256, (8, 8)), np.ones((8, 8)))
    return np.clip(blocks + rng.normal(0, 2, blocks.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    ("transform", "estimator"),
    [
        ("gaussian_blur", "blur"),
        ("motion_blur", "blur"),
        ("gaussian_noise", "noise"),
        ("contrast", "low_contrast"),
        ("low_light", "darkness"),
        ("salt_and_pepper", "salt_and_pepper"),
        ("rotation", "rotation"),
        ("rotation", "black_corners"),
    ],
)
def test_a_score_is_higher_where_there_is_more_of_it(transform, estimator):
    rng, score = np.random.default_rng(3), ESTIMATORS[estimator]
    images = [photograph(rng) for _ in range(40)]
    made = [at_level(transform, 2).value(image, rng) for image in images]
    calibration = calibrate_score([*map(score, images)], [*map(score, made)])
    assert calibration.auc > 0.8
    colour = np.repeat(images[0][:, :, None], 3, axis=2)
    assert score(colour) == pytest.approx(score(images[0]), abs=1e-5)
    assert score(images[0] / np.float64(255)) == pytest.approx(score(images[0]), abs=1e-5)


def test_noise_is_measured_in_its_own_unit_and_rotation_in_degrees():
    rng = np.random.default_rng(0)
    grey = np.clip(0.5 + 0.05 * rng.normal(size=(200, 200)), 0, 1)
    assert ESTIMATORS["noise"](grey) == pytest.approx(0.05, rel=0.03)
    y, x = np.mgrid[:200, :200]
    angle = np.deg2rad(12.0)
    stripes = 0.5 + 0.4 * np.sin((x * np.cos(angle) + y * np.sin(angle)) / 5)
    assert ESTIMATORS["rotation"](stripes) == pytest.approx(12.0, abs=0.5)


def test_the_threshold_is_chosen_on_one_half_and_counted_on_the_other():
    clean, made = np.arange(40.0), np.arange(40.0) + 35
    found = calibrate_score(clean, made)
    # Even rows: 35, 37, … of both sorts meet; between 34 and 35 nothing is missed.
    assert found.threshold == 34.5
    assert found.clean == (17, 3)  # odd rows: 35, 37, 39 are above
    assert found.shown == (0, 20)
    with pytest.raises(ValueError, match="20 or more"):
        calibrate_score(clean[:10], made[:10])


def test_an_estimated_frequency_is_corrected_for_misses_and_false_flags():
    calibration = ScoreCalibration(0.5, (900, 100), (200, 800), 0.9)
    scores = np.r_[np.ones(310), np.zeros(690)]
    found = estimated_frequency(scores, calibration)
    assert found.value == pytest.approx((0.31 - 0.1) / 0.7)
    assert found.origin == "estimator"
    grouped = estimated_frequency(scores, calibration, np.arange(1000) // 50)
    assert grouped.interval.width > found.interval.width
    with pytest.raises(CannotTell):
        estimated_frequency(scores, ScoreCalibration(0.5, (100, 100), (100, 100), 0.5))


def test_the_interval_of_an_estimated_frequency_holds_the_rate():
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        calibration = calibrate_score(rng.normal(0, 1, 100), rng.normal(2, 1, 100))
        shown = rng.random(200) < 0.2
        scores = rng.normal(0, 1, 200) + 2 * shown
        held += estimated_frequency(scores, calibration).interval.contains(0.2)
    assert held >= 277  # 95% of 300, less three standard errors


def points(*rows):
    return [LoadPoint(level, d, loss, loss + 0.01) for level, (d, loss) in enumerate(rows, 1)]


def test_the_knee_is_the_point_farthest_from_the_chord():
    curve = points((0.1, 0.005), (0.2, 0.01), (0.3, 0.03), (0.4, 0.2), (0.5, 0.4))
    found = from_load_test(curve)
    end = np.array([0.5, 0.4])
    perpendicular = [abs(end[0] * p.loss - end[1] * p.d) / np.hypot(*end) for p in curve]
    assert found.knee == curve[int(np.argmax(perpendicular))] == curve[2]
    assert found.epsilon(0.05) == found.epsilon(0.3) == pytest.approx(0.04)
    assert found.epsilon(0.35) == pytest.approx((0.04 + 0.21) / 2)
    assert found.epsilon(0.51) is None
    assert "proposal" in found.basis


def test_a_curve_that_rises_at_once_has_no_knee():
    found = from_load_test(points((0.1, 0.3), (0.2, 0.35), (0.5, 0.4)))
    assert found.knee is None
    assert found.epsilon(0.1) == pytest.approx(0.31)
    with pytest.raises(ValueError, match="finite"):
        from_load_test([LoadPoint(1, 0.1, 0.1, np.inf)])
    with pytest.raises(ValueError, match="above 0"):
        from_load_test([LoadPoint(1, 0.0, 0.0, 0.0)])


curves = st.lists(st.tuples(st.floats(0.001, 1), st.floats(-0.5, 1)), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(curves, st.booleans())
def test_a_proposal_never_falls_and_holds_every_upper_bound(rows, reference):
    measured = points(*((round(d, 3), loss) for d, loss in rows))
    found = from_reference(measured, "annotators") if reference else from_load_test(measured)
    grid = found.epsilon.at(np.linspace(0, max(p.d for p in measured), 300))
    assert np.all(np.diff(grid) >= -1e-9)
    assert np.all(found.epsilon.at([p.d for p in measured]) >= [p.high - 1e-9 for p in measured])
    assert ("annotators" in found.basis) == reference


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 5.5), st.integers(0, 6))
def test_the_breaking_level_is_bracketed_and_each_halving_halves_the_bracket(limit, halvings):
    found = smallest_breaking([3, 1, 2, 4, 5], lambda level: limit - level, halvings=halvings)
    if limit >= 5:
        assert found == (5.0, None)
    else:
        assert found.holds <= limit + 1e-9 < found.breaks + 1e-8
        assert found.breaks - found.holds == pytest.approx(0.5**halvings)


def test_a_curve_that_recovers_breaks_at_its_first_level_and_nan_ends_the_scan():
    margins = {1: 1.0, 2: -1.0, 3: 1.0}
    found = smallest_breaking([1, 2, 3], lambda at: margins.get(at, 1.5 - at), halvings=2)
    assert found == (1.5, 1.75)
    uncovered = smallest_breaking([1, 2, 3], lambda at: np.nan if at > 1 else 0.1)
    assert uncovered == (1.0, None)
