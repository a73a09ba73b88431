"""What is tolerable: whether it lies where costs lie, below the dearest outcome of a tree and above the cheapest; and what is said
where nobody chose it.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> refuse_out_of_reach(accuracy_tree(), 0.15)
>>> refuse_out_of_reach(accuracy_tree(), 15)
Traceback (most recent call last):
ValueError: a tolerable 15 is never exceeded, since no outcome costs more than 1: choose one between 0 and 1 wrong answers per case
>>> nobody_said(0.168, "wrong answers per case").partition(" is what")[0]
'nobody said what is tolerable: 0.168 wrong answers per case'
"""

from __future__ import annotations

import math

from .amounts import priced
from .nodes import Tree, leaves

NOBODY_SAID = "nobody said what is tolerable"
"""How the remark begins on a limit that was chosen for want of one."""


def nobody_said(tolerable: float, unit: str, *, expected_rate: float = 0.0) -> str:
    """That a limit was chosen for want of one; it stands in the bundle, so that nobody takes it for somebody's choice.

    Where some events are expected to be shifted, it is chosen by the others.
    """
    one = (
        "one in five of the events that should be clean"
        if expected_rate > 0.0
        else "one event in five"
    )
    return f"{NOBODY_SAID}: {priced(tolerable, unit)} is what a stream would cost in which {one} is shifted"


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
