"""A module of a subject: something with named input and output ports, learned or plain, with or
without state.

Two ways to run one. ``step(inputs, state, rng) -> (outputs, state)`` takes one case's step; state
is an explicit value that starts as None. ``batch(inputs, context) -> Answers`` takes many
independent cases at once. A module offers one or both; a plain Python function becomes a module by
`function_module`.

>>> from roadworthy.data.values import VECTOR
>>> double = function_module(lambda x: 2 * x, outputs={"y": VECTOR})
>>> double.step({"x": 3}, None, None)
({'y': 6}, None)
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from roadworthy.data.seeds import generator
from roadworthy.data.values import Kind
from roadworthy.subject.needs import Input, Layer, Output, Passes, Pool, Request

_FIXED = (str, bytes, int, float, complex, type(None))
"""What nobody can change in place."""


def copied(value: Any) -> Any:
    """The value as it is now, to be changed by whoever gets it; what cannot be copied (an open
    connection) is handed on.

    A user's function may scale the image it is given where it stands. Were that the data set's own
    row, the next condition would begin from what the last one left.

    >>> row = np.zeros(2)
    >>> mine = copied({"image": row, "name": "a"})
    >>> mine["image"] += 1
    >>> row.tolist(), mine["image"].tolist()
    ([0.0, 0.0], [1.0, 1.0])
    """
    if isinstance(value, _FIXED):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.array(value)
    if type(value) is list:
        return [copied(item) for item in value]
    if type(value) is dict:
        return {name: copied(item) for name, item in value.items()}
    try:
        return copy.deepcopy(value)
    except MemoryError:
        raise
    except Exception:
        return value


def no_query(module: Any) -> str | None:
    """Why a search cannot query a module; one that says otherwise has `offers_query` and `query`."""
    return "it gives no gradients: attacks need one torch classifier (`torch:` under subject)"


class SubjectError(RuntimeError):
    """The subject cannot be used as it is; the message says what it did and what was expected."""


class ClassNames(NamedTuple):
    """The class that each output position stands for, as a subject says it."""

    names: tuple[str, ...]
    source: str
    """Where it says so."""


def own_classes(*holders: Any) -> ClassNames | None:
    """The classes in an attribute `classes_` (scikit-learn's name) of the first of these that has one."""
    for holder in holders:
        found = getattr(holder, "classes_", None)
        if found is not None and not callable(found):
            return ClassNames(tuple(str(name) for name in found), "the subject's `classes_`")
    return None


@dataclass(frozen=True)
class Context:
    """What a batch needs to know besides its inputs."""

    ids: Sequence[str]
    """The case ids, in order."""
    requests: frozenset[Request] = frozenset()
    """What supervisors ask for beyond the output."""
    seed: int = 0
    module: str = ""
    """The module's name in its system: masks and draws are its own."""
    step: int = 0
    drawn: tuple[str | int, ...] = ()
    """What else names the generators: which pass this is, and nothing for the answer itself."""

    def generators(self) -> list[np.random.Generator]:
        """One a case, of its own, whatever else is in the batch."""
        return [
            generator(self.seed, case, self.module, self.step, *self.drawn) for case in self.ids
        ]


@dataclass(frozen=True)
class Answers:
    """What a batch produced: a column for each output port, and arrays for the requests that were
    granted.

    A row that has no answer is None (or a NaN row) and may carry its reason in `errors`.
    """

    outputs: Mapping[str, Sequence[Any] | np.ndarray]
    extras: Mapping[Request, np.ndarray] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)


@runtime_checkable
class Module(Protocol):
    """The contract. `batched` says whether `batch` may be called; `step` always may."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Its input ports."""
        ...

    @property
    def outputs(self) -> Mapping[str, Kind]:
        """Its output ports, and what kind of value each gives."""
        ...

    @property
    def batched(self) -> bool:
        """Whether many cases may be asked at once."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash that changes when the module would answer differently."""
        ...

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        """One step of one case."""
        ...

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """Many independent cases."""
        ...

    def offers(self, request: Request) -> str | None:
        """None if the request can be met, else the reason why not, as the end of "not applicable,
        because …"."""
        ...


@dataclass(frozen=True)
class FunctionModule:
    """A Python function as a module."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: Mapping[str, Kind]
    batched: bool = False
    stateful: bool = False
    wants_rng: bool = False
    only_in_passes: bool = False
    """Whether the answer itself is made without a generator, and only passes draw: `rng` has the
    default None."""
    layers: tuple[str, ...] = ()
    """Activations that it returns beside its outputs, by name."""
    start: Any = None
    """The state that a case begins with: the default of the function's argument, and None where it
    has none."""
    mark: str = ""
    """What its answers depend on besides its source file (weights, settings): goes into the
    fingerprint."""
    files: tuple[Path, ...] = ()
    """The files it came from."""

    @property
    def fingerprint(self) -> str:
        """A hash of the function's name and the mark, which stands for the files it came from.

        A function that was handed in without a mark has a fingerprint that is new in every process:
        nothing is known of what it holds, and no answer of another model must be used again.
        """
        ports = [self.inputs, sorted((p, k.name) for p, k in self.outputs.items()), self.batched]
        content = [_name_of(self.function), self.mark or self._once, ports]
        return hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()

    @property
    def classes(self) -> ClassNames | None:
        """From `classes_` on the function, on the object it belongs to, or in its module."""
        home = sys.modules.get(getattr(self.function, "__module__", None) or "")
        return own_classes(self.function, getattr(self.function, "__self__", None), home)

    @functools.cached_property
    def _once(self) -> str:
        return uuid.uuid4().hex

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        """Call the function with its inputs by name, its state if it keeps one, its generator if it
        asks for it."""
        given = {name: inputs[name] for name in self.inputs}
        if self.batched:
            columns = self._on_columns({k: [v] for k, v in given.items()}, [rng])
            return {port: column[0] for port, column in columns.items()}, state
        if self.wants_rng:
            given["rng"] = rng
        if self.stateful:
            answer, state = self.function(
                **given, state=copied(self.start) if state is None else state
            )
        else:
            answer = self.function(**given)
        return self._by_port(answer), state

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The function on whole columns, if it takes them; else case by case, stateless ones only."""
        generators: Sequence[Any] = (
            context.generators()
            if self.wants_rng and draws(self, context)
            else [None] * len(context.ids)
        )
        if self.batched:
            return Answers(self._on_columns(inputs, generators))
        rows = enumerate(generators)
        steps = [self.step({k: v[i] for k, v in inputs.items()}, None, rng)[0] for i, rng in rows]
        extras: dict[Request, np.ndarray] = {
            r: np.stack([one_row(s[r.name], r.pool, r.name) for s in steps])
            for r in context.requests
            if isinstance(r, Layer)
        }
        return Answers({port: [s[port] for s in steps] for port in self.outputs}, extras)

    def offers(self, request: Request) -> str | None:
        """Output, input, passes of a function that draws from `rng`, and the layers it returns."""
        if isinstance(request, Output | Input):
            return None
        if isinstance(request, Layer) and self.layers:
            known = ", ".join(self.layers)
            return None if request.name in self.layers else f"its layers are: {known}"
        if isinstance(request, Passes):
            return self._why_no_passes(request)
        return f"a Python function shows no {type(request).__name__.lower()}s"

    offers_query = no_query

    def _why_no_passes(self, request: Passes) -> str | None:
        if not self.wants_rng:
            return (
                f"{_name_of(self.function)} takes no rng, so that every pass would be the same; give it an argument rng from "
                "which all its randomness comes, or use a torch model with dropout"
            )
        if request.kind != "own":
            return f"a Python function has no {request.kind} that could be seen; ask for its own randomness (kind: own)"
        return None

    def _on_columns(
        self, inputs: Mapping[str, Sequence[Any]], generators: Sequence[Any]
    ) -> Mapping[str, Any]:
        given = {name: inputs[name] for name in self.inputs}
        if self.wants_rng:
            given["rng"] = generators
        return self._by_port(self.function(**given))

    def _by_port(self, answer: Any) -> Mapping[str, Any]:
        # A copy, since a function may fill the same array, or its state, again for the next case.
        answer = copied(answer)
        expected = {*self.outputs, *self.layers}
        if len(expected) == 1:
            (port,) = self.outputs
            return (
                answer if isinstance(answer, Mapping) and set(answer) == {port} else {port: answer}
            )
        if not isinstance(answer, Mapping) or set(answer) != expected:
            got = sorted(answer) if isinstance(answer, Mapping) else type(answer).__name__
            raise SubjectError(
                f"{_name_of(self.function)} has the outputs {sorted(expected)} and must return a dict of them; "
                f"it returned {got}"
            )
        return answer


def one_row(activations: Any, pool: Pool, layer: str) -> np.ndarray:
    """The activations of a case in one row: those of many items (the crops of an image) are pooled,
    and those of no item are NaN.

    >>> one_row([[1.0, 4.0], [3.0, 0.0]], "mean", "last").tolist()
    [2.0, 2.0]
    >>> one_row(np.zeros((0, 2)), "max", "last").tolist()
    [nan, nan]
    """
    rows = np.asarray(activations, dtype=np.float32)
    if rows.ndim == 1:
        return rows
    if rows.ndim != 2 or pool == "none":
        raise SubjectError(
            f"the layer {layer!r} has the shape {rows.shape} for one case; give one row, or one row an "
            "item, which pool: mean or pool: max reduces to one"
        )
    if not len(rows):
        return np.full(rows.shape[1], np.nan, dtype=np.float32)
    pooled: np.ndarray = rows.mean(axis=0) if pool == "mean" else rows.max(axis=0)
    return pooled


def function_module(
    function: Callable[..., Any],
    *,
    outputs: Mapping[str, Kind],
    batched: bool = False,
    layers: Sequence[str] = (),
    mark: str = "",
) -> FunctionModule:
    """A module from a function: its arguments without default are its input ports; `state` and
    `rng` mean what they say.

    `state` and `rng` do so with a default too: a case begins with that state. `rng` is a random
    generator of the case's own; where the function is batched, a list of them, one a case. With
    ``rng=None`` the answer itself is made without one, and only passes draw: what `vro` compares
    them with is then the module's undisturbed answer.

    `layers` names activations that the function returns beside its outputs, in one dict: a row of
    numbers, or a row for each of several items of the case, which supervisors read.

    >>> from roadworthy.data.values import VECTOR
    >>> def noisy(x, rng=None):
    ...     return x if rng is None else x + rng.normal()
    >>> module = function_module(noisy, outputs={"y": VECTOR})
    >>> module.batch({"x": [1.0]}, Context(["a"])).outputs["y"]
    [1.0]
    >>> module.batch({"x": [1.0]}, Context(["a"], drawn=("pass", 0))).outputs["y"] == [1.0]
    False
    """
    named = {
        name: p.default
        for name, p in inspect.signature(function).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    stateful, wants_rng = "state" in named, "rng" in named
    only_in_passes = named.get("rng", inspect.Parameter.empty) is None
    start = named.get("state", inspect.Parameter.empty)
    ports = tuple(
        n
        for n, default in named.items()
        if n not in ("state", "rng") and default is inspect.Parameter.empty
    )
    if batched and stateful:
        raise SubjectError(
            f"{_name_of(function)} cannot be batched: it keeps state from step to step"
        )
    if layers and (batched or stateful):
        raise SubjectError(
            f"{_name_of(function)} returns layers, which is possible for one case at a time without "
            "state: leave out batched and state"
        )
    return FunctionModule(
        function,
        ports,
        dict(outputs),
        batched=batched,
        stateful=stateful,
        wants_rng=wants_rng,
        only_in_passes=only_in_passes,
        layers=tuple(layers),
        start=None if start is inspect.Parameter.empty else start,
        mark=mark,
    )


def draws(module: Any, context: Context) -> bool:
    """Whether a module is handed generators now: always, unless only its passes draw."""
    return bool(context.drawn) or not getattr(module, "only_in_passes", False)


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
