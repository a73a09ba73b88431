"""Whether a tolerable cost lies where costs lie: below the dearest outcome of a tree, and above the cheapest.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> refuse_out_of_reach(accuracy_tree(), 0.15)
>>> refuse_out_of_reach(accuracy_tree(), 15)
Traceback (most recent call last):
ValueError: a tolerable 15 is never exceeded, since no outcome costs more than 1: choose one between 0 and 1 wrong answers per case
"""

from __future__ import annotations

import math

from .nodes import Tree, leaves


def refuse_out_of_reach(tree: Tree, tolerable: float) -> None:
    """Refuse what no event can exceed, and what every event does."""
    costs = [leaf.cost for _, leaf in leaves(tree)]
    least, most = min(costs), max(costs)
    between = f"choose one between {least:g} and {most:g} {tree.unit}"
    if math.isnan(tolerable):
        raise ValueError(f"a tolerable cost is a number, found nan: {between}")
    if not tolerable < most:
        raise ValueError(
            f"a tolerable {tolerable:g} is never exceeded, since no outcome costs more than {most:g}: {between}"
        )
    if tolerable <= least:
        raise ValueError(
            f"a tolerable {tolerable:g} is always exceeded, since no outcome costs less than {least:g}: {between}"
        )
