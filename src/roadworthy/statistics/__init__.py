"""Intervals, tests and plans that respect groups: each formula of the package lives here, once.

>>> from roadworthy.statistics import wilson
>>> wilson(0, 0)
Interval(low=0.0, high=1.0, confidence=0.95, method='wilson')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# These two share their name with their file: bound here, or the first import of the file would hide them.
from .bootstrap import bootstrap
from .mean import mean

if TYPE_CHECKING:
    from .clusters import (
        clustered_proportion,
        design_effect,
        effective_size,
        intraclass_correlation,
    )
    from .density import Covariance, KernelDensity, mahalanobis_squared
    from .interval import Interval
    from .mean import ratio
    from .neighbours import Neighbours, Points, nearest
    from .paired import difference, paired_difference
    from .planning import cases_to_settle, cases_to_settle_mean
    from .proportion import (
        clopper_pearson,
        clopper_pearson_bounds,
        jeffreys,
        jeffreys_bounds,
        wilson,
        wilson_bounds,
    )
    from .pvalue import holm, p_value_from_bound, simultaneous
    from .ranking import (
        auc,
        average_precision,
        average_precision_interval,
        cases_to_settle_area,
        delong,
        fpr_at_tpr,
        fpr_at_tpr_interval,
    )

_NAMES = {
    "clusters": "clustered_proportion design_effect effective_size intraclass_correlation",
    "density": "Covariance KernelDensity mahalanobis_squared",
    "interval": "Interval",
    "mean": "ratio",
    "neighbours": "Neighbours Points nearest",
    "paired": "difference paired_difference",
    "planning": "cases_to_settle cases_to_settle_mean",
    "proportion": "clopper_pearson clopper_pearson_bounds jeffreys jeffreys_bounds wilson wilson_bounds",
    "pvalue": "holm p_value_from_bound simultaneous",
    "ranking": "auc average_precision average_precision_interval cases_to_settle_area delong "
    "fpr_at_tpr fpr_at_tpr_interval",
}
_HOME = {name: file for file, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Covariance",
    "Interval",
    "KernelDensity",
    "Neighbours",
    "Points",
    "auc",
    "average_precision",
    "average_precision_interval",
    "bootstrap",
    "cases_to_settle",
    "cases_to_settle_area",
    "cases_to_settle_mean",
    "clopper_pearson",
    "clopper_pearson_bounds",
    "clustered_proportion",
    "delong",
    "design_effect",
    "difference",
    "effective_size",
    "fpr_at_tpr",
    "fpr_at_tpr_interval",
    "holm",
    "intraclass_correlation",
    "jeffreys",
    "jeffreys_bounds",
    "mahalanobis_squared",
    "mean",
    "nearest",
    "p_value_from_bound",
    "paired_difference",
    "ratio",
    "simultaneous",
    "wilson",
    "wilson_bounds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
