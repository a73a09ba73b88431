"""One table of scores: rows of clean and shifted inputs, whether the subject was right about each, and what detectors said.

A set hands over its folds one by one (`ind_val` and `ind_test` are clean, every other fold is a kind of shift); the table
goes to cache/elsewhere, which is not committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from packages import MADE

CLEAN = ("ind_val", "ind_test")


class Fold(NamedTuple):
    """The rows of one fold."""

    name: str
    correct: np.ndarray
    columns: dict[str, np.ndarray]


def write(name: str, folds: Iterable[Fold], *, folder: Path = MADE) -> Path:
    """The table of a set; says of each fold how many answers are right."""
    made = list(folds)
    for fold in made:
        print(
            f"{name}, {fold.name:12} {len(fold.correct):5} rows, accuracy {fold.correct.mean():.3f}",
            flush=True,
        )
    if tuple(fold.name for fold in made[:2]) != CLEAN or len(made) < 4:
        raise ValueError(
            f"{name}: expected the folds {', '.join(CLEAN)} and two kinds or more, got {[f.name for f in made]}"
        )
    table = {
        f"score.{c}": np.concatenate([fold.columns[c] for fold in made]) for c in made[0].columns
    }
    broken = [c for c, column in table.items() if not np.isfinite(column).all()]
    if broken:
        raise ValueError(f"{name}: {', '.join(broken)} is not finite everywhere")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    np.savez_compressed(
        path,
        fold=np.repeat([fold.name for fold in made], [len(fold.correct) for fold in made]),
        correct=np.concatenate([fold.correct for fold in made]).astype(bool),
        **{c: column.astype(np.float64) for c, column in table.items()},  # type: ignore[arg-type]
    )
    return path


def handed_out(
    rows: np.ndarray, sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Rows in random order, each for one purpose; of every purpose as many as asked for."""
    needed = sum(sizes.values())
    if needed > len(rows):
        raise ValueError(f"{needed} rows are needed, there are {len(rows)}")
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(rng.permutation(rows)[:needed], ends[:-1]), strict=True))
