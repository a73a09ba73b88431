"""``roadworthy data get``: fetch public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from roadworthy.cli.progress import open_progress


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    group = typer.Typer(help="Fetch public data sets.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command("get")(_get)
    app.add_typer(group, name="data")


def _get(
    name: Annotated[str, Argument(help="fashion-mnist or mnist.")],
    into: Annotated[Path, Option(help="The folder to put it in.")] = Path("data"),
    source: Annotated[
        Path | None, Option("--from", help="A folder that holds the files already.")
    ] = None,
) -> None:
    """Fetch a public data set, checked file by file."""
    from roadworthy.data.get import fetch

    with open_progress(quiet=False) as progress:
        progress.stage(f"fetching {name}", 0)
        folder = fetch(name, into=into, source=source)
    print(folder)
