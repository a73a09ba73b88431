"""What several passes through a module say together: a summary of class probabilities, or how far
the answers lie apart.

The summary of T passes over C classes holds the mean probability, the mean entropy and the votes of
each row: what the supervisors of Weiss et al. 2022, section VII-B, need of Monte-Carlo dropout and
of ensembles, whatever T is. Passes are added up one by one, so that only one of them is in memory.

>>> found = Summary.of([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])])
>>> found.mean_probability.tolist(), found.mean_entropy.round(4).tolist(), found.votes.tolist()
([[0.75, 0.25]], [0.3466], [[2.0, 0.0]])
>>> Summary.unpack(found.pack()).votes.tolist()
[[2.0, 0.0]]
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.probabilities import entropies
from roadworthy.data.values import CLASS_SCORES, Kind, probabilities
from roadworthy.distances import default_for, for_kind
from roadworthy.registry import Component, RegistryError, get, missing
from roadworthy.subject.needs import Passes

AUTO = "auto"
"""Stands for the distance that a kind of value calls its own."""
VALUES_AT_ONCE = 4_000_000
"""How many numbers of all passes together are held in float64, so that many wide passes do not fill
the memory twice."""


@dataclass(frozen=True)
class Summary:
    """Class probabilities over passes, a row a case, float64; a row that had no answer in some pass
    is NaN."""

    mean_probability: np.ndarray
    """(n, C)."""
    mean_entropy: np.ndarray
    """(n,), in nats: the mean of the entropies of the passes."""
    votes: np.ndarray
    """(n, C): in how many passes each class was the most probable one (the first of equals)."""

    @classmethod
    def of(cls, passes: Iterable[np.ndarray]) -> Summary:
        """From probabilities (T, n, C), as an array or one pass after the other."""
        total: np.ndarray | None = None
        count = 0
        for given in passes:
            p = np.asarray(given, dtype=np.float64)
            if total is None:
                total, entropy, votes = np.zeros(p.shape), np.zeros(len(p)), np.zeros(p.shape)
            total += p
            entropy += entropies(p)
            votes[np.arange(len(p)), p.argmax(axis=1)] += 1.0
            count += 1
        if total is None:
            raise ValueError("there is nothing to summarise without a pass; ask for one at least")
        votes[np.isnan(total).any(axis=1)] = np.nan
        return cls(total / count, entropy / count, votes)

    def pack(self) -> np.ndarray:
        """One array (n, 2C + 1): mean probability, mean entropy, votes. A column of the trace is
        one."""
        return np.hstack([self.mean_probability, self.mean_entropy[:, None], self.votes])

    @classmethod
    def unpack(cls, array: np.ndarray) -> Summary:
        """What `pack` packed."""
        array = np.asarray(array, dtype=np.float64)
        classes = array.shape[1] // 2
        return cls(array[:, :classes], array[:, classes], array[:, classes + 1 :])


def reduced(request: Passes, kind: Kind, original: Any, passes: Iterable[Any]) -> np.ndarray:
    """What the trace keeps of the passes: the packed summary, or with a distance how far they lie
    apart, (rows, 2).

    `original` is the module's own answer; both it and the passes are columns of answers of this
    kind.

    >>> reduced(Passes("dropout", 2), CLASS_SCORES, None, [np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]])])[0, 3:].tolist()
    [1.0, 1.0]
    """
    if request.distance is not None:
        return variation(request.distance, kind, original, passes)
    if kind is not CLASS_SCORES:
        raise ValueError(
            f"passes of {kind.name} cannot be summarised as class probabilities; ask for them with a distance between {kind.name}"
        )
    return Summary.of(finite_probabilities(scores) for scores in passes).pack()


def finite_probabilities(scores: Any) -> np.ndarray:
    """Probabilities of the rows that are finite; NaN in the others."""
    rows = np.array(scores, dtype=np.float64)
    finite = np.isfinite(rows).all(axis=1)
    rows[~finite] = np.nan
    if finite.any():
        rows[finite] = probabilities(rows[finite])
    return rows


def why_not_reduced(request: Passes, kind: Kind) -> str | None:
    """Why passes of values of this kind cannot be reduced as is asked; None where they can."""
    if request.distance is None:
        if kind is CLASS_SCORES:
            return None
        return f"a summary of passes is one of class scores, and the module gives {kind.name}; ask with a distance"
    try:
        resolved(request.distance, kind)
    except ValueError as error:
        return str(error)
    return None


def resolved(distance: str, kind: Kind) -> Component:
    """The distance of that name, or for ``auto`` the kind's own; ValueError says why there is none."""
    name = default_for(kind) if distance == AUTO else distance
    if not name:
        raise ValueError(
            f"no distance compares {kind.name}; register one, or supervise another module"
        )
    try:
        component = get("distances", name)
    except RegistryError as error:
        raise ValueError(str(error)) from error
    if kind.name not in component.traits.get("of", ()):
        fitting = ", ".join(for_kind(kind)) or "none"
        of = " and ".join(component.traits.get("of", ()))
        raise ValueError(
            f"{name} compares {of}, and the module gives {kind.name}; distances that fit: {fitting}"
        )
    if missing(component):
        raise ValueError(missing(component))
    return component


def variation(distance: str, kind: Kind, original: Any, passes: Iterable[Any]) -> np.ndarray:
    """VR and VRO of each row (Wang et al. 2022, eq. 5, 6), float64 (rows, 2); NaN where there is no answer.

    With w = 1, equations 5 and 6 are means of distances: VR the mean over all pairs of passes, VRO the
    mean between each pass and the answer of the module itself. The distance is a registered one, or
    ``auto``: the one that its kind of value calls its own.

    - One pass has nothing to differ from: its VR is 0. Where several were made and fewer than two are
      left, there is none (NaN).
    - A row without answer has none (NaN). A pass that failed where the module itself answered is not
      forgotten: where the distance is bounded it is as far as can be (1) from every answer, and equals
      another one that failed; else it is left out.
    - Vectors of different lengths are not compared: a ratio that would need it is NaN.
    - A distance of which only the quadratic mean makes sense (the standard deviation) says so, and gets
      it.

    >>> from roadworthy.data.values import TEXT
    >>> variation("bleu", TEXT, ["go left", None], [["go left", "stop"], ["go right", "stop"]]).round(2).tolist()
    [[0.5, 0.25], [nan, nan]]

    `original` is the module's own answer and each pass another one: columns of values of this kind,
    None (or NaN) where there is none.
    """
    component = resolved(distance, kind)
    columns = list(passes)
    if not columns:
        raise ValueError("no pass was made; ask for two at least")
    ratios: Callable[..., np.ndarray] | None = getattr(component.build, "ratios", None)
    rows = [_rows(column) for column in (original, *columns)]
    if ratios is None or any(r is None or r.shape != rows[0].shape for r in rows):  # type: ignore[union-attr]
        return looped(component, _answers(original), [_answers(column) for column in columns])
    answer, *made = (r for r in rows if r is not None)
    found = np.full((len(answer), 2), np.nan)
    step = max(1, VALUES_AT_ONCE // max(len(made) * answer.shape[1], 1))
    for start in range(0, len(answer), step):
        block = slice(start, start + step)
        passes = np.stack([one[block] for one in made]).astype(np.float64)
        found[block] = _closed(component, ratios, answer[block].astype(np.float64), passes)
    return found


def looped(
    component: Component, original: Sequence[Any], passes: Sequence[Sequence[Any]]
) -> np.ndarray:
    """The same by comparing every pair; None stands for no answer."""
    distance, bounded = component.bind(), bool(component.traits.get("bounded", False))
    average = functools.partial(
        _mean, power=2 if component.traits.get("mean") == "quadratic" else 1
    )
    found = np.full((len(original), 2), np.nan)
    for row, answer in enumerate(original):
        if answer is None:
            continue
        made = [column[row] for column in passes]
        if not bounded:
            made = [one for one in made if one is not None]
        if made:
            found[row, 1] = average([_apart(distance, one, answer) for one in made])
        if len(made) > 1 or len(passes) == 1 == len(made):
            found[row, 0] = average(
                [_apart(distance, a, b) for a, b in itertools.combinations(made, 2)]
            )
    return found


def _apart(distance: Callable[..., float], first: Any, second: Any) -> float:
    if first is None or second is None:
        return float((first is None) != (second is None))
    try:
        return float(distance(first, second))
    except ValueError:
        if (
            isinstance(first, np.ndarray)
            and isinstance(second, np.ndarray)
            and first.shape != second.shape
        ):
            return float("nan")
        raise


def _mean(distances: Sequence[float], *, power: int) -> float:
    """The plain or the quadratic mean; 0 of nothing, since one pass differs from no other."""
    return float(np.mean(np.power(distances, power)) ** (1 / power)) if distances else 0.0


def _closed(
    component: Component,
    ratios: Callable[..., np.ndarray],
    original: np.ndarray,
    passes: np.ndarray,
) -> np.ndarray:
    """The closed form for rows that all passes answered; the others pair by pair."""
    answered = np.isfinite(original).all(axis=1)
    whole = answered & np.isfinite(passes).all(axis=(0, 2))
    found = np.full((len(original), 2), np.nan)
    if whole.any():
        found[whole] = ratios(passes[:, whole], original[whole])
    part = np.flatnonzero(answered & ~whole)
    if part.size:
        found[part] = looped(
            component, list(original[part]), [_answers(column[part]) for column in passes]
        )
    return found


def _rows(column: Any) -> np.ndarray | None:
    """A column of rows of numbers, (rows, width), or None where it is no such column."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub" and column.ndim in (1, 2):
        return column.reshape(len(column), int(np.prod(column.shape[1:])))
    return None


def _answers(column: Any) -> list[Any]:
    """The values of a column, None where a row of numbers is not finite."""
    return [
        None if value is None or (isinstance(value, np.ndarray) and not _finite(value)) else value
        for value in column
    ]


def _finite(value: np.ndarray) -> bool:
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
