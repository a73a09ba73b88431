"""How often intervals hold the truth of unknown kinds is said of each quantity by its name, and no more than was counted."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.monitor import Coverage
from roadworthy.monitor.compile import LabelledRows, left_out


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
    assert f"accuracy held in {found.observed:.1%}" in str(
        found
    ) and f"the share shifted in {found.rate:.1%}" in str(found)
