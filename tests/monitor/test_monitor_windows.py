"""Windows are readings of the last events: the last so many, fading ones, all since a change; and how alike events are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roadworthy.analysis.risk.tree import expectation
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.bundle import RatePrior
from roadworthy.monitor.windows import CellScores, adapted, sliding

EXPECTED = RatePrior(0.05, 20.0)


@pytest.mark.parametrize("half_life", [1.0, 20.0, 333.0])
def test_the_effective_number_of_fading_events_is_that_of_the_formula(half_life):
    cells = np.random.default_rng(0).integers(0, 3, 20_000).astype(np.int16)
    length = int(np.ceil(20 * half_life))
    found = sliding(cells, length, size=3, half_life=half_life)
    r = 0.5 ** (1 / half_life)
    assert found.effective == pytest.approx((1 + r) / (1 - r), rel=1e-5), "(sum r^k)^2 / sum r^2k"
    weights = r ** np.arange(len(cells))[::-1]
    shares = np.bincount(cells, weights, minlength=3) / weights.sum()
    assert found.counts / found.effective == pytest.approx(shares, rel=1e-5)


def test_a_window_takes_the_last_events_and_leaves_out_those_without_a_score():
    cells = np.array([0, 0, 1, -1, 2, 1], dtype=np.int16)
    found = sliding(cells, 4, size=3)
    assert found.counts.tolist() == [0, 2, 1] and (found.n, found.unscored, found.first) == (
        3,
        1,
        4,
    )
    assert sliding(cells, 100, size=3).first == 6


def test_the_adaptive_window_starts_at_the_last_change(calibration, scores_at):
    group = CellScores.of(calibration).group
    steady = calibration.place({"energy": scores_at(1000, 0.0)})
    assert adapted(steady, group).first == 1000
    after = calibration.place({"energy": scores_at(300, 0.5)})
    found = adapted(np.concatenate([steady, after]), group)
    assert 200 <= found.first <= 400
    # Repeated frames look like changes unless it is known that several say as much as one.
    repeated = np.repeat(steady[:100], 10)
    assert adapted(repeated, group, shrink=0.1).first == 1000


def test_before_a_window_is_full_the_prior_speaks_and_the_state_says_so(bundle, scores_at):
    monitor = Monitor(bundle)
    nothing = monitor.risk(200)
    assert nothing.n == 0 and nothing.start is None and np.isnan(nothing.rate)
    assert nothing.no_estimate is not None
    assert nothing.notes[0].code == "partial"
    monitor.update(Events(None, None, columns={"energy": scores_at(5, 0.0)}))
    some = monitor.risk(200)
    monitor.update(Events(None, None, columns={"energy": scores_at(400, 0.0)}))
    full = monitor.risk(200)
    assert some.notes[0].code == "partial" and some.notes[0].startswith("5 of 200 events")
    assert not full.notes and full.n == 200
    assert max(full.rate, some.rate) < 0.5
    assert full.rate_high - full.rate_low < some.rate_high - some.rate_low


def test_several_windows_stand_side_by_side(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(Events(None, None, columns={"energy": scores_at(3000, 0.0)}))
    monitor.update(Events(None, None, columns={"energy": scores_at(100, 0.6)}))
    rates = {name: monitor.risk(name).rate for name in watchful.windows.names}
    assert set(rates) == {"100", "300", "decay", "adaptive"}
    assert rates["100"] > rates["300"]
    assert rates["adaptive"] > 0.4
    assert monitor.risk().window == str(watchful.alarm.window)
    with pytest.raises(ValueError, match="17"):
        monitor.risk(17)


def test_the_past_is_read_from_the_buckets(bundle):
    monitor = Monitor(bundle)
    n = 30_000
    rates = np.where(np.arange(n) < 6000, 0.0, 0.8)
    rng = np.random.default_rng(0)
    scores = rng.normal(1.8124 * (rng.random(n) < rates))
    monitor.update(Events(None, np.arange(n, dtype=float), columns={"energy": scores}))
    past = monitor.history(1800.0)
    assert sum(one.n for one in past) == n
    assert past[0].rate < 0.15 < 0.6 < past[-1].rate
    assert [one.start for one in past] == sorted(one.start for one in past)


def test_windows_are_refused_that_cannot_be_read():
    for wrong in (
        {"lengths": ()},
        {"lengths": (1,)},
        {"lengths": (10, 10)},
        {"half_life": 0.5},
        {"half_life": np.inf},
    ):
        with pytest.raises(ValueError, match=r"Windows are|half-life"):
            Windows(**wrong)


@pytest.fixture(scope="module")
def believing(bundle) -> Bundle:
    return replace(
        bundle,
        prior=EXPECTED,
        windows=Windows((50, 200), half_life=40.0, adaptive=True),
    )


def told(bundle: Bundle, scores: np.ndarray, window: str = "200"):
    monitor = Monitor(bundle)
    if len(scores):
        monitor.update(Events(None, None, columns={"energy": scores}))
    return monitor.risk(window)


def test_before_any_event_the_rate_is_that_of_the_prior(believing):
    nothing = believing.estimator.estimate(np.zeros((1, believing.calibration.cells)), filled=[0.0])
    assert nothing.rate[0] == pytest.approx(EXPECTED.rate, abs=0.002)
    expected, _, _ = believing.estimator.forecast(EXPECTED.rate)
    assert nothing.risk[0] == pytest.approx(expected, abs=0.01)
    # Of Beta(1, 19), whose distribution function is 1 - (1 - x)^19.
    assert nothing.rate_high[0] == pytest.approx(1.0 - 0.025 ** (1.0 / 19.0), abs=0.01)


def test_a_full_window_says_what_it_would_without_a_prior(believing, bundle, scores_at):
    for rate in (0.0, 0.3):
        scores = scores_at(200, rate)
        assert told(believing, scores).rate == told(bundle, scores).rate
    fading = [
        told(b, scores_at(800, 0.3), "decay").rate
        for b in (believing, replace(believing, prior=None))
    ]
    assert fading[0] == pytest.approx(fading[1], abs=1e-9)


def test_the_fuller_a_window_the_less_the_prior_says(believing, bundle, scores_at):
    """Of events that are all shifted: drawn towards what was expected, by less and less."""
    scores = scores_at(200, 1.0)
    drawn = [
        told(bundle, scores[:n]).rate - told(believing, scores[:n]).rate for n in (10, 40, 120, 200)
    ]
    assert drawn[0] > drawn[1] > 0.1 and abs(drawn[2]) < 0.05 and drawn[3] == 0.0


def test_after_a_change_nothing_is_believed_from_before(believing, scores_at):
    scores = np.concatenate([scores_at(400, 0.0), scores_at(30, 1.0)])
    plain = replace(believing, prior=None)
    assert told(believing, scores, "adaptive").n < 100
    assert told(believing, scores, "adaptive").rate == told(plain, scores, "adaptive").rate


def test_the_event_tree_costs_what_a_window_does_while_it_fills(believing, scores_at):
    monitor = Monitor(believing)
    monitor.update(Events(None, None, columns={"energy": scores_at(20, 0.0)}))
    for window in ("50", "200", "decay", "adaptive"):
        found = expectation(believing.tree, monitor.tree_parameters(window))
        assert found == pytest.approx(monitor.risk(window).risk, rel=1e-6), window


def test_a_bundle_keeps_what_is_believed_and_is_another_by_it(believing, tmp_path):
    from roadworthy.monitor.bundle import expected_state

    made = replace(believing, self_test=expected_state(believing))
    made.save(tmp_path / "b.json")
    assert Bundle.load(tmp_path / "b.json").prior == pytest.approx(EXPECTED)
    assert replace(believing, prior=None).prior is None
    assert replace(believing, prior=None).id != believing.id


@pytest.mark.parametrize(
    "wrong", [(0.0, 20.0), (1.0, 20.0), (0.1, 0.0), (0.1, np.inf), (np.nan, 3.0)]
)
def test_what_nobody_can_believe_is_refused(believing, wrong):
    with pytest.raises(ValueError, match="lies above 0 and below 1"):
        replace(believing, prior=RatePrior(*wrong))


def test_a_monitor_scales_its_window_by_what_it_found(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": np.repeat(scores_at(2000, 0.1), 10)}))
    plain = Monitor(bundle)
    plain.update(Events(None, None, columns={"energy": scores_at(20_000, 0.1)}))
    assert 9.0 < monitor.autocorrelation_time < 14.0 and plain.autocorrelation_time < 1.1
    assert monitor.risk().effective_n == pytest.approx(50 / monitor.autocorrelation_time)
    assert "alike" in {note.code for note in monitor.risk().notes}
    found = monitor.risk(200)
    counts = np.bincount(monitor.state.recent.cell[-200:], minlength=bundle.calibration.cells)
    alone = bundle.estimator.estimate(counts)
    assert found.rate_high - found.rate_low > 1.2 * (alone.rate_high - alone.rate_low)[0]
