"""Schedules of shift and streams of events: what is drawn has the rates, runs and correlations that the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.simulation.schedules import (
    BATCHES,
    Bursts,
    Constant,
    Markov,
    Ramp,
    Segments,
    Step,
    batch_sizes,
    draw_shift,
    read_schedule,
    read_segment,
)
from roadworthy.analysis.simulation.streams import (
    CLEAN,
    VERDICT,
    Detector,
    Pool,
    by_batch,
    detector_grid,
    draw_stream,
    draw_verdicts,
    verdict_rows,
)

N = 200_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def runs_of(flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value and length of every run, the cut ones at both ends left out."""
    ends = np.flatnonzero(np.diff(flags.astype(int))) + 1
    return flags[ends[:-1]], np.diff(ends)


def lagged(values: np.ndarray, k: int) -> float:
    return float(np.corrcoef(values[:-k], values[k:])[0, 1])


def table(n: int = 1000) -> Pool:
    """Half clean, then fog and rain; the score is the row's number, so that it tells the row."""
    kind = np.array([CLEAN] * (n // 2) + ["fog"] * (n // 4) + ["rain"] * (n - n // 2 - n // 4))
    return Pool({"score": np.arange(n, dtype=float)}, kind, np.arange(n) % 3 > 0)


# schedules


def test_a_step_is_between_the_events_it_names():
    assert Step(0.1, 0.4, at=3).rates(5, rng()).tolist() == [0.1, 0.1, 0.1, 0.4, 0.4]


def test_a_ramp_averages_its_ends():
    assert Ramp(0.2, 0.6).rates(1001, rng()).mean() == pytest.approx(0.4)


def test_regular_bursts_end_every_period():
    assert Bursts(0.0, 1.0, every=5, length=2).rates(11, rng()).tolist() == [
        0,
        0,
        0,
        1,
        1,
        0,
        0,
        0,
        1,
        1,
        0,
    ]


def test_random_bursts_have_their_length_and_fill_their_share():
    within = Bursts(0.0, 1.0, every=50, length=10, random=True).rates(N, rng()) == 1.0
    values, lengths = runs_of(within)
    assert set(lengths[values]) <= {10, 20, 30} and np.median(lengths[values]) == 10
    assert within.mean() == pytest.approx(10 / 50, abs=0.01)
    # quiet gaps are geometric with mean 40: P(gap > 40) = (1 - 1/40)^40
    gaps = lengths[~values]
    assert gaps.mean() == pytest.approx(40, rel=0.05)
    assert (gaps > 40).mean() == pytest.approx((1 - 1 / 40) ** 40, abs=0.025)


def test_a_markov_chain_has_its_share_runs_and_correlations():
    chain = Markov(0.0, 1.0, share=0.25, run=20)
    states = chain.states(N * 2, rng(3))
    values, lengths = runs_of(states)
    assert states.mean() == pytest.approx(0.25, abs=0.01)
    assert lengths[values].mean() == pytest.approx(20, rel=0.03)
    assert lengths[~values].mean() == pytest.approx(60, rel=0.03)
    assert lengths[values].var() == pytest.approx((1 - 1 / 20) * 20**2, rel=0.1)  # geometric
    for k in (1, 5, 20):
        assert lagged(states.astype(float), k) == pytest.approx(
            (1 - chain.enter - chain.leave) ** k, abs=0.02
        )


def test_a_markov_chain_starts_in_equilibrium():
    first = [Markov(0.0, 1.0, share=0.3, run=50).states(1, rng(seed))[0] for seed in range(2000)]
    assert np.mean(first) == pytest.approx(0.3, abs=0.035)


def test_segments_follow_one_another_and_the_last_goes_on():
    schedule = Segments(((Constant(0.0), 3), (Ramp(0.0, 1.0), 3), (Constant(0.5), None)))
    assert schedule.events is None
    assert schedule.rates(8, rng()).tolist() == [0, 0, 0, 0, 0.5, 1, 0.5, 0.5]
    assert schedule.rates(4, rng()).tolist() == [0, 0, 0, 0]


def test_more_events_than_the_segments_describe_are_refused():
    with pytest.raises(ValueError, match="describe 5 events, and 6 are asked for"):
        read_schedule([{"constant": 0.1, "events": 5}]).rates(6, rng())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"constant": 1.2}, "from 0 to 1"),
        ({"constant": 0.1, "ramp": [0, 1]}, "constant and ramp of"),
        ({"evry": 3}, r"none \(evry\)"),
        ({"step": [0, 1]}, "step needs at"),
        ({"bursts": [0, 1], "evry": 3, "length": 2}, "did you mean 'every'"),
        ({"bursts": [0, 1], "every": 3, "length": 3}, "every must be at least 4"),
        ({"markov": [0, 1], "share": 0.9, "run": 2}, "make run at least 9"),
        ({"markov": [0, 1], "share": 1.0, "run": 2}, "within 0 and 1"),
        ({"constant": [0.1, 0.2]}, "takes one rate"),
    ],
)
def test_a_segment_that_makes_no_sense_is_refused_with_what_would(data, said):
    with pytest.raises(ValueError, match=said):
        read_segment(data)


def test_only_the_last_segment_may_leave_its_events_out():
    with pytest.raises(ValueError, match="segment 1 of 2 needs events"):
        read_schedule([{"constant": 0.1}, {"constant": 0.2}])


# batches


@given(
    n=st.integers(0, 3000),
    batches=st.lists(st.sampled_from(BATCHES), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_batches_cover_all_events_and_are_whole_in_kind(n, batches, seed):
    sizes = batch_sizes(n, batches, rng(seed))
    assert sizes.sum() == n and (sizes >= 1).all() and set(sizes[:-1]) <= set(batches)
    shift = draw_shift(Constant(0.5), n, batches=batches, rng=rng(seed))
    assert shift.n == n
    if n:
        assert set(by_batch(shift.shifted, shift.batch)) <= {0.0, 1.0}


def test_mixed_batches_draw_every_size_equally_often():
    sizes = batch_sizes(N, BATCHES, rng())
    shares = [np.mean(sizes[:-1] == size) for size in BATCHES]
    assert shares == pytest.approx([0.2] * 5, abs=0.02)


@pytest.mark.parametrize("batch", BATCHES)
def test_batches_keep_the_rate_and_widen_its_spread_as_clusters_do(batch):
    shift = draw_shift(Constant(0.3), N, batches=batch, rng=rng(batch))
    assert shift.shifted.mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.21 * batch / N))
    window = 64 * 5
    expected = 0.3 * 0.7 * batch / window
    assert shift.realised(window).var() == pytest.approx(expected, rel=0.25)


# streams of real rows


def test_events_take_rows_of_their_kind_with_scores_and_truth():
    rows = table()
    stream = draw_stream(
        rows, draw_shift(Constant(0.4), 5000, rng=rng()), kinds=["fog"], rng=rng(1)
    )
    assert set(stream.kind[stream.shifted]) == {"fog"} and set(stream.kind[~stream.shifted]) == {
        CLEAN
    }
    assert (stream.columns["score"] == stream.row).all()
    assert (stream.correct == rows.correct[stream.row]).all()


def test_rows_are_drawn_evenly():
    stream = draw_stream(table(100), draw_shift(Constant(0.0), N, rng=rng()), rng=rng(1))
    counts = np.bincount(stream.row, minlength=50)
    assert (
        (counts - N / 50) ** 2 / (N / 50)
    ).sum() < 90  # chi-square, 49 degrees of freedom: 0.9997


def test_without_replacement_no_row_comes_twice():
    rows = table()
    for order in (0.0, 0.9):
        shift = draw_shift(Constant(0.5), 800, rng=rng())
        stream = draw_stream(rows, shift, replace=False, order=order, rng=rng(2))
        assert len(set(stream.row)) == 800


def test_too_few_rows_without_replacement_are_refused():
    with pytest.raises(ValueError, match=r"needs 600 rows of clean, and the table has 500"):
        draw_stream(table(), draw_shift(Constant(0.0), 600, rng=rng()), replace=False, rng=rng())


def test_an_unknown_kind_or_score_is_refused_with_what_there_is():
    shift = draw_shift(Constant(0.5), 10, rng=rng())
    with pytest.raises(ValueError, match=r"did you mean 'fog'\?"):
        draw_stream(table(), shift, kinds=["fgo"], rng=rng())
    with pytest.raises(ValueError, match="there is no score 'energy'; there are score"):
        draw_stream(table(), shift, order=0.5, by="energy", rng=rng())


@pytest.mark.parametrize("runs", [1.0, 4.0, 25.0])
def test_repeated_rows_have_geometric_runs(runs):
    stream = draw_stream(
        table(), draw_shift(Constant(0.0), N, rng=rng()), runs=runs, rng=rng(int(runs))
    )
    _, lengths = runs_of(stream.row)
    assert lengths.mean() == pytest.approx(runs, rel=0.05)
    for k in (1, 3):
        assert lagged(stream.columns["score"], k) == pytest.approx((1 - 1 / runs) ** k, abs=0.02)


@pytest.mark.parametrize("order", [0.5, 0.95])
def test_the_copula_keeps_the_rows_even_and_correlates_their_ranks(order):
    rows = table(2000)
    stream = draw_stream(rows, draw_shift(Constant(0.0), N, rng=rng()), order=order, rng=rng(5))
    ranks = stream.columns["score"]
    for k in (1, 4):  # Pearson correlation of uniforms under a Gaussian copula
        assert lagged(ranks, k) == pytest.approx(6 / np.pi * np.arcsin(order**k / 2), abs=0.02)
    assert np.quantile(ranks, [0.25, 0.5, 0.75]) == pytest.approx([250, 500, 750], abs=25)


def test_the_copula_without_replacement_orders_all_rows():
    rows = table(20_000)
    stream = draw_stream(
        rows, draw_shift(Constant(0.0), 10_000, rng=rng()), order=0.9, replace=False, rng=rng(7)
    )
    assert sorted(stream.row) == list(range(10_000))
    assert lagged(stream.columns["score"], 1) == pytest.approx(
        6 / np.pi * np.arcsin(0.45), abs=0.02
    )


def test_the_same_seed_draws_the_same_stream():
    first, second = (
        draw_stream(
            table(), draw_shift(Constant(0.5), 100, rng=rng(4)), runs=3, order=0.5, rng=rng(9)
        )
        for _ in range(2)
    )
    assert (first.row == second.row).all()


def test_columns_of_another_length_are_refused():
    with pytest.raises(ValueError, match="score has 2 rows, and kind has 3"):
        Pool({"score": [1.0, 2.0]}, ["clean"] * 3, [1, 1, 1])


# synthetic detectors


def test_the_grid_is_that_of_the_paper():
    grid = detector_grid()
    every = [(i / 10, j / 10) for i in range(11) for j in range(11)]
    assert set(grid) == {(a, b) for a, b in every if round(a + b, 6) > 1}


def test_verdicts_and_answers_have_their_conditional_rates():
    detector = Detector(0.8, 0.9, 0.5, 0.95, 0.3, 0.7)
    stream = draw_verdicts(detector, draw_shift(Constant(0.3), N, rng=rng()), rng=rng(1))
    alarm, shifted, right = stream.columns[VERDICT] == 1, stream.shifted, stream.correct
    assert alarm[shifted].mean() == pytest.approx(0.8, abs=0.01)
    assert alarm[~shifted].mean() == pytest.approx(0.1, abs=0.01)
    for of, expected in (
        (~shifted & alarm, 0.5),
        (~shifted & ~alarm, 0.95),
        (shifted & alarm, 0.3),
        (shifted & ~alarm, 0.7),
    ):
        assert right[of].mean() == pytest.approx(expected, abs=0.015)
    assert right[~shifted].mean() == pytest.approx(detector.accuracy_clean, abs=0.01)
    assert right[shifted].mean() == pytest.approx(detector.accuracy_shifted, abs=0.01)
    assert detector.accuracy_clean == pytest.approx(0.1 * 0.5 + 0.9 * 0.95)


@pytest.mark.parametrize(("tpr", "tnr"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0)])
def test_sure_detectors_are_sure(tpr, tnr):
    stream = draw_verdicts(
        Detector(tpr, tnr), draw_shift(Constant(0.5), 1000, rng=rng()), rng=rng(1)
    )
    assert (stream.columns[VERDICT][stream.shifted] == tpr).all()
    assert (stream.columns[VERDICT][~stream.shifted] == 1 - tnr).all()


def test_a_verdict_for_a_batch_is_one_for_all_its_events():
    shift = draw_shift(Constant(0.5), 6400, batches=32, rng=rng())
    stream = draw_verdicts(Detector(0.7, 0.7), shift, by_batch=True, rng=rng(1))
    assert set(by_batch(stream.columns[VERDICT], shift.batch)) == {0.0, 1.0}


def test_rows_to_calibrate_on_are_as_many_as_asked_for():
    rows = verdict_rows(Detector(0.8, 0.9), 300, 200, rng=rng())
    assert rows.of([CLEAN]).sum() == 300 and rows.n == 500 and rows.kinds == ("shifted",)
