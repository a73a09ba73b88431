"""Answers as labels of events: each found among the last ones, or taken by the cell and the time that came with it.

>>> from roadworthy.monitor.state import State
>>> state = State(cells=4, capacity=10, lateness=60.0)
>>> _ = state.add_one(5.0, None, 3, "a")
>>> labels_of([("a", True, 0.5, None, None), ("long gone", False, None, 2, 4.0)], state)[1][1]
Label(time=4.0, cell=2, correct=False, probability=None)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.events import (
    EventError,
    Name,
    checked_cells,
    marks,
    numbered_name,
    plain_name,
)
from roadworthy.monitor.labels import Label, checked_moment

if TYPE_CHECKING:
    from roadworthy.monitor.state import State

Answer = tuple[str | int | None, bool, float | None, int | None, float | None]
"""Id, whether it was right, the probability of being labelled, cell and time; the last three may be None."""


def take(answers: Sequence[Answer], state: State) -> None:
    """Count answers as labels of their events: all, or none where one cannot be counted."""
    labels = labels_of(answers, state)
    state.labels.add_all(labels)
    state.labels.unnamed += sum(id is None for id, *_ in answers)


def labels_of(answers: Sequence[Answer], state: State) -> list[tuple[int, Label]]:
    """Labels by the mark of their event; refused, with the id, where one cannot be counted."""
    unnamed = count(state.labels.unnamed + 1)
    names = [_name(answer[0], state, unnamed) for answer in answers]
    found = []
    for answer, held in zip(answers, state.recent.held(names), strict=True):
        id, correct, probability, cell, time = answer
        if held is not None:
            time, cell = held
        elif time is None or cell is None:
            raise EventError(
                f"event {id!r} is not among the last {len(state.recent):,} events; give its cell and its time with its label"
            )
        else:
            checked_cells([cell], state.cells, lambda _: repr(id))  # noqa: B023
            checked_moment(time, id, state)
        if probability is not None and not 0.0 < probability <= 1.0:
            raise EventError(
                f"the probability of being labelled lies above 0 and is at most 1, found {probability} for {id!r}"
            )
        if not (
            isinstance(correct, bool | np.bool_)
            or (isinstance(correct, int | np.integer) and correct in (0, 1))
        ):
            raise EventError(
                f"an answer is right or wrong, True or False, found {correct!r} for {id!r}"
            )
        given = None if probability is None else float(probability)
        found.append(Label(float(time), int(cell), bool(correct), given))
    return list(zip(marks(names).tolist(), found, strict=True)) if found else []


def _name(id: str | int | None, state: State, unnamed: Iterator[int]) -> Name:
    """The name of an event; one without an id is known by its number here, or by the name its question had.

    The label of an event that nobody can name has a name by itself: no two are alike.
    """
    known = state.recent.known
    if type(id) is str and id in known:
        return id
    if id is None:
        return f"{state.name} label", next(unnamed)
    name = plain_name(id)
    if name in known:
        return name
    numbered = (state.name, name) if isinstance(name, int) else numbered_name(name)
    return numbered if numbered is not None and numbered in known else name
