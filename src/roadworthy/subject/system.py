"""A subject is a system: modules joined at named ports, run in the order in which they are listed.

A wire names where an input port takes its value: ``"input"`` (the case's own: a frame at a time where it is a sequence) or
``"module.port"``. A wire from a module that stands later in the order (or from the module itself) carries the value of the
*previous* step: that is how a dialogue's answer reaches the user again. One mechanism, `at`, changes what arrives at a port:
a transform (noise on an inner port), or recorded values (a module's input held clean).

>>> from roadworthy.data.values import VECTOR
>>> from roadworthy.subject.module import function_module
>>> twice = function_module(lambda x: [2 * v for v in x], outputs={"y": VECTOR}, batched=True)
>>> system = System({"twice": twice}, {"twice.x": "input"}, "twice.y", VECTOR)
>>> trace = system.run(Cases(("a", "b"), [np.ones(2), np.ones(2)], seed=0))
>>> trace["system"].output[1]
array([2., 2.])
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.data.values import FRAMES, GOAL, Kind, Unreadable
from roadworthy.registry import did_you_mean
from roadworthy.subject.module import Answers, Context, Module, SubjectError
from roadworthy.subject.needs import Request
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace

INPUT = "input"
AtPort = Callable[[Any, str, int], Any]
"""What happens at a port: ``(value, case id, step) -> value``."""


@dataclass(frozen=True)
class Cases:
    """Test inputs in order, by id."""

    ids: Sequence[str]
    inputs: Sequence[Any] | np.ndarray
    seed: int = 0

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class System:
    """The subject under assessment."""

    modules: Mapping[str, Module]
    wires: Mapping[str, str]
    output: str
    input_kind: Kind
    done: str | None = None
    """The port that ends an episode when it is true."""
    max_steps: int = 20
    unassessed: frozenset[str] = frozenset()
    """Modules that are there to make the case run, such as a simulated user."""
    version: str = ""

    def __post_init__(self) -> None:
        for module, port in self._input_ports():
            if f"{module}.{port}" not in self.wires:
                raise SubjectError(
                    f"the input {module}.{port} is not wired; add wires: {{{module}.{port}: …}} with one of "
                    f"{', '.join(self._sources())}"
                )
        for target, source in self.wires.items():
            if source not in self._sources():
                raise SubjectError(
                    f"the wire of {target} starts at {source!r}, which no module puts out"
                    f"{did_you_mean(source, self._sources())}; there are: {', '.join(self._sources())}"
                )
        if self.output not in self._sources():
            raise SubjectError(f"the output {self.output!r} is no port; there are: {', '.join(self._sources())}")

    @property
    def output_kind(self) -> Kind:
        """What the system answers."""
        module, port = self.output.split(".", 1)
        return self.modules[module].outputs[port]

    @property
    def fingerprint(self) -> str:
        """Changes when any module, wire or setting does."""
        digest = hashlib.blake2b(digest_size=16)
        for name, module in self.modules.items():
            digest.update(f"{name}={module.fingerprint};".encode())
        shape = [sorted(self.wires.items()), self.output, self.done, self.max_steps, self.input_kind.name]
        digest.update(repr(shape).encode())
        return digest.hexdigest()

    @property
    def ports(self) -> list[str]:
        """Every place where `at` may change a value: the input, and each module's input ports."""
        return [INPUT, *(f"{m}.{p}" for m, p in self._input_ports())]

    def kind_at(self, port: str) -> Kind:
        """What flows at a port."""
        source = INPUT if port == INPUT else self.wires[port]
        if source == INPUT:
            return self.input_kind
        module, name = source.split(".", 1)
        return self.modules[module].outputs[name]

    @property
    def stepwise(self) -> bool:
        """Whether a case has steps (frames, turns), so that state matters."""
        return self.input_kind in (FRAMES, GOAL) or self.done is not None

    def run(
        self,
        cases: Cases,
        requests: Mapping[str, frozenset[Request]] | None = None,
        at: Mapping[str, AtPort] | None = None,
    ) -> Trace:
        """Run the cases and record what every module produced. A case that fails is recorded as failed."""
        requests, at = requests or {}, at or {}
        for port in at:
            if port not in self.ports:
                raise SubjectError(
                    f"there is no port {port!r}{did_you_mean(port, self.ports)}; there are: {', '.join(self.ports)}"
                )
        if self.stepwise or not all(m.batched for m in self.modules.values()):
            return _run_steps(self, cases, at)
        return _run_batch(self, cases, requests, at)

    def _input_ports(self) -> list[tuple[str, str]]:
        return [(name, port) for name, module in self.modules.items() for port in module.inputs]

    def _sources(self) -> list[str]:
        return [INPUT, *(f"{m}.{p}" for m, module in self.modules.items() for p in module.outputs)]


def single(module: Module, input_kind: Kind, *, name: str = "model", version: str = "") -> System:
    """A system of one module with one input and its first output."""
    if len(module.inputs) != 1:
        raise SubjectError(
            f"the subject takes the inputs {', '.join(module.inputs) or 'none'}; a subject of one module takes one. "
            "Write a system with modules and wires instead"
        )
    output = next(iter(module.outputs))
    wires = {f"{name}.{module.inputs[0]}": INPUT}
    return System({name: module}, wires, f"{name}.{output}", input_kind, version=version)


# Independent cases, all at once -------------------------------------------------------------------------------------


def _run_batch(
    system: System,
    cases: Cases,
    requests: Mapping[str, frozenset[Request]],
    at: Mapping[str, AtPort],
) -> Trace:
    n = len(cases)
    error = np.full(n, None, dtype=object)
    started = time.perf_counter()
    inputs, error = _arriving(cases.inputs, at.get(INPUT), cases.ids, error)
    values: dict[str, Any] = {INPUT: inputs}
    traces: dict[str, ModuleTrace] = {}
    spent = np.full(n, (time.perf_counter() - started) / max(n, 1))
    for name, module in system.modules.items():
        began = time.perf_counter()
        given: dict[str, Any] = {}
        for port in module.inputs:
            column = values[system.wires[f"{name}.{port}"]]
            given[port], error = _arriving(column, at.get(f"{name}.{port}"), cases.ids, error)
        answers, error = _answer(name, module, given, cases, requests.get(name, frozenset()), error)
        for port, column in answers.outputs.items():
            values[f"{name}.{port}"] = column
        seconds = np.full(n, (time.perf_counter() - began) / max(n, 1))
        spent = spent + seconds
        port = system.output.split(".", 1)[1] if system.output.startswith(f"{name}.") else next(iter(module.outputs))
        extras = {request.column: array for request, array in answers.extras.items()}
        traces[name] = _module_trace(cases, error, seconds, module.outputs[port], answers.outputs[port], extras)
    final = values[system.output]
    traces[SYSTEM] = _module_trace(cases, error, spent, system.output_kind, final, {})
    return Trace(traces)


def _module_trace(
    cases: Cases, error: np.ndarray, seconds: np.ndarray, kind: Kind, output: Any, extras: dict[str, np.ndarray]
) -> ModuleTrace:
    ids = np.array(cases.ids, dtype=object)
    return ModuleTrace(ids, np.zeros(len(ids), np.int32), error.copy(), seconds, kind, output, extras)


def _arriving(
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
        except Exception as problem:
            error[row] = f"the transform failed: {_sentence(problem)}"
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
    """Ask for all sound rows at once; if that raises, ask one by one, so that only the guilty rows fail."""
    n = len(cases)
    sound = np.array([e is None for e in error], dtype=bool)
    rows = np.flatnonzero(sound)
    if rows.size == 0:
        return Answers({port: _spread([], rows, n) for port in module.outputs}), error
    try:
        asked = given if rows.size == n else _pick(given, rows)
        answers = module.batch(asked, Context([cases.ids[i] for i in rows], requests, cases.seed))
        columns, extras, problems = _checked(name, module, answers, rows.size)
    except SubjectError:
        raise
    except Exception as problem:
        if rows.size == 1:
            columns, extras, problems = {p: [None] for p in module.outputs}, {}, {0: _sentence(problem)}
        else:
            return _one_by_one(name, module, given, cases, requests, error)
    for row, reason in problems.items():
        error[rows[row]] = reason
    if rows.size == n:
        return Answers(columns, extras), error
    return (
        Answers(
            {port: _spread(column, rows, n) for port, column in columns.items()},
            {request: _spread(np.asarray(array), rows, n) for request, array in extras.items()},
        ),
        error,
    )


def _one_by_one(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Request],
    error: np.ndarray,
) -> tuple[Answers, np.ndarray]:
    n = len(cases)
    rows = [i for i in range(n) if error[i] is None]
    outputs: dict[str, list[Any]] = {port: [None] * n for port in module.outputs}
    extras: dict[Request, dict[int, Any]] = {}
    for row in rows:
        one = np.array([row])
        try:
            answers = module.batch(_pick(given, one), Context([cases.ids[row]], requests, cases.seed))
            columns, found, problems = _checked(name, module, answers, 1)
        except SubjectError:
            raise
        except Exception as problem:
            error[row] = _sentence(problem)
            continue
        if problems:
            error[row] = problems[0]
            continue
        for port, column in columns.items():
            outputs[port][row] = column[0]
        for request, array in found.items():
            extras.setdefault(request, {})[row] = np.asarray(array)[0]
    spread: dict[Request, np.ndarray] = {}
    for request, by_row in extras.items():
        at_rows = np.array(sorted(by_row))
        spread[request] = _spread(np.stack([by_row[i] for i in at_rows]), at_rows, n)
    dense = {p: _dense_if_possible(module.outputs[p], column) for p, column in outputs.items()}
    return Answers(dense, spread), error


def _checked(
    name: str, module: Module, answers: Answers, n: int
) -> tuple[dict[str, Any], dict[Request, np.ndarray], dict[int, str]]:
    """Outputs checked for count and soundness; unsound rows become problems."""
    problems: dict[int, str] = dict(answers.errors)
    columns: dict[str, Any] = {}
    for port, kind in module.outputs.items():
        if port not in answers.outputs:
            raise SubjectError(f"module {name!r} gave no output {port!r}; it gave: {', '.join(answers.outputs)}")
        column = answers.outputs[port]
        if len(column) != n:
            raise SubjectError(
                f"module {name!r} gave {len(column)} values at {port!r} for {n} cases; it must give one a case"
            )
        columns[port] = _dense_if_possible(kind, column)
        for row, reason in _unsound(kind, columns[port]):
            problems.setdefault(row, f"the {kind.name} it gave {reason}")
    return columns, dict(answers.extras), problems


def _unsound(kind: Kind, column: Any) -> Iterator[tuple[int, str]]:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f" and column.ndim == 2:
        for row in np.flatnonzero(~np.isfinite(column).all(axis=1)):
            yield int(row), kind.problem(column[row]) or "is not finite"
        return
    for row, item in enumerate(column):
        reason = "is missing" if item is None else kind.problem(item)
        if reason:
            yield row, reason


def _dense_if_possible(kind: Kind, column: Any) -> Any:
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


def _pick(given: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {
        port: column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
        for port, column in given.items()
    }


def _spread(column: Any, rows: np.ndarray, n: int) -> Any:
    """A column of `rows` laid out over n rows: NaN or None elsewhere."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        full = np.full((n, *column.shape[1:]), np.nan, dtype=column.dtype)
        full[rows] = column
        return full
    spread: list[Any] = [None] * n
    for row, item in zip(rows, column, strict=False):
        spread[int(row)] = item
    return spread


def _sentence(problem: BaseException) -> str:
    text = str(problem).strip().split("\n")[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


# Cases with steps, one after the other ---------------------------------------------------------------------------------


@dataclass
class _Rows:
    """Rows of one module while steps are run."""

    case: list[str] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    error: list[str | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)

    def add(self, case: str, step: int, error: str | None, seconds: float, output: Any) -> None:
        self.case.append(case)
        self.step.append(step)
        self.error.append(error)
        self.seconds.append(seconds)
        self.output.append(output)

    def trace(self, kind: Kind) -> ModuleTrace:
        return ModuleTrace(
            np.array(self.case, dtype=object),
            np.array(self.step, dtype=np.int32),
            np.array([*self.error, None], dtype=object)[:-1],
            np.array(self.seconds, dtype=np.float64),
            kind,
            _dense_if_possible(kind, self.output) if self.output else [],
        )


def _run_steps(system: System, cases: Cases, at: Mapping[str, AtPort]) -> Trace:
    rows = {name: _Rows() for name in system.modules}
    final = _Rows()
    for case, value in zip(cases.ids, cases.inputs, strict=True):
        began = time.perf_counter()
        try:
            steps = _one_case(system, case, value, cases.seed, at, rows)
            output, error = system.output_kind.join(steps), None
        except _CaseFailed as failed:
            output, error = None, str(failed)
        final.add(case, 0, error, time.perf_counter() - began, output)
    kinds = {n: m.outputs[_traced_port(system, n)] for n, m in system.modules.items()}
    traces = {name: r.trace(kinds[name]) for name, r in rows.items()}
    traces[SYSTEM] = final.trace(system.output_kind)
    return Trace(traces)


class _CaseFailed(Exception):
    """One case cannot go on."""


def _one_case(
    system: System, case: str, value: Any, seed: int, at: Mapping[str, AtPort], rows: Mapping[str, _Rows]
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
        if INPUT in at:
            present[INPUT] = _changed(at[INPUT], present[INPUT], case, step)
        for name, module in system.modules.items():
            given = {}
            for port in module.inputs:
                source = system.wires[f"{name}.{port}"]
                arriving = present[source] if source in present else previous.get(source)
                if f"{name}.{port}" in at and arriving is not None:
                    arriving = _changed(at[f"{name}.{port}"], arriving, case, step)
                given[port] = arriving
            began = time.perf_counter()
            answer, states[name], error = _step(name, module, given, states[name], generator(seed, case, name, step))
            seen = None if answer is None else answer[_traced_port(system, name)]
            rows[name].add(case, step, error, time.perf_counter() - began, seen)
            if error is not None:
                raise _CaseFailed(f"{name}, step {step}: {error}")
            assert answer is not None
            present.update({f"{name}.{port}": v for port, v in answer.items()})
        outputs.append(present[system.output])
        if system.done is not None and bool(present[system.done]):
            break
        previous = present
    return outputs


def _traced_port(system: System, name: str) -> str:
    module, port = system.output.split(".", 1)
    return port if module == name else next(iter(system.modules[name].outputs))


def _changed(change: AtPort, value: Any, case: str, step: int) -> Any:
    try:
        return change(value, case, step)
    except Exception as problem:
        raise _CaseFailed(f"the transform failed: {_sentence(problem)}") from problem


def _step(
    name: str, module: Module, given: Mapping[str, Any], state: Any, rng: np.random.Generator
) -> tuple[Mapping[str, Any] | None, Any, str | None]:
    try:
        answer, state = module.step(given, state, rng)
    except SubjectError:
        raise
    except Exception as problem:
        return None, state, _sentence(problem)
    missing = set(module.outputs) - set(answer)
    if missing:
        raise SubjectError(f"module {name!r} gave no output {sorted(missing)[0]!r}; it gave: {', '.join(answer)}")
    for port, kind in module.outputs.items():
        reason = "is missing" if answer[port] is None else kind.problem(answer[port])
        if reason:
            return None, state, f"the {kind.name} it gave at {port!r} {reason}"
    return answer, state, None
