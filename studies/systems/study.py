"""One subject of studies/systems assessed as in Wang et al. 2022: `python studies/systems/study.py ocr`.

Makes the data, assesses every configuration, and writes into NAME/tables/ a counterpart of each of
the paper's tables. All tables have the same columns; `paper` is the printed figure for the same
configuration, corruption, level, method and modules (paper.csv), `star` its mark of p > 0.0001.
findings.csv says whether the paper's findings hold here, figures/ has the system as a graph and the
rejection curves (figure 5). `--run NAME=FOLDER` reads a run that is there instead of making one.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

import roadworthy
from roadworthy.registry import get
from roadworthy.report.blocks import Chart
from roadworthy.report.charts import standalone
from roadworthy.store.record import Record

HERE = Path(__file__).resolve().parent
OOD, UNCERTAINTY = ("mahalanobis", "kde"), ("vr", "vro")
STRATEGIES = ("S1", "S2", "S3", "S4", "S5", "learned")
CONFIGURATIONS = {
    "ocr": {"RapidOCR": ("assessment.yaml", "build")},
    "steering": {"three networks": ("assessment.yaml", "build")},
    "tracking": {
        "ByteTrack": ("assessment.yaml", "build"),
        "SORT": ("sort.yaml", "build_sort"),
        "DeepSORT": ("deepsort.yaml", "build_deepsort"),
    },
    "dialogue": {
        "bag + rule": ("assessment.yaml", "bag_rule"),
        "trigrams + rule": ("assessment.yaml", "trigrams_rule"),
        "bag + learned": ("assessment.yaml", "bag_learned"),
        "trigrams + learned": ("assessment.yaml", "trigrams_learned"),
    },
    "speech": {
        "recurrent": ("assessment.yaml", "build"),
        "transformer": ("assessment.yaml", "build_transformer"),
    },
}
"""By subject: the configurations, each an assessment file and the function that builds the system."""
ANALYSES = {
    "degradation": (4, 5, 6, 7), "ood_wilcoxon": (8, 9, 10), "ood_overlap": (12, 13, 14, 15),
    "ood_spearman": (16, 17), "uncertainty_wilcoxon": (18, 19, 20), "uncertainty_kendall": (22, 23),
    "propagation": (24, 25), "blame": (), "rejection": (26,), "rejection_area": (),
}  # fmt: skip
"""What is written, and the paper's tables of it; 11, 21 and 27 are of a corpus that is not here."""


class Row(NamedTuple):
    """A cell of one of the paper's tables."""

    configuration: str
    corruption: str
    at: str
    method: str
    modules: str
    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    by_chance: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What the paper's figure is found by."""
        return self[:5]


def assessed(subject: str, configuration: str) -> Record:
    """The record of a configuration's run."""
    file, function = CONFIGURATIONS[subject][configuration]
    os.chdir(HERE / subject)  # the paths in the file are relative to it
    content = yaml.safe_load(Path(file).read_text())
    content["subject"]["system"] = f"system.py:{function}"
    return roadworthy.assess(content, runs=HERE / "cache" / "runs", workers=2).record


class Configuration:
    """The rows of one configuration, from the record of its run."""

    def __init__(self, name: str, record: Record) -> None:
        self.name, self.record = name, record
        self.found = record.sections["modules"]
        spec = yaml.safe_load(record.spec_text)["circumstances"]
        self.transforms = {k: c["transform"] for k, c in spec.items()}
        self.transforms |= {"": "clean", "all conditions": "all conditions"}

    def row(self, r: Any, at: str, method: str, modules: str, value: Any, **more: Any) -> Row:
        """One row, with the interval of the record."""
        interval = more.pop("interval", getattr(r, "interval", None))
        ends = (interval.low, interval.high) if interval else (None, None)
        place = self.transforms[r.circumstance]
        return Row(self.name, place, at, method, modules, value, *ends, **more)

    def degradation(self) -> Iterator[Row]:
        """Tables 4-7: the measure, or the distance to the clean output, and the relative change."""
        for d in self.found.degradation:
            method = "distance" if d.quantity.startswith("distance") else d.quantity
            yield self.row(d, _level(d), method, d.module, d.value)
            if d.relative is not None:
                yield self.row(d, _level(d), "delta_pct", d.module, 100 * d.relative, interval=None)

    def wilcoxon(self, methods: Iterable[str]) -> Iterator[Row]:
        """Tables 8-11, 18-21: D, the share of rows whose score rose, equal ones as not risen (as published)."""
        for a in self.found.awareness:
            first = a.against == "clean"
            if a.supervisor not in methods or first != (a.level == 1):
                continue
            setting = "L1-Ori" if first else f"L{a.level:g}-L{a.level - 1:g}"
            tests = {"p": a.p, "p_holm": a.adjusted}
            # The record's interval counts equal ones half.
            interval = a.interval if a.strict == a.effect else None
            more = {"interval": interval, **tests}
            yield self.row(a, setting, a.supervisor, a.module, a.strict, **more)

    def overlaps(self) -> Iterator[Row]:
        """Tables 12-15: what the riskiest rows of two modules have in common, in percent."""
        for o in self.found.overlaps:
            if o.supervisor in OOD and o.share is not None:
                method, both = f"{o.supervisor} top {o.top:.0%}", f"{o.first}-{o.second}"
                chance = {"by_chance": 100 * o.chance}
                yield self.row(o, _level(o), method, both, 100 * o.share, **chance)

    def associations(self, method: str, among: Iterable[str], of: str) -> Iterator[Row]:
        """Tables 16-17, 22-25: rank correlations of scores, of changes, and with the error."""
        for a in self.found.associations:
            if a.method == method and a.supervisor in among and a.of == of:
                both = a.first if of == "error" else f"{a.first}-{a.second}"
                tests = {"p": a.p, "p_holm": a.adjusted}
                yield self.row(a, _level(a), a.supervisor, both, a.value, **tests)

    def blame(self) -> Iterator[Row]:
        """What holding inputs clean repairs, as mean error of a case."""
        for b in self.found.blame:
            yield self.row(b, _level(b), b.kind, b.port, b.value)

    def rejection(self) -> Iterator[Row]:
        """Tables 26-27: improvement in percent, and the share of what an oracle would gain."""
        for r in self.found.rejected:
            if r.gain is None:
                continue
            at = "" if r.budget == 0.01 else f" at {r.budget:.0%}"
            gain = 100 * r.gain
            yield self.row(r, _level(r), r.strategy + at, "system", gain, interval=None)
            if r.of_oracle is not None and r.strategy != "oracle":
                share = {"interval": r.of_oracle_interval}
                method = f"{r.strategy}{at}, of oracle"
                yield self.row(r, _level(r), method, "system", r.of_oracle, **share)

    def areas(self) -> Iterator[Row]:
        """Figure 5: the mean of the measure over all numbers of rejected rows."""
        for c in self.found.curves:
            yield self.row(c, _level(c), c.strategy, "system", c.area)

    def tables(self) -> dict[str, list[Row]]:
        """All of them, by name."""
        every = (*OOD, *UNCERTAINTY)
        made: dict[str, Iterable[Row]] = {
            "degradation": self.degradation(), "ood_wilcoxon": self.wilcoxon(OOD),
            "ood_overlap": self.overlaps(), "uncertainty_wilcoxon": self.wilcoxon(UNCERTAINTY),
            "ood_spearman": self.associations("spearman", OOD, "scores"),
            "uncertainty_kendall": self.associations("kendall", UNCERTAINTY, "changes"),
            "propagation": self.associations("kendall", every, "error"),
            "blame": self.blame(), "rejection": self.rejection(), "rejection_area": self.areas(),
        }  # fmt: skip
        return {name: list(rows) for name, rows in made.items()}

    def draw(self, folder: Path) -> None:
        """The graphs of the system, and the rejection curves at level 3."""
        blocks = get("sections", "modules").build().view(self.found, self.record)
        name = self.name.replace(" + ", "-").replace(" ", "-").lower()
        for block in blocks:
            if isinstance(block, Chart) and ("modules" in block.id or block.id.endswith("-3")):
                file = folder / f"{name}-{block.id.removeprefix('figure-')}.svg"
                file.write_text(standalone(block.wide) + "\n")


def _level(r: Any) -> str:
    return f"{r.level or 0:g}"


def _mean(rows: list[Row], column: str = "value", **where: Any) -> float:
    kept = [getattr(r, column) for r in rows if all(getattr(r, k) == v for k, v in where.items())]
    known = [v for v in kept if v is not None and math.isfinite(v)]
    return float(np.mean(known)) if known else math.nan


def findings(c: Configuration, tables: Mapping[str, list[Row]]) -> Iterator[list[Any]]:
    """The paper's five findings, whether they hold here, and by which numbers.

    Verdicts compare means over corruptions, levels and supervisors; they are no tests. That less
    than half of the riskiest 10% in common counts as different is a bound of ours.
    """
    fell = [r for r in tables["degradation"] if r.modules == "system"]
    means = [_mean(fell, method="delta_pct", at=k) for k in "123"]
    rising = means[0] > 0 and means == sorted(means)
    text = ", ".join(f"level {k} {m:+.0f}%" for k, m in enumerate(means, 1))
    yield [c.name, "corruptions hurt, more with level", rising, f"mean change {text}"]
    # Modules that answer the question of the whole system stand in parallel: none is the first.
    own = {r.modules for r in tables["degradation"] if r.method not in ("distance", "delta_pct")}
    in_series = own == {"system"}
    seen = _by_module(tables["ood_wilcoxon"], at="L1-Ori")
    if in_series and len(seen) > 1:
        first = seen[next(iter(seen))] >= max(seen.values())
        text = f"mean D from clean to level 1: {_listed(seen)}"
        yield [c.name, "OOD scores see the first module best", first, text]
    ten = [r for r in tables["ood_overlap"] if r.method.endswith("top 10%")]
    if ten:
        share, chance = _mean(ten), _mean(ten, "by_chance")
        text = f"riskiest 10% in common: {share:.0f}%, by chance {chance:.0f}%"
        yield [c.name, "modules flag different inputs", share < 50, text]
    tau = _by_module(tables["propagation"])
    if in_series and len(tau) > 1:
        last = list(tau.values())[-1] >= max(tau.values())
        text = f"mean tau {_listed(tau)}"
        yield [c.name, "the later module's score tracks the output error", last, text]
    every = [r for r in tables["rejection"] if r.corruption == "all conditions"]
    gains = {s: _mean(every, method=s) for s in (*STRATEGIES, "oracle")}
    if not math.isnan(gains["S5"]):
        # All three against both: the best of three against the best of two would favour the three.
        holds = min(gains[s] for s in ("S3", "S4", "S5")) > max(gains["S1"], gains["S2"])
        text = f"gain in % if 1% of all conditions are rejected: {_listed(gains, 1)}"
        yield [c.name, "combined rejection beats single", holds, text]
    for r in c.found.rejected:
        if (
            r.circumstance == "all conditions"
            and r.strategy != "oracle"
            and r.of_oracle is not None
        ):
            what = f"share of the oracle's gain, {r.strategy} at {r.budget:.0%}"
            ends = r.of_oracle_interval
            yield [c.name, what, "", f"{r.of_oracle:.0%} ({ends.low:.0%} to {ends.high:.0%})"]


def _by_module(rows: list[Row], **where: Any) -> dict[str, float]:
    """The mean of each module over the supervisors that all of them have."""
    names = dict.fromkeys(r.modules for r in rows)
    shared = [{r.method for r in rows if r.modules == m} for m in names]
    rows = [r for r in rows if r.method in set.intersection(*shared)]
    found = {m: _mean(rows, modules=m, **where) for m in names}
    return {m: v for m, v in found.items() if not math.isnan(v)}


def _listed(numbers: Mapping[str, float], digits: int = 2) -> str:
    return ", ".join(f"{k} {v:.{digits}f}" for k, v in numbers.items() if not math.isnan(v))


def published(subject: str) -> dict[tuple[str, ...], tuple[str, str]]:
    """The printed figures of a subject, with their stars, by table and key."""
    with (HERE / "paper.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["subject"] == subject]
    keys = ("table", "configuration", "corruption", "at", "method", "modules")
    return {tuple(r[k] for k in keys): (r["figure"], r["star"]) for r in rows}


def write(folder: Path, subject: str, name: str, rows: list[Row]) -> None:
    """One table, with the paper's figures beside."""
    known = published(subject)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*Row._fields, "paper", "star"])
        for row in rows:
            beside = (known.get((str(t), *row.key)) for t in ANALYSES[name])
            out.writerow([*map(_written, row), *next(filter(None, beside), ("", ""))])


def _written(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=CONFIGURATIONS)
    parser.add_argument(
        "--cases", type=int, help="cases to make; otherwise as many as make.py makes"
    )
    parser.add_argument("--only", nargs="*", help="configurations; otherwise all")
    parser.add_argument("--run", nargs="*", default=[], help="NAME=FOLDER of a run that is there")
    given = parser.parse_args()
    folder, subject = HERE / given.subject, given.subject
    there = {name: Path(place).resolve() for name, place in (r.split("=", 1) for r in given.run)}
    names = given.only or list(CONFIGURATIONS[subject])
    if set(names) - set(there):
        more = ["--cases", str(given.cases)] if given.cases else []
        subprocess.run([sys.executable, folder / "make.py", *more], check=True)
    tables: dict[str, list[Row]] = {name: [] for name in ANALYSES}
    held: list[list[Any]] = []
    for part in ("tables", "figures"):
        (folder / part).mkdir(exist_ok=True)
    for name in names:
        record = Record.read(there[name]) if name in there else assessed(subject, name)
        configuration = Configuration(name, record)
        own = configuration.tables()
        for key, rows in own.items():
            tables[key] += rows
        held += findings(configuration, own)
        configuration.draw(folder / "figures")
    for key, rows in tables.items():
        write(folder / "tables", subject, key, rows)
    with (folder / "tables" / "findings.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerows([("configuration", "finding", "holds", "numbers"), *held])
    for row in held:
        print(f"{row[0]}: {row[1]}: {row[2] if row[2] != '' else ''} {row[3]}")


if __name__ == "__main__":
    main()
