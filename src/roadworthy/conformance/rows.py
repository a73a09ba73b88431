"""Rows of a module made up for supervisors: answers, and for every request a column that goes with them.

A row is a point z in the space of four logits. The class scores are z or its softmax, a layer an orthogonal map of z and some
noise (so that the scores are linear in it, as in a network's last layer), an image a pattern of the same; passes waver, and
other supervisors' scores rise, where no class stands out. Rows without an answer are NaN, in images zero.

>>> from roadworthy.subject.needs import Layer, Passes
>>> rows = trace_of(np.array([[4.0, 0, 0, 0], [0, 0, 0, 0]]), (Layer("fc1"), Passes("dropout", 10)), failed=(1,))
>>> {name: (column.shape, int(np.isnan(column[1]).all())) for name, column in rows.columns.items()}
{'layer.fc1': ((2, 6), 1), 'passes.dropout.10': ((2, 9), 1)}
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.conformance.items import of_kind
from roadworthy.data.values import CLASS_SCORES, VECTOR, Kind, probabilities
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Request, Score
from roadworthy.subject.passes import Summary
from roadworthy.subject.trace import ModuleTrace

CLASSES, WIDTH, SIDE, PASSES = 4, 6, 8, 10
"""How many classes, activations a layer, pixels a side, and passes where as many as there are members are asked for."""


def drawn(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and the classes they lean to."""
    truth = np.arange(n) % CLASSES
    return np.random.default_rng(seed).normal(0, 1, (n, CLASSES)) + 2 * np.eye(CLASSES)[
        truth
    ], truth


def trace_of(
    z: np.ndarray,
    needs: Sequence[Request],
    *,
    kind: Kind = CLASS_SCORES,
    as_logits: bool = False,
    failed: Sequence[int] = (),
) -> ModuleTrace:
    """The trace of these rows, with the columns that are needed; `failed` rows have no answer."""
    n = len(z)
    columns = {need.column: _column(need, z) for need in needs if not isinstance(need, Output)}
    case = np.array([f"c{i}" for i in range(n)], dtype=object)
    output = _output(z, kind, as_logits=as_logits)
    sound = ModuleTrace(
        case,
        np.zeros(n, np.int32),
        np.full(n, None, dtype=object),
        np.zeros(n),
        kind,
        output,
        columns,
    )
    return failing(sound, failed)


def failing(trace: ModuleTrace, rows: Sequence[int]) -> ModuleTrace:
    """The trace if these rows had given no answer."""
    error = trace.error.copy()
    error[list(rows)] = "gave no answer"
    if isinstance(trace.output, np.ndarray):
        output: Any = _lost(trace.output, rows)
    else:
        output = [
            None if e is not None else item for e, item in zip(error, trace.output, strict=True)
        ]
    columns = {name: _lost(column, rows) for name, column in trace.columns.items()}
    return ModuleTrace(trace.case, trace.step, error, trace.seconds, trace.kind, output, columns)


def some_rows(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    """These rows of a trace, in this order."""
    output = (
        trace.output[rows]
        if isinstance(trace.output, np.ndarray)
        else [trace.output[i] for i in rows]
    )
    columns = {name: column[rows] for name, column in trace.columns.items()}
    index = (trace.case[rows], trace.step[rows], trace.error[rows], trace.seconds[rows])
    return ModuleTrace(*index, trace.kind, output, columns)


def _output(z: np.ndarray, kind: Kind, *, as_logits: bool) -> Any:
    if kind is CLASS_SCORES and not as_logits:
        return probabilities(z).astype(np.float32)
    return (
        z.astype(np.float32) if kind in (CLASS_SCORES, VECTOR) else [of_kind(kind.name)[0]] * len(z)
    )


def _lost(values: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    found = values.copy()
    found[list(rows)] = np.nan if values.dtype.kind == "f" else 0
    return found


def _column(need: Request, z: np.ndarray) -> np.ndarray:
    """What goes with these rows; every column has its own map and noise, the same for reference and other rows."""
    seed = zlib.crc32(need.column.encode())
    noise = np.random.default_rng([seed, len(z)])
    if isinstance(need, Layer):
        hidden = np.hstack([z, noise.normal(0, 0.3, (len(z), WIDTH - CLASSES))])
        turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)))[0]
        return (hidden @ turn).astype(np.float32)
    if isinstance(need, Input):
        pattern = np.random.default_rng(seed).normal(size=(CLASSES, SIDE * SIDE))
        bright = 127 + 20 * (z @ pattern) + noise.normal(0, 5, (len(z), SIDE * SIDE))
        return np.clip(bright, 0, 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
    if isinstance(need, Passes):
        return _passes(need, z, noise)
    doubt = 1 - probabilities(z).max(axis=1)
    if isinstance(need, Score):
        return doubt + noise.normal(0, 0.02, len(z))
    assert isinstance(need, Gradient)
    return (np.exp(doubt) * noise.uniform(0.9, 1.1, len(z))).astype(np.float32)


def _passes(need: Passes, z: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """Logits that waver with the doubt of the row, summarised."""
    doubt = 1 - probabilities(z).max(axis=1)
    if need.distance is not None:
        return np.stack([doubt, 0.8 * doubt], axis=1) * noise.uniform(0.95, 1.05, (len(z), 2))
    waver = noise.normal(0, 1, (need.n or PASSES, *z.shape)) * 2 * doubt[:, None]
    return Summary.of(probabilities(z + w) for w in waver).pack()
