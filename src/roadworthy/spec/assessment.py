"""The assessment file: short, declarative, unknown keys refused.

The keys that every assessment has stand here; those of the methods (`verdicts`, `risk`, `monitor`, …) are declared by the
sections in `roadworthy.assessment.sections`, and the model of the whole file is composed of both on demand.

>>> text = '''
... subject: {task: classification, predictions: answers.csv}
... data: {test: {bundled: fashion-mnist}}
... claims:
...   - {id: R-1, accuracy: {min: 0.9}}
... '''
>>> spec = Assessment.parse(text, "assessment.yaml")
>>> spec.claims[0].quantity, spec.claims[0].min, spec.adapter
('accuracy', 0.9, 'predictions')
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    create_model,
    field_serializer,
    model_validator,
)

from roadworthy import registry
from roadworthy.analysis.robustness.circumstances import check_exclusive
from roadworthy.cases.circumstance import MADE_BY, SCALES
from roadworthy.data.values import TASKS, Task
from roadworthy.measures import for_values
from roadworthy.registry import did_you_mean
from roadworthy.spec import limits
from roadworthy.spec.document import Document, SpecError, without_passwords
from roadworthy.spec.mistakes import first_error
from roadworthy.spec.own import is_own, own_component

ALL = "all"
BOUNDS = ("tolerance", "limit")
"""Parameters of a measure from which on an answer is wrong; where their default is None, no answer is."""
NEVER_WRONG = "no case counts as failed"
ROLES = ("test", "calibration", "reference", "operational")
_SUBJECT_KEYS = ("task", "version", "name", "classes")
Factor = Literal[1, 2, 3, 4, 5]


def _rated(given: Any, info: ValidationInfo) -> Any:
    """A rating in words is its number: frequent is an exposure of 4."""
    words = SCALES[info.field_name or ""]
    word = given.strip().lower() if isinstance(given, str) else ""
    return words.index(word) + 1 if word in words else given


Rating = Annotated[Factor, BeforeValidator(_rated)]
Place = tuple[str | int, ...]
_Part = TypeVar("_Part", bound=BaseModel)


class Strict(BaseModel):
    """A part of the file that takes keys, and no others than these."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    example: ClassVar[str] = ""
    """How it is written; said if somebody writes a word or a number instead."""

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, raw: Any) -> Any:
        if cls.example and not isinstance(raw, Mapping | cls):
            raise ValueError(f"takes keys; write {cls.example}")
        return raw


class CircumstanceSpec(Strict):
    """A condition of use: exactly one of transform, transforms, attack, source, mixture, where, data, run."""

    transform: str | None = Field(
        None, description="A registered transform; `roadworthy list transforms` shows them"
    )
    transforms: list[str | dict[str, int | dict[str, Any]]] | None = Field(
        None,
        min_length=1,
        description="Several in a row: [rain, {motion_blur: 2}]; those without a number follow levels",
    )
    attack: str | None = Field(
        None, description="A registered attack on a torch classifier; `roadworthy list attacks`"
    )
    source: str | dict[str, Any] | None = Field(
        None,
        description="A registered source (`roadworthy list sources`): inputs without a right answer, as is another "
        "data set; or `ambiguous`: cases between two classes",
    )
    n: int | None = Field(
        None, ge=1, description="Cases that `source: ambiguous` draws; by default 1000"
    )
    mixture: list[str] | Literal["all"] | None = Field(
        None,
        description="Other circumstances as they are met in use, by their probabilities; all: every one that has a "
        "transform and a probability",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Instead of levels: the transform's own arguments"
    )
    levels: list[int] = Field(
        default_factory=list, description="Levels of its table; 0 is the identity"
    )
    table: str | None = Field(None, description='Which table of levels: "hendrycks" or "wang"')
    port: str = Field("input", description="Where it acts: input, or module.port")
    where: dict[str, Any] | None = Field(
        None, description="A metadata filter: {site: B} or {age: {min: 65}}"
    )
    data: dict[str, Any] | None = Field(None, description="A separate data set, as under data")
    run: Literal[False] | None = Field(
        None, description="false: specified, with probability and severity, but not run"
    )
    probability: float | None = Field(None, ge=0, le=1, description="How often it is met in use")
    exposure: Rating | None = Field(None, description="1 rare to 5 continuous, or the word")
    likelihood: Rating | None = Field(None, description="1 rare to 5 certain, or the word")
    severity: Rating | None = Field(
        None, description="Severity of harm: 1 insignificant to 5 catastrophic"
    )
    breaks_at: bool = Field(
        False, description="Search the smallest strength at which each case fails"
    )
    description: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> CircumstanceSpec:
        given = [k for k in MADE_BY if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(
                f"has {' and '.join(given) or 'none'} of {', '.join(MADE_BY)}; give exactly one"
            )
        made = given[0]
        if made == "transform" and not self.levels and not self.parameters:
            raise ValueError("a transform needs levels, such as [1, 2, 3], or parameters")
        if self.levels and self.parameters:
            raise ValueError("give levels or parameters, not both")
        if self.levels and made not in ("transform", "transforms", "attack"):
            raise ValueError("levels belong to transforms and attacks")
        if self.parameters and made not in ("transform", "attack", "source"):
            raise ValueError("parameters belong to one transform, attack or source")
        if self.breaks_at and made not in ("transform", "attack"):
            raise ValueError("breaks_at searches the strength of one transform or attack")
        if self.probability is not None and made == "mixture":
            raise ValueError("a mixture has the probabilities of its circumstances; leave it out")
        if any(isinstance(part, dict) and len(part) != 1 for part in self.transforms or ()):
            raise ValueError("an entry of transforms is a name, or {name: level or parameters}")
        return self

    def components(self) -> list[tuple[str, str, Place]]:
        """The registered components that it names: type, name, and the key where it stands."""
        found: list[tuple[str, str, Place]] = []
        if self.transform:
            found.append(("transforms", self.transform, ("transform",)))
        for i, part in enumerate(self.transforms or ()):
            found.append(
                (
                    "transforms",
                    next(iter(part)) if isinstance(part, dict) else part,
                    ("transforms", i),
                )
            )
        if self.attack:
            found.append(("attacks", self.attack, ("attack",)))
        if isinstance(self.source, str):
            found.append(("sources", self.source, ("source",)))
        return found


class Mixtures(NamedTuple):
    """Names of circumstances that mix others, and of those that are mixed."""

    names: set[str]
    members: set[str]


class ClaimSpec(Strict):
    """What must hold. One key names the quantity: ``accuracy: {min: 0.9}``."""

    model_config = ConfigDict(serialize_by_alias=True)

    id: str = Field(description="What a hazard log points to")
    quantity: str = Field(
        "",
        description="Set from the key that names it: a measure, failure_rate, difference, relative_drop, …",
    )
    min: float | None = None
    max: float | None = None
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="One-sided, of the bound that the claim is judged on"
    )
    every: str = Field("", description="slices, circumstances, or the name of one slice column")
    circumstance: str = Field(
        "", description="Judge it under this circumstance instead of on the clean data"
    )
    level: int | None = None
    slice: dict[str, Any] = Field(
        default_factory=dict, description="Judge it on one slice: {site: B}"
    )
    supervisor: str = ""
    class_: str | int = Field("", alias="class", description="The class that the quantity is of")
    threshold: float | None = Field(
        None, gt=0, le=1, description="Probability from which on the class is answered"
    )
    no_worse_than: str = Field("", description="Folder of an earlier run")
    by: float = Field(0.0, ge=0, description="How much worse is still tolerated")

    @model_validator(mode="before")
    @classmethod
    def _name_the_quantity(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            raise ValueError("a claim is a mapping such as {id: R-1, accuracy: {min: 0.9}}")
        claim = dict(raw)
        if claim.get("quantity"):
            return claim
        known = _keys_of(cls)
        named = [k for k in claim if k not in known]
        bounds = [k for k in named if isinstance(claim[k], Mapping)]
        if len(bounds) > 1:
            raise ValueError(
                f"names several quantities ({', '.join(bounds)}); write one claim for each"
            )
        bare = [k for k in named if not did_you_mean(k, known)]
        if bare and not bounds:
            limit = claim[bare[0]] if isinstance(claim[bare[0]], int | float) else 0.9
            side = limits.quantity_of(bare[0]).side
            raise ValueError(f"{bare[0]} needs min or max, such as {bare[0]}: {{{side}: {limit}}}")
        if bounds:
            sides = claim.pop(bounds[0])
            unknown = set(sides) - {"min", "max"}
            if unknown:
                raise ValueError(
                    f"{bounds[0]}: {sorted(unknown)[0]!r} is not known; it takes min or max"
                )
            claim.update(quantity=bounds[0], **sides)
        return claim

    @model_validator(mode="after")
    def _one_limit(self) -> ClaimSpec:
        if self.no_worse_than:
            if self.min is not None or self.max is not None:
                raise ValueError("no_worse_than takes by, not min or max")
            return self
        if not self.quantity:
            raise ValueError("names no quantity; write for example accuracy: {min: 0.9}")
        if (self.min is None) == (self.max is None):
            raise ValueError(f"{self.quantity} needs exactly one of min and max")
        return self


class DataSpec(Strict):
    """Data sets by the role their rows play; a group never spans two roles."""

    test: dict[str, Any] = Field(
        description="What the subject is judged on: {npz: test.npz}, {coco: test.json, images: img/}, …"
    )
    calibration: dict[str, Any] | None = Field(None, description="What thresholds are chosen on")
    reference: dict[str, Any] | None = Field(
        None, description="What supervisors are fitted on; usually training data"
    )
    operational: dict[str, Any] | None = Field(None, description="Unlabelled data from use")
    group: str | None = Field(
        None, description="Metadata column of the independent units: patient_id"
    )
    classes: list[str | int] | None = Field(
        None, description="The classes, in the order of the subject's outputs if it does not say it"
    )

    def roles(self) -> dict[str, dict[str, Any]]:
        """The data sets given, by role."""
        found = {role: getattr(self, role) for role in ROLES}
        return {role: content for role, content in found.items() if content is not None}


class ExclusiveSpec(Strict):
    """Circumstances of which at most one is met at a time; of an exhaustive group exactly one."""

    example = "[day, night] or {of: [day, night], exhaustive: true}"
    of: list[str]
    exhaustive: bool = Field(False, description="One of them is always met: they sum to 1")


ExclusiveGroup = Annotated[
    ExclusiveSpec,
    BeforeValidator(
        lambda given: {"of": given} if isinstance(given, list) else given,
        json_schema_input_type=list[str] | ExclusiveSpec,
    ),
]


class ExecutionSpec(Strict):
    """Where the work runs. None of this changes a finding."""

    workers: int | None = Field(
        None, ge=1, description="Processes; by default one for small work, else one a core"
    )
    chunk: int = Field(500, ge=1, description="Cases that are computed, kept and resumed together")
    executor: str = Field(
        default="", description="`ray`, or one of your own; by default this machine"
    )
    address: str = Field(
        default="", description="Of a Ray cluster, or `auto`; by default one is started here"
    )
    index: str = Field(
        default="", description="Data base that lists runs: `postgresql://team@host/runs`"
    )

    @model_validator(mode="after")
    def _address_of_ray(self) -> ExecutionSpec:
        if self.address and not self.executor:
            self.executor = "ray"
        return self

    @field_serializer("index")
    def _written_without_password(self, index: str) -> str:
        return without_passwords(index)


class Assessment(Strict):
    """The whole file."""

    name: str = Field("", description="Names the run; by default the file's folder")
    intended_use: str = ""
    not_tested: list[str] = Field(
        default_factory=list, description="What a reader must not conclude from this run"
    )
    subject: dict[str, Any] = Field(
        description="The system under assessment: {task: classification, torch: model.py:build, …}"
    )
    data: DataSpec
    measure: str | dict[str, Any] | None = Field(
        None, description="How good an output is; by default the task's own"
    )
    failure: dict[str, Any] | None = Field(None, description="Which outputs count as wrong")
    circumstances: dict[str, CircumstanceSpec] = Field(default_factory=dict)
    exclusive: list[ExclusiveGroup] = Field(
        default_factory=list,
        description="Circumstances of which at most one is met at a time: [[fog, rain]]; if one of "
        "them always is: [{of: [day, night], exhaustive: true}]",
    )
    slices: list[str] = Field(default_factory=list, description="Metadata columns, or label")
    smallest_slice: int = Field(
        30, ge=1, description="Slices with fewer cases are shown but not judged"
    )
    supervisors: list[str | dict[str, Any]] = Field(
        default_factory=list,
        description="By name, or {name: settings}; or all: every one that applies",
    )
    claims: list[ClaimSpec] = Field(default_factory=list)
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="Confidence of the intervals in the report"
    )
    seed: int = 0
    media: Literal["gallery", "none"] = Field(
        "gallery", description="none: no input leaves the data, for private data"
    )
    execution: ExecutionSpec = Field(default_factory=lambda: ExecutionSpec(workers=None, chunk=500))

    _document: Document = PrivateAttr()
    _every_supervisor: bool = PrivateAttr(False)

    @classmethod
    def read(cls, path: Path) -> Assessment:
        """Read and check a file."""
        return cls.of(Document.read(path))

    @classmethod
    def parse(cls, text: str, path: str | Path) -> Assessment:
        """Check a text as if it stood in a file of that name."""
        return cls.of(Document.parse(text, path))

    @classmethod
    def bare(cls, text: str, path: str | Path, execution: Mapping[str, Any]) -> Assessment:
        """What runs the subject on cases, of a file that was checked already: no section is loaded."""
        document = Document.parse(text, path)
        left = ("claims", "supervisors")
        known = {k: v for k, v in document.content.items() if k in cls.model_fields}
        known["execution"] = execution  # which need not be the file's
        spec = Assessment.model_validate({k: v for k, v in known.items() if k not in left})
        spec._document = document
        spec._load_measure()
        for circumstance in spec.circumstances.values():
            for room, name, _ in circumstance.components():
                if is_own(name):
                    own_component(room, name, spec.base)
        return spec

    @classmethod
    def of(cls, document: Document) -> Assessment:
        """Check a document."""
        if not isinstance(document.content, Mapping):
            raise document.error(
                (),
                "an assessment is a mapping with at least subject and data; `roadworthy init` writes one",
            )
        content = dict(document.content)
        given = content.get("subject")
        others = set(content) - set(composed().model_fields)
        if (
            "data" not in content
            and isinstance(given, Mapping)
            and "predictions" in given
            and not others
        ):
            # The truth may stand beside the answers; a misspelt `data` is said instead.
            content["data"] = {"test": {"predictions": given["predictions"]}}
        every = content.get("supervisors") == ALL
        if every:
            known = registry.components("supervisors")
            content["supervisors"] = [name for name in known if not is_own(name)]
        try:
            spec = composed().model_validate(content)
        except ValidationError as error:
            raise first_error(document, error, _siblings) from error
        spec._document, spec._every_supervisor = document, every
        spec._check_names()
        for section in limits.installed_sections().values():
            section().check_file(spec)
        return spec

    def part(self, key: str, model: type[_Part]) -> _Part | None:
        """What stands under the key of a section; None where the file says nothing of it."""
        found = getattr(self, key, None)
        return found if isinstance(found, model) else None

    @property
    def document(self) -> Document:
        """The file it was read from."""
        return self._document

    @property
    def base(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self._document.path.resolve().parent

    @property
    def every_supervisor(self) -> bool:
        """Whether the file asks for all supervisors, so that those which do not apply are left out."""
        return self._every_supervisor

    @property
    def title(self) -> str:
        """The run's name."""
        return self.name or self.base.name or "assessment"

    @property
    def never_wrong(self) -> str:
        """Why no answer can count as wrong, and what to add; empty where one can.

        Measures of numbers do not say from which error on an answer is wrong, unless the file does.
        """
        parameters = registry.get("measures", self.measure_name).parameters
        open_ = [b for b in BOUNDS if b in parameters and parameters[b].default is None]
        given = any(self.measure_parameters.get(b) is not None for b in open_)
        if self.failure or not open_ or given:
            return ""
        return (
            f"{self.measure_name} has no default failure threshold, so {NEVER_WRONG}. "
            "Set `failure: {error: {above: …}}`"
        )

    @property
    def task(self) -> Task:
        """What kind of subject this is."""
        return TASKS[self.subject["task"]]

    @property
    def adapter(self) -> str:
        """The adapter that the subject names."""
        return next(k for k in self.subject if k in registry.components("adapters"))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that the file gives the subject's outputs, in their order."""
        found = self.subject.get("classes")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def group_column(self) -> str:
        """The column that says what belongs together; empty if the file names none."""
        return str(self.data.group or self.data.test.get("group") or "")

    @property
    def measure_name(self) -> str:
        """The measure, or the task's own."""
        if self.measure is None:
            return self.task.measure
        name = self.measure if isinstance(self.measure, str) else next(iter(self.measure))
        return name.rpartition(":")[2] if is_own(name) else name

    @property
    def measure_parameters(self) -> dict[str, Any]:
        """What the measure is called with."""
        if not isinstance(self.measure, dict):
            return {}
        return dict(next(iter(self.measure.values())) or {})

    def error(self, place: Place, message: str) -> SpecError:
        """An error that names this file, the line and the field."""
        return self._document.error(place, message)

    def located(self, place: Place) -> AbstractContextManager[None]:
        """Whatever is refused within names this file, the line and the field."""
        return self._document.located(place)

    def _check_names(self) -> None:
        self._check_subject()
        self._load_measure()
        for name, circumstance in self.circumstances.items():
            self._check_circumstance_name(name, circumstance)
            for room, component, place in circumstance.components():
                self._check_registered(room, component, ("circumstances", name, *place))
            named = registry.components("sources").get(str(circumstance.source))
            if circumstance.n is not None and (named is None or "learned_from" not in named.traits):
                raise self.error(
                    ("circumstances", name, "n"), "belongs to a source that learns: ambiguous"
                )
        self._check_mixtures()
        for i, entry in enumerate(self.supervisors):
            self._check_registered("supervisors", supervisor_name(entry), ("supervisors", i))
        seen: set[str] = set()
        for i, claim in enumerate(self.claims):
            if claim.id in seen:
                raise self.error(
                    ("claims", i, "id"), f"{claim.id!r} is the id of two claims; ids must be unique"
                )
            seen.add(claim.id)
            self._check_quantity(i, claim)
            if claim.circumstance and claim.circumstance not in self.circumstances:
                raise self.error(
                    ("claims", i, "circumstance"),
                    f"there is no circumstance {claim.circumstance!r}{did_you_mean(claim.circumstance, self.circumstances)}",
                )

    @property
    def mixtures(self) -> Mixtures:
        """Circumstances that mix others, and those that are mixed."""
        names = [name for name, c in self.circumstances.items() if c.mixture is not None]
        return Mixtures(set(names), {n for name in names for n in self.mixed(name)})

    def mixed(self, name: str) -> list[str]:
        """The circumstances of a mixture, in the order of the file."""
        mixture = self.circumstances[name].mixture
        made = [
            n
            for n, c in self.circumstances.items()
            if (c.transform or c.transforms) and c.probability is not None and c.port == "input"
        ]
        return made if mixture == ALL else [n for n in self.circumstances if n in (mixture or ())]

    def _check_mixtures(self) -> None:
        """Mixtures and exclusive groups name circumstances that can be mixed, with probabilities that can be met."""
        stated = {n: c.probability for n, c in self.circumstances.items()}
        seen: set[str] = set()
        for i, group in enumerate(self.exclusive):
            for name in group.of:
                if name not in stated:
                    hint = did_you_mean(name, stated)
                    raise self.error(("exclusive", i), f"{name!r} is no circumstance{hint}")
                if name in seen:
                    raise self.error(
                        ("exclusive", i), f"{name!r} is named twice; one group holds each"
                    )
                seen.add(name)
            with self.located(("exclusive", i)):
                probabilities = {name: stated[name] or 0.0 for name in group.of}
                check_exclusive(probabilities, exhaustive=group.exhaustive)
        mixing = [name for name, c in self.circumstances.items() if c.mixture is not None]
        for name in mixing[1:]:
            raise self.error(
                ("circumstances", name, "mixture"), f"{mixing[0]} is a mixture too; keep one"
            )
        for name in mixing:
            circumstance, place = self.circumstances[name], ("circumstances", name, "mixture")
            if not self.mixed(name):
                raise self.error(
                    place,
                    "there is no circumstance with a transform and a probability; "
                    "add how often each is met in use",
                )
            listed = circumstance.mixture
            for other in listed if isinstance(listed, list) else ():
                known = self.circumstances.get(other)
                if known is None:
                    hint = did_you_mean(other, self.circumstances)
                    raise self.error(place, f"there is no circumstance {other!r}{hint}")
                if not (known.transform or known.transforms) or known.port != "input":
                    raise self.error(place, f"{other} is no transform of inputs; leave it out")
                if known.probability is None:
                    raise self.error(place, f"{other} has no probability; add it")

    def _load_measure(self) -> None:
        named = (
            self.measure if isinstance(self.measure, str) else next(iter(self.measure or ()), "")
        )
        if is_own(named):
            with self.located(("measure",)):
                own_component("measures", named, self.base)
        self._check_registered("measures", self.measure_name, ("measure",))

    def _check_quantity(self, i: int, claim: ClaimSpec) -> None:
        """The limit can be kept and broken, and the claim names places that its quantity has."""
        if claim.no_worse_than:
            return
        with self.located(("claims", i, claim.quantity)):
            for side, limit in (("min", claim.min), ("max", claim.max)):
                if limit is not None:
                    limits.check_limit(claim.quantity, side, limit, measure=self.measure_name)
        quantity = limits.quantity_of(claim.quantity, self.measure_name)
        if quantity.of not in ("", self.task.output.name):
            gives, name = self.task.output.name, quantity.name
            cure = f"; set measure: {name}" if name in for_values(gives, self.task.target) else ""
            raise self.error(
                ("claims", i, name), f"{name} is of {quantity.of}, and the task gives {gives}{cure}"
            )
        every = {"": "", "circumstances": "circumstance"}.get(claim.every, "slice")
        named = {
            "circumstance": bool(claim.circumstance) or every == "circumstance",
            "slice": bool(claim.slice) or every == "slice",
            "supervisor": bool(claim.supervisor),
            "class": claim.class_ != "",
            "threshold": claim.threshold is not None,
        }
        for place, is_named in named.items():
            if is_named and place not in quantity.places:
                of = "over all cases" if not quantity.places else f"not about a {place}"
                key = "every" if place == every else place
                raise self.error(("claims", i, key), f"{claim.quantity} is {of}; leave {key} out")
            if place in quantity.needs and not is_named:
                more = {"supervisor": "supervisor: max_softmax", "class": "class: NAME"}.get(
                    place, "circumstance: NAME or every: circumstances"
                )
                raise self.error(("claims", i), f"{claim.quantity} is about a {place}; add {more}")

    def _check_circumstance_name(self, name: str, circumstance: CircumstanceSpec) -> None:
        """Names are parts of case ids and of findings, and must not be mistaken for something else."""
        odd = [c for c in "@~:|/" if c in name]
        if odd or name in ("", "clean", "rest") or name != name.strip():
            what = f"holds {odd[0]!r}" if odd else "is taken"
            raise self.error(
                ("circumstances", name), f"the name {name!r} {what}; use letters, digits, - and _"
            )
        twice = sorted(
            {level for level in circumstance.levels if circumstance.levels.count(level) > 1}
        )
        if twice:
            raise self.error(("circumstances", name, "levels"), f"level {twice[0]} is given twice")

    def _check_subject(self) -> None:
        task = self.subject.get("task")
        if task not in TASKS:
            raise self.error(
                ("subject", "task") if task is not None else ("subject",),
                f"the task is {task!r}{did_you_mean(str(task), TASKS)}; it must be one of {', '.join(TASKS)}",
            )
        adapters = registry.components("adapters")
        named = [k for k in self.subject if k in adapters]
        if len(named) != 1:
            unknown = [k for k in self.subject if k not in adapters and k not in _SUBJECT_KEYS]
            hint = did_you_mean(unknown[0], adapters) if unknown and not named else ""
            raise self.error(
                ("subject",),
                f"says {' and '.join(named) or 'nothing'} about where the system is{hint}; give exactly one of "
                f"{', '.join(adapters)}",
            )
        known = [*adapters[named[0]].parameters, *_SUBJECT_KEYS, named[0]]
        for key in self.subject:
            if key not in known or key in ("path", "base"):
                raise self.error(
                    ("subject", key),
                    f"is not known to {named[0]}{did_you_mean(key, known)}; it takes: {', '.join(known)}",
                )

    def _check_registered(self, room: str, name: str, place: Place) -> None:
        with self.located(place):
            if is_own(name):
                own_component(room, name, self.base)
            registry.get(room, name)


@functools.lru_cache(maxsize=8)
def _composed(sections: tuple[type, ...]) -> type[Assessment]:
    fields: dict[str, Any] = {}
    for section in sections:
        for key, declared in section.keys.items():  # type: ignore[attr-defined]
            if key in Assessment.model_fields or key in fields:
                raise registry.RegistryError(
                    f"the section {section.__name__} owns the key {key!r}, which is taken; rename it"
                )
            if isinstance(declared, type):
                said = (inspect.getdoc(declared) or "").split("\n")[0]
                declared = (declared | None, Field(None, description=said))
            fields[key] = declared
    return create_model("Assessment", __base__=Assessment, __module__=__name__, **fields)


def composed() -> type[Assessment]:
    """The model of the whole file: the keys of every assessment and those of the sections."""
    return _composed(tuple(limits.installed_sections().values()))


def assessment_schema() -> dict[str, Any]:
    """The JSON schema of the assessment file."""
    content = composed().model_json_schema()
    content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    content["title"] = "roadworthy assessment"
    listed = content["properties"]["supervisors"]
    shapes = {"anyOf": [{"const": ALL}, {k: listed.pop(k) for k in ("type", "items")}]}
    content["properties"]["supervisors"] = {**shapes, **listed}
    claim = content["$defs"]["ClaimSpec"]
    claim["additionalProperties"] = {
        "type": "object",
        "properties": {"min": {"type": "number"}, "max": {"type": "number"}},
        "additionalProperties": False,
        "description": f"The quantity that is claimed: a measure, {', '.join(limits.quantities())}",
    }
    return content


def _siblings(place: Place) -> list[str]:
    """The keys that would be right where an unknown one stands."""
    whole = composed()
    if len(place) == 1 or str(place[0]) not in whole.model_fields:
        return list(whole.model_fields)
    model = _model_in(whole.model_fields[str(place[0])].annotation) or whole
    extra = list(registry.components("measures")) if model is ClaimSpec else []
    return [*_keys_of(model), *extra]


def _keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a part of the file, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in ``RiskSpec | None`` or ``dict[str, CircumstanceSpec]``."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)


def supervisor_name(entry: str | Mapping[str, Any]) -> str:
    """``knn`` for ``knn`` and for ``{knn: {k: 5}}``."""
    return entry if isinstance(entry, str) else next(iter(entry))


def supervisor_parameters(entry: str | Mapping[str, Any]) -> dict[str, Any]:
    """``{k: 5}`` for ``{knn: {k: 5}}``."""
    return {} if isinstance(entry, str) else dict(next(iter(entry.values())) or {})


def supervisor_label(
    entry: str | Mapping[str, Any], entries: Sequence[str | Mapping[str, Any]]
) -> str:
    """The name by which tables and claims know a supervisor; with its settings where the same name is there twice.

    >>> supervisor_label({"knn": {"k": 5}}, ["knn", {"knn": {"k": 5}}])
    'knn(k=5)'
    """
    name, parameters = supervisor_name(entry), supervisor_parameters(entry)
    if not parameters or sum(supervisor_name(e) == name for e in entries) == 1:
        return name
    return f"{name}({', '.join(f'{k}={v}' for k, v in parameters.items())})"
