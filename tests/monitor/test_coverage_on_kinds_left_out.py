"""How often intervals hold the truth of unknown kinds is said of each quantity by its name, and no more than was counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roadworthy.monitor.before_release import LabelledRows, left_out
from roadworthy.monitor.bundle import Bundle
from roadworthy.monitor.risk_state import Coverage


@pytest.fixture(scope="module")
def of_a_kind_that_hides() -> Coverage:
    """Haze looks hardly other than clean, and answers are as right under it as under the others."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "night", "haze"], 400)
    looks = np.repeat([0.0, 2.5, 2.5, 0.3], 400)
    found = left_out(
        LabelledRows(
            {"knn": rng.normal(looks)}, kind, rng.random(1600) < np.where(kind == "clean", 0.9, 0.8)
        )
    )
    assert found is not None
    return found


def test_the_share_shifted_is_counted_apart_from_accuracy(of_a_kind_that_hides):
    found = of_a_kind_that_hides
    assert found.rate is not None and found.rate < found.observed - 0.1, (
        "its kind hides, its answers do not"
    )
    assert f"accuracy held in {found.observed:.0%}" in str(
        found
    ) and f"the share shifted in {found.rate:.0%}" in str(found)


def test_a_bundle_of_before_keeps_its_name_and_a_new_one_its_count(calibration, tmp_path):
    from roadworthy.analysis.risk.prototypes import accuracy_tree

    for coverage, kept in (
        (Coverage(0.95, 0.9, 60), set()),
        (Coverage(0.95, 0.9, 60, rate=0.7), {"rate"}),
    ):
        made = Bundle.compile(calibration, accuracy_tree(), subject="lesion", coverage=coverage)
        made.save(tmp_path / "b.json")
        record = json.loads((tmp_path / "b.json").read_text())
        assert set(record["coverage"]) == {"nominal", "observed", "windows", "on"} | kept
        read = Bundle.load(tmp_path / "b.json")
        assert read.id == made.id and read.coverage == coverage
