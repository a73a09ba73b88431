"""What a module answered, checked before it counts: one value a case, of the declared kind, finite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.data.reading import plain
from roadworthy.data.values import Kind
from roadworthy.subject.module import Answers, Module, SubjectError
from roadworthy.subject.needs import Request


def checked(
    name: str, module: Module, answers: Answers, n: int
) -> tuple[dict[str, Any], dict[Request, np.ndarray], dict[int, str]]:
    """Outputs checked for count and soundness; unsound rows become problems."""
    problems: dict[int, str] = dict(answers.errors)
    columns: dict[str, Any] = {}
    for port, kind in module.outputs.items():
        if port not in answers.outputs:
            raise SubjectError(
                f"module {name!r} gave no output {port!r}; it gave: {', '.join(answers.outputs)}"
            )
        column = plain(answers.outputs[port])
        if len(column) != n:
            raise SubjectError(
                f"module {name!r} gave {len(column)} values at {port!r} for {n} cases; it must give one a case"
            )
        columns[port] = dense_if_possible(kind, read(kind, column))
        for row, reason in _unsound(kind, columns[port]):
            problems.setdefault(row, f"the {kind.name} it gave {reason}")
    return columns, dict(answers.extras), problems


def read(kind: Kind, column: Any) -> Any:
    """Every value in its kind's own form; a table of numbers is in it already."""
    if kind.dense and isinstance(column, np.ndarray) and column.dtype != object:
        return column
    return [None if item is None else kind.read(item) for item in column]


def _unsound(kind: Kind, column: Any) -> Iterator[tuple[int, str]]:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f" and column.ndim == 2:
        shape = kind.problem(np.zeros(column.shape[1]))
        if shape is not None:
            yield from ((row, shape) for row in range(len(column)))
            return
        for row in np.flatnonzero(~np.isfinite(column).all(axis=1)).tolist():
            yield row, kind.problem(column[row]) or "is not finite"
        return
    for row, item in enumerate(column):
        reason = "is missing" if item is None else kind.problem(item)
        if reason:
            yield row, reason


def dense_if_possible(kind: Kind, column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column if column.ndim == 2 or not kind.dense else column.reshape(len(column), -1)
    if not kind.dense or any(item is None for item in column):
        return list(column) if not kind.dense else _with_nan(column)
    try:
        return np.stack([np.atleast_1d(np.asarray(item, dtype=np.float32)) for item in column])
    except (ValueError, TypeError):
        return list(column)


def _with_nan(column: Sequence[Any]) -> Any:
    """A dense column with NaN rows where there is no answer."""
    known = [np.atleast_1d(np.asarray(i, dtype=np.float32)) for i in column if i is not None]
    if not known or len({k.shape for k in known}) > 1:
        return list(column)
    dense = np.full((len(column), *known[0].shape), np.nan, dtype=np.float32)
    for row, item in enumerate(column):
        if item is not None:
            dense[row] = item
    return dense


def pick(given: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {
        port: column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
        for port, column in given.items()
    }


def spread(column: Any, rows: np.ndarray, n: int) -> Any:
    """A column of `rows` laid out over n rows: NaN or None elsewhere."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        full = np.full((n, *column.shape[1:]), np.nan, dtype=column.dtype)
        full[rows] = column
        return full
    laid: list[Any] = [None] * n
    for row, item in zip(rows, column, strict=False):
        laid[int(row)] = item
    return laid


def sentence(problem: BaseException) -> str:
    text = str(problem).strip().split("\n")[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
