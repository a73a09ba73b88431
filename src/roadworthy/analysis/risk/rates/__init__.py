"""The rate of shift without labels, from verdicts or score bins and how they fell in calibration.

Every estimator takes counts of one window or of many and gives `Rates` (Torpmann-Hagen et al. 2025,
section 3.2.1): a value, an interval and a flag for each window. If no rate can be estimated,
`CannotTell` says why.

>>> calibrated = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})  # cleared, alarmed
>>> windows = rogan_gladen(alarm_counts(alarms=[5, 45, 90], n=100), calibrated)
>>> windows.value.round(3).tolist(), windows.flags["outside [FPR, TPR]"].tolist()
([0.0, 0.5, 1.0], [True, False, True])
"""

from .base import Calibrated, CannotTell, Rates, alarm_counts
from .batches import batch_rate, mixed_batch_rate
from .rogan_gladen import mean_rate, paper_fallback_rate, rogan_gladen

__all__ = [
    "Calibrated",
    "CannotTell",
    "Rates",
    "alarm_counts",
    "batch_rate",
    "mean_rate",
    "mixed_batch_rate",
    "paper_fallback_rate",
    "rogan_gladen",
]
