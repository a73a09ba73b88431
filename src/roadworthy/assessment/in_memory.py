"""A model and arrays as a subject and its test data: ``roadworthy.assess(model, X, y)``.

A classifier like scikit-learn's (`predict_proba`, or `predict` and `classes_`), one that predicts numbers, or any callable
of one input or of many; or a detector and its data in the form of MAITE. Nothing is known of what a model in memory holds,
so its answers are not kept for another process.

>>> y = np.array(["cat", "dog"])
>>> subject, data = in_memory(lambda x: [1.0, 0.0], np.zeros((2, 4)), y)
>>> data.classes, data.targets.tolist(), subject.input_kind.name
(('cat', 'dog'), [0, 1], 'vector')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.data.loaders.joining import in_order
from roadworthy.data.maite import index_to_label, read_maite
from roadworthy.data.samples import DataError, Dataset
from roadworthy.data.values import CLASS_SCORES, IMAGE, LABEL, VECTOR
from roadworthy.subject.adapters.maite import is_maite_model, maite_module
from roadworthy.subject.module import SubjectError, function_module, own_classes
from roadworthy.subject.system import System, single

IN_MEMORY = "memory.py:model"
"""The subject of a run in its assessment file, where no file holds it."""


def in_memory(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    groups: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
) -> tuple[System, Dataset]:
    """The subject and the test data."""
    inputs, truth = np.asarray(X), np.asarray(y)
    if inputs.ndim not in (2, 3, 4) or truth.ndim != 1 or len(inputs) != len(truth):
        raise DataError(
            f"X has the shape {inputs.shape} and y {truth.shape}; expected rows (n, k) or images (n, h, w[, c]), "
            "and one target a row"
        )
    kind = VECTOR if inputs.ndim == 2 else IMAGE
    numbers = truth.dtype.kind == "f" and not hasattr(model, "predict_proba")
    module = function_module(
        _answering(model, numbers, classes),
        outputs={"output": VECTOR if numbers else CLASS_SCORES},
        batched=True,
    )
    common: dict[str, Any] = {
        "groups": None if groups is None else np.array([str(g) for g in groups], object)
    }
    if numbers:
        data = Dataset(
            "in memory", kind, inputs, VECTOR, truth[:, None].astype(np.float64), **common
        )
    else:
        words = [str(label) for label in truth.tolist()]
        names = in_order(words)
        targets = np.array([names.index(word) for word in words], dtype=np.int64)
        data = Dataset("in memory", kind, inputs, LABEL, targets, classes=names, **common)
    return single(module, kind), data


def of_maite(
    model: Any,
    data: Mapping[str, Any],
    groups: str | Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
) -> tuple[System, dict[str, Dataset]]:
    """A detector and its data by role, in the form of MAITE; `groups` are those of the test data, or a key of metadata."""
    if not is_maite_model(model):
        raise SubjectError(
            f"{type(model).__name__} is no MAITE model; a callable with `metadata` was expected beside a MAITE data set"
        )
    stated = dict(enumerate(map(str, classes or ())))
    names = index_to_label(model) or stated or index_to_label(data["test"])
    sets = {}
    for role, found in data.items():
        by = groups if role == "test" or isinstance(groups, str) else None
        own = isinstance(found, Dataset)
        sets[role] = found if own else read_maite(found, role, names=names, groups=by)
    return single(maite_module(model, names=names), IMAGE), sets


def _answering(model: Any, numbers: bool, classes: Sequence[Any] | None) -> Callable[..., Any]:
    """A function of many inputs; the classes of the model go with it."""
    whole = getattr(model, "predict", None) if numbers else _scoring(model)
    if whole is None and not callable(model):
        raise SubjectError(
            f"{type(model).__name__} has no predict_proba, and cannot be called; give a classifier, or a function"
        )
    whole = whole or _Callable(model, getattr(model, "batched", None))

    def answer(inputs: Any) -> Any:
        found = whole(np.asarray(inputs))
        return found if isinstance(found, list) else np.asarray(found).reshape(len(found), -1)

    own = own_classes(model)
    if classes is not None or own is not None:
        names = list(map(str, classes)) if classes is not None else own.names  # type: ignore[union-attr]
        answer.classes_ = names  # type: ignore[attr-defined]
    return answer


def _scoring(model: Any) -> Callable[[Any], Any] | None:
    """What gives the class scores of many inputs; 1 for the predicted class where there are no others."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba  # type: ignore[no-any-return]
    if hasattr(model, "predict") and hasattr(model, "classes_"):
        return lambda X: np.equal.outer(np.asarray(model.predict(X)), model.classes_) * 1.0
    return None


@dataclass
class _Callable:
    """A function of one input, or of many: of many if it fails on the first alone and not on all."""

    model: Any
    many: bool | None

    def __call__(self, inputs: Any) -> Any:
        if self.many is None and len(inputs) > 1:
            self.many = _fails(self.model, inputs[0]) and not _fails(self.model, inputs)
        return self.model(inputs) if self.many else [self.model(row) for row in inputs]


def _fails(model: Any, given: Any) -> bool:
    try:
        model(given)
    except Exception:
        return True
    return False
