"""A finished run at work: the subject and its fitted supervisors answer live inputs.

Everything is as in the run: the same preparation, one forward pass for all supervisors, the same
seed, the same thresholds. The scores of a test case are those in the run's table of cases.

>>> answer = SupervisedAnswer(
...     "case-1", 1772409600.0, "cat", 0.97, {"knn": 0.4, "fused": math.inf}, {"knn": False},
...     subject="pets-1", monitored=("knn",),
... )
>>> answer.event
{'id': 'case-1', 'time': 1772409600.0, 'subject': 'pets-1', 'scores': {'knn': 0.4}}
"""

from __future__ import annotations

import math
import os
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy import registry
from roadworthy.assessment.in_memory import IN_MEMORY
from roadworthy.assessment.observations import predicted_classes
from roadworthy.assessment.run_folder import confidences, display
from roadworthy.assessment.sections.monitor import MonitorRecord
from roadworthy.assessment.sections.supervision import SupervisionRecord
from roadworthy.assessment.supervisors import folder_name, requests_of, stacked, with_scores
from roadworthy.data.values import VECTOR, as_array
from roadworthy.execution.plan import Supervision, load_subject
from roadworthy.registry import did_you_mean
from roadworthy.spec import (
    Assessment,
    supervisor_label,
    supervisor_name,
    supervisor_parameters,
)
from roadworthy.store.record import Record
from roadworthy.subject.identity import ABSENT, LISTING, SubjectEvidence, state_of_file
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.needs import Input
from roadworthy.subject.system import Cases, System, single
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace
from roadworthy.supervisors.supervisor import reduce_steps

TICK = 1e-6
"""Seconds between the answers of one batch, so that a monitor keeps their order."""


@dataclass(frozen=True)
class SupervisedAnswer:
    """What a subject answered to one input, and what its supervisors say about it."""

    id: str
    time: float
    """Seconds since 1970."""
    prediction: Any
    """The class by its name, or the value; None if there is no answer."""
    confidence: float
    """The probability of the class; NaN if the answer is no class."""
    scores: Mapping[str, float]
    """By supervisor; higher is riskier, NaN if there is no score."""
    alarms: Mapping[str, bool]
    """By supervisor, whether the score is above the run's threshold; a missing score is an alarm.
    Empty if the run had no calibration data."""
    error: str | None = None
    """Why there is no answer."""
    subject: str = field(default="", repr=False)
    """The fingerprint of the run's subject: a monitor of another one refuses the answer."""
    monitored: tuple[str, ...] = field(default=(), repr=False)
    """The scores that the run's monitor reads."""

    @property
    def event(self) -> dict[str, Any]:
        """The JSON event that the monitor's service takes at `/v1/events`."""
        scores = {name: self.scores.get(name, math.nan) for name in self.monitored or self.scores}
        finite = {name: score if math.isfinite(score) else None for name, score in scores.items()}
        return {"id": self.id, "time": self.time, "subject": self.subject, "scores": finite}


class Supervised:
    """The subject of a run with its supervisors: ``answer = supervised(x)``.

    An input is what one row of the run's data was: an image as it is stored, a row of features, a
    text. If the run had only predictions, it is a row of class scores (or of numbers).
    `supervisors` names those to run, by default all. `base` is the folder of the assessment file, if
    the run was moved away from it. If a file of the subject has changed since the run, it is
    refused; with `check` false this is a warning.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        supervisors: Sequence[str] | None = None,
        base: str | os.PathLike[str] | None = None,
        check: bool = True,
    ) -> None:
        self.record = Record.read(Path(run))
        folder = self.record.folder / self.record.base if base is None else Path(base)
        self._spec = Assessment.parse(self.record.spec_text, folder.resolve() / "assessment.yaml")
        self._only_rows = self._spec.adapter == "predictions"
        self.system = self._rows_as_answers() if self._only_rows else self._loaded(check)
        part = self._section("supervision", SupervisionRecord)
        self.thresholds = {s.name: s.threshold for s in part.supervisors if s.threshold}
        self._supervisions = list(self._chosen(part, supervisors))
        self._requests = requests_of(self._supervisions)
        self._monitored = tuple(self._section("monitor", MonitorRecord).supervisors)
        self._names = (f"{uuid.uuid4().hex[:12]}-{n}" for n in count(1))

    @property
    def supervisors(self) -> list[str]:
        """Those that score, in the order of the assessment file."""
        return [s.label for s in self._supervisions]

    def __call__(self, x: Any, *, id: str | None = None) -> SupervisedAnswer:
        """The answer to one input; without an `id` it gets one that no other has."""
        return self.batch([x], ids=None if id is None else [id])[0]

    def batch(self, xs: Any, *, ids: Sequence[str] | None = None) -> list[SupervisedAnswer]:
        """The answers to many inputs: an array with a leading axis, or a list."""
        inputs = _column(xs, rows=self._only_rows)
        names = [next(self._names) for _ in inputs] if ids is None else list(map(str, ids))
        if len(set(names)) != len(inputs):
            found = f"{len(names)} ids, {len(set(names))} of them different"
            raise ValueError(f"{len(inputs)} inputs need as many different ids; found {found}.")
        if not names:
            return []
        trace = self.system.run(Cases(names, inputs, self.record.seed), self._requests)
        return list(self._answers(trace[SYSTEM], self._scores(trace, inputs)))

    def _scores(self, trace: Trace, inputs: Any) -> dict[str, np.ndarray]:
        """One number a case, by supervisor; those that read scores come last."""
        found: dict[str, np.ndarray] = {}
        system = trace[SYSTEM]
        for s in sorted(self._supervisions, key=lambda s: s.reads_scores):
            rows = with_scores(system, s.members, found) if s.reads_scores else trace[s.module]
            if s.reads_inputs:
                given = inputs if isinstance(inputs, np.ndarray) else stacked(inputs)
                rows = replace(rows, columns={**rows.columns, Input().column: given})
            scores = np.asarray(s.supervisor.score(rows), dtype=np.float64)
            how = getattr(s.supervisor, "reduce", "max")
            found[s.label] = reduce_steps(rows, scores, system.case, how)
        return {label: found[label] for label in self.supervisors}

    def _answers(
        self, system: ModuleTrace, scores: Mapping[str, np.ndarray]
    ) -> Iterator[SupervisedAnswer]:
        classes = predicted_classes(system)
        values: Sequence[Any] = list(map(_value, system.output))
        sure = np.full(len(system), np.nan)
        if classes is not None:
            values = display(classes, self.record.subject.classes or None)
            sure = confidences(system)
        raised = {
            label: self.thresholds[label].verdict(column, classes).tolist()
            for label, column in scores.items()
            if label in self.thresholds
        }
        columns, now = {label: column.tolist() for label, column in scores.items()}, time.time()
        for i, (case, error) in enumerate(zip(system.case, system.error, strict=True)):
            yield SupervisedAnswer(
                str(case),
                now + i * TICK,
                None if error is not None else values[i],
                float(sure[i]),
                {label: column[i] for label, column in columns.items()},
                {label: column[i] for label, column in raised.items()},
                error,
                self.record.subject.fingerprint,
                self._monitored,
            )

    def _section(self, name: str, model: type[Any]) -> Any:
        return self.record.sections.get(name) or model()

    def _rows_as_answers(self) -> System:
        kind = self._spec.task.output
        if not kind.dense:
            raise SubjectError(
                f"The subject of this run is a file of {kind.name}. Live, only rows of class scores or numbers are read."
            )
        module = function_module(lambda rows: rows, outputs={"output": kind}, batched=True)
        return single(module, VECTOR)

    def _loaded(self, check: bool) -> System:
        """The subject, if it is the one of the run."""
        spec = self._spec
        if IN_MEMORY in spec.subject.values():
            raise SubjectError(
                "The subject of this run was in memory. Assess a file of it, as in `python: model.py:predict`."
            )
        states = {f.path: (f.sha256, _state(spec.base, f)) for f in self.record.subject.files}
        changed = [path for path, (then, now) in states.items() if now != then]
        if changed and check:
            if states[changed[0]][1] == ABSENT:
                raise SubjectError(
                    f"There is no {changed[0]} in {spec.base}. If the run was moved, say where the "
                    "assessment file is: Supervised(run, base=…)."
                )
            raise SubjectError(_not_the_same(f"{changed[0]} has changed"))
        system = load_subject(spec, SubjectEvidence())
        known = {m.name: m.fingerprint for m in self.record.subject.modules}
        changed += [
            f"Module {name}"
            for name, module in system.modules.items()
            if module.fingerprint != known.get(name)
        ]
        if changed and check:
            raise SubjectError(_not_the_same(f"{changed[0]} has changed"))
        if changed:
            warnings.warn(
                f"Not the subject of the run: {', '.join(changed)} changed since. Scores and thresholds may not fit.",
                stacklevel=3,
            )
        return system

    def _chosen(
        self, part: SupervisionRecord, wanted: Sequence[str] | None
    ) -> Iterator[Supervision]:
        """The fitted supervisors, in the order of the file; members of one that combines them are with it."""
        known = {s.name: s for s in part.supervisors if s.applicable}
        for label in wanted or ():
            if label not in known:
                raise ValueError(
                    f"The run has no supervisor {label!r}{did_you_mean(label, known)}. It has: {', '.join(known)}."
                )
        needed = set(known if wanted is None else wanted)
        needed |= {member for label in needed for member in known[label].members}
        for entry in self._spec.supervisors:
            label = supervisor_label(entry, self._spec.supervisors)
            if label not in needed:
                continue
            name, parameters = supervisor_name(entry), supervisor_parameters(entry)
            parameters.pop("module", None)
            supervisor = registry.get("supervisors", name).bind(**parameters)
            s = Supervision(
                name,
                known[label].module,
                supervisor,
                parameters,
                "",
                label,
                (*known[label].members,),
            )
            if s.reads_inputs and (self._only_rows or self.system.stepwise):
                why = "only rows of numbers are given" if self._only_rows else "there are steps"
                raise SubjectError(
                    f"{label} reads the inputs, and {why} here. Name the others: Supervised(run, supervisors=[…])."
                )
            if supervisor.fitted:
                supervisor.load(self.record.folder / "supervisors" / folder_name(label))
            yield s


def _column(xs: Any, *, rows: bool) -> Any:
    """Inputs as the data set of a run has them: one array if they are alike, else a list."""
    if rows:
        return np.asarray(xs, dtype=np.float64)
    if isinstance(xs, np.ndarray) and xs.dtype != object:
        return xs
    items = [as_array(x) for x in xs]
    # Of one type only: stacked with floats, bytes would be read as floats, 255 times too bright.
    alike = {(x.shape, x.dtype) if isinstance(x, np.ndarray) else id(x) for x in items}
    return np.stack(items) if len(alike) == 1 and isinstance(items[0], np.ndarray) else items


def _value(output: Any) -> Any:
    """A single number out of its row; any other answer as it is."""
    return float(output[0]) if isinstance(output, np.ndarray) and output.shape == (1,) else output


def _state(base: Path, file: Any) -> str:
    listed = os.sep if file.sha256.startswith(LISTING) else ""
    return state_of_file(os.path.join(base, file.path) + listed)


def _not_the_same(what: str) -> str:
    return f"{what} since the run. Assess it again, or go on with Supervised(run, check=False)."
