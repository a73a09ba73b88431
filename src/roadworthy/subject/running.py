"""Cases run through a system: independent ones all at once, those with steps (frames, turns) one
after the other.

If a batch raises, its cases are asked one by one, so that only the guilty fail. What a module
answers is checked before it counts: one value a case, of the declared kind, finite. Modules that
draw from `rng` can be asked again with other generators.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, FRAMES, Kind, Unreadable, as_array
from roadworthy.subject.module import (
    Answers,
    Context,
    FunctionModule,
    Module,
    SubjectError,
    copied,
    draws,
)
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.passes import reduced
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace

if TYPE_CHECKING:
    from roadworthy.subject.system import AtPort, Cases, System

INPUT = "input"


def run_batch(
    system: System,
    cases: Cases,
    requests: Mapping[str, frozenset[Request]],
    at: Mapping[str, AtPort],
) -> Trace:
    n = len(cases)
    error = np.full(n, None, dtype=object)
    started = time.perf_counter()
    inputs, error = _columns_arriving(cases.inputs, at.get(INPUT), cases.ids, error)
    values: dict[str, Any] = {INPUT: inputs}
    traces: dict[str, ModuleTrace] = {}
    spent = np.full(n, (time.perf_counter() - started) / max(n, 1))
    for name, module in system.modules.items():
        began = time.perf_counter()
        given: dict[str, Any] = {}
        for port in module.inputs:
            column = values[system.wires[f"{name}.{port}"]]
            given[port], error = _columns_arriving(
                column, at.get(f"{name}.{port}"), cases.ids, error
            )
        own, others = split(requests.get(name, frozenset()))
        asked = replace(cases, drawn=()) if name in system.unassessed else cases
        before = error.copy()
        answers, error = _answer(name, module, given, asked, others, error)
        for port, column in answers.outputs.items():
            values[f"{name}.{port}"] = column
        port = system.traced_port(name)
        extras = {request.column: array for request, array in answers.extras.items()}
        if own:
            answer = without_failed(answers.outputs[port], error)
            extras |= _batch_passes(name, module, given, asked, own, port, answer, before)
        seconds = np.full(n, (time.perf_counter() - began) / max(n, 1))
        spent = spent + seconds
        traces[name] = _module_trace(
            cases, error, seconds, module.outputs[port], answers.outputs[port], extras
        )
    final = values[system.output]
    traces[SYSTEM] = _module_trace(cases, error, spent, system.output_kind, final, {})
    return Trace(traces)


def _module_trace(
    cases: Cases,
    error: np.ndarray,
    seconds: np.ndarray,
    kind: Kind,
    output: Any,
    extras: dict[str, np.ndarray],
) -> ModuleTrace:
    ids = np.array(cases.ids, dtype=object)
    return ModuleTrace(
        ids, np.zeros(len(ids), np.int32), error.copy(), seconds, kind, output, extras
    )


def _columns_arriving(
    column: Any, change: AtPort | None, ids: Sequence[str], error: np.ndarray
) -> tuple[Any, np.ndarray]:
    """What arrives at a port after `change`; unreadable and failed rows become errors and None."""
    whole = isinstance(column, np.ndarray) and column.dtype != object
    if change is None:
        if whole:
            return column, error
        for row, item in enumerate(column):
            if isinstance(item, Unreadable) and error[row] is None:
                error[row] = item.reason
        return [None if error[row] is not None else item for row, item in enumerate(column)], error
    changed: list[Any] = [None] * len(ids)
    for row, item in enumerate(column):
        if isinstance(item, Unreadable):
            error[row] = error[row] or item.reason
        if error[row] is not None:
            continue
        try:
            changed[row] = change(item, ids[row], 0)
        except (Exception, SystemExit) as problem:
            error[row] = f"the transform failed: {error_sentence(problem)}"
    if whole and all(isinstance(c, np.ndarray) and c.shape == column.shape[1:] for c in changed):
        return np.stack(changed), error
    return changed, error


def _answer(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Request],
    error: np.ndarray,
) -> tuple[Answers, np.ndarray]:
    """Ask for all sound rows at once; if that raises, ask one by one, so that only the guilty rows
    fail."""
    n = len(cases)
    sound = np.array([e is None for e in error], dtype=bool)
    rows = np.flatnonzero(sound)
    if rows.size == 0:
        return Answers({port: laid_out([], rows, n) for port in module.outputs}), error
    try:
        asked = given if rows.size == n else pick(given, rows)
        answers = module.batch(copied(asked), _context(name, cases, rows.tolist(), requests))
        columns, extras, problems = checked_answers(name, module, answers, rows.size)
    except SubjectError:
        raise
    except (Exception, SystemExit) as problem:
        if rows.size > 1:
            return _one_by_one(name, module, given, cases, requests, error)
        columns, extras = {p: [None] for p in module.outputs}, {}
        problems = {0: error_sentence(problem)}
    for row, reason in problems.items():
        error[rows[row]] = reason
    if rows.size == n:
        return Answers(columns, extras), error
    laid = {port: laid_out(column, rows, n) for port, column in columns.items()}
    more = {request: laid_out(np.asarray(array), rows, n) for request, array in extras.items()}
    return Answers(laid, more), error


def _batch_passes(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Passes],
    port: str,
    answer: Any,
    error: np.ndarray,
) -> dict[str, np.ndarray]:
    """The module asked again for the same inputs, with other generators."""
    passes = []
    for i in pass_numbers(requests):
        again = replace(cases, drawn=(*cases.drawn, PASS, i))
        answers, failed = _answer(name, module, given, again, frozenset(), error.copy())
        passes.append(without_failed(answers.outputs[port], failed))
    found = summarised(name, module.outputs[port], requests, answer, passes)
    return {request.column: array for request, array in found.items()}


def _context(name: str, cases: Cases, rows: Sequence[int], requests: frozenset[Request]) -> Context:
    return Context([cases.ids[i] for i in rows], requests, cases.seed, name, drawn=cases.drawn)


def _one_by_one(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Request],
    error: np.ndarray,
) -> tuple[Answers, np.ndarray]:
    n = len(cases)
    outputs: dict[str, list[Any]] = {port: [None] * n for port in module.outputs}
    extras: dict[Request, dict[int, Any]] = {}
    for row in [i for i in range(n) if error[i] is None]:
        alone = replace(cases, ids=[cases.ids[row]])
        picked = pick(given, np.array([row]))
        free = np.array([None], dtype=object)
        answers, failed = _answer(name, module, picked, alone, requests, free)
        error[row] = failed[0]
        if error[row] is not None:
            continue
        for port, column in answers.outputs.items():
            outputs[port][row] = column[0]
        for request, array in answers.extras.items():
            extras.setdefault(request, {})[row] = np.asarray(array)[0]
    laid = {
        request: laid_out(np.stack(list(found.values())), np.array(list(found)), n)
        for request, found in extras.items()
    }
    dense = {p: dense_if_possible(module.outputs[p], column) for p, column in outputs.items()}
    return Answers(dense, laid), error


@dataclass(frozen=True)
class _Answered:
    """One module's answer at one step."""

    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Any = None
    error: str | None = None
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass
class _Rows:
    """Rows of one module while steps are run."""

    case: list[str] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    error: list[str | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    extras: dict[str, list[tuple[int, np.ndarray]]] = field(default_factory=dict)

    def add(self, case: str, step: int, answered: _Answered, seconds: float, output: Any) -> None:
        for column, array in answered.extras.items():
            self.extras.setdefault(column, []).append((len(self.case), array))
        self.case.append(case)
        self.step.append(step)
        self.error.append(answered.error)
        self.seconds.append(seconds)
        self.output.append(output)

    def trace(self, kind: Kind) -> ModuleTrace:
        return ModuleTrace(
            np.array(self.case, dtype=object),
            np.array(self.step, dtype=np.int32),
            np.array([*self.error, None], dtype=object)[:-1],
            np.array(self.seconds, dtype=np.float64),
            kind,
            dense_if_possible(kind, self.output) if self.output else [],
            {column: self._column(column, found) for column, found in self.extras.items()},
        )

    def _column(self, column: str, found: list[tuple[int, np.ndarray]]) -> np.ndarray:
        rows = np.array([row for row, _ in found])
        shapes = sorted({array.shape for _, array in found})
        if len(shapes) > 1:
            raise SubjectError(
                f"{column} has the shapes {shapes[0]} and {shapes[-1]} in different cases; "
                "a layer has one width"
            )
        laid: np.ndarray = laid_out(np.stack([a for _, a in found]), rows, len(self.case))
        return laid


def run_steps(
    system: System,
    cases: Cases,
    requests: Mapping[str, frozenset[Request]],
    at: Mapping[str, AtPort],
) -> Trace:
    """Run each case to its end; every module's every step is a row of its trace."""
    rows = {name: _Rows() for name in system.modules}
    final = _Rows()
    for case, value in zip(cases.ids, cases.inputs, strict=True):
        began = time.perf_counter()
        try:
            steps = _one_case(system, cases, case, value, requests, at, rows)
            output, error = _joined(system.output_kind, steps), None
        except _CaseFailed as failed:
            output, error = None, str(failed)
        final.add(case, 0, _Answered(error=error), time.perf_counter() - began, output)
    kinds = {n: m.outputs[system.traced_port(n)] for n, m in system.modules.items()}
    traces = {name: r.trace(kinds[name]) for name, r in rows.items()}
    traces[SYSTEM] = final.trace(system.output_kind)
    return Trace(traces)


class _CaseFailed(Exception):
    """One case cannot go on."""


def _one_case(
    system: System,
    cases: Cases,
    case: str,
    value: Any,
    requests: Mapping[str, frozenset[Request]],
    at: Mapping[str, AtPort],
    rows: Mapping[str, _Rows],
) -> list[Any]:
    if isinstance(value, Unreadable):
        raise _CaseFailed(value.reason)
    sequence = value if system.input_kind is FRAMES else None
    limit = len(sequence) if sequence is not None else (system.max_steps if system.stepwise else 1)
    states: dict[str, Any] = dict.fromkeys(system.modules)
    outputs: list[Any] = []
    previous: dict[str, Any] = {}
    for step in range(limit):
        present: dict[str, Any] = {INPUT: sequence[step] if sequence is not None else value}
        if isinstance(present[INPUT], Unreadable):
            raise _CaseFailed(f"step {step}: {present[INPUT].reason}")
        if INPUT in at:
            present[INPUT] = _changed(at[INPUT], present[INPUT], case, step)
        for name, module in system.modules.items():
            given = _values_arriving(system, name, present, previous, at, case, step)
            began = time.perf_counter()
            own, others = split(requests.get(name, frozenset()))
            drawn = () if name in system.unassessed else cases.drawn
            context = Context([case], others, cases.seed, name, step, drawn)
            before = copied_state(name, states[name]) if own else None
            answered = _ask(name, module, given, states[name], context)
            port = system.traced_port(name)
            # A step's row stands for a case of one step: a turn becomes an episode of one turn, as the trace keeps it.
            seen = (
                _joined(module.outputs[port], [answered.outputs[port]])
                if answered.error is None
                else None
            )
            if own and answered.error is None:
                more = _step_passes(name, module, given, before, context, own, port, seen)
                answered = replace(answered, extras={**answered.extras, **more})
            rows[name].add(case, step, answered, time.perf_counter() - began, seen)
            if answered.error is not None:
                raise _CaseFailed(f"{name}, step {step}: {answered.error}")
            states[name] = answered.state
            present.update({f"{name}.{port}": v for port, v in answered.outputs.items()})
        outputs.append(present[system.output])
        if system.done is not None and bool(present[system.done]):
            break
        previous = present
    return outputs


def _step_passes(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    state: Any,
    context: Context,
    requests: frozenset[Passes],
    port: str,
    answer: Any,
) -> dict[str, np.ndarray]:
    """This step of the module again, from the same state, with other generators; where it ends is
    forgotten."""
    kind, passes = module.outputs[port], []
    for i in pass_numbers(requests):
        other = replace(context, requests=frozenset(), drawn=(*context.drawn, PASS, i))
        again = _ask(name, module, given, copied_state(name, state), other)
        passes.append([_joined(kind, [again.outputs[port]]) if again.error is None else None])
    found = summarised(name, kind, requests, [answer], passes)
    return {request.column: array[0] for request, array in found.items()}


def _joined(kind: Kind, steps: list[Any]) -> Any:
    """The value of a case; a step that is no part of one (a whole episode where a turn was
    expected) fails the case."""
    try:
        return kind.join(steps)
    except (Exception, SystemExit) as problem:
        raise _CaseFailed(
            f"what it gave step by step does not join to {kind.name}: {error_sentence(problem)}"
        ) from problem


def _values_arriving(
    system: System,
    name: str,
    present: Mapping[str, Any],
    previous: Mapping[str, Any],
    at: Mapping[str, AtPort],
    case: str,
    step: int,
) -> dict[str, Any]:
    """What arrives at a module's ports; a source that has not run yet in this step speaks from the
    previous one."""
    given: dict[str, Any] = {}
    for port in system.modules[name].inputs:
        source = system.wires[f"{name}.{port}"]
        value = present[source] if source in present else previous.get(source)
        if f"{name}.{port}" in at and value is not None:
            value = _changed(at[f"{name}.{port}"], value, case, step)
        given[port] = value
    return given


def _changed(change: AtPort, value: Any, case: str, step: int) -> Any:
    try:
        return change(value, case, step)
    except (Exception, SystemExit) as problem:
        raise _CaseFailed(f"the transform failed: {error_sentence(problem)}") from problem


def _ask(
    name: str, module: Module, given: Mapping[str, Any], state: Any, context: Context
) -> _Answered:
    try:
        if module.batched or (isinstance(module, FunctionModule) and module.layers):
            answers = module.batch({k: [copied(v)] for k, v in given.items()}, context)
        else:
            (rng,) = context.generators() if draws(module, context) else [None]
            outputs, state = module.step({k: copied(v) for k, v in given.items()}, state, rng)
            answers = Answers({port: [value] for port, value in outputs.items()})
        columns, extras, problems = checked_answers(name, module, answers, 1, dense=False)
    except SubjectError:
        raise
    except (Exception, SystemExit) as problem:
        return _Answered(state=state, error=error_sentence(problem))
    if problems:
        return _Answered(state=state, error=problems[0])
    found = {request.column: np.asarray(array)[0] for request, array in extras.items()}
    return _Answered({port: column[0] for port, column in columns.items()}, state, None, found)


def checked_answers(
    name: str, module: Module, answers: Answers, n: int, *, dense: bool = True
) -> tuple[dict[str, Any], dict[Request, np.ndarray], dict[int, str]]:
    """Outputs checked for count and soundness; unsound rows become problems."""
    problems: dict[int, str] = dict(answers.errors)
    columns: dict[str, Any] = {}
    for port, kind in module.outputs.items():
        if port not in answers.outputs:
            raise SubjectError(
                f"module {name!r} gave no output {port!r}; it gave: {', '.join(answers.outputs)}"
            )
        column = as_array(answers.outputs[port])
        if len(column) != n:
            raise SubjectError(
                f"module {name!r} gave {len(column)} values at {port!r} for {n} cases; it must give one a case"
            )
        columns[port] = read_column(kind, column)
        if dense:
            columns[port] = dense_if_possible(kind, columns[port])
        for row, reason in _unsound(kind, columns[port]):
            problems.setdefault(row, f"the {kind.name} it gave {reason}")
    return columns, dict(answers.extras), problems


def read_column(kind: Kind, column: Any) -> Any:
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
    """Rows of numbers of one width as a table, NaN where there is no answer; else a list."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column if column.ndim == 2 or not kind.dense else column.reshape(len(column), -1)
    if not kind.dense:
        return list(column)
    try:
        known = [np.atleast_1d(np.asarray(i, dtype=np.float32)) for i in column if i is not None]
    except (ValueError, TypeError):
        return list(column)
    if len({k.shape for k in known}) != 1:
        return list(column)
    dense = np.full((len(column), *known[0].shape), np.nan, dtype=np.float32)
    dense[[row for row, item in enumerate(column) if item is not None]] = known
    return dense


def pick(given: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {
        port: column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
        for port, column in given.items()
    }


def laid_out(column: Any, rows: np.ndarray, n: int) -> Any:
    """A column of `rows` laid out over n rows: NaN or None elsewhere."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        full = np.full((n, *column.shape[1:]), np.nan, dtype=column.dtype)
        full[rows] = column
        return full
    laid: list[Any] = [None] * n
    for row, item in zip(rows, column, strict=False):
        laid[int(row)] = item
    return laid


def error_sentence(problem: BaseException) -> str:
    text = str(problem).strip().split("\n")[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


OWN = "own"
PASS = "pass"


def split(requests: frozenset[Request]) -> tuple[frozenset[Passes], frozenset[Request]]:
    """The requests for passes of a module's own randomness, which whoever asks the module meets,
    and those it meets itself."""
    own = frozenset(r for r in requests if isinstance(r, Passes) and r.kind == OWN)
    return own, requests - own


def pass_numbers(requests: Iterable[Passes]) -> range:
    """Which passes must be made for all of these requests: the first of many are the few that
    another asks for."""
    return range(max((r.n for r in requests), default=0))


def copied_state(name: str, state: Any) -> Any:
    """A state as it is now, since a function may change the one it is handed."""
    try:
        return copy.deepcopy(state)
    except Exception as error:
        raise SubjectError(
            f"the state of module {name!r} cannot be copied ({type(error).__name__}); passes need a state of plain values"
        ) from error


def summarised(
    name: str, kind: Kind, requests: Iterable[Passes], original: Any, passes: Sequence[Any]
) -> dict[Request, np.ndarray]:
    """What each request gets of these passes; columns of answers, None or NaN where there is none.

    Where nobody answered, the classes are not known either, so that there is no summary of their
    probabilities.
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
    """The cases run again, from their start to their final output.

    Pass i of a module starts from the same inputs and the same state as its answer did and draws
    from generators of its own, named by (seed, case, module, step, "pass", i); the state it ends in
    is dropped. Pass i of a system is the case run again from its start with those generators in
    every module that is assessed: a simulated user, which is not, says the same where it hears the
    same. The answer itself is what it would be if no one had asked.
    """
    own, others = split(requests)
    if others:
        (first, *_) = others
        raise SubjectError(system.offers(first) or f"the system as a whole cannot meet {first}")
    passes = []
    for i in pass_numbers(own):
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
