"""Tables of the study: ours beside those of Weiss et al. 2023, from what `study.py` has kept of each network."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PAPER_NAMES = {"mnist": "mnist", "fashion-mnist": "fmnist"}
NEAR = 0.08
LINEAR = "linear"
"""The authors' network without activations: beside the four, never among them."""
Found = dict[str, list[dict[str, Any]]]
"""By architecture, what was kept of each run."""


def write(cache: Path, tables: Path, names: Sequence[str]) -> None:
    """All tables of the data sets that have results."""
    tables.mkdir(parents=True, exist_ok=True)
    paper = json.loads((HERE / "paper.json").read_text())
    first, second, variants = [], [], []
    for name in names:
        nominal, mixed = (_found(cache / name, mode) for mode in ("nominal", "mixed"))
        first += [*_first(name, "mixed", mixed, paper), *_first(name, "nominal", nominal, paper)]
        second += _second(name, mixed, paper)
        if (cache / name / "variants.json").exists():
            variants += json.loads((cache / name / "variants.json").read_text())
        for file in (*(cache / name).glob("*.png"), *(cache / name).glob("ambiguous-*.json")):
            (tables / "sheets").mkdir(exist_ok=True)
            shutil.copyfile(file, tables / "sheets" / f"{name}-{file.name}")
    for file, rows in (("table1", first), ("table2", second), ("variants", variants)):
        if rows:
            with (tables / f"{file}.csv").open("w", newline="") as to:
                writer = csv.DictWriter(to, list(dict.fromkeys(k for r in rows for k in r)))
                writer.writeheader()
                writer.writerows(rows)
    printed = [row for row in second if row["paper"] != "" and row["test"] != "disjoint"]
    for how in ("difference", "as coded, difference"):
        given = [abs(row[how]) for row in printed if row[how] != ""]
        if given:
            share = f"{sum(d <= NEAR for d in given)} of {len(given)}"
            print(f"table II, {how}: {share} cells within {NEAR} of the paper")


def _found(folder: Path, mode: str) -> Found:
    found: Found = {}
    for file in sorted(folder.glob(f"{mode}-*.json")):
        found.setdefault(file.stem.split("-")[1], []).append(json.loads(file.read_text()))
    return found


def _first(name: str, mode: str, found: Found, paper: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Table I: all architectures, with the linear network as the authors coded it, then each."""
    four, coded = ([run for kind in found if kind != k for run in found[kind]] for k in (LINEAR, "fc"))
    for kind, runs in {"all": four, "as coded": coded if LINEAR in found else [], **found}.items():
        for which in ("nominal", "shared", "disjoint") if runs else ():
            row = {"set": name, "training": mode, "networks": kind, "runs": len(runs), "test": which}
            printed = f"{PAPER_NAMES[name]}|{'nominal' if which == 'nominal' else 'ambiguous'}"
            for measure in ("top1", "top2", "top_pair", "entropy"):
                values = [r["table1"][which][measure] for r in runs if measure in r["table1"][which]]
                row |= {measure: _mean(values), f"{measure} sd": _deviation(values)}
                if kind in ("all", "as coded"):
                    row[f"{measure} paper"] = paper["table1"].get(f"{printed}|{measure}", "")
            yield row


def _second(name: str, found: Found, paper: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Table II: AUC-ROC; the paper's ambiguous pictures are compared with shared autoencoders."""
    tables = {kind: [run["table2"] for run in runs] for kind, runs in found.items()}
    keys = dict.fromkeys(key for runs in tables.values() for run in runs for key in run)
    for key in keys:
        supervisor, _, which = key.partition("|")
        asked = "ambiguous" if which in ("shared", "disjoint") else which
        values = {kind: [run[key] for run in runs if key in run] for kind, runs in tables.items()}
        four = [v for kind, runs in values.items() if kind != LINEAR for v in runs]
        same = f"{supervisor}, as coded|{which}"
        coded = [run.get(same, run.get(key)) for kind in values if kind != "fc" for run in tables[kind] if key in run]
        printed = paper["table2"].get(f"{supervisor}|{PAPER_NAMES[name]}|{asked}", "")
        row: dict[str, Any] = {"set": name, "supervisor": supervisor, "test": which}
        row |= {"mean": _mean(four), "sd": _deviation(four), "paper": printed}
        row["difference"] = "" if printed == "" or not four else round(np.mean(four) - printed, 3)
        known = printed != "" and values.get(LINEAR)
        row["as coded, difference"] = round(np.mean(coded) - printed, 3) if known else ""
        yield row | {kind: _mean(runs) for kind, runs in values.items()}


def _mean(values: Sequence[float]) -> float | str:
    return round(float(np.mean(values)), 4) if len(values) else ""


def _deviation(values: Sequence[float]) -> float | str:
    return round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else ""
