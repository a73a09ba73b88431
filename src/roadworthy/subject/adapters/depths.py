"""Layers by depth: which of a model's layers with weights stand for "early", "middle" and "late", whatever it calls them.

A share of the way through k layers is reached in layer number ceil(share k), counted from 1: of five layers these are the
second, the third and the fourth; of three the first, the second and the last; one layer is all three.

>>> by_depth(["conv1", "conv2", "conv3", "hidden", "logits"])
{'early': 'conv2', 'middle': 'conv3', 'late': 'hidden'}
>>> by_depth(["hidden", "logits"], taken=["hidden", "late", "logits"])
{'early': 'hidden', 'middle': 'hidden'}
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from roadworthy.subject.needs import EARLY, LATE, MIDDLE

SHARES = {EARLY: 0.25, MIDDLE: 0.5, LATE: 0.75}
"""How far through the model each name stands."""


def by_depth(layers: Sequence[str], *, taken: Collection[str] = ()) -> dict[str, str]:
    """The names of depths, with the layer that each stands for, from the layers with weights in order.

    A name that is `taken`, because a layer of the model bears it itself, stands for that layer alone and is left out. A model
    without such layers has no depths.
    """
    if not layers:
        return {}
    return {
        name: layers[math.ceil(share * len(layers)) - 1]
        for name, share in SHARES.items()
        if name not in taken
    }
