"""The source `ambiguous`: a data set of images between two classes, whose labels are distributions (Weiss et al. 2023).

It learns from labelled images, not from the subject. What it has trained and drawn is kept, so that
a second run, or a worker, finds it.

>>> _pairs([["Coat", "Shirt"], [1, 0]], ("Bag", "Shirt", "Coat"))
[(1, 2), (0, 1)]
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.cases.ambiguous.between_classes import Pair, fit_pairs, keep_arrays
from roadworthy.cases.generators import Drawing
from roadworthy.data.loaders.joining import label_indices
from roadworthy.data.samples import Dataset
from roadworthy.data.values import IMAGE, LABEL, Unreadable
from roadworthy.registry import register

TOGETHER = 6
"""Autoencoders that a processor trains and keeps at a time: more are hardly faster there, and an
interruption costs at most these."""


@register("sources", "ambiguous", of="image", learned_from="reference", extra=("torch", "torch"))
def ambiguous(
    data: Dataset,
    drawing: Drawing,
    *,
    pairs: list[list[str | int]] | None = None,
    autoencoders: int = 2,
    delta_max: float = 0.25,
    epochs: int | None = None,
    convolutional: bool = False,
    device: str = "cpu",
) -> Dataset:
    """Images between two classes, drawn from two-class autoencoders, with the probabilities of both classes as label."""
    if autoencoders < 1 or (epochs is not None and epochs < 1):
        raise ValueError(
            f"autoencoders is {autoencoders} and epochs {epochs}; 1 or more were expected"
        )
    if not 0 < delta_max <= 1:
        raise ValueError(f"delta_max is {delta_max:g}; above 0 and up to 1 was expected")
    if data.input_kind is not IMAGE or data.target_kind is not LABEL:
        target = data.target_kind.name if data.target_kind else "no target"
        raise ValueError(
            f"ambiguous learns from images with class labels; {data.name} has {data.input_kind.name} and {target}"
        )
    names = data.classes or tuple(map(str, range(int(np.asarray(data.targets).max()) + 1)))
    chosen = _pairs(pairs, names)
    made = (
        data.fingerprint, chosen, autoencoders, delta_max, epochs, convolutional, device, drawing[:2]
    )  # fmt: skip
    key = hashlib.blake2b(repr(made).encode(), digest_size=8).hexdigest()
    file = drawing.keep / f"ambiguous-{key}.npz"
    if not file.exists():
        from roadworthy.generative.raae import CONVOLUTIONAL, Form  # torch is needed here alone

        fitted = fit_pairs(
            *_pictures(data), len(names), pairs=chosen, autoencoders=autoencoders, epochs=epochs,
            form=CONVOLUTIONAL if convolutional else Form(), seed=drawing.seed, device=device, names=names, keep=drawing.keep,
            together=TOGETHER if device == "cpu" else None, progress=drawing.progress,
        )  # fmt: skip
        cases = fitted.draw(drawing.n, np.random.default_rng(drawing.seed), delta_max=delta_max)
        nothing = json.dumps([[*pair, why] for pair, why in cases.nothing.items()])
        arrays = {name: getattr(cases, name) for name in ("images", "probabilities", "pair")}
        keep_arrays(file, {**arrays, "nothing": np.array(nothing)})
    with np.load(file, allow_pickle=False) as kept:
        between = [f"{names[a]} / {names[b]}" for a, b in kept["pair"]]
        return Dataset(
            "ambiguous",
            IMAGE,
            kept["images"],
            metadata={"pair": np.array(between, dtype=object)},
            classes=data.classes,
            source=f"drawn by ambiguous, learned from {data.source}",
            licence=data.licence,
            notes=tuple(_notes(json.loads(str(kept["nothing"])), names)),
            probabilities=kept["probabilities"],
        )


def _pictures(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Images of one size, and their labels; images that cannot be read are left out."""
    items, labels = data.inputs[:], np.asarray(data.targets)
    rows = [
        i for i, item in enumerate(items) if not isinstance(item, Unreadable) and labels[i] >= 0
    ]
    shapes = list(dict.fromkeys(np.shape(items[i]) for i in rows))
    if len(shapes) != 1:
        sizes = " and ".join(" x ".join(map(str, shape)) for shape in shapes[:2]) or "none"
        raise ValueError(
            f"ambiguous learns from images of one size; {data.name} has several ({sizes}). Resize them"
        )
    return np.stack([np.asarray(items[i]) for i in rows]), labels[rows]


def _pairs(given: Sequence[Sequence[str | int]] | None, names: tuple[str, ...]) -> list[Pair]:
    """The pairs of classes, by name or position, each in order; all of them unless some are given."""
    if given is None:
        return list(itertools.combinations(range(len(names)), 2))
    if not given:
        raise ValueError("pairs is empty; name pairs of classes, or leave it out for all of them")
    found = []
    for pair in given:
        places = label_indices(list(map(str, pair)), names, where=lambda at: "pairs")
        if len(pair) != 2 or len(set(places.tolist())) != 2:
            raise ValueError(f"pairs: {list(pair)} was found; two classes were expected, as [3, 8]")
        found.append((int(places.min()), int(places.max())))
    return list(dict.fromkeys(found))


def _notes(nothing: Sequence[Any], names: tuple[str, ...]) -> list[str]:
    """Which pairs produced nothing and why, those of one reason together."""
    by: dict[str, list[str]] = {}
    for first, second, why in nothing:
        by.setdefault(why, []).append(f"{names[first]} and {names[second]}")
    return [f"no case between {'; '.join(found)}: {why}" for why, found in by.items()]
