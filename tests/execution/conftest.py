"""Nothing is compiled on the way: monitors take half the time of a small run."""

from __future__ import annotations

import pytest

from roadworthy.assessment.section import Result
from roadworthy.assessment.sections.monitor import MonitorRecord, MonitorSection


@pytest.fixture(autouse=True, scope="module")
def no_monitor():
    """None is what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        nothing = Result(MonitorRecord(because="nobody asked for it"))
        patch.setattr(MonitorSection, "analyse", lambda self, *given: nothing)
        yield
