"""A detector that gives one score to a whole batch: its rows carry the batch's score, and the batch as their group."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("quick_alarms")

SIZE, WINDOW = 16, 800


def batches(
    shifted: np.ndarray, path: Path, rng: np.random.Generator, *, labelled: bool
) -> np.ndarray:
    """Write every batch as its rows, and say which answers were right: 95% of clean ones, 50% of shifted ones."""
    score = rng.normal(np.where(shifted, 2.0, 0.0))
    right = rng.random((len(shifted), SIZE)) < np.where(shifted, 0.5, 0.95)[:, None]
    lines = ["kind,correct,group,detector"] if labelled else ["detector"]
    for number, (of, said, answers) in enumerate(zip(shifted, score, right, strict=True)):
        known = [
            f"{'fog' if of else 'clean'},{int(a)},b{number}," if labelled else "" for a in answers
        ]
        lines += [f"{begins}{said:.5f}" for begins in known]
    path.write_text("\n".join(lines) + "\n")
    return right


def test_a_stream_of_batches_is_told_with_the_doubt_of_its_batches(cli, tmp_path):
    rng = np.random.default_rng(3)
    table, stream, bundle = (tmp_path / name for name in ("table.csv", "stream.csv", "b.json"))
    batches(np.arange(240) >= 120, table, rng, labelled=True)
    per, windows = WINDOW // SIZE, 12
    shifted = rng.random(per * windows) < np.repeat([0.0, 0.2, 0.6], per * windows // 3)
    right = batches(shifted, stream, rng, labelled=False)
    made = cli("calibrate", table, "--out", bundle, "--window", WINDOW, "--events-per-day", 10_000)
    assert made.code == 0, made.err
    content = json.loads(cli("replay", bundle, stream, "--json").out)
    rate, accuracy = (
        shifted.reshape(windows, per).mean(axis=1),
        right.reshape(windows, per * SIZE).mean(axis=1),
    )
    held = {"rate": 0, "accuracy": 0}
    for found, *truth in zip(content["windows"], rate, accuracy, strict=True):
        for name, true in zip(held, truth, strict=True):
            held[name] += (
                found[f"{name}_low"] <= true + 1e-9 and true - 1e-9 <= found[f"{name}_high"]
            )
    assert min(held.values()) >= windows - 1
    (alike,) = [note for note in content["notes"] if "say as much as one" in note]
    assert float(alike.split(": ")[1].split()[0]) == pytest.approx(SIZE, rel=0.8)
