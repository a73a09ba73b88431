"""Passes through what draws its own randomness: a module asked again with other generators, all else fixed; or a whole system.

Pass i of a module starts from the same inputs and the same state as its answer did and draws from generators of its own, named by
(seed, case, module, step, "pass", i); the state it ends in is dropped. Pass i of a system is the case run again from its start with
those generators in every module that is assessed: a simulated user, which is not, says the same where it hears the same. The answer
itself is what it would be if no one had asked.

>>> sorted(split(frozenset({Passes("own", 3), Passes("own", 2, distance="iou"), Passes("dropout", 3)}))[0], key=lambda r: r.n)
[Passes(kind='own', n=2, rate=None, distance='iou'), Passes(kind='own', n=3, rate=None, distance=None)]
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.answers import dense_if_possible
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.passes import reduced
from roadworthy.subject.trace import SYSTEM, ModuleTrace

if TYPE_CHECKING:
    from roadworthy.subject.system import AtPort, Cases, System

OWN = "own"
PASS = "pass"


def split(requests: frozenset[Request]) -> tuple[frozenset[Passes], frozenset[Request]]:
    """The requests for passes of a module's own randomness, which whoever asks the module meets, and those it meets itself."""
    own = frozenset(r for r in requests if isinstance(r, Passes) and r.kind == OWN)
    return own, requests - own


def numbers(requests: Iterable[Passes]) -> range:
    """Which passes must be made for all of these requests: the first of many are the few that another asks for."""
    return range(max((r.n for r in requests), default=0))


def kept(name: str, state: Any) -> Any:
    """A state as it is now, since a function may change the one it is handed."""
    try:
        return copy.deepcopy(state)
    except Exception as error:
        raise SubjectError(
            f"the state of module {name!r} cannot be copied ({type(error).__name__}), so that no further pass can start "
            "from it; keep plain values in it, or ask for no passes of this module"
        ) from error


def summarised(
    name: str, kind: Kind, requests: Iterable[Passes], original: Any, passes: Sequence[Any]
) -> dict[Request, np.ndarray]:
    """What each request gets of these passes; columns of answers, None or NaN where there is none.

    Where nobody answered, the classes are not known either, so that there is no summary of their probabilities.
    """
    laid = [dense_if_possible(kind, column) for column in (original, *passes)]
    like = next((column for column in laid if isinstance(column, np.ndarray)), None)
    answer, *columns = (_filled(column, like) for column in laid)
    met = [
        r
        for r in requests
        if r.distance is not None or like is not None or kind is not CLASS_SCORES
    ]
    try:
        return {request: reduced(request, kind, answer, columns[: request.n]) for request in met}
    except ValueError as error:
        raise SubjectError(f"the passes of module {name!r} cannot be compared: {error}") from error


def without_failed(column: Any, error: np.ndarray) -> Any:
    """A column in which no row that failed has an answer."""
    failed = np.array([e is not None for e in error], dtype=bool)
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return np.where(failed.reshape(-1, *[1] * (column.ndim - 1)), np.nan, column)
    return [None if lost else value for value, lost in zip(column, failed, strict=True)]


def system_passes(
    system: System,
    cases: Cases,
    requests: frozenset[Request],
    at: Mapping[str, AtPort],
    answered: ModuleTrace,
) -> dict[str, np.ndarray]:
    """The cases run again, from their start to their final output."""
    own, others = split(requests)
    if others:
        (first, *_) = others
        raise SubjectError(system.offers(first) or f"the system as a whole cannot meet {first}")
    passes = []
    for i in numbers(own):
        again = system.run(replace(cases, drawn=(PASS, i)), {}, at)[SYSTEM]
        passes.append(without_failed(again.output, again.error))
    original = without_failed(answered.output, answered.error)
    found = summarised(SYSTEM, answered.kind, own, original, passes)
    return {request.column: array for request, array in found.items()}


def _filled(column: Any, like: np.ndarray | None) -> Any:
    """Rows of NaN where a pass gave nothing at all and others gave rows of numbers."""
    if like is None or isinstance(column, np.ndarray) or any(value is not None for value in column):
        return column
    return np.full(like.shape, np.nan, dtype=like.dtype if like.dtype.kind == "f" else np.float64)
