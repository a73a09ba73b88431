"""The event tree of a run or of a monitor's bundle for the tools of probabilistic risk assessment: Open-PSA XML.

Of a run, with its parameters as assessed; of a bundle, with the calibrated ones, kinds of shift even, at the rate of shift that was
forecast before release.
"""

from __future__ import annotations

from collections.abc import Mapping

from roadworthy.analysis.risk.open_psa import to_open_psa
from roadworthy.analysis.risk.tree import Tree
from roadworthy.monitor.bundle import Bundle
from roadworthy.registry import register
from roadworthy.report.blocks import ReportError
from roadworthy.store.record import Record

NAME = "open_psa"
SECTION = "risk"


@register("reports", NAME, file="risk.open-psa.xml", needs=SECTION)
def open_psa(run: Record) -> str:
    """The event tree with its numbers in the Open-PSA Model Exchange Format, for tools of probabilistic risk assessment."""
    risk = run.sections.get(SECTION)
    if risk is None or not risk.tree:
        why = (
            f"there is no expected cost: {risk.because}"
            if risk
            else "add `risk: {unit: …, costs: {wrong: …}}` to its file"
        )
        raise ReportError(f"{run.folder}: the run has no event tree to export; {why}")
    return _written(Tree.from_dict(risk.tree), risk.parameters, run.name)


def bundle_open_psa(bundle: Bundle) -> str:
    """The same of a bundle: what was known before release."""
    rate = 0.0 if bundle.forecast is None else bundle.forecast.rate
    return _written(bundle.tree, bundle.estimator.parameters_at(rate), bundle.title)


def _written(tree: Tree, parameters: Mapping[str, float], name: str) -> str:
    try:
        return to_open_psa(tree, parameters, name=name)
    except ValueError as error:
        raise ReportError(f"{name}: the event tree cannot be exported: {error}") from error
