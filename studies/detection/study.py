"""The robustness studies: `python studies/detection/study.py road medical pedestrians`.

Makes the data, assesses each subject and writes tables/NAME.csv: every condition and metric with
distance, loss, interval, epsilon and verdict; and of the medical sections tables/gap.csv.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import roadworthy

HERE = Path(__file__).resolve().parent
COLUMNS = ("circumstance", "level", "measure", "source", "target", "loss", "low", "high",
           "distance", "epsilon", "weight", "outcome", "condition")  # fmt: skip


def write(name: str, columns: tuple[str, ...], rows: list[list[object]]) -> None:
    """One table; numbers with four digits."""
    folder = HERE / "tables"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows([f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows)


def study(name: str) -> None:
    """One subject."""
    subprocess.run([sys.executable, HERE / name / "make.py"], check=True)
    file, runs = HERE / name / "assessment.yaml", HERE / "cache" / "runs"
    record = roadworthy.assess(file, runs=runs, workers=2).record
    found = record.sections["robustness"]
    whole = {(o.circumstance, o.level): o.outcome for o in found.outcomes}
    rows = [
        [r.circumstance, r.level, r.measure, r.source, r.target, r.loss, r.interval.low,
         r.interval.high, r.distance, r.epsilon, r.weight, r.outcome,
         whole[r.circumstance, r.level]]
        for r in found.relation
    ]  # fmt: skip
    write(name, COLUMNS, rows)
    if found.gaps:
        gaps = [[g.circumstance, g.target, g.source, g.gap, g.status] for g in found.gaps]
        write("gap", ("circumstance", "target", "source", "gap", "status"), gaps)
        print(f"missing {found.missing}%, over or under {found.over_or_under}%, "
              f"covered {found.covered}%")  # fmt: skip
    told = {w: list(whole.values()).count(w) for w in ("met", "breached", "inconclusive")}
    print(f"{name}: robust in {told['met']}, not robust in {told['breached']}, inconclusive in "
          f"{told['inconclusive']} of {len(whole)} conditions: {record.verdict}")  # fmt: skip


if __name__ == "__main__":
    for subject in sys.argv[1:]:
        study(subject)
