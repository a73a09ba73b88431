"""What holds for all tests: time decides nothing, and workers that share a machine take one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

if "PYTEST_XDIST_WORKER" in os.environ:
    # Set before numpy and torch are loaded: threads of several workers would wait for each other more than they work.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# A deadline fails examples, and the health check whole tests, wherever the machine is busy with something else.
settings.register_profile("roadworthy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("roadworthy")


@pytest.fixture(scope="module")
def quick_alarms() -> Iterator[None]:
    """A thirtieth of the streams by which the threshold of an alarm is found: for tests that ask for something else."""
    from roadworthy.monitor import false_alarms

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(false_alarms, "WORLDS", 40)
        yield
