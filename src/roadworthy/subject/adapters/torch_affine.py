"""Whether a torch model's scores are a linear function (and a constant) of what some layer gives or is given.

Formulas of the last layer, z = W f + b, hold where they are, and not for a layer that divides by lengths (a cosine head) or bends
its input in another way. So the model is run on noise with other activations put in that place: with a and b, two activations whose
numbers were shuffled so that they point elsewhere, linear scores give z((a + b)/2) = (z(a) + z(b))/2, z(2a - b) = 2 z(a) - z(b)
and z(a + b) + z(a) = z(2a) + z(b). Scores are taken around the row's mean, and probabilities as their logarithms.

>>> import torch
>>> from torch import nn
>>> net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1))
>>> noise = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
>>> def bent(layer, entering):
...     return departure(net, layer, noise, lambda raw: raw.numpy(), entering=entering) > BENT
>>> bent(net[2], True), bent(net[0], False)
(False, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from roadworthy.data.scores import distributions

BENT = 0.05
"""The root mean square by which the equations fail, as a share of the scores' spread, from which they are not linear: rounding to 8
bits leaves a hundredth, and a cosine head half of it or more."""
VANISHED = 1e-30
"""Probabilities below have lost their logarithm."""


def departure(
    run: Callable[[Any], Any],
    layer: Any,
    batch: Any,
    read: Callable[[Any], np.ndarray],
    *,
    entering: bool,
) -> float:
    """How far the scores are from linear in what enters the layer, or else leaves it; NaN where that cannot be told."""
    import torch

    with torch.no_grad():
        a = _activation(run, layer, batch, entering=entering)
        shuffled = torch.randperm(a[0].numel(), generator=torch.Generator().manual_seed(0)).to(
            a.device
        )
        b = a.flatten(1)[:, shuffled].view_as(a)

        def scores(put: Any) -> np.ndarray:
            hook = _putting(layer, put, entering=entering)
            try:
                return _logits(read(run(batch.clone())))
            finally:
                hook.remove()

        z_a, z_b = scores(a), scores(b)
        failures = [
            scores((a + b) / 2) - (z_a + z_b) / 2,
            scores(2 * a - b) - (2 * z_a - z_b),
            scores(a + b) + z_a - scores(2 * a) - z_b,
        ]
    spread = float(np.sqrt(np.mean(np.square(z_a - z_b))))
    return float(np.sqrt(np.mean(np.square(failures)))) / spread if spread > 0 else float("nan")


def _logits(scores: np.ndarray) -> np.ndarray:
    """Around the row's mean, as a constant of a row changes no probability."""
    z = np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)
    if distributions(z).all():
        z = np.log(np.where(z > VANISHED, z, np.nan))
    centred: np.ndarray = z - z.mean(axis=1, keepdims=True)
    return centred


def _activation(run: Callable[[Any], Any], layer: Any, batch: Any, *, entering: bool) -> Any:
    kept: list[Any] = []

    def keep(value: Any) -> None:
        kept.append(value.clone())

    hook = (
        layer.register_forward_pre_hook(lambda _, given: keep(given[0]))
        if entering
        else layer.register_forward_hook(lambda _, given, made: keep(made))
    )
    try:
        run(batch.clone())
    finally:
        hook.remove()
    return kept[-1]


def _putting(layer: Any, value: Any, *, entering: bool) -> Any:
    """A hook that puts this in the place of what enters or leaves the layer."""
    if entering:
        return layer.register_forward_pre_hook(lambda _, given: (value.clone(), *given[1:]))
    return layer.register_forward_hook(lambda _, given, made: value.clone())
