"""From an assessment file to a plan: the subject, the data, the conditions, and the chunks of work with their keys.

What the sections of an assessment request of the subject is data (`Wants`), so that workers need no section.

>>> from roadworthy.subject.needs import Layer
>>> wants = Wants({"model": frozenset({Layer("fc1")})}, (Extra("calibration"),))
>>> Wants.from_json(json.loads(json.dumps(wants.to_json()))) == wants
True
"""

from __future__ import annotations

import functools
import hashlib
import json
import typing
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy import registry
from roadworthy.cases.circumstance import Circumstance, Condition, Search
from roadworthy.cases.generators import (
    Attack,
    Chain,
    Drawing,
    Generator,
    InvalidSource,
    Mixture,
    MixturePart,
    attack_sizes,
)
from roadworthy.cases.image.pixels import white
from roadworthy.data.roles import check_roles
from roadworthy.data.samples import UNLABELLED, Dataset, load
from roadworthy.data.values import BOXES, FRAMES, LABEL, MASK, TASKS, TRACKS, Kind, Unreadable
from roadworthy.execution.class_order import ClassOrder, class_order, few
from roadworthy.execution.progress import Progress, Silent
from roadworthy.execution.versions import code_version, libraries, source_of, trace_version
from roadworthy.measures import failure as failure_criteria
from roadworthy.measures import for_values, of_distributions
from roadworthy.registry import did_you_mean
from roadworthy.spec import ROLES, Assessment
from roadworthy.spec.own import is_own, own_component
from roadworthy.subject.identity import SubjectEvidence, native_libraries, watching
from roadworthy.subject.needs import Input, Passes, Request, Score
from roadworthy.subject.passes import resolved
from roadworthy.subject.running import error_sentence
from roadworthy.subject.system import INPUT, System
from roadworthy.subject.trace import SYSTEM
from roadworthy.supervisors.supervisor import Supervisor

OPERATIONAL = "operational"
"""The role of data from use, whose rows may have no label."""
MIN_SCORE = 0.5
"""Of detections, unless the file's measure states another."""
EVERY_OTHER = "*"
"""The score that stands for those of all other supervisors."""


@dataclass(frozen=True)
class Chunk:
    """Cases that are computed, kept and resumed together."""

    index: int
    condition: Condition
    start: int
    stop: int
    key: str

    def __len__(self) -> int:
        return self.stop - self.start


class Extra(NamedTuple):
    """A condition beyond the test data and the circumstances: cases of another role, clean or under a circumstance; or
    the test cases at a strength between two levels."""

    role: str
    circumstance: str = ""
    level: float | None = None
    held: tuple[str, ...] = ()
    """Input ports that are held clean."""


_REQUESTS = {kind.__name__: kind for kind in typing.get_args(Request)}


@dataclass(frozen=True)
class Wants:
    """What is requested of the subject beyond its answers to the test cases."""

    requests: Mapping[str, frozenset[Request]] = field(default_factory=dict)
    """By module."""
    conditions: tuple[Extra, ...] = ()
    searches: tuple[tuple[str, Search], ...] = ()
    """Circumstances whose samples are searched, and by which search."""

    def __or__(self, other: Wants) -> Wants:
        modules = dict.fromkeys([*self.requests, *other.requests])
        both = (self.requests, other.requests)
        united = {m: frozenset().union(*(w.get(m, ()) for w in both)) for m in modules}
        return Wants(
            united,
            tuple(dict.fromkeys([*self.conditions, *other.conditions])),
            tuple(dict.fromkeys([*self.searches, *other.searches])),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a worker."""
        requests = {
            module: [[type(r).__name__, asdict(r)] for r in sorted(found, key=lambda r: r.column)]
            for module, found in self.requests.items()
        }
        return {
            "requests": requests,
            "conditions": [list(c) for c in self.conditions],
            "searches": [
                [c, s.name, dict(s.parameters), s.role, s.level] for c, s in self.searches
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Wants:
        """The inverse of `to_json`."""
        requests = {
            module: frozenset(_REQUESTS[kind](**values) for kind, values in found)
            for module, found in content["requests"].items()
        }
        searches = [(c, Search.of(*search)) for c, *search in content["searches"]]
        return cls(
            requests,
            tuple(Extra(r, c, n, tuple(h)) for r, c, n, h in content["conditions"]),
            tuple(searches),
        )


@dataclass(frozen=True)
class Supervision:
    """A supervisor at a module, or the reason why it cannot be there."""

    name: str
    module: str
    supervisor: Supervisor
    parameters: Mapping[str, Any] = field(default_factory=dict)
    because: str = ""
    label: str = ""
    """Its name in tables and claims: the bare name, or with its settings if one name is used twice."""
    members: tuple[str, ...] = ()
    """The labels of those whose scores it reads."""

    @property
    def applicable(self) -> bool:
        """Whether it will score."""
        return not self.because

    @property
    def reads_scores(self) -> bool:
        """Whether it is fitted and scores after others have."""
        return any(isinstance(n, Score) for n in self.supervisor.needs)

    @property
    def reads_every_other(self) -> bool:
        """Whether it combines whoever scores, and so can go without one that does not."""
        return Score(EVERY_OTHER) in self.supervisor.needs

    @property
    def contrasts(self) -> bool:
        """Whether it learns from shifted cases, too."""
        return bool(getattr(self.supervisor, "contrasts", False))

    @property
    def reads_inputs(self) -> bool:
        """Whether it looks at what the module was given."""
        return any(isinstance(n, Input) for n in self.supervisor.needs)


@dataclass(frozen=True)
class Plan:
    """All that an assessment will do."""

    spec: Assessment
    subject: System
    data: Mapping[str, Dataset]
    circumstances: Sequence[Circumstance]
    measure: Callable[..., Any]
    notes: Sequence[str] = ()
    """What the run has to say of the data."""
    wants: Wants = Wants()
    supervisions: Sequence[Supervision] = ()
    evidence: SubjectEvidence = field(default_factory=SubjectEvidence)
    """The files that the subject was seen to open; more may be found while it answers."""
    once: str = ""
    """Differs from run to run if the subject depends on what cannot be seen, and nothing vouches for it."""
    classes: ClassOrder | None = None
    """Which class each output stands for; None for a subject that gives no classes."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """With `supervisors: all`, those that do not apply, and why."""

    @functools.cached_property
    def conditions(self) -> list[Condition]:
        """Clean first, then every circumstance at every level; then what sections and supervisors want besides."""
        found = [Condition()]
        for circumstance in self.circumstances:
            found.extend(circumstance.conditions())
        known = {(c.circumstance, c.level): c for c in found}
        for extra in self.wants.conditions:
            here = known.get((extra.circumstance, extra.level))
            if here is None:
                assert extra.level is not None
                here = self.circumstance(extra.circumstance).probe(extra.level)
            found.append(replace(here, role=extra.role, held=extra.held))
        found += [
            Condition(name, role=search.role, search=search) for name, search in self.wants.searches
        ]
        return found

    def circumstance(self, name: str) -> Circumstance:
        """One of its circumstances."""
        return next(c for c in self.circumstances if c.name == name)

    def check_case_ids(self) -> None:
        """Refuse sample ids that make two cases share an id: 4~snow@2 is sample 4 under snow at level 2."""
        if not any("~" in str(i) or ":" in str(i) for d in self.data.values() for i in d.ids):
            return
        named = [c for c in self.conditions if not c.held]
        ids = (c.case_id(i) for c in named for i in self.data[c.role].ids)
        case, times = Counter(ids).most_common(1)[0]
        if times > 1:
            raise self.spec.error(
                ("data",), f"two cases have the id {case!r}; sample ids must not look like case ids"
            )

    @functools.cached_property
    def chunks(self) -> list[Chunk]:
        """The work, in order."""
        found: list[Chunk] = []
        size = self.spec.execution.chunk
        for condition in self.conditions:
            base = self._key_of(condition)
            n = len(self.data[condition.role])
            for start in range(0, n, size):
                stop = min(start + size, n)
                key = hashlib.blake2b(f"{base}|{start}|{stop}".encode(), digest_size=16).hexdigest()
                found.append(Chunk(len(found), condition, start, stop, key))
        return found

    @functools.cached_property
    def key(self) -> str:
        """Names the run: changes with the spec, the subject, the data, the seed and the code."""
        spec = self.spec.model_dump(mode="json", exclude={"execution"})
        data = {r: d.fingerprint for r, d in self.data.items()}
        content = [spec, self._subject_print, self._files, data, code_version(), libraries()]
        made = [c.transform.content for c in self.conditions if c.transform]
        return hash_of([*content, self._own_components(), made])

    def _own_components(self) -> list[str]:
        """The code of what the file names as ``mine.py:name``."""
        rooms = ("transforms", "measures", "supervisors")
        known = [c for room in rooms for c in registry.components(room).values()]
        return [source_of(c) for c in known if is_own(c.name)]

    @functools.cached_property
    def subject_key(self) -> str:
        """Names what is remembered of the subject from run to run: what the file says of it."""
        return hash_of([self.spec.subject])

    @functools.cached_property
    def _files(self) -> list[Any]:
        return [self.evidence.states(self.spec.base), self.once]

    @functools.cached_property
    def not_identified(self) -> list[str]:
        """What the answers may depend on and nobody can see, as ends of "the subject …", unless `files` lists it."""
        modules = self.subject.modules.values()
        own = dict.fromkeys(Path(f) for m in modules for f in getattr(m, "files", ()))
        listed = "files" in self.spec.subject
        native = [] if listed else native_libraries(own)
        return [
            *self.evidence.unseen,
            *(f"uses {name}, which may open files unseen" for name in native),
        ]

    def identified(self, files: Mapping[str, str], unseen: Iterable[str]) -> Plan:
        """The plan with more that the subject depends on: its chunks have other keys."""
        evidence = replace(self.evidence, files=dict(self.evidence.files), unseen={})
        evidence.add(files, [*self.evidence.unseen, *unseen])
        found = replace(self, evidence=evidence)
        vouched = bool(self.spec.subject.get("version")) or not found.not_identified
        return replace(found, once="" if vouched else self.once or uuid.uuid4().hex)

    def at(self, condition: Condition) -> dict[str, Callable[[Any, str, int], Any]]:
        """What happens at the subject's ports under a condition."""
        transform = condition.transform
        if isinstance(transform, Attack):  # the inputs are attacked before they are given
            return {}
        # Answers that were given elsewhere never look at an input, so none has to be made for them.
        if transform is None or transform.identity or self.answers_by_id:
            return {}
        seed = self.spec.seed

        def changed(value: Any, case: str, step: int) -> Any:
            return transform.at_step(value, seed, case, step)

        if not condition.held:
            return {condition.port: changed}
        # A case is changed in the same way at every port, so that a held one simply goes without.
        ports = self.subject.entry_ports(condition.port)
        return {port: changed for port in ports if port not in condition.held}

    @property
    def min_score(self) -> float:
        """Detections below it do not count for a case's error."""
        return float(self.spec.measure_parameters.get("min_score", MIN_SCORE))

    @property
    def answers_by_id(self) -> bool:
        """Whether all answers were given elsewhere, and are looked up by case id."""
        return all(getattr(m, "whole_case", False) for m in self.subject.modules.values())

    def inputs(self, condition: Condition, start: int, stop: int) -> Any:
        """The samples under a condition before anything happens at a port; attacked ones are float32 from 0 to 1."""
        data, attack = self.data[condition.role], condition.transform
        items = data.inputs[start:stop]
        if not isinstance(attack, Attack):
            return items
        cases = [condition.case_id(i) for i in data.ids[start:stop]]
        labels = np.asarray(data.targets)[start:stop]
        return attack.images(items, labels, self.query, self.spec.seed, cases)

    def given(
        self, condition: Condition, start: int, stop: int
    ) -> tuple[Any, dict[str, np.ndarray]]:
        """The same as the subject takes them, and how far an attack changed them.

        A model that divides by its own `scale` gets attacked images in stored units.
        """
        items = self.inputs(condition, start, stop)
        if not isinstance(condition.transform, Attack):
            return items, {}
        sizes = attack_sizes(self.data[condition.role].inputs[start:stop], items)
        return self.in_stored_units(items), sizes

    def in_stored_units(self, images: Sequence[Any]) -> list[Any]:
        """Attacked images, 0 to 1, as the model takes them."""
        scaled = self._attacked_module.prepare.scale is not None
        factor = np.float32(self.query.white if scaled else 1.0)
        return [i if isinstance(i, Unreadable) else i * factor for i in images]

    @property
    def _attacked_module(self) -> Any:
        (module,) = self.subject.modules.values()
        return module

    @functools.cached_property
    def query(self) -> Any:
        """What searches and attacks ask the subject: its scores and their gradients."""
        images = (i for i in self.data["test"].inputs[:1] if not isinstance(i, Unreadable))
        stored = next((np.asarray(i).dtype for i in images), np.dtype(np.uint8))
        return self._attacked_module.query(white=white(stored))

    def targets(self, condition: Condition) -> Any:
        """The truth under a condition: boxes, masks and tracks move with the picture."""
        data, made = self.data[condition.role], condition.transform
        located = data.target_kind in (BOXES, MASK, TRACKS) and data.targets is not None
        if not located or condition.port != INPUT or not isinstance(made, Chain | Mixture):
            return data.targets
        if not made.carries or data.targets is None:
            return data.targets
        return [
            self.moved(made, target, data.inputs[row : row + 1][0], condition.case_id(name))
            for row, (target, name) in enumerate(zip(data.targets, data.ids, strict=True))
        ]

    def compared(self, role: str, targets: Any, rows: Any = slice(None)) -> Any:
        """What the measure compares answers with: the targets, or the label probabilities of these
        samples if it is of distributions and they have some."""
        known = self.data[role].probabilities
        plain = known is None or not of_distributions(self.spec.measure_name)
        return targets if known is None or plain else known[rows]

    def moved(self, made: Chain | Mixture, target: Any, item: Any, case: str) -> Any:
        """The target of one case whose picture was moved."""
        first = item[0] if isinstance(item, list | tuple) and len(item) else item
        if isinstance(first, Unreadable) or target is None:
            return target
        return made.carried(target, np.shape(first), self.spec.seed, case)

    def arriving(self, condition: Condition, case: str, item: Any, step: int | None = None) -> Any:
        """What a sample becomes under a condition, or `Unreadable` with the reason why it cannot be made.

        Of frames all of them, or the one at a step.
        """
        if isinstance(item, Unreadable):
            return item
        if self.data[condition.role].input_kind is FRAMES:
            steps = range(len(item)) if step is None else [step]
            made = [self._changed(condition, case, item[t], t) for t in steps]
            broken = next((frame for frame in made if isinstance(frame, Unreadable)), None)
            return broken or (made if step is None else made[0])
        return self._changed(condition, case, item, step or 0)

    def _changed(self, condition: Condition, case: str, item: Any, step: int) -> Any:
        transform = condition.transform
        if transform is None or transform.identity or isinstance(item, Unreadable):
            return item
        if isinstance(transform, Attack):  # done already, by `inputs`
            return item
        try:
            return transform.at_step(item, self.spec.seed, case, step)
        except Exception as error:
            return Unreadable(f"the transform failed: {error_sentence(error)}")

    @functools.cached_property
    def _subject_print(self) -> str:
        """The subject as it is before it runs; read once, since weights are long and a function may change what it holds."""
        return self.subject.fingerprint

    def _key_of(self, condition: Condition) -> str:
        made: Any = None
        if condition.transform is not None:
            sources = [source_of(component) for component in condition.transform.components]
            made = [condition.transform.content, condition.port, sources, *condition.held]
        if condition.search is not None:
            # What a search finds depends on the truth, and on which answers are wrong.
            judged = [self.spec.measure, self.spec.failure, self.data[condition.role].fingerprint]
            about = (
                asdict(self.circumstance(condition.circumstance)) if condition.circumstance else {}
            )
            generators = self.circumstance(condition.circumstance).generators() if about else []
            code: list[Any] = [[g.content, *map(source_of, g.components)] for g in generators]
            own = str(dict(condition.search.parameters).get("estimator", ""))
            if is_own(own):
                code.append(source_of(own_component("failure_estimators", own, self.spec.base)))
            made = [condition.search.name, condition.search.parameters, about, judged, code]
            made.append(condition.search.level)
        asked = {} if condition.search is not None or condition.held else self.wants.requests
        requests = {m: sorted(self._named(m, r) for r in rs) for m, rs in asked.items()}
        content = [
            trace_version(),
            libraries(),
            self._subject_print,
            self._files,
            str(self.spec.subject.get("version", "")),
            self.data[condition.role].input_fingerprint,
            condition.name,
            condition.role,
            made,
            requests,
            self.spec.seed,
        ]
        return hash_of(content)

    def _named(self, module: str, request: Request) -> list[str]:
        """A request by its column; one with a distance also by which one that is for the values of the module, and its code."""
        if not isinstance(request, Passes) or request.distance is None:
            return [request.column]
        distance = resolved(request.distance, output_kind(self.subject, module))
        return [request.column, distance.name, source_of(distance)]


def hash_of(content: Any) -> str:
    """Names what is kept by all that it depends on."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def output_kind(system: System, module: str) -> Kind:
    """What a module gives, or the system as a whole."""
    if module == SYSTEM:
        return system.output_kind
    return system.modules[module].outputs[system.traced_port(module)]


def resolve(
    spec: Assessment,
    *,
    subject: System | None = None,
    data: Mapping[str, Dataset] | None = None,
    wants: Wants | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Load what the file names and check that it fits together; supervisors and sections are planned by `assessment`.

    `keep` is the cache, in which sources that learn find what they have learned.
    """
    circumstances, prepared = _circumstances(spec)
    sets, notes = _loaded(
        spec, circumstances, data, keep or spec.base / "runs" / ".cache", progress or Silent()
    )
    notes += prepared
    notes += _training_notes(spec, sets) if subject is None else []
    evidence = SubjectEvidence()
    system = _fitting(spec, subject or load_subject(spec, evidence), sets["test"])
    order, sets = class_order(spec, system, sets)
    _check_classes(spec, sets)
    _check_circumstances(spec, circumstances, system, sets["test"])
    for i, column in enumerate(spec.slices):
        with spec.located(("slices", i)):
            sets["test"].column(column)
    measure = _measure(spec, system, sets["test"])
    notes += order.notes if order else ()
    return Plan(
        spec,
        system,
        sets,
        circumstances,
        measure,
        notes,
        wants or Wants(),
        evidence=evidence,
        classes=order,
    )


def _loaded(
    spec: Assessment,
    circumstances: Sequence[Circumstance],
    data: Mapping[str, Dataset] | None,
    keep: Path,
    show: Progress,
) -> tuple[dict[str, Dataset], list[str]]:
    """The data sets, checked, with notes on rows in two roles; `data` are those handed in."""
    sets = dict(data or {})
    for role, content in spec.data.roles().items() if data is None else ():
        sets[role] = _load(spec, content, role, ("data", role))
    notes = list(sets["test"].notes)
    for c in circumstances:
        place = ("circumstances", c.name, "data" if c.data is not None else "source")
        if c.learned:
            sets[c.role] = _drawn(spec, c, sets, keep, show)
        elif c.own_data is not None:
            sets[c.role] = _load(spec, c.own_data, c.name, place)
            if c.kind == "source":  # whatever its labels mean, they are no right answers here
                nothing: dict[str, Any] = dict.fromkeys(("targets", "target_kind", "probabilities"))
                sets[c.role] = replace(sets[c.role], classes=sets["test"].classes, **nothing)
        if c.role in sets and c.role != "test":
            notes += [f"{c.name}: {note}" for note in sets[c.role].notes]
    invalid = {c.role for c in circumstances if c.kind == "source"}
    _check_data(spec, sets, invalid)
    return sets, [*notes, *_role_notes(spec, sets)]


def _drawn(
    spec: Assessment, c: Circumstance, sets: Mapping[str, Dataset], keep: Path, show: Progress
) -> Dataset:
    """What a source draws that learns from data; the second time, and in workers, it is found in `keep`."""
    assert c.learned and c.own_data
    place, role, done = ("circumstances", c.name, "source"), c.learned.traits["learned_from"], [0]
    if role not in sets:
        raise spec.error(place, f"{c.source} learns from data.{role}, which is missing; add it")
    both = (sets[role].inputs, sets["test"].inputs)
    sizes = [inputs.shape[1:] for inputs in both if isinstance(inputs, np.ndarray)]
    if len(set(sizes)) > 1:
        own, other = (" x ".join(map(str, size)) for size in sizes)
        raise spec.error(
            place,
            f"the inputs of data.{role} are {own}, those of data.test {other}; make them one size",
        )

    def told(share: float) -> None:
        if not share:
            show.stage("training autoencoders", 100)
        done.append(int(100 * share))
        show.advance(done[-1] - done[-2])

    code = hash_of([trace_version(), libraries(), source_of(c.learned)])[:16]
    wanted = Drawing(c.own_data["n"], spec.seed, keep / "sources" / code, told)
    with spec.located(place):
        return c.learned.bind(**c.parameters)(sets[role], wanted)  # type: ignore[no-any-return]


def _load(
    spec: Assessment, content: Mapping[str, Any], name: str, place: tuple[str | int, ...]
) -> Dataset:
    filled = dict(content)
    invalid = place[-1] == "source"
    if spec.data.group and not invalid:
        filled.setdefault("group", spec.data.group)
    if spec.data.classes and not invalid:
        filled.setdefault("classes", tuple(spec.data.classes))
    # One COCO file holds boxes and masks: the task says which are the targets.
    kind = spec.task.target.name
    for loader in (c for n, c in registry.components("loaders").items() if n in filled):
        if "targets" in loader.parameters and kind in loader.traits["gives"]["targets"]:
            filled.setdefault("targets", kind)
    if name == OPERATIONAL:
        filled.setdefault("unlabelled", True)
    with spec.located(place):
        return load(filled, base=spec.base, name=name)


def _check_data(spec: Assessment, sets: Mapping[str, Dataset], invalid: Collection[str]) -> None:
    for role, dataset in sets.items():
        place = (
            ("data", role)
            if not role.startswith("circumstance:")
            else ("circumstances", role.split(":", 1)[1], "data")
        )
        if len(dataset) == 0:
            raise spec.error(place, "the data set is empty; nothing can be assessed on it")
        if dataset.targets is None and role != OPERATIONAL and role not in invalid:
            raise spec.error(place, "has no targets (labels); what is judged must have them")


def _check_classes(spec: Assessment, sets: Mapping[str, Dataset]) -> None:
    classes = {role: dataset.classes for role, dataset in sets.items() if dataset.classes}
    for role, names in classes.items():
        if role == OPERATIONAL and str(UNLABELLED) in names and "test" not in classes:
            raise spec.error(("data", role), "has the label -1; leave the label of such rows empty")
        if names != classes.get("test", names):
            raise spec.error(
                ("data", role) if role in ROLES else ("data",),
                f"{role} has the classes {few(names)}, test has {few(classes['test'])}, so the same label would mean two "
                "things; name all classes, in the subject's order, under data: classes",
            )


def _role_notes(spec: Assessment, sets: Mapping[str, Dataset]) -> list[str]:
    """Refuse rows that choose and judge; notes on the few that may."""
    chosen_on = {role: d for role, d in sets.items() if not role.startswith("circumstance:")}
    with spec.located(("data",)):
        notes = check_roles(chosen_on)
        for role in sorted(sets.keys() - chosen_on.keys()):
            # A circumstance's own data is judged, like the test data, and may hold the same patients.
            for other in (r for r in chosen_on if r != "test"):
                notes += check_roles({other: chosen_on[other], role: sets[role]})
    return notes


def _training_notes(spec: Assessment, sets: Mapping[str, Dataset]) -> list[str]:
    """The same for what an adapter trains on, before it does; supervisors may be fitted on those rows, nothing else."""
    content = spec.subject.get("train")
    if not isinstance(content, Mapping):
        return []
    with spec.located(("subject", "train")):
        trained_on = load(content, base=spec.base, name="train")
        judging = {role: d for role, d in sets.items() if role != "reference"}
        return [n for r, d in judging.items() for n in check_roles({"train": trained_on, r: d})]


def load_subject(spec: Assessment, evidence: SubjectEvidence) -> System:
    """The subject that the file names; what it opens on the way is noted."""
    adapter = registry.get("adapters", spec.adapter)
    known = {k: v for k, v in spec.subject.items() if k not in ("task", "name", spec.adapter)}
    if "classes" not in adapter.parameters:
        known.pop("classes", None)
    place = {"path": spec.subject[spec.adapter], "base": spec.base, "task": spec.task}
    with spec.located(("subject", spec.adapter)), watching(evidence):
        return adapter.build(**adapter.check({**known, **place}))  # type: ignore[no-any-return]


def _fitting(spec: Assessment, system: System, data: Dataset) -> System:
    """The system with the input kind that the data has, if it can take that."""
    if system.input_kind is data.input_kind:
        return system
    adjusted = replace(system, input_kind=data.input_kind)
    if adjusted.stepwise != system.stepwise:
        raise spec.error(
            ("data", "test"),
            f"holds {data.input_kind.name}, but the subject takes {system.input_kind.name}",
        )
    return adjusted


def _circumstances(spec: Assessment) -> tuple[list[Circumstance], list[str]]:
    """The circumstances, checked, and what their transforms have to say of their parameters."""
    found: dict[str, Circumstance] = {}
    notes: list[str] = []
    for name, content in spec.circumstances.items():
        values = content.model_dump(exclude={"mixture"})
        values["levels"] = tuple(values["levels"])
        values["transforms"] = None if content.transforms is None else tuple(content.transforms)
        if content.mixture is not None:
            values["mixture"] = tuple(spec.mixed(name))
            values["exclusive"] = tuple(tuple(group.of) for group in spec.exclusive)
        found[name] = Circumstance(name, base=spec.base, **values)
    for name, circumstance in found.items():
        if circumstance.mixture is not None:
            members = [found[n] for n in circumstance.mixture]
            parts = tuple(
                MixturePart(c.name, c.probability or 0.0, tuple(c.chains())) for c in members
            )
            found[name] = replace(circumstance, members=parts)
        key = "parameters" if circumstance.parameters else "levels"
        with spec.located(("circumstances", name, key)):
            if learned := found[name].learned:
                learned.check(circumstance.parameters)
                if needed := registry.missing(learned):
                    raise spec.error(("circumstances", name, "source"), needed)
            for generator in found[name].generators():
                notes += _prepared(spec, found[name], generator)
    return list(found.values()), notes


def _prepared(spec: Assessment, circumstance: Circumstance, generator: Generator) -> list[str]:
    """Refuse one that cannot be used here, or with these parameters; what it has to say of them."""
    for component in generator.components:
        needed = registry.missing(component)
        if needed:
            place = ("circumstances", circumstance.name, circumstance.made_by)
            raise spec.error(place, needed)
    if isinstance(generator, Attack):
        generator.check()
    if isinstance(generator, InvalidSource):
        generator.components[0].check(generator.parameters)
    parts = generator.parts if isinstance(generator, Chain) else ()
    return [note for part in parts for note in part.prepare()]


def _check_circumstances(
    spec: Assessment, circumstances: Sequence[Circumstance], system: System, test: Dataset
) -> None:
    for c in circumstances:
        place = ("circumstances", c.name)
        if c.where is not None:
            with spec.located((*place, "where")):
                keep = test.where(c.where)
            if not keep.any() or keep.all():
                raise spec.error(
                    (*place, "where"),
                    f"{int(keep.sum())} of {len(test)} cases match; nothing to compare",
                )
        if not c.generators():
            continue
        if c.port not in system.ports:
            raise spec.error(
                (*place, "port"),
                f"the subject has no port {c.port!r}{did_you_mean(c.port, system.ports)}; it has: {', '.join(system.ports)}",
            )
        kind, made = system.kind_at(c.port), c.generators()[0]
        if not made.applies_to(kind):
            ports = [p for p in system.ports if made.applies_to(system.kind_at(p))]
            hint = f"; it could act at: {', '.join(ports)}" if ports else ""
            of = ", ".join(dict.fromkeys(k.traits.get("of", "image") for k in made.components))
            raise spec.error(
                (*place, c.made_by),
                f"{made.components[0].name} changes {of}, but {kind.name} flows at {c.port}{hint}",
            )
        if isinstance(made, Attack):
            _check_attack(spec, place, system, test)


def _check_attack(spec: Assessment, place: tuple[str, ...], system: System, test: Dataset) -> None:
    """Attacks need one module that gives gradients, images and labels."""
    reason = system.offers_query()
    if test.target_kind is not LABEL:
        reason = "the data has no class labels"
    if reason:
        raise spec.error((*place, "attack"), f"not applicable: {reason}")


def _measure(spec: Assessment, system: System, test: Dataset) -> Callable[..., Any]:
    component = registry.get("measures", spec.measure_name)
    wanted = component.traits.get("of")
    target = test.target_kind.name if test.target_kind else "nothing"
    if wanted is not None and of_distributions(spec.measure_name):
        if test.probabilities is None:
            raise spec.error(
                ("measure",),
                f"{spec.measure_name} needs label probabilities, and the test data has none. Add "
                "`votes: FILE` (annotators' votes) under data.test, or `probabilities` of an npz file",
            )
        target = wanted[1]
    if wanted is not None and tuple(wanted) != (system.output_kind.name, target):
        fitting = for_values(system.output_kind.name, target)
        tasks = [
            t.name for t in TASKS.values() if t.target is test.target_kind and t is not spec.task
        ]
        hint = "" if fitting or not tasks else f"; the data goes with task: {' or '.join(tasks)}"
        raise spec.error(
            ("measure",) if spec.measure else ("subject", "task"),
            f"{spec.measure_name} compares {wanted[0]} with {wanted[1]}, but the subject gives {system.output_kind.name} and the "
            f"data has {target}; measures that fit: {', '.join(fitting) or 'none'}{hint}",
        )
    needed = registry.missing(component)
    if needed:
        raise spec.error(("measure",) if spec.measure else ("subject", "task"), needed)
    if spec.failure:
        with spec.located(("failure",)):
            failure_criteria.check_criterion(spec.failure)
    with spec.located(("measure",)):
        return component.bind(**spec.measure_parameters)  # type: ignore[no-any-return]
