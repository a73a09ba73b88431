"""Do rows that do not align flatter a combination? The misaligned files as they are, left out, and shuffled within their folds.

    python studies/runtime-risk/alignment.py         # a minute or two; needs the published scores

A column shuffled within each fold still tells clean from shifted, but as if by other inputs: its errors are independent of those of
the other detectors, which may help a combination to find the rate, and it no longer knows which rows are wrong. CCT aligns
exactly: shuffling its kNN column shows what misalignment as such does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import protocol
from estimators import Read, ours, quick_combination
from protocol import MISALIGNED
from study import TABLES, write
from trials import Scores, trials

SUSPECTS = {"CCT": ("knn",), **MISALIGNED}


class Aligned(NamedTuple):
    """Mean errors over the folds of a data set."""

    data: str
    files: str
    kind: str
    estimator: str
    rate_error: float
    accuracy_error: float


def shuffled(data: Scores, names: tuple[str, ...], seed: int = 0) -> Scores:
    """Some columns in another order within each fold."""
    rng = np.random.default_rng(seed)
    columns = dict(data.columns)
    for name in names:
        mixed = columns[name].copy()
        for fold in np.unique(data.fold):
            rows = data.rows(str(fold))
            mixed[rows] = mixed[rng.permutation(rows)]
        columns[name] = mixed
    return replace(data, columns=columns)


def versions(data: Scores) -> dict[str, Scores]:
    """The data set as it is, without its suspects, and with them shuffled."""
    suspects = SUSPECTS[data.name]
    rest = tuple(n for n in data.columns if n not in suspects)
    return {
        "all": data,
        f"without {' and '.join(suspects)}": data.only(rest),
        f"{' and '.join(suspects)} shuffled": shuffled(data, suspects),
    }


def errors(files: str, data: Scores) -> Iterator[Aligned]:
    """Ours and the quick combination on the same windows."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for trial in trials(data, per=20):
        read = Read(trial)
        for name, estimate in (
            ("ours", ours(trial)),
            ("quick combination", read.by_rate(quick_combination(read))),
        ):
            assert estimate.rate is not None
            off = estimate.rate.value - trial.nominal, estimate.accuracy.value - trial.accuracy
            found.setdefault((trial.kind, name), []).append(
                (float(np.abs(off[0]).mean()), float(np.abs(off[1]).mean()))
            )
    for (kind, name), pairs in found.items():
        rate, accuracy = np.mean(pairs, axis=0)
        yield Aligned(data.name, files, kind, name, float(rate), float(accuracy))


def main() -> None:
    """The command."""
    found = [
        row
        for n in protocol.available()
        for f, d in versions(protocol.published(n)).items()
        for row in errors(f, d)
    ]
    if found:
        write(TABLES / "alignment.csv", found)
    else:
        print(f"no published scores in {protocol.PUBLISHED.name}: the table is left as it is")


if __name__ == "__main__":
    main()
