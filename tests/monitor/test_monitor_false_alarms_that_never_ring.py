"""Alarms that not even nothing but shift rings: the note says whether clean data look like shift, or shift costs too little."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.rule_notes import rule_notes

pytestmark = pytest.mark.usefixtures("quick_alarms")

NEVER = "no shift rings, however much it is: "


def scores_of(
    kinds: dict[str, tuple[float, float]],
    *,
    clean: float = 0.95,
    rows: int = 400,
    differ: float = 0.0,
) -> Calibration:
    """By kind, how far its scores lie from clean ones and how often it is right; 40 groups that differ so much."""
    rng = np.random.default_rng(0)
    names = np.repeat(["clean", *kinds], rows)
    apart, right = (
        np.repeat(values, rows) for values in np.transpose([(0.0, clean), *kinds.values()])
    )
    group = np.tile(np.arange(rows) * 40 // rows, len(kinds) + 1)
    lean = rng.normal(0.0, differ, 40)[group] if differ else 0.0
    scores = {"energy": rng.normal(apart + lean)}
    return calibrate(
        scores, names, rng.random(len(names)) < right, groups=group if differ else None
    )


def compiled(calibration: Calibration, tolerable: float, group_events: int | None = None) -> Bundle:
    return Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="s",
        tolerable=tolerable,
        windows=Windows((100,)),
        group_events=group_events,
    )


def why(bundle: Bundle) -> list[str]:
    assert bundle.alarm is not None
    return [note.removeprefix(NEVER) for note in bundle.alarm.notes if note.startswith(NEVER)]


@pytest.fixture(scope="module")
def at_the_limit(quick_alarms) -> Bundle:
    """Kinds that lie two deviations and more from clean, and half of which are right: as much is tolerable."""
    return compiled(scores_of({"fog": (2.0, 0.5), "rain": (2.5, 0.5)}), 0.5)


def test_shift_that_is_told_well_and_is_tolerable_is_not_said_to_look_like_clean_data(at_the_limit):
    rule, estimator = at_the_limit.alarm, at_the_limit.watch
    windows = np.random.default_rng(1).normal(2.5, size=(40, 100))
    cells = [at_the_limit.calibration.place({"energy": window}) for window in windows]
    odds = estimator.odds(
        [np.bincount(cell, minlength=at_the_limit.calibration.cells) for cell in cells]
    )
    assert (
        rule is not None
        and (odds.evidence > rule.burden + 100.0).all()
        and np.median(odds.above) < 0.0
    )
    (said,) = why(at_the_limit)
    expected = estimator.forecast(1.0)[0]
    how = "within" if expected <= 0.5 else "hardly above"
    assert said == (
        f"even a stream of nothing but shift is expected to cost {expected:.3f}, {how} the tolerable 0.500; choose a lower one"
    )


def test_a_lower_one_rings_as_advised():
    bundle = compiled(scores_of({"fog": (2.0, 0.5), "rain": (2.5, 0.5)}), 0.4)
    monitor = Monitor(bundle)
    monitor.update(
        Events(None, None, columns={"energy": np.random.default_rng(2).normal(2.5, size=500)})
    )
    assert why(bundle) == [] and monitor.alarms[0].kind == "raised"


def test_shift_that_costs_no_more_than_clean_data_is_said_to():
    calibration = scores_of({"fog": (2.0, 1.0), "rain": (2.5, 1.0)}, clean=1.0)
    clean, shifted = (
        Bundle.compile(calibration, accuracy_tree(), subject="s").watch.forecast(rate)[0]
        for rate in (0, 1)
    )
    assert why(compiled(calibration, 1.01 * max(clean, shifted))) == [
        "it costs no more than clean data do"
    ]


def test_clean_data_that_differ_as_much_as_shift_does_are_said_to():
    calibration = scores_of({"blur": (1.0, 0.5), "fog": (1.0, 0.5)}, rows=1600, differ=1.2)
    assert why(compiled(calibration, 0.12, group_events=2500)) == [
        "clean data differ among themselves as much as shift does"
    ]


def test_where_one_kind_is_not_told_and_the_other_is_cheap_both_are_said():
    (said,) = why(compiled(scores_of({"near": (0.3, 0.4), "far": (4.0, 0.9)}), 0.3))
    assert said.startswith(
        "clean data differ among themselves as much as near does, and an event of far costs about 0."
    )
    assert said.endswith(", where 0.300 is tolerable")


def test_an_alarm_that_some_shift_rings_has_no_such_note(at_the_limit):
    given = {"step": 0.3, "false_alarms": "1 per month", "events_per_day": 1e4, "not_due": {}}
    noticed = (("fog", 1.0), ("rain", 1.0))
    assert rule_notes(at_the_limit.watch, noticed, **given) == ()
    (said,) = rule_notes(at_the_limit.watch, noticed, unproven=("fog", "rain"), **given)
    assert said == f"{NEVER}clean data differ among themselves as much as shift does"
