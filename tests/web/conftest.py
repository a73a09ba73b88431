"""A bundle on disk for every test of the service."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import monitored

from roadworthy.monitor import Bundle


@pytest.fixture(scope="session")
def made() -> Bundle:
    return monitored.bundle()


@pytest.fixture(scope="session")
def bundle_path(made: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "lesion.json"
    made.save(path)
    return path
