"""How alike the events of a stream are, as its alarm knows it: for how long it is believed, and when it is read again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from alarm_streams import clean_scores

from roadworthy.monitor import Bundle, Events, Monitor


def alike_for_a_while(bundle: Bundle, *, seed: int, call: int) -> Monitor:
    """Forty thousand independent events, fifteen hundred that are alike, and three thousand independent ones."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=40_000), clean_scores("AR(.95)", 1500, rng), rng.normal(size=3000)]
    scores, monitor = np.concatenate(parts), Monitor(bundle)
    for start in range(0, len(scores), call):
        monitor.update(Events(None, None, columns={"energy": scores[start : start + call]}))
    return monitor


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_was_alike_for_a_while_is_soon_judged_as_before(watchful, seed):
    assert alike_for_a_while(watchful, seed=seed, call=4096)._watching.time < 3.0


def test_for_how_long_it_is_judged_as_alike_does_not_depend_on_calls(watchful):
    one, other = (alike_for_a_while(watchful, seed=2, call=call) for call in (150, 4096))
    assert one.alarms == other.alarms
    assert one._watching.to_dict() == other._watching.to_dict()


def test_a_kept_state_in_which_nobody_can_tell_is_read_soon_though_it_does_not_say_when(
    watchful, scores_at
):
    """States kept before an upper limit was known for one have none."""
    monitor = Monitor(watchful)
    monitor.update(
        Events(
            None,
            None,
            columns={"energy": np.concatenate([scores_at(30_000, 0.0), np.full(40_000, np.nan)])},
        )
    )
    record = {
        **monitor._watching.to_dict(),
        "time": math.inf,
        "next_time": monitor.state.counted + 16_384,
    }
    del record["limit"]
    monitor._watching.restore(record, [])
    monitor.update(
        Events(
            None,
            None,
            columns={"energy": np.concatenate([scores_at(1000, 0.0), scores_at(1000, 0.5)])},
        )
    )
    assert monitor.alarm
