"""By what an event is known: its id as it was given, or its replica and its number there; marks only where they are needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.monitor import Events, Monitor
from roadworthy.monitor.events import mark, marks
from roadworthy.monitor.recent import Recent

named = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 40), st.text("ab#1", max_size=2)), st.integers(0, 12).map(float)
    ),
    max_size=60,
    unique_by=lambda event: (type(event[0]), event[0]),
)


@given(named, st.integers(1, 25), st.lists(st.integers(1, 20), max_size=6))
@settings(max_examples=150, deadline=None)
def test_events_stand_by_time_and_mark_whether_marks_were_given_or_not(events, capacity, cuts):
    by_hand = sorted((time, mark(name), name) for name, time in events)[-capacity:]
    for given_marks in (True, False):
        recent, at = Recent(capacity), 0
        while at < len(events):
            part = events[at : at + (cuts[at % len(cuts)] if cuts else 7)]
            names, times = [name for name, _ in part], np.array([time for _, time in part])
            recent.put(
                times,
                marks(names) if given_marks else None,
                np.zeros(len(part), dtype=np.int16),
                names,
            )
            at += len(part)
        assert recent.known == {name for _, _, name in by_hand}
        assert [*recent.names.items()] == [(key, name) for _, key, name in by_hand]
        assert recent.time.tolist() == [time for time, _, _ in by_hand]
        assert all(recent.name_at(recent.find(name)) == name for name in recent.known)


def test_an_id_that_reads_like_the_number_of_an_event_is_another_event(bundle):
    monitor = Monitor(bundle, replica="r")
    assert monitor.update(Events(None, [1.0, 2.0], cells=[0, 1])).accepted == 2
    assert monitor.update(Events(["r#0", "r#7"], [3.0, 4.0], cells=[2, 2])).accepted == 2
    again = Monitor.from_bytes(bundle, monitor.to_bytes())
    for one in (monitor, again):
        assert one.update(Events(["r#0", "r#7"], [3.0, 4.0], cells=[2, 2])).repeated == 2
        assert one.state.recent.mark.tolist() == [
            mark(("r", 0)),
            mark(("r", 1)),
            mark("r#0"),
            mark("r#7"),
        ]
        one.label("r#1", True)
        one.label("r#0", True)
        assert one.state.labels.counts[0, :3].tolist() == [0, 1, 1], "an id comes before a number"


def test_the_same_stream_says_the_same_in_calls_of_any_size_with_times_alike_and_out_of_order(
    watchful,
):
    rng = np.random.default_rng(3)
    n = 3000
    names = [f"e{i}" for i in rng.permutation(n)]
    times = np.floor(np.arange(n) / 5.0) + rng.choice([0.0, 0.0, -20.0], n)
    scores = rng.normal(1.8 * (rng.random(n) < np.repeat([0.0, 0.6, 0.0], n // 3)))
    kept = []
    for size in (1, 7, 500, n):
        monitor = Monitor(watchful, replica="r")
        for at in range(0, n, size):
            part = slice(at, at + size)
            if size == 1:
                monitor.update_one(names[at], float(times[at]), {"energy": float(scores[at])})
            else:
                monitor.update(Events(names[part], times[part], columns={"energy": scores[part]}))
        kept.append(monitor)
    for other in kept[1:]:
        assert other.state.recent.mark.tolist() == kept[0].state.recent.mark.tolist()
        assert other.state.recent.cell.tolist() == kept[0].state.recent.cell.tolist()
        assert other.state.taken == kept[0].state.taken
        assert (other.state.buckets.total() == kept[0].state.buckets.total()).all()


def test_whole_numbers_of_any_size_are_events_of_their_own(bundle):
    """Negative ones, and those of a UUID, have marks as texts have: no two are taken for one when replicas are put together."""
    wide = (
        [(7 << 64) + i for i in range(20)]
        + [-i for i in range(1, 21)]
        + [2**64 - i for i in range(1, 21)]
    )
    assert len(set(marks(wide).tolist())) == 60 and [mark(n) for n in wide] == marks(wide).tolist()
    assert marks(np.array([-1, 5])).tolist() == [mark(-1), mark(5)] and mark(-1) != mark(2**64 - 1)
    one, other = Monitor(bundle, replica="one"), Monitor(bundle, replica="other")
    one.update(Events(wide[:30], np.arange(30.0), cells=[0] * 30))
    other.update(Events(wide[30:], np.arange(30.0), cells=[1] * 30))
    one.merge(other)
    assert one.state.taken.accepted == 60 and one.state.taken.repeated == 0
    one.label(wide[45], True)
    assert next(iter(one.state.labels.given.values())).cell == 1
