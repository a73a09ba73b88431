"""What labels say about windows whose events fade out, and about labels whose probabilities cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from roadworthy.monitor import Bundle, Events, Monitor, Windows, audit
from roadworthy.monitor.labels import carried, difference
from roadworthy.monitor.windows import faded


@pytest.fixture(scope="module")
def fading(calibration) -> Bundle:
    from roadworthy.analysis.risk.prototypes import accuracy_tree

    return Bundle.compile(
        calibration, accuracy_tree(), subject="s", windows=Windows((100,), half_life=40.0)
    )


def test_a_window_that_fades_out_is_corrected_by_the_weights_it_is_read_with(fading):
    """Every event is labelled, so that the truth of the window is known: the weighted share of right answers."""
    rng = np.random.default_rng(1)
    n = 600
    shifted = np.arange(n) >= n - 80
    right = rng.random(n) < np.where(shifted, 0.4, 0.95)
    monitor = Monitor(fading)
    monitor.update(
        Events(np.arange(n), np.arange(float(n)), columns={"energy": rng.normal(1.8 * shifted)})
    )
    for i in range(n):
        monitor.label(i, bool(right[i]), 1.0)
    weights = 0.5 ** (np.arange(n)[::-1] / 40.0)
    truth = weights @ right / weights.sum()
    audited = monitor.risk("decay").audited
    assert abs(truth - right.mean()) > 0.2
    assert audited.accuracy == audited.accuracy_low == audited.accuracy_high == pytest.approx(truth)
    assert audited.risk == pytest.approx(1.0 - truth, abs=0.01)
    assert monitor.risk("100").audited.accuracy == pytest.approx(right[-100:].mean())


@pytest.mark.parametrize("share", [0.95, 0.6, "detected"])
def test_intervals_hold_what_the_windows_own_events_cost_though_some_have_no_label(
    calibration, share
):
    """Nothing is shifted, and the model is right about it: what is left is the chance of the answers that nobody has labelled."""
    from roadworthy.analysis.risk.prototypes import POLYP_COSTS, detector_tree

    bundle = Bundle.compile(
        calibration, detector_tree(POLYP_COSTS), subject="s", windows=Windows((200,))
    )
    rng, n, trials, inside = np.random.default_rng(4), 200, 60, np.zeros(2, dtype=int)
    for _ in range(trials):
        cells = bundle.calibration.place({"energy": rng.normal(size=n)})
        right, alarm = (
            rng.random(n) < 0.95,
            calibration.shift_bin(cells) >= bundle.estimator.separation.cut,
        )
        monitor = Monitor(bundle)
        monitor.update(Events(np.arange(n), np.arange(float(n)), cells=cells))
        labelled = alarm if share == "detected" else rng.random(n) < share
        monitor.label_all(
            [(int(i), bool(right[i]), 1.0, None, None) for i in np.flatnonzero(labelled)]
        )
        costs = POLYP_COSTS
        answered = np.where(right, costs.right, costs.wrong)
        cost = np.where(alarm, np.where(right, costs.unnecessary, costs.necessary), answered).mean()
        found = monitor.risk("200").audited
        inside += (
            found.accuracy_low <= right.mean() <= found.accuracy_high,
            found.risk_low <= cost <= found.risk_high,
        )
    assert all(binom.cdf(hits, trials, 0.95) > 0.01 for hits in inside), inside


def test_what_fully_labelled_events_cost_is_not_in_doubt(fading):
    monitor = Monitor(fading)
    right = np.arange(100) % 4 > 0
    monitor.update(Events(np.arange(100), np.arange(100.0), columns={"energy": np.zeros(100)}))
    monitor.label_all([(i, bool(right[i]), 1.0, None, None) for i in range(100)])
    found = monitor.risk("100").audited
    assert found.risk_low == found.risk == found.risk_high == pytest.approx(0.25)
    monitor = Monitor(fading)
    monitor.update(Events(np.arange(100), np.arange(100.0), columns={"energy": np.zeros(100)}))
    monitor.label_all([(i, bool(right[i]), 1.0, None, None) for i in range(100) if i % 10])
    found = monitor.risk("100").audited
    assert (
        found.risk_high - found.risk_low
        == pytest.approx(found.accuracy_high - found.accuracy_low, rel=0.05)
        != 0.0
    )


def test_weighted_labels_are_unbiased_and_their_intervals_hold():
    rng = np.random.default_rng(0)
    n, trials = 1000, 1500
    weights = faded(n, 150.0)
    expected = np.full(n, 0.9)
    right = rng.random(n) < np.linspace(0.95, 0.5, n)
    truth = weights @ right / weights.sum()
    probability = np.full(n, 0.15)
    values, inside = [], 0
    for _ in range(trials):
        at = np.flatnonzero(rng.random(n) < probability)
        found = difference(
            expected, at, right[at], probability[at], confidence=0.95, weights=weights
        )
        values.append(found.value)
        inside += found.low <= truth <= found.high
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(trials)
    assert binom.cdf(inside, trials, 0.95) > 0.01


def test_weights_that_are_all_alike_change_nothing():
    rng = np.random.default_rng(2)
    expected, at = rng.random(200), np.arange(0, 200, 7)
    right, probability = rng.random(len(at)) < 0.6, rng.uniform(0.1, 0.4, len(at))
    given = {"confidence": 0.95}
    plain = difference(expected, at, right, probability, **given)
    weighed = difference(expected, at, right, probability, **given, weights=np.full(200, 0.3))
    assert vars(weighed) == pytest.approx(vars(plain))
    residual, reached = rng.normal(size=30), rng.random(200) < 0.5
    few = np.full(30, 0.2)
    assert vars(
        carried(expected, reached, residual, few, **given, weights=np.full(200, 2.0))
    ) == pytest.approx(vars(carried(expected, reached, residual, few, **given)))


def test_earlier_labels_reach_a_fading_window_by_its_weights():
    weights, reached = faded(100, 10.0), np.arange(100) >= 90
    found = carried(
        np.where(reached, 0.9, 0.5),
        reached,
        np.full(20, -0.2),
        np.ones(20),
        confidence=0.95,
        weights=weights,
    )
    share = weights[90:].sum() / weights.sum()
    assert found.covered == pytest.approx(share) and found.value == pytest.approx(
        0.7 * share + 0.5 * (1 - share)
    )


def test_labels_that_stand_for_far_more_events_than_there_are_are_noted_and_taken_as_drawn_more_often(
    bundle,
):
    monitor = Monitor(bundle)
    rng = np.random.default_rng(3)
    monitor.update(
        Events(np.arange(200), np.arange(200.0), columns={"energy": rng.normal(size=200)})
    )
    right = rng.random(200) < 0.7
    for i in range(200):
        monitor.label(i, bool(right[i]), 0.1)
    risk = monitor.risk(200)
    audited = risk.audited
    assert 0.0 <= audited.accuracy_low <= audited.accuracy <= audited.accuracy_high <= 1.0
    assert audited.accuracy == pytest.approx(right.mean()) and audited.overstated == pytest.approx(
        10.0
    )
    said = "by the probabilities given, the labels stand for 10.0 times as many events as there are"
    assert any(note.startswith(said) for note in risk.notes)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_interval_lies_between_none_and_all_and_around_its_value(bundle, share):
    monitor = Monitor(bundle)
    monitor.update(Events(np.arange(200), np.arange(200.0), columns={"energy": np.zeros(200)}))
    for i in range(0, 200, 13):
        monitor.label(i, bool(share), 0.05)
    audited = monitor.risk(200).audited
    assert 0.0 <= audited.accuracy_low <= audited.accuracy <= audited.accuracy_high <= 1.0
    assert audited.risk_low <= audited.risk <= audited.risk_high


def test_labels_drawn_as_stated_are_hardly_ever_called_overstated():
    rng = np.random.default_rng(4)
    called = 0
    for _ in range(2000):
        at = np.flatnonzero(rng.random(300) < 0.1)
        found = difference(
            np.full(300, 0.9),
            at,
            np.ones(len(at), dtype=bool),
            np.full(len(at), 0.1),
            confidence=0.95,
        )
        called += found.overstated > 1.0
    assert called <= 2


@pytest.mark.parametrize(
    ("labelled", "lag", "wrong"), [(1.0, 100, 0.4), (1.0, 180, 0.05), (0.3, 150, 0.2)]
)
def test_where_labels_come_late_intervals_hold_what_the_whole_window_is(labelled, lag, wrong):
    """The last events of the window have no labels yet, and the model is blind to what goes wrong."""
    rng, held, tries, n = np.random.default_rng([lag, 1]), 0, 400, 300
    expected, weights = np.full(n, 0.95), np.ones(n)
    for _ in range(tries):
        right = rng.random(n) >= wrong
        at = np.flatnonzero((rng.random(n) < labelled) & (np.arange(n) < n - lag))
        upto = audit._labelled_upto(at, n)
        assert n - lag - 40 < upto < n
        own = difference(
            expected[:upto],
            at,
            right[at],
            np.full(len(at), labelled),
            confidence=0.95,
            weights=weights[:upto],
        )
        found = audit._on_to(own, expected, upto, right[at], weights, np.ones(n - upto), 0.95)
        held += found.low <= right.mean() <= found.high
    assert binomtest(held, tries, 0.95, alternative="less").pvalue > 0.01


def test_a_window_that_is_labelled_here_and_there_to_its_end_is_no_late_one():
    rng = np.random.default_rng(0)
    late = [
        audit._labelled_upto(np.sort(rng.choice(1000, 60, replace=False)), 1000) < 1000
        for _ in range(500)
    ]
    assert np.mean(late) < 0.02


def test_labels_speak_for_what_came_after_them_only_as_far_as_it_is_like_them(watchful):
    """Drawn and given while all was clean; then comes a shift, of which they know nothing."""
    rng, monitor = np.random.default_rng(4), Monitor(watchful)
    right = np.concatenate([rng.random(300) < 0.95, rng.random(150) < 0.2])
    scores = np.concatenate([rng.normal(size=300), rng.normal(2.5, size=150)])
    monitor.update(Events(np.arange(300), np.arange(300.0), columns={"energy": scores[:300]}))
    for question in monitor.queue(80, 300):
        monitor.label(question.id, bool(right[question.id]), look=False)
    known = monitor.risk(300).audited
    assert known.covered > 0.9 and known.accuracy_low <= right[:300].mean() <= known.accuracy_high
    numbers = np.arange(300, 450)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": scores[300:]}))
    for window, most in ((300, 0.75), (100, 0.5)):
        found = monitor.risk(window)
        assert found.audited.covered < most
        width = found.audited.accuracy_high - found.audited.accuracy_low
        assert width > 0.6 * (found.accuracy_high - found.accuracy_low)


@pytest.mark.parametrize("right", [0.8, 0.95])
def test_intervals_of_earlier_labels_hold_the_answers_of_the_window_itself(watchful, right):
    rng, held = np.random.default_rng(int(100 * right)), 0
    for _ in range(60):
        monitor, numbers = Monitor(watchful), np.arange(500)
        truth = rng.random(500) < right
        monitor.update(
            Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=500)})
        )
        for i in numbers[:400].tolist():
            monitor.label(i, bool(truth[i]), look=False)
        found = monitor.risk(100).audited
        assert found.carried
        held += found.accuracy_low - 1e-9 <= truth[400:].mean() <= found.accuracy_high + 1e-9
    assert held >= 53
