"""A finished run at work: the subject and its fitted supervisors answer live inputs as in the run.

One forward pass feeds all supervisors; the scores of a test case are those in the table of cases.

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
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.analysis.classification import confidences
from roadworthy.assessment.in_memory import IN_MEMORY
from roadworthy.assessment.observations import class_scores
from roadworthy.assessment.run_folder import display
from roadworthy.assessment.sections.monitor import MonitorRecord
from roadworthy.assessment.sections.supervision import SupervisionRecord
from roadworthy.assessment.supervisors import (
    folder_name,
    named_supervisors,
    requests_of,
    stacked,
    with_scores,
)
from roadworthy.data.values import CLASS_SCORES, VECTOR, as_array
from roadworthy.execution.plan import Supervision, load_subject
from roadworthy.measures.classification import predicted
from roadworthy.spec import Assessment
from roadworthy.store.record import Record
from roadworthy.subject.identity import LISTING, SubjectEvidence, state_of_file
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
    text. If the run had only predictions, it is a row of class scores (or of numbers). Of the
    `supervisors` all score by default. `base` is the folder of the assessment file, if the run was
    moved. If a file of the subject has changed, it is refused, or warned of if `check` is false.
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
        part: SupervisionRecord = self.record.sections.get("supervision") or SupervisionRecord()
        monitor: MonitorRecord = self.record.sections.get("monitor") or MonitorRecord()
        self.thresholds = {s.name: s.threshold for s in part.supervisors if s.threshold}
        self._supervisions = list(self._chosen(part, supervisors))
        self._requests = requests_of(self._supervisions)
        self._monitored = tuple(monitor.supervisors)

    @property
    def supervisors(self) -> list[str]:
        """Those that score, in the order of the assessment file."""
        return [s.label for s in self._supervisions]

    def __call__(self, x: Any, *, id: str | None = None) -> SupervisedAnswer:
        """The answer to one input; without an `id` it gets one that no other has."""
        return self.batch([x], ids=None if id is None else [id])[0]

    def batch(self, xs: Any, *, ids: Sequence[str] | None = None) -> list[SupervisedAnswer]:
        """The answers to many inputs: an array with a leading axis, or a list."""
        inputs = np.asarray(xs, dtype=np.float64) if self._only_rows else _column(xs)
        names = [uuid.uuid4().hex for _ in inputs] if ids is None else [str(i) for i in ids]
        if not len(names) == len(set(names)) == len(inputs):
            raise ValueError(
                f"{len(inputs)} inputs need as many ids, all different; found {names}."
            )
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
                given = [x if ok else None for x, ok in zip(inputs, system.ok, strict=True)]
                rows = replace(rows, columns={**rows.columns, Input().column: stacked(given)})
            scores = np.asarray(s.supervisor.score(rows), dtype=np.float64)
            how = getattr(s.supervisor, "reduce", "max")
            found[s.label] = reduce_steps(rows, scores, system.case, how)
        return {label: found[label] for label in self.supervisors}

    def _answers(
        self, system: ModuleTrace, scores: Mapping[str, np.ndarray]
    ) -> Iterator[SupervisedAnswer]:
        values, classes, sure = list(system.output), None, np.full(len(system), np.nan)
        if system.kind is CLASS_SCORES:
            given = class_scores([system])
            classes = predicted(given)
            sure = confidences(given, classes)
            values = display(classes, self.record.subject.classes or None)
        elif system.kind is VECTOR:
            values = [float(v[0]) if np.shape(v) == (1,) else v for v in values]
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

    def _rows_as_answers(self) -> System:
        kind = self._spec.task.output
        if not kind.dense:
            raise SubjectError(f"A file of {kind.name} has no rows of numbers to score live.")
        module = function_module(lambda rows: rows, outputs={"output": kind}, batched=True)
        return single(module, VECTOR)

    def _loaded(self, check: bool) -> System:
        """The subject, if it is the one of the run."""
        spec, then = self._spec, self.record.subject
        if IN_MEMORY in spec.subject.values():
            raise SubjectError("The subject of this run was in memory. Assess a file of it.")
        listed = {f.path: os.sep * f.sha256.startswith(LISTING) for f in then.files}
        now = {path: state_of_file(f"{spec.base / path}{end}") for path, end in listed.items()}
        changed = [f.path for f in then.files if now[f.path] != f.sha256]
        _differs(changed, spec.base, check)
        system = load_subject(spec, SubjectEvidence())
        known = {m.name: m.fingerprint for m in then.modules}
        others = [f"module {n}" for n, m in system.modules.items() if m.fingerprint != known.get(n)]
        _differs([] if changed else others, spec.base, check)
        return system

    def _chosen(
        self, part: SupervisionRecord, wanted: Sequence[str] | None
    ) -> Iterator[Supervision]:
        """The fitted supervisors, in the order of the file; one that combines has its members."""
        known = {s.name: s for s in part.supervisors if s.applicable}
        for label in set(wanted or ()) - set(known):
            raise ValueError(f"The run has no supervisor {label!r}. It has: {', '.join(known)}.")
        needed = set(known if wanted is None else wanted)
        needed |= {member for label in needed for member in known[label].members}
        for s in named_supervisors(self._spec, self.system):
            if s.label not in needed:
                continue
            if s.reads_inputs and (self._only_rows or self.system.stepwise):
                raise SubjectError(
                    f"{s.label} reads inputs, and here these are rows of numbers or have steps. "
                    "Name the others: Supervised(run, supervisors=[…])."
                )
            if s.supervisor.fitted:
                s.supervisor.load(self.record.folder / "supervisors" / folder_name(s.label))
            yield replace(s, members=tuple(known[s.label].members))


def _column(xs: Any) -> Any:
    """Inputs as the data set of a run has them: one array if they are alike, else a list."""
    items = [as_array(x) for x in xs]
    # Of one type only: stacked with floats, bytes would be read as floats, 255 times too bright.
    alike = {(x.shape, x.dtype) if isinstance(x, np.ndarray) else id(x) for x in items}
    return np.stack(items) if len(alike) == 1 and isinstance(items[0], np.ndarray) else items


def _differs(changed: Sequence[str], base: Path, check: bool) -> None:
    """Refuse a subject that is not the one of the run, or warn."""
    if not changed:
        return
    what = f"{changed[0]} in {base} has changed since the run, or is missing"
    if check:
        raise SubjectError(f"{what}. Assess again, set base=… if it was moved, or check=False.")
    warnings.warn(f"{what}. Scores and thresholds may not fit.", stacklevel=4)
