"""``roadworthy runs``: the runs under a folder, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli import showing


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("runs")(runs)


def runs(
    folder: Annotated[Path, typer.Argument(help="Where runs are kept.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the runs in a folder, newest first."""
    from roadworthy.store import RunIndex, StoreError

    if not folder.is_dir():
        raise StoreError(
            f"there is no folder {folder}; name the one that `roadworthy assess` kept its runs in"
        )
    found = RunIndex(folder).runs()
    if json:
        rows = [{**row, "folder": str(folder / row["folder"])} for row in found]
        showing.print_json([{k: v for k, v in row.items() if k != "headline"} for row in rows])
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=Text(f"Runs in {folder}"), title_justify="left")
    for name in ("Run", "Created", "Verdict", "Version"):
        table.add_column(name, overflow="fold")
    table.add_column("Cases", justify="right")
    for row in found:
        cells = [Text(str(row[k])) for k in ("folder", "created", "verdict", "version")]
        table.add_row(*cells, f"{row['cases']:,}")
    showing.console().print(table if found else f"no runs in {folder}")
