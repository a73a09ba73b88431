"""Transforms of images in the form of a MAITE augmentation; the package itself is not needed.

>>> from roadworthy.data.values import Boxes
>>> augmentation = MaiteAugmentation("gaussian_noise", level=3)
>>> batch = [np.full((3, 8, 6), 128, np.uint8)], [Boxes.of([[0, 0, 4, 2]])], [{"id": "a"}]
>>> images, targets, abouts = augmentation(batch)
>>> images[0].shape, images[0].dtype.name, targets[0].boxes.tolist(), abouts[0]["roadworthy"]["level"]
((3, 8, 6), 'uint8', [[0.0, 0.0, 4.0, 2.0]], 3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.cases.transform import Transform, at_level
from roadworthy.data.maite import channels_first, channels_last, judged, maite_boxes
from roadworthy.data.values import IMAGE

Batch = tuple[Sequence[Any], Sequence[Any], Sequence[Mapping[str, Any]]]


class MaiteAugmentation:
    """A transform of images at a level, or with its parameters: ``MaiteAugmentation("fog", level=3)``.

    What is random depends on `seed` and the datum's id alone. Boxes move with the picture; an object of which too little
    is left to see is left out. What was done stands in the datum's metadata under `roadworthy`.
    """

    def __init__(
        self,
        transform: str,
        *,
        level: int | None = None,
        table: str | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        if (level is None) != bool(parameters):
            raise ValueError(f"{transform}: give a level or its parameters, not both")
        made = Transform(transform, parameters)
        self.transform = made if level is None else at_level(transform, level, table=table)
        if self.transform.kind is not IMAGE:
            raise ValueError(f"{transform} changes {self.transform.kind.name}, not images")
        self.transform.prepare()
        self.seed = seed
        how = parameters if level is None else level
        self.metadata = {"id": f"roadworthy {transform} {how}"}

    def __call__(self, batch: Batch, /) -> tuple[list[np.ndarray], list[Any], list[dict[str, Any]]]:
        made = [self._changed(*datum) for datum in zip(*batch, strict=True)]
        return [image for image, _, _ in made], [t for _, t, _ in made], [a for _, _, a in made]

    def _changed(
        self, image: Any, target: Any, about: Mapping[str, Any]
    ) -> tuple[np.ndarray, Any, dict[str, Any]]:
        pixels, case = channels_last(image), str(about["id"])
        warp = self.transform.warp(pixels.shape, self.seed, case)
        if warp is not None:
            target = judged(warp.target(maite_boxes(target, where=f"the target of {case!r}")))
        t = self.transform
        done = {"transform": t.name, "level": t.level, "table": t.table, "seed": self.seed}
        changed = channels_first(t.at_step(pixels, self.seed, case))
        return changed, target, {**about, "roadworthy": {**done, "parameters": dict(t.parameters)}}
