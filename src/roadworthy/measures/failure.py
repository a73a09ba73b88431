"""What counts as a failure, as the assessment file says it: ``failure: {missed: lesion, iou: 0.3}``.

A criterion names one of these, and may narrow it by `where`, conditions on the metadata:

- ``{wrong: true}``: what the measure itself counts as wrong; the default;
- ``{error: {above: 0.2}}``: a per-case error above a bound;
- ``{confused: {truth: [a], with: [b]}}``: class scores that take one of some classes for one of others, and
  nothing else;
- ``{missed: lesion, iou: 0.3, min_score: 0.5}``: boxes that leave out an object of a class (a list of
  classes, or true for any).

A metadata column has one entry a case; for `missed` an entry may also list one value an object. No answer is
a failure under every criterion and every condition: nobody knows what it would have been.

>>> from roadworthy.measures.classification import accuracy
>>> scores, labels = np.eye(3)[[0, 1, 2]], np.array([0, 2, 1])
>>> only = {"confused": {"truth": ["stop"], "with": ["go"]}}
>>> failures(accuracy(scores, labels), scores, labels, only, classes=("wait", "stop", "go")).tolist()
[False, False, True]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.samples import Dataset
from roadworthy.data.values import LABEL, Boxes
from roadworthy.measures.scored import Scored, answered
from roadworthy.registry import did_you_mean

WRONG: Mapping[str, Any] = {"wrong": True}


class CriterionError(ValueError):
    """A failure criterion that cannot be read; the message says which key, and what would be right."""


class _Cases(NamedTuple):
    scored: Scored
    outputs: Any
    targets: Any
    classes: Sequence[str] | None
    metadata: Mapping[str, Any]


class _Criterion(NamedTuple):
    find: Callable[[_Cases, Mapping[str, Any]], np.ndarray]
    """Which cases fail."""
    options: tuple[str, ...] = ("where",)


def failures(
    scored: Scored,
    outputs: Any,
    targets: Any,
    criterion: Mapping[str, Any] | None = None,
    *,
    classes: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Which cases count as failures under a criterion."""
    wanted = WRONG if criterion is None else criterion
    name = check_criterion(wanted)
    cases = _Cases(scored, outputs, targets, classes, metadata or {})
    return _CRITERIA[name].find(cases, wanted) | ~answered(outputs)


def check_criterion(criterion: Mapping[str, Any]) -> str:
    """The name of the criterion; refuses keys that are not known or do not go together.

    >>> check_criterion({"mised": "lesion"})
    Traceback (most recent call last):
    roadworthy.measures.failure.CriterionError: failure: no key 'mised' (did you mean 'missed'?); it takes one of
    wrong, error, confused, missed
    """
    options = {o for c in _CRITERIA.values() for o in c.options}
    _refuse_unknown(
        criterion, [*_CRITERIA, *options], "failure", f"it takes one of {', '.join(_CRITERIA)}"
    )
    named = [key for key in criterion if key in _CRITERIA]
    if len(named) != 1:
        found = " and ".join(named) or "none"
        raise CriterionError(
            f"failure: one of {', '.join(_CRITERIA)} is expected, but found {found}; keep one"
        )
    own = _CRITERIA[named[0]].options
    _refuse_unknown(
        criterion, [named[0], *own], "failure", f"beside {named[0]} it takes {', '.join(own)}"
    )
    return named[0]


def _wrong(cases: _Cases, criterion: Mapping[str, Any]) -> np.ndarray:
    if criterion["wrong"] is not True:
        raise CriterionError(
            f"failure: wrong is {criterion['wrong']!r}; write `wrong: true`, or another criterion"
        )
    return cases.scored.failure & _where(cases, criterion)


def _error(cases: _Cases, criterion: Mapping[str, Any]) -> np.ndarray:
    bound = _inner(criterion, "error", ("above",))["above"]
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise CriterionError(
            f"failure: error: above is {bound!r}; a number is expected, as in {{above: 0.2}}"
        )
    return (cases.scored.error > bound) & _where(cases, criterion)


def _confused(cases: _Cases, criterion: Mapping[str, Any]) -> np.ndarray:
    from roadworthy.measures.classification import predicted

    if not (
        isinstance(cases.outputs, np.ndarray)
        or all(o is None or np.ndim(o) == 1 for o in cases.outputs)
    ):
        raise CriterionError(
            "failure: confused is for class scores; these outputs are of another kind"
        )
    inner = _inner(criterion, "confused", ("truth", "with"))
    truth = _indices(inner["truth"], cases.classes, "confused: truth")
    taken = _indices(inner["with"], cases.classes, "confused: with")
    labels, answers = np.asarray(cases.targets), predicted(cases.outputs)
    return (
        np.isin(labels, truth)
        & np.isin(answers, taken)
        & (labels != answers)
        & _where(cases, criterion)
    )


def _missed(cases: _Cases, criterion: Mapping[str, Any]) -> np.ndarray:
    from roadworthy.measures.detection import match

    if not all(isinstance(target, Boxes) for target in cases.targets):
        raise CriterionError("failure: missed is for boxes; these targets are of another kind")
    found = match(cases.outputs, cases.targets, iou=float(criterion.get("iou", 0.5)))
    lost = (found.found_at < float(criterion.get("min_score", 0.5))) & ~found.ignored
    if criterion["missed"] is not True:
        lost &= np.isin(found.truth_label, _indices(criterion["missed"], cases.classes, "missed"))
    lost &= _where_objects(cases, criterion, found.truth_case)
    return np.bincount(found.truth_case[lost], minlength=len(cases.targets)) > 0


_CRITERIA: dict[str, _Criterion] = {
    "wrong": _Criterion(_wrong),
    "error": _Criterion(_error),
    "confused": _Criterion(_confused),
    "missed": _Criterion(_missed, ("iou", "min_score", "where")),
}


def _where(cases: _Cases, criterion: Mapping[str, Any]) -> np.ndarray:
    return _meets(cases.metadata, criterion.get("where", {}), len(cases.scored))


def _where_objects(cases: _Cases, criterion: Mapping[str, Any], case: np.ndarray) -> np.ndarray:
    """The conditions object by object: an entry a case holds for all its objects, a list has one value an object."""
    conditions = criterion.get("where", {})
    columns = {
        name: _by_object(name, column, cases.targets, case)
        if name in conditions
        else np.zeros(len(case))
        for name, column in cases.metadata.items()
    }
    return _meets(columns, conditions, len(case))


def _by_object(name: str, column: Any, targets: Sequence[Boxes], case: np.ndarray) -> np.ndarray:
    if not any(isinstance(entry, list | tuple | np.ndarray) for entry in column):
        return np.asarray(column)[case]
    values: list[Any] = []
    for row, (entry, objects) in enumerate(zip(column, targets, strict=True)):
        own = (
            list(entry) if isinstance(entry, list | tuple | np.ndarray) else [entry] * len(objects)
        )
        if len(own) != len(objects):
            raise CriterionError(
                f"failure: where: {name!r} has {len(own)} value(s) in row {row}, which has {len(objects)} object(s); "
                "give one value a case, or one an object"
            )
        values += own
    return np.asarray(values)


def _meets(columns: Mapping[str, Any], conditions: Mapping[str, Any], n: int) -> np.ndarray:
    if not conditions:
        return np.ones(n, dtype=bool)
    table = {name: np.asarray(column) for name, column in columns.items()}
    return Dataset("failure: where", LABEL, np.arange(n), metadata=table).where(conditions)


def _inner(criterion: Mapping[str, Any], name: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    inner = criterion[name]
    example = ", ".join(f"{k}: …" for k in keys)
    if not isinstance(inner, Mapping):
        raise CriterionError(f"failure: {name} is {inner!r}; {{{example}}} is expected")
    _refuse_unknown(inner, keys, f"failure: {name}", f"it takes {', '.join(keys)}")
    missing = [key for key in keys if key not in inner]
    if missing:
        raise CriterionError(
            f"failure: {name} lacks {' and '.join(missing)}; {{{example}}} is expected"
        )
    return inner


def _indices(names: Any, classes: Sequence[str] | None, where: str) -> list[int]:
    """Class indices from names, or from the indices themselves."""
    found = []
    for name in names if isinstance(names, list | tuple) else [names]:
        if (
            isinstance(name, int)
            and not isinstance(name, bool)
            and (classes is None or name < len(classes))
        ):
            found.append(name)
        elif classes is not None and name in classes:
            found.append(list(classes).index(name))
        else:
            known = ", ".join(classes) if classes else "unnamed, so write the class index"
            raise CriterionError(
                f"failure: {where}: no class is called {name!r}{did_you_mean(name, classes or ())}; classes are {known}"
            )
    return found


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], where: str, takes: str) -> None:
    for key in given:
        if key not in known:
            raise CriterionError(f"{where}: no key {key!r}{did_you_mean(key, known)}; {takes}")
