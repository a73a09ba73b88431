"""Several supervisors' scores as one: the place where analyses, rejection and the monitor find fusion.

The formulas stand in `roadworthy.statistics.fusion`, once, since the supervisor `fused` needs them too and stands above
the analyses (docs/decisions/0006).

>>> float(rank_average({"energy": [2.0], "knn": [9.0]}, {"energy": [1.0, 2.0, 3.0], "knn": [1.0, 2.0, 3.0]})[0])
0.6875
"""

from __future__ import annotations

from roadworthy.statistics.fusion import (
    RESOLUTION,
    Columns,
    LogisticFusion,
    features,
    fit_logistic,
    plain_number,
    rank_average,
    ranks,
    thinned,
)

__all__ = [
    "RESOLUTION",
    "Columns",
    "LogisticFusion",
    "features",
    "fit_logistic",
    "plain_number",
    "rank_average",
    "ranks",
    "thinned",
]
