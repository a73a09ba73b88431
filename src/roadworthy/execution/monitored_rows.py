"""Which rows of a run a monitor learns from, which it counts, and whose scores it reads.

Its models learn from the calibration cases, clean and under every circumstance; all levels of a circumstance are one kind. The test
cases, which chose nothing, are counted. A circumstance with data of its own has no calibration cases: half of its samples (whole
groups) is learned from, and the other half counted. What a filter picks out is a kind of its own and not among the clean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.calibration import CLEAN, FEW
from roadworthy.execution.failing import never_wrong
from roadworthy.execution.observing import Seen, filtered
from roadworthy.execution.plan import Plan
from roadworthy.execution.supervising import AtWork, halves
from roadworthy.monitor.compile import LabelledRows
from roadworthy.statistics.fusion import ranks
from roadworthy.statistics.ranking import auc

MOST = 8
"""Supervisors that a monitor reads: each must run beside the subject, and more tell little more."""
ALIKE = 0.98
"""Rank correlation from which on two supervisors say the same."""
LEAST = 20
"""Clean rows with scores, to learn from and to count."""

Part = tuple[str, Observed]


class Gathered(NamedTuple):
    """Rows to learn from, rows to count, and what must be said of them."""

    learned: LabelledRows
    counted: LabelledRows
    notes: tuple[str, ...]
    aside: tuple[str, ...] = ()
    """Scores that are read for their alarms alone."""


def gather(
    plan: Plan,
    at_work: AtWork,
    calibrating: Sequence[Seen],
    judged: Sequence[Seen],
    recommended: Mapping[str, Any] | None,
    *,
    alarms_of: str = "",
) -> Gathered:
    """The rows of a run, with the scores of the supervisor whose alarms call a person; ValueError with a sentence where they do not
    make a monitor."""
    _refuse(plan, at_work, calibrating)
    learned, counted = _halved(plan, _parts(plan, calibrating), _parts(plan, judged))
    combined = [s.label for s in at_work.second if s.label == alarms_of]
    every = [*(s.label for s in at_work.first), *combined]
    labels = [label for label in every if all(label in o.scores for _, o in (*learned, *counted))]
    tables, notes = [], []
    for rows in (_rows(learned, labels), _rows(counted, labels)):
        table, said = _finite(rows)
        tables.append(table)
        notes += said
    names = [
        n for n in labels if all(np.isfinite(t.columns[n][t.kind == CLEAN]).any() for t in tables)
    ]
    if not names:
        raise ValueError(
            "no supervisor has a score of a clean calibration case and of a clean test case"
        )
    aside = tuple(name for name in names if name in combined)
    chosen, why = _columns(
        [n for n in names if n not in aside], tables[0], at_work, recommended, alarms_of
    )
    chosen += aside
    tables = [_scored(t, chosen) for t in tables]
    tables, silent = _shared_kinds(plan, tables)
    for table, role in zip(tables, ("calibration", "test"), strict=True):
        notes += _few(table, role)
    return Gathered(
        tables[0], tables[1], (*_kinds_in_words(plan, tables[0]), *why, *silent, *notes), aside
    )


def _refuse(plan: Plan, at_work: AtWork, calibrating: Sequence[Seen]) -> None:
    """Say what is missing in the file."""
    if never_wrong(plan.spec):
        raise ValueError(
            "it would tell how often answers are wrong, and the file does not say when one is; add failure: {error: {above: …}}"
        )
    if not any(not s.reads_scores for s in plan.supervisions):
        raise ValueError(
            "a monitor reads the scores of supervisors; name some in the file, supervisors: [max_softmax]"
        )
    if not at_work.first:
        raise ValueError(
            "a monitor reads the scores of supervisors, and none of those in the file is applicable"
        )
    if "calibration" not in plan.data or not calibrating:
        raise ValueError(
            "a monitor learns from calibration cases; add calibration under data, with cases that are in no other role"
        )
    if not plan.circumstances:
        raise ValueError(
            "nothing says what shift looks like; name circumstances, transforms of the clean data where there is no other"
        )


def _parts(plan: Plan, seen: Sequence[Seen]) -> list[Part]:
    """Clean cases first, without those that a filter picks out, then every circumstance; a level that changes nothing is none."""
    clean = seen[0].observed
    picked = [inside for inside, _ in filtered(plan, clean)]
    own = {sample for o in picked for sample in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    shifted = [
        s.observed
        for s in seen[1:]
        if not (s.condition.transform and s.condition.transform.identity)
    ]
    return [(CLEAN, rest), *((o.circumstance, o) for o in (*shifted, *picked))]


def _halved(plan: Plan, learned: list[Part], counted: list[Part]) -> tuple[list[Part], list[Part]]:
    """With half of each circumstance's own data to learn from; nothing is learned from groups that are counted."""
    tested = {str(c) for _, o in counted if o.role == "test" for c in o.clusters}
    kept = []
    for kind, o in counted:
        if o.role != "test":
            first = halves(o.clusters, plan.spec.seed)
            learned = [*learned, (kind, o.take(first & ~_among(o, tested)))]
            o = o.take(~first)
        kept.append((kind, o))
    used = {str(c) for _, o in learned for c in o.clusters}
    return learned, [(kind, o.take(~_among(o, used))) for kind, o in kept]


def _among(o: Observed, clusters: set[str]) -> np.ndarray:
    return np.isin(o.clusters.astype(str), sorted(clusters))


def _rows(parts: Sequence[Part], labels: Sequence[str]) -> LabelledRows:
    return LabelledRows(
        {
            n: np.concatenate([np.asarray(o.scores[n], dtype=np.float64) for _, o in parts])
            for n in labels
        },
        np.concatenate([np.full(len(o), kind, dtype=object) for kind, o in parts]).astype(str),
        np.concatenate([~o.failure.astype(bool) for _, o in parts]),
        np.concatenate([o.clusters.astype(str) for _, o in parts]),
    )


def _finite(rows: LabelledRows) -> tuple[LabelledRows, list[str]]:
    """Infinite scores are taken for missing ones."""
    endless = {n: int(np.isinf(column).sum()) for n, column in rows.columns.items()}
    columns = {n: np.where(np.isinf(column), np.nan, column) for n, column in rows.columns.items()}
    return rows._replace(columns=columns), [
        f"{count:,} scores of {n} are infinite and count as missing"
        for n, count in endless.items()
        if count
    ]


def _scored(rows: LabelledRows, names: Sequence[str]) -> LabelledRows:
    """The rows that have a score, of these supervisors."""
    columns = {n: rows.columns[n] for n in names}
    scored = np.logical_or.reduce([~np.isnan(column) for column in columns.values()])
    return rows._replace(columns=columns).take(scored)


def _shared_kinds(
    plan: Plan, tables: Sequence[LabelledRows]
) -> tuple[list[LabelledRows], list[str]]:
    """Rows of kinds that can be learned and counted, and why others are not."""
    shared = set(tables[0].kind.tolist()) & set(tables[1].kind.tolist())
    notes = []
    for c in plan.circumstances:
        if c.name not in shared:
            notes.append(f"nothing is known of {c.name}: {_why_not(c.kind)}")
    for table, role in zip(tables, ("calibration", "test"), strict=True):
        n = int((table.kind == CLEAN).sum())
        if n < LEAST:
            raise ValueError(
                f"{n} clean {role} cases have a score, and a monitor needs {LEAST} at least; add some"
            )
    if not shared - {CLEAN}:
        raise ValueError("; ".join(notes))
    return [t.take(np.isin(t.kind, sorted(shared))) for t in tables], notes


def _why_not(kind: str) -> str:
    return {
        "transform": "none of its calibration cases, or none of its test cases, has a score",
        "filter": "no calibration case with a score meets its filter, or the calibration data lacks the columns",
        "dataset": "half of its data is learned from and half counted, and one of the halves has no scores; give it more groups, "
        "and others than those of the test data",
    }[kind]


def _few(rows: LabelledRows, role: str) -> list[str]:
    kinds, counts = np.unique(rows.kind, return_counts=True)
    few = [f"{k} ({n})" for k, n in zip(kinds.tolist(), counts.tolist(), strict=True) if n < FEW]
    return (
        [f"few {role} cases of {', '.join(few)}: below {FEW} of a kind little is known"]
        if few
        else []
    )


def _kinds_in_words(plan: Plan, rows: LabelledRows) -> list[str]:
    """Where the kinds of shift come from."""
    known = set(rows.kind.tolist())
    made = [c.name for c in plan.circumstances if c.name in known and c.kind == "transform"]
    if len(made) == len(known) - 1:
        return [
            "calibrated on synthetic augmentations only: every kind of shift was made from clean data by a transform"
        ]
    return [f"made from clean data by transforms: {', '.join(made)}"] if made else []


def _columns(
    names: Sequence[str],
    learned: LabelledRows,
    at_work: AtWork,
    recommended: Mapping[str, Any] | None,
    alarms_of: str = "",
) -> tuple[list[str], list[str]]:
    """Whose scores are read: everybody's, or where there are many the needed and recommended ones and those that tell shift best.

    Combinations of others are not: their alarms may be.
    """
    combined = [s.label for s in at_work.second if s.label != alarms_of]
    without = (
        [
            f"{', '.join(combined)} {'are' if len(combined) > 1 else 'is'} not read, being a combination of others"
        ]
        if combined
        else []
    )
    if len(names) <= MOST:
        return list(names), without
    members = {s.label: at_work.members_of(s) for s in at_work.second}
    wanted = [
        m
        for label in (recommended or {}).get("supervisors", ())
        for m in members.get(label, (label,))
    ]
    first = [n for n in dict.fromkeys(wanted) if n in names]
    needed = [n for n in names if n == alarms_of]
    chosen = list(dict.fromkeys([*needed, *first]))
    chosen = chosen if len(chosen) <= MOST else needed
    table = {n: ranks(learned.columns[n], learned.columns[n][learned.kind == CLEAN]) for n in names}
    telling = {n: _telling(learned.columns[n], learned.kind) for n in names}
    # Whoever says the same as another comes last, so that they are read only where nobody else is left.
    alike = []
    for n in sorted((n for n in names if n not in chosen), key=lambda n: -telling[n]):
        if len(chosen) == MOST:
            break
        if any(_correlation(table[n], table[other]) > ALIKE for other in chosen):
            alike.append(n)
        else:
            chosen = [*chosen, n]
    read = [*chosen, *alike][:MOST]
    by = f"{', '.join(first)} as recommended, then " if first and set(first) <= set(read) else ""
    by = f"{alarms_of} for its alarms, {by}" if needed else by
    return [n for n in names if n in read], [
        f"{MOST} of {len(names)} supervisors are read: {by}those that tell shifted calibration cases from clean ones best without "
        "repeating one another",
        *without,
    ]


def _telling(scores: np.ndarray, kinds: np.ndarray) -> float:
    """How well a score tells the kinds of shift from clean, on average: the AUC."""
    known = ~np.isnan(scores)
    clean = known & (kinds == CLEAN)
    found = []
    for kind in sorted(set(kinds[known].tolist()) - {CLEAN}):
        rows = clean | (known & (kinds == kind))
        found.append(auc(scores[rows], kinds[rows] == kind))
    return float(np.mean(found)) if found else 0.5


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    known = ~(np.isnan(a) | np.isnan(b))
    if known.sum() < 3 or np.ptp(a[known]) == 0 or np.ptp(b[known]) == 0:
        return 0.0
    return float(np.corrcoef(a[known], b[known])[0, 1])
