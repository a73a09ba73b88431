"""Running cases that have steps (frames, turns), one after the other, with explicit state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.values import FRAMES, Kind, Unreadable
from roadworthy.subject.answers import dense_if_possible, sentence, spread
from roadworthy.subject.handing import copied
from roadworthy.subject.module import Context, Module, SubjectError
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.own_passes import PASS, kept, numbers, split, summarised
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace

if TYPE_CHECKING:
    from roadworthy.subject.system import AtPort, Cases, System

INPUT = "input"


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
            {column: self._column(found) for column, found in self.extras.items()},
        )

    def _column(self, found: list[tuple[int, np.ndarray]]) -> np.ndarray:
        rows = np.array([row for row, _ in found])
        column: np.ndarray = spread(np.stack([array for _, array in found]), rows, len(self.case))
        return column


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
            given = _arriving(system, name, present, previous, at, case, step)
            began = time.perf_counter()
            own, others = split(requests.get(name, frozenset()))
            drawn = () if name in system.unassessed else cases.drawn
            context = Context([case], others, cases.seed, name, step, drawn)
            before = kept(name, states[name]) if own else None
            answered = _ask(name, module, given, states[name], context)
            port = system.traced_port(name)
            # A step's row stands for a case of one step: a turn becomes an episode of one turn, as the trace keeps it.
            seen = (
                _joined(module.outputs[port], [answered.outputs[port]])
                if answered.error is None
                else None
            )
            if own and answered.error is None:
                more = _own_passes(name, module, given, before, context, own, port, seen)
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


def _own_passes(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    state: Any,
    context: Context,
    requests: frozenset[Passes],
    port: str,
    answer: Any,
) -> dict[str, np.ndarray]:
    """This step of the module again, from the same state, with other generators; where it ends is forgotten."""
    kind, passes = module.outputs[port], []
    for i in numbers(requests):
        other = replace(context, requests=frozenset(), drawn=(*context.drawn, PASS, i))
        again = _ask(name, module, given, kept(name, state), other)
        passes.append([_joined(kind, [again.outputs[port]]) if again.error is None else None])
    found = summarised(name, kind, requests, [answer], passes)
    return {request.column: array[0] for request, array in found.items()}


def _joined(kind: Kind, steps: list[Any]) -> Any:
    """The value of a case; a step that is no part of one (a whole episode where a turn was expected) fails the case."""
    try:
        return kind.join(steps)
    except (Exception, SystemExit) as problem:
        raise _CaseFailed(
            f"what it gave step by step does not join to {kind.name}: {sentence(problem)}"
        ) from problem


def _arriving(
    system: System,
    name: str,
    present: Mapping[str, Any],
    previous: Mapping[str, Any],
    at: Mapping[str, AtPort],
    case: str,
    step: int,
) -> dict[str, Any]:
    """What arrives at a module's ports; a source that has not run yet in this step speaks from the previous one."""
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
        raise _CaseFailed(f"the transform failed: {sentence(problem)}") from problem


def _ask(
    name: str, module: Module, given: Mapping[str, Any], state: Any, context: Context
) -> _Answered:
    extras: dict[str, np.ndarray] = {}
    try:
        if module.batched:
            answers = module.batch({k: [copied(v)] for k, v in given.items()}, context)
            if answers.errors:
                return _Answered(state=state, error=next(iter(answers.errors.values())))
            outputs: Mapping[str, Any] = {
                port: column[0] for port, column in answers.outputs.items()
            }
            extras = {
                request.column: np.asarray(array)[0] for request, array in answers.extras.items()
            }
        else:
            (rng,) = context.generators()
            outputs, state = module.step({k: copied(v) for k, v in given.items()}, state, rng)
    except SubjectError:
        raise
    except (Exception, SystemExit) as problem:
        return _Answered(state=state, error=sentence(problem))
    missing = set(module.outputs) - set(outputs)
    if missing:
        raise SubjectError(
            f"module {name!r} gave no output {sorted(missing)[0]!r}; it gave: {', '.join(outputs)}"
        )
    outputs = {
        p: None if outputs[p] is None else kind.read(outputs[p])
        for p, kind in module.outputs.items()
    }
    for port, kind in module.outputs.items():
        reason = "is missing" if outputs[port] is None else kind.problem(outputs[port])
        if reason:
            return _Answered(state=state, error=f"the {kind.name} it gave at {port!r} {reason}")
    return _Answered(outputs, state, None, extras)
