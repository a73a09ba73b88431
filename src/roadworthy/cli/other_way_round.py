"""What looks swapped in what is calibrated on: right and wrong answers, or what they cost. A warning, since it may be meant.

Both make the alarm ring for what is good, and every figure of the bundle say the opposite, while nothing else looks odd.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree, cost_tree
>>> costs_reversed(accuracy_tree())
>>> costs_reversed(cost_tree({"right": 10, "wrong": 1})).partition(",")[0]
'a right answer costs 10 and a wrong one 1: that looks the other way round'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadworthy.analysis.risk.tree import Tree
    from roadworthy.data.scores import ScoreTable

LOOKS = "that looks the other way round"


def outcomes_reversed(table: ScoreTable) -> str | None:
    """A warning where clean answers are right less often than shifted ones, by more than chance, and none of a kind are worse."""
    import numpy as np

    from roadworthy.data.scores import CLEAN
    from roadworthy.statistics import clustered_proportion

    assert table.kind is not None and table.correct is not None
    kind, right, group = table.kind, table.correct.astype(float), table.group

    def interval(rows: np.ndarray) -> tuple[float, float]:
        found = clustered_proportion(right[rows], None if group is None else group[rows])
        return found.low, found.high

    shifted = kind != CLEAN
    low, high = interval(~shifted)
    if interval(shifted)[0] <= high or any(
        interval(kind == k)[1] < low for k in np.unique(kind[shifted])
    ):
        return None
    return (
        f"answers are right in {right[~shifted].mean():.1%} of the clean rows and in {right[shifted].mean():.1%} of the shifted "
        f"ones: {LOOKS}, as where a column says which answers were wrong; look at the column of outcomes (--correct), and at "
        "which rows are clean (--clean)"
    )


def costs_reversed(tree: Tree) -> str | None:
    """A warning where a wrong answer costs less than a right one."""
    from roadworthy.analysis.risk.prototypes import answer_costs
    from roadworthy.analysis.risk.tree import leaves

    named = {leaf.outcome: leaf.cost for _, leaf in leaves(tree)}
    right, wrong = answer_costs(tree) or (named.get("right answer"), named.get("wrong answer"))
    if right is None or wrong is None or wrong >= right:
        return None
    return (
        f"a right answer costs {right:g} and a wrong one {wrong:g}: {LOOKS}, since the more answers are wrong, the less it costs; "
        "look at --cost, or at the costs of the tree"
    )
