"""Alarms where clean data themselves cost about as much as is tolerable: they ring, since they are true, and say so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.alarm import AlarmRule
from roadworthy.monitor.rule_notes import rings_without_shift, when_it_rings

SURE = math.log(0.975 / 0.025)


@pytest.fixture(scope="module")
def two_kinds() -> Calibration:
    """Clean rows cost 0.06."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "dark", "fog"], [1500, 400, 400])
    right = np.concatenate(
        [np.arange(1500) % 50 >= 3, np.arange(400) % 5 < 2, np.arange(400) % 20 < 13]
    )
    return calibrate({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, right)


def rule_of(calibration: Calibration, tolerable: float) -> AlarmRule:
    given = {"subject": "s", "windows": Windows((100,))}
    rule = Bundle.compile(calibration, accuracy_tree(), tolerable=tolerable, **given).alarm
    assert rule is not None
    return rule


@pytest.mark.parametrize("tolerable", [0.01, 0.05, 0.058])
def test_below_what_clean_data_cost_the_alarm_rings_where_it_is_sure_and_says_so(
    two_kinds, tolerable
):
    rule = rule_of(two_kinds, tolerable)
    assert rule.sure == pytest.approx(SURE) and rule.on == rule.off == 0.0 and not rule.keeps_rate
    assert all(rule.passes(time) for time in (1.0, 9.0, 900.0)), (
        "however alike events are, it may be sure"
    )
    assert min(dict(rule.detects).values()) == 1.0
    assert rings_without_shift(rule.notes) and len(rule.notes) == 1
    assert (
        "clean data cost 0.06" in rule.notes[0]
        and f"above the tolerable {tolerable:.3f}" in rule.notes[0]
    )
    assert "without shift the alarm may ring as well" in rule.notes[0]
    assert when_it_rings(rule).startswith("alarm from 50%") and when_it_rings(rule).endswith(
        ", or from 97.5%"
    )
    assert when_it_rings(rule, 900.0) == "alarm from 97.5%"
    assert (rule.remark(900.0) or "").startswith(
        "the alarm rings only where it is sure that the cost is above: events resemble"
    )
    assert AlarmRule.from_dict(rule.to_dict()) == rule


def test_a_stream_of_nothing_but_shift_is_never_silent_whatever_is_tolerable(two_kinds):
    shifted = np.random.default_rng(1).normal(2.0, size=400)
    for tolerable in (0.01, 0.05, 0.0595, 0.062, 0.07, 0.1):
        bundle = Bundle.compile(
            two_kinds, accuracy_tree(), subject="s", tolerable=tolerable, windows=Windows((100,))
        )
        monitor = Monitor(bundle)
        monitor.update(Events(None, None, columns={"energy": shifted}))
        assert monitor.alarms and monitor.alarms[0].kind == "raised", tolerable


def mild(
    n: int, shifted: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Three weak scores; 88% of clean answers are right, and 70% of shifted ones."""
    scores = {f"d{i}": rng.normal(1.2 * shifted) for i in range(3)}
    return scores, rng.random(n) < np.where(shifted, 0.7, 0.88)


def test_a_limit_just_below_what_clean_data_cost_does_not_silence_the_alarm():
    """How dear an unseen kind is stays in doubt: of nothing but shift nobody is sure, and it need not be."""
    rng, kind = np.random.default_rng(0), np.repeat(["clean", "dark", "fog"], 1500)
    scores, right = mild(4500, kind != "clean", rng)
    calibration = calibrate(scores, kind, right)
    clean = 1.0 - calibration.accuracy("clean")
    for tolerable in (clean + 0.02, clean + 0.004, clean - 0.004, clean - 0.02):
        rule = rule_of(calibration, tolerable)
        assert (rule.sure < math.inf) == (tolerable < clean)
        bundle = Bundle.compile(
            calibration, accuracy_tree(), subject="s", tolerable=tolerable, windows=Windows((100,))
        )
        monitor = Monitor(bundle)
        monitor.update(Events(None, None, columns=mild(600, np.ones(600, dtype=bool), rng)[0]))
        assert monitor.alarm and monitor.alarms[0].event <= 200, tolerable


def test_the_alarm_rings_no_less_where_less_is_tolerable_among_limits_that_clean_data_exceed(
    two_kinds,
):
    rules = [rule_of(two_kinds, tolerable) for tolerable in (0.01, 0.03, 0.05, 0.059)]
    for kind in ("dark", "fog"):
        noticed = [dict(rule.detects)[kind] for rule in rules]
        assert noticed == sorted(noticed, reverse=True)


def test_a_limit_well_above_what_clean_data_cost_keeps_its_promise_unqualified(two_kinds):
    assert not rings_without_shift(rule_of(two_kinds, 0.1).notes)


def test_nobody_is_told_to_tolerate_more_than_everything():
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog"], 300)
    calibration = calibrate(
        {"energy": rng.normal(2.0 * (kind != "clean"))}, kind, np.zeros(600, dtype=bool)
    )
    (note,) = rule_of(calibration, 0.995).notes
    assert "raise the tolerable" not in note and "look at the outcomes" in note


def test_an_alarm_is_cleared_though_clean_windows_look_nearly_as_dear_as_is_tolerable(two_kinds):
    bundle = Bundle.compile(
        two_kinds, accuracy_tree(), subject="s", tolerable=0.07, windows=Windows((100,))
    )
    assert bundle.alarm is not None and -1.0 < bundle.alarm.off <= 0.0 and not bundle.alarm.notes
    rng, monitor = np.random.default_rng(2), Monitor(bundle)
    for part in (rng.normal(size=1000), rng.normal(2.0, size=500), rng.normal(size=2000)):
        monitor.update(Events(None, None, columns={"energy": part}))
    kinds = [alarm.kind for alarm in monitor.alarms]
    assert kinds[0] == "raised" and "cleared" in kinds


def test_that_an_alarm_is_hardly_cleared_is_said():
    rng, kind = np.random.default_rng(0), np.repeat(["clean", "dark", "fog"], 150)
    shifted = kind != "clean"
    few = calibrate(
        {"energy": rng.normal(2.0 * shifted)}, kind, rng.random(450) < np.where(shifted, 0.3, 0.94)
    )
    assert (
        "once on, the alarm is hardly cleared"
        in rule_of(few, 1.01 - few.accuracy("clean")).notes[0]
    )


def test_what_is_believed_before_a_window_is_full_is_no_matter_of_the_alarm(two_kinds):
    """It reads full windows alone: however much shift somebody expects, or how little, it rings and is cleared as it would."""
    alarms = [
        Bundle.compile(two_kinds, accuracy_tree(), subject="s", tolerable=0.1, prior=prior).alarm
        for prior in ((0.5, 0.5), (100.0, 100.0), (0.1, 99.9))
    ]
    assert alarms[0] is not None and alarms[0] == alarms[1] == alarms[2]
