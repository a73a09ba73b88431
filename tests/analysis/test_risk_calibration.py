"""From scores to cells: placed by hand, counted by models that have not seen the rows, refused with a sentence."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from roadworthy.analysis.risk import placement as learning
from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.placement import NOWHERE
from roadworthy.statistics import fusion
from roadworthy.statistics.fusion import rank_steps

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ROWS = 300


def table_of(
    *,
    rows: int = ROWS,
    seed: int = 0,
    kinds: tuple[str, ...] = ("clean", "blur", "fog"),
    digits: int = 1,
):
    """Three supervisors, scores with ties, some of them missing."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(kinds, rows)
    far = np.repeat(np.arange(len(kinds)), rows) > 0
    columns = {
        name: np.round(rng.normal(gap * far), digits)
        for name, gap in (("energy", 1.5), ("knn", 1.0), ("vote", 0.5))
    }
    columns["vote"] = (columns["vote"] > 0.8).astype(float)
    columns["knn"][rng.random(len(kind)) < 0.05] = np.nan
    return columns, kind, rng.random(len(kind)) < np.where(far, 0.5, 0.9)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return fit_calibration(*table_of())


def by_hand(calibration: Calibration, scores: dict[str, float]) -> int:
    """The cell of one event by counting, with nothing but the calibration's stored numbers."""
    shares = {}
    for name, reference in zip(calibration.names, calibration.references, strict=True):
        if not math.isnan(scores[name]):
            below = sum(r < scores[name] for r in reference)
            equal = sum(r == scores[name] for r in reference)
            shares[name] = (below + 0.5 * equal + 0.5) / (len(reference) + 1.0)
    lacking = [
        name
        for name, gap in zip(calibration.names, calibration.gaps, strict=True)
        if name not in shares and not gap
    ]
    if not shares or (lacking and len(shares) < 0.75 * len(calibration.names)):
        return -1
    mean = sum(shares.values()) / len(shares)
    bins = []
    for model in (calibration.shift, calibration.right_clean, calibration.right_shifted):
        intercept, *slopes = model.coefficients
        total, at = intercept, 0
        for power in (1, 2, 6):
            for name in calibration.names:
                total += slopes[at] * shares.get(name, mean) ** power
                at += 1
        bins.append(sum(edge <= total for edge in model.edges))
    outside = any(
        not low <= scores[name] <= high
        for name, (low, high) in zip(calibration.names, calibration.reach, strict=True)
        if not math.isnan(scores[name])
    )
    _, clean, shifted, _ = calibration.shape
    return ((bins[0] * clean + bins[1]) * shifted + bins[2]) * 2 + outside


def test_events_are_placed_as_by_hand(calibration):
    columns, *_ = table_of(seed=1)
    columns["energy"][:5] = [-50.0, 50.0, np.nan, np.nan, 0.0]
    columns["knn"][:5] = [0.0, 0.0, np.nan, np.nan, -99.0]
    columns["vote"][:5] = [1.0, 0.0, np.nan, 1.0, 1.0]
    cells = calibration.place(columns)
    expected = [
        by_hand(calibration, {name: float(columns[name][i]) for name in columns})
        for i in range(len(cells))
    ]
    assert cells.tolist() == expected
    assert cells[2] == NOWHERE and cells.dtype == np.int16
    assert [int(c) % 2 for c in cells[:2]] == [1, 1] and cells[4] % 2 == 1


@given(
    st.lists(FINITE, min_size=1, max_size=30),
    st.lists(FINITE | st.just(math.nan), min_size=1, max_size=10),
)
def test_steps_of_ranks_are_the_ranks_of_fusion(reference, scores):
    values, steps = rank_steps(np.array(reference))
    among = np.array([*scores, *reference, -0.0, 5e-324])
    at = np.searchsorted(values, among)
    at = 2 * at + (values[np.minimum(at, len(values) - 1)] == among)
    known = ~np.isnan(among)
    assert (steps[at[known]] == fusion.ranks(among[known], reference)).all()


def scores_near(calibration: Calibration, name: str) -> st.SearchStrategy[float]:
    """Any float, and those at and right beside what was calibrated."""
    i = calibration.names.index(name)
    known = {*calibration.references[i], *calibration.reach[i]}
    near = [*known, *(math.nextafter(r, math.inf) for r in known)]
    return FINITE | st.sampled_from(near) | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, math.nan])


@settings(max_examples=200)
@given(st.data())
def test_one_event_lies_where_it_lies_among_others(calibration, data):
    events = data.draw(
        st.lists(
            st.fixed_dictionaries({n: scores_near(calibration, n) for n in calibration.names}),
            max_size=6,
        )
    )
    cells = calibration.place({name: [e[name] for e in events] for name in calibration.names})
    assert cells.tolist() == [calibration.place_one(e) for e in events]
    for kind in (np.float64, np.float32, int):
        some = [
            {n: s if math.isnan(s) else kind(max(-1e30, min(1e30, s))) for n, s in e.items()}
            for e in events
        ]
        cells = calibration.place(
            {name: np.array([float(e[name]) for e in some]) for name in calibration.names}
        )
        assert cells.tolist() == [calibration.place_one(e) for e in some]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.data())
def test_a_strictly_increasing_change_of_a_score_changes_no_cell(seed, data):
    columns, kind, correct = table_of(rows=40, seed=seed)
    name = data.draw(st.sampled_from(["energy", "knn"]))
    column = columns[name]
    old = np.unique(column[~np.isnan(column)])
    steps = data.draw(st.lists(st.integers(1, 2**40), min_size=len(old), max_size=len(old)))
    new = np.cumsum(np.array(steps, dtype=np.float64)) - 2.0**41
    changed = np.where(
        np.isnan(column), np.nan, new[np.minimum(np.searchsorted(old, column), len(old) - 1)]
    )
    before, after = (
        fit_calibration(columns, kind, correct, seed=seed),
        fit_calibration({**columns, name: changed}, kind, correct, seed=seed),
    )
    assert (before.table == after.table).all() and before.shift == after.shift
    assert (before.place(columns) == after.place({**columns, name: changed})).all()


def test_the_order_of_the_columns_makes_no_difference(calibration):
    columns, kind, correct = table_of()
    turned = fit_calibration(dict(reversed(columns.items())), kind, correct)
    assert turned.to_dict() == calibration.to_dict()


def test_rows_of_one_supervisor_are_counted_where_they_are_placed():
    columns, kind, correct = table_of()
    calibration = fit_calibration({"energy": columns["energy"]}, kind, correct)
    placed = calibration.place({"energy": columns["energy"]})
    expected = Counter(zip(kind.tolist(), correct.tolist(), placed.tolist(), strict=True))
    counted = {
        (name, word == 0, int(cell)): int(calibration.table[i, word, cell])
        for i, name in enumerate(calibration.kinds)
        for word, cell in np.argwhere(calibration.table[i])
    }
    assert counted == dict(expected)
    assert (
        calibration.rows("fog") == ROWS
        and calibration.accuracy("clean") == correct[kind == "clean"].mean()
    )


def test_a_table_of_its_own_is_counted_by_the_models_of_the_other():
    learned, counted = table_of(), table_of(seed=5)
    counted[0]["knn"][counted[1] == "clean"] = np.nan
    counted[0]["energy"][7:19] = np.nan
    for name in counted[0]:
        counted[0][name][:7] = np.nan
    calibration = fit_calibration(*learned, count_on=counted)
    cells = calibration.place(counted[0])
    # Twelve rows lack a score that no learned row lacked: they have no place, and none at the end of the table either.
    assert (cells[:19] == NOWHERE).all() and calibration.table.sum() == 3 * ROWS - 19
    table = np.zeros_like(calibration.table)
    for kind, correct, cell in zip(counted[1][19:], counted[2][19:], cells[19:], strict=True):
        table[calibration.kinds.index(kind), int(not correct), cell] += 1
    assert (table == calibration.table).all()
    assert any("7 of 900 rows have no score" in note for note in calibration.notes)
    assert calibration.shift == fit_calibration(*learned).shift


def test_tables_to_be_counted_have_every_kind_and_no_other():
    columns, kind, correct = table_of(rows=40)
    with pytest.raises(ValueError, match="rows to count must be of kinds"):
        fit_calibration(
            columns,
            kind,
            correct,
            count_on=(columns, np.where(kind == "fog", "blur", kind), correct),
        )
    with pytest.raises(ValueError, match="rows to count must be of kinds"):
        fit_calibration(
            columns,
            kind,
            correct,
            count_on=(columns, np.where(kind == "fog", "snow", kind), correct),
        )
    with pytest.raises(ValueError, match="'knn' is missing"):
        less = {name: column for name, column in columns.items() if name != "knn"}
        fit_calibration(columns, kind, correct, count_on=(less, kind, correct))


def auc(marks: np.ndarray, scores: np.ndarray) -> float:
    found = mannwhitneyu(scores[marks == 1], scores[marks == 0]).statistic
    return float(found / ((marks == 1).sum() * (marks == 0).sum()))


def test_outcomes_of_a_fold_do_not_touch_the_scores_of_that_fold():
    rng = np.random.default_rng(3)
    ranks, marks = rng.random((200, 3)), (rng.random(200) < 0.5).astype(float)
    folds = learning.folds_of(np.arange(200), np.repeat([0, 1], 100), rng)
    before = learning.held_out(ranks, marks, np.ones(200), folds, ridge=1.0)
    for fold in range(learning.FOLDS):
        turned = np.where(folds == fold, 1.0 - marks, marks)
        after = learning.held_out(ranks, turned, np.ones(200), folds, ridge=1.0)
        assert (after[folds == fold] == before[folds == fold]).all()
        assert (after[folds != fold] != before[folds != fold]).all()


def test_noise_separates_nothing_where_rows_are_held_out():
    rng = np.random.default_rng(4)
    ranks, marks = rng.random((400, 25)), (rng.random(400) < 0.5).astype(float)
    folds = learning.folds_of(np.arange(400), marks.astype(int), rng)
    out = learning.held_out(ranks, marks, np.ones(400), folds, ridge=1.0)
    seen = learning.scored(learning.fitted(ranks, marks, np.ones(400), ridge=1.0), ranks)
    # The standard error of the area is 0.029; what has seen the rows is far beyond it.
    assert abs(auc(marks, out) - 0.5) < 0.09 and auc(marks, seen) > 0.65


def test_rows_of_a_group_are_held_out_together():
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(60), 10)
    ranks = np.clip(rng.random((60, 20))[groups] + rng.normal(0, 0.001, (600, 20)), 0.001, 0.999)
    marks = (rng.random(60) < 0.5).astype(float)[groups]
    scores = {}
    for name, units in (("whole", groups), ("torn", np.arange(600))):
        folds = learning.folds_of(units, marks.astype(int), np.random.default_rng(0))
        scores[name] = learning.held_out(ranks, marks, np.ones(600), folds, ridge=1.0)
        if name == "whole":
            assert all(len(set(folds[groups == g])) == 1 for g in range(60))
    assert abs(auc(marks, scores["whole"]) - 0.5) < 0.25 and auc(marks, scores["torn"]) > 0.9


def test_folds_are_even_for_every_kind():
    kinds = np.repeat([0, 1, 2], [100, 25, 10])
    folds = learning.folds_of(np.arange(135), kinds, np.random.default_rng(0))
    for kind, each in ((0, 20), (1, 5), (2, 2)):
        assert np.bincount(folds[kinds == kind], minlength=5).tolist() == [each] * 5


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 2.0, 7.0]) | FINITE, min_size=1, max_size=60),
    st.integers(2, 15),
)
def test_edges_lie_between_scores_and_never_on_one_side_of_all(scores, bins):
    values = np.clip(np.array(scores), -1e300, 1e300)
    edges = learning.edges_between(values, np.ones(len(values)), bins, kept=values)
    assert len(edges) <= bins - 1 and list(edges) == sorted(edges)
    assert all(values.min() <= edge <= values.max() for edge in edges)


def test_bins_hold_the_same_weight_where_scores_differ():
    scores = np.random.default_rng(0).normal(size=1000)
    edges = learning.edges_between(scores, np.ones(1000), 10, kept=scores)
    assert np.bincount(np.searchsorted(edges, scores, side="right")).tolist() == pytest.approx(
        [100] * 10, abs=1
    )


@pytest.mark.parametrize("columns", [3, 6])
def test_equal_rows_have_equal_scores(columns):
    rng = np.random.default_rng(columns)
    kinds = rng.random((4, columns))
    which = rng.integers(0, 4, 1003)
    scores = learning.scored(rng.normal(size=1 + 3 * columns), kinds[which])
    assert all(len(set(scores[which == k])) == 1 for k in range(4))


def test_a_verdict_makes_two_bins():
    rng = np.random.default_rng(0)
    far = np.repeat([False, True], 500)
    verdict = (rng.random(1000) < np.where(far, 0.7, 0.1)).astype(float)
    calibration = fit_calibration(
        {"verdict": verdict}, np.where(far, "fog", "clean"), rng.random(1000) < 0.8
    )
    assert calibration.shift.bins == 2
    bins = calibration.by_bin(calibration.table.sum(axis=1))
    assert bins[0].tolist() == [(~far & (verdict == v)).sum() for v in (0, 1)]
    assert bins[1].tolist() == [(far & (verdict == v)).sum() for v in (0, 1)]


@pytest.mark.parametrize("right", [np.zeros(120, bool), np.ones(120, bool)])
def test_outcomes_that_are_all_the_same_make_one_bin(right):
    columns, kind, _ = table_of(rows=40)
    calibration = fit_calibration(columns, kind, right)
    assert calibration.right_clean.bins == calibration.right_shifted.bins == 1
    assert calibration.accuracy("fog") == float(right[0])


def test_scores_that_are_all_the_same_make_one_bin():
    calibration = fit_calibration(
        {"a": np.zeros(60), "b": np.ones(60)}, np.repeat(["clean", "fog"], 30), np.arange(60) % 2
    )
    assert calibration.shape == (1, 1, 1, 2) and calibration.table.sum() == 60
    assert calibration.place({"a": [0.0, 1.0], "b": [1.0, 1.0]}).tolist() == [0, 1]


def test_a_column_without_clean_scores_is_left_out_with_the_rows_that_have_no_other():
    columns, kind, correct = table_of(rows=40)
    only = np.flatnonzero(kind == "fog")[:6]
    for column in columns.values():
        column[only] = np.nan
    columns["extra"] = np.where(kind == "clean", np.nan, 1.0)
    calibration = fit_calibration(columns, kind, correct)
    assert calibration.names == ("energy", "knn", "vote") and calibration.rows("fog") == 34
    assert calibration.notes[:2] == (
        "6 of 120 rows have no score at all and are left out",
        "score extra is missing in every clean row and is left out",
    )


def test_groups_that_leave_a_fold_without_a_kind_are_still_counted():
    columns, kind, correct = table_of(rows=40)
    for groups in (np.zeros(120), kind, np.arange(120) % 2, np.where(kind == "fog", "f", "g")):
        calibration = fit_calibration(columns, kind, correct, groups=groups)
        assert calibration.table.sum() == 120 and calibration.grouped


def test_kinds_may_have_any_name_and_clean_another():
    names = ("clean", "", "clean ", "déjà vu", "0")
    columns, kind, correct = table_of(rows=40, kinds=names)
    calibration = fit_calibration(columns, kind, correct)
    assert calibration.kinds == ("clean", "", "0", "clean ", "déjà vu")
    assert [calibration.rows(k) for k in calibration.kinds] == [40] * 5
    back = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))
    assert back.to_dict() == calibration.to_dict()


def test_few_rows_are_noted():
    columns, kind, correct = table_of(rows=40)
    kept = np.concatenate([np.flatnonzero(kind != "fog"), np.flatnonzero(kind == "fog")[:3]])
    calibration = fit_calibration(
        {n: c[kept] for n, c in columns.items()}, kind[kept], correct[kept]
    )
    assert calibration.rows("fog") == 3 and "few rows of fog (3)" in calibration.notes[0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"columns": {}}, "no row of kind 'clean' has a score"),
        ({"columns": {"a": [np.nan, np.nan, 1.0, 0.0]}}, "no row of kind 'clean' has a score"),
        (
            {"kind": ["fog", "fog", "blur", "fog"]},
            "no row of kind 'clean' has a score; kinds are blur, fog",
        ),
        ({"kind": ["clean"] * 4}, "all rows are clean"),
        ({"correct": [1.0, 0.0, np.nan, 1.0]}, "without an outcome"),
        ({"correct": ["0", "1", "1", "1"]}, "correct must be 1 or 0"),
        ({"correct": [1, 2, 0, 1]}, "correct must be 1 or 0"),
    ],
)
def test_tables_that_cannot_be_learned_from_are_refused(change, sentence):
    given = {
        "columns": {"a": [0.0, 1.0, 2.0, 3.0]},
        "kind": ["clean", "clean", "fog", "fog"],
        "correct": [1, 0, 1, 0],
    }
    with pytest.raises(ValueError, match=sentence):
        fit_calibration(**{**given, **change})


def test_events_that_cannot_be_placed_are_refused(calibration):
    good = {name: [0.0, 1.0] for name in calibration.names}
    for bad, sentence in (
        ({"energy": [0.0, np.inf]}, "energy has an infinite score"),
        ({"energy": [[0.0, 1.0]]}, "one number an event"),
        ({"energy": [0.0]}, "one number an event"),
    ):
        with pytest.raises(ValueError, match=sentence):
            calibration.place({**good, **bad})
    with pytest.raises(ValueError, match="'vote' is missing"):
        calibration.place({"energy": [0.0], "knn": [0.0]})
    for scores in ({"energy": -math.inf}, {"energy": math.nan, "knn": math.inf}):
        with pytest.raises(ValueError, match="infinite"):
            calibration.place_one({"vote": 0.0, "knn": 0.0, **scores})
    assert (
        calibration.place_one({}) == NOWHERE
        and len(calibration.place({n: [] for n in calibration.names})) == 0
    )


def test_a_calibration_comes_back_from_json_exactly(calibration):
    back = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))
    assert back.to_dict() == calibration.to_dict() and (back.table == calibration.table).all()
    assert (back.names, back.references, back.reach, back.kinds) == (
        calibration.names,
        calibration.references,
        calibration.reach,
        calibration.kinds,
    )
    assert (back.shift, back.right_clean, back.right_shifted) == (
        calibration.shift,
        calibration.right_clean,
        calibration.right_shifted,
    )


def test_bins_of_cells(calibration):
    cells = np.arange(calibration.cells)
    s, c, d, o = calibration.shape
    assert (calibration.shift_bin(cells) == np.repeat(np.arange(s), c * d * o)).all()
    assert cells.reshape(calibration.shape)[1, 0, 0, 1] == c * d * o + 1


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.3, 0.6, 0.95])
def test_verdicts_keep_a_bin_each_however_rare_one_of_them_is(share):
    """Counts of the two bins are those of the verdicts; where rows beyond are too few to say anything there is one bin."""
    kind = np.repeat(["clean", "fog"], 1000)
    verdict = np.concatenate([np.zeros(1000), np.arange(1000) < round(1000 * share)]).astype(float)
    calibration = fit_calibration({"verdict": verdict}, kind, np.ones(2000, dtype=bool))
    assert calibration.shift.bins == 2
    rows = calibration.by_bin(calibration.table.sum(axis=1))
    assert rows.tolist() == [[1000, 0], [1000 - round(1000 * share), round(1000 * share)]]
    few = fit_calibration(
        {"verdict": (np.arange(2000) >= 1995).astype(float)}, kind, np.ones(2000, dtype=bool)
    )
    assert few.shift.bins == 1
