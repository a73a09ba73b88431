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
    from .multiplicity import benjamini_hochberg, holm, simultaneous
    from .neighbours import Neighbours, Points, nearest
    from .operating_point import fpr_at_tpr, fpr_at_tpr_interval
    from .paired import difference, paired_difference
    from .planning import cases_to_settle, cases_to_settle_mean
    from .precision import average_precision, average_precision_interval
    from .proportion import (
        clopper_pearson,
        clopper_pearson_bounds,
        jeffreys,
        jeffreys_bounds,
        wilson,
        wilson_bounds,
    )
    from .pvalue import p_value_from_bound, proportion_p_value
    from .ranking import auc, delong, delong_difference

_HOME = {
    "Covariance": "density",
    "Interval": "interval",
    "KernelDensity": "density",
    "Neighbours": "neighbours",
    "Points": "neighbours",
    "auc": "ranking",
    "average_precision": "precision",
    "average_precision_interval": "precision",
    "benjamini_hochberg": "multiplicity",
    "cases_to_settle": "planning",
    "cases_to_settle_mean": "planning",
    "clopper_pearson": "proportion",
    "clopper_pearson_bounds": "proportion",
    "clustered_proportion": "clusters",
    "delong": "ranking",
    "delong_difference": "ranking",
    "design_effect": "clusters",
    "difference": "paired",
    "effective_size": "clusters",
    "fpr_at_tpr": "operating_point",
    "fpr_at_tpr_interval": "operating_point",
    "holm": "multiplicity",
    "intraclass_correlation": "clusters",
    "jeffreys": "proportion",
    "jeffreys_bounds": "proportion",
    "mahalanobis_squared": "density",
    "nearest": "neighbours",
    "p_value_from_bound": "pvalue",
    "paired_difference": "paired",
    "proportion_p_value": "pvalue",
    "ratio": "mean",
    "simultaneous": "multiplicity",
    "wilson": "proportion",
    "wilson_bounds": "proportion",
}

__all__ = [
    "Covariance",
    "Interval",
    "KernelDensity",
    "Neighbours",
    "Points",
    "auc",
    "average_precision",
    "average_precision_interval",
    "benjamini_hochberg",
    "bootstrap",
    "cases_to_settle",
    "cases_to_settle_mean",
    "clopper_pearson",
    "clopper_pearson_bounds",
    "clustered_proportion",
    "delong",
    "delong_difference",
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
    "proportion_p_value",
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
