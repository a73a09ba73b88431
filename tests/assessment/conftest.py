"""Runs of these tests compile monitors on the way; most ask for something else, and few simulated streams do for the rest."""

from __future__ import annotations

import pytest

from roadworthy.assessment.section import Result
from roadworthy.assessment.sections.monitor import MonitorRecord, MonitorSection


@pytest.fixture(autouse=True, scope="module")
def all_alarms_are_quick(quick_alarms):
    """Thresholds of alarms are not what is tested here."""


@pytest.fixture(scope="module")
def no_monitor():
    """Nothing is compiled, which takes half the time of a small run: for tests of all the rest of it."""
    with pytest.MonkeyPatch.context() as patch:
        nothing = Result(MonitorRecord(because="nobody asked for it"))
        patch.setattr(MonitorSection, "analyse", lambda self, *given: nothing)
        yield
