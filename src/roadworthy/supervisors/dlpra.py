"""The detectors of Torpmann-Hagen et al. 2025 (DL-PRA), as its authors define or compute them where
that is not the published method.

- table 2 prints GradNorm as |∇θ H|₂ (`dlpra_grad_entropy`); the authors' code takes the norm of the
  gradient by the *input* of the cross-entropy to all-ones targets (`dlpra_grad_norm`). `grad_norm`
  is the method of the paper they cite;
- table 2 prints the entropy (`softmax_entropy`); the code takes the cross-entropy to ones
  (`dlpra_entropy`);
- the nearest neighbour alone, of activations as they are (`dlpra_knn`); `knn` is the method of the
  paper they cite.

The seed gives these numbers to a threshold and prints no direction for them. Here higher is
riskier, as everywhere; each class says which way that is. What the seed calls energy and MSP are
`energy` and `max_softmax`.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> n = np.arange(2)
>>> rows = ModuleTrace(n, n, np.full(2, None), n, CLASS_SCORES, np.array([[0.5, 0.5], [0.9, 0.1]]))
>>> CrossEntropyToOnes().score(rows).round(3).tolist()
[-1.386, -2.408]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.subject.needs import PENULTIMATE, Gradient, Request
from roadworthy.supervisors.distance import Neighbourhood
from roadworthy.supervisors.outputs import log_softmax, logits
from roadworthy.supervisors.plain import PlainSupervisor


class _OfGradient(PlainSupervisor):
    """One number a row, reduced in the pass itself."""

    why = "it takes the gradient of a loss of class scores"


@register("supervisors", "dlpra_grad_norm")
class InputGradientNorm(_OfGradient):
    """Minus the norm of the input gradient of the cross-entropy to all-ones targets (Torpmann-Hagen
    et al. 2025, as coded).

    The gradient by the logits is C p - 1: nothing where all C classes are equally likely, and
    largest where one is certain. So a small norm is the risky one, as in the GradNorm that it is
    named after. (On the first 600 test images of the Fashion-MNIST example, errors against right
    answers: AUC 0.80 this way.)
    """

    needs: tuple[Request, ...] = (Gradient("ones_input"),)

    def risk(self, norms: np.ndarray) -> np.ndarray:
        """Minus the norm."""
        return -norms[:, 0]


@register("supervisors", "dlpra_grad_entropy")
class EntropyGradientNorm(_OfGradient):
    """The norm of the entropy's gradient by all parameters (Torpmann-Hagen et al. 2025, table 2 as
    printed).

    The gradient by the logits, -p (log p + H), vanishes where a class is certain, grows with doubt,
    and vanishes again where all classes are equally likely, which trained classifiers rarely
    answer. So a large norm is the risky one, but a row that is wholly undecided goes unseen. (On
    the first 600 test images of the Fashion-MNIST example, errors against right answers: AUC 0.82
    this way.)
    """

    needs: tuple[Request, ...] = (Gradient("entropy_parameters"),)

    def risk(self, norms: np.ndarray) -> np.ndarray:
        """The norm as it is."""
        return norms[:, 0].copy()


@register("supervisors", "dlpra_entropy")
class CrossEntropyToOnes(PlainSupervisor):
    """Minus the cross-entropy of the softmax to all-ones targets, Σ log p (Torpmann-Hagen et al.
    2025, as coded).

    Unlike an entropy, the cross-entropy to ones, -Σ log p, is smallest (C log C) where all classes
    are equally likely and grows without bound where one is certain. So a small one is the risky
    one, and it is turned.
    """

    def risk(self, scores: np.ndarray) -> np.ndarray:
        """Σ log p."""
        sums: np.ndarray = log_softmax(logits(scores)).sum(axis=1)
        return sums


@register("supervisors", "dlpra_knn")
class NearestNeighbour(Neighbourhood):
    """Distance to the nearest reference activation, as it is: not brought to length 1
    (Torpmann-Hagen et al. 2025, table 2).

    A far row is the risky one, in the seed as here.
    """

    name = "dlpra_knn"

    def __init__(
        self,
        *,
        layer: str = PENULTIMATE,
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(
            k=1, normalise=False, layer=layer, pool=pool, device=device, memory_mb=memory_mb
        )
