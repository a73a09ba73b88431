"""Supervisors: one float64 score a row, higher is riskier, whatever the order and the chunks; saved
without pickle.

Every supervisor is tried, on rows that are made up for what it needs.

>>> from roadworthy.registry import get
>>> list(higher_is_riskier(get("supervisors", "deep_gini")))
[]
"""

from __future__ import annotations

import copy
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.conformance.items import of_kind, same
from roadworthy.conformance.rule import Rule
from roadworthy.data.values import CLASS_SCORES, KINDS, VECTOR, Kind, probabilities
from roadworthy.registry import Component
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Request, Score
from roadworthy.subject.passes import Summary
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.supervisor import Supervisor

FAILED = (3, 17)
"""Rows that gave no answer."""


def follows_the_contract(component: Component) -> Iterator[str]:
    """The attributes and methods that execution uses, requests that it knows, a kind it applies to."""
    supervisor = component.bind()
    if not isinstance(supervisor, Supervisor):
        methods = ("needs", "fitted", "applies_to", "fit", "score", "save", "load")
        yield f"it has no {' and no '.join(m for m in methods if not hasattr(supervisor, m))}"
        return
    known = all(isinstance(need, Request) for need in supervisor.needs)
    if not known or not isinstance(supervisor.needs, tuple):
        yield f"needs is {supervisor.needs!r}; requests were expected, such as (Output(),)"
    reasons = [supervisor.applies_to(kind) for kind in KINDS.values()]
    if all(reasons):
        yield "it applies to no kind of output"
    for reason in {r for r in reasons if r is not None}:
        if not reason.strip() or reason.rstrip().endswith(".") or reason[0].isupper():
            yield f"the reason {reason!r} does not end the sentence 'not applicable, because …'"


def gives_one_float64_a_row(component: Component) -> Iterator[str]:
    """NaN for a row without an answer, and for no other."""
    for supervisor, trace in _tries(component):
        scores, shape = supervisor.score(trace), (len(trace),)
        found = (getattr(scores, "dtype", None), getattr(scores, "shape", None))
        if found != (np.float64, shape):
            yield f"it gave {found[0]} of shape {found[1]}; float64 of shape {shape} was expected"
        elif (np.isfinite(scores) != trace.ok).any():
            rows = np.flatnonzero(np.isfinite(scores) != trace.ok).tolist()
            yield f"NaN must stand for rows without an answer alone; it differs in the rows {rows}"


def scores_a_row_by_itself(component: Component) -> Iterator[str]:
    """Neither the order of rows nor how they are divided matters, and the trace stays as it was."""
    for supervisor, trace in _tries(component):
        before = copy.deepcopy(trace)
        whole = np.asarray(supervisor.score(trace))
        if not same([before.output, before.columns], [trace.output, trace.columns]):
            yield "scoring changed the trace"
        order = np.random.default_rng(1).permutation(len(trace))
        if not _close(supervisor.score(some_rows(trace, order)), whole[order]):
            yield "rows in another order have other scores"
        parts = [some_rows(trace, rows) for rows in np.split(np.arange(len(trace)), [11])]
        separate = np.concatenate([np.asarray(supervisor.score(part)) for part in parts])
        if not _close(separate, whole):
            yield "rows scored in two chunks have other scores than at once"


def higher_is_riskier(component: Component) -> Iterator[str]:
    """If it reads class scores, passes or scores: a row that cannot decide is above a sure one."""
    for supervisor, trace in _tries(component):
        # Which activations, gradients and answers of other kinds are risky is the method's claim.
        read = all(isinstance(need, Output | Passes | Score) for need in supervisor.needs)
        if not read or (Output() in supervisor.needs and trace.kind is not CLASS_SCORES):
            continue
        sure, torn = [0.97, 0.01, 0.01, 0.01], [0.26, 0.25, 0.25, 0.24]
        scores = supervisor.score(trace_of(np.log([sure, torn]), supervisor.needs, kind=trace.kind))
        if not scores[1] > scores[0]:
            yield f"{torn} scores {scores[1]:g} and {sure} scores {scores[0]:g}; the first is riskier"


def far_rows_are_riskier(component: Component) -> Iterator[str]:
    """If it reads a layer: far rows are above typical ones; with ``far_is_riskier = False``, those without a class."""
    for supervisor, trace in _tries(component):
        if not any(isinstance(need, Layer) for need in supervisor.needs):
            continue
        typical, torn = 2 * np.eye(CLASSES), np.zeros((CLASSES, CLASSES))
        near, unclear, far = (
            float(
                np.median(supervisor.score(trace_of(z, supervisor.needs, kind=trace.kind, away=a)))
            )
            for z, a in ((typical, 0.0), (torn, 0.0), (torn, FAR))
        )
        if not getattr(supervisor, "far_is_riskier", True):
            far = max(unclear, far)
        if not far > near:
            yield f"far rows score {far:g}, typical ones {near:g}; the first are riskier"


def comes_back_from_disk(component: Component) -> Iterator[str]:
    """`load` of what `save` wrote scores the same, and nothing written needs pickle."""
    for supervisor, trace in _tries(component):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            supervisor.save(folder)
            yield from _pickled(folder)
            again = component.bind()
            again.load(folder)
            if not _close(again.score(trace), supervisor.score(trace)):
                yield "what was saved and loaded gives other scores"


def _tries(component: Component) -> Iterator[tuple[Supervisor, ModuleTrace]]:
    """The supervisor, fitted, and rows to score, for each form of answer that it may meet."""
    for i in range(len(_forms(component.bind()))):
        supervisor, form = _fitted(component.build, i)
        yield supervisor, trace_of(drawn_rows(3, 24)[0], supervisor.needs, failed=FAILED, **form)


def _forms(supervisor: Supervisor) -> list[dict[str, Any]]:
    """Class scores as probabilities and logits, and one other kind; one if the answer is not read."""
    forms: list[dict[str, Any]] = []
    if not supervisor.applies_to(CLASS_SCORES):
        forms += [{"kind": CLASS_SCORES}, {"kind": CLASS_SCORES, "as_logits": True}]
    others = [k for k in KINDS.values() if k is not CLASS_SCORES and not supervisor.applies_to(k)]
    # A vector is what most modules give; the order of kinds is no order of importance.
    forms += [{"kind": VECTOR if VECTOR in others else others[0]}] if others else []
    return forms if Output() in supervisor.needs else forms[:1]


@lru_cache(maxsize=4)
def _fitted(build: Callable[..., Supervisor], i: int) -> tuple[Supervisor, dict[str, Any]]:
    """Fitted on 240 rows, some without an answer; kept, since every rule of a component asks."""
    supervisor = build()
    form = _forms(supervisor)[i]
    if supervisor.fitted:
        z, truth = drawn_rows(2, 240)
        supervisor.fit(trace_of(z, supervisor.needs, failed=FAILED, **form), truth)
    return supervisor, form


def _pickled(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.*"):
        if path.suffix not in (".npy", ".npz", ".safetensors", ".json"):
            yield f"it saved {path.name}; .npy, .npz, .safetensors and .json were expected"
        elif path.suffix in (".npy", ".npz"):
            found = np.load(path, allow_pickle=False)  # Python objects raise an error
            list(found.values()) if path.suffix == ".npz" else None


def _close(first: Any, second: Any) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-9, equal_nan=True))


RULES: tuple[Rule, ...] = (
    follows_the_contract,
    gives_one_float64_a_row,
    scores_a_row_by_itself,
    higher_is_riskier,
    far_rows_are_riskier,
    comes_back_from_disk,
)


CLASSES, WIDTH, SIDE, PASSES = 4, 6, 8, 10
"""Classes, activations a layer, pixels a side, and passes if no number of them is asked for."""
FAR = 30.0
"""Where far rows lie, in directions in which rows to fit on have a standard deviation of 0.3."""


def drawn_rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and the classes they lean to."""
    truth = np.arange(n) % CLASSES
    noise = np.random.default_rng(seed).normal(0, 1, (n, CLASSES))
    return noise + 2 * np.eye(CLASSES)[truth], truth


def trace_of(
    z: np.ndarray,
    needs: Sequence[Request],
    *,
    kind: Kind = CLASS_SCORES,
    as_logits: bool = False,
    failed: Sequence[int] = (),
    away: float = 0.0,
) -> ModuleTrace:
    """The trace of these rows, with the columns that are needed; `failed` rows have no answer.

    A row is a point z in the space of four logits. The class scores are z or its softmax, a layer
    an orthogonal map of z and some noise (so that the scores are linear in it, as in a network's
    last layer), an image a pattern of the same; passes waver, and other supervisors' scores rise,
    if no class stands out. Rows without an answer are NaN, in images zero. `away` moves the layers
    where the class scores do not show it.

    >>> from roadworthy.subject.needs import Layer, Passes
    >>> rows = trace_of(np.array([[4.0, 0, 0, 0], [0, 0, 0, 0]]), (Layer("fc1"), Passes("dropout", 10)), failed=(1,))
    >>> {name: (column.shape, int(np.isnan(column[1]).all())) for name, column in rows.columns.items()}
    {'layer.fc1': ((2, 6), 1), 'passes.dropout.10': ((2, 9), 1)}
    """
    n = len(z)
    columns = {n.column: _column(n, z, away) for n in needs if not isinstance(n, Output)}
    output: Any = [of_kind(kind.name)[0]] * n
    if kind in (CLASS_SCORES, VECTOR):
        softmax = kind is CLASS_SCORES and not as_logits
        output = _lost((probabilities(z) if softmax else z).astype(np.float32), failed)
    else:
        output = [None if i in failed else item for i, item in enumerate(output)]
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "gave no answer"
    return ModuleTrace(
        np.array([f"c{i}" for i in range(n)], dtype=object),
        np.zeros(n, np.int32),
        error,
        np.zeros(n),
        kind,
        output,
        {name: _lost(column, failed) for name, column in columns.items()},
    )


def some_rows(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    """These rows of a trace, in this order."""
    dense = isinstance(trace.output, np.ndarray)
    output = trace.output[rows] if dense else [trace.output[i] for i in rows]
    columns = {name: column[rows] for name, column in trace.columns.items()}
    index = (trace.case[rows], trace.step[rows], trace.error[rows], trace.seconds[rows])
    return ModuleTrace(*index, trace.kind, output, columns)


def _lost(values: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    found = values.copy()
    found[list(rows)] = np.nan if values.dtype.kind == "f" else 0
    return found


def _column(need: Request, z: np.ndarray, away: float) -> np.ndarray:
    """What goes with these rows; every column has its own map and noise, the same each time."""
    seed = zlib.crc32(need.column.encode())
    noise = np.random.default_rng([seed, len(z)])
    if isinstance(need, Layer):
        hidden = np.hstack([z, noise.normal(away, 0.3, (len(z), WIDTH - CLASSES))])
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
