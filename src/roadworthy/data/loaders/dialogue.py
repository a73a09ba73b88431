"""Goals of dialogues: a sample is what the user wants, and the target is the same goal, to be reached.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "goals.jsonl"
>>> _ = file.write_text('{"id": "g1", "goal": {"hotel": {"area": "north"}}, "metadata": {"domains": 1}}\\n')
>>> data = dialogue(path=file.name, base=file.parent)
>>> data.sample(0).input, data.metadata["domains"].tolist()
({'hotel': {'area': 'north'}}, [1])
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import located, read_json
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import GOAL
from roadworthy.registry import register


@register(
    "loaders", "dialogue", keys=("dialogue",), gives={"inputs": ("goal",), "targets": ("goal",)}
)
@reads
def dialogue(
    *,
    path: str,
    base: Path = Path(),
) -> Samples:
    """Goals from a JSON list or JSON lines: {id, goal: {…}, metadata: {…}}."""
    file = located(path, base=base, what="dialogue")
    entries = read_json(file)
    if not isinstance(entries, list):
        raise DataError(
            f"{file}: holds {type(entries).__name__}; a list of {{id, goal, metadata}} was expected"
        )
    for at, entry in enumerate(entries):
        if (
            not isinstance(entry, Mapping)
            or not isinstance(entry.get("goal"), Mapping)
            or "id" not in entry
        ):
            found = (
                ", ".join(map(str, entry)) if isinstance(entry, Mapping) else type(entry).__name__
            )
            raise DataError(
                f"{file}: entry {at} has {found or 'nothing'}; an id and a goal (names and values) are needed"
            )
    goals = [dict(entry["goal"]) for entry in entries]
    return Samples(
        source=file,
        input_kind=GOAL,
        inputs=goals,
        target_kind=GOAL,
        targets=goals,
        ids=[str(entry["id"]) for entry in entries],
        columns=_columns(file, entries),
    )


def _columns(file: Path, entries: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    rows = [entry.get("metadata") or {} for entry in entries]
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping) or set(row) != set(rows[0]):
            raise DataError(
                f"{file}: entry {at} has the metadata {row!r}, entry 0 has {rows[0]!r}; every goal needs the same names"
            )
    return {str(key): _column([row[key] for row in rows]) for key in (rows[0] if rows else ())}


def _column(values: list[Any]) -> np.ndarray:
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return np.array(values)
    return np.array([str(v) for v in values], dtype=object)
