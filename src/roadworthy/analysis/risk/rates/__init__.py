"""The rate of shift without labels, from verdicts or score bins and how they fell in calibration (seed 003, 3.2.1).

Every estimator takes counts of one window or of many and gives `Rates`: values, interval and flags, a window each.
`mean_rate` believes the verdicts; `rogan_gladen` corrects them for false alarms and misses; `BayesTable` does so with Beta
posteriors, once for every count; `likelihood_rate` and `posterior_rate` read score bins, which say more than verdicts.
`paper_fallback_rate` and `paper_forward_rate` are what the authors' code does. By default the intervals speak of a shift
of a *new kind*; `kinds="seen"` speaks of the calibrated kinds in even parts, not of one of them alone, and is flagged where there
are several. What no number can be told of is refused: `CannotTell`.

>>> calibrated = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})   # by kind: rows cleared and alarmed
>>> rate = rogan_gladen(45, 100, calibrated)[()]
>>> round(rate.value, 3), rate.flags
(0.5, ())
>>> windows = rogan_gladen([5, 45, 90], 100, calibrated)
>>> windows.value.round(3).tolist(), windows[2].flags
([0.0, 0.5, 1.0], ('outside [FPR, TPR]',))
>>> BayesTable.build(100, calibrated).rate([5, 45, 90]).value.round(2).tolist()
[0.01, 0.55, 0.96]
"""

from __future__ import annotations

from .answer import CannotTell, Rate, Rates, conditional_rate
from .batches import batch_rate, uniformity
from .bayes import BayesTable
from .bins import BinPosterior, likelihood_rate, posterior_rate
from .calibrated import Calibrated
from .mixed_batches import AlarmCurve
from .prior import Prior
from .verdicts import mean_rate, paper_fallback_rate, paper_forward_rate, rogan_gladen

__all__ = [
    "AlarmCurve",
    "BayesTable",
    "BinPosterior",
    "Calibrated",
    "CannotTell",
    "Prior",
    "Rate",
    "Rates",
    "batch_rate",
    "conditional_rate",
    "likelihood_rate",
    "mean_rate",
    "paper_fallback_rate",
    "paper_forward_rate",
    "posterior_rate",
    "rogan_gladen",
    "uniformity",
]
