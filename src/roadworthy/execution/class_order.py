"""Which class each output of a subject stands for, and who said so.

The order comes from ``subject: classes``, else from the subject itself (an attribute `classes_`, names in an
ONNX file, in a server's metadata or in the header of a predictions file), else from ``data: classes``, else
from the labels: whole numbers are positions, or in numeric order where folders are named so; other names are
sorted as text. An order that only comes from the labels is inferred, and checked against the answers.

The labels of a detector's boxes are read in the same order, but it is not checked against the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.analysis.class_order import suspected_order
from roadworthy.data.samples import UNLABELLED, Dataset
from roadworthy.data.values import BOXES, CLASS_SCORES, LABEL, Boxes
from roadworthy.measures.classification import predicted
from roadworthy.measures.detection import match
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment
from roadworthy.subject.system import System

SHOWN = 4
MISMATCH = 0.2
"""Share of boxes on objects whose class is right, below which the order of classes is doubted."""


@dataclass(frozen=True)
class ClassOrder:
    """Output positions and the classes they stand for."""

    names: tuple[str, ...]
    """Position to class; empty where labels are positions and have no names."""
    source: str
    given: bool
    """Whether the subject or the file says it; else it is inferred from the labels."""
    outputs: int | None = None
    """How many outputs the subject must have; fewer than names where the file lists a class it does not know."""
    notes: tuple[str, ...] = ()


def class_order(
    spec: Assessment, system: System, sets: Mapping[str, Dataset]
) -> tuple[ClassOrder | None, dict[str, Dataset]]:
    """The order, and the data sets with their labels in it; None for a subject that gives no classes."""
    test = sets["test"]
    kinds = system.output_kind, test.target_kind
    if kinds not in ((CLASS_SCORES, LABEL), (BOXES, BOXES)):
        return None, dict(sets)
    stated, own = spec.classes, system.classes
    listed = tuple(map(str, spec.data.classes or spec.data.test.get("classes") or ()))
    if stated and own and set(stated) != set(own.names):
        odd = min(set(stated) ^ set(own.names))
        raise spec.error(
            ("subject", "classes"),
            f"{odd!r} is in one of two lists: this one and the subject's own ({own.source}): {few(own.names)}",
        )
    known = stated or (own.names if own else ())
    if not known:
        _refuse_labels_beyond(spec, system, test.classes)
        return None if test.target_kind is BOXES else _of_data(test, listed), dict(sets)
    source = "`classes` under `subject`" if stated else own.source if own else ""
    labels = listed or tuple(test.classes or ())
    extra = tuple(name for name in listed if name not in known)
    notes = [
        f"Two class orders: {source} counts, not {other}"
        for other, names in (
            (own.source if own and stated else "", own.names if own else ()),
            ("`data.classes`", listed),
        )
        if other and _reordered(known, names)
    ]
    absent = [name for name in known if labels and name not in labels]
    if absent:
        notes.append(f"No case of {few(absent)} in the test data; the subject knows the class")
    order = ClassOrder((*known, *extra), source, True, len(known), tuple(notes))
    _refuse_labels_beyond(spec, system, known)
    return order, {role: _aligned(spec, role, data, order) for role, data in sets.items()}


def _refuse_labels_beyond(spec: Assessment, system: System, classes: Sequence[str] | None) -> None:
    """Refuse boxes in files of predictions whose label is no class."""
    for module in system.modules.values():
        if classes and hasattr(module, "label_beyond") and (found := module.label_beyond(classes)):
            raise spec.error(("subject", spec.adapter), found)


def _of_data(test: Dataset, listed: tuple[str, ...]) -> ClassOrder:
    if listed:
        return ClassOrder(listed, "`data.classes`", True, len(listed))
    if not test.classes:
        return ClassOrder((), "labels of the test data are output positions", given=False)
    numeric = all(name.isdecimal() for name in test.classes)
    how = "in numeric order" if numeric else "in the order of the data set"
    if test.classes == tuple(sorted(test.classes)) and not numeric:
        how = "sorted as text"
    note = f"Class order inferred: labels of the test data, {how}. State it with subject: classes."
    source = f"labels of the test data, {how}"
    return ClassOrder(test.classes, source, False, len(test.classes), (note,))


def _reordered(known: Sequence[str], other: Sequence[str]) -> bool:
    common = [name for name in other if name in known]
    return common != [name for name in known if name in common]


def _aligned(spec: Assessment, role: str, data: Dataset, order: ClassOrder) -> Dataset:
    """The data set with its labels as positions in the order."""
    if data.target_kind not in (LABEL, BOXES) or data.targets is None:
        return replace(data, classes=tuple(order.names))
    boxes = BOXES.pack(list(data.targets)) if data.target_kind is BOXES else None
    labels = np.asarray(data.targets) if boxes is None else boxes["labels"]
    chances = data.probabilities
    places = list(range(len(order.names)))
    if data.classes is None and not all(name.isdecimal() for name in order.names):
        names: Sequence[str] = order.names  # whole numbers are positions
        if chances is not None:
            _refuse_chances_beyond(spec, role, data, len(names))
    else:
        present = np.unique(labels[labels != UNLABELLED]).tolist()
        if chances is not None:
            present = np.union1d(present, np.flatnonzero(chances.any(axis=0))).astype(int).tolist()
        names = data.classes or [str(i) for i in range(max(present, default=-1) + 1)]
        unknown = [names[i] for i in present if names[i] not in order.names]
        if unknown:
            place = ("data", role) if role in spec.data.roles() else ("data",)
            empty = " If the row has no label, leave the cell empty." * (role == "operational")
            raise spec.error(
                place,
                f"the label {unknown[0]!r} is none of the subject's classes ({order.source}): {few(order.names)}"
                f"{did_you_mean(unknown[0], order.names)}; correct it, or list it under data: classes, "
                f"where every answer to it is wrong.{empty}",
            )
        place_of = {name: i for i, name in enumerate(order.names)}
        # The last entry is what a row without a label, -1, picks.
        places = [*(place_of.get(name, UNLABELLED) for name in names), UNLABELLED]
        labels = np.array(places, dtype=np.int64)[labels]
    if boxes is None:
        if chances is not None:
            chances = _moved_columns(chances, places, len(order.names))
        return replace(data, targets=labels, classes=tuple(order.names), probabilities=chances)
    moved = BOXES.unpack({**boxes, "labels": labels})
    return replace(data, targets=moved, classes=tuple(order.names))


def _refuse_chances_beyond(spec: Assessment, role: str, data: Dataset, width: int) -> None:
    """Refuse label probabilities of classes that the subject has no output for."""
    assert data.probabilities is not None
    rows, beyond = np.nonzero(data.probabilities[:, width:])
    if len(rows):
        raise spec.error(
            ("data", role) if role in spec.data.roles() else ("data",),
            f"The subject gives {width} scores a case, and the label of sample {data.ids[rows[0]]!r} has a probability "
            f"for class {width + beyond[0]}; correct the label, or name the outputs, in their order, under subject: classes",
        )


def _moved_columns(chances: np.ndarray, places: Sequence[int], width: int) -> np.ndarray:
    """Label probabilities with each column at the place of its class."""
    moved = np.zeros((len(chances), width))
    for at in range(min(chances.shape[1], len(places))):
        if places[at] != UNLABELLED:
            moved[:, places[at]] = chances[:, at]
    return moved


def few(names: Sequence[str]) -> str:
    """The first of many names."""
    shown = ", ".join(names[:SHOWN])
    return shown + (f", … ({len(names)} classes)" if len(names) > SHOWN else "")


def check_class_order(
    spec: Assessment, order: ClassOrder, scores: np.ndarray, test: Dataset
) -> list[str]:
    """Refuse outputs that cannot be these classes, or an inferred order that the answers contradict; warnings.

    `scores` are the answers to the clean test cases, a row a case; rows without an answer are NaN.
    """
    labels = np.asarray(test.targets)
    width = scores.shape[1]
    if not width:
        return []
    _check_width(spec, order, width, test)
    answered = predicted(scores)
    given = np.unique(answered[answered >= 0])
    if len(given) == 1 and len(np.unique(labels)) > 1:
        return [f"Every answer is {_name(order, int(given[0]))}, whatever the case."]
    found = suspected_order(answered, labels, width, test.groups)
    if found is None:
        return []
    names = [_name(order, i) for i in found.classes]
    shares = f"{found.accuracy:.1%} of the answers are right as read, {found.suspected:.1%}"
    if order.given or not found.clear:
        return [
            f"Check the class order ({order.source}): {shares} with classes: [{', '.join(names)}]."
        ]
    raise spec.error(
        ("data", "test"),
        f"The class order is inferred ({order.source}) and looks wrong: {shares} with another. "
        f"If the outputs are in the suspected order, write under subject: classes: [{', '.join(names)}]. "
        f"If the order is right, write under data: classes: [{', '.join(_name(order, i) for i in range(width))}].",
    )


def check_box_classes(
    spec: Assessment, answers: Sequence[Boxes | None], test: Dataset
) -> list[str]:
    """Refuse labels beyond the classes; warn if boxes lie on objects and their classes do not match."""
    names = test.classes or ()
    if not names or not isinstance(test.targets, Sequence):
        return []
    for case, found in zip(test.ids, answers, strict=True):
        if found is None:
            continue
        beyond = found.labels[(found.labels < 0) | (found.labels >= len(names))]
        if len(beyond):
            raise spec.error(
                ("subject",),
                f"the answer to case {case!r} has the label {int(beyond[0])}; labels are 0 to "
                f"{len(names) - 1}, for {few(names)} in this order",
            )
    if len(names) == 1:
        return []
    plain = [None if a is None else replace(a, labels=np.zeros_like(a.labels)) for a in answers]
    truth = [replace(t, labels=np.zeros_like(t.labels)) for t in test.targets]
    lies = match(plain, truth).counts(0.0).found.sum()
    right = match(answers, list(test.targets)).counts(0.0).found.sum()
    if right >= MISMATCH * lies:
        return []
    return [
        f"{lies:.0f} boxes lie on an object, {right:.0f} of them with its class. Check the order of "
        f"classes: labels 0 to {len(names) - 1} are {few(names)}. Set `data.classes` to the subject's."
    ]


def _name(order: ClassOrder, position: int) -> str:
    return order.names[position] if order.names else str(position)


def _check_width(spec: Assessment, order: ClassOrder, width: int, test: Dataset) -> None:
    """Outputs and classes are of one number."""
    labels = np.asarray(test.targets)
    if order.outputs is None:
        if test.probabilities is not None:
            _refuse_chances_beyond(spec, "test", test, width)
        low, high = int(labels.min()), int(labels.max())
        all_occur = 0 < high == len(np.unique(labels)) - 1
        if high + 1 == width or (high < width and not all_occur):
            return
        if high < width:
            found = f"The subject gives {width} scores a case, and the {high + 1} labels are 0 to {high}"
            cure = f"name all {width} outputs, in their order, under subject: classes"
            raise spec.error(("data", "test"), f"{found}; {cure}")
        first = test.ids[int(np.argmax(labels >= width))]
        label = int(labels[labels >= width][0])
        found = (
            f"The subject gives {width} scores a case, and sample {first!r} has the label {label}"
        )
        if low == 1 and high == width:
            found = f"Labels run from 1 to {high}, and the outputs' positions from 0 to {width - 1}"
            cure = f"write data: classes: [{', '.join(map(str, range(1, width + 1)))}]"
        else:
            cure = "correct the label, or name the outputs, in their order, under subject: classes"
        raise spec.error(("data", "test"), f"{found}; {cure}")
    if width == order.outputs:
        return
    raise spec.error(
        ("subject",),
        f"The subject gives {width} scores a case, and there are {order.outputs} classes "
        f"({order.source}): {few(order.names)}; "
        f"name all {width} outputs, in their order, under subject: classes",
    )
