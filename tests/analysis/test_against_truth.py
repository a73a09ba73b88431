"""Estimates against a truth that is known: errors, intervals, expected costs, alarms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.prototypes import Costs, base_tree, detector_tree
from roadworthy.analysis.simulation.against_truth import (
    Told,
    alarm_record,
    error_of,
    parameters_of_detector,
    parameters_of_rows,
    truth_of,
    window_counts,
)
from roadworthy.analysis.simulation.schedules import Constant, Step, draw_shift
from roadworthy.analysis.simulation.streams import VERDICT, Detector, Stream, draw_verdicts

DETECTOR = Detector(0.8, 0.9, 0.5, 0.95, 0.3, 0.7)
COSTS = Costs(right=1.0, wrong=50.0, necessary=10.0, unnecessary=12.0)


def chances(stream: Stream) -> np.ndarray:
    alarm = stream.columns[VERDICT].astype(int)
    return np.array([[0.95, 0.5], [0.7, 0.3]])[stream.shifted.astype(int), alarm]


def test_intervals_are_judged_where_there_are_any():
    found = error_of(Told([0.2, 0.4]), [0.1, 0.1])
    assert (found.mean_absolute, found.told) == (pytest.approx(0.2), 1.0)
    assert np.isnan(found.coverage) and np.isnan(found.width)


def test_what_could_not_be_told_is_counted_and_left_out():
    found = error_of(Told([np.nan, 0.3], [np.nan, 0.0], [np.nan, 0.2]), [0.9, 0.2])
    assert (found.told, found.windows, found.coverage) == (0.5, 2, 1.0)
    assert found.bias == pytest.approx(0.1)


def test_expected_cost_is_what_the_stream_pays_in_the_long_run():
    rng = np.random.default_rng(0)
    stream = draw_verdicts(DETECTOR, draw_shift(Constant(0.3), 400_000, rng=rng), rng=rng)
    alarm = stream.columns[VERDICT] == 1
    paid = np.select(
        [alarm & stream.correct, alarm, stream.correct],
        [COSTS.unnecessary, COSTS.necessary, COSTS.right],
        COSTS.wrong,
    )
    truth = truth_of(
        stream, 100_000, detector_tree(COSTS), {}, detected=alarm, chance=chances(stream)
    )
    assert truth.risk.mean() == pytest.approx(paid.mean(), rel=0.01)
    assert truth.rate == pytest.approx(stream.shifted.reshape(4, -1).mean(axis=1))
    assert truth.accuracy == pytest.approx(stream.correct.reshape(4, -1).mean(axis=1))


def test_shares_of_drawn_rows_are_the_detectors_own_parameters():
    rng = np.random.default_rng(1)
    stream = draw_verdicts(DETECTOR, draw_shift(Constant(0.5), 400_000, rng=rng), rng=rng)
    counted = parameters_of_rows(stream.shifted, stream.columns[VERDICT], stream.correct)
    known = parameters_of_detector(DETECTOR)
    assert set(counted) == set(known)
    for name, value in known.items():
        assert counted[name] == pytest.approx(value, abs=0.01), name


def test_alarms_are_due_where_the_rate_makes_the_cost_intolerable():
    rng = np.random.default_rng(2)
    stream = draw_verdicts(DETECTOR, draw_shift(Step(0.0, 0.5, at=600), 1000, rng=rng), rng=rng)
    tree, known = base_tree({"wrong": 100.0}), parameters_of_detector(DETECTOR)
    clean = 100 * (1 - DETECTOR.accuracy_clean)
    seen = {"detected": stream.columns[VERDICT], "chance": chances(stream)}
    due = truth_of(stream, 100, tree, known, **seen, tolerable=clean + 1).due
    assert due.tolist() == [False] * 600 + [True] * 400
    assert not truth_of(stream, 100, tree, known, **seen).due.any()


def test_the_expected_cost_of_a_window_is_the_mean_over_its_events():
    rng = np.random.default_rng(3)
    stream = draw_verdicts(DETECTOR, draw_shift(Constant(0.4), 1000, rng=rng), rng=rng)
    alarm, chance = stream.columns[VERDICT] == 1, chances(stream)
    expected = np.where(
        alarm,
        chance * COSTS.unnecessary + (1 - chance) * COSTS.necessary,
        chance * COSTS.right + (1 - chance) * COSTS.wrong,
    )
    truth = truth_of(stream, 50, detector_tree(COSTS), {}, detected=alarm, chance=chance)
    assert truth.risk == pytest.approx(expected.reshape(20, 50).mean(axis=1))


@given(cells=st.lists(st.integers(-1, 4), max_size=60), window=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_counts_of_windows_are_those_of_each_window(cells, window):
    found = window_counts(cells, window, 5)
    for i, row in enumerate(found):
        part = [c for c in cells[i * window : (i + 1) * window] if c >= 0]
        assert row.tolist() == [part.count(c) for c in range(5)]
    assert len(found) == len(cells) // window


def test_an_alarm_that_stands_when_it_falls_due_has_no_delay():
    due = np.array([False] * 10 + [True] * 10)
    assert alarm_record([9], [], due, window=2).delays == (0,)


def test_a_stretch_without_an_alarm_is_missed_and_a_late_alarm_is_not_false():
    due = np.array([False] * 10 + [True] * 3 + [False] * 10)
    record = alarm_record([14], [], due, window=5)  # the window still holds the shifted events
    assert (record.missed, record.false, record.delays) == (1, 0, ())
    assert alarm_record([21], [], due, window=5).false == 1


def test_records_of_several_streams_add_up():
    due = np.array([False] * 4 + [True] * 4)
    both = alarm_record([5], [], due, window=1) + alarm_record([0, 6], [1], due, window=1)
    assert (both.due, both.delays, both.false, both.quiet) == (2, (1, 2), 1, 8)


def test_a_missed_stretch_is_brief_if_it_never_fills_the_window():
    due = np.array([False] * 5 + [True] * 3 + [False] * 10 + [True] * 6 + [False] * 5)
    for window, brief in ((3, 0), (4, 1), (6, 1), (7, 2)):
        record = alarm_record([], [], due, window=window)
        assert (record.missed, record.missed_brief, record.missed_long) == (2, brief, 2 - brief)
    noticed = alarm_record([6, 20], [9], due, window=7)
    assert (noticed.missed, noticed.missed_brief) == (0, 0)
    assert (record + record).missed_brief == 4


@given(
    rates=st.lists(st.sampled_from([0.0, 0.1, 0.9]), min_size=1, max_size=40),
    window=st.integers(1, 6),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_an_alarm_is_due_late_early_or_false_by_what_its_window_holds(rates, window, data):
    """0.9 is intolerable, 0.1 is not; every event is of one sort alone, and so is an alarm at it."""
    raised = sorted(data.draw(st.sets(st.integers(0, len(rates) - 1))))
    rate = np.array(rates)
    record = alarm_record(raised, [], rate > 0.5, window=window, shifted=rate > 0)
    worst = [max(rates[max(i + 1 - window, 0) : i + 1]) for i in range(len(rates))]
    assert (record.quiet, record.tolerable) == (worst.count(0.0), worst.count(0.1))
    assert (record.false, record.early) == tuple(
        [worst[i] for i in raised].count(r) for r in (0.0, 0.1)
    )
