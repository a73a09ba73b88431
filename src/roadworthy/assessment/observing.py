"""From kept chunks to what was observed: outputs scored by the measure, supervisors' scores, and the table of cases.

Supervisors that read scores are fitted on the way: on half of the calibration samples, and the other half is left to choose
their thresholds on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.assessment.supervising import AtWork, halves
from roadworthy.cases.circumstance import Circumstance, Condition
from roadworthy.data.samples import Dataset
from roadworthy.data.values import CLASS_SCORES, LABEL, Boxes, Episode, Tracks
from roadworthy.execution.plan import Plan
from roadworthy.execution.progress import Progress
from roadworthy.measures.failure import failures
from roadworthy.measures.scored import Scored
from roadworthy.store import ChunkCache
from roadworthy.subject.trace import SYSTEM, ModuleTrace, concatenate


@dataclass(frozen=True)
class Seen:
    """One condition: what was observed, and the system's rows under it."""

    condition: Condition
    observed: Observed
    system: ModuleTrace


@dataclass(frozen=True)
class Observations:
    """All that was observed: tables by condition, for the sections to analyse."""

    seen: Sequence[Seen]
    """The test cases, clean first, then every circumstance at every level."""
    supervisors: AtWork
    calibration: Sequence[Seen] = ()
    """The calibration cases, clean first."""
    left: Mapping[str, np.ndarray] = field(default_factory=dict)
    """For supervisors that some calibration samples fitted: the samples that are left to choose on."""
    notes: Sequence[str] = ()
    """How those that read scores were fitted."""
    clean: Observed = field(init=False)
    others: Sequence[Observed] = field(init=False)
    """All conditions but the clean one, filters included, in the order of the file."""
    references: Sequence[Observed] = field(init=False)
    """What each of the others is compared with: the clean cases, or for a filter the rest of them."""
    earlier: Path | None = None
    """The folder of this same run, if it was run before; None if everything is computed again."""

    def __post_init__(self) -> None:
        plan, clean = self.supervisors.plan, self.seen[0].observed
        pairs = [(s.observed, clean) for s in self.seen[1:]] + filtered(plan, clean)
        order = {c.name: i for i, c in enumerate(plan.circumstances)}
        pairs.sort(key=lambda pair: order[pair[0].circumstance])
        object.__setattr__(self, "clean", clean)
        object.__setattr__(self, "others", [o for o, _ in pairs])
        object.__setattr__(self, "references", [r for _, r in pairs])

    @property
    def calibrating(self) -> list[Observed]:
        """The calibration cases by condition, clean first."""
        return [s.observed for s in self.calibration]


def observe_all(
    plan: Plan, cache: ChunkCache, show: Progress, *, fresh: bool = False, earlier: Path | None
) -> Observations:
    """Fit the supervisors and score every condition of the plan."""
    at_work = AtWork(plan, cache)
    at_work.fit(fresh=fresh)
    calibration = []
    for condition in plan.calibrating:
        calibration.append(observe(plan, cache, condition, at_work))
        show.advance(1)
    left, notes = _fit_second(plan, at_work, calibration)
    notes += _alone(at_work)
    calibration = [
        with_scores(s, at_work.score_second(s.system, s.observed.scores), at_work.labels)
        for s in calibration
    ]
    seen = []
    for condition in plan.conditions:
        if condition.role not in ("reference", "calibration"):
            one = observe(plan, cache, condition, at_work)
            scores = at_work.score_second(one.system, one.observed.scores)
            seen.append(with_scores(one, scores, at_work.labels))
            show.advance(1)
    # One that gave up along the way has scores for some conditions only: it is left out of all.
    seen, calibration = (
        [with_scores(s, {}, at_work.labels) for s in some] for some in (seen, calibration)
    )
    return Observations(seen, at_work, calibration, left, notes, earlier=None if fresh else earlier)


def observe(
    plan: Plan, cache: ChunkCache, condition: Condition, supervisors: AtWork | None = None
) -> Seen:
    """Score one condition's cases: the answers by the measure, and by every supervisor that reads traces."""
    data, at_work = plan.data[condition.role], supervisors or AtWork(plan, cache)
    parts: list[ModuleTrace] = []
    scores: dict[str, list[np.ndarray]] = {}
    for chunk, trace in at_work.chunks(condition):
        parts.append(trace[SYSTEM])
        for label, column in at_work.score_chunk(chunk, trace).items():
            scores.setdefault(label, []).append(column)
    system = concatenate(parts)
    scored, failed = _scored(plan, condition, _with_none(system))
    observed = Observed(
        condition.circumstance,
        condition.level,
        data.ids,
        data.groups,
        scored,
        failed,
        ~system.ok,
        {label: np.concatenate(scores[label]) for label in at_work.labels if label in scores},
        {c: slice_labels(data.column(c)) for c in plan.spec.slices if data.has_column(c)},
        _significance(plan, condition.circumstance),
        role=condition.role,
        predicted=_predicted(system),
    )
    return Seen(condition, observed, system)


def with_scores(seen: Seen, scores: Mapping[str, np.ndarray], labels: Sequence[str]) -> Seen:
    """The same with more scores, in the order of the labels, and without those of supervisors that are not among them."""
    known = {**seen.observed.scores, **scores}
    kept = {label: known[label] for label in labels if label in known}
    return replace(seen, observed=replace(seen.observed, scores=kept))


def _predicted(system: ModuleTrace) -> np.ndarray | None:
    """The class that was answered, -1 where there is none; None where answers are no classes."""
    if system.kind is not CLASS_SCORES:
        return None
    output = np.asarray(system.output, dtype=np.float64).reshape(len(system), -1)
    sound = (
        system.ok & np.isfinite(output).all(axis=1)
        if output.shape[1]
        else np.zeros(len(system), bool)
    )
    predicted = np.full(len(system), -1, dtype=np.int64)
    # Where nobody answered, an answer has no width, and there is no largest of nothing.
    if sound.any():
        predicted[sound] = output[sound].argmax(axis=1)
    return predicted


def _scored(plan: Plan, condition: Condition, outputs: Any) -> tuple[Scored, np.ndarray]:
    """The measure, and which cases fail; truth that does not go with the outputs is an error in the file's data."""
    data, circumstance = plan.data[condition.role], condition.role.removeprefix("circumstance:")
    assert data.targets is not None
    criterion = plan.spec.failure or {"wrong": True}
    try:
        scored = plan.measure(outputs, data.targets)
        failed = failures(
            scored, outputs, data.targets, criterion, classes=data.classes, metadata=data.metadata
        )
    except ValueError as error:
        own = condition.role != circumstance
        place = ("circumstances", circumstance, "data") if own else ("data", condition.role)
        raise plan.spec.error(place, str(error)) from error
    return scored, failed


def filtered(plan: Plan, clean: Observed) -> list[tuple[Observed, Observed]]:
    """For each metadata filter: the cases that meet it, and the rest; none where data of another role lacks its columns."""
    found, data = [], plan.data[clean.role]
    for c in plan.circumstances:
        if c.where is not None and all(data.has_column(column) for column in c.where):
            keep = data.where(c.where)
            inside = clean.take(keep)
            inside = replace(
                inside, circumstance=c.name, significance=c.significance, versus="rest"
            )
            found.append((inside, clean.take(~keep)))
    return found


def case_table(plan: Plan, seen: Sequence[Seen]) -> dict[str, Any]:
    """One row a case, for the report, for comparisons and for people's own analyses."""
    columns: dict[str, list[Any]] = {}
    for s in seen:
        for name, column in _case_columns(plan, s).items():
            columns.setdefault(name, []).append(column)
    return {name: _arrow(parts) for name, parts in columns.items()}


def display(
    items: Any,
    kind_of: Dataset | None,
    classes: Sequence[str] | None,
    rows: Sequence[int] | None = None,
) -> list[str]:
    """Outputs or targets as short texts."""
    chosen = items if rows is None else [items[i] for i in rows]
    if isinstance(items, np.ndarray) and items.dtype.kind in "iu" and items.ndim == 1:
        return _names(np.asarray(chosen, dtype=np.int64), classes)
    if (
        isinstance(items, np.ndarray)
        and items.ndim == 2
        and classes is not None
        and items.shape[1] == len(classes)
    ):
        scores = np.asarray(chosen)
        sound = np.isfinite(scores).all(axis=1)
        best = np.where(sound, np.where(sound[:, None], scores, 0).argmax(axis=1), -1)
        return _names(best, classes)
    return [_short(item) for item in chosen]


def _case_columns(plan: Plan, seen: Seen) -> dict[str, Any]:
    observed, condition, system = seen.observed, seen.condition, seen.system
    data = plan.data[condition.role]
    n = len(observed)
    level = np.nan if condition.level is None else float(condition.level)
    scored = observed.scored
    empty = np.full(n, np.nan)
    columns: dict[str, Any] = {
        "case": system.case,
        "sample": data.ids,
        "group": np.full(n, "", dtype=object)
        if data.groups is None
        else data.groups.astype(str).astype(object),
        "role": np.full(n, condition.role, dtype=object),
        "circumstance": np.full(n, condition.circumstance, dtype=object),
        "level": np.full(n, level),
        "status": np.where(system.ok, "ok", "failed").astype(object),
        "error_message": np.array(["" if e is None else e for e in system.error], dtype=object),
        "error": scored.error.astype(np.float64),
        "failure": observed.failure.astype(bool),
        "numerator": empty
        if scored.numerator is None
        else np.asarray(scored.numerator, dtype=np.float64),
        "denominator": empty
        if scored.denominator is None
        else np.asarray(scored.denominator, dtype=np.float64),
        "truth": np.array(display(data.targets, data, data.classes), dtype=object),
        "prediction": np.array(display(system.output, data, data.classes), dtype=object),
        "seconds": system.seconds.astype(np.float32),
    }
    if plan.spec.media == "none" and data.target_kind is not LABEL:
        # Transcripts, goals and boxes say what the inputs were; class names do not.
        columns["truth"] = columns["prediction"] = np.full(n, "", dtype=object)
    for name, scores in observed.scores.items():
        columns[f"score.{name}"] = scores
    for column in plan.spec.slices:
        values = observed.slices.get(column, np.full(n, "", dtype=object))
        columns[f"slice.{column}"] = np.asarray(values).astype(str).astype(object)
    return columns


def _arrow(parts: Sequence[np.ndarray]) -> Any:
    import pyarrow as pa

    joined = np.concatenate(parts)
    return pa.array(joined.tolist(), pa.string()) if joined.dtype == object else pa.array(joined)


def _with_none(system: ModuleTrace) -> Any:
    """Outputs with "no answer" where a row failed."""
    ok = system.ok
    if isinstance(system.output, np.ndarray):
        if ok.all():
            return system.output
        outputs = np.array(system.output)
        outputs[~ok] = np.nan
        return outputs
    return [o if sound else None for o, sound in zip(system.output, ok, strict=True)]


def slice_labels(column: np.ndarray) -> np.ndarray:
    """A slice column as labels: 61 for 61.0, and "missing" where there is no value."""
    return np.array([slice_label(v) for v in np.asarray(column).tolist()], dtype=object)


def slice_label(content: Any) -> str:
    """One value of a slice column, as the file, the findings and the claims write it."""
    if content is None or content == "" or content != content:
        return "missing"
    return (
        str(int(content)) if isinstance(content, float) and content.is_integer() else str(content)
    )


def _significance(plan: Plan, name: str) -> int | None:
    by_name: Mapping[str, Circumstance] = {c.name: c for c in plan.circumstances}
    return by_name[name].significance if name in by_name else None


def _names(labels: np.ndarray, classes: Sequence[str] | None) -> list[str]:
    if classes is None:
        return [str(i) if i >= 0 else "no answer" for i in labels]
    names = [*classes, "no answer"]
    return [names[i] if 0 <= i < len(classes) else names[-1] for i in labels]


def _short(item: Any) -> str:
    if item is None:
        return "no answer"
    if isinstance(item, Boxes):
        return f"{len(item)} boxes"
    if isinstance(item, Tracks):
        return f"{len(set(item.ids.tolist()))} tracks, {len(item)} boxes"
    if isinstance(item, Episode):
        return f"{len(item.turns)} turns; " + ", ".join(
            f"{k}: {v}" for k, v in item.outcome.items()
        )
    if isinstance(item, Mapping):
        return ", ".join(f"{k}: {v}" for k, v in item.items())
    if isinstance(item, np.ndarray):
        return np.array2string(item, precision=4, threshold=6, separator=", ")
    return str(item)


def _alone(at_work: AtWork) -> list[str]:
    """Who combines one supervisor only, which then says the same by itself."""
    members = {s.label: at_work.members_of(s) for s in at_work.second}
    return [
        f"supervisor {label} has only one member, {of[0]}, and knows no more than it; it is not recommended"
        for label, of in members.items()
        if len(of) == 1
    ]


def _fit_second(
    plan: Plan, at_work: AtWork, seen: Sequence[Seen]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Fit those that read scores: on half of the calibration samples, else on the reference cases."""
    if not at_work.second:
        return {}, []
    if not seen:
        return {}, _fit_on_reference(plan, at_work)
    first = halves(seen[0].observed.clusters, plan.spec.seed)
    rows, notes = {}, []
    for s in list(at_work.second):
        if first.all() or not first.any():
            own = "group" if seen[0].observed.groups is not None else "sample"
            at_work.failed[s.label] = (
                f"one half of the calibration {own}s fits it and the other chooses its threshold, and there is only one {own}; "
                "give more under data: calibration"
            )
            continue
        chosen = seen if getattr(s.supervisor, "contrasts", False) else seen[:1]
        system = concatenate([_some(c.system, first) for c in chosen])
        labels = [m for m in s.members if all(m in c.observed.scores for c in chosen)]
        scores = {m: np.concatenate([c.observed.scores[m][first] for c in chosen]) for m in labels}
        shifted = np.repeat([bool(c.condition.circumstance) for c in chosen], int(first.sum()))
        at_work.fit_second(s, system, scores, shifted)
        if s.label in at_work.failed:
            continue
        rows[s.label] = ~first
        notes.append(
            f"supervisor {s.label} was fitted on {int(first.sum())} of the {len(first)} calibration samples, and its threshold "
            "was chosen on the others"
        )
    return rows, notes


def _fit_on_reference(plan: Plan, at_work: AtWork) -> list[str]:
    seen = observe(plan, at_work.cache, Condition(role="reference"), at_work)
    notes = []
    for s in list(at_work.second):
        at_work.fit_second(
            s, seen.system, seen.observed.scores, np.zeros(len(seen.observed), dtype=bool)
        )
        if s.label in at_work.failed:
            continue
        notes.append(
            f"supervisor {s.label} compares with the reference cases, which also fitted its members, so clean cases look riskier "
            "to it than they are; add calibration under data"
        )
    return notes


def _some(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    at = np.flatnonzero(rows)
    output = (
        trace.output[at] if isinstance(trace.output, np.ndarray) else [trace.output[i] for i in at]
    )
    columns = {name: column[at] for name, column in trace.columns.items()}
    return replace(
        trace,
        case=trace.case[at],
        step=trace.step[at],
        error=trace.error[at],
        seconds=trace.seconds[at],
        output=output,
        columns=columns,
    )
