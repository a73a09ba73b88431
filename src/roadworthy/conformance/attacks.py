"""Attacks: pixels stay in range and within epsilon, a case is its own, and noise does no better.

They are tried on a tiny torch network and on labels that are its own answers.

>>> from roadworthy.registry import get
>>> list(images_are_never_changed(get("attacks", "fgsm")))
[]
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from roadworthy.conformance.rule import Rule, required_parameters
from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import Component
from roadworthy.search.gradient import wrong
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule

ROUNDING = 1e-6
"""How far float32 may leave a pixel from where it belongs."""
ROWS, SIDE, CLASSES = 12, 8, 3


class Attacked(NamedTuple):
    """What attacks are tried on."""

    images: Any
    labels: Any
    query: Any


def declares_valid_levels(component: Component) -> Iterator[str]:
    """`tables={name: [parameters of level 1, …]}`, or a default for every parameter."""
    tables = component.traits.get("tables", {})
    if not tables and required_parameters(component):
        yield f"it has no table of levels, and {required_parameters(component)} has no default"
    for table, rows in tables.items():
        for level, row in enumerate(rows, start=1):
            try:
                component.check(row)
            except ValueError as error:
                yield f"level {level} of the table {table!r}: {str(error).splitlines()[0]}"


def pixels_stay_in_range_and_within_epsilon(component: Component) -> Iterator[str]:
    """An attack that moves further than it says, or beyond black and white, is another attack."""
    for at, parameters in _settings(component):
        tried = _tried()
        made = _made(component, parameters, tried)
        if made.shape != tried.images.shape or made.dtype != tried.images.dtype:
            yield f"{at}: it turned {_described(tried.images)} into {_described(made)}"
            continue
        least, most = float(made.min()), float(made.max())
        if not (least >= 0 and most <= 1):
            yield f"{at}: pixels from {least:g} to {most:g}; 0 to 1 was expected"
        moved, epsilon = _size(made - tried.images, parameters), parameters.get("epsilon", np.inf)
        if float(moved.max()) > epsilon + ROUNDING:
            yield f"{at}: an image moved by {float(moved.max()):g}, further than epsilon {epsilon:g}"


def images_are_never_changed(component: Component) -> Iterator[str]:
    """The clean case is still needed."""
    for at, parameters in _settings(component):
        tried = _tried()
        _made(component, parameters, tried)
        if not tried.images.equal(_tried().images):
            yield f"{at}: it changed its images in place"


def a_case_is_the_same_in_any_batch(component: Component) -> Iterator[str]:
    """The same generator gives the same case: again, and in a batch of its own."""
    for at, parameters in _settings(component):
        tried = _tried()
        made = _made(component, parameters, tried)
        if not made.equal(_made(component, parameters, tried)):
            yield f"{at}: it gave two results with the same generators"
        for row in range(0, ROWS, 5):
            alone = _made(component, parameters, tried, slice(row, row + 1))
            if float((alone[0] - made[row]).abs().max()) > ROUNDING:
                yield f"{at}: an image is attacked otherwise alone than among others"
                break


def at_least_as_successful_as_noise(component: Component) -> Iterator[str]:
    """Random changes of the same size, image by image, must not find more wrong answers."""
    import torch

    for at, parameters in _settings(component):
        tried = _tried()
        made = _made(component, parameters, tried)
        sizes = _size(made - tried.images, parameters)
        random = torch.from_numpy(np.random.default_rng(0).normal(size=made.shape)).to(made)
        moved = random.sign() if parameters.get("norm") == "linf" else random
        noise = moved * (sizes / _size(moved, parameters)).reshape(-1, 1, 1)
        by_noise = wrong((tried.images + noise).clamp(0, 1), tried.labels, tried.query).sum()
        by_attack = wrong(made, tried.labels, tried.query).sum()
        if by_attack < by_noise:
            yield f"{at}: {by_attack} of {ROWS} answers became wrong, and {by_noise} by noise"


RULES: tuple[Rule, ...] = (
    declares_valid_levels,
    pixels_stay_in_range_and_within_epsilon,
    images_are_never_changed,
    a_case_is_the_same_in_any_batch,
    at_least_as_successful_as_noise,
)


@functools.cache
def _network() -> Any:
    """A smooth network of fixed weights, in float64: sums in another order change nothing here."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.Tanh(), nn.Linear(16, CLASSES)
        )
    prepare = InputPreparation(dtype="float64", mean=0.5, std=0.25)
    return TorchModule(model.double().eval(), CLASS_SCORES, prepare).query()


def _tried() -> Attacked:
    """Images made anew, labelled as the network answers them."""
    import torch

    pixels = np.random.default_rng(1).uniform(0, 1, (ROWS, SIDE, SIDE)).astype(np.float32)
    images, query = torch.from_numpy(pixels), _network()
    return Attacked(images, query.scores(images).argmax(1), query)


def _made(
    component: Component, parameters: dict[str, Any], tried: Attacked, rows: slice = slice(None)
) -> Any:
    rngs = [generator(0, row) for row in range(ROWS)][rows]
    attack = component.bind(**parameters)
    return attack(tried.images[rows], tried.labels[rows], tried.query, rngs)


def _settings(component: Component) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every level of every table (or the defaults), in each norm that it takes."""
    tables = component.traits.get("tables", {})
    given = [
        (f"level {level} of {table!r}", dict(row))
        for table, rows in tables.items()
        for level, row in enumerate(rows, start=1)
    ]
    for at, row in given or [("with its defaults", {})]:
        for norm in ("linf", "l2") if "norm" in component.parameters else ("linf",):
            more = {"norm": norm} if "norm" in component.parameters else {}
            yield f"{at}, {norm}", {**row, **more}


def _size(moved: Any, parameters: dict[str, Any]) -> Any:
    """How far each image moved, in the attack's norm."""
    flat = moved.double().flatten(1)
    return flat.norm(dim=1) if parameters.get("norm") == "l2" else flat.abs().amax(1)


def _described(images: Any) -> str:
    return f"{images.dtype} of shape {tuple(images.shape)}"
