"""Runs of these tests compile monitors on the way; few simulated streams are enough where the alarm is not what is tested."""

from __future__ import annotations

import pytest

from roadworthy.monitor import false_alarms


@pytest.fixture(autouse=True, scope="module")
def quick_alarms():
    """A twentieth of the streams without shift by which the threshold of an alarm is found."""
    usual, false_alarms.WORLDS = false_alarms.WORLDS, 40
    yield
    false_alarms.WORLDS = usual
