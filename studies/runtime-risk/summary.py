"""Sums up the records of study.py: errors and intervals by data set, errors by rate, as CSV; and the tables of the README.

    python studies/runtime-risk/summary.py

An entry is the mean over the windows of a fold (and over detectors, where each stands alone), then over the folds of a data set.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import readme
from study import CACHE, NONE, TABLES, TOGETHER, WHICH, Record

ALONE = "each alone"
FIGURES = ("coverage", "width", "refused")
OURS, KNOWING = "ours", ("knowing the nominal rate", "knowing the share in the window")
"""Those who know are told the truth that the others estimate."""


def read(path: Path) -> list[Record]:
    """The records of a run."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Record(*row[:7], *map(float, row[7:])) for row in rows]  # type: ignore[arg-type]


def reading(record: Record) -> str:
    """Which detectors it read: none, all together, or one."""
    return record.detectors if record.detectors in (NONE, TOGETHER) else ALONE


Key = Callable[[Record], tuple[str, ...]]


def means(
    records: Iterable[Record], field: str, key: Key
) -> dict[tuple[str, ...], dict[str, list[float]]]:
    """By key and data set, the mean of a field in each fold."""
    found: dict[tuple[str, ...], dict[str, dict[tuple[str, str], list[float]]]] = {}
    for r in records:
        folds = found.setdefault(key(r), {}).setdefault(r.data, {})
        folds.setdefault((r.calibrated, r.streamed), []).append(getattr(r, field))
    return {
        k: {d: [float(np.mean(v)) for v in folds.values()] for d, folds in sets.items()}
        for k, sets in found.items()
    }


def over(sets: dict[str, list[float]]) -> tuple[float, float, dict[str, float]]:
    """Mean over data sets, mean over all folds, and each data set."""
    each = {name: float(np.mean(v)) for name, v in sets.items()}
    return (
        float(np.mean(list(each.values()))),
        float(np.mean([v for folds in sets.values() for v in folds])),
        each,
    )


def errors(records: Sequence[Record]) -> list[list[str]]:
    """Kind, target, what was read, estimator, and the errors; the best first."""
    data = list(dict.fromkeys(r.data for r in records))
    found = means(records, "error", lambda r: (r.kind, r.target, reading(r), r.estimator))
    lines = sorted(found.items(), key=lambda kv: (kv[0][:2], over(kv[1])[0]))
    head = [
        "kind",
        "target",
        "detectors",
        "estimator",
        "mean over data sets",
        "mean over folds",
        *data,
    ]
    return [head, *([*k, *_flat(sets, data)] for k, sets in lines)]


def intervals(records: Sequence[Record]) -> list[list[str]]:
    """Coverage and width of nominal 95% intervals, of those who give any."""
    data = list(dict.fromkeys(r.data for r in records))
    some = [r for r in records if not np.isnan(r.coverage)]
    tables = [
        means(some, f, lambda r: (r.kind, r.target, reading(r), r.estimator)) for f in FIGURES
    ]
    head = [
        "kind",
        "target",
        "detectors",
        "estimator",
        "figure",
        "mean over data sets",
        "mean over folds",
        *data,
    ]
    lines = []
    for key in tables[0]:
        lines += [[*key, f, *_flat(t[key], data)] for f, t in zip(FIGURES, tables, strict=True)]
    return [head, *(line for line in lines if "nan" not in line)]


def by_rate(records: Sequence[Record]) -> list[list[str]]:
    """Errors of the accuracy at each nominal rate (figure 9)."""
    some = [r for r in records if r.target == "accuracy"]
    found = means(some, "error", lambda r: (r.kind, reading(r), r.estimator, f"{r.nominal:.1f}"))
    lines = [
        [d, *key, f"{np.mean(values):.4f}"]
        for key, sets in found.items()
        for d, values in sets.items()
    ]
    return [["data", "kind", "detectors", "estimator", "nominal", "error"], *sorted(lines)]


def pairs(records: Sequence[Record]) -> list[list[str]]:
    """Errors of ours, by the one kind that was calibrated and the kind that streamed."""
    some = [
        r
        for r in records
        if r.kind != "left out" and r.estimator == OURS and r.detectors == TOGETHER
    ]
    found = {
        target: means(
            [r for r in some if r.target == target], field, lambda r: (r.calibrated, r.streamed)
        )
        for target, field in (("accuracy", "error"), ("rate", "error"))
    }
    lines = [[*k, *(f"{over(found[t][k])[0]:.4f}" for t in found)] for k in found["accuracy"]]
    return [["calibrated", "streamed", "error", "rate error"], *lines]


def best(records: Sequence[Record]) -> list[list[str]]:
    """By data set and kind of trial, ours against whoever of the others errs least there, which nobody knows beforehand."""
    found = means(records, "error", lambda r: (r.target, r.kind, r.data, r.estimator))
    least: dict[tuple[str, ...], dict[str, float]] = {}
    for (target, kind, data, estimator), sets in found.items():
        if estimator not in KNOWING:
            least.setdefault((target, kind, data), {})[estimator] = over(sets)[0]
    lines = []
    for key, by in least.items():
        others = {name: error for name, error in by.items() if name != OURS}
        name = min(others, key=lambda n: others[n])
        lines.append([*key, f"{by[OURS]:.4f}", f"{others[name]:.4f}", name])
    return [["target", "kind", "data", "ours", "best of the others", "who"], *lines]


def _flat(sets: dict[str, list[float]], data: Sequence[str]) -> list[str]:
    """Means, then every data set in turn; empty where one has no such trial."""
    first, second, each = over(sets)
    return [f"{first:.4f}", f"{second:.4f}", *(f"{each[d]:.4f}" if d in each else "" for d in data)]


def write(name: str, lines: list[list[str]]) -> None:
    """A CSV in tables/."""
    with (TABLES / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def main() -> None:
    """The command."""
    for which in WHICH:
        path = CACHE / f"records-{which}.csv"
        if not path.exists():
            print(f"no {path.name}: run study.py first; its tables are left as they are")
            continue
        records = read(path)
        write(f"errors-{which}", errors(records))
        write(f"intervals-{which}", intervals(records))
        if which == "elsewhere":
            write("best-elsewhere", best(records))
        else:
            write(f"by-rate-{which}", by_rate(records))
        if which == "own":
            write("pairs-own", pairs(records))
    readme.main()


if __name__ == "__main__":
    main()
