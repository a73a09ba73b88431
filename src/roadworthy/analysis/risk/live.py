"""The live parameters of an event tree: what the events of a window are, by draw and rate, as far as the tree asks.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> one = np.ones((1, 1, 1))
>>> known = Known(None, one, 10.0 * one[0], 8.0 * one, 6.0 * one, 1.0 * one)  # type: ignore[arg-type]
>>> {name: float(value[0, 0, 0]) for name, value in live(accuracy_tree(), known, lambda detected: known)}
{'p_shift': 0.2, 'accuracy_clean': 0.75, 'accuracy_shifted': 0.5}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS
from roadworthy.analysis.risk.sums import Known, share_of
from roadworthy.analysis.risk.tree import Tree

Floats = NDArray[np.float64]


def live(
    tree: Tree, whole: Known, part_of: Callable[[bool], Known]
) -> Iterator[tuple[str, Floats]]:
    """Names and values; what cannot happen has probability 0.

    `part_of` says what is known of the events for which an alarm was raised, or none, before anything moved it.
    """
    wanted = set(tree.parameters) & set(LIVE_PARAMETERS)
    parts = {"": whole}
    if wanted - {"p_shift", "accuracy_clean", "accuracy_shifted"}:
        for name, detected in (("_detected", True), ("_undetected", False)):
            part = part_of(detected)
            parts[name] = part if whole.way is None else whole.way(part)
    if "p_shift" in wanted:
        yield "p_shift", share_of(whole.shifted, whole.total)
    if "tpr" in wanted:
        yield "tpr", share_of(parts["_detected"].shifted, whole.shifted)
    if "tnr" in wanted:
        yield "tnr", share_of(parts["_undetected"].clean, whole.clean)
    for name, part in parts.items():
        if f"accuracy_clean{name}" in wanted:
            yield f"accuracy_clean{name}", share_of(part.right_clean, part.clean)
        if f"accuracy_shifted{name}" in wanted:
            yield f"accuracy_shifted{name}", share_of(part.right_shifted, part.shifted)
