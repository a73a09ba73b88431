"""Which kinds of shift an alarm is due for, and what is said of those that it does not notice."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import AlarmRule, Bundle, Windows
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.rule_notes import rule_notes
from roadworthy.monitor.tails import Tails
from roadworthy.monitor.worlds import clean_worlds


@pytest.fixture(scope="module")
def compiled(of_three) -> Bundle:
    """30% rain costs about 0.116, 30% fog about 0.236."""
    return Bundle.compile(
        of_three, accuracy_tree(), subject="s", tolerable=0.15, windows=Windows((100, 1000))
    )


def test_a_kind_of_which_a_share_is_tolerable_is_not_due_and_no_reason_for_a_longer_window(
    compiled,
):
    rule = compiled.alarm
    assert rule.not_due == ("rain",) and rule.window == 100
    assert dict(rule.detects)["rain"] < 0.95, (
        "the number is kept, and would have asked for a longer one"
    )
    assert rule.noticed == {"fog": dict(rule.detects)["fog"], "rain": None}
    assert AlarmRule.from_dict(rule.to_dict()) == rule
    said = " ".join(rule.notes)
    assert "a step to 30% of rain costs about 0.1" in said and "no alarm is due for it" in said
    assert "misses" not in said and "lengthen" not in said


def test_what_is_missed_is_said_of_the_kinds_that_are_due_alone(compiled):
    def notes(*detects: tuple[str, float], not_due: dict[str, float]) -> tuple[str, ...]:
        given = {"step": 0.3, "false_alarms": "1 per month", "events_per_day": 1e4}
        return rule_notes(compiled.watch, detects, not_due=not_due, **given)

    both = notes(("fog", 0.5), ("rain", 0.1), not_due={"rain": 0.12})
    assert len(both) == 2 and "about half of fog" in both[1] and "rain" not in both[1]
    none = notes(("fog", 0.5), ("rain", 0.1), not_due={"fog": 0.14, "rain": 0.12})
    assert none == (
        "a step to 30% shift, of whichever kind, costs about 0.14 at most, within the tolerable 0.15: no alarm is due for it",
    )
    assert notes(("fog", 1.0), ("rain", 1.0), not_due={}) == ()
    (rings,) = notes(("fog", 1.0), ("rain", 0.97), not_due={"rain": 0.12})
    assert rings.endswith("no alarm is due for it, though it rings in 97% of rain")


def test_a_kind_that_is_missed_for_its_cost_is_no_reason_for_more_false_alarms(compiled):
    given = {"step": 0.3, "false_alarms": "1 per month", "events_per_day": 1e4, "not_due": {}}
    detects = (("fog", 0.5), ("rain", 0.4))
    (both,) = rule_notes(compiled.watch, detects, freely={"fog": 0.9, "rain": 0.41}, **given)
    assert (
        "accept more false alarms" in both
        and "30% of rain costs about 0.1" in both
        and "of fog costs" not in both
    )
    (neither,) = rule_notes(compiled.watch, detects, freely={"fog": 0.52, "rain": 0.41}, **given)
    assert "accept more" not in neither and neither.endswith("hardly above the tolerable 0.15")
    (unknown,) = rule_notes(compiled.watch, detects, **given)
    assert "accept more false alarms" in unknown and "hardly above" not in unknown


def test_a_rule_of_which_every_kind_is_due_keeps_its_name():
    rule = AlarmRule(100, 50, 9.0, "1 per day", 1000.0)
    assert "not_due" not in rule.to_dict() and AlarmRule.from_dict(rule.to_dict()) == rule


def test_streams_that_are_simulated_together_are_those_simulated_one_by_one(compiled):
    from roadworthy.monitor.cell_scores import CellScores

    watched = Watched(compiled.watch, CellScores.of(compiled.calibration), 60, 20, (-1.0, 0.1))
    rng = np.random.default_rng(0)
    streams = [rng.integers(0, compiled.calibration.cells, 200) for _ in range(5)]
    ends = np.arange(60, 200, 20)
    found = watched.odds_of(streams, ends, length=60)
    for above, evidence, cells in zip(*found, streams, strict=True):
        alone = watched.odds_of([cells], ends, length=60)
        assert above == pytest.approx(alone.above[0]) and evidence == pytest.approx(
            alone.evidence[0]
        )


def test_fewer_false_alarms_need_a_higher_burden_of_the_same_simulation(compiled):
    from roadworthy.monitor.cell_scores import CellScores

    watched = Watched(compiled.watch, CellScores.of(compiled.calibration), 100, 50)
    worlds = clean_worlds(compiled.calibration, 10, np.random.default_rng(1))
    tails = Tails(watched, worlds)
    found = [tails.burden(rate) for rate in (1e-3, 1e-4, 1e-5)]
    assert found == sorted(found) and found[0] < found[-1]
    assert len(tails._found) == 1 and Tails(watched, worlds).burden(1e-4) == found[1]
