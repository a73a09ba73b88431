"""Supervisors of an assessment: who stands at which module or why not, and how they are fitted and asked.

Planning comes before the first case is run. At work, a supervisor is fitted once and scores chunk by chunk from memory-mapped
columns. One that cannot be fitted on these data, or cannot score them, is left out with its reason, and the others go on.
Fits and scores are kept: the next run of the same supervisors on the same chunks reads them. Inputs are never kept: they are
made again from the data, the transform, the seed and the case id.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from roadworthy import registry
from roadworthy.cases.circumstance import Circumstance, Condition
from roadworthy.data.samples import Dataset
from roadworthy.data.seeds import key as seed_key
from roadworthy.data.values import FRAMES, Unreadable
from roadworthy.execution.plan import EVERY_OTHER, Chunk, Extra, Plan, Supervision, Wants
from roadworthy.execution.versions import code_version, libraries, source_of
from roadworthy.registry import did_you_mean
from roadworthy.spec import (
    Assessment,
    SpecError,
    supervisor_label,
    supervisor_name,
    supervisor_parameters,
)
from roadworthy.store import ChunkCache
from roadworthy.store.cache import KeptScores, read_kept_scores, write_kept_scores
from roadworthy.subject.needs import Input, Layer, Output, Request, Score
from roadworthy.subject.system import INPUT, System
from roadworthy.subject.trace import MANIFEST, SYSTEM, ModuleTrace, Trace, concatenate
from roadworthy.supervisors.supervisor import reduce_steps

KINDS = {
    "class_scores": "class scores",
    "vector": "a vector of numbers",
    "goal": "a goal",
    "episode": "an episode",
}
"""Kinds of values whose names are not yet words of a sentence."""


KEPT_FITS = "fitted"
"""Where fitted supervisors lie in the cache."""
SPENT = "spent.json"
"""What a kept fit took, and the hash of what was learned."""
REFUSALS = (ValueError, RuntimeError)
"""What a supervisor raises that cannot work on these data, or on this device."""


def supervised(plan: Plan) -> Plan:
    """The plan with its supervisors and what they want: requests, calibration cases, reference cases."""
    found, left_out = supervisions(plan.spec, plan.subject, plan.data, plan.circumstances), {}
    notes = list(plan.notes)
    if plan.spec.every_supervisor:
        left_out = {s.label: s.because for s in found if not s.applicable}
        found = [s for s in found if s.applicable]
        if left_out:
            notes.append(
                f"`supervisors: all` leaves out {len(left_out)} that do not apply here: {', '.join(left_out)}"
            )
    wants = _wants(plan, [s for s in found if s.applicable])
    return replace(
        plan, supervisions=found, left_out=left_out, notes=notes, wants=plan.wants | wants
    )


def _wants(plan: Plan, supervisors: Sequence[Supervision]) -> Wants:
    """Requests beyond output, inputs and scores, which are made again and not kept; the calibration cases, clean and under every
    transform, on which thresholds are chosen; the reference cases, if one learns from them."""
    requests: dict[str, set[Request]] = {}
    for s in supervisors:
        more = [n for n in s.supervisor.needs if not isinstance(n, Output | Input | Score)]
        requests.setdefault(s.module, set()).update(more)
    conditions: list[Extra] = []
    calibrated = "calibration" in plan.data
    if calibrated and supervisors:
        shifts = [c for circumstance in plan.circumstances for c in circumstance.conditions()]
        made = [c for c in shifts if c.transform and not c.transform.identity]
        conditions.append(Extra("calibration"))
        conditions += [Extra("calibration", c.circumstance, c.level) for c in made]
    fitted = [s for s in supervisors if s.supervisor.fitted]
    if any(not s.reads_scores or not calibrated for s in fitted):
        conditions.append(Extra("reference"))
    asked = {module: frozenset(found) for module, found in requests.items() if found}
    return Wants(asked, tuple(conditions))


def supervisions(
    spec: Assessment,
    system: System,
    sets: Mapping[str, Dataset],
    circumstances: Sequence[Circumstance],
) -> list[Supervision]:
    """The supervisors of the file, in its order."""
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
        try:
            supervisor = registry.get("supervisors", name).bind(**parameters)
        except ValueError as error:
            raise spec.error(("supervisors", i), str(error)) from error
        label = supervisor_label(entry, spec.supervisors)
        if label in {s.label for s in found}:
            raise spec.error(("supervisors", i), f"{label} is named twice")
        one = Supervision(name, module, supervisor, parameters, "", label)
        try:
            found.append(
                one if one.reads_scores else replace(one, because=_why_not(one, system, sets))
            )
        except _NoSuchLayer as error:
            raise spec.error(("supervisors", i), f"{label}: {error}") from error
    first = {s.label: s for s in found if not s.reads_scores}
    return [
        _joined(spec, i, s, first, sets, circumstances) if s.reads_scores else s
        for i, s in enumerate(found)
    ]


class _NoSuchLayer(ValueError):
    """A layer that the file names and the model does not have: a mistake in the file, not a property of the model."""


def _named_in_vain(s: Supervision, request: Request, refusal: str) -> bool:
    """Whether the file names a layer, and the model shows others but not this one."""
    if not isinstance(request, Layer) or f"has no layer {request.name!r}" not in refusal:
        return False
    written = [s.parameters.get("layer"), *(s.parameters.get("layers") or ())]
    return request.name in written and not refusal.endswith("it has: none")


def _why_not(s: Supervision, system: System, sets: Mapping[str, Dataset]) -> str:
    # The system as a whole is asked as if it were one module.
    whole = s.module == SYSTEM
    asked = system if whole else system.modules[s.module]
    kind = (
        system.output_kind
        if whole
        else system.modules[s.module].outputs[system.traced_port(s.module)]
    )
    reason = s.supervisor.applies_to(kind)
    if reason:
        # Their names are those of the registry; here a person reads them.
        return reason.replace(
            f"the module gives {kind.name}", f"the module gives {KINDS.get(kind.name, kind.name)}"
        )
    for request in s.supervisor.needs:
        refusal = asked.offers(request) or (
            _not_the_input(system, s.module) if isinstance(request, Input) else ""
        )
        if refusal and _named_in_vain(s, request, refusal):
            raise _NoSuchLayer(refusal)
        if refusal:
            return refusal
    if s.supervisor.fitted and "reference" not in sets:
        return "it is fitted on reference data, and the file names none under data: reference"
    return ""


def _not_the_input(system: System, name: str) -> str:
    """Inputs are made again from the data and never kept, which works for what the system itself is given."""
    ports = system.modules[name].inputs
    if len(ports) != 1:
        return f"it reads the module's input, and {name} has {len(ports)}: {', '.join(ports)}"
    source = system.wires[f"{name}.{ports[0]}"]
    if source != INPUT:
        return f"it reads the module's input, and what {name} gets from {source} is not kept"
    return ""


def _joined(
    spec: Assessment,
    i: int,
    s: Supervision,
    others: Mapping[str, Supervision],
    sets: Mapping[str, Dataset],
    circumstances: Sequence[Circumstance],
) -> Supervision:
    """One that reads others' scores, with its members, or with the reason why it cannot."""
    named = [n.name for n in s.supervisor.needs if isinstance(n, Score)]
    members = [m for m in others if others[m].applicable] if EVERY_OTHER in named else named
    for member in members:
        if member not in others:
            raise _no_such_member(spec, i, s.label, member, list(others))
    idle = [m for m in members if not others[m].applicable]
    because = ""
    if not others:
        because = "it combines the scores of others, and there are no others in the file; name some"
    elif not members:
        because = "it combines the scores of others, and none of them is applicable"
    elif idle:
        because = f"its member {idle[0]} is not applicable, because {others[idle[0]].because}"
    elif getattr(s.supervisor, "contrasts", False):
        if "calibration" not in sets:
            because = "it learns from clean and shifted calibration cases, and the file names none under data: calibration"
        elif not any(c.kind == "transform" for c in circumstances):
            because = "it learns what shifts do from circumstances with a transform, and the file names none"
    elif "calibration" not in sets and "reference" not in sets:
        because = "it compares with clean cases, and the file names none under data: calibration or data: reference"
    return replace(s, because=because, members=tuple(members))


def _no_such_member(
    spec: Assessment, i: int, label: str, member: str, others: Sequence[str]
) -> SpecError:
    known = registry.components("supervisors")
    twice = [o for o in others if o.startswith(f"{member}(")]
    taken = " itself reads scores, so it" if member in _labels(spec) else ""
    add = ""
    if twice:
        add = f"; name one of: {', '.join(twice)}"
    elif not taken:
        near = did_you_mean(member, others) or (
            "" if member in known else did_you_mean(member, known)
        )
        inside = any(f"{o!r}" in near for o in others)
        add = near if inside else f"{near}; add it under supervisors"
    return spec.error(
        ("supervisors", i),
        f"{label} names the member {member!r}, which{taken} is not among the supervisors it can read{add}; "
        f"there are: {', '.join(others) or 'none'}",
    )


def _labels(spec: Assessment) -> list[str]:
    return [supervisor_label(e, spec.supervisors) for e in spec.supervisors]


@dataclass
class Spent:
    """What a supervisor took."""

    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    fit_kept: bool = False
    """Whether the fit is that of an earlier run, with its seconds."""
    score_kept: bool = False
    """Whether scores are those of an earlier run, all or some, with their seconds."""


@dataclass
class AtWork:
    """The supervisors of a plan during a run."""

    plan: Plan
    cache: ChunkCache
    spent: dict[str, Spent] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Supervisors that could not be fitted or could not score, and why."""
    prints: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Members that one who combines all others goes without, since they have no scores."""
    known: dict[str, str] = field(default_factory=dict)
    """The hash of what each fitted one learned, where it is kept."""
    identities: dict[str, list[Any]] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    """The hash of each chunk's manifest, read once."""
    fresh: bool = False
    """Whether everything is computed again, whatever is kept."""

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

    def time_of(self, label: str) -> Spent:
        """What a supervisor took so far."""
        return self.spent.setdefault(label, Spent())

    def chunks(self, condition: Condition) -> Iterator[tuple[Chunk, Trace]]:
        """A condition's chunks, memory-mapped, one at a time."""
        for chunk in self.plan.chunks:
            if chunk.condition == condition:
                yield chunk, self.cache.read(chunk.key)

    def fit(self, *, fresh: bool = False) -> None:
        """Fit those that learn from the reference rows, or take what an earlier run kept of the same fit."""
        self.fresh = fresh
        wanted = [s for s in self.first if s.supervisor.fitted]
        for s in wanted:
            if fresh or not self._fetch(s):
                self._fit(s)

    def score_chunk(self, chunk: Chunk, trace: Trace) -> dict[str, np.ndarray]:
        """The scores of a chunk's cases, by supervisor; those that read scores come later."""
        inputs: dict[str, np.ndarray] = {}
        found: dict[str, np.ndarray] = {}
        for s in self.first:
            kept = None if self.fresh else self._kept_scores(s, chunk)
            if kept is None:
                kept = self._scores_of(s, chunk, trace, inputs)
            else:
                self.time_of(s.label).score_kept = True
            if kept is not None:
                self.time_of(s.label).score_seconds += kept.seconds
                found[s.label] = kept.scores
        return found

    def _scores_of(
        self, s: Supervision, chunk: Chunk, trace: Trace, inputs: dict[str, np.ndarray]
    ) -> KeptScores | None:
        """What one says of a chunk's cases, and keep it; `inputs` are those of modules that were made already."""
        rows = trace[s.module]
        if s.reads_inputs:
            if s.module not in inputs:
                inputs[s.module] = inputs_of(self.plan, chunk, s.module, rows)
            rows = replace(rows, columns={**rows.columns, Input().column: inputs[s.module]})
        made = self._scored(s, rows)
        if made is None:
            return None
        reduced = reduce_steps(
            rows, made.scores, trace[SYSTEM].case, getattr(s.supervisor, "reduce", "max")
        )
        made = made._replace(scores=reduced)
        path = self._scores_at(s, chunk)
        if path is not None:
            write_kept_scores(path, made)
        return made

    def _kept_scores(self, s: Supervision, chunk: Chunk) -> KeptScores | None:
        path = self._scores_at(s, chunk)
        return None if path is None else read_kept_scores(path, len(chunk))

    def _scores_at(self, s: Supervision, chunk: Chunk) -> Path | None:
        """Where scores lie: under what was learned, or who scores where nothing is, and the chunk as it was written.

        None for one whose fits are not kept: it may learn something else the next time.
        """
        if s.supervisor.fitted and s.label not in self.known:
            return None
        content = [*self._identity(s), self.known.get(s.label), self._written(chunk)]
        return self.cache.scores_of(chunk.key) / f"{_hash_of(content)}.npy"

    def _written(self, chunk: Chunk) -> str:
        """The hash of a chunk's manifest, which has the hashes of its columns: cases that failed may be computed again."""
        if chunk.key not in self.manifests:
            manifest = (self.cache.folder(chunk.key) / MANIFEST).read_text()
            self.manifests[chunk.key] = _hash_of(manifest)
        return self.manifests[chunk.key]

    def fit_second(
        self,
        s: Supervision,
        system: ModuleTrace,
        scores: Mapping[str, np.ndarray],
        shifted: np.ndarray,
    ) -> None:
        """Fit one that reads scores, on cases that its members have scored."""
        given = {
            m: scores[m]
            for m in s.members
            if m in scores and not np.isnan(scores[m][system.ok]).all()
        }
        lost = [m for m in s.members if m not in (given if s.reads_every_other else scores)]
        if lost and not (s.reads_every_other and given):
            self.failed[s.label] = self._without(lost[0])
            return
        self.left_out[s.label] = tuple(lost)
        self._timed_fit(s, _with_scores(system, self.members_of(s), scores), shifted)

    def members_of(self, s: Supervision) -> tuple[str, ...]:
        """Those whose scores it reads after all."""
        return tuple(m for m in s.members if m not in self.left_out.get(s.label, ()))

    def notes_of(self, s: Supervision) -> list[str]:
        """What a supervisor remarked about its data, and whom it goes without."""
        gone = [
            f"it goes without {m}, which "
            + (
                f"is not applicable, because {self.failed[m]}"
                if m in self.failed
                else "scored none of the cases"
            )
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
            made = self._scored(s, _with_scores(system, members, scores))
            if made is not None:
                self.time_of(s.label).score_seconds += made.seconds
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

    def _scored(self, s: Supervision, rows: ModuleTrace) -> KeptScores | None:
        started = time.perf_counter()
        try:
            scores = np.asarray(s.supervisor.score(rows), dtype=np.float64)
        except REFUSALS as error:
            self.failed[s.label] = _said(error)
            return None
        return KeptScores(scores, time.perf_counter() - started)

    def _fit(self, s: Supervision) -> None:
        parts = []
        wanted = {n.column for n in s.supervisor.needs}
        for chunk, trace in self.chunks(Condition(role="reference")):
            rows = trace[s.module]
            columns = {name: column for name, column in rows.columns.items() if name in wanted}
            if s.reads_inputs:
                columns[Input().column] = inputs_of(self.plan, chunk, s.module, rows)
            parts.append(replace(rows, columns=columns))
        self._timed_fit(s, concatenate(parts), self.plan.data["reference"].targets)
        if s.label not in self.failed:
            self._keep(s)

    def _timed_fit(self, s: Supervision, rows: ModuleTrace, truth: Any) -> None:
        started = time.perf_counter()
        try:
            s.supervisor.fit(rows, truth)
        except REFUSALS as error:
            self.failed[s.label] = _said(error)
            return
        self.time_of(s.label).fit_seconds = time.perf_counter() - started

    def _mark(self, s: Supervision) -> None:
        meta = getattr(s.supervisor, "meta", None)
        if isinstance(meta, dict):
            meta.update(subject=self._print_of(s), module=s.module, label=s.label)

    def _print_of(self, s: Supervision) -> str:
        """The fingerprint of what it supervises, read once: weights are long."""
        if s.module not in self.prints:
            system = self.plan.subject
            self.prints[s.module] = (
                system if s.module == SYSTEM else system.modules[s.module]
            ).fingerprint
        return self.prints[s.module]

    def _kept_at(self, s: Supervision) -> Path:
        """Where a fit lies: under all that it depends on."""
        reference = [c.key for c in self.plan.chunks if c.condition == Condition(role="reference")]
        return self.cache.root / KEPT_FITS / _hash_of([reference, *self._identity(s)])

    def _identity(self, s: Supervision) -> list[Any]:
        """Who it is, with its code, and where it stands; told once, since code is long."""
        if s.label not in self.identities:
            component = registry.get("supervisors", s.name)
            who = [
                s.name,
                s.module,
                dict(s.parameters),
                code_version(),
                source_of(component),
                libraries(),
            ]
            self.identities[s.label] = who
        return self.identities[s.label]

    def _keep(self, s: Supervision) -> None:
        if not _keeps(s):
            return
        place = self._kept_at(s)
        partial = place.with_name(f"{place.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")
        self._mark(s)
        try:
            partial.mkdir(parents=True)
            s.supervisor.save(partial)
            self.known[s.label] = _learned(partial)
            spent = {
                "fit_seconds": self.time_of(s.label).fit_seconds,
                "learned": self.known[s.label],
            }
            (partial / SPENT).write_text(json.dumps(spent))
            shutil.rmtree(place, ignore_errors=True)
            partial.rename(place)
        except FileExistsError:
            shutil.rmtree(partial, ignore_errors=True)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _fetch(self, s: Supervision) -> bool:
        """Take a kept fit; whatever is wrong with it, it is made again."""
        place = self._kept_at(s)
        if not _keeps(s) or not place.is_dir():
            return False
        self._mark(s)
        try:
            spent = json.loads((place / SPENT).read_text())
            seconds, learned = float(spent["fit_seconds"]), str(spent["learned"])
            s.supervisor.load(place)
        except (OSError, ValueError, TypeError, KeyError):
            return False
        self.known[s.label] = learned
        self.spent[s.label] = Spent(fit_seconds=seconds, fit_kept=True)
        return True


def folder_name(label: str) -> str:
    """A label as the name of a folder; layers of ONNX graphs hold slashes.

    >>> folder_name("knn(k=5)"), folder_name("knn(layer=/fc/Gemm)")
    ('knn(k=5)', 'knn(layer=%2Ffc%2FGemm)')
    """
    return quote(label, safe="()=,[]' ")


def _hash_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _learned(folder: Path) -> str:
    """The hash of what a supervisor saved."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return _hash_of(
        [[str(p.relative_to(folder)), hashlib.blake2b(p.read_bytes()).hexdigest()] for p in files]
    )


def _keeps(s: Supervision) -> bool:
    """Whether it is one that says what it kept, so that a kept fit can be told from another's."""
    return isinstance(getattr(s.supervisor, "meta", None), dict)


def _said(error: Exception) -> str:
    """The error's message, or its name if it says nothing."""
    return str(error).strip() or type(error).__name__


def _with_scores(
    system: ModuleTrace, members: Sequence[str], scores: Mapping[str, np.ndarray]
) -> ModuleTrace:
    return replace(system, columns={Score(m).column: scores[m] for m in members})


def halves(clusters: np.ndarray, seed: int) -> np.ndarray:
    """Which rows belong to the first half of the clusters, in an order that depends on the seed and their names alone."""
    names, own = np.unique(clusters.astype(str), return_inverse=True)
    order = np.array(sorted(range(len(names)), key=lambda i: seed_key(seed, "half", str(names[i]))))
    first = np.zeros(len(names), dtype=bool)
    first[order[: (len(names) + 1) // 2]] = True
    chosen: np.ndarray = first[own]
    return chosen


def inputs_of(plan: Plan, chunk: Chunk, module: str, rows: ModuleTrace) -> np.ndarray:
    """The inputs that a module saw, for the rows of its trace."""
    condition, data = chunk.condition, plan.data[chunk.condition.role]
    items = data.inputs[chunk.start : chunk.stop]
    transform = condition.transform
    acts = condition.port in (INPUT, f"{module}.{plan.subject.modules[module].inputs[0]}")
    change = transform if transform is not None and not transform.identity and acts else None
    ids = [condition.case_id(i) for i in data.ids[chunk.start : chunk.stop]]
    one_each = len(rows) == len(ids) and rows.case.tolist() == ids
    if change is None and one_each and isinstance(items, np.ndarray) and items.dtype != object:
        return items
    position = {case: i for i, case in enumerate(ids)}
    frames = data.input_kind is FRAMES

    def seen(case: str, step: int) -> Any:
        item = items[position[case]]
        if frames and plan.subject.stepwise:
            item = item if isinstance(item, Unreadable) else item[step]
            return _changed(plan, change, item, case, step)
        if frames and not isinstance(item, Unreadable):
            return [_changed(plan, change, frame, case, t) for t, frame in enumerate(item)]
        return _changed(plan, change, item, case, step)

    return stacked([seen(case, int(step)) for case, step in zip(rows.case, rows.step, strict=True)])


def _changed(plan: Plan, change: Any, item: Any, case: str, step: int) -> Any:
    if isinstance(item, Unreadable):
        return None
    if change is None:
        return item
    try:
        return change.at_step(item, plan.spec.seed, case, step)
    except Exception:
        return None  # the case failed when it was run, and its row says why


def stacked(items: list[Any]) -> np.ndarray:
    """One array where the items have one shape, NaN for those that are missing; else an object array.

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
