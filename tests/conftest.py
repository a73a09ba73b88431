"""What holds for all tests: time decides nothing, and workers that share a machine take one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

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
    from roadworthy.monitor import threshold as false_alarms

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(false_alarms, "WORLDS", 40)
        yield


@pytest.fixture(scope="module")
def of_three() -> Calibration:
    """One supervisor on a thousand rows each of clean (92% right), fog (40%) and rain (80%)."""
    import numpy as np

    from roadworthy.analysis.risk.calibration import fit_calibration

    shares = {"clean": 0.92, "fog": 0.4, "rain": 0.8}
    rng = np.random.default_rng(0)
    kind = np.repeat(list(shares), 1000)
    right = rng.random(3000) < np.repeat(list(shares.values()), 1000)
    return fit_calibration({"energy": rng.normal(3.0 * (kind != "clean"))}, kind, right)


@pytest.fixture(autouse=True)
def own_components_end_with_their_test() -> Iterator[None]:
    """What a test registers as ``mine.py:name`` is not listed in the next one."""
    from roadworthy import registry

    yield
    for room, found in registry._components.items():
        for name in [n for n, one in found.items() if one.origin.endswith(".py")]:
            registry.remove(room, name)
