"""Windows whose answers look unlike what their shift scores lead one to expect."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk import misfit, unlike
from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.misfit import BEYOND, Looks
from roadworthy.analysis.risk.prototypes import Costs, accuracy_tree, detector_tree
from roadworthy.analysis.risk.sums import Window

ROWS = 1500


def answered(rng: np.random.Generator, unsure: np.ndarray) -> np.ndarray:
    """Whether answers are right: the less sure, the less often."""
    return rng.random(len(unsure)) < 1 / (1 + np.exp(2.5 * unsure - 2.5))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    """Fog is told by its blur; how sure the answers are tells which are right."""
    rng = np.random.default_rng(3)
    unsure = np.concatenate([rng.normal(size=ROWS), rng.normal(0.7, size=ROWS)])
    blur = np.concatenate([rng.normal(size=ROWS), rng.normal(4.0, size=ROWS)])
    kind = np.repeat(["clean", "fog"], ROWS)
    return calibrate({"unsure": unsure, "blur": blur}, kind, answered(rng, unsure))


def stream(
    calibration: Calibration,
    rng: np.random.Generator,
    *,
    unsure: float,
    blur: float = 0.0,
    n: int = 100,
    windows: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
    """Windows of events that are so unsure and so blurred on average, and their true accuracy."""
    doubt = rng.normal(unsure, size=windows * n)
    cells = calibration.place({"unsure": doubt, "blur": rng.normal(blur, size=windows * n)})
    counts = [np.bincount(part, minlength=calibration.cells) for part in cells.reshape(windows, n)]
    return np.stack(counts), answered(rng, doubt).reshape(windows, n).mean(axis=1)


def looked(calibration: Calibration, counts: np.ndarray, rate: float) -> np.ndarray:
    window = Window(calibration, counts.astype(float), np.zeros(calibration.cells))
    return Looks.of(calibration).excess(window, np.full(len(counts), rate), np.ones(len(counts)))


def test_windows_of_what_was_calibrated_look_as_expected(calibration: Calibration) -> None:
    rng = np.random.default_rng(0)
    clean, _ = stream(calibration, rng, unsure=0.0)
    fog, _ = stream(calibration, rng, unsure=0.7, blur=4.0)
    odd, _ = stream(calibration, rng, unsure=2.0)
    by_chance = [
        np.abs(looked(calibration, counts, rate)).mean()
        for counts, rate in ((clean, 0.0), (fog, 1.0))
    ]
    assert max(by_chance) < 0.005 < 0.15 < np.abs(looked(calibration, odd, 0.0)).mean()


def test_the_excess_is_that_of_a_loop_over_events(calibration: Calibration) -> None:
    counts, _ = stream(calibration, np.random.default_rng(1), unsure=1.0, windows=3)
    rate, table = 0.2, calibration.folded(calibration.table).astype(float).sum(axis=5)
    shift_rows = table.sum(axis=(1, 3, 4)) + 0.1
    shares = shift_rows / shift_rows.sum(axis=1, keepdims=True)
    expected = []
    for window in calibration.folded(counts).sum(axis=4):
        best = 0.0, BEYOND**2
        for axis in (0, 1):
            rows = table.sum(axis=4 - axis)  # kinds, right or wrong, shift, look
            seen = window.sum(axis=2 - axis)
            per_kind = rows.sum(axis=2) / rows.sum(axis=(1, 2, 3))[:, None, None] / 2
            accuracy = (per_kind[:, 0].sum(axis=0) + 0.01) / (per_kind.sum(axis=(0, 1)) + 0.02)
            total = variance = 0.0
            for s in range(seen.shape[0]):
                p_clean = (
                    (1 - rate) * shares[0, s] / ((1 - rate) * shares[0, s] + rate * shares[1, s])
                )
                looks = []
                for kind in (0, 1):
                    here = rows[kind, :, s].sum(axis=0)
                    own = rows[kind].sum(axis=(0, 1)) / rows[kind].sum()
                    looks.append((here + own) / (here.sum() + 1))
                mixed = p_clean * looks[0] + (1 - p_clean) * looks[1]
                for b, count in enumerate(seen[s]):
                    total += count * (accuracy[b] - mixed @ accuracy)
                variance += seen[s].sum() * (mixed @ accuracy**2 - (mixed @ accuracy) ** 2)
            n = seen.sum()
            variance *= 1 + n * (0.8**2 / ROWS + 0.2**2 / ROWS)
            squared = total**2 / variance
            if squared > best[1]:
                best = total / n * (1 - BEYOND**2 / squared), squared
        expected.append(best[0])
    assert looked(calibration, counts, rate) == pytest.approx(expected, rel=1e-9)
    assert all(e < -0.05 for e in expected)


def test_a_kind_that_looks_clean_but_unsure_is_covered_and_told_better(
    calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        unlike, "TELLING", (2.0, 3.0)
    )  # confidence, which would help too, is not asked
    counts, truth = stream(calibration, np.random.default_rng(2), unsure=2.0)
    told = Estimator(calibration, accuracy_tree()).estimate(counts)
    monkeypatch.setattr(misfit, "BELIEVED", 0.0)
    monkeypatch.setattr(misfit, "DOUBTED", 0.0)
    trusting = Estimator(calibration, accuracy_tree()).estimate(counts)
    covered = [
        ((e.accuracy_low <= truth) & (truth <= e.accuracy_high)).mean() for e in (told, trusting)
    ]
    error = [np.abs(e.accuracy - truth).mean() for e in (told, trusting)]
    assert covered[0] > 0.88 > covered[1]
    assert error[0] < 0.8 * error[1]


def test_windows_that_fit_are_told_as_without_any_doubt(
    calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, _ = stream(calibration, np.random.default_rng(4), unsure=0.0, windows=40)
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3)
    told, odds = estimator.estimate(counts), estimator.odds(counts).above
    fits = looked(calibration, counts, 0.0) == 0
    monkeypatch.setattr(misfit, "BELIEVED", 0.0)
    monkeypatch.setattr(misfit, "DOUBTED", 0.0)
    plain = estimator.estimate(counts)
    fits &= told.accuracy == plain.accuracy
    assert fits.mean() > 0.85
    assert told.risk_high[fits] == pytest.approx(plain.risk_high[fits], abs=1e-12)
    assert odds[fits] == pytest.approx(estimator.odds(counts).above[fits], abs=1e-9)


def test_the_alarm_watches_what_the_estimate_says_of_an_odd_window(
    calibration: Calibration,
) -> None:
    counts, _ = stream(calibration, np.random.default_rng(5), unsure=1.2, windows=30)
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.35)
    assert estimator.odds(counts).above == pytest.approx(
        estimator.estimate(counts).log_odds, abs=1e-6
    )


def test_a_doubt_does_not_silence_the_alarm(
    calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worse a window looks, the more likely it is above what is tolerable."""
    rng = np.random.default_rng(6)
    looks = {
        unsure: stream(calibration, rng, unsure=unsure, windows=20)[0]
        for unsure in (-1.5, 0.0, 0.7, 1.4, 2.1)
    }
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.25)
    told = {unsure: estimator.odds(counts).above for unsure, counts in looks.items()}
    monkeypatch.setattr(misfit, "BELIEVED", 1e-12)
    monkeypatch.setattr(misfit, "DOUBTED", 0.0)
    trusting = {unsure: estimator.odds(counts).above for unsure, counts in looks.items()}
    for unsure in (0.7, 1.4, 2.1):
        assert (told[unsure] >= trusting[unsure] - 1e-9).all()
    assert (told[-1.5] < 0.0).all()
    medians = [float(np.median(told[unsure])) for unsure in (0.0, 0.7, 1.4, 2.1)]
    assert medians == sorted(medians) and medians[-1] > 3.0


def test_the_detectors_tree_takes_the_same_swing(calibration: Calibration) -> None:
    counts, _ = stream(calibration, np.random.default_rng(7), unsure=1.5, windows=10)
    costs = Costs(right=0.0, wrong=1.0, necessary=1.0, unnecessary=0.0)
    plain, detector = (
        Estimator(calibration, tree).estimate(counts)
        for tree in (accuracy_tree(), detector_tree(costs))
    )
    assert detector.risk == pytest.approx(1.0 - detector.accuracy, abs=1e-4)
    assert detector.risk == pytest.approx(
        plain.risk, abs=0.003
    )  # where alarms are told apart, other draws of answers
    assert detector.risk_high == pytest.approx(plain.risk_high, abs=0.003)


def test_an_interval_and_the_odds_of_a_window_that_looks_worse_agree(
    calibration: Calibration,
) -> None:
    for unsure in (-1.5, 0.7, 1.4, 2.1):
        counts, _ = stream(calibration, np.random.default_rng(8), unsure=unsure, windows=20)
        for tolerable in (0.1, 0.2, 0.4):
            told = Estimator(calibration, accuracy_tree(), tolerable=tolerable).estimate(counts)
            assert (told.exceedance[told.risk_low > tolerable + 0.003] >= 0.97).all()
            assert (told.exceedance[told.risk_high < tolerable - 0.003] <= 0.03).all()


def test_an_odd_window_is_told_the_same_beside_others(calibration: Calibration) -> None:
    rng = np.random.default_rng(9)
    parts = [
        stream(calibration, rng, unsure=u, blur=b, n=n, windows=2)[0]
        for u, b, n in ((0, 0, 50), (1.5, 0, 400), (0.7, 4.0, 2000))
    ]
    together = np.concatenate(parts)
    estimator = Estimator(calibration, accuracy_tree(), tolerable=0.3)
    whole = estimator.estimate(together)
    for i, counts in enumerate(together):
        alone = estimator.estimate(counts)
        for name in (
            "rate_low",
            "rate_high",
            "accuracy_low",
            "accuracy_high",
            "risk_low",
            "risk_high",
            "exceedance",
        ):
            assert getattr(whole, name)[i] == pytest.approx(getattr(alone, name)[0], abs=1e-9), (
                i,
                name,
            )
