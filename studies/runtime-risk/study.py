"""Runs the study and writes its tables: every estimator on the same windows, same shift and unseen shift apart.

    python studies/runtime-risk/study.py                     # the published scores, in ../shared/data/pra-scores
    python studies/runtime-risk/study.py --own               # our own shifts (fashion_scores.py makes their scores first)
    python studies/runtime-risk/study.py --elsewhere         # sets that nobody tuned it on (make elsewhere makes the scores)
    python studies/runtime-risk/study.py --quick             # ours and the simple ones, all detectors together, few windows

Peers run in their own environment (make .venv-peers/risk/installed); where it is missing, so are their rows, and a line says so.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import protocol
from estimators import Estimate, Read, by_peers, with_detectors, without_detectors
from trials import RATES, Scores, Trial, trials

from roadworthy.analysis.simulation.estimators import Estimated
from roadworthy.analysis.simulation.experiment import error_of

HERE = Path(__file__).resolve().parent
TABLES, CACHE = HERE / "tables", HERE / "cache"
PEERS = protocol.ROOT / ".venv-peers" / "risk" / "bin" / "python"
TOGETHER, NONE = "all", "none"


class Record(NamedTuple):
    """One estimator's errors in the windows of one trial at one nominal rate."""

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
    refused: float


def detectors_of(data: Scores, *, singly: bool) -> tuple[tuple[str, ...], ...]:
    """All detectors together and, where asked for, each of them."""
    everyone = tuple(data.columns)
    return (everyone, *(((name,) for name in everyone) if singly else ()))


def judged(trial: Trial, detectors: str, name: str, estimate: Estimate) -> Iterator[Record]:
    """The rate against the nominal rate, the accuracy against the window's own."""
    about = trial.data.name, trial.kind, "+".join(trial.calibrated), trial.streamed, detectors, name
    for target, told, truth in (
        ("rate", estimate.rate, trial.nominal),
        ("accuracy", estimate.accuracy, trial.accuracy),
    ):
        if told is None:
            continue
        for nominal in RATES:
            at = trial.nominal == nominal
            refused = (
                float("nan") if estimate.refused is None else float(estimate.refused[at].mean())
            )
            low, high = (None if end is None else end[at] for end in (told.low, told.high))
            e = error_of(Estimated(told.value[at], low, high), truth[at])
            yield Record(
                *about,
                target,
                float(round(nominal, 1)),
                e.mean_absolute,
                e.bias,
                e.coverage,
                e.width,
                refused,
            )


def records_of(tried: Sequence[Trial], *, singly: bool, peers: Path | None) -> Iterator[Record]:
    """Everyone on every trial."""
    for i, trial in enumerate(tried):
        for name, estimate in without_detectors(trial):
            yield from judged(trial, NONE, name, estimate)
        for names in detectors_of(trial.data, singly=singly):
            some, label = trial.on(names), TOGETHER if len(names) > 1 else names[0]
            found = [with_detectors(some)]
            if peers is not None:
                with np.load(peers / _file(i, trial, label), allow_pickle=False) as file:
                    found.append(by_peers(some, {n: file[n] for n in file.files}))
            for listing in found:
                for name, estimate in listing:
                    yield from judged(trial, label, name, estimate)
        print(
            f"{trial.data.name}: {trial.kind}, {'+'.join(trial.calibrated)} -> {trial.streamed}",
            flush=True,
        )


def ask_peers(tried: Sequence[Trial], folder: Path, *, singly: bool) -> Path | None:
    """Export the trials that the peers have not answered, run the peers, and say where their answers are."""
    if not PEERS.exists():
        print(
            "no peers: make .venv-peers/risk/installed makes their environment; their rows are left out"
        )
        return None
    made = folder / "out"
    with tempfile.TemporaryDirectory() as given:
        for i, trial in enumerate(tried):
            for names in detectors_of(trial.data, singly=singly):
                question = asked(trial.on(names))
                name = _file(i, trial, TOGETHER if len(names) > 1 else names[0])
                if not _answers(made / name, question):
                    np.savez(Path(given) / name, **question)  # type: ignore[arg-type]
        subprocess.run([PEERS, HERE / "peers.py", given, made], check=True)
    return made


def asked(trial: Trial) -> dict[str, np.ndarray]:
    """What the peers get to see of a trial, and a key that tells it from others."""
    read = Read(trial)
    question = {
        "features": read.features,
        "confidence": read.confidence(trial.clean),
        "confidence_both": read.confidence(trial.calibration),
        "correct": trial.data.correct,
        "clean": trial.clean,
        "shifted": trial.shifted,
        "windows": trial.windows,
    }
    digest = hashlib.sha256(
        b"".join(np.asarray(v, dtype=float).round(6).tobytes() for v in question.values())
    )
    return {**question, "key": np.array(digest.hexdigest()[:16])}


def _answers(path: Path, question: dict[str, np.ndarray]) -> bool:
    if not path.exists():
        return False
    with np.load(path, allow_pickle=False) as file:
        return "key" in file.files and str(file["key"]) == str(question["key"])


def _file(i: int, trial: Trial, detectors: str) -> str:
    return f"{trial.data.name}.{i:03d}.{detectors}.npz"


def write(path: Path, records: Iterable[NamedTuple]) -> None:
    """A table with the names of the fields as its header."""
    rows = list(records)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0]._fields)
        writer.writerows([f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows)


WHICH: dict[str, tuple[Callable[[], Sequence[Scores]], int]] = {
    "published": (lambda: [protocol.published(name) for name in protocol.available()], 40),
    "own": (protocol.own, 10),
    "elsewhere": (protocol.elsewhere, 10),
}
"""The data sets, and windows a nominal rate."""


def tried_on(data: Scores, *, which: str, per: int) -> Iterator[Trial]:
    """The trials of a data set; all kinds but one calibrate too where that is more than one, but for the published scores."""
    return trials(data, per=per, left_out=which != "published" and len(data.kinds) > 2)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whose = parser.add_mutually_exclusive_group()
    for which, what in (("own", "our own shifts"), ("elsewhere", "sets that nobody tuned it on")):
        words = f"{what} instead of the published scores"
        whose.add_argument(
            f"--{which}",
            dest="which",
            action="store_const",
            const=which,
            default="published",
            help=words,
        )
    parser.add_argument(
        "--quick", action="store_true", help="no peers, no single detectors, few windows"
    )
    options = parser.parse_args()
    which, (sets, per) = options.which, WHICH[options.which]
    data = sets()
    if not data:
        print(
            f"no scores, or not all of them ({which}): the README says how to make them; left out"
        )
        return
    singly = which == "published" and not options.quick
    tried = [s for d in data for s in tried_on(d, which=which, per=4 if options.quick else per)]
    peers = None if options.quick else ask_peers(tried, CACHE / f"peers-{which}", singly=singly)
    records = list(records_of(tried, singly=singly, peers=peers))
    write((CACHE / "quick.csv") if options.quick else CACHE / f"records-{which}.csv", records)


if __name__ == "__main__":
    main()
