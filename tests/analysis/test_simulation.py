"""Simulations: streams have the rates and correlations asked for, the truth is known, and every
estimator says what its formula says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import Costs, base_tree, detector_tree
from roadworthy.analysis.risk.rates import Rates
from roadworthy.analysis.simulation.estimators import Cbpe, Estimated, Estimators, StreamWindows
from roadworthy.analysis.simulation.experiment import (
    Experiment,
    alarm_record,
    detector_source,
    error_of,
    parameters_of_rows,
    run_experiment,
    truth_of,
    window_counts,
    windowed,
)
from roadworthy.analysis.simulation.streams import (
    BATCHES,
    CLEAN,
    VERDICT,
    Detector,
    Pool,
    Schedule,
    Segment,
    Stream,
    batch_sizes,
    detector_grid,
    draw_shift,
    draw_stream,
    draw_verdicts,
    verdict_rows,
)
from roadworthy.registry import register, remove
from roadworthy.spec.simulation import Simulation

DETECTOR = Detector(0.8, 0.9, 0.9, 0.4)
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


def read(*parts: dict) -> Schedule:
    return Schedule(tuple(Segment.model_validate(part) for part in parts))


def constant(rate: float) -> Schedule:
    return read({"constant": rate})


# schedules


def test_segments_follow_one_another_and_the_last_goes_on():
    parts = [{"constant": 0.0, "events": 3}, {"ramp": [0, 1], "events": 3}, {"constant": 0.5}]
    schedule = read(*parts)
    assert schedule.events is None
    assert schedule.rates(8, rng()).tolist() == [0, 0, 0, 0, 0.5, 1, 0.5, 0.5]
    assert schedule.rates(4, rng()).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="but the last needs events"):
        read({"constant": 0.1}, {"constant": 0.2})


def test_bursts_end_every_period():
    bursts = Segment(bursts=(0, 1), every=5, length=2)
    assert bursts.draw(11, rng()).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"constant": 1.2}, "less than or equal to 1"),
        ({"constant": 0.1, "ramp": [0, 1]}, "exactly one of"),
        ({"evry": 3}, "evry"),
        ({"bursts": [0, 1], "every": 3, "length": 3}, "below every"),
        ({"bursts": [0, 1], "every": 3}, "takes every and length"),
        ({"markov": [0, 1], "share": 0.9, "run": 2}, "too short"),
        ({"markov": [0, 1], "share": 1.0, "run": 2}, "less than 1"),
        ({"constant": [0.1, 0.2]}, "constant"),
        ({"ramp": "up"}, "ramp"),
    ],
)
def test_a_segment_that_makes_no_sense_is_refused(data, said):
    with pytest.raises(ValueError, match=said):
        read(data)


def test_a_markov_chain_has_its_share_runs_and_correlations():
    chain = Segment(markov=(0.0, 1.0), share=0.25, run=20)
    states = chain.draw(N * 2, rng(3)) == 1.0
    values, lengths = runs_of(states)
    assert states.mean() == pytest.approx(0.25, abs=0.01)
    assert lengths[values].mean() == pytest.approx(20, rel=0.03)
    assert lengths[~values].mean() == pytest.approx(60, rel=0.03)
    assert lengths[values].var() == pytest.approx((1 - 1 / 20) * 20**2, rel=0.1)  # geometric
    for k in (1, 5, 20):
        assert lagged(states.astype(float), k) == pytest.approx(
            (1 - chain.enter - 1 / 20) ** k, abs=0.02
        )


def test_a_markov_chain_starts_in_equilibrium():
    chain = Segment(markov=(0.0, 1.0), share=0.3, run=50)
    first = [chain.draw(1, rng(seed))[0] for seed in range(2000)]
    assert np.mean(first) == pytest.approx(0.3, abs=0.035)


# batches


@given(
    n=st.integers(1, 3000),
    batches=st.lists(st.sampled_from(BATCHES), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_batches_cover_all_events_and_are_whole_in_kind(n, batches, seed):
    sizes = batch_sizes(n, batches, rng(seed))
    assert sizes.sum() == n and (sizes >= 1).all() and set(sizes[:-1]) <= set(batches)
    shift = draw_shift(constant(0.5), n, batches=batches, rng=rng(seed))
    assert len(shift.shifted) == n
    starts = np.cumsum(sizes) - sizes
    assert set(np.add.reduceat(shift.shifted.astype(int), starts) / sizes) <= {0.0, 1.0}


@pytest.mark.parametrize("batch", BATCHES)
def test_batches_keep_the_rate_and_widen_its_spread_as_clusters_do(batch):
    shift = draw_shift(constant(0.3), N, batches=batch, rng=rng(batch))
    assert shift.shifted.mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.21 * batch / N))
    shares = windowed(shift.shifted, 64 * 5).mean(axis=1)
    assert shares.var() == pytest.approx(0.3 * 0.7 * batch / (64 * 5), rel=0.25)


def test_mixed_batches_draw_every_size_equally_often():
    sizes = batch_sizes(N, BATCHES, rng())
    shares = [np.mean(sizes[:-1] == size) for size in BATCHES]
    assert shares == pytest.approx([0.2] * 5, abs=0.02)


# streams of real rows


def test_events_take_rows_of_their_kind_with_scores_and_truth():
    rows = table()
    stream = draw_stream(
        rows, draw_shift(constant(0.4), 5000, rng=rng()), kinds=["fog"], rng=rng(1)
    )
    kind = rows.kind[stream.row]
    assert set(kind[stream.shifted]) == {"fog"} and set(kind[~stream.shifted]) == {CLEAN}
    assert (stream.columns["score"] == stream.row).all()
    assert (stream.correct == rows.correct[stream.row]).all()


def test_rows_are_drawn_evenly():
    stream = draw_stream(table(100), draw_shift(constant(0.0), N, rng=rng()), rng=rng(1))
    counts = np.bincount(stream.row, minlength=50)
    assert (
        (counts - N / 50) ** 2 / (N / 50)
    ).sum() < 90  # chi-square, 49 degrees of freedom: 0.9997


def test_an_unknown_kind_or_score_is_refused_with_what_there_is():
    shift = draw_shift(constant(0.5), 10, rng=rng())
    with pytest.raises(ValueError, match=r"did you mean 'fog'\?"):
        table().of(["fgo"])
    with pytest.raises(ValueError, match="there is no score 'energy'; scores are score"):
        draw_stream(table(), shift, order=0.5, by="energy", rng=rng())


@pytest.mark.parametrize("runs", [1.0, 4.0, 25.0])
def test_repeated_rows_have_geometric_runs(runs):
    stream = draw_stream(
        table(), draw_shift(constant(0.0), N, rng=rng()), runs=runs, rng=rng(int(runs))
    )
    _, lengths = runs_of(stream.row)
    assert lengths.mean() == pytest.approx(runs, rel=0.05)
    for k in (1, 3):
        assert lagged(stream.columns["score"], k) == pytest.approx((1 - 1 / runs) ** k, abs=0.02)


@pytest.mark.parametrize("order", [0.5, 0.95])
def test_the_copula_keeps_the_rows_even_and_correlates_their_ranks(order):
    rows = table(2000)
    stream = draw_stream(rows, draw_shift(constant(0.0), N, rng=rng()), order=order, rng=rng(5))
    ranks = stream.columns["score"]
    for k in (1, 4):  # Pearson correlation of uniforms under a Gaussian copula
        assert lagged(ranks, k) == pytest.approx(6 / np.pi * np.arcsin(order**k / 2), abs=0.02)
    assert np.quantile(ranks, [0.25, 0.5, 0.75]) == pytest.approx([250, 500, 750], abs=25)


def test_the_same_seed_draws_the_same_stream():
    first, second = (
        draw_stream(
            table(), draw_shift(constant(0.5), 100, rng=rng(4)), runs=3, order=0.5, rng=rng(9)
        )
        for _ in range(2)
    )
    assert (first.row == second.row).all()


# synthetic detectors


def test_the_grid_is_that_of_the_paper():
    grid = detector_grid()
    every = [(i / 10, j / 10) for i in range(11) for j in range(11)]
    assert set(grid) == {(a, b) for a, b in every if round(a + b, 6) > 1}


def test_verdicts_and_answers_have_their_conditional_rates():
    stream = draw_verdicts(DETECTOR, draw_shift(constant(0.3), N, rng=rng()), rng=rng(1))
    alarm, shifted, right = stream.columns[VERDICT] == 1, stream.shifted, stream.correct
    assert alarm[shifted].mean() == pytest.approx(0.8, abs=0.01)
    assert alarm[~shifted].mean() == pytest.approx(0.1, abs=0.01)
    assert right[~shifted].mean() == pytest.approx(0.9, abs=0.01)
    assert right[shifted].mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("tpr", "tnr"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0)])
def test_sure_detectors_are_sure(tpr, tnr):
    stream = draw_verdicts(
        Detector(tpr, tnr), draw_shift(constant(0.5), 1000, rng=rng()), rng=rng(1)
    )
    assert (stream.columns[VERDICT][stream.shifted] == tpr).all()
    assert (stream.columns[VERDICT][~stream.shifted] == 1 - tnr).all()


def test_rows_to_calibrate_on_are_as_many_as_asked_for():
    rows = verdict_rows(Detector(0.8, 0.9), 300, 200, rng=rng())
    assert rows.of([CLEAN]).sum() == 300 and len(rows.kind) == 500 and rows.kinds == ("shifted",)


# the truth

COSTS = Costs(right=1.0, wrong=50.0, necessary=10.0, unnecessary=12.0)


def chances(stream: Stream) -> np.ndarray:
    return DETECTOR.right(stream.shifted)


def test_intervals_are_judged_where_there_are_any():
    found = error_of(Estimated([0.2, 0.4]), [0.1, 0.1])
    assert (found.mean_absolute, found.estimated) == (pytest.approx(0.2), 1.0)
    assert np.isnan(found.coverage) and np.isnan(found.width)


def test_windows_without_an_estimate_is_counted_and_left_out():
    found = error_of(Estimated([np.nan, 0.3], [np.nan, 0.0], [np.nan, 0.2]), [0.9, 0.2])
    assert (found.estimated, found.windows, found.coverage) == (0.5, 2, 1.0)
    assert found.bias == pytest.approx(0.1)


def test_expected_cost_is_what_the_stream_pays_in_the_long_run():
    rng = np.random.default_rng(0)
    stream = draw_verdicts(DETECTOR, draw_shift(constant(0.3), 400_000, rng=rng), rng=rng)
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
    stream = draw_verdicts(DETECTOR, draw_shift(constant(0.5), 400_000, rng=rng), rng=rng)
    counted = parameters_of_rows(stream.shifted, stream.columns[VERDICT], stream.correct)
    known = detector_source(DETECTOR, Experiment(constant(0.5), 100, base_tree())).parameters
    assert set(counted) == set(known)
    for name, value in known.items():
        assert counted[name] == pytest.approx(value, abs=0.015), name


def test_alarms_are_due_where_the_rate_makes_the_cost_intolerable():
    schedule = read({"constant": 0.0, "events": 600}, {"constant": 0.5, "events": 400})
    stream = draw_verdicts(DETECTOR, draw_shift(schedule, 1000, rng=rng(2)), rng=rng(3))
    known = {"accuracy_clean": 0.9, "accuracy_shifted": 0.4}
    seen = {"detected": stream.columns[VERDICT], "chance": chances(stream)}
    tree = base_tree(Costs(wrong=100.0))
    due = truth_of(stream, 100, tree, known, **seen, tolerable=11.0).due
    assert due.tolist() == [False] * 600 + [True] * 400
    assert not truth_of(stream, 100, tree, known, **seen).due.any()


def test_the_expected_cost_of_a_window_is_the_mean_over_its_events():
    rng = np.random.default_rng(3)
    stream = draw_verdicts(DETECTOR, draw_shift(constant(0.4), 1000, rng=rng), rng=rng)
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
    assert alarm_record([9], [], due, window=2, shifted=due).delays == (0,)


def test_a_stretch_without_an_alarm_is_missed_and_a_late_alarm_is_not_false():
    due = np.array([False] * 10 + [True] * 3 + [False] * 10)
    record = alarm_record(
        [14], [], due, window=5, shifted=due
    )  # the window still holds the shifted events
    assert (record.missed, record.false, record.delays) == (1, 0, ())
    assert alarm_record([21], [], due, window=5, shifted=due).false == 1


def test_records_of_several_streams_add_up():
    due = np.array([False] * 4 + [True] * 4)
    both = alarm_record([5], [], due, window=1, shifted=due) + alarm_record(
        [0, 6], [1], due, window=1, shifted=due
    )
    assert (both.due, both.delays, both.false, both.quiet_events) == (2, (1, 2), 1, 8)


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
    assert (record.quiet_events, record.tolerable_shift_events) == (
        worst.count(0.0),
        worst.count(0.1),
    )
    assert (record.false, record.under_tolerable_shift) == tuple(
        [worst[i] for i in raised].count(r) for r in (0.0, 0.1)
    )


# estimators side by side

ROWS = verdict_rows(DETECTOR, 3000, 2000, rng=np.random.default_rng(0))
CALIBRATION = fit_calibration(ROWS.columns, ROWS.kind, ROWS.correct)


@pytest.fixture(scope="module")
def estimators() -> Estimators:
    return Estimators(Estimator(CALIBRATION, base_tree(Costs(wrong=100.0))))


def windows(*alarms: int, n: int = 100) -> np.ndarray:
    cells = CALIBRATION.place({VERDICT: [0.0, 1.0]})
    table = np.zeros((len(alarms), CALIBRATION.cells))
    table[:, cells[0]], table[:, cells[1]] = n - np.array(alarms), alarms
    return table


def test_what_calibration_counted_is_what_the_rows_are(estimators):
    alarm, shifted = ROWS.columns[VERDICT] == 1, ROWS.kind == "shifted"
    known = estimators.parameters
    assert known["tpr"] == pytest.approx(alarm[shifted].mean())
    assert known["tnr"] == pytest.approx(1 - alarm[~shifted].mean())
    assert known["accuracy_shifted_detected"] == pytest.approx(ROWS.correct[shifted & alarm].mean())
    assert known["accuracy_clean_undetected"] == pytest.approx(
        ROWS.correct[~shifted & ~alarm].mean()
    )
    assert known["accuracy_clean"] == pytest.approx(ROWS.correct[~shifted].mean())


def test_rogan_gladen_solves_for_the_rate_and_the_tree_takes_it_on(estimators):
    found = estimators.estimate("rogan_gladen", StreamWindows(windows(10, 45, 100)))
    known = estimators.parameters
    fpr = 1 - known["tnr"]
    rate = np.clip((np.array([0.1, 0.45, 1.0]) - fpr) / (known["tpr"] - fpr), 0, 1)
    accuracy = (1 - rate) * known["accuracy_clean"] + rate * known["accuracy_shifted"]
    assert found["rate"].value == pytest.approx(rate)
    assert found["accuracy"].value == pytest.approx(accuracy)
    assert found["risk"].value == pytest.approx(100 * (1 - accuracy))
    assert (found["accuracy"].low <= found["accuracy"].value).all() and (
        found["accuracy"].value <= found["accuracy"].high
    ).all()


@pytest.mark.parametrize("name", ["event_tree", "mean", "rogan_gladen"])
def test_every_estimator_sees_more_shift_where_there_are_more_alarms(estimators, name):
    found = estimators.estimate(name, StreamWindows(windows(10, 45, 75)))
    assert (np.diff(found["rate"].value) > 0.1).all()
    assert (np.diff(found["accuracy"].value) < 0).all() and (np.diff(found["risk"].value) > 0).all()
    assert (found["rate"].low <= found["rate"].value).all() and (
        found["rate"].value <= found["rate"].high
    ).all()


def test_confidence_tells_an_accuracy_and_a_cost_and_no_rate(estimators):
    model = Cbpe.fit([0.5, 0.6, 0.9, 0.95], [False, True, True, True])
    values = np.tile([0.5, 0.9], (1, 50))
    with_model = Estimators(estimators.estimator, model)
    found = with_model.estimate("cbpe", StreamWindows(windows(50), confidences=values))
    assert found["accuracy"].value == pytest.approx(model.estimate(values))
    assert found["risk"].value == pytest.approx(100 * (1 - model.estimate(values)))
    assert np.isnan(found["rate"].value).all()


def test_confidence_knows_no_cost_where_interventions_cost(estimators):
    other = Estimators(
        Estimator(CALIBRATION, detector_tree(Costs(wrong=100, necessary=9, unnecessary=9))),
        Cbpe.fit([0.5, 0.9], [0, 1]),
    )
    found = other.estimate("cbpe", StreamWindows(windows(50), confidences=np.full((1, 100), 0.9)))
    assert np.isnan(found["risk"].value).all() and not np.isnan(found["accuracy"].value).any()


@pytest.mark.parametrize("name", ["event_tree", "mean", "rogan_gladen"])
def test_a_detector_that_says_nothing_of_shift_gives_no_number_and_the_reason(name):
    rows = verdict_rows(Detector(0.5, 0.5), 500, 500, rng=np.random.default_rng(4))
    flipped = np.where(
        rows.kind == "shifted", np.arange(len(rows.kind)) % 2, (np.arange(len(rows.kind)) + 1) % 2
    ).astype(float)
    calibration = fit_calibration({VERDICT: flipped}, rows.kind, rows.correct)
    estimators = Estimators(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.ones(50)}), minlength=calibration.cells)[
        None
    ]
    found = estimators.estimate(name, StreamWindows(counts))["rate"]
    assert np.isnan(found.value).all() and "do not separate" in (found.reason or "")


@pytest.mark.parametrize("tpr, tnr", [(0.5, 0.5), (0.3, 0.7), (0.48, 0.5)])
def test_verdicts_that_tell_shift_by_chance_alone_are_refused_though_a_best_cut_is_always_above_one(
    tpr, tnr
):
    rows = verdict_rows(Detector(tpr, tnr), 1000, 1000, rng=np.random.default_rng(6))
    calibration = fit_calibration(rows.columns, rows.kind, rows.correct)
    estimators = Estimators(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.ones(100)}), minlength=calibration.cells)[
        None
    ]
    assert estimators.parameters["tpr"] + estimators.parameters["tnr"] >= 1.0
    assert np.isnan(estimators.estimate("rogan_gladen", StreamWindows(counts))["rate"].value).all()


def test_alarms_that_no_rate_explains_are_marked(estimators):
    found = estimators.estimate("rogan_gladen", StreamWindows(windows(0, 45, 100)))
    assert found["rate"].outside.tolist() == [True, False, True]


def test_a_new_estimator_is_found_by_its_name_alone(estimators):
    @register("estimators", "half", reads="verdicts")
    def half(counts, calibrated, *, confidence: float = 0.95) -> Rates:
        """Half of the alarms."""
        share = counts[:, 1] / counts.sum(axis=1) / 2
        return Rates(share, share, share, confidence)

    try:
        assert estimators.estimate("half", StreamWindows(windows(10, 40)))[
            "rate"
        ].value.tolist() == pytest.approx([0.05, 0.2])
        spec = "stream: {detector: {tpr: 0.9, tnr: 0.9}, shift: {constant: 0.2}, events: 200}\nestimators: [half]\n"
        simulation = Simulation.parse(spec, "half.yaml")
        found = run_experiment(simulation.experiment, simulation.sources())
        assert set(found.cases[0].errors) == {"half"}
    finally:
        remove("estimators", "half")


def test_scores_in_one_bin_give_no_rate_and_no_error():
    calibration = fit_calibration({VERDICT: np.zeros(len(ROWS.kind))}, ROWS.kind, ROWS.correct)
    estimators = Estimators(Estimator(calibration, base_tree()))
    counts = np.bincount(calibration.place({VERDICT: np.zeros(50)}), minlength=calibration.cells)[
        None
    ]
    assert calibration.shift.bins == 1
    for name in ("rogan_gladen", "mean"):
        assert np.isnan(estimators.estimate(name, StreamWindows(counts))["accuracy"].value).all(), (
            name
        )


def test_a_constant_with_the_name_of_what_is_counted_is_refused():
    tree = detector_tree(Costs(wrong=1.0, necessary=0.1, unnecessary=0.3))
    with pytest.raises(ValueError, match=r"tpr, tnr are counted, .* cannot be a constant"):
        Estimators(Estimator(CALIBRATION, tree, constants={"tpr": 0.99, "tnr": 0.99}))


# confidence

rows_with_ties = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40)


@given(rows_with_ties)
def test_the_rising_fit_equals_scipys(pairs):
    x, right = np.array([c for c, _ in pairs]) / 20, np.array([r for _, r in pairs])
    values, code, weights = np.unique(x, return_inverse=True, return_counts=True)
    means = np.bincount(code, weights=right) / weights
    fitted = Cbpe.fit(x, right)
    assert fitted.knots == pytest.approx(values)
    assert fitted.levels == pytest.approx(isotonic_regression(means, weights=weights).x, abs=1e-9)
    assert float(fitted.estimate(x)) == pytest.approx(right.mean(), abs=1e-9)


def test_cases_without_a_confidence_are_left_out_and_rows_without_are_refused():
    fitted = Cbpe.fit([0.5, 1.0, 0.0], [True, True, False])
    assert float(fitted.estimate([1.0, np.nan])) == 1.0
    assert np.isnan(fitted.estimate([np.nan]))
    with pytest.raises(ValueError, match="finite confidence"):
        Cbpe.fit([0.5, np.nan], [True, False])
