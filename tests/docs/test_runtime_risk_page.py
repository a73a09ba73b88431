"""What the page about runtime risk says of a window before any event is what the service and the library do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Monitor, Windows
from roadworthy.monitor.bundle import RatePrior
from roadworthy.web.views import risk_view

PAGE = (Path(__file__).parents[2] / "docs" / "runtime-risk.md").read_text()


def test_before_any_event_the_page_tells_no_rate_as_the_service_does():
    rng, shifted = np.random.default_rng(0), np.repeat([0, 1], 300)
    right = rng.random(600) < np.where(shifted, 0.4, 0.9)
    calibration = fit_calibration(
        {"knn": rng.normal(2.5 * shifted)}, np.where(shifted, "fog", "clean"), right
    )
    made = Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="s",
        windows=Windows((100,)),
        prior=RatePrior(0.05, 20.0),
    )
    state = Monitor(made).risk()
    served = risk_view(state)
    assert served["rate"] is served["risk"] is None and np.isnan(state.rate)
    assert served["no_estimate"]
