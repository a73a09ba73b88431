"""The file that `roadworthy simulate` reads: a stream whose truth is known, what was calibrated,
and the estimators to compare.

>>> text = '''
... stream:
...   detector: {tpr: 0.9, tnr: 0.8}
...   shift: [{constant: 0.0, events: 2000}, {constant: 0.3, events: 2000}]
... '''
>>> simulation = Simulation.parse(text, "step.yaml")
>>> simulation.experiment.events, simulation.window, simulation.estimators[0]
(4000, 100, 'event_tree')
>>> Simulation.parse(text.replace("tpr: 0.9", "trp: 0.9"), "step.yaml")
Traceback (most recent call last):
roadworthy.spec.document.SpecError: step.yaml:3: stream.detector.trp: this key is not known \
(did you mean 'tpr'?)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from roadworthy import registry
from roadworthy.analysis.risk.prototypes import cost_tree
from roadworthy.analysis.risk.tree import Tree, refuse_out_of_reach
from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND
from roadworthy.analysis.simulation.experiment import (
    USUAL,
    Experiment,
    Source,
    detector_source,
    table_source,
)
from roadworthy.analysis.simulation.streams import (
    Detector,
    Pool,
    Schedule,
    Segment,
    detector_grid,
)
from roadworthy.data.samples import DataError
from roadworthy.data.scores import checked_kinds, open_scores, read_scores
from roadworthy.spec.document import Document, SpecError
from roadworthy.spec.mistakes import first_error

Probability = Annotated[float, Field(ge=0, le=1)]
Listed = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class AccuracySpec(_Strict):
    """P(right) of the classifier behind a synthetic detector."""

    clean: Probability = 0.95
    shifted: Probability = 0.6


class DetectorSpec(_Strict):
    """A synthetic detector (`tpr` and `tnr`), or a grid of them."""

    tpr: Probability | None = None
    tnr: Probability | None = None
    grid: Annotated[int, Field(ge=2, le=20)] | None = None
    accuracy: AccuracySpec = AccuracySpec()

    @model_validator(mode="after")
    def _one_or_grid(self) -> DetectorSpec:
        one, given = (self.tpr, self.tnr), self.grid is not None
        if (None in one) != given or (given and one != (None, None)):
            raise ValueError("give tpr and tnr, or grid")
        return self

    def detectors(self) -> list[Detector]:
        """The detectors, with TPR + TNR > 1 if they make a grid."""
        one = (self.tpr or 0.0, self.tnr or 0.0)
        rates = (one,) if self.grid is None else detector_grid(self.grid)
        return [Detector(*r, self.accuracy.clean, self.accuracy.shifted) for r in rates]


class StreamSpec(_Strict):
    """The events: rows of a labelled score table, or a synthetic detector's verdicts."""

    scores: str | None = None
    truth: str | None = None
    detector: DetectorSpec | None = None
    kinds: list[str] | None = None
    shift: Annotated[list[Segment], Listed]
    events: Annotated[int, Field(ge=1)] | None = None
    batches: Annotated[list[Annotated[int, Field(ge=1)]], Listed] = [1]
    runs: Annotated[float, Field(ge=1)] = 1.0
    order: Annotated[float, Field(ge=0, lt=1)] = 0.0
    by: str | None = None

    @model_validator(mode="after")
    def _source_and_length(self) -> StreamSpec:
        if (self.scores is None) == (self.detector is None):
            raise ValueError("needs exactly one of scores (a table) and detector (a synthetic one)")
        length = self.schedule.events
        if self.events is None and length is None:
            raise ValueError("needs events: the last segment of shift has none")
        if self.events is not None and length is not None and self.events > length:
            raise ValueError(f"events is {self.events}, but the segments of shift have {length}")
        return self

    @property
    def schedule(self) -> Schedule:
        """The segments of shift, one after the other."""
        return Schedule(tuple(self.shift))


class CalibrationSpec(_Strict):
    """What was known before the stream: a table, or verdicts of the synthetic detector."""

    scores: str | None = None
    without: list[str] = []
    clean: Annotated[int, Field(ge=10)] = 1000
    shifted: Annotated[int, Field(ge=10)] = 1000


class CostSpec(_Strict):
    """What cases cost, and the expected cost above which an alarm is due."""

    tree: dict[str, Any] | None = None
    costs: dict[str, float] | None = None
    unit: str | None = None
    constants: dict[str, float] = {}
    tolerable: float | None = None

    @model_validator(mode="after")
    def _tree_is_right(self) -> CostSpec:
        if self.tree is not None and self.costs is not None:
            raise ValueError("give tree or costs, not both")
        tree = self.event_tree()
        if self.tolerable is not None:
            refuse_out_of_reach(tree, self.tolerable)
        return self

    def event_tree(self) -> Tree:
        """The tree: as given, or that of the costs."""
        plain = self.costs is None and self.tree is None
        unit = self.unit or ("wrong answers per case" if plain else "cost per case")
        if self.tree is not None:
            return Tree.from_dict(self.tree, unit=None if "unit" in self.tree else unit)
        return cost_tree(self.costs or {}, unit=unit)


class AlarmSpec(_Strict):
    """How many false alarms are accepted, and how fast the stream is."""

    false_alarms: str = "1 per month"
    events_per_day: Annotated[float, Field(gt=0)] = 10_000.0


class Simulation(_Strict):
    """The whole file."""

    name: str = ""
    stream: StreamSpec
    calibration: CalibrationSpec = CalibrationSpec()
    risk: CostSpec = Field(default_factory=lambda: CostSpec())
    alarm: AlarmSpec = AlarmSpec()
    estimators: Annotated[list[str], Field(min_length=1)] = list(USUAL)
    confidence_from: str = "max_softmax"
    window: Annotated[int, Field(ge=2)] = 100
    batch: Annotated[int, Field(ge=2)] | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    repeats: Annotated[int, Field(ge=1)] = 1
    seed: int = 0

    _document: Document = PrivateAttr()

    @classmethod
    def read(cls, path: Path) -> Simulation:
        """Read and check a file."""
        if not path.is_file():
            raise SpecError(f"{path}: no such file; examples/runtime has simulation files")
        return cls._from(Document.read(path))

    @classmethod
    def parse(cls, text: str, path: str | Path) -> Simulation:
        """Check a text as if it stood in a file of that name."""
        return cls._from(Document.parse(text, path))

    @classmethod
    def _from(cls, document: Document) -> Simulation:
        if not isinstance(document.content, Mapping) or "stream" not in document.content:
            message = "this is no simulation file: it has no stream; see examples/runtime"
            raise document.error((), message)
        try:
            spec = cls.model_validate(document.content)
        except ValidationError as error:
            raise first_error(document, error, _siblings) from error
        spec._document = document
        spec._check_together()
        return spec

    @property
    def title(self) -> str:
        """Its name, or that of the file."""
        return self.name or self._document.path.stem

    def error(self, place: tuple[str | int, ...], message: str) -> SpecError:
        """An error that names this file, the line and the field."""
        return self._document.error(place, message)

    @cached_property
    def experiment(self) -> Experiment:
        """What to draw, and how to estimate."""
        stream = self.stream
        own = ("confidence_from", "window", "batch", "confidence", "repeats", "seed")
        return Experiment(
            stream.schedule,
            stream.events or stream.schedule.events or 0,
            self.risk.event_tree(),
            constants=self.risk.constants,
            tolerable=self.risk.tolerable,
            kinds=None if stream.kinds is None else tuple(stream.kinds),
            batches=tuple(stream.batches),
            estimators=tuple(self.estimators),
            **{name: getattr(stream, name) for name in ("runs", "order", "by")},
            **{name: getattr(self, name) for name in own},
        )

    @property
    def detectors(self) -> list[Detector]:
        """Those of a synthetic stream."""
        return [] if self.stream.detector is None else self.stream.detector.detectors()

    def sources(self) -> Iterator[Source]:
        """The table, or every detector."""
        known, stream = self.calibration, self.stream
        rows = {"clean": known.clean, "shifted": known.shifted}
        for number, detector in enumerate(self.detectors):
            yield detector_source(detector, self.experiment, number=number, **rows)
        if stream.scores is None:
            return
        pool, groups = self._pool(("stream", "scores"), stream.scores, stream.truth)
        learned = None
        if known.scores is not None:
            learned, groups = self._pool(("calibration", "scores"), known.scores)
        without = tuple(known.without)
        yield table_source(pool, self.experiment, learned=learned, groups=groups, without=without)

    def _pool(
        self, place: tuple[str, ...], name: str, truth: str | None = None
    ) -> tuple[Pool, np.ndarray | None]:
        """The rows of a table that have an outcome, and the group of each if there are groups."""
        base = self._document.path.resolve().parent
        try:
            table = read_scores(base / name)
            if truth is not None:
                place = ("stream", "truth")
                needs = ("id", "kind", "correct")
                known = open_scores(
                    base / truth, columns=[], needs=needs, skips=("group", "time")
                ).whole()
                if table.id is None or known.id is None:
                    raise DataError(f"rows are matched by id, and {name} has no column id")
                row = {key: at for at, key in enumerate(known.id.tolist()) if key}
                at = [row.get(key, -1) for key in table.id.tolist()]
                if -1 in at:
                    raise DataError(f"has no row with the id {table.id[at.index(-1)]!r}")
                found = known.take(np.array(at))
                table = checked_kinds(
                    replace(table, kind=found.kind, correct=found.correct, labelled=found.labelled)
                )
        except DataError as error:
            raise self.error(place, str(error)) from error
        some = np.ones(table.n, dtype=bool) if table.labelled is None else table.labelled
        if table.kind is None or table.correct is None or not some.any():
            message = f"{name} needs the columns kind and correct, or another table named as truth"
            raise self.error(place, message)
        pool = Pool(table.columns, table.kind.astype(str), table.correct.astype(bool)).taken(some)
        return pool, None if table.group is None else table.group[some]

    def _check_together(self) -> None:
        """What is right by itself and wrong beside something else."""
        synthetic, known = self.stream.detector is not None, registry.components("estimators")
        if self.window > self.experiment.events:
            message = f"{self.window:,} is more than the {self.experiment.events:,} events"
            raise self.error(("window",), message)
        if "alarm" in self.model_fields_set and self.risk.tolerable is None:
            raise self.error(("alarm",), "an alarm needs a limit; add risk: {tolerable: …}")
        keys = {"clean", "shifted"} if synthetic else {"scores", "without"}
        for key in sorted(self.calibration.model_fields_set - keys):
            source = "a synthetic detector" if synthetic else "a table"
            message = f"does not apply to {source}; keys are {' and '.join(sorted(keys))}"
            raise self.error(("calibration", key), message)
        if synthetic and "cbpe" in self.estimators:
            message = "cbpe needs the confidence of every answer; a synthetic detector has none"
            raise self.error(("estimators",), message)
        if not synthetic and self.stream.scores == self.calibration.scores:
            message = "this is the stream's table; leave it out here, and the table is divided"
            raise self.error(("calibration", "scores"), message)
        for number, name in enumerate(self.estimators):
            if name not in (*OF_ANOTHER_KIND, *known):
                near = registry.did_you_mean(name, [*OF_ANOTHER_KIND, *known])
                message = f"unknown estimator {name!r}{near}; see `roadworthy list estimators`"
                raise self.error(("estimators", number), message)
        judging = [n for n in self.estimators if n in known and _reads_batches(known[n])]
        if bool(judging) != (self.batch is not None) or self.window % (self.batch or 1):
            whose = f" ({', '.join(judging)})" if judging else ""
            raise self.error(
                ("estimators",) if self.batch is None else ("batch",),
                f"estimators that judge batches{whose} go with a size, as in batch: 32, and a "
                f"window of whole batches; the window is {self.window}",
            )


def _reads_batches(component: registry.Component) -> bool:
    return component.traits.get("reads") == "batches"


def _siblings(place: tuple[str | int, ...]) -> list[str]:
    """The keys that would be right at the place of an unknown one."""
    model: Any = Simulation
    for part in place[:-1]:
        field = model.model_fields.get(str(part))
        # A list of segments, or an optional part: the model is among its arguments.
        found = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next((m for m in found if hasattr(m, "model_fields")), model)
    return list(model.model_fields)
