"""The event tree's parameters in a window of a monitor: what every branch is likely to be now.

>>> import numpy as np
>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.risk.tree import expectation
>>> from roadworthy.monitor import Bundle, Events, Monitor, Windows
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([0, 1], 500)
>>> scores, right = rng.normal(2.5 * shifted), rng.random(1000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right)
>>> monitor = Monitor(Bundle.compile(calibration, accuracy_tree(), subject="lesion-2.3.1", windows=Windows((100,))))
>>> _ = monitor.update(Events(None, None, columns={"energy": rng.normal(2.5, size=100)}))
>>> found = tree_parameters(monitor)
>>> found["p_shift"] > 0.7, abs(expectation(monitor.bundle.tree, found) - monitor.risk().risk) < 1e-6
(True, True)
"""

from __future__ import annotations

from roadworthy.monitor.monitor import Monitor
from roadworthy.monitor.windows import read


def tree_parameters(monitor: Monitor, window: int | str | None = None) -> dict[str, float]:
    """With them the tree costs what `Monitor.risk` says of the window; without a name, of the one that the alarm watches."""
    bundle, shrink = monitor.bundle, 1.0 / monitor.autocorrelation_time
    chosen = bundle.watched if window is None else bundle.windows.checked(window)
    found = read(
        monitor.state.recent.cell, bundle.windows, chosen, monitor.scores.group, shrink=shrink
    )
    return bundle.estimator.parameters(found.counts, shrink=shrink, filled=found.filled)
