"""The record of a run: pydantic models that are written and read by the same.

``run.json`` is a `Record` without its findings, which stand in ``findings.json``; ``report.json`` is both in one document. What a
section adds stands at ``sections.NAME`` in the model that the section declares; a section that is not installed is kept as it
was written.

>>> Record.schema()["properties"]["claims"]["items"]
{'$ref': '#/$defs/ClaimRecord'}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    PrivateAttr,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from roadworthy import registry
from roadworthy.cases.circumstance import CircumstanceKind
from roadworthy.claims import Judgement
from roadworthy.finding import Finding
from roadworthy.statistics.interval import Interval
from roadworthy.store.runs import FINDINGS, RUN, RunFolder, StoreError, read_run_json

FORMAT = 2
STATUSES = ("breached", "inconclusive", "met")
"""What a claim can be, the most urgent first."""


def as_dict(kind: Any, *, words: bool = False) -> Any:
    """A dataclass with `to_dict` and `from_dict` as the type of a field; `words`: numbers may be written as `inf`."""
    number = ["number", "string", "null"] if words else ["number", "null"]
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    return Annotated[
        InstanceOf[kind],  # type: ignore[misc]
        BeforeValidator(lambda x: x if isinstance(x, kind) else kind.from_dict(x)),
        PlainSerializer(kind.to_dict, return_type=dict[str, Any]),
        WithJsonSchema(_inlined(schema, schema.get("$defs", {}), number)),
    ]


def _inlined(schema: Any, defs: Mapping[str, Any], number: list[str]) -> Any:
    """A schema without references; what holds itself ends in any object. JSON has no NaN and no infinity: null."""
    if isinstance(schema, list):
        return [_inlined(one, defs, number) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        rest = {k: v for k, v in defs.items() if k != name}
        return _inlined(defs[name], rest, number) if name in defs else {"type": "object"}
    if schema.get("type") == "number":
        return {**schema, "type": number}
    kept = {k: v for k, v in schema.items() if k not in ("$defs", "default")}
    return {k: _inlined(v, defs, number) for k, v in kept.items()}


if TYPE_CHECKING:
    StoredInterval = Interval
    StoredFinding = Finding
else:
    StoredInterval = as_dict(Interval)
    StoredFinding = as_dict(Finding)


def _finite(x: Any) -> Any:
    return None if isinstance(x, float) and not math.isfinite(x) else x


Number = Annotated[float | None, BeforeValidator(_finite)]
"""A number, or null for what JSON cannot write."""


class RecordPart(BaseModel):
    """What records have in common."""

    model_config = ConfigDict(extra="ignore", ser_json_inf_nan="null")


class ModuleRecord(RecordPart):
    """One module of the subject."""

    name: str
    outputs: dict[str, str] = Field(default_factory=dict)
    assessed: bool = True
    fingerprint: str = ""


class FileRecord(RecordPart):
    """A file that the subject opened, or that it names; its path is relative to the assessment file."""

    path: str
    sha256: str = Field(description="Or that it is absent, or that a folder was listed")
    bytes: int


class SubjectRecord(RecordPart):
    """The system that was assessed."""

    task: str = ""
    adapter: str = ""
    version: str = ""
    fingerprint: str = ""
    classes: list[str] = Field(
        default_factory=list, description="Classes of its outputs, in their order"
    )
    class_order: str = Field(default="", description="Where that order comes from")
    class_order_given: bool = Field(default=True, description="False: inferred from the labels")
    not_identified: list[str] = Field(
        default_factory=list, description="What its answers may depend on besides the files"
    )
    preparation: dict[str, str] = Field(
        default_factory=dict, description="How an image becomes the model's input"
    )
    preparation_assumed: bool = Field(default=False, description="The file does not state it")
    modules: list[ModuleRecord] = Field(default_factory=list)
    files: list[FileRecord] = Field(default_factory=list)


class DataRecord(RecordPart):
    """A data set."""

    name: str = ""
    n: int = 0
    groups: int | None = None
    group: str = Field(default="", description="The column that names them")
    classes: list[str] | None = None
    fingerprint: str = ""
    source: str = ""
    licence: str = ""


class MeasureRecord(RecordPart):
    """How good an output is, and which count as wrong."""

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    better: Literal["higher", "lower"] = "higher"
    shape: Literal["proportion", "ratio", "free"] = "free"
    failure: dict[str, Any] = Field(default_factory=dict)


class CircumstanceRecord(RecordPart):
    """A condition of use: what makes it, at which levels, and how much it matters."""

    name: str
    kind: CircumstanceKind = "transform"
    transform: str | None = None
    transforms: list[str | dict[str, Any]] | None = None
    attack: str | None = None
    source: str | dict[str, Any] | None = None
    mixture: list[str] | None = None
    table: str | None = None
    levels: list[float] = Field(default_factory=list)
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict, description="By level")
    port: str = "input"
    where: dict[str, Any] | None = None
    probability: float | None = None
    exposure: int | None = None
    likelihood: int | None = None
    severity: int | None = None
    significance: float | None = Field(
        default=None, description="Risk priority: exposure x likelihood x severity"
    )
    description: str = ""


class SliceRecord(RecordPart):
    """A slice of the clean test data."""

    column: str
    value: str
    n: int
    too_small: bool = False

    @property
    def name(self) -> str:
        """``column=value``"""
        return f"{self.column}={self.value}"


class FailedCase(RecordPart):
    """A case that gave no answer."""

    case: str
    message: str


class CasesRecord(RecordPart):
    """How many cases were run."""

    total: int
    computed: int = 0
    from_cache: int = 0
    failed: int = Field(default=0, description="Cases without an answer; they count as wrong")
    failures: list[FailedCase] = Field(default_factory=list, description="The first of them")


class Judged(RecordPart):
    """A value against a limit, and the bound that decided."""

    status: Literal["met", "breached", "inconclusive"]
    value: Number = None
    interval: StoredInterval | None = Field(
        default=None,
        description="From lower to upper one-sided bound, both at the claim's confidence",
    )
    n: int | None = None
    groups: int | None = None
    about: str = ""
    bound: Number = Field(default=None, description="The one-sided bound that decided")
    cases_to_settle: int | None = Field(default=None, description="In all, n included")
    groups_to_settle: int | None = None
    why: str = ""


class ClaimRecord(Judged):
    """A claim and its verdict."""

    id: str
    text: str
    quantity: str
    limit: float
    direction: Literal["min", "max"]
    confidence: float
    corrected: str = Field(default="", description="What was corrected for multiplicity, and how")
    members: list[Judged] = Field(default_factory=list, description="Its places, if several")

    def bound_side(self, status: str) -> str:
        """Which end of the value a verdict rests on: the pessimistic one, and the optimistic one for a breach."""
        return "lower" if (self.direction == "min") != (status == "breached") else "upper"


def claim_record(judgement: Judgement) -> ClaimRecord:
    """A judgement with the place that decided it."""
    claim, members = judgement.claim, judgement.members
    decided = judgement.deciding
    fields = {"n": 0} if decided is None else vars(decided)
    about = {
        name: getattr(claim, name)
        for name in ("id", "text", "quantity", "limit", "direction", "confidence")
    }
    verdict = {name: getattr(judgement, name) for name in ("status", "why", "corrected")}
    places = [Judged(**vars(m)) for m in members] if len(members) > 1 else []
    return ClaimRecord(**{**fields, **about, **verdict, "members": places})


class Pair(RecordPart):
    """An original and the case made of it, with truth and answer."""

    sample: str
    case: str
    circumstance: str = ""
    level: Number = None
    truth: str = ""
    prediction: str = ""
    confidence: Number = None
    clean_prediction: str = ""
    failure: bool | None = Field(
        default=None, description="Null where the file says of no answer that it is wrong"
    )
    original: str | None = Field(default=None, description="Path of a picture in the run folder")
    truth_overlay: str | None = Field(default=None, description="The true mask over the case")
    made: str | None = None
    original_text: str | None = None
    made_text: str | None = None
    boxes: dict[str, list[list[float]]] | None = None
    width: int = 0
    height: int = 0


class Gallery(RecordPart):
    """Cases to look at."""

    pairs: list[Pair] = Field(default_factory=list)
    worst: list[Pair] = Field(default_factory=list, description="Failures, the gravest first")


class Record(RecordPart):
    """A run: what was assessed, on what, by which code, and what was found."""

    format: Literal[2] = 2
    key: str = ""
    name: str
    status: Literal["finished", "unfinished"] = "finished"
    verdict: Literal["met", "breached", "inconclusive", "no claims"]
    created: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    seed: int = 0
    confidence: float = Field(default=0.95, description="Confidence of the findings' intervals")
    command: str = ""
    spec: dict[str, Any] = Field(
        default_factory=dict, description="The assessment file, defaults filled in"
    )
    spec_text: str = ""
    base: str = Field(
        default="", description="The folder of the assessment file, seen from the run folder"
    )
    intended_use: str = ""
    not_tested: list[str] = Field(default_factory=list)
    media: Literal["gallery", "none"] = "gallery"
    subject: SubjectRecord
    data: dict[str, DataRecord] = Field(default_factory=dict, description="By role")
    measure: MeasureRecord
    circumstances: list[CircumstanceRecord] = Field(default_factory=list)
    slices: list[SliceRecord] = Field(default_factory=list)
    cases: CasesRecord
    claims: list[ClaimRecord] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list, description="What changes how to read it")
    notes: list[str] = Field(default_factory=list)
    gallery: Gallery = Field(default_factory=Gallery)
    sections: dict[str, SerializeAsAny[Any]] = Field(default_factory=dict)
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds by stage")
    findings: list[StoredFinding] = Field(default_factory=list)

    _folder: Path = PrivateAttr(Path())
    _at: dict[tuple[Any, ...], Finding] = PrivateAttr(default_factory=dict)

    @field_validator("sections")
    @classmethod
    def _models(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Every part in the model of its section; that of a section that is not installed stays as it is."""
        known = registry.components("sections")
        return {
            name: _model(known[name]).model_validate(part)
            if name in known and isinstance(part, Mapping)
            else part
            for name, part in content.items()
        }

    @property
    def folder(self) -> Path:
        """Where it was read from or written to."""
        return self._folder

    def write(self, folder: Path) -> Record:
        """Write ``run.json`` and ``findings.json``."""
        self._folder = folder
        store = RunFolder(folder)
        findings = json.dumps([f.to_dict() for f in self.findings], indent=1, default=_plain)
        store.write_text(FINDINGS, findings)
        store.write_text(RUN, self.model_dump_json(indent=1, exclude={"findings"}))
        return self

    @classmethod
    def read(cls, folder: Path) -> Record:
        """The run in a folder, with its findings."""
        path = RunFolder.open(Path(folder)).path / RUN
        content = read_run_json(path)
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        if found != FORMAT:
            raise StoreError(
                f"{path} has format {found!r}, and this version reads format {FORMAT}. "
                "Use the version of roadworthy that made the run, or assess again"
            )
        findings = path.parent / FINDINGS
        try:
            record = cls.model_validate({**content, "findings": read_run_json(findings)})
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            file = findings if first["loc"][0] == "findings" else path
            raise StoreError(
                f"{file}: {place}: {first['msg']}. Assess again to write it"
            ) from error
        record._folder = path.parent
        return record

    def plain(self) -> dict[str, Any]:
        """As JSON has it, without findings."""
        return json.loads(self.model_dump_json(exclude={"findings"}))  # type: ignore[no-any-return]

    def find(
        self,
        quantity: str,
        circumstance: str = "",
        level: float | None = None,
        *,
        slice: str = "",
        supervisor: str = "",
    ) -> Finding | None:
        """The finding on a quantity at one place; by default on the clean test data."""
        if not self._at:
            for f in self.findings:
                about = f.about
                if not about.module:
                    place = (about.circumstance, about.level, about.slice, about.supervisor)
                    self._at[(f.quantity, *place)] = f
        return self._at.get((quantity, circumstance, level, slice, supervisor))

    @classmethod
    def schema(cls) -> dict[str, Any]:  # type: ignore[override]
        """The JSON schema (draft 2020-12) of ``report.json``; ``run.json`` lacks the findings."""
        content = cls.model_json_schema(mode="serialization")
        parts = {}
        for name, component in registry.components("sections").items():
            part = _model(component).model_json_schema(
                mode="serialization", ref_template="#/$defs/{model}"
            )
            content.setdefault("$defs", {}).update(part.pop("$defs", {}))
            parts[name] = part
        content["properties"]["sections"] = {"type": "object", "properties": parts}
        content["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        content["title"] = "roadworthy report"
        return content


def _model(section: registry.Component) -> type[BaseModel]:
    """The model that a section declares for its part."""
    return section.build.Record  # type: ignore[attr-defined,no-any-return]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
