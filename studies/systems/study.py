"""One subject of studies/systems assessed as in Wang et al. 2022: `python studies/systems/study.py ocr --cases 200`.

Makes the data, runs the assessment, and writes into NAME/tables/ a counterpart of each of the
paper's tables, with the paper's figure beside ours where it has one for that corruption (the mean
over its modules and configurations: paper.csv), and findings.csv: whether each finding holds here.
`--run FOLDER` reads a run that is there instead of making one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from roadworthy.analysis.systems.awareness import (
    holm_adjusted,
    signed_rank,
    spearman,
    top_overlap,
)
from roadworthy.analysis.systems.propagation import case_change, kendall
from roadworthy.analysis.systems.rejection import STRATEGIES, rejections, strategies
from roadworthy.measures.scored import Scored

HERE = Path(__file__).resolve().parent
OOD, UNCERTAINTY = ("mahalanobis", "kde"), ("vr", "vro")
BUDGETS, TOPS = (0.01, 0.03, 0.05), (0.01, 0.05, 0.10)
SETTINGS = ((1, 0), (2, 1), (3, 2))
"""Pairs of levels that are compared: L1-Ori, L2-L1, L3-L2 in the paper."""
PAPER = {
    "steering": "Udacity",
    "tracking": "ByteTrack",
    "dialogue": "ConvLab-2",
    "speech": "SpeechBrain",
}
STAND_IN = "ByteTrack"
"""Stands beside a subject that the paper has not: the system with the same corruptions."""
FIGURE = {
    "degradation": "delta_pct", "ood_wilcoxon": "effect_size_D", "ood_overlap": "spearman_rho",
    "uncertainty_wilcoxon": "effect_size_D", "uncertainty_kendall": "kendall_tau",
    "propagation": "kendall_tau", "rejection": "improvement_pct",
}  # fmt: skip
"""The column that paper.csv has figures of."""


class Score(NamedTuple):
    """A column of scores: which supervisor, of which module."""

    supervisor: str
    module: str
    column: str


@dataclass(frozen=True)
class Table:
    """The cases of a run by corruption and level, each in the order of the clean ones."""

    scores: list[Score]
    modules: list[str]
    conditions: dict[tuple[str, int], dict[str, np.ndarray]]

    @classmethod
    def read(cls, run: Path) -> Table:
        """From a run folder."""
        table = pq.read_table(run / "tables" / "cases.parquet").to_pydict()
        columns = {name: np.array(values, dtype=object) for name, values in table.items()}
        scores = [s for s in map(score_of, columns) if s is not None]
        names = [str(c or "") for c in columns["circumstance"]]
        levels = [0 if v is None or v != v else int(v) for v in columns["level"]]
        clean = {str(s): i for i, s in enumerate(columns["sample"]) if names[i] in ("", "clean")}
        found = {}
        for key in dict.fromkeys(zip(names, levels, strict=True)):
            rows = [i for i, k in enumerate(zip(names, levels, strict=True)) if k == key]
            place = {str(columns["sample"][i]): i for i in rows}
            order = [place[s] for s in clean]
            key = ("", 0) if key[0] in ("", "clean") else key
            found[key] = {
                name: _numbers(values[order])
                for name, values in columns.items()
                if name in ("error", "failure", "numerator", "denominator")
                or any(name == s.column for s in scores)
            }
        return cls(scores, list(dict.fromkeys(s.module for s in scores)), found)

    @property
    def corruptions(self) -> list[str]:
        """In the order of the file."""
        return list(dict.fromkeys(name for name, _ in self.conditions if name))

    def value(self, corruption: str, level: int) -> float:
        """The measure as a ratio of sums, or the mean error."""
        return self.scored(corruption, level).value()

    def scored(self, corruption: str, level: int) -> Scored:
        """What the measure is made of, so that it can be taken of some cases."""
        rows = self.conditions[corruption, level]
        above, below = rows.get("numerator"), rows.get("denominator")
        if above is None or below is None or np.isnan(above).any():
            above, below = rows["error"], np.ones(len(rows["error"]))
        return Scored.ratio(
            above, below, error=rows["error"], failure=rows["failure"] > 0, better="lower"
        )

    def of(self, supervisor: str, module: str) -> str | None:
        """The column of a supervisor at a module."""
        pairs = (s.column for s in self.scores if (s.supervisor, s.module) == (supervisor, module))
        return next(pairs, None)


def score_of(column: str) -> Score | None:
    """What a column of scores says in its name.

    >>> score_of("vr(module=rec, kind=own, distance=edits)")
    Score(supervisor='vr', module='rec', column='vr(module=rec, kind=own, distance=edits)')
    """
    found = re.fullmatch(r"(\w+)\((?:.*, )?module=(\w+).*\)", column)
    return Score(found[1], found[2], column) if found else None


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.array([math.nan if v is None else float(v) for v in values])


def degradation(t: Table) -> Iterator[list[Any]]:
    """Tables 4-7: the measure of the system, and how much worse it is than on clean data."""
    yield ["corruption", "level", "measure", "delta_pct"]
    clean = t.value("", 0)
    yield ["clean", 0, clean, ""]
    for name, level in itertools.product(t.corruptions, (1, 2, 3)):
        value = t.value(name, level)
        yield [name, level, value, 100 * (value - clean) / clean if clean > 0 else math.nan]


def wilcoxon(t: Table, supervisors: Sequence[str]) -> Iterator[list[Any]]:
    """Tables 8-11 and 18-21: whether a score rises from level to level; Holm within a supervisor."""
    yield ["corruption", "setting", "method", "module", "effect_size_D", "D_strict", "p_holm"]
    for supervisor in supervisors:
        rows, p = [], []
        for name, (high, low), module in itertools.product(t.corruptions, SETTINGS, t.modules):
            column = t.of(supervisor, module)
            if column is None:
                continue
            before = t.conditions[(name, low) if low else ("", 0)][column]
            found = signed_rank(t.conditions[name, high][column], before)
            setting = f"L{high}-{f'L{low}' if low else 'Ori'}"
            rows.append([name, setting, supervisor, module, found.effect, found.strict])
            p.append(found.p)
        yield from ([*row, q] for row, q in zip(rows, holm_adjusted(p), strict=True))


def pairs(t: Table, supervisors: Sequence[str]) -> Iterator[tuple[str, int, str, str, str]]:
    """Corruption, level, supervisor and two neighbouring modules."""
    for name, level, s in itertools.product(t.corruptions, (1, 2, 3), supervisors):
        for one, two in itertools.pairwise([m for m in t.modules if t.of(s, m)]):
            yield name, level, s, one, two


def overlaps(t: Table) -> Iterator[list[Any]]:
    """Tables 12-17: what the riskiest cases of two modules have in common, and Spearman's rho."""
    yield ["corruption", "level", "method", "modules", *(f"top{round(100 * n)}pct" for n in TOPS),
           *(f"chance{round(100 * n)}pct" for n in TOPS), "spearman_rho", "p"]  # fmt: skip
    for name, level, s, one, two in pairs(t, OOD):
        rows = t.conditions[name, level]
        a, b = rows[str(t.of(s, one))], rows[str(t.of(s, two))]
        found = [top_overlap(a, b, n) for n in TOPS]
        rho = spearman(a, b)
        yield [name, level, s, f"{one}-{two}", *(100 * f.share for f in found),
               *(100 * f.chance for f in found), rho.value, rho.p]  # fmt: skip


def changes(t: Table) -> Iterator[list[Any]]:
    """Tables 22-23: Kendall's tau of the changes of two modules' uncertainty."""
    yield ["corruption", "level", "method", "modules", "kendall_tau", "p"]
    for name, level, s, one, two in pairs(t, UNCERTAINTY):
        moved = [_change(t, name, level, str(t.of(s, m))) for m in (one, two)]
        found = kendall(*moved)
        yield [name, level, s, f"{one}-{two}", found.value, found.p]


def _change(t: Table, name: str, level: int, column: str) -> np.ndarray:
    return case_change(t.conditions[name, level][column], t.conditions["", 0][column])


def propagation(t: Table) -> Iterator[list[Any]]:
    """Tables 24-25: Kendall's tau of a module's score change and the change of the case's error."""
    yield ["corruption", "level", "method", "module", "kendall_tau", "p"]
    for name, level, s in itertools.product(t.corruptions, (1, 2, 3), t.scores):
        found = kendall(_change(t, name, level, s.column), _change(t, name, level, "error"))
        yield [name, level, s.supervisor, s.module, found.value, found.p]


def rejection(t: Table, seed: int = 0) -> Iterator[list[Any]]:
    """Tables 26-27: what rejecting the riskiest gains, by vro and kde of the last module."""
    yield [
        "corruption",
        "level",
        "budget_pct",
        "strategy",
        "improvement_pct",
        "of_oracle_pct",
        "low",
        "high",
    ]
    uncertainty, ood = t.of("vro", t.modules[-1]), t.of("kde", t.modules[-1])
    if uncertainty is None or ood is None:
        return
    for name, level in itertools.product(t.corruptions, (1, 2, 3)):
        rows, rng = t.conditions[name, level], np.random.default_rng(seed)
        orders = strategies(rows[uncertainty], rows[ood], rng.random(len(rows[ood])))
        found = rejections(t.scored(name, level), orders, budgets=BUDGETS, rng=rng, resamples=200)
        for r in found.at:
            share = r.of_oracle_interval
            yield [name, level, 100 * r.budget, r.strategy, 100 * r.gain, 100 * r.of_oracle,
                   100 * share.low, 100 * share.high]  # fmt: skip


def _mean(rows: list[dict[str, Any]], column: str, **where: Any) -> float:
    kept = [r[column] for r in rows if all(r[k] == v for k, v in where.items())]
    known = [v for v in kept if v == v]
    return float(np.mean(known)) if known else math.nan


def findings(t: Table, tables: dict[str, list[dict[str, Any]]]) -> Iterator[list[Any]]:
    """The paper's five findings, whether they hold here, and by which numbers.

    Verdicts compare means over corruptions, levels and supervisors; they are no tests. That less
    than half of the riskiest 10% in common counts as different is a bound of ours.
    """
    yield ["finding", "holds", "numbers"]
    fell = tables["degradation"]
    means = [_mean(fell, "delta_pct", level=k) for k in (1, 2, 3)]
    rising = means[0] > 0 and means == sorted(means)
    text = ", ".join(f"level {k}: {m:+.0f}%" for k, m in enumerate(means, 1))
    yield [
        "corruptions hurt the system, more with level",
        rising,
        f"mean change of the measure {text}",
    ]
    seen = {
        m: _mean(tables["ood_wilcoxon"], "effect_size_D", module=m, setting="L1-Ori")
        for m in t.modules
    }
    text = ", ".join(f"{m} {v:.2f}" for m, v in seen.items())
    first = seen[t.modules[0]] >= max(seen.values())
    yield ["OOD scores see the first module best", first, f"mean D from clean to level 1: {text}"]
    share, chance = (_mean(tables["ood_overlap"], c) for c in ("top10pct", "chance10pct"))
    text = f"riskiest 10% in common: {share:.1f}%, by chance {chance:.1f}%"
    yield ["modules flag different inputs", share < 50, text]
    both = [r for r in tables["propagation"] if r["method"] in OOD + UNCERTAINTY]
    tau = {m: _mean(both, "kendall_tau", module=m) for m in t.modules}
    text = ", ".join(f"{m} {v:.2f}" for m, v in tau.items())
    last = tau[t.modules[-1]] >= max(v for v in tau.values() if v == v)
    yield ["the later module's score tracks the output error", last, f"mean tau {text}"]
    gains = {
        s: _mean(tables["rejection"], "improvement_pct", strategy=s)
        for s in (*STRATEGIES, "oracle")
    }
    text = ", ".join(f"{s} {v:.1f}%" for s, v in gains.items())
    # All three against both: the best of three against the best of two would favour the three.
    holds = min(gains[s] for s in ("S3", "S4", "S5")) > max(gains["S1"], gains["S2"])
    yield ["combined rejection beats single", holds, f"mean improvement {text}"]


def beside(name: str, rows: list[dict[str, Any]], subject: str) -> None:
    """Add the paper's figure, where paper.csv has one for the same corruption, level and method."""
    system = PAPER.get(subject, STAND_IN)
    with (HERE / "paper.csv").open() as file:
        known = {
            (r["corruption"], r["at"], r["method"]): float(r["figure"])
            for r in csv.DictReader(file)
            if r["analysis"] == name and r["system"] == system
        }
    for row in rows:
        at = str(row.get("setting", row.get("level")))
        method = row.get("method", row.get("strategy", ""))
        code = TRANSFORMS.get(row["corruption"], row["corruption"])
        found = known.get((code, at, method), "") if row.get("budget_pct", 1) == 1 else ""
        row[f"paper_{FIGURE[name]}"], row["paper_system"] = found, system if found != "" else ""


TRANSFORMS: dict[str, str] = {}
"""The corruption's transform by the name of its circumstance; filled from the assessment file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--run", type=Path)
    given = parser.parse_args()
    folder = HERE / given.subject
    import yaml

    circumstances = yaml.safe_load((folder / "assessment.yaml").read_text())["circumstances"]
    TRANSFORMS.update({k: c["transform"] for k, c in circumstances.items() if "transform" in c})
    run = given.run
    if run is None:
        import roadworthy

        subprocess.run(
            [sys.executable, folder / "make.py", "--cases", str(given.cases)], check=True
        )
        run = roadworthy.assess(folder / "assessment.yaml").folder
    t = Table.read(run)
    made = {
        "degradation": degradation(t), "ood_wilcoxon": wilcoxon(t, OOD), "ood_overlap": overlaps(t),
        "uncertainty_wilcoxon": wilcoxon(t, UNCERTAINTY), "uncertainty_kendall": changes(t),
        "propagation": propagation(t), "rejection": rejection(t),
    }  # fmt: skip
    tables = {}
    for name, (head, *rows) in made.items():
        tables[name] = [dict(zip(head, row, strict=True)) for row in rows]
    tables["findings"] = []
    head, *rows = findings(t, tables)
    for name in made:
        beside(name, tables[name], given.subject)
    tables["findings"] = [dict(zip(head, row, strict=True)) for row in rows]
    (folder / "tables").mkdir(exist_ok=True)
    for name, content in tables.items():
        with (folder / "tables" / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, content[0] if content else ["empty"], lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _written(v) for k, v in row.items()} for row in content)
    for row in rows:
        print(f"{row[0]}: {'holds' if row[1] else 'does not hold'}. {row[2]}")


def _written(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    main()
