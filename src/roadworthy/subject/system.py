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
array([2., 2.], dtype=float32)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.data.values import FRAMES, GOAL, Kind
from roadworthy.registry import did_you_mean
from roadworthy.subject.module import ClassNames, Module, SubjectError, no_query
from roadworthy.subject.needs import Output, Passes, Request
from roadworthy.subject.trace import SYSTEM, Trace

INPUT = "input"
AtPort = Callable[[Any, str, int], Any]
"""What happens at a port: ``(value, case id, step) -> value``."""


@dataclass(frozen=True)
class Cases:
    """Test inputs in order, by id."""

    ids: Sequence[str]
    inputs: Sequence[Any] | np.ndarray
    seed: int = 0
    drawn: tuple[str | int, ...] = ()
    """What else names the generators of the modules that are assessed: which pass this is, and nothing for the answers."""

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
    """What its makers call it; another version is another subject."""
    mark: str = ""
    """What else its answers depend on, such as the files it was built from: goes into the fingerprint."""

    def __post_init__(self) -> None:
        if SYSTEM in self.modules:
            raise SubjectError(
                f"a module is called {SYSTEM!r}, which stands for all of them together; rename it"
            )
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
            raise SubjectError(
                f"the output {self.output!r} is no port; there are: {', '.join(self._sources())}"
            )

    @property
    def output_kind(self) -> Kind:
        """What the system answers."""
        module, port = self.output.split(".", 1)
        return self.modules[module].outputs[port]

    @property
    def classes(self) -> ClassNames | None:
        """The order of its classes, if the module that answers says it."""
        return getattr(self.modules[self.output.split(".", 1)[0]], "classes", None)

    @property
    def fingerprint(self) -> str:
        """Changes when any module, wire or setting does, and with the version and the mark."""
        digest = hashlib.blake2b(digest_size=16)
        for name, module in self.modules.items():
            digest.update(f"{name}={module.fingerprint};".encode())
        shape = [
            sorted(self.wires.items()),
            self.output,
            self.done,
            self.max_steps,
            self.input_kind.name,
        ]
        shape += [self.version, self.mark]
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
        if all(getattr(m, "whole_case", False) for m in self.modules.values()):
            return False
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
        trace = self._run(cases, requests, at)
        if requests.get(SYSTEM):
            from roadworthy.subject.running import system_passes

            answered = trace[SYSTEM]
            answered.columns.update(system_passes(self, cases, requests[SYSTEM], at, answered))
        return trace

    def entry_ports(self, port: str = INPUT) -> list[str]:
        """The input ports of modules at which a value that is changed at this port is read."""
        return [port] if port != INPUT else [p for p, s in self.wires.items() if s == INPUT]

    def inner_ports(self, port: str = INPUT) -> list[str]:
        """The ports behind these on the way to the output; none in a loop, whose steps diverge."""
        if self.done is not None or any(s not in self._before(p) for p, s in self.wires.items()):
            return []
        entries = self.entry_ports(port)
        behind = {p.split(".", 1)[0] for p in entries}
        for p, source in self.wires.items():
            if source.split(".", 1)[0] in behind:
                behind.add(p.split(".", 1)[0])
        return [
            p
            for m in self.needed(())
            for p in (f"{m}.{i}" for i in self.modules[m].inputs)
            if p not in entries and self.wires[p].split(".", 1)[0] in behind
        ]

    def needed(self, held: Collection[str]) -> list[str]:
        """The modules that the output depends on if these ports get recorded values."""
        waiting = [self.output, *([self.done] if self.done else [])]
        found: set[str] = set()
        while waiting:
            module = waiting.pop().split(".", 1)[0]
            if module == INPUT or module in found:
                continue
            found.add(module)
            ports = (f"{module}.{p}" for p in self.modules[module].inputs)
            waiting += [self.wires[p] for p in ports if p not in held]
        return [name for name in self.modules if name in found]

    def run_held(
        self, cases: Cases, clean: Sequence[str], at: Mapping[str, AtPort], held: Sequence[str]
    ) -> Trace:
        """Run the cases while some input ports get what they got under clean conditions.

        `clean` has the ids of the cases under these, and `at` what happens at the other ports. Ports that
        read the input get it unchanged; others get what was recorded. Modules whose answers reach the
        output through held ports alone do not run: where one would fail, the module behind it is rescued.
        """
        inner = [p for p in held if self.wires[p] != INPUT and p not in self.entry_ports()]
        recorded: dict[tuple[str, str, int], Any] = {}

        def recording(port: str) -> AtPort:
            def keep(value: Any, case: str, step: int) -> Any:
                recorded[port, case, step] = value
                return value

            return keep

        def replaying(port: str) -> AtPort:
            names = dict(zip(cases.ids, clean, strict=True))

            def replay(value: Any, case: str, step: int) -> Any:
                if (port, names[case], step) not in recorded:
                    raise LookupError(f"{port} got nothing under clean conditions")
                return recorded[port, names[case], step]

            return replay

        if not inner:
            return self.run(cases, {}, at)
        self.run(replace(cases, ids=list(clean)), {}, {p: recording(p) for p in inner})
        names = self.needed(inner)
        part = replace(
            self,
            modules={n: self.modules[n] for n in names},
            wires={
                p: INPUT if p in inner else s
                for p, s in self.wires.items()
                if p.split(".", 1)[0] in names
            },
        )
        kept = {p: change for p, change in at.items() if p in part.ports and p not in held}
        return part.run(cases, {}, {**kept, **{p: replaying(p) for p in inner}})

    def _before(self, port: str) -> list[str]:
        """What a port may read in the same step: the input, and outputs of modules before its own."""
        names = list(self.modules)
        earlier = names[: names.index(port.split(".", 1)[0])]
        return [INPUT, *(f"{m}.{o}" for m in earlier for o in self.modules[m].outputs)]

    def offers(self, request: Request) -> str | None:
        """What the system as a whole can be asked for: its output, and passes where some module draws from its `rng`.

        None if the request can be met, else the reason why not, as the end of "not applicable, because …".
        """
        if isinstance(request, Output):
            return None
        assessed = {
            name: module for name, module in self.modules.items() if name not in self.unassessed
        }
        if not isinstance(request, Passes) or request.kind != "own":
            asked = (
                f"{request.kind} passes"
                if isinstance(request, Passes)
                else f"{type(request).__name__.lower()}s"
            )
            return f"the system as a whole has no {asked}; name one of its modules: {', '.join(assessed)}"
        refused = [module.offers(request) for module in assessed.values()]
        if not all(refused):
            return None
        return f"no module of the system can be asked again with other generators: {refused[0]}"

    def offers_query(self) -> str | None:
        """None if a search can query its module, else the reason, as the end of "not applicable: …"."""
        if len(self.modules) > 1:
            return f"attacks query one network, and the system has {len(self.modules)} modules"
        (module,) = self.modules.values()
        return getattr(module, "offers_query", lambda: no_query(module))()  # type: ignore[no-any-return]

    def _run(
        self, cases: Cases, requests: Mapping[str, frozenset[Request]], at: Mapping[str, AtPort]
    ) -> Trace:
        if self.stepwise or not all(m.batched for m in self.modules.values()):
            from roadworthy.subject.running import run_steps

            return run_steps(self, cases, requests, at)
        from roadworthy.subject.running import run_batch

        return run_batch(self, cases, requests, at)

    def traced_port(self, name: str) -> str:
        """The output port of a module that goes into its trace: the system's output if it is one of them, else its first."""
        module, port = self.output.split(".", 1)
        return port if module == name else next(iter(self.modules[name].outputs))

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
