"""Runs the study and writes its tables: every estimator on the same windows, same shift and unseen shift apart.

    python studies/runtime-risk/study.py                     # the published scores, in ../shared/data/pra-scores
    python studies/runtime-risk/study.py --own               # our own shifts (fashion_scores.py makes their scores first)
    python studies/runtime-risk/study.py --quick             # ours and the simple ones, all detectors together, few windows

Peers run in their own environment (make .venv-peers/risk/installed); where it is missing, so are their rows, and a line says so.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import protocol
from estimators import Estimate, Read, by_peers, with_detectors, without_detectors
from protocol import Scores, Setting

from roadworthy.analysis.risk.against_truth import Told, error_of

HERE = Path(__file__).resolve().parent
TABLES, CACHE = HERE / "tables", HERE / "cache"
PEERS = protocol.ROOT / ".venv-peers" / "risk" / "bin" / "python"
TOGETHER, NONE = "all", "none"


class Record(NamedTuple):
    """One estimator's errors in the windows of one setting at one nominal rate."""

    data: str
    kind: str
    calibrated: str
    streamed: str
    detectors: str
    estimator: str
    target: str
    nominal: float
    error: float
    bias: float
    coverage: float
    width: float


def detectors_of(data: Scores, *, singly: bool) -> tuple[tuple[str, ...], ...]:
    """All detectors together and, where asked for, each of them."""
    everyone = tuple(data.columns)
    return (everyone, *(((name,) for name in everyone) if singly else ()))


def judged(setting: Setting, detectors: str, name: str, estimate: Estimate) -> Iterator[Record]:
    """The rate against the nominal rate, the accuracy against the window's own."""
    about = setting.data.name, setting.kind, "+".join(setting.calibrated), setting.streamed, detectors, name
    for target, told, truth in (
        ("rate", estimate.rate, setting.nominal),
        ("accuracy", estimate.accuracy, setting.accuracy),
    ):
        if told is None:
            continue
        for nominal in protocol.RATES:
            at = setting.nominal == nominal
            e = error_of(Told(told.value[at], told.low[at], told.high[at]), truth[at])
            yield Record(*about, target, float(round(nominal, 1)), e.mean_absolute, e.bias, e.coverage, e.width)


def records_of(settings: Sequence[Setting], *, singly: bool, peers: Path | None) -> Iterator[Record]:
    """Everyone on every setting."""
    for i, setting in enumerate(settings):
        for name, estimate in without_detectors(setting):
            yield from judged(setting, NONE, name, estimate)
        for names in detectors_of(setting.data, singly=singly):
            some, label = setting.on(names), TOGETHER if len(names) > 1 else names[0]
            found = [with_detectors(some)]
            if peers is not None:
                with np.load(peers / _file(i, setting, label), allow_pickle=False) as file:
                    found.append(by_peers(some, {n: file[n] for n in file.files}))
            for listing in found:
                for name, estimate in listing:
                    yield from judged(setting, label, name, estimate)
        print(f"{setting.data.name}: {setting.kind}, {'+'.join(setting.calibrated)} -> {setting.streamed}", flush=True)


def ask_peers(settings: Sequence[Setting], folder: Path, *, singly: bool) -> Path | None:
    """Export the settings, run the peers on those they have not seen, and say where their answers are."""
    if not PEERS.exists():
        print("no peers: make .venv-peers/risk/installed makes their environment; their rows are left out")
        return None
    given, made = folder / "in", folder / "out"
    given.mkdir(parents=True, exist_ok=True)
    for i, setting in enumerate(settings):
        for names in detectors_of(setting.data, singly=singly):
            some = setting.on(names)
            path = given / _file(i, setting, TOGETHER if len(names) > 1 else names[0])
            if (made / path.name).exists():
                continue
            read = Read(some)
            np.savez(
                path,
                features=read.features,
                confidence=read.confidence(some.clean),
                confidence_both=read.confidence(some.calibration),
                correct=some.data.correct,
                clean=some.clean,
                shifted=some.shifted,
                windows=some.windows,
            )
    subprocess.run([PEERS, HERE / "peers.py", given, made], check=True)
    return made


def _file(i: int, setting: Setting, detectors: str) -> str:
    return f"{setting.data.name}.{i:03d}.{detectors}.npz"


def write(path: Path, records: Iterable[NamedTuple]) -> None:
    """A table with the names of the fields as its header."""
    rows = list(records)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows([f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own", action="store_true", help="our own shifts instead of the published scores")
    parser.add_argument("--quick", action="store_true", help="no peers, no single detectors, few windows")
    options = parser.parse_args()
    names = ("own",) if options.own else protocol.available()
    data = [protocol.own() if name == "own" else protocol.published(name) for name in names]
    per, singly = (4 if options.quick else 10 if options.own else 40), not (options.quick or options.own)
    settings = [s for d in data for s in protocol.settings(d, per=per, left_out=options.own)]
    which = "own" if options.own else "published"
    peers = None if options.quick else ask_peers(settings, CACHE / f"peers-{which}", singly=singly)
    records = list(records_of(settings, singly=singly, peers=peers))
    write((CACHE / "quick.csv") if options.quick else CACHE / f"records-{which}.csv", records)


if __name__ == "__main__":
    main()
