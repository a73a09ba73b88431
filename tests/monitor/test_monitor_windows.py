"""Windows are readings of the last events: the last so many, fading ones, all since a change."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.monitor import Events, Monitor, Windows
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.windows import adapted, decayed, sliding


@pytest.mark.parametrize("half_life", [1.0, 20.0, 333.0])
def test_the_effective_number_of_fading_events_is_that_of_the_formula(half_life):
    cells = np.random.default_rng(0).integers(0, 3, 20_000).astype(np.int16)
    found = decayed(cells, half_life, size=3)
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
    assert nothing.n == 0 and nothing.start is None and nothing.rate == pytest.approx(0.5, abs=0.05)
    assert (
        nothing.notes[0]
        == "0 of 200 events so far: the fewer, the more the figures are a guess from before"
    )
    monitor.update(Events(None, None, columns={"energy": scores_at(5, 0.0)}))
    some = monitor.risk(200)
    monitor.update(Events(None, None, columns={"energy": scores_at(400, 0.0)}))
    full = monitor.risk(200)
    assert (
        some.notes[0]
        == "5 of 200 events so far: the fewer, the more the figures are a guess from before"
    )
    assert not full.notes and full.n == 200
    assert max(full.rate, some.rate) < nothing.rate
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
    with pytest.raises(
        ValueError, match=r"no window 17; this bundle has 100, 300, decay, adaptive"
    ):
        monitor.risk(17)


def test_the_past_is_read_from_the_last_events_and_before_from_the_buckets(bundle, scores_at):
    monitor = Monitor(bundle)
    n = 30_000
    rates = np.where(np.arange(n) < 6000, 0.0, 0.8)
    rng = np.random.default_rng(0)
    scores = rng.normal(1.8124 * (rng.random(n) < rates))
    monitor.update(Events(None, np.arange(n, dtype=float), columns={"energy": scores}))
    assert (
        monitor.risk(200, at=29_000.0).end == 29_000.0 and monitor.risk(200, at=29_000.0).rate > 0.6
    )
    early = monitor.risk(at=130.0)
    assert early.window == "time" and early.start <= 130.0 < early.end and early.rate < 0.3
    with pytest.raises(ValueError, match="no events were counted around -50"):
        monitor.risk(at=-50.0)
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
        with pytest.raises(ValueError, match=r"windows are|half-life"):
            Windows(**wrong)
    assert Windows.from_dict(Windows((5, 7), 3.5, True).to_dict()) == Windows((5, 7), 3.5, True)
