"""Whether the alarm of all replicas together is on does not depend on the order in which they are named."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monitored import START, bundle

from roadworthy.cli.app import run
from roadworthy.monitor import Bundle, EventError, Events, Monitor
from roadworthy.web.offline import kept


def replicas(made: Bundle, seed: int) -> list[Monitor]:
    """A stream that is shifted for a while, of which each saw a part: every third event, or one of them after the other."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([300, 900]))
    shift, begun = np.zeros(n), int(rng.integers(n))
    shift[begun : begun + int(rng.integers(20, 400))] = 2.5
    columns = {"knn": rng.normal(shift), "energy": rng.normal(0.6 * shift)}
    time = START + np.cumsum(rng.exponential(1.0, n))
    owner = rng.integers(0, 3, n) if rng.random() < 0.5 else np.arange(n) * 3 // n
    labelled = rng.random(n) < rng.choice([0.0, 0.3])
    found = []
    for number in range(3):
        monitor = Monitor(made, replica=f"r{number}")
        seen = np.flatnonzero((owner == number) | (rng.random(n) < 0.05))
        for part in np.array_split(seen, max(1, len(seen) // 50)):
            given = {name: column[part] for name, column in columns.items()}
            monitor.update(Events([f"e{i}" for i in part], time[part], columns=given))
        for i in np.flatnonzero(labelled & (owner == number)).tolist():
            monitor.label(f"e{i}", bool(rng.random() < (0.5 if shift[i] else 0.9)), 0.3, look=False)
        monitor.look_at_labels()
        found.append(monitor)
    return found


def said(monitor: Monitor) -> tuple[object, ...]:
    risks = [monitor.risk(name).to_dict() for name in monitor.bundle.windows.names]
    return monitor.alarm, monitor.alarm_by_labels, monitor.cannot_tell, monitor.state.taken, risks


@settings(max_examples=12, deadline=None)
@given(st.one_of(st.sampled_from([6, 36, 54, 60]), st.integers(0, 10_000)))
def test_replicas_say_the_same_in_any_order(made, seed):
    parts, found = replicas(made, seed), []
    for order in permutations(parts):
        whole = Monitor(made, replica="whole")
        whole.merge(*order)
        found.append(said(whole))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("seed", [6, 54])
def test_the_command_ends_with_the_same_code_in_any_order(made, tmp_path: Path, seed: int):
    """These would be told apart by what two of them say before the third comes."""
    paths = [tmp_path / f"{monitor.replica}.sqlite" for monitor in replicas(made, seed)]
    for monitor, path in zip(replicas(made, seed), paths, strict=True):
        kept(monitor, path)
    assert len({run(["monitor", "merge", *map(str, order)]) for order in permutations(paths)}) == 1


def test_one_of_another_bundle_is_refused_before_anything_is_merged(made):
    whole = Monitor(made)
    with pytest.raises(EventError, match="bundles differ"):
        whole.merge(replicas(made, 6)[0], Monitor(bundle(subject="another")))
    whole.merge()
    assert not whole.state.counted


def test_one_that_nobody_can_tell_leaves_those_before_it_merged_and_looked_at():
    made = bundle(id_horizon=100)
    whole, begun, again = Monitor(made), Monitor(made, replica="a"), Monitor(made, replica="a")
    for monitor, first, n in ((begun, 0, 30_000), (again, 50_000, 40_000)):
        ids, rng = np.arange(first, first + n), np.random.default_rng(first)
        columns = {"knn": rng.normal(2.5, size=n), "energy": rng.normal(1.5, size=n)}
        monitor.update(Events(ids, START + ids / 100, columns=columns))
    with pytest.raises(EventError, match="started again"):
        whole.merge(begun, again)
    assert whole.state.counted == 30_000 and whole.alarm
