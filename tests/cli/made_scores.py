"""Tables of scores for tests: one score, clean N(0, 1) and 95% right, fog and snow N(3, 1) and 50% right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EXAMPLE = Path(__file__).parents[2] / "examples" / "scores"
FAR = 3.0


def calibration(path: Path, *, clean: int = 600, shifted: int = 300, seed: int = 0) -> Path:
    """A table to calibrate on, as CSV."""
    rng = np.random.default_rng(seed)
    lines = ["kind,correct,energy,id"]
    for kind, n, right, far in (
        ("clean", clean, 0.95, 0.0),
        ("fog", shifted, 0.5, FAR),
        ("snow", shifted, 0.5, FAR),
    ):
        lines += [
            f"{kind},{int(rng.random() < right)},{rng.normal(far):.4f},{kind}{i}" for i in range(n)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def normal(n: int, *, far: float = 0.0, seed: int = 1) -> np.ndarray:
    """Scores of events."""
    return np.random.default_rng(seed).normal(far, size=n)


def stream(path: Path, energy: np.ndarray, **columns: object) -> Path:
    """A table of events, as Parquet."""
    content = {**columns, "energy": pa.array(energy, from_pandas=True)}
    pq.write_table(pa.table(content), path)
    return path
