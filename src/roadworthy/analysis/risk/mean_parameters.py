"""One number for every parameter of a tree of which many worlds are likely: with these the tree is what it is on average.

A probability counts in a world as often as its node is reached there. Every branch then has its mean probability, and the tree its
mean cost, as long as no parameter stands at two nodes.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.risk.tree import expectation
>>> worlds = {"p_shift": np.array([0.1, 0.9]), "accuracy_shifted": np.array([1.0, 0.5]), "accuracy_clean": 0.9}
>>> found = mean_parameters(accuracy_tree(), worlds, np.array([0.5, 0.5]))
>>> {name: round(value, 3) for name, value in found.items()}
{'p_shift': 0.5, 'accuracy_shifted': 0.55, 'accuracy_clean': 0.9}
>>> float(round(expectation(accuracy_tree(), worlds).mean(), 6)), round(expectation(accuracy_tree(), found), 6)
(0.275, 0.275)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .tree import Tree, evaluate, nodes


def mean_parameters(
    tree: Tree, worlds: Mapping[str, ArrayLike], weights: NDArray[np.float64]
) -> dict[str, float]:
    """Means over worlds of these weights, which add up to 1; 0 where no world gets to a parameter's node."""

    def mean(reach: ArrayLike) -> float:
        return float(np.sum(weights * np.asarray(reach)))

    reached = {
        (): 1.0,
        **{branch.path: mean(branch.reach) for branch in evaluate(tree, worlds).branches},
    }
    here, taken = dict.fromkeys(tree.parameters, 0.0), dict.fromkeys(tree.parameters, 0.0)
    for path, node in nodes(tree):
        for branch in node.branches:
            if isinstance(branch.p, str):
                here[branch.p] += reached[path]
                taken[branch.p] += reached[(*path, branch.name)]
    return {
        name: min(taken[name] / here[name], 1.0) if here[name] > 0.0 else 0.0
        for name in tree.parameters
    }
