"""Supervisors of an assessment: who stands at which module or why not, and how they are fitted and asked.

Planning comes before the first case is run. At work, a supervisor is fitted once and scores chunk by
chunk from memory-mapped columns. One that cannot be fitted on these data, or cannot score them, is
left out with its reason, and the others go on. Fits and scores are kept: the next run of the same
supervisors on the same chunks reads them. Inputs are never kept: they are made again from the data,
the transform, the seed and the case id.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from roadworthy import registry
from roadworthy.cases.circumstance import Condition
from roadworthy.cases.generators import Mixture
from roadworthy.data.seeds import key as seed_key
from roadworthy.data.values import FRAMES, Unreadable
from roadworthy.execution.plan import (
    EVERY_OTHER,
    Chunk,
    Extra,
    Plan,
    Supervision,
    Wants,
    hash_of,
    output_kind,
)
from roadworthy.execution.versions import code_version, libraries, source_of
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment, supervisor_label, supervisor_name, supervisor_parameters
from roadworthy.store import ChunkCache
from roadworthy.store.cache import KeptScores
from roadworthy.subject.needs import Input, Layer, Output, Request, Score
from roadworthy.subject.system import INPUT, System
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace, concatenate, whole_folder
from roadworthy.supervisors.supervisor import ROLE, reduce_steps

REFUSALS = (ValueError, RuntimeError)
"""What a supervisor raises that cannot work on these data, or on this device."""


def with_supervisors(plan: Plan) -> Plan:
    """The plan with its supervisors and what they want: requests, calibration cases, reference cases."""
    found, left_out = supervisions(plan), {}
    notes = list(plan.notes)
    if plan.spec.every_supervisor:
        left_out = {s.label: s.because for s in found if not s.applicable}
        found = [s for s in found if s.applicable]
        if left_out:
            notes.append(
                f"`supervisors: all` leaves out {len(left_out)} that do not apply here: {', '.join(left_out)}"
            )
    wants = plan.wants | _wants(plan, [s for s in found if s.applicable])
    return replace(plan, supervisions=found, left_out=left_out, notes=notes, wants=wants)


def _wants(plan: Plan, supervisors: Sequence[Supervision]) -> Wants:
    """Requests, and cases to choose thresholds on and to learn from."""
    conditions: list[Extra] = []
    if "calibration" in plan.data and supervisors:
        shifts = [c for circumstance in plan.circumstances for c in circumstance.conditions()]
        made = [
            c
            for c in shifts
            if c.transform and not c.transform.identity and not isinstance(c.transform, Mixture)
        ]
        conditions.append(Extra("calibration"))
        conditions += [Extra("calibration", c.circumstance, c.level) for c in made]
    fitted = [s for s in supervisors if s.supervisor.fitted and not s.reads_scores]
    conditions += [Extra(c.role) for s in fitted for c in learned_from(plan, s)]
    return Wants(requests_of(supervisors), tuple(conditions))


def requests_of(supervisors: Sequence[Supervision]) -> dict[str, frozenset[Request]]:
    """What supervisors read of each module beyond its output, its inputs and others' scores."""
    found: dict[str, frozenset[Request]] = {}
    for s in supervisors:
        more = {n for n in s.supervisor.needs if not isinstance(n, Output | Input | Score)}
        found[s.module] = found.get(s.module, frozenset()) | more
    return {module: requests for module, requests in found.items() if requests}


def supervisions(plan: Plan) -> list[Supervision]:
    """The supervisors of the file, in its order, each with the reason why it cannot be there."""
    found = named_supervisors(plan.spec, plan.subject)
    found = [replace(s, because=_why_not(plan, i, s)) for i, s in enumerate(found)]
    first = {s.label: s for s in found if not s.reads_scores}
    return [_combining(plan, i, s, first) if s.reads_scores else s for i, s in enumerate(found)]


def named_supervisors(spec: Assessment, system: System) -> list[Supervision]:
    """The supervisors of the file at their modules, in its order; not fitted yet."""
    found: list[Supervision] = []
    for i, entry in enumerate(spec.supervisors):
        name, parameters = supervisor_name(entry), supervisor_parameters(entry)
        module = parameters.pop("module", system.output.split(".", 1)[0])
        if module not in system.modules and module != SYSTEM:
            raise spec.error(
                ("supervisors", i),
                f"the subject has no module {module!r}{did_you_mean(module, system.modules)}; "
                f"it has: {', '.join(system.modules)}",
            )
        with spec.located(("supervisors", i)):
            supervisor = registry.get("supervisors", name).bind(**parameters)
        label = supervisor_label(entry, spec.supervisors)
        if label in {s.label for s in found}:
            raise spec.error(("supervisors", i), f"{label} is named twice")
        found.append(Supervision(name, module, supervisor, parameters, "", label))
    return found


def _why_not(plan: Plan, i: int, s: Supervision) -> str:
    """Why a supervisor cannot stand at its module; a layer that the file misspells is an error."""
    system = plan.subject
    if s.reads_scores:
        return ""
    # The system as a whole is asked as if it were one module.
    module = system if s.module == SYSTEM else system.modules[s.module]
    reason = s.supervisor.applies_to(output_kind(system, s.module))
    if reason:
        return str(reason)
    for request in s.supervisor.needs:
        refusal = module.offers(request) or (
            _not_the_input(system, s.module) if isinstance(request, Input) else ""
        )
        if refusal:
            written = [s.parameters.get("layer"), *(s.parameters.get("layers") or ())]
            misspelt = isinstance(request, Layer) and request.name in written
            if misspelt and "it has: " in refusal and not refusal.endswith("it has: none"):
                raise plan.spec.error(("supervisors", i), f"{s.label}: {refusal}")
            return refusal
    if s.supervisor.fitted and not learned_from(plan, s):
        return "it is fitted on reference data, and the file names none under data: reference"
    return ""


def learned_from(plan: Plan, s: Supervision) -> list[Condition]:
    """The clean cases that a supervisor is fitted on, role by role: the reference, unless it says otherwise."""
    roles = getattr(s.supervisor, "learns_from", ("reference",))
    return [Condition(role=role) for role in roles if role in plan.data]


def _not_the_input(system: System, name: str) -> str:
    """Inputs are made again from the data, which works for what the system itself is given."""
    ports = system.modules[name].inputs
    if len(ports) != 1:
        return f"it reads the module's input, and {name} has {len(ports)}: {', '.join(ports)}"
    source = system.wires[f"{name}.{ports[0]}"]
    if source != INPUT:
        return f"it reads the module's input, and what {name} gets from {source} is not kept"
    return ""


def _combining(
    plan: Plan, i: int, s: Supervision, others: Mapping[str, Supervision]
) -> Supervision:
    """One that reads others' scores, with its members, or with the reason why it cannot."""
    named = [n.name for n in s.supervisor.needs if isinstance(n, Score)]
    members = [m for m in others if others[m].applicable] if EVERY_OTHER in named else named
    unknown = [m for m in members if m not in others]
    if unknown:
        raise plan.spec.error(
            ("supervisors", i),
            f"{s.label} names the member {unknown[0]!r}, which is not among the supervisors whose scores it can "
            f"read{did_you_mean(unknown[0], others)}: {', '.join(others) or 'none'}; add it under supervisors",
        )
    idle = [m for m in members if not others[m].applicable]
    because = ""
    if not members:
        because = "it combines the scores of others, and none of them is applicable"
    elif idle:
        because = f"its member {idle[0]} is not applicable, because {others[idle[0]].because}"
    elif "calibration" not in plan.data:
        because = "it learns from calibration cases. Add `data.calibration`"
    elif s.contrasts and not any(c.conditions() for c in plan.circumstances):
        because = "it learns what shifts do. Add a circumstance with a transform"
    return replace(s, because=because, members=tuple(members))


@dataclass
class Supervisors:
    """The supervisors of a plan during a run."""

    plan: Plan
    cache: ChunkCache
    fresh: bool = False
    """Whether everything is computed again, whatever is kept."""
    failed: dict[str, str] = field(default_factory=dict)
    """Supervisors that could not be fitted or could not score, and why."""
    fit_seconds: dict[str, float] = field(default_factory=dict)
    score_seconds: dict[str, float] = field(default_factory=dict)
    """What each took, in this run or in the one that kept its fit and scores."""
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Members that one who combines all others goes without, since they have no scores."""
    _keys: dict[str, str] = field(default_factory=dict)
    _prints: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> list[Supervision]:
        """Those that read traces."""
        return [s for s in self._working() if not s.reads_scores]

    @property
    def second(self) -> list[Supervision]:
        """Those that read the scores of the others."""
        return [s for s in self._working() if s.reads_scores]

    @property
    def labels(self) -> list[str]:
        """Those that score, in the order of the file."""
        return [s.label for s in self._working()]

    def chunks(self, condition: Condition) -> Iterator[tuple[Chunk, Trace]]:
        """A condition's chunks, memory-mapped, one at a time."""
        for chunk in self.plan.chunks:
            if chunk.condition == condition:
                yield chunk, self.cache.read(chunk.key)

    def fit(self) -> None:
        """Fit those that learn from the reference rows, or take what an earlier run kept of the same fit."""
        for s in self.first:
            if self.fresh:
                shutil.rmtree(self.cache.supervisor(self._key(s)), ignore_errors=True)
            if s.supervisor.fitted and not self._fetch(s):
                self._fit(s)

    def score_chunk(self, chunk: Chunk, trace: Trace) -> dict[str, np.ndarray]:
        """The scores of a chunk's cases, by supervisor; those that read scores come later."""
        inputs: dict[str, np.ndarray] = {}
        found: dict[str, np.ndarray] = {}
        for s in self.first:
            # One whose fit is not kept may learn something else the next time.
            keeps = _keeps(s) or not s.supervisor.fitted
            key = self._key(s)
            kept = self.cache.kept_scores(key, chunk.key, len(chunk)) if keeps else None
            if kept is None:
                kept = self._score(s, chunk, trace, inputs)
                if kept is not None and keeps:
                    self.cache.keep_scores(key, chunk.key, kept)
            if kept is not None:
                self._add_seconds(s, kept.seconds)
                found[s.label] = kept.scores
        return found

    def _score(
        self, s: Supervision, chunk: Chunk, trace: Trace, inputs: dict[str, np.ndarray]
    ) -> KeptScores | None:
        """What one says of a chunk's cases; `inputs` are those of modules that were made already."""
        found = self._score_rows(s, chunk, trace, inputs)
        if found is None:
            return None
        rows, made = found
        how = getattr(s.supervisor, "reduce", "max")
        return made._replace(scores=reduce_steps(rows, made.scores, trace[SYSTEM].case, how))

    def step_scores(self, condition: Condition) -> Iterator[tuple[str, ModuleTrace, np.ndarray]]:
        """What those that read traces say of every step: label, rows of the module, scores."""
        for chunk, trace in self.chunks(condition):
            inputs: dict[str, np.ndarray] = {}
            for s in self.first:
                found = self._score_rows(s, chunk, trace, inputs)
                if found is not None:
                    yield s.label, found[0], found[1].scores

    def _score_rows(
        self, s: Supervision, chunk: Chunk, trace: Trace, inputs: dict[str, np.ndarray]
    ) -> tuple[ModuleTrace, KeptScores] | None:
        rows = trace[s.module]
        if s.reads_inputs:
            if s.module not in inputs:
                inputs[s.module] = inputs_of(self.plan, chunk, s.module, rows)
            rows = replace(rows, columns={**rows.columns, Input().column: inputs[s.module]})
        made = self._timed_score(s, rows)
        return None if made is None else (rows, made)

    def fit_second(
        self,
        s: Supervision,
        system: ModuleTrace,
        scores: Mapping[str, np.ndarray],
        marked: np.ndarray,
    ) -> None:
        """Fit one that reads scores, on cases that its members have scored; `marked` are those that are shifted, or failed."""
        given = [m for m in s.members if m in scores and not np.isnan(scores[m][system.ok]).all()]
        lost = [m for m in s.members if m not in (given if s.reads_every_other else scores)]
        if lost and not (s.reads_every_other and given):
            self.failed[s.label] = self._without(lost[0])
            return
        self.left_out[s.label] = tuple(lost)
        self._timed_fit(s, with_scores(system, self.members_of(s), scores), marked)

    def members_of(self, s: Supervision) -> tuple[str, ...]:
        """Those whose scores it reads after all."""
        return tuple(m for m in s.members if m not in self.left_out.get(s.label, ()))

    def notes_of(self, s: Supervision) -> list[str]:
        """What a supervisor remarked about its data, and whom it goes without."""
        gone = [
            f"it goes without {m}, because {self.failed.get(m, 'it scored none of the cases')}"
            for m in self.left_out.get(s.label, ())
        ]
        return [*(str(n) for n in getattr(s.supervisor, "notes", ())), *gone]

    def score_second(
        self, system: ModuleTrace, scores: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The scores of those that read scores, a row a case."""
        found = {}
        for s in self.second:
            members = self.members_of(s)
            lost = [m for m in members if m not in scores]
            if lost:
                self.failed[s.label] = self._without(lost[0])
                continue
            made = self._timed_score(s, with_scores(system, members, scores))
            if made is not None:
                self._add_seconds(s, made.seconds)
                found[s.label] = made.scores
        return found

    def _without(self, member: str) -> str:
        return f"its member {member} is not applicable, because {self.failed.get(member, 'it has no scores')}"

    def save(self, folder: Path) -> None:
        """Keep the fitted ones under their labels, for the monitor and for people."""
        shutil.rmtree(folder, ignore_errors=True)
        for s in self._working():
            if s.supervisor.fitted:
                self._mark(s)
                s.supervisor.save(folder / folder_name(s.label))

    def _working(self) -> list[Supervision]:
        return [s for s in self.plan.supervisions if s.applicable and s.label not in self.failed]

    def _timed_score(self, s: Supervision, rows: ModuleTrace) -> KeptScores | None:
        started = time.perf_counter()
        try:
            scores = np.asarray(s.supervisor.score(rows), dtype=np.float64)
        except REFUSALS as error:
            self.failed[s.label] = str(error).strip() or type(error).__name__
            return None
        return KeptScores(scores, time.perf_counter() - started)

    def _timed_fit(self, s: Supervision, rows: ModuleTrace, truth: Any) -> None:
        started = time.perf_counter()
        try:
            s.supervisor.fit(rows, truth)
        except REFUSALS as error:
            self.failed[s.label] = str(error).strip() or type(error).__name__
            return
        self.fit_seconds[s.label] = time.perf_counter() - started

    def _add_seconds(self, s: Supervision, seconds: float) -> None:
        self.score_seconds[s.label] = self.score_seconds.get(s.label, 0.0) + seconds

    def _fit(self, s: Supervision) -> None:
        parts = []
        wanted = {n.column for n in s.supervisor.needs}
        conditions = learned_from(self.plan, s)
        for number, chunk, trace in (
            (i, chunk, trace) for i, c in enumerate(conditions) for chunk, trace in self.chunks(c)
        ):
            rows = trace[s.module]
            columns = {name: column for name, column in rows.columns.items() if name in wanted}
            if s.reads_inputs:
                columns[Input().column] = inputs_of(self.plan, chunk, s.module, rows)
            if len(conditions) > 1:
                columns[ROLE] = np.full(len(rows), number)
            parts.append(replace(rows, columns=columns))
        truth = self.plan.data[conditions[0].role].targets if len(conditions) == 1 else None
        self._timed_fit(s, concatenate(parts), truth)
        if s.label in self.failed or not _keeps(s):
            return
        self._mark(s)
        # In place of the whole folder, so that scores of a fit that was lost or damaged go with it.
        with whole_folder(self.cache.supervisor(self._key(s))) as folder:
            s.supervisor.save(folder / "fit")
            (folder / "seconds.json").write_text(json.dumps(self.fit_seconds[s.label]))

    def _fetch(self, s: Supervision) -> bool:
        """Take a kept fit; whatever is wrong with it, it is made again."""
        place = self.cache.supervisor(self._key(s))
        if not _keeps(s) or not place.is_dir():
            return False
        self._mark(s)
        try:
            seconds = float(json.loads((place / "seconds.json").read_text()))
            s.supervisor.load(place / "fit")
        except (OSError, ValueError, TypeError, KeyError):
            return False
        self.fit_seconds[s.label] = seconds
        return True

    def _mark(self, s: Supervision) -> None:
        """Say in what it saves which subject it was fitted on."""
        meta = getattr(s.supervisor, "meta", None)
        if isinstance(meta, dict):
            if s.module not in self._prints:
                system = self.plan.subject
                module = system if s.module == SYSTEM else system.modules[s.module]
                self._prints[s.module] = module.fingerprint
            meta.update(subject=self._prints[s.module], module=s.module, label=s.label)

    def _key(self, s: Supervision) -> str:
        """Names what is kept of it: who it is, with its code, where it stands, and what fitted it."""
        if s.label not in self._keys:
            conditions = learned_from(self.plan, s)
            learned_on = [c.key for c in self.plan.chunks if c.condition in conditions]
            # Chunks are named after inputs alone, and some learn from the labels too.
            learned_on += [self.plan.data[c.role].fingerprint for c in conditions]
            component = registry.get("supervisors", s.name)
            who = [s.name, s.module, dict(s.parameters)]
            code = [code_version(), source_of(component), libraries()]
            self._keys[s.label] = hash_of([who, code, learned_on if s.supervisor.fitted else []])
        return self._keys[s.label]


def folder_name(label: str) -> str:
    """A label as the name of a folder; layers of ONNX graphs hold slashes.

    >>> folder_name("knn(k=5)"), folder_name("knn(layer=/fc/Gemm)")
    ('knn(k=5)', 'knn(layer=%2Ffc%2FGemm)')
    """
    return quote(label, safe="()=,[]' ")


def _keeps(s: Supervision) -> bool:
    """Whether it is one that says what it kept, so that a kept fit can be told from another's."""
    return isinstance(getattr(s.supervisor, "meta", None), dict)


def with_scores(
    system: ModuleTrace, members: Sequence[str], scores: Mapping[str, np.ndarray]
) -> ModuleTrace:
    """The rows of cases with the scores that one who combines others reads."""
    return replace(system, columns={Score(m).column: scores[m] for m in members})


def halves(clusters: np.ndarray, seed: int) -> np.ndarray:
    """Which rows belong to the first half of the clusters, by the seed and their names alone."""
    names, own = np.unique(clusters.astype(str), return_inverse=True)
    order = np.array(sorted(range(len(names)), key=lambda i: seed_key(seed, "half", str(names[i]))))
    first = np.zeros(len(names), dtype=bool)
    first[order[: (len(names) + 1) // 2]] = True
    chosen: np.ndarray = first[own]
    return chosen


def inputs_of(plan: Plan, chunk: Chunk, module: str, rows: ModuleTrace) -> np.ndarray:
    """The inputs that a module saw, for the rows of its trace; None or NaN if there was none."""
    condition, data = chunk.condition, plan.data[chunk.condition.role]
    items = plan.inputs(condition, chunk.start, chunk.stop)
    ids = [condition.case_id(i) for i in data.ids[chunk.start : chunk.stop]]
    if condition.port not in (INPUT, f"{module}.{plan.subject.modules[module].inputs[0]}"):
        condition = replace(condition, transform=None)
    changed = condition.transform is not None and not condition.transform.identity
    one_each = len(rows) == len(ids) and rows.case.tolist() == ids
    if not changed and one_each and isinstance(items, np.ndarray) and items.dtype != object:
        return items
    position = {case: i for i, case in enumerate(ids)}
    whole = data.input_kind is FRAMES and not plan.subject.stepwise
    made = [
        plan.arriving(condition, case, items[position[case]], None if whole else int(step))
        for case, step in zip(rows.case, rows.step, strict=True)
    ]
    return stacked([None if isinstance(one, Unreadable) else one for one in made])


def stacked(items: list[Any]) -> np.ndarray:
    """One array if the items have one shape, NaN for those that are missing; else an object array.

    >>> stacked([np.zeros((2, 3)), None]).shape, stacked([np.zeros(2), np.zeros(3)]).dtype
    ((2, 2, 3), dtype('O'))
    """
    arrays = [i for i in items if isinstance(i, np.ndarray) and i.dtype != object]
    missing = [n for n, i in enumerate(items) if i is None]
    alike = len({a.shape for a in arrays}) == 1 and len(arrays) + len(missing) == len(items)
    if not alike:
        column = np.empty(len(items), dtype=object)
        column[:] = items
        return column
    if not missing:
        return np.stack(arrays)
    dense = np.full((len(items), *arrays[0].shape), np.nan, dtype=np.float32)
    dense[[n for n, i in enumerate(items) if i is not None]] = arrays
    return dense
