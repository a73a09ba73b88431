"""Attacks: pixels stay in range and within epsilon, a case is its own, and noise does no better.

>>> from roadworthy.registry import get
>>> list(a_case_is_its_own(get("attacks", "fgsm")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.conformance.rule import Rule, declares_valid_levels
from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import Component
from roadworthy.search.gradient import answered_right
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule

ROWS, SIDE = 12, 8
ROUNDING = 1e-6  # how far float32 may leave a pixel from where it belongs


def pixels_stay_in_range_and_within_epsilon(component: Component) -> Iterator[str]:
    """An attack that moves further than it says, or beyond black and white, is another attack."""
    for given, attack in _tries(component):
        images, made = _images(), _made(attack, _images())
        if made.shape != images.shape or made.dtype != images.dtype:
            yield f"{given}: {images.dtype} {images.shape} became {made.dtype} {made.shape}"
            return
        order = 2 if given.get("norm") == "l2" else float("inf")
        farthest = (made - images).double().flatten(1).norm(order, dim=1).max()
        if not (made.min() >= 0 and made.max() <= 1):
            yield f"{given}: pixels from {made.min():g} to {made.max():g}; 0 to 1 was expected"
        if not farthest <= given.get("epsilon", float("inf")) + ROUNDING:
            yield f"{given}: an image moved by {farthest:g}"


def a_case_is_its_own(component: Component) -> Iterator[str]:
    """The same generator gives the same case, in a batch of its own too; the clean one stays."""
    for given, attack in _tries(component):
        images = _images()
        made = _made(attack, images)
        if not images.equal(_images()):
            yield f"{given}: it changed its images in place"
        if not made.equal(_made(attack, _images())):
            yield f"{given}: it gave two results with the same generators"
        if not (_made(attack, _images(), slice(5, 6))[0] - made[5]).abs().max() <= ROUNDING:
            yield f"{given}: an image is attacked otherwise alone than among others"


def at_least_as_successful_as_noise(component: Component) -> Iterator[str]:
    """Random changes of the same length, image by image, must not make more answers wrong."""
    import torch

    for given, attack in _tries(component):
        images, made, query = _images(), _made(attack, _images()), _network()
        noise = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], made.shape))
        length = (made - images).flatten(1).norm(dim=1).reshape(-1, 1, 1) / SIDE
        labels, noisy = query.scores(images).argmax(1), (images + noise * length).clamp(0, 1)
        right = [int(answered_right(x, labels, query).sum()) for x in (made, noisy)]
        if right[0] > right[1]:
            yield f"{given}: {right[0]} of {ROWS} answers stay right, and {right[1]} with noise"


def _network() -> Any:
    """Smooth and in float64: sums in another order change nothing here."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.Tanh(), nn.Linear(16, 3)
    model = nn.Sequential(*layers).double().eval()
    return TorchModule(model, CLASS_SCORES, InputPreparation(dtype="float64", std=0.25)).query()


def _images() -> Any:
    import torch

    return torch.from_numpy(np.random.default_rng(1).random((ROWS, SIDE, SIDE), np.float32))


def _made(attack: Any, images: Any, some: slice = slice(None)) -> Any:
    query, rngs = _network(), [generator(0, row) for row in range(ROWS)]
    labels = query.scores(_images()).argmax(1)
    return attack(images[some], labels[some], query, rngs[some])


def _tries(component: Component) -> Iterator[tuple[dict[str, Any], Any]]:
    """Every level of every table (or the defaults) in each norm, and the attack with it."""
    norms: Any = [{"norm": n} for n in ("linf", "l2") if "norm" in component.parameters] or [{}]
    rows = [row for table in component.traits.get("tables", {}).values() for row in table] or [{}]
    for given in ({**row, **norm} for row in rows for norm in norms):
        yield given, component.bind(**given)


RULES: tuple[Rule, ...] = (
    declares_valid_levels,
    pixels_stay_in_range_and_within_epsilon,
    a_case_is_its_own,
    at_least_as_successful_as_noise,
)
