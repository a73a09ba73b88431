"""What a review found: labels of several rounds, replicas that grow, events without a name, windows that say nothing."""

from __future__ import annotations

import numpy as np

from roadworthy.monitor import Events, Monitor


def asked_and_told(monitor: Monitor, right: dict[str, bool], n: int) -> None:
    for question in monitor.queue(n):
        monitor.label(question.id, right[question.id])


def test_labels_of_several_rounds_are_as_unbiased_as_those_of_one(bundle):
    errors, inside, trials = [], 0, 60
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        names = [f"{seed}-{i}" for i in range(200)]
        right = dict(zip(names, (rng.random(200) < 0.6).tolist(), strict=True))
        monitor = Monitor(bundle)
        monitor.update(Events(names, np.arange(200.0), columns={"energy": rng.normal(size=200)}))
        for _ in range(4):
            asked_and_told(monitor, right, 15)
        found, truth = monitor.risk(200).audited, np.mean(list(right.values()))
        errors.append(found.accuracy - truth)
        inside += found.accuracy_low <= truth <= found.accuracy_high
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.06
    assert inside >= 0.85 * trials


def test_labels_of_windows_that_slide_are_unbiased(bundle):
    errors, trials = [], 60
    for seed in range(trials):
        rng = np.random.default_rng([1, seed])
        monitor, right = Monitor(bundle), {}
        for part in range(6):
            # Rounds of different sizes over windows that share three quarters: thresholds rise and fall.
            names = [f"{seed}-{part}-{i}" for i in range(200 if part == 0 else 50)]
            right |= dict(zip(names, (rng.random(len(names)) < 0.6).tolist(), strict=True))
            times = len(right) - len(names) + np.arange(len(names))
            monitor.update(Events(names, times, columns={"energy": rng.normal(size=len(names))}))
            asked_and_told(monitor, right, (30, 5, 20)[part % 3])
        errors.append(monitor.risk(200).audited.accuracy - np.mean(list(right.values())[-200:]))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.08


def test_a_probability_that_was_given_stays_and_that_of_the_queue_follows_the_questions(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events([f"e{i}" for i in range(200)], np.arange(200.0), columns={"energy": scores_at(200, 0.3)}))
    first, second, *_ = (q for q in monitor.queue(10) if q.probability < 0.5)
    labels = monitor.state.labels
    monitor.label(first.id, True)
    monitor.label(second.id, True, 0.25)
    monitor.queue(100)
    again = Monitor.from_bytes(bundle, monitor.to_bytes()).state.labels
    for found in (labels, again):
        told = [found.weighed(mark).probability for mark in found.given]
        assert max(told) > first.probability and min(told) == 0.25 and len(told) == 2
