"""Supervisors: one float64 score a row, higher is riskier, whatever the order and the chunks; saved without pickle.

Those that read passes or other supervisors' scores are checked for what they declare only.

>>> from roadworthy.registry import get
>>> list(higher_is_riskier(get("supervisors", "deep_gini")))
[]
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.conformance.rule import Rule
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import Component
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Request, Score
from roadworthy.subject.trace import ModuleTrace, concatenate
from roadworthy.supervisors.supervisor import Supervisor

CLASSES, WIDTH = 4, 6
FAILED = (3, 17)
"""Rows that gave no answer."""


def follows_the_contract(component: Component) -> Iterator[str]:
    """The attributes and methods that execution uses, and requests that it knows."""
    supervisor = component.bind()
    if not isinstance(supervisor, Supervisor):
        missing = [
            m for m in ("needs", "fitted", "applies_to", "fit", "score", "save", "load") if not hasattr(supervisor, m)
        ]
        yield f"it has no {' and no '.join(missing)}"
        return
    unknown = [n for n in supervisor.needs if not isinstance(n, Request)]
    if unknown or not isinstance(supervisor.needs, tuple):
        yield f"needs is {supervisor.needs!r}; a tuple of requests was expected, such as (Output(),)"


def says_why_it_does_not_apply(component: Component) -> Iterator[str]:
    """A reason is the end of "not applicable, because …"; it applies to something."""
    supervisor = component.bind()
    reasons = [supervisor.applies_to(kind) for kind in KINDS.values()]
    if all(reasons):
        yield "it applies to no kind of output"
    for reason in {r for r in reasons if r is not None}:
        if not isinstance(reason, str) or not reason.strip() or reason.rstrip().endswith(".") or reason[0].isupper():
            yield f"the reason {reason!r} does not end the sentence 'not applicable, because …'"


def gives_one_float64_a_row(component: Component) -> Iterator[str]:
    """NaN where a row has no answer, and nowhere else."""
    for supervisor, trace in _tries(component):
        scores = supervisor.score(trace)
        if not isinstance(scores, np.ndarray) or scores.dtype != np.float64 or scores.shape != (len(trace),):
            yield f"it gave {_described(scores)} for {len(trace)} rows; float64 of shape ({len(trace)},) was expected"
        elif (np.isfinite(scores) != trace.ok).any():
            rows = np.flatnonzero(np.isfinite(scores) != trace.ok).tolist()
            yield f"NaN must stand for the failed rows {list(FAILED)} and no others; it is different in the rows {rows}"


def order_does_not_matter(component: Component) -> Iterator[str]:
    """A row's score is its own."""
    for supervisor, trace in _tries(component):
        order = np.random.default_rng(1).permutation(len(trace))
        if not _close(supervisor.score(_rows(trace, order)), np.asarray(supervisor.score(trace))[order]):
            yield "rows in another order have other scores"


def chunks_do_not_matter(component: Component) -> Iterator[str]:
    """Scoring in two parts gives what scoring at once gives."""
    for supervisor, trace in _tries(component):
        parts = [_rows(trace, np.arange(0, 11)), _rows(trace, np.arange(11, len(trace)))]
        separate = np.concatenate([np.asarray(supervisor.score(part)) for part in parts])
        if not _close(separate, supervisor.score(concatenate(parts))):
            yield "rows scored in two chunks have other scores than at once"


def the_trace_is_never_changed(component: Component) -> Iterator[str]:
    """Other supervisors read it too."""
    for supervisor, trace in _tries(component):
        before = copy.deepcopy(trace)
        supervisor.score(trace)
        if not _close(before.output, trace.output) or any(
            not _close(before.columns[c], trace.columns[c]) for c in before.columns
        ):
            yield "scoring changed the trace"


def higher_is_riskier(component: Component) -> Iterator[str]:
    """Of those that read class scores alone: a row that cannot decide scores above one that is sure."""
    for supervisor, _ in _tries(component):
        if set(supervisor.needs) != {Output()}:
            continue
        sure, torn = [0.97, 0.01, 0.01, 0.01], [0.26, 0.25, 0.25, 0.24]
        scores = supervisor.score(_trace(np.array([sure, torn]), supervisor.needs, errors=()))
        if not scores[1] > scores[0]:
            yield f"{torn} scores {scores[1]:g} and {sure} scores {scores[0]:g}; the first is riskier"


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
    """The supervisor, fitted on reference rows, and rows to score; nothing where its input cannot be made up."""
    supervisor = component.bind()
    if any(isinstance(n, Passes | Score) for n in supervisor.needs) or supervisor.applies_to(CLASS_SCORES):
        return
    if supervisor.fitted:
        logits, truth = _logits(2, 60)
        supervisor.fit(_trace(_probabilities(logits), supervisor.needs, errors=()), truth)
    yield supervisor, _trace(_probabilities(_logits(3, 24)[0]), supervisor.needs, errors=FAILED)


def _logits(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % CLASSES
    return rng.normal(0, 1, (n, CLASSES)) + 2 * np.eye(CLASSES)[truth], truth


def _probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits)
    return shifted / shifted.sum(axis=1, keepdims=True)


def _trace(probabilities: np.ndarray, needs: tuple[Request, ...], *, errors: tuple[int, ...]) -> ModuleTrace:
    n = len(probabilities)
    output = probabilities.astype(np.float32)
    error = np.full(n, None, dtype=object)
    output[list(errors)] = np.nan
    error[list(errors)] = "gave no answer"
    rng = np.random.default_rng(4)
    columns = {need.column: _column(need, rng, output, n) for need in needs if not isinstance(need, Output)}
    case = np.array([f"c{i}" for i in range(n)], dtype=object)
    return ModuleTrace(case, np.zeros(n, np.int32), error, np.zeros(n), CLASS_SCORES, output, columns)


def _column(need: Request, rng: np.random.Generator, output: np.ndarray, n: int) -> np.ndarray:
    """Activations that go with the answer, NaN where there is none."""
    lost = np.where(np.isnan(output[:, 0]), np.nan, 0.0).astype(np.float32)
    if isinstance(need, Gradient):
        return np.abs(rng.normal(size=n)).astype(np.float32) + lost
    assert isinstance(need, Layer | Input)
    mixed = np.nan_to_num(output) @ rng.normal(size=(CLASSES, WIDTH)) + rng.normal(0, 0.1, (n, WIDTH))
    return mixed.astype(np.float32) + lost[:, None]


def _rows(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    columns = {name: column[rows] for name, column in trace.columns.items()}
    return ModuleTrace(
        trace.case[rows],
        trace.step[rows],
        trace.error[rows],
        trace.seconds[rows],
        trace.kind,
        trace.output[rows],
        columns,
    )


def _pickled(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.suffix in (".pkl", ".pickle", ".joblib", ".pt", ".pth"):
            yield f"it saved {path.name}; arrays (.npy, .npz, .safetensors) and JSON were expected"
        if path.suffix in (".npy", ".npz"):
            try:
                found = np.load(path, allow_pickle=False)
                list(found.values()) if path.suffix == ".npz" else None
            except ValueError:
                yield f"{path.name} holds Python objects, which need pickle"


def _close(first: Any, second: Any) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-9, equal_nan=True))


def _described(scores: Any) -> str:
    return f"{scores.dtype} of shape {scores.shape}" if isinstance(scores, np.ndarray) else type(scores).__name__


RULES: tuple[Rule, ...] = (
    follows_the_contract,
    says_why_it_does_not_apply,
    gives_one_float64_a_row,
    order_does_not_matter,
    chunks_do_not_matter,
    the_trace_is_never_changed,
    higher_is_riskier,
    comes_back_from_disk,
)
