"""The file that `roadworthy simulate` reads: a stream whose truth is known, what was calibrated, and the estimators to compare.

>>> text = '''
... stream:
...   detector: {tpr: 0.9, tnr: 0.8}
...   shift: [{constant: 0.0, events: 2000}, {constant: 0.3, events: 2000}]
... '''
>>> simulation = Simulation.parse(text, "step.yaml")
>>> simulation.stream.events, simulation.window, simulation.estimators[0]
(4000, 100, 'event_tree')
>>> Simulation.parse(text.replace("constant: 0.3", "konstant: 0.3"), "step.yaml")
Traceback (most recent call last):
roadworthy.spec.document.SpecError: step.yaml:4: stream.shift[1].konstant: this key is not known (did you mean 'constant'?)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from roadworthy.analysis.risk.prototypes import cost_tree
from roadworthy.analysis.risk.tolerable import refuse_out_of_reach
from roadworthy.analysis.risk.tree import Tree
from roadworthy.analysis.simulation.schedules import Segments, Step, read_schedule, read_segment
from roadworthy.spec.document import Document, SpecError
from roadworthy.spec.estimator_names import EstimatorName, wrong_names
from roadworthy.spec.mistakes import first_error
from roadworthy.spec.other_files import refuse_other_files, refuse_table

Rate = float
USUAL = ("event_tree", "rogan_gladen", "mean")
MOST_EVENTS = 2_000_000
"""Events in a stream times repeats; more is work for a study."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SegmentSpec(_Strict):
    """A part of the schedule: one key names its shape and holds its rates."""

    constant: Rate | None = Field(None, description="One rate")
    step: list[Rate] | None = Field(None, description="Rates before and after event number `at`")
    ramp: list[Rate] | None = Field(None, description="From a rate to another")
    bursts: list[Rate] | None = Field(None, description="Rates outside and within bursts")
    markov: list[Rate] | None = Field(
        None, description="Rates of two hidden states: autocorrelated shift"
    )
    at: int | None = Field(None, description="step: the event it is at")
    every: int | None = Field(None, description="bursts: events from one to the next")
    length: int | None = Field(None, description="bursts: events of one")
    random: bool | None = Field(None, description="bursts: at random, `every` on average")
    share: float | None = Field(None, description="markov: part of the time in the second state")
    run: float | None = Field(None, description="markov: mean events of a stay in the second state")
    events: int | None = Field(
        None, ge=1, description="Length of this part; the last may leave it out"
    )

    @model_validator(mode="after")
    def _one_shape(self) -> SegmentSpec:
        read_segment(self.model_dump(exclude_none=True))
        return self


class AccuracySpec(_Strict):
    """P(right) of the classifier behind a synthetic detector: one number, or one with an alarm and one without."""

    clean: list[float] = Field(default_factory=lambda: [0.95])
    shifted: list[float] = Field(default_factory=lambda: [0.6])

    @field_validator("clean", "shifted", mode="before")
    @classmethod
    def _alone(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("clean", "shifted")
    @classmethod
    def _probabilities(cls, value: list[float]) -> list[float]:
        if len(value) not in (1, 2) or not all(0 <= p <= 1 for p in value):
            raise ValueError("is a probability, or two of them: with an alarm, and without")
        return value

    def pair(self, side: Literal["clean", "shifted"]) -> tuple[float, float]:
        """P(right) with an alarm, and without."""
        value: list[float] = getattr(self, side)
        return value[0], value[-1]


class DetectorSpec(_Strict):
    """A synthetic detector, or a whole grid of them."""

    tpr: float | None = Field(None, ge=0, le=1, description="P(alarm | shifted)")
    tnr: float | None = Field(None, ge=0, le=1, description="P(no alarm | clean)")
    grid: int | None = Field(
        None,
        ge=2,
        le=20,
        description="Instead: all (tpr, tnr) in so many steps whose balanced accuracy is above 0.5",
    )
    accuracy: AccuracySpec = Field(default_factory=lambda: AccuracySpec.model_validate({}))

    @model_validator(mode="after")
    def _one_or_grid(self) -> DetectorSpec:
        if (self.grid is None) == (self.tpr is None or self.tnr is None):
            raise ValueError("give tpr and tnr, or grid")
        if self.grid is not None and (self.tpr is not None or self.tnr is not None):
            raise ValueError("give tpr and tnr, or grid, not both")
        return self


class StreamSpec(_Strict):
    """The events: rows of a labelled score table, or a synthetic detector's verdicts."""

    scores: str | None = Field(
        None, description="A table with kind, correct and score columns: CSV or Parquet"
    )
    truth: str | None = Field(
        None, description="Where kind and correct stand in a table of their own, by id"
    )
    detector: DetectorSpec | None = Field(None, description="Instead: a synthetic detector")
    kinds: list[str] | None = Field(
        None, description="Kinds of the shifted rows; by default all but clean"
    )
    shift: list[SegmentSpec] = Field(
        description="How often events are shifted; one segment such as {constant: 0.3, events: 5000}, or a list"
    )
    events: int | None = Field(None, ge=1, description="Length; by default that of the segments")
    batches: list[int] = Field(
        default_factory=lambda: [1],
        description="Events that are clean or shifted together: one size, or several mixed",
    )
    replace: bool = Field(True, description="Whether a row may be drawn again")
    runs: float = Field(1.0, ge=1, description="Mean events for which a row is repeated")
    order: float = Field(
        0.0, ge=0, lt=1, description="AR(1) coefficient of the rows' places in the score `by`"
    )
    by: str | None = Field(
        None, description="The score that `order` is about; by default the first"
    )

    @field_validator("shift", "batches", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, Mapping | int) else value

    @field_validator("batches")
    @classmethod
    def _positive(cls, value: list[int]) -> list[int]:
        if not value or min(value) < 1:
            raise ValueError("is 1 or more, or a list such as [1, 8, 16, 32, 64]")
        return value

    @model_validator(mode="after")
    def _source_and_length(self) -> StreamSpec:
        if (self.scores is None) == (self.detector is None):
            raise ValueError("needs exactly one of scores (a table) and detector (a synthetic one)")
        length = self.schedule.events
        if self.events is None:
            if length is None:
                raise ValueError("needs events: the last segment of shift has none")
            self.events = length
        elif length is not None and self.events > length:
            raise ValueError(
                f"events is {self.events}, and the segments of shift describe {length}; lengthen the last"
            )
        return self

    @property
    def schedule(self) -> Segments:
        """How often events are shifted."""
        return read_schedule([s.model_dump(exclude_none=True) for s in self.shift])


class CalibrationSpec(_Strict):
    """What was known before the stream: a bundle, a table, or so many verdicts of the synthetic detector."""

    bundle: str | None = Field(None, description="A file that `roadworthy calibrate` wrote")
    scores: str | None = Field(
        None,
        description="A labelled table; by default the stream's, whose rows are then divided between the two",
    )
    without: list[str] = Field(default_factory=list, description="Kinds that are not calibrated on")
    clean: int = Field(1000, ge=10, description="Detector: clean rows to calibrate on")
    shifted: int = Field(1000, ge=10, description="Detector: shifted rows to calibrate on")


class RiskSpec(_Strict):
    """What cases cost."""

    tree: dict[str, Any] | None = Field(
        None, description="An event tree; by default that of `costs`"
    )
    costs: dict[str, float] | None = Field(
        None,
        description="Of right and wrong answers, and of necessary and unnecessary interventions after an alarm",
    )
    unit: str | None = Field(
        None, description="Such as EUR per case; wrong answers per case where nothing costs"
    )
    constants: dict[str, float] = Field(
        default_factory=dict, description="Parameters of the tree that no stream tells"
    )
    tolerable: float | None = Field(
        None,
        description="Expected cost of a case above which an alarm is due; chosen where there is `alarm` and none is given",
    )

    @model_validator(mode="after")
    def _tree_is_right(self) -> RiskSpec:
        if self.tree is not None and self.costs is not None:
            raise ValueError("give tree or costs, not both")
        self.event_tree()
        return self

    def event_tree(self) -> Tree:
        """The tree: as given, or that of figure 2 where an intervention costs something, else that of figure 1."""
        unit = self.unit or (
            "wrong answers per case"
            if self.costs is None and self.tree is None
            else "cost per case"
        )
        if self.tree is not None:
            return Tree.from_dict(self.tree, unit=None if "unit" in self.tree else unit)
        return cost_tree(self.costs or {}, unit=unit)


class AlarmSpec(_Strict):
    """When to alarm."""

    false_alarms: str = Field(
        "1 per month", description="How many are accepted where nothing is wrong"
    )
    events_per_day: float = Field(10_000.0, gt=0, description="How fast the stream is")
    window: int | None = Field(
        None, ge=2, description="Events that an alarm looks back on; by default the file's window"
    )
    group_events: int | None = Field(
        None,
        ge=1,
        description="Events of one group that come in a row in use: the alarm then allows for hard groups",
    )


class Simulation(_Strict):
    """The whole file."""

    name: str = ""
    stream: StreamSpec
    calibration: CalibrationSpec = Field(default_factory=lambda: CalibrationSpec.model_validate({}))
    risk: RiskSpec = Field(default_factory=lambda: RiskSpec.model_validate({}))
    alarm: AlarmSpec = Field(default_factory=lambda: AlarmSpec.model_validate({}))
    estimators: list[EstimatorName] = Field(default_factory=lambda: list(USUAL), min_length=1)
    confidence_from: str = Field(
        "max_softmax",
        description="cbpe: the score that falls with the classifier's confidence, best 1 minus it",
    )
    window: int = Field(100, ge=2, description="Events of one estimate")
    batch: int | None = Field(
        None,
        ge=2,
        description="Events judged together, for estimators that judge batches: 8, 16, 32 or 64, say",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Of the intervals")
    repeats: int = Field(1, ge=1, description="Streams drawn; errors are means over them")
    seed: int = 0

    _document: Document = PrivateAttr()

    @classmethod
    def read(cls, path: Path) -> Simulation:
        """Read and check a file."""
        if not path.exists():
            raise SpecError(
                f"{path}: there is no such file; examples/runtime has some to start from"
            )
        if path.is_dir():
            raise SpecError(f"{path}: is a folder; name the simulation file in it")
        refuse_table(path)
        spec = cls._from(Document.read(path))
        spec._check_files()
        return spec

    @classmethod
    def parse(cls, text: str, path: str | Path) -> Simulation:
        """Check a text as if it stood in a file of that name."""
        return cls._from(Document.parse(text, path))

    @classmethod
    def _from(cls, document: Document) -> Simulation:
        if not isinstance(document.content, Mapping):
            raise document.error(
                (), "a simulation is a mapping with at least stream; see examples/runtime"
            )
        if "stream" not in document.content:
            refuse_other_files(document)
        try:
            spec = cls.model_validate(document.content)
        except ValidationError as error:
            raise first_error(document, error, _siblings, _meaning) from error
        spec._document = document
        spec._check_together()
        return spec

    @property
    def base(self) -> Path:
        """The folder that paths in the file are relative to."""
        return self._document.path.resolve().parent

    @property
    def title(self) -> str:
        """Its name, or that of the file."""
        return self.name or self._document.path.stem

    @property
    def asks_for_alarms(self) -> bool:
        """Whether the file says when to alarm, be it only that it has the section."""
        return "alarm" in self.model_fields_set

    def error(self, place: tuple[str | int, ...], message: str) -> SpecError:
        """An error that names this file, the line and the field."""
        return self._document.error(place, message)

    def _check_together(self) -> None:
        """What is right by itself and wrong beside something else; the message stands at the line to change."""
        events = self.stream.events or 0
        if self.window > events:
            place: tuple[str, ...] = (
                ("window",) if "window" in self.model_fields_set else ("stream", "events")
            )
            raise self.error(
                place,
                f"a window of {self.window:,} does not fit into a stream of {events:,} events",
            )
        if events * self.repeats > MOST_EVENTS:
            many = f"{events:,} events x {self.repeats} repeats are more than {MOST_EVENTS:,}; take fewer"
            raise self.error(("repeats",) if self.repeats > 1 else ("stream", "events"), many)
        self._check_steps(events)
        grid = self.stream.detector is not None and self.stream.detector.grid is not None
        if self.asks_for_alarms and self.risk.tolerable is None and grid:
            missing = "needs to know what is tolerable, another cost for every detector of a grid; add risk: {tolerable: 0.1}"
            raise self.error(("alarm",), missing)
        if self.risk.tolerable is not None:
            try:
                refuse_out_of_reach(self.risk.event_tree(), self.risk.tolerable)
            except ValueError as error:
                raise self.error(("risk", "tolerable"), str(error)) from error
        wrong = wrong_names(self.estimators, self.batch, self.window)
        if wrong is not None:
            raise self.error(*wrong)
        given = self.calibration.model_fields_set
        if self.stream.detector is not None:
            for name in sorted(given - {"clean", "shifted"}):
                raise self.error(
                    ("calibration", name), "a synthetic detector is calibrated on its own verdicts"
                )
            if self.alarm.group_events is not None:
                raise self.error(
                    ("alarm", "group_events"),
                    "the verdicts of a synthetic detector come in no groups",
                )
            if "cbpe" in self.estimators:
                raise self.error(
                    ("estimators",),
                    "cbpe needs the confidence of every answer; a synthetic detector has none",
                )
            return
        for name in sorted(given & {"clean", "shifted"}):
            raise self.error(
                ("calibration", name),
                "belongs to a synthetic detector; a table has the rows it has",
            )
        if self.calibration.bundle is not None:
            self._check_bundle()

    def _check_steps(self, events: int) -> None:
        """A step lies within its segment, and within the stream."""
        start = 0
        for i, (part, length) in enumerate(self.stream.schedule.parts):
            end = events if length is None else min(start + length, events)
            if isinstance(part, Step) and part.at >= end - start:
                many = f"the step is at event {part.at:,} of {max(end - start, 0):,}, so that it never comes; make it earlier"
                listed = isinstance(self._document.content["stream"]["shift"], list)
                raise self.error(
                    ("stream", "shift", i, "at") if listed else ("stream", "shift", "at"), many
                )
            start += length or 0

    def _check_files(self) -> None:
        """Files that are named are there."""
        named = {
            ("stream", "scores"): self.stream.scores,
            ("stream", "truth"): self.stream.truth,
            ("calibration", "scores"): self.calibration.scores,
            ("calibration", "bundle"): self.calibration.bundle,
        }
        for place, path in named.items():
            if path is not None and not (self.base / path).exists():
                raise self.error(
                    place, f"there is no file {path}; paths are relative to the folder of this file"
                )

    def _check_bundle(self) -> None:
        """A bundle brings its calibration, costs and alarm with it."""
        said: list[tuple[str, ...]] = [
            (name,) for name in ("risk", "alarm") if name in self.model_fields_set
        ]
        said += [
            ("calibration", name) for name in sorted(self.calibration.model_fields_set - {"bundle"})
        ]
        for place in said:
            raise self.error(
                place, "is said twice: the bundle has its own; leave one of the two out"
            )
        if "cbpe" in self.estimators:
            raise self.error(
                ("estimators",),
                "cbpe learns from clean rows, and a bundle has only counts; give calibration.scores instead",
            )


_MODELS: dict[str, type[BaseModel]] = {
    "stream": StreamSpec,
    "shift": SegmentSpec,
    "detector": DetectorSpec,
    "accuracy": AccuracySpec,
    "calibration": CalibrationSpec,
    "risk": RiskSpec,
    "alarm": AlarmSpec,
}


def _around(place: tuple[str | int, ...]) -> type[BaseModel]:
    around = [p for p in place[:-1] if isinstance(p, str)]
    return _MODELS.get(around[-1], Simulation) if around else Simulation


def _siblings(place: tuple[str | int, ...]) -> list[str]:
    """The keys that would be right where an unknown one stands."""
    return list(_around(place).model_fields)


def _meaning(place: tuple[str | int, ...]) -> str:
    """What belongs there."""
    field = _around(place).model_fields.get(str(place[-1]))
    return (field.description or "") if field is not None else ""
