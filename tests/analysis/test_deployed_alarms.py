"""Where an event tree asks what an alarm does, the alarms are those of the supervisor at work, at its own threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.placement import Deployed
from roadworthy.analysis.risk.prototypes import POLYP_COSTS, TOLERABLE_POLYP, detector_tree
from roadworthy.analysis.risk.refusal import alarmed_cells, shares_of_kinds

ROWS = 3000


def chance_of_right(doubt: np.ndarray, knn: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(1.5 * doubt + 0.3 * knn - 2.2))


def drawn(shifted: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    doubt, knn = rng.normal(1.2 * shifted), rng.normal(1.8 * shifted)
    return {"doubt": doubt, "knn": knn}


def learned(alarms: Deployed | None, rng: np.random.Generator, **options) -> Calibration:
    shifted = np.repeat([False, True], ROWS // 2)
    scores = drawn(shifted, rng)
    right = rng.random(ROWS) < chance_of_right(**scores)
    return fit_calibration(
        scores, np.where(shifted, "fog", "clean"), right, deployed=alarms, **options
    )


@pytest.mark.parametrize("threshold", [0.5, 1.6])
def test_a_stream_is_priced_by_the_alarms_that_are_raised_in_it(threshold):
    rng = np.random.default_rng(1)
    alarms = Deployed("doubt", threshold)
    estimator = Estimator(
        learned(alarms, rng), detector_tree(POLYP_COSTS), tolerable=TOLERABLE_POLYP
    )
    other = Estimator(learned(None, rng), detector_tree(POLYP_COSTS), tolerable=TOLERABLE_POLYP)
    held, off, off_by_others = [], [], []
    for rate in np.repeat([0.0, 0.1, 0.3, 0.6, 1.0], 8):
        scores = drawn(rng.random(500) < rate, rng)
        right, raised = chance_of_right(**scores), scores["doubt"] > threshold
        told = np.where(raised, POLYP_COSTS.unnecessary, POLYP_COSTS.right) * right
        told = told + np.where(raised, POLYP_COSTS.necessary, POLYP_COSTS.wrong) * (1.0 - right)
        found, by_others = (
            e.estimate(np.bincount(e.calibration.place(scores), minlength=e.calibration.cells))
            for e in (estimator, other)
        )
        held.append(found.risk_low[0] <= told.mean() <= found.risk_high[0])
        off.append(abs(found.risk[0] - told.mean()))
        off_by_others.append(abs(by_others.risk[0] - told.mean()))
    assert np.mean(held) >= 0.88  # 95% of 40, less three standard errors
    assert np.mean(off) < 60.0 < 100.0 < np.mean(off_by_others)


@given(
    st.lists(
        st.tuples(st.floats(-4, 4) | st.just(np.nan), st.floats(-4, 4) | st.just(np.nan)),
        min_size=1,
        max_size=20,
    )
)
def test_one_event_and_many_are_placed_alike_by_their_verdict(pairs):
    calibration = SMALL
    scores = {
        name: np.array(column)
        for name, column in zip(calibration.names, zip(*pairs, strict=True), strict=True)
    }
    cells = calibration.place(scores)
    for cell, (doubt, knn) in zip(cells.tolist(), pairs, strict=True):
        assert calibration.place_one({"doubt": doubt, "knn": knn}) == cell
        if cell >= 0:
            assert bool(alarmed_cells(calibration)[cell]) == (not doubt <= 0.7)


SMALL = learned(Deployed("doubt", 0.7, "conformal"), np.random.default_rng(2))


def test_rows_with_and_without_an_alarm_are_counted_apart():
    rng = np.random.default_rng(3)
    shifted = np.repeat([False, True], ROWS // 2)
    scores = drawn(shifted, rng)
    right = rng.random(ROWS) < 0.8
    found = fit_calibration(
        scores, np.where(shifted, "fog", "clean"), right, deployed=Deployed("knn", 1.0)
    )
    raised = scores["knn"] > 1.0
    expected = [
        [[np.sum(of & (right == r) & (raised == a)) for a in (0, 1)] for r in (1, 0)]
        for of in (~shifted, shifted)
    ]
    rows = np.array(expected)
    assert shares_of_kinds(found) == pytest.approx(rows / rows.sum(axis=(1, 2), keepdims=True))


def test_without_a_supervisor_at_work_the_alarm_is_that_of_the_shift_score():
    found = learned(None, np.random.default_rng(4))
    cut = Estimator(found, detector_tree(POLYP_COSTS)).separation.cut
    assert (
        alarmed_cells(found).tolist() == (found.shift_bin(np.arange(found.cells)) >= cut).tolist()
    )


def test_a_calibration_with_a_supervisor_at_work_is_kept_whole():
    again = Calibration.from_dict(SMALL.to_dict())
    assert again.to_dict() == SMALL.to_dict()
    assert again.deployed == Deployed("doubt", 0.7, "conformal")
    assert "deployed" not in learned(None, np.random.default_rng(2)).to_dict()


def test_scores_that_stand_aside_raise_alarms_and_teach_nothing():
    rng = np.random.default_rng(5)
    shifted = np.repeat([False, True], ROWS // 2)
    scores, kind = drawn(shifted, rng), np.where(shifted, "fog", "clean")
    right = rng.random(ROWS) < 0.8
    both = {**scores, "fused": scores["doubt"] + scores["knn"]}
    alone = fit_calibration(scores, kind, right)
    beside = fit_calibration(both, kind, right, deployed=Deployed("fused", 2.0), aside=["fused"])
    assert beside.names == ("doubt", "fused", "knn")
    assert beside.shift.edges == pytest.approx(alone.shift.edges, abs=1e-9)
    assert (beside.shift_bin(beside.place(both)) == alone.shift_bin(alone.place(scores))).all()
    assert (alarmed_cells(beside)[beside.place(both)] == (both["fused"] > 2.0)).all()


def test_alarms_of_a_score_that_is_not_read_are_refused():
    with pytest.raises(ValueError, match="alarms of energy"):
        learned(Deployed("energy", 1.0), np.random.default_rng(6))


@pytest.mark.parametrize(
    "alarms", [Deployed("dark", 1.645), Deployed("unsure", 1.0)], ids=["dark", "unsure"]
)
def test_a_kind_that_looks_like_none_is_told_by_how_sure_its_answers_are_whatever_raises_alarms(
    alarms,
):
    """An event with an alarm is not surer than one without: the bins of being right stand twice, each time in their order."""
    rng = np.random.default_rng(0)

    def night(n: int, sure: float, harder: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
        s = rng.normal(sure, 1.0, n)
        return {"unsure": -s, "dark": rng.normal(3.0, 1.0, n)}, rng.random(n) < 1.0 / (
            1.0 + np.exp(harder - 4.0 * s)
        )

    def clean(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        s = rng.normal(size=n)
        return {"unsure": -s, "dark": rng.normal(size=n)}, rng.random(n) < 1.0 / (
            1.0 + np.exp(-3.0 - 4.0 * s)
        )

    (day, day_right), (dark, dark_right) = clean(3000), night(3000, 0.0, 3.0)
    columns = {name: np.concatenate([day[name], dark[name]]) for name in day}
    kind, right = np.repeat(["clean", "night"], 3000), np.concatenate([day_right, dark_right])
    for sure in (-2.5, 1.5):
        scores, answers = night(1000, sure, -3.0)
        found = []
        for deployed in (None, alarms):
            calibration = fit_calibration(columns, kind, right, deployed=deployed)
            counts = np.bincount(calibration.place(scores), minlength=calibration.cells)
            found.append(
                Estimator(calibration, detector_tree(POLYP_COSTS)).estimate(counts).accuracy[0]
            )
        assert found == pytest.approx([answers.mean()] * 2, abs=0.15)
