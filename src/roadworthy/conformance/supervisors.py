"""Supervisors: one float64 score a row, higher is riskier, whatever the order and the chunks; saved
without pickle.

Every supervisor is tried, on rows that are made up for what it needs (`rows`).

>>> from roadworthy.registry import get
>>> list(higher_is_riskier(get("supervisors", "deep_gini")))
[]
"""

from __future__ import annotations

import copy
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.conformance.items import of_kind
from roadworthy.conformance.rule import Rule
from roadworthy.data.values import CLASS_SCORES, KINDS, VECTOR, Kind, probabilities
from roadworthy.registry import Component
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes, Request, Score
from roadworthy.subject.passes import Summary
from roadworthy.subject.trace import ModuleTrace, concatenate
from roadworthy.supervisors.supervisor import Supervisor

FAILED = (3, 17)
"""Rows that gave no answer."""


def follows_the_contract(component: Component) -> Iterator[str]:
    """The attributes and methods that execution uses, and requests that it knows."""
    supervisor = component.bind()
    if not isinstance(supervisor, Supervisor):
        missing = [
            m
            for m in ("needs", "fitted", "applies_to", "fit", "score", "save", "load")
            if not hasattr(supervisor, m)
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
        if (
            not isinstance(reason, str)
            or not reason.strip()
            or reason.rstrip().endswith(".")
            or reason[0].isupper()
        ):
            yield f"the reason {reason!r} does not end the sentence 'not applicable, because …'"


def gives_one_float64_a_row(component: Component) -> Iterator[str]:
    """NaN where a row has no answer, and nowhere else."""
    for supervisor, trace in _tries(component):
        scores = supervisor.score(trace)
        if (
            not isinstance(scores, np.ndarray)
            or scores.dtype != np.float64
            or scores.shape != (len(trace),)
        ):
            yield f"it gave {_described(scores)} for {len(trace)} rows; float64 of shape ({len(trace)},) was expected"
        elif (np.isfinite(scores) != trace.ok).any():
            rows = np.flatnonzero(np.isfinite(scores) != trace.ok).tolist()
            yield f"NaN must stand for the failed rows {list(FAILED)} and no others; it is different in the rows {rows}"


def row_order_does_not_matter(component: Component) -> Iterator[str]:
    """A row's score is its own."""
    for supervisor, trace in _tries(component):
        order = np.random.default_rng(1).permutation(len(trace))
        if not _close(
            supervisor.score(some_rows(trace, order)), np.asarray(supervisor.score(trace))[order]
        ):
            yield "rows in another order have other scores"


def chunks_do_not_matter(component: Component) -> Iterator[str]:
    """Scoring in two parts gives what scoring at once gives."""
    for supervisor, trace in _tries(component):
        parts = [some_rows(trace, np.arange(0, 11)), some_rows(trace, np.arange(11, len(trace)))]
        separate = np.concatenate([np.asarray(supervisor.score(part)) for part in parts])
        if not _close(separate, supervisor.score(concatenate(parts))):
            yield "rows scored in two chunks have other scores than at once"


def the_trace_is_never_changed(component: Component) -> Iterator[str]:
    """Other supervisors read it too."""
    for supervisor, trace in _tries(component):
        before = copy.deepcopy(trace)
        supervisor.score(trace)
        if not _same_output(before, trace) or any(
            not np.array_equal(before.columns[c], trace.columns[c], equal_nan=True)
            for c in before.columns
        ):
            yield "scoring changed the trace"


def higher_is_riskier(component: Component) -> Iterator[str]:
    """Of those that read class scores, passes or other scores: a row that cannot decide scores
    above one that is sure."""
    for supervisor, trace in _tries(component):
        # Which activations, which gradients and which answers of other kinds are risky is the method's own claim.
        read = all(isinstance(need, Output | Passes | Score) for need in supervisor.needs)
        if not read or (Output() in supervisor.needs and trace.kind is not CLASS_SCORES):
            continue
        sure, torn = [0.97, 0.01, 0.01, 0.01], [0.26, 0.25, 0.25, 0.24]
        scores = supervisor.score(trace_of(np.log([sure, torn]), supervisor.needs, kind=trace.kind))
        if not scores[1] > scores[0]:
            yield f"{torn} scores {scores[1]:g} and {sure} scores {scores[0]:g}; the first is riskier"


def failed_rows_teach_nothing(component: Component) -> Iterator[str]:
    """Fitting again, with rows among the others that gave no answer, gives the same scores."""
    for i, (supervisor, trace) in enumerate(_tries(component)):
        again = component.bind()
        _fit(again, _forms(again)[i], failed=FAILED)
        if not _close(again.score(trace), supervisor.score(trace)):
            yield "fitted again, with rows that gave no answer among the others, it gives other scores"


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
    """The supervisor, fitted on reference rows, and rows to score, for each form of answer that it
    may meet."""
    for i in range(len(_forms(component.bind()))):
        supervisor, form = _fitted(component.build, i)
        yield supervisor, trace_of(drawn_rows(3, 24)[0], supervisor.needs, failed=FAILED, **form)


def _forms(supervisor: Supervisor) -> list[dict[str, Any]]:
    """Class scores as probabilities and as logits, and one other kind; one of them where the answer
    is not read."""
    forms: list[dict[str, Any]] = []
    if not supervisor.applies_to(CLASS_SCORES):
        forms += [{"kind": CLASS_SCORES}, {"kind": CLASS_SCORES, "as_logits": True}]
    others = [k for k in KINDS.values() if k is not CLASS_SCORES and not supervisor.applies_to(k)]
    # A vector is what most modules give; the order of kinds is no order of importance.
    forms += [{"kind": VECTOR if VECTOR in others else others[0]}] if others else []
    return forms if Output() in supervisor.needs else forms[:1]


@lru_cache(maxsize=4)
def _fitted(build: Callable[..., Supervisor], i: int) -> tuple[Supervisor, dict[str, Any]]:
    """Fitting may take its time, and a component is checked by rule after rule."""
    supervisor = build()
    form = _forms(supervisor)[i]
    _fit(supervisor, form, failed=())
    return supervisor, form


def _fit(supervisor: Supervisor, form: Mapping[str, Any], *, failed: Sequence[int] = ()) -> None:
    """On 60 rows that answered, with others before and between them that did not."""
    if not supervisor.fitted:
        return
    z, truth = drawn_rows(2, 60)
    trace = trace_of(z, supervisor.needs, **form)
    rows = np.insert(np.arange(60), list(failed), 0)
    lost = np.array(failed, dtype=int) + np.arange(len(failed))
    supervisor.fit(failing(some_rows(trace, rows), lost.tolist()), truth[rows])


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


def _same_output(first: ModuleTrace, second: ModuleTrace) -> bool:
    one, other = (trace.kind.pack(trace.output) for trace in (first, second))
    return all(
        _close(one[p], other[p]) if isinstance(one[p], np.ndarray) else one[p] == other[p]
        for p in one
    )


def _close(first: Any, second: Any) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-9, equal_nan=True))


def _described(scores: Any) -> str:
    return (
        f"{scores.dtype} of shape {scores.shape}"
        if isinstance(scores, np.ndarray)
        else type(scores).__name__
    )


RULES: tuple[Rule, ...] = (
    follows_the_contract,
    says_why_it_does_not_apply,
    gives_one_float64_a_row,
    row_order_does_not_matter,
    chunks_do_not_matter,
    the_trace_is_never_changed,
    higher_is_riskier,
    failed_rows_teach_nothing,
    comes_back_from_disk,
)


CLASSES, WIDTH, SIDE, PASSES = 4, 6, 8, 10
"""How many classes, activations a layer, pixels a side, and passes where as many as there are
members are asked for."""


def drawn_rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
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
    """The trace of these rows, with the columns that are needed; `failed` rows have no answer.

    Rows of a module made up for supervisors: answers, and for every request a column that goes with
    them.

    A row is a point z in the space of four logits. The class scores are z or its softmax, a layer
    an orthogonal map of z and some noise (so that the scores are linear in it, as in a network's
    last layer), an image a pattern of the same; passes waver, and other supervisors' scores rise,
    where no class stands out. Rows without an answer are NaN, in images zero.

    >>> from roadworthy.subject.needs import Layer, Passes
    >>> rows = trace_of(np.array([[4.0, 0, 0, 0], [0, 0, 0, 0]]), (Layer("fc1"), Passes("dropout", 10)), failed=(1,))
    >>> {name: (column.shape, int(np.isnan(column[1]).all())) for name, column in rows.columns.items()}
    {'layer.fc1': ((2, 6), 1), 'passes.dropout.10': ((2, 9), 1)}
    """
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
    """What goes with these rows; every column has its own map and noise, the same for reference and
    other rows."""
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
