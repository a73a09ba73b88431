"""A detector in the form of MAITE as a subject: a callable of many images (channels, height, width) with `metadata`.

>>> import numpy as np
>>> class Model:
...     metadata = {"id": "whole image", "index2label": {1: "cat", 7: "dog"}}
...     def __call__(self, images):
...         return [Boxes.of([[0, 0, *i.shape[:0:-1]]], labels=[7]) for i in images]
>>> module = maite_module(Model())
>>> module.classes.names, module.function([np.zeros((8, 6, 3), np.uint8)])[0].labels.tolist()
(('cat', 'dog'), [1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roadworthy.data.maite import channels_first, index_to_label, maite_boxes
from roadworthy.data.values import BOXES, Boxes
from roadworthy.subject.adapters.image_models import spans
from roadworthy.subject.module import FunctionModule, SubjectError, function_module

BATCH = 16
"""Images in one call."""


def is_maite_model(found: Any) -> bool:
    """Whether it has the form of a MAITE model."""
    return callable(found) and isinstance(getattr(found, "metadata", None), Mapping)


def maite_module(
    model: Any, *, names: Mapping[int, str] | None = None, mark: str = ""
) -> FunctionModule:
    """The model as a module; `names` are those of its labels if its metadata has none."""
    answering = _Answering(model, index_to_label(model) or names or {})
    return function_module(answering, outputs={"output": BOXES}, batched=True, mark=mark)


@dataclass(frozen=True)
class _Answering:
    model: Any
    names: Mapping[int, str]

    @property
    def classes_(self) -> Sequence[str] | None:
        return tuple(self.names.values()) or None

    def __call__(self, images: Any) -> list[Boxes]:
        found: list[Boxes] = []
        for span in spans(len(images), BATCH):
            given = [channels_first(image) for image in images[span]]
            answers = list(self.model(given))
            if len(answers) != len(given):
                raise SubjectError(
                    f"the model answered {len(given)} images with {len(answers)} targets"
                )
            found += [maite_boxes(a, self.names, where="the model's answer") for a in answers]
        return found
