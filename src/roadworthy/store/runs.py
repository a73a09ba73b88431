"""A run folder: the record of one assessment. It can be moved, and it re-creates itself.

``run.json`` and ``findings.json`` (`roadworthy.store.record`), ``tables/``, ``media/``, ``trace/``, ``supervisors/``,
``monitor/``, and the reports.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RUN = "run.json"
FINDINGS = "findings.json"
CASES = "tables/cases.parquet"
CALIBRATION = "tables/calibration.parquet"
"""The calibration cases, in the form of the table of cases."""


CASE_COLUMNS = (
    *("case", "sample", "group", "role", "circumstance", "level", "status", "error_message"),
    *("error", "failure", "numerator", "denominator", "truth", "prediction", "prediction_index"),
    *("confidence", "correct", "found", "missed", "false", "words", "seconds"),
)
"""Columns of the table of cases; those of scores have the names of supervisors."""


class StoreError(ValueError):
    """A folder that is no run, or one that cannot be read."""


class StoreUnreachable(StoreError):
    """A store that does not answer; what was computed is kept on this machine."""


def arrow_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as an Arrow table; `.to_pandas()` makes a data frame of it."""
    import pyarrow as pa

    return pa.Table.from_pylist([dict(row) for row in rows])


@dataclass(frozen=True)
class RunFolder:
    """One run on disk."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run."""
        if not (path / RUN).is_file():
            raise StoreError(
                f"{path} is not a run: it has no {RUN}. Name a folder that `roadworthy assess` wrote"
            )
        return cls(path)

    def cases(self) -> dict[str, np.ndarray]:
        """The table of cases, by column."""
        import pyarrow.parquet as pq

        path = self.path / CASES
        try:
            table = pq.read_table(path)
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        return {name: np.asarray(table[name].to_numpy()) for name in table.column_names}

    def write_cases(self, columns: Mapping[str, Any], *, name: str = CASES) -> None:
        """Replace the table of cases, or another of its form."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        content = pa.BufferOutputStream()
        pq.write_table(pa.table(dict(columns)), content, compression="zstd")
        self.write_bytes(name, content.getvalue().to_pybytes())

    def write_text(self, name: str, text: str) -> Path:
        """Replace a file, whole or not at all."""
        return self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace a file, whole or not at all."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            # mkstemp makes files for the owner alone; a record is as readable as any other file.
            os.chmod(partial, 0o644)
            os.replace(partial, path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        return path


def read_run_json(path: Path) -> Any:
    """The content of a JSON file of a run."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise StoreError(f"{path} is missing; run the assessment again to write it") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreError(f"{path} is damaged: {error}. Assess again to write it") from error


def list_runs(root: Path) -> list[dict[str, Any]]:
    """The runs under a folder, newest first: what each was, and its verdict.

    >>> list_runs(Path(tempfile.mkdtemp()))
    []
    """
    found = []
    for path in root.glob(f"*/{RUN}"):
        with contextlib.suppress(StoreError, OSError, KeyError, TypeError):
            # Else half-written, or of another version: it is no run that can be read.
            found.append(run_row(path.parent))
    return sorted(found, key=lambda row: row["created"], reverse=True)


def run_row(folder: Path) -> dict[str, Any]:
    """What a list says of a run."""
    return row_of(folder.name, read_run_json(folder / RUN))


def row_of(folder: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The same, of a record that was read already."""
    row = {name: record[name] for name in ("key", "name", "created", "status", "verdict")}
    subject = record["subject"]
    row |= {"subject": subject["fingerprint"], "version": subject["version"]}
    return {"folder": folder, **row, "cases": record["cases"]["total"]}
