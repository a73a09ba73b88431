"""``roadworthy runs``: the runs under a folder, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from roadworthy.cli import output
from roadworthy.cli.options import Json


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("runs")(runs)


def runs(
    folder: Annotated[Path, Argument(help="Where runs are kept.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List the runs in a folder, newest first."""
    from roadworthy.store import RunIndex, StoreError

    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; name the one that holds the runs")
    found = RunIndex(folder).runs()
    if json:
        output.print_json([{**row, "folder": str(folder / row["folder"])} for row in found])
        return
    if not found:
        print(f"no runs in {folder}")
        return
    output.print_table(
        ("Run", "Created", "Verdict", "Version", "Cases"),
        [
            (
                *(str(row[k]) for k in ("folder", "created", "verdict", "version")),
                f"{row['cases']:,}",
            )
            for row in found
        ],
        left=("Run", "Created", "Verdict", "Version"),
        title=f"Runs in {folder}",
    )
